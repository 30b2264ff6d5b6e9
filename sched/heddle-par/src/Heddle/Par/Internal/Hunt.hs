-- |
-- Module      : Heddle.Par.Internal.Hunt
-- Description : Looking for work elsewhere
-- Stability   : internal
--
-- Where a worker without work looks, how long, and what it leaves to others.
--
-- Cost: only of who has nothing to do; who works pays for being looked at with a cache
-- miss now and then.
-- Owner: the worker that looks.
module Heddle.Par.Internal.Hunt
  ( huntOn,
    lookAround,
    workAround,
    finished,
  )
where

import Control.Monad (forM_, unless, when)
import Data.Bits (shiftL, shiftR, xor, (.&.))
import Heddle.Par.Internal.Cancel (absorbing)
import Heddle.Par.Internal.Deque (Stolen (..), offers, steal)
import Heddle.Par.Internal.Patient
import Heddle.Par.Internal.Ready (rob, seedWord, ticksOf)
import Heddle.Par.Internal.Scope
import Heddle.Par.Internal.Sleep
import Heddle.Par.Internal.Types
import Heddle.Prim.Atomic (readEntry, readRef, readWord, tableSize, writeWord)
import Heddle.Prim.Clock (elapsed, microseconds, monotonicNow, nanosCount)
import Heddle.Prim.Thread (nap, yield)

-- | Hunt. As long as others go from task to task, look again and again, instead of being
-- woken by each of their pushes: at once if they take more than two microseconds for a task,
-- since then there will be something worth taking; after a nap if they are quicker.
--
-- The action takes one look.
huntOn :: Worker -> Home -> IO (Maybe Work) -> IO (Maybe Work)
huntOn w home look = go (0 :: Int) (0 :: Int) hunts
  where
    go again napped looks = do
      before <- allTicks
      begin <- monotonicNow
      hunt w home look looks >>= \case
        Just work -> pure (Just work)
        Nothing -> do
          now <- allTicks
          end <- monotonicNow
          done <- finished home
          if done || now == before || napped == naps
            then pure Nothing
            else
              if again < agains && nanosCount (elapsed begin end) > slowNanos * (now - before)
                then go (again + 1) napped hunts
                else do
                  nap (microseconds (min 500 (20 * 2 ^ napped)))
                  go again (napped + 1) 4
    allTicks = do
      workers <- workersAll <$> readRef (poolWorkers (workerPool w))
      sum <$> mapM (of' workers) [0 .. tableSize workers - 1]
    of' workers i = do
      victim <- readEntry workers i
      if workerId victim == workerId w then pure 0 else ticksOf victim

-- | So many looks around before parking, about 0.1 ms; so many more times while others have
-- tasks of some length; so many naps, about 10 ms.
hunts, agains, naps :: Int
hunts = 60
agains = 40
naps = 24

hunt :: Worker -> Home -> IO (Maybe Work) -> Int -> IO (Maybe Work)
hunt _ _ _ 0 = pure Nothing
hunt w home look n =
  look >>= \case
    Just work -> pure (Just work)
    Nothing -> do
      workers <- readRef (poolWorkers (workerPool w))
      done <- finished home
      if done || tableSize (workersAll workers) == 1
        then pure Nothing
        else yield >> hunt w home look (n - 1)

-- | One look at everybody's oldest work, beginning anywhere.
lookAround :: Worker -> Home -> IO (Maybe Work)
lookAround w home = do
  let pool = workerPool w
  workers <- workersAll <$> readRef (poolWorkers pool)
  seed <- readWord (workerWords w) seedWord
  let a = seed `xor` (seed `shiftL` 13)
      b = a `xor` ((a `shiftR` 7) .&. 0x1ffffffffffffff)
      seed' = b `xor` (b `shiftL` 17)
      size = tableSize workers
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
          _ -> impatiently victim >>= maybe (go (k + 1)) (pure . Just)
  writeWord (workerWords w) seedWord seed'
  go (0 :: Int)
  where
    acceptable work = accepts (taskScope (workTask work)) home
    impatiently victim = do
      some <- offersSome (workerPatient victim) acceptable
      worthwhile <- if some then isSlow victim else pure False
      if worthwhile
        then
          absorbing (takeHalf (workerPatient victim) acceptable) >>= \case
            [] -> pure Nothing
            work : others -> do
              rob victim
              forM_ others (\other -> makeRoom (workerPatient w) >> pushPatient (workerPatient w) other)
              unless (null others) (signal w (taskScope (workTask work)))
              pure (Just work)
        else pure Nothing

-- | Does the worker stay with one task for two microseconds or more?
isSlow :: Worker -> IO Bool
isSlow victim = do
  before <- ticksOf victim
  begin <- monotonicNow
  let wait = do
        now <- monotonicNow
        when (nanosCount (elapsed begin now) < slowNanos) wait
  wait
  (== before) <$> ticksOf victim

slowNanos :: Int
slowNanos = 2000

-- | Is there work for this worker?
workAround :: Worker -> Home -> IO Bool
workAround w home = do
  workers <- workersAll <$> readRef (poolWorkers (workerPool w))
  let go i
        | i == tableSize workers = pure False
        | otherwise = do
          victim <- readEntry workers i
          there <- offers (workerDeque victim) acceptable
          patient <- if workerId victim == workerId w then pure False else offersSome (workerPatient victim) acceptable
          if there || patient then pure True else go (i + 1)
  go 0
  where
    acceptable work = accepts (taskScope (workTask work)) home

finished :: Home -> IO Bool
finished = \case
  Everybody -> pure False
  Only s -> isQuiet s
  Brief _ -> pure True
