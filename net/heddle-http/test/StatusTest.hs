module StatusTest (tests) where

import Data.ByteString qualified as B
import Data.List (nub)
import Heddle.Http.Status
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, testCase, (@?=))

tests :: TestTree
tests =
  testGroup
    "Status"
    [ testCase "every reason has a text of its own and an error status" $ do
        let whys = [minBound .. maxBound] :: [Why]
        assertBool "text" (not (any (B.null . whyText) whys))
        length (nub (map whyText whys)) @?= length whys
        assertBool "status" (all (\why -> whyStatus why >= status400 && not (B.null (reasonPhrase (whyStatus why)))) whys),
      testCase "codes without a phrase" $ map (reasonPhrase . Status) [299, 0, 999] @?= replicate 3 B.empty,
      testCase "statuses that forbid content" $
        map statusForbidsContent [status100, status200, status204, status304, status404] @?= [True, False, True, True, False]
    ]
