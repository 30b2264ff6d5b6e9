-- | The workloads with the sparks of the @parallel@ library.
module Main
  ( main,
  )
where

import Control.Parallel (par, pseq)
import Control.Parallel.Strategies (parList, rseq, using)
import Kernels
import Measure (Workload (..), measure)

main :: IO ()
main =
  measure
    [ Workload "fork" (const ()) (\() size _ -> forks size),
      Workload "fib" (const ()) (\() size grain -> fibs grain size),
      Workload "queens" (const ()) (\() size grain -> queens size grain emptyBoard),
      Workload "matrix" (\size -> (matrix 1 size, matrix 2 size)) $ \(a, b) size grain ->
        checksum (map (multiplyRows size a b) (chunks size grain) `using` parList rseq),
      Workload "map" (const ()) $ \() size grain ->
        sum (map (trapezoids size) (chunks size grain) `using` parList rseq)
    ]

forks :: Int -> Int
forks size = go 0 0
  where
    go !i !total
      | i == size = total
      | otherwise = let child = leaf i in child `par` (child `pseq` go (i + 1) (total + child))

fibs :: Int -> Int -> Int
fibs grain n
  | n <= grain = fib n
  | otherwise = child `par` (mine `pseq` (child + mine))
  where
    child = fibs grain (n - 1)
    mine = fibs grain (n - 2)

queens :: Int -> Int -> Board -> Int
queens size depth board
  | depth == 0 || complete size board = solutions size board
  | otherwise = sum (map (queens size (depth - 1)) (moves size board) `using` parList rseq)
