-- | The tests of heddle-coroutine.
module Main (main) where

import ArticleLawTest qualified
import ArticleProgramTest qualified
import ArticleTest qualified
import ChunkTest qualified
import CostTest qualified
import FlowTest qualified
import ParallelTest qualified
import PipeCostTest qualified
import PipeFaultTest qualified
import PipeItemTest qualified
import PipeLawTest qualified
import PipeLeakTest qualified
import PipeReleaseTest qualified
import PipeThreadTest qualified
import ProgramTest qualified
import Test.Tasty (defaultMain, localOption, mkTimeout, testGroup)
import TranscriptTest qualified

main :: IO ()
main =
  defaultMain . localOption (mkTimeout 120000000) $
    testGroup
      "heddle-coroutine"
      [ testGroup "Heddle.Coroutine" [TranscriptTest.tests, ArticleTest.tests, ProgramTest.tests, ArticleProgramTest.tests, ArticleLawTest.tests, ParallelTest.tests, CostTest.tests],
        testGroup "Heddle.Pipe" [PipeLawTest.tests, PipeItemTest.tests, PipeReleaseTest.tests, PipeThreadTest.tests, PipeFaultTest.tests, PipeLeakTest.tests, PipeCostTest.tests],
        FlowTest.tests,
        ChunkTest.tests
      ]
