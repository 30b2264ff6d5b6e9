{-# OPTIONS_HADDOCK not-home #-}

-- |
-- Module      : Heddle.Bytes.Internal.Powers
-- Description : Powers of ten to 128 bits
-- Stability   : internal; exempt from the version policy
--
-- The table of the shortest writer and of the exact reader of doubles.
--
-- Cost: two loads for a power.
-- Owner: constant memory.
module Heddle.Bytes.Internal.Powers
  ( firstPower,
    lastPower,
    powerOfTen,
    binaryExponent,
    exactPower,
  )
where

import Data.Bits (unsafeShiftR)
import Data.Word (Word64)
import Foreign.Ptr (Ptr)
import Foreign.Storable (peekElemOff)
import Heddle.Bytes.Internal.Word128 (Wide (..))
import Heddle.Prim.Unsafe (unsafeInlined)

-- | The least and the greatest power in the table.
firstPower, lastPower :: Int
firstPower = -342
lastPower = 325

-- | The leading 128 bits of a power of ten, the highest of them set; rounded down, except that
-- those of 10^-27 to 10^-1 are rounded up. 10^0 to 10^55 are exact.
--
-- [Cost]: two loads.
--
-- Law (@entries@): each entry equals the result of arithmetic on 'Integer'.
powerOfTen :: Int -> Wide
powerOfTen q = Wide (entry 0) (entry 1)
  where
    entry half = unsafeInlined (peekElemOff c_powers (2 * (q - firstPower) + half))
{-# INLINE powerOfTen #-}

-- | The exponent of two of a power of ten, rounded down.
--
-- [Cost]: a multiplication.
--
-- Law (@binaryExponent@): 2 to this exponent is at most the power, and 2 to the next one is more.
binaryExponent :: Int -> Int
binaryExponent q = (q * 1741647) `unsafeShiftR` 19
{-# INLINE binaryExponent #-}

-- | One of 10^0 to 10^22, which doubles hold exactly.
--
-- [Cost]: a load.
exactPower :: Int -> Double
exactPower q = unsafeInlined (peekElemOff c_exact q)
{-# INLINE exactPower #-}

-- A constant.
foreign import ccall "&heddle_exact_powers" c_exact :: Ptr Double

-- A constant.
foreign import ccall "&heddle_powers_of_ten" c_powers :: Ptr Word64
