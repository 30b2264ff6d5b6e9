-- |
-- Module      : Heddle.Bytes.Internal.Digits
-- Description : Decimals of large integers
-- Stability   : internal; exempt from the version policy
--
-- A large number is divided by the greatest power of ten of a fixed series that does not exceed it, and
-- so are quotient and remainder, until all parts have 18 digits.
--
-- Cost: a number of n digits takes O(log n) levels of divisions.
-- Owner: values.
module Heddle.Bytes.Internal.Digits
  ( Digits (..),
    digitsOf,
    pokeDigits,
  )
where

import Control.Monad (foldM)
import Data.Word (Word8)
import Foreign.Ptr (Ptr)
import Heddle.Bytes.Decimal (maxDecimalLength, pokeDecimalFixed, pokeUnsigned)
import Numeric.Natural (Natural)

-- | A number as its first digits and then parts with a fixed number of digits each.
data Digits = Digits
  { -- | An upper bound of its length in bytes.
    digitsBound :: !Int,
    -- | Below 10^18.
    digitsFirst :: !Natural,
    digitsParts :: [Part]
  }

-- | A number and the powers that will divide it; with k powers it has @18 * 2^k@ digits.
data Part = Part [Natural] !Natural

-- | Split a number into its parts.
--
-- [Cost]: one division for each power that does not exceed the rest.
digitsOf :: Natural -> Digits
digitsOf n = go n maxDecimalLength [] (descending [] 1000000000000000000)
  where
    descending powers power
      | power > n = powers
      | otherwise = descending (power : powers) (power * power)
    go first bound parts = \case
      [] -> Digits bound first parts
      power : smaller
        | power > first -> go first bound parts smaller
        | (q, r) <- first `quotRem` power -> go q (bound + 18 * 2 ^ length smaller) (Part smaller r : parts) smaller

-- | Write it; returns the end.
--
-- [Units]: at most 'digitsBound' bytes are written.
pokeDigits :: Ptr Word8 -> Digits -> IO (Ptr Word8)
pokeDigits target digits = do
  next <- pokeUnsigned target (fromIntegral (digitsFirst digits))
  foldM pokePart next (digitsParts digits)

pokePart :: Ptr Word8 -> Part -> IO (Ptr Word8)
pokePart target = \case
  Part [] n -> pokeDecimalFixed 18 target (fromIntegral n)
  Part (power : smaller) n -> do
    let (q, r) = n `quotRem` power
    next <- pokePart target (Part smaller q)
    pokePart next (Part smaller r)
