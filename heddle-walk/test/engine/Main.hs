-- |
-- Module      : Main
-- Description : Tests of the walking engine
-- Stability   : test
module Main (main) where

import ExtremeTest qualified
import GnuTest qualified
import StopTest qualified
import System.Environment (getArgs, setEnv)
import Test.Tasty

main :: IO ()
main =
  getArgs >>= \case
    "child" : arguments -> ExtremeTest.child arguments
    _ -> do
      -- One after the other: they count descriptors.
      setEnv "TASTY_NUM_THREADS" "1"
      defaultMain . localOption (mkTimeout 300000000) $
        testGroup "heddle-walk" [GnuTest.tests, StopTest.tests, ExtremeTest.tests]
