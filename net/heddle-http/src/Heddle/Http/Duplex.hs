{-# LANGUAGE PatternSynonyms #-}

-- |
-- Module      : Heddle.Http.Duplex
-- Description : A connection that has left HTTP
-- Stability   : stable
--
-- After a 'Heddle.Http.Reply.Tunnel' the connection carries another protocol, such as
-- WebSocket. A 'Duplex' is its bytes in both directions, those first that HTTP had already
-- received. A reader that waits owns no buffer.
--
-- Cost: a copy in each direction; 'duplexTransport' is for protocols that copy nothing.
-- Owner: the tunnel's action. One thread may read and another write.
module Heddle.Http.Duplex
  ( Duplex (..),
    newDuplex,
    duplexReceive,
    duplexReceiveUntil,
    duplexSend,
  )
where

import Control.Monad (when)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Unsafe (unsafeUseAsCStringLen)
import Data.Maybe (fromMaybe)
import Foreign.Ptr (castPtr)
import Heddle.Http.Exception (ConnectionLost (..))
import Heddle.Http.Settings (Pace, paceDeadline)
import Heddle.IO.Registration
import Heddle.IO.Transport
import Heddle.Prim.Atomic (Ref, newRef, readRef, writeRef)
import Heddle.Prim.Buffer (bufferSize, withBuffer)
import Heddle.Prim.Clock (Deadline, monotonicNow, never)
import Heddle.Prim.Errno (Errno (..), pattern EAGAIN, pattern EINTR)
import Heddle.Prim.Exception (mask_, throwIO)

-- | Bytes in both directions.
data Duplex = Duplex
  { -- | What carries the bytes. A program that reads from it first reads 'duplexReceived'.
    duplexTransport :: !Transport,
    -- | What was received with the request's head: it comes before the transport's bytes.
    duplexReceived :: !ByteString,
    -- | What 'duplexReceive' has not yet given of that.
    duplexLeft :: !(Ref ByteString),
    -- | How slowly the peer may take what is sent.
    duplexPace :: !Pace
  }

-- | A duplex on a transport, with what was received already.
newDuplex :: Transport -> Pace -> ByteString -> IO Duplex
newDuplex transport pace received = do
  left <- newRef received
  pure (Duplex transport received left pace)

-- | The next bytes; empty at the peer's end, and when the connection has failed.
--
-- [Cost]: one system call and a copy.
-- [Blocks]: parks, without a limit.
-- [Masking]: interruptible while parked.
-- [Threads]: one reader at a time.
duplexReceive :: Duplex -> IO ByteString
duplexReceive duplex = fromMaybe B.empty <$> duplexReceiveUntil duplex never

-- | 'duplexReceive' with a deadline: 'Nothing' when it has passed.
--
-- [Cost]: one system call and a copy.
-- [Blocks]: parks.
-- [Masking]: interruptible while parked.
-- [Threads]: one reader at a time.
duplexReceiveUntil :: Duplex -> Deadline -> IO (Maybe ByteString)
duplexReceiveUntil duplex deadline = mask_ $ do
  left <- readRef (duplexLeft duplex)
  if B.null left then receive else Just left <$ writeRef (duplexLeft duplex) B.empty
  where
    transport = duplexTransport duplex
    registration = transportRegistration transport
    receive = do
      buffer <- borrowBuffer registration
      (n, bytes) <- withBuffer buffer $ \p -> do
        n <- readNow transport p (bufferSize buffer)
        bytes <- if n > 0 then B.packCStringLen (castPtr p, n) else pure B.empty
        pure (n, bytes)
      giveBackBuffer registration buffer
      again n bytes
    again n bytes
      | n >= 0 = pure (Just bytes)
      | Errno (negate n) == EINTR = receive
      | Errno (negate n) == EAGAIN = do
        late <- deadlineOver registration deadline
        if late then pure Nothing else waitUntil registration Readable deadline >> receive
      | otherwise = pure (Just B.empty)

-- | Send all of it.
--
-- [Cost]: one system call when the socket has room.
-- [Blocks]: parks.
-- [Masking]: interruptible while parked; an interrupted send ends the connection.
-- [Throws]: 'ConnectionLost' when the peer is gone, or takes bytes more slowly than the
-- server's settings allow.
-- [Threads]: one writer at a time.
duplexSend :: Duplex -> ByteString -> IO ()
duplexSend duplex bytes = unsafeUseAsCStringLen bytes $ \(p, n) -> when (n > 0) $ do
  now <- monotonicNow
  -- The grace period, and what the rest takes at the least rate.
  r <- writeUntil (duplexTransport duplex) (castPtr p) n (paceDeadline (duplexPace duplex) now n)
  when (r < 0) (throwIO ConnectionLost)
