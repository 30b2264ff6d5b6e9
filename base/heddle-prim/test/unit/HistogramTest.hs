-- | Histograms beside sorted lists, at several precisions.
module HistogramTest (tests) where

import Data.List (sort)
import Heddle.Prim.Histogram
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (testCase, (@?=))
import Test.Tasty.QuickCheck

tests :: TestTree
tests =
  testGroup
    "Histogram"
    [ testProperty "bucketTop: a value is not above the top of its bucket, and above that of the bucket before" $ \(Fine p) (Latency v) ->
        let i = bucketOf p v in v <= bucketTop p i .&&. (i == 0 || v > bucketTop p (i - 1)),
      testProperty "a power of two is the least value of its bucket" $ \(Fine p) -> forAll (choose (0, 62 :: Int)) $ \k ->
        let i = bucketOf p (2 ^ k) in i === bucketTotal p k .||. 2 ^ k === bucketTop p (i - 1) + 1,
      testProperty "roundTrip: fromCounts . counts" $ \(Fine p) values -> let h = histogram p values in fromCounts p (counts h) === h,
      testProperty "quantile: the sorted list's, at most a part of a power of two above" $ \(Fine p) (NonEmpty values) -> forAll part $ \q ->
        let exact = sort (map latency values) !! (max 1 (ceiling (q * fromIntegral (length values) - 1e-9 :: Double)) - 1)
            found = quantile q (histogram p values)
         in counterexample (show (exact, found)) (found >= exact && fromIntegral (found - exact) <= (fromIntegral exact / 2 ^ bits p :: Double)),
      testProperty "countBelow: exact for powers of two" $ \(Fine p) values -> forAll (choose (0, 62 :: Int)) $ \k ->
        countBelow (2 ^ k) (histogram p values) === length (filter (< 2 ^ k) (map latency values)),
      testProperty "both together have the values of both" $ \(Fine p) a b -> histogram p a <> histogram p b === histogram p (a ++ b),
      testProperty "histograms of two precisions have the values of both" $ \(Fine p) (Fine r) a b -> forAll (choose (0, 62 :: Int)) $ \k ->
        countBelow (2 ^ k) (histogram p a <> histogram r b) === length (filter (< 2 ^ k) (map latency (a ++ b))),
      testProperty "recording is fromCounts" $ \(Fine p) values -> ioProperty $ do
        recorder <- newRecorder p
        mapM_ (recordValue recorder . latency) values
        (=== histogram p values) <$> snapshot recorder,
      testProperty "corrected while recording and afterwards agree, for values that are exact" $ \(values :: [Latency]) -> forAll (choose (1, 50)) $ \interval -> ioProperty $ do
        recorder <- newRecorder (Precision 6)
        let small = map ((`mod` 128) . latency) values
        mapM_ (recordCorrected interval recorder) small
        (=== correctOmission (Precision 6) interval (fromCounts (Precision 6) [(v, 1) | v <- small])) <$> snapshot recorder,
      testCase "a wait of 100 in steps of 10 hides nine requests" $
        counts (correctOmission (Precision 6) 10 (fromCounts (Precision 6) [(100, 1)])) @?= [(v, 1) | v <- [10, 20 .. 100]],
      testProperty "tops grow" $ \(Fine p) -> let tops = map (bucketTop p) [0 .. bucketTotal p 63 - 1] in and (zipWith (<) tops (drop 1 tops)) .&&. last tops === maxBound,
      testCase "extremes" $ do
        map (`quantile` mempty) [0, 0.5, 1] @?= [0, 0, 0]
        (average mempty, valueCount mempty) @?= (0, 0)
        let h = fromCounts (Precision 4) [(minBound, 1), (maxBound, 1)]
        (least h, greatest h, valueCount h, average h) @?= (0, maxBound, 2, fromIntegral (maxBound :: Int) / 2)
        map (bucketOf (Precision 4)) [minBound, -1, 0, 134217727, 134217728, maxBound] @?= [0, 0, 0, 383, 384, 959]
        counts (fromBuckets (Precision 4) (replicate 383 0 ++ [7, 0])) @?= [(134217727, 7)]
    ]
  where
    part = oneof [elements [0, 0.01, 0.5, 0.9, 0.99, 0.999, 1], choose (0, 1)]
    bits (Precision b) = b

histogram :: Precision -> [Latency] -> Histogram
histogram p values = fromCounts p [(latency v, 1) | v <- values]

-- | Of every magnitude.
newtype Latency = Latency {latency :: Int}
  deriving stock (Show)

instance Arbitrary Latency where
  arbitrary = choose (0, 61 :: Int) >>= \bits -> Latency <$> choose (0, 2 ^ bits)
  shrink (Latency n) = map Latency (filter (>= 0) (shrink n))

newtype Fine = Fine Precision
  deriving stock (Show)

instance Arbitrary Fine where
  arbitrary = Fine . Precision <$> elements [1, 2, 4, 5, 6, 8]
