-- |
-- Module      : Heddle.Bytes.Internal.Nearest
-- Description : The double nearest to a decimal
-- Stability   : internal; exempt from the version policy
--
-- Clinger's fast path, otherwise Eisel and Lemire's algorithm, which by Mushtak and Lemire needs no fallback
-- for digits that fit a word. More digits are bracketed between two words; only if these round
-- differently, integers of any size are compared.
--
-- Cost: one or two multiplications; for more than 19 digits rarely O(digits), at most 800.
-- Owner: values.
-- [Source]: D. Lemire, "Number parsing at a gigabyte per second"; N. Mushtak and D. Lemire,
-- "Fast number parsing without fallback".
module Heddle.Bytes.Internal.Nearest
  ( nearest64,
    nearestBetween,
    Exactly (..),
  )
where

import Data.Bits (complement, countLeadingZeros, unsafeShiftL, unsafeShiftR, (.&.), (.|.))
import Data.Word (Word64)
import GHC.Float (castDoubleToWord64, castWord64ToDouble)
import Heddle.Bytes.Internal.Powers (exactPower, powerOfTen)
import Heddle.Bytes.Internal.Word128 (Wide (..), timesHigh, timesWide)

-- | The double nearest to @w * 10^q@, the even one of two equally near; infinity if it is too large.
--
-- [Cost]: one or two multiplications.
nearest64 :: Word64 -> Int -> Double
nearest64 w q
  | w <= 0x20000000000000 && q >= -22 && q <= 22 =
    if q < 0 then fromIntegral w / exactPower (negate q) else fromIntegral w * exactPower q
  | w == 0 || q < -342 = 0
  | q > 308 = infinity
  | otherwise = castWord64ToDouble (eiselLemire w q)
{-# INLINE nearest64 #-}

infinity :: Double
infinity = castWord64ToDouble 0x7ff0000000000000

eiselLemire :: Word64 -> Int -> Word64
eiselLemire w0 q
  | power <= 0 = if power < -62 then 0 else subnormal
  | power' >= 0x7ff = 0x7ff0000000000000
  | otherwise = (rounded' .&. 0xfffffffffffff) .|. (fromIntegral power' `unsafeShiftL` 52)
  where
    zeros = countLeadingZeros w0
    w = w0 `unsafeShiftL` zeros
    Wide powerHigh powerLow = powerOfTen q
    Wide high0 low0 = timesWide w powerHigh
    -- The second half matters only if all bits below the double's are ones.
    Wide high low
      | high0 .&. 0x1ff /= 0x1ff = Wide high0 low0
      | otherwise =
        let more = timesHigh w powerLow
            low1 = low0 + more
         in Wide (if more > low1 then high0 + 1 else high0) low1
    upper = fromIntegral (high `unsafeShiftR` 63) :: Int
    shift = upper + 9
    -- One bit more than the double has.
    mantissa = high `unsafeShiftR` shift
    power = ((217706 * q) `unsafeShiftR` 16) + 63 + upper - zeros + 1023
    subnormal = half (mantissa `unsafeShiftR` (1 - power))
    -- Halfway between two doubles, exactly: only small powers come so near.
    exactlyHalf = low <= 1 && q >= -4 && q <= 23 && mantissa .&. 3 == 1 && mantissa `unsafeShiftL` shift == high
    rounded = half (if exactlyHalf then mantissa .&. complement 1 else mantissa)
    overflows = rounded >= 0x20000000000000
    rounded' = if overflows then 0x10000000000000 else rounded
    power' = if overflows then power + 1 else power
    half m = (m + (m .&. 1)) `unsafeShiftR` 1
{-# NOINLINE eiselLemire #-}

-- | The double nearest to a number that is at least @w * 10^q@ and below @(w + 1) * 10^q@, where w has 19
-- digits. The action returns the exact number; it runs only if both bounds round differently.
--
-- [Cost]: four multiplications, and rarely integers of the size of what the action gives.
nearestBetween :: Word64 -> Int -> IO Exactly -> IO Double
nearestBetween w q exactly
  | low == high = pure low
  | otherwise = do
    Exactly digits tens <- exactly
    pure (if closerToUpper digits tens (castDoubleToWord64 low) then high else low)
  where
    low = nearest64 w q
    high = nearest64 (w + 1) q

-- | An integer, and the exponent of ten that goes with it.
data Exactly = Exactly !Integer !Int

-- | Does a number between the double with these bits and the next double round to the next?
closerToUpper :: Integer -> Int -> Word64 -> Bool
closerToUpper digits tens bits = case compare decimal middle of
  LT -> False
  GT -> True
  EQ -> odd bits
  where
    fraction = toInteger (bits .&. 0xfffffffffffff)
    biased = fromIntegral (bits `unsafeShiftR` 52) :: Int
    (whole, exponent_)
      | biased == 0 = (fraction, -1074)
      | otherwise = (fraction + 0x10000000000000, biased - 1075)
    -- Both sides of the comparison, multiplied by the powers that make them integers.
    decimal = digits * 10 ^ max 0 tens * 2 ^ max 0 (1 - exponent_)
    middle = (2 * whole + 1) * 2 ^ max 0 (exponent_ - 1) * 10 ^ max 0 (negate tens)
