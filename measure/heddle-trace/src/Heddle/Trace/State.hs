-- |
-- Module      : Heddle.Trace.State
-- Description : What the model knows of cores and threads while it reads a log
-- Stability   : internal
--
-- Rows of words: one for each core, each thread and each reason, whose columns are named here. "Heddle.Trace.Model" writes
-- them, and "Heddle.Trace.Result" makes values of them.
--
-- Cost: 32 MiB for the most threads that are kept, of which only the rows in use are touched.
-- Owner: the thread that reads the log.
module Heddle.Trace.State
  ( -- * All of it
    Model (..),
    newModel,
    maxThreads,

    -- * Words
    Ints,
    add,
    raise,
    threadGet,
    threadPut,
    does,

    -- * A core's columns
    coreWords,
    coreState,
    coreSince,
    coreThread,
    coreRan,
    coreCollected,
    coreIdled,
    coreIdledReady,
    coreIntegral,
    coreReason,
    coreCount,
    corePause,
    corePending,
    coreWake,
    coreWaits,

    -- ** Its states
    isIdle,
    isRunning,
    isCollecting,

    -- * A thread's columns
    threadWords,
    tNumber,
    tState,
    tSince,
    tRan,
    tRuns,
    tWaited,
    tWaitMax,
    tWaits,
    tReadied,
    tReadyMax,
    tWakes,
    tMigrations,
    tReason,
    tFirst,
    tDoing,
    tDoingSince,
    tTasks,
    tSteals,
    tBuckets,
    tRole,

    -- ** Its states
    unknown,
    running,
    ready,
    blocked,
    finished,

    -- ** What a worker does
    doesNothing,
    runsTasks,
    searches,
    sleeps,

    -- * Words of the whole log
    gReady,
    gNow,
    gIntegral,
    gThreads,
    gOthers,
    gOthersRan,
    gEvents,
    gMessages,
    gHeap,
    gReadyMax,
    gRunMax,
    gWaitMax,
    gPauseMax,

    -- * Numbers of rows
    reasons,
    generations,
    kinds,
    tableWords,
  )
where

import Control.Monad (forM_, when)
import Control.Monad.Primitive (RealWorld)
import Data.ByteString (ByteString)
import Data.ByteString qualified as Bytes
import Data.IntMap.Strict qualified as IntMap
import Data.Primitive.PrimArray
import Heddle.Prim.Atomic (Ref, newRef)
import Heddle.Prim.Histogram (Precision (..), Recorder, newRecorder)
import Heddle.Trace.Log
import Heddle.Trace.Types

-- | The most threads that are kept apart at one time.
maxThreads :: Int
maxThreads = 65536

type Ints = MutablePrimArray RealWorld Int

data Model = Model
  { modelCores :: !Ints,
    modelIdle :: !Ints,
    modelSparks :: !Ints,
    modelThreads :: !Ints,
    modelTable :: !Ints,
    modelGlobal :: !Ints,
    modelBlocked :: !Ints,
    modelGenerations :: !Ints,
    modelMarkers :: !Ints,
    modelLabels :: !(Ref (IntMap.IntMap ByteString)),
    modelCommand :: !(Ref [ByteString]),
    modelRuntime :: !(Ref ByteString),
    modelRunning, modelReady, modelWaiting, modelPause :: !Recorder,
    modelListener :: !Listener
  }

-- A core's words.
coreWords, coreState, coreSince, coreThread, coreRan, coreCollected, coreIdled, coreIdledReady, coreIntegral, coreReason, coreCount, corePause, corePending, coreWake, coreWaits :: Int
coreWords = 16
coreState = 0
coreSince = 1
coreThread = 2
coreRan = 3
coreCollected = 4
coreIdled = 5
coreIdledReady = 6
coreIntegral = 7
coreReason = 8
coreCount = 9
corePause = 10
corePending = 11
coreWake = 12
-- What the running thread has announced to wait for: a reason, or 0.
coreWaits = 13

-- A core's states.
isIdle, isRunning, isCollecting :: Int
isIdle = 0
isRunning = 1
isCollecting = 2

