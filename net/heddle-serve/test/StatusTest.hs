{-# LANGUAGE OverloadedStrings #-}

-- | Histograms beside exact quantiles, the routes that requests are counted by, and how metrics are written.
module StatusTest (tests) where

import Data.ByteString qualified as B
import Data.ByteString.Builder (toLazyByteString)
import Data.ByteString.Char8 qualified as C
import Data.ByteString.Lazy qualified as L
import Data.Foldable (for_)
import Data.IORef
import Data.List (sort)
import Data.Maybe (isNothing)
import Heddle.Http
import Heddle.Http.UriPath (decodePath)
import Heddle.Serve.Internal
import Heddle.Tls (TlsCounts (..))
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, assertFailure, testCase, (@?=))
import Test.Tasty.QuickCheck (Gen, choose, forAll, listOf1, oneof, property, testProperty, (.&&.), (===))
import Test.Tasty.QuickCheck qualified as QC

tests :: TestTree
tests = testGroup "status" [histograms, routing, writing, traces]

-- From a microsecond to half a minute, evenly over the orders of magnitude.
latency :: Gen Int
latency = oneof [choose (0, 40), choose (0, 25) >>= \k -> choose (2 ^ (k :: Int), 2 ^ (k + 1) - 1)]

histogramOf :: [Int] -> [Int]
histogramOf values = [length (filter ((== i) . bucketOf) values) | i <- [0 .. bucketTotal - 1]]

histograms :: TestTree
histograms =
  testGroup
    "histograms"
    [ testProperty "a latency is below the bound of its bucket, and not below that of the bucket before" . forAll latency $ \v ->
        let i = bucketOf v in (v < bucketBound i) && (i == 0 || v >= bucketBound (i - 1)),
      testProperty "quantile: not below the exact one, and at most a sixteenth above it" . forAll (listOf1 latency) $ \values ->
        forAll (choose (0, 1)) $ \q ->
          let exact = sort values !! (max 1 (ceiling (q * fromIntegral (length values) :: Double)) - 1)
              found = quantile q (histogramOf values)
           in QC.counterexample (show (exact, found)) (found >= exact && fromIntegral found <= (fromIntegral exact * 17 / 16 :: Double)),
      testProperty "countBelow: exact for powers of two" . forAll (listOf1 latency) $ \values ->
        forAll (choose (0, 27)) $ \k -> countBelow (2 ^ (k :: Int)) (histogramOf values) === length (filter (< 2 ^ k) values),
      testCase "what is out of range is in the first or last bucket" $ do
        map bucketOf [-1, 0, 134217727, 134217728, maxBound] @?= [0, 0, bucketTotal - 1, bucketTotal - 1, bucketTotal - 1]
        quantile 0.5 (replicate bucketTotal 0) @?= 0,
      testProperty "bounds grow" . property $ and (zipWith (<) bounds (drop 1 bounds)) .&&. bucketBound (bucketTotal - 1) === 134217728
    ]
  where
    bounds = map bucketBound [0 .. bucketTotal - 1]

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
    for_ ["version=\"1\\\"\\\\\\n\"", "heddle_http_requests_total{route=\"files\",code=\"2xx\"} 3", "le=\"0.000064\"} 2\n", "le=\"+Inf\"} 3\n", "_sum{route=\"files\"} 100.000003\n", "outcome=\"resumed\"} 2", "heddle_certificate_expiry_seconds{names=\"a.example,b.example\",number=\"1\"} -86400\n", "heddle_cache_bytes 77\n", "heddle_upstream_up{route=\"/p\",server=\"http://a\"} 1\nheddle_upstream_up{route=\"/p\",server=\"http://b\"} 0\n# HELP", "requests_in_flight{route=\"/p\",server=\"http://a\"} 4\n", "heddle_upstream_connections{route=\"/f/*.php\",state=\"kept\"} 5\n", "heddle_upstream_requests_waiting{route=\"/c\"} 8\n", "heddle_programs_running{route=\"/c\"} 7\n"] $ \part ->
      assertBool (show part ++ " in " ++ C.unpack text) (part `B.isInfixOf` text)
    for_ ["\"version\":\"1\\\"\\\\\\u000a\"", "\"days_left\":-1.000", "\"buckets\":[[2,2],[100663296,1]]", "\"cpu_seconds\":1234567.250", "{\"route\":\"/f/*.php\",\"kind\":\"fastcgi\",\"server\":\"/run/php.sock\",\"up\":true,\"open\":null}", "{\"route\":\"/p\",\"kind\":\"proxy\",\"used\":4,\"kept\":2,\"waiting\":null}"] $ \part ->
      assertBool (show part ++ " in " ++ C.unpack json) (part `B.isInfixOf` json)
    assertBool "ready" ((if state == Heddle.Serve.Internal.Ready then "heddle_ready 1\n" else "heddle_ready 0\n") `B.isInfixOf` text)
  readIORef counts >>= (@?= 3)
  where
    figures state =
      StatusFigures
        { statusVersion' = "1\"\\\n",
          statusProcess = 1,
          statusCores = 2,
          statusState' = state,
          statusUptime = 1.5,
          statusOpen = 4,
          statusReadings = Readings 5 1 2 [RouteReading "files" [0, 3, 0, 0, 0] 10 100000003 100000001 (histogramOf [1, 1, 100000001])],
          statusHandshakes = Just (TlsCounts 1 2 3 4),
          statusCertificates = [CertificateFigures ["a.example", "b.example"] (-86400)],
          statusCached = 77,
          statusUpstreams =
            [ ("/p", UpstreamFigures "proxy" [ServerFigures "http://a" True (Just 3), ServerFigures "http://b" False (Just 0), ServerFigures "http://a" False (Just 1)] 4 2 Nothing),
              ("/f/*.php", UpstreamFigures "fastcgi" [ServerFigures "/run/php.sock" True Nothing] 1 5 (Just 6)),
              ("/c", UpstreamFigures "cgi" [] 7 0 (Just 8))
            ],
          statusUses = ProcessFigures (Just 1234567.25) Nothing (Just 1) Nothing (Just 2) Nothing Nothing
        }

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
