-- | The number of runs in a sample.
module CalibrationTest (tests) where

import Control.Concurrent (threadDelay)
import Control.Monad (forM, forM_, when)
import Data.IORef
import Heddle.Measure (Benchmark, bench, versus, whnf, whnfIO)
import Heddle.Measure.Counters (CpuClock (..), withCounters)
import Heddle.Measure.Run
import Heddle.Prim.Exception (evaluate, throwIO)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, assertFailure, testCase, (@?=))

tests :: TestTree
tests =
  testGroup
    "calibration"
    [ testCase "a pause while one alternative was calibrated gave it another number of runs" pauseWhileCalibratingDecidedTheNumberOfRuns,
      testCase "alternatives of other orders have numbers of their own" ordersHaveNumbersOfTheirOwn
    ]

-- A pause of the benchmark stands for that of a thread which other programs keep from its core. A run is long beside what it
-- allocates: after the pause, memory can be slow for milliseconds.
pauseWhileCalibratingDecidedTheNumberOfRuns :: IO ()
pauseWhileCalibratingDecidedTheNumberOfRuns =
  forM_ [(at, place) | at <- [1, 2, 3, 10, 40, 100], place <- [0, 1, 2]] $ \(at, place) -> do
    works <- forM [0 .. 2 :: Int] $ \i -> do
      count <- newIORef (0 :: Int)
      pure $ do
        k <- atomicModifyIORef' count (\k -> (k + 1, k + 1))
        when (i == place && k == at) (threadDelay 30000)
        evaluate (sumTo 20000)
    numbers <- runsOf [versus "same" [bench (show i) (whnfIO work) | (i, work) <- zip [0 :: Int ..] works]]
    assertBool (show (at, place, numbers)) (all (== head numbers) numbers)

ordersHaveNumbersOfTheirOwn :: IO ()
ordersHaveNumbersOfTheirOwn = do
  numbers <- runsOf [versus "orders" [bench "much" (whnf sumTo 100000), bench "little" (whnf sumTo 10), bench "little again" (whnf sumTo 10)]]
  case numbers of
    [much, little, again] -> do
      assertBool (show numbers) (much < little)
      again @?= little
    _ -> assertFailure (show numbers)

sumTo :: Int -> Int
sumTo n = sum [1 .. n]

runsOf :: [Benchmark] -> IO [Int]
runsOf benchmarks = withCounters ProcessCpu $ \counters -> do
  found <- newIORef []
  sessions (const True) (const throwIO) (\session -> runSession settings counters 0 (const (pure ())) session >>= writeIORef found) benchmarks
  readIORef found >>= mapM (\case (_, Finished m) -> pure (iterationsEach (summary m)); (_, Failed why) -> assertFailure why)
  where
    settings = defaultSettings {timeLimit = 0.000001, sampleLength = 4, fewestSamples = 2, mostSamples = 2}
