{-# LANGUAGE MagicHash #-}
{-# LANGUAGE UnboxedTuples #-}

-- |
-- Module      : Heddle.Prim.Word128
-- Description : Products of two words, whole
-- Stability   : stable
--
-- The processor multiplies two words into two; so do these functions.
--
-- Cost: one multiplication; the pair vanishes where it is taken apart at once.
-- Owner: values.
module Heddle.Prim.Word128
  ( Wide (..),
    timesWide,
    timesHigh,
  )
where

import Data.Word (Word64)
import GHC.Exts (Word (W#), timesWord2#)

-- | A number below 2^128: its high and its low 64 bits.
data Wide = Wide !Word64 !Word64
  deriving stock (Eq, Ord, Show)

-- | The product.
--
-- [Cost]: one instruction.
--
-- >>> timesWide maxBound 2
-- Wide 1 18446744073709551614
timesWide :: Word64 -> Word64 -> Wide
timesWide a b = case fromIntegral a of
  W# x -> case fromIntegral b of
    W# y -> case timesWord2# x y of
      (# high, low #) -> Wide (fromIntegral (W# high)) (fromIntegral (W# low))
{-# INLINE timesWide #-}

-- | The high half of the product.
--
-- [Cost]: one instruction.
--
-- >>> timesHigh maxBound 2
-- 1
timesHigh :: Word64 -> Word64 -> Word64
timesHigh a b = case timesWide a b of Wide high _ -> high
{-# INLINE timesHigh #-}
