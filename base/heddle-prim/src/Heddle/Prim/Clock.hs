{-# LANGUAGE GeneralizedNewtypeDeriving #-}
{-# LANGUAGE MagicHash #-}
{-# LANGUAGE UnboxedTuples #-}

-- |
-- Module      : Heddle.Prim.Clock
-- Description : Deadlines, durations and the two clocks
-- Stability   : stable
--
-- Time as types: a 'Deadline' is a point of monotonic time, 'Nanos' a length of
-- time, 'EpochSeconds' a second of the calendar. They never mix.
--
-- Invariant: arithmetic saturates. A duration too long for 64 bits (292 years) is the
-- longest one, and a deadline that far away is 'never'; nothing wraps around to the past.
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
    minusNanos,
    timesNanos,

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
import GHC.Exts (Int (I#), addIntC#, isTrue#, mulIntMayOflo#, subIntC#, (*#), (==#))

-- | A length of time in nanoseconds. 'mempty' is no time, and '<>' the sum, which saturates.
--
-- A number literal is not a duration: there is no 'Num' instance, so that a call written for a function that counts
-- microseconds, such as @System.Timeout.timeout 1000000@, does not compile instead of meaning something else.
newtype Nanos = Nanos {nanosCount :: Int}
  deriving stock (Eq, Ord)
  deriving newtype (Show)

instance Semigroup Nanos where
  Nanos a <> Nanos b = Nanos (plus a b)
  {-# INLINE (<>) #-}

instance Monoid Nanos where
  mempty = Nanos 0
  {-# INLINE mempty #-}

-- | The first duration less the second, negative when that is longer; saturates.
minusNanos :: Nanos -> Nanos -> Nanos
minusNanos (Nanos a) (Nanos b) = Nanos (minus a b)
{-# INLINE minusNanos #-}

-- | A duration this many times; saturates.
timesNanos :: Int -> Nanos -> Nanos
timesNanos n (Nanos a) = Nanos (times n a)
{-# INLINE timesNanos #-}

-- Saturating sum, difference and product.
plus, minus, times :: Int -> Int -> Int
plus (I# a) (I# b) = case addIntC# a b of
  (# c, over #) -> if isTrue# (over ==# 0#) then I# c else if I# b > 0 then maxBound else minBound
{-# INLINE plus #-}
minus (I# a) (I# b) = case subIntC# a b of
  (# c, over #) -> if isTrue# (over ==# 0#) then I# c else if I# b < 0 then maxBound else minBound
{-# INLINE minus #-}
times (I# a) (I# b)
  | isTrue# (mulIntMayOflo# a b ==# 0#) = I# (a *# b)
  -- The primitive may report an overflow although the product fits.
  | otherwise = fromInteger (max (toInteger minInt) (min (toInteger maxInt) (toInteger (I# a) * toInteger (I# b))))
  where
    minInt = minBound :: Int
    maxInt = maxBound :: Int
{-# INLINE times #-}

-- | This many nanoseconds.
--
-- [Units]: nanoseconds.
nanos :: Int -> Nanos
nanos = Nanos

-- | This many microseconds; saturates.
--
-- [Units]: microseconds.
microseconds :: Int -> Nanos
microseconds n = Nanos (times n 1000)

-- | This many milliseconds; saturates.
--
-- [Units]: milliseconds.
milliseconds :: Int -> Nanos
milliseconds n = Nanos (times n 1000000)

-- | This many seconds; saturates.
--
-- [Units]: seconds.
seconds :: Int -> Nanos
seconds n = Nanos (times n 1000000000)

-- | A point on the monotonic clock, in nanoseconds; unrelated to the calendar.
newtype Deadline = Deadline {deadlineNanos :: Int}
  deriving stock (Eq, Ord)
  deriving newtype (Show)

-- | The deadline that never passes.
never :: Deadline
never = Deadline maxBound

-- | The present, as a deadline that has just passed.
--
-- [Cost]: about 25 ns.
-- [Blocks]: never.
monotonicNow :: IO Deadline
monotonicNow = Deadline . fromIntegral <$> c_monotonic
{-# INLINE monotonicNow #-}

-- | A deadline later by this duration; saturates at 'never', and leaves 'never' unchanged.
after :: Nanos -> Deadline -> Deadline
after (Nanos n) (Deadline d)
  | d == maxBound = never
  | otherwise = Deadline (plus d n)
{-# INLINE after #-}

-- | The deadline after this duration from now.
--
-- [Cost]: one reading of the clock.
-- [Blocks]: never.
deadlineIn :: Nanos -> IO Deadline
deadlineIn n = after n <$> monotonicNow
{-# INLINE deadlineIn #-}

-- | The time from the first point to the second; saturates.
elapsed :: Deadline -> Deadline -> Nanos
elapsed (Deadline from) (Deadline to) = Nanos (minus to from)
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

-- | The present second of the calendar, and the elapsed part of it.
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
