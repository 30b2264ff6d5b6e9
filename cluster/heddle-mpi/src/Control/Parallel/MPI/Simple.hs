-- |
-- Module      : Control.Parallel.MPI.Simple
-- Description : The names of haskell-mpi: values from process to process
-- Stability   : stable
--
-- haskell-mpi's names for the functions of "Heddle.MPI.Simple", on values with a cereal instance,
-- for programs written for the haskell-mpi of Monad.Reader 19. Listings 4 and 5 of the article
-- compile as printed, after the import of 'System.Environment.getArgs' is added.
--
-- Both sides must use this module: the messages are those of 'Heddle.MPI.Message.Serialized'.
--
-- Cost: that of "Heddle.MPI.Simple" and of cereal.
-- Owner: values.
module Control.Parallel.MPI.Simple
  ( -- * Point to point
    send,
    ssend,
    rsend,
    bsend,
    recv,

    -- * Without waiting
    isend,
    issend,
    recvFuture,

    -- * One to many
    bcastSend,
    bcastRecv,
    scatterSend,
    scatterRecv,

    -- * Many to one
    gatherSend,
    gatherRecv,

    -- * Many to many
    allgather,
    alltoall,

    -- * What does not depend on the message
    module Control.Parallel.MPI.Base,
  )
where

import Control.Monad (when)
import Control.Parallel.MPI.Base
import Data.Serialize (Serialize)
import Heddle.MPI.Internal.Error (wrong)
import Heddle.MPI.Internal.Types (Status (Status))
import Heddle.MPI.Message (Serialized (..))
import Heddle.MPI.Simple qualified as MPI

-- | 'Heddle.MPI.Simple.send'.
--
-- [Blocks]: parks the thread until the operation is complete.
-- [Throws]: as 'Heddle.MPI.Simple.send'.
-- [Source]: Monad.Reader 19, "Point-to-point communications".
send :: Serialize msg => Comm -> Rank -> Tag -> msg -> IO ()
send comm rank tag = MPI.send comm rank tag . Serialized

-- | 'Heddle.MPI.Simple.ssend'.
--
-- [Blocks]: parks the thread until the operation is complete.
-- [Throws]: as 'send'.
ssend :: Serialize msg => Comm -> Rank -> Tag -> msg -> IO ()
ssend comm rank tag = MPI.ssend comm rank tag . Serialized

-- | 'Heddle.MPI.Simple.rsend'.
--
-- [Blocks]: parks the thread until the operation is complete.
-- [Throws]: as 'send'.
rsend :: Serialize msg => Comm -> Rank -> Tag -> msg -> IO ()
rsend comm rank tag = MPI.rsend comm rank tag . Serialized

-- | 'Heddle.MPI.Simple.bsend'.
--
-- [Blocks]: never.
-- [Throws]: as 'send'.
bsend :: Serialize msg => Comm -> Rank -> Tag -> msg -> IO ()
bsend comm rank tag = MPI.bsend comm rank tag . Serialized

-- | 'Heddle.MPI.Simple.recv'.
--
-- [Blocks]: parks the thread until the operation is complete.
-- [Throws]: as 'Heddle.MPI.Simple.recv'.
-- [Source]: Monad.Reader 19, "Point-to-point communications".
recv :: Serialize msg => Comm -> Rank -> Tag -> IO (msg, Status)
recv comm rank tag = (\(Serialized a, status) -> (a, status)) <$> MPI.recv comm rank tag

-- | 'Heddle.MPI.Simple.isend'.
--
-- [Blocks]: never.
-- [Throws]: as 'Heddle.MPI.Simple.isend'.
isend :: Serialize msg => Comm -> Rank -> Tag -> msg -> IO Request
isend comm rank tag a = requestOf (const nothingKnown) <$> MPI.isend comm rank tag (Serialized a)

