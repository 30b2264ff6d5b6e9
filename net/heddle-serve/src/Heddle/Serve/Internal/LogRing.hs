{-# OPTIONS_HADDOCK not-home #-}

-- |
-- Module      : Heddle.Serve.Internal.LogRing
-- Description : The access log's ring buffer: many producers on one capability, one consumer
-- Stability   : internal, exempt from the version policy
--
-- Threads of one capability put whole lines; one consumer, on any capability, takes them. A put is one
-- unsafe foreign call, during which no other thread of its capability runs, so producers need no lock.
--
-- The consumer gets whole lines only, so a file that several processes append to, or that is rotated between two writes,
-- has no torn line.
--
-- Cost: a put copies the line, in at most two pieces; the line around the buffer's end is copied once more.
-- Owner: the producers' capability owns the head, the consumer the tail.
module Heddle.Serve.Internal.LogRing
  ( LogRing,
    newLogRing,
    ringIn,
    putLine,
    pending,
    pendingBytes,
    ringTail,
    consume,
  )
where

import Data.Bits (countLeadingZeros, shiftL, (.&.))
import Data.Int (Int64)
import Data.Word (Word8)
import Foreign.ForeignPtr (ForeignPtr, touchForeignPtr)
import Foreign.Marshal.Utils (copyBytes)
import Foreign.Ptr (Ptr, castPtr, plusPtr)
import Foreign.Storable (peekByteOff, pokeByteOff)
import Heddle.Prim.Atomic (acquireFence, releaseFence)
import Heddle.Prim.Buffer (Buffer, bufferForeign, bufferPtr, foreignAddress, keepAlive, newBuffer)

-- | Head and tail, on a cache line each; the bytes, and how many; room for the line around their end. The memory is the heap's,
-- or that of a file which outlives the process ("Heddle.Serve.LogPending").
data LogRing = LogRing !(ForeignPtr Word8) !(ForeignPtr Word8) !Int !Buffer

-- | An empty ring with room for at least this many bytes.
--
-- [Units]: bytes, rounded up to a power of two.
newLogRing :: Int -> IO LogRing
newLogRing wanted = do
  positions <- newBuffer 128
  pokeByteOff (bufferPtr positions) headOffset (0 :: Int64)
  pokeByteOff (bufferPtr positions) tailOffset (0 :: Int64)
  keepAlive positions
  let size = 1 `shiftL` (64 - countLeadingZeros (max 1 wanted - 1))
  bytes <- newBuffer size
  ringIn (bufferForeign positions 0) (bufferForeign bytes 0) size

-- | The ring that these 128 bytes and this power of two of bytes hold.
ringIn :: ForeignPtr Word8 -> ForeignPtr Word8 -> Int -> IO LogRing
ringIn positions bytes size = LogRing positions bytes size <$> newBuffer size

headOffset, tailOffset :: Int
headOffset = 0
tailOffset = 64

-- | Put a line whole or not at all; the number of bytes pending afterwards, or -1 if it does not fit.
--
-- [Blocks]: never.
-- [Threads]: those of one capability.
putLine :: LogRing -> Ptr Word8 -> Int -> IO Int
putLine (LogRing positions bytes size _) line len = do
  answer <- c_put (castPtr (foreignAddress positions)) (foreignAddress bytes) (fromIntegral size) line (fromIntegral len)
  touchForeignPtr positions
  touchForeignPtr bytes
  pure (fromIntegral answer)

-- | Pass pending lines to the action, whole ones if all that was put are lines. After 'consume' there may be more.
--
-- [Threads]: the consumer.
pending :: LogRing -> (Ptr Word8 -> Int -> IO a) -> IO a
pending (LogRing positions bytes size spare) use = do
  end <- peekByteOff (foreignAddress positions) headOffset :: IO Int64
  -- Pairs with the store of the head in heddle_log_ring_put: the bytes up to it are visible.
  acquireFence
  start <- peekByteOff (foreignAddress positions) tailOffset :: IO Int64
  let at = fromIntegral start .&. (size - 1)
      count = fromIntegral (end - start)
      p = foreignAddress bytes `plusPtr` at
  result <-
    if count <= size - at
      then use p count
      else do
        whole <- fromIntegral <$> c_lines p (fromIntegral (size - at))
        if whole > 0
          then use p whole
          else do
            let begun = size - at
            rest <- fromIntegral <$> c_first (foreignAddress bytes) (fromIntegral (count - begun))
            copyBytes (bufferPtr spare) p begun
            copyBytes (bufferPtr spare `plusPtr` begun) (foreignAddress bytes) rest
            use (bufferPtr spare) (begun + rest)
  touchForeignPtr positions
  touchForeignPtr bytes
  keepAlive spare
  pure result

-- | Count the bytes that are pending in all.
--
-- [Units]: bytes.
-- [Threads]: any; the answer may be out of date when it arrives.
pendingBytes :: LogRing -> IO Int
pendingBytes ring@(LogRing positions _ _ _) = do
  end <- peekByteOff (foreignAddress positions) headOffset :: IO Int64
  start <- ringTail ring
  pure (fromIntegral (end - start))

-- | Where the next pending byte is, counted from the first byte that was ever put.
--
-- [Units]: bytes.
-- [Threads]: the consumer.
ringTail :: LogRing -> IO Int64
ringTail (LogRing positions _ _ _) = do
  start <- peekByteOff (foreignAddress positions) tailOffset
  start <$ touchForeignPtr positions

-- | Free the first bytes that are pending.
--
-- [Threads]: the consumer.
consume :: LogRing -> Int -> IO ()
consume (LogRing positions _ _ _) count = do
  start <- peekByteOff (foreignAddress positions) tailOffset :: IO Int64
  -- The bytes are read before the tail moves; a producer may overwrite them from then on.
  releaseFence
  pokeByteOff (foreignAddress positions) tailOffset (start + fromIntegral count)
  touchForeignPtr positions

-- Unsafe: copies a line within memory.
foreign import ccall unsafe "heddle_log_ring_put" c_put :: Ptr Int64 -> Ptr Word8 -> Int64 -> Ptr Word8 -> Int64 -> IO Int64

-- Unsafe: searches memory.
foreign import ccall unsafe "heddle_log_ring_lines" c_lines :: Ptr Word8 -> Int64 -> IO Int64

-- Unsafe: searches memory.
foreign import ccall unsafe "heddle_log_ring_first" c_first :: Ptr Word8 -> Int64 -> IO Int64
