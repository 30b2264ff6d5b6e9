-- |
-- Module      : OfbenchCommand
-- Description : heddle ofbench
--
-- Loads an OpenFlow controller with fake switches, as cbench does, and tells latencies and fairness.
module OfbenchCommand
  ( ofbenchCommand,
  )
where

import Control.Monad (forM, unless, when)
import Data.List (intercalate, sort)
import Data.Maybe (fromMaybe)
import Heddle.IO (withRuntime)
import Heddle.IO qualified as IO
import Heddle.OpenFlow
import Heddle.OpenFlow.Load
import Heddle.Prim.Clock
import Heddle.Prim.Histogram (quantile)
import Heddle.Prim.Message (putErrorLine)
import Heddle.Prim.Thread (getCapabilities, labelMe, setCapabilities)
import Heddle.Serve (ListenPlace (..))
import Numeric (showFFloat)
import Options.Applicative
import Resolving (resolveHost)
import System.Exit (ExitCode (..), exitWith)
import System.IO (BufferMode (..), hSetBuffering, stdout)

data Options = Options
  { optionHost :: !String,
    optionPort :: !Int,
    optionSwitches :: !Int,
    optionHosts :: !Int,
    optionWindow :: !(Maybe Int),
    optionThroughput :: !Bool,
    optionMilliseconds :: !Int,
    optionLoops :: !Int,
    optionWarmup :: !Int,
    -- | Tests at the beginning, and at the end, that do not count.
    optionFirstTests :: !Int,
    optionLastTests :: !Int,
    optionRanged :: !Bool,
    optionRate :: !(Maybe Int),
    optionThreads :: !Int,
    optionNew :: !Bool,
    optionLearn :: !Bool,
    optionFirst :: !Int
  }

-- | The sub-command's options and action.
ofbenchCommand :: ParserInfo (IO ())
ofbenchCommand =
  info
    (run <$> options)
    ( fullDesc
        <> progDesc "Load an OpenFlow controller with fake switches, and measure it"
        <> footer
          "The flags are cbench's where it has them. Each request has a buffer number of its own and counts once, however many \
          \messages answer it. A switch waits for answers when its window is full; latencies in an open loop (--rate) begin \
          \when a request was due. Exit codes: 0, 1 when a switch failed, 2 when it could not begin."
        <> failureCode 2
    )

