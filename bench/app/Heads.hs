-- | Counting requests in a stream of bytes, as the C twin does.
module Heads
  ( countHeads,
  )
where

import Data.Word (Word8)
import Foreign.C.Types (CInt (..), CSize (..))
import Foreign.Ptr (Ptr, minusPtr, nullPtr, plusPtr)
import Foreign.Storable (peekByteOff)

-- | How many heads end in these bytes, and how much of CR LF CR LF they end
-- with; like the C twin, it seeks a CR with memchr and looks on from there.
countHeads :: Ptr Word8 -> Int -> Int -> IO (Int, Int)
countHeads buffer len = go 0 0
  where
    go :: Int -> Int -> Int -> IO (Int, Int)
    go !at !heads !matched
      | at == len = pure (heads, matched)
      | matched == 0 = do
        found <- memchr (buffer `plusPtr` at) 13 (fromIntegral (len - at))
        if found == nullPtr
          then pure (heads, 0)
          else go (found `minusPtr` buffer + 1) heads 1
      | otherwise = do
        byte <- peekByteOff buffer at :: IO Word8
        case byte of
          13 -> go (at + 1) heads (if matched == 2 then 3 else 1)
          10
            | matched == 3 -> go (at + 1) (heads + 1) 0
            | matched == 1 -> go (at + 1) heads 2
          _ -> go (at + 1) heads 0
{-# INLINE countHeads #-}

-- Unsafe: reads memory.
foreign import ccall unsafe "memchr" memchr :: Ptr Word8 -> CInt -> CSize -> IO (Ptr Word8)
