{-# LANGUAGE PatternSynonyms #-}

-- |
-- Module      : Heddle.OpenFlow.Handshake
-- Description : How a connection becomes a switch
-- Stability   : hidden
--
-- Each side says which versions it speaks; the highest in common is the connection's. Then the switch says what it is.
--
-- Cost: two messages each way.
-- Owner: the connection's thread.
module Heddle.OpenFlow.Handshake
  ( handshake,
    sendBytes,
  )
where

import Control.Monad (void, when)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as Char8
import Data.ByteString.Short (ShortByteString, toShort)
import Data.ByteString.Unsafe qualified as B (unsafeUseAsCStringLen)
import Foreign.Ptr (castPtr)
import Heddle.IO.Registration hiding (sendUntil)
import Heddle.IO.Transport
import Heddle.OpenFlow.Message
import Heddle.OpenFlow.Switch
import Heddle.OpenFlow.Types
import Heddle.OpenFlow.Wire (DecodeError (..))
import Heddle.Prim.Buffer
import Heddle.Prim.Clock
import Heddle.Prim.Errno (Errno (..), describeErrno, pattern EAGAIN, pattern EINTR)

-- | Hellos, then the features: without the ports, the ports of 1.0 as they came, and what was received beyond them; or why the peer is
-- no switch.
--
-- [Blocks]: parks, until the deadline.
-- [Masking]: the caller is masked.
handshake :: [Version] -> Transport -> Deadline -> IO (Either CloseReason (Version, Features, ShortByteString, ByteString))
handshake ours transport deadline = do
  sent <- send highest 1 (helloFor ours)
  if not sent then pure (Left SwitchClosed) else hello B.empty
  where
    highest = maximum ours
    send version xid message = case encode version xid message of
      Left _ -> pure False
      Right bytes -> (== B.length bytes) <$> B.unsafeUseAsCStringLen bytes (\(p, n) -> writeUntil transport (castPtr p) n deadline)
    hello bytes =
      frame (\b -> B.length b >= 2 && B.index b 1 /= 0) bytes >>= \case
        Left reason -> pure (Left reason)
        Right (message, rest) -> case decodeHello message of
          Left e -> refuseWith highest (ErrorKind 1 1) ("its first message is no hello: " ++ decodeWhat e)
          Right (_, h) -> case negotiate ours (B.head message) h of
            Nothing -> refuseWith highest (ErrorKind 0 0) ("it speaks version " ++ show (B.head message) ++ ", and no version is in common")
            Just version -> do
              _ <- send version 2 FeaturesRequest
              features version rest
    features version bytes =
      frame (const False) bytes >>= \case
        Left reason -> pure (Left reason)
        Right (message, rest) -> case decode version message of
          Left e | B.head message /= versionByte version -> refuseWith version (ErrorKind 1 0) (decodeWhat e)
          Left e -> refuseWith version (ErrorKind 1 6) ("its features: " ++ decodeWhat e)
          Right (_, FeaturesReply f)
            | featuresAuxiliary f /= 0 -> refuseWith version (ErrorKind 1 5) "an auxiliary connection, which is not supported"
            | otherwise -> do
              -- Forced, because as thunks they would keep the whole frame, in a pinned block of 4 KB of its own.
              let !features' = f {featuresPorts = []}
                  !ports = toShort (B.drop 32 message)
              pure (Right (version, features', ports, rest))
          Right (xid, EchoRequest b) -> send version xid (EchoReply b) >> features version rest
          Right (_, ErrorMessage kind _) -> pure (Left (HandshakeFailed (renderError version kind)))
          Right _ -> features version rest
    refuseWith version kind why = do
      _ <- send version 0 (ErrorMessage kind (Char8.pack (take 64 why)))
      pure (Left (HandshakeFailed why))
    -- The next whole message, and what follows, unless its beginning shows that it is no hello: a client of another protocol, whose length
    -- would be waited for.
    frame other bytes
      | other bytes = refuseWith highest (ErrorKind 1 1) ("its first message is no hello: its type is " ++ show (B.index bytes 1))
      | B.length bytes >= 8 && size < 8 = refuseWith highest (ErrorKind 1 6) ("a message with a length of " ++ show size)
      | B.length bytes >= 8 && B.length bytes >= size = pure (Right (B.splitAt size bytes))
      | otherwise = do
        (r, more) <- received
        case () of
          _
            | r > 0 -> frame other (bytes <> more)
            | r == 0 -> pure (Left SwitchClosed)
            | r == TimedOutCode -> pure (Left (HandshakeFailed "it took too long"))
            | r == ClosedCode -> pure (Left ControllerStopped)
            | otherwise -> pure (Left (ConnectionFailed (describeErrno (Errno (negate r)))))
      where
        size = fromIntegral (B.index bytes 2) * 256 + fromIntegral (B.index bytes 3) :: Int
    -- No buffer is held while it waits: a thousand switches may connect at once.
    received = do
      buffer <- borrowBuffer registration
      (r, more) <- withBuffer buffer $ \p -> do
        r <- readNow transport p (bufferSize buffer)
        (,) r <$> B.packCStringLen (castPtr p, max 0 r)
      giveBackBuffer registration buffer
      case () of
        _
          | Errno (negate r) == EAGAIN -> do
            late <- deadlineOver registration deadline
            hung <- hungUp registration
            when hung (forgetHangUp registration)
            if late then pure (TimedOutCode, B.empty) else waitUntil registration Readable deadline >> received
          | Errno (negate r) == EINTR -> received
          | otherwise -> pure (r, more)
    registration = transportRegistration transport

-- | Send within a second, or not: for the last words to a peer.
--
-- [Blocks]: parks.
sendBytes :: Transport -> ByteString -> IO ()
sendBytes transport bytes = do
  deadline <- deadlineIn (seconds 1)
  void (B.unsafeUseAsCStringLen bytes (\(p, n) -> writeUntil transport (castPtr p) n deadline))
