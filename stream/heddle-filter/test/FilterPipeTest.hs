-- | Stages of byte streams as pipes.
module FilterPipeTest (tests) where

import Data.ByteString qualified as Bytes
import Data.ByteString.Char8 qualified as Char8
import FilterGen (shrinkStage, shrinkStream, stages, streams)
import Heddle.Filter
import Heddle.Filter.Language (printStage)
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
    pieces n text = if Bytes.null text then [] else let (piece, rest) = Bytes.splitAt n text in piece : pieces n rest
