{-# LANGUAGE OverloadedStrings #-}

-- | The program's access log.
module LogTest (tests) where

import Control.Concurrent (forkIO)
import Control.Concurrent.MVar
import Control.Exception (IOException, SomeException, bracket, try)
import Control.Monad (forM, forM_)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.List (isPrefixOf, sort)
import Heddle.Testkit.AccessLogLine
import Heddle.Testkit.Descriptors (openDescriptor)
import Heddle.Testkit.HttpClient
import Heddle.Testkit.Watchdog
import Network.Socket (SockAddr (..))
import Program
import System.Directory (renameDirectory, renameFile)
import System.Exit (ExitCode (..))
import System.FilePath ((</>))
import System.Posix.Files (createNamedPipe)
import System.Posix.IO (FdOption (..), OpenMode (..), closeFd, fdWrite, setFdOption)
import System.Posix.Signals
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, testCase, (@?=))

tests :: TestTree
tests =
  testGroup
    "access log"
    [ testCase "a line per request, all there when the program has ended" $
        withDirectory $ \d -> do
          let path = d </> "log"
          withProgram (["serve", "/tmp", "--cores", "2", "--access-log", path] ++ free) $ \program -> do
            load (addressOf program) 4 "a" 500
            signal program sigTERM
            ends program >>= (@?= ExitSuccess)
          requests path >>= (@?= wanted 4 "a" 500),
      testCase "a signal while requests come: a line for each one that was answered" $
        withDirectory $ \d -> do
          let path = d </> "log"
          answered <- withProgram (["serve", "/tmp", "--access-log", path] ++ free) $ \program -> do
            count <- newMVar (0 :: Int)
            done <- newEmptyMVar
            _ <- forkIO $ do
              _ <- try (withClient (addressOf program) (untilEnd count)) :: IO (Either SomeException ())
              putMVar done ()
            _ <- eventually "100 answers" (readMVar count) (> 100)
            signal program sigTERM
            ends program >>= (@?= ExitSuccess)
            takeMVar done
            readMVar count
          lineCount <- length <$> requests path
          lineCount @?= answered,
      testCase "reopenedBeforeWriting: SIGUSR1 and SIGHUP after a rename: earlier lines in the old file, nothing lost" $
        forM_ [sigUSR1, sigHUP] $ \s -> withDirectory $ \d -> do
          let path = d </> "log"
          withProgram (["serve", "/tmp", "--access-log", path] ++ free) $ \program -> do
            load (addressOf program) 1 "a" 50
            renameFile path (path ++ ".1")
            load (addressOf program) 1 "b" 50
            signal program s
            _ <- eventually "a new log" (either (const False) (const True) <$> (try (B.readFile path) :: IO (Either SomeException ByteString))) id
            load (addressOf program) 1 "c" 50
            signal program sigTERM
            ends program >>= (@?= ExitSuccess)
          old <- requests (path ++ ".1")
          new <- requests path
          sort (old ++ new) @?= sort (concatMap (\x -> wanted 1 x 50) ["a", "b", "c"])
          assertBool "what came before the signal is in the old file" (all (`elem` old) (answeredBefore "a" ++ answeredBefore "b"))
          assertBool "what came after the reopening is in the new file" (all (`elem` new) (wanted 1 "c" 50)),
      testCase "a log that cannot be reopened is reported, and the old file written on" $
        withDirectory $ \d -> do
          let path = d </> "dir" </> "log"
          _ <- runTool "mkdir" [d </> "dir"]
          withProgram (["serve", "/tmp", "--access-log", path] ++ free) $ \program -> do
            renameDirectory (d </> "dir") (d </> "moved")
            signal program sigUSR1
            _ <- eventually "a report" (programErr program) (("cannot reopen" `B.isInfixOf`) . C.pack)
            load (addressOf program) 1 "a" 10
            signal program sigTERM
            ends program >>= (@?= ExitSuccess)
          requests (d </> "moved" </> "log") >>= (@?= wanted 1 "a" 10),
      testCase "-: lines on standard output, messages on standard error" $
        withProgram (["serve", "/tmp", "--access-log", "-"] ++ free) $ \program -> do
          load (addressOf program) 2 "a" 100
          signal program sigTERM
          ends program >>= (@?= ExitSuccess)
          said <- eventually "200 lines" (programOut program) ((== 200) . length . lines)
          entries <- either fail pure (readLog (C.pack said))
          sort (map entryRequest entries) @?= wanted 2 "a" 100
          messages <- programErr program
          assertBool messages ("Serving /tmp on " `isPrefixOf` messages)
          contains "Stopped." messages,
      testCase "stalledLogKeptTheProcess: a FIFO that nobody reads: answers go on, lines are dropped and counted, one signal ends" $
        withDirectory $ \d -> withStalled (d </> "fifo") $ do
          withProgram (["serve", "/tmp", "--cores", "1", "--access-log", d </> "fifo"] ++ free) $ \program -> do
            load (addressOf program) 2 "a" 5000
            _ <- eventually "a report" (programErr program) ((\said -> all (`B.isInfixOf` said) ["dropped", "fifo does not keep up"]) . C.pack)
            load (addressOf program) 2 "b" 1000
            signal program sigTERM
            ends program >>= (@?= ExitSuccess)
            programErr program >>= contains "fifo takes nothing"
            programOut program >>= contains "Stopped.",
      testCase "stalledMessagesKeptTheProcess: standard error stalls, too: one signal ends" $
        withDirectory $ \d -> withStalled (d </> "fifo") . withFull (d </> "messages") $
          withProgramIn [] ("/bin/sh", ["-c", "exec heddle serve /tmp --listen 127.0.0.1:0 --cores 1 --access-log " ++ d </> "fifo" ++ " 2>" ++ d </> "messages"]) $ \program -> do
            load (addressOf program) 2 "a" 5000
            load (addressOf program) 2 "b" 1000
            signal program sigTERM
            ends program >>= (@?= ExitSuccess),
      testCase "a FIFO without a reader is refused, with what to do" $
        withDirectory $ \d -> do
          createNamedPipe (d </> "fifo") 0o600
          ended <- runTool "heddle" (["serve", "/tmp", "--access-log", d </> "fifo"] ++ free)
          endedCode ended @?= ExitFailure 2
          contains "Nobody reads this FIFO" (endedErr ended),
      testCase "a full disk is reported, and the server lives on" $
        withProgram (["serve", "/tmp", "--access-log", "/dev/full"] ++ free) $ \program -> do
          load (addressOf program) 1 "a" 10
          _ <- eventually "a report" (programErr program) ((\said -> all (`B.isInfixOf` said) ["/dev/full", "ENOSPC"]) . C.pack)
          load (addressOf program) 1 "b" 10
          signal program sigTERM
          ends program >>= (@?= ExitSuccess)
    ]
  where
    -- An answer's line is written after it, so that the last one may come after a signal.
    answeredBefore tag = filter (/= B.concat ["GET ", name 1 tag 50, " HTTP/1.1"]) (wanted 1 tag 50)

