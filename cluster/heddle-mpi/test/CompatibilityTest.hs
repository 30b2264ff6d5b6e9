-- | haskell-mpi's names keep their meaning.
module CompatibilityTest
  ( cases,
  )
where

import Control.Monad (forM_, replicateM, void, when)
import Control.Parallel.MPI.Fast qualified as Fast
import Control.Parallel.MPI.Simple
import Data.Array.IO (IOArray, IOUArray)
import Data.Array.Storable (StorableArray, getElems, newListArray)
import Data.ByteString.Char8 qualified as Bytes
import Data.Map.Strict qualified as Map
import Foreign.C.Types (CInt)
import Ranks

cases :: [Case]
cases =
  [ onRanks [2 .. 4] "haskell-mpi: values by send and recv, in all modes" $ do
      (r, size) <- place
      let value k = Map.fromList [(i, show (i * k)) | i <- [1 .. 100 :: Int]]
      if r == 0
        then do
          forM_ [1 .. size - 1] $ \k -> do
            (got, status) <- recv commWorld (toRank k) unitTag
            got === value k
            (status_source status, status_tag status) === (toRank k, unitTag)
          got <- replicateM (3 * (size - 1)) (fst <$> recv commWorld anySource anyTag)
          sum got === sum [6 * k | k <- [1 .. size - 1]]
          forM_ [1 .. size - 1] (\k -> send commWorld (toRank k) (toTag 'x') "now")
          forM_ [1 .. size - 1] (\k -> recv commWorld (toRank k) (toTag 'y') >>= (=== ()) . fst)
        else do
          send commWorld 0 unitTag (value r)
          ssend commWorld 0 1 r
          bsend commWorld 0 2 (2 * r)
          _ <- isend commWorld 0 3 (3 * r) >>= wait
          got <- fst <$> recv commWorld theRoot (toTag 'x')
          got === "now"
          future <- recvFuture commWorld 0 9 :: IO (Future Int)
          pollFuture future >>= (=== Nothing)
          cancelFuture future
          throws [Cancelled] (waitFuture future)
          -- The root receives already, or will: a request says so.
          issend commWorld 0 (toTag 'y') () >>= \request -> void (waitall [request]),
    anywhere "haskell-mpi: futures" $ do
      (r, _) <- place
      future <- recvFuture commWorld (toRank r) 4
      bsend commWorld (toRank r) 4 'a'
      waitFuture future >>= (=== 'a')
      pollFuture future >>= (=== Just 'a')
      status <- getFutureStatus future
      status_tag status === 4,
    anywhere "haskell-mpi: collectives of values" $ do
      (r, size) <- place
      forM_ (map toRank [0 .. size - 1]) $ \root -> do
        if toRank r == root
          then do
            gatherRecv commWorld root r >>= (=== [0 .. size - 1])
            bcastSend commWorld root "x"
            scatterSend commWorld root [10 .. 9 + size] >>= (=== 10 + r)
          else do
            gatherSend commWorld root r
            bcastRecv commWorld root >>= (=== "x")
            scatterRecv commWorld root >>= (=== 10 + r)
      allgather commWorld r >>= (=== [0 .. size - 1])
      alltoall commWorld [100 * r + k | k <- [0 .. size - 1]] >>= (=== [100 * k + r | k <- [0 .. size - 1]])
      barrier commWorld,
    onRanks [2 .. 4] "haskell-mpi: gatherRecv elsewhere than at the root is an error" $ do
      (r, _) <- place
      when (r == 1) (throws [InvalidRoot] (gatherRecv commWorld 0 'x')),
    onRanks [2 .. 4] "haskell-mpi: memory by send and recv" $ do
      (r, size) <- place
      let to = toRank ((r + 1) `mod` size)
          left = (r - 1) `mod` size
          from = toRank left
      out <- newListArray (1, 10) [r .. r + 9] :: IO (StorableArray Int Int)
      request <- Fast.isend commWorld to 2 out
      (arrived, status) <- Fast.intoNewArray (1, 10) (Fast.recv commWorld from 2) :: IO (StorableArray Int Int, Status)
      getElems arrived >>= (=== [left .. left + 9])
      status_source status === from
      _ <- wait request
      into <- newListArray (1, 3) [0, 0, 0] :: IO (StorableArray Int Double)
      receive <- Fast.irecv commWorld from 3 into
      boxed <- newListArray (1, 3) (map fromIntegral [r, r, r + 1]) :: IO (IOArray Int Double)
      Fast.send commWorld to 3 boxed
      _ <- wait receive
      getElems into >>= (=== map fromIntegral [left, left, left + 1])
      Fast.bsend commWorld to 4 (fromIntegral r + 0.5 :: Double)
      (x, _) <- Fast.intoNewVal (Fast.recv commWorld from 4)
      x === (fromIntegral left + 0.5 :: Double)
      Fast.bsend commWorld to 5 (Bytes.pack (show r))
      bytes <- Fast.intoNewBS_ (1 :: Int) (Fast.recv commWorld from 5)
      bytes === Bytes.pack (show left)
      unboxed <- newListArray (1, 2) [r, 7] :: IO (IOUArray Int Int)
      Fast.bsend commWorld to 6 unboxed
      got <- Fast.intoNewArray_ (1, 2) (Fast.recv commWorld from 6) :: IO (IOArray Int Int)
      getElemsBoxed got >>= (=== [left, 7]),
    anywhere "haskell-mpi: collectives of memory" $ do
      (r, size) <- place
      forM_ (map toRank [0 .. size - 1]) $ \root -> do
        let here = toRank r == root
        mine <- array [r, 10 * r]
        gathered <- array (replicate (2 * size) 0)
        if here then Fast.gatherRecv commWorld root mine gathered else Fast.gatherSend commWorld root mine
        getElems gathered >>= (=== if here then concat [[k, 10 * k] | k <- [0 .. size - 1]] else replicate (2 * size) 0)
        part <- array [0]
        all' <- array [5 .. 4 + size]
        if here then Fast.scatterSend commWorld root all' part else Fast.scatterRecv commWorld root part
        getElems part >>= (=== [5 + r])
        told <- if here then 42 <$ Fast.bcastSend commWorld root (42 :: Int) else Fast.intoNewVal_ (Fast.bcastRecv commWorld root)
        told === (42 :: Int)
        if here
          then throws [InvalidRoot] (Fast.gatherSend commWorld root mine)
          else throws [InvalidRoot] (Fast.bcastSend commWorld root mine)
        -- Parts of 1, 2, ... elements.
        let counts = [1 .. size]
            offsets = scanl (+) 0 counts
        cs <- numbers counts
        os <- numbers (take size offsets)
        own <- array (replicate (r + 1) 0)
        whole <- array [0 .. sum counts - 1]
        if here then Fast.scattervSend commWorld root whole cs os own else Fast.scattervRecv commWorld root own
        getElems own >>= (=== take (r + 1) [offsets !! r ..])
        back <- array (replicate (sum counts) (-1))
        if here then Fast.gathervRecv commWorld root own cs os back else Fast.gathervSend commWorld root own
        getElems back >>= (=== if here then [0 .. sum counts - 1] else replicate (sum counts) (-1))
        everywhere <- array (replicate (sum counts) (-1))
        Fast.allgatherv commWorld own cs os everywhere
        getElems everywhere >>= (=== [0 .. sum counts - 1])
      mine <- array [r]
      into <- array (replicate size 0)
      Fast.allgather commWorld mine into
      getElems into >>= (=== [0 .. size - 1])
      out <- array [100 * r + k | k <- [0 .. size - 1]]
      Fast.alltoall commWorld out 1 1 into
      getElems into >>= (=== [100 * k + r | k <- [0 .. size - 1]])
      ones <- numbers (replicate size 1)
      places <- numbers [0 .. size - 1]
      turned <- numbers (reverse [0 .. size - 1])
      Fast.alltoallv commWorld out ones turned ones places into
      getElems into >>= (=== [100 * k + size - 1 - r | k <- [0 .. size - 1]]),
    anywhere "haskell-mpi: reductions" $ do
      (r, size) <- place
      let mine k = [k + 1, 2 * k, k `mod` 2]
          folded f = foldl1 (zipWith f) (map mine [0 .. size - 1])
          truth f x y = fromEnum (f (x /= 0) (y /= 0))
      out <- array (mine r)
      forM_ [(Fast.sumOp, (+)), (Fast.prodOp, (*)), (Fast.maxOp, max), (Fast.minOp, min)] $ \(op, f) -> do
        all' <- array [0, 0, 0]
        Fast.allreduce commWorld op out all'
        getElems all' >>= (=== folded f)
        forM_ (map toRank [0 .. size - 1]) $ \root -> do
          at <- array [-1, -1, -1]
          if toRank r == root then Fast.reduceRecv commWorld root op out at else Fast.reduceSend commWorld root op out
          getElems at >>= (=== if toRank r == root then folded f else [-1, -1, -1])
      when (size > 1) . forM_ [(Fast.landOp, (&&)), (Fast.lorOp, (||)), (Fast.lxorOp, (/=))] $ \(op, f) -> do
        all' <- array [0, 0, 0]
        Fast.allreduce commWorld op out all'
        getElems all' >>= (=== folded (truth f))
      counts <- numbers (3 : replicate (size - 1) 0)
      part <- array [0, 0, 0]
      Fast.reduceScatter commWorld Fast.sumOp counts out part
      getElems part >>= (=== if r == 0 then folded (+) else [0, 0, 0])
      x <- newListArray (0, 0) [1.5] :: IO (StorableArray Int Double)
      throws [InvalidOperator] (Fast.allreduce commWorld Fast.bandOp x x)
  ]

array :: [Int] -> IO (StorableArray Int Int)
array xs = newListArray (1, length xs) xs

numbers :: [Int] -> IO (StorableArray Int CInt)
numbers xs = newListArray (0, length xs - 1) (map fromIntegral xs)

getElemsBoxed :: IOArray Int Int -> IO [Int]
getElemsBoxed = getElems

place :: IO (Int, Int)
place = (,) <$> (rankId <$> commRank commWorld) <*> commSize commWorld
