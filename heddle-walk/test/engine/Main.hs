-- |
-- Module      : Main
-- Description : Tests of the walking engine
-- Stability   : test
module Main (main) where

import ExtremeTest qualified
import GnuTest qualified
import StopTest qualified
import System.Environment (getArgs)
import Test.Tasty
import Test.Tasty.Runners (NumThreads (..))

main :: IO ()
main =
  getArgs >>= \case
    "child" : arguments -> ExtremeTest.child arguments
    _ ->
      -- One after the other: they count descriptors.
      defaultMain . localOption (NumThreads 1) . localOption (mkTimeout 300000000) $
        testGroup "heddle-walk" [GnuTest.tests, StopTest.tests, ExtremeTest.tests]
