{-# LANGUAGE OverloadedStrings #-}

-- | String literals: their bytes, and how large they make a program.
module LiteralTest
  ( tests,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString qualified as ByteString
import Data.String (fromString)
import Data.Text qualified as Text
import Data.Text.Encoding qualified as Text
import Heddle.Bytes.Put
import Heddle.Testkit.Compile (sizePerLine)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, testCase, (@?=))
import Test.Tasty.QuickCheck

tests :: TestTree
tests =
  testGroup
    "Literal"
    [ testCase "literals: their bytes" $ do
        bothOf "" "" >>= (@?= "")
        bothOf "a" "a" >>= (@?= "a")
        bothOf "a literal longer than sixteen bytes" "a literal longer than sixteen bytes" >>= (@?= "a literal longer than sixteen bytes")
        bothOf "a\0b" "a\0b" >>= (@?= "a\0b")
        bothOf "\0" "\0" >>= (@?= "\0")
        bothOf "K\246ln \8364 \128169" "K\246ln \8364 \128169" >>= (@?= Text.encodeUtf8 (Text.pack "K\246ln \8364 \128169"))
        bothOf "<\55296\57343\55295>" "<\55296\57343\55295>" >>= (@?= "<\239\191\189\239\191\189\237\159\191>"),
      testProperty "literals: what is none" $ \chars ->
        let expected = Text.encodeUtf8 (Text.pack chars)
         in toByteString (fromString chars) === expected .&&. toByteString (write (fromString chars)) === expected,
      testCase "a literal costs bytes, not code" $ do
        puts <- sizePerLiteral "Put" (\n -> "p" <> show n <> " :: Put\np" <> show n <> " = " <> show (name n))
        writes <- sizePerLiteral "Write" (\n -> "w" <> show n <> " :: Write\nw" <> show n <> " = " <> show (name n))
        inside <- sizePerLiteral "Inside" (\n -> (if n == 1 then "all :: Put\nall = mempty" else "") <> " <> " <> show (name n))
        texts <- sizePerLiteral "Utf8" (\n -> "t" <> show n <> " :: Utf8\nt" <> show n <> " = " <> show (name n))
        let found = show [("a Put" :: String, puts), ("a Write", writes), ("inside of a Put", inside), ("a Utf8", texts)]
        assertBool found (puts <= 220 && writes <= 280 && inside <= 100 && texts <= 220)
    ]
  where
    sizePerLiteral = sizePerLine ["heddle-bytes"] ["import Heddle.Bytes.Put", "import Heddle.Bytes.Utf8 (Utf8)", "import Prelude hiding (all)"]
    name :: Int -> String
    name n = "literal number " <> show n

bothOf :: Put -> Write -> IO ByteString
bothOf put piece = do
  toByteString (write piece) @?= toByteString put
  let b = toByteString put
  ByteString.length b @?= ByteString.length (toByteString put)
  pure b
