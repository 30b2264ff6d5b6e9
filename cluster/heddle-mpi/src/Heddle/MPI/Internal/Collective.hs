{-# LANGUAGE DataKinds #-}
{-# LANGUAGE FlexibleContexts #-}

-- |
-- Module      : Heddle.MPI.Internal.Collective
-- Description : Collectives on memory: how they are asked for
-- Stability   : internal, exempt from the version policy
--
-- A collective is described once, and then performed or begun. All checks that keep MPI from
-- writing beyond memory are here: what arrives has to fit into what was lent.
--
-- Cost: the implementation's non-blocking collective, whose waiting does not stop other threads.
-- Owner: buffers belong to the operation until it is complete.
module Heddle.MPI.Internal.Collective
  ( -- * Descriptions
    Collective (..),
    performNow,
    beginNow,
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
import Heddle.MPI.Internal.Types
import Heddle.Prim.Buffer (bufferPtr, keepAlive, newBuffer)

-- | A collective that can be started, and what it gives.
data Collective a = Collective !Start (Outcome -> IO (Next a))

-- | Take part, and wait until it is complete here.
performNow :: Collective a -> IO a
performNow (Collective start rest) = perform start rest
{-# INLINE performNow #-}

-- | Take part.
beginNow :: Collective a -> IO (Request a)
beginNow (Collective start rest) = begin start rest
{-# INLINE beginNow #-}

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

-- | What is sent.
sendSide :: SendBuffer b => b -> IO Side
sendSide b = sideOf <$> lendOut b
{-# INLINE sendSide #-}

-- | What is received into.
receiveSide :: ReceiveBuffer b => b -> IO Side
receiveSide b = sideOf <$> lendIn b
{-# INLINE receiveSide #-}

-- | Nothing, where only other ranks send or receive.
noSide :: Side
noSide = Side nullPtr 0 16 1 (pure ())

-- | What a collective moves. 'exchanging' makes one; kinds that need more set its other fields.
data Exchange = Exchange
  { exchangeOut :: !Side,
    -- | So many elements to each rank.
    exchangeSends :: !Int,
    exchangeInto :: !Side,
    -- | So many elements from each rank.
    exchangeReceives :: !Int,
    exchangeRoot :: !Rank,
    -- | The operator's code.
    exchangeOperator :: !CInt,
    -- | Adds arrays with a count and an offset for each rank.
    exchangeArrays :: Asked -> Asked,
    -- | Keeps those arrays until MPI has read them.
    exchangeKeep :: IO ()
  }

-- | What is sent and how many elements to each rank, what is received and how many from each:
-- without an operator or arrays; the root is rank 0, where there is one.
exchanging :: (Side, Int) -> (Side, Int) -> Exchange
exchanging (out, sends) (into, receives) = Exchange out sends into receives 0 (-1) id (pure ())
{-# INLINE exchanging #-}

-- | A collective of this kind, named in errors.
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

-- | How many elements of a buffer belong to each rank, and where they begin. Of types that MPI
-- takes for bytes (see 'elementType') these are bytes.
data Parts = Parts
  { partCounts :: ![Int],
    -- | From the beginning of the buffer, in elements.
    partOffsets :: ![Int]
  }
  deriving stock (Eq, Show)

-- | One behind the other.
consecutive :: [Int] -> Parts
consecutive counts = Parts counts (scanl (+) 0 (take (length counts - 1) counts))

-- | As C wants them, checked against the number of ranks and the memory; what keeps them.
withParts :: String -> Int -> Side -> Parts -> IO (Ptr Int64, Ptr Int64, IO ())
withParts call ranks side (Parts counts offsets) = do
  when (length counts /= ranks || length offsets /= ranks) $
    wrong InvalidCount call (show (length counts) ++ " counts and " ++ show (length offsets) ++ " offsets for " ++ show ranks ++ " ranks")
  forM_ (zip counts offsets) $ \(n, o) ->
    when (n < 0 || o < 0 || o > sideCount side - n) $
      wrong InvalidCount call (show n ++ " elements at " ++ show o ++ " are not inside of a buffer of " ++ show (sideCount side))
  memory <- newBuffer (max 16 (16 * ranks))
  let first = castPtr (bufferPtr memory) :: Ptr Int64
      second = first `plusPtr` (8 * ranks) :: Ptr Int64
  pokeArray first (map fromIntegral counts)
  pokeArray second (map fromIntegral offsets)
  pure (first, second, keepAlive memory)

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
