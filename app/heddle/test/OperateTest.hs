{-# LANGUAGE OverloadedStrings #-}

-- | The process as service managers and administrators see it: successors, sockets and messages of systemd, the file with
-- its number, its user.
module OperateTest (tests) where

import Control.Concurrent (forkIO)
import Control.Concurrent.MVar
import Control.Exception (SomeException, bracket, finally, try)
import Control.Monad (forM, forM_, replicateM, unless, void)
import Data.ByteString (ByteString)
import Data.ByteString.Char8 qualified as C
import Data.Foldable (fold)
import Data.List (isInfixOf, isPrefixOf)
import Heddle.Testkit.HttpClient
import Heddle.Testkit.Ovs (freePort)
import Heddle.Testkit.Watchdog
import Network.Socket hiding (connect)
import Network.Socket.ByteString qualified as N (recv)
import Program
import System.Directory (createDirectory, doesFileExist, doesPathExist, findExecutable, removeDirectoryRecursive)
import System.Exit (ExitCode (..))
import System.FilePath ((</>))
import System.Posix.Files (setFileMode)
import System.Posix.IO (dup, fdToHandle)
import System.Posix.Signals
import System.Posix.User (getEffectiveUserID)
import System.Process (StdStream (UseHandle))
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, testCase, testCaseInfo, (@?=))

tests :: TestTree
tests = testGroup "the process" [successors, systemd, pidFile, user, messages]

successors :: TestTree
successors =
  testGroup
    "SIGUSR2"
    [ testCase "five upgrades while clients connect and post: no request fails, and the listening sockets stay" $
        withDirectory $ \d -> do
          writeFile (d </> "index.html") "hello"
          let pids = d </> "pid"
          withProgram (["serve", d, "--cores", "2", "--pid-file", pids] ++ free) $ \program -> flip finally (endOf pids) $ do
            stop <- newEmptyMVar
            counts <- replicateM 2 (newMVar (0 :: Int))
            clients <- forM counts $ \count -> do
              result <- newEmptyMVar
              result <$ forkIO (try (asking stop count (addressOf program)) >>= putMVar result)
            forM_ [1 .. 5 :: Int] $ \_ -> do
              before <- readPid pids
              soFar <- sum <$> mapM readMVar counts
              signalProcess sigUSR2 before
              _ <- eventually "another process, and no complaint" ((,) <$> readPid pids <*> programErr program) (\(now, said) -> now /= before || not (null said))
              programErr program >>= (@?= "")
              after <- readPid pids
              _ <- eventually "the old process to say so" (programOut program) (("process " ++ show after ++ " serves from now on") `isInfixOf`)
              -- One that failed counts no more.
              eventually "more requests, or one that failed" ((,) <$> (sum <$> mapM readMVar counts) <*> mapM isEmptyMVar clients) (\(n, running) -> n > soFar + 20 || not (and running))
            putMVar stop ()
            forM_ clients $ \result -> takeMVar result >>= either (\(e :: SomeException) -> unexpected "no failed request" (show e)) pure
            gone program,
      testCase "a connection of before is served to its end" $
        withDirectory $ \d -> do
          writeFile (d </> "index.html") "hello"
          let pids = d </> "pid"
          withProgram (["serve", d, "--pid-file", pids] ++ free) $ \program -> flip finally (endOf pids) $
            withClient (addressOf program) $ \client -> do
              -- The server has the half request when it has answered the one before it.
              say client "GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n"
              hearAnswer client >>= answersWith 200 "hello"
              before <- readPid pids
              signalProcess sigUSR2 before
              _ <- eventually "another process" (readPid pids) (/= before)
              say client "\r\n"
              hearAnswer client >>= answersWith 200 "hello",
      testCase "a successor that cannot serve is reported, and this process goes on; a later one may serve" $
        withDirectory $ \d -> do
          let site = d </> "site"
              pids = d </> "pid"
          createDirectory site
          writeFile (site </> "index.html") "hello"
          withProgram (["serve", site, "--pid-file", pids] ++ free) $ \program -> flip finally (endOf pids) $ do
            before <- readPid pids
            removeDirectoryRecursive site
            signal program sigUSR2
            _ <- eventually "a report" (programErr program) ("the successor does not serve, so this process goes on: it ended with exit code 2" `isInfixOf`)
            withClient (addressOf program) $ \client -> do
              say client "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
              hearAnswer client >>= (@?= 403) . answerCode
            readPid pids >>= (@?= before)
            createDirectory site
            writeFile (site </> "index.html") "again"
            signal program sigUSR2
            gone program
            after <- readPid pids
            unless (after /= before) (unexpected "another process" (show after))
            withClient (addressOf program) $ \client -> do
              say client "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
              hearAnswer client >>= answersWith 200 "again",
      testCase "the file of a Unix socket stays" $
        withDirectory $ \d -> do
          writeFile (d </> "index.html") "hello"
          let pids = d </> "pid"
              path = d </> "socket"
          withProgram ["serve", d, "--pid-file", pids, "--listen", "unix:" ++ path] $ \program -> flip finally (endOf pids) $ do
            before <- readPid pids
            signal program sigUSR2
            gone program
            after <- readPid pids
            withClient (SockAddrUnix path) $ \client -> do
              say client "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
              hearAnswer client >>= answersWith 200 "hello"
            unless (after /= before) (unexpected "another process" (show after))
            signalProcess sigTERM after
            void (eventually "the socket's file to go" (doesPathExist path) not)
    ]
  where
    -- New connections, one after the other, and a POST, which no server may be asked twice.
    asking :: MVar () -> MVar Int -> SockAddr -> IO ()
    asking stop count address = do
      over <- tryReadMVar stop
      case over of
        Just () -> pure ()
        Nothing -> do
          visiting address $ \client ask -> do
            ask "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
            answer <- hearAnswer client
            answersWith 200 "hello" answer
            -- The old process says that it will not answer another request.
            unless (answerHeader answer "connection" == Just "close") $ do
              ask "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello"
              hearAnswer client >>= (@?= 405) . answerCode
          modifyMVar_ count (pure . (+ 1))
          asking stop count address

