-- |
-- Module      : Heddle.MPI
-- Description : A process in a job: start and end, communicators, requests, errors
-- Stability   : stable
--
-- What every MPI program needs. "Heddle.MPI.Simple" sends values, "Heddle.MPI.Fast" sends memory.
--
-- The implementation of MPI is chosen at start-up from the launcher that started the program, or
-- from @HEDDLE_MPI@ (@openmpi@, @mpich@, @alone@). Without a launcher the world has one process
-- and needs no MPI.
--
-- Cost: see the functions.
-- Owner: a process has one world, which exists while 'mpi' runs.
module Heddle.MPI
  ( -- * The world
    mpi,
    initialized,
    abort,
    implementation,
    tagUpperBound,
    wtime,
    wtick,

    -- * Communicators
    Comm,
    Kind (..),
    commWorld,
    commSelf,
    commSize,
    commRank,
    remoteSize,
    closeComm,

    -- * Ranks and tags
    Rank,
    toRank,
    anySource,
    noRank,
    Tag,
    toTag,
    fromTag,
    anyTag,
    unitTag,
    Status (..),

    -- * Requests
    Request,
    await,
    wait,
    waitUntil,
    test,
    waitAny,
    waitAll,
    cancel,

    -- * Errors
    MPIError (..),
    ErrorClass (..),
  )
where

import Heddle.MPI.Internal.Error
import Heddle.MPI.Internal.Request
import Heddle.MPI.Internal.Types
import Heddle.MPI.Internal.World
