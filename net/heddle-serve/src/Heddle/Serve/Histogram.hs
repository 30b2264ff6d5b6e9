-- |
-- Module      : Heddle.Serve.Histogram
-- Description : Where a latency is counted
-- Stability   : internal, exempt from the version policy
--
-- Log-linear buckets, as in HdrHistogram: each power of two is divided into 16 equal buckets, so a quantile read from them is at
-- most a sixteenth too high. Powers of two are bounds of buckets, so the counts below them are exact.
--
-- Cost: a bucket is found by a shift and a mask.
-- Owner: values.
module Heddle.Serve.Histogram
  ( bucketTotal,
    bucketOf,
    bucketBound,
    quantile,
    countBelow,
  )
where

import Data.Bits (countLeadingZeros, unsafeShiftL, unsafeShiftR, (.&.))

-- | How many buckets there are.
bucketTotal :: Int
bucketTotal = 384

-- | The bucket of a latency; the last one also has those of 134 s and more.
--
-- [Units]: microseconds.
bucketOf :: Int -> Int
bucketOf v
  | v < 16 = max 0 v
  | v >= 134217728 = bucketTotal - 1
  | otherwise = (e - 3) * 16 + ((v `unsafeShiftR` (e - 4)) .&. 15)
  where
    e = 63 - countLeadingZeros v
{-# INLINE bucketOf #-}

-- | The first latency beyond a bucket.
--
-- [Units]: microseconds.
bucketBound :: Int -> Int
bucketBound i
  | i < 16 = i + 1
  | otherwise = (17 + i .&. 15) `unsafeShiftL` (i `quot` 16 - 1)

-- | A quantile of what was counted in the buckets: the longest latency of the bucket that it lies in; 0 if nothing was
-- counted.
--
-- Law (@quantile@): it is not below the exact quantile, and at most a sixteenth above it, up to 134 s.
--
-- [Cost]: O(buckets).
-- [Units]: microseconds.
quantile :: Double -> [Int] -> Int
quantile q counts
  | total == 0 = 0
  | otherwise = go 0 0 counts
  where
    total = sum counts
    wanted = max 1 (ceiling (q * fromIntegral total)) :: Int
    go i before = \case
      n : others
        | before + n >= wanted || null others -> bucketBound i - 1
        | otherwise -> go (i + 1) (before + n) others
      [] -> 0

-- | How many of those counted were shorter than a power of two, at least 1.
--
-- [Cost]: O(buckets).
-- [Units]: microseconds.
countBelow :: Int -> [Int] -> Int
countBelow limit counts = sum [n | (i, n) <- zip [0 ..] counts, bucketBound i <= limit]
