{-# LANGUAGE MagicHash #-}
{-# LANGUAGE UnliftedFFITypes #-}

-- |
-- Module      : Heddle.Bytes.Internal.Foreign.Hash
-- Description : The C kernels of SipHash
-- Stability   : internal; exempt from the version policy
--
-- The calls into @cbits/heddle_siphash.c@, over memory outside the heap and over arrays.
--
-- Cost: a call is about 2 ns and allocates nothing. The calls are unsafe and hold the capability, so they
-- get at most 'largestSlice' bytes.
-- Owner: the memory is the caller's, and must not change during the call.
module Heddle.Bytes.Internal.Foreign.Hash
  ( largestSlice,

    -- * At once
    hash13,
    hash24,
    hash13Array,

    -- * Words
    hashWord,
    endWords,

    -- * Piece by piece
    streamWords,
    update,
    updateArray,
    finish,
  )
where

import Data.Int (Int64)
import Data.Primitive.ByteArray (ByteArray (..), MutableByteArray (..))
import Data.Word (Word64, Word8)
import Foreign.C.Types (CInt (..))
import Foreign.Ptr (Ptr)
import GHC.Exts (ByteArray#, MutableByteArray#, RealWorld)
import Heddle.Bytes.Internal.Sip (Sip (..))

-- | The most bytes of a call, which takes some 10 us.
largestSlice :: Int
largestSlice = 32768

-- | SipHash-1-3 of this many bytes, after what the state has absorbed.
hash13 :: Sip -> Ptr Word8 -> Int -> IO Word64
hash13 (Sip v0 v1 v2 v3) p n = c_hash13 v0 v1 v2 v3 p (fromIntegral n)
{-# INLINE hash13 #-}

-- | SipHash-2-4 of this many bytes, after what the state has absorbed.
hash24 :: Sip -> Ptr Word8 -> Int -> IO Word64
hash24 (Sip v0 v1 v2 v3) p n = c_hash24 v0 v1 v2 v3 p (fromIntegral n)
{-# INLINE hash24 #-}

-- | SipHash-1-3 of the bytes of an array, from an offset on.
hash13Array :: Sip -> ByteArray -> Int -> Int -> Word64
hash13Array (Sip v0 v1 v2 v3) (ByteArray array) offset n =
  c_hash13_at v0 v1 v2 v3 array (fromIntegral offset) (fromIntegral n)
{-# INLINE hash13Array #-}

-- | As 'Heddle.Bytes.Internal.Sip.finishWords' after 'Heddle.Bytes.Internal.Sip.absorbWord'.
hashWord :: Word64 -> Sip -> Word64
hashWord word (Sip v0 v1 v2 v3) = c_word v0 v1 v2 v3 word
{-# INLINE hashWord #-}

-- | As 'Heddle.Bytes.Internal.Sip.finishWords'.
endWords :: Sip -> Word64
endWords (Sip v0 v1 v2 v3) = c_end v0 v1 v2 v3
{-# INLINE endWords #-}

-- | The size of a stream in words: the state, the bytes of an incomplete word, and the length so far.
streamWords :: Int
streamWords = 6

-- | Absorb this many bytes into a stream, with 1 or 2 rounds for each word.
update :: Int -> MutableByteArray RealWorld -> Ptr Word8 -> Int -> IO ()
update rounds (MutableByteArray stream) p n = c_update stream p 0 (fromIntegral n) (fromIntegral rounds)
{-# INLINE update #-}

-- | Absorb the bytes of an array from an offset on.
updateArray :: Int -> MutableByteArray RealWorld -> ByteArray -> Int -> Int -> IO ()
updateArray rounds (MutableByteArray stream) (ByteArray array) offset n =
  c_update_array stream array (fromIntegral offset) (fromIntegral n) (fromIntegral rounds)
{-# INLINE updateArray #-}

-- | The hash of what a stream has absorbed.
finish :: Int -> ByteArray -> Word64
finish rounds (ByteArray stream) = c_finish stream (fromIntegral rounds)
{-# INLINE finish #-}

-- Unsafe: computes over at most 'largestSlice' bytes.
foreign import ccall unsafe "heddle_sip13"
  c_hash13 :: Word64 -> Word64 -> Word64 -> Word64 -> Ptr Word8 -> Int64 -> IO Word64

-- Unsafe: computes over at most 'largestSlice' bytes.
foreign import ccall unsafe "heddle_sip24"
  c_hash24 :: Word64 -> Word64 -> Word64 -> Word64 -> Ptr Word8 -> Int64 -> IO Word64

-- Unsafe: computes over at most 'largestSlice' bytes.
foreign import ccall unsafe "heddle_sip13_at"
  c_hash13_at :: Word64 -> Word64 -> Word64 -> Word64 -> ByteArray# -> Int64 -> Int64 -> Word64

-- Unsafe: computes four rounds.
foreign import ccall unsafe "heddle_sip13_word"
  c_word :: Word64 -> Word64 -> Word64 -> Word64 -> Word64 -> Word64

-- Unsafe: computes three rounds.
foreign import ccall unsafe "heddle_sip13_end"
  c_end :: Word64 -> Word64 -> Word64 -> Word64 -> Word64

-- Unsafe: computes over at most 'largestSlice' bytes.
foreign import ccall unsafe "heddle_sip_update"
  c_update :: MutableByteArray# RealWorld -> Ptr Word8 -> Int64 -> Int64 -> CInt -> IO ()

-- Unsafe: computes over at most 'largestSlice' bytes.
foreign import ccall unsafe "heddle_sip_update"
  c_update_array :: MutableByteArray# RealWorld -> ByteArray# -> Int64 -> Int64 -> CInt -> IO ()

-- Unsafe: computes a few rounds.
foreign import ccall unsafe "heddle_sip_finish"
  c_finish :: ByteArray# -> CInt -> Word64
