-- | A WAI application on Heddle, over real sockets.
module Main (main) where

import Bodies qualified
import Client qualified
import Control.Monad (void)
import Endings qualified
import Failures qualified
import Files qualified
import Heddle.Testkit.Descriptors
import Heddle.Testkit.Watchdog (eventually)
import Heddle.Timer (milliseconds, sleepFor)
import LazyContent qualified
import Programs qualified
import Requests qualified
import Responses qualified
import Secure qualified
import ServerSettings qualified
import Storm qualified
import System.Environment (setEnv)
import System.Mem (performMajorGC)
import Test.Tasty
import Test.Tasty.HUnit (testCase)

main :: IO ()
main = Programs.orProgram $ do
  -- One after the other: what is left is looked for at the end.
  setEnv "TASTY_NUM_THREADS" "1"
  -- The runtime of timers is started once, and stays.
  sleepFor (milliseconds 1)
  before <- openDescriptors
  defaultMain $
    testGroup
      "heddle-wai"
      [ Responses.tests,
        LazyContent.tests,
        Requests.tests,
        Bodies.tests,
        Failures.tests,
        Endings.tests,
        Files.tests,
        Secure.tests,
        ServerSettings.tests,
        Client.tests,
        Storm.tests,
        Programs.tests,
        -- Last: tests run one after the other. http-client's pools end when they are collected.
        testCase "no descriptor is left" . void $ eventually "no more descriptors" (performMajorGC >> openDescriptors) ((<= length before) . length)
      ]
