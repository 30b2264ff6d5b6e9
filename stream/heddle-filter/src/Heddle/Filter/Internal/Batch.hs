-- |
-- Module      : Heddle.Filter.Internal.Batch
-- Description : Small pieces put together
-- Stability   : internal, exempt from the version policy
--
-- For a consumer that keeps pieces. Many small ones would take many times their bytes, and each would keep the whole block
-- alive that it was cut from. So they are copied, one behind the other, into memory of the batch's own; large ones are passed
-- on as they are.
--
-- Cost: a copy of each small piece.
-- Owner: the thread that appends. What has been passed on never changes.
module Heddle.Filter.Internal.Batch
  ( Batch,
    newBatch,
    append,
    passOn,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString qualified as Bytes
import Data.ByteString.Internal (fromForeignPtr, mallocByteString)
import Data.ByteString.Unsafe qualified as Bytes
import Data.Word (Word8)
import Foreign.ForeignPtr (ForeignPtr, withForeignPtr)
import Foreign.Marshal.Utils (copyBytes)
import Foreign.Ptr (castPtr, plusPtr)
import Heddle.Prim.Atomic (Ref, Words, newRef, newWords, readRef, readWord, writeRef, writeWord)

-- | Pieces that have not been passed on.
data Batch = Batch
  { batchMemory :: !(Ref (ForeignPtr Word8)),
    -- | The range of the memory that has not been passed on.
    batchWords :: !Words,
    batchSend :: !(ByteString -> IO Bool),
    batchWanted :: !(Ref Bool)
  }

-- How many bytes of memory are filled before others are taken.
capacity :: Int
capacity = 65536

-- Pieces from this length on are not copied.
large :: Int
large = 8192

from, to :: Int
from = 0
to = 1

-- | An empty batch; the function gets what is passed on, and answers 'False' if it wants no more.
newBatch :: (ByteString -> IO Bool) -> IO Batch
newBatch send = do
  none <- mallocByteString 0
  spent <- newWords 2
  writeWord spent from capacity
  writeWord spent to capacity
  (\memory -> Batch memory spent send) <$> newRef none <*> newRef True

-- | Append a piece. 'False': no more is wanted.
append :: Batch -> ByteString -> IO Bool
append batch piece
  | n >= large = passOn batch >> sending batch piece
  | otherwise = do
    end <- readWord (batchWords batch) to
    if end + n <= capacity then copy end else more >> copy 0
    readRef (batchWanted batch)
  where
    n = Bytes.length piece
    more = do
      _ <- passOn batch
      mallocByteString capacity >>= writeRef (batchMemory batch)
      writeWord (batchWords batch) from 0
    copy end = do
      memory <- readRef (batchMemory batch)
      Bytes.unsafeUseAsCString piece (\p -> withForeignPtr memory (\room -> copyBytes (room `plusPtr` end) (castPtr p) n))
      writeWord (batchWords batch) to (end + n)

-- | Pass on what has been appended. 'False': no more is wanted.
passOn :: Batch -> IO Bool
passOn batch = do
  start <- readWord (batchWords batch) from
  end <- readWord (batchWords batch) to
  if end <= start
    then readRef (batchWanted batch)
    else do
      memory <- readRef (batchMemory batch)
      writeWord (batchWords batch) from end
      sending batch (fromForeignPtr memory start (end - start))

sending :: Batch -> ByteString -> IO Bool
sending batch piece = do
  wanted <- batchSend batch piece
  wanted <$ writeRef (batchWanted batch) wanted
