{-# LANGUAGE OverloadedStrings #-}

-- | FastCGI servers that have a process for each connection, as php-fpm has, and fewer processes than there are requests.
module PoolTest (tests) where

import Control.Concurrent (forkIO, killThread)
import Control.Concurrent.MVar (MVar, newMVar, putMVar, readMVar, tryTakeMVar)
import Control.Exception (IOException, bracket, finally, try)
import Control.Monad (forM, forM_, forever, unless, void, when)
import Data.IORef
import FastCgiTest hiding (tests)
import GatewayFixture
import Heddle.Gateway.FastCgi
import Heddle.Gateway.FastCgi.Record
import Heddle.Testkit.HttpClient
import Heddle.Testkit.Threads (forkTask, joinTask)
import Heddle.Testkit.Watchdog
import Network.Socket
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, testCase, (@?=))

tests :: TestTree
tests =
  testGroup
    "FastCGI servers of few processes"
    [ testCase "keptConnectionsStarvedWaitingRequests" starved,
      testCase "keptConnectionsStarvedWaitingRequests: of another gateway" starvedByAnother,
      testCase "by default no connection is kept, and the application is told so" noneKept
    ]

-- A server of so many processes, each of which takes the next connection when its last one has ended, as php-fpm's do.
withProcesses :: Int -> (Peer -> IO ()) -> (SockAddr -> IO a) -> IO a
withProcesses n serve body = bracket (socket AF_INET Stream defaultProtocol) close $ \listener -> do
  bind listener loopback
  listen listener 256
  address <- getSocketName listener
  processes <- forM [1 .. n] $ \_ -> forkIO . forever $
    bracket (fst <$> accept listener) close $ \s ->
      void (try (newIORef "" >>= serve . Peer s) :: IO (Either IOException ()))
  body address `finally` mapM_ killThread processes

-- So many requests at once, whose answers begin when all of them have been sent.
burst :: FastCgi -> Running -> MVar () -> Int -> IO ()
burst fast running gate n = do
  _ <- tryTakeMVar gate
  tasks <- forM [1 .. n] $ \_ -> forkTask (asking running "/p" >>= answersWith 200 "hello")
  _ <- eventually "all requests to be sent" (fastConnectionsUsed fast) (== n)
  putMVar gate ()
  mapM_ joinTask tasks
  void (eventually "no connection in use" (fastConnectionsUsed fast) (== 0))

gated :: MVar () -> Peer -> IO ()
gated gate peer = wholeRequest peer >>= mapM_ (\_ -> readMVar gate >> tellPeer peer (reply "hello") >> gated gate peer)

starved :: IO ()
starved = forM_ [(4, 0), (4, 2), (4, 16), (1, 16)] $ \(processes, keep) -> do
  gate <- newMVar ()
  withProcesses processes (gated gate) $ \address -> withFast [address] (\s -> s {fastKeep = keep}) $ \fast running _ -> do
    -- The second time, connections may have been kept; at last as many as there are processes.
    forM_ [40, 40, processes, 40] (burst fast running gate)
    kept <- fastConnectionsKept fast
    assertBool (show kept) (kept <= min keep processes)
    -- When nobody waits, they are kept after all.
    when (keep > 0) $ do
      forM_ [1 .. 3 :: Int] $ \_ -> asking running "/p" >>= answersWith 200 "hello"
      void (eventually "a connection to be kept" (fastConnectionsKept fast) (>= 1))

-- Neither knows of the other's connections.
starvedByAnother :: IO ()
starvedByAnother = do
  gate <- newMVar ()
  withProcesses 4 (gated gate) $ \address ->
    withFast [address] (\s -> s {fastKeep = fastKeep (defaultFastCgiSettings [] "")}) $ \one first _ ->
      withFast [address] (\s -> s {fastKeep = fastKeep (defaultFastCgiSettings [] "")}) $ \two second _ ->
        forM_ [1 .. 3 :: Int] $ \_ -> burst one first gate 20 >> burst two second gate 20

noneKept :: IO ()
noneKept = do
  told <- newIORef []
  let serve peer = do
        begin <- record peer
        atomicModifyIORef' told (\all' -> (fmap recordContent begin : all', ()))
        let params = record peer >>= \r -> unless (fmap recordType r == Just Stdin) params
        params
        tellPeer peer (reply "hello")
  withProcesses 1 serve $ \address -> forM_ [(0, False), (1, True)] $ \(keep, flag) -> withFast [address] (\s -> s {fastKeep = keep}) $ \_ running _ -> do
    asking running "/p" >>= answersWith 200 "hello"
    begun <- head <$> readIORef told
    (begun >>= readBegin) @?= Just (Responder, flag)
