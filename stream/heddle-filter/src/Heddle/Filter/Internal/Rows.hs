-- |
-- Module      : Heddle.Filter.Internal.Rows
-- Description : Blocks of whole rows
-- Stability   : internal, exempt from the version policy
--
-- Reads into a buffer that is reused, and passes on as many whole rows as it holds. An
-- incomplete row is moved to the front. The buffer grows only for a row that does not fit.
--
-- Cost: a system call for each block, and a copy of the incomplete row at its end.
-- Owner: one thread; a block is valid during the call that it is passed to.
module Heddle.Filter.Internal.Rows
  ( RowBuffer,
    newRowBuffer,
    pendingBytes,
    pendingRow,
    readRows,
    readPart,

    -- * Long rows
    LongerThan (..),
    tooLongRow,
  )
where

import Control.Monad (when)
import Data.ByteString (ByteString)
import Data.ByteString.Internal (fromForeignPtr, mallocByteString)
import Data.Int (Int64)
import Data.Word (Word8)
import Foreign.ForeignPtr (ForeignPtr, withForeignPtr)
import Foreign.Marshal.Utils (copyBytes, moveBytes)
import Foreign.Ptr (Ptr, plusPtr)
import Heddle.Bytes.Search.Block (bestLevel, findByteAt, findByteEndAt)
import Heddle.Filter.Internal.Exception (TooLong (..))
import Heddle.Filter.Internal.Machine (Env (..))
import Heddle.Prim.Atomic (Ref, newRef, readRef, writeRef)
import Heddle.Prim.Exception

-- | A row does not fit into a buffer of this many bytes. The callers of 'readRows' and 'readPart' catch it. It is
-- thrown between two calls of the reader and the consumer, never within one, so no handler of the program's sees it.
data LongerThan = LongerThan
  { -- | The buffer's limit.
    longerThan :: !Int,
    -- | The offset at which the row begins, if 'readPart' throws it.
    rowBegin :: !Int64
  }
  deriving stock (Show)

instance Exception LongerThan

-- | The exception for users of a plan: only searches need whole rows.
tooLongRow :: LongerThan -> TooLong
tooLongRow e = TooLong "a row" (longerThan e)

-- | A buffer that starts at the start of a row.
data RowBuffer = RowBuffer
  { bufferMemory :: !(Ref (ForeignPtr Word8)),
    bufferSize :: !(Ref Int),
    bufferFilled :: !(Ref Int),
    bufferLimit :: !Int
  }

-- | A buffer of this many bytes, which may grow to the machine's limit.
newRowBuffer :: Env -> Int -> IO RowBuffer
newRowBuffer env size = do
  memory <- mallocByteString size
  RowBuffer <$> newRef memory <*> newRef size <*> newRef 0 <*> pure (envLimit env)

-- | The length of the incomplete row in it.
pendingBytes :: RowBuffer -> IO Int
pendingBytes = readRef . bufferFilled

-- | Take the incomplete row out of it.
pendingRow :: RowBuffer -> IO ByteString
pendingRow buffer = do
  memory <- readRef (bufferMemory buffer)
  n <- readRef (bufferFilled buffer)
  writeRef (bufferFilled buffer) 0
  pure (fromForeignPtr memory 0 n)

-- Make room for at least a byte, which is read from this offset; returns the free space.
makeRoom :: RowBuffer -> Int64 -> IO Int
makeRoom buffer at = do
  size <- readRef (bufferSize buffer)
  filled <- readRef (bufferFilled buffer)
  if filled < size
    then pure (size - filled)
    else do
      when (size >= bufferLimit buffer) (throwIO (LongerThan (bufferLimit buffer) (at - fromIntegral filled)))
      let larger = min (bufferLimit buffer) (2 * size)
      old <- readRef (bufferMemory buffer)
      new <- mallocByteString larger
      withForeignPtr old (\from -> withForeignPtr new (\to -> copyBytes to from filled))
      writeRef (bufferMemory buffer) new
      writeRef (bufferSize buffer) larger
      pure (larger - filled)

