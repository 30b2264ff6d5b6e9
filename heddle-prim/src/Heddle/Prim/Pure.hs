{-# LANGUAGE MagicHash #-}

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
    unsafeInSTM,
    sameObject,

    -- * For the optimiser
    oneShot,
    expanded,
    pseq,
  )
where

import GHC.Conc (STM, pseq, unsafeIOToSTM)
import GHC.Exts (isTrue#, oneShot, reallyUnsafePtrEquality#)
import GHC.IO (IO (..))
import System.IO.Unsafe (unsafePerformIO)

-- | The result of an action, run when the value is first needed, by one thread only.
--
-- Unsafe: the action must have the same answer however often and whenever it runs, and
-- must be safe to abandon by an asynchronous exception and to run again.
unsafePure :: IO a -> a
unsafePure = unsafePerformIO
{-# NOINLINE unsafePure #-}

-- | Run an action inside of a transaction.
--
-- Unsafe: the transaction may be run again, or given up at any time, in which case nothing that
-- the action did is undone, and it may not have come to its end. It must not start a transaction.
unsafeInSTM :: IO a -> STM a
unsafeInSTM = unsafeIOToSTM
{-# INLINE unsafeInSTM #-}

-- | Are they one object in memory? 'True' is certain. 'False' is certain only if both were
-- made outright (a lambda, a constructor), not computed or selected from something.
--
-- [Cost]: a comparison; evaluates neither.
sameObject :: a -> a -> Bool
sameObject a b = isTrue# (reallyUnsafePtrEquality# a b)
{-# INLINE sameObject #-}

-- | The same action, as a lambda of its own. A function that ends in one takes all that it
-- needs to run in one call; without, GHC may make it return the action, and callers then
-- build partial applications.
--
-- [Cost]: none.

{- HLINT ignore expanded "Avoid lambda" -}
-- The lambda is what it is for.
expanded :: IO a -> IO a
expanded (IO m) = IO (oneShot (\s -> m s))
{-# INLINE expanded #-}
