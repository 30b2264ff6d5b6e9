{-# LANGUAGE OverloadedStrings #-}

-- | Where logs of @heddle serve@ go, what is in them, and what happens when they take no data.
module LogsTest (tests) where

import Control.Concurrent (forkIO)
import Control.Concurrent.MVar
import Control.Exception (SomeException, bracket, finally, try)
import Control.Monad (forM, forM_, replicateM, void)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.List (isInfixOf, isPrefixOf, sort)
import Heddle.Testkit.AccessLogLine
import Heddle.Testkit.HttpClient
import Heddle.Testkit.Ovs (freePort)
import Heddle.Testkit.Watchdog
import Network.Socket hiding (connect)
import Network.Socket.ByteString qualified as N (recv)
import Program
import System.Directory (copyFile, createDirectory, createFileLink, doesFileExist, findExecutable, findFile, getSymbolicLinkTarget, listDirectory, removeFile, renameDirectory, renameFile)
import System.Exit (ExitCode (..))
import System.FilePath ((</>))
import System.IO (IOMode (..), hClose, openBinaryFile, withBinaryFile)
import System.Posix.Files (createNamedPipe, setFileMode)
import System.Posix.Signals
import System.Process (CreateProcess (..), StdStream (..), proc, withCreateProcess)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, testCase, (@?=))

tests :: TestTree
tests = testGroup "logs" [formats, conditions, rotation, daemons, killed, full, errors, proxies, upgrades]

formats :: TestTree
formats =
  testGroup
    "formats"
    [ testCase "variables, over TLS" $
        withDirectory $ \d -> do
          let path = d </> "log"
          withProgram ["serve", d, "--tls-self-signed", "--listen", "https://127.0.0.1:0", "--access-log", path, "--log-format", "$scheme $ssl_protocol $request_method $uri $status $http_x_a"] $ \program -> do
            ended <- runTool "curl" ["-sk", "-H", "X-A: \"quoted\"", head (programUrls program) ++ "/none"]
            endedCode ended @?= ExitSuccess
            ending program
          B.readFile path >>= (@?= "https TLSv1.3 GET /none 404 \\\"quoted\\\"\n"),
      testCase "a wrong format, filter or target is refused, with the words there are" $
        forM_ [("--log-format", "$none", "$request_time"), ("--log-format", "x", "combined"), ("--log-only", "9xx", "5xx"), ("--log-skip", "{", "}"), ("--log-sample", "x", "1/100"), ("--log-rotate", "soon", "100M"), ("--log-keep", "0", "1000"), ("--log-full", "x", "block"), ("--error-level", "x", "notice"), ("--access-log", "syslog:x", "local7"), ("--error-log", "syslog:x", "local7")] $ \(option, value, word) -> do
          ended <- runTool "heddle" (["serve", "/tmp", option, value] ++ free)
          (option, endedCode ended) @?= (option, ExitFailure 2)
          contains word (endedErr ended)
    ]

conditions :: TestTree
conditions = testCase "conditions: statuses, paths and a share" . withDirectory $ \d -> do
  let path = d </> "log"
  writeFile (d </> "page") "x"
  withProgram (["serve", d, "--cores", "1", "--access-log", path, "--log-format", "$status $uri", "--log-skip", "/health", "--log-sample", "1/2"] ++ free) $ \program -> do
    gets program ["/page", "/health", "/none", "/page", "/page"]
    ending program
  B.readFile path >>= (@?= "200 /page\n404 /none\n200 /page\n")
  removeFile path
  withProgram (["serve", d, "--access-log", path, "--log-format", "$status $uri", "--log-only", "4xx"] ++ free) $ \program -> do
    gets program ["/page", "/health", "/page"]
    ending program
  B.readFile path >>= (@?= "404 /health\n")

