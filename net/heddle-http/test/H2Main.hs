-- | HTTP/2 over real sockets: with real clients, with a peer that breaks the rules, and with h2spec.
module Main (main) where

import Control.Concurrent (forkIO, killThread, threadDelay)
import Control.Concurrent.MVar (putMVar)
import Control.Exception (IOException, bracket, try)
import Control.Monad (forM_, forever, unless, when)
import Data.IORef
import Data.List (isInfixOf, isPrefixOf, sort)
import EngineFixture (onBothBackends)
import FailedRequests qualified
import H2Fixture
import Heddle.Http
import Heddle.Http.Internal (calmedSessions, liveSessions, liveStreams)
import Heddle.IO (BackendChoice (..))
import Heddle.Prim.Clock (Nanos (..), deadlineIn, elapsed, milliseconds, monotonicNow, seconds)
import Heddle.Testkit.Descriptors
import Heddle.Testkit.Heap (liveBytes)
import Heddle.Testkit.HttpClient (withClient)
import Heddle.Testkit.Needing
import Heddle.Testkit.Watchdog
import LazyContent qualified
import Network.Socket (SockAddr (..), tupleToHostAddress)
import ReplyFraming qualified
import System.Environment (setEnv)
import System.IO (hFlush, hGetLine, hPutStrLn)
import System.Mem (performMajorGC)
import Test.Tasty
import Test.Tasty.HUnit (testCase, (@?=))

main :: IO ()
main = do
  before <- openDescriptors
  spec <- conformance
  -- One after the other: they count what is left in the process. As a local option it has no effect.
  setEnv "TASTY_NUM_THREADS" "1"
  defaultMain $
    testGroup
      "heddle-http h2"
      [ onBothBackends "answers" answers,
        onBothBackends "streams" streams,
        onBothBackends "flow control" flow,
        onBothBackends "limits" limits,
        onBothBackends "deadlines and draining" deadlines,
        onBothBackends "beginnings" beginnings,
        LazyContent.tests,
        FailedRequests.tests,
        ReplyFraming.tests,
        testGroup "clients" clients,
        spec,
        testCase "no session and no stream is left" $ do
          performMajorGC
          liveSessions >>= (@?= 0)
          liveStreams >>= (@?= 0),
        -- Last: tests run one after the other.
        noDescriptorIsLeft before
      ]

answers :: BackendChoice -> [TestTree]
answers backend =
  [ testCase "every kind of reply" $
      withSite backend Clear settings $ \at -> do
        runPeer at "hello" 0
        failures <- readIORef (siteFailures at)
        sort (map (head . lines) failures) @?= sort ["thrown", "torn", unsafe "\"X\"", unsafe "\"X y\""]
        logs <- readIORef (siteLogged at)
        sum [1 | (501, _) <- logs] @?= (1 :: Int)
        sum [1 | (200, 6) <- logs] @?= (4 :: Int)
        sum [1 | (200, 3000000) <- logs] @?= (1 :: Int),
    testCase "every kind of reply, through a layer that has agreed on h2" $
      withSite backend Agreed settings $ \at -> runPeer at "hello" 0,
    testCase "builders, sized streams, replies from inside the handler" $
      withSite backend Clear settings $ \at -> do
        runPeer at "inside" 0
        failures <- readIORef (siteFailures at)
        length failures @?= 4,
    testCase "bodies: trailers, 100 Continue, 413, uploads that nobody reads" $
      withSite backend Clear settings $ \at -> runPeer at "bodies" 0,
    testCase "aLateBodyLeftItsClientWaiting: a request that ends after its reply" $
      withSite backend Clear settings $ \at -> runPeer at "late_end" 0,
    testCase "aClientThatWaitedForTheHeadStalled: a stream within a handler reads the body first" $
      withSite backend Clear settings $ \at -> runPeer at "head_first" 0,
    testCase "trailers follow the content" $
      withSite backend Clear settings $ \at -> do
        runPeer at "trailers" 0
        readIORef (siteFailures at) >>= (@?= 2) . length,
    testCase "interim responses come before the reply" $
      withSite backend Clear settings $ \at -> talkToPeer at "hints" 0 $ \_ output -> do
        hGetLine output >>= (@?= "hinted")
        putMVar (siteGate at) ()
  ]
  where
    unsafe name = "cannot send the reply's header " ++ name ++ ": its name is no token, its value holds CR, LF or NUL, or it frames messages"

