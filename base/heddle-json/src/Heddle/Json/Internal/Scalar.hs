{-# LANGUAGE MultiWayIf #-}
-- Otherwise GHC's workers of decoders take the environment's ten fields as arguments.
{-# OPTIONS_GHC -fmax-worker-args=4 #-}

-- |
-- Module      : Heddle.Json.Internal.Scalar
-- Description : Decoders of single values
-- Stability   : internal; exempt from the version policy
--
-- "Heddle.Json.Decode" has the ones for users.
--
-- Cost: each function's.
-- Owner: values.
module Heddle.Json.Internal.Scalar
  ( -- * Strings
    text,
    utf8,
    shortText,
    byteString,
    shortByteString,
    string,
    char,

    -- * Numbers
    int,
    int8,
    int16,
    int32,
    int64,
    word,
    word8,
    word16,
    word32,
    word64,
    integer,
    natural,
    double,
    float,
    anyDouble,
    anyFloat,
    decimal,
    number,

    -- * Other values
    bool,
    null_,
    skip,
    raw,

    -- * Choices
    nullable,
    eitherOf,
    Kind (..),
    kind,
    byKind,
    refine,
  )
where

import Control.Applicative ((<|>))
import Data.ByteString (ByteString)
import Data.ByteString.Short (ShortByteString)
import Data.Int (Int16, Int32, Int64, Int8)
import Data.Text qualified as Text
import Data.Text.Short (ShortText)
import Data.Text.Short.Unsafe qualified as ShortText (fromShortByteStringUnsafe)
import Data.Word (Word16, Word32, Word64, Word8)
import Foreign.Ptr (Ptr, castPtr, minusPtr, plusPtr)
import Foreign.Storable (peek)
import GHC.Float (double2Float)
import Heddle.Bytes.Utf8 (Utf8)
import Heddle.Bytes.Utf8.Unsafe (unsafeUtf8)
import Heddle.Json.Internal.Decoder
import Heddle.Json.Internal.Number
import Heddle.Json.Internal.String
import Heddle.Json.Malformed (Reason (..))
import Heddle.Prim.AddrState (At (..))
import Numeric.Natural (Natural)

-- | A string as valid UTF-8. Without escapes it is a slice, which keeps the whole input alive.
--
-- [Cost]: O(length); without escapes nothing is copied.
utf8 :: Decoder Utf8
utf8 = unsafeUtf8 <$> byteString

-- | A string in unpinned memory.
--
-- [Cost]: O(length).
shortText :: Decoder ShortText
shortText = ShortText.fromShortByteStringUnsafe <$> shortByteString

-- | A string's UTF-8 bytes. Without escapes they are a slice, which keeps the whole input alive.
--
-- [Cost]: O(length); without escapes nothing is copied.
byteString :: Decoder ByteString
byteString = decoder bytesFrom

-- | A string's UTF-8 bytes in unpinned memory.
--
-- [Cost]: O(length).
shortByteString :: Decoder ShortByteString
shortByteString = decoder shortFrom

-- | A string as a list of characters.
--
-- [Cost]: O(length).
string :: Decoder String
string = forced . Text.unpack <$> text
  where
    forced s = foldr seq s s

-- | A string of one character.
--
-- [Cost]: O(length).
char :: Decoder Char
char = refine one text
  where
    one t = case Text.unpack t of
      [c] -> Right c
      _ -> Left "expected a string of one character"

-- | An integer of 64 bits.
--
-- [Cost]: O(digits).
int :: Decoder Int
int = bounded "Int" (const True) id

-- | An integer that fits this type.
--
-- [Cost]: O(digits).
int8 :: Decoder Int8
int8 = bounded "Int8" (\n -> n >= -128 && n <= 127) fromIntegral

-- | See 'int8'.
--
-- [Cost]: O(digits).
int16 :: Decoder Int16
int16 = bounded "Int16" (\n -> n >= -32768 && n <= 32767) fromIntegral

-- | See 'int8'.
--
-- [Cost]: O(digits).
int32 :: Decoder Int32
int32 = bounded "Int32" (\n -> n >= -2147483648 && n <= 2147483647) fromIntegral

-- | See 'int8'.
--
-- [Cost]: O(digits).
int64 :: Decoder Int64
int64 = bounded "Int64" (const True) fromIntegral

-- | An unsigned integer of 64 bits.
--
-- [Cost]: O(digits).
word :: Decoder Word
word = bounded "Word" (>= 0) fromIntegral

-- | See 'int8'.
--
-- [Cost]: O(digits).
word8 :: Decoder Word8
word8 = bounded "Word8" (\n -> n >= 0 && n <= 255) fromIntegral

-- | See 'int8'.
--
-- [Cost]: O(digits).
word16 :: Decoder Word16
word16 = bounded "Word16" (\n -> n >= 0 && n <= 65535) fromIntegral

-- | See 'int8'.
--
-- [Cost]: O(digits).
word32 :: Decoder Word32
word32 = bounded "Word32" (\n -> n >= 0 && n <= 4294967295) fromIntegral

-- | See 'int8'.
--
-- [Cost]: O(digits).
word64 :: Decoder Word64
word64 = bounded "Word64" (>= 0) fromIntegral

-- Most integers are small. Larger ones are read as an 'Integer' and compared.
bounded :: forall a. (Bounded a, Integral a) => String -> (Int -> Bool) -> (Int -> a) -> Decoder a
bounded name fits make = decoder $ \env p ->
  smallFrom env p >>= \case
    Small q n
      | fits n -> let !x = make n in pure (At q x)
      | otherwise -> failAt env p (OutOfRange name)
    NotSmall -> do
      At q n <- integerFrom (OutOfRange name) 40 env p
      if n < toInteger (minBound :: a) || n > toInteger (maxBound :: a)
        then failAt env p (OutOfRange name)
        else let !x = fromInteger n in pure (At q x)
{-# INLINE bounded #-}

-- | An integer of any size, within 'Heddle.Json.Options.limitExponent'.
--
-- [Cost]: O(digits) for few digits, counting those that the exponent adds.
integer :: Decoder Integer
integer = decoder $ \env p ->
  smallFrom env p >>= \case
    Small q n -> let !x = toInteger n in pure (At q x)
    NotSmall -> integerFrom (ExponentTooLarge (envExponent env)) (envExponent env) env p

-- | As 'integer', 0 or more.
--
-- [Cost]: as 'integer'.
natural :: Decoder Natural
natural = decoder $ \env p -> do
  At q n <- runDecoder integer env p
  if n < 0 then failAt env p (OutOfRange "Natural") else let !x = fromInteger n in pure (At q x)

-- | The nearest double. A number too large for a double is refused; one too small becomes 0.
--
-- [Cost]: O(digits).
double :: Decoder Double
double = decoder (doubleFrom (\env p -> wrongKind env p "a number"))

-- | The nearest float; too large and too small numbers as in 'double'.
--
-- [Cost]: O(digits).
float :: Decoder Float
float = decoder floatFrom

-- | As 'double', or an infinity or NaN as 'Heddle.Json.Options.limitNonFinite' allows. The instance of 'Double' is
-- this decoder.
--
-- [Cost]: as 'double'.
anyDouble :: Decoder Double
anyDouble = decoder (doubleFrom nonFiniteFrom)

-- | As 'anyDouble', for floats.
--
-- [Cost]: as 'float'.
anyFloat :: Decoder Float
anyFloat = decoder $ \env p -> do
  c <- byteAt env p
  if c == 0x6e || c == 0x22
    then do
      At q x <- nonFiniteFrom env p
      let !y = double2Float x
      pure (At q y)
    else floatFrom env p

-- | The exact value of a number: an integer and an exponent of ten.
--
-- [Cost]: O(digits) for few digits; the exponent adds nothing.
decimal :: Decoder (Integer, Int)
decimal = decoder scientificFrom

-- | A number as written: a slice, which keeps the whole input alive.
--
-- [Cost]: O(digits).
number :: Decoder ByteString
number = decoder numberText

-- | True or false.
--
-- [Cost]: O(1).
bool :: Decoder Bool
bool = decoder $ \env p -> do
  c <- byteAt env p
  if
      | c == 0x74 && envEnd env `minusPtr` p >= 4 -> do
        w <- peek (castPtr p)
        if w == (0x65757274 :: Word32) then pure (At (p `plusPtr` 4) True) else wrongKind env p "true or false"
      | c == 0x66 && envEnd env `minusPtr` p >= 5 -> do
        w <- peek (castPtr p `plusPtr` 1)
        if w == (0x65736c61 :: Word32) then pure (At (p `plusPtr` 5) False) else wrongKind env p "true or false"
      | otherwise -> wrongKind env p "true or false"

-- | Null.
--
-- [Cost]: O(1).
null_ :: Decoder ()
null_ = decoder $ \env p -> do
  here <- isNull env p
  if here then pure (At (p `plusPtr` 4) ()) else wrongKind env p "null"

isNull :: Env -> Ptr Word8 -> IO Bool
isNull env p
  | envEnd env `minusPtr` p >= 4 = (== (0x6c6c756e :: Word32)) <$> peek (castPtr p)
  | otherwise = pure False
{-# INLINE isNull #-}

-- | Any value; it is checked and dropped.
--
-- [Cost]: O(bytes).
skip :: Decoder ()
skip = decoder $ \env p -> do
  q <- skipValue env p
  pure (At q ())

-- | Any value as written: a slice, which keeps the whole input alive.
--
-- [Cost]: O(bytes).
raw :: Decoder ByteString
raw = decoder $ \env p -> do
  q <- skipValue env p
  pure (At q (inputSlice env p (q `minusPtr` p)))

-- | 'Nothing' for null; otherwise the decoder's result.
--
-- [Cost]: a comparison.
nullable :: Decoder a -> Decoder (Maybe a)
nullable d = decoder $ \env p -> do
  here <- isNull env p
  if here
    then pure (At (p `plusPtr` 4) Nothing)
    else do
      At q x <- runDecoder d env p
      pure (At q (Just x))
{-# INLINE nullable #-}

-- | The first decoder's result, or if it fails the second's.
--
-- [Cost]: if the first fails, the value is read twice.
eitherOf :: Decoder a -> Decoder b -> Decoder (Either a b)
eitherOf a b = (Left <$> a) <|> (Right <$> b)

-- | The kind of a value, by its first byte.
data Kind
  = -- | @null@
    KindNull
  | -- | @true@, @false@
    KindBool
  | -- | A digit or a minus.
    KindNumber
  | -- | A quote.
    KindString
  | -- | @[@
    KindArray
  | -- | @{@
    KindObject
  deriving stock (Bounded, Enum, Eq, Ord, Show)

-- | Select the decoder by the kind of the value.
--
-- [Cost]: a comparison or two.
byKind :: (Kind -> Decoder a) -> Decoder a
byKind choose = decoder $ \env p -> do
  c <- byteAt env p
  let go k = runDecoder (choose k) env p
  case c of
    0x6e -> go KindNull
    0x74 -> go KindBool
    0x66 -> go KindBool
    0x22 -> go KindString
    0x5b -> go KindArray
    0x7b -> go KindObject
    _
      | c == 0x2d || c - 0x30 < 10 -> go KindNumber
      | otherwise -> expected env p "a value"
{-# INLINE byKind #-}

-- | The kind of the value, which is checked and dropped.
--
-- [Cost]: O(bytes), for skipping it.
kind :: Decoder Kind
kind = byKind pure

-- | Check or convert a decoder's result; 'Left' refuses it with a reason. The error is reported at the
-- value's first byte.
--
-- [Cost]: the check's.
refine :: (a -> Either String b) -> Decoder a -> Decoder b
refine f d = decoder $ \env p -> do
  At q x <- runDecoder d env p
  case f x of
    Right !y -> pure (At q y)
    Left why -> failAt env p (Refused why)
{-# INLINE refine #-}
