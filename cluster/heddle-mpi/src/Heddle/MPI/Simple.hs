{-# LANGUAGE DataKinds #-}

-- |
-- Module      : Heddle.MPI.Simple
-- Description : Values from process to process
-- Stability   : stable
--
-- Sends any value of a 'Message' type as one message. Large byte strings and vectors in it are
-- sent in place, without a copy; the receiver gets slices of the buffer that the message arrived in.
--
-- In collectives, values may have any size, and a different one on each rank. If a rank cannot make
-- its value or decode what arrived, it throws, and so do all other ranks: none waits for ever.
--
-- Both sides must use this library and the same type; to exchange messages with other programs use
-- "Heddle.MPI.Fast".
--
-- Cost: sending a number, 100 ns more than in "Heddle.MPI.Fast"; a collective of up to a kilobyte
-- per rank, one of MPI's collectives and an exchange of 8 bytes in which the ranks agree on success.
-- Owner: values.
module Heddle.MPI.Simple
  ( -- * Point to point
    send,
    ssend,
    rsend,
    bsend,
    recv,
    recvUntil,
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
import Heddle.Prim.Clock (Deadline)
import Heddle.Prim.Exception (onException)

-- | Send a value. It returns when MPI no longer reads the value's memory, which for a small
-- message may be before it is received; see 'ssend'.
--
-- [Cost]: an encoding, which evaluates the value; one message.
-- [Blocks]: parks the thread until the operation is complete.
-- [Throws]: 'Heddle.MPI.MPIError'; what evaluating the value throws.
-- [Source]: Monad.Reader 19, "Point-to-point communications".
send :: Message a => Comm kind -> Rank -> Tag -> a -> IO ()
send = sendPacked "send" Standard
{-# INLINE send #-}

-- | 'send', but return only after the receiver has begun to receive.
--
-- [Blocks]: parks the thread until the operation is complete.
ssend :: Message a => Comm kind -> Rank -> Tag -> a -> IO ()
ssend = sendPacked "ssend" Synchronous

-- | 'send', for programs that were written with MPI's ready mode. That mode requires a receive
-- which is posted already, but a value's receiver first probes for the message's size. MPI
-- permits the standard mode instead, with the same meaning.
--
-- [Blocks]: parks the thread until the operation is complete.
rsend :: Message a => Comm kind -> Rank -> Tag -> a -> IO ()
rsend = sendPacked "rsend" Standard

-- | 'send', but return at once, whether or not the message has left.
--
-- [Blocks]: never.
bsend :: Message a => Comm kind -> Rank -> Tag -> a -> IO ()
bsend comm rank tag a = void (isend comm rank tag a)

-- | Receive a value, of any length.
--
-- [Cost]: a probe, a buffer, a decoding.
-- [Blocks]: parks the thread until the operation is complete.
-- [Masking]: interruptible while it waits; then the message is left to the next receive.
-- [Throws]: 'Heddle.MPI.MPIError': of class 'Heddle.MPI.DecodeError' if the message is not of this
-- type; the message is consumed nevertheless.
-- [Source]: Monad.Reader 19, "Point-to-point communications".
recv :: Message a => Comm kind -> Rank -> Tag -> IO (a, Status)
recv = recvUnpacked "recv"
{-# INLINE recv #-}

-- | 'recv' until a deadline; 'Nothing' if it passes before a message has come, which then is the next
-- receive's.
--
-- [Blocks]: parks the thread until the operation is complete or the deadline has passed, by up to a millisecond.
-- [Masking]: as 'recv'.
-- [Throws]: as 'recv'.
recvUntil :: Message a => Comm kind -> Rank -> Tag -> Deadline -> IO (Maybe (a, Status))
recvUntil comm rank tag deadline = recvUnpackedUntil deadline "recvUntil" comm rank tag

-- | Send to one rank while receiving from another (or the same).
--
-- [Blocks]: until both are complete.
-- [Throws]: as 'send' and 'recv'.
sendrecv :: (Message a, Message b) => Comm kind -> Rank -> Tag -> a -> Rank -> Tag -> IO (b, Status)
sendrecv comm to sendTag a from recvTag = do
  sent <- isend comm to sendTag a
  packed <- recvPacked "sendrecv" comm from recvTag
  wait sent `onException` keepPacked comm packed
  unpack "sendrecv" packed

-- | Start sending a value.
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

-- | Start receiving a value.
--
-- [Blocks]: never.
-- [Throws]: as 'recv', when it is waited for.
irecv :: Message a => Comm kind -> Rank -> Tag -> IO (Request (a, Status))
irecv = receivingPacked "irecv"

-- | Send the root's value to all ranks. The argument of the other ranks is not evaluated.
--
-- [Blocks]: parks the thread until the operation is complete.
-- [Throws]: 'Heddle.MPI.MPIError', on all ranks.
bcast :: Message a => Comm 'Intra -> Rank -> a -> IO a
bcast comm !root a = collectively comm (valueBcast root a)

-- | 'bcast', at the root.
--
-- [Source]: the haskell-mpi of Monad.Reader 19.
bcastSend :: Message a => Comm 'Intra -> Rank -> a -> IO ()
bcastSend comm root a = void (bcast comm root a)

-- | 'bcast', on the other ranks.
--
-- [Source]: the haskell-mpi of Monad.Reader 19.
bcastRecv :: Message a => Comm 'Intra -> Rank -> IO a
bcastRecv comm root = bcast comm root (error "heddle mpi: bcastRecv was called by the root")

-- | Send each rank one of the root's values. The root gives one value per rank, in the order of
-- the ranks; the argument of the other ranks is not evaluated.
--
-- [Blocks]: parks the thread until the operation is complete.
-- [Throws]: 'Heddle.MPI.MPIError', on all ranks.
scatter :: Message a => Comm 'Intra -> Rank -> [a] -> IO a
scatter comm !root as = collectively comm (valueScatter root as)

-- | 'scatter', at the root.
--
-- [Source]: the haskell-mpi of Monad.Reader 19.
scatterSend :: Message a => Comm 'Intra -> Rank -> [a] -> IO a
scatterSend = scatter

-- | 'scatter', on the other ranks.
--
-- [Source]: the haskell-mpi of Monad.Reader 19.
scatterRecv :: Message a => Comm 'Intra -> Rank -> IO a
scatterRecv comm root = scatter comm root []

-- | Collect all values, in the order of the ranks, at the root; 'Nothing' on the other ranks.
--
-- [Blocks]: parks the thread until the operation is complete.
-- [Throws]: 'Heddle.MPI.MPIError', on all ranks.
gather :: Message a => Comm 'Intra -> Rank -> a -> IO (Maybe [a])
gather comm !root a = collectively comm (valueGather root a)

-- | 'gather', on ranks other than the root.
--
-- [Source]: Monad.Reader 19, "Many-to-one communications".
gatherSend :: Message a => Comm 'Intra -> Rank -> a -> IO ()
gatherSend comm root a = void (gather comm root a)

-- | 'gather', at the root: all values in the order of the ranks, including its own.
--
-- [Source]: Monad.Reader 19, "Many-to-one communications".
gatherRecv :: Message a => Comm 'Intra -> Rank -> a -> IO [a]
gatherRecv comm root a = fromMaybe [] <$> gather comm root a

-- | Collect all values, in the order of the ranks, on every rank.
--
-- [Blocks]: parks the thread until the operation is complete.
-- [Throws]: 'Heddle.MPI.MPIError', on all ranks.
allgather :: Message a => Comm 'Intra -> a -> IO [a]
allgather comm a = collectively comm (valueAllgather a)

-- | Each rank sends one value to each rank: the list has one value per rank, in their order.
--
-- [Blocks]: parks the thread until the operation is complete.
-- [Throws]: 'Heddle.MPI.MPIError', on all ranks.
alltoall :: Message a => Comm 'Intra -> [a] -> IO [a]
alltoall comm as = collectively comm (valueAlltoall as)

-- | Combine all values, in the order of the ranks; the root gets the result. The function must be
-- associative; it is applied in a tree whose shape depends only on the number of ranks.
--
-- [Blocks]: parks the thread until the operation is complete.
-- [Throws]: 'Heddle.MPI.MPIError', on all ranks; what the function throws, on the rank where it
-- throws.
reduce :: Message a => Comm 'Intra -> Rank -> (a -> a -> a) -> a -> IO (Maybe a)
reduce comm !root f a = collectively comm (valueReduce root f a)

-- | Combine all values, in the order of the ranks; every rank gets the same result.
--
-- [Blocks]: parks the thread until the operation is complete.
-- [Throws]: as 'reduce'.
allreduce :: Message a => Comm 'Intra -> (a -> a -> a) -> a -> IO a
allreduce comm f a = collectively comm (valueAllreduce f a)

-- | Combine the values of the ranks up to and including this one.
--
-- [Blocks]: parks the thread until the operation is complete.
-- [Throws]: as 'reduce'.
scan :: Message a => Comm 'Intra -> (a -> a -> a) -> a -> IO a
scan comm f a = collectively comm (valueScan f a)

-- | Combine the values of the ranks before this one; 'Nothing' on rank 0.
--
-- [Blocks]: parks the thread until the operation is complete.
-- [Throws]: as 'reduce'.
exscan :: Message a => Comm 'Intra -> (a -> a -> a) -> a -> IO (Maybe a)
exscan comm f a = collectively comm (valueExscan f a)

-- | 'bcast' on a separate thread. Collectives on one communicator run one after the other, in the
-- order of the calls, which must be the same on all ranks.
--
-- [Blocks]: never.
ibcast :: Message a => Comm 'Intra -> Rank -> a -> IO (Request a)
ibcast comm root a = collectivelyLater "mpi/ibcast" comm (valueBcast root a)

-- | 'gather' on a separate thread; see 'ibcast'.
igather :: Message a => Comm 'Intra -> Rank -> a -> IO (Request (Maybe [a]))
igather comm root a = collectivelyLater "mpi/igather" comm (valueGather root a)

-- | 'scatter' on a separate thread; see 'ibcast'.
iscatter :: Message a => Comm 'Intra -> Rank -> [a] -> IO (Request a)
iscatter comm root as = collectivelyLater "mpi/iscatter" comm (valueScatter root as)

-- | 'allgather' on a separate thread; see 'ibcast'.
iallgather :: Message a => Comm 'Intra -> a -> IO (Request [a])
iallgather comm a = collectivelyLater "mpi/iallgather" comm (valueAllgather a)

-- | 'alltoall' on a separate thread; see 'ibcast'.
ialltoall :: Message a => Comm 'Intra -> [a] -> IO (Request [a])
ialltoall comm as = collectivelyLater "mpi/ialltoall" comm (valueAlltoall as)

-- | 'allreduce' on a separate thread; see 'ibcast'.
iallreduce :: Message a => Comm 'Intra -> (a -> a -> a) -> a -> IO (Request a)
iallreduce comm f a = collectivelyLater "mpi/iallreduce" comm (valueAllreduce f a)
