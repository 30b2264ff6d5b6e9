-- | The tests of heddle-coroutine.
module Main (main) where

import ArticleLawTest qualified
import ArticleProgramTest qualified
import ArticleTest qualified
import ChunkTest qualified
import CostTest qualified
import ParallelTest qualified
import ProgramTest qualified
import Test.Tasty (defaultMain, localOption, mkTimeout, testGroup)
import TranscriptTest qualified

main :: IO ()
main =
  defaultMain . localOption (mkTimeout 60000000) $
    testGroup "heddle-coroutine" [TranscriptTest.tests, ArticleTest.tests, ProgramTest.tests, ArticleProgramTest.tests, ArticleLawTest.tests, ParallelTest.tests, CostTest.tests, ChunkTest.tests]
