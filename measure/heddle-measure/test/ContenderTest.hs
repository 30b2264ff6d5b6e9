-- | Programs that measure themselves: what they print, and which command lines they refuse.
module ContenderTest (tests) where

import Control.Monad (forM_)
import Data.List (isInfixOf, isPrefixOf)
import System.Environment (getExecutablePath)
import System.Exit (ExitCode (..))
import System.Process (readProcessWithExitCode)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, testCase, (@?=))

tests :: TestTree
tests =
  testGroup
    "Contender"
    [ testCase "a line for each time, with times, bytes and the answer" $ do
        (code, out, _) <- program "contender" ["-n", "3", "sum", "1000000"]
        code @?= ExitSuccess
        let rows = map words (lines out)
        map (take 1) rows @?= replicate 3 ["timed"]
        map (drop 4) rows @?= replicate 3 ["500000500000"]
        forM_ rows $ \row -> assertBool (unwords row) (all ((> 0) . (read :: String -> Int)) (take 2 (drop 1 row))),
      testCase "an input is made once, before" $ do
        (code, out, _) <- program "contender" ["-n", "2", "prepared", "3"]
        code @?= ExitSuccess
        map (take 1 . words) (lines out) @?= [["prepared"], ["timed"], ["timed"]],
      testCase "the work is done once more than it is measured" $ do
        (code, out, _) <- program "contender-of-two" ["product", "6", "7"]
        code @?= ExitSuccess
        map (drop 4 . words) (lines out) @?= [[], [], ["42"]],
      testCase "wrong command lines are refused with the usage" $
        forM_ [("contender", []), ("contender", ["sum"]), ("contender", ["other", "1"]), ("contender", ["sum", "0"]), ("contender", ["sum", "-1"]), ("contender", ["sum", "1", "2"]), ("contender", ["sum", "x"]), ("contender", ["-n", "0", "sum", "1"]), ("contender", ["-n"]), ("contender-of-two", ["product", "1"])] $ \(name, arguments) -> do
          (code, out, complaints) <- program name arguments
          (code, out) @?= (ExitFailure 1, "")
          assertBool complaints ("usage: " `isPrefixOf` complaints),
      testCase "work that fails ends the program, and says nothing of times" $ do
        (code, out, complaints) <- program "contender" ["throws", "1"]
        (code, out) @?= (ExitFailure 1, "")
        assertBool complaints ("on purpose" `isInfixOf` complaints)
    ]

program :: String -> [String] -> IO (ExitCode, String, String)
program name options = do
  this <- getExecutablePath
  readProcessWithExitCode this (["program", name] ++ options) ""
