{-# LANGUAGE ViewPatterns #-}

-- | The command line and the clock of benchmarks that time themselves.
--
-- @WAY N [STAGES]@ prints @timed WALL CPU BYTES ANSWER@: nanoseconds of wall and CPU time, bytes that
-- were allocated, and what came out. The clocks are read inside, after the same work for N + 1 that nobody
-- counts: memory has been touched by then, and starting and ending are not measured.
module Measure
  ( measure,
    measureStages,
  )
where

import Control.Exception (evaluate)
import Data.Int (Int64)
import Data.List (intercalate)
import Data.Word (Word64)
import GHC.Clock (getMonotonicTimeNSec)
import System.CPUTime (getCPUTime)
import System.Environment (getArgs, getProgName)
import System.Exit (die)
import System.Mem (getAllocationCounter, performMajorGC)
import Text.Printf (printf)
import Text.Read (readMaybe)

-- | The ways of doing the same to so many items.
measure :: [(String, Int -> IO Int)] -> IO ()
measure ways =
  getArgs >>= \case
    [flip lookup ways -> Just way, positive -> Just n] -> run way n
    _ -> usage ways "N"

-- | The same with so many stages.
measureStages :: [(String, Int -> Int -> IO Int)] -> IO ()
measureStages ways =
  getArgs >>= \case
    [flip lookup ways -> Just way, positive -> Just n, positive -> Just stages] -> run (`way` stages) n
    _ -> usage ways "N STAGES"

positive :: String -> Maybe Int
positive text = case readMaybe text of
  Just n | n > 0 -> Just n
  _ -> Nothing

usage :: [(String, way)] -> String -> IO ()
usage ways rest = do
  program <- getProgName
  die ("usage: " <> program <> " " <> intercalate "|" (map fst ways) <> " " <> rest)

run :: (Int -> IO Int) -> Int -> IO ()
run way n = do
  -- With another number than below, so that nothing is shared between the two.
  _ <- way (n + 1) >>= evaluate
  performMajorGC
  Mark wall cpu left <- mark
  answer <- way n >>= evaluate
  Mark wall' cpu' left' <- mark
  printf "timed %d %d %d %d\n" (wall' - wall) ((cpu' - cpu) `div` 1000) (left - left') answer

-- | Wall time in nanoseconds, CPU time of the process in picoseconds, and what this thread may still
-- allocate: a number that falls.
data Mark = Mark !Word64 !Integer !Int64

mark :: IO Mark
mark = Mark <$> getMonotonicTimeNSec <*> getCPUTime <*> getAllocationCounter
