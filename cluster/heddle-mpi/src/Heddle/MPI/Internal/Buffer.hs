{-# LANGUAGE AllowAmbiguousTypes #-}
{-# LANGUAGE FlexibleContexts #-}
{-# LANGUAGE FlexibleInstances #-}
{-# LANGUAGE GeneralizedNewtypeDeriving #-}
{-# LANGUAGE TypeApplications #-}
{-# LANGUAGE TypeFamilies #-}
{-# LANGUAGE TypeOperators #-}

-- |
-- Module      : Heddle.MPI.Internal.Buffer
-- Description : Memory that MPI reads and writes in place
-- Stability   : internal, exempt from the version policy
--
-- The classes of memory that can be sent without serialisation and received into. Memory that the
-- garbage collector may move is copied; all other memory is used in place.
--
-- Cost: none in place; a copy for unpinned arrays.
-- Owner: the operation keeps the memory until it is complete, by 'lentDone'.
module Heddle.MPI.Internal.Buffer
  ( -- * Elements
    Datatype (..),
    byteType,
    isDerived,
    Element (..),
    elementBytes,

    -- * Buffers
    Lent (..),
    lentBytes,
    SendBuffer (..),
    ReceiveBuffer (..),
  )
where

import Control.Monad.Primitive (RealWorld, touch)
import Data.Array.Base (STUArray (..), UArray (..))
import Data.Array.IO.Internals (IOUArray (..))
import Data.Array.Storable (StorableArray, getBounds, withStorableArray)
import Data.ByteString (ByteString)
import Data.ByteString.Internal (toForeignPtr)
import Data.Complex (Complex)
import Data.Int (Int16, Int32, Int64, Int8)
import Data.Ix (Ix, rangeSize)
import Data.Primitive.ByteArray
import Data.Primitive.PrimArray
import Data.Primitive.Types (Prim, sizeOf)
import Data.Vector.Storable qualified as Vector
import Data.Vector.Storable.Mutable qualified as Mutable
import Data.Word (Word16, Word32, Word64, Word8)
import Foreign.C.Types
import Foreign.ForeignPtr (ForeignPtr, touchForeignPtr)
import Foreign.Ptr (Ptr, castPtr, plusPtr)
import Foreign.Storable (Storable)
import Foreign.Storable qualified as Storable
import Heddle.Prim.Buffer (Buffer, bufferPtr, foreignAddress, keepAlive)

-- | MPI's type of the elements of memory.
newtype Datatype = Datatype Int64
  deriving newtype (Eq, Show)

-- | Plain bytes.
byteType :: Datatype
byteType = Datatype 16

-- | Tell a type that was made of others; the handles of predefined types come first, see
-- @heddle_mpi_core.h@.
isDerived :: Datatype -> Bool
isDerived (Datatype handle) = handle > 30
{-# INLINE isDerived #-}

-- | Types with the memory layout of C's. MPI knows them, or handles them as bytes.
class Storable a => Element a where
  -- | MPI's type; bytes by default. MPI's operators need one of MPI's numeric types.
  elementType :: Datatype
  elementType = byteType

instance Element Int8 where elementType = Datatype 17

instance Element Int16 where elementType = Datatype 18

instance Element Int32 where elementType = Datatype 19

instance Element Int64 where elementType = Datatype 20

instance Element Word8 where elementType = Datatype 21

instance Element Word16 where elementType = Datatype 22

instance Element Word32 where elementType = Datatype 23

instance Element Word64 where elementType = Datatype 24

instance Element Float where elementType = Datatype 25

instance Element Double where elementType = Datatype 26

instance Element (Complex Float) where elementType = Datatype 27

instance Element (Complex Double) where elementType = Datatype 28

instance Element Char where elementType = Datatype 29

instance Element Int where elementType = Datatype 20

instance Element Word where elementType = Datatype 24

instance Element Bool

instance Element CChar where elementType = Datatype 17

instance Element CInt where elementType = Datatype 19

instance Element CUInt where elementType = Datatype 23

instance Element CLong where elementType = Datatype 20

instance Element CULong where elementType = Datatype 24

instance Element CSize where elementType = Datatype 24

instance Element CFloat where elementType = Datatype 25

instance Element CDouble where elementType = Datatype 26

-- | The size of an element.
--
-- [Units]: bytes.
elementBytes :: forall a. Storable a => Int
elementBytes = Storable.sizeOf (undefined :: a)
{-# INLINE elementBytes #-}

-- | Memory for an operation.
data Lent = Lent
  { lentAt :: !(Ptr Word8),
    -- | The number of elements of the type.
    lentCount :: !Int,
    lentType :: !Datatype,
    -- | The size of an element.
    lentEach :: !Int,
    -- | Runs when the operation is complete: it keeps the memory alive until then, and copies a
    -- received copy back. Every continuation of an operation refers to it.
    lentDone :: !(IO ()),
    -- | Runs before a persistent operation starts: it copies the memory again if MPI uses a copy.
    lentAgain :: !(IO ())
  }

-- | The size of lent memory.
--
-- [Units]: bytes.
lentBytes :: Lent -> Int
lentBytes lent = lentCount lent * lentEach lent

-- How many of MPI's elements are one of this type.
unitsOf :: forall a. Element a => Int
unitsOf = if elementType @a == byteType then elementBytes @a else 1
{-# INLINE unitsOf #-}

-- Lend memory in place.
inPlace :: forall a x. Element a => ForeignPtr x -> Int -> Int -> Lent
inPlace memory offset n =
  Lent (castPtr (foreignAddress memory) `plusPtr` offset) (n * units) (elementType @a) each (touchForeignPtr memory) (pure ())
  where
    (units, each) = if elementType @a == byteType then (elementBytes @a, 1) else (1, elementBytes @a)
{-# INLINE inPlace #-}

-- | Memory that can be sent in place. It must not be changed until it has been sent.
class SendBuffer b where
  -- | Lend it for reading.
  lendOut :: b -> IO Lent

  -- | The number of MPI's elements in one element of the memory: more than one if it is lent as bytes.
  unitsEach :: b -> Int
  unitsEach _ = 1

-- | Memory that can be received into. It must not be read until the operation is complete.
class SendBuffer b => ReceiveBuffer b where
  -- | Lend it for writing.
  lendIn :: b -> IO Lent

instance SendBuffer ByteString where
  lendOut bytes = case toForeignPtr bytes of
    (memory, offset, n) -> pure (inPlace @Word8 memory offset n) {lentType = byteType}
  {-# INLINE lendOut #-}

instance Element a => SendBuffer (Vector.Vector a) where
  lendOut v = case Vector.unsafeToForeignPtr0 v of (memory, n) -> pure (inPlace @a memory 0 n)
  {-# INLINE lendOut #-}
  unitsEach _ = unitsOf @a

instance (Element a, s ~ RealWorld) => SendBuffer (Mutable.MVector s a) where
  lendOut v = case Mutable.unsafeToForeignPtr0 v of (memory, n) -> pure (inPlace @a memory 0 n)
  {-# INLINE lendOut #-}
  unitsEach _ = unitsOf @a

instance (Element a, s ~ RealWorld) => ReceiveBuffer (Mutable.MVector s a) where
  lendIn = lendOut
  {-# INLINE lendIn #-}

-- | Memory that the caller keeps alive, and its number of elements. It must stay allocated until the
-- operation is complete, even if the waiting thread is interrupted. So memory with a bracketed
-- lifetime, such as that of 'allocaBytes', is unsafe for operations that may be abandoned.
instance Element a => SendBuffer (Ptr a, Int) where
  lendOut (p, n)
    | elementType @a == byteType = pure (Lent (castPtr p) (n * elementBytes @a) byteType 1 (pure ()) (pure ()))
    | otherwise = pure (Lent (castPtr p) n (elementType @a) (elementBytes @a) (pure ()) (pure ()))
  {-# INLINE lendOut #-}
  unitsEach _ = unitsOf @a

instance Element a => ReceiveBuffer (Ptr a, Int) where
  lendIn = lendOut
  {-# INLINE lendIn #-}

-- | The first bytes of a buffer.
instance SendBuffer (Buffer, Int) where
  lendOut (memory, n) = pure (Lent (bufferPtr memory) n byteType 1 (keepAlive memory) (pure ()))
  {-# INLINE lendOut #-}

instance ReceiveBuffer (Buffer, Int) where
  lendIn = lendOut
  {-# INLINE lendIn #-}

instance (Ix i, Element a) => SendBuffer (StorableArray i a) where
  lendOut array = do
    n <- rangeSize <$> getBounds array
    p <- withStorableArray array pure
    lent <- lendOut (p, n)
    pure lent {lentDone = withStorableArray array (const (pure ()))}
  unitsEach _ = unitsOf @a

instance (Ix i, Element a) => ReceiveBuffer (StorableArray i a) where
  lendIn = lendOut

instance SendBuffer ByteArray where
  lendOut = bytesOut byteType 1

instance (Prim a, Element a) => SendBuffer (PrimArray a) where
  lendOut (PrimArray array) = bytesOut (elementType @a) (sizeOf (undefined :: a)) (ByteArray array)
  unitsEach _ = primUnits @a

instance (Prim a, Element a, s ~ RealWorld) => SendBuffer (MutablePrimArray s a) where
  lendOut (MutablePrimArray array) = bytesThrough False (elementType @a) (sizeOf (undefined :: a)) (MutableByteArray array)
  unitsEach _ = primUnits @a

instance (Prim a, Element a, s ~ RealWorld) => ReceiveBuffer (MutablePrimArray s a) where
  lendIn (MutablePrimArray array) = bytesThrough True (elementType @a) (sizeOf (undefined :: a)) (MutableByteArray array)

instance s ~ RealWorld => SendBuffer (MutableByteArray s) where
  lendOut = bytesThrough False byteType 1

instance s ~ RealWorld => ReceiveBuffer (MutableByteArray s) where
  lendIn = bytesThrough True byteType 1

-- | No instance for 'Bool', whose elements are bits in such an array.
instance (Prim a, Element a) => SendBuffer (UArray i a) where
  lendOut (UArray _ _ _ array) = bytesOut (elementType @a) (sizeOf (undefined :: a)) (ByteArray array)
  unitsEach _ = primUnits @a

instance (Prim a, Element a) => SendBuffer (IOUArray i a) where
  lendOut (IOUArray (STUArray _ _ _ array)) = bytesThrough False (elementType @a) (sizeOf (undefined :: a)) (MutableByteArray array)
  unitsEach _ = primUnits @a

instance (Prim a, Element a) => ReceiveBuffer (IOUArray i a) where
  lendIn (IOUArray (STUArray _ _ _ array)) = bytesThrough True (elementType @a) (sizeOf (undefined :: a)) (MutableByteArray array)

-- In such arrays an element has the size that "Data.Primitive.Types" says.
primUnits :: forall a. (Prim a, Element a) => Int
primUnits = if elementType @a == byteType then sizeOf (undefined :: a) else 1
{-# INLINE primUnits #-}

bytesOut :: Datatype -> Int -> ByteArray -> IO Lent
bytesOut type' each array = do
  pinned <- if isByteArrayPinned array then pure array else copied
  lentOf (byteArrayContents pinned) type' each n (touch pinned) (pure ())
  where
    n = sizeofByteArray array
    copied = do
      to <- newPinnedByteArray n
      copyByteArray to 0 array 0 n
      unsafeFreezeByteArray to

bytesThrough :: Bool -> Datatype -> Int -> MutableByteArray RealWorld -> IO Lent
bytesThrough back type' each array
  | isMutableByteArrayPinned array = size >>= \n -> lentOf (mutableByteArrayContents array) type' each n (touch array) (pure ())
  | otherwise = do
    n <- size
    copy <- newPinnedByteArray n
    let again = copyMutableByteArray copy 0 array 0 n
    again
    lentOf (mutableByteArrayContents copy) type' each n (if back then copyMutableByteArray array 0 copy 0 n else touch copy) again
  where
    size = getSizeofMutableByteArray array

lentOf :: Ptr Word8 -> Datatype -> Int -> Int -> IO () -> IO () -> IO Lent
lentOf p type' each bytes done again
  | type' == byteType = pure (Lent p bytes byteType 1 done again)
  | otherwise = pure (Lent p (bytes `div` each) type' each done again)
