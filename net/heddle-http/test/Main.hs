module Main (main) where

import ChunkedTest qualified
import ConditionalTest qualified
import FramingTest qualified
import ParseTest qualified
import ProxyProtocolTest qualified
import RangeTest qualified
import ScanTest qualified
import StatusTest qualified
import Test.Tasty (defaultMain, testGroup)
import UriPathTest qualified

main :: IO ()
main =
  defaultMain $
    testGroup
      "heddle-http"
      [ StatusTest.tests,
        ScanTest.tests,
        ParseTest.tests,
        FramingTest.tests,
        ChunkedTest.tests,
        RangeTest.tests,
        ConditionalTest.tests,
        UriPathTest.tests,
        ProxyProtocolTest.tests
      ]
