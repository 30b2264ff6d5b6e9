{-# LANGUAGE MagicHash #-}
{-# OPTIONS_HADDOCK not-home #-}

-- |
-- Module      : Heddle.Bytes.Internal.Limbs
-- Description : The words of an Integer
-- Stability   : internal; exempt from the version policy
--
-- GHC represents a small integer by a word, and the magnitude of any other by an array of words, the
-- lowest first and the highest not 0. Equal numbers have equal representations.
--
-- Cost: O(1); nothing is copied.
-- Owner: the array is the number's, and must not change.
module Heddle.Bytes.Internal.Limbs
  ( Limbs (..),
    limbs,
  )
where

import Data.Primitive.ByteArray (ByteArray (..))
import GHC.Exts (Int (I#))
import GHC.Num (Integer (..))

-- | The parts of a number.
data Limbs
  = -- | It fits an 'Int'.
    Small !Int
  | -- | Above every 'Int': its words.
    Above !ByteArray
  | -- | Below every 'Int': the words of its magnitude.
    Below !ByteArray

-- | Look at the representation of a number.
--
-- [Cost]: O(1).
limbs :: Integer -> Limbs
limbs = \case
  IS n -> Small (I# n)
  IP array -> Above (ByteArray array)
  IN array -> Below (ByteArray array)
{-# INLINE limbs #-}
