-- | The tests of heddle-par.
module Main (main) where

import CancelTest qualified
import ExceptionTest qualified
import ParTest qualified
import SemaphoreTest qualified
import StrategiesTest qualified
import Test.Tasty (defaultMain, localOption, mkTimeout, testGroup)

main :: IO ()
main =
  defaultMain . localOption (mkTimeout 120000000) $
    testGroup
      "heddle-par"
      [ ParTest.tests,
        ExceptionTest.tests,
        CancelTest.tests,
        SemaphoreTest.tests,
        StrategiesTest.tests
      ]
