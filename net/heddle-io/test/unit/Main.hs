-- | The tests of heddle-io. A test of waiting or closing runs on both back ends. The tests of the
-- system runtime also run in a child process on the other back end.
module Main (main) where

import AdoptTest qualified
import ConnTest qualified
import Data.Maybe (fromMaybe)
import DescriptorTest qualified
import FaultTest qualified
import FileTest qualified
import Harness (child)
import ParkerTest qualified
import PooledTimerTest qualified
import RegistrationTest qualified
import ServeTest qualified
import SharedTest qualified
import SocketTest qualified
import System.Environment (lookupEnv, setEnv)
import System.Exit (ExitCode (..))
import Test.Tasty
import Test.Tasty.HUnit
import TimerTest qualified
import WheelTest qualified

main :: IO ()
main = do
  -- One after the other: descriptors are counted before and after each test.
  setEnv "TASTY_NUM_THREADS" "1"
  scenario <- lookupEnv "HEDDLE_TEST_CHILD"
  case scenario of
    Just "system" -> defaultMain systemTests
    Just other -> fromMaybe (fail ("no such scenario: " ++ other)) (lookup other [(name, act) | (name, _, act) <- FaultTest.scenarios])
    Nothing ->
      defaultMain $
        testGroup
          "heddle-io"
          [ WheelTest.tests,
            PooledTimerTest.tests,
            ParkerTest.tests,
            RegistrationTest.tests,
            ConnTest.tests,
            SharedTest.tests,
            ServeTest.tests,
            AdoptTest.tests,
            DescriptorTest.tests,
            FileTest.tests,
            FaultTest.tests,
            systemTests,
            testCase "the system runtime on poll(2)" $ do
              (code, out, err) <- child "system" [("HEDDLE_BACKEND", "poll")] ["--color=never", "--hide-successes"]
              assertEqual (out ++ err) ExitSuccess code
          ]

systemTests :: TestTree
systemTests = testGroup "the system runtime" [TimerTest.tests, SocketTest.tests, SharedTest.systemTests]
