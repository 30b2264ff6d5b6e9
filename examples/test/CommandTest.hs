-- | The program itself: answers, messages, exit codes.
module CommandTest
  ( tests,
  )
where

import Control.Exception (bracket)
import Control.Monad (forM_)
import Data.ByteString.Char8 qualified as C
import Data.List (isInfixOf, isPrefixOf)
import System.Directory (removePathForcibly)
import System.Exit (ExitCode (..))
import System.FilePath ((</>))
import System.Posix.Temp (mkdtemp)
import System.Process (readProcessWithExitCode)
import System.Timeout (timeout)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, assertFailure, testCase, (@?=))

tests :: TestTree
tests =
  testGroup
    "command"
    [ testGroup "answers" answers,
      testGroup "files" files,
      testGroup "exit code 2, and what is wrong" refusals
    ]

run :: [String] -> IO (ExitCode, String, String)
run arguments =
  timeout 30000000 (readProcessWithExitCode "heddle-rendezvous-examples" arguments "") >>= \case
    Just ended -> pure ended
    Nothing -> assertFailure (unwords arguments <> ": did not end")

-- The answer, without times.
answering :: String -> [String] -> String -> [String] -> TestTree
answering what arguments answer ways = testCase what $
  forM_ ["1", "2", "3"] $ \cores -> do
    (code, out, err) <- run (arguments <> ["--cores", cores, "--rounds", "1", "--repeat", "1"])
    (code, err) @?= (ExitSuccess, "")
    let (before, after) = breakOn "  sequential " out
    before @?= head arguments <> "  result " <> answer
    forM_ ("sequential" : ways) $ \way -> assertBool (show out) (("  " <> way <> " ") `isInfixOf` after)

breakOn :: String -> String -> (String, String)
breakOn part = go
  where
    go text
      | null text || part `isPrefixOf` text = ("", text)
      | otherwise = let (before, after) = go (tail text) in (head text : before, after)

answers :: [TestTree]
answers =
  [ answering "producer-consumer" ["producer-consumer", "--size", "200", "--work", "10"] "98449242" ["det"],
    answering "pipeline" ["pipeline", "--size", "200", "--work", "10", "--stages", "5"] "48220564" ["det"],
    answering "maximum" ["maximum"] "9223366125022603593" ["par/pseq", "det"],
    answering "sat" ["sat", "--variables", "100", "--clauses", "500", "--core-variables", "40", "--core-clauses", "300"] "unsatisfiable" ["par/pseq", "det", "leftmost"],
    answering "search" ["search", "--work", "1"] "390000" ["rendezvous", "leftmost"],
    answering "filter" ["filter", "--size", "5000", "--taps", "50"] "level 0.358545 of 5000 samples" ["det"],
    answering "histogram" ["histogram"] "434 by 434 pixels, mean red 126.8 green 126.8 blue 127.5" ["det"],
    testCase "--print: every item, in order" $ do
      (code, out, _) <- run ["pipeline", "--print", "--size", "50", "--work", "0", "--stages", "3"]
      code @?= ExitSuccess
      take 50 (lines out) @?= map (show . (+ (6 :: Int))) [0 .. 49],
    testCase "--times: a line for each way and round" $ do
      (code, out, _) <- run ["maximum", "--size", "100", "--times", "--rounds", "4"]
      code @?= ExitSuccess
      map (head . words) (lines out) @?= concat (replicate 4 ["sequential", "par/pseq", "det"])
      assertBool out (all ((\ns -> read ns > (0 :: Int)) . last . words) (lines out)),
    testCase "--only leaves the others out" $ do
      (_, out, _) <- run ["maximum", "--size", "100", "--times", "--rounds", "1", "--only", "det"]
      map (head . words) (lines out) @?= ["det"],
    testCase "--help lists the programs, and their options" $ do
      (code, out, _) <- run ["--help"]
      code @?= ExitSuccess
      forM_ ["producer-consumer", "pipeline", "maximum", "sat", "search", "filter", "histogram"] $ \name -> do
        assertBool name (name `isInfixOf` out)
        (code', out', _) <- run [name, "--help"]
        code' @?= ExitSuccess
        assertBool out' (all (`isInfixOf` out') ["--cores", "--rounds", "--times", "--only"])
  ]

withFiles :: [(String, String)] -> (FilePath -> IO a) -> IO a
withFiles contents act = bracket (mkdtemp "/tmp/heddle-test-") removePathForcibly $ \d -> do
  forM_ contents $ \(name, text) -> C.writeFile (d </> name) (C.pack text)
  act d

