{-# LANGUAGE ExistentialQuantification #-}
{-# LANGUAGE ViewPatterns #-}

-- | The command line and the clock of the parallel benchmarks.
--
-- @WORKLOAD SIZE GRAIN [TIMES]@; for each time a line @timed WALL CPU ANSWER@, in microseconds. The
-- clocks are read inside the program, so its start and end are not measured.
module Measure
  ( Workload (..),
    measure,
  )
where

import Control.Exception (evaluate)
import Control.Monad (replicateM_)
import Data.IORef (newIORef, readIORef)
import Data.List (find)
import GHC.Clock (getMonotonicTimeNSec)
import System.CPUTime (getCPUTime)
import System.Environment (getArgs, getProgName)
import System.Exit (die)
import System.Mem (performMajorGC)
import Text.Printf (printf)
import Text.Read (readMaybe)

-- | A name; what is made of the size beforehand, unmeasured; and the work, given that, size and grain.
data Workload = forall input. Workload String (Int -> input) (input -> Int -> Int -> Int)

-- | The program.
measure :: [Workload] -> IO ()
measure workloads = do
  arguments <- getArgs
  case arguments of
    name : (mapM readMaybe -> Just (size : grain : more))
      | Just workload <- find ((== name) . named) workloads,
        size > 0,
        grain > 0 -> case more of
        [] -> run workload size grain 1
        [times] | times > 0 -> run workload size grain times
        _ -> usage
    _ -> usage
  where
    usage = do
      program <- getProgName
      die ("usage: " <> program <> " " <> names <> " SIZE GRAIN [TIMES]")
    names = foldr1 (\one others -> one <> "|" <> others) (map named workloads)
    named (Workload name _ _) = name

run :: Workload -> Int -> Int -> Int -> IO ()
run (Workload _ prepare work) size grain times = do
  input <- evaluate (prepare size)
  -- Read anew each time: the compiler must not share the answer.
  sizes <- newIORef size
  replicateM_ times $ do
    performMajorGC
    now <- readIORef sizes
    wall <- getMonotonicTimeNSec
    cpu <- getCPUTime
    answer <- evaluate (work input now grain)
    cpu' <- getCPUTime
    wall' <- getMonotonicTimeNSec
    printf "timed %.1f %.1f %d\n" (micros (wall' - wall)) (fromIntegral (cpu' - cpu) / 1e6 :: Double) answer
  where
    micros ns = fromIntegral ns / 1000 :: Double
