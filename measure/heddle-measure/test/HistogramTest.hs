-- | Histograms against sorted lists, servers' CPU time against what they say of themselves, and load.
module HistogramTest (tests) where

import Control.Concurrent (threadDelay)
import Control.Monad (forM_, when)
import Data.List (sort)
import Heddle.Measure.Histogram
import Heddle.Measure.Server
import Heddle.Prim.Clock (Nanos (..))
import System.Environment (getExecutablePath)
import System.IO (hClose, hFlush, hGetLine, hPutStrLn)
import System.Process
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, assertFailure, testCase, (@?=))
import Test.Tasty.QuickCheck

tests :: TestTree
tests =
  testGroup
    "Histogram and Server"
    [ testProperty "roundTrip: fromCounts . counts" $ \(values :: [Latency]) -> let h = histogram values in fromCounts (counts h) === h,
      testProperty "a percentile is the sorted list's, at most 1/64 above" $ \(NonEmpty (values :: [Latency])) (Percent p) ->
        let exact = sort (map latency values) !! (max 1 (ceiling (p / 100 * fromIntegral (length values) - 1e-9 :: Double)) - 1)
            found = percentile p (histogram values)
         in counterexample (show (exact, found)) (found >= exact && fromIntegral (found - exact) <= (fromIntegral exact / 64 :: Double)),
      testProperty "merge counts both" $ \(a :: [Latency]) b -> histogram a <> histogram b === histogram (a ++ b),
      testProperty "recording is fromCounts" $ \(values :: [Latency]) -> ioProperty $ do
        recorder <- newRecorder
        mapM_ (recordValue recorder . latency) values
        (=== histogram values) <$> snapshot recorder,
      testProperty "corrected while recording and afterwards agree, for values below 128" $ \(values :: [Latency]) -> forAll (choose (1, 50)) $ \interval -> ioProperty $ do
        recorder <- newRecorder
        let small = map ((`mod` 128) . latency) values
        mapM_ (recordCorrected interval recorder) small
        (=== correctOmission interval (fromCounts [(v, 1) | v <- small])) <$> snapshot recorder,
      testCase "a wait of 100 in steps of 10 hides nine requests" $ do
        let h = correctOmission 10 (fromCounts [(100, 1)])
        counts h @?= [(v, 1) | v <- [10, 20 .. 100]],
      testCase "extremes" $ do
        map (`percentile` mempty) [0, 50, 100] @?= [0, 0, 0]
        average mempty @?= 0
        let h = fromCounts [(minBound, 1), (maxBound, 1)]
        (least h, greatest h, valueCount h) @?= (0, maxBound, 2),
      testCase "aStalledServerIsNotHidden" $ do
        -- A request each millisecond, and one that takes 100 of them: 51 were due 50 ms or more before it ended.
        h <- openLoop (Load 1000 200) (\k -> when (k == 50) (threadDelay 100000))
        valueCount h @?= 200
        assertBool (show (counts h)) (percentile 75 h >= 50000000),
      testCase "CPU time of another process" $ do
        this <- getExecutablePath
        withCreateProcess (proc this ["program", "server"]) {std_in = CreatePipe, std_out = CreatePipe} $ \to from _ process -> case (to, from) of
          (Just input, Just answers) ->
            getPid process >>= \case
              Nothing -> assertFailure "no process"
              Just pid -> do
                used <- measureServer (fromIntegral pid) $ do
                  hPutStrLn input "3000000" >> hFlush input
                  own <- read <$> hGetLine answers
                  pure (own :: Int)
                threads <- threadUse (fromIntegral pid)
                hPutStrLn input "end" >> hClose input
                _ <- hGetLine answers
                _ <- waitForProcess process
                gone <- measureServer (fromIntegral pid) (pure 1)
                gone @?= Nothing
                assertBool (show threads) (any ((> 0) . (\(Nanos n) -> n) . threadRan) threads)
                forM_ used $ \use -> do
                  let Nanos cpu = serverCpu use
                  -- Its own clock ran while it was started, too.
                  assertBool (show use) (cpu > 0 && cpu < 2 * operations use + 100000000)
          _ -> assertFailure "no pipes"
    ]

histogram :: [Latency] -> Histogram
histogram values = fromCounts [(latency v, 1) | v <- values]

-- | Of every magnitude.
newtype Latency = Latency {latency :: Int}
  deriving stock (Show)

instance Arbitrary Latency where
  arbitrary = do
    bits <- choose (0, 61 :: Int)
    Latency <$> choose (0, 2 ^ bits)
  shrink (Latency n) = map Latency (filter (>= 0) (shrink n))

newtype Percent = Percent Double
  deriving stock (Show)

instance Arbitrary Percent where
  arbitrary = Percent <$> elements [0, 1, 50, 90, 99, 99.9, 100]