streams :: BackendChoice -> [TestTree]
streams backend =
  [ testCase "many at once, with bodies both ways, interleaved at random" $
      withSite backend Clear settings $ \at -> forM_ [1, 2] (runPeer at "interleave"),
    testCase "many at once, through a layer" $
      withSite backend Agreed settings $ \at -> runPeer at "interleave" 3,
    testCase "the same bytes give the same answers, however they are cut" $
      withSite backend Clear settings $ \at -> forM_ [1, 2] (runPeer at "splits"),
    testCase "reset at any point, while the collector runs" $
      withSite backend Clear settings $ \at -> do
        bracket (forkIO (forever (performMajorGC >> threadDelay 500))) killThread $ \_ -> forM_ [1, 2, 3] (runPeer at "resets")
        readIORef (siteFailures at) >>= (@?= []),
    testCase "clients that vanish end the handlers" $
      withSite backend Clear settings $ \at -> do
        forM_ [1 .. 8] (runPeer at "vanish")
        _ <- eventually "every connection to end" (connectionsOpen (siteServer at)) (== 0)
        ends <- readIORef (siteEnded at)
        filter (`notElem` ["StreamCancelled", "the client has reset the stream, or has gone", "the client went away, or took the reply too slowly"]) ends @?= []
        readIORef (siteFailures at) >>= (@?= []),
    testCase "cutShort ends handlers and sessions" $
      withSite backend Clear settings $ \at ->
        talkToPeer at "waits" 0 $ \_ output -> do
          line <- hGetLine output
          line @?= "waiting"
          cutShort (siteServer at)
  ]

flow :: BackendChoice -> [TestTree]
flow backend =
  [ testCase "a reply waits for its window, and others do not" $
      withSite backend Clear settings $ \at -> runPeer at "stalled" 0,
    testCase "streamsThatWaitedHeldTheirMemory: a window of 0 for each" $
      withSite backend Clear settings {settingHttp2Limits = defaultHttp2Limits {http2Streams = 400}} $ \at -> do
        descriptors <- length <$> openDescriptors
        held <- liveBytes
        talkToPeer at "closed_windows" 0 $ \input output -> do
          hGetLine output >>= (@?= "waiting")
          -- A connection, the pipes of the peer, and one descriptor of the file for all.
          waiting <- eventually "no descriptor for each stream" (subtract descriptors . length <$> openDescriptors) (<= 10)
          when (waiting > 10) $ unexpected "few descriptors" (show waiting)
          -- Without optimisation each thread has a second piece of stack, of 32 KB: 12 MB with all else. A workspace for each of
          -- 320 streams, and a buffer for each of 80 files, would be 15 MB more.
          now <- liveBytes
          when (now - held > 16000000) $ unexpected "at most 16 MB for 320 streams" (show (now - held))
          hPutStrLn input "on" >> hFlush input
        _ <- eventually "no descriptor of the file" (length <$> openDescriptors) (<= descriptors)
        readIORef (siteFailures at) >>= (@?= []),
    testCase "windows of one byte" $
      withSite backend Clear settings $ \at -> runPeer at "one_byte_windows" 0,
    testCase "a client that takes nothing loses its streams" $
      withSite backend Clear settings {settingReplyPace = Pace (milliseconds 200) 240} $ \at -> runPeer at "never_reads" 0
  ]

