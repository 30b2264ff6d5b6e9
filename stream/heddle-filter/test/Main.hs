-- | The tests of heddle-filter.
module Main (main) where

import FilterCommandTest qualified
import FilterFailureTest qualified
import FilterKillTest qualified
import FilterLawTest qualified
import FilterPipeTest qualified
import FilterPlanTest qualified
import FilterRegressionTest qualified
import FilterRowsTest qualified
import FilterTest qualified
import Heddle.Testkit.Watchdog (limitEach)
import LanguageTest qualified
import System.Environment (setEnv)
import Test.Tasty (defaultMain, testGroup)

main :: IO ()
main = do
  -- Some tests count the process's descriptors, threads and children.
  setEnv "TASTY_NUM_THREADS" "1"
  defaultMain . limitEach 600000000 $
    testGroup
      "heddle-filter"
      [ testGroup "Heddle.Filter" [FilterTest.tests, FilterLawTest.tests, FilterPlanTest.tests, FilterCommandTest.tests, FilterFailureTest.tests, FilterKillTest.tests, FilterRegressionTest.tests, FilterRowsTest.tests, LanguageTest.tests, FilterPipeTest.tests]
      ]
