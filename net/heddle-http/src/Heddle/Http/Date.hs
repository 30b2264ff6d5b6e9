-- |
-- Module      : Heddle.Http.Date
-- Description : The Date header's text, one per capability
-- Stability   : internal, exempt from the version policy
--
-- The first request of a new second replaces the text, so no timer runs while the server
-- idles. "Heddle.Bytes.HttpDate" formats it.
--
-- Cost: a comparison; once a second, two clock readings and 60 ns.
-- Owner: one capability.
-- [Source]: Mighttpd, section on logging (the cached zoned time).
module Heddle.Http.Date
  ( DateClock,
    newDateClock,
    currentSecond,
    dateText,
  )
where

import Control.Monad (when)
import Data.ByteString (ByteString)
import Heddle.Bytes.HttpDate (formatHttpDate)
import Heddle.Prim.Atomic (Ref, Words, newRef, newWords, readRef, readWord, writeRef, writeWord)
import Heddle.Prim.Clock

-- | The current second and its text.
data DateClock = DateClock
  { -- | Word 0: the monotonic time at which the second expires; 1: the second.
    clockWords :: !Words,
    -- | Replaced whole, so that no thread sees half of a change.
    clockText :: !(Ref ByteString)
  }

-- | A clock whose first use reads the time.
newDateClock :: IO DateClock
newDateClock = DateClock <$> newWords 2 <*> newRef (formatHttpDate (EpochSeconds 0))

-- | The second that the calendar shows, given the monotonic time.
--
-- [Cost]: O(1); no system call.
currentSecond :: DateClock -> Deadline -> IO Int
currentSecond clock (Deadline now) = do
  next <- readWord (clockWords clock) 0
  when (now >= next) $ do
    (second, Nanos over) <- epochNowExactly
    shown <- readWord (clockWords clock) 1
    when (fromIntegral (epochSeconds second) /= shown) $ do
      writeRef (clockText clock) (formatHttpDate second)
      writeWord (clockWords clock) 1 (fromIntegral (epochSeconds second))
    -- A set-back clock is noticed within the second.
    writeWord (clockWords clock) 0 (now + 1000000000 - over)
  readWord (clockWords clock) 1
{-# INLINE currentSecond #-}

-- | The text of the second that 'currentSecond' returned last.
dateText :: DateClock -> IO ByteString
dateText = readRef . clockText
