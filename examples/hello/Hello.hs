{-# LANGUAGE OverloadedStrings #-}

-- | A first server: http://localhost:8000 says hello.
module Main
  ( main,
  )
where

import Heddle.Http
import Network.Socket (SockAddr (..), tupleToHostAddress)

main :: IO ()
main = runServer defaultSettings [SockAddrInet 8000 (tupleToHostAddress (127, 0, 0, 1))] hello

hello :: Handler
hello request = do
  path <- rawPath request
  pure $ case path of
    "/" -> Whole status200 [text] "Hello from Heddle.\n"
    _ -> Whole status404 [text] "There is nothing at this address.\n"
  where
    text = Header "Content-Type" "text/plain; charset=utf-8"
