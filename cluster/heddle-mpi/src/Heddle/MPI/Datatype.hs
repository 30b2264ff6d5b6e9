{-# LANGUAGE TypeFamilies #-}

-- |
-- Module      : Heddle.MPI.Datatype
-- Description : Memory with gaps: types made of other types
-- Stability   : stable
--
-- A datatype says which bytes of memory belong to a message, or which bytes of a file a process
-- sees: rows, columns and blocks of arrays, fields of structures.
--
-- > withType (newVectorType rows 1 columns (elementType @Double)) $ \column ->
-- >   send commWorld 1 0 (shaped column 1 matrix)
--
-- Cost: making a type takes about a microsecond, and is linear in its list if it is irregular.
-- Sending with a type costs the implementation's gathering of the pieces.
-- Owner: the program closes each type that it makes. Types made of it, views of files, and started
-- operations keep what they need of it.
module Heddle.MPI.Datatype
  ( -- * Types that are always there
    Datatype,
    Element (elementType),
    byteType,

    -- * Bracketed
    withType,

    -- * Making types
    newContiguousType,
    newVectorType,
    newIndexedType,
    newSubarrayType,
    Order (..),
    Side (..),
    newResizedType,
    newStructType,
    Field (..),
    closeType,

    -- * Measuring
    typeSize,
    typeLower,
    typeExtent,
    typeReach,

    -- * Memory with a type
    Shaped (..),
    shaped,
  )
where

import Control.Monad (forM_, when)
import Data.Int (Int64)
import Foreign.C.Types (CInt (..))
import Foreign.Marshal.Alloc (alloca)
import Foreign.Marshal.Array (withArray, withArrayLen)
import Foreign.Ptr (Ptr, plusPtr)
import Foreign.Storable (peek, poke)
import Heddle.MPI.Internal.Buffer
import Heddle.MPI.Internal.Error
import Heddle.Prim.Exception

-- | Make a type, use it, and close it on every path.
--
-- [Masking]: the body runs as it was called.
-- [Throws]: 'MPIError'; what the body throws.
withType :: IO Datatype -> (Datatype -> IO a) -> IO a
withType make = bracket make closeType

-- Making ---------------------------------------------------------------------

-- | A number of consecutive elements of a type.
--
-- [Throws]: 'MPIError': 'InvalidCount'.
newContiguousType :: Int -> Datatype -> IO Datatype
newContiguousType n (Datatype type') = do
  notNegative "newContiguousType" n
  making "newContiguousType" (c_contiguous (fromIntegral n) type')

-- | Blocks at equal distances: their number, the length of each, and the distance from the
-- beginning of one to that of the next, which may be negative. A column of a matrix is as many
-- blocks of 1 as there are rows, a row apart.
--
-- [Units]: lengths and distances in elements of the type.
-- [Throws]: 'MPIError': 'InvalidCount', 'TooLarge'.
newVectorType :: Int -> Int -> Int -> Datatype -> IO Datatype
newVectorType n len stride type'@(Datatype handle) = do
  mapM_ (notNegative "newVectorType") [n, len]
  extent <- typeExtent type'
  bytes <- fits "newVectorType" (toInteger stride * toInteger extent)
  making "newVectorType" (c_vector (fromIntegral n) (fromIntegral len) bytes handle)

-- | Blocks anywhere: the offset and the length of each.
--
-- [Units]: in elements of the type.
-- [Throws]: 'MPIError': 'InvalidCount', 'TooLarge'.
newIndexedType :: [(Int, Int)] -> Datatype -> IO Datatype
newIndexedType blocks type'@(Datatype handle) = do
  mapM_ (notNegative "newIndexedType" . snd) blocks
  extent <- typeExtent type'
  offsets <- mapM (\(offset, _) -> fits "newIndexedType" (toInteger offset * toInteger extent)) blocks
  withArrayLen (map (fromIntegral . snd) blocks) $ \n lengths -> withArray offsets $ \at ->
    making "newIndexedType" (c_indexed (fromIntegral n) lengths at handle)

-- | The index of an array that varies fastest in memory: the last or the first.
data Order
  = -- | The last one, as in C and in Haskell's arrays.
    RowMajor
  | -- | The first one, as in Fortran.
    ColumnMajor
  deriving stock (Bounded, Enum, Eq, Ord, Show)

-- | One dimension of a part of an array: the lengths of the array and of the part, and the part's
-- first index.
data Side = Side
  { -- | The length of the array; at least 1.
    sideWhole :: !Int,
    -- | The length of the part; at least 1.
    sidePart :: !Int,
    -- | The first index of the part, counted from 0.
    sideFrom :: !Int
  }
  deriving stock (Eq, Show)

-- | A part of an array with any number of dimensions. Its extent is that of the whole array.
--
-- [Throws]: 'MPIError': 'InvalidArgument' if the part is not inside.
newSubarrayType :: Order -> [Side] -> Datatype -> IO Datatype
newSubarrayType order sides (Datatype handle) = do
  when (null sides) (wrong InvalidArgument call "an array without dimensions")
  forM_ (zip [0 :: Int ..] sides) $ \(i, Side whole part from) ->
    when (whole < 1 || part < 1 || from < 0 || part > whole || from > whole - part) . wrong InvalidArgument call $
      "dimension " ++ show i ++ ": " ++ show part ++ " from " ++ show from ++ " on are not inside of " ++ show whole
  withArrayLen (map (fromIntegral . sideWhole) sides) $ \n wholes ->
    withArray (map (fromIntegral . sidePart) sides) $ \parts ->
      withArray (map (fromIntegral . sideFrom) sides) $ \froms ->
        making call (c_subarray (fromIntegral n) wholes parts froms (if order == ColumnMajor then 1 else 0) handle)
  where
    call = "newSubarrayType"

-- | The same bytes with another lower bound and extent, which decide where consecutive elements of
-- the type lie.
--
-- [Units]: bytes.
-- [Throws]: 'MPIError'.
newResizedType :: Int -> Int -> Datatype -> IO Datatype
newResizedType lower extent (Datatype handle) =
  making "newResizedType" (c_resized handle (fromIntegral lower) (fromIntegral extent))

-- | A part of a structure.
data Field = Field
  { -- | Where it begins, in bytes.
    fieldAt :: !Int,
    -- | The number of its elements.
    fieldCount :: !Int,
    -- | The type of its elements.
    fieldType :: !Datatype
  }
  deriving stock (Eq, Show)

-- | A structure: fields of several types.
--
-- [Throws]: 'MPIError': 'InvalidCount'.
newStructType :: [Field] -> IO Datatype
newStructType fields = do
  mapM_ (notNegative "newStructType" . fieldCount) fields
  withArrayLen (map (fromIntegral . fieldCount) fields) $ \n counts ->
    withArray (map (fromIntegral . fieldAt) fields) $ \offsets ->
      withArray [handle | Field _ _ (Datatype handle) <- fields] $ \types ->
        making "newStructType" (c_struct (fromIntegral n) counts offsets types)

-- | Free a type.
--
-- [Throws]: 'MPIError': 'AlreadyClosed' the second time, and for a predefined type.
closeType :: Datatype -> IO ()
closeType (Datatype handle) = check "closeType" (c_free handle)

making :: String -> (Ptr Int64 -> IO CInt) -> IO Datatype
making call make = alloca $ \p -> poke p 0 >> check call (make p) >> Datatype <$> peek p

notNegative :: String -> Int -> IO ()
notNegative call n = when (n < 0) (wrong InvalidCount call (show n ++ " elements"))

fits :: String -> Integer -> IO Int64
fits call n
  | n > toInteger (maxBound :: Int64) || n < toInteger (minBound :: Int64) = wrong TooLarge call (show n ++ " bytes")
  | otherwise = pure (fromInteger n)

-- Measuring ------------------------------------------------------------------

-- | The number of bytes that one element transfers, without gaps.
--
-- [Units]: bytes.
-- [Throws]: 'MPIError'.
typeSize :: Datatype -> IO Int
typeSize type' = (\(size, _, _) -> size) <$> measure "typeSize" type'

-- | The lower bound: where an element begins, including padding.
--
-- [Units]: bytes.
-- [Throws]: 'MPIError'.
typeLower :: Datatype -> IO Int
typeLower type' = (\(_, lower, _) -> lower) <$> measure "typeLower" type'

-- | The extent: the distance from one element to the next.
--
-- [Units]: bytes.
-- [Throws]: 'MPIError'.
typeExtent :: Datatype -> IO Int
typeExtent type' = (\(_, _, extent) -> extent) <$> measure "typeExtent" type'

-- | The offset of its first byte, and the offset after its last byte, without padding and
-- regardless of 'newResizedType'.
--
-- [Units]: bytes.
-- [Throws]: 'MPIError'.
typeReach :: Datatype -> IO (Int, Int)
typeReach (Datatype handle) = alloca $ \low -> alloca $ \high -> do
  check "typeReach" (c_reach handle low high)
  (,) <$> (fromIntegral <$> peek low) <*> (fromIntegral <$> peek high)

measure :: String -> Datatype -> IO (Int, Int, Int)
measure call (Datatype handle) = alloca $ \size -> alloca $ \lower -> alloca $ \extent -> do
  check call (c_measure handle size lower extent)
  (,,) <$> (fromIntegral <$> peek size) <*> (fromIntegral <$> peek lower) <*> (fromIntegral <$> peek extent)

-- Memory ---------------------------------------------------------------------

-- | Memory with a type that selects its bytes. It can be sent, received, and transferred to and from
-- files like plain memory. A type that reaches outside the memory is an error. Bytes that the type
-- leaves out are unchanged.
--
-- The type must stay open until each operation with it has started.
data Shaped b = Shaped
  { -- | Which bytes one element has.
    shapedType :: !Datatype,
    -- | The number of elements, one extent apart.
    shapedCount :: !Int,
    -- | The offset of the first element in the memory, in bytes. Bytes of the type at negative
    -- offsets must lie in the memory as well.
    shapedFrom :: !Int,
    -- | The memory.
    shapedMemory :: !b
  }

-- | A number of elements of a type from the beginning of the memory.
shaped :: Datatype -> Int -> b -> Shaped b
shaped type' n = Shaped type' n 0

instance SendBuffer b => SendBuffer (Shaped b) where
  lendOut (Shaped type' n from b) = lendOut b >>= shape type' n from

instance ReceiveBuffer b => ReceiveBuffer (Shaped b) where
  lendIn (Shaped type' n from b) = lendIn b >>= shape type' n from

-- Lent memory, with a type.
shape :: Datatype -> Int -> Int -> Lent -> IO Lent
shape type' n from lent = do
  notNegative call n
  when (isDerived (lentType lent)) (wrong InvalidType call "memory that has a derived type already")
  (size, _, extent) <- measure call type'
  (low, high) <- typeReach type'
  let steps = toInteger (n - 1) * toInteger extent
      first = toInteger from + toInteger low + min 0 steps
      end = toInteger from + toInteger high + max 0 steps
  when (n > 0 && size > 0 && (first < 0 || end > toInteger (lentBytes lent))) . wrong InvalidBuffer call $
    "bytes " ++ show first ++ " to " ++ show (end - 1) ++ " of memory that has " ++ show (lentBytes lent)
  pure lent {lentAt = lentAt lent `plusPtr` from, lentCount = n, lentType = type', lentEach = size}
  where
    call = "Shaped"

-- Making a type may take long if it is irregular.

foreign import ccall safe "heddle_mpi_type_contiguous" c_contiguous :: Int64 -> Int64 -> Ptr Int64 -> IO CInt

foreign import ccall safe "heddle_mpi_type_vector" c_vector :: Int64 -> Int64 -> Int64 -> Int64 -> Ptr Int64 -> IO CInt

foreign import ccall safe "heddle_mpi_type_indexed" c_indexed :: Int64 -> Ptr Int64 -> Ptr Int64 -> Int64 -> Ptr Int64 -> IO CInt

foreign import ccall safe "heddle_mpi_type_subarray" c_subarray :: CInt -> Ptr Int64 -> Ptr Int64 -> Ptr Int64 -> CInt -> Int64 -> Ptr Int64 -> IO CInt

foreign import ccall safe "heddle_mpi_type_resized" c_resized :: Int64 -> Int64 -> Int64 -> Ptr Int64 -> IO CInt

foreign import ccall safe "heddle_mpi_type_struct" c_struct :: CInt -> Ptr Int64 -> Ptr Int64 -> Ptr Int64 -> Ptr Int64 -> IO CInt

foreign import ccall safe "heddle_mpi_type_free" c_free :: Int64 -> IO CInt

foreign import ccall unsafe "heddle_mpi_type_measure" c_measure :: Int64 -> Ptr Int64 -> Ptr Int64 -> Ptr Int64 -> IO CInt -- reads what is known

foreign import ccall unsafe "heddle_mpi_type_reach" c_reach :: Int64 -> Ptr Int64 -> Ptr Int64 -> IO CInt -- reads what is known
