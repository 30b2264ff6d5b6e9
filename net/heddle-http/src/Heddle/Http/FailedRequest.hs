-- |
-- Module      : Heddle.Http.FailedRequest
-- Description : Which request a failure is about
-- Stability   : stable
--
-- Copies of the parts of a request that a report names, for 'Heddle.Http.settingFailed'.
--
-- Cost: copies, made when a request has failed.
-- Owner: values.
module Heddle.Http.FailedRequest
  ( FailedRequest (..),
    describeFailedRequest,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString.Char8 qualified as C
import Data.Char (isAscii, isPrint)
import Network.Socket (SockAddr)

-- | A request that has failed.
data FailedRequest = FailedRequest
  { failedMethod :: !ByteString,
    -- | The target as it was sent, with its query.
    failedTarget :: !ByteString,
    -- | The client; 'Nothing' if it has no address, or its connection is closed.
    failedPeer :: !(Maybe SockAddr)
  }
  deriving stock (Eq, Show)

-- | @GET \/path from 127.0.0.1:50000@, for a line of a log. Queries may hold secrets and are left out; characters that could
-- end the line, or are not of ASCII, are question marks.
--
-- [Cost]: O(length).
describeFailedRequest :: FailedRequest -> String
describeFailedRequest failed = shown (failedMethod failed) ++ " " ++ shown (C.takeWhile (/= '?') (failedTarget failed)) ++ foldMap ((" from " ++) . show) (failedPeer failed)
  where
    shown = map (\c -> if isAscii c && isPrint c then c else '?') . C.unpack
