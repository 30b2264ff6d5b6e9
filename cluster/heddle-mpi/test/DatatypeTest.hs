{-# LANGUAGE TypeApplications #-}

-- | Memory with gaps: against a list of the bytes that each type should have.
module DatatypeTest
  ( cases,
  )
where

import Control.Monad (forM_)
import Data.Array.IO (IOUArray, getElems, newListArray)
import Data.Int (Int16, Int32, Int64)
import Data.List (sort)
import Data.Vector.Storable qualified as Vector
import Data.Vector.Storable.Mutable qualified as Mutable
import Data.Word (Word8)
import Heddle.MPI
import Heddle.MPI.Datatype
import Heddle.MPI.Fast
import Heddle.Prim.Exception hiding (assert)
import Ranks

-- | A type, what it is called, its bytes in their order, its extent, and where it begins.
data Known = Known String (IO Datatype) [Int] Int Int

known :: [Known]
known =
  [ Known "contiguous" (newContiguousType 5 int32) [0 .. 19] 20 0,
    Known "contiguous, empty" (newContiguousType 0 int32) [] 0 0,
    Known "vector" (newVectorType 3 2 4 int16) (concat [[8 * i .. 8 * i + 3] | i <- [0 .. 2]]) 20 0,
    Known "vector, backwards" (newVectorType 3 1 (-2) int16) [0, 1, -4, -3, -8, -7] 10 (-8),
    Known "indexed" (newIndexedType [(7, 1), (1, 2), (5, 0)] int16) [14, 15, 2, 3, 4, 5] 14 2,
    Known "rows" (newSubarrayType RowMajor [Side 4 2 1, Side 5 3 2] byte) [5 + 2, 5 + 3, 5 + 4, 10 + 2, 10 + 3, 10 + 4] 20 0,
    Known "columns" (newSubarrayType ColumnMajor [Side 5 3 2, Side 4 2 1] byte) [7, 8, 9, 12, 13, 14] 20 0,
    Known "three dimensions" (newSubarrayType RowMajor [Side 2 1 1, Side 3 2 0, Side 4 2 2] byte) [14, 15, 18, 19] 24 0,
    Known "resized" (newResizedType 0 3 byte) [0] 3 0,
    Known "structure" (newStructType [Field 0 1 byte, Field 8 2 (elementType @Int64)]) (0 : [8 .. 23]) 24 0,
    Known "structure of a vector" (withType (newVectorType 2 1 2 byte) (\v -> newStructType [Field 4 2 v])) [4, 6, 7, 9] 6 4
  ]
  where
    int32 = elementType @Int32
    int16 = elementType @Int16
    byte = elementType @Word8

cases :: [Case]
cases =
  [ anywhere "sizes, bounds and extents of derived types" . forM_ known $ \(Known name make bytes extent lower) ->
      withType make $ \t -> do
        size <- typeSize t
        (name, size) === (name, length bytes)
        actual <- typeExtent t
        (name, actual) === (name, extent)
        from <- typeLower t
        (name, from) === (name, lower)
        reach <- typeReach t
        (name, reach) === (name, if null bytes then (0, 0) else (minimum bytes, maximum bytes + 1)),
    anywhere "what derived types send and receive, byte by byte" . forM_ known $ \(Known name make bytes extent _) ->
      forM_ [0, 1, 3] $ \n -> withType make $ \t -> do
        (rank, size) <- place
        let next = toRank ((rank + 1) `mod` size)
            previous = toRank ((rank - 1) `mod` size)
            from = 16
            memory = Vector.generate 128 fromIntegral :: Vector.Vector Word8
            picked = [from + i * extent + b | i <- [0 .. n - 1], b <- bytes]
            packed = map fromIntegral picked :: [Word8]
        plain <- Mutable.replicate 128 0 :: IO (Mutable.IOVector Word8)
        status <- sendrecv commWorld next 3 (Shaped t n from memory) previous 3 plain
        (name, n, statusBytes status) === (name, n, length picked)
        got <- Vector.freeze plain
        (name, Vector.toList (Vector.take (length picked) got)) === (name, packed)
        -- Back, with the gaps as they were; into memory that the collector may move.
        array <- newListArray (0, 127) (replicate 128 255) :: IO (IOUArray Int Word8)
        status' <- sendrecv commWorld next 4 (Vector.fromList packed) previous 4 (Shaped t n from array)
        statusBytes status' === length picked
        filled <- getElems array
        (name, filled) === (name, [if i `elem` picked then fromIntegral i else 255 | i <- [0 .. 127]]),
    anywhere "a matrix is transposed by its types" $ do
      (rank, size) <- place
      let rows = 300
          columns = 200
          matrix = Vector.generate (rows * columns) (\i -> fromIntegral (i + rank)) :: Vector.Vector Double
      got <- Mutable.replicate (rows * columns) 0 :: IO (Mutable.IOVector Double)
      withType (newVectorType rows 1 columns (elementType @Double)) $ \column ->
        withType (newResizedType 0 8 column) $ \columnByColumn -> do
          request <- irecv commWorld (toRank ((rank - 1) `mod` size)) 5 got
          sent <- isend commWorld (toRank ((rank + 1) `mod` size)) 5 (shaped columnByColumn columns matrix)
          status <- wait request
          statusBytes status === 8 * rows * columns
          wait sent
      transposed <- Vector.freeze got
      let theirs = (rank - 1) `mod` size
      assert "it is not transposed" (transposed == Vector.generate (rows * columns) (\i -> let (c, r) = i `quotRem` rows in fromIntegral (r * columns + c + theirs))),
    anywhere "a type may be closed when an operation has begun" $ do
      (rank, size) <- place
      let memory = Vector.generate 40000 fromIntegral :: Vector.Vector Int32
      into <- Mutable.replicate 20000 0 :: IO (Mutable.IOVector Int32)
      t <- newVectorType 20000 1 2 (elementType @Int32)
      received <- irecv commWorld (toRank ((rank - 1) `mod` size)) 6 into
      sent <- isend commWorld (toRank ((rank + 1) `mod` size)) 6 (shaped t 1 memory)
      closeType t
      _ <- wait received
      wait sent
      got <- Vector.freeze into
      assert "other elements" (got == Vector.generate 20000 (fromIntegral . (* 2))),
    anywhere "what reaches outside of the memory is refused" $ do
      self <- commRank commWorld
      let memory = Vector.replicate 10 0 :: Vector.Vector Word8
          refused = throws [InvalidBuffer] . send commWorld self 0
      into <- Mutable.replicate 10 0 :: IO (Mutable.IOVector Word8)
      withType (newVectorType 2 1 3 (elementType @Word8)) $ \t -> do
        refused (Shaped t 3 0 memory)
        refused (Shaped t 1 7 memory)
        refused (Shaped t 1 (-1) memory)
        refused (Shaped t maxBound 0 memory)
        throws [InvalidBuffer] (recv commWorld self 0 (Shaped t 3 0 into))
        throws [InvalidCount] (send commWorld self 0 (shaped t (-1) memory))
        throws [InvalidType] (send commWorld self 0 (shaped t 1 (shaped t 1 memory)))
        throws [UnsupportedOperation] (bsend commWorld self 0 (shaped t 1 memory))
        -- As far as it goes: 4 bytes of the first, 4 of the second.
        request <- irecv commWorld self 0 into
        send commWorld self 0 (Shaped t 2 2 memory)
        status <- wait request
        statusBytes status === 4
      withType (newVectorType 2 1 (-3) (elementType @Word8)) $ \t -> do
        refused (Shaped t 1 2 memory)
        request <- irecv commWorld self 0 into
        send commWorld self 0 (Shaped t 1 3 memory)
        status <- wait request
        statusBytes status === 2
      -- A bound that was chosen hides no bytes.
      withType (newContiguousType 20 (elementType @Word8)) $ \t ->
        withType (newResizedType 0 1 t) $ \narrow -> refused (shaped narrow 1 memory),
    anywhere "types that cannot be" $ do
      let byte = elementType @Word8
          side whole part from = newSubarrayType RowMajor [Side whole part from] byte
      throws [InvalidCount] (newContiguousType (-1) byte)
      throws [InvalidCount] (newVectorType (-1) 1 1 byte)
      throws [InvalidCount] (newVectorType 1 (-1) 1 byte)
      throws [TooLarge] (newVectorType 1 1 maxBound (elementType @Int64))
      throws [InvalidCount] (newIndexedType [(0, -1)] byte)
      throws [TooLarge] (newIndexedType [(maxBound, 1)] (elementType @Int64))
      throws [InvalidCount] (newStructType [Field 0 (-1) byte])
      throws [InvalidArgument] (newSubarrayType RowMajor [] byte)
      forM_ [(0, 1, 0), (5, 0, 0), (5, 6, 0), (5, 3, 3), (5, 1, -1), (5, 1, maxBound)] $ \(whole, part, from) ->
        throws [InvalidArgument] (side whole part from),
    anywhere "types are closed once, and on every path" $ do
      t <- newContiguousType 2 (elementType @Double)
      closeType t
      throws [AlreadyClosed] (closeType t)
      throws [AlreadyClosed] (typeSize t)
      throws [AlreadyClosed] (newContiguousType 2 t)
      throws [AlreadyClosed] (closeType (elementType @Double))
      throws [AlreadyClosed] (closeType byteType)
      size <- typeSize byteType
      size === 1
      left <- try (withType (newContiguousType 3 byteType) (throwIO . Leaving))
      case left of
        Left (Leaving inner) -> throws [AlreadyClosed] (typeSize inner)
        Right () -> assert "no exception" False,
    anywhere "every order and every side of a structure" $ do
      [minBound .. maxBound] === [RowMajor, ColumnMajor]
      sort (map sideFrom [Side 3 2 1, Side 3 2 0]) === [0, 1]
      fieldAt (Field 4 1 byteType) === 4
  ]

newtype Leaving = Leaving Datatype
  deriving stock (Show)

instance Exception Leaving

place :: IO (Int, Int)
place = (,) <$> (fromIntegral <$> commRank commWorld) <*> commSize commWorld
