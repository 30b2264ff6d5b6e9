-- |
-- Module      : Rendezvous.Filter
-- Description : Figures 25 and 27: a systolic filter
-- Stability   : example
--
-- A filter with a finite response: each output is the sum of the last inputs, each multiplied by a
-- coefficient of its own. What comes before the first input is silence.
--
-- Every way adds in the same order, so their outputs are the same to the last bit.
--
-- Cost: a multiplication and an addition for each sample and coefficient.
module Rendezvous.Filter
  ( -- * Input
    Filter,
    filterOf,
    lowPass,
    signal,

    -- * Ways
    sequential,
    det,

    -- * Answer
    level,
  )
where

import Data.Primitive.PrimArray
import Heddle.Rendezvous (runDet)
import Rendezvous.Farm (farm)
import Rendezvous.Numbers (numberAt)
import Rendezvous.Spans

-- | Samples and coefficients, prepared.
data Filter = Filter
  { -- | The last first: then an output is a dot product.
    filterTaps :: !(PrimArray Double),
    -- | As many zeros as there are coefficients, less one, and then the samples.
    filterPadded :: !(PrimArray Double)
  }

-- | Filter samples by coefficients, of which there is at least one.
filterOf :: PrimArray Double -> PrimArray Double -> Filter
filterOf taps samples = Filter reversed padded
  where
    n = sizeofPrimArray taps
    reversed = generatePrimArray n (\i -> indexPrimArray taps (n - 1 - i))
    padded = generatePrimArray (n - 1 + sizeofPrimArray samples) $ \i ->
      if i < n - 1 then 0 else indexPrimArray samples (i - n + 1)

samplesIn :: Filter -> Int
samplesIn (Filter taps padded) = sizeofPrimArray padded - sizeofPrimArray taps + 1

-- | So many coefficients that let a tenth of the frequencies pass: a sinc under Hamming's window.
lowPass :: Int -> PrimArray Double
lowPass n = mapPrimArray (/ total) raw
  where
    raw = generatePrimArray n (\i -> sinc (fromIntegral i - middle) * window i)
    total = foldlPrimArray' (+) 0 raw
    middle = fromIntegral (n - 1) / 2 :: Double
    sinc x = if abs x < 1e-9 then 0.1 else sin (0.1 * pi * x) / (pi * x)
    window i = if n == 1 then 1 else 0.54 - 0.46 * cos (pi * fromIntegral i / middle)

-- | So many samples of a low tone under noise.
signal :: Int -> PrimArray Double
signal size = generatePrimArray size $ \i ->
  0.5 * sin (fromIntegral i * 0.02) + 0.5 * (fromIntegral (numberAt 7 i) / 1.8446744073709552e19 - 0.5)

-- | All samples at once.
sequential :: Filter -> PrimArray Double
sequential input = filtered input (Span 0 (samplesIn input))

-- | Workers filter spans of so many samples.
det :: Int -> Int -> Filter -> PrimArray Double
det workers size input =
  mconcat (reverse (runDet (farm workers (filtered input) (flip (:)) [] (spansOf size (samplesIn input)))))

-- The outputs of a span.
filtered :: Filter -> Span -> PrimArray Double
filtered Filter {filterTaps = taps, filterPadded = padded} (Span start size) =
  generatePrimArray size (\i -> dot (sizeofPrimArray taps) taps padded (start + i))

-- Four sums, so that an addition need not wait for the one before.
dot :: Int -> PrimArray Double -> PrimArray Double -> Int -> Double
dot size taps padded offset = go 0 0 0 0 0
  where
    go :: Int -> Double -> Double -> Double -> Double -> Double
    go k !s !t !u !v
      | k + 4 <= size = go (k + 4) (s + at k) (t + at (k + 1)) (u + at (k + 2)) (v + at (k + 3))
      | k < size = go (k + 1) (s + at k) t u v
      | otherwise = s + t + u + v
    at k = indexPrimArray taps k * indexPrimArray padded (offset + k)

-- | The root of the mean square.
level :: PrimArray Double -> Double
level samples = sqrt (foldlPrimArray' (\total x -> total + x * x) 0 samples / fromIntegral (max 1 (sizeofPrimArray samples)))
