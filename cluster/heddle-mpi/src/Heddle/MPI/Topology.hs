{-# LANGUAGE DataKinds #-}

-- |
-- Module      : Heddle.MPI.Topology
-- Description : Cartesian grids and graphs of processes
-- Stability   : stable
--
-- A communicator can have a topology: a Cartesian grid, whose dimensions may be periodic, or a
-- graph of who sends to whom. Neighbourhood collectives use it, and the implementation may place
-- processes accordingly.
--
-- Cost: some messages for each new communicator; queries are local.
-- Owner: the processes that make a communicator close it together, with 'Heddle.MPI.closeComm'.
module Heddle.MPI.Topology
  ( -- * Grids
    Dimension (..),
    balancedDims,
    newCartesian,
    withCartesian,
    newSubgrid,
    withSubgrid,

    -- * Coordinates in a grid
    cartesianShape,
    coordinates,
    rankAt,
    shift,

    -- * Graphs
    newGraph,
    withGraph,
    neighbours,
  )
where

import Control.Monad (forM_, unless, when)
import Data.Int (Int64)
import Foreign.C.Types (CInt (..))
import Foreign.Marshal.Alloc (alloca)
import Foreign.Marshal.Array (allocaArray, peekArray)
import Foreign.Ptr (Ptr, nullPtr)
import Foreign.Storable (peek, poke)
import Heddle.MPI.Internal.Argument
import Heddle.MPI.Internal.Error
import Heddle.MPI.Internal.Types
import Heddle.Prim.Exception

-- | One dimension of a grid.
data Dimension = Dimension
  { -- | How many processes lie along it.
    dimensionSize :: !Int,
    -- | 'True' if the last process is a neighbour of the first.
    dimensionPeriodic :: !Bool
  }
  deriving stock (Eq, Show)

-- | Choose the sizes of a grid for a number of processes, as equal as possible, the greater ones
-- first. A size of 0 is chosen; other sizes stay as given.
--
-- [Blocks]: never.
-- [Throws]: 'MPIError': 'InvalidArgument' for less than one process, 'InvalidDimensions' if
-- the given sizes do not divide the number of processes.
balancedDims :: Int -> [Int] -> IO [Int]
balancedDims processes sizes = do
  when (processes < 1) (wrong InvalidArgument "balancedDims" (show processes ++ " processes"))
  n <- toInt InvalidArgument "balancedDims" "the number of processes" processes
  let given = product (map toInteger (filter (/= 0) sizes))
  when (any (< 0) sizes) (wrong InvalidDimensions "balancedDims" ("a size below 0: " ++ show sizes))
  unless (if 0 `elem` sizes then toInteger processes `rem` given == 0 else toInteger processes == given) $
    wrong InvalidDimensions "balancedDims" (show processes ++ " processes do not make a grid of " ++ show sizes)
  withInts (map fromIntegral sizes) $ \dimensions p -> do
    check "balancedDims" (c_dims_create n dimensions p)
    map fromIntegral <$> peekArray (length sizes) p

-- | Make a grid of as many processes as it needs; the others get 'Nothing'. If ranks may change, the
-- implementation can place neighbours near each other. With increasing rank the last coordinate
-- varies fastest.
--
-- [Blocks]: collective; as the implementation does.
-- [Throws]: 'MPIError': 'InvalidDimensions' if a size is below 1, or the grid needs more
-- processes than there are.
newCartesian :: Comm 'Intra -> [Dimension] -> Bool -> IO (Maybe (Comm 'Intra))
newCartesian comm dimensions reorder = do
  size <- commSize comm
  let sizes = map dimensionSize dimensions
  when (any (< 1) sizes) (wrong InvalidDimensions "newCartesian" ("a size below 1: " ++ show sizes))
  when (product (map toInteger sizes) > toInteger size) $
    wrong InvalidDimensions "newCartesian" (show size ++ " processes do not make a grid of " ++ show sizes)
  withInts (map fromIntegral sizes) $ \n p ->
    withInts (map (flag . dimensionPeriodic) dimensions) $ \_ periodic ->
      newCommMaybe "newCartesian" (c_cart_create (commHandle comm) n p periodic (flag reorder))

-- | 'newCartesian', closed on every path.
--
-- [Blocks]: collective, at the beginning and at the end.
-- [Throws]: 'MPIError', and what the body throws.
withCartesian :: Comm 'Intra -> [Dimension] -> Bool -> (Maybe (Comm 'Intra) -> IO a) -> IO a
withCartesian comm dimensions reorder = bracket (newCartesian comm dimensions reorder) (mapM_ closeComm)

