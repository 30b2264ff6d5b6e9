{-# LANGUAGE OverloadedStrings #-}

-- | SIGHUP: everything is opened again, and no request notices.
module ReloadTest (tests) where

import Control.Concurrent (forkIO)
import Control.Concurrent.MVar
import Control.Exception (SomeException, try)
import Control.Monad (forM, forM_, unless, void)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.IORef
import Heddle.Testkit.HttpClient
import Heddle.Testkit.Watchdog
import Program
import System.Directory
import System.Exit (ExitCode (..))
import System.FilePath ((</>))
import System.Posix.Files (setFileMode)
import System.Posix.Signals (sigHUP, sigTERM)
import Test.Tasty
import Test.Tasty.HUnit

tests :: TestTree
tests =
  testGroup
    "reload"
    [ testCase "100 times under load: files and posted forms, no failed request, and no descriptor more than before" underLoad,
      testCase "one that fails keeps what is served, and says why" failing,
      testCase "by processes: each worker reloads" byProcesses
    ]

-- Send SIGHUP and wait until that has been done.
reload :: Program -> IO ()
reload program = do
  before <- done
  signal program sigHUP
  void (eventually "the configuration to be loaded again" done (> before))
  where
    done = C.count '\n' . C.unlines . filter ("the configuration has been loaded again" `B.isInfixOf`) . C.lines . C.pack <$> programOut program

underLoad :: IO ()
underLoad = withDirectory $ \d -> do
  let root = d </> "site"
  createDirectory root
  B.writeFile (root </> "index.html") "home"
  B.writeFile (root </> "large") (B.replicate 300000 97)
  writeFile (d </> "echo") "#!/bin/sh\necho Content-Type: text/plain\necho\ncat\n"
  setFileMode (d </> "echo") 0o755
  withProgram (["serve", root, "--cgi", "/echo=" ++ (d </> "echo")] ++ free) $ \program -> do
    fetched program "/" >>= answersWith 200 "home"
    reload program
    before <- eventually "as many descriptors as at rest" (descriptors program) (> 0)
    over <- newIORef False
    clients <- forM [0 .. 5 :: Int] $ \n -> do
      result <- newEmptyMVar
      _ <- forkIO $ do
        r <- try . withClient (addressOf program) $ \client -> do
          let go :: Int -> IO Int
              go count = do
                stop <- readIORef over
                if stop
                  then pure count
                  else do
                    case n `mod` 3 of
                      0 -> get client "/" >>= answersWith 200 "home"
                      1 -> get client "/large" >>= \answer -> (answerCode answer, B.length (answerBody answer)) @?= (200, 300000)
                      _ -> say client "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello" >> hearAnswer client >>= answersWith 200 "hello"
                    go (count + 1)
          go 0
        putMVar result (r :: Either SomeException Int)
      pure result
    forM_ [1 .. 100 :: Int] (const (reload program))
    writeIORef over True
    counts <- forM clients $ \result -> takeMVar result >>= either (unexpected "every request answered" . show) pure
    assertBool ("every client had answers: " ++ show counts) (all (> 0) counts)
    void (eventually "the descriptors of earlier generations to go" (descriptors program) (<= before))
    signal program sigTERM
    ends program >>= (@?= ExitSuccess)
    programErr program >>= (@?= "")

descriptors :: Program -> IO Int
descriptors program = length <$> listDirectory ("/proc/" ++ show (programPid program) ++ "/fd")

get :: Client -> B.ByteString -> IO Answer
get client path = say client ("GET " <> path <> " HTTP/1.1\r\nHost: a\r\n\r\n") >> hearAnswer client

fetched :: Program -> B.ByteString -> IO Answer
fetched program path = withClient (addressOf program) (`get` path)

-- A server of a site with a page for 404, which is needed at each reload.
withPage :: [String] -> (Program -> FilePath -> IO ()) -> IO ()
withPage options body = withDirectory $ \d -> do
  let root = d </> "site"
      page = root </> "404.html"
  createDirectory root
  B.writeFile (root </> "index.html") "home"
  B.writeFile page "nothing"
  withProgram (["serve", root, "--error-page", "404=404.html"] ++ options ++ free) (`body` page)

failing :: IO ()
failing = withPage [] $ \program page -> do
  withClient (addressOf program) $ \client -> do
    get client "/" >>= answersWith 200 "home"
    removeFile page
    signal program sigHUP
    _ <- eventually "a message that says why" (C.pack <$> programErr program) ("the configuration cannot be used, and the old one stays: cannot use the page 404.html" `B.isInfixOf`)
    get client "/" >>= answersWith 200 "home"
    B.writeFile page "nothing"
    reload program
    get client "/" >>= answersWith 200 "home"
    get client "/none" >>= answersWith 404 "nothing"
  signal program sigTERM
  ends program >>= (@?= ExitSuccess)

byProcesses :: IO ()
byProcesses = withPage ["--processes", "2"] $ \program page -> do
  removeFile page
  signal program sigHUP
  _ <- eventually "a message of each worker" (C.lines . C.pack <$> programErr program) ((== 2) . length . filter ("the old one stays: cannot use the page" `B.isInfixOf`))
  fetched program "/" >>= answersWith 200 "home"
  signal program sigTERM
  code <- ends program
  unless (code == ExitSuccess) (unexpected "an end without an error" (show code))
