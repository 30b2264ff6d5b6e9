-- | The workloads in the words of a Par monad.
--
-- The same source for every such library: "ParWords" says which it is. Each program is compiled with its
-- own library's functions, not through a class.
module Main
  ( main,
  )
where

import Heddle.Measure.Contender (contender, contenderMain, contenderWith, twoNumbers)
import Kernels
import ParWords

main :: IO ()
main =
  contenderMain
    (twoNumbers "SIZE" "GRAIN")
    [ contender "fork" (\(size, _) -> pure (runPar (forks size))),
      contender "fib" (\(size, grain) -> pure (runPar (fibs grain size))),
      contender "queens" (\(size, grain) -> pure (runPar (queens size grain emptyBoard))),
      contenderWith "matrix" (\(size, _) -> pure (matrix 1 size, matrix 2 size)) $ \(a, b) (size, grain) ->
        pure (checksum (runPar (rows size a b (chunks size grain)))),
      contender "map" $ \(size, grain) ->
        pure (sum (runPar (parMap (trapezoids size) (chunks size grain))))
    ]

-- | Fork, and wait at once, so many times.
forks :: Int -> Task s Int
forks size = go 0 0
  where
    go !i !total
      | i == size = pure total
      | otherwise = do
        child <- spawn_ (pure $! leaf i)
        answer <- get child
        go (i + 1) (total + answer)

-- | A task for every call above the grain.
fibs :: Int -> Int -> Task s Int
fibs grain n
  | n <= grain = pure $! fib n
  | otherwise = do
    child <- spawn_ (fibs grain (n - 1))
    mine <- fibs grain (n - 2)
    answer <- get child
    pure $! answer + mine

-- | A task for every move in so many rows from the top.
queens :: Int -> Int -> Board -> Task s Int
queens size depth board
  | depth == 0 || complete size board = pure $! solutions size board
  | otherwise = mapM (spawn_ . queens size (depth - 1)) (moves size board) >>= total 0
  where
    total !found [] = pure found
    total !found (child : others) = do
      answer <- get child
      total (found + answer) others

-- | A task for every block of rows.
rows :: Int -> Matrix -> Matrix -> [(Int, Int)] -> Task s [Matrix]
rows size a b blocks = mapM (\block -> spawn_ (pure $! multiplyRows size a b block)) blocks >>= mapM get
