-- |
-- Module      : Heddle.Prim.Ring
-- Description : A bounded ring of bytes between one capability and one taker
-- Stability   : stable
--
-- Threads of one capability put whole lines; one thread anywhere takes them.
--
-- Cost: a put is two copies' worth of memcpy in one unsafe call; no lock.
-- Owner: the putters' capability owns the head, the taker the tail.
module Heddle.Prim.Ring
  ( Ring,
    newRing,
    putLine,
    pending,
    pendingBytes,
    consume,
  )
where

import Data.Bits (countLeadingZeros, shiftL, (.&.))
import Data.Int (Int64)
import Data.Word (Word8)
import Foreign.Ptr (Ptr, castPtr, plusPtr)
import Foreign.Storable (peekByteOff, pokeByteOff)
import Heddle.Prim.Atomic (acquireFence, releaseFence)
import Heddle.Prim.Buffer (Buffer, bufferPtr, bufferSize, keepAlive, newBuffer)

-- | Positions (head, tail), and the bytes.
data Ring = Ring !Buffer !Buffer

-- | A ring with room for at least so many bytes.
--
-- [Units]: bytes, rounded up to a power of two.
newRing :: Int -> IO Ring
newRing wanted = do
  ws <- newBuffer 128
  pokeByteOff (bufferPtr ws) 0 (0 :: Int64)
  pokeByteOff (bufferPtr ws) 64 (0 :: Int64)
  keepAlive ws
  Ring ws <$> newBuffer (1 `shiftL` (64 - countLeadingZeros (max 1 wanted - 1)))

-- | Put so many bytes, all or none: how many are pending now, or -1 when they do not fit.
--
-- [Blocks]: never.
-- [Threads]: those of one capability.
putLine :: Ring -> Ptr Word8 -> Int -> IO Int
putLine (Ring ws bytes) line n = do
  r <- c_put (castPtr (bufferPtr ws)) (bufferPtr bytes) (fromIntegral (bufferSize bytes)) line (fromIntegral n)
  keepAlive ws
  keepAlive bytes
  pure (fromIntegral r)

-- | Use the bytes pending in one piece; there may be a second piece after 'consume'.
--
-- [Threads]: the taker.
pending :: Ring -> (Ptr Word8 -> Int -> IO a) -> IO a
pending (Ring ws bytes) use = do
  end <- peekByteOff (bufferPtr ws) 0 :: IO Int64
  -- The bytes up to there.
  acquireFence
  start <- peekByteOff (bufferPtr ws) 64 :: IO Int64
  let size = bufferSize bytes
      at = fromIntegral start .&. (size - 1)
  r <- use (bufferPtr bytes `plusPtr` at) (min (size - at) (fromIntegral (end - start)))
  keepAlive ws
  keepAlive bytes
  pure r

-- | How many bytes are pending in all.
--
-- [Units]: bytes.
-- [Threads]: any; between puts and takes it is out of date at once.
pendingBytes :: Ring -> IO Int
pendingBytes (Ring ws _) = do
  end <- peekByteOff (bufferPtr ws) 0 :: IO Int64
  start <- peekByteOff (bufferPtr ws) 64 :: IO Int64
  keepAlive ws
  pure (fromIntegral (end - start))

-- | Give so many bytes' room back.
--
-- [Threads]: the taker.
consume :: Ring -> Int -> IO ()
consume (Ring ws _) n = do
  start <- peekByteOff (bufferPtr ws) 64 :: IO Int64
  -- What has been read; putters overwrite it next.
  releaseFence
  pokeByteOff (bufferPtr ws) 64 (start + fromIntegral n)
  keepAlive ws

-- Unsafe: copies a line within memory.
foreign import ccall unsafe "heddle_ring_put" c_put :: Ptr Int64 -> Ptr Word8 -> Int64 -> Ptr Word8 -> Int64 -> IO Int64
