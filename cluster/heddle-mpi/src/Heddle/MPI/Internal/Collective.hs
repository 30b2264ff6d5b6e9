{-# LANGUAGE DataKinds #-}
{-# LANGUAGE FlexibleContexts #-}

-- |
-- Module      : Heddle.MPI.Internal.Collective
-- Description : Descriptions of collectives on memory
-- Stability   : internal, exempt from the version policy
--
-- A collective is described once, and then performed or started. The checks that keep MPI from
-- writing outside lent memory are made here.
--
-- Cost: the implementation's non-blocking collective, whose waiting does not stop other threads.
-- Owner: buffers belong to the operation until it is complete.
module Heddle.MPI.Internal.Collective
  ( -- * Descriptions
    Collective (..),
    performNow,
    beginNow,
    performingIt,
    Side (..),
    sendSide,
    receiveSide,
    noSide,
    Exchange (..),
    exchanging,
    collective,

    -- * Parts of a buffer, one for each rank
    Parts (..),
    consecutive,
    withParts,
    elementsOf,
    unitsIn,

    -- * Checks
    fits,
    sameType,
    rootSide,

    -- * Kinds
    KindCode,
    kBarrier,
    kBcast,
    kGather,
    kGatherv,
    kScatter,
    kScatterv,
    kAllgather,
    kAllgatherv,
    kAlltoall,
    kAlltoallv,
    kReduce,
    kAllreduce,
    kScan,
    kExscan,
    kReduceScatter,
    kReduceScatterBlock,
    kNeighbourAllgather,
    kNeighbourAlltoall,
  )
where

import Control.Monad (forM_, when)
import Data.Int (Int64)
import Data.Word (Word8)
import Foreign.C.Types (CInt)
import Foreign.Marshal.Array (pokeArray)
import Foreign.Ptr (Ptr, castPtr, nullPtr, plusPtr)
import Heddle.MPI.Internal.Buffer
import Heddle.MPI.Internal.Error
import Heddle.MPI.Internal.Foreign
import Heddle.MPI.Internal.Request
import Heddle.MPI.Internal.Steps
import Heddle.MPI.Internal.Types
import Heddle.Prim.Buffer (bufferPtr, keepAlive, newBuffer)

-- | A collective that can be started, and its continuation.
data Collective a = Collective !Start (Outcome -> IO (Next a))

-- | Take part, and wait until this rank's part is complete.
performNow :: Collective a -> IO a
performNow (Collective start rest) = perform start rest
{-# INLINE performNow #-}

-- | Start taking part, without waiting.
beginNow :: Collective a -> IO (Request a)
beginNow (Collective start rest) = begin start rest
{-# INLINE beginNow #-}

-- | Take part, as a step of one of Heddle's own collectives.
performingIt :: Collective a -> Steps a
performingIt (Collective start rest) = performing start rest
{-# INLINE performingIt #-}

-- | Memory for one direction.
data Side = Side
  { sideAt :: !(Ptr Word8),
    sideCount :: !Int,
    sideType :: !Int64,
    sideEach :: !Int,
    sideDone :: !(IO ())
  }

sideOf :: Lent -> Side
sideOf (Lent p n (Datatype type') each done _) = Side p n type' each done
{-# INLINE sideOf #-}

-- | Lend memory to send.
sendSide :: SendBuffer b => b -> IO Side
sendSide b = sideOf <$> lendOut b
{-# INLINE sendSide #-}

-- | Lend memory to receive into.
receiveSide :: ReceiveBuffer b => b -> IO Side
receiveSide b = sideOf <$> lendIn b
{-# INLINE receiveSide #-}

-- | No memory, where only other ranks send or receive.
noSide :: Side
noSide = Side nullPtr 0 16 1 (pure ())

-- | The data that a collective moves. 'exchanging' makes one; some kinds set further fields.
data Exchange = Exchange
  { exchangeOut :: !Side,
    -- | The number of elements to each rank.
    exchangeSends :: !Int,
    exchangeInto :: !Side,
    -- | The number of elements from each rank.
    exchangeReceives :: !Int,
    exchangeRoot :: !Rank,
    -- | The operator's code.
    exchangeOperator :: !CInt,
    -- | Adds arrays with a count and an offset for each rank.
    exchangeArrays :: Asked -> Asked,
    -- | Keeps those arrays until MPI has read them.
    exchangeKeep :: IO ()
  }

-- | Send memory, with the number of elements to each rank, and receive into memory, with the number
-- from each: without an operator or arrays, and with rank 0 as the root.
exchanging :: (Side, Int) -> (Side, Int) -> Exchange
exchanging (out, sends) (into, receives) = Exchange out sends into receives 0 (-1) id (pure ())
{-# INLINE exchanging #-}

-- | Describe a collective of the given kind; errors mention the given name.
collective :: String -> KindCode -> Comm kind -> Exchange -> Collective ()
collective call kind comm (Exchange out sends into receives (Rank root) operator arrays keep) =
  Collective start (\_ -> Finished <$> (sideDone out >> sideDone into >> keep))
  where
    asked =
      arrays
        Asked
          { askedComm = commHandle comm,
            askedSendType = sideType out,
            askedReceiveType = sideType into,
            askedSend = sideAt out,
            askedReceive = sideAt into,
            askedSends = fromIntegral sends,
            askedReceives = fromIntegral receives,
            askedSendCounts = nullPtr,
            askedSendOffsets = nullPtr,
            askedReceiveCounts = nullPtr,
            askedReceiveOffsets = nullPtr,
            askedKind = kind,
            askedRoot = fromIntegral root,
            askedOp = operator
          }
    start =
      Start
        { startCall = call,
          startFree = \budget held p -> withAsked asked (\a -> c_collective a 0 budget held p),
          startHeld = \budget held p -> withAsked asked (\a -> c_collective_held a 0 budget held p),
          startWeight = if sideCount out * sideEach out > limit || sideCount into * sideEach into > limit then Bulky else Light,
          startTells = False
        }
    limit = bulkBytes `div` 16
{-# INLINE collective #-}

-- | Each rank's part of a buffer: its number of elements, and where they begin.
--
-- [Units]: elements of the buffer, also of types that MPI handles as bytes (see 'elementType'); of memory
-- that is 'Heddle.MPI.Datatype.shaped', elements of that type; of a byte string, bytes.
data Parts = Parts
  { partCounts :: ![Int],
    -- | From the beginning of the buffer.
    partOffsets :: ![Int]
  }
  deriving stock (Eq, Show)

-- | Consecutive parts of the given lengths.
consecutive :: [Int] -> Parts
consecutive counts = Parts counts (scanl (+) 0 (take (length counts - 1) counts))

-- | C's arrays of parts, checked against the number of ranks and the memory, and the action that
-- keeps the arrays alive. Takes the number of MPI's elements in one of the memory, see 'unitsEach'.
withParts :: String -> Int -> Int -> Side -> Parts -> IO (Ptr Int64, Ptr Int64, IO ())
withParts call ranks units side (Parts counts offsets) = do
  when (length counts /= ranks || length offsets /= ranks) $
    wrong InvalidCount call (show (length counts) ++ " counts and " ++ show (length offsets) ++ " offsets for " ++ show ranks ++ " ranks")
  forM_ (zip counts offsets) $ \(n, o) ->
    when (n < 0 || o < 0 || n > whole || o > whole - n) $
      wrong InvalidCount call (show n ++ " elements at " ++ show o ++ " are not inside of a buffer of " ++ show whole)
  memory <- newBuffer (max 16 (16 * ranks))
  let first = castPtr (bufferPtr memory) :: Ptr Int64
      second = first `plusPtr` (8 * ranks) :: Ptr Int64
  pokeArray first (map inUnits counts)
  pokeArray second (map inUnits offsets)
  pure (first, second, keepAlive memory)
  where
    whole = elementsOf units (sideCount side)
    inUnits n = fromIntegral (units * n)

-- | The number of the memory's elements, given how many of MPI's are one, and MPI's number.
elementsOf :: Int -> Int -> Int
elementsOf units n = n `quot` max 1 units

-- | Check that the receive buffer has room for this many elements of the type that is sent.
fits :: String -> Side -> Side -> Int -> IO ()
fits call out into n = do
  sameType call out into
  when (n > sideCount into) . wrong InvalidCount call $
    show n ++ " elements do not fit into a buffer of " ++ show (sideCount into)

-- | Check that both sides have the same type of elements, or one of them bytes.
sameType :: String -> Side -> Side -> IO ()
sameType call out into =
  when (sideType out /= sideType into && bytes /= sideType out && bytes /= sideType into) $
    wrong InvalidType call "what is received into has elements of another type than what is sent"
  where
    Datatype bytes = byteType

-- | The units of the root's buffer, if there is one.
unitsIn :: SendBuffer b => Maybe b -> Int
unitsIn = maybe 1 unitsEach

-- | The buffer for the root's side, if this is the root.
rootSide :: String -> Comm kind -> Rank -> (b -> IO Side) -> Maybe b -> IO (Bool, Side)
rootSide call comm root lend buffer = do
  rank <- commRank comm
  case buffer of
    Just b | rank == root -> (,) True <$> lend b
    Nothing | rank == root -> wrong InvalidBuffer call "the root has no buffer"
    _ -> pure (False, noSide)

-- | The numbers of @enum heddle_mpi_collective@.
type KindCode = CInt

kBarrier, kBcast, kGather, kGatherv, kScatter, kScatterv, kAllgather, kAllgatherv, kAlltoall, kAlltoallv, kReduce, kAllreduce, kScan, kExscan, kReduceScatter, kReduceScatterBlock, kNeighbourAllgather, kNeighbourAlltoall :: KindCode
kBarrier = 0
kBcast = 1
kGather = 2
kGatherv = 3
kScatter = 4
kScatterv = 5
kAllgather = 6
kAllgatherv = 7
kAlltoall = 8
kAlltoallv = 9
kReduce = 10
kAllreduce = 11
kScan = 12
kExscan = 13
kReduceScatter = 14
kReduceScatterBlock = 15
kNeighbourAllgather = 16
kNeighbourAlltoall = 17
