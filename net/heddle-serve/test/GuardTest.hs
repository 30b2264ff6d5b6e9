{-# LANGUAGE OverloadedStrings #-}

-- | Which clients are answered, and how often.
module GuardTest (tests) where

import Control.Concurrent (forkIO)
import Control.Concurrent.MVar
import Control.Monad (forM, forM_, replicateM, replicateM_)
import Data.Either (isLeft)
import Data.List.NonEmpty (NonEmpty (..))
import Data.Maybe (fromJust)
import Heddle.Gateway.Proxy (PeerAddress (..), ProxySettings (..))
import Heddle.Prim.Clock (Deadline (..), Nanos (..))
import Heddle.Serve.Internal
import Heddle.Testkit.HttpClient
import SiteFixture hiding (siteDirectory)
import SitesTest (page, serving, site)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, testCase, (@?=))
import Test.Tasty.QuickCheck

tests :: TestTree
tests = testGroup "Guard" [rates, counts, clients, rules, testCase "aClientWasRefusedForWhatAnotherHadWritten" named]

-- Which of the two headers the proxy has written, nobody can tell.
named :: IO ()
named = withDirectory $ \d -> do
  a <- page d "a" "first"
  let limited = (site a []) {siteProxy = (siteProxy (site a [])) {proxyTrusted = either error id (parseAccess "127.0.0.1")}, siteGuard = noGuard {guardRate = Just (RateLimit (Nanos 3600000000000) 2)}}
  serving FirstSite (limited :| []) $ \running _ -> with running $ \client -> do
    let codes n fields = replicateM n (answerCode <$> ask client "GET" "/" fields)
        appended n = ("X-Forwarded-For", "192.0.2." <> n)
        other n = ("Forwarded", "for=192.0.2." <> n)
    codes 5 [appended "1", other "2"] >>= (@?= [200, 200, 429, 429, 429])
    codes 3 [appended "2"] >>= (@?= [200, 200, 429])
    codes 5 [other "3", appended "4"] >>= (@?= [200, 200, 429, 429, 429])
    codes 3 [other "4"] >>= (@?= [200, 200, 429])
    -- Nobody has another rate by naming somebody else.
    codes 1 [appended "5", other "3"] >>= (@?= [429])
    codes 1 [appended "1", other "6"] >>= (@?= [429])
    -- What the first was refused, the second did not pay for.
    codes 3 [appended "1", other "7"] >>= (@?= [429, 429, 429])
    codes 3 [other "7"] >>= (@?= [200, 200, 429])

