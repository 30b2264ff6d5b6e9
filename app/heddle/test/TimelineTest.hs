{-# LANGUAGE OverloadedStrings #-}

-- | Timelines of the running server: recorded on request, one after the other, while it serves.
module TimelineTest (tests) where

import Control.Concurrent (forkIO, modifyMVar_, newEmptyMVar, newMVar, putMVar, readMVar, takeMVar, tryReadMVar)
import Control.Monad (forM_, unless, void)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Heddle.Testkit.HttpClient
import Heddle.Testkit.Watchdog
import Program
import System.Exit (ExitCode (..))
import System.FilePath ((</>))
import System.Posix.Signals (sigTERM)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, testCase, (@?=))

tests :: TestTree
tests =
  testGroup
    "timelines of a running server"
    [ testCase "logs, pages and tables, one after the other, while it serves; in the sandbox and without" . withDirectory $ \d ->
        forM_ ["auto", "off"] $ \sandbox -> serving d ["--status-timeline", "20", "--cores", "2", "--sandbox", sandbox] $ \program -> do
          forM_ [1 :: Int, 2] $ \_ -> do
            log' <- busy program (asked program "?seconds=1&form=log")
            C.take 8 log' @?= "hdrbhetb"
            B.writeFile (d </> "log") log'
            table <- runTool "heddle" ["trace", d </> "log"]
            -- Nothing is damaged, and both event managers and a connection are there.
            (endedCode table, endedErr table) @?= (ExitSuccess, "")
            forM_ ["2 cores", "event manager (", "dispatch", "sleep", "park"] $ \part -> contains part (C.unpack (endedOut table))
          page <- busy program (asked program "?seconds=1")
          contains "<!doctype html>" (C.unpack page)
          contains "<h1>heddle serve (process " (C.unpack page)
          contains "event manager" (C.unpack page)
          told <- busy program (asked program "?seconds=1&form=summary")
          contains "heddle serve (process " (C.unpack told)
          contains "event manager (" (C.unpack told)
          -- And nothing is recorded any more.
          answered program,
      testCase "the page may load nothing, and the log is for another program" . withDirectory $ \d -> serving d ["--status-timeline", "1"] $ \program -> do
        page <- request program ["-D", "-", "-o", "/dev/null"] ""
        forM_ ["200 OK", "default-src 'none'", "no-store", "text/html"] $ \part -> contains part (C.unpack page)
        log' <- request program ["-D", "-", "-o", "/dev/null"] "?form=log"
        forM_ ["attachment", "application/octet-stream"] $ \part -> contains part (C.unpack log'),
      testCase "one at a time, for as long as was allowed, and by GET" . withDirectory $ \d -> serving d ["--status-timeline", "3"] $ \program -> do
        first <- newEmptyMVar
        -- Either may be first. The long one is, in the end, and the short one is refused.
        void . forkIO $ eventually "a recording" (asked program "?seconds=3&form=log") (("hdrb" ==) . C.take 4) >>= putMVar first
        _ <- eventually "a second recording to be refused" (code program [] "?seconds=1&form=log") (== "409")
        void (readMVar first)
        forM_ ["?seconds=4", "?seconds=0", "?seconds=1.5", "?seconds=", "?form=gif", "?second=1"] $ \query -> code program [] query >>= (@?= (query, "400")) . (,) query
        code program ["-I"] "" >>= (@?= "405")
        code program ["-X", "POST"] "" >>= (@?= "405"),
      testCase "not without the option, nor for others than the status's readers" . withDirectory $ \d -> do
        serving d [] $ \program -> code program [] "" >>= (@?= "404")
        serving d ["--status-timeline", "1", "--status-allow", "10.0.0.0/8"] $ \program -> code program [] "" >>= (@?= "404"),
      testCase "a server with an event log of its own keeps that" . withDirectory $ \d -> do
        serving d ["--status-timeline", "1", "--sandbox-write", d, "+RTS", "-l", "-ol" ++ d </> "own", "-RTS"] $ \program -> do
          code program [] "" >>= (@?= "501")
          answered program
          signal program sigTERM
          ends program >>= (@?= ExitSuccess)
        B.readFile (d </> "own") >>= (@?= "hdrb") . C.take 4,
      testCase "whoever leaves ends no recording, and the next one works" . withDirectory $ \d -> serving d ["--status-timeline", "2"] $ \program -> do
        gone <- runTool "curl" ["-sS", "--max-time", "0.5", url program "?seconds=2"]
        assertBool "a time-out" (endedCode gone /= ExitSuccess)
        text <- eventually "another recording" (asked program "?seconds=1&form=log") (("hdrb" ==) . C.take 4)
        assertBool "events" (B.length text > 1000)
    ]
  where
    serving d more act = do
      writeFile (d </> "index.html") "hello"
      withProgram (["serve", d, "--status", "/status"] ++ more ++ free) act
    answered program = withClient (addressOf program) $ \client -> do
      say client "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
      hearAnswer client >>= \a -> (answerCode a, answerBody a) @?= (200, "hello")
    asked program = request program []
    request program arguments query = do
      ended <- runTool "curl" (["-sS", "--max-time", "60"] ++ arguments ++ [url program query])
      unless (endedCode ended == ExitSuccess) (unexpected "curl to succeed" (show ended))
      pure (endedOut ended)
    code program arguments query = C.unpack <$> request program (["-o", "/dev/null", "-w", "%{http_code}"] ++ arguments) query
    url program query = case programUrls program of
      address : _ -> takeWhile (/= ' ') address ++ "/status/timeline" ++ query
      [] -> error "no URL"
    -- Requests are answered meanwhile, some of them.
    busy program act = do
      over <- newEmptyMVar
      counted <- newMVar (0 :: Int)
      done <- newEmptyMVar
      let load = do
            ended <- tryReadMVar over
            case ended of
              Just () -> putMVar done ()
              Nothing -> answered program >> modifyMVar_ counted (pure . (+ 1)) >> load
      _ <- forkIO load
      result <- act
      putMVar over ()
      takeMVar done
      n <- readMVar counted
      result <$ unless (n > 0) (unexpected "requests that are answered meanwhile" (show n))
