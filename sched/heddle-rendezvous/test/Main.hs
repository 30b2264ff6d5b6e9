-- | The tests of heddle-rendezvous.
module Main (main) where

import Control.Monad (unless)
import CostTest qualified
import DeadlockTest qualified
import EvaluationTest qualified
import ExceptionTest qualified
import GrantTest qualified
import Heddle.Testkit.Watchdog (limitEach)
import LeftmostTest qualified
import MemoryTest qualified
import RandomTest qualified
import RunTest qualified
import SoakTest qualified
import System.Environment (getExecutablePath, lookupEnv, setEnv)
import System.Exit (ExitCode (..))
import System.Process (readProcessWithExitCode)
import Test.Tasty (TestTree, defaultMain, testGroup)
import Test.Tasty.HUnit (assertFailure, testCase)
import TypeTest qualified

-- | What does not depend on the number of cores, and the rest on two. That is then run on
-- others, each in a process of its own, so that no test depends on changing the number; that is
-- tested by "SoakTest".
main :: IO ()
main =
  SoakTest.soakHere >>= \soaking -> unless soaking $ do
    setEnv "TASTY_NUM_THREADS" "1"
    again <- lookupEnv variable
    defaultMain . testGroup "heddle-rendezvous" $
      case again of
        Just _ -> limited here
        Nothing -> limited ([RandomTest.tests, MemoryTest.tests, CostTest.tests, TypeTest.tests] ++ here) ++ [SoakTest.tests, onOthers]
  where
    limited = map (limitEach 600000000)

-- | Each of these is most of the suite, and its tests have limits of their own.
onOthers :: TestTree
onOthers =
  testGroup "all that again" [testCase ("on " ++ show n ++ " cores") (onCores n) | n <- [1, 3, 4]]

here :: [TestTree]
here = [RandomTest.testsHere, DeadlockTest.tests, EvaluationTest.tests, ExceptionTest.tests, GrantTest.tests, RunTest.tests, LeftmostTest.tests]

onCores :: Int -> IO ()
onCores n = do
  program <- getExecutablePath
  setEnv variable "again"
  (code, said, complaints) <- readProcessWithExitCode program ["+RTS", "-N" ++ show n, "-RTS"] ""
  case code of
    ExitSuccess -> pure ()
    _ -> assertFailure (said ++ complaints)

-- | Set where the tests are run once more.
variable :: String
variable = "HEDDLE_RENDEZVOUS_TEST_AGAIN"
