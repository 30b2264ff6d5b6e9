{-# LANGUAGE OverloadedStrings #-}

-- | Upstreams that fail in every way, and clients that go. Each test ends with nothing in use ('withFront'), and the suite with no descriptor
-- left.
module ProxyBadUpstream
  ( tests,
  )
where

import Control.Concurrent (MVar, forkIO, newEmptyMVar, putMVar, readMVar, takeMVar)
import Control.Monad (forM_, forever, void)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.IORef
import Data.List (isInfixOf)
import GHC.Clock (getMonotonicTime)
import Heddle.Gateway.Proxy
import Heddle.Http (Pace (..), defaultSettings)
import Heddle.IO (BackendChoice)
import Heddle.Prim.Clock (milliseconds, seconds)
import Heddle.Testkit.HttpClient
import Heddle.Testkit.Watchdog
import Network.Socket (SockAddr)
import ProxyFixture
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, testCase, (@?=))

tests :: TestTree
tests = testGroup "failures" [onBothBackends "before the answer" before, onBothBackends "within the answer" within', onBothBackends "clients that go" gone, onBothBackends "several upstreams" several]

plain :: SockAddr -> ProxySettings
plain upstream = patient "" [upstream]

-- The upstream's script, what the client gets, and a word of the report.
refusal :: BackendChoice -> String -> (SockAddr -> ProxySettings) -> (Peer -> IO ()) -> Int -> String -> TestTree
refusal backend name settings script code word = testCase name . withScripted (\_ peer -> hearHead peer >> script peer) $ \upstream ->
  withFront backend defaultSettings (settings upstream) $ \front -> do
    answer <- ask front (get "/secret?token=1")
    (answerCode answer, answerWhole answer) @?= (code, True)
    assertBool (show answer) (maybe False (not . B.null) (answerHeader answer "retry-after"))
    reports <- frontReports front
    assertBool (show reports) (any (word `isInfixOf`) reports && not (any ("token" `isInfixOf`) reports))

before :: BackendChoice -> [TestTree]
before backend =
  [ testCase "refused: 502" . deadOrigin $ \upstream -> withFront backend defaultSettings (plain upstream) $ \front -> do
      answer <- ask front (get "/")
      (answerCode answer, answerHeader answer "retry-after") @?= (502, Just "1")
      frontReports front >>= assertBool "told" . any ("ECONNREFUSED" `isInfixOf`),
    refusal backend "dies: 502" plain (const (pure ())) 502 "closed the connection",
    refusal backend "resets: 502" plain resetPeer 502 "connection",
    refusal backend "hangs: 504" (\u -> (plain u) {proxyAnswer = milliseconds 200}) (void . hearToEnd) 504 "time was over",
    refusal backend "hangs within its head: 504" (\u -> (plain u) {proxyAnswer = milliseconds 200}) (\p -> tell p "HTTP/1.1 200 OK\r\nA: " >> void (hearToEnd p)) 504 "time was over",
    refusal backend "dies within its head: 502" plain (`tell` "HTTP/1.1 200 OK\r\nA: ") 502 "closed the connection",
    refusal backend "speaks another protocol: 502" plain (`tell` "SSH-2.0-OpenSSH\r\n") 502 "another protocol",
    refusal backend "a bare line feed: 502" plain (`tell` "HTTP/1.1 200 OK\nContent-Length: 1\n\nx") 502 "refused",
    refusal backend "a space before the colon: 502" plain (`tell` "HTTP/1.1 200 OK\r\nA : b\r\nContent-Length: 0\r\n\r\n") 502 "refused",
    refusal backend "a folded header: 502" plain (`tell` "HTTP/1.1 200 OK\r\nA: b\r\n c\r\nContent-Length: 0\r\n\r\n") 502 "refused",
    refusal backend "two lengths: 502" plain (`tell` "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx") 502 "more than one",
    refusal backend "a length and a coding: 502" plain (`tell` "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n") 502 "both",
    refusal backend "an unknown coding: 502" plain (`tell` "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n") 502 "coding",
    refusal backend "a negative length: 502" plain (`tell` "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n") 502 "refused",
    refusal backend "a switch that nobody asked for: 502" plain (`tell` "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n") 502 "switches",
    refusal backend "a head too large: 502" plain (\p -> tell p "HTTP/1.1 200 OK\r\nA: " >> tell p (B.replicate 20000 120)) 502 "larger",
    refusal backend "a bomb of headers: 502" plain (`tell` ("HTTP/1.1 200 OK\r\n" <> B.concat (replicate 400 "A: b\r\n") <> "\r\n")) 502 "header lines",
    refusal backend "interim responses without an end: 502" plain (\p -> tell p (B.concat (replicate 400 "HTTP/1.1 102 Processing\r\n\r\n"))) 502 "interim",
    testCase "too many requests: 503" $ do
      release <- newEmptyMVar
      withScripted (\_ peer -> hearHead peer >> readMVar release >> tell peer (simple "late")) $ \upstream ->
        withFront backend defaultSettings (plain upstream) {proxyConnections = Just 1, proxyQueue = milliseconds 100} $ \front -> do
          answered <- newEmptyMVar
          forM_ [1 .. 6 :: Int] $ \_ -> forkAsk front answered
          refused <- takeUntil answered (== 503)
          refused @?= 503
          putMVar release ()
  ]
  where
    takeUntil answered wanted = patiently "a refusal" (takeMVar answered) >>= \code -> if wanted code then pure code else takeUntil answered wanted

-- A client of its own thread.
forkAsk :: Front -> MVar Int -> IO ()
forkAsk front answered = void (forkIO (ask front (get "/") >>= putMVar answered . answerCode))

within' :: BackendChoice -> [TestTree]
within' backend =
  [ cut "closes before the end of a sized body" "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nsome" "some",
    cut "closes before the last chunk" "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nsome\r\n" "some",
    cut "a malformed chunk" "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nsome\r\nZZ\r\n" "some",
    cut "a chunk longer than it says" "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nsomething\r\n0\r\n\r\n" "some",
    testCase "hangs in the middle: the connection is cut" . withScripted (\_ peer -> hearHead peer >> tell peer "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nsome" >> void (hearToEnd peer)) $ \upstream ->
      withFront backend defaultSettings (plain upstream) {proxyPace = Pace (milliseconds 200) 1} $ \front -> do
        answer <- ask front (get "/")
        (answerWhole answer, answerBody answer) @?= (False, "some"),
    testCase "more than promised reaches nobody, and the connection is not used again" $ do
      connections <- newIORef (0 :: Int)
      withScripted (\i peer -> writeIORef connections (i + 1) >> forever (hearHead peer >> tell peer "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil")) $ \upstream ->
        withFront backend defaultSettings (plain upstream) $ \front -> withClient (frontAddress front) $ \client -> do
          forM_ [1 .. 5 :: Int] $ \_ -> say client (get "/") >> hearAnswer client >>= answersWith 200 "ok"
          readIORef connections >>= (@?= 5),
    testCase "what comes after the answer is not the next one's" $ do
      go <- newEmptyMVar
      told <- newEmptyMVar
      withScripted (\_ peer -> hearHead peer >> tell peer (simple "ok") >> takeMVar go >> tell peer (simple "evil") >> putMVar told () >> hearHead peer >> tell peer (simple "ok") >> void (hearToEnd peer)) $ \upstream ->
        withFront backend defaultSettings (plain upstream) $ \front -> withClient (frontAddress front) $ \client -> do
          say client (get "/")
          hearAnswer client >>= answersWith 200 "ok"
          putMVar go ()
          takeMVar told
          -- By now it is in the proxy's socket. Its event manager must have seen it.
          _ <- eventually "the stray bytes to be seen" (proxyFigures (frontProxy front)) (const True)
          say client (get "/")
          answer <- hearAnswer client
          assertBool (show answer) (answerBody answer `elem` ["ok", "evil"]),
    testCase "an answer before the whole body" . withScripted (\_ peer -> hearHead peer >> hearExactlyFrom peer 10000 >> tell peer "HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno") $ \upstream ->
      withFront backend defaultSettings (plain upstream) $ \front -> withClient (frontAddress front) $ \client -> do
        say client ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2000000\r\n\r\n" <> B.replicate 1500000 120)
        hearAnswer client >>= answersWith 403 "no"
  ]
  where
    cut name reply body = testCase (name ++ ": the connection is cut") . withScripted (\_ peer -> hearHead peer >> tell peer reply) $ \upstream ->
      withFront backend defaultSettings (plain upstream) $ \front -> do
        answer <- ask front (get "/")
        (answerCode answer, answerWhole answer) @?= (200, False)
        assertBool (show answer) (answerBody answer `B.isPrefixOf` body)
        reports <- frontReports front
        assertBool (show reports) (any ("had begun" `isInfixOf`) reports)
        frontFailures front >>= (@?= [])

gone :: BackendChoice -> [TestTree]
gone backend =
  [ testCase "while the upstream thinks" $ do
      heard <- newEmptyMVar
      ended <- newEmptyMVar
      withScripted (\_ peer -> hearHead peer >> putMVar heard () >> hearToEnd peer >> getMonotonicTime >>= putMVar ended) $ \upstream ->
        withFront backend defaultSettings (plain upstream) $ \front -> do
          left <- withClient (frontAddress front) $ \client -> do
            say client (get "/")
            patiently "the upstream to hear" (takeMVar heard)
            _ <- eventually "the request to be attended to" (figureWaiting <$> proxyFigures (frontProxy front)) (== 1)
            getMonotonicTime
          at <- patiently "the upstream to be told" (takeMVar ended)
          -- Measured, not asserted: the bound is 100 ms on a machine that is not busy.
          assertBool (show (at - left)) (at - left < 20)
          frontReports front >>= (@?= []),
    testCase "while the answer comes slowly" $ do
      ended <- newEmptyMVar
      withScripted (\_ peer -> hearHead peer >> tell peer "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n" >> hearToEnd peer >> putMVar ended ()) $ \upstream ->
        withFront backend defaultSettings (plain upstream) $ \front -> do
          withClient (frontAddress front) $ \client -> say client (get "/") >> hearExactly client 20 >> abort client
          patiently "the upstream to be told" (takeMVar ended),
    testCase "within its body" $ do
      ended <- newEmptyMVar
      withScripted (\_ peer -> hearHead peer >> hearToEnd peer >>= putMVar ended . B.length) $ \upstream ->
        withFront backend defaultSettings (plain upstream) $ \front -> do
          withClient (frontAddress front) $ \client -> say client ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n" <> B.replicate 50000 120) >> abort client
          n <- patiently "the upstream to be told" (takeMVar ended)
          assertBool (show n) (n <= 50000),
    testCase "a malformed chunk of the client is refused, and the upstream's request ends unfinished" $ do
      begun <- newEmptyMVar
      ended <- newEmptyMVar
      withScripted (\_ peer -> hearHead peer >> hearExactlyFrom peer 8 >>= putMVar begun >> hearToEnd peer >>= putMVar ended) $ \upstream ->
        withFront backend defaultSettings (plain upstream) $ \front -> withClient (frontAddress front) $ \client -> do
          say client "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"
          patiently "the upstream to hear" (takeMVar begun) >>= (@?= "3\r\nabc\r\n")
          say client "Z\r\n"
          answer <- hearAnswer client
          answerCode answer @?= 400
          rest <- patiently "the upstream to be told" (takeMVar ended)
          assertBool (show rest) (not ("0\r\n\r\n" `B.isInfixOf` rest))
  ]

several :: BackendChoice -> [TestTree]
several backend =
  [ testCase "a dead upstream is passed over, and left out" . deadOrigin $ \dead -> withScripted (\_ peer -> forever (hearHead peer >> tell peer (simple "alive"))) $ \alive ->
      withFront backend defaultSettings (patient "" [dead, alive]) {proxyBackOff = (seconds 1000, seconds 1000)} $ \front -> do
        forM_ [1 .. 20 :: Int] $ \_ -> ask front (post "x") >>= answersWith 200 "alive"
        proxyFigures (frontProxy front) >>= (@?= [False, True]) . figureUp
        frontReports front >>= (@?= 3) . length . filter ("ECONNREFUSED" `isInfixOf`),
    testCase "what may have been done is not done again" $ do
      heard <- newIORef (0 :: Int)
      let script _ peer = hearHead peer >> atomicModifyIORef' heard (\n -> (n + 1, ()))
      withScripted script $ \one -> withScripted script $ \two -> withFront backend defaultSettings (patient "" [one, two]) $ \front -> do
        ask front (post "x") >>= (@?= 502) . answerCode
        readIORef heard >>= (@?= 1)
        ask front (get "/") >>= (@?= 502) . answerCode
        readIORef heard >>= (@?= 3)
        ask front "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx" >>= (@?= 502) . answerCode
        readIORef heard >>= (@?= 5)
        -- A body that may not have been kept cannot be sent twice.
        ask front ("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n" <> B.replicate 100000 120) >>= (@?= 502) . answerCode
        n <- readIORef heard
        assertBool (show n) (n == 6),
    testCase "an answer that has begun is not asked for again" $ do
      heard <- newIORef (0 :: Int)
      let script _ peer = hearHead peer >> atomicModifyIORef' heard (\n -> (n + 1, ())) >> tell peer "HTTP/1.1 2"
      withScripted script $ \one -> withScripted script $ \two -> withFront backend defaultSettings (patient "" [one, two]) $ \front -> do
        ask front (get "/") >>= (@?= 502) . answerCode
        readIORef heard >>= (@?= 1),
    testCase "in turns, by weight" . withScripted (named "a") $ \one -> withScripted (named "b") $ \two ->
      withFront backend defaultSettings (patient "" []) {proxyUpstreams = [Upstream (urlOf "/" one) 3, Upstream (urlOf "/" two) 1]} $ \front -> withClient (frontAddress front) $ \client -> do
        bodies <- mapM (\_ -> say client (get "/") >> answerBody <$> hearAnswer client) [1 .. 40 :: Int]
        length (filter (== "a") bodies) @?= 30,
    testCase "by a header, the same one" . withScripted (named "a") $ \one -> withScripted (named "b") $ \two -> withScripted (named "c") $ \three ->
      withFront backend defaultSettings (patient "" [one, two, three]) {proxyBalance = ByHeader "x-user"} $ \front -> do
        let asks user = answerBody <$> ask front (B.concat ["GET / HTTP/1.1\r\nHost: a\r\nX-User: ", user, "\r\n\r\n"])
        found <- mapM (\user -> (\x y -> (x == y, x)) <$> asks user <*> asks user) [C.pack (show n) | n <- [1 .. 40 :: Int]]
        map fst found @?= replicate 40 True
        forM_ ["a", "b", "c"] $ \name -> assertBool (show found) (name `elem` map snd found),
    testCase "the least busy one" $ do
      release <- newEmptyMVar
      stuck <- newIORef (0 :: Int)
      answered <- newIORef (0 :: Int)
      let more counter = atomicModifyIORef' counter (\n -> (n + 1, ()))
      withScripted (\_ peer -> forever (hearHead peer >> more stuck >> readMVar release >> tell peer (simple "slow"))) $ \slow -> withScripted (named "quick") $ \quick ->
        withFront backend defaultSettings (patient "" [slow, quick]) {proxyBalance = LeastBusy} $ \front -> do
          forM_ [1 .. 12 :: Int] $ \i -> do
            _ <- forkIO (ask front (get "/") >> more answered)
            eventually "each request to be answered or stuck" ((,) <$> readIORef answered <*> readIORef stuck) (\(a, b) -> a + b == i)
          -- Each capability learns by itself that one is busy.
          n <- readIORef stuck
          assertBool (show n) (n >= 1 && n <= 2)
          putMVar release ()
          void (eventually "all to be answered" (readIORef answered) (== 12)),
    testCase "checks take an upstream out and in again" $ do
      well <- newIORef True
      let script _ peer = forever $ do
            top <- hearHead peer
            ok <- readIORef well
            tell peer (if "GET /health" `B.isPrefixOf` top && not ok then "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n" else simple "a")
      withScripted script $ \one -> withScripted (named "b") $ \two ->
        withFront backend defaultSettings (patient "" [one, two]) {proxyCheck = Just (Check "/health" (milliseconds 20) (seconds 20))} $ \front -> do
          let up = figureUp <$> proxyFigures (frontProxy front)
          writeIORef well False
          _ <- eventually "the upstream to be left out" up (== [False, True])
          forM_ [1 .. 6 :: Int] $ \_ -> ask front (get "/") >>= answersWith 200 "b"
          writeIORef well True
          void (eventually "the upstream to be taken in" up (== [True, True]))
  ]
  where
    post body = B.concat ["POST / HTTP/1.1\r\nHost: a\r\nContent-Length: ", C.pack (show (B.length body)), "\r\n\r\n", body]

named :: ByteString -> Int -> Peer -> IO ()
named name _ peer = forever (hearHead peer >> tell peer (simple name))
