-- |
-- Module      : Heddle.Prim.Histogram
-- Description : Counts of durations in buckets of equal relative width
-- Stability   : stable
--
-- Log-linear buckets, as in HdrHistogram: each power of two is divided into equally many, so a value is known to within the
-- same part of itself, whatever its size. A recorder is an array of counts; a histogram is what was in one, or in several
-- together. Where counts are part of a larger array, 'bucketOf' says which of them to add to, and 'fromBuckets' reads them.
--
-- Cost: recording is a shift, a read and a write, and allocates nothing; a recorder of @Precision 6@ is 29 KiB, one of
-- @Precision 4@ 8 KiB. Histograms are lists of the buckets that are not empty.
-- Owner: one thread records, or all threads of one capability; any thread takes snapshots.
-- Shared writes for each value: 0.
module Heddle.Prim.Histogram
  ( -- * Buckets
    Precision (..),
    bucketTotal,
    bucketOf,
    bucketTop,

    -- * Recording
    Recorder,
    newRecorder,
    recordValue,
    recordCorrected,
    snapshot,

    -- * Histograms
    Histogram,
    fromCounts,
    fromBuckets,
    counts,
    correctOmission,

    -- * Questions
    valueCount,
    countBelow,
    quantile,
    greatest,
    least,
    average,
  )
where

import Control.Monad (when)
import Data.Bits (countLeadingZeros, unsafeShiftL, unsafeShiftR, (.&.))
import Data.List (sortOn)
import Heddle.Prim.Atomic (Words, atomicRead, newWords, readWord, writeWord)

-- | How finely values are told apart: @Precision b@ divides each power of two into 2^b buckets, so a value read back is at
-- most one 2^b-th too high. Values below 2^(b + 1) are exact. From 1 to 16.
newtype Precision = Precision Int
  deriving stock (Eq, Show)