rotation :: TestTree
rotation =
  testGroup
    "rotation"
    [ testCase "by size, under load: each line is in one of the files, whole" $
        withDirectory $ \d -> do
          let path = d </> "log"
          withProgram (["serve", "/tmp", "--cores", "2", "--access-log", path, "--log-full", "block", "--log-rotate", "20k", "--log-keep", "1000"] ++ free) $ \program -> do
            load (addressOf program) 4 "a" 3000
            ending program
          names <- filter ("log" `isPrefixOf`) <$> listDirectory d
          assertBool (show names) (length names > 3)
          found <- concat <$> mapM (requests . (d </>)) names
          sort found @?= wanted 4 "a" 3000,
      testCase "logrotate, with SIGUSR1, under load: each line is in one of the files, whole" $
        withDirectory $ \d -> do
          let path = d </> "log"
          setFileMode d 0o755
          withProgram (["serve", "/tmp", "--cores", "2", "--access-log", path, "--log-full", "block"] ++ free) $ \program -> do
            writeFile (d </> "conf") (unlines [path ++ " {", "  rotate 20", "  su root root", "  postrotate", "    kill -USR1 " ++ show (programPid program), "  endscript", "}"])
            setFileMode (d </> "conf") 0o644
            forM_ ["a", "b", "c"] $ \tag -> do
              loading <- background (load (addressOf program) 2 tag 1000)
              _ <- eventually "lines" (B.length <$> B.readFile path) (> 0)
              ended <- runTool "logrotate" ["-f", "-s", d </> "state", d </> "conf"]
              (endedCode ended, endedErr ended) @?= (ExitSuccess, "")
              _ <- eventually "a new log" (doesFileExist path) id
              takeMVar loading >>= either (unexpected "a client to succeed" . show) pure
            ending program
          names <- filter ("log" `isPrefixOf`) <$> listDirectory d
          sort names @?= ["log", "log.1", "log.2", "log.3"]
          found <- concat <$> mapM (requests . (d </>)) names
          sort found @?= sort (concatMap (\tag -> wanted 2 tag 1000) ["a", "b", "c"])
    ]

daemons :: TestTree
daemons =
  testGroup
    "daemons"
    [ testCase "journald: an entry for each line, with its fields" $
        withDirectory $ \d -> withReceiver (d </> "journal") $ \journal -> do
          withProgram (["serve", d, "--access-log", "journald:" ++ d </> "journal", "--log-format", "$status $uri"] ++ free) $ \program -> do
            gets program ["/a", "/b"]
            heard <- replicateM 2 (hearing journal)
            sort (map C.lines heard) @?= [["PRIORITY=6", "SYSLOG_IDENTIFIER=heddle", "MESSAGE=404 " <> x] | x <- ["/a", "/b"]]
            ending program,
      testCase "syslog by a Unix socket, RFC 5424; a daemon that starts again gets the lines that follow" $
        withDirectory $ \d -> do
          let place = d </> "syslog"
          withReceiver place $ \first -> withProgram (["serve", d, "--access-log", "syslog:local3:unix:" ++ place, "--log-format", "$status $uri"] ++ free) $ \program -> do
            gets program ["/a"]
            hearing first >>= framed program "158" "404 /a"
            close first
            gets program ["/lost"]
            _ <- eventually "a report" (programErr program) (\said -> all (`isInfixOf` said) ["1 line was dropped", "ECONNREFUSED"])
            removeFile place
            withReceiver place $ \second -> do
              gets program ["/b"]
              hearing second >>= framed program "158" "404 /b"
            ending program,
      testCase "syslog by UDP" $
        withDirectory $ \d -> bracket (socket AF_INET Datagram defaultProtocol) close $ \s -> do
          bind s (SockAddrInet 0 (tupleToHostAddress (127, 0, 0, 1)))
          port <- socketPort s
          withProgram (["serve", d, "--access-log", "syslog:udp:127.0.0.1:" ++ show port, "--log-format", "$status $uri"] ++ free) $ \program -> do
            gets program ["/a"]
            hearing s >>= framed program "30" "404 /a"
            ending program,
      testCase "5,000 lines for a slow daemon, none lost or torn" $
        withDirectory $ \d -> withReceiver (d </> "journal") $ \journal -> do
          withProgram (["serve", "/tmp", "--cores", "2", "--access-log", "journald:" ++ d </> "journal", "--log-full", "block", "--log-format", "$request"] ++ free) $ \program -> do
            loading <- background (load (addressOf program) 2 "a" 2500)
            heard <- replicateM 5000 (C.drop 8 . last . C.lines <$> hearing journal)
            takeMVar loading >>= either (unexpected "a client to succeed" . show) pure
            sort heard @?= wanted 2 "a" 2500
            ending program,
      testCase "a socket that is not there is refused, with what to do" $
        withDirectory $ \d -> forM_ ["journald:", "syslog:unix:"] $ \kind -> do
          ended <- runTool "heddle" (["serve", "/tmp", "--access-log", kind ++ d </> "none"] ++ free)
          endedCode ended @?= ExitFailure 2
          contains "start the daemon" (endedErr ended)
    ]
  where
    framed program priority message heard = do
      let ws = C.words heard
      assertBool (show heard) (take 1 ws == ["<" <> priority <> ">1"] && length ws >= 8)
      (ws !! 3, ws !! 4, C.unwords (drop 7 ws)) @?= ("heddle", C.pack (show (programPid program)), message)

