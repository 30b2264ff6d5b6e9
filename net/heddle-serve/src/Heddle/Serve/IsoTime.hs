{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Serve.IsoTime
-- Description : Times as RFC 3339 writes them
-- Stability   : internal, exempt from the version policy
--
-- Rearranges the dates that heddle-bytes writes.
--
-- Cost: a few small strings; once a second for a log.
-- Owner: values.
module Heddle.Serve.IsoTime
  ( isoTime,
    isoFromLogTime,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.List (elemIndex)
import Heddle.Bytes.HttpDate (formatHttpDate)
import Heddle.Prim.Clock (EpochSeconds)

-- | A time in UTC.
--
-- >>> isoTime (EpochSeconds 1795545067)
-- "2026-11-24T18:31:07Z"
isoTime :: EpochSeconds -> ByteString
isoTime time = B.concat [part 12 4, "-", month (part 8 3), "-", part 5 2, "T", part 17 8, "Z"]
  where
    text = formatHttpDate time
    part from n = B.take n (B.drop from text)

-- | A time of an access log.
--
-- >>> isoFromLogTime "21/Nov/2026:20:14:07 +0100"
-- "2026-11-21T20:14:07+01:00"
isoFromLogTime :: ByteString -> ByteString
isoFromLogTime text = B.concat [part 7 4, "-", month (part 3 3), "-", part 0 2, "T", part 12 8, part 21 3, ":", part 24 2]
  where
    part from n = B.take n (B.drop from text)

month :: ByteString -> ByteString
month name = case elemIndex name ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"] of
  Just i -> C.pack (drop 1 (show (101 + i)))
  Nothing -> "00"
