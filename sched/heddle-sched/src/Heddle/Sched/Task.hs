-- |
-- Module      : Heddle.Sched.Task
-- Description : Forking tasks, and cells
-- Stability   : internal
--
-- Tasks in continuation-passing style, and the write-once cells they wait for.
--
-- Cost: as said at each.
-- Owner: a cell belongs to its run.
module Heddle.Sched.Task
  ( -- * Forking
    fork,
    forkStolen,
    spawn,
    workerIndex,

    -- * Cells
    newCell,
    newFullCell,
    readCell,
    writeCell,

    -- * Tasks of other libraries
    hookedTask,
    workOf,
    tryTask,
    failureThrown,
  )
where

import Heddle.Prim.Atomic (Ref, acquireFence, modifyRef, newRef, readRef, readWord, writeWord)
import Heddle.Prim.Exception (Exception (..), SomeException, evaluate, throwIO, try, unsafeMask)
import Heddle.Sched.Backlog (holdBack)
import Heddle.Sched.Cancel (indexWord, runningWord, settle)
import Heddle.Sched.Pool
import Heddle.Sched.Position (parentAt, placeBelow)
import Heddle.Sched.Scope (addFailure, countParked, countResumed)
import Heddle.Sched.Types

-- Forking --------------------------------------------------------------------

