{-# OPTIONS_HADDOCK not-home #-}

-- |
-- Module      : Heddle.Par.Internal
-- Description : For Heddle's own packages
-- Stability   : internal
--
-- What the packages above heddle-par are built with: the scheduler, for other kinds of
-- tasks than forks. Exempt from the version policy.
--
-- Cost: as said at each.
-- Owner: see "Heddle.Par".
module Heddle.Par.Internal
  ( -- * Forks
    forkStolen,
    workerIndex,

    -- * Computations
    Par (..),
    par,
    failWith,

    -- * Runs
    Result (..),
    runAs,

    -- * Parts that somebody decides on
    IVar,
    get,
    Kind (..),
    Outcome (..),
    failureThrown,
    branchesOf,

    -- * Tasks and their rests

    -- | A 'HookedTask' has its own way to fail. What is pushed patiently is left to its
    -- worker while that goes from task to task ('tick') quickly.
    Task (..),
    Work (..),
    Scope,
    taskScope,

    -- * Workers
    Worker,
    runningTask,
    become,
    start,
    finish,
    finishPatiently,
    next,
    nextOldest,
    pushHere,
    pushPatiently,
    isChained,
    offerAgain,
    resume,
    resumePatiently,
    tick,
    pause,
    tryTask,
    absorbing,

    -- * Patient stacks
    Patient,
    newPatient,
    makeRoom,
    pushPatient,
    popPatient,
    popSlowly,
    liftPatient,
    putBack,
    isEmptied,
    offersSome,
    takeHalf,
  )
where

import Heddle.Par.Internal.Cancel (absorbing)
import Heddle.Par.Internal.Monad
import Heddle.Par.Internal.Patient
import Heddle.Par.Internal.Pool
import Heddle.Par.Internal.Ready
import Heddle.Par.Internal.Run
import Heddle.Par.Internal.Scope (Outcome (..))
import Heddle.Par.Internal.Types
import Heddle.Prim.Exception (Exception (..), SomeException, throwIO, try)

-- | An effect of the running task, and what it throws, whatever its type; only the
-- scheduler's own interrupt goes through.
tryTask :: Worker -> IO a -> IO (Either SomeException a)
tryTask w action =
  try action >>= \case
    Left e | Just (Interrupt i) <- fromException e, i == workerId w -> throwIO e
    result -> pure result

-- | What was thrown.
failureThrown :: Failure -> SomeException
failureThrown = failureException
