{-# LANGUAGE DefaultSignatures #-}
{-# LANGUAGE EmptyCase #-}
{-# LANGUAGE FlexibleContexts #-}
{-# LANGUAGE FlexibleInstances #-}
{-# LANGUAGE KindSignatures #-}
{-# LANGUAGE TypeOperators #-}

-- |
-- Module      : Heddle.Bytes.Hash.Class
-- Description : Keyed hashes of any type
-- Stability   : stable
--
-- A value becomes a sequence of 64-bit words, which go through the rounds of SipHash-1-3. No value's
-- words are a prefix of those of another value of its type, so the words of a pair, a constructor or a
-- list determine where each part ends: see Note [Words of a value].
--
-- Cost: a round for each word (about 3 ns), three at the end (about 4 ns). Nothing is allocated if the
-- compiler knows the type, otherwise 40 bytes for each part.
-- Owner: values.
module Heddle.Bytes.Hash.Class
  ( -- * The class
    Hash (..),

    -- * Instances by hand
    Sip,
    absorbWord,
    absorbBytes,
    absorbList,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString.Lazy qualified as LazyByteString
import Data.ByteString.Short (ShortByteString)
import Data.ByteString.Short.Internal (ShortByteString (SBS))
import Data.Complex (Complex)
import Data.Foldable qualified as Foldable
import Data.Functor.Identity (Identity)
import Data.Int (Int16, Int32, Int64, Int8)
import Data.IntMap.Strict (IntMap)
import Data.IntMap.Strict qualified as IntMap
import Data.IntSet (IntSet)
import Data.IntSet qualified as IntSet
import Data.Kind (Type)
import Data.List.NonEmpty (NonEmpty)
import Data.Map.Strict (Map)
import Data.Map.Strict qualified as Map
import Data.Ord (Down)
import Data.Primitive.ByteArray (ByteArray (..), sizeofByteArray)
import Data.Proxy (Proxy (..))
import Data.Ratio (Ratio, denominator, numerator)
import Data.Sequence (Seq)
import Data.Sequence qualified as Seq
import Data.Set (Set)
import Data.Set qualified as Set
import Data.Text (Text)
import Data.Text.Lazy qualified as LazyText
import Data.Text.Short (ShortText, toShortByteString)
import Data.Void (Void)
import Data.Word (Word16, Word32, Word64, Word8)
import GHC.Float (castDoubleToWord64, castFloatToWord32)
import GHC.Generics
import Heddle.Bytes.Hash.String
import Heddle.Bytes.Internal.Foreign.Hash (endWords, hashWord)
import Heddle.Bytes.Internal.Limbs (Limbs (..), limbs)
import Heddle.Bytes.Internal.Sip (Sip, absorbWord, start)
import Heddle.Bytes.Internal.Utf8 (Utf8 (..))
import Heddle.Bytes.TextArray (textArray, unitSize)
import Numeric.Natural (Natural)

-- | Types with a keyed hash.
--
-- An instance for your type needs no code: derive 'Generic', and the class with @deriving anyclass@ or an
-- instance without methods.
--
-- > data MyType = MyStr String | MyInt Integer
-- >   deriving stock (Eq, Generic)
-- >   deriving anyclass (Hash)
--
-- Law (@equal@): equal values have equal hashes.
-- Law (@apart@): values whose parts are equal when joined, such as @("ab","c")@ and
-- @("a","bc")@, have independent hashes.
class Eq a => Hash a where
  -- | Absorb every part of the value that '==' compares.
  --
  -- [Cost]: a round of SipHash for each word of the value.
  absorb :: a -> Sip -> Sip
  default absorb :: (Generic a, Parts (Rep a)) => a -> Sip -> Sip
  absorb = absorbParts . from
  {-# INLINE absorb #-}

  -- | The hash under a key. An attacker without the key finds values with equal hashes only by chance, and
  -- cannot derive the hash of one value from those of others.
  --
  -- [Cost]: 6 ns for one word, about 4 ns for each further one; strings as 'sipHash13'. 0 bytes if the
  -- type is known.
  -- [Source]: O'Sullivan, "A major new release of the Haskell hashable library".
  --
  -- >>> hashWith (HashKey 1 2) ("ab", "c") == hashWith (HashKey 1 2) ("a", "bc")
  -- False
  hashWith :: HashKey -> a -> Word64
  hashWith key x = endWords (absorb x (start key))
  {-# INLINE hashWith #-}

-- | Absorb a string as one word: its hash, which starts from the present state.
--
-- [Cost]: as 'sipHash13', and 2 ns.
absorbBytes :: ByteString -> Sip -> Sip
absorbBytes bytes s = absorbWord (bytesFrom s bytes) s
{-# INLINE absorbBytes #-}

-- | Absorb a list, in one pass.
--
-- [Cost]: that of the elements, and four rounds.
absorbList :: Hash a => [a] -> Sip -> Sip
absorbList list s = absorbWord (go 0 list s) s
  where
    go :: Hash b => Word64 -> [b] -> Sip -> Word64
    go !n xs !t = case xs of
      [] -> hashWord n t
      x : rest -> go (n + 1) rest (absorb x t)
{-# INLINEABLE absorbList #-}

absorbIntegral :: Integral a => a -> Sip -> Sip
absorbIntegral n = absorbWord (fromIntegral n)
{-# INLINE absorbIntegral #-}

hashIntegral :: Integral a => HashKey -> a -> Word64
hashIntegral key n = hashWord (fromIntegral n) (start key)
{-# INLINE hashIntegral #-}

-- | Absorb the number of parts, and then the parts.
absorbCounted :: Int -> ((Sip -> x -> Sip) -> Sip -> t -> Sip) -> (x -> Sip -> Sip) -> t -> Sip -> Sip
absorbCounted size fold part parts s = fold (flip part) (absorbIntegral size s) parts
{-# INLINE absorbCounted #-}

-- A number is one word.

instance Hash Int where
  absorb = absorbIntegral
  hashWith = hashIntegral

instance Hash Int8 where
  absorb = absorbIntegral
  hashWith = hashIntegral

instance Hash Int16 where
  absorb = absorbIntegral
  hashWith = hashIntegral

instance Hash Int32 where
  absorb = absorbIntegral
  hashWith = hashIntegral

instance Hash Int64 where
  absorb = absorbIntegral
  hashWith = hashIntegral

instance Hash Word where
  absorb = absorbIntegral
  hashWith = hashIntegral

instance Hash Word8 where
  absorb = absorbIntegral
  hashWith = hashIntegral

instance Hash Word16 where
  absorb = absorbIntegral
  hashWith = hashIntegral

instance Hash Word32 where
  absorb = absorbIntegral
  hashWith = hashIntegral

instance Hash Word64 where
  absorb = absorbWord
  hashWith = hashIntegral

-- | Two words for a number that fits an 'Int'; otherwise its sign, and its magnitude as a string.
instance Hash Integer where
  absorb n s = case limbs n of
    Small small -> absorbIntegral small (absorbWord 0 s)
    Above array -> magnitude array (absorbWord 1 s)
    Below array -> magnitude array (absorbWord 2 s)
    where
      magnitude array t = absorbWord (arrayFrom t array 0 (sizeofByteArray array)) t

-- | As the same 'Integer'.
instance Hash Natural where
  absorb = absorb . toInteger

instance Hash Char where
  absorb = absorbIntegral . fromEnum
  hashWith key = hashIntegral key . fromEnum

-- | Both zeros have one hash, all NaNs another. No NaN equals itself: as keys of a table they cannot be
-- found again, and many of them make it slow.
instance Hash Double where
  absorb x
    | x == 0 = absorbWord 0
    | isNaN x = absorbWord 0x7ff8000000000000
    | otherwise = absorbWord (castDoubleToWord64 x)

-- | As for 'Double'.
instance Hash Float where
  absorb x
    | x == 0 = absorbWord 0
    | isNaN x = absorbWord 0x7fc00000
    | otherwise = absorbIntegral (castFloatToWord32 x)

instance Hash a => Hash (Ratio a) where
  absorb x = absorb (denominator x) . absorb (numerator x)
  {-# INLINEABLE absorb #-}

instance Hash a => Hash (Complex a)

-- A string is one word: its hash, which starts from the present state.

-- | Its hash is 'sipHash13'.
instance Hash ByteString where
  absorb = absorbBytes
  hashWith = sipHash13

-- | As the strict 'ByteString'.
instance Hash LazyByteString.ByteString where
  absorb bytes s = absorbWord (lazyFrom s bytes) s
  hashWith = sipHash13Lazy

-- | As the strict 'ByteString'.
instance Hash ShortByteString where
  absorb (SBS bytes) s = absorbWord (arrayFrom s array 0 (sizeofByteArray array)) s
    where
      array = ByteArray bytes
  hashWith key (SBS bytes) = arrayFrom (start key) array 0 (sizeofByteArray array)
    where
      array = ByteArray bytes

-- | Hashes its bytes in memory.
instance Hash Text where
  absorb text s = absorbWord (textFrom s text) s
  hashWith key = textFrom (start key)

-- | As the strict 'Text'.
instance Hash LazyText.Text where
  absorb text s = absorbWord (lazyTextFrom s text) s
  hashWith key = lazyTextFrom (start key)

-- | Hashes its UTF-8 bytes.
instance Hash ShortText where
  absorb = absorb . toShortByteString
  hashWith key = hashWith key . toShortByteString

-- | Hashes its bytes.
instance Hash Utf8 where
  absorb (Utf8 bytes) = absorbBytes bytes
  hashWith key (Utf8 bytes) = sipHash13 key bytes

textFrom :: Sip -> Text -> Word64
textFrom s text = case textArray text of
  (array, offset, len) -> arrayFrom s array (unitSize * offset) (unitSize * len)
{-# INLINE textFrom #-}

lazyTextFrom :: Sip -> LazyText.Text -> Word64
lazyTextFrom s text = case LazyText.toChunks text of
  [only] -> textFrom s only
  chunks -> arraysFrom s [(array, unitSize * offset, unitSize * len) | (array, offset, len) <- map textArray chunks]

-- Types with several parts.

instance Hash ()

instance Hash Void

instance Hash Bool where
  absorb = absorbIntegral . fromEnum

instance Hash Ordering where
  absorb = absorbIntegral . fromEnum

instance Hash a => Hash (Maybe a)

instance (Hash a, Hash b) => Hash (Either a b)

instance (Hash a, Hash b) => Hash (a, b)

instance (Hash a, Hash b, Hash c) => Hash (a, b, c)

instance (Hash a, Hash b, Hash c, Hash d) => Hash (a, b, c, d)

instance (Hash a, Hash b, Hash c, Hash d, Hash e) => Hash (a, b, c, d, e)

instance (Hash a, Hash b, Hash c, Hash d, Hash e, Hash f) => Hash (a, b, c, d, e, f)

instance (Hash a, Hash b, Hash c, Hash d, Hash e, Hash f, Hash g) => Hash (a, b, c, d, e, f, g)

instance Hash a => Hash (Identity a)

instance Hash a => Hash (Down a)

-- Containers: the number of elements, then the elements.

instance Hash a => Hash [a] where
  absorb = absorbList
  {-# INLINEABLE absorb #-}

instance Hash a => Hash (NonEmpty a)

instance Hash a => Hash (Seq a) where
  absorb xs = absorbCounted (Seq.length xs) Foldable.foldl' absorb xs
  {-# INLINEABLE absorb #-}

instance Hash a => Hash (Set a) where
  absorb xs = absorbCounted (Set.size xs) Set.foldl' absorb xs
  {-# INLINEABLE absorb #-}

instance (Hash k, Hash a) => Hash (Map k a) where
  absorb xs s = Map.foldlWithKey' (\t k x -> absorb x (absorb k t)) (absorbIntegral (Map.size xs) s) xs
  {-# INLINEABLE absorb #-}

instance Hash IntSet where
  absorb = absorbList . IntSet.toAscList

instance Hash a => Hash (IntMap a) where
  absorb = absorbList . IntMap.toAscList
  {-# INLINEABLE absorb #-}

-- | The parts of a 'Rep' of "GHC.Generics", for derived instances.
class Parts f where
  absorbParts :: f p -> Sip -> Sip

instance Parts V1 where
  absorbParts x = case x of {}

instance Parts U1 where
  absorbParts U1 = id
  {-# INLINE absorbParts #-}

instance Hash a => Parts (K1 i a) where
  absorbParts (K1 x) = absorb x
  {-# INLINE absorbParts #-}

instance (Parts f, Parts g) => Parts (f :*: g) where
  absorbParts (x :*: y) s = absorbParts y (absorbParts x s)
  {-# INLINE absorbParts #-}

instance (Choice f, Choice g) => Parts (f :+: g) where
  absorbParts = absorbChoice 0
  {-# INLINE absorbParts #-}

instance Parts f => Parts (M1 i c f) where
  absorbParts (M1 x) = absorbParts x
  {-# INLINE absorbParts #-}

-- | Several constructors: the constructor's number, then its parts.
class Choice (f :: Type -> Type) where
  absorbChoice :: Word64 -> f p -> Sip -> Sip

  -- | The number of constructors; only the argument's type counts.
  choices :: Proxy f -> Word64

instance (Choice f, Choice g) => Choice (f :+: g) where
  absorbChoice n choice = case choice of
    L1 x -> absorbChoice n x
    R1 x -> absorbChoice (n + choices (Proxy :: Proxy f)) x
  {-# INLINE absorbChoice #-}
  choices _ = choices (Proxy :: Proxy f) + choices (Proxy :: Proxy g)
  {-# INLINE choices #-}

instance Parts f => Choice (M1 C c f) where
  absorbChoice n (M1 x) s = absorbParts x (absorbWord n s)
  {-# INLINE absorbChoice #-}
  choices _ = 1
  {-# INLINE choices #-}

-- Note [Words of a value]
-- ~~~~~~~~~~~~~~~~~~~~~~~
-- The words of a constructor are those of its fields, one after the other; if the type has several
-- constructors, the constructor's number comes first. A number is one word. So no value's words are a
-- prefix of those of another value of its type, and different pairs of fields have different words. The
-- same holds for containers, since their size comes first.
--
-- A string is one word: its SipHash, starting from the state before it. Two strings have equal words with
-- the probability of any two hashes. A list is one word, too: its elements are absorbed into a copy of the
-- state, and their number last, where a finished hash ends. So a list is traversed once, and need not be
-- kept in memory to count it first.
--
-- SipHash's last word, with the length, is left out, because these words make it unnecessary. The rounds
-- and their number are SipHash-1-3's, and 'absorbWord' runs a round after each word: a value of one word
-- takes four rounds, as a string of up to 7 bytes does.
