{-# LANGUAGE ViewPatterns #-}

-- | A message to the other rank and back, by Heddle.MPI.Fast: memory, or a Double. Half a round is a
-- step. The twin in C is @c/mpi_pingpong.c@.
module Main
  ( main,
  )
where

import Control.Monad (replicateM_, void)
import Data.Word (Word8)
import Foreign.Marshal.Alloc (allocaBytes)
import Foreign.Marshal.Utils (fillBytes)
import Foreign.Ptr (Ptr)
import Heddle.MPI
import Heddle.MPI.Fast
import Samples
import System.Environment (getArgs)

main :: IO ()
main = do
  arguments <- getArgs
  case arguments of
    "bytes" : (numbers -> Just [bytes, rounds, times]) -> mpi . allocaBytes bytes $ \p -> do
      fillBytes p 0 bytes
      sampled times 2 rounds (memory (p, bytes))
    "value" : (numbers -> Just [rounds, times]) -> mpi (sampled times 2 rounds value)
    _ -> usage "bytes BYTES ROUNDS TIMES | value ROUNDS TIMES"

memory :: (Ptr Word8, Int) -> Int -> IO Double
memory buffer rounds = do
  rank <- commRank commWorld
  let to = send commWorld (1 - rank) 0 buffer
      back = void (recv commWorld (1 - rank) 0 buffer)
  replicateM_ rounds (if rank == 0 then to >> back else back >> to)
  pure (fromIntegral rounds)

value :: Int -> IO Double
value rounds = do
  rank <- commRank commWorld
  let to x = sendValue commWorld (1 - rank) 0 (x :: Double)
      back = fst <$> recvValue commWorld (1 - rank) 0
      first 0 x = pure x
      first n x = to x >> back >>= first (n - 1)
      second 0 x = pure x
      second n _ = back >>= \x -> to (x + 1) >> second (n - 1) x
  (if rank == 0 then first else second) rounds 0
