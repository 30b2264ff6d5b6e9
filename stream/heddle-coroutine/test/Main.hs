-- | The tests of heddle-coroutine.
module Main (main) where

import ArticleLawTest qualified
import ArticleProgramTest qualified
import ArticleTest qualified
import CostTest qualified
import Heddle.Testkit.Watchdog (limitEach)
import ParallelTest qualified
import ProgramTest qualified
import System.Environment (setEnv)
import Test.Tasty (defaultMain, testGroup)
import TranscriptTest qualified

main :: IO ()
main = do
  -- Some tests count the process's descriptors, threads and children.
  setEnv "TASTY_NUM_THREADS" "1"
  defaultMain . limitEach 180000000 $
    testGroup
      "heddle-coroutine"
      [ testGroup "Heddle.Coroutine" [TranscriptTest.tests, ArticleTest.tests, ProgramTest.tests, ArticleProgramTest.tests, ArticleLawTest.tests, ParallelTest.tests, CostTest.tests]
      ]
