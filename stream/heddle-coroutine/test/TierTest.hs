-- | From one tier to another: flows and stages of byte streams as pipes.
module TierTest (tests) where

import ComponentGen (shrinkStage, shrinkStream, stages, streams)
import Data.ByteString qualified as Bytes
import Data.ByteString.Char8 qualified as Char8
import Heddle.Component
import Heddle.Component.Language (printStage)
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
        ],
      testGroup
        "a stage as a pipe"
        [ testProperty "as it runs by itself" . withMaxSuccess 3000 $
            forAllShrink ((,) <$> (chooseInt (0, 5) >>= stages) <*> streams) (\(s, t) -> map (flip (,) t) (shrinkStage s) ++ map ((,) s) (shrinkStream t)) $ \(stage, text) ->
              counterexample (printStage stage) . forAll (chooseInt (1, 9)) $ \n -> ioProperty $ do
                expected <- bytesSource (Char8.pack "some") [n] text >>= \source -> runBytes (uncompiled stage) [source]
                (out, ()) <- Pipe.runList (Pipe.each (pieces n text) .| stagePipe 1000000 stage)
                pure (Bytes.concat out === expected),
          testCase "among other pipes" $ do
            let selected = If (Having Row (Substring CaseMatters (Char8.pack "b"))) Identity Suppress
            (out, ()) <- Pipe.runList (Pipe.each (map Char8.pack ["a\nb", "b\nc\n", "b"]) .| stagePipe 1000 selected .| Pipe.lines)
            out @?= map Char8.pack ["bb", "b"]
        ]
    ]
  where
    flow :: Int -> Flow.Flow Int Int
    flow n = Flow.map (+ 1) >-> Flow.filter even >-> Flow.take n >-> Flow.concatMap (\x -> Flow.fromList [x, x])
    pieces n text = if Bytes.null text then [] else let (piece, rest) = Bytes.splitAt n text in piece : pieces n rest
