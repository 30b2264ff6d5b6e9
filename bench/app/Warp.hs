{-# LANGUAGE OverloadedStrings #-}

-- | The fixed page through Warp, which adds the date and the server.
module Main
  ( main,
  )
where

import Arguments (portCapabilitiesAndMore)
import Network.Wai.Handler.Warp (defaultSettings, runSettings, setHost, setPort, setServerName)
import WaiApplication (fixedApplication)

main :: IO ()
main = do
  (port, more) <- portCapabilitiesAndMore
  runSettings (setPort port (setHost "127.0.0.1" (setServerName "fixed" defaultSettings))) (fixedApplication more)