-- Its outputs go on: the successor has inherited them.
gone :: Program -> IO ()
gone program = patiently "the process to end" (readMVar (programExit program)) >>= (@?= ExitSuccess)

systemd :: TestTree
systemd =
  testGroup
    "systemd"
    [ testCase "its sockets, all or by name, by the protocol of sd_listen_fds" $
        withDirectory $ \d -> do
          writeFile (d </> "index.html") "hello"
          forM_ ["systemd", "systemd:web"] $ \place ->
            bracket (socket AF_INET Stream 0) close $ \s -> do
              bind s (SockAddrInet 0 (tupleToHostAddress (127, 0, 0, 1)))
              listen s 10
              address <- getSocketName s
              activated s ["serve", d, "--listen", place] $ \program -> do
                addressOf program @?= address
                withClient address $ \client -> do
                  say client "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
                  hearAnswer client >>= answersWith 200 "hello",
      testCaseInfo "systemd-socket-activate: the connection that starts the server is answered" $
        findExecutable "systemd-socket-activate" >>= \case
          Nothing -> pure "left out: there is no systemd-socket-activate"
          Just activate -> withDirectory $ \d -> do
            writeFile (d </> "index.html") "hello"
            port <- freePort
            heddle <- findExecutable "heddle" >>= maybe (fail "heddle is not on the PATH") pure
            let address = "127.0.0.1:" ++ show port
            answer <- newEmptyMVar
            _ <- forkIO (try (runTool "curl" ["-sS", "--max-time", "60", "--retry", "100", "--retry-connrefused", "--retry-delay", "1", "http://" ++ address ++ "/"]) >>= putMVar answer)
            withProgramIn [] (activate, ["-l", address, "--fdname=web", heddle, "serve", d, "--listen", "systemd:web"]) $ \_ ->
              takeMVar answer >>= either (\(e :: SomeException) -> unexpected "an answer" (show e)) (\ended -> (endedCode ended, endedOut ended) @?= (ExitSuccess, "hello"))
            pure "",
      testCase "without them: a sentence" $ do
        ended <- runTool "heddle" ["serve", "/tmp", "--listen", "systemd"]
        endedCode ended @?= ExitFailure 2
        contains "systemd has passed no socket" (endedErr ended),
      testCase "messages: ready, reloading, ready, the watchdog, stopping" $
        withDirectory $ \d -> do
          let path = d </> "notify"
          bracket (socket AF_UNIX Datagram 0) close $ \s -> do
            bind s (SockAddrUnix path)
            withProgramNamed [("NOTIFY_SOCKET", path), ("WATCHDOG_USEC", "100000")] (["serve", d] ++ free) $ \program -> do
              heard s "READY=1\nSTATUS=serving http://127.0.0.1:"
              heard s "WATCHDOG=1"
              signal program sigHUP
              heard s "RELOADING=1\nMONOTONIC_USEC="
              heard s "READY=1"
              heard s "WATCHDOG=1"
              signal program sigTERM
              heard s "STOPPING=1"
              ends program >>= (@?= ExitSuccess),
      testCaseInfo "the unit of the package: systemd-analyze has no complaint, and calls its exposure low" $ do
        found <- findExecutable "systemd-analyze"
        there <- doesFileExist unit
        case found of
          Just analyze | there -> withDirectory $ \d -> do
            text <- C.readFile unit
            heddle <- fold <$> findExecutable "heddle"
            -- As the installation fills it in.
            let filled = d </> "heddle.service"
            C.writeFile filled (C.unlines [if "ExecStart=" `C.isPrefixOf` line then "ExecStart=" <> C.pack heddle <> " serve /srv" else line | line <- C.lines text, not (any (`C.isPrefixOf` line) ["EnvironmentFile=", "Documentation="])])
            verified <- runTool analyze ["verify", "--man=no", filled]
            (endedCode verified, endedErr verified) @?= (ExitSuccess, "")
            security <- runTool analyze ["security", "--no-pager", "--offline=true", "--threshold=20", filled]
            unless (endedCode security == ExitSuccess) (unexpected "an exposure of 2.0 at most" (C.unpack (endedOut security)))
            pure ""
          _ -> pure "left out: there is no systemd-analyze, or no unit"
    ]
  where
    unit = "../../packaging/heddle.service"
    withProgramNamed changes arguments = withProgramIn changes ("heddle", arguments)
    -- As systemd does it: the socket is descriptor 3, and the variables name the process.
    activated s arguments act = do
      let script = "exec 3<&0 </dev/null; LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=web exec heddle \"$@\""
      handle <- socketToHandleOf s
      withProgramOn (UseHandle handle) [] ("sh", ["-c", script, "sh"] ++ arguments) act
    -- A handle of a duplicate, which the start of the program closes.
    socketToHandleOf s = withFdSocket s $ \fd -> dup (fromIntegral fd) >>= fdToHandle
    -- Messages may come between.
    heard :: Socket -> ByteString -> IO ()
    heard s expected = do
      message <- patiently ("the message " ++ C.unpack expected) (N.recv s 4096)
      unless (expected `C.isPrefixOf` message) (heard s expected)

