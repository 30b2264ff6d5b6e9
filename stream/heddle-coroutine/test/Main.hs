-- | The tests of heddle-coroutine.
module Main (main) where

import ArticleLawTest qualified
import ArticleProgramTest qualified
import ArticleTest qualified
import ComponentCommandTest qualified
import ComponentFailureTest qualified
import ComponentKillTest qualified
import ComponentLawTest qualified
import ComponentPlanTest qualified
import ComponentRegressionTest qualified
import ComponentTest qualified
import CostTest qualified
import FlowTest qualified
import LanguageTest qualified
import ParallelTest qualified
import PipeCostTest qualified
import PipeFaultTest qualified
import PipeItemTest qualified
import PipeLawTest qualified
import PipeLeakTest qualified
import PipeReleaseTest qualified
import PipeThreadTest qualified
import ProgramTest qualified
import System.Environment (setEnv)
import Test.Tasty (defaultMain, localOption, mkTimeout, testGroup)
import TierTest qualified
import TranscriptTest qualified

main :: IO ()
main = do
  -- Some tests count the process's descriptors, threads and children.
  setEnv "TASTY_NUM_THREADS" "1"
  defaultMain . localOption (mkTimeout 180000000) $
    testGroup
      "heddle-coroutine"
      [ testGroup "Heddle.Coroutine" [TranscriptTest.tests, ArticleTest.tests, ProgramTest.tests, ArticleProgramTest.tests, ArticleLawTest.tests, ParallelTest.tests, CostTest.tests],
        testGroup "Heddle.Pipe" [PipeLawTest.tests, PipeItemTest.tests, PipeReleaseTest.tests, PipeThreadTest.tests, PipeFaultTest.tests, PipeLeakTest.tests, PipeCostTest.tests],
        FlowTest.tests,
        testGroup "Heddle.Component" [ComponentTest.tests, ComponentLawTest.tests, ComponentPlanTest.tests, ComponentCommandTest.tests, ComponentFailureTest.tests, ComponentKillTest.tests, ComponentRegressionTest.tests, LanguageTest.tests, TierTest.tests]
      ]
