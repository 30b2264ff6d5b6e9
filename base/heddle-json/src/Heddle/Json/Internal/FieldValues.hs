{-# OPTIONS_HADDOCK not-home #-}

-- |
-- Module      : Heddle.Json.Internal.FieldValues
-- Description : The values of a record's fields, decoded out of order
-- Stability   : internal, exempt from the version policy
--
-- A mutable array with an entry for each field. An entry is empty or has a value, whose type is known
-- only to the field's decoder.
--
-- Cost: O(1) for each access; two words for each value.
-- Owner: one thread.
module Heddle.Json.Internal.FieldValues
  ( Anything,
    anything,
    unsafeThing,
    FieldValues,
    newFieldValues,
    putFieldValue,
    hasFieldValue,
    unsafeFieldValue,
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

-- | Recover the value.
--
-- Unsafe: it must be of this type.
--
-- [Cost]: none.
unsafeThing :: Anything -> a
unsafeThing (Anything x) = unsafeCoerce x
{-# INLINE unsafeThing #-}

data FieldValue = Missing | Present Anything

-- | The entries, indexed by the fields' numbers from 0.
newtype FieldValues = FieldValues (SmallMutableArray RealWorld FieldValue)

-- | This many empty entries.
--
-- [Cost]: O(n).
newFieldValues :: Int -> IO FieldValues
newFieldValues n = FieldValues <$> newSmallArray n Missing
{-# INLINE newFieldValues #-}

-- | Set or replace a value.
--
-- [Cost]: O(1).
putFieldValue :: FieldValues -> Int -> Anything -> IO ()
putFieldValue (FieldValues entries) i x = writeSmallArray entries i (Present x)
{-# INLINE putFieldValue #-}

-- | Has the field a value yet?
--
-- [Cost]: O(1).
hasFieldValue :: FieldValues -> Int -> IO Bool
hasFieldValue (FieldValues entries) i =
  readSmallArray entries i >>= \case
    Missing -> pure False
    Present _ -> pure True
{-# INLINE hasFieldValue #-}

-- | Continue with the value if there is one, else with the default.
--
-- Unsafe: the value must have been put there with this type.
--
-- [Cost]: O(1).
unsafeFieldValue :: FieldValues -> Int -> IO r -> (a -> IO r) -> IO r
unsafeFieldValue (FieldValues entries) i without with =
  readSmallArray entries i >>= \case
    Missing -> without
    Present x -> with (unsafeThing x)
{-# INLINE unsafeFieldValue #-}
