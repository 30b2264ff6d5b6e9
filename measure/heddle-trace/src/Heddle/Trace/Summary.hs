{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Trace.Summary
-- Description : A log's tables for a terminal
-- Stability   : stable
--
-- Cost: linear in the rows. Owner: values.
module Heddle.Trace.Summary
  ( summary,
    duration,
    printable,
    skippedText,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString qualified as Bytes
import Data.ByteString.Char8 qualified as Char8
import Data.List (intercalate, sortOn, transpose)
import Data.Ord (Down (..))
import Heddle.Prim.Trace (markerText)
import Heddle.Trace.Log (Note (..))
import Heddle.Trace.Model
import Numeric (showFFloat)

-- | The tables: cores, why they were idle, latencies, threads (at most the given number), what threads were blocked on, workers of heddle-sched,
-- Heddle's markers, collections.
summary :: Int -> Trace -> ByteString
summary most t =
  Char8.unlines . map (Char8.dropWhileEnd (== ' ')) . intercalate [""] . filter (not . null) $
    [ [ printable (traceProgram t),
        Char8.pack (duration wall ++ ", " ++ show (traceEvents t) ++ " events, " ++ counted (length (traceCores t)) "core" ++ ", " ++ counted (length (traceThreads t) + fst (traceOthers t)) "thread")
          <> (if Bytes.null (traceRuntime t) then "" else ", " <> printable (traceRuntime t))
      ],
      table "core" (["running", "GC", "idle", "idle: work waited", "idle: nothing to run", "runs", "last waited for"] : map core (traceCores t)) (map (show . coreNumber) (traceCores t)),
      table
        "latency"
        (["count", "median", "90%", "99%", "greatest"] : map (distribution . snd) spreads)
        (map fst spreads),
      table
        "thread"
        (["runs", "running", "waits", "waiting", "longest", "wake-ups", "median", "99%", "greatest", "moves"] : map thread shown)
        (map name shown),
      [Char8.pack ("and " ++ counted left "thread" ++ " more, which ran " ++ duration leftRan) | left > 0],
      table
        "blocked on"
        (["count", "in all", "mean", "greatest"] : [[show (blockedCount b), duration (blockedTime b), duration (blockedTime b `div` blockedCount b), duration (blockedMax b)] | b <- traceBlocked t])
        (map (reasonName . blockedReason) (traceBlocked t)),
      table
        "worker"
        (["running", "searching", "asleep", "steals"] : [map (percent . ($ w)) [workerRunning, workerSearching, workerSleeping] ++ [show (workerSteals w)] | w <- traceWorkers t])
        [Char8.unpack (Bytes.take 40 (printable (threadName (workerThread w) (workerLabel w)))) | w <- traceWorkers t],
      table "markers of core" (map Char8.unpack kindNames : map (map show . used . coreMarkers) marking) (map (show . coreNumber) marking),
      table
        "generation"
        (["collections", "in all", "greatest", "copied"] : [[show (collectionsCount c), duration (collectionsTime c), duration (collectionsMax c), bytes (collectionsCopied c)] | c <- traceCollections t])
        (map (show . collectionsGeneration) (traceCollections t)),
      table "sparks of core" (["created", "dud", "overflowed", "converted", "collected", "fizzled"] : map (map show . take 6 . coreSparks) sparking) (map (show . coreNumber) sparking),
      ["greatest live heap: " <> Char8.pack (bytes (traceHeapMax t)) | traceHeapMax t > 0]
    ]
  where
    wall = traceEnd t - traceBegin t
    spreads = [("wake-up (ready to running)", traceReady t), ("run", traceRun t), ("blocked", traceWait t), ("GC pause of a core", tracePause t)]
    distribution d = show (distributionCount d) : map (duration . ($ d)) [distributionMedian, distribution90, distribution99, distributionMax]
    core c =
      [ percent (coreRunning c),
        percent (coreCollecting c),
        percent (coreIdle c),
        percent (coreIdleReady c),
        percent (coreIdle c - coreIdleReady c),
        show (coreRuns c),
        intercalate ", " [reasonName r ++ " " ++ percent n | (r, n) <- take 3 (sortOn (Down . snd) (coreIdleReasons c))]
      ]
    percent n = if wall <= 0 then "-" else showFFloat (Just 1) (100 * fromIntegral n / fromIntegral wall :: Double) "%"
    (shown, hidden) = splitAt most (traceThreads t)
    left = length hidden + fst (traceOthers t)
    leftRan = sum (map threadRunning hidden) + snd (traceOthers t)
    name th = Char8.unpack (Bytes.take 40 (printable (threadName (threadNumber th) (threadLabel th))))
    thread th =
      [ show (threadRuns th),
        duration (threadRunning th),
        show (threadWaits th),
        duration (threadWaiting th),
        duration (threadWaitMax th),
        show (threadWakes th),
        duration (threadReadyMedian th),
        duration (threadReady99 th),
        duration (threadReadyMax th),
        show (threadMigrations th)
      ]
    marking = filter (any (> 0) . coreMarkers) (traceCores t)
    -- Without the kinds that do not occur.
    used counts = [n | (n, True) <- zip counts occurs]
    occurs = map (any (> 0)) (transpose (map coreMarkers (traceCores t)))
    kindNames = used' (map (Bytes.drop 7 . markerText) [minBound ..])
    used' names = [name' | (name', True) <- zip names occurs]
    sparking = filter (any (> 0) . coreSparks) (traceCores t)

counted :: Int -> String -> String
counted n what = show n ++ " " ++ what ++ (if n == 1 then "" else "s")

-- The first column to the left, the others to the right; nothing without rows.
table :: String -> [[String]] -> [String] -> [ByteString]
table what (header : rows) names
  | null rows = []
  | otherwise = map (Char8.pack . intercalate "  " . zipWith3 pad (True : repeat False) widths) lines'
  where
    lines' = (what : header) : zipWith (:) names rows
    widths = map (maximum . map length) (transpose lines')
    pad left n cell = if left then cell ++ replicate (n - length cell) ' ' else replicate (n - length cell) ' ' ++ cell
table _ [] _ = []

-- | Nanoseconds with three digits and a unit.
duration :: Int -> String
duration n
  | n < 1000 = show n ++ " ns"
  | n < 1000000 = digits 1e3 ++ " us"
  | n < 1000000000 = digits 1e6 ++ " ms"
  | otherwise = digits 1e9 ++ " s"
  where
    digits unit =
      let x = fromIntegral n / unit :: Double
       in showFFloat (Just (if x < 9.995 then 2 else if x < 99.95 then 1 else 0)) x ""

bytes :: Int -> String
bytes n
  | n < 10000 = show n ++ " B"
  | n < 10000000 = show (n `div` 1000) ++ " kB"
  | otherwise = show (n `div` 1000000) ++ " MB"

-- | Bytes of a log for a terminal: control characters, which could move its cursor, become question marks.
printable :: ByteString -> ByteString
printable = Char8.map (\c -> if c < ' ' || c == '\DEL' then '?' else c)

-- | A message for each note, and for those beyond the first 20.
skippedText :: ([Note], Int) -> Int -> [String]
skippedText (notes, count) skipped =
  ["byte " ++ show (noteOffset n) ++ ": " ++ noteText n | n <- notes]
    ++ ["and " ++ counted (count - length notes) "damaged place" ++ " more" | count > length notes]
    ++ [counted skipped "byte" ++ " skipped in all" | skipped > 0]
