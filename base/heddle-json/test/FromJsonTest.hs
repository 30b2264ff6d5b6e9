{-# LANGUAGE DeriveAnyClass #-}
{-# LANGUAGE DeriveGeneric #-}
{-# LANGUAGE EmptyCase #-}
{-# LANGUAGE OverloadedStrings #-}
{-# OPTIONS_GHC -Wno-partial-fields #-}

-- | Records in every order of their keys, and derived decoders against aeson's derived encoders.
module FromJsonTest
  ( tests,
  )
where

import Control.Monad (forM_)
import Data.Aeson qualified as Aeson
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Lazy qualified as Lazy
import Data.Either (isLeft)
import Data.Functor.Identity (Identity)
import Data.Int (Int16, Int32, Int64, Int8)
import Data.List (isInfixOf, permutations)
import Data.List.NonEmpty (NonEmpty (..))
import Data.Map.Strict (Map)
import Data.Map.Strict qualified as Map
import Data.Proxy (Proxy (..))
import Data.Sequence (Seq)
import Data.Sequence qualified as Seq
import Data.Set (Set)
import Data.Set qualified as Set
import Data.Text (Text)
import Data.Text qualified as Text
import Data.Text.Encoding qualified as Text
import Data.Word (Word16, Word32, Word64, Word8)
import GHC.Generics (Generic)
import Heddle.Json.Decode
import Heddle.Json.FromJson
import Heddle.Json.Malformed
import Numeric.Natural (Natural)
import Test.Tasty (TestTree, adjustOption, testGroup)
import Test.Tasty.HUnit (assertBool, assertFailure, testCase, (@?=))
import Test.Tasty.QuickCheck hiding (Failure, reason)

tests :: TestTree
tests =
  adjustOption (min (500 :: QuickCheckTests)) $
    testGroup "Json.FromJson" [testGroup "records" records, testGroup "derived" derived]

-- | With a key of every length around those of words.
data Five = Five
  { f :: !Int,
    fields :: !Text,
    aRatherLongKey :: !(Maybe Bool),
    ofFourteen :: ![Int],
    andOneThatIsLongerThanTwentyFour :: !Double
  }
  deriving stock (Eq, Generic, Show)
  deriving anyclass (Aeson.ToJSON, FromJson)

data None
  deriving stock (Generic)

five :: Decoder Five
five = record fiveFields

fiveFields :: Fields Five
fiveFields =
  Five
    <$> required "f" int
    <*> required "fields" text
    <*> optional "aRatherLongKey" bool
    <*> withDefault "ofFourteen" [] (list int)
    <*> required "andOneThatIsLongerThanTwentyFour" double

members :: [ByteString]
members = ["\"f\":1", "\"fields\" : \"x\"", "\"aRatherLongKey\":true", "\"ofFourteen\":[1,2]", "\"andOneThat\\u0049sLongerThanTwentyFour\":1.5"]

object :: [ByteString] -> ByteString
object parts = "{" <> B.intercalate ", " parts <> "}"

whole :: Five
whole = Five 1 "x" (Just True) [1, 2] 1.5

policies :: [Duplicates]
policies = [minBound ..]

run :: Duplicates -> Decoder a -> ByteString -> Either (Int, Reason) a
run policy d input = case decode defaultLimits {limitDuplicates = policy} d input of
  Left e -> Left (malformedOffset e, malformedReason e)
  Right x -> Right x

-- A number is a key only as it is written in JSON, without white space, also where escapes write that.
spacedKeys :: forall k. (Ord k, Num k, Show k, FromKey k) => String -> Proxy k -> TestTree
spacedKeys name _ = testCase name $ do
  keyed ["12", "0"] @?= Right (Map.fromList [(12, True), (0, True)])
  forM_ [" 1", "1 ", " 1 ", "\\t1", "1\\t", "\\n1", "1\\r", "\\u00201", "1\\u000a", "  1", " 0"] $ \key ->
    case keyed ["7", key] of
      Left (11, Refused why) -> assertBool why ("white space" `isInfixOf` why)
      other -> assertFailure (show (key, other))
  forM_ ["", " ", "1 2", "\\u00a01", "1\\u0000", "\\ufeff1"] $ \key -> assertBool (show key) (isLeft (keyed [key]))
  where
    keyed keys = run DuplicatesRefused fromJson (object ["\"" <> key <> "\":true" | key <- keys]) :: Either (Int, Reason) (Map k Bool)

records :: [TestTree]
records =
  [ testCase "every order" $
      sequence_ [run policy five (object order) @?= Right whole | policy <- policies, order <- permutations members],
    testCase "every order, with keys that are not known" $
      sequence_
        [ run policy five (object (concat [["\"\":[{}]", m, "\"x\\\"\":{\"f\":2}"] | m <- order])) @?= Right whole
          | policy <- policies,
            order <- permutations members
        ],
    testCase "missing" $
      sequence_
        [ case run policy five (object (without i)) of
            r
              | i == 2 -> r @?= Right whole {aRatherLongKey = Nothing}
              | i == 3 -> r @?= Right whole {ofFourteen = []}
              | otherwise -> r @?= Left (B.length (object (without i)) - 1, MissingKey (names !! i))
          | policy <- policies,
            order <- permutations [0 .. 4],
            let without i = [members !! j | j <- order, j /= i],
            i <- [0 .. 4]
        ],
    testCase "null is missing for optional" $
      run DuplicatesRefused five "{\"f\":1,\"fields\":\"x\",\"aRatherLongKey\":null,\"andOneThatIsLongerThanTwentyFour\":1}" @?= Right (Five 1 "x" Nothing [] 1),
    testCase "there twice" $
      sequence_
        [ do
            run DuplicatesFirst five input @?= Right whole
            run DuplicatesLast five input @?= Right whole {f = 7}
            run DuplicatesRefused five input @?= Left (second, DuplicateKey "f")
          | order <- permutations members,
            at <- [1 .. 5],
            let (before, behind) = splitAt at order,
            "\"f\":1" `elem` before,
            let input = object (before ++ ["\"f\":7"] ++ behind)
                second = B.length (object before) + 1
        ],
    testCase "what is dropped is checked" $ do
      run DuplicatesFirst five (object (members ++ ["\"f\":[\"\xff\"]"])) @?= Left (B.length (object members) + 7, InvalidUtf8)
      run DuplicatesRefused five (object (members ++ ["\"\xff\":1"])) @?= Left (B.length (object members) + 2, InvalidUtf8),
    testCase "unknown keys refused" $ do
      let strictly = recordWith RefuseUnknown fiveFields
      sequence_ [run policy strictly (object order) @?= Right whole | policy <- policies, order <- permutations members]
      run DuplicatesRefused strictly "{\"f\":1,\"\\u0041\xc3\xa9\":1}" @?= Left (7, UnknownKey "A\233"),
    testCase "keys that need escapes" $ do
      let odd' = record ((,,) <$> required "a\"b\\" int <*> required "\n" int <*> required "" int)
      run DuplicatesRefused odd' "{\"a\\\"b\\\\\":1,\"\\n\":2,\"\":3}" @?= Right (1, 2, 3)
      run DuplicatesRefused odd' "{\"\":3,\"\\u000a\":2,\"\\u0061\\\"b\\\\\":1}" @?= Right (1, 2, 3),
    testGroup
      "spacesAroundANumberKeyWereSkipped"
      [ spacedKeys "Int" (Proxy :: Proxy Int),
        spacedKeys "Int8" (Proxy :: Proxy Int8),
        spacedKeys "Int16" (Proxy :: Proxy Int16),
        spacedKeys "Int32" (Proxy :: Proxy Int32),
        spacedKeys "Int64" (Proxy :: Proxy Int64),
        spacedKeys "Word" (Proxy :: Proxy Word),
        spacedKeys "Word8" (Proxy :: Proxy Word8),
        spacedKeys "Word16" (Proxy :: Proxy Word16),
        spacedKeys "Word32" (Proxy :: Proxy Word32),
        spacedKeys "Word64" (Proxy :: Proxy Word64),
        spacedKeys "Integer" (Proxy :: Proxy Integer),
        spacedKeys "Natural" (Proxy :: Proxy Natural),
        spacedKeys "Double" (Proxy :: Proxy Double),
        spacedKeys "Identity Int" (Proxy :: Proxy (Identity Int))
      ],
    testCase "nothing known" $ do
      run DuplicatesRefused (record (pure 'x')) "{\"a\":1}" @?= Right 'x'
      run DuplicatesRefused (record (pure 'x')) "{}" @?= Right 'x'
      run DuplicatesRefused (record (pure 'x')) "{\"a\":1,}" @?= Left (7, Expected "a key"),
    testCase "structure" $ do
      run DuplicatesRefused five "{f:1}" @?= Left (1, Expected "a key or '}'")
      run DuplicatesRefused five "{\"f\"}" @?= Left (4, Expected "':'")
      run DuplicatesRefused five "{\"f\":1 \"x\"}" @?= Left (7, Expected "',' or '}'")
      run DuplicatesRefused five "{\"f\":1," @?= Left (7, Truncated)
      run DuplicatesRefused five "{\"fields\":\"x\"" @?= Left (13, Truncated)
      run DuplicatesRefused five "[]" @?= Left (0, WrongKind "an object" "an array"),
    testProperty "manyFields" . forAll (shuffle [0 .. 39 :: Int]) $ \order ->
      let key i = "k" <> Text.pack (show (i * i))
          d = record (traverse (\i -> required (newKey (key i)) int) [0 .. 39 :: Int])
       in run DuplicatesRefused d (object ["\"" <> Text.encodeUtf8 (key i) <> "\":" <> Text.encodeUtf8 (Text.pack (show i)) | i <- order]) === Right [0 .. 39]
  ]
  where
    names = ["f", "fields", "aRatherLongKey", "ofFourteen", "andOneThatIsLongerThanTwentyFour"]

data Shape
  = Circle {radius :: Double, label_ :: Maybe Text}
  | Square Int
  | Line Int Text Bool
  | Point
  | Group [Shape]
  deriving stock (Eq, Generic, Show)

instance Arbitrary Shape where
  arbitrary = sized go
    where
      go n =
        oneof $
          [ Circle <$> arbitrary <*> oneof [pure Nothing, Just <$> someText],
            Square <$> arbitrary,
            Line <$> arbitrary <*> someText <*> arbitrary,
            pure Point
          ]
            ++ [Group <$> resize (n `quot` 3) (listOf arbitrary) | n > 0]

someText :: Gen Text
someText = Text.pack <$> arbitrary `suchThat` all (\c -> c < '\xd800' || c > '\xdfff')

instance FromJson Shape

instance Aeson.ToJSON Shape

data Colour = Red | Green | Blue
  deriving stock (Bounded, Enum, Eq, Generic, Show)
  deriving anyclass (FromJson)

instance Aeson.ToJSON Colour

data Single = Single
  deriving stock (Eq, Generic, Show)
  deriving anyclass (FromJson)

newtype Wrapped = Wrapped {unwrapped :: Int}
  deriving stock (Eq, Generic, Show)
  deriving anyclass (Aeson.ToJSON, FromJson)

data Pair = Pair Int (Maybe Bool)
  deriving stock (Eq, Generic, Show)
  deriving anyclass (Aeson.ToJSON, FromJson)

-- A type of several records for each of the options.
data Op
  = Add {left_ :: Int, right_ :: Int}
  | Not {left_ :: Int}
  | Nop
  | Lit Int
  | Two Int Int
  deriving stock (Eq, Generic, Show)

instance Arbitrary Op where
  arbitrary = oneof [Add <$> arbitrary <*> arbitrary, Not <$> arbitrary, pure Nop, Lit <$> arbitrary, Two <$> arbitrary <*> arbitrary]

derived :: [TestTree]
derived =
  [ testProperty "readsWhatAesonWrites" $ \x -> read' (encoded (Aeson.toJSON x)) === Right (x :: Shape),
    testGroup
      "readsWhatAesonWritesWithTheSameOptions"
      [ testProperty (show sum_ <> (if plain then "" else ", without enumerations")) $ \x ->
          decode defaultLimits (genericFromJson options) (encoded (Aeson.genericToJSON theirs x)) === Right (x :: Op)
        | (sum_, theirSum) <-
            [ (TaggedObject "tag" "contents", Aeson.TaggedObject "tag" "contents"),
              (TaggedObject "zz" "c", Aeson.TaggedObject "zz" "c"),
              (SingleKey, Aeson.ObjectWithSingleField),
              (TwoElements, Aeson.TwoElemArray)
            ],
          plain <- [True, False],
          let options = defaultOptions {optionSum = sum_, optionEnumerations = plain, optionField = init, optionConstructor = ('_' :), optionRefuseUnknown = True}
              theirs = Aeson.defaultOptions {Aeson.sumEncoding = theirSum, Aeson.allNullaryToStringTag = plain, Aeson.fieldLabelModifier = init, Aeson.constructorTagModifier = ('_' :)}
      ],
    testProperty "untagged" $ \x ->
      -- The fields of the second record are all there in the first one's objects, too, but not the other way round.
      decode defaultLimits (genericFromJson defaultOptions {optionSum = Untagged}) (encoded (Aeson.genericToJSON Aeson.defaultOptions {Aeson.sumEncoding = Aeson.UntaggedValue} x)) === Right (x :: Op),
    testCase "enumerations" $ do
      [read' (encoded (Aeson.toJSON c)) | c <- [Red ..]] @?= map Right [Red ..]
      let objects = genericFromJson defaultOptions {optionEnumerations = False}
      [decode defaultLimits objects (encoded (Aeson.genericToJSON Aeson.defaultOptions {Aeson.allNullaryToStringTag = False} c)) | c <- [Red ..]] @?= map Right [Red ..]
      why (read' "\"Yellow\"" :: Either Malformed Colour) @?= Left (0, Refused "expected one of \"Red\" \"Green\" \"Blue\""),
    testCase "a type without constructors" $
      sequence_
        [ either malformedReason (\case {}) (decode defaultLimits (genericFromJson defaultOptions {optionSum = sum_, optionEnumerations = plain} :: Decoder None) "\"x\"")
            @?= Refused "expected one of "
          | sum_ <- [TaggedObject "tag" "contents", SingleKey, TwoElements, Untagged],
            plain <- [True, False]
        ],
    testCase "single constructors" $ do
      read' "[]" @?= Right Single
      read' "{\"unwrapped\":5}" @?= Right (Wrapped 5)
      read' (encoded (Aeson.toJSON (Pair 1 (Just True)))) @?= Right (Pair 1 (Just True))
      read' "[1,null]" @?= Right (Pair 1 Nothing),
    testCase "missing fields of type Maybe" $
      read' "{\"tag\":\"Circle\",\"radius\":1}" @?= Right (Circle 1 Nothing),
    testCase "the tag at the end" $
      read' "[{\"contents\":[{\"contents\":[],\"tag\":\"Group\"},{\"radius\":0.5,\"label_\":\"x\",\"tag\":\"Circle\"}],\"tag\":\"Group\"}]"
        @?= Right [Group [Group [], Circle 0.5 (Just "x")]],
    testCase "types of base and containers" $ do
      same (Just (5 :: Int))
      same [Nothing, Just 'x']
      same ("text" :: String)
      same (1 :| [2, 3 :: Int])
      same (Seq.fromList [1, 2, 3 :: Int] :: Seq Int)
      same (Set.fromList "hello" :: Set Char)
      same (Map.fromList [("a" :: Text, 1), ("b", 2 :: Int)])
      same (Map.fromList [(-1, 'a'), (12 :: Int, 'b')])
      same (Left 1 :: Either Int Text)
      same (Right "x" :: Either Int Text)
      same ((), True, 'x', 1.5 :: Double)
      same (LT, -128 :: Int8)
      same (Map.fromList [(True, 2 ^ (70 :: Int) :: Integer)] :: Map Bool Integer),
    testCase "places" $ do
      why (read' "{\"tag\":\"Line\",\"contents\":[1,2]}" :: Either Malformed Shape) @?= Left (28, WrongKind "a string" "a number")
      showPath (either malformedPath (const []) (read' "{\"tag\":\"Group\",\"contents\":[{\"tag\":\"Square\",\"contents\":1.5}]}" :: Either Malformed Shape)) @?= "$.contents[0].contents"
      why (read' "{\"f\":1}" :: Either Malformed Five) @?= Left (6, MissingKey "fields")
  ]
  where
    encoded = Lazy.toStrict . Aeson.encode
    read' :: FromJson a => ByteString -> Either Malformed a
    read' = decodeJson
    same :: (Aeson.ToJSON a, FromJson a, Eq a, Show a) => a -> IO ()
    same x = read' (encoded (Aeson.toJSON x)) @?= Right x
    why = either (\e -> Left (malformedOffset e, malformedReason e)) Right
