-- | The words of a Par monad: Heddle's, under the names of monad-par
module ParWords
  ( Task,
    runPar,
    spawn_,
    get,
    parMap,
  )
where

import Heddle.Par.MonadPar (Par, get, parMap, runPar, spawn_)

-- | Here the scope's type has no meaning.
type Task s a = Par a
