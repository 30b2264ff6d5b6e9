{-# LANGUAGE OverloadedStrings #-}

-- | How much the server's memory grows with clients that sent half a head or half a body, with tunnels, and with many requests.
module MemoryTest (tests) where

import Control.Concurrent (forkIO)
import Control.Concurrent.MVar
import Control.Exception (IOException, SomeException, bracket, catch, finally, try)
import Control.Monad (forM, forM_, forever, replicateM, unless, when)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Heddle.Testkit.Watchdog
import Network.Socket
import Network.Socket.ByteString (recv, sendAll)
import Program
import System.Environment (lookupEnv)
import System.Exit (ExitCode (..))
import System.FilePath ((</>))
import System.Posix.Signals
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (testCase, (@?=))

tests :: TestTree
tests =
  testGroup
    "memory"
    [ testCase "unfinishedHeadsKeptWorkspaces: a client with half a head costs less than 10 KB" $
        unfinished (B.take (B.length request - 2) request <> "X: " <> C.replicate 200 'x') "\r\n\r\n" "HTTP/1.1 200",
      testCase "discardedBodiesKeptWorkspaces: a client that sends slowly a body that is not read costs less than 10 KB" $
        unfinished "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabcd" "efghij" "HTTP/1.1 405",
      testCase "slowReadersKeptWorkspaces: a client that takes a large file slowly costs less than 12 KB, and gets all of it" $
        withDirectory $ \d -> do
          B.writeFile (d </> "index.html") (B.replicate 500 120)
          B.writeFile (d </> "large") (B.replicate 4000000 121)
          withProgram (["serve", d, "--cores", "1", "--access-log", d </> "log"] ++ free) $ \program -> do
            -- Once through the allocation area, which is not a client's memory.
            withClients 1 program (`requests` 8000)
            before <- resident program
            withClients 400 program $ \clients -> do
              -- The first is to be quick in the end.
              heads <- forM (zip clients (65536 : repeat 4096)) $ \(client, window) -> do
                setSocketOption client RecvBuffer window
                sendAll client "GET /large HTTP/1.1\r\nHost: a\r\n\r\n"
                recv client 1000
              unless (all ("HTTP/1.1 200" `B.isPrefixOf`) heads) $ unexpected "400 heads" (show (take 1 heads))
              after <- resident program
              when (after - before > 4800) $ unexpected "at most 4,800 KB more for 400 clients" (show (after - before) ++ " KB")
              -- To the end, and on with the connection.
              let content = B.drop 4 (snd (B.breakSubstring "\r\n\r\n" (head heads)))
              taken <- receiveExactly (head clients) (4000000 - B.length content)
              B.all (== 121) (content <> taken) @?= True
              sendAll (head clients) request
              recv (head clients) 4096 >>= (@?= "HTTP/1.1 200") . B.take 12
            signal program sigTERM
            ends program >>= (@?= ExitSuccess)
          logged <- C.lines <$> B.readFile (d </> "log")
          length [line | line <- logged, "\"GET /large HTTP/1.1\" 200 4000000 " `B.isInfixOf` line] @?= 1
          -- The others left before the end.
          length [line | line <- logged, "\"GET /large HTTP/1.1\" 200 " `B.isInfixOf` line] @?= 400,
      testCase "tunnelsKeptTheirRequests: a tunnel through the proxy costs less than 25 KB, and goes on after a reload" $
        withSwitching $ \upstream -> withDirectory $ \d ->
          withProgram (["serve", d, "--cores", "1", "--proxy", "/=http://127.0.0.1:" ++ show upstream] ++ free) $ \program -> do
            -- Once through the allocation area.
            forM_ [1 .. 4 :: Int] $ \_ -> withClients 50 program (mapM_ switch)
            before <- resident program
            withClients 400 program $ \clients -> do
              mapM_ switch clients
              forM_ clients echoed
              after <- resident program
              when (after - before > 10000) $ unexpected "at most 10,000 KB more for 400 tunnels" (show (after - before) ++ " KB")
              signal program sigHUP
              _ <- eventually "the configuration to be loaded again" (C.pack <$> programOut program) ("the configuration has been loaded again" `B.isInfixOf`)
              forM_ clients echoed,
      testCase "soak: memory ends growing over 4 million requests on 200 kept connections (HEDDLE_NIGHTLY=1; else 40,000)" $ do
        nightly <- (== Just "1") <$> lookupEnv "HEDDLE_NIGHTLY"
        -- A short run every day, so that the long one is known to work.
        let million = if nightly then 1000000 else 10000
        withHome $ \program -> do
          sizes <- withClients 200 program $ \clients -> forM [1 :: Int .. 4] $ \_ -> do
            requests clients (million `div` 200)
            resident program
          when nightly (putStrLn ("\n        resident after each quarter: " ++ show sizes ++ " KB"))
          -- At most a workspace of 39 KB for each connection, twice that while the collector
          -- copies, and the old generation's garbage until its next collection: so memory grows
          -- for a while, and ends below this. Four bytes kept for each request would show.
          when (maximum sizes > 20000 || last sizes - sizes !! 2 > 4000) $
            unexpected "at most 20,000 KB, and 4,000 KB in the last quarter" (show sizes ++ " KB after each quarter")
          signal program sigTERM
          ends program >>= (@?= ExitSuccess)
    ]

withHome :: (Program -> IO a) -> IO a
withHome act = withDirectory $ \d -> do
  writeFile (d </> "index.html") (replicate 500 'x')
  withProgram (["serve", d, "--cores", "1", "--access-log", d </> "log"] ++ free) act

-- 400 clients that have sent this much of a request; then they send the rest, and get this answer.
unfinished :: ByteString -> ByteString -> ByteString -> IO ()
unfinished begun rest answer = withHome $ \program -> do
  -- Once through the allocation area, which is not a client's memory.
  withClients 1 program (`requests` 8000)
  before <- resident program
  withClients 400 program $ \clients -> do
    -- Behind a request that is answered, so that it has been seen.
    forM_ clients $ \client -> do
      sendAll client (request <> begun)
      recv client 4096 >>= (@?= "HTTP/1.1 200") . B.take 12
    after <- resident program
    when (after - before > 4000) $ unexpected "at most 4,000 KB more for 400 clients" (show (after - before) ++ " KB")
    forM_ clients $ \client -> do
      sendAll client rest
      recv client 4096 >>= (@?= answer) . B.take 12

receiveExactly :: Socket -> Int -> IO ByteString
receiveExactly client n = B.concat <$> go n
  where
    go left
      | left == 0 = pure []
      | otherwise = recv client (min left 65536) >>= \piece -> if B.null piece then unexpected (show left ++ " bytes more") "the end" else (piece :) <$> go (left - B.length piece)

-- A server on this port that switches protocols, then echoes.
withSwitching :: (PortNumber -> IO a) -> IO a
withSwitching act = bracket (socket AF_INET Stream defaultProtocol) close $ \listener -> do
  bind listener (SockAddrInet 0 (tupleToHostAddress (127, 0, 0, 1)))
  listen listener 1024
  _ <- forkIO (forever (accept listener >>= forkIO . serving . fst) `catch` \(_ :: IOException) -> pure ())
  socketPort listener >>= act
  where
    serving client = (heard client B.empty >> sendAll client "HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\nConnection: Upgrade\r\n\r\n" >> echo client) `finally` close client
    heard client before = unless ("\r\n\r\n" `B.isSuffixOf` before) $ do
      more <- recv client 4096
      unless (B.null more) (heard client (before <> more))
    echo client = do
      more <- recv client 4096
      unless (B.null more) (sendAll client more >> echo client)

-- Make a tunnel of a connection.
switch :: Socket -> IO ()
switch client = do
  sendAll client "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n"
  recv client 4096 >>= (@?= "HTTP/1.1 101") . B.take 12

echoed :: Socket -> IO ()
echoed client = sendAll client "x" >> recv client 1 >>= (@?= "x")

request :: ByteString
request = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"

withClients :: Int -> Program -> ([Socket] -> IO a) -> IO a
withClients n program = bracket (replicateM n (socket AF_INET Stream defaultProtocol)) (mapM_ close) . (\act clients -> mapM_ (`connect` addressOf program) clients >> act clients)

-- This many requests on each connection, all connections at once, singly and in bursts alternately.
requests :: [Socket] -> Int -> IO ()
requests clients each = do
  done <- forM clients $ \client -> do
    result <- newEmptyMVar
    result <$ forkIO (try (go client each) >>= putMVar result)
  forM_ done $ \result -> takeMVar result >>= either (\(e :: SomeException) -> unexpected "a client to succeed" (show e)) pure
  where
    go client left = do
      -- An answer alone comes in one piece, and all are of one length.
      sendAll client request
      size <- B.length <$> recv client 65536
      when (size < 500) $ unexpected "a whole answer" (show size ++ " bytes")
      let n = min 20 (left - 1)
      sendAll client (B.concat (replicate n request))
      hear' client (n * size)
      when (left > n + 1) (go client (left - n - 1))
    hear' client left = when (left > 0) $ do
      got <- recv client (min 65536 left)
      when (B.null got) $ unexpected "answers" "the end of the connection"
      hear' client (left - B.length got)

-- The program's own memory in KB: pages of the program and of shared libraries, which differ between releases, are files'.
resident :: Program -> IO Int
resident program = do
  status <- readFile ("/proc/" ++ show (programPid program) ++ "/status")
  case [read n | line <- lines status, ["RssAnon:", n, "kB"] <- [words line]] of
    n : _ -> pure n
    [] -> unexpected "a line RssAnon" status
