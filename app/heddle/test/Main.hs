module Main (main) where

import AuthTest qualified
import BodyLimitTest qualified
import CheckTest qualified
import ClientsTest qualified
import CommandTest qualified
import CompletionTest qualified
import ConfigTest qualified
import CookbookTest qualified
import FindTest qualified
import GuardTest qualified
import JsonTest qualified
import LogKillTest qualified
import LogTest qualified
import LogsTest qualified
import MemoryTest qualified
import OpenFlowTest qualified
import OperateTest qualified
import PipeTest qualified
import PressureTest qualified
import ProcessesTest qualified
import ProgramsTest qualified
import ProxyTest qualified
import ReloadTest qualified
import SandboxTest qualified
import SiteTest qualified
import StartTest qualified
import StatusTest qualified
import System.Environment (setEnv)
import TerminalTest qualified
import Test.Tasty
import TimelineTest qualified
import TlsTest qualified
import TraceTest qualified

main :: IO ()
main = do
  -- One after the other: some measure memory and time.
  setEnv "TASTY_NUM_THREADS" "1"
  defaultMain $
    testGroup "heddle" [CommandTest.tests, StartTest.tests, CompletionTest.tests, LogTest.tests, LogKillTest.tests, LogsTest.tests, SiteTest.tests, ConfigTest.tests, CheckTest.tests, TerminalTest.tests, AuthTest.tests, BodyLimitTest.tests, PipeTest.tests, JsonTest.tests, TraceTest.tests, FindTest.tests, GuardTest.tests, SandboxTest.tests, ProcessesTest.tests, PressureTest.tests, MemoryTest.tests, ClientsTest.tests, TlsTest.tests, ProxyTest.tests, ProgramsTest.tests, OperateTest.tests, StatusTest.tests, TimelineTest.tests, CookbookTest.tests, OpenFlowTest.tests, ReloadTest.tests]
