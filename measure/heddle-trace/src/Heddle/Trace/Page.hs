{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Trace.Page
-- Description : A log as one page for a browser
-- Stability   : stable
--
-- The page has everything in it: nothing is loaded from elsewhere. It shows every run if there are at most 'maxSlices'
-- of them. Otherwise it has the longest ones, and for each core how busy it was in some thousands of equal parts of the
-- time; a window of the log ('writePage' takes one) then shows the rest.
--
-- Cost: memory and the page's size do not depend on the log's length.
-- Owner: the caller's handle.
module Heddle.Trace.Page
  ( writePage,
    maxSlices,
  )
where

import Control.Monad (forM_, when)
import Control.Monad.Primitive (RealWorld)
import Data.ByteString (ByteString)
import Data.ByteString qualified as Bytes
import Data.ByteString.Builder
import Data.ByteString.Char8 qualified as Char8
import Data.ByteString.Lazy qualified as Lazy
import Data.IntMap.Strict qualified as IntMap
import Data.Primitive.PrimArray
import Data.Word (Word8)
import Heddle.Bytes.Put (toByteString)
import Heddle.Json.Build qualified as Json
import Heddle.Prim.Atomic (Ref, modifyRef, newRef, readRef, writeRef)
import Heddle.Prim.Histogram (Precision (..), newRecorder, quantile, recordValue, snapshot)
import Heddle.Prim.Trace (markerText)
import Heddle.Trace.Log
import Heddle.Trace.Model
import Heddle.Trace.Summary (skippedText)
import Heddle.Trace.Template (pageAfter, pageBefore)
import System.IO (Handle)

-- | The most runs and collections that a page has.
maxSlices :: Int
maxSlices = 100000

maxRows, maxMessages, maxMarkers :: Int
maxRows = 2000
maxMessages = 3000
maxMarkers = 20000

-- | Read the log and write a page about the part between two times.
--
-- [Cost]: one pass.
-- [Blocks]: holds an OS thread while it reads or writes.
-- [Throws]: 'IOError'.
-- [Units]: nanoseconds since the program's start.
writePage :: Handle -> Log -> (Int, Int) -> IO ()
writePage handle l window = do
  let cores = max 1 (logStreams l)
      from = max (logBegin l) (fst window)
      until' = max (from + 1) (min (logEnd l) (snd window))
      bins = max 256 (min 8192 (400000 `div` cores))
      positions = IntMap.fromList [(streamCapability l i, i) | i <- [0 .. logStreams l - 1]]
      place core = IntMap.findWithDefault 0 core positions
  busy <- newPrimArray (2 * cores * bins) :: IO (MutablePrimArray RealWorld Double)
  setPrimArray busy 0 (2 * cores * bins) 0
  columns <- newPrimArray (columnCount * maxSlices)
  used <- newRef (0 :: Int)
  shortest <- newRef (0 :: Int)
  messages <- newRef ([], 0 :: Int)
  marks <- newPrimArray (3 * maxMarkers)
  marked <- newRef (0 :: Int)
  let width = fromIntegral (until' - from) / fromIntegral bins :: Double
      -- The part of each bin that the slice covers.
      spread :: Slice -> IO ()
      spread s = do
        let a = fromIntegral (max 0 (sliceBegin s - from)) / width
            b = fromIntegral (min until' (sliceEnd s) - from) / width
            base = (2 * place (sliceCore s) + (if sliceThread s < 0 then 1 else 0)) * bins
        forM_ [max 0 (floor a) .. min (bins - 1) (floor b)] $ \k -> do
          let part = min b (fromIntegral (k + 1)) - max a (fromIntegral k)
          readPrimArray busy (base + k) >>= writePrimArray busy (base + k) . (+ max 0 part)
      keep :: Slice -> IO ()
      keep s = do
        n <- readRef used
        when (n == maxSlices) (thin columns used shortest)
        i <- readRef used
        forM_ (zip [0 ..] [place (sliceCore s), sliceBegin s, sliceEnd s - sliceBegin s, sliceThread s, sliceReady s, sliceReason s]) $ \(f, v) ->
          writePrimArray columns (columnCount * i + f) v
        writeRef used (i + 1)
  known <-
    analyse l (const True) $
      Listener
        { onSlice = \s -> when (sliceEnd s >= from && sliceBegin s <= until') $ do
            spread s
            least <- readRef shortest
            when (sliceEnd s - sliceBegin s >= least) (keep s),
          onMessage = \core time message -> when (time >= from && time <= until') $
            modifyRef messages $ \(kept, n) ->
              ((if n < maxMessages then (core, time, Bytes.take 120 message) : kept else kept, n + 1), ()),
          onMarker = \core time marker -> when (time >= from && time <= until') $ do
            i <- readRef marked
            when (i < maxMarkers) $ forM_ (zip [0 ..] [place core, time, fromEnum marker]) $ \(f, v) -> writePrimArray marks (3 * i + f) v
            writeRef marked (i + 1)
        }
  n <- readRef used
  least <- readRef shortest
  frozen <- unsafeFreezePrimArray columns
  levels <- unsafeFreezePrimArray busy
  (kept, count) <- readRef messages
  markCount <- readRef marked
  frozenMarks <- unsafeFreezePrimArray marks
  notes <- skippedText <$> logNotes l <*> logSkipped l
  let column f = list [intDec (indexPrimArray frozen (columnCount * i + f)) | i <- [0 .. n - 1]]
      level k = string (Bytes.pack [shade (indexPrimArray levels (k * bins + i)) | i <- [0 .. bins - 1]])
      rows = take maxRows (traceThreads known)
      out = hPutBuilder handle
      key name value = string name <> ":" <> value
  out (byteString pageBefore)
  out . byteString . safe . Lazy.toStrict . toLazyByteString $
    "{"
      <> mconcat
        [ key "program" (string (traceProgram known)) <> ",",
          key "runtime" (string (traceRuntime known)) <> ",",
          key "begin" (intDec from) <> ",",
          key "end" (intDec until') <> ",",
          key "events" (intDec (traceEvents known)) <> ",",
          key "least" (intDec least) <> ",",
          key "notes" (list (map (string . Char8.pack) notes)) <> ",",
          key "reasons" (list [string (Char8.pack (reasonName r)) | r <- [0 .. 31]]) <> ",",
          key "streams" (list [intDec (streamCapability l i) | i <- [0 .. logStreams l - 1]]) <> ",",
          key "cores" (list [list (map intDec [coreNumber c, coreRunning c, coreCollecting c, coreIdle c, coreIdleReady c, coreRuns c]) | c <- traceCores known]) <> ",",
          key "idle" (list [list [list [intDec r, intDec t] | (r, t) <- coreIdleReasons c] | c <- traceCores known]) <> ",",
          key "threadCount" (intDec (length (traceThreads known) + fst (traceOthers known))) <> ",",
          key "threads" (list [list [intDec (threadNumber t), string (threadLabel t), intDec (threadRuns t), intDec (threadRunning t), intDec (threadWaiting t), intDec (threadWaitMax t), intDec (threadWakes t), intDec (threadReadyMedian t), intDec (threadReady99 t), intDec (threadReadyMax t), intDec (threadMigrations t), intDec (threadReason t)] | t <- rows]) <> ",",
          key "messageCount" (intDec count) <> ",",
          key "messages" (list [list [intDec c, intDec t, string m] | (c, t, m) <- reverse kept]) <> ",",
          key "workers" (list [list [intDec (workerThread w), string (workerLabel w), intDec (workerRunning w), intDec (workerSearching w), intDec (workerSleeping w), intDec (workerSteals w)] | w <- traceWorkers known]) <> ",",
          key "markers" (list [string (markerText k) | k <- [minBound ..]]) <> ",",
          key "marks" (list [list (map intDec (coreMarkers c)) | c <- traceCores known]) <> ",",
          key "markCount" (intDec markCount) <> ",",
          key "mark" (list [intDec (indexPrimArray frozenMarks i) | i <- [0 .. 3 * min maxMarkers markCount - 1]]) <> ",",
          key "busy" (list [level k | k <- [0 .. 2 * logStreams l - 1]])
        ]
  forM_ (zip [0 ..] ["place", "start", "length", "thread", "ready", "reason"]) $ \(f, name) ->
    out ("," <> key name (column f))
  out ("}" <> byteString pageAfter)

-- Core, begin, length, thread, how long it was ready, reason.
columnCount :: Int
columnCount = 6

-- Drop at least half: the shorter ones.
thin :: MutablePrimArray RealWorld Int -> Ref Int -> Ref Int -> IO ()
thin columns used shortest = do
  n <- readRef used
  lengths <- newRecorder (Precision 4)
  forM_ [0 .. n - 1] $ \i -> readPrimArray columns (columnCount * i + 2) >>= recordValue lengths
  least <- (+ 1) . quantile 0.5 <$> snapshot lengths
  let go :: Int -> Int -> IO Int
      go from to
        | from == n = pure to
        | otherwise = do
          count <- readPrimArray columns (columnCount * from + 2)
          if count < least
            then go (from + 1) to
            else do
              copyMutablePrimArray columns (columnCount * to) columns (columnCount * from) columnCount
              go (from + 1) (to + 1)
  left <- go 0 0
  writeRef used left
  writeRef shortest least

-- A part as one of 52 letters.
shade :: Double -> Word8
shade part
  | level < 26 = fromIntegral (65 + level)
  | otherwise = fromIntegral (97 + level - 26)
  where
    level = max 0 (min 51 (if part > 0 then max 1 (round (part * 51)) else 0)) :: Int

list :: [Builder] -> Builder
list [] = "[]"
list (x : xs) = "[" <> x <> foldMap ("," <>) xs <> "]"

string :: ByteString -> Builder
string = byteString . toByteString . Json.encode . Json.utf8

-- JSON inside a script element: no string of the log can end it.
safe :: ByteString -> ByteString
safe = Bytes.intercalate "\\u003c" . Bytes.split 0x3c
