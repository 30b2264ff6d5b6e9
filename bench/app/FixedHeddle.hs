-- | The fixed response on heddle-io.
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
import HeddleServer (sendWhole, serveHeddle)

main :: IO ()
main = do
  port <- portAndCapabilities
  unsafeUseAsCStringLen fixedResponse $ \(response, len) ->
    serveHeddle port 4096 $ \connection buffer got matched -> do
      (heads, matched') <- countHeads buffer got matched
      replicateM_ heads (sendWhole connection (castPtr response) len)
      pure matched'