options :: Parser Options
options =
  Options
    <$> strOption (long "controller" <> short 'c' <> metavar "HOST" <> value "127.0.0.1" <> showDefault <> help "The controller's address")
    <*> option (positive 65535 "a port") (long "port" <> short 'p' <> metavar "PORT" <> value 6653 <> showDefault <> help "The controller's port")
    <*> option (positive 100000 "a number of switches") (long "switches" <> short 's' <> metavar "N" <> value 16 <> showDefault <> help "Fake switches")
    <*> option (positive 16777216 "a number of hosts") (long "hosts" <> short 'M' <> long "mac-addresses" <> metavar "N" <> value 1000 <> showDefault <> help "Hosts of each switch")
    <*> optional (option (positive 16384 "a number of requests") (long "window" <> metavar "N" <> help "Most unanswered requests of a switch (default: 1, and 512 with --throughput)"))
    <*> switch (long "throughput" <> short 't' <> help "Many requests at once instead of one")
    <*> option (positive 3600000 "a number of milliseconds") (long "ms-per-test" <> short 'm' <> metavar "MS" <> value 1000 <> showDefault <> help "How long a test takes")
    <*> option (positive 1000 "a number of tests") (long "loops" <> short 'l' <> metavar "N" <> value 16 <> showDefault <> help "How many tests")
    <*> option (positive 3600000 "a number of milliseconds") (long "warmup-ms" <> metavar "MS" <> value 1000 <> showDefault <> help "How long to load before each test, after connecting")
    <*> option (within 0 999 "a number of tests") (long "warmup" <> short 'w' <> metavar "N" <> value 0 <> showDefault <> help "How many tests at the beginning do not count")
    <*> option (within 0 999 "a number of tests") (long "cooldown" <> short 'C' <> metavar "N" <> value 0 <> showDefault <> help "How many tests at the end do not count")
    <*> switch (long "ranged-test" <> short 'r' <> help "Test with 1, 2, ... switches, up to --switches")
    <*> optional (option (positive 1000000000 "a number of requests a second") (long "rate" <> metavar "N" <> help "Open loop: this many requests a second, of all switches together"))
    <*> option (positive 64 "a number of threads") (long "threads" <> metavar "N" <> value 1 <> showDefault <> help "Cores of the generator")
    <*> switch (long "of13" <> help "Speak OpenFlow 1.3 instead of 1.0")
    <*> (flag' True (long "learn-dst-macs" <> short 'L' <> help "Make each host known first (the default)") <|> flag True False (long "no-learn" <> help "Do not"))
    <*> option (positive 2000000000 "a number") (long "first-datapath" <> long "dpid-offset" <> short 'o' <> metavar "N" <> value 1 <> showDefault <> help "The first switch's datapath; several generators need different ones")

positive :: Int -> String -> ReadM Int
positive = within 1

within :: Int -> Int -> String -> ReadM Int
within least most what = eitherReader $ \text -> case reads text of
  [(n, "")] | n >= least && n <= most -> Right n
  _ -> Left ("'" ++ text ++ "' is not " ++ what ++ " (" ++ show least ++ " to " ++ show most ++ ")")

run :: Options -> IO ()
run chosen = do
  labelMe "heddle/ofbench"
  let counted = optionLoops chosen - optionFirstTests chosen - optionLastTests chosen
  when (counted < 1) (refuse ("of " ++ show (optionLoops chosen) ++ " tests (--loops) none counts: --warmup leaves " ++ show (optionFirstTests chosen) ++ " out, and --cooldown " ++ show (optionLastTests chosen)))
  hSetBuffering stdout LineBuffering
  now <- getCapabilities
  unless (now == optionThreads chosen) (setCapabilities (optionThreads chosen))
  address <- resolveHost (ListenHost (optionHost chosen) (optionPort chosen)) >>= either refuse pure
  let window = fromMaybe (if optionThroughput chosen then 512 else 1) (optionWindow chosen)
      load =
        (defaultLoad address)
          { loadVersion = if optionNew chosen then OF13 else OF10,
            loadSwitches = optionSwitches chosen,
            loadHosts = optionHosts chosen,
            loadWindow = window,
            loadRate = fromIntegral <$> optionRate chosen,
            loadWarmup = milliseconds (optionWarmup chosen),
            loadDuration = milliseconds (optionMilliseconds chosen),
            loadLearn = optionLearn chosen,
            loadThreads = optionThreads chosen,
            loadFirstDatapath = fromIntegral (optionFirst chosen)
          }
  putStrLn $
    intercalate
      ", "
      [ show (optionSwitches chosen) ++ " switches",
        show (optionHosts chosen) ++ " hosts each" ++ (if optionLearn chosen then "" else " (not made known first)"),
        "window " ++ show window,
        maybe "closed loop" (\r -> "open loop, " ++ show r ++ " requests/s") (optionRate chosen),
        if optionNew chosen then "OpenFlow 1.3" else "OpenFlow 1.0",
        show (optionLoops chosen) ++ " tests of " ++ show (optionMilliseconds chosen) ++ " ms"
      ]
  results <- withRuntime IO.defaultConfig $ \runtime ->
    concat <$> forM (if optionRanged chosen then [1 .. optionSwitches chosen] else [optionSwitches chosen]) (\switches -> testsOf chosen switches (runLoad runtime load {loadSwitches = switches}))
  let failures = concatMap resultFailed results
  unless (null failures) $ do
    putErrorLine ("heddle ofbench: " ++ show (length failures) ++ " switches failed; the first: " ++ head failures)
    exitWith (ExitFailure 1)
  when (all ((== 0) . resultAnswers) results) $ do
    putErrorLine "heddle ofbench: no request was answered.\n  Does the controller answer packet-ins, and with the buffer's number?"
    exitWith (ExitFailure 1)
  where
    refuse why = putErrorLine ("heddle ofbench: " ++ why) >> exitWith (ExitFailure 2)

-- Run the tests with this number of switches, and print each result and the sum of those that count.
testsOf :: Options -> Int -> IO LoadResult -> IO [LoadResult]
testsOf chosen switches test = do
  results <- forM [1 .. optionLoops chosen] $ \i -> do
    result <- test
    putStrLn (describe switches i result ++ (if counts i then "" else " (does not count)"))
    pure result
  let rates = [fromIntegral (resultAnswers r) / resultSeconds r | (i, r) <- zip [1 ..] results, counts i] :: [Double]
      mean = sum rates / fromIntegral (length rates)
      deviation = sqrt (sum [(x - mean) ^ (2 :: Int) | x <- rates] / fromIntegral (length rates))
  putStrLn $
    "RESULT: " ++ show switches ++ " switches " ++ show (length rates) ++ " tests min/max/avg/stdev = "
      ++ intercalate "/" (map two [minimum rates, maximum rates, mean, deviation])
      ++ " responses/s"
  pure results
  where
    counts i = i > optionFirstTests chosen && i <= optionLoops chosen - optionLastTests chosen

two :: Double -> String
two x = showFFloat (Just 2) x ""

describe :: Int -> Int -> LoadResult -> String
describe count i result =
  show i ++ ": " ++ show (round (fromIntegral (resultAnswers result) / resultSeconds result :: Double) :: Int) ++ " responses/s, latency us p50/p90/p99/p99.9/max "
    ++ intercalate "/" [two (fromIntegral (quantile q h) / 1000) | q <- [0.5, 0.9, 0.99, 0.999, 1]]
    ++ ", fairness "
    ++ two fairness
    ++ ", connecting "
    ++ two (resultConnecting result)
    ++ " s"
    ++ concat [", " ++ show n ++ " " ++ what | (n, what) <- [(resultLost result, "lost"), (resultSecond result, "second answers"), (resultOther result, "messages of no request")], n > 0]
  where
    h = resultLatencies result
    each = sort (map switchAnswers (resultSwitches result))
    -- The slowest switch's share of the fastest one's.
    fairness = if count < 1 || last each == 0 then 0 else fromIntegral (head each) / fromIntegral (last each) :: Double