files :: [TestTree]
files =
  [ testCase "maximum of a file" $
      withFiles [("n", "3 -5\n17 4\n")] $ \d -> do
        (code, out, _) <- run ["maximum", d </> "n"]
        code @?= ExitSuccess
        assertBool out ("maximum  result 17  " `isPrefixOf` out),
    testCase "search in a file: the first copy, or none" $
      withFiles [("n", "3 17 -4\n17 -4\n")] $ \d -> do
        (_, out, _) <- run ["search", d </> "n", "--key", "-4", "--interval", "1"]
        assertBool out ("search  result 2  " `isPrefixOf` out)
        (_, none, _) <- run ["search", d </> "n", "--key=5"]
        assertBool none ("search  result not found  " `isPrefixOf` none),
    testCase "a satisfiable formula: as in SAT competitions" $
      withFiles [("f.cnf", "c\np cnf 3 3\n-1 0\n1 2 0\n-2 -3 0\n")] $ \d -> do
        (code, out, _) <- run ["sat", d </> "f.cnf", "--rounds", "1"]
        code @?= ExitFailure 10
        assertBool out ("c sat  result satisfiable " `isPrefixOf` out)
        tail (lines out) @?= ["s SATISFIABLE", "v -1 2 -3 0"],
    testCase "an unsatisfiable one" $
      withFiles [("f.cnf", "p cnf 1 2\n1 0 -1 0\n")] $ \d -> do
        (code, out, _) <- run ["sat", d </> "f.cnf", "--rounds", "1"]
        code @?= ExitFailure 20
        tail (lines out) @?= ["s UNSATISFIABLE"],
    testCase "a formula written and read" $
      withFiles [] $ \d -> do
        let f = d </> "f.cnf"
        (code, _, err) <- run ["sat", "--variables", "60", "--clauses", "300", "--core-variables", "30", "--core-clauses", "240", "--write", f, "--rounds", "1"]
        (code, err) @?= (ExitSuccess, "")
        (code', _, _) <- run ["sat", f, "--rounds", "1"]
        code' @?= ExitFailure 20,
    testCase "samples filtered into a file" $
      withFiles [("in.txt", unwords (replicate 9 "0.5"))] $ \d -> do
        (code, out, err) <- run ["filter", d </> "in.txt", "--taps", "1", "-o", d </> "out.txt"]
        (code, err) @?= (ExitSuccess, "")
        assertBool out ("filter  result level 0.500000 of 9 samples" `isPrefixOf` out)
        C.readFile (d </> "out.txt") >>= (@?= C.pack (concat (replicate 9 "0.5\n"))),
    testCase "a picture's histogram" $
      withFiles [("p.ppm", "P6 2 1 255\nabcabd")] $ \d -> do
        (code, out, _) <- run ["histogram", d </> "p.ppm", "--table", "--size", "3"]
        code @?= ExitSuccess
        assertBool out ("histogram  result 2 by 1 pixels, mean red 97.0 green 98.0 blue 99.5  " `isPrefixOf` out)
        filter (any (/= "0") . tail . words) (tail (lines out)) @?= ["97 6 0 0", "98 0 6 0", "99 0 0 3", "100 0 0 3"]
  ]

refusals :: [TestTree]
refusals =
  [ refused "nothing at all" [] ["COMMAND"],
    refused "a program that is not there" ["weave"] ["weave"],
    refused "no cores" ["maximum", "--cores", "0"] ["'0' is not a number from 1 to 256"],
    refused "sizes in words" ["filter", "--size", "many"] ["'many' is not a number"],
    refused "a way that is not there" ["maximum", "--only", "luck"] ["'luck' is not a way", "sequential, par/pseq, det"],
    refused "a place beyond the list" ["search", "--size", "10", "--place", "10"] ["place 10", "last place is 9"],
    refused "a key without a file" ["search", "--key", "1"] ["--place"],
    refused "a core as large as the formula" ["sat", "--core-variables", "600"] ["core"],
    refused "a file that is missing" ["maximum", "/no/such/file"] ["cannot read /no/such/file", "does not exist"],
    refused "a directory" ["histogram", "/"] ["cannot read /"],
    refusedFile "no numbers" "maximum" [] "" ": has no numbers",
    refusedFile "a word among numbers" "maximum" [] "1 2\n3 four\n" ":2: \"four\" is not a whole number",
    refusedFile "a file without a key" "search" [] "1" "--key",
    refusedFile "a clause without end" "sat" [] "p cnf 1 1\n1\n" ":2: the last clause has no 0",
    refusedFile "no sound" "filter" [] "0.5 a" ":1: \"a\" is not a number",
    refusedFile "no picture" "histogram" [] "P7" ": is not a picture",
    testCase "a file that cannot be written" $ do
      (code, _, err) <- run ["histogram", "--write", "/no/such/directory/p", "--repeat", "1"]
      code @?= ExitFailure 2
      assertBool err ("cannot write /no/such/directory/p" `isInfixOf` err)
  ]
  where
    refused what arguments parts = testCase what $ do
      (code, out, err) <- run arguments
      (code, if null arguments then "" else out) @?= (ExitFailure 2, "")
      forM_ parts $ \part -> assertBool (show err) (part `isInfixOf` (out <> err))
    refusedFile what program more text part = testCase what $
      withFiles [("file", text)] $ \d -> do
        (code, out, err) <- run ([program, d </> "file"] <> more)
        (code, out) @?= (ExitFailure 2, "")
        assertBool (show err) (("heddle-rendezvous-examples " <> program <> ": ") `isPrefixOf` err)
        assertBool (show err) (part `isInfixOf` err)
