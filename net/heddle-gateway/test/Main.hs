-- |
-- Module      : Main
-- Description : Tests of gateways
module Main
  ( main,
  )
where

import CgiTest qualified
import ContentTest qualified
import FastCgiTest qualified
import Heddle.Gateway.Failure
import Heddle.Http (status502, status503, status504)
import Heddle.IO (systemRuntime)
import Heddle.Testkit.Descriptors
import PoolTest qualified
import RealPrograms qualified
import SlowReaders qualified
import SwallowedTest qualified
import System.Environment (setEnv)
import Test.Tasty (defaultMain, testGroup)
import Test.Tasty.HUnit (testCase, (@?=))

main :: IO ()
main = do
  -- One after the other: what is left is looked for at the end.
  setEnv "TASTY_NUM_THREADS" "1"
  -- Waits with a deadline start it.
  _ <- systemRuntime
  before <- openDescriptors
  defaultMain . testGroup "heddle-gateway" $
    [ testCase "each failure has its status" $
        map failureStatus [Unreachable "no", EndedEarly, BadAnswer "no", TooLate, TooBusy, NotKept "no"] @?= [status502, status502, status502, status504, status503, status503],
      CgiTest.tests,
      FastCgiTest.tests,
      PoolTest.tests,
      SlowReaders.tests,
      SwallowedTest.tests,
      ContentTest.tests,
      RealPrograms.tests,
      -- Last: tests run one after the other.
      noDescriptorIsLeft before
    ]
