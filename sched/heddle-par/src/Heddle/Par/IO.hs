-- Everything with effects is in IO or 'ParIO'.
{-# LANGUAGE Trustworthy #-}

-- |
-- Module      : Heddle.Par.IO
-- Description : Parallel tasks with effects, and sound exceptions
-- Stability   : stable
--
-- 'Heddle.Par.Par' with effects: the same tasks, IVars and scheduler, and 'liftIO'.
--
-- An exception in a task is never lost. The tasks that wait for the task ('get' of a 'spawn')
-- fail with it in turn; and unless a 'try' handles it on its way, the scope (the run, or the
-- innermost 'scope') fails. If several tasks fail, the scope throws the exception of the
-- leftmost, the one that a sequential run would have met first: what a task forks comes before
-- the continuation of the task. Tasks to the right of a failure that is certain are cancelled;
-- those to the left go on, since they may fail, too.
--
-- What a task throws is its own failure, whatever its type, and a 'try' around it may handle
-- it; so is what the runtime throws because of it, such as a stack overflow. What is thrown at
-- the caller of a run is never a task's: it ends the run, and every task in it.
--
-- A run, and a scope, returns when every one of its tasks has ended, also when something is
-- thrown at the caller: a run that is killed or timed out leaves no task behind.
--
-- Cost: see "Heddle.Par".
-- Owner: a run owns its tasks.
module Heddle.Par.IO
  ( -- * Runs
    ParIO,
    runParIO,
    liftIO,
    blocking,

    -- * Tasks
    fork,
    spawn,
    IVar,
    new,
    newFull,
    get,
    put,

    -- * Workers

    -- | For data that each worker owns, such as a buffer that its tasks use one after the other.
    forkStolen,
    workerIndex,

    -- * Scopes
    scope,
    try,
    leftmost,

    -- * Exceptions
    ParException (..),
    MultiplePut (..),
    BlockedOnIVar (..),
  )
where

import Control.Monad.IO.Class (MonadIO (..))
import Control.Monad.ST (RealWorld)
import Heddle.Par.Internal.Exception (BlockedOnIVar (..))
import Heddle.Par.Internal.Leftmost (failWith, leftmostOf)
import Heddle.Par.Internal.Monad (IVar, Par (..), fork, forkStolen, get, new, newFull, par, put, spawn, workerIndex)
import Heddle.Prim.Exception (Exception (..), throwIO)
import Heddle.Sched (Kind (..), MultiplePut (..), OnFailure (..), Outcome (..), ParException (..), Result (..), failureThrown, handleFailures, lend, runBody, scoped)

-- | A parallel computation with effects.
type ParIO = Par RealWorld

-- | Run, and wait for every task.
--
-- [Cost]: as 'Heddle.Par.runPar'.
-- [Blocks]: parks; no task runs on the calling thread.
-- [Masking]: interruptible; what is thrown at the caller cancels every task, waits for their
-- end, and is thrown again. Tasks run unmasked.
-- [Throws]: the exception of the leftmost task that failed unhandled; 'BlockedOnIVar'.
-- [Source]: PCPH, chapter 13, "The ParIO monad".
runParIO :: ParIO a -> IO a
runParIO p =
  runBody CancelRight (unPar p) >>= \case
    Done a -> pure a
    Stalled -> throwIO BlockedOnIVar
    Thrown e -> throwIO e
    Interrupted e -> throwIO e

-- | An effect that may block for long: an 'MVar', a lock, a child process. The worker goes on
-- with other tasks, and this one with a spare worker, which takes part in the run until the
-- task ends or waits for an IVar. So as many tasks can block as there are spare workers, 500 at
-- a time in the whole process; any more block their worker, as with 'liftIO'.
--
-- [Cost]: a microsecond, a switch of threads; the first time about 3 KB, which is kept and used
-- again. While spare workers compute, there are more threads than capabilities, which take turns.
-- [Blocks]: the task, not the worker.
-- [Masking]: the effect runs unmasked; cancelling the task interrupts it.
-- [Throws]: what the effect throws; 'Control.Exception.BlockedIndefinitelyOnMVar' if it waits
-- for something unreachable, as 'liftIO' does.
blocking :: IO a -> ParIO a
blocking io = par (\w k -> lend w (\w' -> io >>= k w'))

-- | Run a part as a scope of its own: it returns when all tasks forked in it have ended,
-- and throws the leftmost failure among them. If it fails, tasks of it that wait for what
-- only others outside would write are given up.
--
-- [Cost]: 64 bytes a capability, and 800; the same at any depth.
scope :: ParIO a -> ParIO a
scope p =
  par (scoped OpenScope (unPar p)) >>= \case
    (_, Ended a) -> pure a
    (_, Broken f) -> failWith f
    (_, Stuck) -> liftIO (throwIO BlockedOnIVar)

-- | Run a part as a 'scope', and handle its failure if that is of the right type. Other
-- failures of the part, further right, are dropped with it.
--
-- [Cost]: as 'scope'.
try :: Exception e => ParIO a -> ParIO (Either e a)
try p =
  par (scoped OpenScope (unPar p)) >>= \case
    (_, Ended a) -> pure (Right a)
    (_, Stuck) -> liftIO (throwIO BlockedOnIVar)
    (s, Broken f) -> case fromException (failureThrown f) of
      Just e -> liftIO (handleFailures s) >> pure (Left e)
      Nothing -> failWith f

-- | Search in parallel, answer as a sequential search would: the result of the leftmost
-- computation that has one, unless one further left fails: then the search fails with it. The
-- computations to the right are cancelled, and their failures are dropped.
--
-- [Cost]: a scope for each computation.
-- [Source]: PCPH, chapter 13, the rule that @findpar@ keeps.
leftmost :: [ParIO (Maybe a)] -> ParIO (Maybe a)
leftmost = leftmostOf OpenScope
