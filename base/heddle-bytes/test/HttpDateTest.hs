{-# LANGUAGE OverloadedStrings #-}

module HttpDateTest
  ( tests,
  )
where

import Control.Monad (forM_)
import Data.ByteString (ByteString)
import Data.ByteString.Char8 qualified as Char8
import Data.Char (isDigit, toLower, toUpper)
import Data.Int (Int64)
import Data.Time (UTCTime, addUTCTime, defaultTimeLocale, formatTime)
import Data.Time.Clock.POSIX (posixSecondsToUTCTime)
import Heddle.Bytes.HttpDate
import Heddle.Prim.Clock (EpochSeconds (..))
import Heddle.Testkit.Written (written)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertEqual, testCase, (@?=))
import Test.Tasty.QuickCheck

tests :: TestTree
tests =
  testGroup
    "HttpDate"
    [ testProperty "formatHttpDate: Data.Time" $
        forAll times $ \time ->
          formatHttpDate (EpochSeconds time) === timeText fixedForm (utc time),
      testProperty "pokeHttpDate: as formatHttpDate" $
        forAll times $ \time -> ioProperty $ do
          text <- written httpDateLength (`pokeHttpDate` EpochSeconds time)
          pure (text === formatHttpDate (EpochSeconds time)),
      testProperty "pokeLogTime: Data.Time" $
        forAll (times `suchThat` awayFromTheEnds) $ \time -> forAll (chooseInt (-1439, 1439)) $ \ahead -> ioProperty $ do
          text <- logTime time ahead
          pure (text === timeText "%d/%b/%0Y:%H:%M:%S " (addUTCTime (60 * fromIntegral ahead) (utc time)) <> zone ahead),
      testProperty "parseHttpDate: inverse" $
        forAll times $ \time ->
          parseHttpDate (formatHttpDate (EpochSeconds time)) === Just (EpochSeconds time),
      testProperty "parseHttpDate: the asctime form" $
        forAll times $ \time ->
          parseHttpDate (timeText asctimeForm (utc time)) === Just (EpochSeconds time),
      testProperty "parseHttpDate: the form of RFC 850" $
        forAll (chooseTime (utcStart 1900) (utcStart 2100 - 1)) $ \time ->
          parseHttpDate (timeText rfc850Form (utc time)) === Just (EpochSeconds time),
      testProperty "parseHttpDate: what is read in the fixed form is what is written" $
        forAll digitsChanged $ \text -> case parseHttpDate text of
          Nothing -> label "not a date" (property True)
          Just time
            | Char8.isInfixOf ":60 " text -> label "leap second" (property True)
            | otherwise -> label "another date" (formatHttpDate time === text),
      testProperty "parseHttpDate: only invalid" $
        forAll notDates $ \text ->
          counterexample (show text) (parseHttpDate text === Nothing),
      testCase "dates that do not exist" $
        forM_ impossible $ \text ->
          assertEqual (Char8.unpack text) Nothing (parseHttpDate text),
      testCase "a leap second is the second that follows it" $ do
        parseHttpDate "Sat, 31 Dec 2016 23:59:60 GMT" @?= parseHttpDate "Sun, 01 Jan 2017 00:00:00 GMT"
        parseHttpDate "Sat, 31 Dec 2016 23:59:60 GMT" @?= Just (EpochSeconds 1483228800),
      testCase "leap years" $ do
        parseHttpDate "Tue, 29 Feb 2000 00:00:00 GMT" @?= Just (EpochSeconds 951782400)
        parseHttpDate "Thu, 29 Feb 2024 00:00:00 GMT" @?= Just (EpochSeconds 1709164800),
      testCase "years without four digits are written as the nearest that has" $ do
        formatHttpDate (EpochSeconds minBound) @?= "Sat, 01 Jan 0000 00:00:00 GMT"
        formatHttpDate (EpochSeconds maxBound) @?= "Fri, 31 Dec 9999 23:59:59 GMT"
        logTime minBound (-60) >>= (@?= "01/Jan/0000:00:00:00 -0100")
        logTime maxBound 60 >>= (@?= "31/Dec/9999:23:59:59 +0100"),
      testCase "offsets of a day or more are written as the nearest below" $ do
        logTime 0 maxBound >>= (@?= "01/Jan/1970:23:59:00 +2359")
        logTime 0 minBound >>= (@?= "31/Dec/1969:00:01:00 -2359"),
      testCase "the examples of the documentation" $ do
        formatHttpDate (EpochSeconds 784111777) @?= "Sun, 06 Nov 1994 08:49:37 GMT"
        parseHttpDate "Sunday, 06-Nov-94 08:49:37 GMT" @?= Just (EpochSeconds 784111777)
        parseHttpDate "Monday, 06-Nov-94 08:49:37 GMT" @?= Nothing
        parseHttpDate "Sun Nov  6 08:49:37 1994" @?= Just (EpochSeconds 784111777)
        logTime 1795289589 60 >>= (@?= "21/Nov/2026:20:33:09 +0100")
    ]

logTime :: Int64 -> Int -> IO ByteString
logTime time ahead = written logTimeLength (\target -> pokeLogTime target (EpochSeconds time) ahead)

utc :: Int64 -> UTCTime
utc = posixSecondsToUTCTime . fromIntegral

timeText :: String -> UTCTime -> ByteString
timeText form = Char8.pack . formatTime defaultTimeLocale form

fixedForm, asctimeForm, rfc850Form :: String
fixedForm = "%a, %d %b %0Y %H:%M:%S GMT"
asctimeForm = "%a %b %e %H:%M:%S %0Y"
rfc850Form = "%A, %d-%b-%y %H:%M:%S GMT"

