{-# LANGUAGE DataKinds #-}

-- |
-- Module      : Heddle.Json.Build
-- Description : Encoders whose types guarantee valid JSON
-- Stability   : stable
--
-- Values are written as bytes at once, without a tree. The type gives the number and the kind of the
-- values, and so /every well-typed 'Build' is valid JSON/:
--
-- >>> toByteString . encode . array $ int 1 <> int 2
-- "[1,2]"
--
-- >>> toByteString . encode . array $ mixed (int 1) <> mixed (text "foo")
-- "[1,\"foo\"]"
--
-- >>> toByteString . encode . object $ "foo" <:> int 1 <> "bar" <:> int 3
-- "{\"foo\":1,\"bar\":3}"
--
-- A single value can be a document, the value of a key, or one of many; several joined values cannot be
-- one. Type errors are: joining elements of different kinds without 'mixed', a key with several values,
-- an object with anything but pairs. (Duplicate keys are not checked.)
--
-- Cost: a comparison for each piece; no allocation where the pieces are known.
-- Owner: values, which may be run again.
module Heddle.Json.Build
  ( -- * Values
    Build,
    Card (..),
    encode,

    -- ** Scalars
    null_,
    bool,
    int,
    double,
    float,
    decimal,

    -- ** Strings
    text,
    lazyText,
    string,
    utf8,

    -- * Arrays
    array,
    Arr,
    arrayOf,
    mixed,
    Mixed,

    -- * Objects
    object,
    Obj,
    Fields,
    (<:>),
    Name,
    nameText,
    nameString,

    -- * Existing JSON
    Encoded,
    encoded,
    checked,
    encodedBytes,
    embedded,
  )
where

import Data.ByteString (ByteString)
import Data.Int (Int16, Int32, Int64, Int8)
import Data.Text (Text)
import Data.Text.Lazy qualified as Lazy
import Data.Word (Word16, Word32, Word64, Word8)
import Foreign.Ptr (plusPtr)
import Foreign.Storable (poke, pokeByteOff)
import GHC.Float (float2Double)
import Heddle.Bytes.Decimal (maxDecimalLength, pokeDecimal, pokeUnsigned)
import Heddle.Bytes.Double (maxDoubleLength, maxFloatLength, pokeDouble, pokeFloat)
import Heddle.Bytes.Put (slice, toByteString)
import Heddle.Bytes.Put qualified as Put (integer)
import Heddle.Bytes.Put.Sink (Put, Sink, runPut, sinkPolicy)
import Heddle.Bytes.TextArray (textArray)
import Heddle.Json.Check (check)
import Heddle.Json.Internal.Build
import Heddle.Json.Internal.Escape (putChars, putChunks, putUnits, putUtf8)
import Heddle.Json.Malformed (Malformed)
import Heddle.Json.Options (Limits, NonFinite (..))
import Heddle.Prim.AddrState (AddrState, At (..), addrState, runAddrState)
import Numeric.Natural (Natural)

-- | The bytes of one value.
--
-- [Cost]: those of the value.
--
-- Law (@valid@): they are valid JSON, whatever the value consists of.
encode :: Build 'One a -> Put
encode (Build f) = putting (f First)
{-# INLINE encode #-}

-- | @null@.
--
-- [Cost]: a piece.
null_ :: Build c ()
null_ = Build putNull
{-# INLINE null_ #-}

putNull :: Steps
putNull = piece 8 (\p -> p `plusPtr` 4 <$ pokeByteOff p 0 (0x6c6c756e :: Word32))
{-# NOINLINE putNull #-}

-- | @true@ or @false@.
--
-- [Cost]: a piece.
bool :: Bool -> Build c Bool
bool b = Build (putBool b)
{-# INLINE bool #-}

putBool :: Bool -> Steps
putBool b = piece 8 $ \p ->
  if b
    then p `plusPtr` 4 <$ pokeByteOff p 0 (0x65757274 :: Word64)
    else p `plusPtr` 5 <$ pokeByteOff p 0 (0x65736c6166 :: Word64)
{-# NOINLINE putBool #-}

-- | A whole number of any type, with all its digits.
--
-- [Cost]: a piece; of a number of more than 64 bits, that of 'Heddle.Bytes.Put.integer'.
--
-- Law (@int@): the bytes are those of 'show'.
int :: Integral n => n -> Build c n
int n = Build (putIntegral n)
{-# INLINE int #-}

putIntegral :: Integral n => n -> Steps
putIntegral = putInteger . toInteger
{-# NOINLINE [1] putIntegral #-}

{-# RULES
"JSON Int" putIntegral = putInt
"JSON Int8" forall (n :: Int8). putIntegral n = putInt (fromIntegral n)
"JSON Int16" forall (n :: Int16). putIntegral n = putInt (fromIntegral n)
"JSON Int32" forall (n :: Int32). putIntegral n = putInt (fromIntegral n)
"JSON Int64" forall (n :: Int64). putIntegral n = putInt (fromIntegral n)
"JSON Word8" forall (n :: Word8). putIntegral n = putInt (fromIntegral n)
"JSON Word16" forall (n :: Word16). putIntegral n = putInt (fromIntegral n)
"JSON Word32" forall (n :: Word32). putIntegral n = putInt (fromIntegral n)
"JSON Word64" forall (n :: Word64). putIntegral n = putWord (fromIntegral n)
"JSON Word" putIntegral = putWord
"JSON Integer" putIntegral = putInteger
"JSON Natural" forall (n :: Natural). putIntegral n = putInteger (toInteger n)
  #-}

{- HLINT ignore "Eta reduce" -}
-- Taking all arguments at once keeps the numbers unboxed.

putInt :: Int -> Steps
putInt !n before = piece maxDecimalLength (`pokeDecimal` n) before
{-# NOINLINE putInt #-}

putWord :: Word -> Steps
putWord !n before = piece maxDecimalLength (`pokeUnsigned` fromIntegral n) before
{-# NOINLINE putWord #-}

putInteger :: Integer -> Steps
putInteger n before
  | n <= toInteger (maxBound :: Int) && n >= toInteger (minBound :: Int) = putInt (fromInteger n) before
  | otherwise = steps (embedding (Put.integer n)) before
{-# NOINLINE putInteger #-}

-- | A double in the shortest form that reads back the same. Infinities and NaN, for which JSON has no number, become
-- @null@, or strings under 'Heddle.Json.Options.NonFiniteStrings'.
--
-- [Cost]: a piece.
--
-- Law (@round trip@): a finite double is read back as the same double.
double :: Double -> Build c Double
double x = Build (putDouble x)
{-# INLINE double #-}

putDouble :: Double -> Steps
putDouble !x before
  -- The difference is 0 for finite numbers, NaN for infinities and NaN.
  | x - x == 0 = piece maxDoubleLength (`pokeDouble` x) before
  | otherwise = putNonFinite x before
{-# NOINLINE putDouble #-}

-- | Write an infinity or NaN by the sink's policy.
putNonFinite :: Double -> Steps
putNonFinite x before = addrState $ \sink p -> do
  policy <- sinkPolicy sink
  runAddrState (if policy == fromEnum NonFiniteStrings then quoted else putNull before) sink p
  where
    -- 'pokeDouble' writes @NaN@, @Infinity@ and @-Infinity@.
    quoted = piece (maxDoubleLength + 2) inQuotes before
    inQuotes p = do
      poke p 0x22
      end <- pokeDouble (p `plusPtr` 1) x
      poke end 0x22
      pure (end `plusPtr` 1)
{-# NOINLINE putNonFinite #-}

-- | A float in the shortest form that reads back the same; infinities and NaN as in 'double'.
--
-- [Cost]: a piece.
float :: Float -> Build c Float
float x = Build (putFloat x)
{-# INLINE float #-}

putFloat :: Float -> Steps
putFloat !x before
  | x - x == 0 = piece maxFloatLength (`pokeFloat` x) before
  | otherwise = putNonFinite (float2Double x) before
{-# NOINLINE putFloat #-}

-- | @decimal m e@ is exactly m times ten to the power of e; the exponent is written as given.
--
-- [Cost]: two pieces.
--
-- >>> toByteString . encode $ decimal 125 (-2)
-- "125e-2"
decimal :: Integer -> Int -> Build c Integer
decimal mantissa 0 = Build (putInteger mantissa)
decimal mantissa power = Build (\before -> putInteger mantissa before *> (Next <$ behind))
  where
    behind = addrState $ \sink p0 -> do
      p <- room sink (1 + maxDecimalLength) p0
      poke p 0x65
      end <- pokeDecimal (p `plusPtr` 1) power
      pure (At end ())

-- | A string.
--
-- [Cost]: a foreign call; linear in the text.
text :: Text -> Build c Text
text t = case textArray t of (units, offset, len) -> Build (steps (putUnits units offset len))
{-# INLINE text #-}

-- | A string in chunks, which are forced one by one as they are written.
--
-- [Cost]: a foreign call for each chunk; linear in the text.
lazyText :: Lazy.Text -> Build c Lazy.Text
lazyText t = Build (steps (putChunks [textArray chunk | chunk <- Lazy.toChunks t]))

-- | A string from a list of characters; halves of surrogate pairs become U+FFFD.
--
-- [Cost]: linear in the text, character by character.
string :: String -> Build c String
string = Build . steps . putChars
{-# INLINE string #-}

-- | Bytes of UTF-8 as a string; each maximal part of an ill-formed sequence becomes U+FFFD, as
-- in browsers, so any bytes give valid JSON.
--
-- [Cost]: a foreign call for each 32 KiB; linear in the text.
utf8 :: ByteString -> Build c Text
utf8 = Build . steps . putUtf8
{-# INLINE utf8 #-}

-- | The kind of arrays of @a@.
data Arr a

-- | The kind of objects.
data Obj

-- | The kind of values whose kinds may differ.
data Mixed

-- | An array of these values.
--
-- [Cost]: two pieces besides the values.
array :: Build 'Many a -> Build c (Arr a)
array (Build f) = Build (\before -> open 0x5b before *> f First *> close 0x5d)
{-# INLINE array #-}

-- | The array of the elements of a list: @arrayOf f@ is @array . foldMap f@.
--
-- [Cost]: two pieces besides the elements.
arrayOf :: (x -> Build 'One a) -> [x] -> Build c (Arr a)
arrayOf f xs = Build $ \before -> open 0x5b before *> elements xs
  where
    elements all_ = addrState $ \sink p0 -> do
      let go [] !p !_ = runAddrState (close 0x5d) sink p
          go (y : ys) p before = do
            At end _ <- case f y of Build g -> runAddrState (g before) sink p
            go ys end Next
      go all_ p0 First
{-# INLINE arrayOf #-}

-- | The same values without their kind.
--
-- [Cost]: none.
mixed :: Build c a -> Build c Mixed
mixed = retyped
{-# INLINE mixed #-}

infixr 7 <:>

-- | A key and its value.
--
-- [Cost]: a piece, and the value's; the bytes of a literal key are made once.
(<:>) :: Name -> Build 'One a -> Fields
name <:> Build f = Fields (putField name f)
{-# INLINE (<:>) #-}

-- | An object of these pairs.
--
-- [Cost]: two pieces besides the pairs.
object :: Fields -> Build c Obj
object (Fields f) = Build (\before -> open 0x7b before *> f First *> close 0x7d)
{-# INLINE object #-}

-- | The bytes of one value, valid JSON.
newtype Encoded a = Encoded ByteString
  deriving stock (Eq, Show)

-- | Encode a value once, to write it several times.
--
-- [Cost]: those of the value; the bytes.
encoded :: Build 'One a -> Encoded a
encoded = Encoded . toByteString . encode

-- | JSON from elsewhere, if it is valid. White space around it is kept.
--
-- [Cost]: that of 'check'.
checked :: Limits -> ByteString -> Either Malformed (Encoded Mixed)
checked limits bytes = Encoded bytes <$ check limits bytes

-- | The bytes.
--
-- [Cost]: none.
encodedBytes :: Encoded a -> ByteString
encodedBytes (Encoded bytes) = bytes
{-# INLINE encodedBytes #-}

-- | A value that was encoded before.
--
-- [Cost]: a copy.
embedded :: Encoded a -> Build c a
embedded (Encoded bytes) = Build (steps (embedding (slice bytes)))

-- | A builder of heddle-bytes as a writer of this package.
embedding :: Put -> AddrState Sink ()
embedding put = addrState (\sink p -> (`At` ()) <$> runPut put sink p)
{-# INLINE embedding #-}
