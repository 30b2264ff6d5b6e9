{-# LANGUAGE OverloadedStrings #-}

-- | The routes that requests are counted by, how metrics are written, and the figures of several processes.
module StatusTest (tests) where

import Control.Concurrent (forkIO)
import Data.ByteString qualified as B
import Data.ByteString.Builder (toLazyByteString)
import Data.ByteString.Char8 qualified as C
import Data.ByteString.Lazy qualified as L
import Data.Foldable (for_)
import Data.IORef
import Data.Maybe (isNothing)
import Heddle.Http hiding (Ready)
import Heddle.Http.UriPath (decodePath)
import Heddle.IO (deadlineIn, defaultConfig, register, seconds, withRuntime)
import Heddle.Prim.Clock (Deadline (..))
import Heddle.Prim.Histogram (Histogram, fromCounts)
import Heddle.Serve.Internal
import Heddle.Tls (TlsCounts (..))
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, assertFailure, testCase, (@?=))
import Test.Tasty.QuickCheck (choose, forAll, property, testProperty, (.&&.), (===))
import Test.Tasty.QuickCheck qualified as QC

tests :: TestTree
tests = testGroup "status" [buckets, routing, writing, processes, traces]

buckets :: TestTree
buckets = testCase "latencies of more than 134 s are in the last bucket" $ map latencyBucket [-1, 0, 134217727, 134217728, maxBound] @?= [0, 0, 383, 383, 383]

