-- |
-- Module      : Heddle.Serve.Activity
-- Description : Counting requests, for a line on a terminal
-- Stability   : internal, exempt from the version policy
--
-- Each capability counts its replies. While there are any, a thread adds the counts up once a second; it
-- rests, without a timer, until the next reply otherwise.
--
-- Cost: about 8 ns a reply, and nothing while idle; nothing at all unless it was asked for.
-- Owner: 'withActivity'.
-- Shared writes per request: 0, but for the first one after a rest.
module Heddle.Serve.Activity
  ( Activity,
    Traffic (..),
    withActivity,
    activityHook,
  )
where

import Control.Monad (unless, when)
import Heddle.Http
import Heddle.IO (Runtime, capabilitiesOf)
import Heddle.IO.Parker (Parker, withParker)
import Heddle.IO.Parker qualified as Parker
import Heddle.Prim.Atomic
import Heddle.Prim.Clock
import Heddle.Prim.Thread (labelMe)
import Heddle.Scope (withTask)

-- | What was counted so far.
data Traffic = Traffic
  { -- | Requests a second, lately.
    trafficRate :: !Int,
    trafficRequests :: !Int,
    -- | Replies with a status from 400 on.
    trafficErrors :: !Int,
    -- | Bytes of content.
    trafficBytes :: !Int
  }
  deriving stock (Eq, Show)

-- | The counts.
data Activity = Activity
  { -- | For each capability requests, errors, bytes; on cache lines of their own.
    activityCounts :: ![Words],
    -- | Word 0: 1 while the thread rests.
    activityRests :: !Words,
    activityWake :: !Parker
  }

-- | Count while the body runs, and pass what was counted to the action about once a second while there is traffic.
--
-- [Blocks]: as the body does.
withActivity :: Runtime -> (Traffic -> IO ()) -> (Activity -> IO a) -> IO a
withActivity runtime tell body = withParker runtime $ \parker -> do
  activity <- Activity <$> traverse (const (newWords 32)) [1 .. capabilitiesOf runtime] <*> newWords 32 <*> pure parker
  withTask (labelMe "serve/activity" >> counting activity tell) (const (body activity))

counting :: Activity -> (Traffic -> IO ()) -> IO ()
counting activity tell = monotonicNow >>= rest (0, 0, 0)
  where
    rests = activityRests activity
    parker = activityWake activity
    -- The mark is set before the counts are read once more, so a reply in between is found or wakes the thread.
    rest before since = do
      Parker.prepare parker
      atomicWrite rests 0 1
      now <- sums activity
      if now == before then Parker.parkUntil parker never else pure ()
      atomicWrite rests 0 0
      stopped <- Parker.isClosed parker
      unless stopped (monotonicNow >>= busy before . max since)
    busy before since = do
      Parker.prepare parker
      Parker.parkUntil parker (after (seconds 1) since)
      stopped <- Parker.isClosed parker
      unless stopped $ do
        at <- monotonicNow
        if at < after (seconds 1) since
          then busy before since
          else do
            counts@(requests, errors, content) <- sums activity
            let (requestsBefore, _, _) = before
            tell (Traffic (rate (requests - requestsBefore) since at) requests errors content)
            if counts == before then rest counts at else busy counts at
    rate n (Deadline from) (Deadline to) = (n * 1000000000 + 500000000) `quot` max 1 (to - from)

sums :: Activity -> IO (Int, Int, Int)
sums activity = go (activityCounts activity) 0 0 0
  where
    go [] !requests !errors !content = pure (requests, errors, content)
    go (counts : others) !requests !errors !content = do
      r <- atomicRead counts 8
      e <- atomicRead counts 9
      b <- atomicRead counts 10
      go others (requests + r) (errors + e) (content + b)

-- | Counts the replies of a capability.
--
-- [Threads]: those of the capability.
activityHook :: Activity -> Int -> LogHook
activityHook activity capability = \_ _ status sent -> do
  when (statusCode status >= 400) (add 9 1)
  add 10 sent
  -- A full barrier before the mark is read; its pair is in 'counting': either the thread finds the count, or this finds the mark.
  _ <- fetchAdd counts 8 1
  resting <- atomicRead (activityRests activity) 0
  when (resting == 1) $ do
    won <- compareAndSet (activityRests activity) 0 1 0
    when won (Parker.unpark (activityWake activity))
  where
    counts = activityCounts activity !! capability
    -- No other thread of the capability runs between the two: nothing is allocated.
    add at n = readWord counts at >>= \before -> writeWord counts at (before + n)
