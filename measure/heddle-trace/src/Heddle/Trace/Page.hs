{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Trace.Page
-- Description : A log as one page for a browser
-- Stability   : stable
--
-- The page has everything in it: nothing is loaded from elsewhere. It has all tables of the summary. Its timeline has
-- every run if there are at most 'maxSlices' of them, otherwise the longest ones, and for each core how busy it was in
-- some thousands of equal parts of the time. It has all messages, or of very many the first 32 MiB. A window of the
-- log ('writePage' takes one) shows the rest.
--
-- Cost: memory and the page's size do not depend on the log's length, except for its messages.
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
import Data.IntMap.Strict qualified as IntMap
import Data.Primitive.PrimArray
import Data.Word (Word8)
import Heddle.Prim.Atomic (Ref, newRef, readRef, writeRef)
import Heddle.Prim.Histogram (Precision (..), newRecorder, quantile, recordValue, snapshot)
import Heddle.Prim.Trace (markerText)
import Heddle.Trace.Html
import Heddle.Trace.Log
import Heddle.Trace.Messages (Messages)
import Heddle.Trace.Messages qualified as Messages
import Heddle.Trace.Model
import Heddle.Trace.Tables
import Heddle.Trace.Template (pageParts)
import System.IO (Handle)

-- | The most runs and collections that a page has.
maxSlices :: Int
maxSlices = 100000

maxRows, maxMarkers :: Int
maxRows = 2000
maxMarkers = 20000

-- | Read the log and write a page about the part between two times, with a title that is made of what the log says.
--
-- [Cost]: one pass.
-- [Blocks]: holds an OS thread while it reads or writes.
-- [Throws]: 'IOError'.
-- [Units]: nanoseconds since the program's start.
writePage :: Handle -> Log -> (Trace -> ByteString) -> (Int, Int) -> IO ()
writePage handle l title window = do
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
  messages <- newRef Messages.none
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
          onMessage = \core time message -> when (time >= from && time <= until') $ do
            before <- readRef messages
            writeRef messages $! Messages.add core time message before,
          onMarker = \core time marker -> when (time >= from && time <= until') $ do
            i <- readRef marked
            when (i < maxMarkers) $ forM_ (zip [0 ..] [place core, time, fromEnum marker]) $ \(f, v) -> writePrimArray marks (3 * i + f) v
            writeRef marked (i + 1)
        }
  n <- readRef used
  least <- readRef shortest
  frozen <- unsafeFreezePrimArray columns
  levels <- unsafeFreezePrimArray busy
  held <- readRef messages
  markCount <- readRef marked
  frozenMarks <- unsafeFreezePrimArray marks
  notes <- skippedText <$> logNotes l <*> logSkipped l
  let column f = list [intDec (indexPrimArray frozen (columnCount * i + f)) | i <- [0 .. n - 1]]
      level k = string (Bytes.pack [shade (indexPrimArray levels (k * bins + i)) | i <- [0 .. bins - 1]])
      thread t = list [intDec (threadNumber t), string (threadName (threadNumber t) (threadLabel t))]
      entries =
        [ ("begin", intDec from),
          ("end", intDec until'),
          ("least", intDec least),
          ("steps", list [list [intDec step, intDec places, string unit] | (step, places, unit) <- durationSteps]),
          ("reasons", list [string (Char8.pack (reasonName r)) | r <- [0 .. 31]]),
          ("streams", list [intDec (streamCapability l i) | i <- [0 .. logStreams l - 1]]),
          ("threads", list (map thread (take maxRows (traceThreads known)))),
          ("messageCount", intDec (Messages.messageCount held)),
          ("messageTime", Messages.timeColumn held),
          ("messageCore", Messages.coreColumn held),
          ("chunk", intDec Messages.chunkSize),
          ("markers", list [string (markerText k) | k <- [minBound ..]]),
          ("mark", list [intDec (indexPrimArray frozenMarks i) | i <- [0 .. 3 * min maxMarkers markCount - 1]]),
          ("busy", list [level k | k <- [0 .. 2 * logStreams l - 1]])
        ]
          ++ zip ["place", "start", "length", "thread", "ready", "reason"] (map column [0 ..])
      about =
        mconcat
          [ paragraph (facts known),
            foldMap paragraph (limits l (from, until') least held markCount),
            bullets "Parts of the log were skipped:" (map Char8.pack notes)
          ]
      whole = text (title known)
      json = "{" <> Messages.commas [string key <> ":" <> value | (key, value) <- entries] <> "}"
      contents =
        [whole, whole, about, foldMap tableHtml (tables maxRows known), Messages.textScripts held, json, mempty]
  forM_ (zip pageParts contents) $ \(part, content) -> hPutBuilder handle (byteString part <> content)

-- What the page does not have.
limits :: Log -> (Int, Int) -> Int -> Messages -> Int -> [ByteString]
limits l (from, until') least held markCount =
  map mconcat . concat $
    [ [ ["The timeline and the messages are of ", duration from, " to ", duration until', rest]
        | from > logBegin l || until' < logEnd l
      ],
      [["Runs shorter than ", duration least, " are shown as how busy a core was.", part] | least > 0],
      [["Of ", number sent, " messages the page has the first ", number shown, ".", part] | shown < sent],
      [ ["Of ", number markCount, " markers the timeline has the first ", number maxMarkers, ".", part]
        | markCount > maxMarkers
      ]
    ]
  where
    (sent, shown) = (Messages.messageCount held, Messages.heldCount held)
    rest = " after the program's start; the tables are about the whole log."
    part = " A page of a part of the log (--from, --to) has more of that part's."
    number = Char8.pack . show

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
list items = "[" <> Messages.commas items <> "]"

string :: ByteString -> Builder
string = byteString . Messages.jsonString
