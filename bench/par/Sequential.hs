-- | The workloads without parallelism. The grain only says how large the blocks are.
module Main
  ( main,
  )
where

import Heddle.Measure.Contender (contender, contenderMain, contenderWith, twoNumbers)
import Kernels

main :: IO ()
main =
  contenderMain
    (twoNumbers "SIZE" "GRAIN")
    [ contender "fork" (\(size, _) -> pure (forks size)),
      contender "fib" (\(size, _) -> pure (fib size)),
      contender "queens" (\(size, _) -> pure (solutions size emptyBoard)),
      contenderWith "matrix" (\(size, _) -> pure (matrix 1 size, matrix 2 size)) $ \(a, b) (size, grain) ->
        pure (checksum (map (multiplyRows size a b) (chunks size grain))),
      contender "map" (\(size, grain) -> pure (sum (map (trapezoids size) (chunks size grain))))
    ]

forks :: Int -> Int
forks size = go 0 0
  where
    go !i !total
      | i == size = total
      | otherwise = go (i + 1) (total + leaf i)