-- | Run a task in parallel with what follows. If it fails, its scope does.
--
-- [Cost]: about 30 ns; 120 bytes.
-- [Blocks]: never.
-- [Throws]: nothing here.
fork :: Body () -> Body ()
fork body w continue = do
  !task <- readRef (workerTask w)
  index <- readWord (workerWords w) indexWord
  let !place = placeBelow task index
  parent <- parentAt task place
  let !child = ForkTask parent place (taskScope task)
      !after = Work task (index + 1) continue ()
  commitFork w child after
  body w endFork
{-# INLINE fork #-}

-- | 'fork'. The result is 'True' if another worker stole what follows, so that the task may
-- still be running. If it is 'False', the task has ended, on this worker, or waits for a cell.
--
-- [Cost]: as 'fork'.
-- [Blocks]: never.
forkStolen :: Body () -> Body Bool
forkStolen body w continue = do
  !task <- readRef (workerTask w)
  index <- readWord (workerWords w) indexWord
  let !place = placeBelow task index
  parent <- parentAt task place
  let !child = ForkTask parent place (taskScope task)
      !after = Work task (index + 1) (\taker () -> continue taker (workerId taker /= workerId w)) ()
  commitFork w child after
  body w endFork
{-# INLINE forkStolen #-}

endFork :: Worker -> () -> IO ()
endFork w () = finish w

-- | Run a task whose result, in weak head normal form, goes into a cell. If the task fails, so
-- does each task that reads the cell.
--
-- [Cost]: about 40 ns; 160 bytes.
-- [Blocks]: never.
spawn :: Body a -> Body (Cell a)
spawn body w continue = do
  !cell <- newCell
  !task <- readRef (workerTask w)
  index <- readWord (workerWords w) indexWord
  let !place = placeBelow task index
  parent <- parentAt task place
  let !child = SpawnTask parent place (taskScope task) cell
      !after = Work task (index + 1) continue cell
  commitFork w child after
  body w (endSpawn cell)
{-# INLINE spawn #-}

endSpawn :: Cell a -> Worker -> a -> IO ()
endSpawn cell@(Cell ref) w !a = do
  let !full = Full a
  -- An exception between this and 'finish' finds a task that has done its work.
  first <- modifyRef ref $ \case
    Empty -> (full, True)
    other -> (other, False)
  if first then finish w else endSpawnSlowly cell w a

endSpawnSlowly :: Cell a -> Worker -> a -> IO ()
endSpawnSlowly cell w a = unsafeMask $ do
  writeWord (workerWords w) runningWord 0
  task <- readRef (workerTask w)
  let scope = taskScope task
  fill cell (Full a) >>= \case
    NoWaiter -> next w scope
    Wakes (Waiting reader index continue Empty) | scopeId (taskScope reader) == scopeId scope -> do
      settle w
      countResumed scope w
      start w (Work reader index continue a)
    Wakes waiting -> wake w a waiting >> next w scope
    Already -> do
      newFailure task (toException MultiplePut) Nothing >>= addFailure w scope
      next w scope
{-# NOINLINE endSpawnSlowly #-}

-- | The number of a worker, from 0; numbers are dense and never used again.
--
-- [Cost]: one read.
workerIndex :: Worker -> Int
workerIndex = workerId
{-# INLINE workerIndex #-}

-- Cells ----------------------------------------------------------------------

-- | An empty cell.
--
-- [Cost]: 32 bytes.
newCell :: IO (Cell a)
newCell = Cell <$> newRef Empty
{-# INLINE newCell #-}

-- | A cell that is full from the start.
--
-- [Cost]: 48 bytes.
newFullCell :: a -> IO (Cell a)
newFullCell a = Cell <$> newRef (Full a)
{-# INLINE newFullCell #-}

-- | The value of a cell; if its task failed, the reader fails, too.
--
-- [Cost]: one read if the value is there, else about 40 ns when it comes.
-- [Blocks]: parks the task, not the worker.
readCell :: Cell a -> Body a
readCell (Cell ref) w continue =
  readRef ref >>= \case
    -- The fence: the reader also sees what was done before the cell was filled.
    Full a -> acquireFence >> continue w a
    Failed f -> failHere w f
    _ -> await ref w continue
{-# INLINE readCell #-}

await :: Ref (CellState a) -> Worker -> (Worker -> a -> IO ()) -> IO ()
await ref w continue = unsafeMask $ do
  task <- readRef (workerTask w)
  index <- readWord (workerWords w) indexWord
  writeWord (workerWords w) runningWord 0
  let scope = taskScope task
  -- A full barrier, so that 'settle' may look afterwards.
  was <- modifyRef ref $ \case
    full@(Full _) -> (full, full)
    failed@(Failed _) -> (failed, failed)
    others -> (Waiting task index continue others, Empty)
  case was of
    Full a -> settle w >> start w (Work task index continue a)
    Failed f -> failMasked w task f
    _ -> do
      countParked scope w
      holdBack w scope >>= maybe (next w scope) (instead w scope)

-- | Write a cell; the value is evaluated to weak head normal form first. What waited for it
-- is pushed on the worker's deque.
--
-- [Cost]: one compare-and-set.
-- [Blocks]: never.
-- [Throws]: 'MultiplePut' if the cell is full already.
writeCell :: Cell a -> a -> Body ()
writeCell cell a w continue = do
  value <- evaluate a
  first <-
    unsafeMask $
      fill cell (Full value) >>= \case
        NoWaiter -> pure True
        Wakes waiting -> wake w value waiting >> pure True
        Already -> pure False
  if first then continue w () else throwIO MultiplePut
{-# INLINE writeCell #-}

-- Tasks of other libraries ---------------------------------------------------

-- | A task of a scope that reports what it throws to a hook, with its number, instead of
-- failing its scope. The hook is called on the worker, masked, between tasks.
--
-- [Cost]: four words.
hookedTask :: Int -> Scope -> (Worker -> Int -> SomeException -> IO ()) -> Task
hookedTask = HookedTask
{-# INLINE hookedTask #-}

-- | The continuation of a task, and the value that it goes on with.
--
-- [Cost]: five words.
workOf :: Task -> (Worker -> a -> IO ()) -> a -> Work
workOf task = Work task 0
{-# INLINE workOf #-}

-- | Run an effect in the running task and catch what it throws, whatever its type. Only the
-- scheduler's own interrupt, which cancels the task, passes through.
--
-- [Blocks]: as the action does; the worker with it.
-- [Threads]: the worker's.
tryTask :: Worker -> IO a -> IO (Either SomeException a)
tryTask w action =
  try action >>= \case
    Left e | Just (Interrupt victim) <- fromException e, victim == workerId w -> throwIO e
    result -> pure result

-- | The exception of a failure: what the task that failed first threw, also where this task failed by
-- reading that one's cell. It is safe to examine: an exception that was itself an error has been
-- replaced by that error.
--
-- [Cost]: one read.
failureThrown :: Failure -> SomeException
failureThrown = failureException
