{-# LANGUAGE DataKinds #-}
{-# LANGUAGE FlexibleContexts #-}

-- |
-- Module      : Heddle.MPI.Collective
-- Description : Collectives on memory, without serialisation
-- Stability   : stable
--
-- Every rank of a communicator calls the same function, with the same root, operator and
-- numbers of elements, in the same order. A waiting rank parks: it stops neither its other threads
-- nor the garbage collector.
--
-- Where only the root has a buffer, the other ranks pass 'Nothing'. Functions that begin with @i@
-- return a request; those that end in @Value@ or @New@ allocate the memory for the result.
--
-- These are MPI's non-blocking collectives. Ranks in other languages must call the non-blocking ones
-- too (@MPI_Ibcast@), because MPI does not match them with blocking ones. Reductions with Haskell
-- functions, and 'allreduce' of up to a kilobyte, use messages of Heddle's own, so only programs of
-- this library can take part in them.
--
-- Cost: the implementation's.
-- Owner: the operation owns its buffers until it is complete.
module Heddle.MPI.Collective
  ( -- * All wait for all
    barrier,
    ibarrier,

    -- * One to many
    bcast,
    ibcast,
    bcastValue,
    scatter,
    iscatter,
    scatterv,
    iscatterv,

    -- * Many to one
    gather,
    igather,
    gatherNew,
    gatherValue,
    gatherv,
    igatherv,

    -- * Many to many
    allgather,
    iallgather,
    allgatherValue,
    allgatherv,
    iallgatherv,
    alltoall,
    ialltoall,
    alltoallv,
    ialltoallv,

    -- * Reductions
    reduce,
    ireduce,
    reduceValue,
    allreduce,
    iallreduce,
    allreduceValue,
    scan,
    iscan,
    scanValue,
    exscan,
    iexscan,
    reduceScatter,
    ireduceScatter,

    -- * Neighbours in a topology
    neighbourAllgather,
    ineighbourAllgather,
    neighbourAlltoall,
    ineighbourAlltoall,

    -- * Parts of buffers
    Parts (..),
    consecutive,

    -- * What reductions do
    module Heddle.MPI.Operator,
  )
where

import Control.Monad (when)
import Data.Int (Int64)
import Data.Vector.Storable (Vector)
import Data.Vector.Storable qualified as Vector
import Data.Vector.Storable.Mutable qualified as Mutable
import Foreign.C.Types (CInt (..))
import Foreign.Marshal.Alloc (alloca)
import Foreign.Ptr (Ptr, nullPtr)
import Foreign.Storable (peek, poke)
import Heddle.MPI.Internal.Buffer
import Heddle.MPI.Internal.Collective
import Heddle.MPI.Internal.Error
import Heddle.MPI.Internal.Foreign (Asked (..))
import Heddle.MPI.Internal.Reduction
import Heddle.MPI.Internal.Request
import Heddle.MPI.Internal.Types
import Heddle.MPI.Operator

-- One to many ----------------------------------------------------------------

barrierC :: Comm 'Intra -> IO (Collective ())
barrierC comm = pure (collective "barrier" kBarrier comm (exchanging (noSide, 0) (noSide, 0)))

-- | Wait until all ranks have called it.
--
-- [Blocks]: parks the thread until the operation is complete.
-- [Throws]: 'MPIError'.
-- [Source]: MPI 3.1, section 5.3.
barrier :: Comm 'Intra -> IO ()
barrier comm = barrierC comm >>= performNow

-- | 'barrier', without waiting.
ibarrier :: Comm 'Intra -> IO (Request ())
ibarrier comm = barrierC comm >>= beginNow

bcastC :: ReceiveBuffer b => Comm 'Intra -> Rank -> b -> IO (Collective ())
bcastC comm root b = do
  side <- receiveSide b
  pure (collective "bcast" kBcast comm (exchanging (noSide, 0) (side, sideCount side)) {exchangeRoot = root})
{-# INLINE bcastC #-}

-- | Copy the root's memory to all ranks. The buffers of all ranks have the same size.
--
-- [Blocks]: parks the thread until the operation is complete.
-- [Throws]: 'MPIError'.
-- [Source]: MPI 3.1, section 5.4.
bcast :: ReceiveBuffer b => Comm 'Intra -> Rank -> b -> IO ()
bcast comm root b = bcastC comm root b >>= performNow
{-# INLINE bcast #-}

-- | 'bcast', without waiting.
ibcast :: ReceiveBuffer b => Comm 'Intra -> Rank -> b -> IO (Request ())
ibcast comm root b = bcastC comm root b >>= beginNow
{-# INLINE ibcast #-}

-- | Send the root's value to all ranks. The argument of the other ranks is not read.
--
-- [Blocks]: parks the thread until the operation is complete.
-- [Throws]: 'MPIError'.
bcastValue :: Element a => Comm 'Intra -> Rank -> a -> IO a
bcastValue comm root a = do
  v <- Mutable.unsafeNew 1
  rank <- commRank comm
  when (rank == root) (Mutable.unsafeWrite v 0 a)
  bcast comm root v
  Mutable.unsafeRead v 0

scatterC :: (SendBuffer b, ReceiveBuffer c) => Comm 'Intra -> Rank -> Maybe b -> c -> IO (Collective ())
scatterC comm root b c = do
  (here, out) <- rootSide "scatter" comm root sendSide b
  into <- receiveSide c
  size <- commSize comm
  when here (sameType "scatter" out into)
  when (here && sideCount out /= size * sideCount into) . wrong InvalidCount "scatter" $
    show (sideCount out) ++ " elements are not " ++ show (sideCount into) ++ " for each of " ++ show size ++ " ranks"
  pure (collective "scatter" kScatter comm (exchanging (out, sideCount into) (into, sideCount into)) {exchangeRoot = root})

-- | Send each rank its part of the root's memory; all parts have the same size.
--
-- [Blocks]: parks the thread until the operation is complete.
-- [Throws]: 'MPIError'.
scatter :: (SendBuffer b, ReceiveBuffer c) => Comm 'Intra -> Rank -> Maybe b -> c -> IO ()
scatter comm root b c = scatterC comm root b c >>= performNow

-- | 'scatter', without waiting.
iscatter :: (SendBuffer b, ReceiveBuffer c) => Comm 'Intra -> Rank -> Maybe b -> c -> IO (Request ())
iscatter comm root b c = scatterC comm root b c >>= beginNow

scattervC :: (SendBuffer b, ReceiveBuffer c) => Comm 'Intra -> Rank -> Maybe (b, Parts) -> c -> IO (Collective ())
scattervC comm root b c = do
  (here, out) <- rootSide "scatterv" comm root sendSide (fst <$> b)
  into <- receiveSide c
  when here (sameType "scatterv" out into)
  size <- commSize comm
  (counts, offsets, keep) <- maybe (pure (nullPtr, nullPtr, pure ())) (if here then withParts "scatterv" size (unitsIn (fst <$> b)) out . snd else const (pure (nullPtr, nullPtr, pure ()))) b
  let more asked = asked {askedSendCounts = counts, askedSendOffsets = offsets}
  pure (collective "scatterv" kScatterv comm (exchanging (out, 0) (into, sideCount into)) {exchangeRoot = root, exchangeArrays = more, exchangeKeep = keep})

-- | Send each rank its part of the root's memory; the size of a rank's buffer is that of its part.
--
-- [Blocks]: parks the thread until the operation is complete.
-- [Throws]: 'MPIError'.
scatterv :: (SendBuffer b, ReceiveBuffer c) => Comm 'Intra -> Rank -> Maybe (b, Parts) -> c -> IO ()
scatterv comm root b c = scattervC comm root b c >>= performNow

-- | 'scatterv', without waiting.
iscatterv :: (SendBuffer b, ReceiveBuffer c) => Comm 'Intra -> Rank -> Maybe (b, Parts) -> c -> IO (Request ())
iscatterv comm root b c = scattervC comm root b c >>= beginNow

-- Many to one ----------------------------------------------------------------

gatherC :: (SendBuffer b, ReceiveBuffer c) => Comm 'Intra -> Rank -> b -> Maybe c -> IO (Collective ())
gatherC comm root b c = do
  out <- sendSide b
  (here, into) <- rootSide "gather" comm root receiveSide c
  size <- commSize comm
  when here (fits "gather" out into (size * sideCount out))
  pure (collective "gather" kGather comm (exchanging (out, sideCount out) (into, if here then sideCount out else 0)) {exchangeRoot = root})
{-# INLINE gatherC #-}

-- | Collect the memory of all ranks, in the order of the ranks, at the root. All ranks send the
-- same number of elements.
--
-- [Blocks]: parks the thread until the operation is complete.
-- [Throws]: 'MPIError'.
-- [Source]: Monad.Reader 19, "Many-to-one communications"; MPI 3.1, section 5.5.
gather :: (SendBuffer b, ReceiveBuffer c) => Comm 'Intra -> Rank -> b -> Maybe c -> IO ()
gather comm root b c = gatherC comm root b c >>= performNow

-- | 'gather', without waiting.
igather :: (SendBuffer b, ReceiveBuffer c) => Comm 'Intra -> Rank -> b -> Maybe c -> IO (Request ())
igather comm root b c = gatherC comm root b c >>= beginNow

-- | 'gather' into a new vector at the root.
--
-- [Blocks]: parks the thread until the operation is complete.
-- [Throws]: 'MPIError'.
gatherNew :: Element a => Comm 'Intra -> Rank -> Vector a -> IO (Maybe (Vector a))
gatherNew comm root v = do
  rank <- commRank comm
  size <- commSize comm
  if rank == root
    then do
      into <- Mutable.unsafeNew (size * Vector.length v)
      gather comm root v (Just into)
      Just <$> Vector.unsafeFreeze into
    else Nothing <$ gather comm root v (Nothing :: Maybe (Mutable.IOVector Int))

-- | Collect one value of each rank at the root.
--
-- [Blocks]: parks the thread until the operation is complete.
-- [Throws]: 'MPIError'.
gatherValue :: Element a => Comm 'Intra -> Rank -> a -> IO (Maybe (Vector a))
gatherValue comm root = gatherNew comm root . Vector.singleton

gathervC :: (SendBuffer b, ReceiveBuffer c) => Comm 'Intra -> Rank -> b -> Maybe (c, Parts) -> IO (Collective ())
gathervC comm root b c = do
  out <- sendSide b
  (here, into) <- rootSide "gatherv" comm root receiveSide (fst <$> c)
  when here (sameType "gatherv" out into)
  size <- commSize comm
  (counts, offsets, keep) <- maybe (pure (nullPtr, nullPtr, pure ())) (if here then withParts "gatherv" size (unitsIn (fst <$> c)) into . snd else const (pure (nullPtr, nullPtr, pure ()))) c
  let more asked = asked {askedReceiveCounts = counts, askedReceiveOffsets = offsets}
  pure (collective "gatherv" kGatherv comm (exchanging (out, sideCount out) (into, 0)) {exchangeRoot = root, exchangeArrays = more, exchangeKeep = keep})

-- | Collect the memory of all ranks at the root, each rank's in the given part of the buffer.
--
-- [Blocks]: parks the thread until the operation is complete.
-- [Throws]: 'MPIError'.
gatherv :: (SendBuffer b, ReceiveBuffer c) => Comm 'Intra -> Rank -> b -> Maybe (c, Parts) -> IO ()
gatherv comm root b c = gathervC comm root b c >>= performNow

-- | 'gatherv', without waiting.
igatherv :: (SendBuffer b, ReceiveBuffer c) => Comm 'Intra -> Rank -> b -> Maybe (c, Parts) -> IO (Request ())
igatherv comm root b c = gathervC comm root b c >>= beginNow

-- Many to many ---------------------------------------------------------------

allgatherC :: (SendBuffer b, ReceiveBuffer c) => Comm 'Intra -> b -> c -> IO (Collective ())
allgatherC comm b c = do
  out <- sendSide b
  into <- receiveSide c
  size <- commSize comm
  fits "allgather" out into (size * sideCount out)
  pure (collective "allgather" kAllgather comm (exchanging (out, sideCount out) (into, sideCount out)))

-- | Collect the memory of all ranks, in the order of the ranks, on every rank. All ranks send the
-- same number of elements.
--
-- [Blocks]: parks the thread until the operation is complete.
-- [Throws]: 'MPIError'.
allgather :: (SendBuffer b, ReceiveBuffer c) => Comm 'Intra -> b -> c -> IO ()
allgather comm b c = allgatherC comm b c >>= performNow

-- | 'allgather', without waiting.
iallgather :: (SendBuffer b, ReceiveBuffer c) => Comm 'Intra -> b -> c -> IO (Request ())
iallgather comm b c = allgatherC comm b c >>= beginNow

-- | Collect one value of each rank on every rank.
--
-- [Blocks]: parks the thread until the operation is complete.
-- [Throws]: 'MPIError'.
allgatherValue :: Element a => Comm 'Intra -> a -> IO (Vector a)
allgatherValue comm a = do
  size <- commSize comm
  into <- Mutable.unsafeNew size
  allgather comm (Vector.singleton a) into
  Vector.unsafeFreeze into

allgathervC :: (SendBuffer b, ReceiveBuffer c) => Comm 'Intra -> b -> c -> Parts -> IO (Collective ())
allgathervC comm b c parts = do
  out <- sendSide b
  into <- receiveSide c
  sameType "allgatherv" out into
  size <- commSize comm
  (counts, offsets, keep) <- withParts "allgatherv" size (unitsEach c) into parts
  let more asked = asked {askedReceiveCounts = counts, askedReceiveOffsets = offsets}
  pure (collective "allgatherv" kAllgatherv comm (exchanging (out, sideCount out) (into, 0)) {exchangeArrays = more, exchangeKeep = keep})

-- | Collect the memory of all ranks on every rank, each rank's in the given part of the buffer.
--
-- [Blocks]: parks the thread until the operation is complete.
-- [Throws]: 'MPIError'.
allgatherv :: (SendBuffer b, ReceiveBuffer c) => Comm 'Intra -> b -> c -> Parts -> IO ()
allgatherv comm b c parts = allgathervC comm b c parts >>= performNow

-- | 'allgatherv', without waiting.
iallgatherv :: (SendBuffer b, ReceiveBuffer c) => Comm 'Intra -> b -> c -> Parts -> IO (Request ())
iallgatherv comm b c parts = allgathervC comm b c parts >>= beginNow

-- With the numbers of parts to receive and to send.
alltoallC :: (SendBuffer b, ReceiveBuffer c) => String -> KindCode -> Int -> Int -> Comm kind -> b -> c -> IO (Collective ())
alltoallC call kind ins outs comm b c = do
  out <- sendSide b
  into <- receiveSide c
  -- A part has whole elements, also where MPI counts bytes.
  let units = unitsEach b
      count = elementsOf units (sideCount out)
      each
        | outs > 0 = units * (count `quot` outs)
        | ins > 0 = unitsEach c * (elementsOf (unitsEach c) (sideCount into) `quot` ins)
        | otherwise = 0
  when (outs > 0 && each * outs /= sideCount out) . wrong InvalidCount call $
    show count ++ " elements cannot be divided among " ++ show outs ++ " ranks"
  fits call out into (ins * each)
  pure (collective call kind comm (exchanging (out, each) (into, each)))

-- | Each rank sends a part of its memory to each rank; all parts have the same size.
--
-- [Blocks]: parks the thread until the operation is complete.
-- [Throws]: 'MPIError'.
alltoall :: (SendBuffer b, ReceiveBuffer c) => Comm 'Intra -> b -> c -> IO ()
alltoall comm b c = commSize comm >>= \size -> alltoallC "alltoall" kAlltoall size size comm b c >>= performNow

-- | 'alltoall', without waiting.
ialltoall :: (SendBuffer b, ReceiveBuffer c) => Comm 'Intra -> b -> c -> IO (Request ())
ialltoall comm b c = commSize comm >>= \size -> alltoallC "ialltoall" kAlltoall size size comm b c >>= beginNow

alltoallvC :: (SendBuffer b, ReceiveBuffer c) => Comm 'Intra -> b -> Parts -> c -> Parts -> IO (Collective ())
alltoallvC comm b sent c received = do
  out <- sendSide b
  into <- receiveSide c
  sameType "alltoallv" out into
  size <- commSize comm
  (outCounts, outOffsets, keep) <- withParts "alltoallv" size (unitsEach b) out sent
  (inCounts, inOffsets, keep') <- withParts "alltoallv" size (unitsEach c) into received
  let more asked =
        asked
          { askedSendCounts = outCounts,
            askedSendOffsets = outOffsets,
            askedReceiveCounts = inCounts,
            askedReceiveOffsets = inOffsets
          }
  pure (collective "alltoallv" kAlltoallv comm (exchanging (out, 0) (into, 0)) {exchangeArrays = more, exchangeKeep = keep >> keep'})

-- | Each rank sends a part of its memory to each rank; parts may have any size.
--
-- [Blocks]: parks the thread until the operation is complete.
-- [Throws]: 'MPIError'.
alltoallv :: (SendBuffer b, ReceiveBuffer c) => Comm 'Intra -> b -> Parts -> c -> Parts -> IO ()
alltoallv comm b sent c received = alltoallvC comm b sent c received >>= performNow

-- | 'alltoallv', without waiting.
ialltoallv :: (SendBuffer b, ReceiveBuffer c) => Comm 'Intra -> b -> Parts -> c -> Parts -> IO (Request ())
ialltoallv comm b sent c received = alltoallvC comm b sent c received >>= beginNow

-- Neighbours -----------------------------------------------------------------

-- How many ranks this one receives from and sends to. The implementation writes a part for each of them, so the caller's
-- number must not be believed.
neighbourCounts :: String -> Comm 'Intra -> IO (Int, Int)
neighbourCounts call comm = alloca $ \ins -> alloca $ \outs -> do
  poke ins 0 >> poke outs 0
  check call (c_neighbour_counts (commHandle comm) ins outs)
  (,) <$> (fromIntegral <$> peek ins) <*> (fromIntegral <$> peek outs)

asTheTopology :: String -> Int -> Int -> String -> IO ()
asTheTopology call actual given direction =
  when (actual /= given) . wrong InvalidCount call $
    "the topology has " ++ show actual ++ " neighbours that this rank " ++ direction ++ ", not " ++ show given

neighbourAllgatherC :: (SendBuffer b, ReceiveBuffer c) => String -> Comm 'Intra -> Int -> b -> c -> IO (Collective ())
neighbourAllgatherC call comm given b c = do
  out <- sendSide b
  into <- receiveSide c
  (ins, _) <- neighbourCounts call comm
  asTheTopology call ins given "receives from"
  fits call out into (ins * sideCount out)
  pure (collective call kNeighbourAllgather comm (exchanging (out, sideCount out) (into, sideCount out)))

-- | Collect the memory of all neighbours that send to this rank, in the order of the topology. The number is how many
-- there are: in a grid two for each dimension, also at an edge, where the part of the buffer for 'noRank' stays as it was.
--
-- [Blocks]: parks the thread until the operation is complete.
-- [Throws]: 'MPIError': 'InvalidCount' if the number is not the topology's, or the buffer is too small;
-- 'InvalidTopology' if there is no topology.
neighbourAllgather :: (SendBuffer b, ReceiveBuffer c) => Comm 'Intra -> Int -> b -> c -> IO ()
neighbourAllgather comm ins b c = neighbourAllgatherC "neighbourAllgather" comm ins b c >>= performNow

-- | 'neighbourAllgather', without waiting.
ineighbourAllgather :: (SendBuffer b, ReceiveBuffer c) => Comm 'Intra -> Int -> b -> c -> IO (Request ())
ineighbourAllgather comm ins b c = neighbourAllgatherC "ineighbourAllgather" comm ins b c >>= beginNow

neighbourAlltoallC :: (SendBuffer b, ReceiveBuffer c) => String -> Comm 'Intra -> Int -> b -> c -> IO (Collective ())
neighbourAlltoallC call comm given b c = do
  (ins, outs) <- neighbourCounts call comm
  asTheTopology call outs given "sends to"
  alltoallC call kNeighbourAlltoall ins outs comm b c

-- | Send a part to each neighbour and receive one of the same size from each; the number is how many this rank sends to,
-- and the memory to send is divided by it. See 'neighbourAllgather' on grids.
--
-- [Blocks]: parks the thread until the operation is complete.
-- [Throws]: 'MPIError', as 'neighbourAllgather'; 'InvalidCount' also if the memory cannot be divided.
neighbourAlltoall :: (SendBuffer b, ReceiveBuffer c) => Comm 'Intra -> Int -> b -> c -> IO ()
neighbourAlltoall comm n b c = neighbourAlltoallC "neighbourAlltoall" comm n b c >>= performNow

-- | 'neighbourAlltoall', without waiting.
ineighbourAlltoall :: (SendBuffer b, ReceiveBuffer c) => Comm 'Intra -> Int -> b -> c -> IO (Request ())
ineighbourAlltoall comm n b c = neighbourAlltoallC "ineighbourAlltoall" comm n b c >>= beginNow

foreign import ccall safe "heddle_mpi_neighbour_counts" c_neighbour_counts :: Int64 -> Ptr CInt -> Ptr CInt -> IO CInt
