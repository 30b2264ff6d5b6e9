-- |
-- Module      : Heddle.WebSocket.Mask
-- Description : Masking by vectors
-- Stability   : hidden; "Heddle.WebSocket.Codec" exports it
--
-- Invariant: no byte outside of the ranges is touched, and no result depends on the processor.
-- Cost: about 30 bytes a nanosecond with AVX2, and a call for each 32 KiB.
-- Owner: the caller's memory.
module Heddle.WebSocket.Mask
  ( maskBytes,
    maskBytesAt,
    rotateKey,
  )
where

import Data.Bits (rotateR, shiftL, (.&.))
import Data.Word (Word32, Word8)
import Foreign.C.Types (CInt (..), CSize (..))
import Foreign.Ptr (Ptr, plusPtr)
import Heddle.Prim.Cpu (Level, level, levelCode)

-- | @maskBytes to from count key@ writes the bytes with the key applied, the key's lowest byte to the first. The
-- addresses may be equal. Applied twice, it restores the bytes.
--
-- [Cost]: O(n), by the machine's vectors.
-- [Blocks]: never.
maskBytes :: Ptr Word8 -> Ptr Word8 -> Int -> Word32 -> IO ()
maskBytes = maskBytesAt level
{-# INLINE maskBytes #-}

-- | 'maskBytes' with the instructions of a level, which the machine must have.
--
-- [Cost]: O(n).
-- [Blocks]: never.
maskBytesAt :: Level -> Ptr Word8 -> Ptr Word8 -> Int -> Word32 -> IO ()
maskBytesAt which = go
  where
    go to from count key
      | count <= slice = c_mask (levelCode which) to from (fromIntegral count) key
      -- A multiple of the key's length, so the key stays as it is.
      | otherwise = c_mask (levelCode which) to from (fromIntegral slice) key >> go (to `plusPtr` slice) (from `plusPtr` slice) (count - slice) key
    slice = 32768
{-# INLINE maskBytesAt #-}

-- | The key for what follows this many bytes.
--
-- [Cost]: O(1).
rotateKey :: Word32 -> Int -> Word32
rotateKey key count = rotateR key ((count .&. 3) `shiftL` 3)
{-# INLINE rotateKey #-}

-- Unsafe: computes on at most 32 KiB.
foreign import ccall unsafe "heddle_mask" c_mask :: CInt -> Ptr Word8 -> Ptr Word8 -> CSize -> Word32 -> IO ()
