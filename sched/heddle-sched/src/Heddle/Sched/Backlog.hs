-- |
-- Module      : Heddle.Sched.Backlog
-- Description : Not running ahead of the tasks that others wake
-- Stability   : internal
--
-- A worker whose task must wait goes on with the rest of the task that forked it. If that forks a task which waits
-- for the one before it, and so on, and the first of them is on another worker, this worker makes waiting tasks
-- faster than the other can wake them, or makes them while the system has stopped the other: all of them at
-- last, where one worker alone would have had one at a time. So while very many tasks of its scope wait and others
-- are waking them, a worker helps those others, or naps.
--
-- It never waits for anything in particular. What it has left to do stays in its deque, where others may steal it;
-- and if nobody wakes a task for a tenth of a second, it goes on.
--
-- Cost: a read and a store for each task that waits; at each 4,096th of them O(capabilities).
-- Owner: each worker counts its own.
module Heddle.Sched.Backlog
  ( holdBack,
  )
where

import Heddle.Prim.Atomic (readRef, readWord, writeWord)
import Heddle.Prim.Clock (microseconds)
import Heddle.Prim.Thread (nap)
import Heddle.Sched.RunQueue (parksLeftWord, resumedWord)
import Heddle.Sched.Scope (countsOfWaiting, isPlain)
import Heddle.Sched.Steal (probeAll)
import Heddle.Sched.Types

-- | How many tasks of a scope may wait before a worker looks whether others wake them.
mostWaiting :: Int
mostWaiting = 32768

-- | A task of the scope has begun to wait, and its worker is about to go on: with work that it has stolen instead of
-- its own, if there is some.
--
-- [Blocks]: while more tasks wait than 'mostWaiting', until half of them do, and others wake some each 0.1 seconds.
-- [Masking]: to be called masked, between tasks.
-- [Threads]: the worker's.
holdBack :: Worker -> Scope -> IO (Maybe Work)
holdBack w s = do
  left <- readWord (workerWords w) parksLeftWord
  if left > 0 then Nothing <$ writeWord (workerWords w) parksLeftWord (left - 1) else look w s
{-# INLINE holdBack #-}

look :: Worker -> Scope -> IO (Maybe Work)
look w s = do
  affinity <- readRef (workerAffinity w)
  before <- readWord (workerWords w) resumedWord
  (waiting, resumed) <- countsOfWaiting s
  let helpOr none =
        probeAll w affinity >>= \case
          -- Before it makes another that waits, it looks again.
          Just work -> pure (Just work)
          Nothing -> none
      goOn now = do
        writeWord (workerWords w) parksLeftWord 4095
        writeWord (workerWords w) resumedWord now
        pure Nothing
      hold :: Int -> Int -> IO (Maybe Work)
      hold then' left = do
        nap (microseconds 1000)
        (waiting', now) <- countsOfWaiting s
        plain <- isPlain s
        let left' = if now == then' then left - 1 else naps
        if waiting' <= mostWaiting `quot` 2 || not plain || left' == 0 then goOn now else helpOr (hold now left')
  if waiting <= mostWaiting
    then goOn resumed
    else
      helpOr $
        -- Where hardly any has been woken since the last look, they wait for this worker, perhaps.
        if resumed - before > 255 then hold resumed naps else goOn resumed
{-# NOINLINE look #-}

-- | How many naps of a millisecond may pass in which nobody wakes a task: more than the system mostly stops a
-- thread for.
naps :: Int
naps = 100
