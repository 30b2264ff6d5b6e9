{-# LANGUAGE DeriveAnyClass #-}
{-# LANGUAGE DeriveGeneric #-}
{-# LANGUAGE DerivingVia #-}
{-# LANGUAGE FlexibleContexts #-}
{-# LANGUAGE GeneralizedNewtypeDeriving #-}
{-# LANGUAGE OverloadedStrings #-}
{-# LANGUAGE StandaloneDeriving #-}
{-# LANGUAGE UndecidableInstances #-}
{-# OPTIONS_GHC -Wno-partial-fields #-}

-- | Fields that are left out of objects, and read where they are missing.
module MissingFieldsTest
  ( tests,
  )
where

import Data.ByteString (ByteString)
import Data.Functor.Const (Const (..))
import Data.Functor.Identity (Identity (..))
import Data.Monoid (First (..), Last (..), Product (..), Sum (..))
import Data.Ord (Down (..))
import Data.Proxy (Proxy (..))
import Data.Semigroup (Max (..), Min (..))
import GHC.Generics (Generic)
import Heddle.Json hiding (Sum (..))
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (Assertion, testCase, (@?=))

tests :: TestTree
tests =
  testGroup
    "missing fields"
    [ testGroup
        "polymorphicFieldWroteNull: what is Nothing only where the type is known"
        [ testCase "f = Maybe" $ do
            Over Nothing 1 `is` "{\"after\":1}"
            Over (Just 2) 1 `is` "{\"over\":2,\"after\":1}",
          testCase "f = First and Last" $ do
            Over (First Nothing) 1 `is` "{\"after\":1}"
            Over (Last (Just 2)) 1 `is` "{\"over\":2,\"after\":1}",
          testCase "f = Identity, which is never Nothing" $ Over (Identity 2) 1 `is` "{\"over\":2,\"after\":1}",
          testCase "f = Proxy, whose null is no Nothing" $ Over Proxy 1 `is` "{\"over\":null,\"after\":1}",
          testCase "a newtype around Maybe, derived by newtype" $ do
            Over (Optional Nothing) 1 `is` "{\"after\":1}"
            Over (Optional (Just 2)) 1 `is` "{\"over\":2,\"after\":1}",
          testCase "a newtype around Maybe, derived via" $ do
            At (Count Nothing) `is` "{}"
            At (Count (Just 2)) `is` "{\"at\":2}",
          testCase "a type variable" $ do
            At (Nothing :: Maybe Int) `is` "{}"
            At (Just [Nothing, Just 'x']) `is` "{\"at\":[null,\"x\"]}"
            At (At (Nothing :: Maybe Int)) `is` "{\"at\":{}}",
          testCase "in one of several constructors" $ do
            One Nothing Nothing `is` "{\"tag\":\"One\"}"
            One (Just 1) Nothing `is` "{\"tag\":\"One\",\"one\":1}"
            (Two Nothing :: Several Maybe) `is` "{\"tag\":\"Two\",\"contents\":null}",
          testCase "wrappers that have no form of their own" $ do
            At (Identity (Nothing :: Maybe Int)) `is` "{}"
            At (Const Nothing :: Const (Maybe Int) Bool) `is` "{}"
            At (Down (Nothing :: Maybe Int)) `is` "{}"
            At (Max (Nothing :: Maybe Int)) `is` "{}"
            At (Min (Nothing :: Maybe Int)) `is` "{}"
            At (Sum (Nothing :: Maybe Int)) `is` "{}"
            At (Product (Nothing :: Maybe Int)) `is` "{}"
            At (Down (Just (2 :: Int))) `is` "{\"at\":2}",
          testCase "an instance that says so" $ do
            At (Level 0) `is` "{}"
            At (Level 3) `is` "{\"at\":3}"
        ],
      testCase "all fields are there unless they are to be left out" $ do
        toByteString (encode (genericToJson defaultOptions (Over Nothing 1))) @?= "{\"over\":null,\"after\":1}"
        toByteString (encode (genericToJson defaultOptions (At (Optional (Nothing :: Maybe Int))))) @?= "{\"at\":null}",
      testCase "an element is never left out" $ toByteString (encodeJson [Nothing, Just (Optional (Just 'x')), Just (Optional Nothing)]) @?= "[null,\"x\",null]",
      testCase "Just Nothing is null, and read as Nothing" $ do
        toByteString (encodeJson (At (Just (Nothing :: Maybe Int)))) @?= "{\"at\":null}"
        decodeJson "{\"at\":null}" @?= Right (At (Nothing :: Maybe (Maybe Int)))
    ]

-- | The bytes of a value, which are read as the value.
is :: (Eq a, FromJson a, Show a, ToJson a) => a -> ByteString -> Assertion
is x bytes = do
  toByteString (encodeJson x) @?= bytes
  decodeJson bytes @?= Right x

omitting :: Options
omitting = defaultOptions {optionOmitNothing = True}

data Over f = Over {over :: f Int, after :: !Int}
  deriving stock (Generic)

deriving stock instance Eq (f Int) => Eq (Over f)

deriving stock instance Show (f Int) => Show (Over f)

deriving anyclass instance FromJson (f Int) => FromJson (Over f)

instance ToJson (f Int) => ToJson (Over f) where
  toJson = genericToJson omitting

newtype At a = At {at :: a}
  deriving stock (Eq, Generic, Show)
  deriving anyclass (FromJson)

instance ToJson a => ToJson (At a) where
  toJson = genericToJson omitting

data Several f
  = One {one :: f Int, more :: !(Maybe Bool)}
  | Two (f Int)
  deriving stock (Generic)

deriving stock instance Eq (f Int) => Eq (Several f)

deriving stock instance Show (f Int) => Show (Several f)

deriving anyclass instance FromJson (f Int) => FromJson (Several f)

instance ToJson (f Int) => ToJson (Several f) where
  toJson = genericToJson omitting

newtype Optional a = Optional (Maybe a)
  deriving stock (Eq, Show)
  deriving newtype (FromJson, ToJson)

newtype Count = Count (Maybe Int)
  deriving stock (Eq, Show)
  deriving (FromJson, ToJson) via (Maybe Int)

-- | Usually 0.
newtype Level = Level Int
  deriving stock (Eq, Show)

instance FromJson Level where
  fromJson = Level <$> fromJson
  missing = Just (Level 0)

instance ToJson Level where
  toJson (Level n) = toJson n
  isMissing (Level n) = n == 0
