-- |
-- Module      : Heddle.Measure.Histogram
-- Description : Latencies in buckets of equal relative width
-- Stability   : stable
--
-- An HDR histogram: counts of values from 0 to 2^62, each known to within 1/64 of itself, whatever its size.
--
-- Cost: recording is a few instructions and allocates nothing; a histogram is 29 KiB.
-- Owner: one thread records; snapshots are values.
module Heddle.Measure.Histogram
  ( -- * Recording
    Recorder,
    newRecorder,
    recordValue,
    recordCorrected,
    snapshot,

    -- * Histograms
    Histogram,
    fromCounts,
    counts,
    merge,
    correctOmission,

    -- * Questions
    valueCount,
    percentile,
    greatest,
    least,
    average,
  )
where

import Control.Monad (when)
import Control.Monad.ST (RealWorld)
import Data.Bits (countLeadingZeros, shiftL, shiftR)
import Data.Primitive.PrimArray

-- | Counts that one thread adds to.
newtype Recorder = Recorder (MutablePrimArray RealWorld Int)

-- | Counts of values by buckets.
newtype Histogram = Histogram (PrimArray Int)
  deriving stock (Eq)

instance Show Histogram where
  showsPrec d h = showParen (d > 10) (showString "fromCounts " . showsPrec 11 (counts h))

instance Semigroup Histogram where
  (<>) = merge

instance Monoid Histogram where
  mempty = Histogram (replicatePrimArray buckets 0)

-- Below 128 a bucket for each value; then 64 buckets for each doubling.
buckets :: Int
buckets = 128 + 64 * 56

bucketOf :: Int -> Int
bucketOf v
  | v < 128 = max 0 v
  | otherwise = min (buckets - 1) (64 * shift + (v `shiftR` shift))
  where
    shift = 57 - countLeadingZeros v

-- The greatest value of a bucket.
topOf :: Int -> Int
topOf b
  | b < 128 = b
  | otherwise = ((b - 64 * shift + 1) `shiftL` shift) - 1
  where
    shift = b `div` 64 - 1

-- | A recorder without values.
newRecorder :: IO Recorder
newRecorder = do
  array <- newPrimArray buckets
  setPrimArray array 0 buckets 0
  pure (Recorder array)

-- | Count a value; negative ones count as 0.
--
-- [Cost]: O(1), 0 bytes.
-- [Threads]: one at a time.
recordValue :: Recorder -> Int -> IO ()
recordValue (Recorder array) v = readPrimArray array b >>= writePrimArray array b . (+ 1)
  where
    b = bucketOf v

-- | Count a value measured by a client that waits for an answer before it sends the next request, where it should
-- have sent one in each interval: a long wait hides the requests that were not sent. They are counted as having
-- waited from when they were due.
recordCorrected :: Int -> Recorder -> Int -> IO ()
recordCorrected interval recorder v = recordValue recorder v >> missing (v - interval)
  where
    missing w = when (interval > 0 && w >= interval) $ recordValue recorder w >> missing (w - interval)

-- | What has been counted so far.
snapshot :: Recorder -> IO Histogram
snapshot (Recorder array) = do
  copy <- newPrimArray buckets
  copyMutablePrimArray copy 0 array 0 buckets
  Histogram <$> unsafeFreezePrimArray copy

-- | The buckets that are not empty: the greatest value of each, and how many values it has.
counts :: Histogram -> [(Int, Int)]
counts (Histogram array) = [(topOf b, n) | b <- [0 .. buckets - 1], let n = indexPrimArray array b, n /= 0]

-- | The inverse of 'counts'.
--
-- Law (@roundTrip@): @fromCounts (counts h) == h@.
fromCounts :: [(Int, Int)] -> Histogram
fromCounts pairs = Histogram $
  runPrimArray $ do
    array <- newPrimArray buckets
    setPrimArray array 0 buckets 0
    mapM_ (\(v, n) -> let b = bucketOf v in readPrimArray array b >>= writePrimArray array b . (+ n)) pairs
    pure array

-- | The values of both.
merge :: Histogram -> Histogram -> Histogram
merge (Histogram a) (Histogram b) = Histogram (generatePrimArray buckets (\i -> indexPrimArray a i + indexPrimArray b i))

-- | 'recordCorrected' afterwards: adds the requests that a client with so much time between requests did not send
-- while it waited.
correctOmission :: Int -> Histogram -> Histogram
correctOmission interval h = h <> fromCounts [(w, n) | interval > 0, (v, n) <- counts h, w <- takeWhile (>= interval) (iterate (subtract interval) (v - interval))]

-- | How many values were counted.
valueCount :: Histogram -> Int
valueCount (Histogram array) = foldlPrimArray' (+) 0 array

-- | The value that this percentage of the values does not exceed, rounded up to its bucket's end; 0 without values.
percentile :: Double -> Histogram -> Int
percentile p h = go (max 1 (ceiling (p / 100 * fromIntegral (valueCount h) - 1e-9))) (counts h)
  where
    go :: Int -> [(Int, Int)] -> Int
    go _ [] = 0
    go _ [(v, _)] = v
    go wanted ((v, n) : more) = if n >= wanted then v else go (wanted - n) more

-- | The greatest value, rounded up to its bucket's end.
greatest :: Histogram -> Int
greatest = percentile 100

-- | The least value, rounded up to its bucket's end.
least :: Histogram -> Int
least = percentile 0

-- | The mean, of the buckets' ends.
average :: Histogram -> Double
average h
  | valueCount h == 0 = 0
  | otherwise = sum [fromIntegral v * fromIntegral n | (v, n) <- counts h] / fromIntegral (valueCount h)
