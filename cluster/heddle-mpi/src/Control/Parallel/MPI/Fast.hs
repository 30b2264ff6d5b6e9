{-# LANGUAGE FlexibleContexts #-}
{-# LANGUAGE FlexibleInstances #-}
{-# LANGUAGE RankNTypes #-}
{-# LANGUAGE TypeApplications #-}
{-# LANGUAGE TypeFamilies #-}
{-# LANGUAGE TypeOperators #-}
{-# LANGUAGE UndecidableInstances #-}

-- |
-- Module      : Control.Parallel.MPI.Fast
-- Description : The names of haskell-mpi: memory from process to process
-- Stability   : stable
--
-- haskell-mpi's names for the functions of "Heddle.MPI.Fast" and "Heddle.MPI.Collective", for
-- programs written for haskell-mpi. A collective has one form for ranks that send and one for ranks
-- that receive; 'intoNewVal' and its relatives allocate the memory to receive into.
--
-- Differences: 'waitall' takes a list of requests, not an array; a buffer that is too small, of another type, or on the
-- wrong rank is an exception; user-defined operators are "Heddle.MPI.Operator"'s, for 'Heddle.MPI.Collective.allreduce'.
--
-- Cost: that of "Heddle.MPI.Fast"; boxed arrays, single values and reduced values are copied.
-- Owner: the operation owns its buffers until it is complete.
module Control.Parallel.MPI.Fast
  ( -- * Point to point
    send,
    ssend,
    rsend,
    bsend,
    recv,

    -- * Without waiting
    isend,
    issend,
    ibsend,
    irecv,

    -- * One to many
    bcastSend,
    bcastRecv,
    scatterSend,
    scatterRecv,
    scattervSend,
    scattervRecv,

    -- * Many to one
    gatherSend,
    gatherRecv,
    gathervSend,
    gathervRecv,
    reduceSend,
    reduceRecv,

    -- * Many to many
    allgather,
    allgatherv,
    alltoall,
    alltoallv,
    allreduce,
    reduceScatter,

    -- * New memory
    intoNewArray,
    intoNewArray_,
    intoNewVal,
    intoNewVal_,
    intoNewBS,
    intoNewBS_,

    -- * What can be sent
    SendFrom (..),
    RecvInto (..),

    -- * Reductions
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
    Reducible (..),
    ReduceFrom (..),
    ReduceInto (..),

    -- * What does not depend on the message
    module Control.Parallel.MPI.Base,
  )
where

import Control.Monad (forM_, when)
import Control.Monad.Primitive (RealWorld)
import Control.Parallel.MPI.Base
import Control.Parallel.MPI.Internal.Reducible
import Data.Array.Base (MArray, unsafeNewArray_)
import Data.Array.IO (IOArray, IOUArray, getBounds, getElems, writeArray)
import Data.Array.Storable (StorableArray)
import Data.ByteString (ByteString)
import Data.ByteString.Internal (fromForeignPtr, mallocByteString)
import Data.Int (Int16, Int32, Int64, Int8)
import Data.Ix (Ix, range, rangeSize)
import Data.Primitive.Types (Prim)
import Data.Vector.Storable (Vector)
import Data.Vector.Storable qualified as Vector
import Data.Vector.Storable.Mutable qualified as Mutable
import Data.Word (Word16, Word32, Word64, Word8)
import Foreign.C.Types (CChar, CInt)
import Foreign.ForeignPtr (castForeignPtr, withForeignPtr)
import Foreign.Marshal.Utils (fillBytes)
import Foreign.Ptr (Ptr, castPtr)
import Foreign.Storable (Storable, peek)
import Heddle.MPI.Collective (Parts (..))
import Heddle.MPI.Collective qualified as Collective
import Heddle.MPI.Fast qualified as MPI
import Heddle.MPI.Internal.Buffer
import Heddle.MPI.Internal.Error (wrong)
import Heddle.MPI.Internal.Types (Status (Status))

{- HLINT ignore "Avoid lambda" -}
-- What can be sent -----------------------------------------------------------

-- | haskell-mpi's class of what can be sent: a buffer of "Heddle.MPI.Fast", or one value.
class SendFrom v where
  -- | Pass the buffer to a sending action.
  sendFrom :: v -> (forall b. SendBuffer b => b -> IO r) -> IO r

-- | haskell-mpi's class of memory that can be received into.
class RecvInto v where
  -- | Pass the buffer to a receiving action that is complete when it returns.
  recvInto :: v -> (forall b. ReceiveBuffer b => b -> IO r) -> IO r

instance SendFrom ByteString where
  sendFrom v use = use v

instance (Ix i, Element e) => SendFrom (StorableArray i e) where
  sendFrom v use = use v

instance (Ix i, Element e) => RecvInto (StorableArray i e) where
  recvInto v use = use v

instance (Prim e, Element e) => SendFrom (IOUArray i e) where
  sendFrom v use = use v

instance (Prim e, Element e) => RecvInto (IOUArray i e) where
  recvInto v use = use v

-- | Its elements are copied.
instance (Ix i, Element e) => SendFrom (IOArray i e) where
  sendFrom v use = getElems v >>= use . Vector.fromList

-- | Its elements are copied; after a shorter message the remaining elements are zero bytes.
instance (Ix i, Element e) => RecvInto (IOArray i e) where
  recvInto v use = do
    bounds <- getBounds v
    let n = rangeSize bounds
    -- The array's elements may be undefined.
    memory <- Mutable.unsafeNew n
    Mutable.unsafeWith memory (\p -> fillBytes p 0 (n * elementBytes @e))
    r <- use memory
    got <- Vector.freeze memory
    r <$ forM_ (zip (range bounds) (Vector.toList got)) (uncurry (writeArray v))

instance Element e => SendFrom (Vector e) where
  sendFrom v use = use v

instance (Element e, s ~ RealWorld) => SendFrom (Mutable.MVector s e) where
  sendFrom v use = use v

instance (Element e, s ~ RealWorld) => RecvInto (Mutable.MVector s e) where
  recvInto v use = use v

-- | One element.
instance Element e => RecvInto (Ptr e) where
  recvInto p use = use (p, 1 :: Int)

-- | The given number of elements.
instance Element e => RecvInto (Ptr e, Int) where
  recvInto v use = use v

single :: Element v => v -> (forall b. SendBuffer b => b -> IO r) -> IO r
single v use = use (Vector.singleton v)

instance SendFrom Bool where sendFrom = single

instance SendFrom Char where sendFrom = single

instance SendFrom Int where sendFrom = single

instance SendFrom Int8 where sendFrom = single

instance SendFrom Int16 where sendFrom = single

instance SendFrom Int32 where sendFrom = single

instance SendFrom Int64 where sendFrom = single

instance SendFrom Word where sendFrom = single

instance SendFrom Word8 where sendFrom = single

instance SendFrom Word16 where sendFrom = single

instance SendFrom Word32 where sendFrom = single

instance SendFrom Word64 where sendFrom = single

instance SendFrom Float where sendFrom = single

instance SendFrom Double where sendFrom = single

instance SendFrom CInt where sendFrom = single

instance SendFrom CChar where sendFrom = single

-- The root of a broadcast only reads.
newtype ReadOnly b = ReadOnly b

instance SendBuffer b => SendBuffer (ReadOnly b) where
  lendOut (ReadOnly b) = lendOut b
  unitsEach (ReadOnly b) = unitsEach b

instance SendBuffer b => ReceiveBuffer (ReadOnly b) where
  lendIn (ReadOnly b) = lendOut b

-- Point to point -------------------------------------------------------------

-- | 'Heddle.MPI.Fast.send'.
--
-- [Blocks]: parks the thread until the operation is complete.
-- [Throws]: 'MPIError'.
send :: SendFrom v => Comm -> Rank -> Tag -> v -> IO ()
send comm rank tag v = sendFrom v (MPI.send comm rank tag)

-- | 'Heddle.MPI.Fast.ssend'.
--
-- [Blocks]: parks the thread until the operation is complete.
-- [Throws]: 'MPIError'.
ssend :: SendFrom v => Comm -> Rank -> Tag -> v -> IO ()
ssend comm rank tag v = sendFrom v (MPI.ssend comm rank tag)

-- | 'Heddle.MPI.Fast.rsend'.
--
-- [Blocks]: parks the thread until the operation is complete.
-- [Throws]: 'MPIError'.
rsend :: SendFrom v => Comm -> Rank -> Tag -> v -> IO ()
rsend comm rank tag v = sendFrom v (MPI.rsend comm rank tag)

-- | 'Heddle.MPI.Fast.bsend': no buffer has to be attached.
--
-- [Blocks]: never.
-- [Throws]: 'MPIError'.
bsend :: SendFrom v => Comm -> Rank -> Tag -> v -> IO ()
bsend comm rank tag v = sendFrom v (MPI.bsend comm rank tag)

-- | 'Heddle.MPI.Fast.recv'.
--
-- [Blocks]: parks the thread until the operation is complete.
-- [Throws]: 'MPIError'.
recv :: RecvInto v => Comm -> Rank -> Tag -> v -> IO Status
recv comm rank tag v = recvInto v (MPI.recv comm rank tag)

-- Of sends.
nothingKnown :: () -> Status
nothingKnown () = Status anySource anyTag 0

-- | 'Heddle.MPI.Fast.isend'.
--
-- [Blocks]: never.
-- [Throws]: 'MPIError', when it is waited for.
isend :: SendFrom v => Comm -> Rank -> Tag -> v -> IO Request
isend comm rank tag v = requestOf nothingKnown <$> sendFrom v (MPI.isend comm rank tag)

-- | 'Heddle.MPI.Fast.issend'.
--
-- [Blocks]: never.
-- [Throws]: 'MPIError', when it is waited for.
issend :: SendFrom v => Comm -> Rank -> Tag -> v -> IO Request
issend comm rank tag v = requestOf nothingKnown <$> sendFrom v (MPI.issend comm rank tag)

-- | haskell-mpi's name of a buffered send without waiting. It needs no attached buffer: 'isend'.
--
-- [Blocks]: never.
-- [Throws]: 'MPIError', when it is waited for.
ibsend :: SendFrom v => Comm -> Rank -> Tag -> v -> IO Request
ibsend = isend

-- | 'Heddle.MPI.Fast.irecv'.
--
-- [Blocks]: never.
-- [Throws]: 'MPIError', when it is waited for.
irecv :: (Ix i, Element e) => Comm -> Rank -> Tag -> StorableArray i e -> IO Request
irecv comm rank tag v = requestOf id <$> MPI.irecv comm rank tag v

-- One to many ----------------------------------------------------------------

-- Of a root's form.
atRoot :: String -> Comm -> Rank -> IO ()
atRoot call comm root = do
  rank <- commRank comm
  when (rank /= root) (wrong InvalidRoot call ("this is rank " ++ show rank ++ ", the root is " ++ show root))

-- Of the form of the others.
elsewhere :: String -> Comm -> Rank -> IO ()
elsewhere call comm root = do
  rank <- commRank comm
  when (rank == root) (wrong InvalidRoot call ("this is rank " ++ show rank ++ ", the root"))

nobody :: Maybe (Mutable.IOVector Word8)
nobody = Nothing

-- | 'Heddle.MPI.Collective.bcast', at the root.
--
-- [Blocks]: parks the thread until the operation is complete.
-- [Throws]: 'MPIError'.
bcastSend :: SendFrom v => Comm -> Rank -> v -> IO ()
bcastSend comm root v = atRoot "bcastSend" comm root >> sendFrom v (Collective.bcast comm root . ReadOnly)

-- | 'Heddle.MPI.Collective.bcast', on the other ranks.
--
-- [Blocks]: parks the thread until the operation is complete.
-- [Throws]: 'MPIError'.
bcastRecv :: RecvInto v => Comm -> Rank -> v -> IO ()
bcastRecv comm root v = elsewhere "bcastRecv" comm root >> recvInto v (Collective.bcast comm root)

-- | 'Heddle.MPI.Collective.scatter', at the root.
--
-- [Blocks]: parks the thread until the operation is complete.
-- [Throws]: 'MPIError'.
scatterSend :: (SendFrom v, RecvInto w) => Comm -> Rank -> v -> w -> IO ()
scatterSend comm root v w =
  atRoot "scatterSend" comm root >> recvInto w (\into -> sendFrom v (\out -> Collective.scatter comm root (Just out) into))

-- | 'Heddle.MPI.Collective.scatter', on the other ranks.
--
-- [Blocks]: parks the thread until the operation is complete.
-- [Throws]: 'MPIError'.
scatterRecv :: RecvInto w => Comm -> Rank -> w -> IO ()
scatterRecv comm root w = elsewhere "scatterRecv" comm root >> recvInto w (Collective.scatter comm root nobody)

-- haskell-mpi passes counts and offsets in arrays.
partsOf :: StorableArray Int CInt -> StorableArray Int CInt -> IO Parts
partsOf counts offsets = Parts <$> (map fromIntegral <$> getElems counts) <*> (map fromIntegral <$> getElems offsets)

-- | 'Heddle.MPI.Collective.scatterv', at the root, with the counts and offsets of the parts.
--
-- [Blocks]: parks the thread until the operation is complete.
-- [Throws]: 'MPIError'.
scattervSend :: (SendFrom v, RecvInto w) => Comm -> Rank -> v -> StorableArray Int CInt -> StorableArray Int CInt -> w -> IO ()
scattervSend comm root v counts offsets w = do
  atRoot "scattervSend" comm root
  parts <- partsOf counts offsets
  recvInto w (\into -> sendFrom v (\out -> Collective.scatterv comm root (Just (out, parts)) into))

-- | 'Heddle.MPI.Collective.scatterv', on the other ranks.
--
-- [Blocks]: parks the thread until the operation is complete.
-- [Throws]: 'MPIError'.
scattervRecv :: RecvInto w => Comm -> Rank -> w -> IO ()
scattervRecv comm root w =
  elsewhere "scattervRecv" comm root >> recvInto w (Collective.scatterv comm root ((\b -> (b, Parts [] [])) <$> nobody))

-- Many to one ----------------------------------------------------------------

-- | 'Heddle.MPI.Collective.gather', on ranks other than the root.
--
-- [Blocks]: parks the thread until the operation is complete.
-- [Throws]: 'MPIError'.
gatherSend :: SendFrom v => Comm -> Rank -> v -> IO ()
gatherSend comm root v = elsewhere "gatherSend" comm root >> sendFrom v (\out -> Collective.gather comm root out nobody)

-- | 'Heddle.MPI.Collective.gather', at the root.
--
-- [Blocks]: parks the thread until the operation is complete.
-- [Throws]: 'MPIError'.
gatherRecv :: (SendFrom v, RecvInto w) => Comm -> Rank -> v -> w -> IO ()
gatherRecv comm root v w =
  atRoot "gatherRecv" comm root >> sendFrom v (\out -> recvInto w (Collective.gather comm root out . Just))

-- | 'Heddle.MPI.Collective.gatherv', on ranks other than the root.
--
-- [Blocks]: parks the thread until the operation is complete.
-- [Throws]: 'MPIError'.
gathervSend :: SendFrom v => Comm -> Rank -> v -> IO ()
gathervSend comm root v =
  elsewhere "gathervSend" comm root >> sendFrom v (\out -> Collective.gatherv comm root out ((\b -> (b, Parts [] [])) <$> nobody))

-- | 'Heddle.MPI.Collective.gatherv', at the root, with the counts and offsets of the parts.
--
-- [Blocks]: parks the thread until the operation is complete.
-- [Throws]: 'MPIError'.
gathervRecv :: (SendFrom v, RecvInto w) => Comm -> Rank -> v -> StorableArray Int CInt -> StorableArray Int CInt -> w -> IO ()
gathervRecv comm root v counts offsets w = do
  atRoot "gathervRecv" comm root
  parts <- partsOf counts offsets
  sendFrom v (\out -> recvInto w (\into -> Collective.gatherv comm root out (Just (into, parts))))

-- Many to many ---------------------------------------------------------------

-- | 'Heddle.MPI.Collective.allgather'.
--
-- [Blocks]: parks the thread until the operation is complete.
-- [Throws]: 'MPIError'.
allgather :: (SendFrom v, RecvInto w) => Comm -> v -> w -> IO ()
allgather comm v w = sendFrom v (\out -> recvInto w (Collective.allgather comm out))

-- | 'Heddle.MPI.Collective.allgatherv', with the counts and offsets of the parts.
--
-- [Blocks]: parks the thread until the operation is complete.
-- [Throws]: 'MPIError'.
allgatherv :: (SendFrom v, RecvInto w) => Comm -> v -> StorableArray Int CInt -> StorableArray Int CInt -> w -> IO ()
allgatherv comm v counts offsets w = do
  parts <- partsOf counts offsets
  sendFrom v (\out -> recvInto w (\into -> Collective.allgatherv comm out into parts))

-- | 'Heddle.MPI.Collective.alltoall', with the numbers of elements to and from each rank.
--
-- [Blocks]: parks the thread until the operation is complete.
-- [Throws]: 'MPIError'.
alltoall :: (SendFrom v, RecvInto w) => Comm -> v -> Int -> Int -> w -> IO ()
alltoall comm v sent received w = do
  size <- commSize comm
  let each n = Collective.consecutive (replicate size n)
  sendFrom v (\out -> recvInto w (\into -> Collective.alltoallv comm out (each sent) into (each received)))

-- | 'Heddle.MPI.Collective.alltoallv', with the counts and offsets of the sent parts, then of the
-- received ones.
--
-- [Blocks]: parks the thread until the operation is complete.
-- [Throws]: 'MPIError'.
alltoallv ::
  (SendFrom v, RecvInto w) =>
  Comm ->
  v ->
  StorableArray Int CInt ->
  StorableArray Int CInt ->
  StorableArray Int CInt ->
  StorableArray Int CInt ->
  w ->
  IO ()
alltoallv comm v sentCounts sentOffsets receivedCounts receivedOffsets w = do
  sent <- partsOf sentCounts sentOffsets
  received <- partsOf receivedCounts receivedOffsets
  sendFrom v (\out -> recvInto w (\into -> Collective.alltoallv comm out sent into received))

-- New memory -----------------------------------------------------------------

-- | A new array with these bounds, and the result of the operation that fills it.
--
-- > (array, status) <- intoNewArray (1, 10) (recv commWorld 0 unitTag)
intoNewArray :: (Ix i, MArray a e m) => (i, i) -> (a i e -> m r) -> m (a i e, r)
intoNewArray bounds fill = do
  array <- unsafeNewArray_ bounds
  r <- fill array
  pure (array, r)

-- | 'intoNewArray' without the operation's result.
intoNewArray_ :: (Ix i, MArray a e m) => (i, i) -> (a i e -> m r) -> m (a i e)
intoNewArray_ bounds fill = fst <$> intoNewArray bounds fill

-- | A new value, and the result of the operation that fills it before returning.
intoNewVal :: Storable e => (Ptr e -> IO r) -> IO (e, r)
intoNewVal fill = do
  memory <- Mutable.unsafeNew 1
  r <- Mutable.unsafeWith memory fill
  a <- Mutable.unsafeWith memory peek
  pure (a, r)

-- | 'intoNewVal' without the operation's result.
intoNewVal_ :: Storable e => (Ptr e -> IO r) -> IO e
intoNewVal_ fill = fst <$> intoNewVal fill

-- | A new byte string of the given length, and the result of the operation that fills it before
-- returning.
intoNewBS :: Integral n => n -> ((Ptr CChar, Int) -> IO r) -> IO (ByteString, r)
intoNewBS length' fill = do
  let n = max 0 (fromIntegral length')
  memory <- mallocByteString n
  r <- withForeignPtr memory (\p -> fill (castPtr p, n))
  pure (fromForeignPtr (castForeignPtr memory) 0 n, r)

-- | 'intoNewBS' without the operation's result.
intoNewBS_ :: Integral n => n -> ((Ptr CChar, Int) -> IO r) -> IO ByteString
intoNewBS_ length' fill = fst <$> intoNewBS length' fill

-- Reductions -----------------------------------------------------------------

-- | 'Heddle.MPI.Collective.reduce', on ranks other than the root.
--
-- [Blocks]: parks the thread until the operation is complete.
-- [Throws]: 'MPIError'.
reduceSend :: ReduceFrom v => Comm -> Rank -> Operation -> v -> IO ()
reduceSend comm root op v = do
  elsewhere "reduceSend" comm root
  o <- chosen "reduceSend" op
  out <- elementsOf v
  Collective.reduce comm root o out Nothing

-- | 'Heddle.MPI.Collective.reduce', at the root.
--
-- [Blocks]: parks the thread until the operation is complete.
-- [Throws]: 'MPIError'.
reduceRecv :: (ReduceFrom v, ReduceInto w, Reduced v ~ Reduced w) => Comm -> Rank -> Operation -> v -> w -> IO ()
reduceRecv comm root op v w = do
  atRoot "reduceRecv" comm root
  o <- chosen "reduceRecv" op
  out <- elementsOf v
  room <- roomOf w
  memory <- Mutable.unsafeNew room
  Collective.reduce comm root o out (Just memory)
  Vector.unsafeFreeze memory >>= fillWith w

-- | 'Heddle.MPI.Collective.allreduce'.
--
-- [Blocks]: parks the thread until the operation is complete.
-- [Throws]: 'MPIError'.
allreduce :: (ReduceFrom v, ReduceInto w, Reduced v ~ Reduced w) => Comm -> Operation -> v -> w -> IO ()
allreduce comm op v w = do
  o <- chosen "allreduce" op
  out <- elementsOf v
  memory <- roomOf w >>= Mutable.unsafeNew
  Collective.allreduce comm o out memory
  Vector.unsafeFreeze memory >>= fillWith w

-- | 'Heddle.MPI.Collective.reduceScatter', with the number of elements that each rank gets.
--
-- [Blocks]: parks the thread until the operation is complete.
-- [Throws]: 'MPIError'.
reduceScatter ::
  (ReduceFrom v, ReduceInto w, Reduced v ~ Reduced w) =>
  Comm ->
  Operation ->
  StorableArray Int CInt ->
  v ->
  w ->
  IO ()
reduceScatter comm op counts v w = do
  o <- chosen "reduceScatter" op
  out <- elementsOf v
  each <- map fromIntegral <$> getElems counts
  rank <- rankId <$> commRank comm
  room <- roomOf w
  let mine = sum (take 1 (drop rank each))
  when (mine > room) (wrong InvalidCount "reduceScatter" (show mine ++ " elements do not fit into " ++ show room))
  memory <- Mutable.unsafeNew (max 0 mine)
  Collective.reduceScatter comm o out each memory
  Vector.unsafeFreeze memory >>= fillWith w