-- | 'Heddle.MPI.Simple.issend'.
--
-- [Blocks]: never.
-- [Throws]: as 'isend'.
issend :: Serialize msg => Comm -> Rank -> Tag -> msg -> IO Request
issend comm rank tag a = requestOf (const nothingKnown) <$> MPI.issend comm rank tag (Serialized a)

-- Of sends.
nothingKnown :: Status
nothingKnown = Status anySource anyTag 0

-- | haskell-mpi's name of 'Heddle.MPI.Simple.irecv'.
--
-- [Blocks]: never.
-- [Throws]: as 'recv', when it is waited for.
recvFuture :: Serialize msg => Comm -> Rank -> Tag -> IO (Future msg)
recvFuture comm rank tag = futureOf . fmap (\(Serialized a, status) -> (a, status)) <$> MPI.irecv comm rank tag

-- | 'Heddle.MPI.Simple.bcastSend'.
--
-- [Blocks]: parks the thread until the operation is complete.
-- [Throws]: as 'Heddle.MPI.Simple.bcast'.
bcastSend :: Serialize msg => Comm -> Rank -> msg -> IO ()
bcastSend comm root = MPI.bcastSend comm root . Serialized

-- | 'Heddle.MPI.Simple.bcastRecv'.
--
-- [Blocks]: parks the thread until the operation is complete.
-- [Throws]: as 'Heddle.MPI.Simple.bcast'.
bcastRecv :: Serialize msg => Comm -> Rank -> IO msg
bcastRecv comm root = serialized <$> MPI.bcastRecv comm root

-- | 'Heddle.MPI.Simple.scatterSend'.
--
-- [Blocks]: parks the thread until the operation is complete.
-- [Throws]: as 'Heddle.MPI.Simple.scatter'.
scatterSend :: Serialize msg => Comm -> Rank -> [msg] -> IO msg
scatterSend comm root as = serialized <$> MPI.scatterSend comm root (map Serialized as)

-- | 'Heddle.MPI.Simple.scatterRecv'.
--
-- [Blocks]: parks the thread until the operation is complete.
-- [Throws]: as 'Heddle.MPI.Simple.scatter'.
scatterRecv :: Serialize msg => Comm -> Rank -> IO msg
scatterRecv comm root = serialized <$> MPI.scatterRecv comm root

-- | 'Heddle.MPI.Simple.gatherSend'.
--
-- [Blocks]: parks the thread until the operation is complete.
-- [Throws]: as 'Heddle.MPI.Simple.gather'.
-- [Source]: Monad.Reader 19, listing 5.
gatherSend :: Serialize msg => Comm -> Rank -> msg -> IO ()
gatherSend comm root = MPI.gatherSend comm root . Serialized

-- | 'Heddle.MPI.Simple.gatherRecv', which only the root calls.
--
-- [Blocks]: parks the thread until the operation is complete.
-- [Throws]: as 'Heddle.MPI.Simple.gather'; 'MPIError' of class 'InvalidRoot' elsewhere.
-- [Source]: Monad.Reader 19, listing 5.
gatherRecv :: Serialize msg => Comm -> Rank -> msg -> IO [msg]
gatherRecv comm root a = do
  rank <- commRank comm
  when (rank /= root) (wrong InvalidRoot "gatherRecv" ("this is rank " ++ show rank ++ ", the root is " ++ show root))
  map serialized <$> MPI.gatherRecv comm root (Serialized a)

-- | 'Heddle.MPI.Simple.allgather'.
--
-- [Blocks]: parks the thread until the operation is complete.
-- [Throws]: as 'Heddle.MPI.Simple.allgather'.
allgather :: Serialize msg => Comm -> msg -> IO [msg]
allgather comm a = map serialized <$> MPI.allgather comm (Serialized a)

-- | 'Heddle.MPI.Simple.alltoall'.
--
-- [Blocks]: parks the thread until the operation is complete.
-- [Throws]: as 'Heddle.MPI.Simple.alltoall'.
alltoall :: Serialize msg => Comm -> [msg] -> IO [msg]
alltoall comm as = map serialized <$> MPI.alltoall comm (map Serialized as)
