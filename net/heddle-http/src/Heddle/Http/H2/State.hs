{-# LANGUAGE PatternSynonyms #-}

-- |
-- Module      : Heddle.Http.H2.State
-- Description : What the threads of an HTTP/2 connection share
-- Stability   : internal, exempt from the version policy
--
-- A connection has up to three kinds of threads, all on its capability: one reads
-- ("Heddle.Http.H2.Connection"), one for each request answers ("Heddle.Http.H2.Stream"), and
-- while there is something to send one writes. They share the session and this record.
--
-- The writer is a thread that sends until the session has nothing more, then ends. 'kick' starts one
-- unless one runs. It comes behind all threads that can run, so what several handlers have to say
-- goes out in one write. Reading and writing never wait for each other: two peers that both wait
-- for room to write would wait for ever.
--
-- Owner: the reading thread.
-- Cost: a thread for each batch of output, about 200 ns.
module Heddle.Http.H2.State
  ( -- * Connections
    Http2 (..),
    newHttp2,
    http2Registration,

    -- * Streams
    Stream (..),
    newStream,
    unlistedStream,
    listStream,
    forgetStream,
    cancelStream,
    Waiting (..),
    awaitStream,
    pauseStream,

    -- * Events
    tell,

    -- * Output
    kick,
    outputIdle,

    -- * Ending
    awaitThreads,
    abandon,
  )
where

import Control.Monad (unless, void, when)
import Data.Foldable (for_, traverse_)
import Data.IntMap.Strict (IntMap)
import Data.IntMap.Strict qualified as IntMap
import Data.Word (Word8)
import Foreign.Ptr (Ptr, plusPtr)
import Heddle.Http.Context (Context (..))
import Heddle.Http.Exception (StreamCancelled (..))
import Heddle.Http.H2.Session
import Heddle.Http.Settings
import Heddle.IO.Parker (Parker, newParker)
import Heddle.IO.Parker qualified as Parker
import Heddle.IO.Registration (Registration, closeRegistration, freshNow, registrationCapability, wakeReader)
import Heddle.IO.Transport
import Heddle.Prim.Atomic
import Heddle.Prim.Buffer (borrow, bufferPtr, bufferSize, giveBack, keepAlive)
import Heddle.Prim.Clock (Deadline (..), monotonicNow)
import Heddle.Prim.Exception
import Heddle.Prim.Thread (ThreadId, forkMaskedOn, forkOn, labelMe)
import Heddle.Prim.WaitCell (WaitCell, newWaitCell, park, reset, unpark)

-- | An HTTP/2 connection.
data Http2 = Http2
  { http2Session :: !Session,
    http2Context :: !Context,
    http2Transport :: !Transport,
    -- | The streams whose handler runs, by their number.
    http2Streams :: !(Ref (IntMap Stream)),
    -- | Word 0: the writer, see 'kick'; the others are the reading thread's.
    http2Words :: !Words,
    -- | Has a token when a thread of the connection has ended.
    http2Ended :: !WaitCell
  }

-- | A connection with a session that is not yet used.
newHttp2 :: Context -> Transport -> Session -> IO Http2
newHttp2 context transport session = Http2 session context transport <$> newRef IntMap.empty <*> newWords 8 <*> newWaitCell

-- | The connection's registration.
http2Registration :: Http2 -> Registration
http2Registration = transportRegistration . http2Transport
{-# INLINE http2Registration #-}

-- Streams -----------------------------------------------------------------------

-- | A stream whose handler runs.
data Stream = OpenStream
  { streamName :: !StreamName,
    -- | Set by the thread itself, before it looks at the session.
    streamThread :: !(Ref (Maybe ThreadId)),
    -- | Made when the stream first waits for its body.
    streamReading :: !(Ref (Maybe Parker)),
    -- | Made when it first waits for the client to take its reply. A handler may do both at once, in two
    -- threads.
    streamWriting :: !(Ref (Maybe Parker))
  }

-- | What a stream waits for.
data Waiting
  = ForInput
  | ForRoom

-- | A stream, in the connection's map.
newStream :: Http2 -> StreamName -> IO Stream
newStream h2 name = do
  stream <- unlistedStream name
  stream <$ listStream h2 stream

-- | A stream that the map does not have yet.
unlistedStream :: StreamName -> IO Stream
unlistedStream name = OpenStream name <$> newRef Nothing <*> newRef Nothing <*> newRef Nothing

-- | Put a stream into the map.
listStream :: Http2 -> Stream -> IO ()
listStream h2 stream = modifyRef (http2Streams h2) (\streams -> (IntMap.insert (fromIntegral (streamNumber (streamName stream))) stream streams, ()))

-- | Take a stream whose handler has ended out of the map.
--
-- [Blocks]: never.
forgetStream :: Http2 -> Stream -> IO ()
forgetStream h2 stream = do
  for_ [streamReading, streamWriting] $ \parker -> readRef (parker stream) >>= traverse_ Parker.closeParker
  modifyRef (http2Streams h2) (\streams -> (IntMap.delete (fromIntegral (streamNumber (streamName stream))) streams, ()))
  unpark (http2Ended h2)

-- | Cancel the handler of a stream that is closed in the session. One that has not started yet will see that.
-- A thread of its own throws, because throwing waits while the handler masks exceptions.
--
-- [Blocks]: never.
cancelStream :: Http2 -> Stream -> IO ()
cancelStream h2 stream =
  readRef (streamThread stream) >>= traverse_ (\thread -> forkOn (registrationCapability (http2Registration h2)) "http/h2/cancel" (throwTo thread StreamCancelled))

-- | Wake the threads that wait for the stream.
--
-- [Blocks]: never.
wakeStream :: Stream -> IO ()
wakeStream stream = for_ [streamReading, streamWriting] $ \parker -> readRef (parker stream) >>= traverse_ Parker.unpark

-- | Try until there is an answer, waiting for 'Woken' in between; 'Nothing' at the deadline.
--
-- [Cost]: the first wait of a stream makes a parker.
-- [Blocks]: parks.
-- [Masking]: interruptible while parked.
-- [Threads]: one for each thing to wait for.
awaitStream :: Http2 -> Stream -> Waiting -> Deadline -> IO (Maybe a) -> IO (Maybe a)
awaitStream h2 stream waiting deadline look = do
  parker <- parkerOf h2 $ case waiting of
    ForInput -> streamReading stream
    ForRoom -> streamWriting stream
  Parker.awaitUntil parker deadline look

-- | Wait, at most until the deadline.
--
-- [Blocks]: parks.
pauseStream :: Http2 -> Stream -> Deadline -> IO ()
pauseStream h2 stream deadline = void (awaitStream h2 stream ForRoom deadline (pure (Nothing :: Maybe ())))

parkerOf :: Http2 -> Ref (Maybe Parker) -> IO Parker
parkerOf h2 made =
  readRef made >>= \case
    Just parker -> pure parker
    Nothing -> do
      -- A thread that waits lives long enough for a name.
      labelMe ("http/h2/stream/" ++ show (registrationCapability (http2Registration h2)))
      parker <- newParker (contextRuntime (http2Context h2))
      parker <$ writeRef made (Just parker)

-- | Tell streams what the session has told. Requests are the reading thread's.
--
-- [Blocks]: never.
tell :: Http2 -> Event -> IO ()
tell h2 = \case
  Requested _ -> pure ()
  Woken name -> found name >>= traverse_ wakeStream
  StreamClosed name code ->
    found name >>= traverse_ (\stream -> wakeStream stream >> unless (code == 0) (cancelStream h2 stream))
  where
    found name = IntMap.lookup (fromIntegral (streamNumber name)) <$> readRef (http2Streams h2)

-- Output ------------------------------------------------------------------------

pattern Writer, NoWriter, Writes, WritesAgain :: Int
pattern Writer = 0
pattern NoWriter = 0
pattern Writes = 1
pattern WritesAgain = 2

-- | See that what the session has to send will be sent.
--
-- Moves of the writer's word: NoWriter -> Writes (whoever starts it), Writes -> WritesAgain (who has
-- more), WritesAgain -> Writes (the writer, which looks again), Writes -> NoWriter (the writer, at its end).
--
-- [Cost]: an atomic operation, and a thread if none writes.
-- [Blocks]: never.
-- [Threads]: any.
kick :: Http2 -> IO ()
kick h2 = mask_ go
  where
    go = do
      first <- compareAndSet (http2Words h2) Writer NoWriter Writes
      if first
        then void (forkMaskedOn (registrationCapability (http2Registration h2)) (\_ -> writer h2)) `onException` atomicWrite (http2Words h2) Writer NoWriter
        else do
          noted <- compareAndSet (http2Words h2) Writer Writes WritesAgain
          unless noted $ do
            now <- atomicRead (http2Words h2) Writer
            when (now == NoWriter) go

-- | Whether no thread writes.
outputIdle :: Http2 -> IO Bool
outputIdle h2 = (== NoWriter) <$> atomicRead (http2Words h2) Writer

writer :: Http2 -> IO ()
writer h2 = do
  -- Written bytes may be lost, so a failure ends the connection; the reading thread sees it closed.
  r <- try send
  case r of
    Right () -> pure ()
    Left (_ :: SomeException) -> do
      _ <- closeRegistration (http2Registration h2)
      atomicWrite (http2Words h2) Writer NoWriter
  state <- sessionState (http2Session h2)
  when (stateStreams state == 0 || not (stateReads state)) $ wakeReader (http2Registration h2)
  unpark (http2Ended h2)
  where
    send = do
      buffer <- borrow (contextBuffers (http2Context h2))
      let room = bufferSize buffer - 1024
      rounds (bufferPtr buffer) room
      keepAlive buffer
      giveBack (contextBuffers (http2Context h2)) buffer
    rounds p room = do
      now <- freshNow (http2Registration h2)
      r <- drain (http2Session h2) p room (p `plusPtr` room) now
      let count = lowHalf r
          events = highHalf r
      when (r > 0 && events > 0) $ readEvents (p `plusPtr` room) events >>= traverse_ (tell h2)
      if r > 0
        then do
          alive <- if count > 0 then sendAll h2 p count else pure True
          if alive
            then rounds p room
            else closeRegistration (http2Registration h2) >> atomicWrite (http2Words h2) Writer NoWriter
        else do
          ended <- compareAndSet (http2Words h2) Writer Writes NoWriter
          unless ended $ atomicWrite (http2Words h2) Writer Writes >> rounds p room

-- Send at least at the settings' pace, window by window; 'False' when the client is gone or too slow.
sendAll :: Http2 -> Ptr Word8 -> Int -> IO Bool
sendAll h2 p n = do
  sent <- max 0 <$> writeNow (http2Transport h2) p n
  if sent == n then pure True else monotonicNow >>= \began -> go sent began 0
  where
    pace = settingReplyPace (contextSettings (http2Context h2))
    go done began moved
      | done >= n = pure True
      | otherwise = do
        r <- writeSomeUntil (http2Transport h2) (p `plusPtr` done) (n - done) (paceDeadline pace began moved)
        if r < 0
          then pure False
          else do
            now <- monotonicNow
            if paceKept pace began (moved + r) now then go (done + r) now 0 else go (done + r) began (moved + r)

-- Ending ------------------------------------------------------------------------

-- | Wait until no other thread of the connection runs.
--
-- [Blocks]: parks.
-- [Masking]: interruptible.
awaitThreads :: Http2 -> IO ()
awaitThreads h2 = do
  _ <- reset (http2Ended h2)
  streams <- readRef (http2Streams h2)
  idle <- outputIdle h2
  unless (IntMap.null streams && idle) $ park (http2Ended h2) >> awaitThreads h2

-- | End the session and cancel what still runs for it.
--
-- [Blocks]: never.
abandon :: Http2 -> IO ()
abandon h2 = do
  endSession (http2Session h2)
  streams <- readRef (http2Streams h2)
  -- No event will wake those that wait for the session, which may be other threads than the streams' own.
  for_ streams $ \stream -> wakeStream stream >> cancelStream h2 stream
