-- | The tests of heddle-sched.
module Main (main) where

import BarrierTest qualified
import Heddle.Testkit.Watchdog (limitEach)
import PrivateStackTest qualified
import System.Environment (setEnv)
import TaskTest qualified
import Test.Tasty (defaultMain, testGroup)

main :: IO ()
main = do
  -- Before anything uses a barrier.
  registered <- BarrierTest.registrations
  -- One after the other: they share the pool.
  setEnv "TASTY_NUM_THREADS" "1"
  defaultMain . limitEach 120000000 $
    testGroup
      "heddle-sched"
      [ TaskTest.tests,
        PrivateStackTest.tests,
        BarrierTest.tests registered
      ]
