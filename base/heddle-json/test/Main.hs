-- | The tests of heddle-json.
module Main
  ( main,
  )
where

import CheckTest qualified
import ExamplesTest qualified
import FieldValuesTest qualified
import FromJsonTest qualified
import JsonBuildTest qualified
import JsonCostTest qualified
import JsonDecodeTest qualified
import JsonEncodeTest qualified
import JsonGenericTest qualified
import JsonLiteralTest qualified
import JsonOracleTest qualified
import JsonTypesTest qualified
import MissingFieldsTest qualified
import OracleTest qualified
import RoundTripTest qualified
import StreamTest qualified
import Test.Tasty (adjustOption, defaultMain, testGroup)
import Test.Tasty.QuickCheck (QuickCheckTests)

main :: IO ()
main =
  defaultMain . adjustOption (max (5000 :: QuickCheckTests)) $
    testGroup
      "heddle-json"
      [ CheckTest.tests,
        StreamTest.tests,
        JsonBuildTest.tests,
        JsonLiteralTest.tests,
        JsonEncodeTest.tests,
        JsonTypesTest.tests,
        JsonGenericTest.tests,
        JsonDecodeTest.tests,
        JsonCostTest.tests,
        FromJsonTest.tests,
        OracleTest.tests,
        JsonOracleTest.tests,
        RoundTripTest.tests,
        MissingFieldsTest.tests,
        FieldValuesTest.tests,
        ExamplesTest.tests
      ]
