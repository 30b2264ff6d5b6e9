-- | The workloads without parallelism. The grain only says how large the blocks are.
module Main
  ( main,
  )
where

import Kernels
import Measure (Workload (..), measure)

main :: IO ()
main =
  measure
    [ Workload "fork" (const ()) (\() size _ -> forks size),
      Workload "fib" (const ()) (\() size _ -> fib size),
      Workload "queens" (const ()) (\() size _ -> solutions size emptyBoard),
      Workload "matrix" (\size -> (matrix 1 size, matrix 2 size)) $ \(a, b) size grain ->
        checksum (map (multiplyRows size a b) (chunks size grain)),
      Workload "map" (const ()) (\() size grain -> sum (map (trapezoids size) (chunks size grain)))
    ]

forks :: Int -> Int
forks size = go 0 0
  where
    go !i !total
      | i == size = total
      | otherwise = go (i + 1) (total + leaf i)
