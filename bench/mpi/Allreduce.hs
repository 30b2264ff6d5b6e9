{-# LANGUAGE ViewPatterns #-}

-- | The sums of doubles over all ranks, on every rank. The twin in C is @c/mpi_allreduce.c@.
module Main
  ( main,
  )
where

import Control.Monad (replicateM_)
import Data.Vector.Storable qualified as Vector
import Data.Vector.Storable.Mutable qualified as Mutable
import Heddle.MPI
import Heddle.MPI.Collective (allreduce)
import Heddle.MPI.Operator (sumOf)
import Samples
import System.Environment (getArgs)

main :: IO ()
main =
  getArgs >>= \case
    (numbers -> Just [doubles, rounds, times]) -> mpi $ do
      rank <- commRank commWorld
      let from = Vector.replicate doubles (fromIntegral rank + 1 :: Double)
      to <- Mutable.replicate doubles 0
      sampled times 1 rounds $ \n -> do
        replicateM_ n (allreduce commWorld sumOf from to)
        Mutable.read to (doubles - 1)
    _ -> usage "DOUBLES ROUNDS TIMES"
