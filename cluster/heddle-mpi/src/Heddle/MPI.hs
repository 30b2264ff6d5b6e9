-- |
-- Module      : Heddle.MPI
-- Description : A process's part in a job: life, communicators, requests, errors
-- Stability   : stable
--
-- What every program with MPI needs; "Heddle.MPI.Simple" sends values, "Heddle.MPI.Fast"
-- memory.
--
-- The implementation of MPI is chosen when the program starts, by the launcher that has
-- started it, or by @HEDDLE_MPI@ (@openmpi@, @mpich@, @alone@). Without a launcher the world
-- has one process, and needs no MPI.
--
-- Cost: see the functions.
-- Owner: the process has one world, for as long as 'mpi' runs.
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
