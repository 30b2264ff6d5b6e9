-- | The tests of heddle-par.
module Main (main) where

import BlockTest qualified
import CancelTest qualified
import ExceptionTest qualified
import GrowthTest qualified
import Heddle.Testkit.Watchdog (limitEach)
import OriginTest qualified
import ParTest qualified
import SemaphoreTest qualified
import StrategiesTest qualified
import System.Environment (setEnv)
import Test.Tasty (defaultMain, testGroup)
import WaitingTest qualified

main :: IO ()
main = do
  -- One after the other: they change the number of capabilities, and throw at workers.
  setEnv "TASTY_NUM_THREADS" "1"
  defaultMain . limitEach 120000000 $
    testGroup
      "heddle-par"
      [ ParTest.tests,
        ExceptionTest.tests,
        OriginTest.tests,
        CancelTest.tests,
        BlockTest.tests,
        SemaphoreTest.tests,
        StrategiesTest.tests,
        WaitingTest.tests,
        GrowthTest.tests
      ]
