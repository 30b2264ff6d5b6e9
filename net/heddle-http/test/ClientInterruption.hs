{-# LANGUAGE OverloadedStrings #-}

-- | Requests that are interrupted anywhere: no connection and no slot is lost, and no answer goes to another request.
module ClientInterruption
  ( tests,
  )
where

import ClientFixture
import Control.Concurrent
import Control.Exception (ErrorCall (..), SomeException, try)
import Control.Monad (forM, forM_, unless, void)
import Data.ByteString (ByteString)
import Data.ByteString.Char8 qualified as C
import Data.IORef
import EngineFixture (Engine (..), echo, onBothBackends, tight, withEngine)
import Heddle.Http (connectionsOpen)
import Heddle.Http.Client
import Heddle.IO (BackendChoice (..))
import Heddle.Prim.Exception (throwIO)
import Heddle.Testkit.Threads (waitParked)
import Heddle.Testkit.Watchdog
import System.Timeout (timeout)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (testCase, (@?=))
import Test.Tasty.QuickCheck

tests :: TestTree
tests =
  testGroup
    "interruption"
    [ onBothBackends "in each wait" inEachWait,
      onBothBackends "anywhere" $ \backend -> [storm backend]
    ]

inEachWait :: BackendChoice -> [TestTree]
inEachWait backend =
  [ killed "waiting for the head" "" (`get` "/"),
    killed "waiting for the rest of the head" "HTTP/1.1 2" (`get` "/"),
    killed "waiting for the content" "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc" (`get` "/"),
    killed "waiting for 100" "" (\o -> (requestTo "POST" o "/") {requestBody = BodyBytes "x", requestExpect = True}),
    testCase "waiting for a connection" $
      withSaying "" $ \heard origin ->
        withPatient backend patient {clientPerOrigin = 1} $ \client -> do
          holder <- forkOn 0 (void (attempted (fetch client (get origin "/") 10)))
          patiently "the request" (takeMVar heard)
          waiter <- forkOn 0 (void (attempted (fetch client (get origin "/") 10)))
          waitParked waiter
          killThread waiter
          killThread holder
          _ <- eventually "no connection" (connectionsInAll client) (== 0)
          pure (),
    testCase "the action fails: its exception, and the connection closes" $
      withSaying "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n" $ \_ origin ->
        withPatient backend patient $ \client -> do
          r <- try (withResponse client (get origin "/") (\_ -> throwIO (ErrorCall "in the action")))
          either (\(ErrorCall what) -> what) (\() -> "none") r @?= "in the action"
          connectionsInAll client >>= (@?= 0),
    testCase "a time-out while reading can be caught, and reading goes on" $ do
      go <- newEmptyMVar
      withScripted (\_ peer -> hearHead peer >> tell peer "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nabc" >> takeMVar go >> tell peer "def") $ \origin ->
        withPatient backend patient $ \client ->
          withResponse client (get origin "/") $ \response -> do
            readResponsePiece response >>= (@?= "abc")
            timeout 10000 (readResponsePiece response) >>= (@?= Nothing)
            putMVar go ()
            readResponsePiece response >>= (@?= "def")
            readResponsePiece response >>= (@?= "")
  ]
  where
    killed what bytes request = testCase what $
      withSaying bytes $ \heard origin ->
        withPatient backend patient $ \client -> do
          thread <- forkIO (void (attempted (fetch client (request origin) 100)))
          patiently "the request" (takeMVar heard)
          waitParked thread
          killThread thread
          _ <- eventually "no connection" (connectionsInAll client) (== 0)
          pure ()
    withSaying :: ByteString -> (MVar () -> Origin -> IO a) -> IO a
    withSaying bytes body = do
      heard <- newEmptyMVar
      withScripted (\_ peer -> hearHead peer >> tell peer bytes >> putMVar heard () >> void (hearToEnd peer)) (body heard)

attempted :: IO a -> IO (Either SomeException a)
attempted = try

-- Requests of all kinds, many of them cut off after a random time; those that end have their own answer.
storm :: BackendChoice -> TestTree
storm backend =
  testProperty "a storm" . withMaxSuccess 4 . forAll (vectorOf 150 ((,) <$> choose (0, 4 :: Int) <*> choose (0, 6000 :: Int))) $ \plans ->
    ioProperty $
      withEngine backend tight echo $ \engine ->
        withPatient backend patient {clientPerOrigin = 3} $ \client -> do
          wrong <- newIORef []
          finished <- newIORef (0 :: Int)
          let origin = originOf (engineAddress engine)
          ends <- forM (zip [1 :: Int ..] plans) $ \(i, (kind, time)) -> do
            done <- newEmptyMVar
            void . flip forkFinally (\_ -> putMVar done ()) $ do
              let name = C.pack ("/" ++ show i)
                  body = C.replicate (i * 97 `mod` 30000) 'b'
                  request = case kind of
                    0 -> get origin name
                    1 -> (requestTo "POST" origin name) {requestBody = BodyBytes body}
                    2 -> (requestTo "POST" origin name) {requestBody = BodyChunked (\w -> forM_ [1 .. 10 :: Int] (\_ -> writerPut w "0123456789" >> writerFlush w))}
                    3 -> (requestTo "PUT" origin name) {requestBody = BodySized 4 (`writerPut` "four"), requestExpect = True}
                    _ -> (get origin name) {requestClose = True}
                  expected = case kind of
                    0 -> "GET " <> name <> "\n"
                    1 -> "POST " <> name <> "\n" <> body
                    2 -> "POST " <> name <> "\n" <> C.concat (replicate 10 "0123456789")
                    3 -> "PUT " <> name <> "\nfour"
                    _ -> "GET " <> name <> "\n"
              -- Every fifth one is left alone.
              r <- (if i `mod` 5 == 0 then fmap Just else timeout time) (fetch client request 1000000)
              forM_ r $ \fetched -> do
                atomicModifyIORef' finished (\n -> (n + 1, ()))
                unless (fetchedContent fetched == expected) (atomicModifyIORef' wrong (\w -> ((expected, fetched) : w, ())))
            pure done
          forM_ ends (patiently "a request to end" . takeMVar)
          allReturned client
          count <- readIORef finished
          mistakes <- readIORef wrong
          -- What is kept can be used.
          after <- fetch client (get origin "/after") 100
          closeClient client
          _ <- eventually "the server's connections to end" (connectionsOpen (engineServer engine)) (== 0)
          pure (counterexample (show (count, take 1 mistakes)) (null mistakes .&&. count >= 30 .&&. fetchedContent after === "GET /after\n"))