routing :: TestTree
routing = testCase "the status is a route, and counted beside the others" $ do
  prefix <- either assertFailure pure (parseStatusPrefix "/status")
  for_ ["/", "status", "/a/*.php", ""] $ \wrong -> either (const (pure ())) (\p -> assertFailure ("accepted " ++ wrong ++ " as " ++ show p)) (parseStatusPrefix wrong)
  let app = RoutePattern "app" ""
      routes = newRoutes LongestPrefix [(pattern', Through (\_ _ -> pure (Whole status200 [] ""))) | pattern' <- [app, RoutePattern "status/deep" ""]]
  taken <- (`observed` routes) <$> newObserver 1 Nothing (defaultStatusOptions app)
  assertBool "another route's prefix is refused" (isNothing taken)
  newObserver 2 Nothing (defaultStatusOptions prefix) >>= \observer -> case observed observer routes of
    Nothing -> assertFailure "refused"
    Just all' -> do
      let named path = either (const Nothing) (fmap (renderPattern . (routePatterns all' !!)) . routePosition all') (decodePath path)
      map named ["/status", "/status/metrics", "/status/deep/x", "/statuses", "/app/x", "/a/../status", "/"]
        @?= [Just "/status", Just "/status", Just "/status/deep", Nothing, Just "/app", Just "/status", Nothing]

writing :: TestTree
writing = testCase "labels are escaped, numbers have no exponent, and the state is told" $ do
  counts <- newIORef (0 :: Int)
  for_ [minBound .. maxBound] $ \state -> do
    modifyIORef' counts (+ 1)
    let text = L.toStrict (toLazyByteString (figuresText (figures state)))
        json = L.toStrict (toLazyByteString (figuresJson (figures state)))
    for_ ["version=\"1\\\"\\\\\\n\"", "heddle_http_requests_total{route=\"files\",code=\"2xx\"} 3", "le=\"0.000064\"} 2\n", "le=\"+Inf\"} 3\n", "_sum{route=\"files\"} 100.000003\n", "outcome=\"resumed\"} 2", "heddle_certificate_expiry_seconds{names=\"a.example,b.example\",number=\"1\"} -86400\n", "heddle_cache_bytes 77\n", "heddle_processes 2\n", "heddle_processes_ended_total 1\n", "heddle_upstream_up{route=\"/p\",server=\"http://a\"} 1\nheddle_upstream_up{route=\"/p\",server=\"http://b\"} 0\n# HELP", "requests_in_flight{route=\"/p\",server=\"http://a\"} 4\n", "heddle_upstream_connections{route=\"/f/*.php\",state=\"kept\"} 5\n", "heddle_upstream_requests_waiting{route=\"/c\"} 8\n", "heddle_programs_running{route=\"/c\"} 7\n"] $ \part ->
      assertBool (show part ++ " in " ++ C.unpack text) (part `B.isInfixOf` text)
    for_ ["\"processes\":{\"serving\":2,\"ended\":1}", "\"version\":\"1\\\"\\\\\\u000a\"", "\"days_left\":-1.000", "\"buckets\":[[2,2],[100663296,1]]", "\"cpu_seconds\":1234567.250", "{\"route\":\"/f/*.php\",\"kind\":\"fastcgi\",\"server\":\"/run/php.sock\",\"up\":true,\"open\":null}", "{\"route\":\"/p\",\"kind\":\"proxy\",\"used\":4,\"kept\":2,\"waiting\":null}"] $ \part ->
      assertBool (show part ++ " in " ++ C.unpack json) (part `B.isInfixOf` json)
    assertBool "ready" ((if state == Ready then "heddle_ready 1\n" else "heddle_ready 0\n") `B.isInfixOf` text)
  readIORef counts >>= (@?= 3)

figures :: State -> StatusFigures
figures state =
  StatusFigures
    { statusVersion' = "1\"\\\n",
      statusProcess = 1,
      statusProcesses = Just (2, 1),
      statusCores = 2,
      statusState' = state,
      statusUptime = 1.5,
      statusOpen = 4,
      statusReadings = Readings 5 1 2 [RouteReading "files" [0, 3, 0, 0, 0] 10 100000003 100000001 (latencies [1, 1, 100000001])],
      statusHandshakes = Just (TlsCounts 1 2 3 4 5),
      statusCertificates = [CertificateFigures ["a.example", "b.example"] (-86400)],
      statusCached = 77,
      statusUpstreams =
        [ ("/p", UpstreamFigures "proxy" [ServerFigures "http://a" True (Just 3), ServerFigures "http://b" False (Just 0), ServerFigures "http://a" False (Just 1)] 4 2 Nothing),
          ("/f/*.php", UpstreamFigures "fastcgi" [ServerFigures "/run/php.sock" True Nothing] 1 5 (Just 6)),
          ("/c", UpstreamFigures "cgi" [] 7 0 (Just 8))
        ],
      statusUses = ProcessFigures (Just 1234567.25) Nothing (Just 1) Nothing (Just 2) Nothing Nothing
    }

latencies :: [Int] -> Histogram
latencies values = fromCounts latencyPrecision [(v, 1) | v <- values]

processes :: TestTree
processes =
  testGroup
    "figures of several processes"
    [ testCase "as bytes and back, and no other bytes" $ do
        let one = (figures Stopping) {statusProcesses = Nothing, statusUses = ProcessFigures (Just 0.1) (Just 1.5) Nothing (Just 2) Nothing (Just 3) (Just (Collections 1 2 0.5 3 4))}
            bytes = figuresBytes one
        figuresFrom bytes @?= Just one
        figuresFrom (figuresBytes (figures Starting)) @?= Just (figures Starting)
        for_ [0, 7 .. L.length bytes - 1] $ \n -> figuresFrom (L.take n bytes) @?= Nothing
        figuresFrom (bytes <> "x") @?= Nothing,
      testCase "numbers are added up, routes by name, servers by name" $ do
        let other = (figures Starting) {statusUptime = 9, statusReadings = Readings 1 1 1 [RouteReading "/new" [0, 1, 0, 0, 0] 1 2 2 (latencies [2]), RouteReading "files" [1, 1, 0, 0, 0] 5 7 7 (latencies [7])], statusHandshakes = Nothing}
        Just both <- pure (figuresTogether [figures Ready, other])
        (statusCores both, statusUptime both, statusOpen both, statusCached both, statusState' both) @?= (4, 9, 8, 154, Ready)
        statusReadings both @?= Readings 6 2 3 [RouteReading "files" [1, 4, 0, 0, 0] 15 100000010 100000001 (latencies [1, 1, 7, 100000001]), RouteReading "/new" [0, 1, 0, 0, 0] 1 2 2 (latencies [2])]
        statusHandshakes both @?= Just (TlsCounts 1 2 3 4 5)
        lookup "/p" (statusUpstreams both) @?= Just (UpstreamFigures "proxy" [ServerFigures "http://a" True (Just 6), ServerFigures "http://b" False (Just 0), ServerFigures "http://a" False (Just 2)] 8 4 Nothing)
        figureDescriptors (statusUses both) @?= Just 4,
      testCase "what a process counted stays when it has ended, and what it had goes" . withRuntime defaultConfig $ \runtime -> do
        gathering <- newGathering runtime (assertFailure . ("told: " ++))
        counts <- newIORef (figures Ready)
        let join slot = do
              (asking, theirs) <- channelPair runtime
              (asked, theirs') <- channelPair runtime
              answers <- register runtime theirs >>= channelOf
              mine <- register runtime theirs' >>= channelOf
              _ <- forkIO (answering answers (figuresBytes <$> readIORef counts))
              joinMember gathering slot asking asked
              pure (answers, mine)
            told (_, mine) = do
              deadline <- deadlineIn (seconds 60)
              question mine deadline >>= maybe (assertFailure "no answer") (maybe (assertFailure "no figures") pure . figuresFrom)
            seen all' = (statusProcesses all', readingAccepted (statusReadings all'), statusOpen all')
        one <- join 0
        two <- join 1
        told one >>= (@?= (Just (2, 0), 10, 8)) . seen
        told two >>= (@?= (Just (2, 0), 10, 8)) . seen
        closeChannel (fst one)
        told two >>= (@?= (Just (1, 0), 10, 4)) . seen
        modifyIORef' counts (\f -> f {statusReadings = (statusReadings f) {readingAccepted = 6}})
        three <- join 0
        told three >>= (@?= (Just (2, 1), 17, 8)) . seen,
      testCase "an answer that comes too late is not taken for the next one" . withRuntime defaultConfig $ \runtime -> do
        (asking, theirs) <- channelPair runtime
        deadline <- deadlineIn (seconds 60)
        question asking (Deadline 0) >>= (@?= Nothing)
        answers <- register runtime theirs >>= channelOf
        number <- newIORef (0 :: Int)
        _ <- forkIO (answering answers (modifyIORef' number (+ 1) >> L.fromStrict . C.pack . show <$> readIORef number))
        question asking deadline >>= (@?= Just "2")
        closeChannel answers
        question asking deadline >>= (@?= Nothing)
    ]

-- The examples of W3C Trace Context, section 3.2, and what it says of other versions.
traces :: TestTree
traces =
  testGroup
    "trace context"
    [ testCase "valid ones are continued" . for_ valid $ \(given, flags) ->
        continued given @?= Just ("00-4bf92f3577b34da6a3ce929d0e0e4736-b7ad6b7169203331-" <> flags),
      testCase "invalid ones are not" . for_ invalid $ \given -> continued given @?= Nothing,
      testProperty "one changed character is continued as it should be, or not at all" . forAll (choose (0, 54)) $ \i ->
        forAll (QC.elements "0fFg- \r") $ \c ->
          let given = C.take i good <> C.cons c (C.drop (i + 1) good)
           in case continued given of
                Nothing -> property True
                Just text -> C.length text === 55 .&&. C.take 33 (C.drop 3 text) === C.take 33 (C.drop 3 given) .&&. C.take 2 text === "00",
      testCase "ids" $ do
        map isRequestId ["a", "0af7651916cd43dd8448eb211c80319c", "A-b_c.d~e+f/g=h:i@j", C.replicate 128 'x'] @?= replicate 4 True
        map isRequestId ["", "a b", "a\"", "a\\", "a,b", "\195\164", C.replicate 129 'x', "a\t"] @?= replicate 8 False
    ]
  where
    continued given = (\traced -> renderTraceparent traced {traceParent = "b7ad6b7169203331"}) <$> parseTraceparent given
    good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    valid =
      [ (good, "01"),
        ("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00", "00"),
        -- Unknown flags are not passed on.
        ("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-ff", "01"),
        ("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-fe", "00"),
        ("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0b", "01"),
        -- A later version may say more.
        ("cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "01"),
        ("cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-what-the-future-will-be-like", "01")
      ]
    invalid =
      [ "",
        "00",
        good <> "-",
        good <> "-more",
        C.init good,
        "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01.what",
        "0-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
        "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e473-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e47361-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0G",
        "00_4bf92f3577b34da6a3ce929d0e0e4736_00f067aa0ba902b7_01",
        " " <> good
      ]
