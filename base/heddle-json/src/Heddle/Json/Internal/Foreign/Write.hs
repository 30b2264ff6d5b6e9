{-# LANGUAGE MagicHash #-}
{-# LANGUAGE UnliftedFFITypes #-}
{-# OPTIONS_HADDOCK not-home #-}

-- |
-- Module      : Heddle.Json.Internal.Foreign.Write
-- Description : The kernels that write JSON strings
-- Stability   : internal; exempt from the version policy
--
-- All are resumable: they stop at the end of the output or of the slice, and return how far they
-- came.
--
-- Cost: a foreign call of at most 32 KiB.
-- Owner: the memory is the caller's, and only while the call lasts.
module Heddle.Json.Internal.Foreign.Write
  ( Progress (..),
    pokeUtf16,
    pokeUtf8,
    pokeUtf8Array,
  )
where

import Data.Bits (unsafeShiftR, (.&.))
import Data.Primitive.ByteArray (ByteArray (..))
import Data.Word (Word8)
import Foreign.C.Types (CInt (..))
import Foreign.Ptr (Ptr)
import GHC.Exts (ByteArray#)

-- | How far a call came.
data Progress = Progress
  { -- | Units read.
    progressTaken :: !Int,
    -- | Bytes written.
    progressWritten :: !Int
  }
  deriving stock (Eq, Show)

-- | Write 16-bit units as the contents of a JSON string: level, array, offset, length, output, its size
-- in bytes.
--
-- [Cost]: a foreign call.
-- [Units]: offset and length count 16-bit units; at most 16,384 of them are taken, and one more
-- if that ends a pair.
pokeUtf16 :: CInt -> ByteArray -> Int -> Int -> Ptr Word8 -> Int -> IO Progress
pokeUtf16 level (ByteArray array) offset len p space =
  progress <$> c_utf16 array offset len (min len 16384) p space level
{-# INLINE pokeUtf16 #-}

-- | Write bytes as the contents of a JSON string: level, address, length, output, its size.
--
-- [Cost]: a foreign call.
-- [Units]: bytes; at most 32,768 are taken, and up to three more if those end a character.
pokeUtf8 :: CInt -> Ptr Word8 -> Int -> Ptr Word8 -> Int -> IO Progress
pokeUtf8 level text len p space = progress <$> c_utf8 text len (min len 32768) p space level
{-# INLINE pokeUtf8 #-}

-- | As 'pokeUtf8', from an offset of an array.
--
-- [Cost]: a foreign call.
pokeUtf8Array :: CInt -> ByteArray -> Int -> Int -> Ptr Word8 -> Int -> IO Progress
pokeUtf8Array level (ByteArray array) offset len p space =
  progress <$> c_utf8_array array offset len (min len 32768) p space level
{-# INLINE pokeUtf8Array #-}

progress :: Int -> Progress
progress r = Progress (r .&. 0xffffffff) (r `unsafeShiftR` 32)
{-# INLINE progress #-}

-- Unsafe: at most 32 KiB are read, and it never sleeps.
foreign import ccall unsafe "heddle_json_write_utf16"
  c_utf16 :: ByteArray# -> Int -> Int -> Int -> Ptr Word8 -> Int -> CInt -> IO Int

-- Unsafe: at most 32 KiB are read, and it never sleeps.
foreign import ccall unsafe "heddle_json_write_utf8"
  c_utf8 :: Ptr Word8 -> Int -> Int -> Ptr Word8 -> Int -> CInt -> IO Int

-- Unsafe: at most 32 KiB are read, and it never sleeps.
foreign import ccall unsafe "heddle_json_write_utf8_array"
  c_utf8_array :: ByteArray# -> Int -> Int -> Int -> Ptr Word8 -> Int -> CInt -> IO Int
