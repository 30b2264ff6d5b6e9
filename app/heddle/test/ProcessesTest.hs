{-# LANGUAGE OverloadedStrings #-}

-- | Workers and their supervisor.
module ProcessesTest (tests) where

import Control.Concurrent (forkIO)
import Control.Concurrent.MVar
import Control.Exception (SomeException, finally, try)
import Control.Monad (forM, forM_, replicateM_, unless, void)
import Data.ByteString.Char8 qualified as C
import Data.List (isInfixOf, isPrefixOf, sort)
import Heddle.Testkit.HttpClient
import Heddle.Testkit.Watchdog
import Program
import System.Directory (createDirectory, doesPathExist, listDirectory, removePathForcibly, renameFile)
import System.Exit (ExitCode (..))
import System.FilePath ((</>))
import System.Posix.Signals
import System.Posix.Types (ProcessID)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, testCase, (@?=))

tests :: TestTree
tests =
  testGroup
    "--processes"
    [ testCase "each worker is a process of its own; SIGTERM lets a request finish and ends all" $
        serving [] $ \_ program -> do
          workers <- children (programPid program)
          length workers @?= 3
          withClient (addressOf program) $ \client -> do
            -- The worker has the half request when it has answered the one before it.
            say client "GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n"
            hearAnswer client >>= answersWith 200 "hello"
            signal program sigTERM
            say client "\r\n"
            hearAnswer client >>= answersWith 200 "hello"
          ends program >>= (@?= ExitSuccess)
          mapM gone workers >>= (@?= [True, True, True]),
      testCase "a worker that is killed is replaced, the others go on, and nobody is refused" $
        serving [] $ \_ program -> do
          forM_ [1 .. 4 :: Int] $ \n -> do
            before <- children (programPid program)
            signalProcess sigKILL (head before)
            replicateM_ 20 (get program)
            void (eventually "three workers again" (children (programPid program)) (\now -> length now == 3 && head before `notElem` now))
            void (eventually "a message" (programErr program) ((>= n) . length . filter ("was ended by signal 9; another one takes its place" `isInfixOf`) . lines))
          replicateM_ 20 (get program),
      testCase "no worker outlives a supervisor that is killed" $
        serving [] $ \_ program -> do
          workers <- children (programPid program)
          signal program sigKILL
          forM_ workers $ \pid -> eventually "the worker's end" (gone pid) id,
      testCase "all workers append whole lines to one log, and SIGUSR1 makes all open it again" $
        serving ["--access-log", "log/access.log", "--log-full", "block"] $ \d program -> do
          let path = d </> "log" </> "access.log"
              clients = 4
              requests = 500
              ask n = withClient (addressOf program) $ \client -> forM_ [1 .. requests :: Int] $ \i -> do
                say client ("GET /?" <> C.pack (show n) <> "-" <> C.pack (show i) <> C.replicate 100 'x' <> " HTTP/1.1\r\nHost: a\r\n\r\n")
                hearAnswer client >>= answersWith 200 "hello"
          together [ask n | n <- [1 .. clients :: Int]]
          _ <- eventually "all lines" (C.readFile path) ((== clients * requests) . C.count '\n')
          whole <- C.lines <$> C.readFile path
          assertBool "a torn line" (all (\line -> "127.0.0.1 - - [" `C.isPrefixOf` line && "\"-\" \"-\"" `C.isSuffixOf` line) whole)
          sort [C.takeWhile (/= 'x') (C.drop 1 (C.dropWhile (/= '?') line)) | line <- whole] @?= sort [C.pack (show n ++ "-" ++ show i) | n <- [1 .. clients], i <- [1 .. requests]]
          renameFile path (path ++ ".1")
          signal program sigUSR1
          _ <- eventually "a new log" (doesPathExist path) id
          -- Each worker has opened it, or lines would go on to the old one: a worker writes to the one that it has open.
          workers <- children (programPid program)
          forM_ workers $ \pid -> eventually "the new log" (try (openFiles pid) :: IO (Either SomeException String)) (either (const False) (not . ("access.log.1" `isInfixOf`)))
          replicateM_ 30 (get program)
          void (eventually "lines in it" (C.readFile path) ((== 30) . C.count '\n')),
      testCase "SIGUSR2: another supervisor with workers takes over, and no request fails" $
        serving ["--pid-file", "log/pid"] $ \d program -> flip finally (endOf (d </> "log" </> "pid")) $ do
          let pids = d </> "log" </> "pid"
          workers <- children (programPid program)
          stop <- newEmptyMVar
          client <- newEmptyMVar
          _ <- forkIO (try (asking stop program) >>= putMVar client)
          signal program sigUSR2
          patiently "the process to end" (readMVar (programExit program)) >>= (@?= ExitSuccess)
          putMVar stop ()
          takeMVar client >>= either (\(e :: SomeException) -> unexpected "no failed request" (show e)) pure
          mapM gone workers >>= (@?= [True, True, True])
          after <- readPid pids
          assertBool "another process" (after /= programPid program)
          new <- children after
          length new @?= 3
          replicateM_ 10 (get program)
          signalProcess sigTERM after
          forM_ (after : new) $ \pid -> eventually "its end" (gone pid) id,
      testCase "aSuccessorThatFailedTookThePidFile: the file stays that of the process that goes on" $
        withDirectory $ \d -> do
          createDirectory (d </> "logs")
          withProgram (["serve", d, "--processes", "2", "--pid-file", d </> "pid", "--access-log", d </> "logs" </> "log"] ++ free) $ \program -> do
            before <- readPid (d </> "pid")
            -- Workers open the log, and cannot.
            removePathForcibly (d </> "logs")
            forM_ [1 :: Int, 2] $ \n -> do
              signal program sigUSR2
              _ <- eventually "the successor to fail" (programErr program) ((== n) . length . filter ("so this process goes on" `isInfixOf`) . lines)
              readPid (d </> "pid") >>= (@?= before),
      testCase "a Unix socket's file stays while workers come and go, and goes with the supervisor" $
        withDirectory $ \d -> do
          writeFile (d </> "index.html") "hello"
          let path = d </> "socket"
          withProgram ["serve", d, "--processes", "2", "--listen", "unix:" ++ path] $ \program -> do
            before <- children (programPid program)
            signalProcess sigTERM (head before)
            void (eventually "another worker" (children (programPid program)) (\now -> length now == 2 && head before `notElem` now))
            doesPathExist path >>= (@?= True)
            signal program sigTERM
            ends program >>= (@?= ExitSuccess)
          doesPathExist path >>= (@?= False),
      testCase "--status tells of all workers, whichever is asked, and counts never fall" $
        serving ["--status", "/status"] $ \_ program -> do
          replicateM_ 30 (get program)
          let counted :: Int -> IO ()
              counted n = forM_ [1 .. 6 :: Int] . const $ do
                -- A worker that is slow to answer is left out of what there is at present.
                let parts = ["{route=\"files\",code=\"2xx\"} " ++ show n, "\nheddle_processes 3", "\nheddle_cores 3", "\nheddle_ready 1"]
                eventually "all requests, and all workers" (metrics program) (\t -> all ((`isInfixOf` t) . (++ "\n")) parts)
          counted 30
          before <- children (programPid program)
          signalProcess sigKILL (head before)
          _ <- eventually "three workers again" (metrics program) (\t -> all (`isInfixOf` t) ["\nheddle_processes 3\n", "\nheddle_processes_ended_total 1\n"])
          counted 30
          replicateM_ 5 (get program)
          counted 35
          let parts = ["\"process\":" ++ show (programPid program) ++ ",", "\"processes\":{\"serving\":3,\"ended\":1}"]
          _ <- eventually "the JSON to say so, too" (fetched program "/status/json") (\t -> all (`isInfixOf` t) parts)
          signal program sigTERM
          ends program >>= (@?= ExitSuccess),
      testCase "herdOfOne: connections do not wake the supervisor" $
        serving [] $ \_ program -> do
          before <- switches program
          replicateM_ 300 (get program)
          after <- switches program
          assertBool (show (before, after)) (after - before < 150),
      testCase "workers that cannot serve: a sentence, and nobody is left" $ do
        -- What the supervisor can see before it starts them, it says itself; logs are theirs.
        ended <- runTool "heddle" (["serve", "/tmp", "--processes", "2", "--access-log", "/nowhere/at/all"] ++ free)
        endedCode ended @?= ExitFailure 2
        contains "cannot write the access log /nowhere/at/all: no such file or directory" (endedErr ended)
        contains "a worker does not serve: it ended with exit code 2" (endedErr ended),
      testCase "a number that is none: a sentence" $ do
        ended <- runTool "heddle" (["serve", "/tmp", "--processes", "0"] ++ free)
        endedCode ended @?= ExitFailure 2
        contains "'0' is not a number of processes" (endedErr ended)
    ]
  where
    asking :: MVar () -> Program -> IO ()
    asking stop program = do
      over <- tryReadMVar stop
      unless (over == Just ()) (get program >> asking stop program)

