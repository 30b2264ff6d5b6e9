-- |
-- Module      : Heddle.Serve.Compress
-- Description : Compressing a file's content in one piece
-- Stability   : internal, exempt from the version policy
--
-- zlib, brotli and zstd at the levels for content that is compressed once and then cached: 6, 5 and 6.
--
-- Cost: about 10 to 25 ms a megabyte, in a safe foreign call.
-- Owner: the caller's memory.
module Heddle.Serve.Compress
  ( compressed,
    smallestCompressed,
    largestCompressed,
  )
where

import Data.Int (Int64)
import Data.Word (Word8)
import Foreign.C.Types (CInt (..))
import Foreign.Ptr (Ptr)
import Heddle.Prim.Buffer (Buffer, newBuffer, withBuffer)
import Heddle.Serve.Coding (Coding (..))

-- | Smaller files fit a packet or two as they are.
--
-- [Units]: bytes.
smallestCompressed :: Int64
smallestCompressed = 1024

-- | Larger files would hold a processor for too long, and the cache's memory.
--
-- [Units]: bytes.
largestCompressed :: Int64
largestCompressed = 4194304

-- | Compress this many bytes; the buffer and the length in it, or 'Nothing' if a twentieth would not be saved.
--
-- [Blocks]: holds an OS thread.
compressed :: Coding -> Ptr Word8 -> Int -> IO (Maybe (Buffer, Int))
compressed coding p size = do
  let room = size - size `quot` 20
  out <- newBuffer (max 1 room)
  n <- withBuffer out $ \q -> c_compress (fromIntegral (fromEnum coding)) p (fromIntegral size) q (fromIntegral room)
  pure (if n < 0 then Nothing else Just (out, fromIntegral n))

foreign import ccall safe "heddle_compress" c_compress :: CInt -> Ptr Word8 -> Int64 -> Ptr Word8 -> Int64 -> IO Int64
