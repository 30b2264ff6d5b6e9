{-# LANGUAGE OverloadedStrings #-}

-- | A WebSocket that sends back what it receives, with the websockets package.
module WaiWebSockets
  ( echoApplication,
  )
where

import Control.Monad (forever)
import Data.ByteString (ByteString)
import Network.HTTP.Types (status404)
import Network.Wai (Application, responseLBS)
import Network.Wai.Handler.WebSockets (websocketsOr)
import Network.WebSockets (acceptRequest, defaultConnectionOptions, receiveData, sendBinaryData)

-- | No compression, as the load asks for none.
echoApplication :: Application
echoApplication = websocketsOr defaultConnectionOptions echo (\_ respond -> respond (responseLBS status404 [] ""))
  where
    echo pending = do
      connection <- acceptRequest pending
      forever (receiveData connection >>= \message -> sendBinaryData connection (message :: ByteString))
