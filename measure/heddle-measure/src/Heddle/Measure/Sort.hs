-- | Sorting unboxed doubles, without a package for vectors.
module Heddle.Measure.Sort
  ( sorted,
  )
where

import Control.Monad.ST (ST)
import Data.Primitive.PrimArray

-- | The values in ascending order: a bottom-up merge sort, in time n log n whatever the input.
sorted :: PrimArray Double -> PrimArray Double
sorted xs = runPrimArray $ do
  front <- newPrimArray n
  copyPrimArray front 0 xs 0 n
  back <- newPrimArray n
  passes 1 front back
  where
    n = sizeofPrimArray xs

    passes :: Int -> MutablePrimArray s Double -> MutablePrimArray s Double -> ST s (MutablePrimArray s Double)
    passes width from to
      | width >= n = pure from
      | otherwise = merges width from to 0 >> passes (2 * width) to from

    merges :: Int -> MutablePrimArray s Double -> MutablePrimArray s Double -> Int -> ST s ()
    merges width from to start
      | start >= n = pure ()
      | otherwise = do
        let middle = min n (start + width)
            end = min n (start + 2 * width)
        merge from to start middle middle end start
        merges width from to end

    merge :: MutablePrimArray s Double -> MutablePrimArray s Double -> Int -> Int -> Int -> Int -> Int -> ST s ()
    merge from to !i !iEnd !j !jEnd !k
      | i >= iEnd = copyMutablePrimArray to k from j (jEnd - j)
      | j >= jEnd = copyMutablePrimArray to k from i (iEnd - i)
      | otherwise = do
        x <- readPrimArray from i
        y <- readPrimArray from j
        if x <= y
          then writePrimArray to k x >> merge from to (i + 1) iEnd j jEnd (k + 1)
          else writePrimArray to k y >> merge from to i iEnd (j + 1) jEnd (k + 1)
