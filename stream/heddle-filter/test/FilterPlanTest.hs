{-# LANGUAGE OverloadedStrings #-}

-- | Reading and planning are linear in the expression, whatever its shape.
module FilterPlanTest (tests) where

import Control.Exception (evaluate)
import Control.Monad (forM_, void)
import Data.ByteString (ByteString)
import Data.ByteString.Char8 qualified as Char8
import Data.Int (Int64)
import FilterHarness
import Heddle.Filter
import Heddle.Filter.Language (parseStage, printStage, renderParseError)
import System.Mem (getAllocationCounter)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, assertFailure, testCase, (@?=))

tests :: TestTree
tests =
  testGroup
    "plans of large expressions"
    [ testGroup "planThatBeganAtTheRootAgainForEachLaw" [testCase (Char8.unpack (make 2)) (linear make) | make <- shapes],
      testCase "100,000 nested not" . quickly 60 $ do
        stage <- stageOf ("select " <> nots 100000 <> "row having \"a\"")
        planned compile stage >>= (@?= printStage (If (Having Row (Substring CaseMatters "a")) Identity Suppress))
        source <- bytesSource "rows" [] "a\nb\n"
        runBytes (compile stage) [source] >>= (@?= "a\n"),
      testCase "16,000 stages" . quickly 60 $ do
        stage <- stageOf (Char8.intercalate " | " (replicate 16000 "upper"))
        source <- bytesSource "rows" [] "a\nb\n"
        runBytes (compile stage) [source] >>= (@?= "A\nB\n"),
      testGroup
        "backslashThatStoodForItsLetter"
        ( [ testCase (Char8.unpack expression) $
              parseStage ("select /" <> expression <> "/") >>= \case
                Left e -> do
                  let message = renderParseError "" e
                  assertBool (Char8.unpack message) (hint `Char8.isInfixOf` message)
                Right _ -> assertFailure "it was taken"
            | (expression, hint) <- refused
          ]
            ++ [testCase ("taken: " ++ Char8.unpack expression) (void (stageOf ("select /" <> expression <> "/"))) | expression <- taken]
            ++ [testCase "what GNU defines means what GNU says" $ forM_ meanings $ \(expression, expected) -> runWith 100 ("select /" <> expression <> "/") "ab 1_,\n" >>= (@?= expected)]
        )
    ]
  where
    refused =
      [ ("\\d+", "[0-9]"),
        ("x\\D", "[^0-9]"),
        ("a\\tb", "[[:blank:]]"),
        ("(a|\\n)", "within a line"),
        ("[a]\\q", "the character itself is q"),
        ("[^]]\\0", "the character itself is 0"),
        ("[[:alpha:]]\\e", "the character itself is e"),
        ("\\\\\\d", "[0-9]"),
        -- backslashesBetweenBracketsWereLetters: and a tab that was none.
        ("[\\d]", "a digit is 0-9 there"),
        ("[^]\\d]", "a digit is 0-9 there"),
        ("[]\\D]", "the character itself is D"),
        ("[[:digit:]\\d]", "a digit is 0-9 there"),
        ("[\\w.]", "[[:alnum:]_]"),
        ("[^\\s,]", "[[:space:]]"),
        ("[ \\t]+$", "[[:blank:]]"),
        ("a|(b[\\n])", "within a line"),
        ("[\\]]", "a ] is the first there"),
        ("[a\\-z]", "a - is the last there"),
        ("[\\^]", "unless it is the first"),
        ("[\\.]", "the . needs none"),
        ("[\\\\\\1]", "the character itself is 1"),
        ("[x]y[z\\x]", "\\xHH")
      ]
    taken = ["\\\\d", "[\\\\]", "[^]\\\\]", "[]\\\\d]", "[[:digit:]\\\\]", "[\\/]", "\\.\\*\\[\\]\\(\\)\\{\\}\\+\\?\\|\\^\\$\\-\\/", "(a)\\1", "\\w\\W\\s\\S\\b\\B\\<\\>\\`\\'"]
    meanings = [("\\w+", "ab1_"), ("\\W+", " ,"), ("\\s", " "), ("\\S+", "ab1_,"), ("\\b.", "a 1,"), ("\\<.", "a1"), (".\\>", "b_"), ("\\`.", "a"), (".\\'", ","), ("a\\B.", "ab")]

-- Twice as large, about twice as much is allocated, and not four times.
linear :: (Int -> ByteString) -> IO ()
linear make = do
  _ <- cost 50
  once <- cost 2000
  twice <- cost 4000
  assertBool (show once ++ " bytes, then " ++ show twice) (twice < 2 * once + once `div` 2)
  where
    cost n = do
      let text = make n
      _ <- evaluate (Char8.length text)
      allocating (stageOf text >>= planned compile >>= evaluate . length)

-- It is planned, and made ready to run.
planned :: (Stage -> Plan) -> Stage -> IO String
planned how stage = do
  _ <- runBytes (how stage) []
  pure (printStage (fst (rewrite stage)))

allocating :: IO a -> IO Int64
allocating action = do
  before <- getAllocationCounter
  _ <- action
  after <- getAllocationCounter
  pure (before - after)

nots :: Int -> ByteString
nots n = Char8.concat (replicate n "not ")

-- Expressions of any size: the laws apply at each step, or nowhere.
shapes :: [Int -> ByteString]
shapes =
  [ \n -> Char8.intercalate " | " (replicate n "upper"),
    \n -> Char8.intercalate " || " (replicate n "upper"),
    \n -> Char8.intercalate " | " (replicate n "tail"),
    \n -> Char8.intercalate " | " (replicate n "id"),
    \n -> Char8.intercalate " | " (replicate n "select row having \"a\" and row having \"b\""),
    \n -> Char8.intercalate " | " (replicate n "count"),
    \n -> Char8.intercalate " | (" (replicate n "upper") <> Char8.replicate (n - 1) ')',
    \n -> "foreach row then " <> Char8.intercalate " | " (replicate n "fields 1") <> " end",
    \n -> Char8.concat (replicate n "foreach row then ") <> "upper" <> Char8.concat (replicate n " end"),
    \n -> Char8.concat (replicate n "if row having \"a\" then ") <> "number" <> Char8.concat (replicate n " end"),
    \n -> "select " <> nots n <> "row",
    \n -> "select " <> nots (n + 1) <> "line",
    \n -> "select " <> Char8.intercalate " and " (replicate n "not row having \"a\""),
    \n -> "select " <> Char8.intercalate " and " (map (\i -> "not row having \"" <> number i <> "\"") [1 .. n]),
    \n -> "select " <> Char8.intercalate " or " (map (\i -> "row having \"" <> number i <> "\"") [1 .. n]),
    \n -> "select " <> Char8.intercalate " and " (map (\i -> "row having \"" <> number i <> "\"") [1 .. n]),
    \n -> "select " <> Char8.intercalate " or " (map (\i -> "line having \"" <> number i <> "\"") [1 .. n]),
    \n -> "select row having (" <> Char8.intercalate " or " (map (\i -> "\"" <> number i <> "\"") [1 .. n]) <> ")",
    \n -> "select " <> Char8.intercalate " having " (replicate n "row")
  ]
  where
    number = Char8.pack . show
