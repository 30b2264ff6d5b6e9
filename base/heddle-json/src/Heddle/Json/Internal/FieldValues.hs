{-# LANGUAGE MagicHash #-}
{-# LANGUAGE UnboxedTuples #-}
{-# OPTIONS_HADDOCK not-home #-}

-- |
-- Module      : Heddle.Json.Internal.FieldValues
-- Description : The values of a record's fields while its object is decoded
-- Stability   : internal, exempt from the version policy
--
-- An array with an entry for each field, whose type is known only to who reads it.
--
-- Cost: O(1) for each access; a word for each value.
-- Owner: one thread.
module Heddle.Json.Internal.FieldValues
  ( -- * Values of any type
    Anything,
    anythings,

    -- * While they are decoded
    Entries,
    newEntries,
    putEntry,

    -- * Which of them are there
    Presence,
    newPresence,
    setPresent,
    isPresent,

    -- * When all are there
    FieldValues,
    unsafeFieldValues,
    unsafeFieldValue,
  )
where

import Control.Monad.Primitive (RealWorld)
import Data.Primitive.ByteArray (MutableByteArray, fillByteArray, newByteArray, readByteArray, writeByteArray)
import Data.Primitive.SmallArray
import Data.Word (Word8)
import GHC.Exts (Any)
import Unsafe.Coerce (unsafeCoerce)

-- | A value of some type.
newtype Anything = Anything Any

-- | Forget the type in a decoder or another container.
--
-- [Cost]: none.
anythings :: f a -> f Anything
anythings = unsafeCoerce
{-# INLINE anythings #-}

-- | The entries, indexed by the fields' numbers from 0.
newtype Entries = Entries (SmallMutableArray RealWorld Anything)

-- | This many entries, which no one may read before they are set.
--
-- [Cost]: O(n).
newEntries :: Int -> IO Entries
newEntries n = Entries <$> newSmallArray n (Anything (unsafeCoerce ()))
{-# INLINE newEntries #-}

-- | Set or replace a value, evaluated.
--
-- [Cost]: O(1).
putEntry :: Entries -> Int -> Anything -> IO ()
putEntry (Entries entries) i (Anything !x) = writeSmallArray entries i (Anything x)
{-# INLINE putEntry #-}

-- | For each entry, whether it was set.
newtype Presence = Presence (MutableByteArray RealWorld)

-- | A record of presence for that number of fields, none of which has been seen.
--
-- [Cost]: O(n).
newPresence :: Int -> IO Presence
newPresence n = do
  bytes <- newByteArray n
  fillByteArray bytes 0 n (0 :: Word8)
  pure (Presence bytes)

-- | It is set now.
--
-- [Cost]: O(1).
setPresent :: Presence -> Int -> IO ()
setPresent (Presence bytes) i = writeByteArray bytes i (1 :: Word8)
{-# INLINE setPresent #-}

-- | Was it set?
--
-- [Cost]: O(1).
isPresent :: Presence -> Int -> IO Bool
isPresent (Presence bytes) i = (/= (0 :: Word8)) <$> readByteArray bytes i
{-# INLINE isPresent #-}

-- | Entries that do not change any more.
newtype FieldValues = FieldValues (SmallArray Anything)

-- | The values of all entries.
--
-- Unsafe: all must have been set, and none may be set afterwards.
--
-- [Cost]: none.
unsafeFieldValues :: Entries -> IO FieldValues
unsafeFieldValues (Entries entries) = FieldValues <$> unsafeFreezeSmallArray entries
{-# INLINE unsafeFieldValues #-}

-- | A value; what it comes from is not kept alive by it.
--
-- Unsafe: there must be such an entry, and its value must have this type.
--
-- [Cost]: O(1).
unsafeFieldValue :: FieldValues -> Int -> (# a #)
unsafeFieldValue (FieldValues values) i = case indexSmallArray## values i of (# Anything x #) -> (# unsafeCoerce x #)
{-# INLINE unsafeFieldValue #-}
