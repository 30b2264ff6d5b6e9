-- |
-- Module      : Heddle.WebSocket.Session
-- Description : A connection from its first frame to its last
-- Stability   : hidden; "Heddle.WebSocket" exports what is public
--
-- Runs the body, then the closing handshake. When it returns, no thread uses the transport any more, and what was
-- borrowed is given back.
--
-- Cost: a connection's.
-- Owner: the calling thread.
module Heddle.WebSocket.Session
  ( serveWebSocketOn,
    runSession,
  )
where

import Control.Applicative ((<|>))
import Control.Monad (unless, void, when)
import Data.Bits ((.|.))
import Data.ByteString (ByteString)
import Data.Foldable (for_)
import Data.Word (Word8)
import Foreign.Marshal.Alloc (allocaBytes)
import Foreign.Storable (pokeByteOff)
import Heddle.IO.Registration (borrowBuffer, closeRegistration, giveBackBuffer)
import Heddle.IO.Transport
import Heddle.Prim.Atomic (modifyRef, readRef)
import Heddle.Prim.Buffer (bufferSize, withBuffer)
import Heddle.Prim.Clock (Deadline (..))
import Heddle.Prim.Exception
import Heddle.WebSocket.Connection
import Heddle.WebSocket.Deflate (Deflating)
import Heddle.WebSocket.Exception
import Heddle.WebSocket.Frame
import Heddle.WebSocket.Gate
import Heddle.WebSocket.Options
import Heddle.WebSocket.Receive
import Heddle.WebSocket.Send

-- | Serve an accepted WebSocket connection: after the server's 101, on the transport that carries it, with the bytes
-- that were received after the request's head. No extension is used. 'Heddle.WebSocket.websocket' does the handshake,
-- too. When the body returns, the connection is closed with 'NormalClosure'; when it throws, with 'InternalFailure';
-- when its thread is interrupted, at once, with 'GoingAway'. The caller closes the transport.
--
-- [Blocks]: as the body does; then parks until the peer has closed, for at most 'optionClose'.
-- [Masking]: the body runs in the caller's masking state.
-- [Throws]: what the body throws.
-- [Threads]: the body may use the connection from any threads; when it returns, the others' calls throw.
serveWebSocketOn :: WebSocketOptions -> Transport -> ByteString -> (Connection -> IO a) -> IO a
serveWebSocketOn options = runSession options Server Nothing Nothing

-- | A connection of either side, with what was agreed on.
runSession :: WebSocketOptions -> Role -> Maybe Deflating -> Maybe ByteString -> Transport -> ByteString -> (Connection -> IO a) -> IO a
runSession options role deflating subprotocol transport received body = mask $ \restore -> do
  conn <- newConnection options role deflating subprotocol transport received
  result <- try (restore (body conn))
  case result of
    Right a -> a <$ (finish conn NormalClosure `finally` seal conn)
    Left e
      | isAsynchronous e -> (depart conn `finally` seal conn) >> throwIO e
      | otherwise -> do
        -- A failure of the connection's has been told to the peer already.
        finish conn InternalFailure `finally` seal conn
        throwIO e

-- The closing handshake.
finish :: Connection -> CloseCode -> IO ()
finish conn code = do
  lost <- readRef (connEnd conn)
  told <- case lost of
    -- Nobody is there to be told.
    Just e@(Lost _) -> pure (Left e)
    Just e@(TimedOut _) -> pure (Left e)
    _ -> try (sendClose conn code mempty)
  case told of
    Left (_ :: ConnectionEnded) -> pure ()
    Right () -> do
      deadline <- Deadline <$> get conn CloseEnds
      discardUntil conn deadline
      end <- readRef (connEnd conn)
      case end of
        Just (PeerClosed _ _) -> when (connRole conn == Client) $ dropInput conn deadline
        -- Closing with unread input would reset the connection, and the peer might never see the Close.
        Just (Violated _) -> endWriting (connTransport conn) >> dropInput conn deadline
        Just (TooLarge _) -> endWriting (connTransport conn) >> dropInput conn deadline
        _ -> pure ()

-- Until the peer's end, or 4 MB.
dropInput :: Connection -> Deadline -> IO ()
dropInput conn deadline = do
  releaseReceiver conn
  buffer <- borrowBuffer registration
  withBuffer buffer (\p -> go p (bufferSize buffer) 0)
  giveBackBuffer registration buffer
  where
    registration = transportRegistration (connTransport conn)
    go p size dropped = do
      n <- readUntil (connTransport conn) p size deadline
      when (n > 0 && dropped < (4194304 :: Int)) $ go p size (dropped + n)

-- Say so if the socket takes it now, and leave.
depart :: Connection -> IO ()
depart conn = do
  entered <- tryEnter (connFrames conn)
  when entered $ do
    sent <- get conn CloseSent
    broken <- readRef (connBroken conn)
    gathered <- get conn OutputFill
    when (sent == 0 && gathered == 0 && null broken && connRole conn == Server) . allocaBytes 4 $ \p -> do
      at <- pokeHead p (FinalBit .|. OpClose) 2 Nothing
      pokeByteOff p at (0x03 :: Word8)
      pokeByteOff p (at + 1) (0xe9 :: Word8)
      -- A deadline that has passed allows one attempt.
      void (writeSomeUntil (connTransport conn) p 4 (Deadline 0))
    leave (connFrames conn)

-- From here on every call throws, and no thread uses the transport: its owner may release its memory.
seal :: Connection -> IO ()
seal conn = do
  modifyRef (connBroken conn) (\before -> (before <|> Just Closed, ()))
  modifyRef (connEnd conn) (\before -> (before <|> Just Closed, ()))
  for_ [connFrames conn, connReceives conn] $ \gate -> do
    free <- tryEnter gate
    unless free $ do
      -- The thread inside waits for the peer, or is about to end. Closing ends its waits, so this is finite.
      void (closeRegistration (transportRegistration (connTransport conn)))
      uninterruptibleMask_ (enter gate)
    leave gate
  releaseReceiver conn
