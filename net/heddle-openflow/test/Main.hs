-- |
-- Module      : Main
-- Description : Tests of heddle-openflow
module Main
  ( main,
  )
where

import CodecTest (codecTests)
import Ovs (ovsMissing)
import OvsTest (ovsTests)
import TextTest (ofctlTests, textTests)
import Test.Tasty (defaultMain, testGroup)

main :: IO ()
main = do
  missing <- ovsMissing
  defaultMain (testGroup "heddle-openflow" [codecTests, textTests, ofctlTests missing, ovsTests missing])
