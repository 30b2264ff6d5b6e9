-- | The tests of heddle-prim.
module Main (main) where

import AtomicTest qualified
import SystemTest qualified
import Test.Tasty
import ValueTest qualified

main :: IO ()
main = defaultMain (testGroup "heddle-prim" [AtomicTest.tests, ValueTest.tests, SystemTest.tests])
