-- |
-- Module      : Heddle.Bytes.Internal.Shortest
-- Description : The shortest decimal of a floating point number
-- Stability   : internal; exempt from the version policy
--
-- Raffaello Giulietti's Schubfach: of the decimals that read back as the number, one with the
-- fewest digits, and of those the closest.
--
-- Cost: six multiplications.
-- Owner: values.
-- [Source]: R. Giulietti, "The Schubfach way to render doubles"; A. Bolz's rendition of it.
module Heddle.Bytes.Internal.Shortest
  ( Decimal (..),
    shortest64,
    shortest32,
  )
where

import Data.Bits (unsafeShiftL, unsafeShiftR, (.&.), (.|.))
import Data.Word (Word32, Word64)
import Heddle.Bytes.Internal.Powers (binaryExponent, powerOfTen)
import Heddle.Bytes.Internal.Word128 (Wide (..), timesHigh, timesWide)

-- | Digits as a number, and their exponent of ten.
data Decimal = Decimal !Word64 !Int

-- | The shortest decimal of a finite double above 0, given its bits. The digits may end in zeros.
--
-- [Cost]: six multiplications and a division by a constant.
shortest64 :: Word64 -> Decimal
shortest64 bits
  | exponent_ == 0 = shortest fraction (-1074) False
  | shift >= 0 && shift < 53 && whole `unsafeShiftL` shift == c = Decimal whole 0
  | otherwise = shortest c (negate shift) (fraction == 0 && exponent_ > 1)
  where
    fraction = bits .&. 0xfffffffffffff
    exponent_ = fromIntegral (bits `unsafeShiftR` 52) .&. 0x7ff :: Int
    c = fraction .|. 0x10000000000000
    shift = 1075 - exponent_
    whole = c `unsafeShiftR` shift

-- | The shortest decimal of a finite float above 0, given its bits.
--
-- [Cost]: six multiplications and a division by a constant.
shortest32 :: Word32 -> Decimal
shortest32 bits
  | exponent_ == 0 = shortest fraction (-149) False
  | shift >= 0 && shift < 24 && whole `unsafeShiftL` shift == c = Decimal whole 0
  | otherwise = shortest c (negate shift) (fraction == 0 && exponent_ > 1)
  where
    fraction = fromIntegral (bits .&. 0x7fffff) :: Word64
    exponent_ = fromIntegral (bits `unsafeShiftR` 23) .&. 0xff :: Int
    c = fraction .|. 0x800000
    shift = 150 - exponent_
    whole = c `unsafeShiftR` shift

-- | The shortest decimal for a significand and an exponent of two. The flag says whether the next smaller
-- floating point number is closer than the next larger one.
shortest :: Word64 -> Int -> Bool -> Decimal
shortest c exponent_ lowerIsCloser
  | s >= 10 && (tenDown /= tenUp) = Decimal (if tenUp then tenth + 1 else tenth) (k + 1)
  | down /= up = Decimal (if up then s + 1 else s) k
  | otherwise = Decimal (if above then s + 1 else s) k
  where
    closer = if lowerIsCloser then 1 else 0 :: Word64
    odd_ = c .&. 1
    -- The exponent of ten of the interval's width, rounded down.
    k = (exponent_ * 1262611 - (if lowerIsCloser then 524031 else 0)) `unsafeShiftR` 22
    h = exponent_ + binaryExponent (negate k) + 1
    power = upperPower (negate k)
    -- In units of 10^k / 4: the number, and the bounds between which decimals read back as it.
    value = roundedToOdd power ((4 * c) `unsafeShiftL` h)
    lower = roundedToOdd power ((4 * c - 2 + closer) `unsafeShiftL` h) + odd_
    upper = roundedToOdd power ((4 * c + 2) `unsafeShiftL` h) - odd_
    s = value `unsafeShiftR` 2
    tenth = timesHigh s 0xcccccccccccccccd `unsafeShiftR` 3
    tenDown = lower <= 40 * tenth
    tenUp = 40 * tenth + 40 <= upper
    down = lower <= 4 * s
    up = 4 * s + 4 <= upper
    middle = 4 * s + 2
    above = value > middle || (value == middle && s .&. 1 /= 0)

-- | A power of ten, rounded up.
upperPower :: Int -> Wide
upperPower q
  | q >= -27 && q <= 55 = power
  | otherwise = Wide high (low + 1)
  where
    power@(Wide high low) = powerOfTen q
{-# INLINE upperPower #-}

-- | The product's high part, its lowest bit set if anything was lost.
roundedToOdd :: Wide -> Word64 -> Word64
roundedToOdd (Wide high low) factor = whole .|. (if rest > 1 then 1 else 0)
  where
    carried = timesHigh low factor
    Wide above below = timesWide high factor
    rest = below + carried
    whole = if rest < below then above + 1 else above
{-# INLINE roundedToOdd #-}
