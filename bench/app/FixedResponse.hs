{-# LANGUAGE OverloadedStrings #-}

-- | The response of @c\/response.h@, byte for byte.
module FixedResponse
  ( fixedResponse,
    fixedPage,
  )
where

import Data.ByteString (ByteString)

-- | The head and the page.
fixedResponse :: ByteString
fixedResponse =
  "HTTP/1.1 200 OK\r\n\
  \Server: fixed\r\n\
  \Date: Sat, 21 Nov 2026 19:00:00 GMT\r\n\
  \Content-Type: text/html\r\n\
  \Content-Length: 151\r\n\
  \Last-Modified: Sat, 21 Nov 2026 19:00:00 GMT\r\n\
  \\r\n"
    <> fixedPage

-- | 151 bytes.
fixedPage :: ByteString
fixedPage =
  "<html><head><title>Hi</title></head><body bgcolor=white text=black>\
  \0123456789012345678901234567890123456789012345678901234567890123456789\
  \</body></html>"
