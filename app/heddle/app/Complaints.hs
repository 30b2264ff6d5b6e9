-- |
-- Module      : Complaints
-- Description : Messages on standard error
--
-- A message that cannot be written is lost: what a command does, and the status that it ends with, do not depend on it.
module Complaints
  ( complainWith,
    whatFailed,
  )
where

import Control.Monad (void)
import Data.ByteString (ByteString)
import Data.ByteString qualified as Bytes
import Data.List (intercalate)
import GHC.IO.Exception (IOException (..))
import Heddle.Filter (StageFailed (..))
import Heddle.Prim.Errno (describeErrno, errnoOf)
import Heddle.Prim.Exception
import System.IO (stderr)

-- | Write to standard error, if that is possible.
complainWith :: ByteString -> IO ()
complainWith text = void (try (Bytes.hPut stderr text) :: IO (Either IOException ()))

-- | The text of an exception: for one of the system's, what was tried, on what, and the system's answer.
whatFailed :: SomeException -> String
whatFailed e = case fromException e of
  Just io
    | Just number <- errnoOf io ->
      intercalate ": " ([what | what <- [ioe_location io], not (null what)] ++ maybe [] pure (ioe_filename io) ++ [describeErrno number])
  _ | Just (StageFailed name cause) <- fromException e -> "stage " ++ name ++ " failed: " ++ whatFailed cause
  _ -> describeException e
