-- |
-- Module      : Heddle.Trace.Types
-- Description : What is found out about cores and threads
-- Stability   : internal
--
-- The values that "Heddle.Trace.Model" makes, and re-exports.
--
-- Cost: none. Owner: values.
module Heddle.Trace.Types
  ( -- * While reading
    Listener (..),
    silent,
    Slice (..),

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

import Data.ByteString (ByteString)
import Data.ByteString qualified as Bytes
import Data.ByteString.Char8 qualified as Char8
import Heddle.Prim.Trace (Marker)

-- | Why a thread stopped, as the runtime counts: 1 to 5 are how it ended its turn, 6 is a foreign call, others are what
-- it is blocked on.
type Reason = Int

-- | In a few words.
reasonName :: Reason -> String
reasonName r = case r of
  0 -> "not known"
  1 -> "heap check"
  2 -> "stack overflow"
  3 -> "time slice over"
  4 -> "blocked"
  5 -> "finished"
  6 -> "foreign call"
  7 -> "MVar"
  8 -> "another thread's evaluation"
  9 -> "file to be readable"
  10 -> "file to be writable"
  11 -> "delay"
  12 -> "STM"
  16 -> "foreign call"
  17 -> "interruptible foreign call"
  18 -> "exception to be received"
  19 -> "migration"
  20 -> "MVar (read)"
  24 -> "descriptor (heddle-io)"
  25 -> "work (heddle-sched)"
  _ -> "reason " ++ show r

-- | A core's run of a thread, or its collection.
data Slice = Slice
  { sliceCore :: !Int,
    -- | -1: a collection.
    sliceThread :: !Int,
    sliceBegin :: !Int,
    sliceEnd :: !Int,
    -- | How long the thread had been ready before, in nanoseconds; -1 if that is not known.
    sliceReady :: !Int,
    -- | Why the thread stopped; 0 if the log ends first. Of a collection: 0.
    sliceReason :: !Reason
  }
  deriving stock (Eq, Show)

-- | What is done with what passes by.
data Listener = Listener
  { onSlice :: Slice -> IO (),
    -- | The core (-1: none), the time, and a message or a marker of the program.
    onMessage :: Int -> Int -> ByteString -> IO (),
    -- | The core, the time, and the marker.
    onMarker :: Int -> Int -> Marker -> IO ()
  }

-- | Nothing is done.
silent :: Listener
silent = Listener (\_ -> pure ()) (\_ _ _ -> pure ()) (\_ _ _ -> pure ())

-- | A summary of durations in nanoseconds.
data Distribution = Distribution {distributionCount, distributionMedian, distribution90, distribution99, distributionMax :: !Int}
  deriving stock (Eq, Show)

-- | A core's time, in nanoseconds.
data Core = Core
  { coreNumber :: !Int,
    coreRunning :: !Int,
    coreCollecting :: !Int,
    coreIdle :: !Int,
    -- | The part of 'coreIdle' in which some thread was ready.
    coreIdleReady :: !Int,
    -- | The rest of it, by what the last thread on this core waited for.
    coreIdleReasons :: ![(Reason, Int)],
    coreRuns :: !Int,
    -- | Sparks: created, duds, overflowed, converted, collected, fizzled, left.
    coreSparks :: ![Int],
    -- | Of each kind, in the order of 'Marker'.
    coreMarkers :: ![Int]
  }
  deriving stock (Eq, Show)

-- | A thread; times are in nanoseconds.
data Thread = Thread
  { threadNumber :: !Int,
    threadLabel :: !ByteString,
    threadRuns, threadRunning :: !Int,
    threadWaits, threadWaiting, threadWaitMax :: !Int,
    threadWakes, threadReady, threadReadyMedian, threadReady99, threadReadyMax :: !Int,
    threadMigrations :: !Int,
    threadFirst :: !Int,
    threadReason :: !Reason
  }
  deriving stock (Eq, Show)

-- | The collections of one generation.
data Collections = Collections {collectionsGeneration, collectionsCount, collectionsTime, collectionsMax, collectionsCopied :: !Int}
  deriving stock (Eq, Show)

-- | How often threads were blocked for a reason, and how long in all and at most.
data Blocked = Blocked {blockedReason :: !Reason, blockedCount, blockedTime, blockedMax :: !Int}
  deriving stock (Eq, Show)

-- | A worker of heddle-sched, by its thread: how long it ran tasks, looked for work and slept, in nanoseconds, and how often
-- it stole. Times count whether its thread had a core or not.
data Worker = Worker {workerThread :: !Int, workerLabel :: !ByteString, workerRunning, workerSearching, workerSleeping, workerSteals :: !Int}
  deriving stock (Eq, Show)

-- | All of it.
data Trace = Trace
  { -- | The program and its arguments, as it was started; empty if the log does not say.
    traceCommand :: ![ByteString],
    -- | The runtime's version.
    traceRuntime :: !ByteString,
    traceBegin, traceEnd :: !Int,
    traceEvents :: !Int,
    traceCores :: ![Core],
    -- | By the time that they ran, longest first.
    traceThreads :: ![Thread],
    -- | Threads that are not in 'traceThreads', and the time that they ran.
    traceOthers :: !(Int, Int),
    traceRun, traceReady, traceWait, tracePause :: !Distribution,
    traceCollections :: ![Collections],
    traceBlocked :: ![Blocked],
    -- | By number of thread.
    traceWorkers :: ![Worker],
    traceMessages :: !Int,
    traceHeapMax :: !Int
  }
  deriving stock (Eq, Show)

-- | A thread's label and number.
threadName :: Int -> ByteString -> ByteString
threadName number label
  | Bytes.null label = Char8.pack ("thread " ++ show number)
  | otherwise = label <> Char8.pack (" (" ++ show number ++ ")")
