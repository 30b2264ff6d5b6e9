-- |
-- Module      : Heddle.Trace.Model
-- Description : What cores and threads did, from a log's events
-- Stability   : stable
--
-- 'analyse' reads a log once. A capability (core) is running a thread, collecting garbage, or idle. A thread is running,
-- ready (woken, and waiting for a core), or blocked for a reason that the runtime gives. Each time a core's run or
-- collection ends, an action gets it as a 'Slice'.
--
-- Markers ("Heddle.Prim.Trace") say more: a thread that waits for an event manager waits for a descriptor and not for an
-- @MVar@, and a worker of heddle-sched runs tasks, searches or sleeps.
--
-- Why a core was idle: while another thread was ready, work waited for this core or for its own; otherwise nothing could
-- run, and the last thread that stopped on this core says what it waited for.
--
-- Cost: linear in the events. Memory: at most 'maxThreads' threads are kept; when there are more, those that ran
-- and waited least are added up in one row.
-- Owner: one thread.
module Heddle.Trace.Model
  ( -- * Reading
    analyse,
    Listener (..),
    silent,
    Slice (..),
    maxThreads,

    -- * Results
    Trace (..),
    Core (..),
    Thread (..),
    Distribution (..),
    Collections (..),
    Blocked (..),
    Worker (..),

    -- * Reasons
    Reason,
    reasonName,
    threadName,
  )
where

import Control.Monad (forM, forM_, unless, when)
import Data.Bits (countLeadingZeros, unsafeShiftR, (.&.))
import Data.ByteString (ByteString)
import Data.ByteString qualified as Bytes
import Data.ByteString.Char8 qualified as Char8
import Data.IntMap.Strict qualified as IntMap
import Data.List (sortOn)
import Data.Map.Strict qualified as Map
import Data.Maybe (fromMaybe)
import Data.Ord (Down (..))
import Data.Primitive.PrimArray
import Data.Word (Word8)
import Foreign.Ptr (Ptr, castPtr, plusPtr)
import Heddle.Prim.Atomic (readRef, writeRef)
import Heddle.Prim.Histogram (recordValue)
import Heddle.Prim.Trace (Marker (..), markerText)
import Heddle.Trace.Log
import Heddle.Trace.Result (result)
import Heddle.Trace.State
import Heddle.Trace.Types

-- | Read the events of the chosen streams, and pass slices and messages on.
--
-- [Cost]: linear in the events.
-- [Blocks]: holds an OS thread while it reads.
-- [Throws]: 'IOError' if the file cannot be read; what the listener throws.
analyse :: Log -> (Int -> Bool) -> Listener -> IO Trace
analyse l chosen listener = do
  m <- newModel l listener
  let !idBytes = threadIdBytes l
  forEvents l chosen (step l m idBytes)
  forM_ [0 .. logStreams l - 1] $ \i -> moveOn m (logEnd l) >> leave l m i (logEnd l) 0
  result l m