-- A socket that receives datagrams.
withReceiver :: FilePath -> (Socket -> IO a) -> IO a
withReceiver path = bracket open close
  where
    open = do
      s <- socket AF_UNIX Datagram defaultProtocol
      -- The program must not keep it open.
      withFdSocket s setCloseOnExecIfNeeded
      s <$ bind s (SockAddrUnix path)

hearing :: Socket -> IO ByteString
hearing s = patiently "a datagram" (N.recv s 65536)

killed :: TestTree
killed = testCase "SIGKILL: what was written stays, and every line is whole" . withDirectory $ \d -> do
  let path = d </> "log"
  withProgram (["serve", "/tmp", "--cores", "2", "--access-log", path] ++ free) $ \program -> do
    load (addressOf program) 2 "a" 1000
    _ <- eventually "lines" (C.count '\n' <$> B.readFile path) (== 2000)
    loading <- background (load (addressOf program) 4 "b" 50000)
    _ <- eventually "more lines" (C.count '\n' <$> B.readFile path) (> 4000)
    signal program sigKILL
    _ <- patiently "the program to end" (readMVar (programExit program))
    void (takeMVar loading)
  -- The next server completes a line that was being written.
  withProgram (["serve", "/tmp", "--access-log", path] ++ free) ending
  found <- requests path
  filter ("GET /a/" `B.isPrefixOf`) found @?= wanted 2 "a" 1000

full :: TestTree
full =
  testGroup
    "a log that takes no data"
    [ testCase "drop: a FIFO that nobody reads delays nobody; lines are counted" $
        withDirectory $ \d -> withFifo (d </> "fifo") $ do
          withProgram (["serve", "/tmp", "--cores", "1", "--access-log", d </> "fifo", "--log-full", "drop"] ++ free) $ \program -> do
            load (addressOf program) 2 "a" 5000
            _ <- eventually "a report" (programErr program) (\said -> all (`isInfixOf` said) ["dropped", "fifo does not keep up"])
            ending program,
      testCase "block: no line is lost when the FIFO's reader comes late" $
        withDirectory $ \d -> do
          let fifo = d </> "fifo"
          createNamedPipe fifo 0o600
          withBinaryFile fifo ReadWriteMode $ \_ ->
            withProgram (["serve", "/tmp", "--cores", "1", "--access-log", fifo, "--log-full", "block"] ++ free) $ \program -> do
              loading <- background (load (addressOf program) 4 "a" 3000)
              -- More than the pipe and the buffer hold: then somebody waits.
              reader <- openBinaryFile fifo ReadMode
              text <- readLines reader (4 * 3000)
              takeMVar loading >>= either (unexpected "a client to succeed" . show) pure
              found <- either fail pure (readLog text)
              sort (map entryRequest found) @?= wanted 4 "a" 3000
              hClose reader
              programErr program >>= (@?= "")
              ending program,
      testCase "blockedRequestsKeptTheProcess: requests that wait for the log do not keep the process" $
        withDirectory $ \d -> withFifo (d </> "fifo") $ do
          withProgram (["serve", "/tmp", "--cores", "1", "--drain", "1", "--access-log", d </> "fifo", "--log-full", "block"] ++ free) $ \program -> do
            loading <- background (load (addressOf program) 4 "a" 5000)
            signal program sigTERM
            ends program >>= (@?= ExitSuccess)
            void (takeMVar loading),
      testCase "block on a full disk: the lines are written when there is room, and the trouble is told once" $
        withDirectory $ \d -> do
          let path = d </> "log"
          createFileLink "/dev/full" path
          withProgram (["serve", "/tmp", "--cores", "2", "--access-log", path, "--log-full", "block"] ++ free) $ \program -> do
            load (addressOf program) 2 "a" 500
            said <- eventually "a report" (programErr program) ("ENOSPC" `isInfixOf`)
            contains "requests wait" said
            removeFile path
            signal program sigUSR1
            _ <- eventually "all lines" (either (const 0) (C.count '\n') <$> (try (B.readFile path) :: IO (Either SomeException ByteString))) (== 1000)
            programErr program >>= (@?= 1) . length . lines
            ending program
          requests path >>= (@?= wanted 2 "a" 500),
      testCase "reportedForEachWrite: a full disk's lost lines are counted, and told once" $
        withProgram (["serve", "/tmp", "--cores", "1", "--access-log", "/dev/full"] ++ free) $ \program -> do
          forM_ ["a", "b", "c", "d"] $ \tag -> load (addressOf program) 1 tag 10
          _ <- eventually "a report" (programErr program) ("/dev/full" `isInfixOf`)
          ending program
          said <- programErr program
          -- The first one at once, the rest at the end.
          assertBool said (length (lines said) <= 2)
          sum [n | line <- lines said, [(n, "")] <- map reads (words line)] @?= (40 :: Int)
    ]
  where
    withFifo path act = do
      createNamedPipe path 0o600
      withBinaryFile path ReadWriteMode (const act)
    readLines h n = go B.empty
      where
        go seen
          | C.count '\n' seen >= n = pure seen
          | otherwise = do
            piece <- patiently "lines" (B.hGetSome h 65536)
            go (seen <> piece)

