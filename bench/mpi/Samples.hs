-- | The command line, the clock and the beginning of the MPI benchmarks.
--
-- A program prints @timed WALL CPU ANSWER@ for each time: nanoseconds of wall time, of CPU time of rank
-- 0, both for one step, and what came out. The clocks are read inside, between the start and the end of
-- the world.
module Samples
  ( sampled,
    numbers,
    usage,
    Mark (..),
    mark,
  )
where

import Control.Monad (forM_, when)
import Data.Word (Word64)
import GHC.Clock (getMonotonicTimeNSec)
import Heddle.MPI
import Heddle.MPI.Collective (barrier)
import System.CPUTime (getCPUTime)
import System.Environment (getProgName)
import System.Exit (die)
import System.IO (hFlush, stdout)
import Text.Printf (printf)
import Text.Read (readMaybe)

-- | A moment: wall time in nanoseconds, CPU time of the process in picoseconds.
data Mark = Mark !Word64 !Integer

mark :: IO Mark
mark = Mark <$> getMonotonicTimeNSec <*> getCPUTime

-- | So many times, after a tenth that is not counted: the steps that an action does are counted, and it
-- is given how many.
sampled :: Int -> Int -> Int -> (Int -> IO Double) -> IO ()
sampled times perStep steps action = do
  rank <- commRank commWorld
  _ <- action (1 + steps `div` 10)
  forM_ [1 .. times] $ \_ -> do
    barrier commWorld
    Mark wall cpu <- mark
    answer <- action steps
    Mark wall' cpu' <- mark
    when (rank == 0) $ do
      let per time = time / fromIntegral (steps * perStep) :: Double
      printf "timed %.3f %.3f %s\n" (per (fromIntegral (wall' - wall))) (per (fromIntegral (cpu' - cpu) / 1000)) (show answer)
      hFlush stdout

-- | Arguments that are positive numbers.
numbers :: [String] -> Maybe [Int]
numbers = mapM $ \text -> case readMaybe text of
  Just n | n > 0 -> Just n
  _ -> Nothing

usage :: String -> IO a
usage text = do
  program <- getProgName
  die ("usage: " <> program <> " " <> text)
