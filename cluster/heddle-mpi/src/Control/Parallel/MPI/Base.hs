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

    -- * What is known of a message
    MPI.Status,
    status_source,
    status_tag,
    probe,

    -- * Operations under way
    Request,
    requestOf,
    wait,
    waitall,
    test,
    cancel,

    -- * Values under way
    Future,
    futureOf,
    waitFuture,
    pollFuture,
    getFutureStatus,
    cancelFuture,

    -- * All wait for all
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
-- [Blocks]: at the end, until all processes have come there.
-- [Throws]: as 'MPI.mpi'.
-- [Source]: Monad.Reader 19, listing 4.
mpi :: IO () -> IO ()
mpi = MPI.mpi

-- | 'mpi', for a program that wants to know how many ranks there are, and which this is.
--
-- [Blocks]: as 'mpi'.
-- [Throws]: as 'mpi'.
mpiWorld :: (Int -> MPI.Rank -> IO ()) -> IO ()
mpiWorld program = mpi $ do
  size <- commSize commWorld
  commRank commWorld >>= program size

-- | 'MPI.abort': all processes end, of whichever communicator they are.
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

-- | The reverse of 'MPI.toRank'.
fromRank :: Enum a => MPI.Rank -> a
fromRank = toEnum . fromIntegral

-- | A rank as a number.
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
-- [Blocks]: parks the thread between looks.
-- [Throws]: 'MPI.MPIError'.
probe :: MPI.Rank -> MPI.Tag -> Comm -> IO MPI.Status
probe rank tag comm = Fast.probe comm rank tag

-- | Something under way that gives no value: haskell-mpi's type, for 'MPI.Request'.
newtype Request = Request (MPI.Request MPI.Status)

-- | For an operation, and what is known of its message then.
requestOf :: (a -> MPI.Status) -> MPI.Request a -> Request
requestOf f = Request . fmap f

-- | Until it is complete; of a send, the status says nothing.
--
-- [Blocks]: as 'MPI.wait'.
-- [Throws]: as 'MPI.wait'.
wait :: Request -> IO MPI.Status
wait (Request request) = MPI.wait request

-- | Until all are complete.
--
-- [Blocks]: as 'MPI.wait'.
-- [Throws]: as 'MPI.waitAll'.
waitall :: [Request] -> IO [MPI.Status]
waitall = mapM wait

-- | Is it complete?
--
-- [Blocks]: never.
-- [Throws]: as 'MPI.wait'.
test :: Request -> IO (Maybe MPI.Status)
test (Request request) = MPI.test request

-- | 'MPI.cancel'.
--
-- [Blocks]: until it is over.
cancel :: Request -> IO ()
cancel (Request request) = void (MPI.cancel request)

-- | A value under way: haskell-mpi's name of a 'MPI.Request' that gives one.
newtype Future a = Future (MPI.Request (a, MPI.Status))

-- | For a receive.
futureOf :: MPI.Request (a, MPI.Status) -> Future a
futureOf = Future

-- | The value.
--
-- [Blocks]: as 'MPI.wait'.
-- [Throws]: as 'MPI.wait'.
waitFuture :: Future a -> IO a
waitFuture (Future request) = fst <$> MPI.wait request

-- | The value, unless it is not there; however often one asks.
--
-- [Blocks]: never.
-- [Throws]: as 'MPI.wait'.
pollFuture :: Future a -> IO (Maybe a)
pollFuture (Future request) = fmap fst <$> MPI.test request

-- | What is known of its message.
--
-- [Blocks]: as 'MPI.wait'.
-- [Throws]: as 'MPI.wait'.
getFutureStatus :: Future a -> IO MPI.Status
getFutureStatus (Future request) = snd <$> MPI.wait request

-- | Give up, if the message has not come. Who waits for it gets an exception.
--
-- [Blocks]: until it is over.
cancelFuture :: Future a -> IO ()
cancelFuture (Future request) = void (MPI.cancel request)

-- | 'Heddle.MPI.Collective.barrier'.
--
-- [Blocks]: parks the thread until the operation is complete.
-- [Throws]: 'MPI.MPIError'.
barrier :: Comm -> IO ()
barrier = Collective.barrier
