module StatusTest (tests) where

import Data.ByteString qualified as B
import Data.List (nub)
import Heddle.Http.Internal
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, testCase, (@?=))

tests :: TestTree
tests =
  testGroup
    "Status"
    [ testCase "every reason has a text of its own and an error status" $ do
        let reasons = [minBound .. maxBound] :: [RejectReason]
        assertBool "text" (not (any (B.null . rejectText) reasons))
        length (nub (map rejectText reasons)) @?= length reasons
        assertBool "status" (all (\reason -> rejectStatus reason >= status400 && not (B.null (reasonPhrase (rejectStatus reason)))) reasons),
      testCase "codes without a phrase" $ map (reasonPhrase . otherStatus) [299, 0, 999] @?= replicate 3 B.empty,
      testCase "the status of a code" $ do
        map (reasonPhrase . statusFor) [299, 404, 511] @?= map reasonPhrase [otherStatus 299, status404, status511]
        length (filter (not . B.null . reasonPhrase . statusFor) [0 .. 999]) @?= 51,
      testCase "statuses that forbid content" $
        map statusForbidsContent [status100, status200, status204, status304, status404] @?= [True, False, True, True, False]
    ]
