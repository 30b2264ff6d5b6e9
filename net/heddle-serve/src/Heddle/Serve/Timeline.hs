{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Serve.Timeline
-- Description : Timelines of the running server, on request
-- Stability   : internal, exempt from the version policy
--
-- Answers a request for a timeline: reads how long it shall be and in which form, has it recorded, and sends it. Who records is the
-- program's business, since only its start can prepare the runtime's event log: 'Recorder'.
--
-- Cost: without a request none. The thread of the connection waits for the recording.
-- Owner: 'Heddle.Serve.Status.Observer'.
module Heddle.Serve.Timeline
  ( Recorder,
    TimelineForm (..),
    Recording (..),
    timelineReply,
    parseTimelineQuery,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Heddle.Http
import Heddle.Prim.Clock (Nanos, seconds)

-- | Records what cores and threads do for some time.
type Recorder = TimelineForm -> Nanos -> IO Recording

-- | What is made of the event log.
data TimelineForm
  = -- | A page for a browser.
    TimelinePage
  | -- | Tables.
    TimelineSummary
  | -- | The log itself.
    TimelineLog
  deriving stock (Bounded, Enum, Eq, Show)

-- | How a recording ended.
data Recording
  = -- | The timeline, and what releases it.
    Recorded ![Segment] !(IO ())
  | -- | Another one goes on.
    RecordingBusy
  | -- | This process cannot record: why.
    RecordingUnavailable !ByteString
  | -- | Why it failed.
    RecordingFailed !ByteString

-- | Record for a request with this query, for at most this many seconds.
--
-- [Blocks]: parks for as long as the recording takes.
timelineReply :: [Header] -> Int -> Recorder -> ByteString -> IO Reply
timelineReply common longest recorder asked = case parseTimelineQuery longest asked of
  Left why -> pure (plain status400 why)
  Right (form', count) ->
    recorder form' (seconds count) >>= \case
      Recorded pieces release -> pure (Segments status200 (kinds form' ++ common) pieces release)
      RecordingBusy -> pure (plain status409 "another timeline is being recorded; ask again when it has ended")
      RecordingUnavailable why -> pure (plain status501 why)
      RecordingFailed why -> pure (plain status500 why)
  where
    plain status text = Whole status (Header "Content-Type" "text/plain; charset=utf-8" : common) (text <> "\n")
    kinds = \case
      -- The page has its script and styles within it, and loads nothing.
      TimelinePage -> [Header "Content-Type" "text/html; charset=utf-8", Header "Content-Security-Policy" "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"]
      TimelineSummary -> [Header "Content-Type" "text/plain; charset=utf-8"]
      TimelineLog -> [Header "Content-Type" "application/octet-stream", Header "Content-Disposition" "attachment; filename=\"heddle.eventlog\""]

-- | Read @seconds=5&form=log@: the form, and how many seconds, of at most so many. Without them a page of five seconds, or of as many as
-- there may be.
--
-- >>> parseTimelineQuery 60 "seconds=2"
-- Right (TimelinePage,2)
parseTimelineQuery :: Int -> ByteString -> Either ByteString (TimelineForm, Int)
parseTimelineQuery longest asked = go (TimelinePage, min 5 longest) (filter (not . B.null) (C.split '&' asked))
  where
    go chosen [] = Right chosen
    go (form', count) (one : others) = case C.break (== '=') one of
      ("seconds", value)
        | Just (n, "") <- C.readInt (B.drop 1 value), n >= 1, n <= longest -> go (form', n) others
        | otherwise -> Left ("'seconds' must be a number from 1 to " <> C.pack (show longest))
      ("form", "=page") -> go (TimelinePage, count) others
      ("form", "=summary") -> go (TimelineSummary, count) others
      ("form", "=log") -> go (TimelineLog, count) others
      ("form", _) -> Left "'form' must be page, summary or log"
      _ -> Left "only 'seconds' and 'form' may be asked for, as in ?seconds=5&form=log"
