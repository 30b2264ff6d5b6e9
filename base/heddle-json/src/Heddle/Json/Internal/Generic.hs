{-# LANGUAGE AllowAmbiguousTypes #-}
{-# LANGUAGE DataKinds #-}
{-# LANGUAGE FlexibleContexts #-}
{-# LANGUAGE FlexibleInstances #-}
{-# LANGUAGE KindSignatures #-}
{-# LANGUAGE OverloadedStrings #-}
{-# LANGUAGE ScopedTypeVariables #-}
{-# LANGUAGE TypeApplications #-}
{-# LANGUAGE TypeOperators #-}

-- |
-- Module      : Heddle.Json.Internal.Generic
-- Description : The constant parts of derived encodings
-- Stability   : internal; exempt from the version policy
--
-- A plan holds all constant bytes of a type (brackets, tags, escaped keys), by the numbers of its constructors and
-- fields. It depends on the type's names and on 'Options', not on the instances of its fields' types, so it is made
-- once for an instance even if the instance has parameters. Its own type has no parameters: with those of the
-- description, most of the time in which an instance is compiled went into their coercions.
--
-- Cost: made once; then a load or two for each field.
-- Owner: a value.
module Heddle.Json.Internal.Generic
  ( -- * Plans
    PlanData (..),
    DataPlan,
    PlanSum (..),
    ConPlan (..),
    conPlan,
    PlanFields (..),
    FieldsPlan (..),
    fieldKey,
  )
where

import Data.ByteString (ByteString)
import Data.Kind (Type)
import Data.Primitive.SmallArray (SmallArray, indexSmallArray, smallArrayFromList)
import Data.Proxy (Proxy (..))
import GHC.Generics
import GHC.TypeLits (KnownSymbol, symbolVal)
import Heddle.Bytes.Put (toByteString)
import Heddle.Json.Internal.Build
import Heddle.Json.Internal.Escape (putChars)
import Heddle.Json.Options

-- | A string as JSON.
quoted :: String -> ByteString
quoted = toByteString . putting . putChars

-- | The constructors' plans by their numbers.
newtype DataPlan = DataPlan (SmallArray ConPlan)

-- | A constructor's opening bytes, whether its first field needs a comma, its fields, the closing bytes.
data ConPlan = ConPlan !Fixed !Before !FieldsPlan !Fixed

-- | The plan of the constructor with this number.
conPlan :: DataPlan -> Int -> ConPlan
conPlan (DataPlan constructors') = indexSmallArray constructors'
{-# INLINE conPlan #-}

-- | Types that have a plan.
class PlanData (f :: Type -> Type) where
  -- | Compute the plan.
  planData :: Options -> DataPlan

instance PlanSum f => PlanData (D1 m f) where
  planData options = DataPlan (foldr seq (smallArrayFromList plans) plans)
    where
      plans = planSum @f options style []
      style
        | constructors @f == 1 = Alone
        | optionEnumerations options && enumeration @f = Names
        | otherwise = Tagged (optionSum options)

-- | How a constructor's name is written around its fields.
data Style
  = -- | The only constructor.
    Alone
  | -- | No constructor has fields: the name alone.
    Names
  | -- | One of several constructors.
    Tagged !Sum

-- | Sums of constructors that have a plan.
class PlanSum (f :: Type -> Type) where
  -- | Put the constructors' plans before others.
  planSum :: Options -> Style -> [ConPlan] -> [ConPlan]

  -- | The number of constructors.
  constructors :: Int

  -- | Has no constructor a field?
  enumeration :: Bool

instance PlanSum V1 where
  planSum _ _ = id
  constructors = 0
  enumeration = False

instance (PlanSum f, PlanSum g) => PlanSum (f :+: g) where
  planSum options style = planSum @f options style . planSum @g options style
  constructors = constructors @f + constructors @g
  {-# INLINE constructors #-}
  enumeration = enumeration @f && enumeration @g

instance (Constructor c, PlanFields f) => PlanSum (C1 c f) where
  constructors = 1
  {-# INLINE constructors #-}
  enumeration = fieldCount @f == 0
  planSum options style rest = planned : rest
    where
      planned = case style of
        Alone -> inside "" ""
        Names -> con tag First ""
        Tagged sums -> case sums of
          TaggedObject tagKey contentsKey
            | fieldCount @f == 0 -> con ("{" <> quoted tagKey <> ":" <> tag) First "}"
            | record -> con ("{" <> quoted tagKey <> ":" <> tag) Next "}"
            | otherwise -> inside ("{" <> quoted tagKey <> ":" <> tag <> "," <> quoted contentsKey <> ":") "}"
          SingleKey -> inside ("{" <> tag <> ":") "}"
          TwoElements -> inside ("[" <> tag <> ",") "]"
          Untagged
            | fieldCount @f == 0 -> con tag First ""
            | otherwise -> inside "" ""
      record = conIsRecord (ConProxy :: ConProxy c f ())
      tag = quoted (optionConstructor options (conName (ConProxy :: ConProxy c f ())))
      con opening before closing = ConPlan (fixed opening) before (planFields options (fieldNames @f)) (fixed closing)
      inside before after
        | record = con (before <> "{") First ("}" <> after)
        | fieldCount @f == 1 = con before First after
        | otherwise = con (before <> "[") First ("]" <> after)

-- | A proxy, to get a constructor's name without a value.
data ConProxy (c :: Meta) (f :: Type -> Type) a = ConProxy

-- | Whether fields that are 'Nothing' are left out, and the keys of the fields by their numbers.
data FieldsPlan = FieldsPlan !Bool !(SmallArray Fixed)

-- | A field's key with its colon.
fieldKey :: FieldsPlan -> Int -> Fixed
fieldKey (FieldsPlan _ keys) = indexSmallArray keys
{-# INLINE fieldKey #-}

-- | The fields of a constructor: their names and their number.
class PlanFields (f :: Type -> Type) where
  -- | The names of those fields that have one.
  fieldNames :: [String]

  -- | The number of fields.
  fieldCount :: Int

instance PlanFields U1 where
  fieldNames = []
  fieldCount = 0
  {-# INLINE fieldCount #-}

instance (PlanFields f, PlanFields g) => PlanFields (f :*: g) where
  fieldNames = fieldNames @f <> fieldNames @g
  fieldCount = fieldCount @f + fieldCount @g
  {-# INLINE fieldCount #-}

instance PlanFields (S1 ('MetaSel 'Nothing u s l) (K1 i a)) where
  fieldNames = []
  fieldCount = 1
  {-# INLINE fieldCount #-}

instance KnownSymbol n => PlanFields (S1 ('MetaSel ('Just n) u s l) (K1 i a)) where
  fieldNames = [symbolVal (Proxy :: Proxy n)]
  fieldCount = 1
  {-# INLINE fieldCount #-}

planFields :: Options -> [String] -> FieldsPlan
planFields options names = FieldsPlan (optionOmitNothing options) (foldr seq keys keys)
  where
    keys = smallArrayFromList [fixed (quoted (optionField options name) <> ":") | name <- names]
