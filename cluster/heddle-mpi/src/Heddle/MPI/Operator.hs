{-# LANGUAGE AllowAmbiguousTypes #-}
{-# LANGUAGE TypeApplications #-}

-- |
-- Module      : Heddle.MPI.Operator
-- Description : What reductions combine elements with
-- Stability   : stable
--
-- MPI's own operators, on elements that MPI knows, and any Haskell function. A function is
-- applied in trees of messages between the processes, in an order that depends on nothing but
-- their number: every rank gets the same bits.
--
-- Cost: MPI's own operators, nothing; functions, a message for each level of the tree.
-- Owner: pure values.
module Heddle.MPI.Operator
  ( Operator,
    operator,

    -- * MPI's own
    sumOf,
    productOf,
    minimumOf,
    maximumOf,
    bitwiseAnd,
    bitwiseOr,
    bitwiseXor,

    -- * For collectives of your own
    operatorFunction,
  )
where

import Data.Bits (Bits, xor, (.&.), (.|.))
import Foreign.C.Types (CInt)
import Heddle.MPI.Internal.Buffer
import Heddle.MPI.Internal.Operator

-- | Any associative function.
operator :: (a -> a -> a) -> Operator a
operator = Operator Nothing

known :: forall a. Element a => CInt -> (a -> a -> a) -> Operator a
known code = Operator (if elementType @a `elem` [byteType, charType] then Nothing else Just code)
  where
    charType = elementType @Char

-- | The sum. Of floating-point numbers the order of the additions is MPI's.
sumOf :: (Element a, Num a) => Operator a
sumOf = known 0 (+)

-- | The product.
productOf :: (Element a, Num a) => Operator a
productOf = known 1 (*)

-- | The least.
minimumOf :: (Element a, Ord a) => Operator a
minimumOf = known 2 min

-- | The greatest.
maximumOf :: (Element a, Ord a) => Operator a
maximumOf = known 3 max

-- | All bits that are set in all.
bitwiseAnd :: (Element a, Bits a) => Operator a
bitwiseAnd = known 4 (.&.)

-- | All bits that are set in any.
bitwiseOr :: (Element a, Bits a) => Operator a
bitwiseOr = known 5 (.|.)

-- | All bits that are set in an odd number.
bitwiseXor :: (Element a, Bits a) => Operator a
bitwiseXor = known 6 xor
