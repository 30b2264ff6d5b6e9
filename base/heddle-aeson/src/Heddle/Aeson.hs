-- |
-- Module      : Heddle.Aeson
-- Description : Bridges between heddle-json and aeson
-- Stability   : stable
--
-- aeson's 'Value', written by "Heddle.Json.Build" and read by "Heddle.Json.Decode", and instances of each
-- library's classes from those of the other.
--
-- Cost: an intermediate 'Value', except where a function says that there is none.
-- Owner: values.
module Heddle.Aeson
  ( -- * Values
    fromValue,
    value,
    valueWithin,

    -- * By aeson's classes
    encodeAeson,
    decodeAeson,
    aeson,

    -- * Deriving

    -- | > deriving (ToJson, FromJson) via (ViaAeson T)
    --   > deriving (ToJSON, FromJSON) via (ViaHeddle T)
    --   > deriving (ToJSON, FromJSON) via (ViaLossless T)
    ViaAeson (..),
    ViaHeddle (..),
    ViaLossless (..),
  )
where

import Data.Aeson (FromJSON (..), ToJSON (..), Value (..))
import Data.Aeson qualified as Aeson (decodeStrict')
import Data.Aeson.Encoding (fromEncoding, unsafeToEncoding)
import Data.Aeson.Key qualified as Key
import Data.Aeson.KeyMap qualified as KeyMap
import Data.Aeson.Types (Parser)
import Data.ByteString (ByteString)
import Data.ByteString.Unsafe qualified as ByteString (unsafeUseAsCString)
import Data.Foldable (toList)
import Data.Maybe (fromMaybe)
import Data.Scientific (Scientific, base10Exponent, coefficient, fromFloatDigits, scientific, toRealFloat)
import Data.Vector qualified as Vector
import Foreign.Ptr (minusPtr)
import Heddle.Aeson.Internal.Compat
import Heddle.Bytes.Put (Put, fromBuilder, toBuilder, toByteString)
import Heddle.Json.Build (Build, Mixed, arrayOf, bool, double, encode, int, mixed, nameText, null_, object, (<:>))
import Heddle.Json.Build qualified as Build
import Heddle.Json.Decode
  ( Decoder,
    Kind (..),
    byKind,
    decode,
    foldElements,
    foldMembers,
    raw,
    refine,
    textMap,
  )
import Heddle.Json.Decode qualified as Decode
import Heddle.Json.Encode (ToJson (..), encodeJson, encodeJsonWith)
import Heddle.Json.FromJson (FromJson (..))
import Heddle.Json.Malformed (Malformed (..), Reason (..), Step (..), showPath)
import Heddle.Json.Options (Duplicates (..), Limits (..), NonFinite (..), defaultLimits)
import Heddle.Prim.Exception (displayException)
import Heddle.Prim.Unsafe (unsafePure)

-- | An aeson 'Value' as JSON.
--
-- [Cost]: linear.
--
-- Law (@inverse@): aeson reads the same value.
fromValue :: Value -> Build c Mixed
fromValue = \case
  Null -> mixed null_
  Bool b -> mixed (bool b)
  Number n -> number n
  String t -> mixed (Build.text t)
  Array xs -> mixed (arrayOf fromValue (toList xs))
  Object members ->
    mixed . object $ KeyMap.foldrWithKey (\key x rest -> nameText (Key.toText key) <:> fromValue x <> rest) mempty members

number :: Scientific -> Build c Mixed
number n
  | power >= 0 && power <= 308 = mixed (int (coefficient n * 10 ^ power))
  -- 'fromFloatDigits' of an infinity is a finite number just above the largest double.
  | power < 0 && power > -340 && not (isInfinite nearest) && fromFloatDigits nearest == n = mixed (double nearest)
  | otherwise = mixed (Build.decimal (coefficient n) power)
  where
    power = base10Exponent n
    nearest = toRealFloat n :: Double

-- | Any value as an aeson 'Value'. Exponents of ten beyond 1,024 are refused, except for zero.
--
-- [Cost]: linear; equal short keys of one text share their memory.
value :: Decoder Value
value = valueWithin 1024

-- | As 'value', with another bound on the magnitude of exponents.
--
-- Numbers are exact. A small 'Scientific' with a large exponent becomes a huge 'Integer', so programs that
-- convert untrusted numbers need a bound.
--
-- [Cost]: as 'value'.
valueWithin :: Int -> Decoder Value
valueWithin most = go
  where
    go = byKind $ \case
      KindNull -> Null <$ Decode.null_
      KindBool -> Bool <$> Decode.bool
      KindNumber -> Number <$> refine bounded Decode.decimal
      KindString -> String <$> Decode.text
      KindArray -> (\xs -> Array (Vector.fromListN (length xs) xs)) <$> Decode.list go
      KindObject -> Object . KeyMap.fromMapText <$> textMap go
    bounded (mantissa, power)
      | mantissa == 0 = Right 0
      | power <= most && power >= negate most = Right (scientific mantissa power)
      | otherwise = Left ("an exponent beyond " <> show most)

-- | The output of aeson's instance, without an intermediate 'Value'.
--
-- [Cost]: aeson's.
encodeAeson :: ToJSON a => a -> Put
encodeAeson = fromBuilder . fromEncoding . toEncoding

-- | Decode by aeson's instance, reading with heddle-json. An error of the instance has aeson's path and the
-- offset of the value at that path.
--
-- [Cost]: an intermediate 'Value'; after an error, the text is read again.
decodeAeson :: FromJSON a => Limits -> ByteString -> Either Malformed a
decodeAeson limits text = do
  whole <- decode limits value text
  case ifromJSON whole of
    ISuccess x -> Right x
    IError path why -> Left (Malformed (offsetOf limits text steps) steps (Refused why))
      where
        steps = stepsOf path

stepsOf :: JSONPath -> [Step]
stepsOf = map $ \case
  Key key -> InKey (Key.toText key)
  Index n -> InElement n

-- | The offset of the value at the end of a path, or of the last value on it that exists.
offsetOf :: Limits -> ByteString -> [Step] -> Int
offsetOf limits whole = go whole
  where
    go part path = case decode limits (inside path) part of
      Right (Just (next, rest)) -> go next rest
      _ -> unsafePure $
        ByteString.unsafeUseAsCString whole $ \from -> ByteString.unsafeUseAsCString part $ \to -> pure (to `minusPtr` from)
    inside = \case
      [] -> pure Nothing
      InKey key : rest ->
        byKind $ \case
          KindObject -> foldMembers (\found k part -> if k == key then Just (part, rest) else found) Nothing raw
          _ -> pure Nothing
      InElement n : rest ->
        byKind $ \case
          KindArray -> snd <$> foldElements (\(i, found) part -> (i + 1, if i == n then Just (part, rest) else found)) (0, Nothing) raw
          _ -> pure Nothing

-- | aeson's instance as a part of a decoder. The reason of an error contains aeson's path below this value.
--
-- [Cost]: an intermediate 'Value'.
aeson :: FromJSON a => Decoder a
aeson = refine (result . ifromJSON) value
  where
    result = \case
      ISuccess x -> Right x
      IError [] why -> Left why
      IError path why -> Left (showPath (stepsOf path) <> ": " <> why)

-- | heddle-json's classes, by the instances of aeson's; with aeson 2.2, also which fields may be missing.
newtype ViaAeson a = ViaAeson
  { -- | The value.
    viaAeson :: a
  }
  deriving stock (Eq, Ord, Show)

-- | The output of aeson's 'toJSON'.
instance ToJSON a => ToJson (ViaAeson a) where
  toJson (ViaAeson x) = fromValue (toJSON x)
  toJsonList = fromValue . toJSONList . map viaAeson
  isMissing (ViaAeson x) = aesonOmits x

instance FromJSON a => FromJson (ViaAeson a) where
  fromJson = ViaAeson <$> aeson
  missing = ViaAeson <$> aesonOmitted

-- | aeson's classes, by the instances of heddle-json's. An infinity or NaN is @null@, and @null@ is read as NaN
-- ('NonFiniteNull').
newtype ViaHeddle a = ViaHeddle
  { -- | The value.
    viaHeddle :: a
  }
  deriving stock (Eq, Ord, Show)

-- | 'toEncoding' builds no 'Value'.
instance ToJson a => ToJSON (ViaHeddle a) where
  toEncoding (ViaHeddle x) = unsafeToEncoding (toBuilder (encodeJson x))
  toJSON (ViaHeddle x) = writtenValue (encodeJson x)

instance FromJson a => FromJSON (ViaHeddle a) where
  parseJSON v = ViaHeddle <$> readValue NonFiniteNull v

-- | As 'ViaHeddle', with infinities and NaN as strings ('NonFiniteStrings'): every 'Double' is read as it was written,
-- except that aeson's 'Value' has no negative zero.
newtype ViaLossless a = ViaLossless
  { -- | The value.
    viaLossless :: a
  }
  deriving stock (Eq, Ord, Show)

-- | 'toEncoding' builds no 'Value'.
instance ToJson a => ToJSON (ViaLossless a) where
  toEncoding (ViaLossless x) = unsafeToEncoding (toBuilder (encodeJsonWith NonFiniteStrings x))
  toJSON (ViaLossless x) = writtenValue (encodeJsonWith NonFiniteStrings x)

instance FromJson a => FromJSON (ViaLossless a) where
  parseJSON v = ViaLossless <$> readValue NonFiniteStrings v

writtenValue :: Put -> Value
writtenValue put = case decode unlimited (valueWithin maxBound) text of
  Right v -> v
  -- heddle-json's decoders refuse numbers of more than 32,767 characters, which aeson accepts.
  Left wrong -> fromMaybe (error ("Heddle.Aeson: written, but not read: " <> displayException wrong)) (Aeson.decodeStrict' text)
  where
    text = toByteString put

readValue :: FromJson a => NonFinite -> Value -> Parser a
readValue policy v =
  either (fail . displayException) pure (decode unlimited {limitNonFinite = policy} fromJson (toByteString (encode (fromValue v))))

-- | Limits for values that are in memory already. Encoders do not check for duplicate keys; the first of equal keys
-- counts, as in aeson's 'Aeson.decode'.
unlimited :: Limits
unlimited = defaultLimits {limitDepth = maxBound, limitNumber = maxBound, limitSize = maxBound, limitDuplicates = DuplicatesFirst}
