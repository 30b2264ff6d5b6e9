-- |
-- Module      : Heddle.Sched.Run
-- Description : Scopes and runs
-- Stability   : internal
--
-- Opens scopes of tasks and waits for their end; a run is the outermost scope.
--
-- Cost: as said at each.
-- Owner: a run owns its tasks; when it returns, none is left.
module Heddle.Sched.Run
  ( -- * Scopes
    Kind (..),
    scoped,
    failWith,
    openBranches,

    -- * Runs
    OnFailure (..),
    Result (..),
    runBody,
  )
where

import Control.Monad (forM_, unless, when)
import Heddle.Prim.Atomic
  ( Ref,
    acquireFence,
    atomicWrite,
    modifyRef,
    newRef,
    readRef,
    readWord,
    writeRef,
    writeWord,
  )
import Heddle.Prim.Exception
  ( SomeException,
    mask_,
    try,
    uninterruptibleMask_,
    unsafeMask,
  )
import Heddle.Prim.WaitCell (newWaitCell, park, unpark)
import Heddle.Sched.Cancel (indexWord, interruptWhere, runningWord, settle)
import Heddle.Sched.Pool
import Heddle.Sched.Position (parentAt, placeBelow)
import Heddle.Sched.RunQueue (pushWork, resume)
import Heddle.Sched.Scope
import Heddle.Sched.Task (newCell)
import Heddle.Sched.Types
import Heddle.Sched.Workers (abort, assign, hire)

-- Scopes ---------------------------------------------------------------------

-- | Can tasks of a scope wait for cells that tasks outside it write?
data Kind
  = -- | No: the scope ends when all its tasks have ended or wait.
    ClosedScope
  | -- | Yes: the scope ends when all its tasks have ended, the waiting ones, too.
    OpenScope

-- | Run a part as a scope of its own, which ends when all its tasks have.
--
-- [Cost]: 64 bytes a capability, and 800; the same at any depth.
-- [Blocks]: parks the task until the scope has ended.
scoped :: Kind -> Body a -> Body (Scope, Outcome a)
scoped kind body w continue = do
  cell <- newRef Nothing
  unsafeMask $ do
    task <- readRef (workerTask w)
    child <- readWord (workerWords w) indexWord
    let parent = taskScope task
        whenQuiet s ender = do
          out <- outcome s cell
          resume ender (Work task (child + 1) continue (s, out))
    (_, root) <- inside w task child kind whenQuiet
    -- It does not count itself down: its count is now the scope's.
    countParked parent w
    atomicWrite (workerWords w) runningWord 0
    settle w
    start w (Work root 0 (\starter () -> body starter (endRoot cell)) ())

-- A scope inside that of the task, and its first task.
inside :: Worker -> Task -> Int -> Kind -> (Scope -> Worker -> IO ()) -> IO (Scope, Task)
inside w task child kind whenQuiet = do
  let parent = taskScope task
      place = placeBelow task child
  above <- parentAt task place
  scope <- newScope w (Just parent) (isClosed kind) (scopeCuts parent) whenQuiet
  enrol w parent scope (ForkTask above place parent)
  pure (scope, RootTask above place scope)

isClosed :: Kind -> Bool
isClosed = \case
  ClosedScope -> True
  OpenScope -> False

endRoot :: Ref (Maybe a) -> Worker -> a -> IO ()
endRoot cell w a = unsafeMask $ do
  writeWord (workerWords w) runningWord 0
  writeRef cell (Just a)
  s <- taskScope <$> readRef (workerTask w)
  next w s

-- | Fail with the failure of a scope inside, so that it keeps its place among others: the task that
-- threw first, not this one, decides which failure is leftmost.
--
-- [Cost]: that of ending a task.
-- [Blocks]: never; the continuation is dropped.
failWith :: Failure -> Body a
failWith f worker _ = failHere worker f

-- | Begin all bodies, each as a scope of its own. As soon as one of them has a result or fails,
-- those to the right of it are cancelled, and perhaps not begun. There is a cell for each that
-- was begun.
--
-- [Cost]: a scope for each.
-- [Blocks]: never.
openBranches :: Kind -> [Body (Maybe a)] -> Body [Cell (Outcome (Maybe a))]
openBranches kind bodies worker continue = do
  race <- Race <$> newRef maxBound <*> newRef []
  let open _ [] w opened = opened w []
      open index (body : others) w opened = do
        limit <- readRef (raceLimit race)
        if limit < index
          then opened w []
          else openBranch kind race index body w $ \after cell ->
            open (index + 1) others after (\final cells -> opened final (cell : cells))
  open (0 :: Int) bodies worker continue

