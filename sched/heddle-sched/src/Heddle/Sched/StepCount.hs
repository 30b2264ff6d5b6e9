-- |
-- Module      : Heddle.Sched.StepCount
-- Description : The number of things that the scheduler has looked at
-- Stability   : internal, exempt from the version policy
--
-- For tests of how costs grow: the count repeats, unlike a time.
--
-- Cost: none to programs that do not ask.
-- Owner: the pool.
module Heddle.Sched.StepCount
  ( stepsTaken,
  )
where

import Heddle.Prim.Atomic (atomicRead, readEntry, readRef)
import Heddle.Sched.Steps (stepsWord)
import Heddle.Sched.Types
import Heddle.Sched.Workers (thePool)

-- | How many scopes, and how much of what they keep, all workers have looked at one by one since the
-- process began.
--
-- [Cost]: a read for each worker.
-- [Blocks]: never.
stepsTaken :: IO Int
stepsTaken = do
  Workers {workersAll = workers, workersMany = many} <- thePool >>= readRef . poolWorkers
  sum <$> mapM (\i -> readEntry workers i >>= \w -> atomicRead (workerWords w) stepsWord) [0 .. many - 1]
