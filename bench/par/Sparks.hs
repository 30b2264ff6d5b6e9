-- | The workloads with the sparks of the @parallel@ library.
module Main
  ( main,
  )
where

import Control.Parallel (par, pseq)
import Control.Parallel.Strategies (parList, rseq, using)
import Heddle.Measure.Contender (contender, contenderMain, contenderWith, twoNumbers)
import Kernels

main :: IO ()
main =
  contenderMain
    (twoNumbers "SIZE" "GRAIN")
    [ contender "fork" (\(size, _) -> pure (forks size)),
      contender "fib" (\(size, grain) -> pure (fibs grain size)),
      contender "queens" (\(size, grain) -> pure (queens size grain emptyBoard)),
      contenderWith "matrix" (\(size, _) -> pure (matrix 1 size, matrix 2 size)) $ \(a, b) (size, grain) ->
        pure (checksum (map (multiplyRows size a b) (chunks size grain) `using` parList rseq)),
      contender "map" $ \(size, grain) ->
        pure (sum (map (trapezoids size) (chunks size grain) `using` parList rseq))
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
