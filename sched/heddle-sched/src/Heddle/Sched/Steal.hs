-- |
-- Module      : Heddle.Sched.Steal
-- Description : The steal loop
-- Stability   : internal
--
-- Which victims a worker without work probes, for how long, and how much it steals.
--
-- Cost: borne by idle workers; a probe costs the victim at most one cache miss.
-- Owner: the worker that steals.
module Heddle.Sched.Steal
  ( stealLoop,
    probeAll,
    workExists,
    finished,
  )
where

import Control.Monad (forM_, unless, when)
import Data.Bits (shiftL, shiftR, xor, (.&.))
import Heddle.Prim.Atomic (readEntry, readRef, readWord, writeWord)
import Heddle.Prim.Clock (elapsed, microseconds, monotonicNow, nanosCount)
import Heddle.Prim.Thread (nap, yield)
import Heddle.Sched.Cancel (absorbing)
import Heddle.Sched.Deque (Stolen (..), offers, steal)
import Heddle.Sched.Internal.PrivateStack
import Heddle.Sched.RunQueue (markVictim, seedWord, taskCount)
import Heddle.Sched.Scope
import Heddle.Sched.Sleep
import Heddle.Sched.Types

-- | Steal, or give up. As long as others go from task to task, keep probing, instead of being woken
-- by each of their pushes: at once if they take more than two microseconds for a task, since then
-- there will be work worth stealing; after a nap if they are quicker.
--
-- The action probes all workers once.
stealLoop :: Worker -> Affinity -> IO (Maybe Work) -> IO (Maybe Work)
stealLoop w affinity look = go (0 :: Int) (0 :: Int) probes
  where
    go again napped looks = do
      before <- allTasks
      begin <- monotonicNow
      probeFor w affinity look looks >>= \case
        Just work -> pure (Just work)
        Nothing -> do
          now <- allTasks
          end <- monotonicNow
          done <- finished affinity
          if done || now == before || napped == naps
            then pure Nothing
            else
              if again < agains && nanosCount (elapsed begin end) > slowNanos * (now - before)
                then go (again + 1) napped probes
                else do
                  nap (microseconds (min 500 (20 * 2 ^ napped)))
                  go again (napped + 1) 4
    allTasks = do
      Workers {workersAll = workers, workersMany = many} <- readRef (poolWorkers (workerPool w))
      -- Without a list of them: there may be hundreds, and it is asked at each turn.
      let from !acc i
            | i == many = pure acc
            | otherwise = do
              victim <- readEntry workers i
              if workerId victim == workerId w then from acc (i + 1) else taskCount victim >>= \n -> from (acc + n) (i + 1)
      from 0 (0 :: Int)

-- | How often an idle worker probes all others before it parks, about 0.1 ms; how often it repeats
-- that while others have tasks of more than two microseconds; and how many naps it takes while
-- theirs are shorter, about 10 ms in all.
probes, agains, naps :: Int
probes = 60
agains = 40
naps = 24

probeFor :: Worker -> Affinity -> IO (Maybe Work) -> Int -> IO (Maybe Work)
probeFor _ _ _ 0 = pure Nothing
probeFor w affinity look n =
  look >>= \case
    Just work -> pure (Just work)
    Nothing -> do
      workers <- readRef (poolWorkers (workerPool w))
      done <- finished affinity
      if done || workersMany workers == 1
        then pure Nothing
        else yield >> probeFor w affinity look (n - 1)

-- | Probe every other worker's oldest work once, from a random one on.
probeAll :: Worker -> Affinity -> IO (Maybe Work)
probeAll w affinity = do
  let pool = workerPool w
  Workers {workersAll = workers, workersMany = size} <- readRef (poolWorkers pool)
  seed <- readWord (workerWords w) seedWord
  let a = seed `xor` (seed `shiftL` 13)
      b = a `xor` ((a `shiftR` 7) .&. 0x1ffffffffffffff)
      seed' = b `xor` (b `shiftL` 17)
      begin = (seed' .&. 0xffffff) `rem` size
      go k
        | k == size = pure Nothing
        | otherwise = do
          victim <- readEntry workers (if begin + k < size then begin + k else begin + k - size)
          if workerId victim == workerId w then go (k + 1) else from victim k
      from victim k =
        steal (workerDeque victim) acceptable >>= \case
          Stolen work -> pure (Just work)
          Lost -> from victim k
          _ -> fromPrivate victim >>= maybe (go (k + 1)) (pure . Just)
  writeWord (workerWords w) seedWord seed'
  go (0 :: Int)
  where
    acceptable work = accepts (taskScope (workTask work)) affinity
    fromPrivate victim = do
      some <- offersSome (workerPrivate victim) acceptable
      worthwhile <- if some then isSlow victim else pure False
      if worthwhile
        then
          absorbing (takeHalf (workerPrivate victim) acceptable) >>= \case
            [] -> pure Nothing
            work : others -> do
              markVictim victim
              forM_ others (\other -> makeRoom (workerPrivate w) >> pushPrivate (workerPrivate w) other)
              unless (null others) (signal w (taskScope (workTask work)))
              pure (Just work)
        else pure Nothing

-- | Does the worker stay with one task for two microseconds or more? Waits that long.
--
-- [Cost]: two microseconds.
isSlow :: Worker -> IO Bool
isSlow victim = do
  before <- taskCount victim
  begin <- monotonicNow
  let wait = do
        now <- monotonicNow
        when (nanosCount (elapsed begin now) < slowNanos) wait
  wait
  (== before) <$> taskCount victim

slowNanos :: Int
slowNanos = 2000

-- | Is there work for this worker?
workExists :: Worker -> Affinity -> IO Bool
workExists w affinity = do
  Workers {workersAll = workers, workersMany = many} <- readRef (poolWorkers (workerPool w))
  let go i
        | i == many = pure False
        | otherwise = do
          victim <- readEntry workers i
          there <- offers (workerDeque victim) acceptable
          private <- if workerId victim == workerId w then pure False else offersSome (workerPrivate victim) acceptable
          if there || private then pure True else go (i + 1)
  go 0
  where
    acceptable work = accepts (taskScope (workTask work)) affinity

finished :: Affinity -> IO Bool
finished = \case
  AnyRun -> pure False
  Only s -> isQuiet s
  Brief _ -> pure True