-- Branches are numbered from the left.
data Race = Race
  { -- The leftmost branch that has a result or has failed.
    raceLimit :: !(Ref Int),
    -- Those begun and not cancelled, by number, the last first.
    raceScopes :: !(Ref [(Int, Scope)])
  }

openBranch :: Kind -> Race -> Int -> Body (Maybe a) -> Body (Cell (Outcome (Maybe a)))
openBranch kind race index body w continue = do
  cell <- newRef Nothing
  out <- newCell
  unsafeMask $ do
    task <- readRef (workerTask w)
    child <- readWord (workerWords w) indexWord
    let parent = taskScope task
    countUp parent w
    (scope, root) <- inside w task child kind (endBranch race index cell out)
    modifyRef (raceScopes race) (\others -> ((index, scope) : others, ()))
    limit <- readRef (raceLimit race)
    when (limit < index) (markCancelled w scope)
    pushWork w (Work task (child + 1) continue out)
    atomicWrite (workerWords w) runningWord 0
    settle w
    -- Forced in the task: the worker that ends the scope examines it masked and between tasks.
    start w (Work root 0 (\starter () -> body starter (\ender !a -> endRoot cell ender a)) ())

-- Its scope is quiet: decide the race if it has a result or has failed, then fill its cell.
endBranch :: Race -> Int -> Ref (Maybe (Maybe a)) -> Cell (Outcome (Maybe a)) -> Scope -> Worker -> IO ()
endBranch race index cell out s w = do
  end <- outcome s cell
  case end of
    Ended Nothing -> pure ()
    _ -> cancelRight race index w
  fill out (Full end) >>= \case
    Wakes waiting -> wake w end waiting
    _ -> pure ()

-- End the branches to the right of this one, and begin no more of them.
cancelRight :: Race -> Int -> Worker -> IO ()
cancelRight race index w = do
  modifyRef (raceLimit race) (\limit -> (min limit index, ()))
  right <- modifyRef (raceScopes race) $ \begun ->
    let (right, others) = span ((> index) . fst) begun in (others, map snd right)
  forM_ right (markCancelled w)
  forM_ (take 1 right) (interruptWhere (workerPool w) (workerId w) . isUnwanted)
  forM_ right (checkQuiet w)

-- Runs -----------------------------------------------------------------------

-- | Does a failure cancel the tasks to the right of it?
data OnFailure
  = -- | No: all tasks go on. A pure run needs this, where a task to the left may wait for one
    -- to the right and the answer must not depend on timing.
    GoOn
  | -- | Yes.
    CancelRight

-- | How a run ended.
data Result a
  = -- | With this result.
    Done a
  | -- | Every task has ended or waits, and there is no result: a deadlock.
    Stalled
  | -- | The leftmost failure, which no task handled.
    Thrown SomeException
  | -- | This was thrown at the caller; the run was cancelled and has ended.
    Interrupted SomeException

-- | Run the outermost scope on the pool. One worker does this run's work only, so a run makes
-- progress however busy the others are. No task runs on the caller's thread: what is thrown at
-- the caller is never taken for a task's exception (Note [Whose exception] in
-- "Heddle.Sched.Pool").
--
-- [Cost]: 0.5 microseconds and 0.5 KB from a thread of the runtime; some tens of microseconds
-- from one bound to a thread of the system, as a program's main thread is.
-- [Blocks]: parks the calling thread until every task has ended.
-- [Masking]: interruptible unless uninterruptibly masked; tasks run unmasked all the same.
-- [Throws]: nothing; see 'Result'.
-- [Threads]: any, tasks of other runs included.
runBody :: OnFailure -> Body a -> IO (Result a)
runBody onFailure body = mask_ $ do
  w <- hire
  cell <- newRef Nothing
  caller <- newWaitCell
  done <- newRef False
  s <- newScope w Nothing True (cutsOff onFailure) (\_ ender -> unless (workerId ender == workerId w) (unpark (workerCell w)))
  let root = RootTask {_taskParent = root, taskIndex = 0, _taskScope = s}
      -- The fence: what tasks wrote must not be read before the end is seen.
      wait = readRef done >>= \over -> if over then acquireFence else park caller >> wait
      result =
        outcome s cell >>= \case
          Ended a -> pure (Done a)
          Broken f -> pure (Thrown (failureException f))
          Stuck -> pure Stalled
  assign w caller $
    Errand (Only s) (Work root 0 (\starter () -> body starter (endRoot cell)) ()) (writeRef done True >> unpark caller)
  try wait >>= \case
    Right () -> result
    -- A further exception, too, waits until the run has ended.
    Left e -> uninterruptibleMask_ (abort w s >> wait) >> pure (Interrupted e)

cutsOff :: OnFailure -> Bool
cutsOff = \case
  GoOn -> False
  CancelRight -> True
