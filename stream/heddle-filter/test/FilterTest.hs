{-# LANGUAGE OverloadedStrings #-}

-- | "Heddle.Filter": random programs on random streams give what the specification says,
-- as written and compiled, however the stream comes, in parallel or not.
module FilterTest (tests) where

import Control.Monad (forM, zipWithM)
import Data.ByteString (ByteString)
import Data.ByteString qualified as Bytes
import Data.ByteString.Char8 qualified as Char8
import Data.IORef (modifyIORef', newIORef, readIORef)
import FilterGen
import FilterSpec
import Heddle.Filter
import Heddle.Filter.Language (printStage)
import System.Directory (createDirectoryIfMissing, getTemporaryDirectory, removeDirectoryRecursive)
import System.Process (getCurrentPid)
import Test.QuickCheck
import Test.Tasty (TestTree, testGroup, withResource)
import Test.Tasty.HUnit (assertBool, testCase)
import Test.Tasty.QuickCheck (testProperty)

{- HLINT ignore "Avoid lambda" -}
{- HLINT ignore "Use first" -}
{- HLINT ignore "Use fmap" -}
{- HLINT ignore "Redundant <$>" -}
-- The plainest form, because it is the specification.

tests :: TestTree
tests =
  testGroup
    "Heddle.Filter"
    [ testGroup
        "as specified, in one go and in pieces"
        [ inMemory 25000 "splitters" (ForEach <$> splitters' 4 <*> pure (around "<" ">") <*> pure (around "[" "]")),
          inMemory 15000 "selections" (selection <$> splitters' 5),
          inMemory 10000 "branches as streams" (If <$> splitters' 3 <*> sized' 3 promptStages <*> sized' 3 promptStages),
          inMemory 35000 "stages" (sized' 7 stages),
          inMemory 15000 "programs with a front" fronts
        ],
      withResource newDirectory removeDirectoryRecursive $ \directory ->
        testGroup
          "as specified, from files, in parallel parts"
          [ fromFiles directory 10000 "programs with a front" fronts,
            fromFiles directory 5000 "stages" (sized' 6 stages)
          ],
      testGroup
        "a line of a megabyte"
        [ testCase (Char8.unpack name ++ ": " ++ printStage stage) (hugeLine text stage)
          | (name, text) <- hugeTexts,
            stage <- hugeStages
        ]
    ]
  where
    splitters' n = chooseInt (0, n) >>= splitters
    sized' :: Int -> (Int -> Gen Stage) -> Gen Stage
    sized' n gen = chooseInt (0, n) >>= gen

around :: ByteString -> ByteString -> Stage
around open close = Prepend open :> Append close

selection :: Splitter -> Stage
selection s = If s Identity Suppress

-- | What is made a front of: rows are searched for, worked on one by one, counted.
fronts :: Gen Stage
fronts = do
  first <- frequency [(3, (: []) . selection <$> rows), (1, (: []) . selection . Not <$> rows), (1, numbered <$> rows), (1, pure [])]
  local <- chooseInt (0, 2) >>= \n -> vectorOf n rowwise
  final <- frequency [(3, pure []), (2, (: []) . Count <$> oneof [pure Row, splitters 2]), (1, (: []) <$> stages 2)]
  pure $ case first ++ local ++ final of
    [] -> Identity
    ss -> foldl1 (:>) ss
  where
    rows = oneof [Having Row <$> sought, chooseInt (0, 3) >>= rowSplitters]
    sought =
      oneof
        [ Substring <$> elements [CaseMatters, IgnoreAsciiCase] <*> texts,
          Or <$> (Substring CaseMatters <$> texts) <*> (Substring CaseMatters <$> texts),
          Matching <$> patterns,
          splitters 2
        ]
    numbered s = [ForEach s (Number ":") Suppress]
    rowwise =
      oneof
        [ Translate <$> elements namedTranslations,
          selection <$> splitters 2,
          ForEach <$> splitters 2 <*> stages 2 <*> elements [Identity, Suppress],
          Fields <$> pure [FieldRange 2 Nothing, FieldRange 1 (Just 1)] <*> elements [Nothing, Just "a"] <*> pure ":"
        ]

-- | A program, its stream, how large the pieces are, and how long the sources, but for the last.
data Case = Case Stage ByteString [Int] [Int]

instance Show Case where
  show (Case stage text sizes lengths) =
    printStage stage ++ "\n  on " ++ show text ++ " in pieces of " ++ show sizes ++ ", in sources of " ++ show lengths

cases :: Gen Stage -> Gen Case
cases gen = Case <$> gen <*> streams <*> resize 4 (listOf (chooseInt (1, 9))) <*> resize 2 (listOf (chooseInt (0, 30)))

shrinkCase :: Case -> [Case]
shrinkCase (Case stage text sizes lengths) =
  [Case stage text [] [] | not (null sizes && null lengths)]
    ++ [Case stage text sizes [] | not (null lengths)]
    ++ [Case stage text [] lengths | not (null sizes)]
    ++ [Case stage' text sizes lengths | stage' <- shrinkStage stage]
    ++ [Case stage text' sizes lengths | text' <- shrinkStream text]

expected :: Stage -> ByteString -> ByteString
expected stage = Bytes.pack . stageOutput alphabet stage . Bytes.unpack

pieces :: [Int] -> ByteString -> [ByteString]
pieces lengths text = case lengths of
  [] -> [text]
  n : ns -> let (piece, rest) = Bytes.splitAt n text in piece : pieces ns rest

inMemory :: Int -> String -> Gen Stage -> TestTree
inMemory n name gen = testProperty name . withMaxSuccess n $
  forAllShrink (cases gen) shrinkCase $ \(Case stage text sizes lengths) -> ioProperty $ do
    let sources = mapM (bytesSource "some" sizes) (pieces lengths text)
    asWritten <- sources >>= runBytes (uncompiled stage)
    compiled <- sources >>= runBytes (compile stage)
    pure $
      counterexample "as written" (asWritten === expected stage text)
        .&&. counterexample "compiled" (compiled === expected stage text)

-- Tiny blocks and parts, so that there are many of them, and buffers grow.
fromFiles :: IO FilePath -> Int -> String -> Gen Stage -> TestTree
fromFiles directory n name gen = testProperty name . withMaxSuccess n $
  forAllShrink (cases gen) shrinkCase $ \(Case stage text _ lengths) ->
    forAll (elements [2, 3]) $ \jobs -> forAll (elements [1, 16, 64]) $ \block -> forAll (elements [1, 8, 32, 100]) $ \part -> ioProperty $ do
      sources <- zipWithM (written directory) [0 ..] (pieces lengths text)
      out <- collected (\sink -> runPlan options {filterJobs = jobs, filterBlockSize = block, filterPartSize = part} (compile stage) sources sink)
      pure (out === expected stage text)
  where
    options = defaultFilterOptions {filterOnError = fail . show}

written :: IO FilePath -> Int -> ByteString -> IO Source
written directory i text = do
  file <- (++ "/" ++ show i) <$> directory
  Bytes.writeFile file text
  pure (fileSource (Char8.pack file))

-- What is pushed may be memory that is used again.
collected :: (Sink -> IO ()) -> IO ByteString
collected run = do
  got <- newIORef []
  run (Sink (\piece -> let !copy = Bytes.copy piece in True <$ modifyIORef' got (copy :)) (pure ()))
  Bytes.concat . reverse <$> readIORef got

newDirectory :: IO FilePath
newDirectory = do
  temporary <- getTemporaryDirectory
  pid <- getCurrentPid
  let directory = temporary ++ "/heddle-component-" ++ show pid
  directory <$ createDirectoryIfMissing True directory

-- Large ----------------------------------------------------------------------

hugeTexts :: [(ByteString, ByteString)]
hugeTexts =
  [ ("of one letter", Bytes.replicate 1000000 97),
    ("of all bytes, between short ones", "ab\n" <> Bytes.concat (replicate 4000 (Bytes.pack (filter (/= 10) [0 .. 255]))) <> "\nba\n\nab")
  ]

hugeStages :: [Stage]
hugeStages =
  [ selection (Having Row (Substring CaseMatters "b")),
    selection (Not (Having Row (Substring IgnoreAsciiCase "AB"))),
    ForEach (Having Row (Substring CaseMatters "aa")) (Number ":") Suppress,
    Count (Substring CaseMatters "aaa"),
    ForEach (Or (Substring CaseMatters "aa") (Runs (head namedSets))) (Prepend "<") Identity,
    ForEach (Last 1 Row) (Fields [FieldRange 1 (Just 1)] Nothing "") Suppress,
    Join Zipping (Translate (head namedTranslations)) Identity,
    selection (Between (Substring CaseMatters "a") (Substring CaseMatters "\xff"))
  ]

hugeLine :: ByteString -> Stage -> IO ()
hugeLine text stage = do
  outs <- forM [uncompiled, compile] $ \how -> bytesSource "large" [] text >>= \source -> runBytes (how stage) [source]
  assertBool "another output than specified" (outs == [expected stage text, expected stage text])
