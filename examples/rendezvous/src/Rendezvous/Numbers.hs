-- |
-- Module      : Rendezvous.Numbers
-- Description : Numbers to work on, and work to do
-- Stability   : example
--
-- Reproducible numbers, the same in every way of computing, and a loop that keeps a core busy for as long
-- as one asks. Nothing here allocates per step.
module Rendezvous.Numbers
  ( -- * Numbers from a seed
    numberAt,
    numbers,
    below,

    -- * Work
    busy,
  )
where

import Data.Bits (unsafeShiftR, xor)
import Data.Word (Word64)

-- | The number at this place of the sequence of this seed (SplitMix64).
numberAt :: Word64 -> Int -> Word64
numberAt seed i = mix (seed + fromIntegral (i + 1) * 0x9E3779B97F4A7C15)
{-# INLINE numberAt #-}

-- | The whole sequence.
numbers :: Word64 -> [Word64]
numbers seed = map (numberAt seed) [0 ..]

-- | Brought below a bound, which is small beside 2^64.
below :: Int -> Word64 -> Int
below bound n = fromIntegral (n `rem` fromIntegral bound)

-- | Stir a number so many times, a few nanoseconds each. Different numbers stay different.
busy :: Int -> Word64 -> Word64
busy steps n
  | steps <= 0 = n
  | otherwise = busy (steps - 1) (mix (n + 0x9E3779B97F4A7C15))

mix :: Word64 -> Word64
mix n0 = n2 `xor` (n2 `unsafeShiftR` 31)
  where
    n1 = (n0 `xor` (n0 `unsafeShiftR` 30)) * 0xBF58476D1CE4E5B9
    n2 = (n1 `xor` (n1 `unsafeShiftR` 27)) * 0x94D049BB133111EB
{-# INLINE mix #-}
