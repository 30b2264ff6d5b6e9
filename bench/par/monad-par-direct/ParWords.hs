-- | The words of a Par monad: monad-par's other scheduler.
module ParWords
  ( Task,
    runPar,
    spawn_,
    get,
    parMap,
  )
where

import Control.Monad.Par (parMap)
import Control.Monad.Par.Scheds.Direct (Par, get, runPar, spawn_)

-- | Here the scope's type has no meaning.
type Task s a = Par a
