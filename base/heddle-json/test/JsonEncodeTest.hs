{-# LANGUAGE DeriveAnyClass #-}
{-# LANGUAGE DeriveGeneric #-}
{-# LANGUAGE FlexibleContexts #-}
{-# LANGUAGE GeneralizedNewtypeDeriving #-}
{-# LANGUAGE OverloadedStrings #-}
-- Interfaces that a module reads without their pragmas are without them for the modules compiled after it, too.
{-# OPTIONS_GHC -O0 -fno-ignore-interface-pragmas #-}
{-# OPTIONS_GHC -Wno-partial-fields #-}

-- | Derived and given instances against aeson's: the same bytes, with every option that both have.
module JsonEncodeTest
  ( tests,
  )
where

import Data.Aeson qualified as Aeson
import Data.Aeson.Encoding qualified as Aeson (encodingToLazyByteString)
import Data.ByteString (ByteString)
import Data.ByteString.Lazy qualified as Lazy
import Data.Char (toLower)
import Data.Functor.Identity (Identity (..))
import Data.Int (Int64, Int8)
import Data.IntMap.Strict (IntMap)
import Data.IntSet qualified as IntSet
import Data.List.NonEmpty (NonEmpty (..))
import Data.Map.Strict (Map)
import Data.Map.Strict qualified as Map
import Data.Proxy (Proxy (..))
import Data.Ratio ((%))
import Data.Sequence qualified as Seq
import Data.Set qualified as Set
import Data.Text (Text)
import Data.Text qualified as Text
import Data.Text.Lazy qualified as LazyText
import Data.Tree (Tree (..))
import Data.Word (Word64, Word8)
import GHC.Generics (Generic, Rep)
import Heddle.Bytes.Put (toByteString)
import Heddle.Json.Build
import Heddle.Json.Encode
import Heddle.Json.Options
import Numeric.Natural (Natural)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (testCase, (@?=))
import Test.Tasty.QuickCheck hiding (label)

tests :: TestTree
tests =
  testGroup
    "Json.Encode"
    [ testGroup "derived, as aeson" [testGroup label_ (derived options theirs) | (label_, options, theirs) <- settings],
      testGroup
        "given, as aeson"
        [ same "Bool" (arbitrary :: Gen Bool),
          same "Int" (arbitrary :: Gen Int),
          same "Int8" (arbitrary :: Gen Int8),
          same "Int64" (arbitraryBoundedIntegral :: Gen Int64),
          same "Word8" (arbitrary :: Gen Word8),
          same "Word64" (arbitraryBoundedIntegral :: Gen Word64),
          same "Integer" ((\n k -> n * 10 ^ k) <$> arbitrary <*> choose (0, 60 :: Int) :: Gen Integer),
          same "Natural" ((\n k -> fromInteger (abs n) * 10 ^ k) <$> (arbitrary :: Gen Integer) <*> choose (0, 60 :: Int) :: Gen Natural),
          same "Ratio" ((\n d -> n % (abs d + 1)) <$> arbitrary <*> arbitrary :: Gen Rational),
          same "Text" texts,
          same "lazy Text" (LazyText.fromChunks <$> listOf texts),
          same "String" (Text.unpack <$> texts),
          same "Char" (choose ('\0', '\xd7ff')),
          same "Ordering" (elements [LT, EQ, GT]),
          same "()" (pure ()),
          same "Proxy" (pure (Proxy :: Proxy Int)),
          same "[Int]" (arbitrary :: Gen [Int]),
          same "NonEmpty" ((:|) <$> arbitrary <*> arbitrary :: Gen (NonEmpty Int)),
          same "Seq" (Seq.fromList <$> arbitrary :: Gen (Seq.Seq Int)),
          same "Set" (Set.fromList <$> arbitrary :: Gen (Set.Set Int)),
          same "IntSet" (IntSet.fromList <$> arbitrary),
          same "Tree" ((\a b c -> Node a [Node b [], Node c [Node a []]]) <$> arbitrary <*> arbitrary <*> arbitrary :: Gen (Tree Int)),
          same "Maybe" (arbitrary :: Gen (Maybe (Maybe Int))),
          same "Either" (arbitrary :: Gen (Either Int Bool)),
          same "(,)" (arbitrary :: Gen (Int, Bool)),
          same "(,,)" (arbitrary :: Gen (Int, Bool, Char)),
          same "(,,,)" (arbitrary :: Gen (Int, Bool, (), Int)),
          same "(,,,,)" (arbitrary :: Gen (Int, Bool, (), Int, Bool)),
          same "(,,,,,)" (arbitrary :: Gen (Int, Bool, (), Int, Bool, Int)),
          same "(,,,,,,)" (arbitrary :: Gen (Int, Bool, (), Int, Bool, Int, Int)),
          same "Identity" (Identity <$> arbitrary :: Gen (Identity [Int])),
          same "Map Text" (Map.fromList <$> listOf ((,) <$> texts <*> arbitrary) :: Gen (Map Text Int)),
          same "Map String" (Map.fromList <$> listOf ((,) <$> (Text.unpack <$> texts) <*> arbitrary) :: Gen (Map String Int)),
          same "Map Int" (Map.fromList <$> arbitrary :: Gen (Map Int Bool)),
          same "Map Integer" (Map.fromList <$> arbitrary :: Gen (Map Integer Bool)),
          same "Map Bool" (Map.fromList <$> arbitrary :: Gen (Map Bool Int)),
          same "IntMap" (arbitrary :: Gen (IntMap Int))
        ],
      testProperty "Double: what aeson reads" $ \xs -> Aeson.decodeStrict (ours xs) === Just (xs :: [Double]),
      testCase "by hand" $ do
        ours (Point 1 (-2)) @?= "{\"x\":1,\"y\":-2}"
        toByteString (encode (array (foldMap json [Point 1 2, Point 3 4]))) @?= "[{\"x\":1,\"y\":2},{\"x\":3,\"y\":4}]",
      testCase "newtype deriving" $ ours (Meters 3) @?= "3",
      testCase "names with escapes" $
        toByteString (encode (genericToJson defaultOptions {optionField = ("\"\n" <>)} (Little 1 True)))
          @?= "{\"\\\"\\nnumber\":1,\"\\\"\\nflag\":true}"
    ]

ours :: ToJson a => a -> ByteString
ours = toByteString . encodeJson

same :: (ToJson a, Aeson.ToJSON a, Show a) => String -> Gen a -> TestTree
same label_ gen = testProperty label_ . forAll gen $ \x -> ours x === Lazy.toStrict (Aeson.encode x)

texts :: Gen Text
texts = Text.pack <$> listOf (frequency [(5, choose (' ', '~')), (1, elements "\"\\\n\r\t/\b\0\x7f\xe9\x3042\x1f600")])

-- | Each setting of ours with aeson's.
settings :: [(String, Options, Aeson.Options)]
settings =
  [ (sumLabel <> ", " <> omitLabel <> ", " <> namesLabel, options, theirs)
    | (sumLabel, ourSum, theirSum) <-
        [ ("tag and contents", TaggedObject "tag" "contents", Aeson.TaggedObject "tag" "contents"),
          ("other keys", TaggedObject "\"t\"" "c\n", Aeson.TaggedObject "\"t\"" "c\n"),
          ("single key", SingleKey, Aeson.ObjectWithSingleField),
          ("two elements", TwoElements, Aeson.TwoElemArray),
          ("untagged", Untagged, Aeson.UntaggedValue)
        ],
      (omitLabel, omit) <- [("all fields", False), ("no Nothing", True)],
      (namesLabel, rename, enumerations) <- [("names", id, True), ("other names", map toLower . ("a\\" <>), False)],
      let options =
            defaultOptions
              { optionField = rename,
                optionConstructor = rename,
                optionSum = ourSum,
                optionEnumerations = enumerations,
                optionOmitNothing = omit
              }
          theirs =
            Aeson.defaultOptions
              { Aeson.fieldLabelModifier = rename,
                Aeson.constructorTagModifier = rename,
                Aeson.sumEncoding = theirSum,
                Aeson.allNullaryToStringTag = enumerations,
                Aeson.omitNothingFields = omit
              }
  ]

derived :: Options -> Aeson.Options -> [TestTree]
derived options theirs =
  [ equal "record" (Big <$> arbitrary <*> texts <*> arbitrary <*> arbitrary <*> arbitrary <*> (Little <$> arbitrary <*> arbitrary) <*> arbitrary),
    equal "record of one" (Single <$> arbitrary),
    equal "record of Nothing" (Optional <$> arbitrary <*> arbitrary),
    equal "no fields" (pure Unit),
    equal "one unnamed" (Wrapped <$> arbitrary),
    equal "two unnamed" (Pair <$> arbitrary <*> arbitrary),
    equal "enumeration" (elements [Red, Green, Blue]),
    equal "sum" (oneof [Circle <$> arbitrary, Both <$> arbitrary <*> arbitrary, Rectangle <$> arbitrary <*> arbitrary, pure Nowhere, Perhaps <$> arbitrary]),
    equal "with a parameter" (Poly <$> (arbitrary :: Gen (Maybe Int)) <*> arbitrary),
    equal "recursive" (sized chain)
  ]
  where
    equal :: (Generic a, GenericJson (Rep a), Aeson.GToJSON' Aeson.Encoding Aeson.Zero (Rep a), Show a) => String -> Gen a -> TestTree
    equal label_ gen =
      testProperty label_ . withMaxSuccess 100 . forAll gen $ \x ->
        toByteString (encode (genericToJson options x))
          === Lazy.toStrict (Aeson.encodingToLazyByteString (Aeson.genericToEncoding theirs x))
    chain n
      | n <= 0 = pure (Chain 0 Nothing)
      | otherwise = Chain <$> arbitrary <*> (Just <$> chain (n `div` 2))

data Big = Big
  { big_int :: !Int,
    big_text :: !Text,
    big_maybe :: !(Maybe Int),
    big_list :: ![Int],
    big_bool :: !Bool,
    big_small :: !Little,
    big_pair :: !(Int, Maybe Bool)
  }
  deriving stock (Generic, Show)
  deriving anyclass (ToJson)

data Little = Little {number :: !Int, flag :: !Bool}
  deriving stock (Generic, Show)
  deriving anyclass (ToJson)

instance Aeson.ToJSON Little where
  toEncoding = Aeson.genericToEncoding Aeson.defaultOptions

newtype Single = Single {single :: Maybe Int}
  deriving stock (Generic, Show)

data Optional = Optional {first :: Maybe Int, second :: Maybe Bool}
  deriving stock (Generic, Show)

data Unit = Unit
  deriving stock (Generic, Show)

newtype Wrapped = Wrapped Int
  deriving stock (Generic, Show)

data Pair = Pair Int (Maybe Bool)
  deriving stock (Generic, Show)

data Colour = Red | Green | Blue
  deriving stock (Generic, Show)

data Shape
  = Circle {radius :: Int}
  | Both Int (Maybe Int)
  | Rectangle {width :: Int, height :: Maybe Int}
  | Nowhere
  | Perhaps (Maybe Int)
  deriving stock (Generic, Show)

data Poly a = Poly {poly :: a, others :: [a]}
  deriving stock (Generic, Show)

data Chain = Chain {here :: Int, next :: Maybe Chain}
  deriving stock (Generic, Show)
  deriving anyclass (ToJson)

instance Aeson.ToJSON Chain where
  toEncoding = Aeson.genericToEncoding Aeson.defaultOptions

data Point = Point Int Int

instance ToJson Point where
  toJson (Point x y) = mixed . object $ "x" <:> json x <> "y" <:> json y

newtype Meters = Meters Int
  deriving newtype (ToJson)
