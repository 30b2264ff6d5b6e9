-- | The tests of heddle-coroutine.
module Main (main) where

import CostTest qualified
import ParallelTest qualified
import ProgramTest qualified
import Test.Tasty (defaultMain, localOption, mkTimeout, testGroup)
import TranscriptTest qualified

main :: IO ()
main =
  defaultMain . localOption (mkTimeout 60000000) $
    testGroup "heddle-coroutine" [TranscriptTest.tests, ProgramTest.tests, ParallelTest.tests, CostTest.tests]
