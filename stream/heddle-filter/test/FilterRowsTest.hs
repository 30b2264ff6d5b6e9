{-# LANGUAGE OverloadedStrings #-}

-- | What is done to blocks of rows at once: sequences of bytes before the matcher, one field of each row, the last rows.
module FilterRowsTest (tests) where

import Control.Monad (forM)
import Data.ByteString (ByteString)
import Data.ByteString qualified as Bytes
import Data.ByteString.Char8 qualified as Char8
import Data.Foldable (for_)
import FilterHarness
import Heddle.Filter
import Test.QuickCheck
import Test.QuickCheck.Property (rejected)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, testCase, (@?=))
import Test.Tasty.QuickCheck (testProperty)

tests :: TestTree
tests =
  testGroup
    "blocks of rows"
    [ testCase "expressionsWithoutATextWereMatchedRowByRow" $ do
        for_ sieved $ \expression -> sought expression >>= assertBool (Char8.unpack expression)
        for_ ["[a-z]*", ".*", "a|b*", "\\w+", "x?", "(a|b)c*", "[^ ]*[[=a=]]", "[\xc3\xa9]", "^$", "a|[^x]+.*y*|"] $ \expression ->
          sought expression >>= assertBool (Char8.unpack expression) . not,
      testProperty "sequences before the matcher leave no row out, and add none" . withMaxSuccess 500 $
        forAllShrink expressions (map Bytes.concat . shrinkList (const []) . map Char8.singleton . Char8.unpack) searchedAlike,
      testCase "a byte beyond ASCII leaves the row to the matcher" $ do
        agreed "count row having /x.[0-9]{2}/" "x\xc3\xa9\&12\nx\xc3\xa9\xc3\xa9\&12\nx112\nx\0\&12\n"
        agreed "select row having /[^a-z]{3}/i numbered" "ab1\nA\xff\xfe\nab123\n\0\0\0\n123",
      testProperty "fieldsOfRowsWereGivenOneByOne" . withMaxSuccess 3000 $
        forAll (chooseInt (1, 4)) $ \n -> forAll (elements [Nothing, Just ",", Just " ", Just "\t", Just "\r", Just ", "]) $ \separator ->
          forAll (rowsFrom [" ", " ", "\t", ",", "a", "bc", "\r", "\v", "\xc3\xa9", "\n", "\n", ", "]) $ \text -> forAll (resize 9 (listOf1 (chooseInt (1, 9)))) $ \sizes -> ioProperty $ do
            let stage = Fields [FieldRange n (Just n)] separator ","
                expected = Bytes.concat [maybe blanks (splitBy (n - 1)) separator row n <> end | (row, end) <- rowsOf text]
            found <- forM [compile stage, uncompiled stage] $ \plan -> bytesSource "some" sizes text >>= \source -> runBytes plan [source]
            pure (found === [expected, expected]),
      testCase "a field of rows longer than a block, and what is after it" $ do
        let long = Bytes.replicate 200000 97
            text = Bytes.concat ["x ", long, " y\nshort row\n", long, "\nlast one"]
        for_ [1000, 65536, 1000000] $ \size -> runWith size "fields 2" text >>= (@?= Bytes.concat [long, "\nrow\n\none"])
        runWith 100 "fields 2 | head 2" (Bytes.concat (replicate 100000 "a b\n")) >>= (@?= "b\nb\n"),
      testCase "sectionsBeforeTheLastOnesWereKept" $
        for_ [("select last 2 row having \"a\"", "a2\na3\n"), ("select last 2 row having \"a\" numbered", "3:a2\n4:a3\n"), ("select last 3 not row having \"b\"", "a1\na2\na3\n"), ("select last 1 (row having \"a\" or row having \"b\")", "a3\n")] $ \(expression, expected) -> do
          stage <- stageOf expression
          assertBool "by the law" (LastOfSelected `elem` map appliedLaw (snd (rewrite stage)))
          runWith 3 expression "a1\nb1\na2\na3\n" >>= (@?= expected),
      testProperty "sectionsBetweenTheLastOnesWereKept" . withMaxSuccess 2000 $
        forAll (chooseInt (0, 4)) $ \n -> forAll (elements ["\"a\"", "word", "digits", "line", "/[a-c]*/", "not \"a\"", "bytes \"\"", "row followed-by row having \"1\""]) $ \splitter ->
          forAll (rowsFrom ["a", "b", "ab", "1", " ", "\n"]) $ \text -> forAll (resize 9 (listOf1 (chooseInt (1, 9)))) $ \sizes -> ioProperty $ do
            let last' = "last " <> Char8.pack (show n) <> " (" <> splitter <> ")"
            -- With a stage of its own for each section nothing is left out.
            found <- forM ["select " <> last', "foreach " <> last' <> " then append \"\" else suppress end"] $ \expression -> do
              stage <- stageOf expression
              bytesSource "some" sizes text >>= \source -> runBytes (uncompiled stage) [source]
            pure (counterexample (Char8.unpack last') (head found === last found)),
      testCase "what is kept of the last sections is these, whatever the limit on more" $ do
        stage <- stageOf "select last 3 \"needle\""
        let text = Bytes.concat (replicate 40 ("needle" <> Bytes.replicate 5000 32))
        source <- bytesSource "some" [4096] text
        found <- collected (runPlan defaultFilterOptions {filterLongest = 100} (compile stage) [source])
        found @?= "needleneedleneedle"
    ]
  where
    sought expression = do
      stage <- stageOf ("count row having /" <> expression <> "/")
      pure (", after a search for sequences of bytes" `Bytes.isInfixOf` Char8.pack (explain stage 1 (compile stage)))
    blanks row n = case drop (n - 1) (filter (not . Bytes.null) (Char8.splitWith (`elem` [' ', '\t']) row)) of
      field : _ -> field
      [] -> ""
    splitBy skip separator row _ = case drop skip (splits separator row) of
      field : _ -> field
      [] -> ""
    splits separator row = case Bytes.breakSubstring separator row of
      (field, rest)
        | Bytes.null rest -> [field]
        | otherwise -> field : splits separator (Bytes.drop (Bytes.length separator) rest)

sieved :: [ByteString]
sieved =
  ["[0-9]{5}[a-z.]+", "[a-z]+[0-9]{4}", "[[:digit:]]{2,}x?", "x+.y", "[^ ]+@", "(([0-9]))[0-9]-", "[0-9]{3}|[a-f]{3}", "[]x-]{9}", "^[0-9]{4}", "[A-F0-9]{2}(:|-)?[a-z]{2}", "\\.[a-z]+$"]

rowsOf :: ByteString -> [(ByteString, ByteString)]
rowsOf text
  | Bytes.null text = []
  | otherwise = case Char8.break (== '\n') text of
    (row, rest) -> (row, Bytes.take 1 rest) : rowsOf (Bytes.drop 1 rest)

rowsFrom :: [ByteString] -> Gen ByteString
rowsFrom = fmap Bytes.concat . resize 60 . listOf . elements

expressions :: Gen ByteString
expressions = frequency [(1, elements sieved), (3, Bytes.concat <$> (resize 7 (listOf1 piece) `suchThat` fewCounted))]
  where
    fewCounted parts = length (filter ("{" `Char8.isPrefixOf`) parts) <= 2
    piece = frequency [(6, elements sets), (3, elements ["+", "{2}", "{2,}", "{1,3}", "*", "?", "{0}", "+?", "{2}+"]), (2, elements ["|", "(a|1)", "(1[a-c])", "(", ")", "^", "$", "\\.", "\\b", "(1)?", "()", "\\w"])]
    sets = ["a", "1", "[0-9]", "[a-c]", "[^0-9]", ".", "[1a]", "[^]a]", "[.-]", "[[:alpha:]-]", "[[:upper:]1]", "[[:space:]]", "[^[:digit:]b]", "B", "\xc3\xa9", "[k-z]"]

-- Beside the same expression with an alternative that never matches, and has no sequence: all rows go to the matcher.
searchedAlike :: ByteString -> Property
searchedAlike expression = forAll (rowsFrom ["a", "b", "c", "1", "2", "12", "B", ".", "-", "]", " ", "k", "\xc3\xa9", "\xe2\x84\xaa", "\xff", "\0", "\n", "\n"]) $ \text -> ioProperty $ do
  made <- mapM (`newPattern` expression) rules
  reference <- mapM (`newPattern` (expression <> "|$.")) rules
  case (sequence made, sequence reference) of
    (Right ps, Right qs) -> conjoin <$> sequence [alike text make p q | (p, q) <- zip ps qs, make <- stages]
    _ -> pure (property rejected)
  where
    rules = [CaseMatters, IgnoreAsciiCase]
    stages =
      [ \s -> If (Having Row s) Identity Suppress,
        \s -> If (Not (Having Row s)) Identity Suppress,
        \s -> ForEach (Having Row s) (Number ":") Suppress,
        Count . Having Row,
        \s -> ForEach s (Prepend "<" :> Append ">") Identity
      ]
    alike text make p q = do
      expected <- inPieces (uncompiled (make (Matching q))) text
      found <- sequence [inPieces (uncompiled (make (Matching p))) text, inPieces (compile (make (Matching p))) text, whole (compile (make (Matching p))) text]
      pure (counterexample (show (make (Matching p))) (found === [expected, expected, expected]))

inPieces, whole :: Plan -> ByteString -> IO ByteString
inPieces plan text = bytesSource "some" [7, 3] text >>= \source -> runBytes plan [source]
whole plan text = bytesSource "some" [] text >>= \source -> runBytes plan [source]

-- The same as the stage as it is written, without a plan.
agreed :: ByteString -> ByteString -> IO ()
agreed expression text = do
  stage <- stageOf expression
  asWritten <- inPieces (uncompiled stage) text
  found <- mapM (\how -> how (compile stage) text) [inPieces, whole]
  found @?= [asWritten, asWritten]
