-- |
-- Module      : Heddle.Trace.Histogram
-- Description : Durations counted in buckets whose width grows with the value
-- Stability   : internal
--
-- Sixteen buckets for each power of two: a quantile is off by at most one sixteenth.
--
-- Cost: 8 KiB for each histogram; one addition for each value.
-- Owner: one thread.
module Heddle.Trace.Histogram
  ( Histogram,
    newHistogram,
    record,
    quantile,
    recorded,
  )
where

import Control.Monad.Primitive (RealWorld)
import Data.Bits (countLeadingZeros, finiteBitSize, unsafeShiftL, unsafeShiftR, (.&.))
import Data.Primitive.PrimArray

-- | Counts of durations in nanoseconds.
newtype Histogram = Histogram (MutablePrimArray RealWorld Int)

buckets :: Int
buckets = 1024

-- | An empty one.
newHistogram :: IO Histogram
newHistogram = do
  counts <- newPrimArray buckets
  setPrimArray counts 0 buckets 0
  pure (Histogram counts)

-- | Count a duration; a negative one counts as none.
record :: Histogram -> Int -> IO ()
record (Histogram counts) value = readPrimArray counts i >>= writePrimArray counts i . (+ 1)
  where
    v = max 0 value
    top = finiteBitSize v - 1 - countLeadingZeros v
    i
      | v < 16 = v
      | otherwise = (top - 3) * 16 + ((v `unsafeShiftR` (top - 4)) .&. 15)

-- The greatest value of a bucket.
bound :: Int -> Int
bound i
  | i < 16 = i
  | otherwise = ((17 + i .&. 15) `unsafeShiftL` (i `unsafeShiftR` 4 - 1)) - 1

-- | How many were counted.
recorded :: Histogram -> IO Int
recorded (Histogram counts) = go 0 0
  where
    go :: Int -> Int -> IO Int
    go i n
      | i == buckets = pure n
      | otherwise = readPrimArray counts i >>= go (i + 1) . (n +)

-- | A value that at most this part of the values exceeds; 0 if there are none.
quantile :: Histogram -> Double -> IO Int
quantile h@(Histogram counts) part = do
  total <- recorded h
  let wanted = max 1 (ceiling (part * fromIntegral total)) :: Int
      go :: Int -> Int -> IO Int
      go i n
        | i == buckets = pure 0
        | otherwise = do
          c <- readPrimArray counts i
          if n + c >= wanted then pure (bound i) else go (i + 1) (n + c)
  if total == 0 then pure 0 else go 0 0
