{-# LANGUAGE MagicHash #-}
{-# LANGUAGE UnboxedTuples #-}

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
    unsafeRepeatable,
    unsafeInlined,
    unsafeInSTM,
    sameObject,

    -- * For the optimiser
    oneShot,
    expanded,
    pseq,
  )
where

import GHC.Conc (STM, pseq, unsafeIOToSTM)
import GHC.Exts (isTrue#, oneShot, reallyUnsafePtrEquality#, runRW#)
import GHC.IO (IO (..))
import System.IO.Unsafe (unsafeDupablePerformIO, unsafePerformIO)

-- | The result of an action, run when the value is first needed, by one thread only.
--
-- Unsafe: the action must have the same answer however often and whenever it runs, and
-- must be safe to abandon by an asynchronous exception and to run again.
unsafePure :: IO a -> a
unsafePure = unsafePerformIO
{-# NOINLINE unsafePure #-}

-- | The same for an action that several threads may run at once, and that may be given up at any
-- place: one that writes only to memory of its own.
--
-- Unsafe: as 'unsafePure', and no resource may be held on the way.
--
-- [Cost]: none; it is inlined.
unsafeRepeatable :: IO a -> a
unsafeRepeatable = unsafeDupablePerformIO
{-# INLINE unsafeRepeatable #-}

-- | The result of an action that becomes part of the code around it: for calls of C functions
-- that only read.
--
-- Unsafe: as 'unsafePure'; and the action must write to nothing that it did not make itself,
-- and must make nothing that it writes to, for one run may be shared by several uses and
-- several threads may run it at once.
--
-- [Cost]: none.
unsafeInlined :: IO a -> a
unsafeInlined (IO m) = case runRW# m of (# _, x #) -> x
{-# INLINE unsafeInlined #-}

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
