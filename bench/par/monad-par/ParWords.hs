-- | The words of a Par monad: monad-par's own choice of scheduler, which is @Trace@.
module ParWords
  ( Task,
    runPar,
    spawn_,
    get,
    parMap,
  )
where

import Control.Monad.Par (Par, get, parMap, runPar, spawn_)

-- | Here the scope's type has no meaning.
type Task s a = Par a
