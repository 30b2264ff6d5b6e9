{-# LANGUAGE DeriveAnyClass #-}
{-# LANGUAGE DeriveGeneric #-}
{-# LANGUAGE FlexibleContexts #-}
{-# LANGUAGE OverloadedStrings #-}
-- At -O0 GHC would forget the unfoldings of what it imports, also for the modules after this one (GHC issue 9370).
{-# OPTIONS_GHC -O0 -fno-ignore-interface-pragmas #-}
{-# OPTIONS_GHC -Wno-partial-fields #-}

-- | What was encoded is decoded to the same: derived types of every shape with all options, given
-- instances, keys of maps; at every level, and from a stream.
module RoundTripTest
  ( tests,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString qualified as ByteString
import Data.ByteString.Internal qualified as ByteString (toForeignPtr)
import Data.Functor.Const (Const (..))
import Data.Functor.Identity (Identity (..))
import Data.Int (Int16, Int32, Int64, Int8)
import Data.IntMap.Strict qualified as IntMap
import Data.IntSet qualified as IntSet
import Data.List.NonEmpty (NonEmpty (..))
import Data.Map.Strict (Map)
import Data.Map.Strict qualified as Map
import Data.Maybe (isJust)
import Data.Monoid (All (..), Any (..), First (..), Last (..), Product (..))
import Data.Monoid qualified as Monoid (Sum (..))
import Data.Ord (Down (..))
import Data.Proxy (Proxy (..))
import Data.Ratio ((%))
import Data.Semigroup (Max (..), Min (..))
import Data.Sequence qualified as Seq
import Data.Set qualified as Set
import Data.Text (Text)
import Data.Text qualified as Text
import Data.Text.Lazy qualified as Lazy
import Data.Text.Short (ShortText)
import Data.Text.Short qualified as ShortText
import Data.Tree (Tree (..))
import Data.Typeable (Typeable, typeRep)
import Data.Version (makeVersion)
import Data.Word (Word16, Word32, Word64, Word8)
import Foreign.ForeignPtr (plusForeignPtr)
import GHC.Generics (Generic, Rep)
import Heddle.Bytes.Utf8 (Utf8)
import Heddle.Bytes.Utf8 qualified as Utf8
import Heddle.Json
import Heddle.Json.Decode (decodeAt, skip)
import Heddle.Json.Encode (GenericJson)
import Heddle.Json.FromJson (GDecode)
import Heddle.Json.Stream qualified as Stream
import Heddle.Prim.Cpu (Level, levels)
import Numeric.Natural (Natural)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (testCase, (@?=))
import Test.Tasty.QuickCheck hiding (label)

tests :: TestTree
tests =
  testGroup
    "Json: there and back"
    [ testGroup "derived" [testGroup name (derived options) | (name, options) <- settings],
      testGroup "by class" byClass,
      testGroup "keys of maps" keys,
      testGroup "strings of every type" strings,
      testGroup "infinities and NaN" nonFinite,
      testGroup "a field with the key of the tag" sameKey
    ]

-- | A record with a field that has the tag's key, and one whose field comes before it.
data Keyed = Keyed {tag :: !Int} | Later {earlier :: !Int, tag :: !Int}
  deriving stock (Eq, Generic, Show)
  deriving anyclass (FromJson, ToJson)

sameKey :: [TestTree]
sameKey =
  [ testCase "its object has the key twice" $
      map (toByteString . encodeJson) [Keyed 1, Later 2 1] @?= ["{\"tag\":\"Keyed\",\"tag\":1}", "{\"tag\":\"Later\",\"earlier\":2,\"tag\":1}"],
    testCase "read unless the last of equal keys counts" $ do
      [decode defaultLimits {limitDuplicates = policy} fromJson (toByteString (encodeJson x)) | policy <- [DuplicatesRefused, DuplicatesFirst], x <- [Keyed 1, Later 2 1]]
        @?= concat (replicate 2 (map Right [Keyed 1, Later 2 1]))
      either (Just . malformedReason) (const Nothing) (decode defaultLimits {limitDuplicates = DuplicatesLast} fromJson "{\"tag\":\"Keyed\",\"tag\":1}" :: Either Malformed Keyed)
        @?= Just (WrongKind "a string" "a number"),
    testProperty "another key for it" $ \n m ->
      let options = defaultOptions {optionField = \name -> if name == "tag" then "tag_" else name}
       in conjoin [returns (genericFromJson options) (toByteString (encode (genericToJson options x))) x | x <- [Keyed n, Later m n]]
  ]

-- | Values that contain numbers JSON does not have.
data Measured = Measured {precise :: !Double, coarse :: !Float, more :: !(Maybe [Double]), named :: !(Map Double Double)}
  deriving stock (Generic, Show)
  deriving anyclass (FromJson, ToJson)

-- A NaN does not equal itself, so the results of 'show' are compared.
nonFinite :: [TestTree]
nonFinite =
  [ testProperty "nonFiniteRoundTrip: under NonFiniteStrings every value is itself" . withMaxSuccess 300 . forAll measured $ \x ->
      let text = toByteString (encodeJsonWith NonFiniteStrings x)
       in counterexample (show text) $
            conjoin [show (decodeAt level defaultLimits {limitNonFinite = NonFiniteStrings} fromJson text :: Either Malformed Measured) === show (Right x :: Either Malformed Measured) | level <- levels],
    testProperty "nonFiniteWasNotRead: under NonFiniteNull what is written is read" . withMaxSuccess 300 . forAll measured $ \x ->
      let text = toByteString (encodeJson x)
       in counterexample (show text) $ show (decodeJson text :: Either Malformed Measured) === show (Right (nulled x) :: Either Malformed Measured),
    testCase "policies" $ do
      toByteString (encodeJsonWith NonFiniteStrings (numbers, map Just numbers)) @?= "[[\"NaN\",\"Infinity\",\"-Infinity\"],[\"NaN\",\"Infinity\",\"-Infinity\"]]"
      toByteString (encodeJsonWith NonFiniteRefused numbers) @?= "[null,null,null]"
      -- Only what is inside is encoded under the policy.
      toByteString (encodeJsonWith NonFiniteStrings numbers <> encodeJson numbers) @?= "[\"NaN\",\"Infinity\",\"-Infinity\"][null,null,null]"
      reading NonFiniteRefused "null" @?= Left (0, WrongKind "a number" "null")
      reading NonFiniteStrings "null" @?= Left (0, WrongKind "a number" "null")
      reading NonFiniteNull "\"NaN\"" @?= Left (0, WrongKind "a number" "a string")
      reading NonFiniteStrings "\"nan\"" @?= Left (0, Expected "a number, \"NaN\", \"Infinity\" or \"-Infinity\"")
      reading NonFiniteStrings "1e400" @?= Left (0, OutOfRange "Double")
  ]
  where
    numbers = [0 / 0, 1 / 0, -1 / 0] :: [Double]
    measured = Measured <$> any' <*> any' <*> oneof [pure Nothing, Just <$> listOf any'] <*> (Map.fromList <$> listOf ((,) <$> (any' `suchThat` (not . isNaN)) <*> any'))
    any' :: (Arbitrary a, Fractional a) => Gen a
    any' = frequency [(2, arbitrary), (1, elements [0 / 0, 1 / 0, -1 / 0, -0])]
    nulled (Measured x y xs m) = Measured (nan x) (nan y) (map nan <$> xs) (nan <$> m)
    nan x = if isInfinite x then 0 / 0 else x
    reading policy text = case decode defaultLimits {limitNonFinite = policy} fromJson text of
      Left e -> Left (malformedOffset e, malformedReason e)
      Right x -> Right (x :: Double)

-- | The bytes decoded at every level, and alone and as an element of a stream in two pieces.
returns :: (Eq a, Show a) => Decoder a -> ByteString -> a -> Property
returns decoder bytes x =
  counterexample (show bytes) . conjoin $
    [decodeAt level defaultLimits decoder bytes === Right x | level <- levels]
      <> [ streamed (Stream.values defaultLimits one) (bytes <> "\n" <> bytes) === ([x, x], Right ()),
           streamed (Stream.elements defaultLimits one) ("[" <> bytes <> " ," <> bytes <> "]") === ([x, x], Right ())
         ]
  where
    one = decode defaultLimits decoder
    streamed stream text = case ByteString.splitAt (ByteString.length text `quot` 3) text of
      (start, rest) -> case Stream.feed stream start of
        (xs, Left e) -> (xs, Left e)
        (xs, Right stream') -> case Stream.feed stream' rest of
          (ys, Left e) -> (xs <> ys, Left e)
          (ys, Right stream'') -> case Stream.finish stream'' of
            (zs, end) -> (xs <> ys <> zs, end)

-- | Every combination of options.
settings :: [(String, Options)]
settings =
  [ ( sumName <> (if omit then ", no Nothing" else "") <> (if plain then "" else ", no names alone") <> (if refuse then ", no others" else "") <> renamed,
      Options
        { optionField = rename,
          optionConstructor = rename,
          optionSum = how,
          optionEnumerations = plain,
          optionOmitNothing = omit,
          optionRefuseUnknown = refuse
        }
    )
    | (sumName, how) <-
        [ ("tag and contents", TaggedObject "tag" "contents"),
          ("other keys", TaggedObject "\"t\"" "c\n\955"),
          ("single key", SingleKey),
          ("two elements", TwoElements),
          ("untagged", Untagged)
        ],
      omit <- [False, True],
      plain <- [True, False],
      refuse <- [False, True],
      (renamed, rename) <- [("", id), (", other names", ("\"\\\n\955" <>))]
  ]

derived :: Options -> [TestTree]
derived options =
  [ back "record" big,
    back "record of one" (Single <$> arbitrary),
    back "record of Nothing" (Optional <$> arbitrary <*> arbitrary),
    back "no fields" (pure Unit),
    back "one unnamed" (Wrapped <$> arbitrary),
    back "one unnamed that may be Nothing" (Perchance <$> arbitrary),
    back "two unnamed" (Pair <$> arbitrary <*> arbitrary),
    back "operator" ((:/) <$> arbitrary <*> arbitrary),
    back "enumeration" (elements [minBound .. maxBound :: Colour]),
    back "sum" shape,
    back "with a parameter" (Poly <$> (arbitrary :: Gen (Maybe Int)) <*> arbitrary),
    back "with two parameters" (oneof [This <$> little, That <$> texts, These <$> little <*> texts] :: Gen (These Little Text)),
    back "recursive record" (sized chain),
    back "recursive sum" (sized nested)
  ]
  where
    back :: (Generic a, GenericJson (Rep a), GDecode (Rep a), Eq a, Show a) => String -> Gen a -> TestTree
    back name gen = testProperty name . withMaxSuccess 20 . forAll gen $ \x ->
      returns (genericFromJson options) (toByteString (encode (genericToJson options x))) x

byClass :: [TestTree]
byClass =
  [ same (arbitrary :: Gen Bool),
    same (arbitraryBoundedIntegral :: Gen Int),
    same (arbitraryBoundedIntegral :: Gen Int8),
    same (arbitraryBoundedIntegral :: Gen Int16),
    same (arbitraryBoundedIntegral :: Gen Int32),
    same (arbitraryBoundedIntegral :: Gen Int64),
    same (arbitraryBoundedIntegral :: Gen Word),
    same (arbitraryBoundedIntegral :: Gen Word8),
    same (arbitraryBoundedIntegral :: Gen Word16),
    same (arbitraryBoundedIntegral :: Gen Word32),
    same (arbitraryBoundedIntegral :: Gen Word64),
    same integers,
    same (fromInteger . abs <$> integers :: Gen Natural),
    same (arbitrary :: Gen Double),
    same (arbitrary :: Gen Float),
    same ((\n d -> n % (abs d + 1)) <$> integers <*> integers),
    same texts,
    same (Lazy.fromChunks <$> listOf texts),
    same (Text.unpack <$> texts),
    same characters,
    same (elements [LT, EQ, GT]),
    same (pure ()),
    same (pure (Proxy :: Proxy Int)),
    same (makeVersion <$> listOf1 (getNonNegative <$> arbitrary)),
    same (arbitrary :: Gen (Maybe Int)),
    same (oneof [Left <$> arbitrary, Right <$> texts] :: Gen (Either Int Text)),
    same (arbitrary :: Gen [[Int]]),
    same ((:|) <$> arbitrary <*> arbitrary :: Gen (NonEmpty Int)),
    same ((:|) <$> characters <*> listOf characters),
    same (Seq.fromList <$> listOf characters),
    same (Set.fromList <$> listOf texts),
    same (Set.fromList <$> listOf characters),
    same (IntSet.fromList <$> arbitrary),
    same (IntMap.fromList <$> listOf ((,) <$> arbitrary <*> texts)),
    same ((\a b c -> Node a [Node b [], Node c [Node a []]]) <$> arbitrary <*> arbitrary <*> arbitrary :: Gen (Tree Int)),
    same (arbitrary :: Gen (Int, Bool)),
    same (arbitrary :: Gen (Int, Bool, Maybe Int)),
    same (arbitrary :: Gen (Int, Bool, (), Int)),
    same (arbitrary :: Gen (Int, Bool, (), Int, Bool)),
    same (arbitrary :: Gen (Int, Bool, (), Int, Bool, [Int])),
    same (arbitrary :: Gen (Int, Bool, (), Int, Bool, [Int], Maybe Int)),
    same (Identity <$> texts),
    same (map Identity <$> listOf characters),
    same (Const <$> texts :: Gen (Const Text Int)),
    same (Down <$> texts),
    same (Max <$> texts),
    same (Min <$> texts),
    same (Monoid.Sum <$> integers),
    same (Product <$> integers),
    same (All <$> arbitrary),
    same (Any <$> arbitrary),
    same (First <$> arbitrary :: Gen (First Int)),
    same (Last <$> arbitrary :: Gen (Last Int)),
    testCase "a ratio of 0 parts" $
      [malformedReason e | Left e <- map (decodeJson :: ByteString -> Either Malformed Rational) ["{\"numerator\":1,\"denominator\":0}", "{\"numerator\":1,\"denominator\":-2}"]]
        @?= replicate 2 (Refused "expected a denominator above 0"),
    testCase "no version" $
      [malformedReason e | Left e <- map (decodeWith Proxy) ["\"1..2\"", "\"\"", "\"1.2 \""]] @?= replicate 3 (Refused "expected a version")
  ]
  where
    decodeWith proxy text = (`asProxyTypeOf'` proxy) <$> decodeJson text
    asProxyTypeOf' x _ = makeVersion [] `asTypeOf` x

keys :: [TestTree]
keys =
  [ mapOf texts,
    mapOf (Lazy.fromChunks <$> listOf texts),
    mapOf (Text.unpack <$> texts),
    mapOf characters,
    mapOf (arbitrary :: Gen Bool),
    mapOf (arbitraryBoundedIntegral :: Gen Int),
    mapOf (arbitraryBoundedIntegral :: Gen Int8),
    mapOf (arbitraryBoundedIntegral :: Gen Int16),
    mapOf (arbitraryBoundedIntegral :: Gen Int32),
    mapOf (arbitraryBoundedIntegral :: Gen Int64),
    mapOf (arbitraryBoundedIntegral :: Gen Word),
    mapOf (arbitraryBoundedIntegral :: Gen Word8),
    mapOf (arbitraryBoundedIntegral :: Gen Word16),
    mapOf (arbitraryBoundedIntegral :: Gen Word32),
    mapOf (arbitraryBoundedIntegral :: Gen Word64),
    mapOf integers,
    mapOf (arbitrary :: Gen Double),
    mapOf (fromInteger . abs <$> integers :: Gen Natural),
    mapOf (Identity <$> texts)
  ]
  where
    mapOf :: (Ord k, ToKey k, FromKey k, Show k, Typeable k) => Gen k -> TestTree
    mapOf gen = same (Map.fromList <$> listOf ((,) <$> gen <*> (arbitrary :: Gen (Maybe Int))))

same :: forall a. (ToJson a, FromJson a, Eq a, Show a, Typeable a) => Gen a -> TestTree
same gen = testProperty (show (typeRep (Proxy :: Proxy a))) . withMaxSuccess 200 . forAll gen $ \x ->
  returns fromJson (toByteString (encodeJson x)) x

strings :: [TestTree]
strings =
  [ testProperty "Utf8" . forAll texts $ \t -> returns fromJson (toByteString (encodeJson t)) (Utf8.fromText t),
    testProperty "ShortText" . forAll texts $ \t -> returns fromJson (toByteString (encodeJson t)) (ShortText.fromText t),
    testCase "Utf8 is a slice where there are no escapes" $ do
      let input = "  \"caf\xc3\xa9\""
      fmap (placeOf . Utf8.toByteString) (decodeJson input :: Either Malformed Utf8) @?= Right (placeOf (ByteString.take 5 (ByteString.drop 3 input))),
    testProperty "what is no text is refused, by every type and at every level at one place" . forAll broken $ \input ->
      let places = concat [[place level (fromJson :: Decoder Text) input, place level (fromJson :: Decoder Utf8) input, place level (fromJson :: Decoder ShortText) input, place level skip input] | level <- levels]
       in counterexample (show places) (all (== head places) places .&&. isJust (head places))
  ]
  where
    placeOf bytes = case ByteString.toForeignPtr bytes of (at, from, len) -> (at `plusForeignPtr` from, len)
    place :: Level -> Decoder a -> ByteString -> Maybe Int
    place level decoder input = either (Just . malformedOffset) (const Nothing) (decodeAt level defaultLimits decoder input)
    broken = do
      before <- texts
      wrong <- elements ["\xff", "\xc3", "\xe2\x82", "\xed\xa0\x80", "\xc0\x80", "\xf4\x90\x80\x80", "\\x", "\\ud800", "\\udc00x", "\n"]
      after <- texts
      let bytes = toByteString (encodeJson before)
      pure (ByteString.init bytes <> wrong <> ByteString.drop 1 (toByteString (encodeJson after)))

-- | Short and long, with characters that need escapes or several bytes.
texts :: Gen Text
texts = Text.pack <$> frequency [(4, listOf characters), (1, resize 300 (listOf characters)), (1, vectorOf 40 (choose ('a', 'z')))]

characters :: Gen Char
characters = frequency [(5, choose (' ', '~')), (2, elements "\"\\\n\r\t/\b\0\x7f\xe9\x3042\x1f600\xfffd\x10ffff"), (2, choose ('\x3040', '\x30ff')), (1, choose ('\x80', '\xd7ff'))]

integers :: Gen Integer
integers = (\n k m -> n * 10 ^ k + m) <$> arbitrary <*> choose (0, 60 :: Int) <*> arbitrary

data Big = Big
  { bigInt :: !Int,
    bigText :: !Text,
    bigMaybe :: !(Maybe Int),
    bigList :: ![Double],
    bigSmall :: !Little,
    bigSmalls :: !(Maybe [Little]),
    bigPair :: !(Int, Maybe Bool),
    bigMap :: !(Map Int Text),
    bigEither :: !(Either Colour Shape)
  }
  deriving stock (Eq, Generic, Show)

big :: Gen Big
big =
  Big <$> arbitrary <*> texts <*> arbitrary <*> arbitrary <*> little <*> oneof [pure Nothing, Just <$> listOf little] <*> arbitrary
    <*> (Map.fromList <$> listOf ((,) <$> arbitrary <*> texts))
    <*> oneof [Left <$> elements [minBound ..], Right <$> shape]

data Little = Little {number :: !Int, flag :: !(Maybe Bool)}
  deriving stock (Eq, Generic, Show)
  deriving anyclass (FromJson, ToJson)

little :: Gen Little
little = Little <$> arbitrary <*> arbitrary

newtype Single = Single {single :: Maybe Int}
  deriving stock (Eq, Generic, Show)

data Optional = Optional {first :: Maybe Int, second :: Maybe Bool}
  deriving stock (Eq, Generic, Show)

data Unit = Unit
  deriving stock (Eq, Generic, Show)

newtype Wrapped = Wrapped Int
  deriving stock (Eq, Generic, Show)

newtype Perchance = Perchance (Maybe Int)
  deriving stock (Eq, Generic, Show)

data Pair = Pair Int (Maybe Bool)
  deriving stock (Eq, Generic, Show)

data Over = Int :/ Int
  deriving stock (Eq, Generic, Show)

data Colour = Red | Green | Blue
  deriving stock (Bounded, Enum, Eq, Generic, Show)
  deriving anyclass (FromJson, ToJson)

-- | No two constructors have the same contents.
data Shape
  = Circle {radius :: Double}
  | Both Int (Maybe Int)
  | Rectangle {width :: Int, height :: Maybe Int}
  | Nowhere
  | Perhaps (Maybe Int)
  | Empty
  deriving stock (Eq, Generic, Show)
  deriving anyclass (FromJson, ToJson)

shape :: Gen Shape
shape =
  oneof
    [ Circle <$> arbitrary,
      Both <$> arbitrary <*> arbitrary,
      Rectangle <$> arbitrary <*> arbitrary,
      pure Nowhere,
      Perhaps <$> arbitrary,
      pure Empty
    ]

data Poly a = Poly {poly :: a, others :: [a]}
  deriving stock (Eq, Generic, Show)

data These a b = This a | That b | These a b
  deriving stock (Eq, Generic, Show)

data Chain = Chain {here :: Int, next :: Maybe Chain}
  deriving stock (Eq, Generic, Show)
  deriving anyclass (FromJson, ToJson)

chain :: Int -> Gen Chain
chain n
  | n <= 0 = pure (Chain 0 Nothing)
  | otherwise = Chain <$> arbitrary <*> (Just <$> chain (n `div` 2))

data Nested
  = Leaf
  | Branch Nested Nested
  | Labelled {label :: Text, inner :: Maybe Nested}
  deriving stock (Eq, Generic, Show)
  deriving anyclass (FromJson, ToJson)

nested :: Int -> Gen Nested
nested n
  | n <= 0 = pure Leaf
  | otherwise =
    oneof
      [ Branch <$> nested (n `div` 3) <*> nested (n `div` 3),
        Labelled <$> texts <*> (Just <$> nested (n `div` 2)),
        (`Labelled` Nothing) <$> texts
      ]
