-- |
-- Module      : Main
-- Description : Tests of heddle-openflow
module Main
  ( main,
  )
where

import CodecTest (codecTests)
import Test.Tasty (defaultMain, testGroup)

main :: IO ()
main = defaultMain (testGroup "heddle-openflow" [codecTests])
