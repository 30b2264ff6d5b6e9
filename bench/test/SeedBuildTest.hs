{-# LANGUAGE DataKinds #-}
{-# LANGUAGE OverloadedStrings #-}

-- | What the seed's Build makes of well-typed expressions that are no JSON, and what ours makes of the same; those that
-- ours does not even type are in heddle-json's JsonTypesTest.
module Main
  ( main,
  )
where

import Data.Aeson qualified as Aeson
import Data.ByteString (ByteString)
import Data.ByteString.Lazy qualified as Lazy
import Data.Maybe (isJust)
import Data.Text.Lazy.Builder (toLazyText)
import Data.Text.Lazy.Encoding (encodeUtf8)
import Heddle.Bytes.Put (toByteString)
import Heddle.Json.Build qualified as Ours
import SeedBuild qualified as Seed
import Test.Tasty (TestTree, defaultMain, testGroup)
import Test.Tasty.HUnit (testCase, (@?=))

{- HLINT ignore "Monoid law, left identity" -}
-- It does not hold for the seed's.

main :: IO ()
main =
  defaultMain $
    testGroup
      "the seed's Build"
      [ testCase "its examples" $ do
          seed (Seed.array (Seed.int one <> Seed.int 2)) @?= ("[1,2]", True)
          seed (Seed.object ("foo" Seed.<:> Seed.int one <> "bar" Seed.<:> Seed.int (3 :: Int))) @?= ("{\"foo\":1,\"bar\":3}", True),
        hole "nothing, then two" (Seed.array (mempty <> (Seed.int one <> Seed.int 2))) "[,1,2]",
        hole "an object in an object" (Seed.object (Seed.object ("a" Seed.<:> Seed.int one))) "{{\"a\":1}}",
        hole "a pair in an array" (Seed.array ("a" Seed.<:> Seed.int one)) "[\"a\":1]",
        hole "two values for a key" (Seed.object ("a" Seed.<:> (Seed.int one <> Seed.int 2))) "{\"a\":1,2}",
        hole "no value for a key" (Seed.object ("a" Seed.<:> (mempty :: Seed.Build Int))) "{\"a\":}",
        hole "strings" (Seed.array (Seed.text "foo")) "[foo]",
        testCase "ours: nothing, then two" $
          ours (Ours.array (mempty <> (Ours.int one <> Ours.int 2))) @?= ("[1,2]", True),
        testCase "ours: strings" $ ours (Ours.array (Ours.text "foo")) @?= ("[\"foo\"]", True)
      ]
  where
    one = 1 :: Int

hole :: String -> Seed.Build a -> ByteString -> TestTree
hole label it text = testCase ("a hole: " <> label) (seed it @?= (text, False))

-- | The text, and whether it is JSON.
seed :: Seed.Build a -> (ByteString, Bool)
seed = judged . Lazy.toStrict . encodeUtf8 . toLazyText . Seed.run

ours :: Ours.Build 'Ours.One a -> (ByteString, Bool)
ours = judged . toByteString . Ours.encode

judged :: ByteString -> (ByteString, Bool)
judged text = (text, isJust (Aeson.decodeStrict text :: Maybe Aeson.Value))
