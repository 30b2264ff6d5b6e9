{-# LANGUAGE DataKinds #-}
{-# LANGUAGE DefaultSignatures #-}
{-# LANGUAGE EmptyCase #-}
{-# LANGUAGE FlexibleContexts #-}
{-# LANGUAGE FlexibleInstances #-}
{-# LANGUAGE KindSignatures #-}
{-# LANGUAGE OverloadedStrings #-}
{-# LANGUAGE ScopedTypeVariables #-}
{-# LANGUAGE TypeApplications #-}
{-# LANGUAGE TypeOperators #-}

-- |
-- Module      : Heddle.Json.Encode
-- Description : Types that have a JSON form
-- Stability   : stable
--
-- The class 'ToJson', its instances, and how they are derived:
--
-- > data Point = Point { x :: Int, y :: Int }
-- >   deriving stock Generic
-- >   deriving anyclass ToJson
--
-- or written by hand:
--
-- > instance ToJson Point where
-- >   toJson (Point x y) = mixed . object $ "x" <:> json x <> "y" <:> json y
--
-- Derived forms are aeson's. The fixed bytes of a type, such as keys, are made once.
--
-- Cost: that of "Heddle.Json.Build".
-- Owner: values.
module Heddle.Json.Encode
  ( -- * The class
    ToJson (..),
    json,
    encodeJson,
    encodeJsonWith,
    NonFinite (..),

    -- * Deriving
    genericToJson,
    GenericJson,

    -- * Keys of maps
    ToKey (..),
  )
where

import Data.Functor.Const (Const (..))
import Data.Functor.Identity (Identity (..))
import Data.Int (Int16, Int32, Int64, Int8)
import Data.IntMap.Strict (IntMap)
import Data.IntMap.Strict qualified as IntMap
import Data.IntSet (IntSet)
import Data.IntSet qualified as IntSet
import Data.Kind (Type)
import Data.List.NonEmpty (NonEmpty (..))
import Data.Map.Strict (Map)
import Data.Map.Strict qualified as Map
import Data.Maybe (isNothing)
import Data.Monoid (All (..), Any (..), First (..), Last (..), Product (..), Sum (..))
import Data.Ord (Down (..))
import Data.Proxy (Proxy)
import Data.Ratio (Ratio, denominator, numerator)
import Data.Semigroup (Max (..), Min (..))
import Data.Sequence (Seq)
import Data.Set (Set)
import Data.Text (Text)
import Data.Text.Lazy qualified as Lazy
import Data.Text.Short (ShortText)
import Data.Text.Short qualified as ShortText (toByteString)
import Data.Tree (Tree (..))
import Data.Version (Version, showVersion)
import Data.Void (Void, absurd)
import Data.Word (Word16, Word32, Word64, Word8)
import GHC.Generics
import GHC.TypeLits (KnownSymbol)
import Heddle.Bytes.Put.Sink (Put, Sink, withSinkPolicy)
import Heddle.Bytes.Utf8 (Utf8)
import Heddle.Bytes.Utf8 qualified as Utf8 (toByteString)
import Heddle.Json.Build
import Heddle.Json.Internal.Build hiding (First, nameText)
import Heddle.Json.Internal.Build qualified as Build (Before (First))
import Heddle.Json.Internal.Generic
import Heddle.Json.Internal.ToKey (ToKey (..))
import Heddle.Json.Options (NonFinite (..), Options, defaultOptions)
import Heddle.Prim.AddrState (AddrState, addrState, runAddrState)
import Numeric.Natural (Natural)

-- | Types that have a JSON form.
class ToJson a where
  -- | The value's form. Instances drop its kind by 'mixed'; 'json' restores it.
  toJson :: a -> Build 'One Mixed
  default toJson :: (Generic a, GenericJson (Rep a)) => a -> Build 'One Mixed
  toJson = genericToJson defaultOptions
  {-# INLINE toJson #-}

  -- | The form of a list: an array, except for characters.
  toJsonList :: [a] -> Build 'One Mixed
  toJsonList = listOf toJson

  -- | Whether a field of a record is left out for this value under 'Heddle.Json.Options.optionOmitNothing'. 'Nothing' is;
  -- of other types, only values for which an instance says so. A newtype has the answer of what it holds if it derives by
  -- @newtype@ or @via@.
  --
  -- Law (@missingFields@): such a value is the one in 'Heddle.Json.FromJson.missing', to be read where the key is missing.
  isMissing :: a -> Bool
  isMissing _ = False
  {-# INLINE isMissing #-}

-- Compiled once, not where it is used: derived instances are compiled in a fraction of the time.
listOf :: (a -> Build 'One Mixed) -> [a] -> Build 'One Mixed
listOf form xs = mixed (arrayOf form xs)
{-# NOINLINE listOf #-}

-- | A value's form with its type as its kind, as one value or one of many: @array (foldMap json xs)@.
--
-- [Cost]: the value's.
json :: ToJson a => a -> Build c a
json = retyped . toJson
{-# INLINE json #-}

-- | The bytes of a value's form.
--
-- [Cost]: the value's.
encodeJson :: ToJson a => a -> Put
encodeJson = encode . toJson
{-# INLINE encodeJson #-}

-- | As 'encodeJson', with a policy for the infinities and NaN in the value. 'encodeJson' uses 'NonFiniteNull'.
--
-- [Cost]: the value's.
--
-- Law (@nonFiniteRoundTrip@): under 'NonFiniteStrings', decoding with the same policy gives the same value.
encodeJsonWith :: ToJson a => NonFinite -> a -> Put
encodeJsonWith policy = withSinkPolicy (fromEnum policy) . encodeJson
{-# INLINE encodeJsonWith #-}

steps' :: Build c a -> Steps
steps' (Build f) = f
{-# INLINE steps' #-}

-- | A value's form by its type's 'Generic' description.
--
-- [Cost]: a piece for each key and bracket; with the options given at the instance, as in
-- @toJson = genericToJson options@, keys are made once.
--
-- Law (@aeson@): the bytes are those of aeson's @genericToEncoding@ with the same options,
-- except for floating point numbers, which are written differently: finite ones in the shortest form, infinities as
-- 'NonFinite' says (aeson writes @"+inf"@ and @"-inf"@). What 'isMissing' is left out as by aeson 2.2; earlier ones leave
-- out only what is a 'Maybe' in the instance's own declaration.
genericToJson :: forall a. (Generic a, GenericJson (Rep a)) => Options -> a -> Build 'One Mixed
genericToJson options = \x -> Build (\before -> addrState (\sink p -> runAddrState (runData plan (from x) before) sink p))
  where
    plan = planData @(Rep a) options
{-# INLINE genericToJson #-}

{- HLINT ignore "Eta reduce" -}
{- HLINT ignore "Avoid lambda" -}
-- The plan is outside of the lambda, so it is made once for a type. 'runData' is inlined with all arguments.

-- | 'Generic' representations of types that have a form.
class PlanData f => GenericJson (f :: Type -> Type) where
  -- | Write a value by its plan.
  runData :: DataPlan -> f p -> Steps

instance (PlanSum f, RunSum f) => GenericJson (D1 m f) where
  runData plan (M1 x) before = runSum plan 0 x before
  {-# INLINE runData #-}

class PlanSum f => RunSum (f :: Type -> Type) where
  -- Write a value by the plans of its type. The number is that of the first constructor.
  runSum :: DataPlan -> Int -> f p -> Steps

instance RunSum V1 where
  runSum _ _ x _ = case x of {}

instance (RunSum f, RunSum g) => RunSum (f :+: g) where
  runSum plan i s before = case s of
    L1 x -> runSum plan i x before
    R1 x -> runSum plan (i + constructors @f) x before
  {-# INLINE runSum #-}

instance (Constructor c, RunFields f) => RunSum (C1 c f) where
  runSum plan i (M1 x) before = case conPlan plan i of
    ConPlan opening start fields closing -> do
      putFixed opening before
      _ <- runFields fields 0 x start
      putFixed closing Build.First
      pure Next
  {-# INLINE runSum #-}

class PlanFields f => RunFields (f :: Type -> Type) where
  -- | Write the fields. The number is that of the first one.
  runFields :: FieldsPlan -> Int -> f p -> Steps

instance RunFields U1 where
  runFields _ _ _ before = pure before
  {-# INLINE runFields #-}

instance (RunFields f, RunFields g) => RunFields (f :*: g) where
  runFields plan i (x :*: y) before = runFields plan i x before >>= runFields plan (i + fieldCount @f) y
  {-# INLINE runFields #-}

instance ToJson a => RunFields (S1 ('MetaSel 'Nothing u s l) (K1 i a)) where
  runFields _ _ (M1 (K1 x)) before = Next <$ steps' (toJson x) before
  {-# INLINE runFields #-}

instance (KnownSymbol n, ToJson a) => RunFields (S1 ('MetaSel ('Just n) u s l) (K1 i a)) where
  runFields plan@(FieldsPlan omit _) i (M1 (K1 x)) before
    | omit, isMissing x = pure before
    | otherwise = do
      putKey plan i before
      _ <- steps' (toJson x) Build.First
      pure Next
  {-# INLINE runFields #-}

-- Incoherent, for both do the same: this one takes less code where the type is known.
instance {-# INCOHERENT #-} (KnownSymbol n, ToJson a) => RunFields (S1 ('MetaSel ('Just n) u s l) (K1 i (Maybe a))) where
  runFields plan i (M1 (K1 x)) before = putMaybe plan i (\y -> steps' (toJson y)) x before
  {-# INLINE runFields #-}

-- The next two are not inlined: every field of a program would take their code.
putKey :: FieldsPlan -> Int -> Before -> AddrState Sink ()
putKey plan i before = putFixed (fieldKey plan i) before
{-# NOINLINE putKey #-}

putMaybe :: FieldsPlan -> Int -> (a -> Steps) -> Maybe a -> Steps
putMaybe plan@(FieldsPlan omit _) i value x before = case x of
  Nothing
    | omit -> pure before
    | otherwise -> putKey plan i before *> steps' (null_ :: Build 'One ()) Build.First
  Just y -> do
    putKey plan i before
    _ <- value y Build.First
    pure Next
{-# NOINLINE putMaybe #-}

instance ToJson Bool where
  toJson = mixed . bool
  {-# INLINE toJson #-}
  toJsonList = mixed . arrayOf bool
  {-# NOINLINE toJsonList #-}

instance ToJson Int where
  toJson = mixed . int
  {-# INLINE toJson #-}
  toJsonList = mixed . arrayOf int
  {-# NOINLINE toJsonList #-}

instance ToJson Int8 where
  toJson = mixed . int
  {-# INLINE toJson #-}

instance ToJson Int16 where
  toJson = mixed . int
  {-# INLINE toJson #-}

instance ToJson Int32 where
  toJson = mixed . int
  {-# INLINE toJson #-}

instance ToJson Int64 where
  toJson = mixed . int
  {-# INLINE toJson #-}
  toJsonList = mixed . arrayOf int
  {-# NOINLINE toJsonList #-}

instance ToJson Word where
  toJson = mixed . int
  {-# INLINE toJson #-}
  toJsonList = mixed . arrayOf int
  {-# NOINLINE toJsonList #-}

instance ToJson Word8 where
  toJson = mixed . int
  {-# INLINE toJson #-}

instance ToJson Word16 where
  toJson = mixed . int
  {-# INLINE toJson #-}

instance ToJson Word32 where
  toJson = mixed . int
  {-# INLINE toJson #-}

instance ToJson Word64 where
  toJson = mixed . int
  {-# INLINE toJson #-}

instance ToJson Integer where
  toJson = mixed . int
  {-# INLINE toJson #-}
  toJsonList = mixed . arrayOf int
  {-# NOINLINE toJsonList #-}

instance ToJson Natural where
  toJson = mixed . int
  {-# INLINE toJson #-}

instance ToJson Double where
  toJson = mixed . double
  {-# INLINE toJson #-}
  toJsonList = mixed . arrayOf double
  {-# NOINLINE toJsonList #-}

instance ToJson Float where
  toJson = mixed . float
  {-# INLINE toJson #-}

-- | @{"numerator":1,"denominator":3}@
instance ToJson a => ToJson (Ratio a) where
  toJson r = mixed . object $ "numerator" <:> json (numerator r) <> "denominator" <:> json (denominator r)

instance ToJson Text where
  toJson = mixed . text
  {-# INLINE toJson #-}
  toJsonList = mixed . arrayOf text
  {-# NOINLINE toJsonList #-}

instance ToJson Utf8 where
  toJson = mixed . utf8 . Utf8.toByteString

instance ToJson ShortText where
  toJson = mixed . utf8 . ShortText.toByteString

instance ToJson Lazy.Text where
  toJson = mixed . lazyText
  {-# INLINE toJson #-}

-- | A string of one character.
instance ToJson Char where
  toJson c = mixed (string [c])
  toJsonList = mixed . string
  {-# INLINE toJsonList #-}

instance ToJson Version where
  toJson = mixed . string . showVersion

instance ToJson Ordering where
  toJson = \case
    LT -> mixed (string "LT")
    EQ -> mixed (string "EQ")
    GT -> mixed (string "GT")

-- | @[]@
instance ToJson () where
  toJson () = mixed (array (mempty :: Build 'Many ()))

instance ToJson Void where
  toJson = absurd

-- | @null@
instance ToJson (Proxy a) where
  toJson _ = mixed null_

instance ToJson a => ToJson [a] where
  toJson = toJsonList
  {-# INLINE toJson #-}

instance ToJson a => ToJson (NonEmpty a) where
  toJson (x :| xs) = mixed (arrayOf toJson (x : xs))

instance ToJson a => ToJson (Seq a) where
  toJson = mixed . array . foldMap json

instance ToJson a => ToJson (Set a) where
  toJson = mixed . array . foldMap json

instance ToJson IntSet where
  toJson = mixed . arrayOf int . IntSet.toAscList

-- | A root and its branches, as an array of two.
instance ToJson a => ToJson (Tree a) where
  toJson (Node root branches) = mixed . array $ mixed (json root) <> mixed (json branches)

-- | @null@, or the value.
instance ToJson a => ToJson (Maybe a) where
  toJson = \case
    Nothing -> mixed null_
    Just x -> toJson x
  {-# INLINE toJson #-}
  isMissing = isNothing
  {-# INLINE isMissing #-}

-- | @{"Left":…}@ or @{"Right":…}@.
instance (ToJson a, ToJson b) => ToJson (Either a b) where
  toJson = \case
    Left x -> mixed (object ("Left" <:> json x))
    Right x -> mixed (object ("Right" <:> json x))

instance (ToJson a, ToJson b) => ToJson (a, b) where
  toJson (a, b) = mixed . array $ part a <> part b
  {-# INLINE toJson #-}
  toJsonList = mixed . arrayOf toJson
  {-# INLINE toJsonList #-}

instance (ToJson a, ToJson b, ToJson c) => ToJson (a, b, c) where
  toJson (a, b, c) = mixed . array $ part a <> part b <> part c
  {-# INLINE toJson #-}
  toJsonList = mixed . arrayOf toJson
  {-# INLINE toJsonList #-}

instance (ToJson a, ToJson b, ToJson c, ToJson d) => ToJson (a, b, c, d) where
  toJson (a, b, c, d) = mixed . array $ part a <> part b <> part c <> part d
  {-# INLINE toJson #-}
  toJsonList = mixed . arrayOf toJson
  {-# INLINE toJsonList #-}

instance (ToJson a, ToJson b, ToJson c, ToJson d, ToJson e) => ToJson (a, b, c, d, e) where
  toJson (a, b, c, d, e) = mixed . array $ part a <> part b <> part c <> part d <> part e

instance (ToJson a, ToJson b, ToJson c, ToJson d, ToJson e, ToJson f) => ToJson (a, b, c, d, e, f) where
  toJson (a, b, c, d, e, f) = mixed . array $ part a <> part b <> part c <> part d <> part e <> part f

instance
  (ToJson a, ToJson b, ToJson c, ToJson d, ToJson e, ToJson f, ToJson g) =>
  ToJson (a, b, c, d, e, f, g)
  where
  toJson (a, b, c, d, e, f, g) =
    mixed . array $ part a <> part b <> part c <> part d <> part e <> part f <> part g

-- | A value to be joined with values of other kinds.
part :: ToJson a => a -> Build 'Many Mixed
part = retyped . toJson
{-# INLINE part #-}

instance ToJson a => ToJson (Identity a) where
  toJson (Identity x) = toJson x
  toJsonList = toJsonList . map runIdentity
  isMissing (Identity x) = isMissing x

instance ToJson a => ToJson (Const a b) where
  toJson (Const x) = toJson x
  isMissing (Const x) = isMissing x

instance ToJson a => ToJson (Down a) where
  toJson (Down x) = toJson x
  isMissing (Down x) = isMissing x

instance ToJson a => ToJson (Max a) where
  toJson (Max x) = toJson x
  isMissing (Max x) = isMissing x

instance ToJson a => ToJson (Min a) where
  toJson (Min x) = toJson x
  isMissing (Min x) = isMissing x

instance ToJson a => ToJson (Sum a) where
  toJson (Sum x) = toJson x
  isMissing (Sum x) = isMissing x

instance ToJson a => ToJson (Product a) where
  toJson (Product x) = toJson x
  isMissing (Product x) = isMissing x

instance ToJson All where
  toJson (All x) = toJson x

instance ToJson Any where
  toJson (Any x) = toJson x

instance ToJson a => ToJson (First a) where
  toJson (First x) = toJson x
  isMissing (First x) = isMissing x

instance ToJson a => ToJson (Last a) where
  toJson (Last x) = toJson x
  isMissing (Last x) = isMissing x

instance (ToKey k, ToJson a) => ToJson (Map k a) where
  toJson = mixed . mapObject . Map.toAscList
  {-# INLINE toJson #-}
  toJsonList = mixed . arrayOf toJson
  {-# INLINE toJsonList #-}

-- | An array of pairs, as in aeson.
instance ToJson a => ToJson (IntMap a) where
  toJson = toJson . IntMap.toAscList
  {-# INLINE toJson #-}

-- | An object of these pairs, in their order. Duplicate keys are not checked.
--
-- [Cost]: that of keys and values.
mapObject :: (ToKey k, ToJson a) => [(k, a)] -> Build c Obj
mapObject = object . foldMap (\(k, a) -> toKey k <:> toJson a)
{-# INLINE mapObject #-}