limits :: BackendChoice -> [TestTree]
limits backend =
  testCase "fields" (withSite backend Clear settings (\at -> runPeer at "many_fields" 0)) :
  testCase "more streams than announced" (withSite backend Clear settings (\at -> runPeer at "too_many" 0)) :
  testCase "handlers of reset streams count" stubborn :
  testCase "CONTINUATION without end" (withSite backend Clear settings (\at -> runPeer at "continuations" 0)) :
    [ testCase name $
        withSite backend Clear settings $ \at -> do
          before <- calmedSessions
          began <- monotonicNow
          runPeer at name 0
          took <- elapsed began <$> monotonicNow
          after' <- calmedSessions
          unless (name == "overflowing_windows") (after' - before @?= 1)
          -- Work is bounded: at most as many streams as may be reset at once, and those open.
          started <- readIORef (siteStarted at)
          -- A slow client has been allowed further resets meanwhile.
          let most = 402 + http2ResetRate defaultHttp2Limits * (nanosCount took `quot` 1000000000)
          when (started > most) $ unexpected "few requests to start" (show started)
      | name <- ["rapid_reset", "provoked_reset", "overflowing_windows", "ping_flood", "settings_flood", "empty_data", "window_updates", "priority_flood"]
    ]
  where
    stubborn = withSite backend Clear settings $ \at ->
      talkToPeer at "stubborn" 0 $ \input output -> do
        hGetLine output >>= (@?= "opened")
        _ <- eventually "the handlers to start" (readIORef (siteStarted at)) (== 100)
        hPutStrLn input "on" >> hFlush input
        hGetLine output >>= (@?= "refused")
        putMVar (siteGate at) ()
        _ <- eventually "the handlers to end" liveStreams (== 0)
        hPutStrLn input "on" >> hFlush input

deadlines :: BackendChoice -> [TestTree]
deadlines backend =
  [ testCase "an incomplete head, and no SETTINGS" $
      withSite backend Clear settings {settingHead = milliseconds 200} $ \at -> runPeer at "incomplete_head" 0,
    testCase "idle; PING does not count" $
      withSite backend Clear settings {settingIdle = milliseconds 300} $ \at -> runPeer at "idle" 0,
    testCase "a body that does not come" $
      withSite backend Clear settings {settingBodyPace = Pace (milliseconds 200) 240} $ \at -> runPeer at "slow_body" 0,
    testCase "draining" $
      withSite backend Clear settings {settingGrace = seconds 10} $ \at ->
        talkToPeer at "drain" 0 $ \input output -> do
          hGetLine output >>= (@?= "waiting")
          let drain = deadlineIn (seconds 60) >>= drainUntil (siteServer at) >>= \whole -> unless whole (modifyIORef' (siteFailures at) ("not drained" :))
          bracket (forkIO drain) killThread $ \_ -> do
            -- Once the listeners are closed the server drains.
            _ <- eventually "the drain to begin" (refused at) id
            hPutStrLn input "on" >> hFlush input
            hGetLine output >>= (@?= "told")
            putMVar (siteGate at) ()
            _ <- eventually "the end of the drain" (connectionsOpen (siteServer at)) (== 0)
            readIORef (siteFailures at) >>= (@?= [])
  ]

-- Whether nothing listens there any more.
refused :: Site -> IO Bool
refused at = either (\(_ :: IOException) -> True) (const False) <$> try (withClient address (\_ -> pure ()))
  where
    address = SockAddrInet (read (sitePort at)) (tupleToHostAddress (127, 0, 0, 1))

beginnings :: BackendChoice -> [TestTree]
beginnings backend =
  [ testCase "a preface that is late or broken is HTTP/1's; Upgrade: h2c is ignored" $
      withSite backend Clear settings $ \at -> runPeer at "late_preface" 0,
    testCase "theLargestLimitsResetEveryConnection" $
      withSite
        backend
        Clear
        settings
          { settingLimits = Limits maxBound maxBound maxBound maxBound maxBound maxBound,
            settingHttp2Limits = defaultHttp2Limits {http2Streams = maxBound, http2StreamWindow = maxBound, http2ConnectionWindow = maxBound, http2HeaderList = maxBound, http2Fields = maxBound}
          }
        $ \at -> forM_ ["inside", "interleave"] $ \name -> runPeer at name 0,
    testCase "turned off" $
      withSite backend Clear settings {settingHttp2 = False} $ \at -> runPeer at "turned_off" 0
  ]

clients :: [TestTree]
clients =
  [ testCase "curl" $
      withSite Epoll Clear settings $ \at -> do
        let url = "http://127.0.0.1:" ++ sitePort at
            curl = program "curl" . (["-s", "-S", "--http2-prior-knowledge"] ++)
        curl [url ++ "/hello"] >>= (@?= "hello\n")
        curl ["-d", "a body", url ++ "/echo"] >>= (@?= "a body")
        curl ["-d", "a body", url ++ "/hello"] >>= (@?= "hello\n")
        code <- curl ["-o", "/dev/null", "-w", "%{http_version} %{http_code} %{size_download}", url ++ "/big"]
        code @?= "2 200 3000000"
        -- HTTP/1.1 that offers an upgrade stays.
        upgraded <- program "curl" ["-s", "-S", "--http2", "-o", "/dev/null", "-w", "%{http_version}", url ++ "/hello"]
        upgraded @?= "1.1",
    testCase "nghttp, with priorities and an upload" $
      withSite Epoll Clear settings $ \at -> do
        let url = "http://127.0.0.1:" ++ sitePort at
        said <- program "nghttp" ["-n", "-s", "-m", "5", url ++ "/big", url ++ "/hello", url ++ "/file"]
        length (filter (isInfixOf " 200 ") (lines said)) @?= 15
        said' <- program "nghttp" ["-d", "test/h2_peer.py", url ++ "/echo"]
        unless ("class Peer:" `isInfixOf` said') $ unexpected "the upload back" said',
    testCase "h2load opens a hundred streams as soon as others end" $
      withSite Epoll Clear settings $ \at -> do
        said <- program "h2load" ["-n", "20000", "-c", "10", "-m", "100", "http://127.0.0.1:" ++ sitePort at ++ "/hello"]
        unless ("20000 succeeded, 0 failed, 0 errored" `isInfixOf` said) $ unexpected "20000 answers" said
  ]

conformance :: IO TestTree
conformance = needing "h2spec" "h2spec" $ \h2spec -> withSite Epoll Agreed settings $ \at -> do
  said <- program h2spec ["-h", "127.0.0.1", "-p", sitePort at, "-P", "/hello", "-o", "10"]
  case filter (" tests, " `isInfixOf`) (lines said) of
    [line] | " 0 skipped, 0 failed" `isInfixOf` line, not ("0 tests" `isPrefixOf` line) -> pure ()
    _ -> unexpected "every case to pass" said