errors :: TestTree
errors =
  testGroup
    "the error log"
    [ testCase "messages with time and level, and not on standard error; opened again by SIGUSR1" $
        withDirectory $ \d -> do
          let path = d </> "errors"
          withTrouble d ["--error-log", path, "--error-level", "info"] $ \program -> do
            _ <- eventually "a message" (either (const "") C.unpack <$> (try (B.readFile path) :: IO (Either SomeException ByteString))) (\said -> all (`isInfixOf` said) ["[warn] heddle[" ++ show (programPid program) ++ "]: access log: cannot reopen", "[info] heddle[" ++ show (programPid program) ++ "]: serving on"])
            renameFile path (path ++ ".1")
            signal program sigUSR1
            _ <- eventually "a new log" (doesFileExist path) id
            ending program
            programErr program >>= (@?= "")
          said <- B.readFile path
          assertBool (show said) ("[info]" `B.isInfixOf` said && "stopped" `B.isInfixOf` said),
      testCase "a level" $
        withDirectory $ \d -> do
          let path = d </> "errors"
          withTrouble d ["--error-log", path, "--error-level", "error"] ending
          B.readFile path >>= (@?= ""),
      testCase "a daemon gets the severity" $
        withDirectory $ \d -> withReceiver (d </> "journal") $ \journal ->
          withTrouble d ["--error-log", "journald:" ++ d </> "journal"] $ \program -> do
            heard <- C.lines <$> hearing journal
            take 2 heard @?= ["PRIORITY=4", "SYSLOG_IDENTIFIER=heddle"]
            assertBool (show heard) (any ("MESSAGE=access log: cannot reopen" `B.isPrefixOf`) heard)
            ending program
    ]
  where
    -- Something to complain of.
    withTrouble d more act = do
      createDirectory (d </> "dir")
      withProgram (["serve", "/tmp", "--access-log", d </> "dir" </> "log"] ++ more ++ free) $ \program -> do
        renameDirectory (d </> "dir") (d </> "moved")
        signal program sigUSR1
        _ <- act program
        pure ()

