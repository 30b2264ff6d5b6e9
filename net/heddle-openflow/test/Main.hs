-- |
-- Module      : Main
-- Description : Tests of heddle-openflow
module Main
  ( main,
  )
where

import CodecTest (codecTests)
import ControllerTest (controllerTests)
import CostTest (costTests)
import Heddle.Testkit.Ovs (ovsMissing)
import InterruptTest (interruptTests)
import NamespaceTest (namespaceTests)
import OvsTest (ovsTests)
import Test.Tasty (defaultMain, testGroup)
import TextTest (ofctlTests, textTests)

main :: IO ()
main = do
  missing <- ovsMissing
  namespaces <- namespaceTests missing
  defaultMain (testGroup "heddle-openflow" [codecTests, controllerTests, costTests, interruptTests, textTests, ofctlTests missing, ovsTests missing, namespaces])
