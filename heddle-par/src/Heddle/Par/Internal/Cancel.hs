-- |
-- Module      : Heddle.Par.Internal.Cancel
-- Description : Interrupting tasks that run
-- Stability   : internal
--
-- Throwing an exception to a worker is easy; that it hits the task it is meant for, and
-- not the next one, or the scheduler, takes the handshake of Note [Handshake].
--
-- Cost: nothing until something is cancelled, then O(workers) and a lock.
-- Owner: each word is written by the side that its name says.
module Heddle.Par.Internal.Cancel
  ( -- * The worker's side
    indexWord,
    runningWord,
    lentWord,
    between,
    isAnnounced,
    settle,
    absorbing,
    keep,

    -- * The other side
    interruptWhere,
  )
where

import Control.Monad (when)
import Heddle.Par.Internal.Scope (markCancelled)
import Heddle.Par.Internal.Types
import Heddle.Prim.Atomic
  ( atomicRead,
    atomicWrite,
    modifyRef,
    readEntry,
    readRef,
    readWord,
    tableSize,
  )
import Heddle.Prim.Exception (Exception (..), SomeException, throwTo, try)
import Heddle.Prim.Lock (withLock)
import Heddle.Prim.Thread (yield)

-- | Where in 'workerWords': the index of the next fork; whether user code runs (0, 1, or
-- 'between'; both the owner's line); and, on the line of the others, whether a guest has
-- borrowed the worker.
indexWord, runningWord, interruptWord, lentWord :: Int
indexWord = 0
runningWord = 1
interruptWord = 8
lentWord = 9

-- | What 'runningWord' holds while the worker goes from one task to the next without a
-- safe point, and may have looked already whether that one is wanted.
between :: Int
between = 2

-- | Has somebody announced to interrupt? Without a safe point.
isAnnounced :: Worker -> IO Bool
isAnnounced w = (/= 0) <$> readWord (workerWords w) interruptWord
{-# INLINE isAnnounced #-}

-- | After the end of a task and a full barrier: if somebody has announced to interrupt
-- it, wait until they have.
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
  absorbing w (withLock (workerHandshake w) (pure ()))
  settle w
{-# NOINLINE wait #-}

-- | Do it to its end; what is thrown at the worker meanwhile is kept for later, except an
-- interrupt that was meant for the task just ended.
--
-- [Masking]: to be called masked, so that the action is left only where it parks, before
-- it has done anything.
absorbing :: Worker -> IO a -> IO a
absorbing w action =
  try action >>= \case
    Right a -> pure a
    Left e -> note w e >> absorbing w action

note :: Worker -> SomeException -> IO ()
note w e = case fromException e of
  Just (Interrupt i) | i == workerId w -> pure ()
  _ -> keep w e

-- | Keep what came from outside, the first if there are several; the run is not wanted
-- any more.
--
-- [Cost]: O(1).
keep :: Worker -> SomeException -> IO ()
keep w e =
  readRef (workerHome w) >>= \case
    -- To a thread of the pool, whose number a task gave away, and too late: it is nobody's.
    Everybody -> pure ()
    Only s -> do
      modifyRef (workerPending w) $ \case
        Nothing -> (Just e, ())
        first -> (first, ())
      markCancelled s

-- | Throw 'Interrupt' at every other worker that runs such a task, and return when each
-- has received it.
--
-- [Cost]: O(workers).
-- [Blocks]: while a worker runs masked, or does not allocate.
-- [Masking]: to be called masked. The condition must go on to hold for what the task
-- forks.
interruptWhere :: Worker -> (Task -> Bool) -> IO ()
interruptWhere w wanted = do
  workers <- workersAll <$> readRef (poolWorkers (workerPool w))
  let go i
        | i == tableSize workers = pure ()
        | otherwise = do
          victim <- readEntry workers i
          when (workerId victim /= workerId w) $ do
            first <- hits victim
            when first (absorbing w (withLock (workerHandshake victim) (interrupt victim)))
          go (i + 1)
  go 0
  where
    hits victim = do
      running <- atomicRead (workerWords victim) runningWord
      if running == between
        then yield >> hits victim
        else do
          task <- readRef (workerTask victim)
          pure (running /= 0 && wanted task)
    interrupt victim = do
      atomicWrite (workerWords victim) interruptWord 1
      still <- hits victim
      when still $
        readRef (workerThread victim)
          >>= mapM_ (\thread -> absorbing w (throwTo thread (Interrupt (workerId victim))))
      atomicWrite (workerWords victim) interruptWord 0

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
-- And at the beginning of a task, where whoever cancels first sets a flag: the worker
-- writes running (1, or 'between'), full barrier, reads the flag; the other side writes
-- the flag, full barrier, reads running. So either the worker drops the task, or the other
-- side sees it run; while it reads 'between', which has no safe point in it, it waits.
--
-- Whoever throws may itself be thrown at (it is another run's worker, deeper on the same
-- thread): it keeps the exception and goes on, so nobody waits for anybody for ever.
