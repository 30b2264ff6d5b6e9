{-# LANGUAGE DataKinds #-}

-- | Grids and graphs.
module TopologyTest
  ( cases,
  )
where

import Control.Monad (forM_, void, when)
import Data.List (sort)
import Data.Maybe (isJust)
import Data.Vector.Storable qualified as Vector
import Data.Vector.Storable.Mutable qualified as Mutable
import Heddle.MPI
import Heddle.MPI.Collective (ineighbourAllgather, ineighbourAlltoall, neighbourAllgather, neighbourAlltoall)
import Heddle.MPI.Communicator (withDup)
import Heddle.MPI.Fast
import Heddle.MPI.Topology
import Ranks

cases :: [Case]
cases =
  [ anywhere "balanced sizes" $ do
      balancedDims 12 [0, 0] >>= (=== [4, 3])
      balancedDims 12 [0, 2, 0] >>= (=== [3, 2, 2])
      balancedDims 64 [0, 0, 0] >>= (=== [4, 4, 4])
      balancedDims 7 [0, 0] >>= (=== [7, 1])
      balancedDims 1 [] >>= (=== [])
      balancedDims 6 [2, 3] >>= (=== [2, 3])
      forM_ [1 .. 60] $ \n -> forM_ [1 .. 4] $ \d -> do
        sizes <- balancedDims n (replicate d 0)
        product sizes === n
        sizes === reverse (sort sizes),
    anywhere "wrong sizes" $ do
      throws [InvalidArgument] (balancedDims 0 [0])
      throws [InvalidArgument] (balancedDims (-3) [0])
      throws [InvalidArgument] (balancedDims 4294967296 [0])
      throws [InvalidDimensions] (balancedDims 6 [-2, 0])
      throws [InvalidDimensions] (balancedDims 6 [4, 0])
      throws [InvalidDimensions] (balancedDims 6 [2, 2])
      throws [InvalidDimensions] (balancedDims 6 [])
      throws [InvalidDimensions] (balancedDims 6 [4294967296, 0]),
    anywhere "a ring" $ do
      (rank, size) <- place commWorld
      withGrid commWorld [Dimension size True] $ \ring -> do
        cartesianShape ring >>= (=== [Dimension size True])
        place ring >>= (=== (rank, size))
        forM_ [0 .. size - 1] $ \r -> coordinates ring (toRank r) >>= (=== [r])
        forM_ [-9 .. 9] $ \x -> rankAt ring [x] >>= (=== toRank (x `mod` size))
        forM_ [-9 .. 9] $ \by -> shift ring 0 by >>= (=== (toRank ((rank - by) `mod` size), toRank ((rank + by) `mod` size)))
        let far = 10 ^ (18 :: Int) + 1
        rankAt ring [far] >>= (=== toRank (far `mod` size))
        shift ring 0 far >>= (=== (toRank ((rank - far) `mod` size), toRank ((rank + far) `mod` size))),
    anywhere "a line" $ do
      (rank, size) <- place commWorld
      let at x = if x < 0 || x >= size then noRank else toRank x
      withGrid commWorld [Dimension size False] $ \line -> do
        cartesianShape line >>= (=== [Dimension size False])
        forM_ [-9 .. 9] $ \x -> rankAt line [x] >>= (=== at x)
        forM_ ([-9 .. 9] ++ [maxBound, minBound]) $ \by ->
          shift line 0 by >>= (=== (at' size (toInteger rank - toInteger by), at' size (toInteger rank + toInteger by)))
        rankAt line [maxBound] >>= (=== noRank)
        rankAt line [4294967296] >>= (=== noRank),
    anywhere "halos on a line" $ halos False,
    anywhere "halos on a ring" $ halos True,
    onRanks [4] "a plane" $ do
      rank <- fromIntegral <$> commRank commWorld
      withGrid commWorld [Dimension 2 False, Dimension 2 True] $ \plane -> do
        cartesianShape plane >>= (=== [Dimension 2 False, Dimension 2 True])
        let (y, x) = rank `divMod` 2 :: (Int, Int)
        coordinates plane (toRank rank) >>= (=== [y, x])
        forM_ [0 .. 3 :: Int] $ \r -> coordinates plane (toRank r) >>= rankAt plane >>= (=== toRank r)
        rankAt plane [1, -1] >>= (=== 3)
        rankAt plane [2, 0] >>= (=== noRank)
        shift plane 0 1 >>= (=== (if y == 0 then noRank else toRank (rank - 2), if y == 1 then noRank else toRank (rank + 2)))
        shift plane 1 1 >>= (=== (toRank (2 * y + 1 - x), toRank (2 * y + 1 - x)))
        withSubgrid plane [False, True] $ \row -> do
          cartesianShape row >>= (=== [Dimension 2 True])
          place row >>= (=== (x, 2))
          passed row rank >>= (=== 2 * y + 1 - x)
        withSubgrid plane [True, False] $ \column -> do
          cartesianShape column >>= (=== [Dimension 2 False])
          place column >>= (=== (y, 2))
          passed column rank >>= (=== 2 * (1 - y) + x)
        withSubgrid plane [False, False] $ \point -> do
          place point >>= (=== (0, 1))
          cartesianShape point >>= (=== [])
          coordinates point 0 >>= (=== [])
          rankAt point [] >>= (=== 0)
        withSubgrid plane [True, True] $ \same -> cartesianShape plane >>= \s -> cartesianShape same >>= (=== s)
        withDup plane $ \dup -> cartesianShape dup >>= (=== [Dimension 2 False, Dimension 2 True]),
    anywhere "a grid of as many as it needs" $ do
      (rank, size) <- place commWorld
      let wanted = max 1 (size - 1)
      withCartesian commWorld [Dimension wanted False] False $ \grid -> do
        isJust grid === (rank < wanted)
        forM_ grid $ \g -> place g >>= (=== (rank, wanted)),
    anywhere "a grid without dimensions" $ do
      rank <- commRank commWorld
      withCartesian commWorld [] False $ \grid -> do
        isJust grid === (rank == 0)
        forM_ grid $ \g -> do
          place g >>= (=== (0, 1))
          cartesianShape g >>= (=== [])
          throws [InvalidDimensions] (shift g 0 1),
    anywhere "a grid whose ranks may change" $ do
      size <- commSize commWorld
      sizes <- balancedDims size [0, 0]
      withCartesian commWorld (map (`Dimension` True) sizes) True $ \grid -> do
        isJust grid === True
        forM_ grid $ \g -> do
          (r, n) <- place g
          n === size
          coordinates g (toRank r) >>= rankAt g >>= (=== toRank r),
    anywhere "wrong grids" $ do
      size <- commSize commWorld
      throws [InvalidDimensions] (newCartesian commWorld [Dimension (size + 1) False] False)
      throws [InvalidDimensions] (newCartesian commWorld [Dimension 0 False] False)
      throws [InvalidDimensions] (newCartesian commWorld [Dimension (-1) False, Dimension (-1) True] False)
      throws [InvalidDimensions] (newCartesian commWorld (replicate 4 (Dimension 65536 False)) False)
      withGrid commWorld [Dimension size False, Dimension 1 True] $ \grid -> do
        throws [InvalidDimensions] (rankAt grid [0])
        throws [InvalidDimensions] (rankAt grid [0, 0, 0])
        throws [InvalidDimensions] (shift grid 2 1)
        throws [InvalidDimensions] (shift grid (-1) 1)
        throws [InvalidRank] (coordinates grid (toRank size))
        throws [InvalidRank] (coordinates grid noRank)
        throws [InvalidDimensions] (newSubgrid grid [True])
        throws [InvalidTopology] (neighbours grid)
      gone <- newCartesian commWorld [Dimension size True] False
      forM_ gone $ \g -> do
        closeComm g
        throws [AlreadyClosed] (cartesianShape g)
        throws [AlreadyClosed] (shift g 0 1),
    anywhere "what is no grid" $ do
      throws [InvalidTopology] (cartesianShape commWorld)
      throws [InvalidTopology] (coordinates commWorld 0)
      throws [InvalidTopology] (rankAt commWorld [0])
      throws [InvalidTopology] (shift commWorld 0 1)
      throws [InvalidTopology] (newSubgrid commWorld [])
      throws [InvalidTopology] (neighbours commWorld),
    anywhere "a graph that is a ring" $ do
      (rank, size) <- place commWorld
      let next = toRank ((rank + 1) `mod` size)
          previous = toRank ((rank - 1) `mod` size)
      withGraph commWorld [previous] [next] False $ \ring -> do
        place ring >>= (=== (rank, size))
        neighbours ring >>= (=== ([previous], [next]))
        throws [InvalidTopology] (cartesianShape ring)
        sent <- isend ring next 1 (Vector.singleton rank)
        recvValue ring previous 1 >>= (=== fromIntegral previous) . (fst :: (Int, Status) -> Int)
        void (wait sent)
      withGraph commWorld [next, previous] [previous, next] False $ \both ->
        neighbours both >>= (=== ([next, previous], [previous, next])),
    anywhere "neighbours gather, and send a part to each" $ do
      (rank, size) <- place commWorld
      let next = (rank + 1) `mod` size
          previous = (rank - 1) `mod` size
          others = [previous, next]
      withGraph commWorld (map toRank others) (map toRank (reverse others)) False $ \ring -> do
        forM_ [neighbourAllgather ring 2, \mine into -> ineighbourAllgather ring 2 mine into >>= wait] $ \gathering -> do
          into <- Mutable.new 6
          gathering (Vector.generate 3 (+ 10 * rank)) into
          got <- Vector.freeze into
          -- With two ranks, both edges join the same ones.
          when (size > 2) (got === Vector.concat [Vector.generate 3 (+ 10 * r) | r <- others])
          sum (Vector.toList got) === sum [sum [0 .. 2] + 30 * r | r <- others]
        forM_ [neighbourAlltoall ring 2, \mine into -> ineighbourAlltoall ring 2 mine into >>= wait] $ \sending -> do
          into <- Mutable.new 2
          -- To the next, then to the previous.
          sending (Vector.fromList [100 * rank + 1, 100 * rank + 2]) into
          got <- Vector.freeze into
          when (size > 2) (Vector.toList got === [100 * previous + 1, 100 * next + 2]),
    anywhere "the caller's number of neighbours was believed" $ do
      (rank, size) <- place commWorld
      withGrid commWorld [Dimension size True, Dimension 1 False] $ \grid -> do
        -- Four neighbours, whose parts do not fit.
        into <- Mutable.replicate 12 (-1) :: IO (Mutable.IOVector Int)
        let mine = Vector.generate 3 (+ 10 * rank)
        forM_ [-1, 0, 1, 2, 3, 5, maxBound] $ \wrongly -> do
          throws [InvalidCount] (neighbourAllgather grid wrongly mine (Mutable.take 3 into))
          throws [InvalidCount] (ineighbourAllgather grid wrongly mine (Mutable.take 3 into) >>= wait)
          throws [InvalidCount] (neighbourAlltoall grid wrongly mine (Mutable.take 3 into))
          throws [InvalidCount] (ineighbourAlltoall grid wrongly mine (Mutable.take 3 into) >>= wait)
        throws [InvalidCount] (neighbourAllgather grid 4 mine (Mutable.take 11 into))
        throws [InvalidCount] (neighbourAlltoall grid 4 (Vector.replicate 12 rank) (Mutable.take 11 into))
        throws [InvalidCount] (neighbourAlltoall grid 4 (Vector.replicate 11 rank) into)
        neighbourAllgather grid 4 mine into
        Vector.freeze into >>= (=== [-1, -1, -1, -1, -1, -1]) . Vector.toList . Vector.drop 6
      throws [InvalidTopology] ((Mutable.new 8 :: IO (Mutable.IOVector Int)) >>= neighbourAllgather commWorld 2 (Vector.replicate 1 rank))
      throws [InvalidTopology] ((Mutable.new 8 :: IO (Mutable.IOVector Int)) >>= neighbourAlltoall commWorld 2 (Vector.replicate 2 rank)),
    anywhere "neighbours that send, and others that are sent to" $ do
      (rank, size) <- place commWorld
      let others = map toRank [1 .. size - 1]
      withGraph commWorld (if rank == 0 then others else []) [0 | rank /= 0] False $ \star -> do
        let (ins, outs) = if rank == 0 then (size - 1, 0) else (0, 1)
        into <- Mutable.replicate (max 1 ins) (-1) :: IO (Mutable.IOVector Int)
        throws [InvalidCount] (neighbourAllgather star (ins + 1) (Vector.singleton rank) into)
        throws [InvalidCount] (neighbourAlltoall star (outs + 1) (Vector.replicate (outs + 1) rank) into)
        neighbourAllgather star ins (Vector.singleton rank) into
        Vector.freeze into >>= (=== if ins > 0 then [1 .. size - 1] else [-1]) . Vector.toList
        Mutable.set into (-1)
        neighbourAlltoall star outs (Vector.replicate outs rank) (Mutable.take ins into)
        Vector.freeze into >>= (=== if ins > 0 then [1 .. size - 1] else [-1]) . Vector.toList,
    anywhere "a star, and no edges" $ do
      (rank, size) <- place commWorld
      let others = map toRank [1 .. size - 1]
      withGraph commWorld (if rank == 0 then others else []) [0 | rank /= 0] False $ \star ->
        neighbours star >>= (=== (if rank == 0 then others else [], [0 | rank /= 0]))
      withGraph commWorld [] [] False $ \none -> neighbours none >>= (=== ([], [])),
    anywhere "wrong graphs" $ do
      size <- commSize commWorld
      throws [InvalidRank] (newGraph commWorld [toRank size] [] False)
      throws [InvalidRank] (newGraph commWorld [] [-1] False)
      throws [InvalidRank] (newGraph commWorld [noRank] [] False)
      gone <- newGraph commWorld [] [] False
      closeComm gone
      throws [AlreadyClosed] (neighbours gone)
  ]

place :: Comm kind -> IO (Int, Int)
place comm = (,) <$> (fromIntegral <$> commRank comm) <*> commSize comm

at' :: Int -> Integer -> Rank
at' size x = if x < 0 || x >= toInteger size then noRank else fromInteger x

withGrid :: Comm 'Intra -> [Dimension] -> (Comm 'Intra -> IO ()) -> IO ()
withGrid comm dimensions use =
  withCartesian comm dimensions False (maybe (assert "this process is in the grid" False) use)

