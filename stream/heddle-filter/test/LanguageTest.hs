{-# LANGUAGE OverloadedStrings #-}

-- | "Heddle.Filter.Language": what is written is read, and what is malformed is refused.
module LanguageTest (tests) where

import Data.ByteString (ByteString)
import Data.ByteString qualified as Bytes
import Data.ByteString.Char8 qualified as Char8
import Data.Either (isLeft)
import Data.List (intersperse)
import FilterGen
import Heddle.Filter
import Heddle.Filter.Language
import LanguageErrorTest qualified
import Test.QuickCheck
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (testCase, (@?=))
import Test.Tasty.QuickCheck (testProperty)

tests :: TestTree
tests =
  testGroup
    "Heddle.Filter.Language"
    [ testProperty "what is written is read as the same stage" . withMaxSuccess 20000 $
        forAllShrink (chooseInt (0, 8) >>= stages) shrinkStage readsBack,
      testProperty "what is written is read as the same splitter" . withMaxSuccess 10000 $
        forAllShrink (chooseInt (0, 8) >>= splitters) shrinkSplitter $ \s ->
          ioProperty ((=== Right (Count s)) <$> parseStage (Char8.pack ("count " ++ printSplitter s))),
      testProperty "any bytes can be written in a text" . withMaxSuccess 5000 $ \bytes ->
        readsBack (Prepend (Bytes.pack bytes) :> Command (Bytes.pack bytes) :> Count (Substring IgnoreAsciiCase (Bytes.pack bytes))),
      testProperty "regular expressions of any bytes" . withMaxSuccess 5000 $
        forAll (Bytes.pack <$> listOf (elements [97, 47, 92, 34, 10, 0, 0xff, 0x5d, 0x5b, 0x28, 0x29, 0x2a, 105, 32])) $ \text -> ioProperty $ do
          read' <- newPattern CaseMatters text
          case read' of
            -- A slash needs no backslash of its own: it is read as the slash that it stands for.
            Right p | not ("\\/" `Bytes.isInfixOf` text) -> pure (property (readsBack (Count (Matching p))))
            _ -> pure (property Discard),
      testGroup "as documented" (map meaning documented),
      testProperty "random bytes are read or refused within the text" . withMaxSuccess 20000 $ \bytes -> refusedWithin (Bytes.pack bytes),
      testProperty "random words are read or refused within the text" . withMaxSuccess 20000 $ forAll junk refusedWithin,
      testProperty "damaged expressions are read or refused within the text" . withMaxSuccess 20000 $ forAll damaged refusedWithin,
      testProperty "what cannot be read is refused" . withMaxSuccess 20000 $
        forAll invalid $ \text -> refusedWithin text .&&. ioProperty (counterexample "it was read" . isLeft <$> parseStage text),
      LanguageErrorTest.tests
    ]

readsBack :: Stage -> Property
readsBack stage = ioProperty ((=== Right stage) <$> parseStage (Char8.pack (printStage stage)))

-- The message is about a place in the text, and is shown with a caret below it.
refusedWithin :: ByteString -> Property
refusedWithin text =
  ioProperty $
    parseStage text >>= \case
      Right stage -> pure (readsBack stage)
      Left e -> do
        let shown = Char8.split '\n' (renderParseError text e)
            caret = maybe (-1) Bytes.length (Char8.stripSuffix "^" (shown !! 2))
            line = shown !! 1
        pure $
          counterexample (show e) $
            counterexample "place" (errorOffset e >= 0 && errorOffset e <= Bytes.length text)
              .&&. counterexample "message" (not (null (errorMessage e)))
              .&&. counterexample "lines" (length shown === 4)
              .&&. counterexample "caret" (caret >= 2 && caret <= Bytes.length line)

-- Expressions ----------------------------------------------------------------

junk :: Gen ByteString
junk = Bytes.concat . intersperse " " <$> listOf (elements vocabulary)

vocabulary :: [ByteString]
vocabulary =
  ["id", "suppress", "select", "if", "then", "else", "end", "foreach", "count", "number", "numbers", "prepend", "append", "instead"]
    ++ ["replace", "with", "head", "tail", "fields", "by", "concat", "interleave", "zip", "flip", "command", "upper", "lower"]
    ++ ["where", "unless", "numbered", "not", "and", "or", "having", "having-only", "followed-by", "first", "last", "prefix", "suffix"]
    ++ ["row", "line", "substring", "bytes", "from", "to", "digits", "nothing", "\"a\"", "\"b\"i", "/a+/", "/b|c/i", "1", "2", "3-", "-", ","]
    ++ ["(", ")", "|", "||", "# rest", "\n", "x", "\"", "/", "\xc3\xa9"]

-- A byte more, less, or another, or the beginning only.
damaged :: Gen ByteString
damaged = do
  text <- written
  at <- chooseInt (0, Bytes.length text)
  byte <- Bytes.singleton <$> elements (Bytes.unpack "|(),-\"/\\# \nax1\xff\0")
  let (before, behind) = Bytes.splitAt at text
  elements [before <> byte <> behind, before <> Bytes.drop 1 behind, before <> byte <> Bytes.drop 1 behind, before]

written :: Gen ByteString
written = Char8.pack . printStage <$> (chooseInt (0, 6) >>= stages)

-- An expression with something that makes it malformed, whatever it is.
invalid :: Gen ByteString
invalid = do
  text <- written
  other <- written
  elements
    [ text <> " )",
      "( " <> text,
      text <> " |",
      "| " <> text,
      text <> " end",
      text <> " " <> other,
      text <> " | nosuch",
      text <> " | prepend \"open",
      text <> " | count /open",
      text <> " | prepend \"\\e\"",
      text <> " | count /(/",
      text <> " | count /a**\\/ or [/",
      text <> " | head 9999999999999999",
      text <> " | fields 2-1",
      text <> " | fields 0",
      text <> " | append \"a\"i",
      text <> " | if row then " <> other,
      text <> " | foreach then " <> other <> " end",
      text <> " | concat (" <> other <> ")",
      text <> " | select row having",
      text <> " where",
      text <> " ?",
      text <> " # comment\n $",
      text <> " \xc3\xa9",
      "",
      " \n\t",
      "# " <> Char8.map (\c -> if c == '\n' then ' ' else c) text
    ]

-- What the manual says ------------------------------------------------------

meaning :: (ByteString, Stage) -> TestTree
meaning (text, stage) = testCase (Char8.unpack text) (parseStage text >>= (@?= Right stage))

documented :: [(ByteString, Stage)]
documented =
  [ ("select row having \"FIND ME\"", select (Having Row (sub "FIND ME"))),
    ("select row having \"FIND ME\" numbered", ForEach (Having Row (sub "FIND ME")) (Number ":") Suppress),
    ("count row having \"FIND ME\"", Count (Having Row (sub "FIND ME"))),
    ("count", Count Row),
    ("foreach row having \" 500 \" then upper end", ForEach (Having Row (sub " 500 ")) (Translate upper) Identity),
    ("upper where row having \"a\"", If (Having Row (sub "a")) (Translate upper) Identity),
    ("upper unless row having \"a\"", If (Having Row (sub "a")) Identity (Translate upper)),
    ("head", select (First 10 Row)),
    ("tail 3", select (Last 3 Row)),
    ("number", ForEach Row (Number ":") Identity),
    ("number \" \"", ForEach Row (Number " ") Identity),
    ("foreach line then number else id end", ForEach Line (Number ":") Identity),
    ("replace \"a\"i with \"b\"", ForEach (Substring IgnoreAsciiCase "a") (Instead "b") Identity),
    ("fields 7", Fields [FieldRange 7 (Just 7)] Nothing " "),
    ("fields 1,3-5,7- by \":\"", Fields [FieldRange 1 (Just 1), FieldRange 3 (Just 5), FieldRange 7 Nothing] (Just ":") ":"),
    ("fields 2 by \":\" with \"\"", Fields [FieldRange 2 (Just 2)] (Just ":") ""),
    ("zip (numbers, id)", Join Zipping Numbers Identity),
    ("flip flip concat (id, lower)", Join (Flipped (Flipped Appending)) Identity (Translate lower)),
    ("id | upper || lower | id", ((Identity :> Translate upper) :|| Translate lower) :> Identity),
    ("id | (upper | lower)", Identity :> (Translate upper :> Translate lower)),
    ("count not row having \"a\"", Count (Not (Having Row (sub "a")))),
    ("count \"a\" and \"b\" or \"c\" and \"d\"", Count (Or (And (sub "a") (sub "b")) (And (sub "c") (sub "d")))),
    ("count row having \"a\" and row having \"b\"", Count (And (Having Row (sub "a")) (Having Row (sub "b")))),
    ("count row having (\"a\" or \"b\")", Count (Having Row (Or (sub "a") (sub "b")))),
    ("count first row followed-by (suffix row)", Count (First 1 (FollowedBy Row (Suffix Row)))),
    ("count row having-only digits having line", Count (Having (HavingOnly Row (Runs (named "digits"))) Line)),
    ("count (from \"<\" to \">\") having word", Count (Having (Between (sub "<") (sub ">")) (Runs (named "word")))),
    -- havingDidNotBindTightestBehindFromAndTo
    ("count from row having \"a\" to row having \"b\"", Count (Between (Having Row (sub "a")) (Having Row (sub "b")))),
    ("count from \"<\" to \">\" having word", Count (Between (sub "<") (Having (sub ">") (Runs (named "word"))))),
    ("count from line followed-by \"a\" having-only word to (\"b\" or \"c\") or row", Count (Or (Between (HavingOnly (FollowedBy Line (sub "a")) (Runs (named "word"))) (Or (sub "b") (sub "c"))) Row)),
    ("count from from \"a\" to \"b\" to \"c\"", Count (Between (Between (sub "a") (sub "b")) (sub "c"))),
    ("\"FIND ME\"", select (Having Row (sub "FIND ME"))),
    ("upper | \"a\"i | (\"b\" where row)", (Translate upper :> select (Having Row (Substring IgnoreAsciiCase "a"))) :> If Row (select (Having Row (sub "b"))) Identity),
    ("count bytes \"xyz\"", Count (Runs (byteSetFrom "bytes \"xyz\"" "xyz"))),
    ("count substring \"a\"", Count (sub "a")),
    ("prepend \"\\n\\t\\r\\0\\\\\\\"\\x41\\xfF\"", Prepend "\n\t\r\0\\\"A\xff"),
    ("prepend \"# not a comment\" # a comment", Prepend "# not a comment"),
    (" \n id\t\n|\nid ", Identity :> Identity)
  ]
  where
    select s = If s Identity Suppress
    sub = Substring CaseMatters
    upper = head namedTranslations
    lower = namedTranslations !! 1
    named name = head (filter ((== name) . setName) namedSets)
