{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Measure.Report.Json
-- Description : Results for programs: JSON, CSV, and baselines
-- Stability   : stable
--
-- Cost: a line or an object for each benchmark; JSON also has every sample.
-- Owner: values.
module Heddle.Measure.Report.Json
  ( reportJson,
    reportCsv,
    Baseline,
    readBaseline,
  )
where

import Data.ByteString (ByteString)
import Heddle.Bytes.Put (toByteString)
import Heddle.Json.Build
import Heddle.Json.Decode qualified as Decode
import Heddle.Json.Malformed (Malformed)
import Heddle.Measure.Report
import Heddle.Measure.Run
import Heddle.Measure.Samples (Field (..), perIteration)
import Heddle.Measure.Statistics

-- | The whole report. Times are nanoseconds for one run, memory is bytes; what was not measured is @null@. So is the
-- @ratio@ of a comparison whose times are too small to compare, and its @verdict@ says so; @too_small@ has the sizes that
-- the @order@ of a growth leaves out for this reason.
reportJson :: Report -> IO ByteString
reportJson report = do
  series <- mapM samplesFor (reportEntries report)
  pure . toByteString . encode . object $
    "benchmarks" <:> array (foldMap (mixed . benchmark) (zip (reportEntries report) series))
      <> "comparisons" <:> array (foldMap (mixed . comparison) (reportComparisons report))
      <> "scaling" <:> array (foldMap (mixed . growth) (reportGrowths report))
      <> "loop_overhead" <:> double (reportOverhead report)
      <> "machine" <:> object (foldMap (\(name, value) -> nameString name <:> string value) (reportMachine report))
      <> "not_measured" <:> array (foldMap string (reportAbsent report))
  where
    samplesFor (Entry _ _ (Finished m)) = maybe [] sampleToList <$> perIteration (samplesOf m) Wall
    samplesFor _ = pure []
    benchmark (Entry name _ (Failed why), _) = object ("name" <:> string name <> "error" <:> string why)
    benchmark (Entry name _ (Finished m), times) =
      let s = summary m
       in object $
            "name" <:> string name
              <> "time" <:> interval (wallTime s)
              <> "cpu" <:> interval (cpuTime s)
              <> "fastest" <:> double (fastest s)
              <> "median" <:> double (medianTime s)
              <> "standard_deviation" <:> double (deviation s)
              <> "allocated" <:> optional (allocated s)
              <> "copied" <:> optional (copied s)
              <> "gc" <:> optional (collecting s)
              <> "instructions" <:> optional (instructions s)
              <> "cache_misses" <:> optional (cacheMisses s)
              <> "outliers" <:> int (outlierCount (outliers s))
              <> "durbin_watson" <:> double (serialCorrelation s)
              <> "effective_samples" <:> double (effectiveSamples s)
              <> "iterations" <:> int (iterationsEach s)
              <> "warnings" <:> array (foldMap string (warnings s))
              <> "samples" <:> array (foldMap double times)
    optional = maybe (mixed null_) (mixed . double)
    comparison c@(Comparison name other ratio) = object ("name" <:> string name <> "to" <:> string other <> "ratio" <:> maybe (mixed null_) (mixed . interval) ratio <> "verdict" <:> string (verdict c))
    growth g =
      object $
        "name" <:> string (growthName g)
          <> "points" <:> array (foldMap (\(n, t) -> mixed (object ("size" <:> int n <> "time" <:> double t))) (growthPoints g))
          <> "too_small" <:> array (foldMap int (growthLeftOut g))
          <> "order" <:> maybe (mixed null_) (mixed . string . orderName . fitted) (growthFit g)
          <> "weight" <:> maybe (mixed null_) (mixed . double . fitConfidence) (growthFit g)
    interval (Interval e l u) = object ("estimate" <:> double e <> "lower" <:> double l <> "upper" <:> double u)

-- | A header and a line for each benchmark that finished. Quotes in names are doubled.
reportCsv :: Report -> String
reportCsv report = unlines (header : [line name (summary m) | Entry name _ (Finished m) <- reportEntries report])
  where
    header = "Name,Time,TimeLower,TimeUpper,CPU,CPULower,CPUUpper,Fastest,Median,StdDev,Allocated,Copied,GC,Instructions,CacheMisses,Outliers,DurbinWatson,EffectiveSamples,Samples,Iterations"
    line name s =
      commas $
        quoted name :
        map show (three (wallTime s) ++ three (cpuTime s) ++ [fastest s, medianTime s, deviation s])
          ++ map (maybe "" show) [allocated s, copied s, collecting s, instructions s, cacheMisses s]
          ++ [show (outlierCount (outliers s)), show (serialCorrelation s), show (effectiveSamples s), show (sampleTotal s), show (iterationsEach s)]
    three (Interval e l u) = [e, l, u]
    commas = foldr1 (\a b -> a ++ "," ++ b)
    quoted name = "\"" ++ concatMap (\c -> if c == '"' then "\"\"" else [c]) name ++ "\""

-- | The times of an earlier run, by name.
type Baseline = [(String, Interval)]

-- | The benchmarks of a file that 'reportJson' made; those that failed are left out.
readBaseline :: ByteString -> Either Malformed Baseline
readBaseline bytes = concat <$> Decode.decode Decode.defaultLimits file bytes
  where
    file = Decode.record (Decode.required "benchmarks" (Decode.list benchmark))
    benchmark =
      Decode.record $
        (\name time -> [(name, t) | Just t <- [time]])
          <$> Decode.required "name" Decode.string
          <*> Decode.optional "time" interval
    interval =
      Decode.record $
        Interval
          <$> Decode.required "estimate" Decode.double
          <*> Decode.required "lower" Decode.double
          <*> Decode.required "upper" Decode.double
