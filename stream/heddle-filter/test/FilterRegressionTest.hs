{-# LANGUAGE OverloadedStrings #-}

-- | Former bugs of components, each named after its cause.
module FilterRegressionTest (tests) where

import Control.Concurrent (forkIOWithUnmask, killThread, newEmptyMVar, putMVar, takeMVar)
import Control.Exception (AsyncException (..), mask_, try)
import Control.Monad (replicateM_, when)
import Data.ByteString (ByteString)
import Data.ByteString qualified as Bytes
import Data.ByteString.Char8 qualified as Char8
import Data.Foldable (for_)
import Data.IORef (modifyIORef', newIORef, readIORef)
import FilterHarness
import Foreign.Marshal.Utils (fillBytes)
import Heddle.Filter
import Heddle.Filter.Language (parseStage, printStage)
import Test.QuickCheck (Gen, Property, conjoin, counterexample, elements, forAll, frequency, ioProperty, listOf, property, resize, suchThat, withMaxSuccess, (===))
import Test.QuickCheck.Property (rejected)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, assertEqual, testCase, (@?=))
import Test.Tasty.QuickCheck (testProperty)

tests :: TestTree
tests =
  testGroup
    "regressions"
    [ testCase "groupRegistersOfNestedRepetitions" $ agree "count /(( *|1?)*)*/" "1 1\n" "1\n",
      testCase "partsOfALocalStageThatDropsNewlines" $ do
        agree "select line | fields 3-4 with \":\"" "a a \na" "a"
        agree "select /[0a]+/i | count row" "a\na" "1\n"
        agree "select not bytes \"\\n\" | select row having \"ab\"" "a\nb" "ab"
        agree "replace bytes \"\\n\" with \"\" | count row" "a\na" "1\n"
        agree "foreach row then append \"x\" end | count line" "a\na" "2\n",
      testCase "partsOfATranslationThatMovesNewlines" $ do
        let exchanged = Translate (translation "exchanged" (\b -> if b == 10 then 32 else if b == 32 then 10 else b))
        for_ [(exchanged :> Count Row, "4\n"), (exchanged :> Fields [FieldRange 2 Nothing] Nothing "", "\nc\n\nf\n")] $ \(stage, expected) ->
          inPieces compile stage "a b\nc d e\nf " >>= assertEqual (printStage stage) expected,
      testCase "plusThatMayBeMissing" $ do
        agree "select row having /xab+?y/" "xay\nxaby\nxacy\n" "xay\nxaby\n"
        agree "select row having /xab+*y/" "xay\nxabby\n" "xay\nxabby\n"
        agree "select row having /xab+{0,1}y/" "xay\nxaby\n" "xay\nxaby\n",
      testCase "repeatedCharacterOfSeveralBytes" $ sameBothWays "select row having /ab\xc3\xa9*/" "ab\nab\xc3\xa9\nab\xc3\n",
      testCase "plainExpressionsOfPartsOfCharacters" $ sameBothWays "select /\xa9/" "\xc3\xa9\n\xa9\n",
      testCase "alternativesEndedTheSearchForATextThatEveryMatchHas" $
        for_
          [ ("(GET|POST) \\/api\\/[^ ]*7 HTTP", "\"7 HTTP\""),
            ("FIND ME|curl\\/7\\.8+", "\"FIND ME\" or \"curl/7.8\""),
            ("x(ab|cde)+[0-9]", "\"ab\" or \"cde\""),
            ("((ab|cd)|ef)$", "\"ab\" or \"cd\" or \"ef\""),
            ("(ab|cd)?longer|ab*cd", "\"longer\" or \"cd\""),
            ("[|a](x|y)needle", "\"needle\""),
            ("\\|\\||ab", "\"||\" or \"ab\"")
          ]
          $ \(expression, texts) -> do
            stage <- stageOf ("select row having /" <> expression <> "/")
            let plan = Char8.pack (explain stage 1 (compile stage))
            assertBool (Char8.unpack plan) ((" in rows with " <> texts <> ", which every match has") `Bytes.isInfixOf` plan),
      testCase "optionalTextsAreNotSearchedFor" $
        for_ ["(ab|cd)?", "ab|x", "(ab)*x", "(ab){0,1}x", "a?b*|cd", "(|ab)", "(ab|[a-z]+)", "ab|"] $ \expression -> do
          stage <- stageOf ("select row having /" <> expression <> "/")
          let plan = Char8.pack (explain stage 1 (compile stage))
          assertBool (Char8.unpack plan) (not (" in rows with " `Bytes.isInfixOf` plan)),
      testProperty "what is searched for first is in every match" . withMaxSuccess 4000 $ forAll rawPatterns searchedAlike,
      testCase "turnOfACommandThatHasEnded" $ agree "foreach row then command \"cat\" end" "a\nb\n" "a\nb\n",
      testCase "whatIsLeftForACommandThatDoesNotRead" $
        -- The sleeper does not read, and would sleep for longer than is waited for the result.
        replicateM_ 20 $ do
          killedWhileWriting "command \"exec 2>&-; sleep 70; true\"" 60
          killedWhileWriting "foreach everything then command \"exec 2>&-; sleep 70\" end" 125,
      testCase "anEmptyBlockWasTheNewestOfTheLast" $ do
        agree "fields 2 with \" \" | select last 1 row" "a" ""
        agree "fields 2 with \" \" | select last 1 row" "a b\nc" "b\n"
        agree "fields 2 with \" \" | select last 2 row" "a b\nc\n" "b\n\n",
      testCase "slashBehindABackslash" $ do
        p <- newPattern CaseMatters "a\\/b" >>= either fail pure
        printed <- parseStage (Char8.pack (printStage (Count (Matching p) :> Identity)))
        plain <- newPattern CaseMatters "a/b" >>= either fail pure
        printed @?= Right (Count (Matching plain) :> Identity)
    ]

inPieces :: (Stage -> Plan) -> Stage -> ByteString -> IO ByteString
inPieces how stage text = bytesSource "some" [2, 1] text >>= \source -> runBytes (how stage) [source]

-- With small blocks, so that there are several.
inBlocks :: Stage -> ByteString -> IO ByteString
inBlocks stage text = do
  source <- bytesSource "some" [2, 1] text
  collected (runPlan defaultFilterOptions {filterOnError = fail . show, filterBlockSize = 1} (compile stage) [source])

agree :: ByteString -> ByteString -> ByteString -> IO ()
agree expression text expected = leavesNothing . quickly 60 $ do
  stage <- stageOf expression
  found <- sequence [inPieces uncompiled stage text, inPieces compile stage text, inBlocks stage text]
  assertEqual (Char8.unpack expression) [expected, expected, expected] found

-- Whatever that is: it depends on the locale.
sameBothWays :: ByteString -> ByteString -> IO ()
sameBothWays expression text = do
  stage <- stageOf expression
  asWritten <- inPieces uncompiled stage text
  compiled <- inPieces compile stage text
  compiled @?= asWritten

-- Expressions as they are written, sensible or not. Compiling a counted repeat of a counted repeat of what may be empty takes
-- glibc exponential time, as it takes GNU grep: a{0,1}{0,1}{2,}{2,}{2,}{2,} more than a minute. So there are at most two.
rawPatterns :: Gen ByteString
rawPatterns = Bytes.concat <$> (resize 9 (listOf piece) `suchThat` fewCounted)
  where
    piece = frequency [(6, elements characters), (3, elements repeats), (1, elements others)]
    fewCounted parts = length (filter ("{" `Char8.isPrefixOf`) parts) <= 2
    characters = ["a", "b", "ab", "aab", "x", "\xc3\xa9", "-", " "]
    repeats = ["*", "+", "?", "{0}", "{1,2}", "{0,1}", "{2,}", "+?", "+*"]
    others = [".", "(", ")", "(ab)", "(ab|xa)", "(b)?", "(ab|)", "[ab]", "[^a]", "[]a]", "|", "\\.", "\\b", "\\w", "\\<", "^", "$", "\\/", "\\+"]

-- Beside the same expression with an alternative that never matches and contains no text: all rows go to the matcher.
searchedAlike :: ByteString -> Property
searchedAlike text = ioProperty $ do
  made <- mapM (`newPattern` text) [CaseMatters, IgnoreAsciiCase]
  unsifted <- mapM (`newPattern` (text <> "|$.")) [CaseMatters, IgnoreAsciiCase]
  case (sequence made, sequence unsifted) of
    (Right ps, Right qs) -> conjoin <$> sequence [alike make p q | (p, q) <- zip ps qs, make <- stages]
    _ -> pure (property rejected)
  where
    stages = [\s -> If (Having Row s) Identity Suppress, \s -> ForEach s (Prepend "<" :> Append ">") Identity, \s -> ForEach (Having Row s) (Prepend "<") Identity]
    alike make p q = do
      reference <- inPieces uncompiled (make (Matching q)) rows
      found <- sequence [inPieces uncompiled (make (Matching p)) rows, inPieces compile (make (Matching p)) rows, whole (make (Matching p))]
      pure (counterexample (printStage (make (Matching p))) (found === [reference, reference, reference]))
    whole stage = bytesSource "some" [] rows >>= \source -> runBytes (compile stage) [source]
    rows = Char8.intercalate "\n" (concatMap (\w -> [w, "x" <> w <> "x", Char8.map (\c -> if c == 'a' then 'A' else c) w]) ["", "a", "b", "ab", "aab", "aabb", "xa", "ab-", "a b", "ab\xc3\xa9", "\xc3\xa9", "a.", "a+b", "a/b"])

-- Its pipe is full, and more waits to be written, when this many kilobytes have been read.
killedWhileWriting :: ByteString -> Int -> IO ()
killedWhileWriting expression reads' = do
  stage <- stageOf expression
  full <- newEmptyMVar
  calls <- newIORef (0 :: Int)
  let source = readerSource "much" $ \p _ -> do
        modifyIORef' calls (+ 1)
        n <- readIORef calls
        when (n == reads') (putMVar full ())
        1000 <$ fillBytes p 97 1000
  result <- newEmptyMVar
  running <- mask_ (forkIOWithUnmask (\unmask -> try (unmask (runBytes (uncompiled stage) [source])) >>= putMVar result))
  takeMVar full
  killThread running
  r <- quickly 60 (takeMVar result)
  either (@?= ThreadKilled) (const (fail "it was not killed")) r
