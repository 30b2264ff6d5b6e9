{-# LANGUAGE OverloadedStrings #-}

-- | The access log of processes that are killed.
module LogKillTest (tests) where

import Control.Concurrent (forkIO)
import Control.Concurrent.MVar
import Control.Exception (SomeException, try)
import Control.Monad (forM, forM_, void, when)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.List (isInfixOf, sort)
import Heddle.Testkit.AccessLogLine
import Heddle.Testkit.HttpClient
import Heddle.Testkit.Watchdog
import Network.Socket (SockAddr)
import Program
import System.Directory (createDirectory, listDirectory)
import System.Exit (ExitCode (..))
import System.FilePath ((</>))
import System.Posix.Signals
import System.Posix.Types (ProcessID)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, testCase, (@?=))

tests :: TestTree
tests =
  testGroup
    "an access log over SIGKILL"
    [ testCase "linesLostWithTheProcess: under load, six times: no finished line is lost, torn or doubled" $
        withDirectory $ \d -> do
          let path = d </> "log"
          lives <- forM (zip [1 :: Int ..] [1, 40, 300, 1111, 2000, 3000]) $ \(life, enough) ->
            -- A line that finds no room waits, however long the writer stalls.
            withProgram (["serve", "/tmp", "--cores", "2", "--access-log", path, "--log-full", "block"] ++ free) $ \program -> do
              stop <- newEmptyMVar
              clients <- asking (addressOf program) stop 4 (C.pack (show life))
              _ <- eventually "answers" (sum <$> mapM (readMVar . snd) clients) (>= enough)
              signal program sigKILL
              _ <- ends program
              (,) <$> programErr program <*> counted (C.pack (show life)) clients
          said <- withProgram (["serve", "/tmp", "--access-log", path] ++ free) $ \program -> ending program >> programErr program
          -- One process or another may have stalled before its end until all of its lines were written; not each.
          assertBool said (any ("of a process that was killed" `isInfixOf`) (said : map fst lives))
          everyLine path (concatMap snd lives)
          listDirectory d >>= (@?= ["log"]),
      testCase "a worker that is killed: the next one writes its lines at once" $
        withDirectory $ \d -> do
          let path = d </> "logs" </> "log"
          createDirectory (d </> "logs")
          withProgram (["serve", "/tmp", "--processes", "2", "--access-log", path, "--log-full", "block"] ++ free) $ \program -> do
            answered <- forM ["1", "2", "3"] $ \life -> do
              stop <- newEmptyMVar
              clients <- asking (addressOf program) stop 6 life
              _ <- eventually "answers" (sum <$> mapM (readMVar . snd) clients) (>= 500)
              workers <- children (programPid program)
              -- All but the first are within no write when it is killed within one: they would append to its torn line.
              forM_ (drop 1 workers) $ \pid -> signalProcess sigSTOP pid >> eventually "a worker to stop" (stopped pid) id
              forM_ workers (signalProcess sigKILL)
              putMVar stop ()
              got <- counted life clients
              _ <- eventually "other workers" (children (programPid program)) (\now -> length now == 2 && all (`notElem` workers) now)
              got <$ eventually "they serve" (try (withClient (addressOf program) (\client -> say client "GET / HTTP/1.1\r\nHost: a\r\n\r\n" >> hearAnswer client))) (either (\(_ :: SomeException) -> False) (const True))
            signal program sigTERM
            ends program >>= (@?= ExitSuccess)
            everyLine path (concat answered)
          listDirectory (d </> "logs") >>= (@?= ["log"]),
      testCase "where its file cannot be made, the server says so once, and logs" $
        withDirectory $ \d -> do
          let path = d </> replicate 250 'l'
          withProgram (["serve", "/tmp", "--cores", "1", "--access-log", path] ++ free) $ \program -> do
            withClient (addressOf program) $ \client -> say client "GET /a HTTP/1.1\r\nHost: a\r\n\r\n" >> void (hearAnswer client)
            ending program
            said <- programErr program
            length (filter ("are lost if this process is killed" `isInfixOf`) (lines said)) @?= 1
            contains "ENAMETOOLONG" said
          B.readFile path >>= (@?= 1) . C.count '\n'
          names <- listDirectory d
          length names @?= 1,
      testCase "--check, --dump-config and --sandbox-show leave the file alone" $
        withDirectory $ \d -> do
          let path = d </> "log"
          writeFile (d </> "config") ("access-log: " ++ path ++ "\nroot: " ++ d ++ "\n")
          B.writeFile (path ++ ".pending.0") "anything"
          forM_ ["--check", "--dump-config", "--sandbox-show"] $ \option -> do
            ended <- runTool "heddle" ["serve", "--config", d </> "config", option]
            (option, endedCode ended) @?= (option, ExitSuccess)
          listDirectory d >>= (@?= ["config", "log.pending.0"]) . sort
          B.readFile (path ++ ".pending.0") >>= (@?= "anything")
    ]
  where
    ending program = signal program sigTERM >> ends program >>= (@?= ExitSuccess)

