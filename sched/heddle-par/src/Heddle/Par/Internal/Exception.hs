-- |
-- Module      : Heddle.Par.Internal.Exception
-- Description : A run that waits for ever
-- Stability   : internal, exempt from the version policy
--
-- The root of the package's exceptions, 'ParException', is heddle-sched's, which throws
-- 'Heddle.Sched.MultiplePut'.
--
-- Cost: none; values.
-- Owner: values.
module Heddle.Par.Internal.Exception
  ( BlockedOnIVar (..),
  )
where

import Data.Typeable (cast)
import Heddle.Prim.Exception (Exception (..))
import Heddle.Sched (ParException (..))

-- | A run, a scope or a search waits for an IVar that no task is left to write, and so has no
-- result: what 'Control.Exception.BlockedIndefinitelyOnMVar' is for an @MVar@. Unlike that, it
-- does not depend on the garbage collector: it is thrown on every schedule, as soon as every task
-- has ended or waits.
data BlockedOnIVar = BlockedOnIVar
  deriving stock (Eq, Show)

instance Exception BlockedOnIVar where
  toException = toException . ParException
  fromException e = fromException e >>= \(ParException child) -> cast child
  displayException BlockedOnIVar = "deadlock: the run waits for an IVar that no task is left to write"
