-- | The examples' suite.
module Main
  ( main,
  )
where

import CommandTest qualified
import InputTest qualified
import JsonTest qualified
import MpiTest qualified
import ProgramsTest qualified
import SatTest qualified
import Test.Tasty (defaultMain, testGroup)
import TodoTest qualified

main :: IO ()
main = defaultMain (testGroup "heddle-examples" [ProgramsTest.tests, SatTest.tests, InputTest.tests, CommandTest.tests, JsonTest.tests, MpiTest.tests, TodoTest.tests])
