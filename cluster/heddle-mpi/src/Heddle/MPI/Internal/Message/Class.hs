{-# LANGUAGE AllowAmbiguousTypes #-}
{-# LANGUAGE DefaultSignatures #-}
{-# LANGUAGE FlexibleContexts #-}
{-# LANGUAGE FlexibleInstances #-}
{-# LANGUAGE GeneralizedNewtypeDeriving #-}
{-# LANGUAGE StandaloneDeriving #-}
{-# LANGUAGE TypeApplications #-}
{-# LANGUAGE TypeOperators #-}

-- |
-- Module      : Heddle.MPI.Internal.Message.Class
-- Description : The class of values that are messages, and its instances
-- Stability   : internal, exempt from the version policy
--
-- Instances for the types of GHC's and Debian's libraries, and a codec for every type
-- with a 'Generic' instance.
--
-- Owner: nothing is stored.
-- Cost: that of the codecs; a record of fields of fixed size is one of fixed size.
module Heddle.MPI.Internal.Message.Class
  ( Message (..),
    GMessage,
    genericCodec,
    Serialized (..),
    AsBinary (..),
  )
where

import Data.Array (Array)
import Data.Array.Unboxed (IArray, Ix, UArray)
import Data.Binary (Binary)
import Data.ByteString (ByteString)
import Data.ByteString.Lazy qualified as Lazy
import Data.ByteString.Short (ShortByteString)
import Data.Complex (Complex)
import Data.Fixed qualified as Fixed
import Data.Functor.Const (Const (..))
import Data.Functor.Identity (Identity (..))
import Data.Int (Int16, Int32, Int64, Int8)
import Data.IntMap.Strict (IntMap)
import Data.IntMap.Strict qualified as IntMap
import Data.IntSet (IntSet)
import Data.IntSet qualified as IntSet
import Data.List.NonEmpty (NonEmpty)
import Data.Map.Strict (Map)
import Data.Map.Strict qualified as Map
import Data.Monoid qualified as Monoid
import Data.Ord (Down (..))
import Data.Primitive.ByteArray (ByteArray)
import Data.Primitive.PrimArray (PrimArray)
import Data.Primitive.Types (Prim)
import Data.Proxy (Proxy (..))
import Data.Ratio (Ratio)
import Data.Semigroup qualified as Semigroup
import Data.Sequence (Seq)
import Data.Sequence qualified as Seq
import Data.Serialize (Serialize)
import Data.Set (Set)
import Data.Set qualified as Set
import Data.Text (Text)
import Data.Vector qualified as Vector
import Data.Vector.Primitive qualified as Primitive
import Data.Vector.Storable qualified as Storable
import Data.Vector.Unboxed qualified as Unboxed
import Data.Vector.Unboxed.Base qualified as Unboxed
import Data.Void (Void)
import Data.Word (Word16, Word32, Word64, Word8)
import Foreign.C.Types
import Foreign.Ptr (Ptr, castPtr, plusPtr)
import Foreign.Storable (Storable, peek, poke)
import GHC.Generics
import Heddle.MPI.Internal.Message.Bytes
import Heddle.MPI.Internal.Message.Codec
import Heddle.MPI.Internal.Message.Elements
import Heddle.MPI.Internal.Message.Scalars
import Numeric.Natural (Natural)

-- | Values that travel as one message.
--
-- For a user-defined type the default suffices:
--
-- > data Reading = Reading {station :: Text, celsius :: Double}
-- >   deriving stock (Generic)
-- >   deriving anyclass (Message)
--
-- A newtype can use the codec of the wrapped type: @deriving newtype (Message)@.
class Message a where
  -- | The way in which a value is written and read.
  --
  -- Law (@round trip@): decoding an encoded value gives an equal value.
  codec :: Codec a
  default codec :: (Generic a, GMessage (Rep a)) => Codec a
  codec = genericCodec
  {-# INLINE codec #-}

-- | The codec of an algebraic data type: the fields in order, after the constructor's
-- number (one byte, or two if there are more than 256) where there are several.
--
-- [Cost]: that of the fields.
genericCodec :: (Generic a, GMessage (Rep a)) => Codec a
genericCodec = generically from to
{-# INLINE genericCodec #-}

-- | Representations of algebraic data types.
class GMessage f where
  -- | Takes the conversions to and from the representation. It does not use 'mapCodec', which
  -- in a recursive type would inspect a codec that is still being defined.
  generically :: (a -> f ()) -> (f () -> a) -> Codec a

instance GMessage (D1 d V1) where
  generically _ _ = emptyCodec
  {-# INLINE generically #-}

instance GFields f => GMessage (D1 d (C1 c f)) where
  generically there back = case fieldsFixed @f of
    Just n ->
      Fixed
        n
        (\at x -> case there x of M1 (M1 fields) -> fieldsPoke at fields)
        (\at -> fieldsPeek at >>= \fields -> pure $! back (M1 (M1 fields)))
    Nothing ->
      Varying
        (\x -> case there x of M1 (M1 fields) -> fieldsMeasured fields)
        (\w x -> case there x of M1 (M1 fields) -> fieldsWritten w fields)
        (\r -> fieldsReceived r >>= \fields -> pure $! back (M1 (M1 fields)))
  {-# INLINE generically #-}

instance (Datatype d, GSum f, GSum g) => GMessage (D1 d (f :+: g)) where
  generically there back
    -- Every constructor is without fields.
    | sumPlain @(f :+: g) =
      Fixed
        width
        (\at x -> case there x of M1 one -> pokeTag narrow at (sumTag one))
        (\at -> peekTag at >>= sumPeek at >>= \one -> pure $! back (M1 one))
    | otherwise =
      Varying
        (\x -> case there x of M1 one -> width + sumMeasured one)
        (\w x -> case there x of M1 one -> sumWritten narrow w 0 one)
        (\r -> consume r width >>= peekTag >>= sumReceived r >>= \one -> pure $! back (M1 one))
    where
      count = sumCount @(f :+: g)
      narrow = count <= 256
      width = if narrow then 1 else 2
      peekTag at = do
        tag <-
          if narrow
            then fromIntegral <$> (peek at :: IO Word8)
            else fromIntegral <$> (peek (castPtr at) :: IO Word16)
        if tag < count
          then pure tag
          else refuse at (constructorExpected (datatypeName (M1 Proxy :: D1 d Proxy ())) count tag)
  {-# INLINE generically #-}

pokeTag :: Bool -> Ptr Word8 -> Int -> IO ()
pokeTag narrow at tag
  | narrow = poke at (fromIntegral tag :: Word8)
  | otherwise = poke (castPtr at) (fromIntegral tag :: Word16)
{-# INLINE pokeTag #-}

constructorExpected :: String -> Int -> Int -> String
constructorExpected name count tag =
  "expected a constructor of " ++ name ++ ", 0 to " ++ show (count - 1) ++ ", found " ++ show tag
{-# NOINLINE constructorExpected #-}

-- | Alternatives. The first three methods do not inspect the fields' codecs.
class GSum f where
  sumCount :: Int
  sumPlain :: Bool
  sumTag :: f p -> Int
  sumMeasured :: f p -> Int

  -- | In one pass with the number of the constructor, counted from the given one: the
  -- representation is then never built.
  sumWritten :: Bool -> Writer -> Int -> f p -> IO ()

  sumReceived :: Reader -> Int -> IO (f p)
  sumPeek :: Ptr Word8 -> Int -> IO (f p)

instance (GSum f, GSum g) => GSum (f :+: g) where
  sumCount = sumCount @f + sumCount @g
  {-# INLINE sumCount #-}
  sumPlain = sumPlain @f && sumPlain @g
  {-# INLINE sumPlain #-}
  sumTag = \case
    L1 x -> sumTag x
    R1 x -> sumCount @f + sumTag x
  {-# INLINE sumTag #-}
  sumMeasured = \case
    L1 x -> sumMeasured x
    R1 x -> sumMeasured x
  {-# INLINE sumMeasured #-}
  sumWritten narrow w tag = \case
    L1 x -> sumWritten narrow w tag x
    R1 x -> sumWritten narrow w (tag + sumCount @f) x
  {-# INLINE sumWritten #-}
  sumReceived r tag
    | tag < sumCount @f = L1 <$> sumReceived r tag
    | otherwise = R1 <$> sumReceived r (tag - sumCount @f)
  {-# INLINE sumReceived #-}
  sumPeek at tag
    | tag < sumCount @f = L1 <$> sumPeek at tag
    | otherwise = R1 <$> sumPeek at (tag - sumCount @f)
  {-# INLINE sumPeek #-}

instance GFields f => GSum (C1 c f) where
  sumCount = 1
  {-# INLINE sumCount #-}
  sumPlain = fieldsNone @f
  {-# INLINE sumPlain #-}
  sumTag _ = 0
  {-# INLINE sumTag #-}
  sumMeasured (M1 x) = fieldsMeasured x
  {-# INLINE sumMeasured #-}
  sumWritten narrow w tag (M1 x) = do
    at <- claim w (if narrow then 1 else 2)
    pokeTag narrow at tag
    fieldsWritten w x
  {-# INLINE sumWritten #-}
  sumReceived r _ = M1 <$> fieldsReceived r
  {-# INLINE sumReceived #-}
  sumPeek at _ = M1 <$> fieldsPeek at
  {-# INLINE sumPeek #-}

-- | Fields of one constructor.
class GFields f where
  fieldsNone :: Bool

  -- | The size of all fields together, if each has a fixed size.
  fieldsFixed :: Maybe Int

  fieldsPoke :: Ptr Word8 -> f p -> IO ()
  fieldsPeek :: Ptr Word8 -> IO (f p)
  fieldsMeasured :: f p -> Int
  fieldsWritten :: Writer -> f p -> IO ()
  fieldsReceived :: Reader -> IO (f p)

instance GFields U1 where
  fieldsNone = True
  {-# INLINE fieldsNone #-}
  fieldsFixed = Just 0
  {-# INLINE fieldsFixed #-}
  fieldsPoke _ U1 = pure ()
  {-# INLINE fieldsPoke #-}
  fieldsPeek _ = pure U1
  {-# INLINE fieldsPeek #-}
  fieldsMeasured _ = 0
  {-# INLINE fieldsMeasured #-}
  fieldsWritten _ U1 = pure ()
  {-# INLINE fieldsWritten #-}
  fieldsReceived _ = pure U1
  {-# INLINE fieldsReceived #-}

instance (GFields f, GFields g) => GFields (f :*: g) where
  fieldsNone = False
  {-# INLINE fieldsNone #-}
  fieldsFixed = case fieldsFixed @f of
    Nothing -> Nothing
    Just m -> case fieldsFixed @g of
      Nothing -> Nothing
      Just n -> Just (m + n)
  {-# INLINE fieldsFixed #-}
  fieldsPoke at (x :*: y) = fieldsPoke at x >> fieldsPoke (fieldsAfter @f at) y
  {-# INLINE fieldsPoke #-}
  fieldsPeek at = (:*:) <$> fieldsPeek at <*> fieldsPeek (fieldsAfter @f at)
  {-# INLINE fieldsPeek #-}
  fieldsMeasured (x :*: y) = fieldsMeasured x + fieldsMeasured y
  {-# INLINE fieldsMeasured #-}
  fieldsWritten w (x :*: y) = fieldsWritten w x >> fieldsWritten w y
  {-# INLINE fieldsWritten #-}
  fieldsReceived r = (:*:) <$> fieldsReceived r <*> fieldsReceived r
  {-# INLINE fieldsReceived #-}

-- | The address after fields of fixed size.
fieldsAfter :: forall f. GFields f => Ptr Word8 -> Ptr Word8
fieldsAfter at = maybe at (at `plusPtr`) (fieldsFixed @f)
{-# INLINE fieldsAfter #-}

instance Message a => GFields (S1 s (Rec0 a)) where
  fieldsNone = False
  {-# INLINE fieldsNone #-}
  fieldsFixed = case codec @a of
    Fixed n _ _ -> Just n
    _ -> Nothing
  {-# INLINE fieldsFixed #-}
  fieldsPoke at (M1 (K1 x)) = case codec of
    Fixed _ put _ -> put at x
    _ -> notFixed
  {-# INLINE fieldsPoke #-}
  fieldsPeek at = case codec of
    Fixed _ _ get -> get at >>= \x -> pure (M1 (K1 x))
    _ -> notFixed
  {-# INLINE fieldsPeek #-}
  fieldsMeasured (M1 (K1 x)) = measured codec x
  {-# INLINE fieldsMeasured #-}
  fieldsWritten w (M1 (K1 x)) = written codec w x
  {-# INLINE fieldsWritten #-}
  fieldsReceived r = received codec r >>= \x -> pure (M1 (K1 x))
  {-# INLINE fieldsReceived #-}

-- Never run, because 'fieldsFixed' is checked first.
notFixed :: a
notFixed = errorWithoutStackTrace "Heddle.MPI.Message: a field of varying size"
{-# NOINLINE notFixed #-}

-- | A value in the encoding of cereal's 'Serialize'. It is written once, and a large one is
-- sent as the whole message without a further copy. Malformed messages are decoded by cereal:
-- its exceptions are caught, but a long list of values without bytes is not detected.
newtype Serialized a = Serialized
  { -- | The value.
    serialized :: a
  }
  deriving stock (Eq, Ord, Show)

instance Serialize a => Message (Serialized a) where
  codec = mapCodec Serialized serialized serializeCodec
  {-# INLINE codec #-}

-- | A value in the encoding of binary's 'Binary'. Malformed messages are decoded by binary:
-- its exceptions are caught, but a long list of values without bytes is not detected.
newtype AsBinary a = AsBinary
  { -- | The value.
    asBinary :: a
  }
  deriving stock (Eq, Ord, Show)

instance Binary a => Message (AsBinary a) where
  codec = mapCodec AsBinary asBinary binaryCodec
  {-# INLINE codec #-}

-- Scalars

instance Message Bool where
  codec = boolCodec
  {-# INLINE codec #-}

instance Message Char where
  codec = charCodec
  {-# INLINE codec #-}

instance Message Int8 where
  codec = storableCodec
  {-# INLINE codec #-}

instance Message Int16 where
  codec = storableCodec
  {-# INLINE codec #-}

instance Message Int32 where
  codec = storableCodec
  {-# INLINE codec #-}

instance Message Int64 where
  codec = storableCodec
  {-# INLINE codec #-}

instance Message Word8 where
  codec = storableCodec
  {-# INLINE codec #-}

instance Message Word16 where
  codec = storableCodec
  {-# INLINE codec #-}

instance Message Word32 where
  codec = storableCodec
  {-# INLINE codec #-}

instance Message Word64 where
  codec = storableCodec
  {-# INLINE codec #-}

instance Message Float where
  codec = storableCodec
  {-# INLINE codec #-}

instance Message Double where
  codec = storableCodec
  {-# INLINE codec #-}

instance Message Int where
  codec = wideCodec fromIntegral fromIntegral
  {-# INLINE codec #-}

instance Message Word where
  codec = wideCodec fromIntegral fromIntegral
  {-# INLINE codec #-}

instance Message Integer where
  codec = integerCodec
  {-# INLINE codec #-}

instance Message Natural where
  codec = naturalCodec
  {-# INLINE codec #-}

instance (Integral a, Message a) => Message (Ratio a) where
  codec = ratioCodec codec
  {-# INLINE codec #-}

deriving newtype instance Message CChar

deriving newtype instance Message CSChar

deriving newtype instance Message CUChar

deriving newtype instance Message CShort

deriving newtype instance Message CUShort

deriving newtype instance Message CInt

deriving newtype instance Message CUInt

deriving newtype instance Message CLong

deriving newtype instance Message CULong

deriving newtype instance Message CLLong

deriving newtype instance Message CULLong

deriving newtype instance Message CSize

deriving newtype instance Message CPtrdiff

deriving newtype instance Message CBool

deriving newtype instance Message CFloat

deriving newtype instance Message CDouble

deriving newtype instance Message CIntPtr

deriving newtype instance Message CUIntPtr

deriving newtype instance Message CIntMax

deriving newtype instance Message CUIntMax

deriving newtype instance Message CTime

-- Algebraic types

instance Message () where
  codec = genericCodec
  {-# INLINE codec #-}

instance Message Ordering where
  codec = genericCodec
  {-# INLINE codec #-}

instance Message Void where
  codec = genericCodec
  {-# INLINE codec #-}

instance Message (Proxy a) where
  codec = genericCodec
  {-# INLINE codec #-}

instance Message a => Message (Complex a) where
  codec = genericCodec
  {-# INLINE codec #-}

instance Message a => Message (Maybe a) where
  codec = genericCodec
  {-# INLINE codec #-}

instance (Message a, Message b) => Message (Either a b) where
  codec = genericCodec
  {-# INLINE codec #-}

instance Message a => Message (NonEmpty a) where
  codec = genericCodec
  {-# INLINE codec #-}

instance (Message a, Message b) => Message (a, b) where
  codec = genericCodec
  {-# INLINE codec #-}

instance (Message a, Message b, Message c) => Message (a, b, c) where
  codec = genericCodec
  {-# INLINE codec #-}

instance (Message a, Message b, Message c, Message d) => Message (a, b, c, d) where
  codec = genericCodec
  {-# INLINE codec #-}

instance (Message a, Message b, Message c, Message d, Message e) => Message (a, b, c, d, e) where
  codec = genericCodec
  {-# INLINE codec #-}

instance (Message a, Message b, Message c, Message d, Message e, Message f) => Message (a, b, c, d, e, f) where
  codec = genericCodec
  {-# INLINE codec #-}

instance (Message a, Message b, Message c, Message d, Message e, Message f, Message g) => Message (a, b, c, d, e, f, g) where
  codec = genericCodec
  {-# INLINE codec #-}

-- Newtypes

deriving newtype instance Message a => Message (Identity a)

deriving newtype instance Message a => Message (Down a)

deriving newtype instance Message a => Message (Monoid.Dual a)

deriving newtype instance Message a => Message (Monoid.Sum a)

deriving newtype instance Message a => Message (Monoid.Product a)

deriving newtype instance Message a => Message (Monoid.First a)

deriving newtype instance Message a => Message (Monoid.Last a)

deriving newtype instance Message a => Message (Semigroup.First a)

deriving newtype instance Message a => Message (Semigroup.Last a)

deriving newtype instance Message a => Message (Semigroup.Min a)

deriving newtype instance Message a => Message (Semigroup.Max a)

deriving newtype instance Message a => Message (Const a b)

deriving newtype instance Message Monoid.All

deriving newtype instance Message Monoid.Any

deriving newtype instance Message (Fixed.Fixed e)

-- Lists and containers

instance Message a => Message [a] where
  codec = listCodec codec
  {-# INLINE codec #-}

instance Message a => Message (Seq a) where
  codec = elementsCodec Seq.length (foldr (:) []) (const Seq.fromList) codec
  {-# INLINE codec #-}

instance (Ord k, Message k, Message v) => Message (Map k v) where
  codec = elementsCodec Map.size Map.toAscList (const Map.fromList) codec
  {-# INLINE codec #-}

instance (Ord a, Message a) => Message (Set a) where
  codec = elementsCodec Set.size Set.toAscList (const Set.fromList) codec
  {-# INLINE codec #-}

instance Message a => Message (IntMap a) where
  codec = elementsCodec IntMap.size IntMap.toAscList (const IntMap.fromList) codec
  {-# INLINE codec #-}

instance Message IntSet where
  codec = elementsCodec IntSet.size IntSet.toAscList (const IntSet.fromList) codec
  {-# INLINE codec #-}

instance (Ix i, Message i, Message e) => Message (Array i e) where
  codec = arrayCodec codec codec
  {-# INLINE codec #-}

instance (Ix i, IArray UArray e, Message i, Message e) => Message (UArray i e) where
  codec = arrayCodec codec codec
  {-# INLINE codec #-}

instance Message a => Message (Vector.Vector a) where
  codec = elementsCodec Vector.length Vector.toList Vector.fromListN codec
  {-# INLINE codec #-}

-- Runs of bytes

instance Message ByteString where
  codec = bytesCodec
  {-# INLINE codec #-}

instance Message Lazy.ByteString where
  codec = lazyBytesCodec codec
  {-# INLINE codec #-}

instance Message ShortByteString where
  codec = shortBytesCodec
  {-# INLINE codec #-}

instance Message Text where
  codec = textCodec
  {-# INLINE codec #-}

instance Message ByteArray where
  codec = byteArrayCodec
  {-# INLINE codec #-}

instance Prim a => Message (PrimArray a) where
  codec = primArrayCodec
  {-# INLINE codec #-}

instance Storable a => Message (Storable.Vector a) where
  codec = storableVectorCodec
  {-# INLINE codec #-}

instance Prim a => Message (Primitive.Vector a) where
  codec = primitiveVectorCodec
  {-# INLINE codec #-}

-- | Elements one after the other, inside the header. The vectors of numbers below have
-- instances of their own; a function for any type of elements takes
-- @Message (Vector a)@ as its context.
instance {-# OVERLAPPABLE #-} (Unboxed.Unbox a, Message a) => Message (Unboxed.Vector a) where
  codec = unboxedCodec codec
  {-# INLINE codec #-}

instance Message (Unboxed.Vector Int) where
  codec = mapCodec Unboxed.V_Int (\(Unboxed.V_Int xs) -> xs) primitiveVectorCodec
  {-# INLINE codec #-}

instance Message (Unboxed.Vector Int8) where
  codec = mapCodec Unboxed.V_Int8 (\(Unboxed.V_Int8 xs) -> xs) primitiveVectorCodec
  {-# INLINE codec #-}

instance Message (Unboxed.Vector Int16) where
  codec = mapCodec Unboxed.V_Int16 (\(Unboxed.V_Int16 xs) -> xs) primitiveVectorCodec
  {-# INLINE codec #-}

instance Message (Unboxed.Vector Int32) where
  codec = mapCodec Unboxed.V_Int32 (\(Unboxed.V_Int32 xs) -> xs) primitiveVectorCodec
  {-# INLINE codec #-}

instance Message (Unboxed.Vector Int64) where
  codec = mapCodec Unboxed.V_Int64 (\(Unboxed.V_Int64 xs) -> xs) primitiveVectorCodec
  {-# INLINE codec #-}

instance Message (Unboxed.Vector Word) where
  codec = mapCodec Unboxed.V_Word (\(Unboxed.V_Word xs) -> xs) primitiveVectorCodec
  {-# INLINE codec #-}

instance Message (Unboxed.Vector Word8) where
  codec = mapCodec Unboxed.V_Word8 (\(Unboxed.V_Word8 xs) -> xs) primitiveVectorCodec
  {-# INLINE codec #-}

instance Message (Unboxed.Vector Word16) where
  codec = mapCodec Unboxed.V_Word16 (\(Unboxed.V_Word16 xs) -> xs) primitiveVectorCodec
  {-# INLINE codec #-}

instance Message (Unboxed.Vector Word32) where
  codec = mapCodec Unboxed.V_Word32 (\(Unboxed.V_Word32 xs) -> xs) primitiveVectorCodec
  {-# INLINE codec #-}

instance Message (Unboxed.Vector Word64) where
  codec = mapCodec Unboxed.V_Word64 (\(Unboxed.V_Word64 xs) -> xs) primitiveVectorCodec
  {-# INLINE codec #-}

instance Message (Unboxed.Vector Float) where
  codec = mapCodec Unboxed.V_Float (\(Unboxed.V_Float xs) -> xs) primitiveVectorCodec
  {-# INLINE codec #-}

instance Message (Unboxed.Vector Double) where
  codec = mapCodec Unboxed.V_Double (\(Unboxed.V_Double xs) -> xs) primitiveVectorCodec
  {-# INLINE codec #-}
