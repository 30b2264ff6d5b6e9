{-# LANGUAGE MagicHash #-}
{-# LANGUAGE UnliftedFFITypes #-}
{-# OPTIONS_HADDOCK not-home #-}

-- |
-- Module      : Heddle.Bytes.Internal.Foreign.Utf8
-- Description : The UTF-8 kernels, at every level
-- Stability   : internal; exempt from the version policy
--
-- The calls into @cbits/heddle_utf8_check.c@, @heddle_utf8_code.c@ and @heddle_utf8_replace.c@, whose
-- comments describe them; "Heddle.Bytes.Utf8.Plain" has the same functions in Haskell.
--
-- Cost: a call holds the capability, so give it at most 'sliceSize' bytes or units.
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
    pokeReplacedArray,
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

-- | The largest input of one call.
--
-- [Units]: bytes, or 16-bit units.
sliceSize :: Int
sliceSize = 32768

-- | The length of the longest prefix of well-formed, whole characters.
--
-- [Cost]: 0.03 ns a byte where vectors are wide.
-- [Units]: bytes.
validLength :: Level -> Ptr Word8 -> Int -> IO Int
validLength level = c_valid (levelCode level)
{-# INLINE validLength #-}

-- | The number of characters of valid text of this many bytes.
--
-- [Cost]: 0.01 ns a byte where vectors are wide.
characterCount :: Level -> Ptr Word8 -> Int -> IO Int
characterCount level = c_characters (levelCode level)
{-# INLINE characterCount #-}

-- | The number of UTF-16 units of valid text of this many bytes.
--
-- [Cost]: 0.01 ns a byte where vectors are wide.
unitCount :: Level -> Ptr Word8 -> Int -> IO Int
unitCount level = c_units (levelCode level)
{-# INLINE unitCount #-}

-- | Write this many bytes of valid, whole characters as UTF-16 into the array between two offsets; returns
-- where it ended.
--
-- [Cost]: 0.1 ns a byte where vectors are wide.
-- [Units]: places count 16-bit units.
pokeUnits :: Level -> Ptr Word8 -> Int -> MutableByteArray RealWorld -> Int -> Int -> IO Int
pokeUnits level p n (MutableByteArray array) = c_to_utf16 (levelCode level) p n array
{-# INLINE pokeUnits #-}

-- | The number of UTF-8 bytes of valid UTF-16 between two offsets of the array.
--
-- [Cost]: 0.02 ns a unit where vectors are wide.
-- [Units]: places count 16-bit units.
byteCount :: Level -> ByteArray -> Int -> Int -> IO Int
byteCount level (ByteArray array) = c_bytes (levelCode level) array
{-# INLINE byteCount #-}

-- | Write the units between two offsets of the array as bytes, up to the first that is not ASCII; returns
-- their number. There must be room for all of them.
--
-- [Cost]: 0.02 ns a unit where vectors are wide.
-- [Units]: places count 16-bit units.
pokeAscii :: Level -> ByteArray -> Int -> Int -> Ptr Word8 -> IO Int
pokeAscii level (ByteArray array) = c_ascii (levelCode level) array
{-# INLINE pokeAscii #-}

-- | Write valid, whole characters of UTF-16 between two offsets of the array as at most this many bytes of
-- UTF-8; returns their number.
--
-- [Cost]: 0.1 ns a byte where vectors are wide.
-- [Units]: places count 16-bit units.
pokeBytes :: Level -> ByteArray -> Int -> Int -> Ptr Word8 -> Int -> IO Int
pokeBytes level (ByteArray array) = c_to_utf8 (levelCode level) array
{-# INLINE pokeBytes #-}

-- | For text that may be ill-formed: how many bytes were read, and how many UTF-16 units they become, with
-- U+FFFD for each maximal subpart. It ends before a character that the end cuts off.
--
-- [Cost]: as 'validLength' and 'unitCount' for valid text, 10 ns for each subpart.
replacedUnits :: Level -> Ptr Word8 -> Int -> IO Replaced
replacedUnits level p n = replaced <$> c_replaced_units (levelCode level) p n
{-# INLINE replacedUnits #-}

-- | Write these units into the array between two offsets.
--
-- [Cost]: as 'validLength' and 'pokeUnits' for valid text, 10 ns for each subpart.
-- [Units]: places count 16-bit units.
pokeReplacedUnits :: Level -> Ptr Word8 -> Int -> MutableByteArray RealWorld -> Int -> Int -> IO Replaced
pokeReplacedUnits level p n (MutableByteArray array) from to =
  replaced <$> c_replace_to_utf16 (levelCode level) p n array from to
{-# INLINE pokeReplacedUnits #-}

-- | As 'replacedUnits', with the number of bytes in UTF-8.
--
-- [Cost]: as 'replacedUnits'.
replacedBytes :: Level -> Ptr Word8 -> Int -> IO Replaced
replacedBytes level p n = replaced <$> c_replaced_bytes (levelCode level) p n
{-# INLINE replacedBytes #-}

-- | Write these bytes, at most this many.
--
-- [Cost]: as 'replacedBytes', and a copy.
pokeReplacedBytes :: Level -> Ptr Word8 -> Int -> Ptr Word8 -> Int -> IO Replaced
pokeReplacedBytes level p n to room = replaced <$> c_replace_to_utf8 (levelCode level) p n to room
{-# INLINE pokeReplacedBytes #-}

-- | As 'pokeReplacedBytes', into the array between two offsets.
--
-- [Cost]: as 'pokeReplacedBytes'.
-- [Units]: places count bytes.
pokeReplacedArray :: Level -> Ptr Word8 -> Int -> MutableByteArray RealWorld -> Int -> Int -> IO Replaced
pokeReplacedArray level p n (MutableByteArray array) from to =
  replaced <$> c_replace_to_array (levelCode level) p n array from to
{-# INLINE pokeReplacedArray #-}

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

-- Unsafe: reads at most a slice; and the array must not move.
foreign import ccall unsafe "heddle_utf8_replace_to_array"
  c_replace_to_array :: CInt -> Ptr Word8 -> Int -> MutableByteArray# RealWorld -> Int -> Int -> IO Int
