{-# LANGUAGE OverloadedStrings #-}

-- | Request bodies: lazily read, not read, read late.
module Bodies (tests) where

import Control.Concurrent (forkIO, newEmptyMVar, putMVar, takeMVar)
import Control.Exception (SomeException, fromException, try)
import Control.Monad (forM_, unless, void)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.ByteString.Lazy qualified as L
import Data.IORef
import Fixture
import Heddle.Testkit.HttpClient
import Heddle.Testkit.Threads (waitParked)
import Heddle.Testkit.Watchdog
import Network.HTTP.Types
import Network.Wai
import Network.Wai.Handler.Heddle qualified as Heddle
import Test.Tasty
import Test.Tasty.HUnit

tests :: TestTree
tests =
  testGroup
    "request bodies"
    [ testCase "whole, in both framings, and the next request after them" $
        withHeddle echo $ \client -> forM_ [1 :: Int .. 3] $ \_ -> do
          say client "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello"
          hearAnswer client >>= answersWith 200 "hello"
          say client "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
          hearAnswer client >>= answersWith 200 "hello",
      testCase "a megabyte" $ do
        let body = B.replicate 1000000 98
        withHeddle echo $ \client -> do
          _ <- forkIO (say client (sized body))
          answer <- hearAnswer client
          B.length (answerBody answer) @?= 1000000,
      testCase "at its end it stays empty" $ do
        let application request respond = do
              pieces <- mapM (const (getRequestBodyChunk request)) [1 :: Int .. 4]
              respond (responseLBS status200 [] (L.fromStrict (C.pack (show (map B.length pieces)))))
        withHeddle application $ \client -> say client (sized "abc") >> hearAnswer client >>= answersWith 200 "[3,0,0,0]",
      testCase "it can be read after the response" $ do
        seen <- newEmptyMVar
        let application request respond = do
              received <- respond (responseLBS status200 [] "early")
              strictRequestBody request >>= putMVar seen
              pure received
        withHeddle application $ \client -> do
          say client "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n"
          hearAnswer client >>= answersWith 200 "early"
          say client "later"
          takeMVar seen >>= (@?= "later")
          say client (sized "x")
          hearAnswer client >>= answersWith 200 "early"
          takeMVar seen >>= (@?= "x"),
      testCase "it is empty for whoever reads it after the application has returned" $ do
        kept <- newIORef []
        let application request respond = modifyIORef kept (request :) >> respond (responseLBS status200 [] "")
        withHeddle application $ \client -> do
          say client (sized "one")
          hearAnswer client >>= answersWith 200 ""
          say client (sized "two")
          hearAnswer client >>= answersWith 200 ""
          [_, first] <- readIORef kept
          getRequestBodyChunk first >>= (@?= ""),
      testCase "an unread body is dropped, and the connection kept" $
        withHeddle quiet $ \client -> forM_ [10, 8000 :: Int] $ \n -> do
          say client (sized (B.replicate n 97))
          hearAnswer client >>= answersWith 200 "quiet",
      testCase "more than the maximum closes the connection, without a reset" $
        withHeddle quiet $ \client -> do
          say client (sized (B.replicate 100000 97) <> get "/")
          hearAll client >>= (@?= [200]) . map answerCode,
      testCase "any amount is dropped without a maximum" $
        withHeddleSettings (Heddle.setMaximumBodyFlush Nothing Heddle.defaultSettings) quiet $ \address -> withClient address $ \client -> do
          say client (sized (B.replicate 200000 97) <> get "/")
          hearAnswer client >>= answersWith 200 "quiet"
          hearAnswer client >>= answersWith 200 "quiet",
      testCase "100 Continue comes when the body is read" $ do
        gate <- newEmptyMVar
        let application request respond = takeMVar gate >> echo request respond
        withHeddle application $ \client -> do
          say client "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n"
          early <- hearsWithin client 50000
          assertBool "nothing before the body is read" (not early)
          putMVar gate ()
          interim <- hearSome client
          interim @?= "HTTP/1.1 100 Continue\r\n\r\n"
          say client "abc"
          hearAnswer client >>= answersWith 200 "abc",
      testCase "no 100 Continue for a body that is not read; the connection closes" $
        withHeddle quiet $ \client -> do
          say client "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n"
          [answer] <- hearAll client
          answersWith 200 "quiet" answer
          answerInterim answer @?= []
          answerHeader answer "connection" @?= Just "close",
      testCase "a client that goes away in its body: ConnectionClosedByPeer" $ do
        seen <- newEmptyMVar
        let application request respond = do
              r <- try (strictRequestBody request)
              putMVar seen (either (\(e :: SomeException) -> fromException e) (const Nothing) r)
              respond (responseLBS status200 [] "")
        withHeddle application $ \client -> do
          say client "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc"
          finish client
          takeMVar seen >>= (@?= Just Heddle.ConnectionClosedByPeer)
          void (hearRest client),
      testCase "a malformed body is refused, and reported with its request" $ do
        reports <- newIORef []
        withHeddleSettings (reporting reports Heddle.defaultSettings) echo $ \address -> withClient address $ \client -> do
          say client "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"
          hearCodes client >>= (@?= [400])
        reportsAre reports [(True, "request body rejected")],
      testCase "a slow body ends in 408, unless its time-out is paused" $ do
        reports <- newIORef []
        let settings = Heddle.setTimeout 3 (reporting reports Heddle.defaultSettings)
            application request respond = do
              if rawPathInfo request == "/paused" then Heddle.pauseTimeout request else pure ()
              echo request respond
        withHeddleSettings settings application $ \address -> do
          withClient address $ \slow -> withClient address $ \paused -> do
            say slow "POST /slow HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nab"
            say paused "POST /paused HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nab"
            hearCodes slow >>= (@?= [408])
            -- The slow one has waited for a whole time-out by now, and the other as long.
            say paused "cd"
            hearAnswer paused >>= answersWith 200 "abcd"
        reportsAre reports [(True, "too slowly")],
      testCase "a thread that still reads when the application returns costs the connection only" $ do
        reports <- newIORef []
        let application request respond
              | rawPathInfo request == "/" = do
                reader <- forkIO (void (try (getRequestBodyChunk request) :: IO (Either SomeException ByteString)))
                waitParked reader
                respond (responseLBS status200 [] "returned")
              | otherwise = echo request respond
        withHeddleSettings (reporting reports Heddle.defaultSettings) application $ \address -> do
          withClient address $ \client -> do
            say client "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n"
            void (hearRest client)
          withClient address $ \client -> say client (C.concat ["POST /next", C.drop 6 (sized "fine")]) >> hearAnswer client >>= answersWith 200 "fine"
        reportsAre reports [(True, "while another of its threads")]
    ]

quiet, echo :: Application
quiet _ respond = respond (responseLBS status200 [] "quiet")
echo request respond = do
  body <- strictRequestBody request
  unless (L.length body >= 0) (unexpected "a length" "none")
  respond (responseLBS status200 [] body)

sized :: ByteString -> ByteString
sized body = C.concat ["POST / HTTP/1.1\r\nHost: a\r\nContent-Length: ", C.pack (show (B.length body)), "\r\n\r\n", body]
