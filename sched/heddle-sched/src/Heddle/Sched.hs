-- |
-- Module      : Heddle.Sched
-- Description : A work-stealing scheduler
-- Stability   : stable
--
-- Tasks in continuation-passing style, on one pool of workers for the process: one worker
-- pinned to each capability, and spare ones for tasks that block. This is the layer below
-- parallel libraries; programs use heddle-par, whose @Par@ is a newtype around 'Body'.
--
-- A task runs on a worker until it ends or waits; a fork pushes the continuation of its task on
-- the worker's deque and runs the child. Workers without work steal the oldest continuation of
-- a victim, or park. A scope counts its tasks, knows when none is left, and can be cancelled.
--
-- Cost: a fork takes 30 ns and one locked instruction, at the end of the task.
-- Owner: the process owns the pool; a run owns its tasks, and none is left when it returns.
module Heddle.Sched
  ( -- * Runs

    -- | A run is a tree of tasks inside a tree of scopes.
    Body,
    runBody,
    OnFailure (..),
    Result (..),

    -- * Tasks
    fork,
    forkStolen,
    spawn,
    lend,

    -- * Cells

    -- | A cell is written once; tasks that read it earlier wait in it and nowhere else.
    Cell,
    newCell,
    newFullCell,
    readCell,
    writeCell,
    ParException (..),
    MultiplePut (..),

    -- * Scopes

    -- | A scope succeeds or fails as a whole: with the leftmost failure that no task handled.
    Scope,
    Kind (..),
    Outcome (..),
    scoped,
    openBranches,

    -- * Failures
    Failure,
    failureThrown,
    failWith,
    handleFailures,

    -- * Workers
    Worker,
    workerIndex,
    runningTask,
    countTask,

    -- * Tasks of other libraries

    -- | For a library with tasks of its own, such as the branches of heddle-rendezvous: it keeps
    -- their continuations while they wait, and makes them ready to run itself.
    Task,
    hookedTask,
    taskIndex,
    taskScope,
    Work,
    workOf,
    tryTask,

    -- ** Making work ready

    -- | 'pushHere' and 'resume' push work on the worker's deque, where every worker of the run may
    -- steal it. While 'isChained', 'pushPrivately' and 'resumePrivately' push it on the worker's
    -- private LIFO stack: the worker pops it without a locked instruction, and thieves leave it
    -- there while tasks are shorter than two microseconds, which they see from 'countTask'.
    pushHere,
    resume,
    pushPrivately,
    resumePrivately,
    offerAgain,
    isChained,

    -- ** Going on

    -- | How a task ends or begins to wait, and what its worker does then. Masked code must
    -- 'pause' first, and end with 'start', 'next' or 'nextOldest'.
    become,
    pause,
    start,
    next,
    nextOldest,
    finishPrivately,
    absorbing,

    -- * Costs
    stepsTaken,
  )
where

import Heddle.Sched.Cancel (absorbing)
import Heddle.Sched.Pool (finishPrivately, next, nextOldest, pause, start)
import Heddle.Sched.Run
import Heddle.Sched.RunQueue
import Heddle.Sched.Scope (Outcome (..), handleFailures)
import Heddle.Sched.StepCount (stepsTaken)
import Heddle.Sched.Task
import Heddle.Sched.Types
import Heddle.Sched.Workers (lend)