proxies :: TestTree
proxies =
  testGroup
    "the client's address"
    [ testCase "haproxy before it, by the PROXY protocol" . withDirectory $ \d -> do
        let path = d </> "log"
        writeFile (d </> "page") "x"
        withProgram (["serve", d, "--access-log", path, "--log-format", "$remote_addr $status", "--cores", "1", "--proxy-protocol", "127.0.0.1"] ++ free) $ \program -> do
          let url = takeWhile (/= ' ') (head (programUrls program))
          forM_ ["send-proxy", "send-proxy-v2"] $ \kind -> do
            port <- freePort
            writeFile (d </> "haproxy.cfg") (unlines ["defaults", "  mode tcp", "  timeout client 60s", "  timeout server 60s", "  timeout connect 60s", "frontend f", "  bind 127.0.0.1:" ++ show port, "  default_backend b", "backend b", "  server s " ++ drop 7 url ++ " " ++ kind])
            Just haproxy <- findExecutable "haproxy" >>= maybe (findFile ["/usr/sbin"] "haproxy") (pure . Just)
            withCreateProcess (proc haproxy ["-db", "-f", d </> "haproxy.cfg"]) {std_out = NoStream, std_err = NoStream} $ \_ _ _ _ -> do
              code <- eventually "haproxy's answer" (endedOut <$> runTool "curl" ["-sS", "--interface", "127.0.0.77", "-o", "/dev/null", "-w", "%{http_code}", "http://127.0.0.1:" ++ show port ++ "/page"]) (/= "000")
              code @?= "200"
          -- Without its header, the balancer's machine is refused; others are clients.
          direct <- runTool "curl" ["-sS", "--interface", "127.0.0.1", "-o", "/dev/null", "-w", "%{http_code}", url ++ "/page"]
          endedOut direct @?= "400"
          other <- runTool "curl" ["-sS", "--interface", "127.0.0.2", "-o", "/dev/null", "-w", "%{http_code}", url ++ "/page"]
          endedOut other @?= "200"
          forM_ [["--haproxy-protocol"], ["--haproxy-protocol", "--interface", "127.0.0.1"]] $ \arguments -> do
            announced <- runTool "curl" (["-sS", "-o", "/dev/null", "-w", "%{http_code}", url ++ "/page"] ++ arguments)
            endedOut announced @?= "200"
          ending program
        B.readFile path >>= (@?= "127.0.0.77 200\n127.0.0.77 200\n127.0.0.2 200\n127.0.0.1 200\n127.0.0.1 200\n"),
      testCase "mappedAddressWasLoggedAsIPv6: an address of IPv4 by the PROXY protocol for IPv6" . withDirectory $ \d -> do
        createDirectory (d </> "programs")
        writeFile (d </> "programs" </> "who") "#!/bin/sh\necho Content-Type: text/plain\necho\nprintf %s \"$REMOTE_ADDR\"\n"
        setFileMode (d </> "programs" </> "who") 0o755
        let version1 address = "PROXY TCP6 " <> address <> " ::1 1234 80\r\n"
            version2 bytes = B.concat ["\r\n\r\n\0\r\nQUIT\n", B.pack [0x21, 0x21, 0, 36], B.pack bytes, B.pack (replicate 15 0 ++ [1, 4, 210, 0, 80])]
            mapped = replicate 10 0 ++ [255, 255, 203, 0, 113, 7]
            peers =
              [ (version1 "::ffff:203.0.113.7", "203.0.113.7"),
                (version1 "::ffff:cb00:7107", "203.0.113.7"),
                (version2 mapped, "203.0.113.7"),
                -- These are no such addresses.
                (version1 "::fffe:203.0.113.7", "::fffe:cb00:7107"),
                (version1 "2001:db8::ffff:cb00:7107", "2001:db8::ffff:cb00:7107")
              ]
        forM_ ["$remote_addr $realip_remote_addr", "common", "json"] $ \format -> do
          let path = d </> "log"
          B.writeFile path ""
          withProgram (["serve", d, "--access-log", path, "--log-format", format, "--cores", "1", "--cgi", "/cgi=" ++ d </> "programs", "--proxy-protocol", "127.0.0.1"] ++ free) $ \program -> do
            forM_ peers $ \(header, expected) -> withClient (addressOf program) $ \client -> do
              say client (header <> "GET /cgi/who HTTP/1.1\r\nHost: a\r\n\r\n")
              hearAnswer client >>= (@?= expected) . answerBody
            ending program
          entries <- filter (not . B.null) . C.lines <$> B.readFile path
          forM_ (zip peers entries) $ \((_, expected), entry) -> case format of
            "common" -> C.takeWhile (/= ' ') entry @?= expected
            "json" -> contains ("\"" ++ C.unpack expected ++ "\"") (C.unpack entry)
            _ -> entry @?= B.concat [expected, " ", expected]
          length entries @?= length peers,
      testCase "--trusted-proxy: X-Forwarded-For and Forwarded in the combined format" . withDirectory $ \d -> do
        let path = d </> "log"
        withProgram (["serve", d, "--cores", "1", "--access-log", path, "--trusted-proxy", "127.0.0.1"] ++ free) $ \program -> do
          forM_ [["X-Forwarded-For: 6.6.6.6, 192.0.2.7"], ["Forwarded: for=6.6.6.6, for=\"[2001:db8::7]:80\""], ["Forwarded: for=6.6.6.6", "X-Forwarded-For: 192.0.2.8,"]] $ \fields ->
            runTool "curl" (["-sS", head (programUrls program) ++ "/"] ++ concat [["-H", field] | field <- fields])
          ending program
        entries <- either fail pure . readLog =<< B.readFile path
        map entryPeer entries @?= ["192.0.2.7", "2001:db8::7", "192.0.2.8"]
    ]

