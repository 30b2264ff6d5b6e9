{-# LANGUAGE OverloadedStrings #-}

-- | Clients that leave at any point of any exchange, and applications that are interrupted there: nothing
-- is lost, and the next client is served.
module Storm (tests) where

import Control.Concurrent (ThreadId, forkIO, killThread, myThreadId, newEmptyMVar, putMVar, takeMVar, threadDelay)
import Control.Exception (SomeException, bracket_, try)
import Control.Monad (forM, forM_, unless, void, when, (<=<))
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Builder (byteString)
import Data.ByteString.Char8 qualified as C
import Data.IORef
import Fixture
import Heddle.Testkit.HttpClient
import Heddle.Testkit.Watchdog
import Network.HTTP.Types
import Network.Wai
import Network.Wai.Handler.Heddle
import Test.Tasty
import Test.Tasty.HUnit

tests :: TestTree
tests =
  testGroup
    "storms"
    [ testCase "clients that leave" $ storm (\_ -> pure ()),
      testCase "and applications that are killed" $
        storm $ \working -> do
          threads <- readIORef working
          forM_ (take 1 threads) killThread
    ]

-- Two hundred connections, each cut after a different count of bytes sent, while the action happens again and
-- again to the threads that are in an application. Afterwards every connection and every application has
-- ended, and a client is served.
storm :: (IORef [ThreadId] -> IO ()) -> Assertion
storm trouble = do
  opened <- newIORef (0 :: Int)
  closed <- newIORef (0 :: Int)
  inside <- newIORef (0 :: Int)
  working <- newIORef []
  let settings = setOnOpen (\_ -> True <$ add opened 1) (setOnClose (\_ -> add closed 1) (setOnException (\_ _ -> pure ()) defaultSettings))
      application request respond = do
        me <- myThreadId
        let enter = add inside 1 >> atomicModifyIORef' working (\ts -> (me : ts, ()))
            leave = add inside (-1) >> atomicModifyIORef' working (\ts -> (filter (/= me) ts, ()))
        bracket_ enter leave (mixed request respond)
  withHeddleSettings settings application $ \address -> do
    dones <- forM [1 .. 200 :: Int] $ \n -> do
      done <- newEmptyMVar
      _ <- forkIO . (putMVar done <=< try) $
        withClient address $ \client -> do
          let text = B.concat (replicate 3 (conversation n))
              sent = (n * 37) `rem` B.length text
          say client (B.take sent text)
          when (even n) (void (hearsWithin client 2000))
          if n `rem` 3 == 0 then abort client else unless (n `rem` 3 == 1) (finish client)
      when (n `rem` 5 == 0) (trouble working)
      pure done
    forM_ dones $ \done -> patiently "a client" (takeMVar done) >>= either (\(_ :: SomeException) -> pure ()) pure
    trouble working
    void (eventually "no application is running" (readIORef inside) (== 0))
    void (eventually "as many ends as beginnings" ((,) <$> readIORef opened <*> readIORef closed) (uncurry (==)))
    withClient address $ \client -> say client (get "/") >> hearAnswer client >>= answersWith 200 "small"
  where
    add ref n = atomicModifyIORef' ref (\m -> (m + n, ()))

conversation :: Int -> ByteString
conversation n = case n `rem` 4 of
  0 -> get "/"
  1 -> "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 40\r\n\r\n" <> C.replicate 40 'x'
  2 -> "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n10\r\n0123456789abcdef\r\n0\r\n\r\n"
  _ -> get "/stream"

mixed :: Application
mixed request respond = case rawPathInfo request of
  "/echo" -> strictRequestBody request >>= respond . responseLBS status200 []
  "/stream" -> respond (responseStream status200 [] (\write flush -> forM_ [1 :: Int .. 20] (\_ -> write (byteString (B.replicate 10000 97)) >> flush >> threadDelay 100)))
  _ -> respond (responseLBS status200 [] "small")
