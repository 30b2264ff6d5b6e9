-- |
-- Module      : Main
-- Description : heddle-heat: heat in a plate, by all ranks
-- Stability   : example
--
-- Exit codes: 0 after an answer, 1 when it is not the one that one core finds, 2 when the command line
-- is wrong.
module Main
  ( main,
  )
where

import Control.Monad (forM_, unless, when)
import Data.Vector.Storable qualified as Vector
import Heddle.MPI
import Heddle.MPI.Collective (barrier)
import Heddle.Prim.Clock (Nanos (..), elapsed, monotonicNow)
import Mpi.Heat
import Options.Applicative
import System.Exit (ExitCode (..), exitWith)
import System.IO (hPutStrLn, stderr)
import Text.Printf (hPrintf, printf)

data Options = Options
  { optionRows :: !Int,
    optionColumns :: !Int,
    optionSteps :: !Int,
    optionCheck :: !Bool,
    optionQuiet :: !Bool,
    optionPicture :: !(Maybe FilePath)
  }

options :: ParserInfo Options
options =
  info
    (parser <**> helper)
    ( fullDesc
        <> failureCode 2
        <> progDesc "Compute how heat spreads in a plate, one edge of which is hot"
        <> footer "Example: heddle-mpirun -n 2 heddle-heat --rows 1000 --columns 1000 --steps 500 --picture plate.pgm"
    )
  where
    parser =
      Options
        <$> number "rows" 256 "Rows of points; every process needs one"
        <*> number "columns" 256 "Columns of points"
        <*> number "steps" 1000 "Steps of time"
        <*> (not <$> switch (long "no-check" <> help "Do not compute it again on one core, to compare"))
        <*> switch (long "quiet" <> help "Show no progress")
        <*> optional (strOption (long "picture" <> metavar "FILE" <> help "Write the temperatures as a PGM picture"))
    number name usual what = option count (long name <> metavar "N" <> value usual <> showDefault <> help what)
    count = eitherReader $ \text -> case reads text of
      [(n, "")] | n >= 1 && n <= (1000000 :: Integer) -> Right (fromInteger n)
      _ -> Left ("not a number from 1 to 1000000: " ++ text)

main :: IO ()
main = do
  chosen <- execParser options
  mpi $ do
    rank <- commRank commWorld
    size <- commSize commWorld
    let plate = Plate (optionRows chosen) (optionColumns chosen)
        steps = optionSteps chosen
        tenth = max 1 (steps `div` 10)
        progress n = when (rank == 0 && not (optionQuiet chosen) && n `rem` tenth == 0) (hPrintf stderr "heddle-heat: step %d of %d\n" n steps)
    when (size > plateRows plate) $
      if rank == 0
        then do
          hPutStrLn stderr ("heddle-heat: " ++ show size ++ " processes for " ++ show (plateRows plate) ++ " rows; give --rows at least as many.")
          -- This ends the others as well, where they wait.
          exitWith (ExitFailure 2)
        else barrier commWorld
    before <- monotonicNow
    found <- distributed commWorld plate steps progress
    after' <- monotonicNow
    let Nanos took = elapsed before after'
    forM_ found $ \points -> do
      printf "%d by %d points, %d steps, %d process%s: mean temperature %.9f, %.3f s\n" (plateRows plate) (plateColumns plate) steps size (if size == 1 then "" else "es") (mean points) (fromIntegral took / 1e9 :: Double)
      forM_ (optionPicture chosen) (\file -> writeFile file (picture plate points))
      when (optionCheck chosen) $ do
        expected <- sequential plate steps
        unless (points == expected) (hPutStrLn stderr "heddle-heat: one core finds other temperatures" >> exitWith (ExitFailure 1))
        putStrLn "one core finds the same, bit for bit"

-- Shades of grey; the hottest is white.
picture :: Plate -> Vector.Vector Double -> String
picture (Plate rows width) points =
  unlines (["P2", show width ++ " " ++ show rows, "255"] ++ map (show . shade) (Vector.toList points))
  where
    shade t = max 0 (min 255 (round (t * 2.55))) :: Int
