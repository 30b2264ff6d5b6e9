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

import Heddle.Prim.Atomic (Ref, modifyRef, newRef, readRef, readWord, writeWord)
import Heddle.Prim.Exception (Exception (..), SomeException, evaluate, throwIO, try, unsafeMask)
import Heddle.Sched.Cancel (indexWord, runningWord, settle)
import Heddle.Sched.Pool
import Heddle.Sched.Scope (addFailure, countParked, countResumed)
import Heddle.Sched.Types

-- Forking --------------------------------------------------------------------

-- | Run a task in parallel with what follows. If it fails, its scope does.
--
-- [Cost]: about 30 ns; 120 bytes.
-- [Blocks]: never.
-- [Throws]: nothing here.
fork :: Body () -> Body ()
fork p w k = do
  !t <- readRef (workerTask w)
  i <- readWord (workerWords w) indexWord
  let !child = ForkTask t i (taskScope t)
      !after = Work t (i + 1) k ()
  commitFork w child after
  p w endFork
{-# INLINE fork #-}

-- | 'fork'. The result is 'True' if another worker stole what follows, so that the task may
-- still be running. If it is 'False', the task has ended, on this worker, or waits for a cell.
--
-- [Cost]: as 'fork'.
-- [Blocks]: never.
forkStolen :: Body () -> Body Bool
forkStolen p w k = do
  !t <- readRef (workerTask w)
  i <- readWord (workerWords w) indexWord
  let !child = ForkTask t i (taskScope t)
      !after = Work t (i + 1) (\w' () -> k w' (workerId w' /= workerId w)) ()
  commitFork w child after
  p w endFork
{-# INLINE forkStolen #-}

endFork :: Worker -> () -> IO ()
endFork w () = finish w

-- | Run a task whose result, in weak head normal form, goes into a cell. If the task fails, so
-- does each task that reads the cell.
--
-- [Cost]: about 40 ns; 160 bytes.
-- [Blocks]: never.
spawn :: Body a -> Body (Cell a)
spawn p w k = do
  !cell <- newCell
  !t <- readRef (workerTask w)
  i <- readWord (workerWords w) indexWord
  let !child = SpawnTask t i (taskScope t) cell
      !after = Work t (i + 1) k cell
  commitFork w child after
  p w (endSpawn cell)
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
  t <- readRef (workerTask w)
  let s = taskScope t
  fill cell (Full a) >>= \case
    Nobody -> next w s
    Wakes [Waiter t' i k] | scopeId (taskScope t') == scopeId s -> do
      settle w
      countResumed s w
      start w (Work t' i k a)
    Wakes ws -> wake w a ws >> next w s
    Already -> do
      newFailure t (toException MultiplePut) Nothing >>= addFailure s
      next w s
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
readCell (Cell ref) w k =
  readRef ref >>= \case
    Full a -> k w a
    Failed f -> failHere w f
    _ -> await ref w k
{-# INLINE readCell #-}

await :: Ref (CellState a) -> Worker -> (Worker -> a -> IO ()) -> IO ()
await ref w k = unsafeMask $ do
  t <- readRef (workerTask w)
  i <- readWord (workerWords w) indexWord
  writeWord (workerWords w) runningWord 0
  let s = taskScope t
      me = Waiter t i k
  -- A full barrier, so that 'settle' may look afterwards.
  was <- modifyRef ref $ \case
    Empty -> (Waiting [me], Empty)
    Waiting ws -> (Waiting (me : ws), Empty)
    other -> (other, other)
  case was of
    Full a -> settle w >> start w (Work t i k a)
    Failed f -> failMasked w t f
    _ -> countParked s w >> next w s

-- | Write a cell; the value is evaluated to weak head normal form first. What waited for it
-- is pushed on the worker's deque.
--
-- [Cost]: one compare-and-set.
-- [Blocks]: never.
-- [Throws]: 'MultiplePut' if the cell is full already.
writeCell :: Cell a -> a -> Body ()
writeCell cell a w k = do
  a' <- evaluate a
  first <-
    unsafeMask $
      fill cell (Full a') >>= \case
        Nobody -> pure True
        Wakes ws -> wake w a' ws >> pure True
        Already -> pure False
  if first then k w () else throwIO MultiplePut
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
workOf t = Work t 0
{-# INLINE workOf #-}

-- | An effect of the running task, and what it throws, whatever its type; only the
-- scheduler's own interrupt, which cancels the task, goes through.
--
-- [Blocks]: as the action does; the worker with it.
-- [Threads]: the worker's.
tryTask :: Worker -> IO a -> IO (Either SomeException a)
tryTask w action =
  try action >>= \case
    Left e | Just (Interrupt i) <- fromException e, i == workerId w -> throwIO e
    result -> pure result

-- | What was thrown.
failureThrown :: Failure -> SomeException
failureThrown = failureException
