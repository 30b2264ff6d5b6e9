-- See Note [No safe point] in "Heddle.Sched.Pool".
{-# OPTIONS_GHC -O2 #-}

-- |
-- Module      : Heddle.Sched.Cancel
-- Description : Interrupting tasks that run
-- Stability   : internal
--
-- An exception thrown to a worker must hit the task it is meant for, and neither the next task
-- nor the scheduler. Note [Handshake] describes how.
--
-- Cost: nothing until something is cancelled, then O(workers) and a lock.
-- Owner: each word is written by the side that its name says.
module Heddle.Sched.Cancel
  ( -- * The worker's side
    indexWord,
    runningWord,
    lentWord,
    between,
    isAnnounced,
    settle,
    absorbing,

    -- * The other side
    interruptWhere,
  )
where

import Control.Monad (when)
import Heddle.Prim.Atomic
  ( atomicRead,
    atomicWrite,
    readEntry,
    readRef,
    readWord,
  )
import Heddle.Prim.Exception (SomeException, throwTo, try)
import Heddle.Prim.Lock (withLock)
import Heddle.Prim.Thread (strongThread, yield)
import Heddle.Sched.Types

-- | Where in 'workerWords': the index of the next fork; whether user code runs (0, 1, or
-- 'between'; both the owner's line); and, on the line of the others, whether a caller has
-- given the worker its run.
indexWord, runningWord, interruptWord, lentWord :: Int
indexWord = 0
runningWord = 1
interruptWord = 8
lentWord = 9

-- | What 'runningWord' holds while the worker goes from one task to the next without a
-- safe point, and may have looked already whether that one is wanted.
between :: Int
between = 2

-- | Has another thread announced an interrupt? No safe point.
isAnnounced :: Worker -> IO Bool
isAnnounced w = (/= 0) <$> readWord (workerWords w) interruptWord
{-# INLINE isAnnounced #-}

-- | Called after the end of a task and a full barrier: if another thread has announced an
-- interrupt of that task, wait until it has been delivered.
--
-- [Cost]: one read.
-- [Masking]: to be called masked; parks only if announced.
settle :: Worker -> IO ()
settle w = do
  announced <- readWord (workerWords w) interruptWord
  when (announced /= 0) (wait w)
{-# INLINE settle #-}

wait :: Worker -> IO ()
wait w = do
  absorbing (withLock (workerHandshake w) (pure ()))
  settle w
{-# NOINLINE wait #-}

-- | Repeat an action until it ends without an exception. An exception thrown at the worker
-- meanwhile was meant for the task that has just ended, and is dropped. An exception thrown at the
-- caller of a run never arrives here, since the caller waits on a thread of its own.
--
-- [Masking]: to be called masked, so that an exception leaves the action only where it parks,
-- before it has changed anything.
absorbing :: IO a -> IO a
absorbing action =
  try action >>= \case
    Right a -> pure a
    Left (_ :: SomeException) -> absorbing action

-- | Throw 'Interrupt' at every worker that runs such a task, except the one with this number,
-- and return when each has received it.
--
-- [Cost]: O(workers).
-- [Blocks]: while a worker runs masked, or does not allocate.
-- [Masking]: to be called masked. The condition must also hold for the tasks that such a task
-- forks.
interruptWhere :: Pool -> Int -> (Task -> IO Bool) -> IO ()
interruptWhere pool except wanted = do
  Workers {workersAll = workers, workersMany = many} <- readRef (poolWorkers pool)
  let go i
        | i == many = pure ()
        | otherwise = do
          victim <- readEntry workers i
          when (workerId victim /= except) $ do
            first <- hits victim
            when first (absorbing (withLock (workerHandshake victim) (interrupt victim)))
          go (i + 1)
  go 0
  where
    hits victim = do
      running <- atomicRead (workerWords victim) runningWord
      if running == between
        then yield >> hits victim
        else do
          task <- readRef (workerTask victim)
          if running == 0 then pure False else wanted task
    interrupt victim = do
      atomicWrite (workerWords victim) interruptWord 1
      still <- hits victim
      when still $
        readRef (workerThread victim) >>= mapM_ (\weak -> strongThread weak >>= mapM_ (throwAt victim))
      atomicWrite (workerWords victim) interruptWord 0
    throwAt victim thread = absorbing (throwTo thread (Interrupt (workerId victim)))

-- Note [Handshake]
-- ~~~~~~~~~~~~~~~~
-- The worker, at the end of a task: running := 0 (or 'between'); full barrier; read the
-- announcement. The other side, under the worker's lock: announce := 1; full barrier; read
-- running and the task. So either the worker sees the announcement, and waits for the lock (parked,
-- where the interrupt reaches it and is dropped), or the other side sees that the task
-- has ended. If it sees that a task runs, that task cannot end unnoticed: the interrupt
-- hits its code, or the wait after it, and nothing else. The task it reads may since have
-- forked, and the worker gone over to the child, which has the same fate.
--
-- At the beginning of a task, the thread that cancels sets a flag first: the worker writes running
-- (1, or 'between'), full barrier, reads the flag; the other side writes the flag, full barrier,
-- reads running. So either the worker drops the task, or the other side sees it run; while the
-- other side reads 'between', a stretch without a safe point, it waits.
--
-- A worker that throws may itself be thrown at: it drops that exception and goes on, since it runs
-- no task then. The caller of a run, which interrupts that run's tasks when something is thrown at
-- it, does so uninterruptibly. It may be a task of another run, which then waits for it; the
-- reverse never happens, so there is no cycle of waits.
