-- |
-- Module      : Rendezvous.Ways
-- Description : The same answer in several ways, and how long each takes
-- Stability   : example
--
-- The clock is read around applications of a function to an input that is there already; an answer that takes
-- less than a clock and a sleeping core are worth is computed several times in a row. The ways take turns, so
-- that what else the machine does falls on all of them.
module Rendezvous.Ways
  ( Way (..),
    Contest (..),
    compete,
    median,
    report,
  )
where

import Control.Monad (forM, replicateM_)
import Data.List (sort)
import Data.Word (Word64)
import GHC.Clock (getMonotonicTimeNSec)
import Heddle.Prim.Exception (evaluate)
import System.Mem (performMajorGC)
import Text.Printf (printf)

-- | A name, and the function. To have its answer in weak head normal form is to have all of it.
data Way input answer = Way
  { wayName :: !String,
    wayRun :: input -> answer
  }

-- | What came out.
data Contest answer = Contest
  { contestAnswer :: !answer,
    -- | For each way its times in nanoseconds, in the order of the rounds.
    contestTimes :: ![(String, [Word64])]
  }

-- | So many rounds, in each of which each way answers so many times in a row, and its time is the mean; or the
-- names of two ways that do not agree.
compete :: Eq answer => Int -> Int -> [Way input answer] -> input -> IO (Either (String, String) (Contest answer))
compete rounds times ways input = do
  results <- forM [0 .. max 1 rounds - 1] $ \i ->
    -- Whoever begins has colder caches: another one each round.
    unturned i <$> mapM (timed times input) (turned i ways)
  pure $ case concat results of
    [] -> error "compete: no ways"
    (answer, _) : _
      | (wrong, _) : _ <- filter ((/= answer) . fst . snd) (zip (cycle names) (concat results)) -> Left (head names, wrong)
      | otherwise -> Right (Contest answer [(name, map (snd . (!! k)) results) | (k, name) <- zip [0 ..] names])
  where
    names = map wayName ways
    turned i list = let (later, sooner) = splitAt (i `rem` length list) list in sooner ++ later
    unturned i list = turned (length list - i `rem` length list) list

timed :: Int -> input -> Way input answer -> IO (answer, Word64)
timed times input (Way _ run) = do
  performMajorGC
  start <- getMonotonicTimeNSec
  replicateM_ (times - 1) (anew run input)
  answer <- anew run input
  end <- getMonotonicTimeNSec
  pure (answer, (end - start) `quot` fromIntegral times)

-- Not inlined, or the compiler would compute the answer once for all.
anew :: (input -> answer) -> input -> IO answer
anew run input = evaluate (run input)
{-# NOINLINE anew #-}

-- | The middle one; the higher of two.
median :: [Word64] -> Word64
median times = sort times !! (length times `quot` 2)

-- | One line: what came out, the median time of each way, how much faster than the first each is.
report :: String -> String -> [(String, [Word64])] -> String
report program answer times =
  program <> "  result " <> answer <> concatMap one (zip [0 :: Int ..] medians)
  where
    medians = map (fmap median) times
    base = head (map snd medians)
    one (0, (name, time)) = "  " <> name <> " " <> duration time
    one (_, (name, time)) = "  " <> name <> " " <> duration time <> printf " (%.2fx)" (ratio base time)
    ratio a b = fromIntegral a / fromIntegral (max 1 b) :: Double

duration :: Word64 -> String
duration ns
  | ns < 100000 = printf "%.1f us" (fromIntegral ns / 1e3 :: Double)
  | ns < 10000000 = printf "%.2f ms" (fromIntegral ns / 1e6 :: Double)
  | otherwise = printf "%.0f ms" (fromIntegral ns / 1e6 :: Double)
