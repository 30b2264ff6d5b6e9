-- |
-- Module      : Heddle.Serve.RealClient
-- Description : Whose request a proxy has passed on
-- Stability   : internal, exempt from the version policy
--
-- The client's address as logs show it; "Heddle.Gateway.Proxy" finds it in the headers that proxies add.
--
-- Cost: nothing without trusted proxies; O(header) with them.
-- Owner: values.
module Heddle.Serve.RealClient
  ( realClient,
  )
where

import Data.ByteString (ByteString)
import Data.Maybe (listToMaybe)
import Heddle.Gateway.Proxy (Network, forwardedClients, peerText)
import Heddle.Http (Request)

-- | The client's address, if the peer is a trusted proxy that names one; otherwise the peer is the client. Where the headers name
-- two, it is that of X-Forwarded-For.
--
-- [Cost]: O(header); the text is made by this program, so it needs no escapes.
realClient :: [Network] -> Request -> IO (Maybe ByteString)
realClient trusted request = fmap peerText . listToMaybe <$> forwardedClients trusted request