upgrades :: TestTree
upgrades =
  testGroup
    "SIGUSR2"
    [ testCase "resolvedSymlinkAtStart: a symbolic link that leads to a new version starts that one; the browser is not opened again" $
        withDirectory $ \d -> do
          Just program' <- findExecutable "heddle"
          forM_ ["old", "new"] $ \name -> copyFile program' (d </> name)
          createFileLink (d </> "old") (d </> "heddle")
          createDirectory (d </> "bin")
          writeFile (d </> "bin" </> "xdg-open") ("#!/bin/sh\necho opened >> " ++ d </> "opened\n")
          setFileMode (d </> "bin" </> "xdg-open") 0o755
          let pids = d </> "pid"
          withProgramIn [("PATH", d </> "bin" ++ ":/usr/bin:/bin")] (d </> "heddle", ["serve", d, "--open", "--pid-file", pids] ++ free) $ \program -> flip finally (endOf pids) $ do
            _ <- eventually "a browser" (doesFileExist (d </> "opened")) id
            before <- readPid pids
            removeFile (d </> "heddle")
            createFileLink (d </> "new") (d </> "heddle")
            signal program sigUSR2
            after <- eventually "another process" (readPid pids) (/= before)
            getSymbolicLinkTarget ("/proc/" ++ show after ++ "/exe") >>= (@?= d </> "new")
            _ <- eventually "the old process to end" (tryReadMVar (programExit program)) (/= Nothing)
            signalProcess sigTERM after
            _ <- eventually "the new one to end" (doesFileExist pids) not
            readFile (d </> "opened") >>= (@?= "opened\n")
    ]

-- Tools ------------------------------------------------------------------------

ending :: Program -> IO ()
ending program = signal program sigTERM >> ends program >>= (@?= ExitSuccess)

gets :: Program -> [ByteString] -> IO ()
gets program paths = withClient (addressOf program) $ \client -> forM_ paths $ \path -> do
  say client (B.concat ["GET ", path, " HTTP/1.1\r\nHost: a\r\n\r\n"])
  hearAnswer client

background :: IO () -> IO (MVar (Either SomeException ()))
background act = do
  result <- newEmptyMVar
  result <$ forkIO (try act >>= putMVar result)

name' :: Int -> ByteString -> Int -> ByteString
name' c tag i = B.concat ["/", tag, "/", C.pack (show c), "/", C.pack (show i)]

wanted :: Int -> ByteString -> Int -> [ByteString]
wanted clients tag n = sort [B.concat ["GET ", name' c tag i, " HTTP/1.1"] | c <- [1 .. clients], i <- [1 .. n]]

requests :: FilePath -> IO [ByteString]
requests path = sort . map entryRequest <$> (either fail pure . readLog =<< B.readFile path)

-- Clients that each send this many requests, a hundred at a time.
load :: SockAddr -> Int -> ByteString -> Int -> IO ()
load address clients tag n = do
  running <- forM [1 .. clients] $ \c -> background . withClient address $ \client ->
    forM_ [1, 101 .. n] $ \from -> do
      let these = [from .. min n (from + 99)]
      say client (B.concat [B.concat ["GET ", name' c tag i, " HTTP/1.1\r\nHost: a\r\n\r\n"] | i <- these])
      forM_ these $ \_ -> hearAnswer client >>= (@?= 404) . answerCode
  forM_ running $ \result -> takeMVar result >>= either (unexpected "a client to succeed" . show) pure
