{-# LANGUAGE DataKinds #-}

-- |
-- Module      : Heddle.MPI.Simple
-- Description : Values from process to process
-- Stability   : stable
--
-- Sends any value of a 'Message' type, as one message: large byte strings and vectors in it are
-- sent from where they lie, and are slices of what was received.
--
-- In collectives values may have any size, on each rank another. A rank that cannot make its
-- value, or cannot read what came, throws; so do all the others, and none waits for ever.
--
-- Both sides need the same type, and programs of this library: for others see "Heddle.MPI.Fast".
--
-- Cost: a number, 100 ns more than in "Heddle.MPI.Fast"; a collective of up to a kilobyte per
-- rank, one of MPI's, and an exchange of 8 bytes in which all ranks tell how it went.
-- Owner: values.
module Heddle.MPI.Simple
  ( -- * Point to point
    send,
    ssend,
    rsend,
    bsend,
    recv,
    sendrecv,

    -- * Without waiting
    isend,
    issend,
    irecv,

    -- * One to many
    bcast,
    bcastSend,
    bcastRecv,
    scatter,
    scatterSend,
    scatterRecv,

    -- * Many to one
    gather,
    gatherSend,
    gatherRecv,

    -- * Many to many
    allgather,
    alltoall,

    -- * Reductions
    reduce,
    allreduce,
    scan,
    exscan,

    -- * Collectives without waiting
    ibcast,
    igather,
    iscatter,
    iallgather,
    ialltoall,
    iallreduce,

    -- * Values
    Message,
  )
where

import Control.Monad (void)
import Data.Maybe (fromMaybe)
import Heddle.MPI.Internal.Message (Message)
import Heddle.MPI.Internal.PackedMessage
import Heddle.MPI.Internal.Point (Mode (..))
import Heddle.MPI.Internal.Request
import Heddle.MPI.Internal.Types
import Heddle.MPI.Internal.ValueCollective

-- | Send a value. It returns when the value's memory is free again: for a small message that
-- may be before anybody has received it; see 'ssend'.
--
-- [Cost]: an encoding, which evaluates the value; one message.
-- [Blocks]: parks the thread, at last.
-- [Throws]: 'Heddle.MPI.MPIError'; what evaluating the value throws.
-- [Source]: Monad.Reader 19, "Point-to-point communications".
send :: Message a => Comm kind -> Rank -> Tag -> a -> IO ()
send = sendPacked "send" Standard
{-# INLINE send #-}

-- | 'send', returning when the receiver has begun to receive.
--
-- [Blocks]: parks the thread, at last.
ssend :: Message a => Comm kind -> Rank -> Tag -> a -> IO ()
ssend = sendPacked "ssend" Synchronous

-- | 'send', for programs that were written with MPI's ready mode. That mode requires a receive
-- which is posted already, but a value's receiver first probes for the message's size. MPI
-- permits the standard mode instead, with the same meaning.
--
-- [Blocks]: parks the thread, at last.
rsend :: Message a => Comm kind -> Rank -> Tag -> a -> IO ()
rsend = sendPacked "rsend" Standard

-- | 'send', which returns at once.
--
-- [Blocks]: never.
bsend :: Message a => Comm kind -> Rank -> Tag -> a -> IO ()
bsend comm rank tag a = void (isend comm rank tag a)

-- | Receive a value, of any length.
--
-- [Cost]: a probe, a buffer, a decoding.
-- [Blocks]: parks the thread, at last.
-- [Throws]: 'Heddle.MPI.MPIError': of class 'Heddle.MPI.DecodeError' if the message is not of this type;
-- it is consumed then.
-- [Source]: Monad.Reader 19, "Point-to-point communications".
recv :: Message a => Comm kind -> Rank -> Tag -> IO (a, Status)
recv comm rank tag = recvPacked "recv" comm rank tag >>= unpack "recv"
{-# INLINE recv #-}

-- | Send to one and receive from one, both at once.
--
-- [Blocks]: until both are complete.
-- [Throws]: as 'send' and 'recv'.
sendrecv :: (Message a, Message b) => Comm kind -> Rank -> Tag -> a -> Rank -> Tag -> IO (b, Status)
sendrecv comm to sendTag a from recvTag = do
  sent <- isend comm to sendTag a
  answer <- recv comm from recvTag
  wait sent
  pure answer

-- | Begin to send a value.
--
-- [Blocks]: never.
-- [Throws]: what evaluating the value throws; 'Heddle.MPI.MPIError' when it is waited for.
isend :: Message a => Comm kind -> Rank -> Tag -> a -> IO (Request ())
isend = isendPacked "isend" Standard

-- | 'ssend', without waiting.
--
-- [Blocks]: never.
issend :: Message a => Comm kind -> Rank -> Tag -> a -> IO (Request ())
issend = isendPacked "issend" Synchronous

-- | Begin to receive a value.
--
-- [Blocks]: never.
-- [Throws]: as 'recv', when it is waited for.
irecv :: Message a => Comm kind -> Rank -> Tag -> IO (Request (a, Status))
irecv = receivingPacked "irecv"

-- | The root's value, to all; what the others give is not evaluated.
--
-- [Blocks]: parks the thread, at last.
-- [Throws]: 'Heddle.MPI.MPIError', on all ranks.
bcast :: Message a => Comm 'Intra -> Rank -> a -> IO a
bcast comm root a = collectively comm (valueBcast root a)

-- | 'bcast', at the root.
--
-- [Source]: the haskell-mpi of Monad.Reader 19.
bcastSend :: Message a => Comm 'Intra -> Rank -> a -> IO ()
bcastSend comm root a = void (bcast comm root a)

-- | 'bcast', elsewhere.
--
-- [Source]: the haskell-mpi of Monad.Reader 19.
bcastRecv :: Message a => Comm 'Intra -> Rank -> IO a
bcastRecv comm root = bcast comm root (error "heddle mpi: bcastRecv was called by the root")

-- | Each rank gets one of the root's values, which are as many as ranks; what others give is not
-- looked at.
--
-- [Blocks]: parks the thread, at last.
-- [Throws]: 'Heddle.MPI.MPIError', on all ranks.
scatter :: Message a => Comm 'Intra -> Rank -> [a] -> IO a
scatter comm root as = collectively comm (valueScatter root as)

-- | 'scatter', at the root.
--
-- [Source]: the haskell-mpi of Monad.Reader 19.
scatterSend :: Message a => Comm 'Intra -> Rank -> [a] -> IO a
scatterSend = scatter

-- | 'scatter', elsewhere.
--
-- [Source]: the haskell-mpi of Monad.Reader 19.
scatterRecv :: Message a => Comm 'Intra -> Rank -> IO a
scatterRecv comm root = scatter comm root []

-- | All values in the order of the ranks, at the root; elsewhere 'Nothing'.
--
-- [Blocks]: parks the thread, at last.
-- [Throws]: 'Heddle.MPI.MPIError', on all ranks.
gather :: Message a => Comm 'Intra -> Rank -> a -> IO (Maybe [a])
gather comm root a = collectively comm (valueGather root a)

-- | 'gather', elsewhere than at the root.
--
-- [Source]: Monad.Reader 19, "Many-to-one communications".
gatherSend :: Message a => Comm 'Intra -> Rank -> a -> IO ()
gatherSend comm root a = void (gather comm root a)

-- | 'gather', at the root: in the order of the ranks, its own among them.
--
-- [Source]: Monad.Reader 19, "Many-to-one communications".
gatherRecv :: Message a => Comm 'Intra -> Rank -> a -> IO [a]
gatherRecv comm root a = fromMaybe [] <$> gather comm root a

-- | All values in the order of the ranks, everywhere.
--
-- [Blocks]: parks the thread, at last.
-- [Throws]: 'Heddle.MPI.MPIError', on all ranks.
allgather :: Message a => Comm 'Intra -> a -> IO [a]
allgather comm a = collectively comm (valueAllgather a)

-- | Each rank sends each rank one of its values, which are as many as ranks.
--
-- [Blocks]: parks the thread, at last.
-- [Throws]: 'Heddle.MPI.MPIError', on all ranks.
alltoall :: Message a => Comm 'Intra -> [a] -> IO [a]
alltoall comm as = collectively comm (valueAlltoall as)

-- | All values combined in the order of the ranks, at the root. The function is associative; it
-- is applied in a tree that depends on the number of ranks only.
--
-- [Blocks]: parks the thread, at last.
-- [Throws]: 'Heddle.MPI.MPIError', on all ranks; what the function throws, where it does.
reduce :: Message a => Comm 'Intra -> Rank -> (a -> a -> a) -> a -> IO (Maybe a)
reduce comm root f a = collectively comm (valueReduce root f a)

-- | All values combined in the order of the ranks, everywhere the same.
--
-- [Blocks]: parks the thread, at last.
-- [Throws]: as 'reduce'.
allreduce :: Message a => Comm 'Intra -> (a -> a -> a) -> a -> IO a
allreduce comm f a = collectively comm (valueAllreduce f a)

-- | The values of the ranks up to this one combined.
--
-- [Blocks]: parks the thread, at last.
-- [Throws]: as 'reduce'.
scan :: Message a => Comm 'Intra -> (a -> a -> a) -> a -> IO a
scan comm f a = collectively comm (valueScan f a)

-- | The values of the ranks before this one combined; at rank 0 'Nothing'.
--
-- [Blocks]: parks the thread, at last.
-- [Throws]: as 'reduce'.
exscan :: Message a => Comm 'Intra -> (a -> a -> a) -> a -> IO (Maybe a)
exscan comm f a = collectively comm (valueExscan f a)

-- | 'bcast', on a thread of its own: collectives of one communicator are done one after the
-- other, in the order in which they were called, which has to be the same everywhere.
--
-- [Blocks]: never.
ibcast :: Message a => Comm 'Intra -> Rank -> a -> IO (Request a)
ibcast comm root a = collectivelyLater "mpi/ibcast" comm (valueBcast root a)

-- | 'gather', on a thread of its own; see 'ibcast'.
igather :: Message a => Comm 'Intra -> Rank -> a -> IO (Request (Maybe [a]))
igather comm root a = collectivelyLater "mpi/igather" comm (valueGather root a)

-- | 'scatter', on a thread of its own; see 'ibcast'.
iscatter :: Message a => Comm 'Intra -> Rank -> [a] -> IO (Request a)
iscatter comm root as = collectivelyLater "mpi/iscatter" comm (valueScatter root as)

-- | 'allgather', on a thread of its own; see 'ibcast'.
iallgather :: Message a => Comm 'Intra -> a -> IO (Request [a])
iallgather comm a = collectivelyLater "mpi/iallgather" comm (valueAllgather a)

-- | 'alltoall', on a thread of its own; see 'ibcast'.
ialltoall :: Message a => Comm 'Intra -> [a] -> IO (Request [a])
ialltoall comm as = collectivelyLater "mpi/ialltoall" comm (valueAlltoall as)

-- | 'allreduce', on a thread of its own; see 'ibcast'.
iallreduce :: Message a => Comm 'Intra -> (a -> a -> a) -> a -> IO (Request a)
iallreduce comm f a = collectivelyLater "mpi/iallreduce" comm (valueAllreduce f a)
