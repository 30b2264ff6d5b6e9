{-# LANGUAGE OverloadedStrings #-}

-- | Whole programs: options, reports, baselines, and benchmarks that go wrong.
module ProgramTest (tests) where

import Control.Monad (forM_, void)
import Data.ByteString (ByteString)
import Data.ByteString qualified as ByteString
import Data.ByteString.Char8 qualified as Char8
import Data.Char (isDigit)
import Data.List (isInfixOf, isPrefixOf, sort, stripPrefix, tails)
import Heddle.Json.Decode qualified as Decode
import Heddle.Measure.Report.Json (readBaseline)
import Heddle.Prim.Exception (bracket)
import Heddle.Testkit.Browser (inBrowser)
import System.Directory
import System.Environment (getExecutablePath)
import System.Exit (ExitCode (..))
import System.IO (hClose, hGetContents, openBinaryTempFile)
import System.Posix.Signals (sigINT, signalProcess)
import System.Process
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, assertFailure, testCase, testCaseInfo, (@?=))

tests :: TestTree
tests =
  testGroup
    "programs"
    [ testCase "a file for criterion, with only the import changed" $ do
        (code, out, _) <- program "criterion" ["--time-limit", "0.02"]
        code @?= ExitSuccess
        forM_ ["fib/9", "main/small/length . filter", "main/big/length", "batch", "run", "action", "whnfs", "io"] (`within` out),
      testCase "a file for tasty-bench, with only the import changed" $ do
        (code, out, _) <- program "tasty-bench" ["--time-limit", "0.02"]
        code @?= ExitSuccess
        forM_ ["fibonacci numbers/fifth", "fibonacci numbers/twelfth / fibonacci numbers/tenth: ", "sixth / fibonacci numbers/fifth: "] (`within` out),
      testCase "--list names all and runs none" $ do
        (code, out, complaints) <- program "ordinary" ["--list"]
        (code, complaints) @?= (ExitSuccess, "")
        lines out @?= ["group <b>/sort", "group <b>/sum", "alternatives/first", "alternatives/inner/second"] ++ ["sizes/" ++ show n | n <- [100, 200, 400, 800, 1600, 3200 :: Int]] ++ ["with environment", "dependent/late"],
      testCase "--match runs what contains a text, and makes no other environment" $ do
        (code, out, _) <- program "ordinary" ["--match", "<b>/s", "-m", "late"]
        code @?= ExitSuccess
        mapM_ (`within` out) ["group <b>/sort", "group <b>/sum", "dependent/late"]
        mapM_ (`notWithin` out) ["alternatives", "made"]
        (code', _, complaints) <- program "ordinary" ["--match", "no such thing"]
        code' @?= ExitFailure 1
        "no benchmark matches" `within` complaints,
      testCase "environments are made once and released" $ do
        (_, out, _) <- program "ordinary" ["--match", "with environment"]
        filter (`elem` ["made", "released"]) (lines out) @?= ["made", "released"],
      testCase "reports in every format" $
        inFolder $ \folder -> do
          let (json, csv, html) = (folder ++ "/r.json", folder ++ "/r.csv", folder ++ "/r.html")
          (code, out, _) <- program "ordinary" ["--json", json, "--csv", csv, "--html", html]
          code @?= ExitSuccess
          mapM_ (`within` out) ["alternatives/inner/second / alternatives/first: ", "sizes grows as O("]
          results <- ByteString.readFile json >>= either (assertFailure . show) pure . readBaseline
          sort (map fst results) @?= sort (["group <b>/sort", "group <b>/sum", "alternatives/first", "alternatives/inner/second", "with environment", "dependent/late"] ++ ["sizes/" ++ show n | n <- [100, 200, 400, 800, 1600, 3200 :: Int]])
          table <- Char8.lines <$> ByteString.readFile csv
          length table @?= 13
          assertBool "columns" (all ((== 19) . Char8.count ',') table)
          page <- ByteString.readFile html
          assertBool "escaped" ("group &lt;b&gt;" `ByteString.isInfixOf` page && not ("group <b>" `ByteString.isInfixOf` page)),
      testCase "the number of samples read as a share of the runs" samplesReadAsAShareOfTheRuns,
      testCaseInfo "the page in Chromium, wide and narrow" $
        inFolder $ \folder -> do
          let html = folder ++ "/r.html"
          void (program "ordinary" ["--html", html])
          page <- ByteString.readFile html
          -- The page has no scripts and allows none.
          let (before, policy) = Char8.breakSubstring "<meta http-equiv" page
          Char8.writeFile html (before <> ByteString.drop 1 (Char8.dropWhile (/= '>') policy) <> probe)
          _ <- inBrowser 1200 html $ \seen -> mapM_ (`within` seen) ["wide: false", "plots: 25", "flat: 0"]
          inBrowser 500 html $ \seen -> mapM_ (`within` seen) ["wide: false", "plots: 25", "flat: 0"],
      testCase "--baseline and --fail-if-slower" $
        inFolder $ \folder -> do
          let file = folder ++ "/old.json"
              against bounds = do
                writeFile file ("{\"benchmarks\":[{\"name\":\"group <b>/sum\",\"time\":" ++ bounds ++ "},{\"name\":\"gone\",\"error\":\"x\"},{\"name\":\"removed\",\"time\":" ++ bounds ++ "}]}")
                program "ordinary" ["--match", "group", "--match", "removed", "--time-limit", "0.5", "--baseline", file, "--fail-if-slower", "5%"]
          (slower, out, _) <- against "{\"estimate\":0.01,\"lower\":0.01,\"upper\":0.01}"
          slower @?= ExitFailure 2
          mapM_ (`within` out) ["group <b>/sum / baseline: ", "REGRESSION", "only in the baseline: removed"]
          (faster, out', _) <- against "{\"estimate\":1e9,\"lower\":1e9,\"upper\":1e9}"
          faster @?= ExitSuccess
          "faster" `within` out'
          (unclear, out'', _) <- against "{\"estimate\":1e3,\"lower\":1e-3,\"upper\":1e9}"
          unclear @?= ExitSuccess
          "undecided" `within` out'',
      testGroup
        "aBaselineOfNearlyZeroGaveInfinity"
        [ testCase bounds (tooSmallInTheBaseline bounds)
          | bounds <-
              [ "{\"estimate\":0,\"lower\":0,\"upper\":0}",
                "{\"estimate\":1e-3,\"lower\":0,\"upper\":1}",
                "{\"estimate\":1e-3,\"lower\":-1,\"upper\":1}",
                "{\"estimate\":-1,\"lower\":-2,\"upper\":0}",
                "{\"estimate\":1e-320,\"lower\":1e-320,\"upper\":1e-320}"
              ]
        ],
      testCase "aTimeOfNothingGaveARatio" $
        inFolder $ \folder -> do
          let (json, html) = (folder ++ "/r.json", folder ++ "/r.html")
          (code, out, _) <- program "void" ["--json", json, "--html", html]
          code @?= ExitSuccess
          page <- Char8.unpack <$> ByteString.readFile html
          forM_ [("neither/second", "neither/first"), ("after", "neither/first"), ("more", "neither/first"), ("less", "some"), ("mixed/second", "mixed/first"), ("mixed, too/second", "mixed, too/first")] $ \(name, other) -> (name ++ " / " ++ other ++ ": too small to compare") `within` out
          forM_ [out, page] $ \text -> "no order can be told from fewer than four sizes; too small to compare: 100, 200, 400, 800, 1600" `within` text
          filter ("    undecided" `isPrefixOf`) (lines out) @?= ["    undecided: whether it is within 0.0 to 0.5", "    undecided: whether it is within 2.0 to 3.0"]
          forM_ ["Infinity", "NaN"] $ \wrong -> mapM_ (wrong `notWithin`) [out, page]
          compared <- ByteString.readFile json >>= either (assertFailure . show) pure . comparedIn
          compared @?= [(name, Nothing, "too small to compare") | name <- ["neither/second", "after", "more", "less", "mixed/second", "mixed, too/second"]],
      testCase "a run is a baseline for the next" $
        inFolder $ \folder -> do
          let file = folder ++ "/old.json"
          void (program "ordinary" ["--match", "sort", "--json", file])
          (code, out, _) <- program "ordinary" ["--match", "sort", "--baseline", file, "--fail-if-slower", "100000", "--json", file]
          code @?= ExitSuccess
          "group <b>/sort / baseline: " `within` out,
      testCase "bcompareWithin decides the exit code" $ do
        -- With the 0.03 s of these programs, a busy machine leaves it undecided one time in twenty.
        (code, out, _) <- program "bounds" ["--time-limit", "1"]
        code @?= ExitFailure 2
        "NOT WITHIN" `within` out,
      testCase "benchmarks that go wrong are named, and the others go on" $ do
        -- Only what waits for ever may reach a time-out: on a stalled machine the others would, too.
        (late, waited, _) <- program "bad" ["--match", "waits"]
        late @?= ExitFailure 1
        "did not end within 2.0 s" `within` unlines (filter ("waits" `isPrefixOf`) (lines waited))
        (code, out, _) <- program "bad" (["--timeout", "3600"] ++ concatMap (\name -> ["--match", name]) ["throws", "allocates", "unmade", "inside", "together", "nothing", "last"])
        code @?= ExitFailure 1
        let line name = unlines (filter (name `isPrefixOf`) (lines out))
        "FAILED: threw: " `within` line "throws " >> "on purpose" `within` out
        "pure" `within` line "throws late"
        "allocated more than 64 MiB" `within` line "allocates"
        "FAILED: environment: " `within` out
        "inside" `within` out
        filter (`elem` ["never", "released"]) (lines out) @?= ["released"]
        forM_ ["together/good", "together/other", "nothing", "last"] $ \name -> "FAILED" `notWithin` line name >> name `within` out
        "together/other / together/good: " `within` out
        "6 of 10 benchmarks failed" `within` out,
      testGroup "anInterruptWasTakenForAnEnvironmentThatFails" $
        [testCase place (interruptEnds ("interrupted-" ++ place)) | place <- ["naming", "making", "releasing", "sample", "alternatives"]],
      testCase "nothing takes no time, which is said" $ do
        (code, out, _) <- program "bad" ["--match", "nothing"]
        code @?= ExitSuccess
        "note: " `within` out,
      testCase "wrong options and files are refused before anything runs" $
        inFolder $ \folder -> do
          writeFile (folder ++ "/broken") "{\"benchmarks\":["
          forM_
            [ (["--time-limit", "0"], "not a positive number"),
              (["--fail-if-slower", "fast"], "not a percentage"),
              (["--allocation-limit", "-1"], "--allocation-limit"),
              (["--json", folder ++ "/no/such/folder"], "cannot write"),
              (["--baseline", folder ++ "/absent"], "cannot read the baseline"),
              (["--baseline", folder ++ "/broken"], "is no result of --json"),
              (["--wrong"], "--wrong")
            ]
            $ \(options, why) -> do
              (code, out, complaints) <- program "ordinary" options
              code @?= ExitFailure 1
              why `within` complaints
              out @?= ""
          left <- listDirectory folder
          left @?= ["broken"],
      testCaseInfo "thousandCopiesDoNotDrift" $
        inFolder $ \folder -> do
          let file = folder ++ "/r.json"
          (code, _, complaints) <- program "drift" ["--time-limit", "0.001", "--json", file]
          (code, complaints) @?= (ExitSuccess, "")
          results <- ByteString.readFile file >>= either (assertFailure . show) pure . fastestAndCopied
          length results @?= 1000
          -- What repeats exactly on a busy machine, too: the collector has no more to copy at the end than at the beginning.
          let ends = [take 250 results, drop 750 results]
              copied = map (sum . map snd) ends
          assertBool (show copied) (all (< 1) copied)
          pure ("fastest of the first and the last quarter, in ns: " ++ show (map (minimum . map fst) ends))
    ]

-- | Interrupt a program once it says that it is there. It ends by the signal, as what a shell starts does, and measures
-- nothing more.
interruptEnds :: String -> IO ()
interruptEnds name = do
  this <- getExecutablePath
  withCreateProcess (proc this ["program", name]) {std_out = CreatePipe} $ \_ from _ process -> case from of
    Just answers -> do
      said <- lines <$> hGetContents answers
      let (before, after) = break (== "here") said
      assertBool (unlines said) (not (null after))
      mapM_ ("after the interrupt" `notWithin`) before
      getPid process >>= mapM_ (signalProcess sigINT)
      -- What else it says, until it has ended or waits again.
      let rest = takeWhile (/= "here") (drop 1 after)
      rest @?= []
      length said @?= length before + 1
      code <- waitForProcess process
      code @?= ExitFailure (-2)
    Nothing -> assertFailure "no pipe"

-- | A benchmark against one of these times: no ratio in any report, and no regression.
tooSmallInTheBaseline :: String -> IO ()
tooSmallInTheBaseline bounds = inFolder $ \folder -> do
  let (old, json, html) = (folder ++ "/old.json", folder ++ "/r.json", folder ++ "/r.html")
  writeFile old ("{\"benchmarks\":[{\"name\":\"group <b>/sum\",\"time\":" ++ bounds ++ "}]}")
  (code, out, _) <- program "ordinary" ["--match", "/sum", "--baseline", old, "--fail-if-slower", "5%", "--json", json, "--html", html]
  code @?= ExitSuccess
  "group <b>/sum / baseline: too small to compare, so it does not count as a regression\n" `within` out
  compared <- ByteString.readFile json >>= either (assertFailure . show) pure . comparedIn
  compared @?= [("group <b>/sum", Nothing, "too small to compare")]
  page <- Char8.unpack <$> ByteString.readFile html
  "too small to compare" `within` page
  forM_ ["Infinity", "NaN"] $ \wrong -> mapM_ (wrong `notWithin`) [out, page]

-- | Of each comparison the name, the estimate unless the ratio is @null@, and the verdict.
comparedIn :: ByteString -> Either Decode.Malformed [(String, Maybe Double, String)]
comparedIn = Decode.decode Decode.defaultLimits (Decode.record (Decode.required "comparisons" (Decode.list comparison)))
  where
    comparison = Decode.record ((,,) <$> Decode.required "name" Decode.string <*> Decode.required "ratio" (Decode.nullable ratio) <*> Decode.required "verdict" Decode.string)
    ratio = Decode.record (Decode.required "estimate" Decode.double)

-- | Of each benchmark, the fastest sample's time and the bytes that the collector copied, for one run.
fastestAndCopied :: ByteString -> Either Decode.Malformed [(Double, Double)]
fastestAndCopied = Decode.decode Decode.defaultLimits (Decode.record (Decode.required "benchmarks" (Decode.list benchmark)))
  where
    benchmark = Decode.record ((,) <$> Decode.required "fastest" Decode.double <*> Decode.required "copied" Decode.double)

-- | How wide the page is, how many plots it has, and how many of them nobody can see.
probe :: ByteString
probe =
  "<pre id=probe></pre><script>const say=(k,v)=>{document.getElementById('probe').textContent+=k+': '+v+'\\n'};\
  \say('wide',document.documentElement.scrollWidth>document.documentElement.clientWidth);\
  \say('plots',document.querySelectorAll('svg').length);\
  \say('flat',[...document.querySelectorAll('svg')].filter(s=>s.getBoundingClientRect().height<50||s.getBoundingClientRect().width<100).length)</script>"

program :: String -> [String] -> IO (ExitCode, String, String)
program name options = do
  this <- getExecutablePath
  readProcessWithExitCode this (["program", name] ++ options) ""

within :: String -> String -> IO ()
within part whole = assertBool (part ++ " is not in:\n" ++ whole) (part `isInfixOf` whole)

notWithin :: String -> String -> IO ()
notWithin part whole = assertBool (part ++ " is in:\n" ++ whole) (not (part `isInfixOf` whole))

inFolder :: (FilePath -> IO a) -> IO a
inFolder = bracket make removeDirectoryRecursive
  where
    make = do
      above <- getTemporaryDirectory
      (path, handle) <- openBinaryTempFile above "heddle.measure"
      hClose handle >> removeFile path >> createDirectory path
      pure path

-- The page said "238 of 38885 runs" for 238 samples of 38,885 runs each.
samplesReadAsAShareOfTheRuns :: IO ()
samplesReadAsAShareOfTheRuns = inFolder $ \folder -> do
  let html = folder ++ "/r.html"
  void (program "ordinary" ["--match", "group", "--html", html])
  page <- Char8.unpack <$> ByteString.readFile html
  let rows = [takeWhile (/= '<') cell | Just cell <- map (stripPrefix "<tr><th>samples</th><td>") (tails page)]
  length rows @?= 2
  forM_ rows $ \row -> case words row of
    [n, samples, "of", runs, "run"] | all isDigit n -> (samples, runs) @?= ("samples", "1")
    [n, samples, "of", runs, "runs", "each"] -> assertBool row (all isDigit (n ++ runs) && samples == (if n == "1" then "sample" else "samples"))
    _ -> assertFailure row