pidFile :: TestTree
pidFile =
  testGroup
    "--pid-file"
    [ testCase "is the process, and goes with it" $
        withDirectory $ \d -> do
          let path = d </> "pid"
          withProgram (["serve", d, "--pid-file", path] ++ free) $ \program -> do
            readPid path >>= (@?= programPid program)
            signal program sigTERM
            ends program >>= (@?= ExitSuccess)
          doesFileExist path >>= (@?= False),
      testCase "in a directory that is not there: a sentence" $ do
        ended <- runTool "heddle" (["serve", "/tmp", "--pid-file", "/nowhere/pid"] ++ free)
        endedCode ended @?= ExitFailure 2
        contains "cannot write the process id to /nowhere/pid: " (endedErr ended)
    ]

user :: TestTree
user =
  testGroup
    "--user"
    [ testCase "for root: that user and no other rights; for others: a sentence" $
        withDirectory $ \d -> do
          writeFile (d </> "index.html") "hello"
          setFileMode d 0o755
          me <- getEffectiveUserID
          if me == 0
            then withProgram (["serve", d, "--user", "nobody"] ++ free) $ \program -> do
              status <- readFile ("/proc/" ++ show (programPid program) ++ "/task/" ++ show (programPid program) ++ "/status")
              let ids name = [words line | line <- lines status, (name ++ ":") `isPrefixOf` line]
              concatMap (drop 1) (ids "Uid") @?= replicate 4 "65534"
              concatMap (drop 1) (ids "CapEff") @?= ["0000000000000000"]
              withClient (addressOf program) $ \client -> do
                say client "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
                hearAnswer client >>= answersWith 200 "hello"
            else do
              ended <- runTool "heddle" (["serve", d, "--user", "nobody"] ++ free)
              endedCode ended @?= ExitFailure 2
              contains "may not become nobody" (endedErr ended),
      testCase "that is not there: a sentence" $ do
        ended <- runTool "heddle" (["serve", "/tmp", "--user", "no-such-user"] ++ free)
        endedCode ended @?= ExitFailure 2
        contains "there is no user no-such-user" (endedErr ended),
      testCase "that is none: a sentence" $ do
        ended <- runTool "heddle" (["serve", "/tmp", "--user", ":x"] ++ free)
        assertBool (endedErr ended) ("expected USER or USER:GROUP" `isInfixOf` endedErr ended)
    ]

messages :: TestTree
messages =
  testCase "pathsForgedMessages: a client's line ends and escapes do not reach standard error" $
    bracket (socket AF_INET Stream 0) close $ \closed -> do
      -- Bound, so that nobody else listens there.
      bind closed (SockAddrInet 0 (tupleToHostAddress (127, 0, 0, 1)))
      port <- socketPort closed
      withProgram (["serve", "/tmp", "--scgi", "/app=127.0.0.1:" ++ show port] ++ free) $ \program -> do
        withClient (addressOf program) $ \client -> do
          say client "GET /app/%0Aheddle%20serve:%20forged%1B[2J HTTP/1.1\r\nHost: a\r\n\r\n"
          hearAnswer client >>= (@?= 502) . answerCode
        said <- eventually "a message" (programErr program) ("cannot be reached" `isInfixOf`)
        (length (lines said), '\ESC' `elem` said) @?= (1, False)
