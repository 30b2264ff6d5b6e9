{-# LANGUAGE DataKinds #-}

-- |
-- Module      : Mpi.Heat
-- Description : Heat in a plate: a grid dealt out by rows, whose edges are exchanged
-- Stability   : example
--
-- The temperature of each inner point moves towards the mean of its four neighbours. Every rank has
-- consecutive rows, and a copy of the row above and of the one below, which it gets anew for each
-- step: directly from memory to memory, while it computes the rows that need no copy.
--
-- Invariant: whatever the number of ranks, every point is computed from the same numbers in the same
-- order, so the result is the same to the last bit.
-- Cost: per step, five additions and multiplications a point, and two rows sent and received.
-- Owner: a rank has its rows.
module Mpi.Heat
  ( -- * The plate
    Plate (..),
    temperatureAt,

    -- * Ways
    sequential,
    distributed,

    -- * What it comes to
    mean,
  )
where

import Control.Monad (forM_, when)
import Data.Vector.Storable (Vector)
import Data.Vector.Storable qualified as Vector
import Data.Vector.Storable.Mutable (IOVector)
import Data.Vector.Storable.Mutable qualified as Mutable
import Heddle.MPI
import Heddle.MPI.Collective (consecutive, gatherv)
import Heddle.MPI.Fast (irecv, isend)
import Mpi.Shares

-- | How many rows and columns of points, at least 1.
data Plate = Plate
  { plateRows :: !Int,
    plateColumns :: !Int
  }
  deriving stock (Eq, Show)

-- | At the beginning: the first row is hot, and stays so; the other edges stay cold.
temperatureAt :: Plate -> Int -> Int -> Double
temperatureAt _ 0 _ = 100
temperatureAt plate row column
  | row == plateRows plate - 1 || column == 0 || column == plateColumns plate - 1 = 0
  | otherwise = fromIntegral ((row * 31 + column * 17) `rem` 10)

-- | Some consecutive rows, with a row above and one below that are copies.
data Rows = Rows
  { rowsPlate :: !Plate,
    rowsShare :: !Share,
    rowsNow :: !(IOVector Double),
    rowsNext :: !(IOVector Double)
  }

newRows :: Plate -> Share -> IO Rows
newRows plate share = do
  let width = plateColumns plate
      start = Vector.generate ((shareSize share + 2) * width) $ \i ->
        let (row, column) = i `quotRem` width in temperatureAt plate (shareStart share + row - 1) column
  Rows plate share <$> Vector.thaw start <*> Vector.thaw start

-- | The row of that number in the share; -1 and the share's size are the copies.
rowOf :: Rows -> Int -> IOVector Double
rowOf rows i = Mutable.slice ((i + 1) * width) width (rowsNow rows)
  where
    width = plateColumns (rowsPlate rows)

-- | Compute the rows of the share from one up to another.
update :: Rows -> Int -> Int -> IO ()
update (Rows (Plate height width) (Share start _) now next) from to =
  forM_ [from .. to - 1] $ \row ->
    when (start + row > 0 && start + row < height - 1) (points ((row + 1) * width + 1) ((row + 2) * width - 1))
  where
    points :: Int -> Int -> IO ()
    points !i !end
      | i >= end = pure ()
      | otherwise = do
        here <- Mutable.unsafeRead now i
        above <- Mutable.unsafeRead now (i - width)
        below <- Mutable.unsafeRead now (i + width)
        left <- Mutable.unsafeRead now (i - 1)
        right <- Mutable.unsafeRead now (i + 1)
        Mutable.unsafeWrite next i (here + 0.2 * ((above + below) + (left + right) - 4 * here))
        points (i + 1) end

swapped :: Rows -> Rows
swapped rows = rows {rowsNow = rowsNext rows, rowsNext = rowsNow rows}

-- | All points after so many steps, on one core.
sequential :: Plate -> Int -> IO (Vector Double)
sequential plate steps = do
  rows <- newRows plate (Share 0 (plateRows plate))
  ownPoints =<< go steps rows
  where
    go 0 rows = pure rows
    go n rows = update rows 0 (plateRows plate) >> go (n - 1 :: Int) (swapped rows)

-- | The same on all ranks, of which each has a row at least; rank 0 has the answer. The action is run
-- after each step, with its number.
distributed :: Comm 'Intra -> Plate -> Int -> (Int -> IO ()) -> IO (Maybe (Vector Double))
distributed comm plate steps tell = do
  rank <- fromIntegral <$> commRank comm
  size <- commSize comm
  let shares = map (shareOf (plateRows plate) size) [0 .. size - 1]
      above = if rank == 0 then noRank else toRank (rank - 1)
      below = if rank == size - 1 then noRank else toRank (rank + 1)
      last' = shareSize (shares !! rank)
      go n rows
        | n > steps = pure rows
        | otherwise = do
          received <- sequence [irecv comm above downwards (rowOf rows (-1)), irecv comm below upwards (rowOf rows last')]
          sent <- sequence [isend comm above upwards (rowOf rows 0), isend comm below downwards (rowOf rows (last' - 1))]
          -- The rows that need no copy, while these are under way.
          update rows 1 (last' - 1)
          _ <- waitAll received
          update rows 0 1
          when (last' > 1) (update rows (last' - 1) last')
          _ <- waitAll sent
          tell n
          go (n + 1) (swapped rows)
  mine <- ownPoints =<< go 1 =<< newRows plate (shares !! rank)
  whole <- Mutable.new (if rank == 0 then plateRows plate * plateColumns plate else 0)
  let counts = consecutive (map ((* plateColumns plate) . shareSize) shares)
  gatherv comm 0 mine (if rank == 0 then Just (whole, counts) else Nothing)
  if rank == 0 then Just <$> Vector.freeze whole else pure Nothing
  where
    (upwards, downwards) = (0, 1)

ownPoints :: Rows -> IO (Vector Double)
ownPoints rows = Vector.freeze (Mutable.slice width (shareSize (rowsShare rows) * width) (rowsNow rows))
  where
    width = plateColumns (rowsPlate rows)

-- | The mean temperature.
mean :: Vector Double -> Double
mean points = Vector.sum points / fromIntegral (Vector.length points)