-- Clients that ask for one numbered path after the other until they are cut off or told to stop, since the connection of one may
-- have waited for the next worker; and how many answers each has got.
asking :: SockAddr -> MVar () -> Int -> ByteString -> IO [(MVar (), MVar Int)]
asking address stop n tag = forM [1 .. n] $ \c -> do
  done <- newEmptyMVar
  count <- newMVar 0
  let one client i = do
        say client (B.concat ["GET ", nameOf tag c i, " HTTP/1.1\r\nHost: a\r\n\r\n"])
        hearAnswer client >>= (@?= 404) . answerCode
        modifyMVar_ count (\_ -> pure i)
        goesOn <- isEmptyMVar stop
        when goesOn (one client (i + 1))
  _ <- forkIO ((try (withClient address (`one` 1)) :: IO (Either SomeException ())) >> putMVar done ())
  pure (done, count)

-- Each thread of a process, in fact.
stopped :: ProcessID -> IO Bool
stopped pid = do
  let tasks = "/proc/" ++ show pid ++ "/task"
  threads <- listDirectory tasks
  and <$> mapM (\t -> (") T " `B.isInfixOf`) <$> B.readFile (tasks </> t </> "stat")) threads

nameOf :: ByteString -> Int -> Int -> ByteString
nameOf tag c i = B.concat ["/", tag, "/", C.pack (show c), "/", C.pack (show i)]

-- The paths whose answers have come, and after each connection's last one, which has no line yet if the kill was faster than
-- that, one more, which may have been answered.
counted :: ByteString -> [(MVar (), MVar Int)] -> IO [([ByteString], [ByteString])]
counted tag clients = forM (zip [1 ..] clients) $ \(c, (done, count)) -> do
  patiently "a client to end" (takeMVar done)
  n <- readMVar count
  pure ([nameOf tag c i | i <- [1 .. n - 1]], [nameOf tag c i | i <- [n, n + 1]])

everyLine :: FilePath -> [([ByteString], [ByteString])] -> IO ()
everyLine path answered = do
  entries <- either fail pure . readLog =<< B.readFile path
  let found = [C.takeWhile (/= ' ') (B.drop 4 (entryRequest e)) | e <- entries]
      numbered = sort (filter ((== 3) . C.count '/') found)
      wanted = sort (concatMap fst answered)
      possible = sort (concatMap fst answered ++ concatMap snd answered)
  (take 5 (wanted `without` numbered), take 5 (numbered `without` possible)) @?= ([], [])

-- What sorted lists do not share.
without :: [ByteString] -> [ByteString] -> [ByteString]
without (a : as) (b : bs)
  | a < b = a : without as (b : bs)
  | a > b = without (a : as) bs
  | otherwise = without as bs
without as _ = as