-- Three workers; paths of options are in a new directory.
serving :: [String] -> (FilePath -> Program -> IO a) -> IO a
serving arguments act = withDirectory $ \d -> do
  mapM_ (createDirectory . (d </>)) ["site", "log"]
  writeFile (d </> "site" </> "index.html") "hello"
  let beneath argument = if "log/" `isPrefixOf` argument then d </> argument else argument
  withProgram (["serve", d </> "site", "--processes", "3"] ++ map beneath arguments ++ free) (act d)

get :: Program -> IO ()
get program = visiting (addressOf program) $ \client ask -> do
  ask "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
  hearAnswer client >>= answersWith 200 "hello"

metrics :: Program -> IO String
metrics program = fetched program "/status/metrics"

-- By a connection of its own, so any worker may answer. A worker that has just been killed resets some.
fetched :: Program -> C.ByteString -> IO String
fetched program path = either (\(_ :: SomeException) -> "") C.unpack <$> try ask
  where
    ask = withClient (addressOf program) $ \client -> do
      say client ("GET " <> path <> " HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
      answerBody <$> hearAnswer client

-- How often the threads of a process have gone to sleep.
switches :: Program -> IO Int
switches program = do
  let tasks = "/proc/" ++ show (programPid program) ++ "/task"
  names <- listDirectory tasks
  texts <- mapM (\t -> C.readFile (tasks </> t </> "status")) names
  pure (sum [n | text <- texts, line <- C.lines text, Just rest <- [C.stripPrefix "voluntary_ctxt_switches:\t" line], Just (n, _) <- [C.readInt rest]])

openFiles :: ProcessID -> IO String
openFiles pid = C.unpack . endedOut <$> runTool "ls" ["-l", "/proc/" ++ show pid ++ "/fd"]

-- A process that nobody has collected yet has ended, too.
gone :: ProcessID -> IO Bool
gone pid = do
  text <- try (C.readFile ("/proc/" ++ show pid ++ "/stat")) :: IO (Either SomeException C.ByteString)
  pure (either (const True) (\line -> " Z " `C.isInfixOf` line) text)

together :: [IO ()] -> IO ()
together actions = do
  results <- forM actions $ \action -> do
    result <- newEmptyMVar
    result <$ forkIO (try action >>= putMVar result)
  forM_ results $ \result -> takeMVar result >>= either (\(e :: SomeException) -> unexpected "no failed request" (show e)) pure
