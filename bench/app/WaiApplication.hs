{-# LANGUAGE OverloadedStrings #-}

-- | The applications that "Warp" and "WaiHeddle" serve: a fixed page, of 151 bytes or of as many as
-- a third argument says.
module WaiApplication
  ( fixedApplication,
  )
where

import Data.ByteString qualified as ByteString
import Data.ByteString.Builder (byteString)
import Data.ByteString.Char8 qualified as Char8
import FixedResponse (fixedPage)
import Network.HTTP.Types (status200)
import Network.Wai (Application, responseBuilder)

-- | Given the numbers after port and capabilities. The response is made once: what is measured is the server.
fixedApplication :: [Int] -> Application
fixedApplication more = \_ respond -> respond response
  where
    response = responseBuilder status200 headers (byteString page)
    page = case more of
      size : _ -> Char8.replicate size 'x'
      [] -> fixedPage
    headers =
      [ ("Content-Type", "text/html"),
        ("Content-Length", Char8.pack (show (ByteString.length page))),
        ("Last-Modified", "Sat, 21 Nov 2026 19:00:00 GMT")
      ]
{-# NOINLINE fixedApplication #-}
