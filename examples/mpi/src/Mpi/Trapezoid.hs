{-# LANGUAGE DataKinds #-}

-- |
-- Module      : Mpi.Trapezoid
-- Description : Listings 1 to 5 of "High Performance Haskell with MPI"
-- Stability   : example
--
-- A definite integral by trapezoids: by one core, by threads, by messages between processes, and by
-- one gather. What differs from the listings: the remainder of trapezoids is dealt out, and every
-- process sums its share before it waits for anybody.
--
-- Cost: a call of the function for each trapezoid.
-- Owner: pure, but for the messages.
module Mpi.Trapezoid
  ( -- * The integral
    Problem (..),
    trapezoid,
    part,

    -- * Ways
    sequential,
    threads,
    messages,
    gathered,
  )
where

import Control.Monad (forM)
import Heddle.MPI (Comm, Kind (..), commRank, commSize, toRank, unitTag)
import Heddle.MPI.Simple (gather, recv, send)
import Heddle.Par (parMap, runPar)
import Heddle.Prim.Exception (evaluate)
import Mpi.Shares

-- | The bounds, and how many trapezoids.
data Problem = Problem
  { problemFrom :: !Double,
    problemTo :: !Double,
    problemTrapezoids :: !Int
  }
  deriving stock (Eq, Show)

-- | Listing 1. The function, the bounds, how many trapezoids, and the width of one.
trapezoid :: (Double -> Double) -> Double -> Double -> Int -> Double -> Double
trapezoid f a b n h
  | n < 1 = 0
  | otherwise = h * (endPoints + internals)
  where
    endPoints = (f a + f b) / 2
    internals = worker 0 (a + h) 0
    worker :: Int -> Double -> Double -> Double
    worker !count !x !acc
      | count >= n - 1 = acc
      | otherwise = worker (count + 1) (x + h) (acc + f x)
{-# INLINE trapezoid #-}

-- | The sine's integral over one share of the trapezoids.
part :: Problem -> Share -> Double
part (Problem a b n) (Share start size) = trapezoid sin (at start) (at (start + size)) size h
  where
    h = (b - a) / fromIntegral n
    at i = a + fromIntegral i * h

-- | Listing 2.
sequential :: Problem -> Double
sequential problem = part problem (Share 0 (problemTrapezoids problem))

-- | Listing 3, on Heddle.Par: a task for each of so many cores.
threads :: Int -> Problem -> Double
threads cores problem = sum (runPar (parMap (part problem) shares))
  where
    shares = [shareOf (problemTrapezoids problem) cores i | i <- [0 .. cores - 1]]

-- | Listing 4: everybody sends to rank 0, which has the answer.
messages :: Comm kind -> Problem -> IO (Maybe Double)
messages comm problem = do
  (rank, size, mine) <- own comm problem
  if rank == 0
    then do
      rest <- forM [1 .. size - 1] (\other -> fst <$> recv comm (toRank other) unitTag)
      pure (Just (mine + sum rest))
    else Nothing <$ send comm 0 unitTag mine

-- | Listing 5: rank 0 gathers.
gathered :: Comm 'Intra -> Problem -> IO (Maybe Double)
gathered comm problem = do
  (_, _, mine) <- own comm problem
  fmap sum <$> gather comm 0 mine

-- Evaluated here: the listings leave it to who sends or prints, and then rank 0 begins when it has
-- heard of all others.
own :: Comm kind -> Problem -> IO (Int, Int, Double)
own comm problem = do
  rank <- fromIntegral <$> commRank comm
  size <- commSize comm
  mine <- evaluate (part problem (shareOf (problemTrapezoids problem) size rank))
  pure (rank, size, mine)
