{-# LANGUAGE PatternSynonyms #-}
{-# OPTIONS_HADDOCK not-home #-}

-- |
-- Module      : Heddle.Walk.Internal.Output
-- Description : Whole records from many workers, in any order or in one
-- Stability   : internal, exempt from the version policy
--
-- Each worker gathers records in a buffer of its own. In any order a full buffer is
-- written under a lock. In sorted order the output is an ordered rope: a list of segments, each
-- with one writer at a time; see Note [Segments].
--
-- Shared writes per record: 0.
--
-- Cost: a write per full buffer; in sorted order, besides, a segment per directory that
-- has subdirectories (about 200 bytes) and a compare-and-set per subdirectory.
-- Owner: the walk.
module Heddle.Walk.Internal.Output
  ( -- * The walk's output
    Output,
    newOutput,
    Found (..),
    foundIn,
    hasFailed,
    writeProblem,

    -- * Stopping
    isStopped,
    stopAll,
    isCut,

    -- * A worker's end of the rope
    RopeWriter,
    ropeCursor,
    newRopeWriter,
    beginRecord,
    makeRoom,
    flushRecords,
    flushAll,
    writeTo,
    writeError,
    failRope,
    quitHere,
    finishPort,
    isLive,

    -- * Segments, in sorted order
    Segment,
    Link (..),
    reserveNext,
    dropReserve,
    endTask,
    resumeSame,
    resumeStolen,
    takeSegment,
    parkSegment,
    drainParked,
  )
where

import Control.Monad (unless, void, when)
import Data.ByteString (ByteString)
import Data.ByteString qualified as ByteString
import Data.ByteString.Internal qualified as ByteString (create)
import Data.ByteString.Unsafe qualified as ByteString
import Data.Word (Word8)
import Foreign.C.Types (CInt)
import Foreign.Ptr (Ptr, castPtr, plusPtr)
import Heddle.Prim.Atomic
  ( Ref,
    Stack,
    Words,
    atomicRead,
    atomicWrite,
    compareAndSet,
    fetchAdd,
    newRef,
    newStack,
    newWords,
    push,
    readRef,
    readWord,
    sameRef,
    takeAll,
    writeRef,
    writeWord,
  )
import Heddle.Prim.Buffer (Buffer, bufferPtr, bufferSize, newBuffer, withBuffer)
import Heddle.Prim.Errno (Errno (..), pattern EINTR)
import Heddle.Prim.Exception (SomeException, interruptible)
import Heddle.Prim.Lock (Lock, newLock, withLock)
import Heddle.Prim.WaitCell (WaitCell, newWaitCell, park, reset, unpark)
import Heddle.Walk.Internal.Cursor
import Heddle.Walk.Internal.Options (RawPath, WalkError)

-- | Why a walk stopped before its end.
data Found
  = -- | A visitor quit at this path.
    FoundHit !RawPath
  | -- | 'Heddle.Walk.Internal.Options.StopAtErrors' met this one.
    FoundError !WalkError
  | -- | Under 'Heddle.Walk.Internal.Options.StopAtErrors': a visitor threw this.
    FoundThrown !SomeException
  deriving stock (Show)

-- | What all workers of a walk write to.
data Output = Output
  { outputTarget :: !CInt,
    outputMessages :: !CInt,
    outputSorted :: !Bool,
    outputBuffer :: !Int,
    outputBacklog :: !Int,
    -- | Any order: held while a buffer is written. Sorted: held while segments change
    -- state, never while anything is written.
    outputLock :: !Lock,
    -- | See the indices below.
    outputWords :: !Words,
    -- | The leftmost unfinished segment; under the lock.
    outputHead :: !(Ref Segment),
    outputFound :: !(Ref (Maybe Found)),
    -- | Workers that wait until their segment is leftmost.
    outputWaiting :: !(Stack WaitCell)
  }

-- Indices of outputWords: has anything failed; is the walk over (1 quit, 2 cannot write);
-- was the list of segments cut off; bytes held back; the error of a failed write.
failedWord, stopWord, cutWord, backlogWord, problemWord :: Int
failedWord = 0
stopWord = 8
cutWord = 9
backlogWord = 16
problemWord = 24

-- | One stretch of the output; see Note [Segments].
data Segment = Segment
  { -- | Index 0: 'buffering' -> 'leftmost' (the thread that finishes the segment before) ->
    -- 'finished' (its writer), or 'buffering' -> 'finished'. Index 1, the fork whose
    -- continuation this segment is reserved for: 'forked' -> 'ended' (the child) ->
    -- 'forked' (the continuation), or 'forked' -> 'stolen' (the thief).
    segmentWords :: !Words,
    -- | Written by this segment's writer only.
    segmentNext :: !(Ref Link),
    -- | Held back, newest first; under the lock while 'buffering'.
    segmentChunks :: !(Ref [Chunk]),
    -- | What the child left at its end; published by 'ended'.
    segmentHandover :: !(Ref Handover)
  }

-- | Another segment, or none.
data Link = End | Link !Segment

data Handover = NoHandover | Handover !Segment !Buffer !Int

data Chunk = Bytes !CInt !ByteString | Failure | Stop !Found

buffering, leftmost, finished, forked, ended, stolen :: Int
buffering = 0
leftmost = 1
finished = 2
forked = 0
ended = 1
stolen = 2

newSegment :: Link -> IO Segment
newSegment link = Segment <$> newWords 2 <*> newRef link <*> newRef [] <*> newRef NoHandover

-- | An output to a descriptor, messages to another, sorted or not, with buffers and a
-- backlog of the given numbers of bytes.
newOutput :: CInt -> CInt -> Bool -> Int -> Int -> IO Output
newOutput target messages sorted buffer backlog = do
  lock <- newLock
  shared <- newWords 32
  first <- newSegment End
  writeWord (segmentWords first) 0 leftmost
  Output target messages sorted (max 64 buffer) backlog lock shared
    <$> newRef first
    <*> newRef Nothing
    <*> newStack

-- | After the walk: where it stopped.
foundIn :: Output -> IO (Maybe Found)
foundIn = readRef . outputFound

-- | After the walk: was anything reported?
hasFailed :: Output -> IO Bool
hasFailed o = (/= 0) <$> readWord (outputWords o) failedWord

-- | After the walk: why it could not write.
writeProblem :: Output -> IO (Maybe Errno)
writeProblem o = do
  e <- readWord (outputWords o) problemWord
  pure (if e == 0 then Nothing else Just (Errno e))

-- | Is the walk over?
isStopped :: Output -> IO Bool
isStopped o = (/= 0) <$> readWord (outputWords o) stopWord
{-# INLINE isStopped #-}

-- | End the walk; 'True' for exactly one of the threads that try.
stopAll :: Output -> Int -> IO Bool
stopAll o why = do
  won <- compareAndSet (outputWords o) stopWord 0 why
  wakeWaiting o
  pure won

-- | Was the list of segments cut off, so that 'isLive' must be asked?
isCut :: Output -> IO Bool
isCut o = (/= 0) <$> readWord (outputWords o) cutWord
{-# INLINE isCut #-}

wakeWaiting :: Output -> IO ()
wakeWaiting o = takeAll (outputWaiting o) >>= mapM_ unpark

-- Writers ----------------------------------------------------------------------

-- | One worker's writer to the rope.
data RopeWriter = RopeWriter
  { ropeOutput :: !Output,
    -- | Whose output fields describe 'ropeBuffer'.
    ropeCursor :: !CursorPtr,
    ropeBuffer :: !(Ref Buffer),
    ropeSegment :: !(Ref Segment),
    -- | Index 0: 1 while the buffer may belong to the worker that continues the segment.
    ropeLent :: !Words,
    ropeCell :: !WaitCell
  }

-- | A writer for a new worker. Until 'resumeStolen' says otherwise it writes to the first
-- segment.
newRopeWriter :: Output -> CursorPtr -> IO RopeWriter
newRopeWriter o c = do
  buffer <- newBuffer (outputBuffer o)
  p <- RopeWriter o c <$> newRef buffer <*> (readRef (outputHead o) >>= newRef) <*> newWords 1 <*> newWaitCell
  p <$ useBuffer p buffer 0

useBuffer :: RopeWriter -> Buffer -> Int -> IO ()
useBuffer p buffer used = do
  writeRef (ropeBuffer p) buffer
  writePtr c fieldOut (bufferPtr buffer)
  writeField c fieldOutCapacity (bufferSize buffer)
  writeField c fieldOutUsed used
  writeField c fieldRecord used
  where
    c = ropeCursor p

-- | Begin a record: what is appended until the next one is written without bytes of others between.
beginRecord :: CursorPtr -> IO ()
beginRecord c = readField c fieldOutUsed >>= writeField c fieldRecord
{-# INLINE beginRecord #-}

-- | Make room for a number of bytes, without cutting the record in two.
makeRoom :: RopeWriter -> Int -> IO ()
makeRoom p lack = do
  flushFirst p =<< readField c fieldRecord
  used <- readField c fieldOutUsed
  old <- readRef (ropeBuffer p)
  when (lack > bufferSize old - used) $ do
    new <- newBuffer (max (2 * bufferSize old) (used + lack))
    withBuffer old $ \from -> moveBytes (bufferPtr new) from used
    useBuffer p new used
    writeField c fieldRecord 0
  where
    c = ropeCursor p

-- | Write the whole records, for a reader that should not wait.
flushRecords :: RopeWriter -> IO ()
flushRecords p = readField (ropeCursor p) fieldOutUsed >>= flushFirst p

-- Write or keep the first bytes of the buffer, and move up the others.
flushFirst :: RopeWriter -> Int -> IO ()
flushFirst p n = when (n > 0) $ do
  used <- readField c fieldOutUsed
  buffer <- readRef (ropeBuffer p)
  withBuffer buffer $ \from -> do
    emitBytes p from n
    when (used > n) (moveBytes from (from `plusPtr` n) (used - n))
  writeField c fieldOutUsed (used - n)
  writeField c fieldRecord 0
  where
    c = ropeCursor p

emitBytes :: RopeWriter -> Ptr Word8 -> Int -> IO ()
emitBytes p from n
  | outputTarget o < 0 = pure ()
  | outputSorted o = do
    s <- readRef (ropeSegment p)
    state <- atomicRead (segmentWords s) 0
    if state == leftmost
      then drain o s >> writeAll o (outputTarget o) from n
      else ByteString.create n (\to -> moveBytes to from n) >>= hold p s . Bytes (outputTarget o)
  | otherwise = withLock (outputLock o) (writeAll o (outputTarget o) from n)
  where
    o = ropeOutput p

-- Write it all, unless writing has failed before. A full pipe may be waited for under the
-- lock: a worker that waits for the lock has a full buffer, too.
writeAll :: Output -> CInt -> Ptr Word8 -> Int -> IO ()
writeAll o fd from n = when (n > 0) $ do
  problem <- readWord (outputWords o) problemWord
  when (problem == 0) $ do
    r <- writeBytes fd from n
    if r >= 0
      then when (r < n) (again r)
      else
        if Errno (negate r) == EINTR
          then again 0
          else when (fd == outputTarget o) $ do
            writeWord (outputWords o) problemWord (negate r)
            void (stopAll o 2)
  where
    again r = interruptible (pure ()) >> writeAll o fd (from `plusPtr` r) (n - r)

writeString :: Output -> CInt -> ByteString -> IO ()
writeString o fd s = unless (fd < 0) $
  ByteString.unsafeUseAsCStringLen s $ \(from, n) -> writeAll o fd (castPtr from) n

-- | Write out everything, part of a record, too; in sorted order, wait until it is this
-- segment's turn. 'False' if it never will be.
--
-- [Blocks]: parks until everything to the left is written.
flushAll :: RopeWriter -> IO Bool
flushAll p = do
  flushRecords p
  if outputSorted o
    then do
      s <- readRef (ropeSegment p)
      waitFor p s (pure False)
      state <- atomicRead (segmentWords s) 0
      over <- isStopped o
      if state == leftmost && not over then True <$ drain o s else pure False
    else not <$> isStopped o
  where
    o = ropeOutput p

-- | A record for another descriptor, after what was appended so far.
writeTo :: RopeWriter -> CInt -> ByteString -> IO ()
writeTo p fd s
  | outputSorted (ropeOutput p) = flushRecords p >> emit p (Bytes fd s)
  | otherwise = emit p (Bytes fd s)

-- | A message.
writeError :: RopeWriter -> ByteString -> IO ()
writeError p s = do
  writeTo p (outputMessages (ropeOutput p)) s
  failRope p

-- | The walk has failed; in sorted order, if nothing to the left ends it.
failRope :: RopeWriter -> IO ()
failRope p = emit p Failure

emit :: RopeWriter -> Chunk -> IO ()
emit p chunk
  | outputSorted o = do
    s <- readRef (ropeSegment p)
    state <- atomicRead (segmentWords s) 0
    if state == leftmost then drain o s >> perform o chunk else hold p s chunk
  | otherwise = withLock (outputLock o) (perform o chunk)
  where
    o = ropeOutput p

perform :: Output -> Chunk -> IO ()
perform o = \case
  Bytes fd s -> writeString o fd s
  Failure -> writeWord (outputWords o) failedWord 1
  Stop found -> writeRef (outputFound o) (Just found)

-- | Stop here: in any order the first to say so stops the walk, and others take their record
-- back; in sorted order everything to the right is cut off.
quitHere :: RopeWriter -> Found -> IO ()
quitHere p found
  | outputSorted o = do
    s <- readRef (ropeSegment p)
    state <- atomicRead (segmentWords s) 0
    unless (state == finished) $ do
      flushRecords p
      emit p (Stop found)
      writeRef (segmentNext s) End
      withLock (outputLock o) $ do
        atomicWrite (outputWords o) cutWord 1
        readRef (outputHead o) >>= held 0 >>= atomicWrite (outputWords o) backlogWord
      finishPort p
      wakeWaiting o
  | otherwise = do
    won <- stopAll o 1
    if won
      then writeRef (outputFound o) (Just found)
      else do
        whole <- readField c fieldRecord
        writeField c fieldOutUsed whole
  where
    o = ropeOutput p
    c = ropeCursor p
    held !n s = do
      chunks <- readRef (segmentChunks s)
      let n' = n + sum (map chunkSize chunks)
      readRef (segmentNext s) >>= \case
        End -> pure (n' :: Int)
        Link s' -> held n' s'

chunkSize :: Chunk -> Int
chunkSize = \case
  Bytes _ s -> ByteString.length s
  _ -> 0

-- Segments -------------------------------------------------------------------

-- Write what a leftmost segment held back. Only its writer calls this or, when the writer has
-- gone, the thread that finishes the segment before.
drain :: Output -> Segment -> IO ()
drain o s =
  readRef (segmentChunks s) >>= \case
    [] -> pure ()
    chunks -> do
      writeRef (segmentChunks s) []
      mapM_ (perform o) (reverse chunks)
      let size = sum (map chunkSize chunks)
      before <- fetchAdd (outputWords o) backlogWord (negate size)
      when (before > outputBacklog o) (wakeWaiting o)

-- Keep a chunk until it is its turn, and wait if too much is kept.
hold :: RopeWriter -> Segment -> Chunk -> IO ()
hold p s chunk = do
  kept <- withLock (outputLock o) $ do
    state <- atomicRead (segmentWords s) 0
    cut <- isCut o
    live <- if cut then reaches o s else pure True
    if state == leftmost
      then pure False
      else do
        when (state == buffering && live) $ do
          chunks <- readRef (segmentChunks s)
          writeRef (segmentChunks s) (chunk : chunks)
          void (fetchAdd (outputWords o) backlogWord (chunkSize chunk))
        pure True
  if kept
    then waitFor p s ((<= outputBacklog o) <$> atomicRead (outputWords o) backlogWord)
    else drain o s >> perform o chunk
  where
    o = ropeOutput p

-- Wait until the segment is leftmost, or can never be, or something else holds.
waitFor :: RopeWriter -> Segment -> IO Bool -> IO ()
waitFor p s enough = go
  where
    o = ropeOutput p
    go = do
      void (reset (ropeCell p))
      push (outputWaiting o) (ropeCell p)
      state <- atomicRead (segmentWords s) 0
      over <- isStopped o
      done <- if state /= buffering || over then pure True else enough
      dead <- if done then pure True else not <$> isLive p
      unless dead (park (ropeCell p) >> go)

-- | Can this rope's output still appear? Asked after 'isCut'.
isLive :: RopeWriter -> IO Bool
isLive p = do
  over <- isStopped o
  cut <- isCut o
  if over
    then pure False
    else
      if cut
        then do
          s <- readRef (ropeSegment p)
          withLock (outputLock o) $ do
            state <- atomicRead (segmentWords s) 0
            if state == finished then pure False else reaches o s
        else pure True
  where
    o = ropeOutput p

reaches :: Output -> Segment -> IO Bool
reaches o s = readRef (outputHead o) >>= go
  where
    go t
      | sameRef (segmentNext t) (segmentNext s) = pure True
      | otherwise =
        readRef (segmentNext t) >>= \case
          End -> pure False
          Link t' -> go t'

-- | Nothing more comes in the current segment.
finishPort :: RopeWriter -> IO ()
finishPort p = do
  flushRecords p
  when (outputSorted o) (readRef (ropeSegment p) >>= close)
  where
    o = ropeOutput p
    close s = do
      state <- withLock (outputLock o) $ do
        state <- atomicRead (segmentWords s) 0
        when (state == buffering) (atomicWrite (segmentWords s) 0 finished)
        pure state
      when (state == leftmost) $ do
        drain o s
        atomicWrite (segmentWords s) 0 finished
        advance o s

-- The leftmost segment is finished: the next one is leftmost.
advance :: Output -> Segment -> IO ()
advance o s =
  readRef (segmentNext s) >>= \case
    End -> do
      cut <- isCut o
      when cut (void (stopAll o 1))
    Link t -> do
      gone <- withLock (outputLock o) $ do
        writeRef (outputHead o) t
        state <- atomicRead (segmentWords t) 0
        when (state == buffering) (atomicWrite (segmentWords t) 0 leftmost)
        pure (state == finished)
      if gone then drain o t >> advance o t else wakeWaiting o

-- | Reserve the segment after the current one for the continuation of a task that is about to fork.
reserveNext :: RopeWriter -> IO Link
reserveNext p
  | outputSorted (ropeOutput p) = do
    s <- readRef (ropeSegment p)
    after <- readRef (segmentNext s)
    r <- newSegment after
    writeRef (segmentNext s) (Link r)
    pure (Link r)
  | otherwise = pure End

-- | Unlink the reserve, which no continuation needs any more.
dropReserve :: RopeWriter -> Link -> IO ()
dropReserve p = \case
  End -> pure ()
  Link r -> do
    s <- readRef (ropeSegment p)
    state <- atomicRead (segmentWords s) 0
    -- A segment that was cut off has no next, and shall not get one.
    unless (state == finished) (readRef (segmentNext r) >>= writeRef (segmentNext s))

-- | The child has ended; the segment is reserved for its parent's continuation. If that was stolen,
-- the current segment is finished; otherwise the continuation goes on with the segment.
endTask :: RopeWriter -> Link -> IO ()
endTask p = \case
  End -> pure ()
  Link r -> do
    s <- readRef (ropeSegment p)
    buffer <- readRef (ropeBuffer p)
    used <- readField (ropeCursor p) fieldOutUsed
    writeRef (segmentHandover r) (Handover s buffer used)
    writeWord (ropeLent p) 0 1
    lent <- compareAndSet (segmentWords r) 1 forked ended
    unless lent (writeWord (ropeLent p) 0 0 >> finishPort p)

-- | After a fork, on the same worker.
resumeSame :: RopeWriter -> Link -> IO ()
resumeSame p = \case
  End -> pure ()
  Link r -> do
    writeWord (segmentWords r) 1 forked
    writeWord (ropeLent p) 0 0

-- | After a fork, on a thief: 'True' if the reserve was used up.
resumeStolen :: RopeWriter -> Link -> IO Bool
resumeStolen p = \case
  End -> pure False
  Link r -> do
    first <- compareAndSet (segmentWords r) 1 forked stolen
    if first
      then do
        takeBack p
        True <$ writeRef (ropeSegment p) r
      else do
        writeWord (ropeLent p) 0 0
        readRef (segmentHandover r) >>= \case
          NoHandover -> pure True
          Handover s buffer used -> do
            writeRef (ropeSegment p) s
            useBuffer p buffer used
            writeRef (segmentHandover r) NoHandover
            writeWord (segmentWords r) 1 forked
            pure False

-- | The segment this rope writes to.
currentSegment :: RopeWriter -> IO Link
currentSegment p = Link <$> readRef (ropeSegment p)

-- | Continue a segment that 'parkSegment' left, with an empty buffer.
takeSegment :: RopeWriter -> Link -> IO ()
takeSegment p = \case
  End -> pure ()
  Link s -> takeBack p >> writeRef (ropeSegment p) s

-- After 'endTask' the buffer may belong to the worker that continues the segment: then take a new
-- one.
takeBack :: RopeWriter -> IO ()
takeBack p = do
  lent <- readWord (ropeLent p) 0
  writeWord (ropeLent p) 0 0
  when (lent /= 0) (newBuffer (outputBuffer (ropeOutput p)) >>= \b -> useBuffer p b 0)

-- | Leave the current segment for another worker, with nothing in the buffer.
parkSegment :: RopeWriter -> IO Link
parkSegment p
  | outputSorted (ropeOutput p) = do
    readField (ropeCursor p) fieldOutUsed >>= \n -> when (n > 0) (flushRecords p)
    currentSegment p
  | otherwise = pure End

-- | Write what a parked segment holds back, if it is its turn. No worker may run.
drainParked :: Output -> Link -> IO ()
drainParked o = \case
  End -> pure ()
  Link s -> do
    state <- atomicRead (segmentWords s) 0
    when (state == leftmost) (drain o s)

-- Note [Segments]
-- ~~~~~~~~~~~~~~~
-- In sorted order the output is a list of segments. Each has one writer: the worker that
-- runs the chain of tasks it belongs to. Before a fork, the writer of S links a reserve R
-- after S. The child writes into S. Then
--
--   * the continuation of the task comes back to the same worker: everything the child did, it
--     did on this worker, into S. The continuation goes on with S; R is kept for the next fork
--     and unlinked at the end. Nothing was shared.
--   * the continuation was stolen. The thief and the child's end meet at one compare-and-set on R
--     (index 1 of segmentWords). The thief first: it writes to R, and the child's end finishes
--     its segment. The child's end first (the thief had stolen the continuation, but not yet
--     begun it): the thief takes over the child's segment and buffer, as the worker would have.
--
-- Older continuations are stolen first, so when one comes back unstolen, none inside its child
-- was stolen. Only S's writer changes S's next, so the list needs no lock; state does.
--
-- The leftmost unfinished segment writes straight to the descriptor; others keep chunks,
-- and wait when these take too much memory. The leftmost never waits, and its writer always
-- runs: each unfinished segment belongs to a worker's present chain of tasks, or to a
-- directory whose last task will take it up ('parkSegment'), and all those tasks are to its
-- left. Hence no deadlock.
--
-- Quitting cuts the list off after the current segment. What is not reachable from the
-- leftmost segment any more is dead, and so is what is linked after it: new segments
-- inherit that without a flag. Errors travel as chunks, so those of dead segments are
-- never seen.
