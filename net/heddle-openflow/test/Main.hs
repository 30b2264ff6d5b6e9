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
import Test.Tasty (defaultMain, testGroup)
import TextTest (ofctlTests, textTests)

main :: IO ()
main = do
  missing <- ovsMissing
  defaultMain (testGroup "heddle-openflow" [codecTests, controllerTests, textTests, ofctlTests missing, ovsTests missing])
