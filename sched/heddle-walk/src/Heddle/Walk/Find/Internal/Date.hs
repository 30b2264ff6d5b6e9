{-# OPTIONS_HADDOCK not-home #-}

-- |
-- Module      : Heddle.Walk.Find.Internal.Date
-- Description : Dates as people write them
-- Stability   : internal, exempt from the version policy
--
-- The date language of GNU's @date -d@, as @-newermt@ takes it: calendar dates, times of
-- day, zones, days of the week, @yesterday@, @3 days ago@, @\@1700000000@; and in front of
-- them the zone to read them in, as @TZ="Europe/Paris"@.
--
-- Cost: once per run. Owner: values.
module Heddle.Walk.Find.Internal.Date
  ( parseDate,
  )
where

import Control.Applicative ((<|>))
import Control.Monad (guard)
import Data.ByteString (ByteString)
import Data.ByteString.Char8 qualified as Char8
import Data.Char (isAlpha, isAscii, isDigit, isSpace, toLower)
import Data.Int (Int64)
import Data.List (isPrefixOf, stripPrefix)
import Data.Maybe (fromMaybe)
import Heddle.Walk.Find.Internal.System

-- | What a text means now; 'Nothing' when it means nothing.
--
-- [Blocks]: holds an OS thread if the zone's file has to be looked at.
-- [Threads]: while no other reads the environment, which a zone in the text changes for a moment.
parseDate :: Timestamp -> ByteString -> IO (Maybe Timestamp)
parseDate now text = case namedZone (Char8.unpack text) of
  Just (name, rest) -> inZone (Char8.pack name) (parseIn rest)
  Nothing -> parseIn (Char8.unpack text)
  where
    parseIn words' = case tokens words' of
      Nothing -> pure Nothing
      Just [At, Number n] -> pure (Just (exact n))
      Just list -> do
        here <- zoneNamesAround (let Timestamp s _ = now in s)
        maybe (pure Nothing) (resolve now) (items [(map toLower (Char8.unpack name), season) | (name, season) <- here] list)
    exact n = Timestamp (numberValue n) (numberNanos n)

-- A zone in quotation marks at the beginning, and what follows; a backslash quotes itself and
-- quotation marks, and nothing else.
namedZone :: String -> Maybe (String, String)
namedZone text = stripPrefix "TZ=\"" (dropWhile isSpace text) >>= go ""
  where
    go name = \case
      '"' : rest -> Just (reverse name, rest)
      '\\' : c : rest -> if c `elem` "\\\"" then go (c : name) rest else Nothing
      c : rest -> go (c : name) rest
      [] -> Nothing

-- A number: sign if it was written, whole part, digits, and nanoseconds if there was a
-- fraction. A negative fraction is carried into the whole part.
data Numeral = Numeral
  { numberSigned :: !Bool,
    numberValue :: !Int64,
    numberDigits :: !Int,
    numberFraction :: !Bool,
    numberNanos :: !Int64
  }

data Token = Number !Numeral | Word !String | Symbol !Char | At

tokens :: String -> Maybe [Token]
tokens = \case
  [] -> Just []
  c : rest
    | isSpace c -> tokens rest
    | c == '(' -> comment (1 :: Int) rest
    | c == '@' -> (At :) <$> tokens rest
    | c `elem` "+-" -> case dropWhile isSpace rest of
      digits@(d : _) | isDigit d -> number (Just c) digits
      -- A sign before anything else separates only.
      _ -> tokens rest
    | isDigit c -> number Nothing (c : rest)
    | isAscii c && isAlpha c ->
      let (word, more) = span (\x -> isAscii x && isAlpha x || x == '.') (c : rest)
       in (Word (map toLower word) :) <$> tokens more
    | otherwise -> (Symbol c :) <$> tokens rest
  where
    comment 0 rest = tokens rest
    comment _ [] = Just []
    comment n (c : rest) = comment (case c of '(' -> n + 1; ')' -> n - 1; _ -> n) rest
    number sign text = do
      let (whole, more) = span isDigit text
          value = read whole :: Integer
          negative = sign == Just '-'
      guard (value < 10 ^ (17 :: Int))
      let (fraction, rest) = case more of
            point : d : _ | point `elem` ".,", isDigit d -> let (f, end) = span isDigit (drop 1 more) in (f, end)
            _ -> ("", more)
          nanos = if null fraction then 0 else read (take 9 (fraction ++ "000000000")) :: Int64
          (v, n)
            | negative && nanos > 0 = (negate (fromInteger value) - 1, 1000000000 - nanos)
            | negative = (negate (fromInteger value), 0)
            | otherwise = (fromInteger value, nanos)
      (Number (Numeral (sign /= Nothing) v (length whole) (not (null fraction)) n) :) <$> tokens rest

-- What the text says.
data Found = Found
  { dates :: [(Numeral, Int64, Int64)],
    -- | A date without its year.
    monthDays :: [(Int64, Int64)],
    times :: [(Int64, Int64, Int64, Int64)],
    zones :: [Zone],
    -- | Which one, and the day of the week.
    weekdays :: [(Int64, Int64)],
    relative :: Maybe Relative,
    yearGiven :: Maybe Numeral
  }

-- Minutes east, or the user's own zone, perhaps in one of its seasons.
data Zone = East !Int64 | Here !Summer

-- Years, months, days, seconds, nanoseconds.
data Relative = Relative !Int64 !Int64 !Int64 !Int64 !Int64

nothing :: Found
nothing = Found [] [] [] [] [] Nothing Nothing

-- The names of the user's own zone, in small letters.
type ZoneNames = [(String, Summer)]

items :: ZoneNames -> [Token] -> Maybe Found
items here = go nothing
  where
    go found [] = Just found
    go found list = do
      (found', rest) <- item here found list
      go found' rest

type Item = Maybe (Found, [Token])

item :: ZoneNames -> Found -> [Token] -> Item
item here found list =
  timeItem found list
    <|> dateItem found list
    <|> dayItem found list
    <|> relativeItem found list
    <|> zoneItem here found list
    <|> numberItem found list

unsigned :: Numeral -> Bool
unsigned n = not (numberSigned n) && not (numberFraction n)

signed :: Numeral -> Bool
signed n = numberSigned n && not (numberFraction n)

timeItem :: Found -> [Token] -> Item
timeItem found = \case
  Number h : Symbol ':' : Number m : Symbol ':' : Number s : rest
    | unsigned h, unsigned m, not (numberSigned s) -> clock h (numberValue m) (numberValue s) (numberNanos s) rest
  Number h : Symbol ':' : Number m : rest
    | unsigned h, unsigned m -> clock h (numberValue m) 0 0 rest
  Number h : Word w : rest
    | unsigned h, Just half <- meridian w -> at half (numberValue h) 0 0 0 rest
  -- An hour and a zone; not a date, nor a number before something relative.
  Number h : rest@(Number z : more)
    | unsigned h, signed z, not (beginsUnit more), not (beginsSigned more) -> clock h 0 0 0 rest
  _ -> Nothing
  where
    clock h m s n = \case
      Word w : rest | Just half <- meridian w -> at half (numberValue h) m s n rest
      rest -> do
        guard (numberValue h < 24 && m < 60 && s < 60)
        zoned found {times = (numberValue h, m, s, n) : times found} rest
    at afternoon h m s n rest = do
      guard (h >= 1 && h <= 12 && m < 60 && s < 60)
      let hour = (if h == 12 then 0 else h) + (if afternoon then 12 else 0)
      Just (found {times = (hour, m, s, n) : times found}, rest)
    zoned f = \case
      Number z : rest | signed z -> do
        (east, rest') <- offset z rest
        Just (f {zones = East east : zones f}, rest')
      rest -> Just (f, rest)
    beginsSigned = \case
      Number n : _ -> signed n
      _ -> False

meridian :: String -> Maybe Bool
meridian w = lookup w [("am", False), ("a.m.", False), ("pm", True), ("p.m.", True)]

-- Minutes east of a zone written as a number.
offset :: Numeral -> [Token] -> Maybe (Int64, [Token])
offset z = \case
  Symbol ':' : Number m : rest | unsigned m -> within (numberValue z * 60 + signum' * numberValue m) rest
  rest
    | numberDigits z <= 2 -> within (numberValue z * 60) rest
    | otherwise -> within ((numberValue z `quot` 100) * 60 + numberValue z `rem` 100) rest
  where
    signum' = if numberValue z < 0 then -1 else 1
    within east rest = guard (abs east <= 24 * 60) >> Just (east, rest)

dateItem :: Found -> [Token] -> Item
dateItem found = \case
  Number a : Symbol '/' : Number b : Symbol '/' : Number c : rest
    | unsigned a,
      unsigned b,
      unsigned c ->
      if numberDigits a >= 4
        then date a (numberValue b) (numberValue c) rest
        else date c (numberValue a) (numberValue b) rest
  Number a : Symbol '/' : Number b : rest
    | unsigned a, unsigned b -> monthDay (numberValue a) (numberValue b) rest
  Number y : Number m : Number d : rest
    | unsigned y,
      signed m,
      signed d,
      numberValue m < 0,
      numberValue d < 0 ->
      date y (negate (numberValue m)) (negate (numberValue d)) (afterDate rest)
  Number d : Word w : Number y : rest
    | unsigned d, Just m <- month w, signed y -> date y {numberValue = abs (numberValue y)} m (numberValue d) rest
    | unsigned d, Just m <- month w, unsigned y -> date y m (numberValue d) rest
  Number d : Word w : rest
    | unsigned d, Just m <- month w -> monthDay m (numberValue d) rest
  Word w : Number d : Number y : rest
    | Just m <- month w, signed d, signed y -> date y {numberValue = abs (numberValue y)} m (abs (numberValue d)) rest
  Word w : Number d : Symbol ',' : Number y : rest
    | Just m <- month w, unsigned d, unsigned y -> date y m (numberValue d) rest
  Word w : Number d : rest
    | Just m <- month w, unsigned d -> monthDay m (numberValue d) rest
  _ -> Nothing
  where
    date y m d rest = Just (found {dates = (y, m, d) : dates found}, rest)
    monthDay m d rest = Just (found {monthDays = (m, d) : monthDays found}, rest)
    afterDate = \case
      Word "t" : rest@(Number h : _) | unsigned h -> rest
      rest -> rest

month :: String -> Maybe Int64
month w = named ["january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november", "december"] w 1 <|> lookup w [("sept", 9)]

weekday :: String -> Maybe Int64
weekday w =
  named ["sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"] w 0
    <|> lookup w [("tues", 2), ("wednes", 3), ("thur", 4), ("thurs", 4)]

-- A name in full, or its first three letters, with or without a point.
named :: [String] -> String -> Int64 -> Maybe Int64
named names w from = lookup w [(form, n) | (name, n) <- zip names [from ..], form <- [name, take 3 name, take 3 name ++ "."]]

ordinal :: String -> Maybe Int64
ordinal w =
  lookup w . zip ["last", "this", "next", "first", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth", "eleventh", "twelfth"] $
    [-1, 0, 1, 1, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]

dayItem :: Found -> [Token] -> Item
dayItem found = \case
  Word o : Word w : rest | Just n <- ordinal o, Just d <- weekday w -> day n d rest
  Number n : Word w : rest | unsigned n, Just d <- weekday w -> day (numberValue n) d rest
  Word w : Symbol ',' : rest | Just d <- weekday w -> day 0 d rest
  Word w : rest | Just d <- weekday w -> day 0 d rest
  _ -> Nothing
  where
    day n d rest = Just (found {weekdays = (n, d) : weekdays found}, rest)

relativeItem :: Found -> [Token] -> Item
relativeItem found = \case
  Word "tomorrow" : rest -> add (Relative 0 0 1 0 0) rest
  Word "yesterday" : rest -> add (Relative 0 0 (-1) 0 0) rest
  Word w : rest | w `elem` ["today", "now"] -> add (Relative 0 0 0 0 0) rest
  Word o : Word u : rest | Just n <- ordinal o, Just make <- unit u -> perhapsAgo (make n 0) rest
  Number n : Word u : rest
    | Just make <- unit u, not (numberFraction n) || isSecond u -> perhapsAgo (make (numberValue n) (numberNanos n)) rest
  Word u : rest | Just make <- unit u -> perhapsAgo (make 1 0) rest
  _ -> Nothing
  where
    perhapsAgo (Relative y m d s n) = \case
      Word "hence" : rest -> add (Relative y m d s n) rest
      Word "ago" : rest -> add (Relative (negate y) (negate m) (negate d) (negate s) (negate n)) rest
      rest -> add (Relative y m d s n) rest
    add (Relative y m d s n) rest =
      let Relative y' m' d' s' n' = fromMaybe (Relative 0 0 0 0 0) (relative found)
       in Just (found {relative = Just (Relative (y + y') (m + m') (d + d') (s + s') (n + n'))}, rest)
    isSecond u = singular u `elem` ["second", "sec"]

unit :: String -> Maybe (Int64 -> Int64 -> Relative)
unit u = case singular u of
  "year" -> Just (\n _ -> Relative n 0 0 0 0)
  "month" -> Just (\n _ -> Relative 0 n 0 0 0)
  "fortnight" -> Just (\n _ -> Relative 0 0 (14 * n) 0 0)
  "week" -> Just (\n _ -> Relative 0 0 (7 * n) 0 0)
  "day" -> Just (\n _ -> Relative 0 0 n 0 0)
  "hour" -> Just (\n _ -> Relative 0 0 0 (3600 * n) 0)
  "minute" -> Just (\n _ -> Relative 0 0 0 (60 * n) 0)
  "min" -> Just (\n _ -> Relative 0 0 0 (60 * n) 0)
  "second" -> Just (Relative 0 0 0)
  "sec" -> Just (Relative 0 0 0)
  _ -> Nothing

singular :: String -> String
singular u = if not (null u) && last u == 's' then init u else u

beginsUnit :: [Token] -> Bool
beginsUnit = \case
  Word u : _ | Just _ <- unit u -> True
  _ -> False

-- A signed number with its unit belongs to what stands before it, and nothing turns it round.
thenTurned :: [Token] -> Bool
thenTurned = \case
  Number n : Word u : Word w : _ | signed n, Just _ <- unit u -> w `elem` ["ago", "hence"]
  _ -> False

zoneItem :: ZoneNames -> Found -> [Token] -> Item
zoneItem here found = \case
  -- The user's own names come before all but those of universal time.
  Word w : rest | w == "j" -> add (Here anySeason) rest
  Word w : Word "dst" : rest | Just (Here _) <- meant w -> add (Here summerTime) rest
  Word w : rest | Just (Here season) <- meant w -> add (Here season) rest
  Word w : Number z : rest
    | Just (East east) <- meant w,
      signed z,
      not (beginsUnit rest) -> do
      (more, rest') <- offset z rest
      add (East (east + more)) rest'
  Word w : Word "dst" : rest | Just (East east) <- meant w -> add (East (east + 60)) rest
  Word w : rest | Just z <- meant w, not (thenTurned rest) -> add z rest
  _ -> Nothing
  where
    add z rest = Just (found {zones = z : zones found}, rest)
    -- Points may be left out.
    meant w = named' w <|> (guard ('.' `elem` w && length letters > 1) >> named' letters)
      where
        letters = filter (/= '.') w
    named' w
      | w `elem` ["gmt", "ut", "utc"] = Just (East 0)
      | otherwise = (Here <$> lookup w here) <|> (East <$> zone w)

-- Minutes east.
zone :: String -> Maybe Int64
zone w =
  lookup w zoneNames <|> case w of
    [c]
      | c `elem` ['a' .. 'i'] -> Just (60 * (1 + distance 'a' c))
      | c `elem` ['k' .. 'm'] -> Just (60 * (10 + distance 'k' c))
      | c `elem` ['n' .. 'y'] -> Just (-60 * (1 + distance 'n' c))
      | c == 'z' -> Just 0
    _ -> Nothing
  where
    distance from to = fromIntegral (fromEnum to - fromEnum from)

zoneNames :: [(String, Int64)]
zoneNames =
  [ (name, hours * 60 + minutes)
    | (names, hours, minutes) <-
        [ ("wet", 0, 0),
          ("west bst wat cet met mez", 1, 0),
          ("cest mest mesz eet cat sast", 2, 0),
          ("eest eat msk", 3, 0),
          ("msd", 4, 0),
          ("ist", 5, 30),
          ("sgt", 8, 0),
          ("kst jst", 9, 0),
          ("gst", 10, 0),
          ("nzst", 12, 0),
          ("nzdt", 13, 0),
          ("art brt brst adt clst", -3, 0),
          ("nst", -3, -30),
          ("ndt", -2, -30),
          ("ast clt edt", -4, 0),
          ("est cdt", -5, 0),
          ("cst mdt", -6, 0),
          ("mst pdt", -7, 0),
          ("pst akdt", -8, 0),
          ("akst hadt", -9, 0),
          ("hst hast", -10, 0),
          ("sst", -12, 0)
        ],
      name <- words names,
      not ("brst" `isPrefixOf` name)
  ]

-- A number alone: a year, a whole date, or a time of day.
numberItem :: Found -> [Token] -> Item
numberItem found = \case
  Number n : rest
    | not (unsigned n) || thenTurned rest -> Nothing
    | hasDate && not hasYear && relative found `is` Nothing && (not (null (times found)) || numberDigits n > 2) ->
      Just (found {yearGiven = Just n}, rest)
    | numberDigits n > 4 ->
      let v = numberValue n
       in Just (found {dates = (n {numberValue = v `div` 10000, numberDigits = numberDigits n - 4}, v `div` 100 `mod` 100, v `mod` 100) : dates found}, rest)
    | numberDigits n <= 2 -> clock (numberValue n) 0 rest
    | otherwise -> clock (numberValue n `div` 100) (numberValue n `mod` 100) rest
  _ -> Nothing
  where
    hasDate = not (null (dates found)) || not (null (monthDays found))
    hasYear = not (null (dates found)) || maybe False (const True) (yearGiven found)
    is a _ = maybe True (const False) a
    clock h m rest = do
      guard (h < 24 && m < 60)
      Just (found {times = (h, m, 0, 0) : times found}, rest)

resolve :: Timestamp -> Found -> IO (Maybe Timestamp)
resolve (Timestamp seconds nanos) found
  | length (dates found) + length (monthDays found) > 1
      || length (times found) > 1
      || length (zones found) > 1
      || length (weekdays found) > 1 =
    pure Nothing
  | otherwise =
    localTime seconds >>= \case
      Nothing -> pure Nothing
      Just (LocalTime year0 month0 day0 hour0 minute0 second0, _) -> do
        let (year, mon, day) = case (dates found, monthDays found) of
              ((y, m, d) : _, _) -> (fullYear y, m, d)
              (_, (m, d) : _) -> (maybe year0 fullYear (yearGiven found), m, d)
              _ -> (year0, month0, day0)
            keepsTime = maybe False (const True) (relative found) && not dated && null (weekdays found)
            (hour, minute, second, ns) = case times found of
              t : _ -> t
              [] | keepsTime -> (hour0, minute0, second0, nanos)
              _ -> (0, 0, 0, 0)
            start = LocalTime year mon day hour minute second
        if not (isDate year mon day)
          then pure Nothing
          else do
            base <- fromLocal (case zones found of Here season : _ -> season; _ -> anySeason) start
            case base of
              Nothing -> pure Nothing
              Just (begun, season) -> do
                meant <- localTime begun
                case zones found of
                  -- No such hour or season here.
                  _ | fmap fst meant == Just start -> finish start ns begun season
                  East _ : _ -> inZone (Char8.pack "UTC0") (fromLocal anySeason start >>= maybe (pure Nothing) (uncurry (finish start ns)))
                  _ -> pure Nothing
  where
    absolute = dated || not (null (times found)) || not (null (weekdays found))
    seasonGiven = case zones found of
      Here _ : _ -> True
      _ -> False
    dated = not (null (dates found)) || not (null (monthDays found))
    -- Moving from now keeps the season, and with it the hour in winter time; moving from a
    -- given time does not. So does GNU's.
    finish (LocalTime year mon day hour minute second) ns begun season = do
      let weekdayOf = (daysFrom1970 year mon day + 4) `mod` 7
          ahead = case weekdays found of
            (n, wanted) : _
              | not dated -> (wanted - weekdayOf) `mod` 7 + 7 * (n - (if n > 0 && weekdayOf /= wanted then 1 else 0))
            _ -> 0
          Relative y m d s f = fromMaybe (Relative 0 0 0 0 0) (relative found)
          -- The day of the week comes first: what is a month from it depends on its month.
          (year', mon', day') = if ahead == 0 then (year, mon, day) else dayFrom1970 (daysFrom1970 year mon day + ahead)
          moved = LocalTime (year' + y) (mon' + m) (day' + d) hour minute second
      base <- if (y, m, d + ahead) == (0, 0, 0) then pure (Just begun) else fmap fst <$> fromLocal (if absolute && not seasonGiven then anySeason else season) moved
      case base of
        Nothing -> pure Nothing
        Just b -> do
          -- The same hour in the zone that was named.
          zoned <- case zones found of
            East east : _ -> (\here -> b + here - east * 60) <$> localOffset b
            _ -> pure b
          let whole = ns + f
          pure (Just (Timestamp (zoned + s + whole `div` 1000000000) (whole `mod` 1000000000)))

fullYear :: Numeral -> Int64
fullYear n
  | numberDigits n == 2 = numberValue n + (if numberValue n < 69 then 2000 else 1900)
  | otherwise = numberValue n

isDate :: Int64 -> Int64 -> Int64 -> Bool
isDate year mon day = mon >= 1 && mon <= 12 && day >= 1 && day <= lengths
  where
    lengths
      | mon == 2 = if leap then 29 else 28
      | mon `elem` [4, 6, 9, 11] = 30
      | otherwise = 31
    leap = year `mod` 4 == 0 && (year `mod` 100 /= 0 || year `mod` 400 == 0)

-- The day in the calendar: year, month, day.
dayFrom1970 :: Int64 -> (Int64, Int64, Int64)
dayFrom1970 days = (if mon <= 2 then year + 1 else year, mon, day)
  where
    -- Days since a 1st of March at the beginning of 400 years; in these the leap day is always the last.
    (centuries, rest) = (days + 719468) `divMod` 146097
    years = (rest - rest `div` 1460 + rest `div` 36524 - rest `div` 146096) `div` 365
    year = years + 400 * centuries
    dayOfYear = rest - (365 * years + years `div` 4 - years `div` 100)
    m = (5 * dayOfYear + 2) `div` 153
    day = dayOfYear - (153 * m + 2) `div` 5 + 1
    mon = if m < 10 then m + 3 else m - 9

-- Of a day in the calendar.
daysFrom1970 :: Int64 -> Int64 -> Int64 -> Int64
daysFrom1970 year mon day = 365 * y + y `div` 4 - y `div` 100 + y `div` 400 + (153 * m + 2) `div` 5 + day - 1 - 719468
  where
    y = if mon <= 2 then year - 1 else year
    m = (mon + 9) `mod` 12
