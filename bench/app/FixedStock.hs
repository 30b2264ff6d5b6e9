-- | The fixed response on GHC's own event manager.
module Main
  ( main,
  )
where

import Arguments (portAndCapabilities)
import Control.Monad (replicateM_)
import Data.ByteString.Unsafe (unsafeUseAsCStringLen)
import FixedResponse (fixedResponse)
import Foreign.Ptr (castPtr)
import Heads (countHeads)
import StockServer (sendWhole, serveStock)

main :: IO ()
main = do
  port <- portAndCapabilities
  unsafeUseAsCStringLen fixedResponse $ \(response, len) ->
    serveStock port 4096 $ \connection buffer got matched -> do
      (heads, matched') <- countHeads buffer got matched
      replicateM_ heads (sendWhole connection (castPtr response) len)
      pure matched'
