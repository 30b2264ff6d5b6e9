-- | Flows as pipes.
module PipeFlowTest (tests) where

import Data.ByteString.Char8 qualified as Char8
import Heddle.Flow ((>->))
import Heddle.Flow qualified as Flow
import Heddle.Pipe ((.|))
import Heddle.Pipe qualified as Pipe
import Test.QuickCheck
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (testCase, (@?=))
import Test.Tasty.QuickCheck (testProperty)

tests :: TestTree
tests =
  testGroup
    "tiers"
    [ testGroup
        "a flow as a pipe"
        [ testProperty "the same values" $ \xs n -> ioProperty $ do
            (out, ()) <- Pipe.runList (Pipe.each (xs :: [Int]) .| Pipe.fromFlow (flow n))
            pure (out === concatMap (replicate 2) (take n (filter even (map (+ 1) xs)))),
          testCase "it stops its source when it has had enough" $ do
            (out, ()) <- Pipe.runList (Pipe.each [1 :: Int ..] .| Pipe.fromFlow (flow 2))
            out @?= [2, 2, 4, 4],
          testCase "what it has not awaited is there for the next" $ do
            (out, ()) <- Pipe.runList (Pipe.each [1 .. 6 :: Int] .| (Pipe.fromFlow (Flow.take 2) *> Pipe.map negate))
            out @?= [1, 2, -3, -4, -5, -6],
          testCase "what it pushes at its end" $ do
            (out, ()) <- Pipe.runList (Pipe.each (map Char8.pack ["a\nb", "c\nd"]) .| Pipe.fromFlow Flow.lines)
            out @?= map Char8.pack ["a", "bc", "d"]
        ]
    ]
  where
    flow :: Int -> Flow.Flow Int Int
    flow n = Flow.map (+ 1) >-> Flow.filter even >-> Flow.take n >-> Flow.concatMap (\x -> Flow.fromList [x, x])
