{-# LANGUAGE MagicHash #-}
{-# LANGUAGE UnboxedTuples #-}
{-# OPTIONS_HADDOCK not-home #-}

-- |
-- Module      : Heddle.Bytes.Internal.Word128
-- Description : The 128-bit product of two 64-bit words
-- Stability   : internal, exempt from the version policy
--
-- Cost: one multiplication; no allocation where the pair is matched at once.
-- Owner: values.
module Heddle.Bytes.Internal.Word128
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
