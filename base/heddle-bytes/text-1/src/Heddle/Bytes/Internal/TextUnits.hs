{-# OPTIONS_HADDOCK not-home #-}

-- |
-- Module      : Heddle.Bytes.Internal.TextUnits
-- Description : Kernels between UTF-8 and the units of a Text: UTF-16
-- Stability   : internal; exempt from the version policy
--
-- What "Heddle.Bytes.Internal.Utf8" and "Heddle.Bytes.Put" need to read and fill the array of a Text, for text 1. The
-- module of the same name in @text-2@ has the same interface.
--
-- Cost: the kernels' of "Heddle.Bytes.Internal.Foreign.Utf8".
-- Owner: the memory is the caller's, and only while the call lasts.
module Heddle.Bytes.Internal.TextUnits
  ( -- * Kernels
    unitCount,
    pokeUnits,
    byteCount,
    pokeAscii,
    pokeBytes,
    replacedUnits,
    pokeReplacedUnits,

    -- * Characters
    maxUnitBytes,
    wholeSlice,
    codeUnits,
    fillCode,
  )
where

import Control.Monad.Primitive (RealWorld)
import Data.Primitive.ByteArray (ByteArray, MutableByteArray, indexByteArray, writeByteArray)
import Data.Word (Word16)
import Heddle.Bytes.Internal.Foreign.Utf8
import Heddle.Bytes.Utf8.Plain (surrogatePair)

-- | The most bytes of UTF-8 that a unit takes.
maxUnitBytes :: Int
maxUnitBytes = 3
{-# INLINE maxUnitBytes #-}

-- | The end of the next slice of at most this many units, which does not divide a surrogate pair.
--
-- [Cost]: O(1).
-- [Units]: units.
wholeSlice :: Int -> ByteArray -> Int -> Int -> Int
wholeSlice most array at end
  | end - at <= most = end
  | low (indexByteArray array (at + most)) = at + most - 1
  | otherwise = at + most
  where
    low unit = unit >= (0xdc00 :: Word16) && unit < 0xe000
{-# INLINE wholeSlice #-}

-- | The number of units of a code point.
codeUnits :: Int -> Int
codeUnits code = if code < 0x10000 then 1 else 2

-- | Write a code point at this unit.
fillCode :: MutableByteArray RealWorld -> Int -> Int -> IO ()
fillCode array at code
  | code < 0x10000 = writeByteArray array at (fromIntegral code :: Word16)
  | otherwise = case surrogatePair code of
    (high, low) -> writeByteArray array at high >> writeByteArray array (at + 1) low
