{-# LANGUAGE DataKinds #-}
{-# LANGUAGE DefaultSignatures #-}
{-# LANGUAGE FlexibleContexts #-}
{-# LANGUAGE FlexibleInstances #-}
{-# LANGUAGE KindSignatures #-}
{-# LANGUAGE TypeOperators #-}

-- |
-- Module      : Heddle.Json.FromJson
-- Description : Decoders by type, derived or by hand
-- Stability   : stable
--
-- > data User = User {name :: !Text, age :: !(Maybe Int)}
-- >   deriving stock (Generic)
-- >   deriving anyclass (FromJson)
--
-- Cost: a derived decoder is made once, and costs what the same decoder by hand costs.
-- Owner: decoders are values.
module Heddle.Json.FromJson
  ( -- * By type
    FromJson (..),
    decodeJson,

    -- * Derived
    genericFromJson,
    Options (..),
    Sum (..),
    defaultOptions,
    GDecode,
  )
where

import Control.Applicative ((<|>))
import Data.ByteString (ByteString)
import Data.ByteString.Short (ShortByteString)
import Data.Functor.Const (Const (..))
import Data.Functor.Identity (Identity (..))
import Data.Int (Int16, Int32, Int64, Int8)
import Data.IntMap.Strict (IntMap)
import Data.IntMap.Strict qualified as IntMap
import Data.IntSet (IntSet)
import Data.IntSet qualified as IntSet
import Data.Kind (Type)
import Data.List.NonEmpty (NonEmpty)
import Data.Map.Strict (Map)
import Data.Monoid (All (..), Any (..), First (..), Last (..), Product (..))
import Data.Monoid qualified as Monoid (Sum (..))
import Data.Ord (Down (..))
import Data.Primitive.PrimArray (PrimArray)
import Data.Primitive.Types (Prim)
import Data.Proxy (Proxy (..))
import Data.Ratio (Ratio, (%))
import Data.Semigroup (Max (..), Min (..))
import Data.Sequence (Seq)
import Data.Set (Set)
import Data.Text (Text)
import Data.Text qualified as Text
import Data.Text.Lazy qualified as Lazy
import Data.Text.Short (ShortText)
import Data.Tree (Tree (..))
import Data.Version (Version, parseVersion)
import Data.Word (Word16, Word32, Word64, Word8)
import GHC.Generics hiding (Constructor)
import GHC.TypeLits (KnownSymbol, symbolVal)
import Heddle.Bytes.Utf8 (Utf8)
import Heddle.Json.Decode
import Heddle.Json.Options
import Numeric.Natural (Natural)
import Text.ParserCombinators.ReadP (readP_to_S)

-- | Types that have a decoder.
class FromJson a where
  -- | Its decoder.
  fromJson :: Decoder a
  default fromJson :: (Generic a, GDecode (Rep a)) => Decoder a
  fromJson = genericFromJson defaultOptions

  -- | The decoder of lists; 'Char' needs its own, for strings.
  fromJsonList :: Decoder [a]
  fromJsonList = listOf fromJson

  -- | The value of a field whose key the object lacks; without one, the key is required. 'Nothing' for a 'Maybe', and for a
  -- newtype around one that derives by @newtype@ or @via@.
  missing :: Maybe a
  missing = Nothing
  {-# INLINE missing #-}

-- Compiled once, not where it is used: derived instances are compiled in a tenth of the time.
listOf :: Decoder a -> Decoder [a]
listOf = list
{-# NOINLINE listOf #-}

-- | Decode a text within the usual limits.
--
-- [Cost]: linear in the text.
--
-- >>> decodeJson "[[1, true], [2, false]]" :: Either Malformed [(Int, Bool)]
-- Right [(1,True),(2,False)]
decodeJson :: FromJson a => ByteString -> Either Malformed a
decodeJson = decode defaultLimits fromJson

-- | The decoder of a data type from its declaration. It reads what the encoder of the same options writes, with the
-- exceptions that 'Options' names.
--
-- [Cost]: that of a decoder by hand, if it is defined once, without arguments.
genericFromJson :: (Generic a, GDecode (Rep a)) => Options -> Decoder a
genericFromJson options = gDecode options to
{-# INLINE genericFromJson #-}

-- | Data types whose parts have decoders.
class GDecode (f :: Type -> Type) where
  -- Each method gets a function for its result, so that no intermediate representation is built.
  gDecode :: Options -> (f p -> a) -> Decoder a

instance GConstructors f => GDecode (D1 meta f) where
  gDecode options make = choose options (gConstructors options (make . M1))
  {-# INLINE gDecode #-}

data Constructor a = Constructor
  { constructorName :: !Key,
    -- Its value, if it has no fields.
    constructorPlain :: !(Maybe a),
    -- Its fields, if they have names.
    constructorFields :: !(Maybe (Fields a)),
    -- Its contents, without its name.
    constructorContents :: Decoder a
  }

choose :: Options -> [Constructor a] -> Decoder a
choose options = \case
  [one] -> constructorContents one
  -- A type without constructors accepts no string.
  [] -> oneOf []
  several
    | optionEnumerations options, Just names <- traverse enumerated several -> oneOf names
    | otherwise -> case optionSum options of
      TaggedObject tag contents -> tagged (keyOf tag) [(constructorName c, inObject (keyOf tag) (keyOf contents) c) | c <- several]
      SingleKey -> singleKey (map byName several)
      TwoElements -> twoElements (map byName several)
      Untagged -> foldr1 (<|>) (map bare several)
  where
    enumerated c = (,) (constructorName c) <$> constructorPlain c
    byName c = (constructorName c, constructorContents c)
    bare c = case constructorPlain c of
      Just x -> oneOf [(constructorName c, x)]
      Nothing -> constructorContents c
    inObject tag contents c = recordWith (unknownOf options) $ case constructorPlain c of
      Just x -> x <$ required tag skip
      Nothing -> case constructorFields c of
        Just fields -> required tag skip *> fields
        Nothing -> required tag skip *> required contents (constructorContents c)
{-# NOINLINE choose #-}

keyOf :: String -> Key
keyOf = newKey . Text.pack

unknownOf :: Options -> Unknown
unknownOf options = if optionRefuseUnknown options then RefuseUnknown else SkipUnknown

-- The constructors of a type.
class GConstructors (f :: Type -> Type) where
  gConstructors :: Options -> (f p -> a) -> [Constructor a]

instance GConstructors V1 where
  gConstructors _ _ = []

instance (GConstructors f, GConstructors g) => GConstructors (f :+: g) where
  gConstructors options make = gConstructors options (make . L1) ++ gConstructors options (make . R1)
  {-# INLINE gConstructors #-}

instance (KnownSymbol name, GFields f) => GConstructors (C1 ('MetaCons name fixity 'True) f) where
  gConstructors options make =
    [ Constructor
        { constructorName = keyOf (optionConstructor options (symbolVal (Proxy :: Proxy name))),
          constructorPlain = Nothing,
          constructorFields = Just fields,
          constructorContents = recordWith (unknownOf options) fields
        }
    ]
    where
      fields = make . M1 <$> gFields options
  {-# INLINE gConstructors #-}

instance (KnownSymbol name, GContents f) => GConstructors (C1 ('MetaCons name fixity 'False) f) where
  gConstructors options make =
    [ Constructor
        { constructorName = keyOf (optionConstructor options (symbolVal (Proxy :: Proxy name))),
          constructorPlain = make . M1 <$> gPlain,
          constructorFields = Nothing,
          constructorContents = make . M1 <$> gContents
        }
    ]
  {-# INLINE gConstructors #-}

-- The fields of a record.
class GFields (f :: Type -> Type) where
  gFields :: Options -> Fields (f p)

instance (GFields f, GFields g) => GFields (f :*: g) where
  gFields options = (:*:) <$> gFields options <*> gFields options
  {-# INLINE gFields #-}

instance (Selector meta, FromJson a) => GFields (S1 meta (K1 i a)) where
  gFields options = M1 . K1 <$> defaulting (keyOf (optionField options name)) missing fromJson
    where
      name = selName (M1 Proxy :: S1 meta Proxy ())
  {-# INLINE gFields #-}

-- Fields without names.
class GContents (f :: Type -> Type) where
  gContents :: Decoder (f p)
  gPlain :: Maybe (f p)
  gPlain = Nothing

instance GContents U1 where
  gContents = tupleOf (pure U1)
  gPlain = Just U1

instance FromJson a => GContents (S1 meta (K1 i a)) where
  gContents = M1 . K1 <$> fromJson
  {-# INLINE gContents #-}

instance (GElements f, GElements g) => GContents (f :*: g) where
  gContents = tupleOf ((:*:) <$> gElements <*> gElements)
  {-# INLINE gContents #-}

class GElements (f :: Type -> Type) where
  gElements :: Elements (f p)

instance (GElements f, GElements g) => GElements (f :*: g) where
  gElements = (:*:) <$> gElements <*> gElements
  {-# INLINE gElements #-}

instance FromJson a => GElements (S1 meta (K1 i a)) where
  gElements = M1 . K1 <$> element fromJson
  {-# INLINE gElements #-}

instance FromJson Int where
  fromJson = int
  {-# INLINE fromJson #-}
  fromJsonList = list int
  {-# NOINLINE fromJsonList #-}

instance FromJson Int8 where
  fromJson = int8
  {-# INLINE fromJson #-}

instance FromJson Int16 where
  fromJson = int16
  {-# INLINE fromJson #-}

instance FromJson Int32 where
  fromJson = int32
  {-# INLINE fromJson #-}

instance FromJson Int64 where
  fromJson = int64
  {-# INLINE fromJson #-}
  fromJsonList = list int64
  {-# NOINLINE fromJsonList #-}

instance FromJson Word where
  fromJson = word
  {-# INLINE fromJson #-}
  fromJsonList = list word
  {-# NOINLINE fromJsonList #-}

instance FromJson Word8 where
  fromJson = word8
  {-# INLINE fromJson #-}

instance FromJson Word16 where
  fromJson = word16
  {-# INLINE fromJson #-}

instance FromJson Word32 where
  fromJson = word32
  {-# INLINE fromJson #-}

instance FromJson Word64 where
  fromJson = word64
  {-# INLINE fromJson #-}

instance FromJson Integer where
  fromJson = integer
  {-# INLINE fromJson #-}
  fromJsonList = list integer
  {-# NOINLINE fromJsonList #-}

instance FromJson Natural where
  fromJson = natural
  {-# INLINE fromJson #-}

-- | Infinities and NaN as 'limitNonFinite' says.
instance FromJson Double where
  fromJson = anyDouble
  {-# INLINE fromJson #-}
  fromJsonList = list anyDouble
  {-# NOINLINE fromJsonList #-}

-- | Infinities and NaN as 'limitNonFinite' says.
instance FromJson Float where
  fromJson = anyFloat
  {-# INLINE fromJson #-}

instance FromJson Bool where
  fromJson = bool
  {-# INLINE fromJson #-}
  fromJsonList = list bool
  {-# NOINLINE fromJsonList #-}

instance FromJson Text where
  fromJson = text
  {-# INLINE fromJson #-}
  fromJsonList = list text
  {-# NOINLINE fromJsonList #-}

instance FromJson Lazy.Text where
  fromJson = Lazy.fromStrict <$> text

-- | Without escapes, a slice that keeps the whole input alive.
instance FromJson Utf8 where
  fromJson = utf8
  {-# INLINE fromJson #-}

instance FromJson ShortText where
  fromJson = shortText
  {-# INLINE fromJson #-}

-- | A string of one character.
instance FromJson Char where
  fromJson = char
  fromJsonList = string

-- | A string's UTF-8 bytes.
instance FromJson ShortByteString where
  fromJson = shortByteString

-- | As derived, in lowest terms or not; the denominator must be above 0.
instance (Integral a, FromJson a) => FromJson (Ratio a) where
  fromJson = refine ratio (record ((,) <$> required (keyOf "numerator") fromJson <*> required (keyOf "denominator") fromJson))
    where
      ratio (n, d)
        | d > 0 = Right (n % d)
        | otherwise = Left "expected a denominator above 0"

-- | A string such as @1.2.3@.
instance FromJson Version where
  fromJson = refine version string
    where
      version s = case [v | (v, "") <- readP_to_S parseVersion s] of
        v : _ -> Right v
        [] -> Left "expected a version"

-- | An empty array.
instance FromJson () where
  fromJson = tupleOf (pure ())

-- | As derived: one of the strings @LT@, @EQ@, @GT@.
instance FromJson Ordering

-- | Null is 'Nothing', and so is a missing key.
instance FromJson a => FromJson (Maybe a) where
  fromJson = nullable fromJson
  missing = Just Nothing
  {-# INLINE missing #-}

-- | An object with the key @Left@ or @Right@.
instance (FromJson a, FromJson b) => FromJson (Either a b) where
  fromJson = singleKey [(keyOf "Left", Left <$> fromJson), (keyOf "Right", Right <$> fromJson)]

instance FromJson a => FromJson [a] where
  fromJson = fromJsonList

instance FromJson a => FromJson (NonEmpty a) where
  fromJson = nonEmpty fromJson

instance FromJson a => FromJson (Seq a) where
  fromJson = sequenceOf fromJson

instance (Ord a, FromJson a) => FromJson (Set a) where
  fromJson = setOf fromJson

-- | An array of integers.
instance FromJson IntSet where
  fromJson = foldElements (flip IntSet.insert) IntSet.empty int

-- | An array of a root and its branches.
instance FromJson a => FromJson (Tree a) where
  fromJson = tupleOf (Node <$> element fromJson <*> element fromJson)

instance (Prim a, FromJson a) => FromJson (PrimArray a) where
  fromJson = primArray fromJson
  {-# INLINE fromJson #-}

instance (Ord k, FromKey k, FromJson a) => FromJson (Map k a) where
  fromJson = mapOf fromJson
  {-# INLINE fromJson #-}
  fromJsonList = list fromJson
  {-# INLINE fromJsonList #-}

-- | An array of pairs, as in aeson; the last of equal keys counts.
instance FromJson a => FromJson (IntMap a) where
  fromJson = foldElements (\m (k, x) -> IntMap.insert k x m) IntMap.empty fromJson

-- | Null.
instance FromJson (Proxy a) where
  fromJson = Proxy <$ null_

instance FromJson a => FromJson (Identity a) where
  fromJson = Identity <$> fromJson
  fromJsonList = map Identity <$> fromJsonList
  missing = Identity <$> missing

instance (FromJson a, FromJson b) => FromJson (a, b) where
  fromJson = tupleOf ((,) <$> element fromJson <*> element fromJson)
  {-# INLINE fromJson #-}
  fromJsonList = list fromJson
  {-# INLINE fromJsonList #-}

instance (FromJson a, FromJson b, FromJson c) => FromJson (a, b, c) where
  fromJson = tupleOf ((,,) <$> element fromJson <*> element fromJson <*> element fromJson)
  {-# INLINE fromJson #-}
  fromJsonList = list fromJson
  {-# INLINE fromJsonList #-}

instance (FromJson a, FromJson b, FromJson c, FromJson d) => FromJson (a, b, c, d) where
  fromJson = tupleOf ((,,,) <$> element fromJson <*> element fromJson <*> element fromJson <*> element fromJson)
  {-# INLINE fromJson #-}
  fromJsonList = list fromJson
  {-# INLINE fromJsonList #-}

instance (FromJson a, FromJson b, FromJson c, FromJson d, FromJson e) => FromJson (a, b, c, d, e) where
  fromJson = tupleOf ((,,,,) <$> element fromJson <*> element fromJson <*> element fromJson <*> element fromJson <*> element fromJson)

instance (FromJson a, FromJson b, FromJson c, FromJson d, FromJson e, FromJson f) => FromJson (a, b, c, d, e, f) where
  fromJson =
    tupleOf ((,,,,,) <$> element fromJson <*> element fromJson <*> element fromJson <*> element fromJson <*> element fromJson <*> element fromJson)

instance
  (FromJson a, FromJson b, FromJson c, FromJson d, FromJson e, FromJson f, FromJson g) =>
  FromJson (a, b, c, d, e, f, g)
  where
  fromJson =
    tupleOf
      ( (,,,,,,) <$> element fromJson <*> element fromJson <*> element fromJson <*> element fromJson <*> element fromJson <*> element fromJson
          <*> element fromJson
      )

instance FromJson a => FromJson (Const a b) where
  fromJson = Const <$> fromJson
  missing = Const <$> missing

instance FromJson a => FromJson (Down a) where
  fromJson = Down <$> fromJson
  missing = Down <$> missing

instance FromJson a => FromJson (Max a) where
  fromJson = Max <$> fromJson
  missing = Max <$> missing

instance FromJson a => FromJson (Min a) where
  fromJson = Min <$> fromJson
  missing = Min <$> missing

instance FromJson a => FromJson (Monoid.Sum a) where
  fromJson = Monoid.Sum <$> fromJson
  missing = Monoid.Sum <$> missing

instance FromJson a => FromJson (Product a) where
  fromJson = Product <$> fromJson
  missing = Product <$> missing

instance FromJson All where
  fromJson = All <$> bool

instance FromJson Any where
  fromJson = Any <$> bool

instance FromJson a => FromJson (First a) where
  fromJson = First <$> fromJson
  missing = Just (First Nothing)

instance FromJson a => FromJson (Last a) where
  fromJson = Last <$> fromJson
  missing = Just (Last Nothing)
