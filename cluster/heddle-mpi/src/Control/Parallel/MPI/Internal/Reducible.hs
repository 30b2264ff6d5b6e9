{-# LANGUAGE FlexibleContexts #-}
{-# LANGUAGE FlexibleInstances #-}
{-# LANGUAGE TypeFamilies #-}
{-# LANGUAGE TypeOperators #-}
{-# LANGUAGE UndecidableInstances #-}

-- |
-- Module      : Control.Parallel.MPI.Internal.Reducible
-- Description : The operators of haskell-mpi, and the memory that they reduce
-- Stability   : internal, exempt from the version policy
--
-- "Control.Parallel.MPI.Fast" exports them.
--
-- Cost: reduced values are copied.
-- Owner: the caller owns all memory.
module Control.Parallel.MPI.Internal.Reducible
  ( -- * Operators
    Operation,
    sumOp,
    prodOp,
    maxOp,
    minOp,
    landOp,
    lorOp,
    lxorOp,
    bandOp,
    borOp,
    bxorOp,
    chosen,

    -- * Memory
    Reducible (..),
    ReduceFrom (..),
    ReduceInto (..),
  )
where

import Control.Monad (forM_)
import Control.Monad.Primitive (RealWorld)
import Control.Parallel.MPI.Base
import Data.Array.Base (MArray)
import Data.Array.IO (IOArray, IOUArray, getBounds, getElems, writeArray)
import Data.Array.Storable (StorableArray)
import Data.Bits (Bits)
import Data.Int (Int16, Int32, Int64, Int8)
import Data.Ix (Ix, range, rangeSize)
import Data.Vector.Storable (Vector)
import Data.Vector.Storable qualified as Vector
import Data.Vector.Storable.Mutable qualified as Mutable
import Data.Word (Word16, Word32, Word64, Word8)
import Foreign.C.Types (CInt)
import Heddle.MPI.Collective (Operator)
import Heddle.MPI.Internal.Buffer (Element)
import Heddle.MPI.Internal.Error (wrong)
import Heddle.MPI.Operator (operator)
import Heddle.MPI.Operator qualified as Operator

-- | haskell-mpi's predefined operators.
data Operation = Sum | Product | Maximum | Minimum | And | Or | ExclusiveOr | BitwiseAnd | BitwiseOr | BitwiseXor
  deriving stock (Bounded, Enum, Eq, Show)

-- | haskell-mpi's name of 'Heddle.MPI.Operator.sumOf'.
sumOp :: Operation
sumOp = Sum

-- | haskell-mpi's name of 'Heddle.MPI.Operator.productOf'.
prodOp :: Operation
prodOp = Product

-- | haskell-mpi's name of 'Heddle.MPI.Operator.maximumOf'.
maxOp :: Operation
maxOp = Maximum

-- | haskell-mpi's name of 'Heddle.MPI.Operator.minimumOf'.
minOp :: Operation
minOp = Minimum

-- | Logical and: 1 if all elements are nonzero, else 0.
landOp :: Operation
landOp = And

-- | Logical or: 1 if any element is nonzero, else 0.
lorOp :: Operation
lorOp = Or

-- | Logical exclusive or: 1 if an odd number of elements is nonzero, else 0.
lxorOp :: Operation
lxorOp = ExclusiveOr

-- | haskell-mpi's name of 'Heddle.MPI.Operator.bitwiseAnd'.
bandOp :: Operation
bandOp = BitwiseAnd

-- | haskell-mpi's name of 'Heddle.MPI.Operator.bitwiseOr'.
borOp :: Operation
borOp = BitwiseOr

-- | haskell-mpi's name of 'Heddle.MPI.Operator.bitwiseXor'.
bxorOp :: Operation
bxorOp = BitwiseXor

-- | Elements that the operators accept.
class Element e => Reducible e where
  -- | The operator for this type; bitwise operators exist only for integers.
  operatorFor :: Operation -> Maybe (Operator e)

arithmetic :: (Element e, Num e, Ord e) => Operation -> Maybe (Operator e)
arithmetic = \case
  Sum -> Just Operator.sumOf
  Product -> Just Operator.productOf
  Maximum -> Just Operator.maximumOf
  Minimum -> Just Operator.minimumOf
  And -> Just (logical (&&))
  Or -> Just (logical (||))
  ExclusiveOr -> Just (logical (/=))
  _ -> Nothing
  where
    logical f = operator (\x y -> if f (x /= 0) (y /= 0) then 1 else 0)

integral :: (Element e, Num e, Ord e, Bits e) => Operation -> Maybe (Operator e)
integral = \case
  BitwiseAnd -> Just Operator.bitwiseAnd
  BitwiseOr -> Just Operator.bitwiseOr
  BitwiseXor -> Just Operator.bitwiseXor
  other -> arithmetic other

instance Reducible Int where operatorFor = integral

instance Reducible Int8 where operatorFor = integral

instance Reducible Int16 where operatorFor = integral

instance Reducible Int32 where operatorFor = integral

instance Reducible Int64 where operatorFor = integral

instance Reducible Word where operatorFor = integral

instance Reducible Word8 where operatorFor = integral

instance Reducible Word16 where operatorFor = integral

instance Reducible Word32 where operatorFor = integral

instance Reducible Word64 where operatorFor = integral

instance Reducible CInt where operatorFor = integral

instance Reducible Float where operatorFor = arithmetic

instance Reducible Double where operatorFor = arithmetic

-- | Values that can be reduced.
class Reducible (Reduced v) => ReduceFrom v where
  -- | The type of its elements.
  type Reduced v

  -- | The elements.
  elementsOf :: v -> IO (Vector (Reduced v))

-- | Memory that can be reduced into.
class ReduceFrom v => ReduceInto v where
  -- | The number of elements that it has room for.
  roomOf :: v -> IO Int

  -- | Fill it, from its beginning.
  fillWith :: v -> Vector (Reduced v) -> IO ()

instance (Ix i, Reducible e) => ReduceFrom (StorableArray i e) where
  type Reduced (StorableArray i e) = e
  elementsOf v = Vector.fromList <$> getElems v

instance (Ix i, Reducible e) => ReduceInto (StorableArray i e) where
  roomOf v = rangeSize <$> getBounds v
  fillWith v got = getBounds v >>= \bounds -> forM_ (zip (range bounds) (Vector.toList got)) (uncurry (writeArray v))

instance (Ix i, Reducible e) => ReduceFrom (IOArray i e) where
  type Reduced (IOArray i e) = e
  elementsOf v = Vector.fromList <$> getElems v

instance (Ix i, Reducible e) => ReduceInto (IOArray i e) where
  roomOf v = rangeSize <$> getBounds v
  fillWith v got = getBounds v >>= \bounds -> forM_ (zip (range bounds) (Vector.toList got)) (uncurry (writeArray v))

instance (Ix i, Reducible e, MArray IOUArray e IO) => ReduceFrom (IOUArray i e) where
  type Reduced (IOUArray i e) = e
  elementsOf v = Vector.fromList <$> getElems v

instance (Ix i, Reducible e, MArray IOUArray e IO) => ReduceInto (IOUArray i e) where
  roomOf v = rangeSize <$> getBounds v
  fillWith v got = getBounds v >>= \bounds -> forM_ (zip (range bounds) (Vector.toList got)) (uncurry (writeArray v))

instance Reducible e => ReduceFrom (Vector e) where
  type Reduced (Vector e) = e
  elementsOf = pure

instance (Reducible e, s ~ RealWorld) => ReduceFrom (Mutable.MVector s e) where
  type Reduced (Mutable.MVector s e) = e
  elementsOf = Vector.freeze

instance (Reducible e, s ~ RealWorld) => ReduceInto (Mutable.MVector s e) where
  roomOf = pure . Mutable.length
  fillWith v got = Vector.copy (Mutable.take (Vector.length got) v) got

-- | The operator for a type of elements.
--
-- [Throws]: 'MPIError': 'InvalidOperator' if the type has no such operator.
chosen :: Reducible e => String -> Operation -> IO (Operator e)
chosen call op = maybe (wrong InvalidOperator call (show op ++ " is for integers")) pure (operatorFor op)
