-- |
-- Module      : Main
-- Description : Tests of gateways
module Main
  ( main,
  )
where

import Heddle.Gateway.Failure
import Heddle.Http (status502, status503, status504)
import Test.Tasty (defaultMain, testGroup)
import Test.Tasty.HUnit (testCase, (@?=))

main :: IO ()
main =
  defaultMain . testGroup "heddle-gateway" $
    [ testCase "each failure has its status" $
        map failureStatus [Unreachable "no", EndedEarly, BadAnswer "no", TooLate, TooBusy] @?= [status502, status502, status502, status504, status503]
    ]
