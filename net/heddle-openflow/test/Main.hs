-- |
-- Module      : Main
-- Description : Tests of heddle-openflow
module Main
  ( main,
  )
where

import CodecTest (codecTests)
import ControllerTest (controllerTests)
import Ovs (ovsMissing)
import OvsTest (ovsTests)
import TextTest (ofctlTests, textTests)
import Test.Tasty (defaultMain, testGroup)

main :: IO ()
main = do
  missing <- ovsMissing
  defaultMain (testGroup "heddle-openflow" [codecTests, controllerTests, textTests, ofctlTests missing, ovsTests missing])
