-- | What a run has measured, as the reports show it.
--
-- Cost: the ratios of a session draw 'resamples' resamples each.
-- Owner: values; samples stay in their tables.
module Heddle.Measure.Report
  ( Report (..),
    Entry (..),
    Comparison (..),
    Growth (..),
    showNanos,
    showRatio,
    showPercent,
    showBytes,
    showGrowth,
    verdict,
    comparisons,
    growthOf,
  )
where

import Data.List (intercalate, partition)
import Data.Maybe (mapMaybe)
import Heddle.Measure.Run
import Heddle.Measure.Statistics
import Numeric (showFFloat)
import Text.Read (readMaybe)

-- | A whole run.
data Report = Report
  { reportEntries :: [Entry],
    -- | What could not be measured on this machine.
    reportAbsent :: [String],
    -- | Where it ran, as names and values.
    reportMachine :: [(String, String)],
    -- | The loop's time, which has been subtracted.
    reportOverhead :: !Double,
    reportComparisons :: [Comparison],
    reportGrowths :: [Growth]
  }

-- | A benchmark and how it ended.
data Entry = Entry
  { entryName :: String,
    -- | The path above it: those with the same one are drawn together.
    entryGroup :: String,
    entryOutcome :: Outcome
  }

-- | A ratio of times: below 1 the first is faster.
data Comparison = Comparison
  { comparedName :: String,
    comparedWith :: String,
    -- | 'Nothing' if a time is too small to compare.
    comparedRatio :: Maybe Interval
  }

-- | How a group's time grows.
data Growth = Growth
  { growthName :: String,
    growthPoints :: [(Int, Double)],
    -- | The sizes whose times are too small to compare; the fit is without them.
    growthLeftOut :: [Int],
    growthFit :: Maybe Fit
  }

-- | The ratios of a session's alternatives to the first, of the rounds that both have finished.
comparisons :: Settings -> Double -> Session -> [(Case, Outcome)] -> IO [Comparison]
comparisons settings overhead session results = case (sessionKind session, results) of
  (Just Alternatives, (first, Finished reference) : others) -> do
    base <- adjustedTimes overhead (samplesOf reference)
    sequence
      [ do
          times <- adjustedTimes overhead (samplesOf other)
          pure $! Comparison (caseName (casePath c)) (caseName (casePath first)) $! ratioInterval (Seed (randomSeed settings)) times base
        | (c, Finished other) <- others
      ]
  _ -> pure []

-- | A judgement of a ratio by its interval, in words.
verdict :: Comparison -> String
verdict compared = case comparedRatio compared of
  Nothing -> "too small to compare"
  Just ratio
    | upper ratio < 1 -> "faster"
    | lower ratio > 1 -> "slower"
    | otherwise -> "no difference shown"

-- | How the time of a session of sizes grows.
growthOf :: Session -> [(Case, Outcome)] -> [Growth]
growthOf session results = case sessionKind session of
  Just Sizes
    | times <- [(n, wallTime (summary m)) | (c, Finished m) <- results, n : _ <- [mapMaybe readMaybe (reverse (casePath c))]],
      (large, small) <- partition ((> 0) . estimate . snd) times ->
      [Growth (caseName (sessionPath session)) [(n, estimate t) | (n, t) <- times] (map fst small) (fitOrder [(fromIntegral n, estimate t) | (n, t) <- large])]
  _ -> []

-- | A time with a unit and three or four digits.
showNanos :: Double -> String
showNanos t
  | t < 1e3 = digits t ++ " ns"
  | t < 1e6 = digits (t / 1e3) ++ " \181s"
  | t < 1e9 = digits (t / 1e6) ++ " ms"
  | otherwise = digits (t / 1e9) ++ " s"

digits :: Double -> String
digits x
  | x < 10 = showFFloat (Just 2) x ""
  | x < 100 = showFFloat (Just 1) x ""
  | otherwise = showFFloat (Just 0) x ""

-- | A ratio with its interval.
showRatio :: Interval -> String
showRatio (Interval e l u) = showFFloat (Just 3) e "x [" ++ showFFloat (Just 3) l ", " ++ showFFloat (Just 3) u "]"

-- | Half the width of an interval, relative to its estimate.
showPercent :: Interval -> String
showPercent (Interval e l u)
  | e <= 0 = "-"
  | otherwise = "\177" ++ showFFloat (Just 1) (50 * (u - l) / e) "%"

-- | Memory with a unit.
showBytes :: Double -> String
showBytes b
  | b < 10000 = showFFloat (Just 0) b " B"
  | b < 1e7 = digits (b / 1024) ++ " KiB"
  | otherwise = digits (b / 1048576) ++ " MiB"

-- | The fitted order, how clear it is, and which sizes were left out.
showGrowth :: Growth -> String
showGrowth growth = maybe "no order can be told from fewer than four sizes" (("grows as " ++) . showFit) (growthFit growth) ++ leftOut
  where
    leftOut = case growthLeftOut growth of
      [] -> ""
      sizes -> "; too small to compare: " ++ intercalate ", " (map show sizes)
