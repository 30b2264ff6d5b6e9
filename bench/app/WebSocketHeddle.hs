-- | A WebSocket that sends back what it receives, with heddle-websocket.
module Main
  ( main,
  )
where

import Arguments (portAndCapabilities)
import Control.Monad (forever)
import Heddle.Http (defaultSettings, runServer)
import Heddle.WebSocket
import Network.Socket (SockAddr (..), tupleToHostAddress)

main :: IO ()
main = do
  port <- portAndCapabilities
  runServer defaultSettings [SockAddrInet (fromIntegral port) (tupleToHostAddress (127, 0, 0, 1))] $
    websocket defaultWebSocketOptions $ \connection ->
      forever $
        receive connection >>= \case
          TextMessage text -> sendText connection text
          BinaryMessage bytes -> sendBinary connection bytes
