-- |
-- Module      : Heddle.Prim.Pure
-- Description : Values that an action computes
-- Stability   : stable
--
-- For computations that use effects inside and have one answer all the same.
--
-- Cost: entering the action.
-- Owner: whoever evaluates the value first.
module Heddle.Prim.Pure
  ( unsafePure,

    -- * For the optimiser
    oneShot,
    pseq,
  )
where

import GHC.Conc (pseq)
import GHC.Exts (oneShot)
import System.IO.Unsafe (unsafePerformIO)

-- | The result of an action, run when the value is first needed, by one thread only.
--
-- Unsafe: the action must have the same answer however often and whenever it runs, and
-- must be safe to abandon by an asynchronous exception and to run again.
unsafePure :: IO a -> a
unsafePure = unsafePerformIO
{-# NOINLINE unsafePure #-}
