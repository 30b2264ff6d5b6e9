{-# LANGUAGE MagicHash #-}
{-# LANGUAGE UnboxedTuples #-}

-- |
-- Module      : Heddle.Prim.Unsafe
-- Description : Pure values from effects, and hints to the optimiser
-- Stability   : stable
--
-- "System.IO.Unsafe" under names that state the obligation, for computations that use effects inside and
-- have the same result whenever they run.
--
-- Cost: entering the action.
-- Owner: the thread that evaluates the value first.
module Heddle.Prim.Unsafe
  ( -- * Unsafe pure calls
    unsafePure,
    unsafeDupable,
    unsafeInlined,
    unsafeInSTM,

    -- * Identity
    sameObject,

    -- * For the optimiser

    -- | 'oneShot' and 'pseq' are base's.
    oneShot,
    expanded,
    pseq,
  )
where

import GHC.Conc (STM, pseq, unsafeIOToSTM)
import GHC.Exts (isTrue#, oneShot, reallyUnsafePtrEquality#, runRW#)
import GHC.IO (IO (..))
import System.IO.Unsafe (unsafeDupablePerformIO, unsafePerformIO)

-- | The result of an action, which one thread runs when the value is first needed
-- ('System.IO.Unsafe.unsafePerformIO').
--
-- Unsafe: the action must have the same result whenever and however often it runs. An asynchronous
-- exception may abandon it, after which it may run again.
unsafePure :: IO a -> a
unsafePure = unsafePerformIO
{-# NOINLINE unsafePure #-}

-- | As 'unsafePure', but several threads may run the action at once, and it may be abandoned at any point
-- without running handlers ('System.IO.Unsafe.unsafeDupablePerformIO'). So it must write only to memory
-- that it allocates itself.
--
-- Unsafe: as 'unsafePure', and the action must hold no resource that needs a release.
--
-- [Cost]: none; it is inlined.
unsafeDupable :: IO a -> a
unsafeDupable = unsafeDupablePerformIO
{-# INLINE unsafeDupable #-}

-- | The result of an action that is inlined into the code around it: for calls of C functions that only
-- read.
--
-- Unsafe: as 'unsafePure', and the action must neither write to memory nor allocate memory that is written
-- to later, because several uses may share one run, and several threads may run it at once.
--
-- [Cost]: none.
unsafeInlined :: IO a -> a
unsafeInlined (IO m) = case runRW# m of (# _, x #) -> x
{-# INLINE unsafeInlined #-}

-- | Run an action inside a transaction.
--
-- Unsafe: the transaction may be abandoned at any time, even within the action, or run again; the action's
-- effects are not undone. The action must not start a transaction.
unsafeInSTM :: IO a -> STM a
unsafeInSTM = unsafeIOToSTM
{-# INLINE unsafeInSTM #-}

-- | Are both one object on the heap? 'True' is reliable. 'False' is reliable only if both were
-- allocated as a lambda or a constructor, not computed by a thunk.
--
-- [Cost]: a comparison; evaluates neither.
sameObject :: a -> a -> Bool
sameObject a b = isTrue# (reallyUnsafePtrEquality# a b)
{-# INLINE sameObject #-}

-- | The same action, eta-expanded. GHC then compiles a function that ends in it to take the state token as
-- one more argument, instead of returning the action, for which callers would build partial applications.
--
-- [Cost]: none.

{- HLINT ignore expanded "Avoid lambda" -}
-- The lambda is needed: it is the eta-expansion.
expanded :: IO a -> IO a
expanded (IO m) = IO (oneShot (\s -> m s))
{-# INLINE expanded #-}
