{-# LANGUAGE DeriveAnyClass #-}
{-# LANGUAGE DeriveGeneric #-}
{-# OPTIONS_GHC -Wno-partial-fields #-}

-- | Derived encodings as they are compiled with optimisation (the types of "JsonEncodeTest" are
-- compiled without).
module JsonGenericTest
  ( tests,
  )
where

import Control.Exception (evaluate)
import Data.Aeson qualified as Aeson
import Data.ByteString qualified as ByteString
import Data.ByteString.Lazy qualified as Lazy
import Data.Text (Text)
import Data.Text qualified as Text
import GHC.Generics (Generic)
import Heddle.Bytes.Put (toByteString)
import Heddle.Json.Encode (ToJson, encodeJson)
import Heddle.Testkit.Judging (whenOptimised)
import System.Mem (getAllocationCounter)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, testCase, (@?=))
import Test.Tasty.QuickCheck

data Shape
  = Point
  | Circle {centre :: !Place, radius :: !Int}
  | Path ![Place] !Bool
  deriving stock (Generic, Show)
  deriving anyclass (ToJson)

data Place = Place
  { name :: !Text,
    latitude :: !Int,
    within :: !(Maybe Place),
    colour :: !Colour
  }
  deriving stock (Generic, Show)
  deriving anyclass (ToJson)

data Colour = Red | Green | Blue
  deriving stock (Bounded, Enum, Generic, Show)
  deriving anyclass (ToJson)

-- | Encoded by the last test alone.
data Lonely = Lonely
  { first :: !Int,
    second :: !Int,
    third :: !Int
  }
  deriving stock (Generic)
  deriving anyclass (ToJson)

instance Aeson.ToJSON Shape where toEncoding = Aeson.genericToEncoding Aeson.defaultOptions

instance Aeson.ToJSON Place where toEncoding = Aeson.genericToEncoding Aeson.defaultOptions

instance Aeson.ToJSON Colour where toEncoding = Aeson.genericToEncoding Aeson.defaultOptions

instance Arbitrary Colour where
  arbitrary = arbitraryBoundedEnum

instance Arbitrary Place where
  arbitrary = sized $ \size ->
    Place . Text.pack <$> listOf (frequency [(9, choose ('a', 'z')), (1, arbitrary)])
      <*> arbitrary
      <*> (if size < 2 then pure Nothing else resize (size `quot` 2) arbitrary)
      <*> arbitrary

instance Arbitrary Shape where
  arbitrary = oneof [pure Point, Circle <$> arbitrary <*> arbitrary, Path <$> arbitrary <*> arbitrary]

tests :: TestTree
tests =
  testGroup
    "Json.Encode: with optimisation"
    [ testProperty "the bytes are aeson's" . mapSize (min 20) $ \shapes ->
        toByteString (encodeJson (shapes :: [Shape])) === Lazy.toStrict (Aeson.encode shapes),
      whenOptimised . testCase "keys are made once" $ do
        -- The first time they are made. After that the same is allocated each time, and much less.
        made <- allocatedFor 1000
        repeated <- allocatedFor 1001
        onceMore <- allocatedFor 1002
        onceMore @?= repeated
        assertBool (show made <> " bytes, then " <> show repeated) (made > 4 * repeated)
    ]

-- | What encoding a value allocates.
allocatedFor :: Int -> IO Int
allocatedFor n = do
  before <- getAllocationCounter
  _ <- evaluate (ByteString.length (toByteString (encodeJson (Lonely n n n))))
  after <- getAllocationCounter
  pure (fromIntegral (before - after))
{-# NOINLINE allocatedFor #-}
