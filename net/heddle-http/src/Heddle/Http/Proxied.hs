-- |
-- Module      : Heddle.Http.Proxied
-- Description : Receiving the PROXY protocol's header
-- Stability   : internal, exempt from the version policy
--
-- What follows the header may belong to another reader, such as a layer of TLS, so exactly the header is received:
-- bytes are looked at first, and taken when it is known whose they are.
--
-- Cost: two system calls for a header that has come whole, once for each connection.
-- Owner: the connection's thread.
module Heddle.Http.Proxied
  ( Proxied (..),
    receiveProxyHeader,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Internal (createAndTrim')
import Data.Word (Word8)
import Foreign.Marshal.Alloc (allocaBytes)
import Foreign.Ptr (Ptr)
import Heddle.Http.ProxyProtocol
import Heddle.IO.Registration (Interest (..), Registration, attempt, receiveUntil)
import Heddle.Prim.Clock (Deadline)
import Heddle.Prim.Socket qualified as S

-- | How a connection begins.
data Proxied
  = -- | With a header.
    Named !ProxySource
  | -- | Without one. These bytes were received.
    Unnamed !ByteString
  | -- | With a header that is malformed.
    Misnamed !ProxyMistake
  | -- | The peer has gone, or was silent for too long.
    Unheard

-- | Receive a header of which these bytes have been received, and nothing after it.
--
-- [Blocks]: parks.
-- [Masking]: the caller is masked; waits are interruptible.
receiveProxyHeader :: Registration -> ByteString -> Deadline -> IO Proxied
receiveProxyHeader registration = go
  where
    go before deadline = do
      (fresh, count) <- look (longestProxyHeader - B.length before) deadline
      let seen = before <> fresh
      if count <= 0
        then pure Unheard
        else case parseProxyHeader seen of
          ProxyHeader n source -> taking (n - B.length before) deadline (pure (Named source))
          -- All of it is the header's. It is taken, so that the next wait is for further bytes. No header fills the
          -- room and is incomplete.
          ProxyIncomplete -> taking (B.length fresh) deadline (go seen deadline)
          ProxyAbsent -> pure (Unnamed before)
          ProxyMalformed mistake -> pure (Misnamed mistake)
    look room deadline = createAndTrim' room $ \p -> do
      n <- attempt registration Readable deadline (\fd -> S.peek fd p room)
      pure (0, max 0 n, n)
    taking n deadline continue = do
      taken <- allocaBytes longestProxyHeader (\p -> consume p n deadline)
      if taken then continue else pure Unheard
    consume :: Ptr Word8 -> Int -> Deadline -> IO Bool
    consume p n deadline
      | n <= 0 = pure True
      | otherwise = do
        r <- receiveUntil registration p n deadline
        if r > 0 then consume p (n - r) deadline else pure False
