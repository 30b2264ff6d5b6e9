-- |
-- Module      : Heddle.Par.Internal.Leftmost
-- Description : Parallel search with the answer of a sequential one
-- Stability   : internal
--
-- What 'Heddle.Par.leftmost' and 'Heddle.Par.IO.leftmost' share.
--
-- Cost: a scope for each computation.
-- Owner: the run.
module Heddle.Par.Internal.Leftmost
  ( leftmostOf,
    failWith,
  )
where

import Heddle.Par.Internal.Exception (BlockedOnIVar (..))
import Heddle.Par.Internal.Monad (Par (..), par)
import Heddle.Prim.Exception (throwIO)
import Heddle.Sched (Failure, Kind, Outcome (..))
import Heddle.Sched qualified as Sched

-- | The result of the leftmost computation that has one, or the failure of the leftmost
-- that fails, whichever is further left. The computations to the right are cancelled.
leftmostOf :: Kind -> [Par s (Maybe a)] -> Par s (Maybe a)
leftmostOf kind searches = par (Sched.openBranches kind (map unPar searches)) >>= collect
  where
    collect [] = pure Nothing
    collect (v : vs) =
      ended v >>= \case
        Ended Nothing -> collect vs
        Ended hit -> mapM_ ended vs >> pure hit
        Broken f -> mapM_ ended vs >> failWith f
        Stuck -> mapM_ ended vs >> par (\_ _ -> throwIO BlockedOnIVar)
    ended v = par (Sched.readCell v)

-- | Fail with the failure of a scope inside.
failWith :: Failure -> Par s a
failWith f = par (Sched.failWith f)
