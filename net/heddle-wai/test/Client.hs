{-# LANGUAGE OverloadedStrings #-}

-- | http-client as the client: its own ideas about keeping connections, bodies and redirects.
module Client (tests) where

import Control.Concurrent (forkIO, newEmptyMVar, putMVar, takeMVar)
import Control.Exception (SomeException, try)
import Control.Monad (forM, forM_, (<=<))
import Data.ByteString qualified as B
import Data.ByteString.Builder (byteString, intDec)
import Data.ByteString.Char8 qualified as C
import Data.ByteString.Lazy qualified as L
import Heddle.Testkit.Watchdog
import Network.HTTP.Client qualified as Client
import Network.HTTP.Types
import Network.Wai
import Network.Wai.Handler.Heddle qualified as Heddle
import Test.Tasty
import Test.Tasty.HUnit

tests :: TestTree
tests =
  testGroup
    "http-client"
    [ testCase "a thousand requests over kept connections, from eight threads" $
        serving echo $ \manager address -> do
          dones <- forM [1 .. 8 :: Int] $ \thread -> do
            done <- newEmptyMVar
            _ <- forkIO . (putMVar done <=< try) $
              forM_ [1 .. 125 :: Int] $ \n -> do
                let body = C.pack (show (thread, n))
                answer <- Client.httpLbs (post address) {Client.requestBody = Client.RequestBodyBS body} manager
                Client.responseBody answer @?= L.fromStrict body
            pure done
          forM_ dones $ \done -> patiently "a client" (takeMVar done) >>= either (\(e :: SomeException) -> assertFailure (show e)) pure,
      testCase "a chunked request body" $
        serving echo $ \manager address -> do
          let pieces = map (B.replicate 1000) [97 .. 122]
              streaming give = newPieces pieces >>= give
          answer <- Client.httpLbs (post address) {Client.requestBody = Client.RequestBodyStreamChunked streaming} manager
          Client.responseBody answer @?= L.fromChunks pieces,
      testCase "Expect: 100-continue" $
        serving echo $ \manager address -> do
          answer <- Client.httpLbs (post address) {Client.requestHeaders = [(hExpect, "100-continue")], Client.requestBody = Client.RequestBodyBS "patience"} manager
          Client.responseBody answer @?= "patience",
      testCase "streams, redirects, HEAD and large bodies" $
        serving various $ \manager address -> do
          stream <- Client.httpLbs address {Client.path = "/stream"} manager
          Client.responseBody stream @?= L.fromStrict (B.concat [C.pack (show n) | n <- [1 :: Int .. 1000]])
          moved <- Client.httpLbs address {Client.path = "/moved"} manager
          Client.responseBody moved @?= "there"
          headed <- Client.httpLbs address {Client.method = "HEAD", Client.path = "/there"} manager
          (Client.responseBody headed, lookup hContentLength (Client.responseHeaders headed)) @?= ("", Just "5")
          large <- Client.httpLbs address {Client.path = "/large"} manager
          L.length (Client.responseBody large) @?= 3000000
    ]
  where
    post address = address {Client.method = "POST"}
    hExpect = "Expect"

serving :: Application -> (Client.Manager -> Client.Request -> IO a) -> IO a
serving application act = Heddle.withApplication (pure application) $ \port -> do
  manager <- Client.newManager Client.defaultManagerSettings
  address <- Client.parseRequest ("http://127.0.0.1:" ++ show port ++ "/")
  act manager address

newPieces :: [B.ByteString] -> IO (IO B.ByteString)
newPieces pieces = do
  rest <- newEmptyMVar
  putMVar rest pieces
  pure $
    takeMVar rest >>= \case
      [] -> putMVar rest [] >> pure B.empty
      one : others -> putMVar rest others >> pure one

echo, various :: Application
echo request respond = strictRequestBody request >>= respond . responseLBS status200 []
various request respond = respond $ case rawPathInfo request of
  "/stream" -> responseStream status200 [] (\write flush -> forM_ [1 .. 1000] (\n -> write (intDec n) >> flush))
  "/moved" -> responseLBS status302 [(hLocation, "/there")] ""
  "/there" -> responseLBS status200 [] "there"
  _ -> responseBuilder status200 [] (byteString (B.replicate 3000000 65))