-- The value that the other one of two ranks sends.
passed :: Comm 'Intra -> Int -> IO Int
passed comm mine = do
  other <- (1 -) <$> commRank comm
  theirs <- Mutable.new 1
  _ <- sendrecv comm other 4 (Vector.singleton mine) other 4 theirs
  Mutable.read theirs 0

-- Each process has three cells, and the edges of its neighbours around them.
halos :: Bool -> IO ()
halos periodic = do
  (rank, size) <- place commWorld
  withGrid commWorld [Dimension size periodic] $ \grid -> do
    cells <- Mutable.replicate 5 (-1) :: IO (Mutable.IOVector Double)
    forM_ [0 .. 2] $ \i -> Mutable.write cells (i + 1) (fromIntegral (3 * rank + i))
    (left, right) <- shift grid 0 1
    forM_ [(right, 3, left, 0), (left, 1, right, 4)] $ \(to, own, from, halo) -> do
      status <- sendrecv grid to 2 (Mutable.slice own 1 cells) from 2 (Mutable.slice halo 1 cells)
      statusSource status === from
      when (from == noRank) (statusBytes status === 0)
    got <- Vector.freeze cells
    let all' = 3 * size
        value i
          | i >= 0 && i < all' = fromIntegral i
          | periodic = fromIntegral (i `mod` all')
          | otherwise = -1
    Vector.toList got === map value [3 * rank - 1 .. 3 * rank + 3]
