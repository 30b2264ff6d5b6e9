-- | Runs a writer in a guarded piece of memory.
module Written
  ( written,
  )
where

import Control.Monad (unless)
import Data.ByteString (ByteString)
import Data.ByteString qualified as ByteString
import Data.Word (Word8)
import Foreign.Marshal.Alloc (allocaBytes)
import Foreign.Marshal.Utils (fillBytes)
import Foreign.Ptr (Ptr, castPtr, minusPtr, plusPtr)

-- | What a writer writes, given the most bytes that it may; fails when it
-- touches the memory before or after.
written :: Int -> (Ptr Word8 -> IO (Ptr Word8)) -> IO ByteString
written room write =
  allocaBytes (guard + room + guard) $ \memory -> do
    fillBytes memory 0xaa (guard + room + guard)
    let target = memory `plusPtr` guard
    end <- write target
    let len = end `minusPtr` target
    before <- ByteString.packCStringLen (castPtr memory, guard)
    text <- ByteString.packCStringLen (castPtr target, len)
    behind <- ByteString.packCStringLen (castPtr end, guard + room - len)
    unless (len <= room && ByteString.all (== 0xaa) before && ByteString.all (== 0xaa) behind) $
      fail ("wrote outside its " <> show room <> " bytes, or past the end it gave: " <> show (before, text, behind))
    pure text
  where
    guard = 16