-- | Make a communicator of this process's part of a grid along the dimensions marked 'True': in a
-- plane, its row or its column.
--
-- [Blocks]: collective; as the implementation does.
-- [Throws]: 'MPIError': 'InvalidDimensions' if the list is not as long as the shape,
-- 'InvalidTopology' if it is no grid.
newSubgrid :: Comm 'Intra -> [Bool] -> IO (Comm 'Intra)
newSubgrid comm kept = do
  shape <- shapeFor "newSubgrid" comm
  sameLength "newSubgrid" shape kept
  if or kept
    then withInts (map flag kept) $ \_ p -> newCommFrom "newSubgrid" (c_cart_sub (commHandle comm) p)
    else -- MPICH 4 makes this one on rank 0 only.
      newCartesian commSelf [] False >>= maybe (wrong InternalError "newSubgrid" "no communicator was made") pure

-- | 'newSubgrid', closed on every path.
--
-- [Blocks]: collective, at the beginning and at the end.
-- [Throws]: 'MPIError', and what the body throws.
withSubgrid :: Comm 'Intra -> [Bool] -> (Comm 'Intra -> IO a) -> IO a
withSubgrid comm kept = bracket (newSubgrid comm kept) closeComm

-- | The dimensions of a grid.
--
-- [Blocks]: never.
-- [Throws]: 'MPIError': 'InvalidTopology' if it is none.
cartesianShape :: Comm 'Intra -> IO [Dimension]
cartesianShape = shapeFor "cartesianShape"

shapeFor :: String -> Comm 'Intra -> IO [Dimension]
shapeFor call comm = do
  dimensions <- answer call 0 (\n -> c_cart_get (commHandle comm) 0 n nullPtr nullPtr nullPtr)
  let count = fromIntegral dimensions
  allocaArray count $ \sizes -> allocaArray count $ \periodic -> allocaArray count $ \own -> do
    _ <- answer call 0 (\n -> c_cart_get (commHandle comm) dimensions n sizes periodic own)
    zipWith (\n p -> Dimension (fromIntegral n) (p /= 0)) <$> peekArray count sizes <*> peekArray count periodic

sameLength :: String -> [Dimension] -> [a] -> IO ()
sameLength call shape list =
  unless (length shape == length list) $
    wrong InvalidDimensions call (show (length list) ++ " entries for " ++ show (length shape) ++ " dimensions")

-- | The coordinates of a rank.
--
-- [Blocks]: never.
-- [Throws]: 'MPIError': 'InvalidRank', or 'InvalidTopology' if it is no grid.
coordinates :: Comm 'Intra -> Rank -> IO [Int]
coordinates comm rank = do
  count <- length <$> shapeFor "coordinates" comm
  size <- commSize comm
  r <- checkRank InvalidRank "coordinates" "rank" size rank
  allocaArray count $ \p -> do
    check "coordinates" (c_cart_coordinates (commHandle comm) r (fromIntegral count) p)
    map fromIntegral <$> peekArray count p

-- | The rank at the given coordinates. They wrap around in a periodic dimension; beyond the edge of
-- another one the answer is 'noRank'.
--
-- [Blocks]: never.
-- [Throws]: 'MPIError': 'InvalidDimensions' if the list is not as long as the shape,
-- 'InvalidTopology' if it is no grid.
rankAt :: Comm 'Intra -> [Int] -> IO Rank
rankAt comm place = do
  shape <- shapeFor "rankAt" comm
  sameLength "rankAt" shape place
  let inside = and [p || (x >= 0 && x < n) | (Dimension n p, x) <- zip shape place]
      near = [x `mod` n | (Dimension n _, x) <- zip shape place]
  if inside
    then withInts (map fromIntegral near) $ \_ p -> Rank . fromIntegral <$> answer "rankAt" 0 (c_cart_rank (commHandle comm) p)
    else pure noRank

