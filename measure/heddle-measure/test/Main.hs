-- | The suite of heddle-measure; with the name of a program of "Programs", that one.
module Main (main) where

import CalibrationTest qualified
import ContenderTest qualified
import ProgramTest qualified
import Programs (programs)
import ServerTest qualified
import StatisticsTest qualified
import System.Environment (getArgs, withArgs)
import Test.Tasty (defaultMain, testGroup)

main :: IO ()
main =
  getArgs >>= \case
    "program" : name : rest | Just program <- lookup name programs -> withArgs rest program
    _ -> defaultMain (testGroup "heddle-measure" [StatisticsTest.tests, CalibrationTest.tests, ServerTest.tests, ContenderTest.tests, ProgramTest.tests])
