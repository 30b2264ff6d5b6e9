-- | The tests of heddle-scope, on both back ends of heddle-io: the suite runs itself in a child
-- process on the other one.
module Main (main) where

import ChannelTest qualified
import DurationTest qualified
import Heddle.Scope (await, forkNamed, withScope)
import Heddle.Testkit.Watchdog (within)
import ScopeTest qualified
import System.Environment (getEnvironment, getExecutablePath, lookupEnv, setEnv)
import System.Exit (ExitCode (..), exitWith)
import System.Process (CreateProcess (..), proc, readCreateProcessWithExitCode)
import Test.Tasty
import Test.Tasty.HUnit

main :: IO ()
main = do
  -- One after the other: a test replaces the program's handler of uncaught exceptions.
  setEnv "TASTY_NUM_THREADS" "1"
  lookupEnv "HEDDLE_TEST_CHILD" >>= \case
    Just "exit" -> exiting
    Just _ -> defaultMain (testGroup "poll(2)" tests)
    Nothing -> defaultMain (testGroup "heddle-scope" (tests ++ [testCase "anExitCodeOfATaskIsThePrograms" exits, testCase "again, on poll(2)" onPoll]))

tests :: [TestTree]
tests = [ScopeTest.tests, ChannelTest.tests, DurationTest.tests]

-- | In a child process: a task of a scope ends the program.
exiting :: IO ()
exiting = withScope (\s -> forkNamed s "task" (exitWith (ExitFailure 7)) >>= await)

exits :: Assertion
exits = do
  program <- getExecutablePath
  inherited <- getEnvironment
  (code, out, err) <- readCreateProcessWithExitCode (proc program []) {env = Just (("HEDDLE_TEST_CHILD", "exit") : inherited)} ""
  (code, out, err) @?= (ExitFailure 7, "", "")

onPoll :: Assertion
onPoll = within 600000000 "the suite on poll(2) to end" $ do
  program <- getExecutablePath
  inherited <- getEnvironment
  let variables = [("HEDDLE_TEST_CHILD", "poll"), ("HEDDLE_BACKEND", "poll")]
      environment = variables ++ filter ((`notElem` map fst variables) . fst) inherited
  (code, out, err) <- readCreateProcessWithExitCode (proc program ["--color=never", "--hide-successes"]) {env = Just environment} ""
  assertEqual (out ++ err) ExitSuccess code
