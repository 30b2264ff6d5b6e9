-- |
-- Module      : Main
-- Description : heddle-trapezoid: a definite integral in four ways
-- Stability   : example
module Main
  ( main,
  )
where

import Control.Monad (when)
import Heddle.MPI
import Heddle.Prim.Clock (Nanos (..), elapsed, monotonicNow)
import Heddle.Prim.Exception (evaluate)
import Heddle.Prim.Thread (getCapabilities)
import Mpi.Trapezoid
import Options.Applicative
import Text.Printf (printf)

main :: IO ()
main = do
  (way, problem) <- customExecParser (prefs showHelpOnEmpty) options
  mpi $ do
    size <- commSize commWorld
    rank <- commRank commWorld
    before <- monotonicNow
    answer <- way problem
    after' <- monotonicNow
    let Nanos took = elapsed before after'
    when (rank == 0) $
      mapM_ (\a -> printf "%.15g  %.3f s, %d process%s\n" a (fromIntegral took / 1e9 :: Double) size (if size == 1 then "" else "es")) answer

options :: ParserInfo (Problem -> IO (Maybe Double), Problem)
options =
  info
    (((,) <$> way <*> problem) <**> helper)
    ( fullDesc
        <> failureCode 2
        <> progDesc "Integrate the sine from A to B by N trapezoids"
        <> footer "Examples: heddle-trapezoid threads 0 3141.5926535897932 100000000 +RTS -N; heddle-mpirun -n 2 heddle-trapezoid gather 0 1 1000. A negative A goes behind --."
    )
  where
    way = argument (eitherReader named) (metavar "sequential|threads|messages|gather" <> help "By one core, by threads, by messages, by one gather")
    named name = maybe (Left ("no way: " ++ name)) Right (lookup name ways)
    problem = Problem <$> argument bound (metavar "A") <*> argument bound (metavar "B") <*> argument count (metavar "N")
    bound = eitherReader $ \text -> case reads text of
      [(x, "")] | not (isNaN x || isInfinite x) -> Right x
      _ -> Left ("not a number: " ++ text)
    count = eitherReader $ \text -> case reads text of
      [(n, "")] | n >= 1 && n <= (10 ^ (15 :: Int) :: Integer) -> Right (fromInteger n)
      _ -> Left ("not a number of trapezoids: " ++ text)

ways :: [(String, Problem -> IO (Maybe Double))]
ways =
  [ ("sequential", alone . sequential),
    ("threads", \problem -> getCapabilities >>= \cores -> alone (threads cores problem)),
    ("messages", messages commWorld),
    ("gather", gathered commWorld)
  ]
  where
    alone = fmap Just . evaluate
