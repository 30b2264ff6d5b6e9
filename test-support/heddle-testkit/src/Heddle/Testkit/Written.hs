-- | Runs a writer in a guarded piece of memory.
module Heddle.Testkit.Written
  ( written,
    writtenWithin,
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
written = guarded True

-- | The same for a writer that may also write after the end that it returns, within its room.
writtenWithin :: Int -> (Ptr Word8 -> IO (Ptr Word8)) -> IO ByteString
writtenWithin = guarded False

guarded :: Bool -> Int -> (Ptr Word8 -> IO (Ptr Word8)) -> IO ByteString
guarded exact room write =
  allocaBytes (guard + room + guard) $ \memory -> do
    fillBytes memory 0xaa (guard + room + guard)
    let target = memory `plusPtr` guard
    end <- write target
    let len = end `minusPtr` target
    before <- ByteString.packCStringLen (castPtr memory, guard)
    text <- ByteString.packCStringLen (castPtr target, len)
    let touched = if exact then len else room
    behind <- ByteString.packCStringLen (castPtr (target `plusPtr` touched), guard + room - touched)
    unless (len <= room && ByteString.all (== 0xaa) before && ByteString.all (== 0xaa) behind) $
      fail ("wrote outside its " <> show room <> " bytes, or past the end it gave: " <> show (before, text, behind))
    pure text
  where
    guard = 16
