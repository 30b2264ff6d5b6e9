-- |
-- Module      : Heddle.Measure.Report.Terminal
-- Description : Results as lines of text
-- Stability   : stable
--
-- A line for each benchmark, bars for those that ran together, and what makes numbers doubtful below them.
--
-- Cost: a few strings for each benchmark.
-- Owner: values.
module Heddle.Measure.Report.Terminal
  ( sessionLines,
    comparisonLine,
  )
where

import Heddle.Measure.Report
import Heddle.Measure.Run
import Heddle.Measure.Statistics

-- | The lines of one session's results, its comparisons and growths; the texts fit a terminal of 100 columns
-- where names are short.
sessionLines :: [Entry] -> [Comparison] -> [Growth] -> [String]
sessionLines entries compared growths =
  concatMap entry entries ++ map (("  " ++) . comparisonLine) compared ++ concatMap growth growths
  where
    width = maximum (24 : map (length . entryName) entries)
    slowest = maximum (1e-9 : [estimate (wallTime (summary m)) | Entry _ _ (Finished m) <- entries])
    entry (Entry name _ (Failed why)) = [pad width name ++ "  FAILED: " ++ why]
    entry (Entry name _ (Finished m)) =
      let s = summary m
       in (pad width name ++ "  " ++ padLeft 8 (showNanos (estimate (wallTime s))) ++ " " ++ pad 7 (showPercent (wallTime s)) ++ "  CPU " ++ padLeft 8 (showNanos (estimate (cpuTime s))) ++ memory s ++ events s ++ bar s) :
          map ("    note: " ++) (warnings s)
    memory s = maybe "" (\b -> "  " ++ padLeft 8 (showBytes b)) (allocated s) ++ maybe "" (\b -> "  copied " ++ showBytes b) (positive (copied s)) ++ maybe "" (\t -> "  GC " ++ showNanos t) (positive (collecting s))
    events s = maybe "" (\n -> "  " ++ short n ++ " instr") (instructions s) ++ maybe "" (\n -> "  " ++ short n ++ " misses") (cacheMisses s)
    bar s
      | length entries < 2 = ""
      | otherwise = "  " ++ replicate (max 1 (round (20 * estimate (wallTime s) / slowest))) '#'
    positive value = value >>= \v -> if v > 0 then Just v else Nothing
    short n = show (round n :: Int)
    growth g = ["  " ++ growthName g ++ " " ++ showGrowth g]
    pad n text = text ++ replicate (n - length text) ' '
    padLeft n text = replicate (n - length text) ' ' ++ text

-- | A ratio in words.
comparisonLine :: Comparison -> String
comparisonLine c@(Comparison name other ratio) = name ++ " / " ++ other ++ ": " ++ maybe "" ((++ "  ") . showRatio) ratio ++ verdict c
