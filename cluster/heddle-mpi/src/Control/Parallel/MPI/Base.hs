{-# LANGUAGE DataKinds #-}

-- |
-- Module      : Control.Parallel.MPI.Base
-- Description : The names of haskell-mpi: what does not depend on the message
-- Stability   : stable
--
-- For programs that were written for the haskell-mpi of Monad.Reader 19: its names, for what
-- "Heddle.MPI" has. "Control.Parallel.MPI.Simple" and "Control.Parallel.MPI.Fast" export all of
-- this.
--
-- What differs: every error is an exception, so there are no error handlers; a world begins and
-- ends with 'mpi', so there is neither @init@ nor @finalize@; communicators are made by
-- "Heddle.MPI.Communicator", whose groups and types are closed again, and operators by
-- "Heddle.MPI.Operator".
--
-- Cost: that of what is named.
-- Owner: see "Heddle.MPI".
module Control.Parallel.MPI.Base
  ( -- * The world
    mpi,
    mpiWorld,
    MPI.initialized,
    abort,

    -- * Communicators
    Comm,
    commWorld,
    commSelf,
    commSize,
    commRank,

    -- * Ranks
    MPI.Rank,
    MPI.toRank,
    fromRank,
    rankId,
    MPI.anySource,
    theRoot,
    procNull,

    -- * Tags
    MPI.Tag,
    MPI.toTag,
    MPI.fromTag,
    MPI.anyTag,
    MPI.unitTag,

    -- * Statuses of messages
    MPI.Status,
    status_source,
    status_tag,
    probe,

    -- * Outstanding operations
    Request,
    requestOf,
    wait,
    waitall,
    test,
    cancel,

    -- * Outstanding values
    Future,
    futureOf,
    waitFuture,
    pollFuture,
    getFutureStatus,
    cancelFuture,

    -- * Barrier
    barrier,

    -- * Time
    MPI.wtime,
    MPI.wtick,

    -- * Errors
    MPI.MPIError (..),
    MPI.ErrorClass (..),
  )
where

import Control.Monad (void)
import Heddle.MPI qualified as MPI
import Heddle.MPI.Collective qualified as Collective
import Heddle.MPI.Fast qualified as Fast

-- | haskell-mpi's communicators: those of one group.
type Comm = MPI.Comm 'MPI.Intra

-- | 'MPI.mpi'.
--
-- [Blocks]: at the end, until all processes have reached it.
-- [Throws]: as 'MPI.mpi'.
-- [Source]: Monad.Reader 19, listing 4.
mpi :: IO () -> IO ()
mpi = MPI.mpi

-- | 'mpi' for a program that takes the number of ranks and its own rank.
--
-- [Blocks]: as 'mpi'.
-- [Throws]: as 'mpi'.
mpiWorld :: (Int -> MPI.Rank -> IO ()) -> IO ()
mpiWorld program = mpi $ do
  size <- commSize commWorld
  commRank commWorld >>= program size

-- | 'MPI.abort': ends all processes of the job, whatever the communicator.
--
-- [Blocks]: does not return.
abort :: Comm -> Int -> IO ()
abort _ = MPI.abort

-- | 'MPI.commWorld'.
--
-- [Source]: Monad.Reader 19, listing 4.
commWorld :: Comm
commWorld = MPI.commWorld

-- | 'MPI.commSelf'.
commSelf :: Comm
commSelf = MPI.commSelf

-- | 'MPI.commSize'.
--
-- [Throws]: 'MPI.MPIError'.
-- [Source]: Monad.Reader 19, listing 4.
commSize :: Comm -> IO Int
commSize = MPI.commSize

-- | 'MPI.commRank'.
--
-- [Throws]: 'MPI.MPIError'.
-- [Source]: Monad.Reader 19, listing 4.
commRank :: Comm -> IO MPI.Rank
commRank = MPI.commRank

-- | The inverse of 'MPI.toRank'.
fromRank :: Enum a => MPI.Rank -> a
fromRank = toEnum . fromIntegral

-- | Convert a rank to a number.
rankId :: MPI.Rank -> Int
rankId = fromIntegral

-- | haskell-mpi's name of rank 0.
theRoot :: MPI.Rank
theRoot = 0

-- | haskell-mpi's name of 'MPI.noRank'.
procNull :: MPI.Rank
procNull = MPI.noRank

-- | haskell-mpi's name of 'MPI.statusSource'.

{- HLINT ignore status_source "Use camelCase" -}
-- haskell-mpi's name
status_source :: MPI.Status -> MPI.Rank
status_source = MPI.statusSource

-- | haskell-mpi's name of 'MPI.statusTag'.

{- HLINT ignore status_tag "Use camelCase" -}
-- haskell-mpi's name
status_tag :: MPI.Status -> MPI.Tag
status_tag = MPI.statusTag

-- | 'Heddle.MPI.Fast.probe', with haskell-mpi's order of arguments.
--
-- [Blocks]: as 'Heddle.MPI.Fast.probe'.
-- [Throws]: 'MPI.MPIError'.
probe :: MPI.Rank -> MPI.Tag -> Comm -> IO MPI.Status
probe rank tag comm = Fast.probe comm rank tag

-- | An outstanding operation without a value: haskell-mpi's type, in place of 'MPI.Request'.
newtype Request = Request (MPI.Request MPI.Status)

-- | Wrap a request; the function takes the status from its result.
requestOf :: (a -> MPI.Status) -> MPI.Request a -> Request
requestOf f = Request . fmap f

-- | Wait until the operation is complete. The status of a send has no meaning.
--
-- [Blocks]: as 'MPI.wait'.
-- [Throws]: as 'MPI.wait'.
wait :: Request -> IO MPI.Status
wait (Request request) = MPI.wait request

-- | Wait until all operations are complete.
--
-- [Blocks]: as 'MPI.wait'.
-- [Throws]: as 'MPI.waitAll'.
waitall :: [Request] -> IO [MPI.Status]
waitall = mapM wait

-- | The status if the operation is complete, else 'Nothing'.
--
-- [Blocks]: never.
-- [Throws]: as 'MPI.wait'.
test :: Request -> IO (Maybe MPI.Status)
test (Request request) = MPI.test request

-- | 'MPI.cancel'.
--
-- [Blocks]: until the operation is complete.
cancel :: Request -> IO ()
cancel (Request request) = void (MPI.cancel request)

-- | An outstanding value: haskell-mpi's name of a 'MPI.Request' with a result.
newtype Future a = Future (MPI.Request (a, MPI.Status))

-- | A future for a receive.
futureOf :: MPI.Request (a, MPI.Status) -> Future a
futureOf = Future

-- | Wait for the value.
--
-- [Blocks]: as 'MPI.wait'.
-- [Throws]: as 'MPI.wait'.
waitFuture :: Future a -> IO a
waitFuture (Future request) = fst <$> MPI.wait request

-- | The value if it has arrived, else 'Nothing'. It can be read any number of times.
--
-- [Blocks]: never.
-- [Throws]: as 'MPI.wait'.
pollFuture :: Future a -> IO (Maybe a)
pollFuture (Future request) = fmap fst <$> MPI.test request

-- | Wait for the message's status.
--
-- [Blocks]: as 'MPI.wait'.
-- [Throws]: as 'MPI.wait'.
getFutureStatus :: Future a -> IO MPI.Status
getFutureStatus (Future request) = snd <$> MPI.wait request

-- | Cancel the receive if the message has not arrived. Threads that wait for it get an exception.
--
-- [Blocks]: until the receive is complete.
cancelFuture :: Future a -> IO ()
cancelFuture (Future request) = void (MPI.cancel request)

-- | 'Heddle.MPI.Collective.barrier'.
--
-- [Blocks]: parks the thread until the operation is complete.
-- [Throws]: 'MPI.MPIError'.
barrier :: Comm -> IO ()
barrier = Collective.barrier
