-- |
-- Module      : Heddle.Bytes.Put
-- Description : Bytes written piece by piece, into memory or a connection
-- Stability   : stable
--
-- A 'Write' is a piece whose greatest length is known before it is written: pieces joined by
-- '<>' are checked for room once, together. A 'Put' is any number of pieces, and goes into
-- memory that grows.
--
-- Cost: one comparison for each 'write' and a few instructions for each byte; no allocation
-- besides the memory that is written.
-- Owner: whoever runs a 'Put' owns the memory; a 'Put' itself is a value, and may be run again.
module Heddle.Bytes.Put
  ( -- * Pieces
    Write,
    writeAtMost,
    pokeWrite,

    -- * Sequences of pieces
    Put,
    write,
    slice,

    -- * Running
    toByteString,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString qualified as ByteString
import Data.ByteString.Internal qualified as ByteString (fromForeignPtr, memcpy)
import Data.Word (Word8)
import Foreign.Ptr (Ptr, minusPtr, plusPtr)
import Heddle.Bytes.Internal.Sink
import Heddle.Prim.Atomic (newRef, readRef, writeRef)
import Heddle.Prim.Buffer (bufferForeign, bufferPtr, bufferSize, newBuffer, withBuffer)
import Heddle.Prim.Pure (unsafePure)

-- | A piece of at most so many bytes, from an action that writes it and answers its end.
--
-- Unsafe in the action's hands: it must write no further than it promised.
writeAtMost :: Int -> (Ptr Word8 -> IO (Ptr Word8)) -> Write
writeAtMost = Write
{-# INLINE writeAtMost #-}

-- | All of it, in memory of its own.
--
-- [Cost]: the bytes are written once, and copied when the memory grows.
toByteString :: Put -> ByteString
toByteString put = unsafePure $ do
  first <- newBuffer 4080
  current <- newRef first
  let grow sink p need = do
        old <- readRef current
        let used = p `minusPtr` bufferPtr old
        new <- newBuffer (max (used + need) (2 * bufferSize old))
        withBuffer old $ \from -> withBuffer new $ \to -> ByteString.memcpy to from used
        writeRef current new
        setSinkEnd sink (bufferPtr new `plusPtr` bufferSize new)
        pure (bufferPtr new `plusPtr` used)
  sink <- newSink grow (\sink p text -> grow sink p (ByteString.length text) >>= runPut (slice text) sink)
  setSinkEnd sink (bufferPtr first `plusPtr` bufferSize first)
  end <- runPut put sink (bufferPtr first)
  last_ <- readRef current
  let used = end `minusPtr` bufferPtr last_
  withBuffer last_ (const (pure (ByteString.fromForeignPtr (bufferForeign last_ 0) 0 used)))