rates :: TestTree
rates =
  testGroup
    "rates"
    [ testProperty "agreesWithTokens: a bucket of tokens in exact numbers, at any times" $ \(Positive interval) (Positive burst) (steps :: [NonNegative Int]) -> ioProperty $ do
        table <- newRateTable 1
        let times = scanl (+) 1000 [n * 7 | NonNegative n <- steps]
            limit = RateLimit (Nanos interval) burst
        got <- forM times $ \now -> (== Nanos 0) <$> spend table limit (Deadline now) (key 1)
        pure (got === tokens interval burst times),
      testProperty "the time of a refusal is when the next request passes, and not a nanosecond earlier" $ \(Positive interval) (Positive burst) -> ioProperty $ do
        table <- newRateTable 1
        let limit = RateLimit (Nanos interval) burst
        replicateM_ burst (spend table limit (Deadline 5) (key 1))
        Nanos early <- spend table limit (Deadline 5) (key 1)
        before <- spend table limit (Deadline (5 + early - 1)) (key 1)
        then' <- spend table limit (Deadline (5 + early)) (key 1)
        pure ((early, before == Nanos 0, then') === (interval, False, Nanos 0)),
      testCase "clients that came once make room for others, and one over its limit keeps its place" $ do
        table <- newRateTable 1
        let limit = RateLimit (Nanos 1000) 2
        replicateM_ 2 (spend table limit (Deadline 0) (key 0))
        forM_ [1 .. 100] $ \n -> do
          spend table limit (Deadline 0) (key n) >>= (@?= Nanos 0)
          spend table limit (Deadline 0) (key 0) >>= (@?= Nanos 1000),
      testCase "of one client's requests on two threads at one time exactly the burst passes" $ do
        table <- newRateTable 1
        passed <- together 2 (length . filter (== Nanos 0) <$> replicateM 4000 (spend table (RateLimit (Nanos 1000) 5000) (Deadline 0) (key 1)))
        sum passed @?= 5000
    ]

-- The bucket begins full.
tokens :: Int -> Int -> [Int] -> [Bool]
tokens interval burst times = go (fromIntegral burst :: Rational) (head times) times
  where
    go have before = \case
      [] -> []
      now : later ->
        let full = min (fromIntegral burst) (have + fromIntegral (now - before) / fromIntegral interval)
         in if full >= 1 then True : go (full - 1) now later else False : go full now later

counts :: TestTree
counts =
  testGroup
    "connections"
    [ testProperty "agreesWithNumbers: openings and ends of three clients" $ \(limits :: Positive Int) (steps :: [(Bool, Int)]) -> ioProperty $ do
        table <- newCountTable 1
        let limit = getPositive limits
            go _ [] = pure []
            go open ((opens, which) : rest)
              | opens = do
                got <- enter table limit (key n)
                let allowed = open n < limit
                ((got, Just allowed) :) <$> go (if allowed then changed open n 1 else open) rest
              | open n > 0 = leave table (key n) >> go (changed open n (-1)) rest
              | otherwise = go open rest
              where
                n = which `mod` 3
        results <- go (const 0) steps
        pure (map fst results === map snd results),
      testCase "a set that is full of other clients counts no more, and has room when they go" $ do
        table <- newCountTable 1
        forM_ [1 .. 8] $ \n -> enter table 1 (key n) >>= (@?= Just True)
        enter table 1 (key 9) >>= (@?= Nothing)
        leave table (key 3)
        enter table 1 (key 9) >>= (@?= Just True)
        enter table 1 (key 9) >>= (@?= Just False),
      testCase "two threads that open and end connections leave nothing behind" $ do
        table <- newCountTable 1
        _ <- together 2 (replicateM_ 20000 (enter table 10 (key 1) >>= (@?= Just True) >> leave table (key 1)))
        enter table 1 (key 1) >>= (@?= Just True)
    ]
  where
    changed open n by m = if m == n then open m + by else open m :: Int

clients :: TestTree
clients =
  testGroup
    "clients"
    [ testCase "each IPv4 address is one" $ assertBool "expected two keys" (clientKey (v4 1) /= clientKey (v4 2)),
      testCase "an IPv6 network of 64 bits is one" $ do
        clientKey (PeerInternet 5 1 80) @?= clientKey (PeerInternet 5 2 81)
        assertBool "expected two keys" (clientKey (PeerInternet 5 1 80) /= clientKey (PeerInternet 6 1 80)),
      testCase "a Unix socket's peer is none" $ clientKey PeerLocal @?= Nothing
    ]

rules :: TestTree
rules =
  testGroup
    "rules"
    [ testCase "none: everybody" $ mayAccess [] (v4 1) @?= True,
      testCase "the first that matches counts" $ do
        map (mayAccess [Deny (networks "10.0.0.5"), Allow (networks "10.0.0.0/8"), Deny (networks "all")]) [v4 5, v4 6, PeerInternet 1 1 1, PeerLocal] @?= [False, True, False, False]
        map (mayAccess [Allow (networks "10.0.0.0/8"), Deny (networks "10.0.0.5")]) [v4 5, v4 6] @?= [True, True],
      testCase "if none matches, the opposite of the last" $ do
        mayAccess [Allow (networks "192.0.2.0/24")] (v4 1) @?= False
        mayAccess [Deny (networks "192.0.2.0/24")] (v4 1) @?= True,
      testGroup "rates" [testCase text (parseRate text @?= Right expected) | (text, expected) <- [("10/s", RateLimit (Nanos 100000000) 10), ("30/m", RateLimit (Nanos 2000000000) 1), ("1/h:7", RateLimit (Nanos 3600000000000) 7), ("100000/s:100000", RateLimit (Nanos 10000) 100000)]],
      testGroup "rates that are none" [testCase (show text) (assertBool "expected a complaint" (isLeft (parseRate text))) | text <- ["", "10", "/s", "0/s", "10/d", "10/s:", "10/s:0", "10/s:x", "-1/s", "100001/s", "10/sec", "9999999999999999999/s"]],
      testGroup "networks that are none" [testCase (show text) (assertBool "expected a complaint" (isLeft (parseAccess text))) | text <- ["", "ALL", "10.0.0.0/33", "10.0.0", "::/129", "host.example"]]
    ]
  where
    networks = either error id . parseAccess

key :: Int -> ClientKey
key = fromJust . clientKey . v4

-- 10.0.0.n
v4 :: Int -> PeerAddress
v4 n = PeerInternet 0 (0xFFFF0A000000 + fromIntegral n) 80

-- Run on several threads at once.
together :: Int -> IO a -> IO [a]
together n act = do
  results <- replicateM n newEmptyMVar
  go <- newEmptyMVar
  forM_ results $ \result -> forkIO (readMVar go >> act >>= putMVar result)
  putMVar go ()
  mapM takeMVar results
