{-# LANGUAGE ViewPatterns #-}

-- | A Double, or a ByteString, to the other rank and back, by Heddle.MPI.Simple: half a round is a step. Its peers are
-- @c/mpi_pingpong.c@ with as many bytes and @mpi/pingpong_pickle.py@.
module Main
  ( main,
  )
where

import Control.Monad (unless)
import Data.ByteString qualified as B
import Heddle.MPI
import Heddle.MPI.Simple
import Samples
import System.Environment (getArgs)
import System.Exit (die)

main :: IO ()
main =
  getArgs >>= \case
    "bytes" : (numbers -> Just [bytes, rounds, times]) -> mpi (sampled times 2 rounds (string (B.replicate bytes 0)))
    (numbers -> Just [rounds, times]) -> mpi (sampled times 2 rounds value)
    _ -> usage "ROUNDS TIMES | bytes BYTES ROUNDS TIMES"

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

-- Rank 0 sends what came back, so its length is right at the end if it was each time.
string :: B.ByteString -> Int -> IO Double
string bytes rounds = do
  rank <- commRank commWorld
  let to x = send commWorld (1 - rank) 0 (x :: B.ByteString)
      back = fst <$> recv commWorld (1 - rank) 0
      first 0 x = pure x
      first n x = to x >> back >>= first (n - 1)
      second 0 = pure bytes
      second n = back >>= to >> second (n - 1)
  final <- (if rank == 0 then first rounds bytes else second rounds)
  unless (B.length final == B.length bytes) (die ("wrong: " <> show (B.length final) <> " bytes"))
  pure (fromIntegral rounds)
