-- See Note [No safe point] in "Heddle.Sched.Pool".
{-# OPTIONS_GHC -O2 #-}

-- |
-- Module      : Heddle.Sched.Sleep
-- Description : Announcing sleep, and waking sleepers
-- Stability   : internal
--
-- A worker that is about to park sets its bit. The thread that takes the bit back owns the worker:
-- the worker's own, one that wakes it for work, or a caller that gives it a run.
--
-- Cost: a push reads two words while no worker sleeps.
-- Owner: the pool; the words are changed atomically.
module Heddle.Sched.Sleep
  ( -- * The pool's words
    sleepersWord,
    searchersWord,
    scopeNumberWord,
    capabilitiesWord,
    blockingWord,
    poolWordCount,
    maskWords,

    -- * Waking
    signal,
    wakeOne,
    wakeAll,
    accepts,

    -- * Sleeping
    setSleeping,
    isSleeping,
    stopSleeping,
    seePushes,
    parkQuietly,
  )
where

import Control.Monad (forM_, unless, void, when)
import Data.Bits (countTrailingZeros, testBit, unsafeShiftL, (.&.))
import Heddle.Prim.Atomic (atomicRead, compareAndSet, fetchAdd, fetchOr, readEntry, readRef, readWord, wordCount)
import Heddle.Prim.Clock (microseconds)
import Heddle.Prim.Exception (SomeException, mask_, try)
import Heddle.Prim.Thread (nap)
import Heddle.Prim.Trace (Marker (..), mark)
import Heddle.Prim.WaitCell (WaitCell, park, unpark)
import Heddle.Sched.Internal.Barrier (barrierEverywhere, canBarrierEverywhere)
import Heddle.Sched.Types

-- | Where in 'poolWords': how many workers sleep; how many search, and the number of the next
-- scope, each on a line of its own; and, on the last line, how many capabilities the pool has
-- seen and how many tasks block.
sleepersWord, searchersWord, scopeNumberWord, capabilitiesWord, blockingWord, poolWordCount :: Int
sleepersWord = 0
searchersWord = 8
scopeNumberWord = 16
capabilitiesWord = 24
blockingWord = 25
poolWordCount = 32

-- | Of 'poolMasks': how many workers each word has a bit for, and how many words there are.
maskBits, maskWords :: Int
maskBits = 60
maskWords = 16

-- | After a push: wake a worker, if some sleep and none is searching already.
--
-- [Cost]: two reads of words that seldom change.
signal :: Worker -> Scope -> IO ()
signal w s = do
  sleepers <- readWord (poolWords (workerPool w)) sleepersWord
  when (sleepers > 0) (wakeOne (workerPool w) s)
{-# INLINE signal #-}

wakeOne :: Pool -> Scope -> IO ()
wakeOne pool s = mask_ $ do
  searchers <- atomicRead (poolWords pool) searchersWord
  when (searchers == 0) $ do
    words' <- wordCount (poolMasks pool)
    let from word
          | word == words' = pure ()
          | otherwise = atomicRead (poolMasks pool) word >>= within' word
        within' word bits
          | bits == 0 = from (word + 1)
          | otherwise = do
            let bit = countTrailingZeros bits
                number = word * maskBits + bit
            -- After the bit: a worker is in the table before it first sleeps.
            workers <- workersAll <$> readRef (poolWorkers pool)
            victim <- readEntry workers number
            suits <- accepts s <$> readRef (workerAffinity victim)
            woken <- if suits then stopSleeping pool number else pure False
            when woken (mark SchedUnpark >> unpark (workerCell victim))
            -- It may meanwhile have been given other work.
            suited <- accepts s <$> readRef (workerAffinity victim)
            unless (woken && suited) (within' word (bits .&. (bits - 1)))
    from 0
{-# NOINLINE wakeOne #-}

-- | Wake every worker that sleeps, whatever work it takes.
--
-- [Cost]: O(workers).
-- [Blocks]: never.
-- [Masking]: to be called masked.
wakeAll :: Pool -> IO ()
wakeAll pool = do
  Workers {workersAll = workers, workersMany = many} <- readRef (poolWorkers pool)
  forM_ [0 .. many - 1] $ \number -> do
    woken <- stopSleeping pool number
    when woken (mark SchedUnpark >> readEntry workers number >>= unpark . workerCell)

accepts :: Scope -> Affinity -> Bool
accepts s = \case
  AnyRun -> True
  Only mine -> scopeRun mine == scopeRun s
  Brief mine -> scopeRun mine == scopeRun s

setSleeping :: Pool -> Int -> IO ()
setSleeping pool number = when (number < maskBits * maskWords) $ do
  let (word, bit) = number `quotRem` maskBits
  before <- fetchOr (poolMasks pool) word (1 `unsafeShiftL` bit)
  unless (testBit before bit) (void (fetchAdd (poolWords pool) sleepersWord 1))

isSleeping :: Pool -> Int -> IO Bool
isSleeping pool number = do
  let (word, bit) = number `quotRem` maskBits
  if word >= maskWords then pure False else (`testBit` bit) <$> atomicRead (poolMasks pool) word

-- | Take a sleeper's bit; 'True' for exactly one of the threads that try.
stopSleeping :: Pool -> Int -> IO Bool
stopSleeping pool number
  | word >= maskWords = pure False
  | otherwise = go
  where
    (word, bit) = number `quotRem` maskBits
    go = do
      bits <- atomicRead (poolMasks pool) word
      if not (testBit bits bit)
        then pure False
        else do
          won <- compareAndSet (poolMasks pool) word bits (bits - (1 `unsafeShiftL` bit))
          if won then fetchAdd (poolWords pool) sleepersWord (-1) >> pure True else go

-- | Between the announcement and the last look at others' work: makes every push visible whose
-- worker could not yet see the announcement. See Note [Missed pushes].
--
-- [Cost]: a read for each worker; if another has a task, a system call of some microseconds.
seePushes :: Worker -> IO ()
seePushes w = do
  Workers {workersAll = workers, workersMany = many} <- readRef (poolWorkers pool)
  let anyBusy i
        | i == many = pure False
        | otherwise = do
          other <- readEntry workers i
          s <- taskScope <$> readRef (workerTask other)
          if scopeId s /= idle && workerId other /= workerId w then pure True else anyBusy (i + 1)
  busy <- anyBusy 0
  when busy $
    -- Where the kernel lacks membarrier: a store leaves its core's buffer within less than this.
    if canBarrierEverywhere then barrierEverywhere else nap (microseconds 50)
  where
    pool = workerPool w
    idle = scopeId (taskScope (poolIdleTask pool))

-- | Park a worker's thread. An exception thrown at it there is meant for a task that has ended.
parkQuietly :: WaitCell -> IO ()
parkQuietly cell =
  mark SchedSleep >> try (park cell) >>= \case
    Right () -> pure ()
    Left (_ :: SomeException) -> parkQuietly cell

-- Note [Missed pushes]
-- ~~~~~~~~~~~~~~~~~~~~
-- A push is plain stores, and then a plain read of the number of sleepers. A worker that goes to
-- sleep announces it (a locked instruction) and then looks at all workers' work. With nothing
-- else, the pusher's stores may still be in its core's buffer at that look, while its read has
-- found no sleeper: both miss. The pusher would mostly run the work itself, but if its task
-- blocks, waiting for the very work that it has pushed, no worker would be left to run it.
--
-- The pusher should pay nothing, so the sleeper issues a barrier on every core, between its
-- announcement and its look ('seePushes'). A push whose stores come before that barrier is seen
-- by the look; one whose stores come after reads the number of sleepers after it, too, and so
-- sees the announcement.
--
-- That is not needed where no other worker has a task. A worker takes one with a store to
-- 'workerTask' and then a locked instruction ('Heddle.Sched.Pool.start'), before the task
-- can push anything. If we do not see that store after our announcement, the locked instruction
-- comes later than the announcement, and so does each read of the sleepers that follows it.
