-- | The tests of heddle-io. A test of waiting or closing runs on both back ends.
module Main (main) where

import ConnTest qualified
import DescriptorTest qualified
import FileTest qualified
import ServeTest qualified
import TimerTest qualified
import Test.Tasty
import WheelTest qualified

main :: IO ()
main = defaultMain (testGroup "heddle-io" [WheelTest.tests, ConnTest.tests, ServeTest.tests, DescriptorTest.tests, TimerTest.tests, FileTest.tests])
