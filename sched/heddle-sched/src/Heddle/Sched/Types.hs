{-# LANGUAGE ExistentialQuantification #-}
-- See Note [No safe point] in "Heddle.Sched.Pool".
{-# OPTIONS_GHC -O2 #-}

-- |
-- Module      : Heddle.Sched.Types
-- Description : What the scheduler is made of
-- Stability   : internal
--
-- A run is a tree of tasks inside a tree of scopes. A task is a fork; its code
-- is in continuation-passing style, so what is left of a task at any moment is one
-- 'Work': a function and its argument. Workers keep work in their deques; a task that
-- waits for a cell is a waiter in it and nowhere else.
--
-- Cost: a fork allocates a 'Task' (5 words) and a 'Work' (6 words); each 64th level of forks 20 words more.
-- Owner: a 'Worker' belongs to the thread that runs it, the rest is shared as said.
module Heddle.Sched.Types
  ( -- * Cells
    Cell (..),
    CellState (..),

    -- * Tasks
    Task (..),
    Work (..),
    Milestone (..),
    Failure (..),
    taskScope,

    -- * Scopes
    Scope (..),
    Child (..),
    Cutoff (..),

    -- * Workers
    Worker (..),
    Affinity (..),
    Errand (..),
    Pool (..),
    Workers (..),

    -- * Computations
    Body,

    -- * Exceptions
    ParException (..),
    MultiplePut (..),
    Interrupt (..),
  )
where

import Data.Typeable (cast)
import Heddle.Prim.Atomic (Ref, Stack, Table, Words)
import Heddle.Prim.Exception
  ( Exception (..),
    SomeException,
    asyncExceptionFromException,
    asyncExceptionToException,
  )
import Heddle.Prim.Lock (Lock)
import Heddle.Prim.Thread (WeakThread)
import Heddle.Prim.WaitCell (WaitCell)
import Heddle.Sched.Bag (Bag)
import Heddle.Sched.Deque (Deque)
import Heddle.Sched.Internal.PrivateStack (PrivateStack)

-- | A cell that is written once: an IVar without the type parameter that keeps it in its run.
newtype Cell a = Cell (Ref (CellState a))

-- | Empty -> Waiting -> Full or Failed, each by compare-and-set.
data CellState a
  = Empty
  | -- | The continuation of a task that waits, the newest first: the task, the index of its next
    -- fork, a function, and who waited before it ('Empty' at the end).
    Waiting !Task !Int (Worker -> a -> IO ()) !(CellState a)
  | Full a
  | -- | The task that was to write it failed.
    Failed !Failure

-- | A fork, for its place among the others (parent, index) and its scope.
data Task
  = -- | The first task of a scope; in the outermost scope it is its own parent.
    RootTask
      { _taskParent :: Task,
        -- | Its number among its parent's forks, with its level (see "Heddle.Sched.Position"); of
        -- a hooked task, its number among those of its hook.
        taskIndex :: !Int,
        _taskScope :: !Scope
      }
  | -- | Only the scope waits for it.
    ForkTask {_taskParent :: !Task, taskIndex :: !Int, _taskScope :: !Scope}
  | -- | Its result, or its failure, goes into a cell.
    forall a. SpawnTask {_taskParent :: !Task, taskIndex :: !Int, _taskScope :: !Scope, _taskCell :: !(Cell a)}
  | -- | A task of another library: what it throws goes to its hook, with its index, and not to
    -- the scope. So it is never compared with other tasks of its scope and has no parent.
    HookedTask {taskIndex :: !Int, _taskScope :: !Scope, _taskThrew :: Worker -> Int -> SomeException -> IO ()}
  | -- | No task, but what lies above each 64th task on the way down from the root, with its index.
    MilestoneTask {_taskParent :: !Task, taskIndex :: !Int, _taskScope :: !Scope, _taskMilestone :: Milestone}

-- | A shorter way up the tree of tasks; see "Heddle.Sched.Position".
data Milestone
  = -- | The root.
    Summit
  | Milestone
      { -- | Equal to itself only. The collector may copy a task, so its address says nothing.
        _milestoneIdentity :: !(Ref ()),
        -- | How many milestones there are from the root to this one.
        _milestoneNumber :: Int,
        -- | The next one on the way up.
        _milestoneAbove :: Milestone,
        -- | One that is further up.
        _milestoneJump :: Milestone,
        -- | The indices that lead from the next one to this one.
        _milestonePath :: [Int]
      }

-- | The scope a task belongs to.
taskScope :: Task -> Scope
taskScope = _taskScope
{-# INLINE taskScope #-}

-- | The continuation of a task, ready to run: the task, the index of its next fork, and a
-- function with its argument.
data Work = forall a. Work {workTask :: !Task, _workIndex :: !Int, _workContinuation :: Worker -> a -> IO (), _workValue :: a}

-- | An exception and the task that threw it first.
data Failure = Failure
  { failureTask :: !Task,
    failureException :: !SomeException,
    -- | Set when a task handles it. At the end of a scope the leftmost failure without this
    -- mark becomes the scope's, so none is lost.
    failureHandled :: !(Ref Bool),
    -- | The failure that this task met when it read another's result. Handling this one handles
    -- that one, but not the failures of other readers.
    failureCause :: !(Maybe Failure)
  }

-- | The tasks of one run, or of one part of it that succeeds or fails as a whole.
data Scope = Scope
  { scopeId :: !Int,
    -- | Of the outermost scope: the run's.
    scopeRun :: !Int,
    scopeAround :: !(Maybe Scope),
    -- | Flags, the state, and a line of counts for each worker; see "Heddle.Sched.Scope".
    scopeWords :: !Words,
    -- | How many workers have a line of their own; see 'workerLine'.
    scopeLines :: !Int,
    -- | The worker that began the run, which has a line, too.
    scopeGuest :: !Int,
    -- | No task outside can wake its tasks, so it ends when all have ended or wait; otherwise the
    -- waiting ones must have ended, too.
    scopeClosed :: !Bool,
    -- | Does a failure cancel what is to its right? In a pure run it must not: a task to
    -- the left may wait for one to the right, and would then depend on timing.
    scopeCuts :: !Bool,
    scopeCutoff :: !(Ref Cutoff),
    scopeFailures :: !(Bag Failure),
    -- | The scopes opened in it that may not have ended.
    scopeChildren :: !(Bag Child),
    -- | What the last worker does when every task has ended or waits for ever.
    scopeWhenQuiet :: Worker -> IO ()
  }

-- | What a scope keeps of one inside it, to cancel that: its place, flags and state, and children.
-- It does not keep the scope alive, and with it what goes on after that.
data Child = Child {childPlace :: !Task, childWords :: !Words, childChildren :: !(Bag Child)}

-- | Tasks to the right of one that has certainly failed are not needed.
data Cutoff = NoCutoff | RightOf !Task

-- | A thread and its deque.
data Worker = Worker
  { workerId :: !Int,
    -- | Its line in a scope's counts, for the pool's own workers; else -1.
    workerLine :: !Int,
    workerPool :: !Pool,
    -- | The pool's words.
    workerSleepers :: !Words,
    -- | The index of the next fork, whether user code is running, a seed, a count of tasks
    -- (the owner's line), and whether a thread has announced an interrupt (the line of the
    -- others).
    workerWords :: !Words,
    workerDeque :: {-# UNPACK #-} !(Deque Work),
    -- | Its private LIFO stack, which thieves leave alone while tasks are short.
    workerPrivate :: {-# UNPACK #-} !(PrivateStack Work),
    -- | The task that runs or has just ended.
    workerTask :: !(Ref Task),
    -- | The thread that runs it, once that has begun. Weak, so that the runtime can tell a task
    -- that it waits for something unreachable.
    workerThread :: !(Ref (Maybe WeakThread)),
    workerAffinity :: !(Ref Affinity),
    -- | What it does when it wakes, if a caller has given it something.
    workerErrand :: !(Ref (Maybe Errand)),
    -- | Where the caller of its run waits: reachable from here, so that the caller is not
    -- taken for a thread that waits for ever when one of its tasks does.
    workerCaller :: !(Ref WaitCell),
    -- | Held by the thread that interrupts the task this worker runs.
    workerHandshake :: !Lock,
    -- | Where its thread parks.
    workerCell :: !WaitCell,
    -- | Go on after the end of a task; made once, so that going there allocates nothing.
    workerGoOn :: IO ()
  }

-- | Whose work a worker does.
data Affinity
  = -- | Any.
    AnyRun
  | -- | That of one run, until it is quiet.
    Only !Scope
  | -- | One task of a run, which is about to block, and what comes of it.
    Brief !Scope

-- | A job for one worker: whose work it then does, what it begins with, and an action for the end
-- that tells the giver.
data Errand = Errand !Affinity !Work !(IO ())

-- | All workers of the process.
data Pool = Pool
  { -- | Sleepers, searchers, and the last scope's number; see "Heddle.Sched.Sleep".
    poolWords :: !Words,
    -- | A bit for each worker that sleeps and wants to be woken for work.
    poolMasks :: !Words,
    poolWorkers :: !(Ref Workers),
    -- | Held while workers are added.
    poolGrowing :: !Lock,
    -- | Workers without a capability of their own that have nothing to do.
    poolSpare :: !(Stack Worker),
    -- | What an idle worker runs, and what an empty slot holds.
    poolIdleTask :: !Task
  }

-- | A snapshot; workers are only added.
data Workers = Workers
  { -- | The pool's own, by capability.
    workersPinned :: !(Table Worker),
    -- | All, at the first 'workersMany' places; the table doubles when it is full.
    workersAll :: !(Table Worker),
    workersMany :: !Int
  }

-- | What a task does, in continuation-passing style: called with the worker that runs it, it
-- calls its continuation with the worker that runs the task then, and the result.
--
-- [Threads]: the thread of the worker it is given; unmasked.
type Body a = Worker -> (Worker -> a -> IO ()) -> IO ()

-- | Any exception of this package and of heddle-par: a handler for it catches 'MultiplePut' and
-- heddle-par's @BlockedOnIVar@. It is here because the scheduler throws the first of them.
data ParException = forall e. Exception e => ParException e

instance Show ParException where
  showsPrec d (ParException e) = showsPrec d e

instance Exception ParException where
  displayException (ParException e) = displayException e

-- | A write-once cell was written twice. A run throws it before any other failure, since which
-- of the two writers comes second depends on timing.
data MultiplePut = MultiplePut
  deriving stock (Eq, Show)

instance Exception MultiplePut where
  toException = toException . ParException
  fromException e = fromException e >>= \(ParException child) -> cast child
  displayException MultiplePut = "an IVar was written twice: each must have one writer"

-- | Thrown to a worker (by number) to end the task it runs; never leaves this package.
newtype Interrupt = Interrupt Int
  deriving stock (Show)

instance Exception Interrupt where
  toException = asyncExceptionToException
  fromException = asyncExceptionFromException
