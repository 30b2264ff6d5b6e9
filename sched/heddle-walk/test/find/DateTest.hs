-- |
-- Module      : DateTest
-- Description : Dates as GNU's date reads them
--
-- The C library of dates is compared with @date -d@, in two zones.
module DateTest
  ( dateTests,
  )
where

import Control.Monad (forM_)
import Data.ByteString.Char8 qualified as Char8
import Heddle.Walk.Find.Internal.Date (parseDate)
import Heddle.Walk.Find.Internal.System (Timestamp (..), initialise)
import System.Environment (setEnv)
import System.Exit (ExitCode (..))
import System.Process (readProcessWithExitCode)
import Test.Tasty (DependencyType (..), TestTree, after, testGroup)
import Test.Tasty.HUnit (assertBool, assertEqual, testCase)
import Test.Tasty.QuickCheck

-- | A table and generated dates.
dateTests :: TestTree
dateTests =
  testGroup
    "dates"
    [ -- GNU's reads it since 4.10; the machine's may be older.
      testCase "the letter J is the user's own zone" $ do
        local <- ours "2020-07-01 10:00"
        forM_ ["2020-07-01 10:00 J", "2020-07-01 10:00j"] $ \text -> ours text >>= assertEqual text local
        ours "2020-07-01 10:00 J UTC" >>= assertEqual "two zones" Nothing,
      after AllFinish "dates.the letter J" . testCase "table" $
        forM_ table $ \text -> do
          (first, actual, last') <- around text
          assertBool (text ++ ": " ++ show (first, actual, last')) (first <= actual && actual <= last'),
      -- Not at the same time: a zone in the table is that of the process for a moment.
      after AllFinish "dates.table" . testProperty "generated" . withMaxSuccess 100 . forAll generated $ \text -> ioProperty $ do
        (first, actual, last') <- around text
        pure (counterexample (text ++ ": " ++ show (first, actual, last')) (first <= actual && actual <= last'))
    ]
  where
    -- Each reads the clock, so GNU's comes before ours and after it. Nothing is less than all else.
    around text = (,,) <$> gnu text <*> ours text <*> gnu text

gnu :: String -> IO (Maybe Int)
gnu text = do
  (status, out, _) <- readProcessWithExitCode "env" ["TZ=America/New_York", "date", "-d", text, "+%s"] ""
  pure (if status == ExitSuccess then Just (read out) else Nothing)

ours :: String -> IO (Maybe Int)
ours text = do
  setEnv "TZ" "America/New_York"
  initialise
  (_, now, _) <- readProcessWithExitCode "date" ["+%s"] ""
  found <- parseDate (Timestamp (read now) 0) (Char8.pack text)
  pure ((\(Timestamp s _) -> fromIntegral s) <$> found)

table :: [String]
table =
  [ "2020-01-02",
    "2020-01-02 03:04",
    "2020-01-02T03:04:05",
    "2020-01-02T03:04:05.5Z",
    "2020-01-02 03:04:05 +0100",
    "20200102",
    "20200102 1011",
    "1/2/2020",
    "1/2",
    "1/2/20",
    "2020/01/02",
    "20-1-2",
    "20190203 tuesday last month",
    "3 tuesday last month",
    "3 tuesday 2 months ago",
    "9 friday -1 year 3 days",
    "3 Jan 2020",
    "Jan 3 2020",
    "3-Jan-2020",
    "Jan 3, 2020",
    "Jan 3 12:00 2020",
    "Sat Nov 21 23:57:08 UTC 2026",
    "Monday, 3 Jan 2020",
    "yesterday",
    "tomorrow",
    "today",
    "now",
    "yesterday 10:00",
    "10:00 yesterday",
    "3 days ago",
    "-3 days",
    "+3 days",
    "1 month ago",
    "last year",
    "next week",
    "fortnight ago",
    "90 minutes ago",
    "2 weeks ago",
    "1 year 2 months ago",
    "friday",
    "last friday",
    "next monday",
    "third friday",
    "10:00 next monday",
    "10pm",
    "12 am",
    "12:34 PM",
    "@0",
    "@1600000000",
    "@-5",
    "12:34 jst",
    "UTC+3",
    "utc 10:00",
    "z",
    "a",
    "12",
    "1234",
    "2020",
    "",
    "12:34-05:30",
    "(a comment) 2020-01-01",
    "2020-01-31 1 month",
    "2020-02-29 1 year",
    "12 +0100",
    "midnight",
    "noon",
    "never",
    "2020-13-01",
    "2020-02-30",
    "25:00",
    "12:60",
    "2020-01-02 03:04:60",
    "1 jan 1 feb",
    "1:00 2:00",
    "3 Jan 12:00",
    "2 fridays ago",
    "12th",
    "@",
    "x",
    "2020-01-02 24:00",
    "10:00 am pm",
    "12 -3",
    "12 +100",
    "12 -3:30",
    "12 -3 days",
    "5-4",
    "0020-015",
    "00020-015",
    "23 -24",
    "23 -25",
    "10 -2 friday",
    "2020-01-01 10-5",
    "2020-01-01 10+5:3",
    "2020-01-01T10+05",
    "10 -5 ago",
    "12 -1.5",
    "-3 12",
    "20-1-2",
    "1234 + 10 year ago",
    "1234 - 10 year ago",
    "1234 10 year ago",
    "1234 + 10 year",
    "- 10 year ago",
    "12:34 +10 year ago",
    "20200102 +1 day ago",
    "20200102 + 1 day",
    "7pm.",
    "7 p.m.",
    "7 p.m",
    "7 a.m.",
    "a.m.",
    "10 sept.",
    "tues.",
    "mon.",
    "monday.",
    "u.t.c. 10:00",
    "10:00 u.t",
    "e.s.t 10:00",
    "3 d.ays",
    "3 days.",
    "3 days hence",
    "day hence",
    "hence",
    "tomorrow hence",
    "last week hence",
    "3 days ago hence",
    "2020-07-01 10:00 EST",
    "2020-07-01 10:00 EDT",
    "2020-01-01 10:00 EDT",
    "2020-01-01 10:00 EST",
    "2020-07-01 10:00 EST DST",
    "2020-01-01 10:00 EST DST",
    "DST",
    "CET DST 10:00",
    "2020-01-01 10:00 EST +1 day",
    "10:00 EST +1",
    "2020-07-01 EDT 3 days ago",
    "2020-07-01 EDT 6 months ago",
    "2020-01-01 12:00 EST 6 months",
    "UTC +1 day ago",
    "UTC +1 day",
    "2020-01-01 12:00 EST EST",
    "2020-01-01 12:00 EST UTC",
    "2020-03-08 02:30 EST",
    "2020-03-08 02:30",
    "2020-03-08 02:30 UTC",
    "2020-03-08 02:30 UTC 1 day",
    "2020-11-01 01:30 EST",
    "2020-11-01 01:30 EDT",
    "2020-11-01 01:30",
    "1234 + 10 year hence",
    "wet dst 10:00",
    "@5 EST",
    "TZ=\"Asia/Tokyo\" 2020-06-01 12:00",
    "  TZ=\"Asia/Tokyo\"yesterday 10:00",
    "TZ=\"Europe/Paris\" 2020-06-01 12:00 UTC",
    "TZ=\"Europe/Paris\" @5",
    "TZ=\"\" 2020-06-01",
    "TZ=\"No/Such Zone\" 2020-06-01",
    "TZ=\"EST5EDT\" 2020-01-01",
    "TZ=\"a\\\"\\\\b\" 2020-01-01",
    "TZ=\"a\\b\" 2020-01-01",
    "TZ=\"UTC\"",
    "TZ=\"UTC 2020-01-01",
    "TZ=UTC 2020-01-01",
    "tz=\"UTC\" 2020-01-01",
    "2020-01-01 TZ=\"UTC\"",
    "TZ=\"UTC\" TZ=\"UTC\" 2020-01-01"
  ]

-- Valid parts in any order and number; many combinations mean nothing.
generated :: Gen String
generated = unwords <$> (choose (1, 3) >>= \n -> vectorOf n (elements parts))
  where
    parts = ["2021-03-04", "12:30", "5 Jun 2019", "tuesday", "next friday", "2 hours ago", "-1 day", "UTC", "10 am", "last month", "4/5/2018", "+2 weeks", "20190203", "bogus"]
