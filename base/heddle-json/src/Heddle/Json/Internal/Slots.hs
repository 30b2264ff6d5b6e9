{-# OPTIONS_HADDOCK not-home #-}

-- |
-- Module      : Heddle.Json.Internal.Slots
-- Description : Places for values of different types
-- Stability   : internal; exempt from the version policy
--
-- A fixed number of places, each empty or with a value whose type only the user knows.
--
-- Cost: O(1) for each access; two words for each value that is put in.
-- Owner: one thread.
module Heddle.Json.Internal.Slots
  ( Anything,
    anything,
    unsafeThing,
    Slots,
    newSlots,
    fillSlot,
    isFull,
    unsafeSlot,
  )
where

import Control.Monad.Primitive (RealWorld)
import Data.Primitive.SmallArray (SmallMutableArray, newSmallArray, readSmallArray, writeSmallArray)
import GHC.Exts (Any)
import Unsafe.Coerce (unsafeCoerce)

-- | A value of some type.
newtype Anything = Anything Any

-- | Forget the type.
--
-- [Cost]: none.
anything :: a -> Anything
anything x = Anything (unsafeCoerce x)
{-# INLINE anything #-}

-- | The value again.
--
-- Unsafe: it must be of this type.
--
-- [Cost]: none.
unsafeThing :: Anything -> a
unsafeThing (Anything x) = unsafeCoerce x
{-# INLINE unsafeThing #-}

data Slot = Empty | Full Anything

-- | The places, numbered from 0.
newtype Slots = Slots (SmallMutableArray RealWorld Slot)

-- | So many places, all empty.
--
-- [Cost]: O(n).
newSlots :: Int -> IO Slots
newSlots n = Slots <$> newSmallArray n Empty
{-# INLINE newSlots #-}

-- | Put a value there, in place of what was.
--
-- [Cost]: O(1).
fillSlot :: Slots -> Int -> Anything -> IO ()
fillSlot (Slots slots) i x = writeSmallArray slots i (Full x)
{-# INLINE fillSlot #-}

-- | Is there a value?
--
-- [Cost]: O(1).
isFull :: Slots -> Int -> IO Bool
isFull (Slots slots) i =
  readSmallArray slots i >>= \case
    Empty -> pure False
    Full _ -> pure True
{-# INLINE isFull #-}

-- | Go on with the value, or without.
--
-- Unsafe: what was put there must be of this type.
--
-- [Cost]: O(1).
unsafeSlot :: Slots -> Int -> IO r -> (a -> IO r) -> IO r
unsafeSlot (Slots slots) i without with =
  readSmallArray slots i >>= \case
    Empty -> without
    Full x -> with (unsafeThing x)
{-# INLINE unsafeSlot #-}
