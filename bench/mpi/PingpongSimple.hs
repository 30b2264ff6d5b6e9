{-# LANGUAGE ViewPatterns #-}

-- | A Double to the other rank and back, by Heddle.MPI.Simple: half a round is a step. Its peers are
-- @c/mpi_pingpong.c@ with 8 bytes and @mpi/pingpong_pickle.py@.
module Main
  ( main,
  )
where

import Heddle.MPI
import Heddle.MPI.Simple
import Samples
import System.Environment (getArgs)

main :: IO ()
main =
  getArgs >>= \case
    (numbers -> Just [rounds, times]) -> mpi (sampled times 2 rounds value)
    _ -> usage "ROUNDS TIMES"

-- Rank 1 adds one each time, so that what comes back is how many rounds there were.
value :: Int -> IO Double
value rounds = do
  rank <- commRank commWorld
  let to x = send commWorld (1 - rank) 0 (x :: Double)
      back = fst <$> recv commWorld (1 - rank) 0
      first 0 x = pure x
      first n x = to x >> back >>= first (n - 1)
      second 0 x = pure x
      second n _ = back >>= \x -> to (x + 1) >> second (n - 1) x
  (if rank == 0 then first else second) rounds 0
