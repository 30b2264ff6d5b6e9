{-# LANGUAGE OverloadedStrings #-}

-- | Out of descriptors: accepting pauses and recovers, and nothing is lost.
module PressureTest (tests) where

import Control.Concurrent (forkIO)
import Control.Concurrent.MVar
import Control.Exception (SomeException, try)
import Control.Monad (forM, forM_, replicateM_)
import Heddle.Http.RawClient
import Network.Socket (SockAddr)
import Program
import System.Exit (ExitCode (..))
import System.FilePath ((</>))
import System.Posix.Signals
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (testCase, (@?=))

tests :: TestTree
tests =
  testGroup
    "out of descriptors"
    [ testCase ("filesFoundNoDescriptors: " ++ kind ++ ": 200 clients at once, 64 descriptors, every request answered") $
        withDirectory $ \d -> do
          writeFile (d </> "index.html") "home"
          withProgramIn [] ("/bin/sh", ["-c", "ulimit -n 64; exec heddle serve " ++ d ++ " --listen 127.0.0.1:0 --cores 2 " ++ options]) $ \program -> do
            crowd (addressOf program)
            crowd (addressOf program)
            programErr program >>= contains "accepting pauses"
            programErr program >>= contains "ulimit -n"
            -- Recovered: one more goes as ever.
            withClient (addressOf program) $ \client -> do
              say client "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
              hearAnswer client >>= answersWith 200 "home"
            signal program sigTERM
            ends program >>= (@?= ExitSuccess)
      | (kind, options) <- [("epoll, a listener per core", ""), ("epoll, one acceptor", "--one-acceptor"), ("poll", "--backend poll")]
    ]

-- All connect and ask before the first one hears its answer.
crowd :: SockAddr -> IO ()
crowd address = do
  ready <- newEmptyMVar
  go <- newEmptyMVar
  done <- forM [1 .. clients] $ \i -> do
    result <- newEmptyMVar
    _ <- forkIO $ do
      r <- try . withClient address $ \client -> do
        say client "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
        putMVar ready ()
        readMVar go
        hearAnswer client
      putMVar result (i, r)
    pure result
  replicateM_ clients (takeMVar ready)
  putMVar go ()
  forM_ done $ \result -> do
    (i, r) <- readMVar result
    case r of
      Right answer -> answersWith 200 "home" answer
      Left e -> unexpected ("client " ++ show i ++ " to be answered") (show (e :: SomeException))
  where
    clients = 200 :: Int
