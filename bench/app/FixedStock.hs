-- | The fixed response on GHC's own event manager.
module Main
  ( main,
  )
where

import Arguments (portAndCapabilities)
import Control.Monad (replicateM_)
import Data.ByteString.Unsafe (unsafeUseAsCStringLen)
import Data.Word (Word8)
import FixedResponse (fixedResponse)
import Foreign.Ptr (Ptr, castPtr)
import Foreign.Storable (peekByteOff)
import StockServer (sendWhole, serveStock)

main :: IO ()
main = do
  port <- portAndCapabilities
  unsafeUseAsCStringLen fixedResponse $ \(response, len) ->
    serveStock port 4096 $ \connection buffer got matched -> do
      (heads, matched') <- countHeads buffer got matched
      replicateM_ heads (sendWhole connection (castPtr response) len)
      pure matched'

-- | How many heads end in these bytes, and how much of CR LF CR LF they end
-- with; the C twin counts the same way.
countHeads :: Ptr Word8 -> Int -> Int -> IO (Int, Int)
countHeads buffer len = go 0 0
  where
    go :: Int -> Int -> Int -> IO (Int, Int)
    go !at !heads !matched
      | at == len = pure (heads, matched)
      | otherwise = do
        byte <- peekByteOff buffer at :: IO Word8
        case byte of
          13 -> go (at + 1) heads (if matched == 2 then 3 else 1)
          10
            | matched == 3 -> go (at + 1) (heads + 1) 0
            | matched == 1 -> go (at + 1) heads 2
          _ -> go (at + 1) heads 0
