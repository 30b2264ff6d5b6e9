{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Trace.Speedscope
-- Description : A log as a file of speedscope
-- Stability   : stable
--
-- Writes the JSON that <https://www.speedscope.app> opens: for each core a profile of opened and closed frames, which
-- are the threads that it ran, and its collections.
--
-- Cost: two events for each run, written as they are read: memory does not depend on the log, except for the names
-- of at most 65,536 threads.
-- Owner: the caller's handle.
module Heddle.Trace.Speedscope
  ( writeSpeedscope,
  )
where

import Control.Monad (forM_, when)
import Data.ByteString (ByteString)
import Data.ByteString.Builder
import Data.ByteString.Char8 qualified as Char8
import Data.IntMap.Strict qualified as IntMap
import Heddle.Bytes.Put (toByteString)
import Heddle.Json.Build qualified as Json
import Heddle.Prim.Atomic (newRef, readRef, writeRef)
import Heddle.Trace.Log
import Heddle.Trace.Model
import System.IO (Handle)

-- | Read the log once for the threads' labels, then each core's blocks, and write the file, with a title that is made
-- of the results.
--
-- [Cost]: two passes.
-- [Blocks]: holds an OS thread while it reads or writes.
-- [Throws]: 'IOError'.
writeSpeedscope :: Handle -> Log -> (Trace -> ByteString) -> IO ()
writeSpeedscope handle l title = do
  known <- analyse l (const True) silent
  let threads = traceThreads known
      -- Frame 0 is the collection, frame 1 whatever thread is not known.
      frames = IntMap.fromList (zip (map threadNumber threads) [2 :: Int ..])
      frameOf t = if t < 0 then 0 else IntMap.findWithDefault 1 t frames
      out = hPutBuilder handle
  out "{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\"exporter\":\"heddle trace\",\"name\":"
  out (string (title known) <> ",\"profiles\":[")
  forM_ (zip [0 :: Int ..] [i | i <- [0 .. logStreams l - 1], streamCapability l i >= 0]) $ \(k, i) -> do
    when (k > 0) (out ",")
    out ("\n{\"type\":\"evented\",\"unit\":\"nanoseconds\",\"name\":" <> string (Char8.pack ("core " ++ show (streamCapability l i))))
    out (",\"startValue\":" <> intDec (logBegin l) <> ",\"endValue\":" <> intDec (logEnd l) <> ",\"events\":[")
    first <- newRef True
    _ <-
      analyse l (== i) $
        silent
          { onSlice = \s -> do
              isFirst <- readRef first
              writeRef first False
              let event kind at = "{\"type\":\"" <> kind <> "\",\"frame\":" <> intDec (frameOf (sliceThread s)) <> ",\"at\":" <> intDec at <> "}"
              out ((if isFirst then "\n" else ",\n") <> event "O" (sliceBegin s) <> "," <> event "C" (max (sliceBegin s) (sliceEnd s)))
          }
    out "]}"
  out "],\n\"shared\":{\"frames\":[{\"name\":\"GC\"},{\"name\":\"other threads\"}"
  forM_ threads $ \t -> out (",\n{\"name\":" <> string (threadName (threadNumber t) (threadLabel t)) <> "}")
  out "]}}\n"

-- A string in JSON; invalid UTF-8 is repaired.
string :: ByteString -> Builder
string s = byteString (toByteString (Json.encode (Json.utf8 s)))