-- | How many buckets there are for values below a power of two, which is given by its exponent, at most 63.
bucketTotal :: Precision -> Int -> Int
bucketTotal (Precision b) exponent' = (exponent' - b + 1) `unsafeShiftL` b
{-# INLINE bucketTotal #-}

-- | The bucket of a value, from 0; that of 0 for negative ones.
--
-- [Cost]: a few instructions; 0 bytes.
bucketOf :: Precision -> Int -> Int
bucketOf (Precision b) v
  | v < 1 `unsafeShiftL` b = max 0 v
  | otherwise = shift `unsafeShiftL` b + v `unsafeShiftR` shift
  where
    shift = 63 - countLeadingZeros v - b
{-# INLINE bucketOf #-}

-- | The greatest value of a bucket. Powers of two are the least values of theirs.
--
-- Law (@bucketTop@): @v <= bucketTop p (bucketOf p v)@, and the top of the bucket before is below @v@.
bucketTop :: Precision -> Int -> Int
bucketTop (Precision b) i
  | i < 1 `unsafeShiftL` b = i
  | otherwise = (((i .&. (each - 1)) + each + 1) `unsafeShiftL` (i `unsafeShiftR` b - 1)) - 1
  where
    each = 1 `unsafeShiftL` b

-- | Counts that are added to.
data Recorder = Recorder !Precision !Words

-- | A recorder without values.
newRecorder :: Precision -> IO Recorder
newRecorder precision = Recorder precision <$> newWords (bucketTotal precision 63)

-- | Count a value; negative ones count as 0.
--
-- [Cost]: O(1), 0 bytes.
-- [Threads]: one at a time; threads of one capability do not come between the read and the write in optimised code, because
-- nothing is allocated there.
recordValue :: Recorder -> Int -> IO ()
recordValue (Recorder precision ws) v = readWord ws i >>= \n -> writeWord ws i (n + 1)
  where
    i = bucketOf precision v
{-# INLINE recordValue #-}

-- | Count a value measured by a client that waits for an answer before it sends the next request, where it should
-- have sent one in each interval: a long wait hides the requests that were not sent. They are counted as having
-- waited from when they were due.
recordCorrected :: Int -> Recorder -> Int -> IO ()
recordCorrected interval recorder v = recordValue recorder v >> missing (v - interval)
  where
    missing w = when (interval > 0 && w >= interval) $ recordValue recorder w >> missing (w - interval)

-- | What has been counted so far.
--
-- [Cost]: O(buckets).
-- [Threads]: any.
snapshot :: Recorder -> IO Histogram
snapshot (Recorder precision ws) = fromBuckets precision <$> mapM (atomicRead ws) [0 .. bucketTotal precision 63 - 1]

-- | How many values there were of each size. Histograms of different precisions can be put together.
newtype Histogram = Histogram [(Int, Int)]
  deriving stock (Eq)

instance Show Histogram where
  showsPrec d h = showParen (d > 10) (showString "histogram of " . showsPrec 11 (counts h))

-- | The values of both.
instance Semigroup Histogram where
  Histogram xs <> Histogram ys = Histogram (go xs ys)
    where
      go [] b = b
      go a [] = a
      go a@((v, m) : as) b@((w, n) : bs) = case compare v w of
        LT -> (v, m) : go as b
        GT -> (w, n) : go a bs
        EQ -> let !both = m + n in (v, both) : go as bs

instance Monoid Histogram where
  mempty = Histogram []

-- | Values, and how often each was counted.
--
-- Law (@roundTrip@): @fromCounts p (counts h) == h@ for a histogram of that precision.
fromCounts :: Precision -> [(Int, Int)] -> Histogram
fromCounts precision pairs = Histogram (foldr add [] (sortOn fst [(bucketTop precision (bucketOf precision v), n) | (v, n) <- pairs, n /= 0]))
  where
    add (v, m) ((w, n) : more) | v == w = let !both = m + n in (v, both) : more
    add one more = one : more

-- | The counts of all buckets from the first; any number of them.
fromBuckets :: Precision -> [Int] -> Histogram
fromBuckets precision = Histogram . foldr keep [] . zip [0 ..]
  where
    keep (_, 0) more = more
    keep (i, n) more = let !v = bucketTop precision i in (v, n) : more

-- | The buckets that are not empty, from the least: the greatest value of each, and how many values it has.
counts :: Histogram -> [(Int, Int)]
counts (Histogram pairs) = pairs

-- | 'recordCorrected' afterwards: adds the requests that a client with so much time between requests did not send
-- while it waited.
correctOmission :: Precision -> Int -> Histogram -> Histogram
correctOmission precision interval h =
  h <> fromCounts precision [(w, n) | interval > 0, (v, n) <- counts h, w <- takeWhile (>= interval) (iterate (subtract interval) (v - interval))]

-- | How many values were counted.
valueCount :: Histogram -> Int
valueCount = sum . map snd . counts

-- | How many values were below a bound; exact where the bound is a power of two.
countBelow :: Int -> Histogram -> Int
countBelow bound h = sum [n | (v, n) <- counts h, v < bound]

-- | The value that this part of the values, from 0 to 1, does not exceed, rounded up to its bucket's end; 0 without values.
--
-- Law (@quantile@): it is not below the exact quantile, and at most one 2^b-th above it.
quantile :: Double -> Histogram -> Int
quantile q h = go wanted (counts h)
  where
    -- 0.999 of 1,000 is 999, though its nearest floating-point number is a little more.
    wanted = max 1 (ceiling (q * fromIntegral (valueCount h) - 1e-9))
    go :: Int -> [(Int, Int)] -> Int
    go _ [] = 0
    go _ [(v, _)] = v
    go left ((v, n) : more) = if n >= left then v else go (left - n) more

-- | The greatest value, rounded up to its bucket's end.
greatest :: Histogram -> Int
greatest = quantile 1

-- | The least value, rounded up to its bucket's end.
least :: Histogram -> Int
least = quantile 0

-- | The mean, of the buckets' ends; 0 without values.
average :: Histogram -> Double
average h
  | null (counts h) = 0
  | otherwise = sum [fromIntegral v * fromIntegral n | (v, n) <- counts h] / fromIntegral (valueCount h)
