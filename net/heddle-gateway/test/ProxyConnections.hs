{-# LANGUAGE OverloadedStrings #-}

-- | How many connections a proxy has to its upstreams, and what becomes of those that upstreams do not take up.
module ProxyConnections
  ( tests,
  )
where

import Control.Concurrent
import Control.Exception (IOException, SomeException, bracket, try, uninterruptibleMask_)
import Control.Monad (forM, forM_, forever, replicateM_, unless, void)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.Foldable (for_)
import Data.IORef
import Heddle.Gateway.Proxy
import Heddle.Http (defaultSettings)
import Heddle.IO (BackendChoice (..), milliseconds)
import Heddle.Testkit.HttpClient
import Heddle.Testkit.Watchdog
import Network.Socket
import Network.Socket.ByteString (recv, sendAll)
import ProxyFixture
import System.IO (hGetLine)
import System.Process
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, testCase, (@?=))

tests :: TestTree
tests = testGroup "connections to upstreams" [onBothBackends "many" many, onBothBackends "few" few, python]

plain :: SockAddr -> ProxySettings
plain upstream = patient "" [upstream]

-- Without a limit, and with one.
many :: BackendChoice -> [TestTree]
many backend =
  [ testCase "moreThan256RequestsAtOnceWereRefused" . withScripted events $ \upstream ->
      withFront backend defaultSettings (plain upstream) $ \front -> do
        let streams n body
              | n == (0 :: Int) = body
              | otherwise = withClient (frontAddress front) $ \client -> do
                say client (get "/events")
                hearSome client >>= assertBool "an answer" . ("HTTP/1.1 200" `B.isPrefixOf`)
                streams (n - 1) body
        -- More than there may have been on both capabilities.
        streams 560 (ask front (get "/") >>= answersWith 200 "other"),
    testCase "theLimitWasOneOfEachCapability" $ do
      now <- newIORef (0, 0 :: Int)
      waiting <- newEmptyMVar
      let counted peer = do
            _ <- hearHead peer
            atomicModifyIORef' now (\(open, most) -> ((open + 1, max most (open + 1)), ()))
            takeMVar waiting
            atomicModifyIORef' now (\(open, most) -> ((open - 1, most), ()))
            tell peer (simple "x")
      withScripted (\_ peer -> forever (counted peer)) $ \upstream ->
        withFront backend defaultSettings (plain upstream) {proxyConnections = Just 3} $ \front -> do
          done <- forM [1 .. 12 :: Int] $ \_ -> do
            answered <- newEmptyMVar
            answered <$ forkIO (try (ask front (get "/")) >>= putMVar answered)
          _ <- eventually "twelve requests under way" (sum . figureOpen <$> proxyFigures (frontProxy front)) (== 12)
          _ <- eventually "three requests at the upstream" (fst <$> readIORef now) (== 3)
          replicateM_ 12 (patiently "a request to reach the upstream" (putMVar waiting ()))
          forM_ done $ \answered -> patiently "an answer" (takeMVar answered) >>= either (\e -> unexpected "an answer" (show (e :: SomeException))) (answersWith 200 "x")
          readIORef now >>= (@?= 3) . snd
          proxyFigures (frontProxy front) >>= (@?= 3) . figureConnections,
    testCase "slowReadersOccupiedTheUpstream" $
      -- By length, in chunks, until the end; one that is longer than what is kept occupies its place.
      forM_ [(700000, \body -> [simple body]), (700000, \body -> ["HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"] ++ ["c350\r\n" <> B.take 50000 (B.drop at body) <> "\r\n" | at <- [0, 50000 .. 699999]] ++ ["0\r\n\r\n"]), (700000, \body -> ["HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n", body])] $ \(size, framed) -> do
        let body = B.take size (B.concat (replicate (size `quot` 251 + 1) (B.pack [0 .. 250])))
        withScripted (\_ peer -> forever (hearHead peer >>= \top -> if "GET /big" `B.isPrefixOf` top then mapM_ (tell peer) (framed body) >> unless (any ("chunked" `B.isInfixOf`) (framed "") || any ("Content-Length" `B.isInfixOf`) (framed "")) (endTelling peer) else tell peer (simple "x"))) $ \upstream ->
          withFront backend defaultSettings (plain upstream) {proxyConnections = Just 1} $ \front -> withSlow front $ \slow -> do
            sendAll slow (get "/big")
            -- Its place is free although nothing was read.
            ask front (get "/") >>= answersWith 200 "x"
            heard <- everything slow
            let content = B.drop 4 (snd (B.breakSubstring "\r\n\r\n" heard))
            assertBool "all of the content" (if "chunked" `B.isInfixOf` B.take 300 heard then "0\r\n\r\n" `B.isSuffixOf` content else content == body),
    testCase "answersCutShortKeptTheirConnectionWhileTheyWereRead" $ do
      told <- newEmptyMVar
      withScripted (\_ peer -> hearHead peer >> tell peer ("HTTP/1.1 200 OK\r\nContent-Length: 700000\r\n\r\n" <> B.replicate 600000 120) >> putMVar told ()) $ \upstream ->
        withFront backend defaultSettings (plain upstream) $ \front -> withSlow front $ \slow -> do
          sendAll slow (get "/big")
          patiently "the upstream's answer" (takeMVar told)
          _ <- eventually "the upstream's end" (figureConnections <$> proxyFigures (frontProxy front)) (== 0)
          heard <- everything slow
          B.count 120 (snd (B.breakSubstring "\r\n\r\n" heard)) @?= 600000
  ]
  where
    -- A client with little room for what it is sent, which does not read; the kernel would take much for it otherwise.
    withSlow front act = bracket (socket AF_INET Stream 0) close $ \s -> do
      withFdSocket s setCloseOnExecIfNeeded
      setSocketOption s RecvBuffer 4096
      connect s (frontAddress front)
      act s
    everything s = recvWithin s ""
    recvWithin s seen = do
      piece <- patiently "more of the answer" (recv s 65536)
      let heard = seen <> piece
      if B.null piece || ended heard then pure heard else recvWithin s heard
    -- The front's connection stays open after an answer with an end of its own.
    ended heard = case B.breakSubstring "\r\n\r\n" heard of
      (top, content)
        | "chunked" `B.isInfixOf` top -> "0\r\n\r\n" `B.isSuffixOf` content
        | Just n <- heardField "content-length" heard -> B.length content - 4 >= maybe 0 fst (C.readInt n)
        | otherwise -> False
    events _ peer = do
      asked <- hearHead peer
      if "GET /events" `B.isPrefixOf` asked
        then tell peer "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n" >> void (hearToEnd peer)
        else tell peer (simple "other")

