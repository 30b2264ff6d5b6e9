-- |
-- Module      : Heddle.Trace.Result
-- Description : The values that a model has come to
-- Stability   : internal
--
-- Cost: a few microseconds for each thread.
-- Owner: the thread that reads the log.
module Heddle.Trace.Result
  ( result,
  )
where

import Control.Monad (forM, when)
import Data.Bits (unsafeShiftL)
import Data.ByteString (ByteString)
import Data.ByteString qualified as Bytes
import Data.ByteString.Char8 qualified as Char8
import Data.IntMap.Strict qualified as IntMap
import Data.List (sortOn)
import Data.Ord (Down (..))
import Data.Primitive.PrimArray
import Heddle.Prim.Atomic (readRef)
import Heddle.Prim.Histogram (Recorder, quantile, snapshot, valueCount)
import Heddle.Prim.Trace (Marker)
import Heddle.Trace.Log
import Heddle.Trace.State
import Heddle.Trace.Types

distribution :: Recorder -> Int -> IO Distribution
distribution recorder most = do
  h <- snapshot recorder
  let at q = min most (quantile q h)
  pure $! Distribution (valueCount h) (at 0.5) (at 0.9) (at 0.99) most

-- | The results at the log's end.
result :: Log -> Model -> IO Trace
result l m = do
  labels <- readRef (modelLabels m)
  command <- readRef (modelCommand m)
  runtime <- readRef (modelRuntime m)
  [events, messages, heap, readyMax, runMax, waitMax, pauseMax, others, othersRan, threads] <-
    mapM (readPrimArray (modelGlobal m)) [gEvents, gMessages, gHeap, gReadyMax, gRunMax, gWaitMax, gPauseMax, gOthers, gOthersRan, gThreads]
  cores <- forM [i | i <- [0 .. logStreams l - 1], streamCapability l i >= 0] $ \i -> do
    [ran, gc, idled, idledReady, runs] <- mapM (\f -> readPrimArray (modelCores m) (i * coreWords + f)) [coreRan, coreCollected, coreIdled, coreIdledReady, coreCount]
    why <- mapM (\r -> (,) r <$> readPrimArray (modelIdle m) (i * reasons + r)) [0 .. reasons - 1]
    sparks <- mapM (\k -> readPrimArray (modelSparks m) (8 * i + k)) [0 .. 6]
    marks <- mapM (\k -> readPrimArray (modelMarkers m) (kinds * i + fromEnum k)) [minBound .. maxBound :: Marker]
    pure (Core (streamCapability l i) ran gc idled idledReady [w | w@(_, n) <- why, n > 0] runs sparks marks)
  rows <- forM [0 .. threads - 1] $ \t -> do
    counts <- mapM (threadGet m t . (tBuckets +)) [0 .. 41]
    [number, runs, ran, waits, waited, waitMost, wakes, readied, readyMost, migrations, first', reason] <-
      mapM (threadGet m t) [tNumber, tRuns, tRan, tWaits, tWaited, tWaitMax, tWakes, tReadied, tReadyMax, tMigrations, tFirst, tReason]
    role <- threadGet m t tRole
    pure $
      Thread
        number
        (IntMap.findWithDefault (named role) number labels)
        runs
        ran
        waits
        waited
        waitMost
        wakes
        readied
        (min readyMost (coarse counts wakes 0.5))
        (min readyMost (coarse counts wakes 0.99))
        readyMost
        migrations
        first'
        reason
  workers <- forM [0 .. threads - 1] $ \t -> do
    doing <- threadGet m t tDoing
    when (doing /= doesNothing) (does m t doing (logEnd l))
    [number, ran, searched, slept, steals] <- mapM (threadGet m t) [tNumber, tTasks, tTasks + 1, tTasks + 2, tSteals]
    pure [Worker number (IntMap.findWithDefault (named 2) number labels) ran searched slept steals | doing /= doesNothing]
  collections <- forM [0 .. generations - 1] $ \g -> do
    [n, time, most, copied] <- mapM (\k -> readPrimArray (modelGenerations m) (4 * g + k)) [0 .. 3]
    pure (Collections g n time most copied)
  waits <- forM [0 .. reasons - 1] $ \r -> do
    [n, time, most] <- mapM (\k -> readPrimArray (modelBlocked m) (3 * r + k)) [0 .. 2]
    pure (Blocked r n time most)
  runs <- distribution (modelRunning m) runMax
  wakes <- distribution (modelReady m) readyMax
  waited <- distribution (modelWaiting m) waitMax
  pauses <- distribution (modelPause m) pauseMax
  pure
    Trace
      { traceCommand = command,
        traceRuntime = runtime,
        traceBegin = logBegin l,
        traceEnd = logEnd l,
        traceEvents = events,
        traceCores = sortOn coreNumber cores,
        traceThreads = sortOn (Down . threadRunning) rows,
        traceOthers = (others, othersRan),
        traceRun = runs,
        traceReady = wakes,
        traceWait = waited,
        tracePause = pauses,
        traceCollections = filter ((> 0) . collectionsCount) collections,
        traceWorkers = sortOn workerThread (concat workers),
        traceBlocked = sortOn (Down . blockedTime) (filter ((> 0) . blockedCount) waits),
        traceMessages = messages,
        traceHeapMax = heap
      }
  where
    -- A log that was started in a running program has no labels of the threads that ran before.
    named :: Int -> ByteString
    named role
      | role == 1 = Char8.pack "event manager"
      | role == 2 = Char8.pack "worker"
      | otherwise = Bytes.empty
    -- By powers of two: within a bucket, as if evenly spread.
    coarse counts total part = go (0 :: Int) 0 counts
      where
        wanted = max 1 (ceiling (part * fromIntegral total :: Double)) :: Int
        go _ _ [] = 0
        go b n (c : rest)
          | n + c >= wanted && c > 0 = low + ((wanted - n) * low) `div` c
          | otherwise = go (b + 1) (n + c) rest
          where
            low = 1 `unsafeShiftL` b
