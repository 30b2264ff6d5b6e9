-- |
-- Module      : Heddle.OpenFlow.ErrorKind
-- Description : The errors that switches and controllers tell each other
-- Stability   : hidden; "Heddle.OpenFlow" exports it
--
-- Cost: none; values.
-- Owner: values.
module Heddle.OpenFlow.ErrorKind
  ( ErrorKind (..),
    renderError,
  )
where

import Data.Word (Word16)
import Heddle.OpenFlow.Types

-- | Type and code of an error.
data ErrorKind = ErrorKind
  { errorType :: !Word16,
    errorCode :: !Word16
  }
  deriving stock (Eq, Ord, Show)

-- | The error's type in words, and the code.
renderError :: Version -> ErrorKind -> String
renderError version (ErrorKind t c) = name ++ ", code " ++ show c
  where
    name = case drop (fromIntegral t) names of
      n : _ -> n
      [] -> "error type " ++ show t
    names = case version of
      OF10 -> ["hello failed", "bad request", "bad action", "flow modification failed", "port modification failed", "queue operation failed"]
      OF13 ->
        [ "hello failed",
          "bad request",
          "bad action",
          "bad instruction",
          "bad match",
          "flow modification failed",
          "group modification failed",
          "port modification failed",
          "table modification failed",
          "queue operation failed",
          "switch configuration failed",
          "role request failed",
          "meter modification failed",
          "table features failed"
        ]
