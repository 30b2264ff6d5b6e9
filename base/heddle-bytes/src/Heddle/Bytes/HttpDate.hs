{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Bytes.HttpDate
-- Description : The dates of HTTP and of access logs
-- Stability   : stable
--
-- Writes dates in place by integer arithmetic on the proleptic Gregorian
-- calendar, and reads the three forms that RFC 9110 lets a client send.
--
-- Invariant: a date takes the same number of bytes in every year.
-- Owner: the memory is the caller's, and only while the call lasts.
-- Cost: constant; no time zone is looked up; no system call.
module Heddle.Bytes.HttpDate
  ( -- * HTTP dates

    -- | A date outside the years 0000 to 9999 is written as the nearest date within.
    formatHttpDate,
    parseHttpDate,

    -- * In place
    pokeHttpDate,
    httpDateLength,

    -- * Access logs
    pokeLogTime,
    logTimeLength,
  )
where

import Control.Monad (void)
import Data.Bits (unsafeShiftL, (.|.))
import Data.ByteString (ByteString)
import Data.ByteString qualified as ByteString
import Data.ByteString.Internal qualified as ByteString (unsafeCreate)
import Data.ByteString.Unsafe qualified as ByteString (unsafeIndex)
import Data.Char (ord)
import Data.Int (Int64)
import Data.Word (Word8)
import Foreign.Ptr (Ptr, plusPtr)
import Foreign.Storable (poke, pokeByteOff)
import Heddle.Bytes.Decimal (pokeDecimal2, pokeDecimal4)
import Heddle.Prim.Clock (EpochSeconds (..))

-- | The bytes of an HTTP date.
--
-- [Units]: bytes.
--
-- @since 0.1.0.0
httpDateLength :: Int
httpDateLength = 29

-- | The bytes of an access log's time.
--
-- [Units]: bytes.
--
-- @since 0.1.0.0
logTimeLength :: Int
logTimeLength = 26

-- | Write a date in the fixed form of HTTP.
--
-- [Cost]: O(1); 'httpDateLength' bytes and their header.
-- [Units]: seconds since 1970, in universal time.
-- [Source]: RFC 9110, section 5.6.7, @IMF-fixdate@.
--
-- Law (@inverse@): 'parseHttpDate' reads the date back.
--
-- >>> formatHttpDate (EpochSeconds 784111777)
-- "Sun, 06 Nov 1994 08:49:37 GMT"
--
-- @since 0.1.0.0
formatHttpDate :: EpochSeconds -> ByteString
formatHttpDate time =
  ByteString.unsafeCreate httpDateLength (\target -> void (pokeHttpDate target time))

-- | Write a date in the fixed form of HTTP and return its end.
--
-- [Cost]: O(1), about ten divisions; 0 bytes.
-- [Blocks]: never.
-- [Units]: seconds since 1970, in universal time; 'httpDateLength' bytes are
-- written.
-- [Threads]: any.
-- [Source]: RFC 9110, section 5.6.7, @IMF-fixdate@.
--
-- @since 0.1.0.0
pokeHttpDate :: Ptr Word8 -> EpochSeconds -> IO (Ptr Word8)
pokeHttpDate target time = do
  let Moment {momentDay = day, momentSecond = second} = moment time
      Civil {civilYear = year, civilMonth = month, civilDay = monthDay} = civilFromDay day
  pokeName target (weekdayName (weekday day))
  pokeByteOff target 3 (ascii ',')
  pokeByteOff target 4 (ascii ' ')
  _ <- pokeDecimal2 (target `plusPtr` 5) monthDay
  pokeByteOff target 7 (ascii ' ')
  pokeName (target `plusPtr` 8) (monthName month)
  pokeByteOff target 11 (ascii ' ')
  _ <- pokeDecimal4 (target `plusPtr` 12) year
  pokeByteOff target 16 (ascii ' ')
  pokeClock (target `plusPtr` 17) second
  pokeByteOff target 25 (ascii ' ')
  pokeName (target `plusPtr` 26) (Name 'G' 'M' 'T')
  pure (target `plusPtr` httpDateLength)

-- | Write a time as in access logs, @21\/Nov\/2026:20:33:09 +0100@, and return its end.
--
-- The offset says how far local time is ahead of universal time; one of a day
-- or more is written as the nearest below a day.
--
-- [Cost]: O(1), about ten divisions; 0 bytes.
-- [Blocks]: never.
-- [Units]: seconds since 1970, in universal time; the offset is in minutes, as
-- time zones are; 'logTimeLength' bytes are written.
-- [Threads]: any.
-- [Source]: Apache's common log format, @%t@ without its brackets.
--
-- @since 0.1.0.0
pokeLogTime :: Ptr Word8 -> EpochSeconds -> Int -> IO (Ptr Word8)
pokeLogTime target (EpochSeconds time) minutesAhead = do
  let ahead = max (-1439) (min 1439 minutesAhead)
      EpochSeconds near = nearest (EpochSeconds time)
      local = EpochSeconds (near + 60 * fromIntegral ahead)
      Moment {momentDay = day, momentSecond = second} = moment local
      Civil {civilYear = year, civilMonth = month, civilDay = monthDay} = civilFromDay day
      (aheadHours, aheadMinutes) = abs ahead `quotRem` 60
  _ <- pokeDecimal2 target monthDay
  pokeByteOff target 2 (ascii '/')
  pokeName (target `plusPtr` 3) (monthName month)
  pokeByteOff target 6 (ascii '/')
  _ <- pokeDecimal4 (target `plusPtr` 7) year
  pokeByteOff target 11 (ascii ':')
  pokeClock (target `plusPtr` 12) second
  pokeByteOff target 20 (ascii ' ')
  pokeByteOff target 21 (ascii (if ahead < 0 then '-' else '+'))
  _ <- pokeDecimal2 (target `plusPtr` 22) aheadHours
  _ <- pokeDecimal2 (target `plusPtr` 24) aheadMinutes
  pure (target `plusPtr` logTimeLength)

-- | Read a date in any of the three forms of HTTP.
--
-- The form must be exact to the byte, the day must exist, and the weekday must match the day. A leap second
-- is read as the second that follows it. A year of two digits is the year from 1900 to 2099 in which the
-- weekday matches; see Note [Years of two digits].
--
-- [Cost]: O(1); only the result is allocated.
-- [Units]: seconds since 1970, in universal time.
-- [Source]: RFC 9110, section 5.6.7: @IMF-fixdate@, @rfc850-date@ and
-- @asctime-date@.
--
-- Law (@inverse@): it reads what 'formatHttpDate' writes.
--
-- >>> parseHttpDate "Sunday, 06-Nov-94 08:49:37 GMT"
-- Just 784111777
--
-- >>> parseHttpDate "Monday, 06-Nov-94 08:49:37 GMT"
-- Nothing
--
-- @since 0.1.0.0
parseHttpDate :: ByteString -> Maybe EpochSeconds
parseHttpDate text = case ByteString.length text of
  29 -> fixedDate text
  24 -> asctimeDate text
  len | len >= 30 && len <= 33 -> rfc850Date text (len - 24)
  _ -> Nothing

-- | @Sun, 06 Nov 1994 08:49:37 GMT@
fixedDate :: ByteString -> Maybe EpochSeconds
fixedDate text
  | at text 3 ',' && at text 4 ' ' && at text 7 ' ' && at text 11 ' ' && at text 16 ' ' && zoneAt text 25 =
    epochFrom
      (weekdayAt text 0)
      (digits4 text 12)
      (monthAt text 8)
      (digits2 text 5)
      (clockAt text 17)
  | otherwise = Nothing

-- | @Sunday, 06-Nov-94 08:49:37 GMT@; the weekday's name has this many bytes.
rfc850Date :: ByteString -> Int -> Maybe EpochSeconds
rfc850Date text nameLen
  | at text nameLen ','
      && at text (nameLen + 1) ' '
      && at text (nameLen + 4) '-'
      && at text (nameLen + 8) '-'
      && at text (nameLen + 11) ' '
      && zoneAt text (nameLen + 20)
      && year >= 0 =
    case within 1900 of
      Nothing -> within 2000
      found -> found
  | otherwise = Nothing
  where
    year = digits2 text (nameLen + 9)
    within century =
      epochFrom
        (longWeekday (ByteString.take nameLen text))
        (century + year)
        (monthAt text (nameLen + 5))
        (digits2 text (nameLen + 2))
        (clockAt text (nameLen + 12))

-- | @Sun Nov  6 08:49:37 1994@
asctimeDate :: ByteString -> Maybe EpochSeconds
asctimeDate text
  | at text 3 ' ' && at text 7 ' ' && at text 10 ' ' && at text 19 ' ' =
    epochFrom
      (weekdayAt text 0)
      (digits4 text 20)
      (monthAt text 4)
      (if at text 8 ' ' then digit text 9 else digits2 text 8)
      (clockAt text 11)
  | otherwise = Nothing

-- | Takes the weekday, year, month, day and second of the day, each -1 if the text has no valid one.
epochFrom :: Int -> Int -> Int -> Int -> Int -> Maybe EpochSeconds
epochFrom named year month monthDay second
  | named >= 0
      && year >= 0
      && month >= 1
      && monthDay >= 1
      && monthDay <= monthLength year month
      && second >= 0
      && weekday day == named =
    Just (EpochSeconds (fromIntegral (86400 * (day - epochDay) + second)))
  | otherwise = Nothing
  where
    day = dayFromCivil Civil {civilYear = year, civilMonth = month, civilDay = monthDay}

-- | A day, counted from 'firstDay', and a second within it.
data Moment = Moment
  { momentDay :: !Int,
    momentSecond :: !Int
  }

-- | The month is 1 to 12, the day 1 to 31.
data Civil = Civil
  { civilYear :: !Int,
    civilMonth :: !Int,
    civilDay :: !Int
  }

-- | Three letters.
data Name = Name !Char !Char !Char

-- | The nearest second whose year has four digits in any local time, which is at most a day off.
nearest :: EpochSeconds -> EpochSeconds
nearest (EpochSeconds time) = EpochSeconds (max firstSecond (min lastSecond time))
{-# INLINE nearest #-}

-- | 0000-01-01 00:00:00 and 9999-12-31 23:59:59.
firstSecond, lastSecond :: Int64
firstSecond = -62167219200
lastSecond = 253402300799

moment :: EpochSeconds -> Moment
moment time = Moment {momentDay = day, momentSecond = second}
  where
    EpochSeconds near = nearest time
    -- Counted from an earlier year, so that the dividend is not negative.
    (day, second) = (fromIntegral near + 86400 * epochDay) `quotRem` 86400
{-# INLINE moment #-}

-- | 1970-01-01, counted in days from -400-03-01.
epochDay :: Int
epochDay = 719468 + daysPerEra
{-# INLINE epochDay #-}

-- | The calendar repeats every 400 years.
daysPerEra :: Int
daysPerEra = 146097
{-# INLINE daysPerEra #-}

-- | Monday is 0.
weekday :: Int -> Int
weekday day = (day + 2) `rem` 7
{-# INLINE weekday #-}

-- | The date of a day; see Note [Years that begin in March].
civilFromDay :: Int -> Civil
civilFromDay day =
  Civil
    { civilYear = if month <= 2 then marchYear + 1 else marchYear,
      civilMonth = month,
      civilDay = yearDay - (153 * marchMonth + 2) `quot` 5 + 1
    }
  where
    (era, eraDay) = day `quotRem` daysPerEra
    eraYear =
      (eraDay - eraDay `quot` 1460 + eraDay `quot` 36524 - eraDay `quot` 146096) `quot` 365
    yearDay = eraDay - (365 * eraYear + eraYear `quot` 4 - eraYear `quot` 100)
    marchYear = 400 * (era - 1) + eraYear
    marchMonth = (5 * yearDay + 2) `quot` 153
    month = if marchMonth < 10 then marchMonth + 3 else marchMonth - 9

-- | The day of a date of the year 0 or later.
dayFromCivil :: Civil -> Int
dayFromCivil (Civil year month monthDay) = era * daysPerEra + eraDay
  where
    marchYear = (if month <= 2 then year - 1 else year) + 400
    (era, eraYear) = marchYear `quotRem` 400
    marchMonth = if month > 2 then month - 3 else month + 9
    yearDay = (153 * marchMonth + 2) `quot` 5 + monthDay - 1
    eraDay = 365 * eraYear + eraYear `quot` 4 - eraYear `quot` 100 + yearDay

monthLength :: Int -> Int -> Int
monthLength year month
  | month == 2 = if isLeap then 29 else 28
  | month == 4 || month == 6 || month == 9 || month == 11 = 30
  | otherwise = 31
  where
    isLeap = year `rem` 4 == 0 && (year `rem` 100 /= 0 || year `rem` 400 == 0)

weekdayName :: Int -> Name
weekdayName = \case
  0 -> Name 'M' 'o' 'n'
  1 -> Name 'T' 'u' 'e'
  2 -> Name 'W' 'e' 'd'
  3 -> Name 'T' 'h' 'u'
  4 -> Name 'F' 'r' 'i'
  5 -> Name 'S' 'a' 't'
  _ -> Name 'S' 'u' 'n'

monthName :: Int -> Name
monthName = \case
  1 -> Name 'J' 'a' 'n'
  2 -> Name 'F' 'e' 'b'
  3 -> Name 'M' 'a' 'r'
  4 -> Name 'A' 'p' 'r'
  5 -> Name 'M' 'a' 'y'
  6 -> Name 'J' 'u' 'n'
  7 -> Name 'J' 'u' 'l'
  8 -> Name 'A' 'u' 'g'
  9 -> Name 'S' 'e' 'p'
  10 -> Name 'O' 'c' 't'
  11 -> Name 'N' 'o' 'v'
  _ -> Name 'D' 'e' 'c'

pokeName :: Ptr Word8 -> Name -> IO ()
pokeName target (Name first second third) = do
  poke target (ascii first)
  pokeByteOff target 1 (ascii second)
  pokeByteOff target 2 (ascii third)
{-# INLINE pokeName #-}

-- | @08:49:37@, of a second of the day.
pokeClock :: Ptr Word8 -> Int -> IO ()
pokeClock target second = do
  let (minutes, rest) = second `quotRem` 60
      (hour, minute) = minutes `quotRem` 60
  _ <- pokeDecimal2 target hour
  pokeByteOff target 2 (ascii ':')
  _ <- pokeDecimal2 (target `plusPtr` 3) minute
  pokeByteOff target 5 (ascii ':')
  _ <- pokeDecimal2 (target `plusPtr` 6) rest
  pure ()
{-# INLINE pokeClock #-}

-- The readers below look at fixed offsets of a text whose length was checked, and return -1 if the text
-- there is invalid.

at :: ByteString -> Int -> Char -> Bool
at text place char = ByteString.unsafeIndex text place == ascii char
{-# INLINE at #-}

digit :: ByteString -> Int -> Int
digit text place
  | value <= 9 = fromIntegral value
  | otherwise = -1
  where
    value = ByteString.unsafeIndex text place - ascii '0'
{-# INLINE digit #-}

digits2 :: ByteString -> Int -> Int
digits2 text place
  | tens < 0 || units < 0 = -1
  | otherwise = 10 * tens + units
  where
    tens = digit text place
    units = digit text (place + 1)

digits4 :: ByteString -> Int -> Int
digits4 text place
  | hundreds < 0 || units < 0 = -1
  | otherwise = 100 * hundreds + units
  where
    hundreds = digits2 text place
    units = digits2 text (place + 2)

-- | The second of the day; a minute has 61 only at the end of a day.
clockAt :: ByteString -> Int -> Int
clockAt text place
  | at text (place + 2) ':' && at text (place + 5) ':' && valid = 3600 * hour + 60 * minute + second
  | otherwise = -1
  where
    hour = digits2 text place
    minute = digits2 text (place + 3)
    second = digits2 text (place + 6)
    valid =
      hour >= 0
        && hour <= 23
        && minute >= 0
        && minute <= 59
        && second >= 0
        && (second <= 59 || (second == 60 && hour == 23 && minute == 59))

zoneAt :: ByteString -> Int -> Bool
zoneAt text place =
  at text place ' ' && nameAt text (place + 1) == packName (Name 'G' 'M' 'T')

monthAt :: ByteString -> Int -> Int
monthAt text place = search 1
  where
    name = nameAt text place
    search :: Int -> Int
    search month
      | month > 12 = -1
      | name == packName (monthName month) = month
      | otherwise = search (month + 1)

weekdayAt :: ByteString -> Int -> Int
weekdayAt text place = search 0
  where
    name = nameAt text place
    search :: Int -> Int
    search day
      | day > 6 = -1
      | name == packName (weekdayName day) = day
      | otherwise = search (day + 1)

-- | The number of a weekday by its full name; the first three letters select the candidate.
longWeekday :: ByteString -> Int
longWeekday name
  | day >= 0 && name == longName day = day
  | otherwise = -1
  where
    day = weekdayAt name 0

longName :: Int -> ByteString
longName = \case
  0 -> "Monday"
  1 -> "Tuesday"
  2 -> "Wednesday"
  3 -> "Thursday"
  4 -> "Friday"
  5 -> "Saturday"
  _ -> "Sunday"

-- | The three bytes at a place, as one number.
nameAt :: ByteString -> Int -> Int
nameAt text place = pack3 (byte 0) (byte 1) (byte 2)
  where
    byte offset = fromIntegral (ByteString.unsafeIndex text (place + offset))
{-# INLINE nameAt #-}

packName :: Name -> Int
packName (Name first second third) = pack3 (ord first) (ord second) (ord third)
{-# INLINE packName #-}

pack3 :: Int -> Int -> Int -> Int
pack3 first second third =
  first .|. (second `unsafeShiftL` 8) .|. (third `unsafeShiftL` 16)
{-# INLINE pack3 #-}

ascii :: Char -> Word8
ascii = fromIntegral . ord
{-# INLINE ascii #-}

-- Note [Years that begin in March]
-- ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
-- In years that begin in March the leap day comes last, so the days before a
-- month depend on the month alone: (153 m + 2) / 5 for March = 0. Years repeat
-- every 400, an era of 146,097 days. Days are counted from the 1st of March of
-- the year -400, so that every quotient below is of natural numbers, where
-- rounding towards zero and rounding down agree. After Howard Hinnant's
-- chrono-compatible date algorithms.

-- Note [Years of two digits]
-- ~~~~~~~~~~~~~~~~~~~~~~~~~~
-- By RFC 9110 a recipient interprets a two-digit year that seems more than 50 years ahead as the last such
-- year in the past, which needs a clock. The weekday decides without one: from one century to the next a
-- day's weekday moves by five or six, so at most one of 19yy and 20yy matches. A date whose weekday matches
-- neither is invalid.
