-- | The program on JSON that the README shows.
module JsonTest
  ( tests,
  )
where

import System.Exit (ExitCode (..))
import System.Process (readProcessWithExitCode)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (testCase, (@?=))

tests :: TestTree
tests =
  testGroup
    "orders"
    [ testCase "totals, by customer" $
        orders
          ( unlines
              [ "{\"customer\": \"Zo\\u00eb\", \"items\": [{\"price\": 2.5, \"count\": 2}, {\"price\": 1}]}",
                "{\"items\": [], \"customer\": \"Ada\", \"note\": \"none\"}",
                "{\"customer\": \"Zo\235\", \"items\": [{\"count\": null, \"price\": 0.5}]}"
              ]
          )
          >>= (@?= (ExitSuccess, "{\"name\":\"Ada\",\"orders\":1,\"amount\":0}\n{\"name\":\"Zo\235\",\"orders\":2,\"amount\":6.5}\n", "")),
      testCase "no orders" $ orders "" >>= (@?= (ExitSuccess, "", "")),
      testCase "what is wrong, and where" $
        orders "{\"customer\": \"Ada\", \"items\": [{\"price\": \"much\"}]}"
          >>= (@?= (ExitFailure 1, "", "orders: byte 40, $.items[0].price: expected a number, found a string\n"))
    ]
  where
    orders = readProcessWithExitCode "heddle-orders" []
