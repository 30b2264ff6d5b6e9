-- |
-- Module      : Rendezvous.Maximum
-- Description : Figures 19 and 20: the greatest of many numbers
-- Stability   : example
--
-- The array is cut into spans, the maximum of each is found on its own, and then that of those.
--
-- Cost: a comparison per number, and a branch per span.
module Rendezvous.Maximum
  ( -- * Input
    randomNumbers,

    -- * Ways
    sequential,
    parPseq,
    det,

    -- * Inner loop
    maximumOf,
  )
where

import Control.Parallel (par, pseq)
import Data.Bits (unsafeShiftR)
import Data.Primitive.PrimArray (PrimArray, generatePrimArray, indexPrimArray, sizeofPrimArray)
import Data.Word (Word64)
import Heddle.Rendezvous (runDet)
import Rendezvous.Farm (together)
import Rendezvous.Numbers (numberAt)
import Rendezvous.Spans

-- | So many numbers from a seed, not negative.
randomNumbers :: Word64 -> Int -> PrimArray Int
randomNumbers seed size = generatePrimArray size (\i -> fromIntegral (numberAt seed i `unsafeShiftR` 1))

-- | One walk. The array is not empty.
sequential :: PrimArray Int -> Int
sequential array = maximumOf array (Span 0 (sizeofPrimArray array))

-- | The spans halved until one is left; a spark for the left half each time.
parPseq :: Int -> PrimArray Int -> Int
parPseq count array = go (pieces count (sizeofPrimArray array))
  where
    go [one] = maximumOf array one
    go several = left `par` (right `pseq` max left right)
      where
        (lefts, rights) = splitAt (length several `quot` 2) several
        left = go lefts
        right = go rights

-- | A branch for each span.
det :: Int -> PrimArray Int -> Int
det count array = runDet (maximum <$> together (maximumOf array) (pieces count (sizeofPrimArray array)))

-- | The maximum of a span that is not empty.
maximumOf :: PrimArray Int -> Span -> Int
maximumOf array (Span start size) = go (start + 1) (indexPrimArray array start)
  where
    end = start + size
    go i !greatest
      | i == end = greatest
      | otherwise = go (i + 1) (max greatest (indexPrimArray array i))