zone :: Int -> ByteString
zone ahead = Char8.pack ((if ahead < 0 then '-' else '+') : two (abs ahead `div` 60) <> two (abs ahead `mod` 60))
  where
    two number = if number < 10 then '0' : show number else show number

-- | All years of four digits, and more often the present ones, ends of days and
-- ends of months.
times :: Gen Int64
times =
  oneof
    [ chooseTime firstTime lastTime,
      chooseTime 0 4102444800,
      nearMidnight <$> chooseTime (firstTime + 86400) (lastTime - 86400) <*> chooseTime (-2) 2,
      do
        year <- choose (0, 9999) :: Gen Int64
        day <- elements [0, 30, 31, 58, 59, 60, 364]
        pure (min lastTime (utcStart year + 86400 * day))
    ]
  where
    nearMidnight time offset = time - time `mod` 86400 + offset

firstTime, lastTime :: Int64
firstTime = -62167219200
lastTime = 253402300799

awayFromTheEnds :: Int64 -> Bool
awayFromTheEnds time = time > firstTime + 86400 && time < lastTime - 86400

chooseTime :: Int64 -> Int64 -> Gen Int64
chooseTime from to = choose (from, to)

-- | The first second of a year.
utcStart :: Int64 -> Int64
utcStart year = 86400 * (365 * (year - 1970) + leapsBefore year - leapsBefore 1970)
  where
    leapsBefore y = (y + 3) `div` 4 - (y + 99) `div` 100 + (y + 399) `div` 400

dates :: Gen ByteString
dates = timeText fixedForm . utc <$> times

-- | A date in the fixed form, some of whose digits are others.
digitsChanged :: Gen ByteString
digitsChanged = do
  text <- dates
  changes <- chooseInt (0, 2)
  iterate (>>= changeDigit) (pure text) !! changes
  where
    changeDigit text = do
      place <- elements [i | (i, char) <- zip [0 ..] (Char8.unpack text), isDigit char]
      digit <- elements ['0' .. '9']
      pure (replaceAt place digit text)

-- | Never a date in any form.
notDates :: Gen ByteString
notDates = do
  time <- chooseTime (utcStart 1900) (utcStart 2100 - 1)
  form <- elements [fixedForm, asctimeForm, rfc850Form]
  spoil (timeText form (utc time))

-- | Spoil a date in one place.
spoil :: ByteString -> Gen ByteString
spoil text =
  oneof
    [ (`Char8.take` text) <$> chooseInt (0, Char8.length text - 1),
      (text <>) . Char8.pack <$> listOf1 byte,
      insertAt <$> chooseInt (0, Char8.length text) <*> byte,
      pure (Char8.map toLower text),
      pure (Char8.map toUpper text),
      otherWeekday,
      do
        -- Not a digit for a digit: that may be another date.
        place <- chooseInt (0, Char8.length text - 1)
        let old = Char8.index text place
        new <- byte `suchThat` \new -> new /= old && not (isDigit new && (isDigit old || old == ' '))
        if isDigit old && new == ' ' then spoil text else pure (replaceAt place new text)
    ]
  where
    byte = oneof [chooseEnum ('\0', '\xff'), elements " ,:-0123456789GMT"]
    insertAt place new = Char8.take place text <> Char8.cons new (Char8.drop place text)
    otherWeekday = do
      let (name, rest) = Char8.span (\char -> char /= ',' && char /= ' ') text
          names = if Char8.length name == 3 then shortNames else longNames
      other <- elements (filter (/= name) names)
      -- In the form of RFC 850 another weekday can be that of another century.
      if Char8.length name == 3 then pure (other <> rest) else pure (Char8.take 2 other <> rest)
    shortNames = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]
    longNames = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]

replaceAt :: Int -> Char -> ByteString -> ByteString
replaceAt place new text = Char8.take place text <> Char8.cons new (Char8.drop (place + 1) text)

impossible :: [ByteString]
impossible =
  [ "Sun, 00 Nov 1994 08:49:37 GMT",
    "Thu, 31 Nov 1994 08:49:37 GMT",
    "Wed, 29 Feb 2023 00:00:00 GMT",
    "Thu, 29 Feb 1900 00:00:00 GMT",
    "Sun, 06 Nov 1994 24:00:00 GMT",
    "Sun, 06 Nov 1994 08:60:00 GMT",
    "Sun, 06 Nov 1994 08:49:60 GMT",
    "Sun, 06 Nov 1994 23:58:60 GMT",
    "Sun, 06 Nov 1994 23:59:61 GMT",
    "Sun, 06 Nov 1994 08:49:37 UTC",
    "Sun, 06 Nov 1994 08:49:37 GMT ",
    " Sun, 06 Nov 1994 08:49:37 GMT",
    "Sun, 6 Nov 1994 08:49:37 GMT",
    "Sun, 06 nov 1994 08:49:37 GMT",
    "Sun,  6 Nov 1994 08:49:37 GMT",
    "Sun, 06 Nov 94 08:49:37 GMT",
    "Mon, 06 Nov 1994 08:49:37 GMT",
    "Mon Nov  6 08:49:37 1994",
    "Sun Nov   08:49:37 1994",
    "Sun Nov  0 08:49:37 1994",
    "Sunda, 06-Nov-94 08:49:37 GMT",
    "Sun, 06-Nov-94 08:49:37 GMT",
    "Sunday, 06-Nov-1994 08:49:37 GMT",
    "",
    "0"
  ]
