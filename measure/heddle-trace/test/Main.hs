-- | The suite of heddle-trace.
module Main (main) where

import OutputTest qualified
import PageTest qualified
import ReaderTest qualified
import System.Environment (getArgs)
import Test.Tasty (defaultMain, testGroup)
import Workload (workload)

main :: IO ()
main =
  getArgs >>= \case
    ["workload"] -> workload
    _ -> suite

suite :: IO ()
suite = defaultMain (testGroup "heddle-trace" [ReaderTest.tests, OutputTest.tests, PageTest.tests])
