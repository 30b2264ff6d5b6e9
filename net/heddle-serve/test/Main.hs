module Main (main) where

import AccessLogTest qualified
import CacheTest qualified
import ConditionTest qualified
import Heddle.Testkit.Descriptors
import ListenTest qualified
import LogLineTest qualified
import LogRingTest qualified
import MimeTest qualified
import StaticTest qualified
import Test.Tasty
import Test.Tasty.Runners (NumThreads (..))

main :: IO ()
main = do
  before <- openDescriptors
  defaultMain . localOption (NumThreads 1) $
    testGroup
      "heddle-serve"
      [ MimeTest.tests,
        ListenTest.tests,
        CacheTest.tests,
        LogLineTest.tests,
        LogRingTest.tests,
        StaticTest.tests,
        ConditionTest.tests,
        AccessLogTest.tests,
        -- Last: tests run one after the other.
        noDescriptorIsLeft before
      ]
