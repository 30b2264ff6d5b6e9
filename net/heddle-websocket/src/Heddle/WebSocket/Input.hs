{-# LANGUAGE PatternSynonyms #-}

-- |
-- Module      : Heddle.WebSocket.Input
-- Description : The receiver's bytes
-- Stability   : hidden
--
-- Reads into a borrowed buffer, and waits without one. Watches over the peer's silence.
--
-- Invariant: a connection that waits has no buffer.
-- Cost: one system call for up to 32 KiB.
-- Owner: the thread in 'connReceives'.
module Heddle.WebSocket.Input
  ( Fetched (..),
    fetch,
    giveBackInput,
  )
where

import Control.Monad (unless, when)
import Data.ByteString qualified as B
import Data.ByteString.Unsafe qualified as B (unsafeUseAsCStringLen)
import Foreign.Marshal.Utils (copyBytes, moveBytes)
import Foreign.Ptr (castPtr, plusPtr)
import Heddle.IO.Registration
import Heddle.IO.Transport
import Heddle.Prim.Atomic (readRef, writeRef)
import Heddle.Prim.Buffer
import Heddle.Prim.Clock (Deadline (..), after, never)
import Heddle.Prim.Errno (Errno (..), describeErrno, pattern EAGAIN, pattern EINTR)
import Heddle.Prim.Exception (allowInterrupt)
import Heddle.WebSocket.Connection
import Heddle.WebSocket.Exception
import Heddle.WebSocket.Options
import Heddle.WebSocket.Send

-- | What waiting for input came to.
data Fetched
  = -- | There is more than before.
    Fetched
  | -- | The deadline passed.
    FetchLate
  | -- | The connection ended; 'connEnd' says why.
    FetchEnded

ended :: Connection -> ConnectionEnded -> IO Fetched
ended conn e = FetchEnded <$ writeRef (connEnd conn) (Just e)

-- | Wait for more input, until the deadline. What was gathered leaves first. The caller is masked.
--
-- [Cost]: one system call when there is input; a wait and another one when there is none.
-- [Blocks]: parks, without a buffer.
-- [Masking]: interruptible while parked, and after each read.
-- [Throws]: 'ConnectionEnded' if what was gathered cannot be sent.
fetch :: Connection -> Deadline -> IO Fetched
fetch conn deadline = do
  gathering <- get conn Gathering
  when (gathering == 1) $ set conn Gathering 0 >> set conn PongGathered 0
  broken <- readRef (connBroken conn)
  case broken of
    Just e -> ended conn e
    Nothing -> do
      flushGathered conn
      received <- readRef (connReceived conn)
      try' <- get conn TryFirst
      case () of
        _
          | not (B.null received) -> do
            buffer <- inputBuffer conn
            end <- get conn InputEnd
            let (now, later) = B.splitAt (bufferSize buffer - end) received
            withBuffer buffer $ \p -> B.unsafeUseAsCStringLen now $ \(from, n) -> copyBytes (p `plusPtr` end) (castPtr from) n
            set conn InputEnd (end + B.length now)
            writeRef (connReceived conn) later
            pure Fetched
          | try' == 1 -> readIn conn deadline
          | otherwise -> putAway conn >> park conn deadline

-- Keep a beginning that is not complete without the buffer.
putAway :: Connection -> IO ()
putAway conn = do
  readRef (connInput conn) >>= \case
    Nothing' -> pure ()
    Holds buffer -> do
      start <- get conn InputStart
      end <- get conn InputEnd
      unless (start == end) $ do
        bytes <- withBuffer buffer $ \p -> B.packCStringLen (castPtr (p `plusPtr` start), end - start)
        writeRef (connLeft conn) bytes
      giveBackInput conn
{-# INLINE putAway #-}

readIn :: Connection -> Deadline -> IO Fetched
readIn conn deadline = do
  buffer <- inputBuffer conn
  end <- get conn InputEnd
  r <- withBuffer buffer $ \p -> readNow transport (p `plusPtr` end) (bufferSize buffer - end)
  if r > 0
    then do
      set conn InputEnd (end + r)
      set conn TryFirst (if isLayered transport then 1 else 0)
      set conn SilenceEnds 0
      set conn Pinged 0
      -- A peer that sends without a pause must not keep an interruption, or the end of our patience, away.
      allowInterrupt
      sent <- get conn CloseSent
      over <- if sent == 1 then get conn CloseEnds >>= deadlineOver registration . Deadline else pure False
      if over then ended conn (TimedOut "it did not answer the Close") else pure Fetched
    else failed r
  where
    transport = connTransport conn
    registration = transportRegistration transport
    failed r
      | r == 0 = ended conn (Lost "the peer closed its end")
      | Errno (negate r) == EINTR = readIn conn deadline
      | Errno (negate r) == EAGAIN = do
        putAway conn
        set conn TryFirst 0
        hung <- hungUp registration
        when hung (forgetHangUp registration)
        late <- deadlineOver registration deadline
        if late then pure FetchLate else park conn deadline
      | r == ClosedCode = readRef (connBroken conn) >>= maybe (ended conn (Lost "the connection was closed on this side")) (ended conn)
      | otherwise = ended conn (Lost (describeErrno (Errno (negate r))))

-- The input's buffer, with the unread input at its beginning.
inputBuffer :: Connection -> IO Buffer
inputBuffer conn =
  readRef (connInput conn) >>= \case
    Holds buffer -> do
      start <- get conn InputStart
      end <- get conn InputEnd
      when (start > 0) $ do
        withBuffer buffer $ \p -> moveBytes p (p `plusPtr` start) (end - start)
        set conn InputStart 0
        set conn InputEnd (end - start)
      pure buffer
    Nothing' -> do
      buffer <- borrowBuffer (transportRegistration (connTransport conn))
      waiting <- readRef (connLeft conn)
      writeRef (connInput conn) (Holds buffer)
      set conn InputStart 0
      set conn InputEnd (B.length waiting)
      unless (B.null waiting) $ do
        withBuffer buffer $ \p -> B.unsafeUseAsCStringLen waiting $ \(from, n) -> copyBytes p (castPtr from) n
        writeRef (connLeft conn) B.empty
      pure buffer

-- Wait, without a buffer. The deadline is the caller's, or that of the peer's silence.
park :: Connection -> Deadline -> IO Fetched
park conn deadline = do
  sent <- get conn CloseSent
  silence <- if sent == 1 then Deadline <$> get conn CloseEnds else silenceEnds
  over <- deadlineOver registration silence
  if over
    then silent sent
    else do
      waitUntil registration Readable (min deadline silence)
      readIn conn deadline
  where
    registration = transportRegistration (connTransport conn)
    options = connOptions conn
    silenceEnds = do
      ends <- get conn SilenceEnds
      if ends /= 0
        then pure (Deadline ends)
        else do
          now <- freshNow registration
          let Deadline end = if optionPing options <= mempty then never else after (optionPing options) now
          set conn SilenceEnds end
          pure (Deadline end)
    silent sent
      | sent == 1 = ended conn (TimedOut "it did not answer the Close")
      | otherwise = do
        pinged <- get conn Pinged
        if pinged == 1
          then do
            let e = TimedOut "it did not answer a ping"
            breakOff conn e
            ended conn e
          else do
            set conn Pinged 1
            now <- freshNow registration
            let Deadline end = after (optionPong options) now
            set conn SilenceEnds end
            offer conn (pingNow B.empty)
            park conn deadline

-- | Give the buffer back; what is in it is dropped.
--
-- [Blocks]: never.
giveBackInput :: Connection -> IO ()
giveBackInput conn =
  readRef (connInput conn) >>= \case
    Nothing' -> pure ()
    Holds buffer -> do
      writeRef (connInput conn) Nothing'
      set conn InputStart 0
      set conn InputEnd 0
      giveBackBuffer (transportRegistration (connTransport conn)) buffer
{-# INLINE giveBackInput #-}
