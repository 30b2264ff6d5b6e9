{-# LANGUAGE MultiWayIf #-}

-- | The program around a list of benchmarks: options, progress, reports, baselines, and its exit code.
--
-- Cost: that of the benchmarks; the progress line is written at most five times a second, between samples.
-- Owner: the calling thread.
module Heddle.Measure.Main
  ( defaultMain,
    defaultMainWith,
  )
where

import Control.Concurrent (getNumCapabilities)
import Control.Monad (forM_, unless, when)
import Data.ByteString (ByteString)
import Data.ByteString qualified as ByteString
import Data.ByteString.Char8 qualified as Char8
import Data.Either (fromRight)
import Data.Foldable (traverse_)
import Data.List (find, intercalate, isInfixOf, isSuffixOf)
import Data.Maybe (mapMaybe)
import Data.Version (showVersion)
import Heddle.Json.Malformed (Malformed)
import Heddle.Measure.Benchmark (Benchmark)
import Heddle.Measure.Counters (CpuClock (..), absentCounters, withCounters)
import Heddle.Measure.Report
import Heddle.Measure.Report.Html (reportHtml)
import Heddle.Measure.Report.Json
import Heddle.Measure.Report.Terminal (comparisonLine, sessionLines)
import Heddle.Measure.Run
import Heddle.Measure.Statistics
import Heddle.Prim.Atomic (Ref, newRef, readRef, writeRef)
import Heddle.Prim.Clock (Deadline, Nanos (..), elapsed, monotonicNow)
import Heddle.Prim.Exception (Exception (..), IOException, SomeException, try, trySync)
import Options.Applicative
import System.Directory (doesFileExist, removeFile)
import System.Environment (getProgName)
import System.Exit (ExitCode (..), exitWith)
import System.IO
import System.Info (arch, compilerName, fullCompilerVersion, os)
import Text.Read (readMaybe)

-- | Run benchmarks as the command line says, with 'defaultSettings' where it says nothing.
--
-- [Throws]: @ExitFailure 1@ after all benchmarks if one failed, or at once if an option is wrong or a file cannot be
-- read or written; @ExitFailure 2@ if one is slower than @--fail-if-slower@ or 'Heddle.Measure.bcompareWithin' allows.
defaultMain :: [Benchmark] -> IO ()
defaultMain = defaultMainWith defaultSettings

-- | The same with other settings, which options override.
defaultMainWith :: Settings -> [Benchmark] -> IO ()
defaultMainWith settings benchmarks = do
  -- Names and units are not ASCII, whatever the locale.
  hSetEncoding stdout utf8
  hSetEncoding stderr utf8
  options <- customExecParser (prefs showHelpOnError) (info (optionsParser settings <**> helper) (fullDesc <> progDesc "Measures the benchmarks of this program." <> footer exits))
  if optList options
    then benchmarkPaths benchmarks >>= mapM_ putStrLn . filter (chosen options) . map caseName
    else do
      code <- runProgram options benchmarks
      when (code /= ExitSuccess) (exitWith code)
  where
    exits = "Exit codes: 0 success, 1 a benchmark failed or an option or file is wrong, 2 slower than allowed."

-- | What the command line says.
data Options = Options
  { optSettings :: Settings,
    optMatch :: [String],
    optList :: Bool,
    optQuiet :: Bool,
    optJson :: Maybe FilePath,
    optCsv :: Maybe FilePath,
    optHtml :: Maybe FilePath,
    optBaseline :: Maybe FilePath,
    -- | A ratio above 1.
    optSlower :: Maybe Double
  }

optionsParser :: Settings -> Parser Options
optionsParser settings =
  build
    <$> many (strOption (long "match" <> short 'm' <> metavar "TEXT" <> help "Run the benchmarks whose path, as in group/name, contains TEXT; may be repeated"))
    <*> switch (long "list" <> short 'l' <> help "Show the paths of the benchmarks and run none")
    <*> file "json" "Write results with all samples; such a file is a baseline, too"
    <*> file "csv" "Write a line for each benchmark"
    <*> file "html" "Write a page with plots for a browser"
    <*> file "baseline" "Compare with an earlier run's --json FILE"
    <*> optional (option percentage (long "fail-if-slower" <> metavar "PERCENT" <> help "Exit with 2 if the 95 % interval of a benchmark's time, divided by the baseline's, lies above this, such as 5%"))
    <*> option positive (long "time-limit" <> short 'L' <> metavar "SECONDS" <> value (timeLimit settings) <> showDefault <> help "Time for each benchmark")
    <*> option positive (long "timeout" <> metavar "SECONDS" <> value (sampleTimeout settings) <> showDefault <> help "Give a benchmark up when a single sample takes longer")
    <*> option mebibytes (long "allocation-limit" <> metavar "MIB" <> value (allocationLimit settings) <> showDefaultWith (\bytes -> show (bytes `div` 1048576)) <> help "Give a benchmark up when a single sample allocates more")
    <*> option auto (long "seed" <> metavar "NUMBER" <> value (randomSeed settings) <> showDefault <> help "Seed of the order of alternatives and of the resampling")
    <*> (flag' ThreadCpu (long "thread-cpu" <> help "Count the CPU time of the benchmarking thread instead of the process': without what collector and other threads use") <|> pure (cpuTimeOf settings))
    <*> switch (long "quiet" <> short 'q' <> help "Show no progress")
  where
    file name what = optional (strOption (long name <> metavar "FILE" <> help what))
    build match list json csv html baseline slower limit late memory seed clock quiet =
      Options
        { optSettings = settings {timeLimit = limit, sampleTimeout = late, allocationLimit = memory, randomSeed = seed, cpuTimeOf = clock},
          optMatch = match,
          optList = list,
          optQuiet = quiet,
          optJson = json,
          optCsv = csv,
          optHtml = html,
          optBaseline = baseline,
          optSlower = slower
        }
    positive = eitherReader $ \text -> case readMaybe text of
      Just x | x > 0 && x < 1e9 -> Right x
      _ -> Left ("'" ++ text ++ "' is not a positive number of seconds")
    mebibytes = eitherReader $ \text -> case readMaybe text of
      Just n | n > 0 && n < 2 ^ (40 :: Int) -> Right (n * 1048576)
      _ -> Left ("'" ++ text ++ "' is not a positive number of MiB")
    percentage = eitherReader $ \text -> case readMaybe (if "%" `isSuffixOf` text then init text else text) of
      Just p | p >= 0 && p < 1e6 -> Right (1 + p / 100)
      _ -> Left ("'" ++ text ++ "' is not a percentage such as 5%")

chosen :: Options -> String -> Bool
chosen options name = null (optMatch options) || any (`isInfixOf` name) (optMatch options)

-- | What has come out so far.
data Progress = Progress
  { -- | From the last to the first.
    doneEntries :: [Entry],
    doneComparisons :: [Comparison],
    doneGrowths :: [Growth],
    -- | Whether a ratio was outside of what was allowed.
    doneSlower :: Bool
  }

runProgram :: Options -> [Benchmark] -> IO ExitCode
runProgram options benchmarks = do
  baseline <- traverse loadBaseline (optBaseline options)
  checked <- mapM writable (mapMaybe ($ options) [optJson, optCsv, optHtml])
  case (baseline, sequence_ checked) of
    (Just (Left why), _) -> complain why
    (_, Left why) -> complain why
    (_, Right ()) -> withCounters (cpuTimeOf settings) $ \counters -> do
      names <- fmap (filter (chosen options) . map caseName) <$> trySync (benchmarkPaths benchmarks)
      case names of
        Right [] -> complain "no benchmark matches; --list shows their names"
        -- An environment on which names depend cannot be made, which the run reports.
        Left _ -> measureAll counters (fromRight [] <$> baseline) 0
        Right found -> measureAll counters (fromRight [] <$> baseline) (length found)
  where
    settings = optSettings options

    complain why = do
      program <- getProgName
      ExitFailure 1 <$ hPutStrLn stderr (program ++ ": " ++ why)

    measureAll counters baseline number = do
      mapM_ (putStrLn . ("note: " ++)) (absentCounters counters)
      overhead <- loopOverhead counters
      line <- newLine options number
      results <- newRef (Progress [] [] [] False)
      let add entries more growths slower = do
            before <- readRef results
            writeRef results $! Progress (reverse entries ++ doneEntries before) (reverse more ++ doneComparisons before) (reverse growths ++ doneGrowths before) (slower || doneSlower before)
          failed path e = do
            clearLine line
            let entry = Entry (caseName path) "" (Failed ("environment: " ++ displayException (e :: SomeException)))
            mapM_ putStrLn (sessionLines [entry] [] [])
            add [entry] [] [] False
          visit session = do
            startLine line session
            outcomes <- runSession settings counters overhead (tick line settings session) session
            clearLine line
            earlier <- doneEntries <$> readRef results
            compared <- comparisons settings overhead session outcomes
            let entries = [Entry (caseName (casePath c)) (caseName (groupPath session (casePath c))) outcome | (c, outcome) <- outcomes]
                grown = growthOf session outcomes
                known = reverse (reverse entries ++ earlier)
                against = [(other, how) | (c, Finished m) <- outcomes, Just how <- [caseAgainst c], Just other <- [earlierCase how (caseName (casePath c)) known m]]
                based = maybe [] (baselineRatios entries) baseline
            mapM_ putStrLn (sessionLines entries (compared ++ map fst against) grown)
            verdicts <- mapM (baselineVerdict (optSlower options)) based
            bounds <- mapM boundsVerdict against
            hFlush stdout
            add entries (compared ++ map fst against ++ based) grown (or verdicts || or bounds)
      sessions (chosen options . caseName) failed visit benchmarks
      done <- readRef results
      machine <- describeMachine
      let report =
            Report
              { reportEntries = reverse (doneEntries done),
                reportAbsent = absentCounters counters,
                reportMachine = machine,
                reportOverhead = overhead,
                reportComparisons = reverse (doneComparisons done),
                reportGrowths = reverse (doneGrowths done)
              }
          failures = [entryName e | e@(Entry _ _ (Failed _)) <- reportEntries report]
      program <- getProgName
      traverse_ (\file -> reportJson report >>= ByteString.writeFile file) (optJson options)
      traverse_ (\file -> writeText file (reportCsv report)) (optCsv options)
      traverse_ (\file -> reportHtml program report >>= ByteString.writeFile file) (optHtml options)
      unless (null failures) $ putStrLn (show (length failures) ++ " of " ++ show (length (reportEntries report)) ++ " benchmarks failed: " ++ intercalate ", " failures)
      forM_ baseline $ \old -> do
        let missing = [name | (name, _) <- old, chosen options name, name `notElem` map entryName (reportEntries report)]
        unless (null missing) $ putStrLn ("only in the baseline: " ++ intercalate ", " missing)
      pure $
        if
            | not (null failures) -> ExitFailure 1
            | doneSlower done -> ExitFailure 2
            | otherwise -> ExitSuccess

-- Those that ran together are drawn together, others with what has the same path above.
groupPath :: Session -> [String] -> [String]
groupPath session path = case sessionKind session of
  Just _ -> sessionPath session
  Nothing -> init path

earlierCase :: Against -> String -> [Entry] -> Measured -> Maybe Comparison
earlierCase how name known m = do
  Entry other _ (Finished reference) <- find matching known
  pure (Comparison name other (independentRatio (wallTime (summary m)) (wallTime (summary reference))))
  where
    matching (Entry other _ (Finished _)) = againstText how `isInfixOf` other && other /= name
    matching _ = False

boundsVerdict :: (Comparison, Against) -> IO Bool
boundsVerdict (compared, how) = case againstWithin how of
  Just (low, high) -> case comparedRatio compared of
    Nothing -> False <$ putStrLn ("    undecided: whether it is within " ++ show low ++ " to " ++ show high)
    Just ratio
      | upper ratio < low || lower ratio > high -> True <$ putStrLn ("    NOT WITHIN " ++ show low ++ " to " ++ show high ++ ": " ++ showRatio ratio)
      | otherwise -> pure False
  Nothing -> pure False

baselineName :: String
baselineName = "baseline"

baselineRatios :: [Entry] -> Baseline -> [Comparison]
baselineRatios entries old =
  [Comparison name baselineName (independentRatio (wallTime (summary m)) before) | Entry name _ (Finished m) <- entries, Just before <- [lookup name old]]

-- | Whether it is certainly slower than allowed; says so.
baselineVerdict :: Maybe Double -> Comparison -> IO Bool
baselineVerdict allowed compared = do
  putStrLn ("  " ++ comparisonLine compared ++ said)
  pure regressed
  where
    (regressed, said) = case (comparedRatio compared, allowed) of
      (Nothing, Just _) -> (False, ", so it does not count as a regression")
      (Just ratio, Just limit)
        | lower ratio > limit -> (True, "  REGRESSION: slower than allowed")
        | upper ratio > limit -> (False, "  undecided: the interval reaches beyond what is allowed")
      _ -> (False, "")

loadBaseline :: FilePath -> IO (Either String Baseline)
loadBaseline file = do
  content <- try (ByteString.readFile file) :: IO (Either IOException ByteString)
  pure $ case content of
    Left e -> Left ("cannot read the baseline: " ++ displayException e)
    Right bytes -> either (\(why :: Malformed) -> Left (file ++ " is no result of --json: " ++ show why)) Right (readBaseline bytes)

-- A file that cannot be written is known before minutes of measuring, not after.
writable :: FilePath -> IO (Either String ())
writable file = do
  there <- doesFileExist file
  result <- try (withBinaryFile file AppendMode (const (pure ())) >> unless there (removeFile file))
  pure (either (\(e :: IOException) -> Left ("cannot write: " ++ displayException e)) Right result)

writeText :: FilePath -> String -> IO ()
writeText file text = withFile file WriteMode $ \handle -> hSetEncoding handle utf8 >> hPutStr handle text

describeMachine :: IO [(String, String)]
describeMachine = do
  capabilities <- getNumCapabilities
  -- What cannot be read is left out of the reports.
  model <- either (\(_ :: IOException) -> "") cpuModel <$> try (Char8.readFile "/proc/cpuinfo")
  kernel <- either (\(_ :: IOException) -> "") (takeWhile (/= '\n') . Char8.unpack) <$> try (Char8.readFile "/proc/sys/kernel/osrelease")
  pure $
    filter
      (not . null . snd)
      [ ("compiler", compilerName ++ "-" ++ showVersion fullCompilerVersion),
        ("system", os ++ "-" ++ arch),
        ("kernel", kernel),
        ("processor", model),
        ("capabilities", show capabilities)
      ]
  where
    cpuModel text = case [Char8.unpack (Char8.drop 2 (Char8.dropWhile (/= ':') l)) | l <- Char8.lines text, Char8.pack "model name" `Char8.isPrefixOf` l] of
      model : _ -> model
      [] -> ""

-- | The progress line, on a terminal's standard error only.
data Line = Line
  { lineShown :: !Bool,
    lineTotal :: !Int,
    -- | How many benchmarks have been begun.
    lineBegun :: !(Ref Int),
    lineWritten :: !(Ref Deadline)
  }

newLine :: Options -> Int -> IO Line
newLine options number = do
  terminal <- hIsTerminalDevice stderr
  now <- monotonicNow
  Line (terminal && not (optQuiet options)) number <$> newRef 0 <*> newRef now

startLine :: Line -> Session -> IO ()
startLine line session = do
  begun <- readRef (lineBegun line)
  writeRef (lineBegun line) $! begun + length (sessionCases session)

tick :: Line -> Settings -> Session -> Double -> IO ()
tick line settings session share = when (lineShown line) $ do
  now <- monotonicNow
  before <- readRef (lineWritten line)
  let Nanos passed = elapsed before now
  when (passed >= 200000000) $ do
    writeRef (lineWritten line) $! now
    begun <- readRef (lineBegun line)
    let cases = fromIntegral (length (sessionCases session))
        left = timeLimit settings * (cases * (1 - share) + fromIntegral (max 0 (lineTotal line - begun)))
        seconds = ceiling left :: Int
        text =
          "[" ++ show begun ++ "/" ++ show (max begun (lineTotal line)) ++ "] " ++ caseName (sessionPath session) ++ "  "
            ++ show (round (100 * share) :: Int)
            ++ "%  time left "
            ++ show (seconds `div` 60)
            ++ ":"
            ++ drop 1 (show (100 + seconds `mod` 60))
    hPutStr stderr ("\r" ++ text ++ "\ESC[K") >> hFlush stderr

clearLine :: Line -> IO ()
clearLine line = when (lineShown line) (hPutStr stderr "\r\ESC[K" >> hFlush stderr)
