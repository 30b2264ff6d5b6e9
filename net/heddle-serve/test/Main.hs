module Main (main) where

import AccessLogTest qualified
import CacheTest qualified
import ConditionTest qualified
import Control.Exception (IOException, try)
import Data.List (isSuffixOf)
import Heddle.Http.RawClient (eventually)
import ListenTest qualified
import LogLineTest qualified
import LogRingTest qualified
import MimeTest qualified
import StaticTest qualified
import System.Directory (getSymbolicLinkTarget, listDirectory)
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
        LogRingTest.tests,
        StaticTest.tests,
        ConditionTest.tests,
        AccessLogTest.tests,
        -- Last: tests run one after the other.
        testCase "no descriptor is left" $ do
          _ <- eventually ("at most these descriptors: " ++ show before) descriptors ((<= length before) . length)
          pure ()
      ]

-- What each open descriptor is, but for GHC's own timer, which may come late; the one that
-- lists them is gone by then.
descriptors :: IO [String]
descriptors = listDirectory "/proc/self/fd" >>= fmap (filter (not . isSuffixOf "[timerfd]") . concat) . mapM target
  where
    target fd = either (const [] :: IOException -> [String]) (\t -> [fd ++ " " ++ t]) <$> try (getSymbolicLinkTarget ("/proc/self/fd/" ++ fd))
