-- | The words of a Par monad: Heddle's.
module ParWords
  ( Task,
    runPar,
    spawn_,
    get,
    parMap,
  )
where

import Heddle.Par (IVar, Par, get, parMap, runPar, spawn)

-- | A computation in a scope.
type Task s a = Par s a

-- | monad-par's name for a 'spawn' that evaluates no further than the first constructor.
spawn_ :: Par s a -> Par s (IVar s a)
spawn_ = spawn
{-# INLINE spawn_ #-}
