{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Trace.Perfetto
-- Description : A log as a trace of Perfetto
-- Stability   : stable
--
-- Writes the protocol buffers that <https://ui.perfetto.dev> opens: a track for each core with its runs and
-- collections, each run with its thread, why it ended and how long the thread had been ready; messages and markers as instants.
--
-- Cost: a few packets for each run, written as they are read: memory does not depend on the log.
-- Owner: the caller's handle.
module Heddle.Trace.Perfetto
  ( writePerfetto,
  )
where

import Control.Monad (forM_)
import Data.Bits (unsafeShiftL, unsafeShiftR, (.&.), (.|.))
import Data.ByteString (ByteString)
import Data.ByteString qualified as Bytes
import Data.ByteString.Builder
import Data.ByteString.Char8 qualified as Char8
import Data.ByteString.Lazy qualified as Lazy
import Data.IntMap.Strict qualified as IntMap
import Heddle.Bytes.Utf8 (repair)
import Heddle.Bytes.Utf8 qualified as Utf8
import Heddle.Prim.Trace (markerText)
import Heddle.Trace.Log
import Heddle.Trace.Model
import System.IO (Handle)

-- | Read the log twice, once for the threads' labels, and write the trace, with a title that is made of the results.
--
-- [Cost]: two passes.
-- [Blocks]: holds an OS thread while it reads or writes.
-- [Throws]: 'IOError'.
writePerfetto :: Handle -> Log -> (Trace -> ByteString) -> IO ()
writePerfetto handle l title = do
  known <- analyse l (const True) silent
  let names = IntMap.fromList [(threadNumber t, threadName (threadNumber t) (threadLabel t)) | t <- traceThreads known]
      nameOf t = if t < 0 then "GC" else IntMap.findWithDefault (threadName t Bytes.empty) t names
      out = hPutBuilder handle . field 1
  out (field 60 (number 1 1 <> field 3 (number 1 1 <> text 6 (title known))))
  forM_ (traceCores known) $ \c ->
    out (field 60 (number 1 (track (coreNumber c)) <> number 5 1 <> text 2 (Char8.pack ("core " ++ show (coreNumber c)))))
  _ <-
    analyse l (const True) $
      Listener
        { onSlice = \s -> do
            out (packet (sliceBegin s) (number 9 1 <> number 11 (track (sliceCore s)) <> text 23 (nameOf (sliceThread s)) <> details s))
            out (packet (sliceEnd s) (number 9 2 <> number 11 (track (sliceCore s)))),
          onMessage = \core time message ->
            out (packet time (number 9 3 <> number 11 (if core < 0 then 1 else track core) <> text 23 message)),
          onMarker = \core time marker ->
            out (packet time (number 9 3 <> number 11 (track core) <> text 23 (markerText marker)))
        }
  pure ()
  where
    track core = core + 2
    packet time event = number 8 time <> number 10 1 <> field 11 event
    details s
      | sliceThread s < 0 = mempty
      | otherwise =
        field 4 (text 10 "stopped by" <> text 6 (Char8.pack (reasonName (sliceReason s))))
          <> (if sliceReady s < 0 then mempty else field 4 (text 10 "ready before, ns" <> number 4 (sliceReady s)))

-- A number, of wire type 0.
number :: Int -> Int -> Builder
number tag n = varint (tag `unsafeShiftL` 3) <> varint (max 0 n)

-- A message or bytes, of wire type 2.
field :: Int -> Builder -> Builder
field tag inner = varint (tag `unsafeShiftL` 3 .|. 2) <> varint (fromIntegral (Lazy.length whole)) <> lazyByteString whole
  where
    whole = toLazyByteString inner

-- Protocol buffers want valid UTF-8, and a log's strings may be anything.
text :: Int -> ByteString -> Builder
text tag string = field tag (byteString (Utf8.toByteString (repair string)))

varint :: Int -> Builder
varint n
  | n < 128 = word8 (fromIntegral n)
  | otherwise = word8 (fromIntegral (n .&. 127 .|. 128)) <> varint (n `unsafeShiftR` 7)
