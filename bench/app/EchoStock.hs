-- | The echo server on GHC's own event manager.
module Main
  ( main,
  )
where

import Arguments (portAndCapabilities)
import StockServer (sendWhole, serveStock)

main :: IO ()
main = do
  port <- portAndCapabilities
  serveStock port 65536 $ \connection buffer got state -> do
    sendWhole connection buffer got
    pure state
