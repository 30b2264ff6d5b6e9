-- | Flows.
module FlowTest (tests) where

import FlowFusionTest qualified
import FlowModelTest qualified
import FlowRunTest qualified
import Test.Tasty (TestTree, testGroup)

tests :: TestTree
tests = testGroup "flows" [FlowModelTest.tests, FlowFusionTest.tests, FlowRunTest.tests]
