module Main (main) where

import AccessLogTest qualified
import CacheTest qualified
import ConditionTest qualified
import Heddle.Http.RawClient (eventually)
import ListenTest qualified
import LogLineTest qualified
import MimeTest qualified
import StaticTest qualified
import System.Directory (listDirectory)
import Test.Tasty
import Test.Tasty.HUnit (testCase)
import Test.Tasty.Runners (NumThreads (..))

main :: IO ()
main = do
  before <- descriptors
  defaultMain . localOption (NumThreads 1) $
    testGroup
      "heddle-serve"
      [ MimeTest.tests,
        ListenTest.tests,
        CacheTest.tests,
        LogLineTest.tests,
        StaticTest.tests,
        ConditionTest.tests,
        AccessLogTest.tests,
        -- Last: tests run one after the other.
        testCase "no descriptor is left" $ do
          _ <- eventually ("at most " ++ show before ++ " descriptors") descriptors (<= before)
          pure ()
      ]

descriptors :: IO Int
descriptors = length <$> listDirectory "/proc/self/fd"