-- A thread's words; then come the counts of how long it was ready, by powers of two.
threadWords, tNumber, tState, tSince, tRan, tRuns, tWaited, tWaitMax, tWaits, tReadied, tReadyMax, tWakes, tMigrations, tReason, tFirst, tDoing, tDoingSince, tTasks, tSteals, tBuckets, tRole :: Int
threadWords = 64
tNumber = 0
tState = 1
tSince = 2
tRan = 3
tRuns = 4
tWaited = 5
tWaitMax = 6
tWaits = 7
tReadied = 8
tReadyMax = 9
tWakes = 10
tMigrations = 11
tReason = 12
tFirst = 13
-- For workers: what it is doing, since when, and the times of running, searching and sleeping.
tDoing = 14
tDoingSince = 15
tTasks = 16
tSteals = 19
tBuckets = 20
-- What it is by its markers: 1 an event manager, 2 a worker.
tRole = 62

-- A thread's states.
unknown, running, ready, blocked, finished :: Int
unknown = 0
running = 1
ready = 2
blocked = 3
finished = 4

-- What a worker is doing, in the order of its times; 0 for other threads.
doesNothing, runsTasks, searches, sleeps :: Int
doesNothing = 0
runsTasks = 1
searches = 2
sleeps = 3

-- The model's own words: how many threads are ready, when that was last looked at, for how long any was, the number of
-- threads in the table, how many and how much was added up, and counts.
gReady, gNow, gIntegral, gThreads, gOthers, gOthersRan, gEvents, gMessages, gHeap, gReadyMax, gRunMax, gWaitMax, gPauseMax :: Int
gReady = 0
gNow = 1
gIntegral = 2
gThreads = 3
gOthers = 4
gOthersRan = 5
gEvents = 6
gMessages = 7
gHeap = 8
gReadyMax = 9
gRunMax = 10
gWaitMax = 11
gPauseMax = 12

reasons, generations, kinds, tableWords :: Int
reasons = 32
kinds = 16
generations = 16
tableWords = 2 * maxThreads

zeros :: Int -> IO Ints
zeros n = do
  a <- newPrimArray n
  setPrimArray a 0 n 0
  pure a

add :: Ints -> Int -> Int -> IO ()
add a i n = readPrimArray a i >>= writePrimArray a i . (+ n)
{-# INLINE add #-}

raise :: Ints -> Int -> Int -> IO ()
raise a i n = readPrimArray a i >>= \before -> when (n > before) (writePrimArray a i n)
{-# INLINE raise #-}

threadGet :: Model -> Int -> Int -> IO Int
threadGet m t f = readPrimArray (modelThreads m) (t * threadWords + f)
{-# INLINE threadGet #-}

threadPut :: Model -> Int -> Int -> Int -> IO ()
threadPut m t f = writePrimArray (modelThreads m) (t * threadWords + f)
{-# INLINE threadPut #-}

-- A worker changes what it does.
does :: Model -> Int -> Int -> Int -> IO ()
does m t what time = do
  before <- threadGet m t tDoing
  since <- threadGet m t tDoingSince
  when (before /= doesNothing) (add (modelThreads m) (t * threadWords + tTasks + before - 1) (max 0 (time - since)))
  threadPut m t tDoing what
  threadPut m t tDoingSince time
  threadPut m t tRole 2

-- | A model in which nothing has happened yet, and all cores are idle from the log's beginning.
newModel :: Log -> Listener -> IO Model
newModel l listener = do
  let streams = logStreams l
  table <- newPrimArray tableWords
  setPrimArray table 0 tableWords (-1)
  m <-
    Model
      <$> zeros (coreWords * max 1 streams)
      <*> zeros (reasons * max 1 streams)
      <*> zeros (8 * max 1 streams)
      <*> newPrimArray (maxThreads * threadWords)
      <*> pure table
      <*> zeros 16
      <*> zeros (3 * reasons)
      <*> zeros (4 * generations)
      <*> zeros (kinds * max 1 streams)
      <*> newRef IntMap.empty
      <*> newRef []
      <*> newRef Bytes.empty
      <*> newRecorder (Precision 4)
      <*> newRecorder (Precision 4)
      <*> newRecorder (Precision 4)
      <*> newRecorder (Precision 4)
      <*> pure listener
  writePrimArray (modelGlobal m) gNow (logBegin l)
  forM_ [0 .. streams - 1] $ \i -> do
    writePrimArray (modelCores m) (i * coreWords + coreSince) (logBegin l)
    writePrimArray (modelCores m) (i * coreWords + corePending) (-1)
  pure m
