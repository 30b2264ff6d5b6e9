-- | The tests of heddle-testkit: what its clocks do while the process is stopped.
module Main (main) where

import Control.Concurrent (threadDelay)
import Control.Monad (forever, (>=>))
import Data.List (isInfixOf)
import Data.Maybe (isJust)
import Heddle.Testkit.Watchdog (limitEach, patiently, timeoutRunning)
import System.Environment (getArgs, getExecutablePath, withArgs)
import System.Exit (ExitCode (..), exitFailure, exitSuccess)
import System.IO (hFlush, hGetLine, hPutStrLn)
import System.Posix.Process (getProcessID)
import System.Process
  ( CreateProcess (..),
    StdStream (..),
    proc,
    readProcessWithExitCode,
    waitForProcess,
    withCreateProcess,
  )
import Test.Tasty (TestTree, defaultMain, testGroup)
import Test.Tasty.HUnit (assertBool, testCase, (@?=))

main :: IO ()
main =
  getArgs >>= \case
    ["stopped"] -> whileStopped (timeoutRunning 2000000 >=> \ended -> if isJust ended then exitSuccess else exitFailure)
    ["stopped test"] -> whileStopped (alone . limitEach 2000000 . testCase "stopped")
    ["hanging test"] -> alone (limitEach 10000 (testCase "hangs" hanging))
    _ -> defaultMain tests
  where
    -- Without the argument, which is none of tasty's.
    alone = withArgs [] . defaultMain

tests :: TestTree
tests =
  testGroup
    "Heddle.Testkit.Watchdog"
    [ testGroup
        "aStoppedProcessUsedUpItsPatience"
        [ testCase "a limited wait" $ again "stopped" >>= \(code, _) -> code @?= ExitSuccess,
          testCase "a limited test" $ again "stopped test" >>= \(code, out) -> assertBool out (code == ExitSuccess)
        ],
      testCase "a wait that does not end is given up" $ timeoutRunning 10000 hanging >>= (@?= Nothing),
      testCase "one that ends is not" $ timeoutRunning 60000000 (pure 'x') >>= (@?= Just 'x'),
      testCase "the inner one of two, and the outer one" $ do
        timeoutRunning 60000000 (timeoutRunning 10000 hanging) >>= (@?= Just Nothing)
        timeoutRunning 10000 (timeoutRunning 60000000 hanging) >>= (@?= Nothing),
      testCase "a test that hangs fails, and says so" $ do
        (code, out) <- again "hanging test"
        code @?= ExitFailure 1
        assertBool out ("in which the process ran" `isInfixOf` out)
    ]

hanging :: IO ()
hanging = forever (threadDelay 1000000)

-- | This program again, which may be stopped or fail.
again :: String -> IO (ExitCode, String)
again mode = do
  this <- getExecutablePath
  (code, out, complaints) <- readProcessWithExitCode this [mode] ""
  pure (code, out ++ complaints)

-- | Hand on an action during which this process is stopped for three seconds.
whileStopped :: (IO () -> IO ()) -> IO ()
whileStopped use = do
  this <- getProcessID
  let script = "echo ready; read x; kill -STOP " ++ show this ++ "; sleep 3; kill -CONT " ++ show this
  withCreateProcess (proc "sh" ["-c", script]) {std_in = CreatePipe, std_out = CreatePipe} $ \to from _ shell -> case (to, from) of
    (Just input, Just output) -> do
      -- Only what the shell does from here on counts.
      _ <- patiently "the shell" (hGetLine output)
      use (hPutStrLn input "" >> hFlush input >> waitForProcess shell >>= (@?= ExitSuccess))
    _ -> fail "no pipes"