-- A FIFO with a reader that does not read.
withStalled :: FilePath -> IO a -> IO a
withStalled path act = do
  createNamedPipe path 0o600
  bracket (openDescriptor path ReadWrite) closeFd (const act)

-- The same, and full.
withFull :: FilePath -> IO a -> IO a
withFull path act = do
  createNamedPipe path 0o600
  bracket (openDescriptor path ReadWrite) closeFd $ \fd -> do
    setFdOption fd NonBlockingRead True
    let fill = fdWrite fd (replicate 4096 'x') >> fill
    _ <- try fill :: IO (Either IOException ())
    act

name :: Int -> ByteString -> Int -> ByteString
name c tag i = B.concat ["/", tag, "/", C.pack (show c), "/", C.pack (show i)]

wanted :: Int -> ByteString -> Int -> [ByteString]
wanted clients tag n = sort [B.concat ["GET ", name c tag i, " HTTP/1.1"] | c <- [1 .. clients], i <- [1 .. n]]

requests :: FilePath -> IO [ByteString]
requests path = sort . map entryRequest <$> (either fail pure . readLog =<< B.readFile path)

load :: SockAddr -> Int -> ByteString -> Int -> IO ()
load address clients tag n = do
  done <- forM [1 .. clients] $ \c -> do
    result <- newEmptyMVar
    _ <- forkIO (try (one c) >>= putMVar result)
    pure result
  forM_ done $ \result -> readMVar result >>= either (\e -> unexpected "a client to succeed" (show (e :: SomeException))) pure
  where
    one c = withClient address $ \client -> do
      say client (B.concat [B.concat ["GET ", name c tag i, " HTTP/1.1\r\nHost: a\r\n\r\n"] | i <- [1 .. n]])
      forM_ [1 .. n] $ \_ -> hearAnswer client >>= \a -> answerCode a @?= 404

untilEnd :: MVar Int -> Client -> IO ()
untilEnd count client = do
  say client "GET /x HTTP/1.1\r\nHost: a\r\n\r\n"
  answer <- hear client "GET"
  case answer of
    Nothing -> pure ()
    Just a -> do
      modifyMVar_ count (pure . (+ 1))
      if answerHeader a "connection" == Just "close" then pure () else untilEnd count client
