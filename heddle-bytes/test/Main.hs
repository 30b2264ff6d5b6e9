-- | The writers against independent implementations: 'show', Data.Time and the
-- C library.
module Main
  ( main,
  )
where

import AddressTest qualified
import DecimalTest qualified
import HttpDateTest qualified
import Test.Tasty (adjustOption, defaultMain, testGroup)
import Test.Tasty.QuickCheck (QuickCheckTests)

main :: IO ()
main =
  defaultMain . adjustOption (max (5000 :: QuickCheckTests)) $
    testGroup "heddle-bytes" [DecimalTest.tests, HttpDateTest.tests, AddressTest.tests]
