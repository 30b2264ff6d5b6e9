{-# OPTIONS_HADDOCK not-home #-}

-- |
-- Module      : Heddle.Bytes.Internal.TextUnits
-- Description : Kernels between UTF-8 and the units of a Text: bytes
-- Stability   : internal; exempt from the version policy
--
-- What "Heddle.Bytes.Internal.Utf8" and "Heddle.Bytes.Put" need to read and fill the array of a Text, for text 2: a unit
-- is a byte of UTF-8, so valid text is copied. The module of the same name in @text-1@ has the same interface.
--
-- Cost: a copy.
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

import Control.Monad (zipWithM_)
import Control.Monad.Primitive (RealWorld)
import Data.Bits (unsafeShiftR, (.&.), (.|.))
import Data.Primitive.ByteArray (ByteArray (..), MutableByteArray (..), writeByteArray)
import Data.Primitive.PrimArray (MutablePrimArray (..), PrimArray (..), copyPrimArrayToPtr, copyPtrToMutablePrimArray)
import Data.Word (Word8)
import Foreign.Ptr (Ptr)
import Heddle.Bytes.Internal.Foreign.Utf8 (pokeReplacedArray, replacedBytes)
import Heddle.Bytes.Utf8.Plain (Replaced (..))
import Heddle.Prim.Cpu (Level)

-- | The number of units of valid text of this many bytes.
--
-- [Cost]: none.
unitCount :: Level -> Ptr Word8 -> Int -> IO Int
unitCount _ _ = pure
{-# INLINE unitCount #-}

-- | Write this many bytes of valid text into the array between two offsets; returns where it ended.
--
-- [Cost]: a copy.
pokeUnits :: Level -> Ptr Word8 -> Int -> MutableByteArray RealWorld -> Int -> Int -> IO Int
pokeUnits _ p n (MutableByteArray array) at _ = (at + n) <$ copyPtrToMutablePrimArray (MutablePrimArray array) at p n
{-# INLINE pokeUnits #-}

-- | The number of bytes between two offsets of the array.
--
-- [Cost]: none.
byteCount :: Level -> ByteArray -> Int -> Int -> IO Int
byteCount _ _ from to = pure (to - from)
{-# INLINE byteCount #-}

-- | Write the units between two offsets of the array up to the first whose bytes are not the unit itself, that is all of
-- them; returns their number.
--
-- [Cost]: a copy.
pokeAscii :: Level -> ByteArray -> Int -> Int -> Ptr Word8 -> IO Int
pokeAscii level array from to p = pokeBytes level array from to p (to - from)
{-# INLINE pokeAscii #-}

-- | Write the units between two offsets of the array; returns their number. There must be room for all of them.
--
-- [Cost]: a copy.
pokeBytes :: Level -> ByteArray -> Int -> Int -> Ptr Word8 -> Int -> IO Int
pokeBytes _ (ByteArray array) from to p _ = (to - from) <$ copyPrimArrayToPtr p (PrimArray array) from (to - from)
{-# INLINE pokeBytes #-}

-- | For text that may be ill-formed: how many bytes were read, and how many bytes they become, with U+FFFD for each
-- maximal subpart.
--
-- [Cost]: that of 'replacedBytes'.
replacedUnits :: Level -> Ptr Word8 -> Int -> IO Replaced
replacedUnits = replacedBytes
{-# INLINE replacedUnits #-}

-- | Write these bytes into the array between two offsets.
--
-- [Cost]: that of 'Heddle.Bytes.Internal.Foreign.Utf8.pokeReplacedBytes'.
pokeReplacedUnits :: Level -> Ptr Word8 -> Int -> MutableByteArray RealWorld -> Int -> Int -> IO Replaced
pokeReplacedUnits = pokeReplacedArray
{-# INLINE pokeReplacedUnits #-}

-- | The most bytes of UTF-8 that a unit takes.
maxUnitBytes :: Int
maxUnitBytes = 1
{-# INLINE maxUnitBytes #-}

-- | The end of the next slice of at most this many units. It may be within a character, because units are only copied.
--
-- [Cost]: O(1).
wholeSlice :: Int -> ByteArray -> Int -> Int -> Int
wholeSlice most _ at end = min end (at + most)
{-# INLINE wholeSlice #-}

-- | The number of units of a code point.
codeUnits :: Int -> Int
codeUnits code
  | code < 0x80 = 1
  | code < 0x800 = 2
  | code < 0x10000 = 3
  | otherwise = 4

-- | Write a code point at this unit.
fillCode :: MutableByteArray RealWorld -> Int -> Int -> IO ()
fillCode array at code = zipWithM_ (writeByteArray array) [at ..] bytes
  where
    bytes :: [Word8]
    bytes = map fromIntegral $ case codeUnits code of
      1 -> [code]
      2 -> [0xc0 .|. code `unsafeShiftR` 6, low 0]
      3 -> [0xe0 .|. code `unsafeShiftR` 12, low 6, low 0]
      _ -> [0xf0 .|. code `unsafeShiftR` 18, low 12, low 6, low 0]
    low bits = 0x80 .|. (code `unsafeShiftR` bits .&. 0x3f)
