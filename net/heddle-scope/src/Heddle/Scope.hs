{-# LANGUAGE ExistentialQuantification #-}
{-# LANGUAGE PatternSynonyms #-}
{-# LANGUAGE RankNTypes #-}

-- |
-- Module      : Heddle.Scope
-- Description : Threads that never outlive their scope
-- Stability   : stable
--
-- Two guarantees. A task never outlives the scope it was forked in: 'withScope' returns or
-- throws only when every task has finished. And no failure is lost: a task that throws
-- cancels its siblings, interrupts the scope's body, and 'withScope' throws its exception, as
-- the task threw it. 'withScopeTagged' adds the names of scope and task.
--
-- Invariant: the exception that interrupts a body never leaves its 'withScope'.
-- Cost: fork and await cost about as much as @forkIO@ and an @MVar@.
-- Owner: the thread in 'withScope'; any thread may fork, await and cancel.
module Heddle.Scope
  ( -- * Scopes
    Scope,
    withScope,
    withScopeNamed,
    withScopeTagged,

    -- * Tasks
    Task,
    fork,
    forkOn,
    forkNamed,
    withTask,

    -- * Results
    await,
    awaitUntil,
    awaitEither,
    awaitAny,
    awaitAnyUntil,
    tryAwait,

    -- * Cancelling
    cancel,

    -- * Both and either
    concurrently,
    race,

    -- * Time-outs

    -- | Durations have units: a number is not one, so @timeout 1000000@, a second in
    -- "System.Timeout", does not compile here; write @timeout (seconds 1)@.
    timeout,
    timeoutUntil,
    Nanos,
    microseconds,
    milliseconds,
    seconds,

    -- * Exceptions
    ScopeException (..),
    TaskFailed (..),
    TaskCancelled (..),
    ScopeClosed (..),
  )
where

import Control.Monad (unless, void, when, zipWithM_)
import Data.Foldable (for_, traverse_)
import Data.IntMap.Strict (IntMap)
import Data.IntMap.Strict qualified as IntMap
import Data.Maybe (fromMaybe)
import Heddle.IO.WaitQueue
import Heddle.Prim.Atomic
import Heddle.Prim.Clock (Deadline, Nanos, microseconds, milliseconds, never, seconds)
import Heddle.Prim.Errno (throwErrnoFor, pattern EINVAL)
import Heddle.Prim.Exception
import Heddle.Prim.Thread (ThreadId, forkMasked, forkMaskedOn, labelMe, myThreadId)
import Heddle.Prim.WaitCell
import Heddle.Scope.Internal.Exception
import Heddle.Timer (isOver, timeout, timeoutUntil, withCellUntil)
import System.Exit (ExitCode)

-- | Where tasks are forked.
data Scope = Scope
  { scopeName :: !String,
    scopeOwner :: !ThreadId,
    scopeState :: !(Ref ScopeState),
    -- | The number of the next task.
    scopeNext :: !Words,
    -- | Gets a token when the last child has gone.
    scopeCell :: !WaitCell
  }

-- | The phase, the first failure, the children.
data ScopeState = ScopeState !Phase !(Maybe TaskFailed) !(IntMap Child)

-- | Open -> Shutting (the owner: body or child failed) -> Over (the owner, without
-- children); Open -> Over (the owner: body returned, without children).
data Phase = Open | Shutting | Over
  deriving stock (Eq)

-- | Its forker adds a child, and the child removes itself, in either order.
data Child
  = Live !ThreadId
  | -- | It ended before it was entered.
    EndedEarly

-- | A thread with a result.
data Task a = Task
  { taskThread :: !ThreadId,
    taskState :: !(Ref (TaskState a))
  }

instance Eq (Task a) where
  a == b = taskThread a == taskThread b

instance Show (Task a) where
  show task = "task in " ++ show (taskThread task)

-- | Running -> Finished (the task itself), with the cells of the threads that wait.
data TaskState a
  = Running !(Queue WaitCell)
  | Finished !(Outcome a)

data Outcome a
  = Returned a
  | Threw !SomeException
  | WasCancelled

-- | A task failed, and its scope with it: thrown by 'withScopeTagged', and told to the handler of
-- uncaught exceptions where a failure is not thrown.
data TaskFailed = TaskFailed
  { -- | The scope's name; empty for one without.
    failedScope :: !String,
    -- | The task's name, or its number in its scope.
    failedTask :: !String,
    -- | What it threw.
    failedCause :: !SomeException
  }

instance Show TaskFailed where
  showsPrec d e = showParen (d > 10) (showString (displayException e))

instance Exception TaskFailed where
  toException = toException . ScopeException
  fromException = fromScope
  displayException (TaskFailed scope task cause) =
    "task " ++ task ++ (if null scope then "" else " of scope " ++ scope) ++ " failed: " ++ describeException cause

-- | A thread awaited a cancelled task.
data TaskCancelled = TaskCancelled
  deriving stock (Eq, Show)

instance Exception TaskCancelled where
  toException = toException . ScopeException
  fromException = fromScope
  displayException TaskCancelled = "awaiting a task that was cancelled"

-- | A task was to be forked in a scope that is ending.
newtype ScopeClosed = ScopeClosed String
  deriving stock (Eq)

instance Show ScopeClosed where
  showsPrec d e = showParen (d > 10) (showString (displayException e))

instance Exception ScopeClosed where
  toException = toException . ScopeException
  fromException = fromScope
  displayException (ScopeClosed name) =
    "forking in a scope that is ending" ++ (if null name then "" else ": " ++ name)

-- Interrupts the body of the scope with this cell. Private: only 'withScope' throws and
-- catches it.
newtype BodyInterrupted = BodyInterrupted WaitCell

instance Show BodyInterrupted where
  show _ = "a task of this scope failed"

instance Exception BodyInterrupted where
  toException = asyncExceptionToException
  fromException = asyncExceptionFromException

-- Ends a task. Private: only this module throws it, and a task it ended is cancelled.
data CancelTask = CancelTask

instance Show CancelTask where
  show _ = "task cancelled"

instance Exception CancelTask where
  toException = asyncExceptionToException
  fromException = asyncExceptionFromException

-- Scopes ----------------------------------------------------------------------

-- | Run a body that may fork tasks. When it returns, wait for them; when it throws or is
-- interrupted, or a task throws, cancel them, wait, and throw one of these exceptions, unchanged:
--
-- * an asynchronous exception that interrupted the body, such as a time-out or a kill, goes
--   before everything;
-- * then comes what the first task threw that failed before the scope began to end. An 'ExitCode'
--   of a task so ends the program with this code, if it is not caught around the scope;
-- * then the body's own exception. A task that fails only while it is cancelled, in its
--   clean-up, does not replace it.
--
-- If the first failure of a task is not thrown for one of these reasons, it goes to the
-- program's handler of uncaught exceptions, as a 'TaskFailed'.
--
-- [Cost]: about 150 ns.
-- [Blocks]: parks.
-- [Masking]: the body runs in the caller's state. Waiting for tasks is interruptible, which
-- cancels them; waiting for cancelled tasks is not.
-- [Throws]: what a task or the body throws.
-- [Threads]: the body runs in the caller's thread.
-- [Source]: Parallel and Concurrent Programming, chapters 8 and 9; ki's scopes.
-- @since 0.1.0.0
withScope :: (Scope -> IO a) -> IO a
withScope = withScopeNamed ""

-- | 'withScope', with a name for messages and for the threads of 'forkNamed'.
--
-- [Cost]: as 'withScope'.
-- [Blocks]: parks.
-- [Masking]: as 'withScope'.
-- [Throws]: as 'withScope'.
-- @since 0.1.0.0
withScopeNamed :: String -> (Scope -> IO a) -> IO a
withScopeNamed = withScopeThrowing failedCause

-- | 'withScopeNamed', throwing the failure of a task as a 'TaskFailed', which names scope and task.
-- Only an 'ExitCode' stays as it is, since it is meant for the program and not for a reader.
--
-- [Cost]: as 'withScope'.
-- [Blocks]: parks.
-- [Masking]: as 'withScope'.
-- [Throws]: 'TaskFailed', or what the body throws.
-- @since 0.1.0.0
withScopeTagged :: String -> (Scope -> IO a) -> IO a
withScopeTagged = withScopeThrowing $ \failed -> case fromException (failedCause failed) of
  Just code -> toException (code :: ExitCode)
  Nothing -> toException failed

withScopeThrowing :: (TaskFailed -> SomeException) -> String -> (Scope -> IO a) -> IO a
withScopeThrowing thrown name body = mask $ \restore -> do
  owner <- myThreadId
  state <- newRef (ScopeState Open Nothing IntMap.empty)
  next <- newWords 1
  cell <- newWaitCell
  let scope = Scope name owner state next cell
  r <- try (restore (body scope) >>= \x -> x <$ awaitChildren scope)
  case r of
    Right x -> do
      -- 'awaitChildren' returns only when no child is left and none has failed.
      ScopeState phase _ _ <- readRef state
      x <$ assert (phase == Over) (pure ())
    Left e -> do
      (cause, failure) <- uninterruptibleMask_ (shut scope)
      case cause of
        Just failed | ours scope e || not (isAsynchronous e) -> throwIO (thrown failed)
        _ -> traverse_ report failure >> throwIO (e :: SomeException)
  where
    -- A task that only found its scope ending is not reported.
    report failed = case fromException (failedCause failed) of
      Just (ScopeClosed _) -> pure ()
      Nothing -> reportUncaught (toException failed)

-- Whether this is the exception with which a task of this scope interrupts the body.
ours :: Scope -> SomeException -> Bool
ours scope e = case fromException e of
  Just (BodyInterrupted cell) -> cell == scopeCell scope
  Nothing -> False

-- Parks until there is no child; throws to 'withScope' when one has failed.
awaitChildren :: Scope -> IO ()
awaitChildren scope = do
  _ <- reset (scopeCell scope)
  step <- modifyRef (scopeState scope) $ \case
    s@(ScopeState _ (Just _) _) -> (s, throwIO (BodyInterrupted (scopeCell scope)))
    ScopeState _ Nothing children
      | IntMap.null children -> (ScopeState Over Nothing children, pure ())
    s -> (s, stubbornly (park (scopeCell scope)) >> awaitChildren scope)
  step

-- Cancels every child and waits for all of them; the failure that ended the scope, if one
-- did, and the first failure. See Note [Shutting].
shut :: Scope -> IO (Maybe TaskFailed, Maybe TaskFailed)
shut scope = do
  (cause, children) <- modifyRef (scopeState scope) $ \(ScopeState _ failure children) ->
    (ScopeState Shutting failure children, (failure, children))
  cancelThreads [t | Live t <- IntMap.elems children]
  (,) cause <$> gone
  where
    gone = do
      _ <- reset (scopeCell scope)
      (over, failure) <- modifyRef (scopeState scope) $ \s@(ScopeState _ failure children) ->
        if IntMap.null children then (ScopeState Over failure children, (True, failure)) else (s, (False, failure))
      if over then pure failure else stubbornly (park (scopeCell scope)) >> gone

-- Each in a thread of its own, because throwTo waits while its target is masked.
cancelThreads :: [ThreadId] -> IO ()
cancelThreads = \case
  [] -> pure ()
  [t] -> throwTo t CancelTask
  ts -> for_ ts $ \t -> forkMasked (\_ -> throwTo t CancelTask)

-- Tasks -----------------------------------------------------------------------

-- | Start a task in a scope, unmasked whatever the caller's state.
--
-- [Cost]: about 300 ns; 1.3 KB.
-- [Blocks]: never.
-- [Throws]: 'ScopeClosed' when the scope is ending.
-- [Threads]: any, tasks of the scope included.
-- @since 0.1.0.0
fork :: Scope -> IO a -> IO (Task a)
fork scope = spawn scope "" forkMasked
{-# INLINE fork #-}

-- | 'fork' on one capability, where the task stays.
--
-- [Cost]: as 'fork'.
-- [Blocks]: never.
-- [Throws]: 'ScopeClosed' when the scope is ending.
-- [Threads]: any.
-- @since 0.1.0.0
forkOn :: Scope -> Int -> IO a -> IO (Task a)
forkOn scope capability = spawn scope "" (forkMaskedOn capability)

-- | 'fork' with a name for messages, and for the thread: scope, slash, task.
--
-- [Cost]: as 'fork', and the copying of the name.
-- [Blocks]: never.
-- [Throws]: 'ScopeClosed' when the scope is ending.
-- [Threads]: any.
-- @since 0.1.0.0
forkNamed :: Scope -> String -> IO a -> IO (Task a)
forkNamed scope name = spawn scope name forkMasked

spawn :: Scope -> String -> (((forall b. IO b -> IO b) -> IO ()) -> IO ThreadId) -> IO a -> IO (Task a)
spawn scope name start body = mask_ $ do
  ScopeState phase _ _ <- readRef (scopeState scope)
  unless (phase == Open) (throwIO (ScopeClosed (scopeName scope)))
  key <- fetchAdd (scopeNext scope) 0 1
  state <- newRef (Running emptyQueue)
  t <- start $ \unmask -> do
    unless (null name) (labelMe (scopeName scope ++ "/" ++ name))
    outcome <- run unmask body
    interrupting <- case outcome of
      Threw e -> failing scope (TaskFailed (scopeName scope) (if null name then show key else name) e)
      _ -> pure False
    settle state outcome
    -- The owner stays in 'withScope' until this child is removed. Once the owner is shutting, it
    -- cancels this throw.
    when interrupting $
      throwTo (scopeOwner scope) (BodyInterrupted (scopeCell scope)) `catch` \(_ :: SomeException) -> pure ()
    strike scope key
  phase' <- enter scope key t
  let task = Task t state
  case phase' of
    Open -> pure task
    -- The owner has not seen this child, but it waits for it.
    Shutting -> task <$ forkMasked (\_ -> throwTo t CancelTask)
    -- Too late: a thread that is not a task of the scope forked this one.
    Over -> end [Some task] >> throwIO (ScopeClosed (scopeName scope))
{-# INLINE spawn #-}

run :: (forall b. IO b -> IO b) -> IO a -> IO (Outcome a)
run unmask body =
  try (unmask body) >>= \case
    Right x -> pure (Returned x)
    Left e -> case fromException e of
      Just CancelTask -> pure WasCancelled
      Nothing -> pure (Threw e)
{-# INLINE run #-}

settle :: Ref (TaskState a) -> Outcome a -> IO ()
settle state outcome = do
  waiting <- modifyRef state $ \case
    Running cells -> (Finished outcome, cells)
    finished -> (finished, emptyQueue)
  traverse_ unpark (entries waiting)

-- Record a failure; 'True' if the body must be interrupted.
failing :: Scope -> TaskFailed -> IO Bool
failing scope failure = modifyRef (scopeState scope) $ \case
  ScopeState phase Nothing children -> (ScopeState phase (Just failure) children, phase == Open)
  s -> (s, False)

enter :: Scope -> Int -> ThreadId -> IO Phase
enter scope key t =
  modifyRef (scopeState scope) $ \(ScopeState phase failure children) ->
    case IntMap.insertLookupWithKey (\_ new _ -> new) key (Live t) children of
      (Just _, _) -> (ScopeState phase failure (IntMap.delete key children), Open)
      (Nothing, entered) -> (ScopeState phase failure entered, phase)

strike :: Scope -> Int -> IO ()
strike scope key = do
  lastOne <- modifyRef (scopeState scope) $ \(ScopeState phase failure children) ->
    case IntMap.updateLookupWithKey (\_ _ -> Nothing) key children of
      (Just _, rest) -> (ScopeState phase failure rest, IntMap.null rest)
      (Nothing, _) -> (ScopeState phase failure (IntMap.insert key EndedEarly children), False)
  when lastOne (unpark (scopeCell scope))

-- | Run a task beside a body; it is cancelled, and has finished, when the body ends. A
-- failure is seen only by threads that await it.
--
-- [Cost]: about 300 ns; 1.3 KB.
-- [Blocks]: parks until the task has finished.
-- [Masking]: the body runs in the caller's state; waiting for the cancelled task is not
-- interruptible.
-- [Source]: Parallel and Concurrent Programming, @withAsync@.
-- @since 0.1.0.0
withTask :: IO a -> (Task a -> IO b) -> IO b
withTask body use = mask $ \restore -> do
  task <- spawnAlone body
  r <- restore (use task) `onException` end [Some task]
  r <$ end [Some task]

spawnAlone :: IO a -> IO (Task a)
spawnAlone body = do
  state <- newRef (Running emptyQueue)
  t <- forkMasked (\unmask -> run unmask body >>= settle state)
  pure (Task t state)

-- Results ---------------------------------------------------------------------

-- | The task's result; if the task threw, its exception is thrown.
--
-- [Cost]: O(1); parks at most once.
-- [Blocks]: parks until the task has finished.
-- [Masking]: interruptible.
-- [Throws]: what the task threw; 'TaskCancelled'.
-- [Threads]: any number may await a task, any number of times.
-- [Source]: Parallel and Concurrent Programming, @wait@.
-- @since 0.1.0.0
await :: Task a -> IO a
await task = outcomeOf task >>= result

-- | 'await', or 'Nothing' at the deadline; the task continues.
--
-- [Cost]: as 'await', and about 50 ns for the deadline.
-- [Blocks]: parks.
-- [Masking]: interruptible.
-- [Throws]: as 'await'.
-- [Threads]: any number.
-- @since 0.1.0.0
awaitUntil :: Task a -> Deadline -> IO (Maybe a)
awaitUntil task deadline = firstUntil deadline [task] >>= traverse (result . snd)

-- | What the task returned or threw.
--
-- [Cost]: as 'await'.
-- [Blocks]: parks until the task has finished.
-- [Masking]: interruptible.
-- [Threads]: any number.
-- [Source]: Parallel and Concurrent Programming, @waitCatch@.
-- @since 0.1.0.0
awaitEither :: Task a -> IO (Either SomeException a)
awaitEither task = either' <$> outcomeOf task

-- | The task that finished first, and its result; of several that have, the first in the
-- list.
--
-- [Cost]: O(tasks).
-- [Blocks]: parks until one has finished.
-- [Masking]: interruptible.
-- [Throws]: what that task threw; 'TaskCancelled'; 'IOError' (EINVAL) for no tasks.
-- [Threads]: any number.
-- [Source]: Parallel and Concurrent Programming, @waitAny@.
-- @since 0.1.0.0
awaitAny :: [Task a] -> IO (Task a, a)
awaitAny tasks = awaitAnyUntil tasks never >>= maybe (bug "awaitAny: never came") pure

-- | 'awaitAny', or 'Nothing' at the deadline.
--
-- [Cost]: as 'awaitAny', and about 50 ns for the deadline.
-- [Blocks]: parks.
-- [Masking]: interruptible.
-- [Throws]: as 'awaitAny'.
-- [Threads]: any number.
-- @since 0.1.0.0
awaitAnyUntil :: [Task a] -> Deadline -> IO (Maybe (Task a, a))
awaitAnyUntil tasks deadline = do
  when (null tasks) (throwErrnoFor "awaitAny of no tasks" EINVAL)
  firstUntil deadline tasks >>= traverse (\(task, outcome) -> (,) task <$> result outcome)

-- | What the task returned or threw, if it has finished.
--
-- [Cost]: one read.
-- [Blocks]: never.
-- @since 0.1.0.0
tryAwait :: Task a -> IO (Maybe (Either SomeException a))
tryAwait task = fmap either' <$> peekOutcome task

either' :: Outcome a -> Either SomeException a
either' = \case
  Returned x -> Right x
  Threw e -> Left e
  WasCancelled -> Left (toException TaskCancelled)

result :: Outcome a -> IO a
result = either throwIO pure . either'

peekOutcome :: Task a -> IO (Maybe (Outcome a))
peekOutcome task =
  readRef (taskState task) >>= \case
    -- The fence: also what the task did before.
    Finished outcome -> Just outcome <$ acquireFence
    Running _ -> pure Nothing

outcomeOf :: Task a -> IO (Outcome a)
outcomeOf = outcomeBy patiently

outcomeBy :: (IO () -> IO ()) -> Task a -> IO (Outcome a)
outcomeBy parking task =
  readRef (taskState task) >>= \case
    Finished outcome -> outcome <$ acquireFence
    Running _ -> firstBy parking never [task] >>= maybe (bug "await: never came") (pure . snd)

-- The first of the tasks to finish.
firstUntil :: Deadline -> [Task a] -> IO (Maybe (Task a, Outcome a))
firstUntil = firstBy patiently

firstBy :: (IO () -> IO ()) -> Deadline -> [Task a] -> IO (Maybe (Task a, Outcome a))
firstBy parking deadline tasks = mask_ $
  withCellUntil deadline $ \cell -> do
    tickets <- traverse (`watch` cell) tasks
    let leave = zipWithM_ unwatch tasks tickets
    r <- wait cell `onException` leave
    r <$ leave
  where
    wait cell =
      finishedIn tasks >>= \case
        Just found -> pure (Just found)
        Nothing -> do
          over <- isOver deadline
          if over then pure Nothing else parking (park cell) >> wait cell
    finishedIn [] = pure Nothing
    finishedIn (task : rest) = peekOutcome task >>= maybe (finishedIn rest) (\o -> pure (Just (task, o)))

-- A finished task has no queue, and needs no ticket.
watch :: Task a -> WaitCell -> IO Ticket
watch task cell = modifyRef (taskState task) $ \case
  Running cells -> let (cells', ticket) = enqueue cell cells in (Running cells', ticket)
  finished -> (finished, 0)

unwatch :: Task a -> Ticket -> IO ()
unwatch task ticket =
  readRef (taskState task) >>= \case
    Finished _ -> pure ()
    Running _ -> modifyRef (taskState task) $ \case
      Running cells -> (Running (fromMaybe cells (withdraw ticket cells)), ())
      finished -> (finished, ())

-- One collection may find both a task and a thread that awaits it deadlocked. The thread then
-- parks once more, and receives the task's exception.
patiently :: IO () -> IO ()
patiently parking = parking `catch` \BlockedIndefinitelyOnMVar -> parking

-- Park on behalf of a thread that must not continue while one of its tasks lives. The caller
-- checks again after it returns. See Note [Deadlocks].
stubbornly :: IO () -> IO ()
stubbornly parking = parking `catch` \BlockedIndefinitelyOnMVar -> pure ()

-- Cancelling ------------------------------------------------------------------

-- | Interrupt a task with an asynchronous exception, and wait until it has finished, its
-- handlers included. Nothing happens to a finished task. A cancelled task has not failed,
-- unless it throws another exception instead of stopping.
--
-- [Cost]: about 1 µs.
-- [Blocks]: parks until the task has finished.
-- [Masking]: interruptible; the task may then have been interrupted or not.
-- [Threads]: any.
-- [Source]: Parallel and Concurrent Programming, @cancel@.
-- @since 0.1.0.0
cancel :: Task a -> IO ()
cancel task =
  peekOutcome task >>= \case
    Just _ -> pure ()
    Nothing -> do
      throwTo (taskThread task) CancelTask
      void (outcomeOf task)

data SomeTask = forall a. Some !(Task a)

-- Cancels all, then waits for all; never leaves one behind.
end :: [SomeTask] -> IO ()
end tasks = uninterruptibleMask_ $ do
  running <- concat <$> traverse unfinished tasks
  cancelThreads running
  for_ tasks $ \(Some task) -> void (outcomeBy stubbornly task)
  where
    unfinished (Some task) = maybe [taskThread task] (const []) <$> peekOutcome task

-- Both and either -------------------------------------------------------------

-- | Run both, each in a task of its own, and return both results. If one throws, the other is
-- cancelled, and the exception is thrown.
--
-- [Cost]: two tasks.
-- [Blocks]: parks.
-- [Masking]: interruptible, which cancels both. Both run unmasked.
-- [Throws]: what one of them throws, untagged.
-- [Source]: Parallel and Concurrent Programming, @concurrently@.
-- @since 0.1.0.0
concurrently :: IO a -> IO b -> IO (a, b)
concurrently left right =
  withBoth left right $ \a b ->
    eitherFirst a b >>= \case
      Left outcome -> (,) <$> result outcome <*> await b
      Right outcome -> do
        y <- result outcome
        x <- await a
        pure (x, y)

-- | Run both, each in a task of its own, and return the result of the first to finish. The
-- other one is cancelled, and has finished on return.
--
-- [Cost]: two tasks.
-- [Blocks]: parks.
-- [Masking]: interruptible, which cancels both. Both run unmasked.
-- [Throws]: what the first to finish throws, untagged.
-- [Source]: Parallel and Concurrent Programming, @race@.
-- @since 0.1.0.0
race :: IO a -> IO b -> IO (Either a b)
race left right =
  withBoth left right $ \a b ->
    eitherFirst a b >>= either (fmap Left . result) (fmap Right . result)

withBoth :: IO a -> IO b -> (Task a -> Task b -> IO c) -> IO c
withBoth left right use = mask $ \restore -> do
  a <- spawnAlone left
  b <- spawnAlone right
  r <- restore (use a b) `onException` end [Some a, Some b]
  r <$ end [Some a, Some b]

eitherFirst :: Task a -> Task b -> IO (Either (Outcome a) (Outcome b))
eitherFirst a b = mask_ $ do
  cell <- newWaitCell
  _ <- watch a cell
  _ <- watch b cell
  let wait =
        peekOutcome a >>= \case
          Just x -> pure (Left x)
          Nothing ->
            peekOutcome b >>= \case
              Just y -> pure (Right y)
              Nothing -> stubbornly (park cell) >> wait
  -- Both tasks end before the caller returns, so their queues need no cleaning up.
  wait

-- Note [Shutting]
-- ~~~~~~~~~~~~~~~
-- A scope that shuts waits uninterruptibly for its children, because none may outlive it. The
-- wait is long only if a cancelled task takes long to stop, as the documentation says.
--
-- It cannot deadlock with a failing child. The child throws to the owner only if it
-- recorded its failure while the scope was open, and removes itself after that. So
-- either the owner is interrupted, or it shuts and cancels the child, which is parked in
-- throwTo, where it can be interrupted; the exception is then withdrawn. In both cases
-- nothing arrives at the owner after 'withScope'.

-- Note [Deadlocks]
-- ~~~~~~~~~~~~~~~~
-- The collector throws BlockedIndefinitelyOnMVar to every thread that it finds unreachable
-- at once, whatever their masking states: to a deadlocked task, and to the owner that waits
-- for it. The owner continues to wait, because otherwise a task could outlive its scope. This
-- hides no deadlock: the task receives the exception too, and its failure ends the scope. A
-- chain of waits for tasks ends in a wait of another kind or in a cycle of 'await's, and an
-- 'await' gives up at the second exception.
