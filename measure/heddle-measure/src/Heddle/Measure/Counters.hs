{-# LANGUAGE PatternSynonyms #-}

-- |
-- Module      : Heddle.Measure.Counters
-- Description : Clocks, what the run-time system counts, and hardware counters
-- Stability   : stable
--
-- What can be read before and after a piece of work. Wall and CPU time and the allocations of the calling thread
-- are always there; copied bytes and collection time need the program's run-time option @-T@; instructions and
-- cache misses need a kernel that lets the user count them.
--
-- Cost: a reading takes about a microsecond, most of it for CPU time; two more system calls with hardware counters.
-- Owner: hardware counters belong to the operating-system thread that opened them, so only what a bound thread
-- itself does is counted.
module Heddle.Measure.Counters
  ( -- * Setting up
    Counters,
    CpuClock (..),
    withCounters,
    absentCounters,

    -- * Measuring
    Reading (..),
    measured,
    sampleInto,

    -- * Clocks of other processes
    processCpu,
  )
where

import Control.Monad (void, when)
import Data.Int (Int32, Int64)
import Foreign.Marshal.Alloc (allocaBytes)
import Foreign.Marshal.Array (advancePtr)
import Foreign.Ptr (Ptr)
import Foreign.Storable (peekElemOff, pokeElemOff)
import GHC.Stats (RTSStats (copied_bytes, gc_elapsed_ns), getRTSStats, getRTSStatsEnabled)
import Heddle.Measure.Samples (Field (..))
import Heddle.Prim.Clock (Nanos (..))
import Heddle.Prim.Errno (Errno (..), throwErrnoFor, pattern EINVAL)
import Heddle.Prim.Exception (bracket)
import System.Mem (getAllocationCounter)

-- Unsafe: reads clocks and counters, which never sleep.
foreign import ccall unsafe "heddle_measure_read"
  c_read :: Int32 -> Int32 -> Int32 -> Int32 -> Ptr Int64 -> IO ()

-- Unsafe: reads a clock.
foreign import ccall unsafe "heddle_measure_clock"
  c_clock :: Int32 -> IO Int64

-- Unsafe: makes a descriptor for the calling thread; there is nothing to wait for.
foreign import ccall unsafe "heddle_measure_perf_open"
  c_perf_open :: Int32 -> IO Int32

-- Unsafe: closes a counter's descriptor, which nothing else uses.
foreign import ccall unsafe "close"
  c_close :: Int32 -> IO Int32

-- | Whose CPU time is read.
data CpuClock
  = -- | The whole process: collector threads, sparks and other Haskell threads count.
    ProcessCpu
  | -- | The operating-system thread that reads it. The work must be done by a bound thread, such as the main one.
    ThreadCpu
  deriving stock (Eq, Show)

-- | What can be read here.
data Counters = Counters
  { cpuClock :: !Int32,
    instructionsFd :: !Int32,
    missesFd :: !Int32,
    collectorStats :: !Bool
  }

-- | Open the counters for the calling thread.
--
-- [Blocks]: never.
-- [Throws]: what the action throws; a counter that cannot be opened is left out.
withCounters :: CpuClock -> (Counters -> IO a) -> IO a
withCounters clock body =
  bracket (c_perf_open 0) close $ \instructions ->
    bracket (c_perf_open 1) close $ \misses -> do
      stats <- getRTSStatsEnabled
      body (Counters (case clock of ProcessCpu -> 2; ThreadCpu -> 3) instructions misses stats)
  where
    close fd = when (fd >= 0) (void (c_close fd))

-- | What cannot be read, and why, as sentences to show once.
absentCounters :: Counters -> [String]
absentCounters counters =
  ["copied bytes and collection time are not measured; run with +RTS -T, or link with \"-with-rtsopts=-T\"" | not (collectorStats counters)]
    ++ [ "instructions and cache misses are not measured: " ++ why (min (instructionsFd counters) (missesFd counters))
         | instructionsFd counters < 0 || missesFd counters < 0
       ]
  where
    why code
      | code `elem` [-1, -13] = "the kernel does not allow it (see /proc/sys/kernel/perf_event_paranoid; containers often forbid it)"
      | code `elem` [-2, -19, -95] = "this machine shows no hardware counters, as in many virtual machines"
      | otherwise = "perf_event_open failed with errno " ++ show (negate code)

-- | What a piece of work took. Times are in nanoseconds. What was not measured is negative.
data Reading = Reading
  { readWall :: !Int64,
    readCpu :: !Int64,
    readAllocated :: !Int64,
    readCopied :: !Int64,
    readGc :: !Int64,
    readInstructions :: !Int64,
    readCacheMisses :: !Int64
  }
  deriving stock (Eq, Show)

-- | Run an action once and measure it.
--
-- [Threads]: allocations and hardware events are those of the calling thread.
measured :: Counters -> IO a -> IO (a, Reading)
measured counters action = allocaBytes 64 $ \row -> do
  result <- sampleInto counters 1 action row
  let at field = peekElemOff row (fromEnum field)
  reading <- Reading <$> at Wall <*> at Cpu <*> at Allocated <*> at Copied <*> at Gc <*> at Instructions <*> at CacheMisses
  pure (result, reading)

-- | Run an action that does the given number of iterations, and write a row of 'Heddle.Measure.Samples.Samples'.
sampleInto :: Counters -> Int -> IO a -> Ptr Int64 -> IO a
sampleInto counters iterations action row = allocaBytes 64 $ \scratch -> do
  (copied, collecting) <- collector
  allowed <- getAllocationCounter
  readAll 0 scratch
  result <- action
  readAll 1 (scratch `advancePtr` 4)
  left <- getAllocationCounter
  (copied', collecting') <- collector
  let difference i = do
        before <- peekElemOff scratch i
        after <- peekElemOff (scratch `advancePtr` 4) i
        pure (if before < 0 || after < 0 then -1 else after - before)
  put Iterations (fromIntegral iterations)
  difference 0 >>= put Wall
  difference 1 >>= put Cpu
  put Allocated (allowed - left)
  put Copied (if collectorStats counters then copied' - copied else -1)
  put Gc (if collectorStats counters then collecting' - collecting else -1)
  difference 2 >>= put Instructions
  difference 3 >>= put CacheMisses
  pure result
  where
    put field = pokeElemOff row (fromEnum field)
    readAll = c_read (cpuClock counters) (instructionsFd counters) (missesFd counters)
    collector
      | collectorStats counters = do
        stats <- getRTSStats
        pure (fromIntegral (copied_bytes stats), gc_elapsed_ns stats)
      | otherwise = pure (0, 0)

-- | The CPU time that a process has used so far, with all its threads, those that have ended included; not its
-- children. 'Nothing' if there is no such process.
--
-- [Cost]: a system call.
-- [Throws]: 'IOException' if the clock of a process that is there cannot be read.
-- [Units]: nanoseconds.
processCpu :: Int -> IO (Maybe Nanos)
processCpu pid = do
  time <- c_clock (fromIntegral ((negate pid - 1) * 8 + 2))
  case Errno (negate (fromIntegral time)) of
    e
      | time >= 0 -> pure (Just (Nanos (fromIntegral time)))
      -- The clock of a process that is not there is an invalid one.
      | EINVAL <- e -> pure Nothing
      | otherwise -> throwErrnoFor ("the CPU time of process " ++ show pid) e
