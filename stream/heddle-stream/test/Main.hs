-- | The tests of heddle-stream.
module Main (main) where

import FlowTest qualified
import Heddle.Testkit.Watchdog (limitEach)
import PipeCostTest qualified
import PipeFaultTest qualified
import PipeFlowTest qualified
import PipeItemTest qualified
import PipeLawTest qualified
import PipeLeakTest qualified
import PipeQueueTest qualified
import PipeReleaseTest qualified
import PipeThreadTest qualified
import System.Environment (setEnv)
import Test.Tasty (defaultMain, testGroup)

main :: IO ()
main = do
  -- Some tests count the process's descriptors, threads and children.
  setEnv "TASTY_NUM_THREADS" "1"
  defaultMain . limitEach 180000000 $
    testGroup
      "heddle-stream"
      [ testGroup "Heddle.Pipe" [PipeLawTest.tests, PipeItemTest.tests, PipeReleaseTest.tests, PipeThreadTest.tests, PipeFaultTest.tests, PipeLeakTest.tests, PipeQueueTest.tests, PipeCostTest.tests, PipeFlowTest.tests],
        FlowTest.tests
      ]
