-- |
-- Module      : Main
-- Description : Tests of heddle-mpi, alone and in jobs
--
-- Run with @--cases FILE FROM@ it is a rank of a job that it has started itself.
module Main
  ( main,
  )
where

import CollectiveTest qualified
import FastTest qualified
import Heddle.MPI (mpi)
import Jobs
import Ranks
import System.Environment (getArgs)
import Test.Tasty

main :: IO ()
main =
  getArgs >>= \case
    ["--cases", path, from] -> mpi (runCases path (read from) cases)
    _ -> defaultMain (testGroup "heddle-mpi" (jobTests cases))

cases :: [Case]
cases = FastTest.cases ++ CollectiveTest.cases