-- One event.
step :: Log -> Model -> Int -> Int -> Int -> Int -> Ptr Word8 -> Int -> IO ()
step l m idBytes i time kind p count = do
  moveOn m time
  add (modelGlobal m) gEvents 1
  case kind of
    0 -> withThread $ \t -> becomes m t ready time
    1 -> withThread $ \t -> do
      state <- threadGet m t tState
      since <- threadGet m t tSince
      leave l m i time 0
      becomes m t running time
      cput coreState isRunning
      cput coreSince time
      cput coreThread t
      cput coreWake (if state == ready then time - since else -1)
      cput coreWaits 0
      add (modelCores m) (i * coreWords + coreCount) 1
    2 | count >= idBytes + 2 -> withThread $ \t -> do
      stopped <- word16At p idBytes
      announced <- cget coreWaits
      let reason = if announced > 0 && (stopped == 7 || stopped == 20) then announced else stopped
      state <- cget coreState
      on <- cget coreThread
      when (state == isRunning && on == t) (leave l m i time reason)
      threadPut m t tReason reason
      becomes m t (if reason == 5 then finished else if reason <= 3 then ready else blocked) time
      cput coreReason reason
    3 -> woken
    8 -> woken
    4 -> withThread $ \t -> add (modelThreads m) (t * threadWords + tMigrations) 1
    9 -> do
      leave l m i time 0
      cput coreState isCollecting
      cput coreSince time
    10 -> do
      state <- cget coreState
      when (state == isCollecting) (leave l m i time 0)
    53 | count >= 30 -> do
      generation <- (.&. (generations - 1)) <$> word16At p 4
      copied <- word64At p 6
      add (modelGenerations m) (4 * generation + 3) (max 0 copied)
      state <- cget coreState
      if state == isCollecting then cput corePending generation else cget corePause >>= collected m generation
    34 | count >= 56 -> forM_ [0 .. 6] $ \k -> word64At p (8 * k) >>= writePrimArray (modelSparks m) (8 * i + k)
    51 | count >= 12 -> word64At p 4 >>= raise (modelGlobal m) gHeap
    16 -> message
    19 -> message
    58 -> message
    181 -> do
      text <- takeBytes p (min 100 count)
      maybe (pure ()) marked (Map.lookup text markers)
    44 | count > idBytes -> do
      number <- threadNumberAt
      text <- takeBytes (p `plusPtr` idBytes) (min 200 (count - idBytes))
      labels <- readRef (modelLabels m)
      when (IntMap.size labels < maxThreads) (writeRef (modelLabels m) $! IntMap.insert number text labels)
    29 | count > 4 -> takeBytes (p `plusPtr` 4) (min 200 (count - 4)) >>= writeRef (modelRuntime m)
    30 | count > 4 -> takeBytes (p `plusPtr` 4) (min 4000 (count - 4)) >>= writeRef (modelCommand m) . Char8.split '\0' . withoutLast
    -- A line, in logs of Eden's runtime.
    24 -> takeBytes p (min 4000 count) >>= writeRef (modelCommand m) . Char8.words
    _ -> pure ()
  where
    cget :: Int -> IO Int
    cget f = readPrimArray (modelCores m) (i * coreWords + f)
    cput :: Int -> Int -> IO ()
    cput f = writePrimArray (modelCores m) (i * coreWords + f)
    threadNumberAt = if idBytes == 8 then word64At p 0 else word32At p 0
    withThread act = when (count >= idBytes) (threadNumberAt >>= slotOf m time >>= act)
    {-# INLINE withThread #-}
    -- A wake-up is announced by the waker and again by the core that gets the thread; the first counts.
    woken = withThread $ \t -> do
      state <- threadGet m t tState
      when (state == blocked || state == unknown) (becomes m t ready time)
    marked kind' = do
      add (modelMarkers m) (i * kinds + fromEnum kind') 1
      state <- cget coreState
      t <- cget coreThread
      when (state == isRunning) $ case kind' of
        IoPark -> cput coreWaits 24
        IoDispatch -> threadPut m t tRole 1
        IoSleep -> threadPut m t tRole 1
        SchedRun -> does m t runsTasks time
        SchedSteal -> add (modelThreads m) (t * threadWords + tSteals) 1 >> does m t runsTasks time
        SchedSearch -> does m t searches time
        SchedSleep -> cput coreWaits 25 >> does m t sleeps time
        IoArm -> pure ()
        IoUnpark -> pure ()
        SchedUnpark -> pure ()
      onMarker (modelListener m) (streamCapability l i) time kind'
    message = do
      add (modelGlobal m) gMessages 1
      text <- takeBytes p count
      onMessage (modelListener m) (streamCapability l i) time text

-- Each argument has a zero at its end.
withoutLast :: ByteString -> ByteString
withoutLast bytes = fromMaybe bytes (Bytes.stripSuffix (Char8.pack "\0") bytes)

-- A marker by its text.
markers :: Map.Map ByteString Marker
markers = Map.fromList [(markerText k, k) | k <- [minBound ..]]

takeBytes :: Ptr Word8 -> Int -> IO ByteString
takeBytes p n = Bytes.packCStringLen (castPtr p, n)

-- Time passes: was any thread ready?
moveOn :: Model -> Int -> IO ()
moveOn m time = do
  n <- readPrimArray (modelGlobal m) gReady
  before <- readPrimArray (modelGlobal m) gNow
  when (n > 0 && time > before) (add (modelGlobal m) gIntegral (time - before))
  when (time > before) (writePrimArray (modelGlobal m) gNow time)
{-# INLINE moveOn #-}

-- A thread changes its state.
becomes :: Model -> Int -> Int -> Int -> IO ()
becomes m t state time = do
  before <- threadGet m t tState
  since <- threadGet m t tSince
  let took = max 0 (time - since)
  when (before == ready) (add (modelGlobal m) gReady (-1))
  when (state == ready) (add (modelGlobal m) gReady 1)
  when (before == running) $ do
    add (modelThreads m) (t * threadWords + tRan) took
    add (modelThreads m) (t * threadWords + tRuns) 1
    recordValue (modelRunning m) took
    raise (modelGlobal m) gRunMax took
  when (before == blocked && state /= blocked) $ do
    add (modelThreads m) (t * threadWords + tWaited) took
    add (modelThreads m) (t * threadWords + tWaits) 1
    raise (modelThreads m) (t * threadWords + tWaitMax) took
    recordValue (modelWaiting m) took
    raise (modelGlobal m) gWaitMax took
    reason <- (\r -> if r < reasons then r else 0) <$> threadGet m t tReason
    add (modelBlocked m) (3 * reason) 1
    add (modelBlocked m) (3 * reason + 1) took
    raise (modelBlocked m) (3 * reason + 2) took
  when (before == ready && state == running) $ do
    add (modelThreads m) (t * threadWords + tReadied) took
    add (modelThreads m) (t * threadWords + tWakes) 1
    raise (modelThreads m) (t * threadWords + tReadyMax) took
    add (modelThreads m) (t * threadWords + tBuckets + log2 took) 1
    recordValue (modelReady m) took
    raise (modelGlobal m) gReadyMax took
  threadPut m t tState state
  threadPut m t tSince time

log2 :: Int -> Int
log2 n = min 41 (63 - countLeadingZeros (n + 1))

-- A core's interval ends; the core is idle then.
leave :: Log -> Model -> Int -> Int -> Reason -> IO ()
leave l m i time reason = do
  state <- cget coreState
  since <- cget coreSince
  let took = max 0 (time - since)
  if state == isIdle
    then do
      integral <- readPrimArray (modelGlobal m) gIntegral
      before <- cget coreIntegral
      let withReady = min took (integral - before)
      why <- (\r -> if r < reasons then r else 0) <$> cget coreReason
      cadd coreIdled took
      cadd coreIdledReady withReady
      add (modelIdle m) (i * reasons + why) (took - withReady)
    else do
      cadd (if state == isRunning then coreRan else coreCollected) took
      t <- cget coreThread
      if state == isRunning
        then do
          number <- threadGet m t tNumber
          wake <- cget coreWake
          onSlice (modelListener m) (Slice (streamCapability l i) number since time wake reason)
        else do
          cput corePause took
          recordValue (modelPause m) took
          raise (modelGlobal m) gPauseMax took
          pending <- cget corePending
          when (pending >= 0) (collected m pending took >> cput corePending (-1))
          onSlice (modelListener m) (Slice (streamCapability l i) (-1) since time (-1) 0)
  cput coreState isIdle
  cput coreSince time
  readPrimArray (modelGlobal m) gIntegral >>= cput coreIntegral
  where
    cget :: Int -> IO Int
    cget f = readPrimArray (modelCores m) (i * coreWords + f)
    cput :: Int -> Int -> IO ()
    cput f = writePrimArray (modelCores m) (i * coreWords + f)
    cadd :: Int -> Int -> IO ()
    cadd f = add (modelCores m) (i * coreWords + f)

collected :: Model -> Int -> Int -> IO ()
collected m generation took = do
  add (modelGenerations m) (4 * generation) 1
  add (modelGenerations m) (4 * generation + 1) took
  raise (modelGenerations m) (4 * generation + 2) took

-- A thread's place, by its number.
slotOf :: Model -> Int -> Int -> IO Int
slotOf m time number = probe (number * 0x9E3779B97F4A7C1 `unsafeShiftR` 20)
  where
    probe :: Int -> IO Int
    probe from = do
      let i = from .&. (tableWords - 1)
      t <- readPrimArray (modelTable m) i
      if t < 0
        then do
          n <- readPrimArray (modelGlobal m) gThreads
          if n == maxThreads
            then thinOut m >> slotOf m time number
            else do
              setPrimArray (modelThreads m) (n * threadWords) threadWords 0
              threadPut m n tNumber number
              threadPut m n tSince time
              threadPut m n tFirst time
              writePrimArray (modelTable m) i n
              writePrimArray (modelGlobal m) gThreads (n + 1)
              pure n
        else do
          here <- threadGet m t tNumber
          if here == number then pure t else probe (i + 1)

-- Keep half of the threads: those that run, and those that ran and waited for a core most.
thinOut :: Model -> IO ()
thinOut m = do
  n <- readPrimArray (modelGlobal m) gThreads
  scored <- forM [0 .. n - 1] $ \t -> do
    state <- threadGet m t tState
    ran <- threadGet m t tRan
    most <- threadGet m t tReadyMax
    pure (if state == running then maxBound else ran + most, t)
  let (kept, dropped) = splitAt (maxThreads `div` 2) (map snd (sortOn Down scored))
      keeping = zip [0 ..] (IntMap.keys (IntMap.fromList [(t, ()) | t <- kept]))
  forM_ dropped $ \t -> do
    add (modelGlobal m) gOthers 1
    threadGet m t tRan >>= add (modelGlobal m) gOthersRan
    state <- threadGet m t tState
    when (state == ready) (add (modelGlobal m) gReady (-1))
  -- In ascending order, so that a move never overwrites what is still to be moved.
  numbers <- forM keeping $ \(new, old) -> do
    unless (new == old) (copyMutablePrimArray (modelThreads m) (new * threadWords) (modelThreads m) (old * threadWords) threadWords)
    threadGet m new tNumber
  let places = IntMap.fromDistinctAscList [(old, new) | (new, old) <- keeping]
  cores <- (`div` coreWords) <$> getSizeofMutablePrimArray (modelCores m)
  forM_ [0 .. cores - 1] $ \i -> do
    t <- readPrimArray (modelCores m) (i * coreWords + coreThread)
    writePrimArray (modelCores m) (i * coreWords + coreThread) (IntMap.findWithDefault 0 t places)
  setPrimArray (modelTable m) 0 tableWords (-1)
  writePrimArray (modelGlobal m) gThreads (length numbers)
  forM_ (zip [0 ..] numbers) $ \(t, number) -> insert (number * 0x9E3779B97F4A7C1 `unsafeShiftR` 20) t
  labels <- readRef (modelLabels m)
  writeRef (modelLabels m) $! IntMap.intersection labels (IntMap.fromList [(number, ()) | number <- numbers])
  where
    insert :: Int -> Int -> IO ()
    insert from t = do
      let i = from .&. (tableWords - 1)
      there <- readPrimArray (modelTable m) i
      if there < 0 then writePrimArray (modelTable m) i t else insert (i + 1) t
{-# NOINLINE thinOut #-}
