{-# LANGUAGE DeriveAnyClass #-}
{-# LANGUAGE DeriveGeneric #-}
{-# LANGUAGE DerivingVia #-}
{-# LANGUAGE OverloadedStrings #-}
{-# OPTIONS_GHC -Wno-orphans #-}

-- | The bridges against aeson itself.
module Main
  ( main,
  )
where

import Data.Aeson (FromJSON, ToJSON, Value (..))
import Data.Aeson qualified as Aeson
import Data.Aeson.Key qualified as Key
import Data.Aeson.KeyMap qualified as KeyMap
import Data.ByteString (ByteString)
import Data.ByteString.Lazy qualified as Lazy
import Data.Scientific (scientific)
import Data.Text (Text)
import Data.Text qualified as Text
import Data.Vector qualified as Vector
import GHC.Generics (Generic)
import Heddle.Aeson
import Heddle.Bytes.Put (toByteString)
import Heddle.Json.Build (encode, int, mixed, object, (<:>))
import Heddle.Json.Decode (decode)
import Heddle.Json.Encode (ToJson (..), encodeJson)
import Heddle.Json.FromJson (FromJson (..))
import Heddle.Json.Malformed (Malformed (..), Reason (..), Step (..))
import Heddle.Json.Options (defaultLimits)
import Test.Tasty (TestTree, defaultMain, testGroup)
import Test.Tasty.HUnit (assertFailure, testCase, (@?=))
import Test.Tasty.QuickCheck

main :: IO ()
main =
  defaultMain $
    testGroup
      "heddle-aeson"
      [ testProperty "inverse: aeson reads what is written" $ \(Any v) ->
          Aeson.eitherDecodeStrict (toByteString (encode (fromValue v))) === Right v,
        testProperty "what aeson writes is read" $ \(Any v) -> decode defaultLimits value (strictly v) === Right v,
        testProperty "encodeAeson is aeson's" $ \(Any v) -> toByteString (encodeAeson v) === strictly v,
        testProperty "decodeAeson" $ \x -> decodeAeson defaultLimits (strictly x) === Right (x :: Theirs),
        testProperty "ToJson via aeson" $ \x -> Aeson.decodeStrict (toByteString (encodeJson x)) === Just (x :: Theirs),
        testProperty "FromJson via aeson" $ \x -> decode defaultLimits fromJson (strictly x) === Right (x :: Theirs),
        testProperty "ToJSON via heddle" $ \x ->
          Aeson.decode (Aeson.encode x) === Just (x :: Ours) .&&. Aeson.decodeStrict (strictly (Aeson.toJSON x)) === Just x,
        testProperty "FromJSON via heddle" $ \x -> Aeson.fromJSON (Aeson.toJSON x) === Aeson.Success (x :: Ours),
        testCase "infinityIsNotNearest: a finite number just above the largest double keeps its value" $
          mapM_
            (\n -> Aeson.decodeStrict (toByteString (encode (fromValue (Number n)))) @?= Just (Number n))
            [scientific (1797693134862316 * 10 ^ k) (293 - k) | k <- [0, 1, 293, 294, 300]],
        testCase "hugeExponentIsNotExpanded: an exponent is written as it is" $
          toByteString (encode (fromValue (Number (scientific 3 1000000000)))) @?= "3e1000000000",
        testCase "keysTwiceDiffered: toJSON and decode . encode take the same of equal keys" $ do
          Aeson.decode (Aeson.encode (ViaHeddle Twice)) @?= Just (Aeson.toJSON (ViaHeddle Twice))
          Aeson.decode' (Aeson.encode (ViaHeddle TwiceLong)) @?= Just (Aeson.toJSON (ViaHeddle TwiceLong)),
        testCase "nonFiniteWasNotRead: null is NaN via heddle" $
          map (fmap (map isNaN)) (through ViaHeddle viaHeddle [0 / 0, 1 / 0, -1 / 0]) @?= replicate 2 (Just [True, True, True]),
        testCase "nonFiniteWasNotRead: via lossless every double is itself" $
          map (fmap (map show)) (through ViaLossless viaLossless [0 / 0, 1 / 0, -1 / 0, 0.1])
            @?= replicate 2 (Just ["NaN", "Infinity", "-Infinity", "0.1"]),
        testCase "ToJSON via heddle: numbers beyond what decoders take" $
          Aeson.toJSON (ViaHeddle (7 ^ (50000 :: Int) :: Integer)) @?= Number (7 ^ (50000 :: Int)),
        testGroup "what is refused" refused
      ]

-- | Through a text and through a value.
through :: (ToJSON b, FromJSON b) => ([Double] -> b) -> (b -> [Double]) -> [Double] -> [Maybe [Double]]
through to from xs = [from <$> Aeson.decode (Aeson.encode (to xs)), from <$> Aeson.decode (Aeson.encode (Aeson.toJSON (to xs)))]

strictly :: ToJSON a => a -> ByteString
strictly = Lazy.toStrict . Aeson.encode

refused :: [TestTree]
refused =
  [ testCase "an error of an instance, with its place" $
      case decodeAeson defaultLimits "[{\"name\": \"a\", \"count\": 1},\n {\"name\": \"b\", \"count\": true}]" :: Either Malformed [Theirs] of
        Left (Malformed offset path (Refused _)) -> do
          path @?= [InElement 1, InKey "count"]
          offset @?= 52
        other -> assertFailure (show other),
    testCase "an exponent that would be a giant" $
      case decode defaultLimits value "[1, 1e1000000000]" of
        Left (Malformed 4 [InElement 1] (Refused _)) -> pure ()
        other -> assertFailure (show other),
    testCase "an exponent beyond machine words" $
      mapM_
        ( \text -> case decode defaultLimits value text of
            Left _ -> pure ()
            other -> assertFailure (show other)
        )
        ["1e9223372036854775808", "1e-9223372036854775809", "1e18446744073709551616", "0.1e-9223372036854775808"],
    testCase "exponentOfZero: zero has any exponent" $
      mapM_ (\text -> decode defaultLimits value text @?= Right (Number 0)) ["0e2000", "-0.00E-2000", "0e99999999999999999999"],
    testCase "another bound of exponents" $ do
      decode defaultLimits (valueWithin 10) "[1e10,1e-10]" @?= Right (Array (Vector.fromList [Number (scientific 1 10), Number (scientific 1 (-10))]))
      either (const ()) (const (error "read")) (decode defaultLimits (valueWithin 10) "1e11") @?= ()
      decode defaultLimits (valueWithin maxBound) "1e2000" @?= Right (Number (scientific 1 2000)),
    testCase "exponents within the bound" $
      decode defaultLimits value "[1e1000,1e-1000]" @?= Right (Array (Vector.fromList [Number (scientific 1 1000), Number (scientific 1 (-1000))])),
    testCase "a key twice" $
      case decode defaultLimits value "{\"a\":1,\"a\":2}" of
        Left (Malformed _ _ (DuplicateKey "a")) -> pure ()
        other -> assertFailure (show other),
    testCase "too deep" $
      case decode defaultLimits value (toByteString (mconcat (replicate 600 "["))) of
        Left (Malformed 512 _ (TooDeep 512)) -> pure ()
        other -> assertFailure (show other)
  ]

data Theirs = Theirs {name :: Text, count :: Int, more :: Maybe [Theirs]}
  deriving stock (Eq, Generic, Show)
  deriving anyclass (FromJSON, ToJSON)
  deriving (FromJson, ToJson) via (ViaAeson Theirs)

data Twice = Twice

instance ToJson Twice where
  toJson Twice = mixed . object $ "a" <:> int (1 :: Int) <> "a" <:> int (2 :: Int)

-- | The same with a number that our decoders refuse, so that aeson's takes their place.
data TwiceLong = TwiceLong

instance ToJson TwiceLong where
  toJson TwiceLong = mixed . object $ "a" <:> int (1 :: Int) <> "a" <:> int (7 ^ (50000 :: Int) :: Integer)

data Ours = Ours {label_ :: Text, amount :: Double, inner :: Maybe [Ours]}
  deriving stock (Eq, Generic, Show)
  deriving anyclass (FromJson, ToJson)
  deriving (FromJSON, ToJSON) via (ViaHeddle Ours)

instance Arbitrary Theirs where
  arbitrary = sized $ \n -> Theirs <$> texts <*> arbitrary <*> (if n > 1 then Just <$> resize (n `div` 4) (listOf arbitrary) else pure Nothing)

instance Arbitrary Ours where
  arbitrary = sized $ \n -> Ours <$> texts <*> arbitrary <*> (if n > 1 then Just <$> resize (n `div` 4) (listOf arbitrary) else pure Nothing)

newtype Any = Any Value
  deriving stock (Show)

instance Arbitrary Any where
  arbitrary = Any <$> sized go
    where
      go n =
        oneof $
          [ pure Null,
            Bool <$> arbitrary,
            Number <$> (scientific <$> arbitrary <*> oneof [pure 0, choose (-30, 30), choose (-400, 400)]),
            Number . fromInteger <$> ((\m k -> m * 10 ^ k) <$> arbitrary <*> choose (0, 40 :: Int)),
            Number . realToFrac <$> (arbitrary :: Gen Double),
            String <$> texts
          ]
            <> [Array . Vector.fromList <$> few (go (n `div` 3)) | n > 0]
            <> [Object . KeyMap.fromList <$> few ((,) . Key.fromText <$> texts <*> go (n `div` 3)) | n > 0]
      few = resize 5 . listOf

texts :: Gen Text
texts = Text.pack <$> resize 12 (listOf (frequency [(5, choose (' ', '~')), (1, elements "\"\\\n\r\t/\b\0\x7f\xe9\x3042\x1f600")]))
