-- | The tests of heddle-prim.
module Main (main) where

import AddrStateTest qualified
import AtomicTest qualified
import HistogramTest qualified
import LiteralTest qualified
import System.Environment (setEnv)
import SystemTest qualified
import Test.Tasty
import TraceTest qualified
import ValueTest qualified

main :: IO ()
main = do
  -- Some change the number of capabilities.
  setEnv "TASTY_NUM_THREADS" "1"
  defaultMain $
    testGroup
      "heddle-prim"
      [AtomicTest.tests, ValueTest.tests, LiteralTest.tests, SystemTest.tests, AddrStateTest.tests, TraceTest.tests, HistogramTest.tests]
