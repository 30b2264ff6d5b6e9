{-# LANGUAGE OverloadedStrings #-}

-- | The websockets package's echo on Warp.
module Main
  ( main,
  )
where

import Arguments (portAndCapabilities)
import Network.Wai.Handler.Warp (defaultSettings, runSettings, setHost, setPort)
import WaiWebSockets (echoApplication)

main :: IO ()
main = do
  port <- portAndCapabilities
  runSettings (setPort port (setHost "127.0.0.1" defaultSettings)) echoApplication
