-- | The tests of heddle-prim.
module Main (main) where

import AddrStateTest qualified
import AtomicTest qualified
import HistogramTest qualified
import LiteralTest qualified
import SystemTest qualified
import Test.Tasty
import TraceTest qualified
import ValueTest qualified

main :: IO ()
main =
  defaultMain $
    testGroup
      "heddle-prim"
      [AtomicTest.tests, ValueTest.tests, LiteralTest.tests, SystemTest.tests, AddrStateTest.tests, TraceTest.tests, HistogramTest.tests]
