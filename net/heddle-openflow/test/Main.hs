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
import HostsTest (hostsTests)
import InterruptTest (interruptTests)
import LearningTest (learningTests)
import NamespaceTest (namespaceTests)
import OfctlTest (ofctlTests)
import OvsTest (ovsTests)
import System.Environment (setEnv)
import Test.Tasty (defaultMain, testGroup)
import TextTest (textTests)

main :: IO ()
main = do
  -- One after the other: descriptors of the process are counted.
  setEnv "TASTY_NUM_THREADS" "1"
  missing <- ovsMissing
  namespaces <- namespaceTests missing
  defaultMain $
    testGroup
      "heddle-openflow"
      [ codecTests,
        controllerTests,
        learningTests,
        hostsTests,
        costTests,
        interruptTests,
        textTests,
        ofctlTests missing,
        ovsTests missing,
        namespaces
      ]
