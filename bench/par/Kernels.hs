-- | The sequential work inside the parallel benchmarks, the same machine code for every library.
module Kernels
  ( -- * Fibonacci numbers, by two calls
    fib,
    leaf,

    -- * Queens
    Board,
    emptyBoard,
    complete,
    moves,
    solutions,

    -- * Matrices
    Matrix,
    matrix,
    multiplyRows,
    checksum,

    -- * Trapezoids
    trapezoids,

    -- * Ranges
    chunks,
  )
where

import Control.Monad (forM_)
import Data.Bits (complement, shiftL, shiftR, (.&.), (.|.))
import Data.Primitive.PrimArray (PrimArray, foldlPrimArray', generatePrimArray, indexPrimArray, newPrimArray, runPrimArray, writePrimArray)

-- | The slow way, which is the point.
fib :: Int -> Int
fib n
  | n < 2 = n
  | otherwise = fib (n - 1) + fib (n - 2)

-- | The least work that a task can do, kept away from the optimiser.
leaf :: Int -> Int
leaf i = i .&. 1
{-# NOINLINE leaf #-}

-- | Which columns and diagonals are attacked in the next row, a bit each.
data Board = Board !Int !Int !Int

emptyBoard :: Board
emptyBoard = Board 0 0 0

-- | Whether a board of this size has its last queen.
complete :: Int -> Board -> Bool
complete size (Board columns _ _) = columns == 1 `shiftL` size - 1

-- | The boards with a queen more.
moves :: Int -> Board -> [Board]
moves size board = go (free size board)
  where
    go 0 = []
    go places = place board bit : go (places - bit)
      where
        bit = lowest places

-- | How many ways there are to complete a board.
solutions :: Int -> Board -> Int
solutions size board
  | complete size board = 1
  | otherwise = go 0 (free size board)
  where
    go !found 0 = found
    go !found places = go (found + solutions size (place board bit)) (places - bit)
      where
        bit = lowest places

free :: Int -> Board -> Int
free size (Board columns left right) = (1 `shiftL` size - 1) .&. complement (columns .|. left .|. right)

place :: Board -> Int -> Board
place (Board columns left right) bit =
  Board (columns .|. bit) ((left .|. bit) `shiftL` 1) ((right .|. bit) `shiftR` 1)

lowest :: Int -> Int
lowest places = places .&. negate places

-- | Numbers in rows.
type Matrix = PrimArray Double

-- | A square matrix of this size, another for each seed.
matrix :: Int -> Int -> Matrix
matrix seed size = generatePrimArray (size * size) $ \i -> fromIntegral ((i * 7919 + seed) `rem` 1000) / 1000

-- | These rows (the first, and how many) of a product, whose second factor is given by columns.
multiplyRows :: Int -> Matrix -> Matrix -> (Int, Int) -> Matrix
multiplyRows size a b (start, count) = runPrimArray $ do
  rows <- newPrimArray (count * size)
  forM_ [0 .. count - 1] $ \i ->
    forM_ [0 .. size - 1] $ \j ->
      writePrimArray rows (i * size + j) (dot size a ((start + i) * size) b (j * size))
  pure rows

-- Four sums, so that an addition need not wait for the one before.
dot :: Int -> Matrix -> Int -> Matrix -> Int -> Double
dot size a i b j = go 0 0 0 0 0
  where
    go :: Int -> Double -> Double -> Double -> Double -> Double
    go k !s !t !u !v
      | k + 4 <= size = go (k + 4) (s + at k) (t + at (k + 1)) (u + at (k + 2)) (v + at (k + 3))
      | k < size = go (k + 1) (s + at k) t u v
      | otherwise = s + t + u + v
    at k = indexPrimArray a (i + k) * indexPrimArray b (j + k)

-- | One number for many rows.
checksum :: [Matrix] -> Int
checksum = sum . map (round . foldlPrimArray' (+) 0)

-- | The area below a quarter circle, in trapezoids: of so many, these (the first, and how many). Answers
-- in billionths.
trapezoids :: Int -> (Int, Int) -> Int
trapezoids whole (start, count) = go start 0
  where
    go :: Int -> Double -> Int
    go i !area
      | i == start + count = round (area * 1e9)
      | otherwise = go (i + 1) (area + (height i + height (i + 1)) * width / 2)
    height i = let x = fromIntegral i * width in sqrt (1 - x * x)
    width = 1 / fromIntegral whole

-- | So many, in pieces of this size (the first, and how many).
chunks :: Int -> Int -> [(Int, Int)]
chunks whole size = [(start, min size (whole - start)) | start <- [0, size .. whole - 1]]
