{-# LANGUAGE OverloadedStrings #-}

-- | A fixed page through Warp, of 151 bytes or of as many as a third argument
-- says; Warp itself adds the date and the server.
module Main
  ( main,
  )
where

import Arguments (portCapabilitiesAndMore)
import Data.ByteString qualified as ByteString
import Data.ByteString.Builder (byteString)
import Data.ByteString.Char8 qualified as Char8
import FixedResponse (fixedPage)
import Network.HTTP.Types (status200)
import Network.Wai (responseBuilder)
import Network.Wai.Handler.Warp (defaultSettings, runSettings, setHost, setPort, setServerName)

main :: IO ()
main = do
  (port, more) <- portCapabilitiesAndMore
  let settings = setPort port (setHost "127.0.0.1" (setServerName "fixed" defaultSettings))
      page = case more of
        size : _ -> Char8.replicate size 'x'
        [] -> fixedPage
      headers =
        [ ("Content-Type", "text/html"),
          ("Content-Length", Char8.pack (show (ByteString.length page))),
          ("Last-Modified", "Sat, 21 Nov 2026 19:00:00 GMT")
        ]
  runSettings settings $ \_ respond ->
    respond (responseBuilder status200 headers (byteString page))
