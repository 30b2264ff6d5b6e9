{-# LANGUAGE ViewPatterns #-}

-- | The integral of the sine over [0, 1000 pi], as in "High Performance Haskell with MPI": by one core,
-- by threads, by messages, by a gather. The twin in C is @c/mpi_trapezoid.c@.
module Main
  ( main,
  )
where

import Control.Exception (evaluate)
import Control.Monad (forM)
import Data.Vector.Storable qualified as Vector
import Heddle.MPI
import Heddle.MPI.Collective (gatherValue)
import Heddle.MPI.Fast (recvValue, sendValue)
import Heddle.Par (parMap, runPar)
import Heddle.Prim.Thread (getCapabilities)
import Samples
import Sines (sines)
import System.Environment (getArgs)

main :: IO ()
main =
  getArgs >>= \case
    [flip lookup ways -> Just way, numbers . pure -> Just [n]] -> mpi (measured way n 1)
    [flip lookup ways -> Just way, numbers . pure -> Just [n], numbers . pure -> Just [times]] -> mpi (measured way n times)
    _ -> usage "sequential|threads|point|gather N [TIMES]"
  where
    ways = [("sequential", sequential), ("threads", threads), ("point", point), ("gather", gather)]
    measured way n times = sampledOnce times (way n)
    sampledOnce times action = sampled times 1 1 (const action)

-- | Given how many trapezoids, the integral; the root's answer counts.
sequential, threads, point, gather :: Int -> IO Double
sequential n = integral n <$> evaluate (share n 1 0)
threads n = do
  cores <- getCapabilities
  -- Several for each core, so that one which begins late finds some left.
  let pieces = 16 * cores
  pure $! integral n (sum (runPar (parMap (share n pieces) [0 .. pieces - 1])))
point n = do
  rank <- commRank commWorld
  size <- commSize commWorld
  mine <- evaluate (share n size (fromIntegral rank))
  if rank == 0
    then do
      rest <- forM [1 .. size - 1] (\r -> fst <$> recvValue commWorld (toRank r) unitTag)
      pure $! integral n (mine + sum rest)
    else mine <$ sendValue commWorld 0 unitTag mine
gather n = do
  rank <- commRank commWorld
  size <- commSize commWorld
  mine <- evaluate (share n size (fromIntegral rank))
  maybe (pure mine) (\parts -> pure $! integral n (Vector.sum parts)) =<< gatherValue commWorld 0 mine

from0, to1000pi :: Double
from0 = 0
to1000pi = 1000 * pi

-- | From the sum of the points between the ends.
integral :: Int -> Double -> Double
integral n internals = (to1000pi - from0) / fromIntegral n * ((sin from0 + sin to1000pi) / 2 + internals)

-- | One of several parts of the points between the ends; they differ by one point at the most.
share :: Int -> Int -> Int -> Double
share n parts part = sines from0 ((to1000pi - from0) / fromIntegral n) from (from + each + if part < more then 1 else 0)
  where
    (each, more) = (n - 1) `quotRem` parts
    from = 1 + part * each + min part more
