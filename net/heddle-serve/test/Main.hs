module Main (main) where

import AccessLogTest qualified
import BehindTest qualified
import CacheTest qualified
import ConditionTest qualified
import ConfigFileTest qualified
import ConfigTest qualified
import ExplainTest qualified
import GuardTest qualified
import Heddle.IO (systemRuntime)
import Heddle.Serve.Internal (onSignals)
import Heddle.Testkit.Descriptors
import HostsTest qualified
import ImportTest qualified
import ListenTest qualified
import LogLineTest qualified
import LogPendingTest qualified
import LogRingTest qualified
import LogTemplateTest qualified
import MimeTest qualified
import PolicyTest qualified
import ProcessTest qualified
import RoutesTest qualified
import SharedTest qualified
import SitesTest qualified
import StaticTest qualified
import StatusTest qualified
import System.Environment (setEnv)
import TargetTest qualified
import Test.Tasty
import UsersTest qualified

main :: IO ()
main = do
  -- One after the other: what is left is looked for at the end.
  setEnv "TASTY_NUM_THREADS" "1"
  -- Waits with a deadline start it.
  _ <- systemRuntime
  -- The pipe of signals is the process's for good.
  onSignals []
  before <- openDescriptors
  defaultMain $
    testGroup
      "heddle-serve"
      [ MimeTest.tests,
        PolicyTest.tests,
        ListenTest.tests,
        GuardTest.tests,
        ProcessTest.tests,
        CacheTest.tests,
        LogLineTest.tests,
        LogPendingTest.tests,
        LogRingTest.tests,
        LogTemplateTest.tests,
        StaticTest.tests,
        StatusTest.tests,
        RoutesTest.tests,
        HostsTest.tests,
        TargetTest.tests,
        SitesTest.tests,
        SharedTest.tests,
        ExplainTest.tests,
        BehindTest.tests,
        ConditionTest.tests,
        UsersTest.tests,
        ConfigTest.tests,
        ConfigFileTest.tests,
        ImportTest.tests,
        AccessLogTest.tests,
        -- Last: tests run one after the other.
        noDescriptorIsLeft before
      ]
