-- | The command line and the clock of the rendezvous benchmarks.
module Clock
  ( Mark,
    mark,
    report,
    numbers,
    usage,
  )
where

import Data.Word (Word64)
import GHC.Clock (getMonotonicTimeNSec)
import System.CPUTime (getCPUTime)
import System.Environment (getProgName)
import System.Exit (die)
import Text.Printf (printf)
import Text.Read (readMaybe)

-- | A moment: wall time in nanoseconds, CPU time of the process in picoseconds.
data Mark = Mark !Word64 !Integer

mark :: IO Mark
mark = Mark <$> getMonotonicTimeNSec <*> getCPUTime

-- | Print @timed WALL CPU ANSWER@: nanoseconds for each of so many steps, and what came out.
report :: Int -> Mark -> Mark -> Int -> IO ()
report steps (Mark wall cpu) (Mark wall' cpu') =
  printf "timed %.1f %.1f %d\n" (per (fromIntegral (wall' - wall))) (per (fromIntegral (cpu' - cpu) / 1000))
  where
    per time = time / fromIntegral steps :: Double

-- | Arguments that are numbers, none below the least.
numbers :: [Int] -> [String] -> Maybe [Int]
numbers least arguments = do
  found <- mapM readMaybe arguments
  if length found == length least && and (zipWith (>=) found least) then Just found else Nothing

usage :: String -> IO a
usage text = do
  program <- getProgName
  die ("usage: " <> program <> " " <> text)
