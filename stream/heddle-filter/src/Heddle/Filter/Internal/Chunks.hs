-- |
-- Module      : Heddle.Filter.Internal.Chunks
-- Description : The output of a worker, in chunks of memory that is reused
-- Stability   : internal, exempt from the version policy
--
-- A front pushes small pieces, often several for each row. A worker that kept each as an object until its part's turn would
-- keep many times their bytes, and the garbage collector would copy them. So they are copied into chunks, which another
-- thread takes in order. The chunks' memory is a ring.
--
-- Rows that are to be numbered are framed: their numbers are known only when the parts before have been counted.
--
-- Cost: a copy of each piece. In memory: the ring, once it has been used.
-- Owner: the worker writes; a chunk is valid until as many others as the ring has room for were taken.
module Heddle.Filter.Internal.Chunks
  ( Chunks,
    newChunks,
    appendPiece,
    appendRow,
    takeChunk,
    emitChunk,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString qualified as Bytes
import Data.ByteString.Internal (fromForeignPtr, mallocByteString)
import Data.ByteString.Unsafe qualified as Bytes
import Data.Word (Word8)
import Foreign.ForeignPtr (ForeignPtr, withForeignPtr)
import Foreign.Marshal.Utils (copyBytes)
import Foreign.Ptr (Ptr, castPtr, plusPtr)
import Foreign.Storable (peekByteOff, pokeByteOff)
import Heddle.Prim.Atomic (Words, newWords, readWord, writeWord)

-- | A ring of chunks, of which one is being filled.
data Chunks = Chunks
  { chunksMemory :: !(ForeignPtr Word8),
    -- | How many bytes a chunk has.
    chunksSize :: !Int,
    -- | How many chunks there are.
    chunksCount :: !Int,
    -- | Which one is being filled, and how far.
    chunksWords :: !Words,
    -- | Pass a full chunk on. 'False': no more is wanted.
    chunksSend :: !(ByteString -> IO Bool)
  }

present, filled :: Int
present = 0
filled = 1

-- | @newChunks size ahead send@: chunks of this many bytes, each valid until @ahead + 1@ others have been taken. So @send@
-- may pass them through a queue that holds @ahead@ of them.
--
-- [Cost]: the memory is used only once there is output.
newChunks :: Int -> Int -> (ByteString -> IO Bool) -> IO Chunks
newChunks size ahead send = do
  memory <- mallocByteString (least * count)
  Chunks memory least count <$> newWords 2 <*> pure send
  where
    count = ahead + 2
    -- A frame's head, and something in it.
    least = max (2 * headSize) size

-- | Append a piece. 'False': no more is wanted.
--
-- [Blocks]: as the sending of a full chunk.
appendPiece :: Chunks -> ByteString -> IO Bool
appendPiece chunks piece = do
  at <- readWord (chunksWords chunks) filled
  let room = chunksSize chunks - at
      n = Bytes.length piece
  if n <= room
    then True <$ write chunks at piece
    else do
      write chunks at (Bytes.unsafeTake room piece)
      ok <- takeChunk chunks >>= chunksSend chunks
      if ok then appendPiece chunks (Bytes.unsafeDrop room piece) else pure False

-- The head of a frame: the number of rows before its row, or -1 if it goes on with the row of the frame before it; how
-- many bytes it has.
headSize :: Int
headSize = 16

-- | Append a row, with the number of rows before it in the part. 'False': no more is wanted.
--
-- [Blocks]: as 'appendPiece'.
appendRow :: Chunks -> Int -> ByteString -> IO Bool
appendRow chunks index row = do
  at <- readWord (chunksWords chunks) filled
  let room = chunksSize chunks - at - headSize
  if room <= 0
    then again index row
    else do
      let here = Bytes.take room row
      onChunk chunks $ \p -> do
        pokeByteOff p at index
        pokeByteOff p (at + 8) (Bytes.length here)
      write chunks (at + headSize) here
      if Bytes.length row <= room then pure True else again (-1) (Bytes.unsafeDrop room row)
  where
    again i left = do
      ok <- takeChunk chunks >>= chunksSend chunks
      if ok then appendRow chunks i left else pure False

write :: Chunks -> Int -> ByteString -> IO ()
write chunks at piece = do
  Bytes.unsafeUseAsCStringLen piece $ \(from, n) -> onChunk chunks (\p -> copyBytes (p `plusPtr` at) (castPtr from) n)
  writeWord (chunksWords chunks) filled (at + Bytes.length piece)

onChunk :: Chunks -> (Ptr Word8 -> IO a) -> IO a
onChunk chunks use = do
  slot <- readWord (chunksWords chunks) present
  withForeignPtr (chunksMemory chunks) (\p -> use (p `plusPtr` (slot * chunksSize chunks)))

-- | What the present chunk has so far; the next one is filled from here on. Every chunk that is taken must be sent.
takeChunk :: Chunks -> IO ByteString
takeChunk chunks = do
  slot <- readWord (chunksWords chunks) present
  n <- readWord (chunksWords chunks) filled
  writeWord (chunksWords chunks) present (if slot + 1 == chunksCount chunks then 0 else slot + 1)
  writeWord (chunksWords chunks) filled 0
  pure (fromForeignPtr (chunksMemory chunks) (slot * chunksSize chunks) n)

-- | Pass on what a chunk holds, the rows of frames with the numbers of rows before them. 'False': no more is wanted.
emitChunk :: Bool -> (ByteString -> IO Bool) -> (Int -> ByteString -> IO Bool) -> ByteString -> IO Bool
emitChunk framed emitPiece emitRow chunk
  | Bytes.null chunk = pure True
  | not framed = emitPiece chunk
  | otherwise = do
    (index, n) <- Bytes.unsafeUseAsCString chunk (\p -> (,) <$> peekByteOff p 0 <*> peekByteOff p 8)
    let text = Bytes.unsafeTake n (Bytes.unsafeDrop headSize chunk)
    ok <- if index < 0 then emitPiece text else emitRow index text
    if ok then emitChunk framed emitPiece emitRow (Bytes.unsafeDrop (headSize + n) chunk) else pure False