-- | The ranks to receive from and to send to, for shifting data by a distance along a dimension
-- (counted from 0). Beyond an edge the rank is 'noRank', and communicating with it completes at once.
--
-- [Blocks]: never.
-- [Throws]: 'MPIError': 'InvalidDimensions' if there is no such dimension, 'InvalidTopology'
-- if it is no grid.
shift :: Comm 'Intra -> Int -> Int -> IO (Rank, Rank)
shift comm dimension by = do
  shape <- shapeFor "shift" comm
  case drop dimension shape of
    Dimension n periodic : _ | dimension >= 0 -> do
      -- An equivalent distance that cannot overflow in C.
      let near = if periodic then by `rem` n else max (negate n) (min n by)
      alloca $ \source -> alloca $ \destination -> do
        poke source 0 >> poke destination 0
        check "shift" (c_cart_shift (commHandle comm) (fromIntegral dimension) (fromIntegral near) source destination)
        (,) <$> rankFrom source <*> rankFrom destination
    _ -> wrong InvalidDimensions "shift" ("there is no dimension " ++ show dimension ++ " among " ++ show (length shape))
  where
    rankFrom p = Rank . fromIntegral <$> peek p

-- | Make a graph: each process gives the ranks that send to it and those that it sends to. Both
-- ends must give each edge. The flag says whether ranks may change.
--
-- [Blocks]: collective; as the implementation does.
-- [Throws]: 'MPIError': 'InvalidRank'.
newGraph :: Comm 'Intra -> [Rank] -> [Rank] -> Bool -> IO (Comm 'Intra)
newGraph comm sources destinations reorder = do
  size <- commSize comm
  forM_ [sources, destinations] (checkRanks "newGraph" size)
  withRanks sources $ \ins from -> withRanks destinations $ \outs to ->
    newCommFrom "newGraph" (c_graph_create (commHandle comm) ins from outs to (flag reorder))

-- | 'newGraph', closed on every path.
--
-- [Blocks]: collective, at the beginning and at the end.
-- [Throws]: 'MPIError', and what the body throws.
withGraph :: Comm 'Intra -> [Rank] -> [Rank] -> Bool -> (Comm 'Intra -> IO a) -> IO a
withGraph comm sources destinations reorder = bracket (newGraph comm sources destinations reorder) closeComm

-- | The ranks that send to this process and those that it sends to, in the order given to 'newGraph'.
--
-- [Blocks]: never.
-- [Throws]: 'MPIError': 'InvalidTopology' if it is no graph.
neighbours :: Comm 'Intra -> IO ([Rank], [Rank])
neighbours comm = alloca $ \ins -> alloca $ \outs -> do
  poke ins 0 >> poke outs 0
  check "neighbours" (c_graph_neighbours (commHandle comm) 0 ins nullPtr 0 outs nullPtr)
  n <- peek ins
  m <- peek outs
  allocaArray (fromIntegral n) $ \from -> allocaArray (fromIntegral m) $ \to -> do
    check "neighbours" (c_graph_neighbours (commHandle comm) n ins from m outs to)
    (,) <$> ranks n from <*> ranks m to
  where
    ranks n p = map (Rank . fromIntegral) <$> peekArray (fromIntegral n) p

foreign import ccall safe "heddle_mpi_dims_create" c_dims_create :: CInt -> CInt -> Ptr CInt -> IO CInt

foreign import ccall safe "heddle_mpi_cart_create" c_cart_create :: Int64 -> CInt -> Ptr CInt -> Ptr CInt -> CInt -> Ptr Int64 -> IO CInt

foreign import ccall safe "heddle_mpi_cart_get" c_cart_get :: Int64 -> CInt -> Ptr CInt -> Ptr CInt -> Ptr CInt -> Ptr CInt -> IO CInt

foreign import ccall safe "heddle_mpi_cart_rank" c_cart_rank :: Int64 -> Ptr CInt -> Ptr CInt -> IO CInt

foreign import ccall safe "heddle_mpi_cart_coordinates" c_cart_coordinates :: Int64 -> CInt -> CInt -> Ptr CInt -> IO CInt

foreign import ccall safe "heddle_mpi_cart_shift" c_cart_shift :: Int64 -> CInt -> CInt -> Ptr CInt -> Ptr CInt -> IO CInt

foreign import ccall safe "heddle_mpi_cart_sub" c_cart_sub :: Int64 -> Ptr CInt -> Ptr Int64 -> IO CInt

foreign import ccall safe "heddle_mpi_graph_create" c_graph_create :: Int64 -> CInt -> Ptr CInt -> CInt -> Ptr CInt -> CInt -> Ptr Int64 -> IO CInt

foreign import ccall safe "heddle_mpi_graph_neighbours" c_graph_neighbours :: Int64 -> CInt -> Ptr CInt -> Ptr CInt -> CInt -> Ptr CInt -> Ptr CInt -> IO CInt
