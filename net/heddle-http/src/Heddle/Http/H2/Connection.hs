{-# LANGUAGE PatternSynonyms #-}

-- |
-- Module      : Heddle.Http.H2.Connection
-- Description : One HTTP/2 connection
-- Stability   : internal, exempt from the version policy
--
-- The reading thread receives, feeds the session, starts a thread for each request, and waits.
-- Without streams it returns, and the connection idles with its session only: no thread, no buffer.
--
-- Cost: per batch of requests recv, send and a share of epoll_wait; a thread for each request.
-- Owner: the connection's thread.
module Heddle.Http.H2.Connection
  ( Http2,
    openHttp2,
    serveHttp2,
    abandon,
  )
where

import Control.Monad (unless, void, when)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Unsafe (unsafeUseAsCStringLen)
import Data.Foldable (for_)
import Data.Word (Word8)
import Foreign.Marshal.Utils (copyBytes)
import Foreign.Ptr (Ptr, castPtr, plusPtr)
import Heddle.Http.Context (Context (..))
import Heddle.Http.H2.Session
import Heddle.Http.H2.State
import Heddle.Http.H2.Stream (startStream)
import Heddle.Http.Parse (Limits (..))
import Heddle.Http.Settings
import Heddle.IO.Registration
import Heddle.IO.Service (After (..), markActive)
import Heddle.IO.Transport
import Heddle.Prim.Atomic (readWord, writeWord)
import Heddle.Prim.Buffer (Buffer, bufferSize, withBuffer)
import Heddle.Prim.Clock
import Heddle.Prim.Errno (Errno (..), pattern EAGAIN, pattern EINTR)
import Heddle.Prim.Thread (yield)

-- Words of 'http2Words' that belong to the reading thread.

-- Since when the connection has had no stream (monotonic nanoseconds).
pattern IdleSince :: Int
pattern IdleSince = 1

-- 1 when a stream was started since then.
pattern Busy :: Int
pattern Busy = 2

-- When the coming end was announced, or 0.
pattern NoticedAt :: Int
pattern NoticedAt = 3

-- 1 after GOAWAY.
pattern GoneAway :: Int
pattern GoneAway = 4

-- | A connection that begins with these bytes of the client's preface; 'Nothing' without memory.
--
-- [Blocks]: never.
openHttp2 :: Context -> Transport -> ByteString -> IO (Maybe Http2)
openHttp2 context transport received = do
  now@(Deadline now') <- monotonicNow
  made <- newSession (settingHttp2Limits settings) (limitTrailers (settingLimits settings)) now
  case made of
    Nothing -> pure Nothing
    Just session -> do
      h2 <- newHttp2 context transport session
      writeWord (http2Words h2) IdleSince now'
      unless (B.null received) $
        withInput h2 $ \p size ->
          unsafeUseAsCStringLen received $ \(q, n) ->
            for_ [0, size .. n - 1] $ \at -> do
              let count = min size (n - at)
              copyBytes p (castPtr q `plusPtr` at) count
              feedAll h2 p count
      pure (Just h2)
  where
    settings = contextSettings context

withInput :: Http2 -> (Ptr Word8 -> Int -> IO a) -> IO a
withInput h2 use = do
  buffer <- borrowBuffer (http2Registration h2) :: IO Buffer
  r <- withBuffer buffer $ \p -> use p (bufferSize buffer)
  r <$ giveBackBuffer (http2Registration h2) buffer

-- Events are written over the input; see 'eventsRoom'.
feedAll :: Http2 -> Ptr Word8 -> Int -> IO ()
feedAll h2 p n = do
  now <- freshNow (http2Registration h2)
  feed (http2Session h2) p n now >>= told
  where
    told count = when (count > 0) $ do
      events <- readEvents p count
      for_ events $ \case
        Requested name -> writeWord (http2Words h2) Busy 1 >> startStream h2 name
        event -> tell h2 event
      moreEvents (http2Session h2) p >>= told

-- How reading ended.
data Input
  = -- | There is nothing more at the moment.
    NoInput
  | -- | The client has gone, or the connection was closed.
    EndOfInput

readAll :: Http2 -> IO Input
readAll h2 = withInput h2 (go (0 :: Int))
  where
    transport = http2Transport h2
    registration = http2Registration h2
    go rounds p size = do
      n <- readNow transport p size
      if n > 0
        then do
          feedAll h2 p n
          more <- if n < size then holdsInput transport else pure True
          hung <- hungUp registration
          if more || hung
            then do
              -- A fast client must not keep the others, or its own handlers, waiting.
              when (rounds == 7) (sendWhatIsThere h2 >> yield)
              go ((rounds + 1) `rem` 8) p size
            else pure NoInput
        else nothing rounds p size n
    nothing rounds p size n
      | n == 0 = pure EndOfInput
      | Errno (negate n) == EINTR = go rounds p size
      | Errno (negate n) == EAGAIN = do
        -- The client hung up but there is nothing to read: without this the next wait would
        -- return at once.
        hung <- hungUp registration
        NoInput <$ when hung (forgetHangUp registration)
      | otherwise = pure EndOfInput

sendWhatIsThere :: Http2 -> IO ()
sendWhatIsThere h2 = do
  state <- sessionState (http2Session h2)
  when (stateWrites state) (kick h2)

-- | Serve what has arrived, until the connection idles or ends. After 'Done' the session is freed and
-- no thread of the connection is left.
--
-- [Blocks]: parks.
-- [Masking]: the caller is masked; interrupted waits leave the session to 'abandon'.
serveHttp2 :: Http2 -> IO After
serveHttp2 h2 =
  readAll h2 >>= \case
    EndOfInput -> do
      void (closeRegistration registration)
      finish
    NoInput -> do
      now <- freshNow registration
      headBegan <- checkSession session now (settingHead settings) (paceGrace (settingReplyPace settings))
      draining h2 now
      sendWhatIsThere h2
      -- In this order: a writer that ends later than it was seen wakes this thread.
      state <- sessionState session
      idle <- outputIdle h2
      decide now headBegan state (idle && not (stateWrites state))
  where
    registration = http2Registration h2
    session = http2Session h2
    settings = contextSettings (http2Context h2)
    ws = http2Words h2
    decide now@(Deadline now') headBegan state quiet
      | quiet && not (stateReads state) = linger h2 >> finish
      | quiet && stateStreams state == 0 = do
        busy <- readWord ws Busy
        when (busy == 1) $ do
          writeWord ws Busy 0
          writeWord ws IdleSince now'
          markActive registration
        since <- readWord ws IdleSince
        let end = after (settingIdle settings) (Deadline since)
        if now >= end
          then leave h2 >> serveHttp2 h2
          else do
            restSession session now
            IdleUntil . min end <$> alarm headBegan
      | otherwise = do
        -- From time to time, for streams whose client takes nothing.
        let Nanos grace = paceGrace (settingReplyPace settings)
            look = after (max (milliseconds 50) (min (seconds 10) (Nanos (grace `quot` 4)))) now
        deadline <- min look <$> alarm headBegan
        waitUntil registration Readable deadline
        serveHttp2 h2
    -- When to look at an incomplete head, or at a drain.
    alarm headBegan = do
      noticed <- readWord ws NoticedAt
      gone <- readWord ws GoneAway
      pure $
        min
          (if headBegan > 0 then after (settingHead settings) (Deadline headBegan) else never)
          (if noticed > 0 && gone == 0 then after (seconds 1) (Deadline noticed) else never)
    finish = do
      abandon h2
      awaitThreads h2
      pure Done

-- While the server drains: announce the end, and refuse streams once the client knows, or after a second.
draining :: Http2 -> Deadline -> IO ()
draining h2 now@(Deadline now') = do
  phase <- readWord (contextDraining (http2Context h2)) 0
  noticed <- readWord ws NoticedAt
  gone <- readWord ws GoneAway
  when (phase > 0 && gone == 0) $
    if phase == 2
      then leave h2
      else
        if noticed == 0
          then noticeShutdown (http2Session h2) >> writeWord ws NoticedAt now'
          else do
            state <- sessionState (http2Session h2)
            when (statePingAnswered state || now >= after (seconds 1) (Deadline noticed)) (leave h2)
  where
    ws = http2Words h2

leave :: Http2 -> IO ()
leave h2 = do
  goAway (http2Session h2)
  writeWord (http2Words h2) GoneAway 1
  sendWhatIsThere h2

-- As for HTTP/1: closing while the client still sends could destroy the GOAWAY on its way.
linger :: Http2 -> IO ()
linger h2 = do
  _ <- endWriting (http2Transport h2)
  deadline <- deadlineIn (seconds 2)
  withInput h2 $ \p size ->
    let go dropped = unless (dropped > (262144 :: Int)) $ do
          n <- readUntil (http2Transport h2) p size deadline
          when (n > 0) (go (dropped + n))
     in go 0
