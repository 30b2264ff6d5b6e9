-- |
-- Module      : Heddle.Sched.Steps
-- Description : Counting what is looked at one by one
-- Stability   : internal
--
-- The scheduler looks at scopes, and at what they keep, one by one when tasks fail, wait for others
-- outside, or end a scope. How often tells whether a cost grows with the depth or the number of
-- failures faster than it should, on any machine and under any load.
--
-- Cost: a read and a store, where something is looked at anyway.
-- Owner: each worker counts its own.
module Heddle.Sched.Steps
  ( step,
    stepsWord,
  )
where

import Heddle.Prim.Atomic (readWord, writeWord)
import Heddle.Sched.Types

-- | Where in 'workerWords', on the owner's line, beside those of "Heddle.Sched.RunQueue".
stepsWord :: Int
stepsWord = 6

-- | One thing looked at.
--
-- [Threads]: the worker's.
step :: Worker -> IO ()
step w = do
  n <- readWord (workerWords w) stepsWord
  writeWord (workerWords w) stepsWord (n + 1)
