{-# LANGUAGE MagicHash #-}
{-# LANGUAGE UnliftedFFITypes #-}
{-# OPTIONS_HADDOCK not-home #-}

-- |
-- Module      : Heddle.Bytes.Internal.Foreign.Utf8
-- Description : The UTF-8 kernels, at every level
-- Stability   : internal; exempt from the version policy
--
-- The calls into @cbits/heddle_utf8_check.c@, @heddle_utf8_code.c@ and @heddle_utf8_replace.c@.
-- What they do is said there, and in Haskell in "Heddle.Bytes.Utf8.Plain".
--
-- Cost: a call holds the capability: give 'sliceSize' bytes at a time, or as many units.
-- Owner: the memory is the caller's, and only while the call lasts.
module Heddle.Bytes.Internal.Foreign.Utf8
  ( sliceSize,
    validLength,
    characterCount,
    unitCount,
    pokeUnits,
    byteCount,
    pokeAscii,
    pokeBytes,

    -- * With replacement
    replacedUnits,
    pokeReplacedUnits,
    replacedBytes,
    pokeReplacedBytes,
  )
where

import Control.Monad.Primitive (RealWorld)
import Data.Bits (unsafeShiftR, (.&.))
import Data.Primitive.ByteArray (ByteArray (..), MutableByteArray (..))
import Data.Word (Word8)
import Foreign.C.Types (CInt (..))
import Foreign.Ptr (Ptr)
import GHC.Exts (ByteArray#, MutableByteArray#)
import Heddle.Bytes.Utf8.Plain (Replaced (..))
import Heddle.Prim.Cpu (Level, levelCode)

-- | The most that one call should be given.
--
-- [Units]: bytes, or 16-bit units.
sliceSize :: Int
sliceSize = 32768

-- | How many bytes, from the first on, are whole characters of well-formed UTF-8.
--
-- [Cost]: 0.03 ns a byte where vectors are wide.
-- [Units]: bytes.
validLength :: Level -> Ptr Word8 -> Int -> IO Int
validLength level = c_valid (levelCode level)
{-# INLINE validLength #-}

-- | Characters of valid text of this many bytes.
--
-- [Cost]: 0.01 ns a byte where vectors are wide.
characterCount :: Level -> Ptr Word8 -> Int -> IO Int
characterCount level = c_characters (levelCode level)
{-# INLINE characterCount #-}

-- | Units of UTF-16 that valid text of this many bytes has.
--
-- [Cost]: 0.01 ns a byte where vectors are wide.
unitCount :: Level -> Ptr Word8 -> Int -> IO Int
unitCount level = c_units (levelCode level)
{-# INLINE unitCount #-}

-- | Write valid text of this many bytes, of whole characters, as UTF-16 from one place of the
-- array on, never beyond another; returns where it ended.
--
-- [Cost]: 0.1 ns a byte where vectors are wide.
-- [Units]: places count 16-bit units.
pokeUnits :: Level -> Ptr Word8 -> Int -> MutableByteArray RealWorld -> Int -> Int -> IO Int
pokeUnits level p n (MutableByteArray array) = c_to_utf16 (levelCode level) p n array
{-# INLINE pokeUnits #-}

-- | Bytes of UTF-8 that valid UTF-16, from one place of the array to another, has.
--
-- [Cost]: 0.02 ns a unit where vectors are wide.
-- [Units]: places count 16-bit units.
byteCount :: Level -> ByteArray -> Int -> Int -> IO Int
byteCount level (ByteArray array) = c_bytes (levelCode level) array
{-# INLINE byteCount #-}

-- | Write the units from one place of the array to another as bytes, up to the first that is not
-- ASCII; returns how many. There must be room for them all.
--
-- [Cost]: 0.02 ns a unit where vectors are wide.
-- [Units]: places count 16-bit units.
pokeAscii :: Level -> ByteArray -> Int -> Int -> Ptr Word8 -> IO Int
pokeAscii level (ByteArray array) = c_ascii (levelCode level) array
{-# INLINE pokeAscii #-}

-- | Write valid UTF-16, of whole characters, from one place of the array to another, as at most
-- this many bytes of UTF-8; returns their number.
--
-- [Cost]: 0.1 ns a byte where vectors are wide.
-- [Units]: places count 16-bit units.
pokeBytes :: Level -> ByteArray -> Int -> Int -> Ptr Word8 -> Int -> IO Int
pokeBytes level (ByteArray array) = c_to_utf8 (levelCode level) array
{-# INLINE pokeBytes #-}

-- | Of text that may be ill-formed: how many bytes were read, and the units of UTF-16 that they
-- make with U+FFFD for each maximal subpart. It ends before the beginning of a character that the
-- end cuts off.
--
-- [Cost]: as 'validLength' and 'unitCount' where it is valid, 10 ns for each subpart.
replacedUnits :: Level -> Ptr Word8 -> Int -> IO Replaced
replacedUnits level p n = replaced <$> c_replaced_units (levelCode level) p n
{-# INLINE replacedUnits #-}

-- | Write them from one place of the array on, never beyond another.
--
-- [Cost]: as 'validLength' and 'pokeUnits' where it is valid, 10 ns for each subpart.
-- [Units]: places count 16-bit units.
pokeReplacedUnits :: Level -> Ptr Word8 -> Int -> MutableByteArray RealWorld -> Int -> Int -> IO Replaced
pokeReplacedUnits level p n (MutableByteArray array) from to =
  replaced <$> c_replace_to_utf16 (levelCode level) p n array from to
{-# INLINE pokeReplacedUnits #-}

-- | The same with the bytes that they make in UTF-8.
--
-- [Cost]: as 'replacedUnits'.
replacedBytes :: Level -> Ptr Word8 -> Int -> IO Replaced
replacedBytes level p n = replaced <$> c_replaced_bytes (levelCode level) p n
{-# INLINE replacedBytes #-}

-- | Write them, at most this many.
--
-- [Cost]: as 'replacedBytes', and a copy.
pokeReplacedBytes :: Level -> Ptr Word8 -> Int -> Ptr Word8 -> Int -> IO Replaced
pokeReplacedBytes level p n to room = replaced <$> c_replace_to_utf8 (levelCode level) p n to room
{-# INLINE pokeReplacedBytes #-}

replaced :: Int -> Replaced
replaced both = Replaced (both .&. 0xffffffff) (both `unsafeShiftR` 32)
{-# INLINE replaced #-}

-- Unsafe: reads at most a slice.
foreign import ccall unsafe "heddle_utf8_valid" c_valid :: CInt -> Ptr Word8 -> Int -> IO Int

-- Unsafe: reads at most a slice.
foreign import ccall unsafe "heddle_utf8_characters" c_characters :: CInt -> Ptr Word8 -> Int -> IO Int

-- Unsafe: reads at most a slice.
foreign import ccall unsafe "heddle_utf8_units" c_units :: CInt -> Ptr Word8 -> Int -> IO Int

-- Unsafe: reads at most a slice; and the array must not move.
foreign import ccall unsafe "heddle_utf8_to_utf16"
  c_to_utf16 :: CInt -> Ptr Word8 -> Int -> MutableByteArray# RealWorld -> Int -> Int -> IO Int

-- Unsafe: reads at most a slice; and the array must not move.
foreign import ccall unsafe "heddle_utf16_bytes" c_bytes :: CInt -> ByteArray# -> Int -> Int -> IO Int

-- Unsafe: reads at most a slice; and the array must not move.
foreign import ccall unsafe "heddle_utf16_ascii" c_ascii :: CInt -> ByteArray# -> Int -> Int -> Ptr Word8 -> IO Int

-- Unsafe: reads at most a slice; and the array must not move.
foreign import ccall unsafe "heddle_utf16_to_utf8"
  c_to_utf8 :: CInt -> ByteArray# -> Int -> Int -> Ptr Word8 -> Int -> IO Int

-- Unsafe: reads at most a slice.
foreign import ccall unsafe "heddle_utf8_replaced_units" c_replaced_units :: CInt -> Ptr Word8 -> Int -> IO Int

-- Unsafe: reads at most a slice; and the array must not move.
foreign import ccall unsafe "heddle_utf8_replace_to_utf16"
  c_replace_to_utf16 :: CInt -> Ptr Word8 -> Int -> MutableByteArray# RealWorld -> Int -> Int -> IO Int

-- Unsafe: reads at most a slice.
foreign import ccall unsafe "heddle_utf8_replaced_bytes" c_replaced_bytes :: CInt -> Ptr Word8 -> Int -> IO Int

-- Unsafe: reads at most a slice.
foreign import ccall unsafe "heddle_utf8_replace_to_utf8"
  c_replace_to_utf8 :: CInt -> Ptr Word8 -> Int -> Ptr Word8 -> Int -> IO Int
