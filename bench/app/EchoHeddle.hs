-- | The echo on heddle-io.
module Main
  ( main,
  )
where

import Arguments (portAndCapabilities)
import HeddleServer (sendWhole, serveHeddle)

main :: IO ()
main = do
  port <- portAndCapabilities
  serveHeddle port 65536 $ \connection buffer got state -> do
    sendWhole connection buffer got
    pure state
