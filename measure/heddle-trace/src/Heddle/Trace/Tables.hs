{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Trace.Tables
-- Description : A log's tables as text in cells
-- Stability   : stable
--
-- Everything that a log's summary and its page say in words and numbers, computed and rounded once.
-- "Heddle.Trace.Summary" lays the tables out for a terminal and "Heddle.Trace.Page" as HTML; neither computes a
-- number of its own, so they cannot differ.
--
-- All text is valid UTF-8 without control characters.
--
-- Cost: linear in the rows. Owner: values.
module Heddle.Trace.Tables
  ( -- * Tables
    tables,
    Table (..),
    Row (..),
    Cell (..),

    -- * Sentences
    titleOf,
    facts,
    skippedText,

    -- * Text
    duration,
    durationSteps,
    printable,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString qualified as Bytes
import Data.ByteString.Char8 qualified as Char8
import Data.List (intercalate, sortOn, transpose)
import Data.Ord (Down (..))
import Heddle.Bytes.Utf8 (repair, toByteString)
import Heddle.Prim.Trace (markerText)
import Heddle.Trace.Log (Note (..))
import Heddle.Trace.Types
import Numeric (showFFloat)

-- | Rows of cells with a heading for each column.
data Table = Table
  { -- | In one or two words, for a page.
    tableTitle :: !ByteString,
    -- | A sentence about its meaning, for a page.
    tableAbout :: !ByteString,
    -- | The headings: of the rows' names, then of their cells.
    tableColumns :: ![ByteString],
    tableRows :: ![Row],
    -- | A sentence about rows that are left out; empty if there are none.
    tableMore :: !ByteString
  }
  deriving stock (Eq, Show)

-- | A row with its name.
data Row = Row
  { rowName :: !ByteString,
    -- | The thread that it is about.
    rowThread :: !(Maybe Int),
    rowCells :: ![Cell]
  }
  deriving stock (Eq, Show)

-- | A number or a few words.
data Cell = Cell
  { -- | The number before it was rounded, to sort by: in nanoseconds or bytes, or a count. A percentage has its time.
    cellNumber :: !(Maybe Int),
    cellText :: !ByteString
  }
  deriving stock (Eq, Show)

-- | The tables of a log that are not empty, with at most the given number of threads: cores, latencies, threads, what
-- threads were blocked on, workers of heddle-sched, Heddle's markers, collections, sparks, the heap.
--
-- [Cost]: linear in the rows.
tables :: Int -> Trace -> [Table]
tables most t =
  filter
    (\table -> not (null (tableRows table) && Bytes.null (tableMore table)))
    [ Table
        "Cores"
        "The part of the time in which each core ran a thread, collected garbage or was idle. Work waited: some thread \
        \was ready meanwhile, on this core or another."
        ["core", "running", "GC", "idle", "idle: work waited", "idle: nothing to run", "runs", "last waited for"]
        (map core (traceCores t))
        "",
      Table
        "Latency"
        "How long threads that were woken, or whose turn was over, waited for a core; how long they ran and were \
        \blocked; how long each core stood still for collections."
        ["latency", "count", "median", "90%", "99%", "greatest"]
        [ spread "wake-up (ready to running)" (traceReady t),
          spread "run" (traceRun t),
          spread "blocked" (traceWait t),
          spread "GC pause of a core" (tracePause t)
        ]
        "",
      Table
        "Threads"
        "How long each thread ran and was blocked (waiting), and how long it was ready before a core ran it \
        \(wake-ups). The median and 99% are right to a factor of two."
        ( ["thread", "runs", "running", "waits", "waiting", "longest"]
            ++ ["wake-ups", "median", "99%", "greatest", "moves", "last stop"]
        )
        (map thread listed)
        (mconcat (concat [["and ", counted left "thread", " more, which ran ", duration leftRan] | left > 0])),
      Table
        "Blocked on"
        "What threads waited for when they were blocked."
        ["blocked on", "count", "in all", "mean", "greatest"]
        (map blocked (traceBlocked t))
        "",
      Table
        "Workers"
        "The part of the time in which each worker of heddle-sched ran tasks, searched for work and slept, and how \
        \often it stole."
        ["worker", "running", "searching", "asleep", "steals"]
        (map worker (traceWorkers t))
        "",
      Table
        "Markers"
        "How often event managers and workers said what they do."
        ("markers of core" : occurring (map (Bytes.drop 7 . markerText) [minBound ..]))
        (counts (occurring . coreMarkers) (filter (any (> 0) . coreMarkers) (traceCores t)))
        "",
      Table
        "Collections"
        "Garbage collections by generation: their pauses, and the bytes that they copied."
        ["generation", "collections", "in all", "greatest", "copied"]
        (map collections (traceCollections t))
        "",
      Table
        "Sparks"
        "What became of the sparks that each core made."
        ["sparks of core", "created", "dud", "overflowed", "converted", "collected", "fizzled"]
        (counts (take 6 . coreSparks) (filter (any (> 0) . coreSparks) (traceCores t)))
        "",
      Table
        "Heap"
        "Live data after collections."
        ["heap", "greatest"]
        [Row "live" Nothing [memory (traceHeapMax t)] | traceHeapMax t > 0]
        ""
    ]
  where
    wall = traceEnd t - traceBegin t
    count n = Cell (Just n) (number n)
    time n = Cell (Just n) (duration n)
    memory n = Cell (Just n) (bytes n)
    part n = Cell (Just n) (percent n)
    percent :: Int -> ByteString
    percent n
      | wall <= 0 = "-"
      | otherwise = Char8.pack (showFFloat (Just 1) (100 * fromIntegral n / fromIntegral wall :: Double) "%")
    spread name d =
      Row name Nothing . (count (distributionCount d) :) $
        map (time . ($ d)) [distributionMedian, distribution90, distribution99, distributionMax]
    blocked (Blocked reason n total most') =
      Row (because reason) Nothing [count n, time total, time (total `div` max 1 n), time most']
    worker w =
      Row (named (workerThread w) (workerLabel w)) (Just (workerThread w)) $
        map (part . ($ w)) [workerRunning, workerSearching, workerSleeping] ++ [count (workerSteals w)]
    collections (Collections generation n total greatest copied) =
      Row (number generation) Nothing [count n, time total, time greatest, memory copied]
    because = Char8.pack . reasonName
    core c =
      Row (number (coreNumber c)) Nothing $
        map part [coreRunning c, coreCollecting c, coreIdle c, coreIdleReady c, coreIdle c - coreIdleReady c]
          ++ [count (coreRuns c), Cell Nothing (Bytes.intercalate ", " (map reasonPart (longest (coreIdleReasons c))))]
    longest = take 3 . sortOn (Down . snd)
    counts of' cores = [Row (number (coreNumber c)) Nothing (map count (of' c)) | c <- cores]
    reasonPart (reason, n) = because reason <> " " <> percent n
    (listed, hidden) = splitAt most (traceThreads t)
    left = length hidden + fst (traceOthers t)
    leftRan = sum (map threadRunning hidden) + snd (traceOthers t)
    thread th =
      Row
        (named (threadNumber th) (threadLabel th))
        (Just (threadNumber th))
        [ count (threadRuns th),
          time (threadRunning th),
          count (threadWaits th),
          time (threadWaiting th),
          time (threadWaitMax th),
          count (threadWakes th),
          time (threadReadyMedian th),
          time (threadReady99 th),
          time (threadReadyMax th),
          count (threadMigrations th),
          Cell Nothing (because (threadReason th))
        ]
    named n label = printable (threadName n label)
    -- Without the kinds of markers that no core has.
    occurring :: [a] -> [a]
    occurring columns = [column | (column, True) <- zip columns occurs]
    occurs = map (any (> 0)) (transpose (map coreMarkers (traceCores t)))

-- | The title of a log: the chosen name; otherwise the program with its arguments, if the log has them, and the log's
-- file, both without their folders.
titleOf :: Maybe ByteString -> ByteString -> Trace -> ByteString
titleOf (Just name) _ _ = printable name
titleOf Nothing file t = printable $ case traceCommand t of
  [] -> base file
  program : arguments -> Char8.unwords (base program : map quoted arguments) <> " (" <> base file <> ")"
  where
    base = Char8.takeWhileEnd (/= '/')
    quoted argument
      | Bytes.null argument || Char8.any (== ' ') argument = "'" <> argument <> "'"
      | otherwise = argument

-- | How long the log is, and of how many events, cores, threads and messages; the runtime's version.
facts :: Trace -> ByteString
facts t =
  Bytes.intercalate ", " . filter (not . Bytes.null) $
    [ duration (traceEnd t - traceBegin t),
      counted (traceEvents t) "event",
      counted (length (traceCores t)) "core",
      counted (length (traceThreads t) + fst (traceOthers t)) "thread",
      counted (traceMessages t) "message",
      printable (traceRuntime t)
    ]

-- | A sentence for each note, and for those beyond the first 20.
skippedText :: ([Note], Int) -> Int -> [String]
skippedText (notes, count) skipped =
  ["byte " ++ show (noteOffset n) ++ ": " ++ noteText n | n <- notes]
    ++ [Char8.unpack ("and " <> counted (count - length notes) "damaged place" <> " more") | count > length notes]
    ++ [Char8.unpack (counted skipped "byte" <> " skipped in all") | skipped > 0]

counted :: Int -> ByteString -> ByteString
counted n what = number n <> " " <> what <> (if n == 1 then "" else "s")

number :: Int -> ByteString
number = Char8.pack . show

-- | Nanoseconds with at most three digits and a unit; halves are rounded up.
--
-- >>> map duration [999, 1000, 9994, 9995, 999499, 999500]
-- ["999 ns","1.00 us","9.99 us","10.0 us","999 us","1.00 ms"]
duration :: Int -> ByteString
duration n = go durationSteps
  where
    go ((step, places, unit) : coarser)
      | rounded < 1000 || null coarser = Char8.pack (decimals places (show rounded)) <> " " <> unit
      | otherwise = go coarser
      where
        rounded = (n + step `div` 2) `div` step
    go [] = number n
    decimals :: Int -> String -> String
    decimals 0 digits = digits
    decimals places digits = intercalate "." [whole, rest]
      where
        (whole, rest) = splitAt (length digits - places) digits

-- | Steps to which durations are rounded, finest first: in nanoseconds, with the decimals and the unit that a number
-- of them is written with. A duration takes the first step of which it has fewer than a thousand. The page's script
-- is given this list and rounds in the same way.
durationSteps :: [(Int, Int, ByteString)]
durationSteps =
  (1, 0, "ns") :
    [ (unit `div` 10 ^ places, places, name)
      | (unit, name) <- [(1000, "us"), (1000000, "ms"), (1000000000, "s")],
        places <- [2, 1, 0]
    ]

bytes :: Int -> ByteString
bytes n
  | n < 10000 = number n <> " B"
  | n < 10000000 = number (n `div` 1000) <> " kB"
  | otherwise = number (n `div` 1000000) <> " MB"

-- | Text of a log for readers. Invalid UTF-8 is repaired, and control characters, which could move a terminal's cursor,
-- become question marks.
printable :: ByteString -> ByteString
printable = toByteString . repair . Char8.map (\c -> if c < ' ' || c == '\DEL' then '?' else c)
