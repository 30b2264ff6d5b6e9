-- | The tests of heddle-bytes.
--
-- Those of hash keys start this program again, as a child.
module Main
  ( main,
  )
where

import AddressTest qualified
import DecimalTest qualified
import DoubleTest qualified
import ExamplesTest qualified
import HashFloodTest qualified
import HashKeyTest qualified
import HashTest qualified
import HashTypeTest qualified
import HttpDateTest qualified
import LimbsTest qualified
import LiteralTest qualified
import PutTest qualified
import SearchTest qualified
import Test.Tasty (adjustOption, defaultMain, testGroup)
import Test.Tasty.QuickCheck (QuickCheckTests)
import Utf8KernelTest qualified
import Utf8LiteralTest qualified
import Utf8Test qualified
import WordTest qualified

main :: IO ()
main =
  HashKeyTest.orChild . defaultMain . adjustOption (max (5000 :: QuickCheckTests)) $
    testGroup
      "heddle-bytes"
      [ DecimalTest.tests,
        HttpDateTest.tests,
        AddressTest.tests,
        DoubleTest.tests,
        PutTest.tests,
        LimbsTest.tests,
        LiteralTest.tests,
        HashTest.tests,
        HashTypeTest.tests,
        HashFloodTest.tests,
        HashKeyTest.tests,
        Utf8Test.tests,
        Utf8KernelTest.tests,
        Utf8LiteralTest.tests,
        SearchTest.tests,
        WordTest.tests,
        ExamplesTest.tests
      ]