-- Drop this many bytes from the front.
dropFront :: RowBuffer -> Int -> IO ()
dropFront buffer n = do
  filled <- readRef (bufferFilled buffer)
  memory <- readRef (bufferMemory buffer)
  when (n < filled) (withForeignPtr memory (\p -> moveBytes p (p `plusPtr` n) (filled - n)))
  writeRef (bufferFilled buffer) (filled - n)

-- | Read until the end, or until the consumer of the blocks answers 'False'. An incomplete row
-- at the end stays in the buffer.
--
-- [Throws]: 'LongerThan', and what the reader and the consumer throw.
readRows :: RowBuffer -> (Ptr Word8 -> Int -> IO Int) -> (ByteString -> IO Bool) -> IO ()
readRows buffer reading take' = go
  where
    go = do
      room <- makeRoom buffer 0
      filled <- readRef (bufferFilled buffer)
      memory <- readRef (bufferMemory buffer)
      n <- withForeignPtr memory (\p -> reading (p `plusPtr` filled) room)
      when (n > 0) $ do
        writeRef (bufferFilled buffer) (filled + n)
        newline <- withForeignPtr memory (\p -> findByteEndAt bestLevel (p `plusPtr` filled) n 0x0a)
        if newline < 0
          then go
          else do
            let whole = filled + newline + 1
            ok <- take' (fromForeignPtr memory 0 whole)
            dropFront buffer whole
            when ok go

-- | Read the rows that begin within a part of a file: @readPart buffer reading file part
-- consume@. Both ranges are of offsets, without the second one; the part is within the file,
-- and @reading@ reads at an offset.
--
-- [Throws]: as 'readRows'.
readPart :: RowBuffer -> (Ptr Word8 -> Int -> Int64 -> IO Int) -> (Int64, Int64) -> (Int64, Int64) -> (ByteString -> IO Bool) -> IO ()
readPart buffer reading (from, to) (a, b) take' = do
  writeRef (bufferFilled buffer) 0
  if a == from then rows a else skip (a - 1)
  where
    -- Append to the buffer. Beyond the part's end the steps are small, since only
    -- the rest of one row is needed.
    more at = do
      room <- makeRoom buffer at
      filled <- readRef (bufferFilled buffer)
      memory <- readRef (bufferMemory buffer)
      let wanted
            | at < b = min room (fromIntegral (b - at))
            | otherwise = min room (fromIntegral (min 4096 (to - at)))
      n <- if wanted <= 0 then pure 0 else withForeignPtr memory (\p -> reading (p `plusPtr` filled) wanted at)
      writeRef (bufferFilled buffer) (filled + max 0 n)
      pure (filled, max 0 n, memory)
    -- The first row of the part begins after the first newline at or after the byte before the part.
    skip at = when (at < b - 1) $ do
      (filled, n, memory) <- more at
      when (n > 0) $ do
        newline <- withForeignPtr memory (\p -> findByteAt bestLevel (p `plusPtr` filled) n 0x0a)
        if newline < 0
          then writeRef (bufferFilled buffer) 0 >> skip (at + fromIntegral n)
          else do
            dropFront buffer (newline + 1)
            when (at + fromIntegral newline + 1 < b) (wholeRows (at + fromIntegral n))
    -- The buffer begins with a row of the part.
    wholeRows at = do
      filled <- readRef (bufferFilled buffer)
      memory <- readRef (bufferMemory buffer)
      newline <- withForeignPtr memory (\p -> findByteEndAt bestLevel p filled 0x0a)
      if newline < 0 then rows at else hand memory (newline + 1) (rows at)
    hand memory n next = do
      ok <- take' (fromForeignPtr memory 0 n)
      dropFront buffer n
      when ok next
    rows at = do
      before <- readRef (bufferFilled buffer)
      if at >= b && before == 0
        then pure ()
        else do
          (filled, n, memory) <- more at
          if n == 0
            then when (filled > 0) (hand memory filled (pure ()))
            else
              if at < b
                then wholeRows (at + fromIntegral n)
                else do
                  newline <- withForeignPtr memory (\p -> findByteAt bestLevel (p `plusPtr` filled) n 0x0a)
                  if newline < 0
                    then rows (at + fromIntegral n)
                    else hand memory (filled + newline + 1) (pure ())
