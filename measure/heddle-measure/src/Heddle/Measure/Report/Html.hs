{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Measure.Report.Html
-- Description : Results as a page for a browser
-- Stability   : stable
--
-- One file without scripts and without anything from elsewhere: tables, bars with intervals, the densities and the
-- course of the samples, and growth on logarithmic axes. It follows the reader's choice of light or dark, and fits a
-- narrow screen.
--
-- Cost: about 10 KiB for each benchmark, whatever the number of its samples.
-- Owner: values.
module Heddle.Measure.Report.Html
  ( reportHtml,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString.Builder (Builder, stringUtf8, toLazyByteString)
import Data.ByteString.Lazy qualified as Lazy
import Data.List (nub)
import Data.Primitive.PrimArray (generatePrimArray, indexPrimArray, sizeofPrimArray)
import Heddle.Measure.Report
import Heddle.Measure.Run
import Heddle.Measure.Statistics
import Numeric (showFFloat)

-- | A page with this title.
reportHtml :: String -> Report -> IO ByteString
reportHtml title report = do
  sections <- mapM benchmarkSection (reportEntries report)
  pure . Lazy.toStrict . toLazyByteString $
    "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">"
      <> "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\">"
      <> "<link rel=\"icon\" href=\"data:,\"><title>"
      <> text title
      <> "</title><style>"
      <> style
      <> "</style></head><body><main><h1>"
      <> text title
      <> "</h1>"
      <> machine report
      <> foldMap (overview report) (nub (map entryGroup (reportEntries report)))
      <> comparisonTable (reportComparisons report)
      <> foldMap growthSection (reportGrowths report)
      <> "<h2>Each benchmark</h2>"
      <> mconcat sections
      <> "</main></body></html>\n"

-- Names come from the program that is measured, and from its exceptions.
text :: String -> Builder
text = stringUtf8 . concatMap escape
  where
    escape = \case
      '<' -> "&lt;"
      '>' -> "&gt;"
      '&' -> "&amp;"
      '"' -> "&quot;"
      '\'' -> "&#39;"
      -- No encoding has halves of surrogate pairs.
      c | c >= '\xd800' && c <= '\xdfff' -> "\xfffd"
      c -> [c]

style :: Builder
style =
  "\n:root{color-scheme:light dark;--fg:#1c2330;--soft:#5d6675;--bg:#fff;--card:#f4f6f9;--line:#d5dae2;--mark:#2563b8;--light:#9dc0ec;--bad:#b3261e}\
  \\n@media(prefers-color-scheme:dark){:root{--fg:#e4e8ee;--soft:#9aa4b3;--bg:#14181f;--card:#1d232d;--line:#37404d;--mark:#6ea8f0;--light:#2f4f7a;--bad:#ff8a80}}\
  \\nbody{margin:0;background:var(--bg);color:var(--fg);font:15px/1.5 system-ui,sans-serif}main{max-width:60rem;margin:0 auto;padding:1rem}\
  \\nh1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2rem}h3{font-size:1rem;margin:0 0 .5rem;overflow-wrap:anywhere}\
  \\n.soft{color:var(--soft)}.bad{color:var(--bad)}section{background:var(--card);border:1px solid var(--line);border-radius:.5rem;padding:.8rem;margin:.8rem 0}\
  \\n.bar{display:grid;grid-template-columns:minmax(6rem,30%) 1fr minmax(7rem,auto);gap:.6rem;align-items:center;margin:.25rem 0}\
  \\n.bar>:first-child{overflow-wrap:anywhere}.track{position:relative;height:1.1rem}.fill{position:absolute;inset:0 auto 0 0;background:var(--light);border-radius:.2rem}\
  \\n.whisker{position:absolute;top:45%;height:10%;background:var(--fg);min-width:2px}.number{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}\
  \\n.scroll{overflow-x:auto}table{border-collapse:collapse}td,th{padding:.2rem .7rem .2rem 0;text-align:left;font-variant-numeric:tabular-nums;white-space:nowrap}th{font-weight:600;color:var(--soft)}\
  \\n.plots{display:grid;grid-template-columns:1fr 1fr;gap:1rem}figure{margin:.5rem 0 0}figcaption{color:var(--soft);font-size:.85rem}\
  \\nsvg{display:block;width:100%;height:9rem;border-bottom:1px solid var(--line);border-left:1px solid var(--line)}\
  \\n.area{fill:var(--light)}.curve{fill:none;stroke:var(--mark);stroke-width:1.5;vector-effect:non-scaling-stroke}.mid{stroke:var(--fg);stroke-dasharray:4 3;vector-effect:non-scaling-stroke}\
  \\n.dot{stroke:var(--mark);stroke-width:4;stroke-linecap:round;vector-effect:non-scaling-stroke}.axis{display:flex;justify-content:space-between;color:var(--soft);font-size:.8rem}\
  \\n@media(max-width:40rem){.plots{grid-template-columns:1fr}.bar{grid-template-columns:1fr auto}.bar>.track{grid-column:1/-1;grid-row:2}}\n"

machine :: Report -> Builder
machine report =
  "<p class=\"soft\">"
    <> text (concatMap (\(name, value) -> name ++ ": " ++ value ++ "; ") (reportMachine report))
    <> text ("the loop's " ++ showNanos (reportOverhead report) ++ " per run are subtracted. Intervals are 95 %, from a block bootstrap.")
    <> "</p>"
    <> foldMap (\note -> "<p class=\"soft\">Note: " <> text note <> "</p>") (reportAbsent report)

-- | The times of a group as bars, with their intervals across the ends.
overview :: Report -> String -> Builder
overview report group =
  "<section><h3>"
    <> text (if null group then "Benchmarks" else group)
    <> "</h3>"
    <> foldMap row entries
    <> "</section>"
  where
    entries = filter ((== group) . entryGroup) (reportEntries report)
    longest = maximum (1e-9 : [upper (wallTime (summary m)) | Entry _ _ (Finished m) <- entries])
    row (Entry name _ outcome) =
      "<div class=\"bar\"><span>" <> text (shortened name) <> "</span>" <> case outcome of
        Failed why -> "<span class=\"bad\">failed: " <> text why <> "</span><span></span></div>"
        Finished m ->
          let Interval e l u = wallTime (summary m)
           in "<span class=\"track\"><span class=\"fill\" style=\"width:" <> percent (e / longest) <> "\"></span><span class=\"whisker\" style=\"left:"
                <> percent (max 0 l / longest)
                <> ";width:"
                <> percent ((u - max 0 l) / longest)
                <> "\"></span></span><span class=\"number\">"
                <> text (showNanos e ++ " " ++ showPercent (wallTime (summary m)))
                <> "</span></div>"
    shortened name
      | null group = name
      | otherwise = drop (length group + 1) name

percent :: Double -> Builder
percent x = decimals (100 * max 0 (min 1 x)) <> "%"

decimals :: Double -> Builder
decimals x = stringUtf8 (showFFloat (Just 2) x "")

comparisonTable :: [Comparison] -> Builder
comparisonTable [] = mempty
comparisonTable compared =
  "<h2>Ratios of times</h2><div class=\"scroll\"><table><tr><th>benchmark</th><th>divided by</th><th>ratio</th><th>95 % interval</th><th></th></tr>"
    <> foldMap row compared
    <> "</table></div>"
  where
    row c@(Comparison name other ratio) =
      "<tr><td>" <> text name <> "</td><td>" <> text other <> "</td><td>" <> foldMap (three . estimate) ratio <> "</td><td>" <> foldMap range ratio <> "</td><td>" <> text (verdict c) <> "</td></tr>"
    range (Interval _ l u) = three l <> " to " <> three u
    three x = stringUtf8 (showFFloat (Just 3) x "")

growthSection :: Growth -> Builder
growthSection g =
  "<section><h3>" <> text (growthName g) <> "</h3><p>" <> text (showGrowth g) <> "</p>" <> plot <> "</section>"
  where
    points = [(log (fromIntegral n), log t) | (n, t) <- growthPoints g, n > 0, t > 0]
    plot
      | length points < 2 = mempty
      | otherwise =
        figure
          "Time by size of the input, both on logarithmic axes; the line is the fit."
          (show (minimum (map fst (growthPoints g))))
          (show (maximum (map fst (growthPoints g))))
          ("<path class=\"curve\" d=\"" <> polyline (map place fit) <> "\"/>" <> foldMap (dot . place) points)
    (x0, x1) = (minimum (map fst points), maximum (map fst points))
    fit = case growthFit g of
      Nothing -> points
      Just f -> [(x, log y) | k <- [0 .. 60 :: Int], let x = x0 + (x1 - x0) * fromIntegral k / 60, let y = fitConstant f + fitFactor f * orderGrowth (fitted f) (exp x), y > 0]
    (y0, y1) = let ys = map snd (points ++ fit) in (minimum ys, maximum ys)
    place (x, y) = (scaled x0 x1 x, 96 - 0.92 * scaled y0 y1 y)
    dot (x, y) = "<path class=\"dot\" d=\"M" <> decimals x <> " " <> decimals y <> "h.01\"/>"

-- Into 0 to 100.
scaled :: Double -> Double -> Double -> Double
scaled low high x
  | high <= low = 50
  | otherwise = 100 * (x - low) / (high - low)

polyline :: [(Double, Double)] -> Builder
polyline = foldMap step . zip (True : repeat False)
  where
    step (first, (x, y)) = (if first then "M" else "L") <> decimals x <> " " <> decimals y

figure :: String -> String -> String -> Builder -> Builder
figure caption left right shapes =
  "<figure><svg viewBox=\"0 0 100 100\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"" <> text caption <> "\">"
    <> shapes
    <> "</svg><div class=\"axis\"><span>"
    <> text left
    <> "</span><span>"
    <> text right
    <> "</span></div><figcaption>"
    <> text caption
    <> "</figcaption></figure>"

benchmarkSection :: Entry -> IO Builder
benchmarkSection (Entry name _ (Failed why)) = pure ("<section><h3>" <> text name <> "</h3><p class=\"bad\">Failed: " <> text why <> "</p></section>")
benchmarkSection (Entry name _ (Finished m)) = do
  times <- adjustedTimes 0 (samplesOf m)
  let s = summary m
  pure $
    "<section><h3>" <> text name <> "</h3><div class=\"scroll\"><table>"
      <> interval "wall time" (wallTime s)
      <> interval "CPU time" (cpuTime s)
      <> row "fastest, median" [showNanos (fastest s) ++ ", " ++ showNanos (medianTime s)]
      <> memory "allocated" (allocated s)
      <> memory "copied by the collector" (copied s)
      <> maybe mempty (\t -> row "collector's time" [showNanos t]) (collecting s)
      <> events "instructions" (instructions s)
      <> events "cache misses" (cacheMisses s)
      <> row "samples" [counted (sampleTotal s) "sample" ++ " of " ++ runsEach (iterationsEach s)]
      <> row "outliers" [show (outlierCount (outliers s))]
      <> row "independence" ["Durbin\8211Watson " ++ showFFloat (Just 2) (serialCorrelation s) "; worth " ++ counted (round (effectiveSamples s)) "independent sample"]
      <> "</table></div>"
      <> foldMap (\note -> "<p>Note: " <> text note <> "</p>") (warnings s)
      <> plots times
      <> "</section>"
  where
    row label cells = "<tr><th>" <> text label <> "</th>" <> foldMap (\c -> "<td>" <> text c <> "</td>") cells <> "</tr>"
    counted n what = show (n :: Int) ++ " " ++ what ++ ['s' | n /= 1]
    runsEach n = counted n "run" ++ (if n == 1 then "" else " each")
    interval label i = row label [showNanos (estimate i) ++ ", between " ++ showNanos (lower i) ++ " and " ++ showNanos (upper i)]
    memory label = maybe mempty (\b -> row label [showBytes b])
    events label = maybe mempty (\n -> row label [showFFloat (Just 1) n ""])

plots :: Sample -> Builder
plots times
  | sizeofPrimArray times < 2 = mempty
  | otherwise = "<div class=\"plots\">" <> densityPlot times <> coursePlot times <> "</div>"

densityPlot :: Sample -> Builder
densityPlot times = case density 100 times of
  [] -> mempty
  curve ->
    let (xs, ys) = unzip curve
        (x0, x1, highest) = (minimum xs, maximum xs, maximum ys)
        place (x, y) = (scaled x0 x1 x, 100 - 95 * y / highest)
        line = polyline (map place curve)
        middle = scaled x0 x1 (median times)
     in figure "Density of the samples; the dashed line is the median." (showNanos x0) (showNanos x1) $
          "<path class=\"area\" d=\"" <> line <> "L100 100L0 100Z\"/><path class=\"curve\" d=\"" <> line <> "\"/><path class=\"mid\" d=\"M" <> decimals middle <> " 0V100\"/>"

-- Long courses are drawn by the medians of neighbours.
coursePlot :: Sample -> Builder
coursePlot times =
  figure ("Samples in the order in which they were taken, from " ++ showNanos y0 ++ " to " ++ showNanos y1 ++ ".") "first" "last" $
    "<path class=\"curve\" d=\"" <> polyline [(scaled 0 (fromIntegral (n - 1)) (fromIntegral i), 96 - 0.92 * scaled y0 y1 y) | (i, y) <- zip [0 :: Int ..] shown] <> "\"/>"
  where
    size = sizeofPrimArray times
    width = max 1 ((size + 249) `div` 250)
    shown = [median (generatePrimArray (min width (size - start)) (\k -> indexPrimArray times (start + k))) | start <- [0, width .. size - 1]]
    n = length shown
    (y0, y1) = (minimum shown, maximum shown)
