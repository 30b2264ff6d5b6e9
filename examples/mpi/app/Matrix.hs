{-# LANGUAGE TypeApplications #-}

-- |
-- Module      : Main
-- Description : A matrix in a file, written by rows and read by blocks
--
-- Each process has some rows of a matrix, and writes them; then each reads a block of another
-- shape, and compares it. Both go through views of the file: no process knows where in the
-- file its elements lie, and MPI joins what belongs together.
--
-- > heddle-mpirun -n 4 heddle-matrix 4000 3000 /tmp/matrix
module Main
  ( main,
  )
where

import Control.Monad (forM, when, zipWithM_)
import Data.Vector.Storable (Vector)
import Data.Vector.Storable qualified as Vector
import Heddle.MPI
import Heddle.MPI.Datatype
import Heddle.MPI.Fast (recvValue, sendValue)
import Heddle.MPI.File
import Numeric (showFFloat)
import System.Environment (getArgs, getProgName)
import System.Exit (ExitCode (..), exitWith)
import System.IO (hPutStrLn, stderr)
import Text.Read (readMaybe)

main :: IO ()
main = mpi $ do
  rank <- commRank commWorld
  size <- commSize commWorld
  arguments <- getArgs
  case parse size arguments of
    Right (rows, columns, path) -> run rows columns path
    Left problem
      -- The others wait for the first to end the job.
      | rank /= 0 -> pure ()
      | otherwise -> do
        name <- getProgName
        hPutStrLn stderr (name ++ ": " ++ problem)
        hPutStrLn stderr (usage name)
        exitWith (ExitFailure 2)

usage :: String -> String
usage name =
  unlines
    [ "usage: heddle-mpirun -n PROCESSES " ++ name ++ " ROWS COLUMNS FILE",
      "  Writes a matrix of ROWS x COLUMNS doubles to FILE, by rows; reads it by blocks, and",
      "  compares. There are at least as many rows, and columns, as processes. FILE is left."
    ]

parse :: Int -> [String] -> Either String (Int, Int, FilePath)
parse size = \case
  [rows, columns, path] -> (,,) <$> number "ROWS" rows <*> number "COLUMNS" columns <*> pure path
  arguments -> Left ("3 arguments are needed, not " ++ show (length arguments))
  where
    number name text = case readMaybe text of
      Just n | n >= size && n <= 1000000 -> Right n
      _ -> Left (name ++ " is " ++ show text ++ ", not a number from " ++ show size ++ " to 1000000")

-- | A part of a matrix: from which row and how many, from which column and how many.
type Part = ((Int, Int), (Int, Int))

run :: Int -> Int -> FilePath -> IO ()
run rows columns path = do
  rank <- fromIntegral <$> commRank commWorld
  size <- commSize commWorld
  let across = size `quot` last [d | d <- [1 .. size], size `mod` d == 0, d * d <= size]
      band = (share rows rank size, (0, columns))
      block = (share rows (rank `quot` across) (size `quot` across), share columns (rank `mod` across) across)
      mine = contents columns band
  ((), seconds) <- timed . withFile commWorld path (WriteOnly MayExist) [] $ \file -> do
    resizeFile file (8 * rows * columns)
    see file band
    writeAll file mine
  (got, seconds') <- timed . withFile commWorld path ReadOnly [] $ \file -> do
    see file block
    readAllNew file (snd (fst block) * snd (snd block))
  let wrongOnes = length (filter id (zipWith (/=) (Vector.toList got) (Vector.toList (contents columns block))))
      missing = snd (fst block) * snd (snd block) - Vector.length got
  total <- summed (wrongOnes + missing)
  slowest <- mapM greatest [seconds, seconds']
  when (rank == 0) $ do
    let megabytes = 8 * fromIntegral (rows * columns) / 1e6 :: Double
        speed what time = putStrLn (what ++ ": " ++ showFFloat (Just 3) time " s, " ++ showFFloat (Just 1) (megabytes / time) " MB/s")
    putStrLn (show rows ++ " x " ++ show columns ++ ", " ++ showFFloat (Just 1) megabytes " MB, " ++ show size ++ " processes")
    zipWithM_ speed ["written by rows", "read by " ++ show (size `quot` across) ++ " x " ++ show across ++ " blocks"] slowest
    putStrLn (if total == 0 then "all elements are the same" else show total ++ " elements differ")
    when (total /= 0) (exitWith (ExitFailure 1))
  where
    see file ((r, nr), (c, nc)) =
      withType (newSubarrayType RowMajor [Side rows nr r, Side columns nc c] double) (setView file 0 double)
    double = elementType @Double

-- | What a part should contain.
contents :: Int -> Part -> Vector Double
contents columns ((r, nr), (c, nc)) =
  Vector.generate (nr * nc) (\i -> let (y, x) = i `quotRem` nc in fromIntegral ((r + y) * columns + c + x))

-- | The part of so many that a process has: the first, and how many.
share :: Int -> Int -> Int -> (Int, Int)
share n rank size = (from, (n * (rank + 1)) `quot` size - from)
  where
    from = (n * rank) `quot` size

timed :: IO a -> IO (a, Double)
timed action = do
  begun <- wtime
  a <- action
  ended <- wtime
  pure (a, ended - begun)

summed :: Int -> IO Int
summed = fmap sum . collected

greatest :: Double -> IO Double
greatest = fmap maximum . collected

-- | What all have, for the first; the others' own.
collected :: Element a => a -> IO [a]
collected a = do
  rank <- commRank commWorld
  size <- commSize commWorld
  if rank == 0
    then (a :) <$> forM [1 .. size - 1] (\r -> fst <$> recvValue commWorld (toRank r) 1)
    else [a] <$ sendValue commWorld 0 1 a
