-- | The tests of heddle-prim.
module Main (main) where

import AtomicTest qualified
import BarrierTest qualified
import LiteralTest qualified
import SystemTest qualified
import Test.Tasty
import ValueTest qualified
import WalkTest qualified
import WordTest qualified

main :: IO ()
main = do
  registered <- BarrierTest.registrations
  defaultMain (testGroup "heddle-prim" [AtomicTest.tests, BarrierTest.tests registered, ValueTest.tests, WordTest.tests, LiteralTest.tests, SystemTest.tests, WalkTest.tests])
