{-# LANGUAGE GeneralizedNewtypeDeriving #-}

-- |
-- Module      : Heddle.Prim.Clock
-- Description : Deadlines, durations and the two clocks
-- Stability   : stable
--
-- Time as types: a 'Deadline' is a point of monotonic time, 'Nanos' a length of
-- time, 'EpochSeconds' a second of the calendar. They never mix.
--
-- Cost: reading a clock is a call into the vDSO, about 25 ns, no system call.
-- Owner: values; nothing is shared.
module Heddle.Prim.Clock
  ( -- * Durations
    Nanos (..),
    nanos,
    microseconds,
    milliseconds,
    seconds,

    -- * Monotonic time
    Deadline (..),
    never,
    monotonicNow,
    after,
    deadlineIn,
    elapsed,

    -- * Calendar time
    EpochSeconds (..),
    epochNow,
    epochNowExactly,
    utcOffsetMinutes,
  )
where

import Data.Int (Int32, Int64)

-- | A length of time in nanoseconds.
newtype Nanos = Nanos {nanosCount :: Int}
  deriving stock (Eq, Ord)
  deriving newtype (Show, Num)

-- | So many nanoseconds.
--
-- [Units]: nanoseconds.
nanos :: Int -> Nanos
nanos = Nanos

-- | So many microseconds.
--
-- [Units]: microseconds.
microseconds :: Int -> Nanos
microseconds n = Nanos (n * 1000)

-- | So many milliseconds.
--
-- [Units]: milliseconds.
milliseconds :: Int -> Nanos
milliseconds n = Nanos (n * 1000000)

-- | So many seconds.
--
-- [Units]: seconds.
seconds :: Int -> Nanos
seconds n = Nanos (n * 1000000000)

-- | A point on the monotonic clock, in nanoseconds; unrelated to the calendar.
newtype Deadline = Deadline {deadlineNanos :: Int}
  deriving stock (Eq, Ord)
  deriving newtype (Show)

-- | The deadline that does not come.
never :: Deadline
never = Deadline maxBound

-- | The present, as a deadline that has just passed.
--
-- [Cost]: about 25 ns.
-- [Blocks]: never.
monotonicNow :: IO Deadline
monotonicNow = Deadline . fromIntegral <$> c_monotonic
{-# INLINE monotonicNow #-}

-- | A deadline so much later; saturates at 'never'.
after :: Nanos -> Deadline -> Deadline
after (Nanos n) (Deadline d)
  | n > 0 && d > maxBound - n = never
  | otherwise = Deadline (d + n)
{-# INLINE after #-}

-- | The deadline so far from now.
--
-- [Cost]: one reading of the clock.
-- [Blocks]: never.
deadlineIn :: Nanos -> IO Deadline
deadlineIn n = after n <$> monotonicNow
{-# INLINE deadlineIn #-}

-- | The time from the first point to the second.
elapsed :: Deadline -> Deadline -> Nanos
elapsed (Deadline from) (Deadline to) = Nanos (to - from)
{-# INLINE elapsed #-}

-- | Seconds since 1970-01-01T00:00:00Z, without leap seconds.
newtype EpochSeconds = EpochSeconds {epochSeconds :: Int64}
  deriving stock (Eq, Ord)
  deriving newtype (Show)

-- | The present second of the calendar.
--
-- [Cost]: about 25 ns.
-- [Blocks]: never.
epochNow :: IO EpochSeconds
epochNow = (\n -> EpochSeconds (n `quot` 1000000000)) <$> c_epoch

-- | The present second of the calendar and how much of it is over.
--
-- [Cost]: about 25 ns.
-- [Blocks]: never.
epochNowExactly :: IO (EpochSeconds, Nanos)
epochNowExactly = do
  n <- c_epoch
  pure (EpochSeconds (n `quot` 1000000000), Nanos (fromIntegral (n `rem` 1000000000)))

-- | How far local time is ahead of UTC at that second.
--
-- [Cost]: reads the time-zone file once per process.
-- [Units]: minutes, negative west of Greenwich.
utcOffsetMinutes :: EpochSeconds -> IO Int
utcOffsetMinutes (EpochSeconds s) = fromIntegral <$> c_utc_offset s

-- Unsafe: the vDSO reads the clock without entering the kernel.
foreign import ccall unsafe "heddle_monotonic" c_monotonic :: IO Int64

-- Unsafe: the vDSO reads the clock without entering the kernel.
foreign import ccall unsafe "heddle_epoch" c_epoch :: IO Int64

-- Safe: the first call reads the time-zone file.
foreign import ccall safe "heddle_utc_offset" c_utc_offset :: Int64 -> IO Int32