-- Upstreams that serve one connection after the other, or a few at once.
few :: BackendChoice -> [TestTree]
few backend =
  [ testCase "keptConnectionBlockedAnUpstreamOfOneConnection" . serial 1 answering $ \upstream ->
      withFront backend defaultSettings (plain upstream) $ \front ->
        forM_ [1 .. 12 :: Int] $ \_ -> ask front (get "/") >>= answersWith 200 "one",
    testCase "waitingConnectionsWereNotTakenUp" . serial 1 answering $ \upstream ->
      withFront backend defaultSettings (plain upstream) $ \front -> atOnce 6 (replicateM_ 3 (ask front (get "/") >>= answersWith 200 "one")),
    testCase "uploadToAConnectionThatIsNotTakenUp" . serial 1 answering $ \upstream ->
      withFront backend defaultSettings (plain upstream) $ \front ->
        atOnce 3 (ask front ("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 6000000\r\n\r\n" <> B.replicate 6000000 120) >>= answersWith 200 "one"),
    testCase "an upstream of two processes" . serial 2 answering $ \upstream ->
      withFront backend defaultSettings (plain upstream) $ \front -> atOnce 8 (replicateM_ 3 (ask front (get "/") >>= answersWith 200 "one")),
    testCase "two routes to one upstream of one connection" . serial 1 answering $ \upstream ->
      withFront backend defaultSettings (plain upstream) {proxyIdle = mempty} $ \first ->
        withFront backend defaultSettings (plain upstream) {proxyIdle = mempty} $ \second ->
          forM_ [1 .. 6 :: Int] $ \_ -> forM_ [first, second] $ \front -> ask front (get "/") >>= answersWith 200 "one",
    testCase "checkBlockedAnUpstreamOfOneConnection" . serial 1 answering $ \upstream ->
      withFront backend defaultSettings (plain upstream) {proxyCheck = Just (defaultCheck "/health") {checkEvery = milliseconds 20}} $ \front -> do
        forM_ [1 .. 12 :: Int] $ \_ -> ask front (get "/") >>= answersWith 200 "one"
        proxyFigures (frontProxy front) >>= (@?= [True]) . figureUp
        frontReports front >>= (@?= []),
    testCase "without time to be kept, connections are closed, and say so" $ do
      heads <- newIORef []
      withScripted (\_ peer -> hearHead peer >>= \top -> atomicModifyIORef' heads (\all' -> (top : all', ())) >> tell peer (simple "x") >> hearToEnd peer >>= (@?= "")) $ \upstream ->
        withFront backend defaultSettings (plain upstream) {proxyIdle = mempty} $ \front -> withClient (frontAddress front) $ \client -> do
          forM_ [1 .. 3 :: Int] $ \_ -> say client (get "/") >> hearAnswer client >>= answersWith 200 "x"
          -- The client's connection stays.
          say client "GET / HTTP/1.1\r\nHost: a\r\nTE: trailers\r\n\r\n" >> hearAnswer client >>= answersWith 200 "x"
          proxyFigures (frontProxy front) >>= (@?= 0) . figureConnections
      readIORef heads >>= (@?= [Just "close, TE", Just "close", Just "close", Just "close"]) . map (heardField "connection")
  ]
  where
    answering s = do
      top <- headOf s ""
      for_ top $ \(heard, rest) -> do
        let n = maybe 0 (maybe 0 fst . C.readInt) (heardField "content-length" heard)
        dropped s (n - B.length rest)
        sendAll s (simple "one")
        if heardField "connection" heard == Just "close" then pure () else answering s
    headOf s seen = case B.breakSubstring "\r\n\r\n" seen of
      (top, rest) | not (B.null rest) -> pure (Just (top <> "\r\n\r\n", B.drop 4 rest))
      _ -> recv s 65536 >>= \piece -> if B.null piece then pure Nothing else headOf s (seen <> piece)
    dropped s left
      | left <= 0 = pure ()
      | otherwise = recv s 65536 >>= \piece -> if B.null piece then pure () else dropped s (left - B.length piece)

-- Run an action in so many threads.
atOnce :: Int -> IO () -> IO ()
atOnce n action = do
  ends <- forM [1 .. n] $ \_ -> do
    end <- newEmptyMVar
    end <$ forkIO (try action >>= putMVar end)
  forM_ ends $ \end -> patiently "a thread to end" (takeMVar end) >>= either (\e -> unexpected "answers" (show (e :: SomeException))) pure

-- A server of so many threads, each of which serves one connection to its end and then takes up another.
serial :: Int -> (Socket -> IO ()) -> (SockAddr -> IO a) -> IO a
serial processes script body = bracket (socket AF_INET Stream 0) close $ \listener -> do
  withFdSocket listener setCloseOnExecIfNeeded
  bind listener (SockAddrInet 0 (tupleToHostAddress (127, 0, 0, 1)))
  listen listener 1024
  address <- getSocketName listener
  let serving = bracket (fst <$> accept listener) (uninterruptibleMask_ . close) $ \s -> do
        withFdSocket s setCloseOnExecIfNeeded
        -- The other side may have gone.
        void (try (script s) :: IO (Either IOException ()))
  bracket (forM [1 .. processes] (\_ -> forkIO (forever serving))) (mapM_ killThread) (\_ -> body address)

python :: TestTree
python = testCase "Python's HTTPServer, which serves one connection after the other" . withHttpServer $ \upstream ->
  withFront Epoll defaultSettings (plain upstream) $ \front -> do
    forM_ [1 .. 12 :: Int] $ \_ -> ask front (get "/") >>= answersWith 200 "python"
    atOnce 4 (replicateM_ 3 (ask front (get "/") >>= answersWith 200 "python"))

withHttpServer :: (SockAddr -> IO a) -> IO a
withHttpServer body = bracket start stop $ \(_, out, _, _) -> case out of
  Nothing -> unexpected "Python's output" "none"
  Just handle -> do
    port <- patiently "Python to listen" (hGetLine handle)
    body (SockAddrInet (read port) (tupleToHostAddress (127, 0, 0, 1)))
  where
    start = createProcess (proc "python3" ["-c", program]) {std_out = CreatePipe, close_fds = True}
    stop handles@(_, _, _, process) = do
      terminateProcess process
      _ <- waitForProcess process
      cleanupProcess handles
    program =
      unlines
        [ "import http.server",
          "class H(http.server.BaseHTTPRequestHandler):",
          "    protocol_version = 'HTTP/1.1'",
          "    def log_message(self, *a): pass",
          "    def do_GET(self):",
          "        self.send_response(200)",
          "        self.send_header('Content-Length', '6')",
          "        self.end_headers()",
          "        self.wfile.write(b'python')",
          "s = http.server.HTTPServer(('127.0.0.1', 0), H)",
          "print(s.server_address[1], flush=True)",
          "s.serve_forever()"
        ]
