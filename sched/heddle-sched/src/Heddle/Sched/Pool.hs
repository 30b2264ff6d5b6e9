-- See Note [No safe point].
{-# OPTIONS_GHC -O2 #-}

-- |
-- Module      : Heddle.Sched.Pool
-- Description : Workers: running, stealing, sleeping
-- Stability   : internal
--
-- What the thread of a worker does. A fork pushes the continuation of its task and runs the
-- child; at the child's end the worker pops that continuation again, unless a thief has stolen it
-- (thieves take the oldest first). A worker without work probes the others briefly, then parks;
-- a push wakes one if any sleeps and none is probing.
--
-- A worker that serves the caller of a run does that run's work only, so a run makes progress
-- however busy the pool is, and however deep runs nest.
--
-- Cost: reading two words that seldom change for each push; see the benchmarks.
-- Owner: the process. Invariant: user code runs unmasked, everything else masked.
module Heddle.Sched.Pool
  ( -- * Going on
    start,
    next,
    nextOldest,
    instead,
    commitFork,
    finish,
    finishPrivately,
    attend,
    attendErrands,

    -- * The running task
    pause,

    -- * Cells
    Filled (..),
    fill,
    wake,

    -- * Failing
    newFailure,
    failHere,
    failMasked,
  )
where

import Control.Monad (forever, unless, void, when)
import Heddle.Prim.Atomic
  ( atomicWrite,
    compareAndSet,
    fetchAdd,
    modifyRef,
    newRef,
    readRef,
    readWord,
    writeRef,
    writeRelease,
    writeWord,
  )
import Heddle.Prim.Atomic qualified as Atomic
import Heddle.Prim.Exception
  ( Exception (..),
    SomeException,
    evaluate,
    isAsynchronous,
    try,
    unsafeMask,
    unsafeUnmask,
  )
import Heddle.Prim.Thread (getCapabilities)
import Heddle.Prim.Trace (Marker (..), mark)
import Heddle.Sched.Cancel
import Heddle.Sched.Deque (Stolen (..), popOr, push, reserve, scrub, steal)
import Heddle.Sched.Internal.PrivateStack
import Heddle.Sched.RunQueue
import Heddle.Sched.Scope
import Heddle.Sched.Sleep
import Heddle.Sched.Steal
import Heddle.Sched.Types

-- Running --------------------------------------------------------------------

-- | Run a piece of work, if its scope still wants it.
--
-- [Masking]: to be called masked; the work runs unmasked.
start :: Worker -> Work -> IO ()
start w (Work t index continuation value) = do
  settleChain w
  admitted <- admits (taskScope t) t
  if admitted
    then do
      link w (taskScope t)
      writeRef (workerTask w) t
      writeWord (workerWords w) indexWord index
      atomicWrite (workerWords w) runningWord 1
      still <- admits (taskScope t) t
      if still then unsafeUnmask (continuation w value) else drop'
    else next w (taskScope t)
  where
    drop' = do
      atomicWrite (workerWords w) runningWord 0
      settle w
      next w (taskScope t)

-- | Go on with the newest work, after a task of a scope has ended or waits.
--
-- [Masking]: to be called masked.
next :: Worker -> Scope -> IO ()
next w s = do
  settleChain w
  takePrivate w >>= \case
    Just work -> goOn work
    Nothing -> popOr (workerDeque w) (settle w >> retire w s >> search w) goOn
  where
    goOn = instead w s

-- | 'next', but with the oldest work, for random schedules.
--
-- [Masking]: to be called masked.
nextOldest :: Worker -> Scope -> IO ()
nextOldest w s =
  steal (workerDeque w) (const True) >>= \case
    Stolen work -> instead w s work
    _ -> next w s

-- | 'next', but with work that has been taken from a deque.
--
-- [Masking]: to be called masked, after a full barrier.
instead :: Worker -> Scope -> Work -> IO ()
instead w s work = do
  settle w
  if scopeId (taskScope (workTask work)) == scopeId s then countDown s w else retire w s
  start w work
{-# INLINE instead #-}

-- | 'finish' for a task that work on the private stack mostly follows.
--
-- [Threads]: the worker's; called unmasked.
--
-- [Cost]: some stores, nothing locked; see Note [A chain].
finishPrivately :: Worker -> IO ()
finishPrivately w = do
  chained <- isChained w
  if not chained
    then turnOrFinish False
    else liftPrivate (workerPrivate w) (turnOrFinish True) $ \(Work t' _ continuation value) -> do
      putOff w
      writeRef (workerTask w) t'
      continuation w value
  where
    turnOrFinish chained = do
      turns <- isToTurn w chained
      if turns then writeWord (workerWords w) runningWord 0 >> unsafeMask (workerGoOn w) else finish w
{-# NOINLINE finishPrivately #-}

-- | Push the continuation of the running task and go over to the child. Called unmasked.
--
-- [Cost]: about ten memory operations, none shared; see Note [No safe point].
commitFork :: Worker -> Task -> Work -> IO ()
commitFork w !child !continuation = do
  -- Now: a thunk for it later would be a safe point between the count and the push.
  let !s = taskScope child
  reserve (workerDeque w)
  countUp s w
  writeRef (workerTask w) child
  writeWord (workerWords w) indexWord 0
  push (workerDeque w) continuation
  signal w s
{-# NOINLINE commitFork #-}

-- | The running task has ended, and no task waits for it: go on with the newest work.
-- Called unmasked, and remains so in the common case.
--
-- [Cost]: one locked instruction; see Note [No safe point].
finish :: Worker -> IO ()
finish w = do
  !t <- readRef (workerTask w)
  let !s = taskScope t
  writeWord (workerWords w) runningWord between
  popOr (workerDeque w) slowly $ \work@(Work t' index continuation value) -> do
    announced <- isAnnounced w
    plain <- isPlain s
    if announced || not plain || scopeId (taskScope t') /= scopeId s
      then push (workerDeque w) work >> slowly
      else do
        countDown s w
        writeRef (workerTask w) t'
        writeWord (workerWords w) indexWord index
        -- A release: a thread that cancels and reads 1 must not find the task that has ended.
        writeRelease (workerWords w) runningWord 1
        continuation w value
  where
    slowly = writeWord (workerWords w) runningWord 0 >> unsafeMask (workerGoOn w)
    {-# INLINE slowly #-}
{-# NOINLINE finish #-}

-- | Run an action of the worker and go on after every exception that it throws, which ends only
-- the running task.
--
-- [Masking]: to be called masked.
driver :: Worker -> IO () -> IO ()
driver w action =
  try action >>= \case
    Right () -> pure ()
    Left e -> ended w e >>= driver w

-- | A task has thrown, or was thrown at. Only the scheduler's own interrupt is not the task's:
-- what is thrown at the caller of a run reaches the caller, which waits on another thread. See
-- Note [Whose exception].
ended :: Worker -> SomeException -> IO (IO ())
ended w thrown = do
  e <- forced thrown
  running <- readWord (workerWords w) runningWord
  t <- readRef (workerTask w)
  let s = taskScope t
  atomicWrite (workerWords w) runningWord 0
  settle w
  case fromException e of
    _ | running /= 1 -> broken w e >> pure (search w)
    Just (Interrupt i) | i == workerId w -> pure (next w s)
    _ -> do
      case t of
        HookedTask {taskIndex = i, _taskThrew = threw} -> threw w i e
        _ -> newFailure t e Nothing >>= failTask w t
      pure (next w s)
  where
    -- An exception may itself be an error, which then is the exception.
    forced e =
      try (evaluate e >>= \e' -> evaluate (isAsynchronous e')) >>= \case
        Right _ -> pure e
        Left e' -> forced e'

-- | The scheduler itself has thrown, which is a bug: the run ends with it.
broken :: Worker -> SomeException -> IO ()
broken w e =
  readRef (workerAffinity w) >>= \case
    Only s -> do
      t <- readRef (workerTask w)
      newFailure t e Nothing >>= addFailure w s
      markCancelled w s
      interruptWhere (workerPool w) (workerId w) (pure . isOfRun s)
      checkQuiet w s
    _ -> pure ()

-- The running task -----------------------------------------------------------

-- | Leave the running task: it has ended, or what is left of it is a continuation that will be
-- started again. After this no interrupt of the task can arrive, so masked code may change what
-- the task owns.
--
-- [Blocks]: parks while an interrupt that has been announced is delivered.
-- [Masking]: to be called masked.
pause :: Worker -> IO ()
pause w = do
  atomicWrite (workerWords w) runningWord 0
  settle w

-- Cells ----------------------------------------------------------------------

-- | Whether a write filled the cell, and which tasks had been waiting.
data Filled a = NoWaiter | Wakes !(CellState a) | Already

-- | Write a cell once. Always a full barrier.
--
-- [Cost]: one compare-and-set.
fill :: Cell a -> CellState a -> IO (Filled a)
fill (Cell cell) new = modifyRef cell $ \case
  Empty -> (new, NoWaiter)
  waiting@Waiting {} -> (new, Wakes waiting)
  old -> (old, Already)
{-# INLINE fill #-}

-- | Push the continuations of the tasks that waited, in the order in which they came.
--
-- [Masking]: to be called masked.
wake :: Worker -> a -> CellState a -> IO ()
wake w a waiting = inOrder waiting (\reader index continue -> resume w (Work reader index continue a))

-- | Do something with each task that waits, in the order in which they came.
inOrder :: CellState a -> (Task -> Int -> (Worker -> a -> IO ()) -> IO ()) -> IO ()
inOrder waiting each = go (turned Empty waiting)
  where
    turned before (Waiting reader index continue others) = turned (Waiting reader index continue before) others
    turned before _ = before
    go (Waiting reader index continue others) = each reader index continue >> go others
    go _ = pure ()

-- Failing --------------------------------------------------------------------

-- | End the running task with a failure that it was waiting for.
failHere :: Worker -> Failure -> IO ()
failHere w f = unsafeMask $ do
  t <- readRef (workerTask w)
  atomicWrite (workerWords w) runningWord 0
  failMasked w t f
{-# NOINLINE failHere #-}

-- | A failure that no task has handled yet.
newFailure :: Task -> SomeException -> Maybe Failure -> IO Failure
newFailure t e cause = do
  handled <- newRef False
  pure (Failure t e handled cause)

-- | 'failHere' for a task that is not running any more.
--
-- [Masking]: to be called masked.
failMasked :: Worker -> Task -> Failure -> IO ()
failMasked w t f = do
  settle w
  mine <- newFailure (failureTask f) (failureException f) (Just f)
  failTask w t mine
  next w (taskScope t)

-- | Pass a failure on to the tasks that read the task's cell; without a cell, to the scope.
failTask :: Worker -> Task -> Failure -> IO ()
failTask w t f = do
  addFailure w s f
  case t of
    SpawnTask {_taskCell = cell} ->
      fill cell (Failed f) >>= \case
        NoWaiter -> pure ()
        Wakes waiting -> inOrder waiting $ \reader index _ ->
          resume w (Work reader index (\resumed () -> failHere resumed f) ())
        -- Another task has written the cell, too: an error whichever comes first.
        Already -> newFailure t (toException MultiplePut) Nothing >>= addFailure w s
    _ -> when (scopeCuts s) $ do
      markCutoff w s failed
      interruptWhere (workerPool w) (workerId w) (isUnwanted s)
  where
    s = taskScope t
    failed = failureTask f

-- Searching ------------------------------------------------------------------

-- | Find work, the worker's own or another's, or park. Returns when the run that the worker
-- serves is quiet.
--
-- [Blocks]: parks.
-- [Masking]: to be called masked.
search :: Worker -> IO ()
search w = do
  settleChain w
  takePrivate w >>= \case
    Just work -> settle w >> start w work
    Nothing -> popOr (workerDeque w) outside (start w)
  where
    pool = workerPool w
    outside = do
      settle w
      mark SchedSearch
      -- It has none now; see Note [Missed pushes] in "Heddle.Sched.Sleep".
      writeRef (workerTask w) (poolIdleTask pool)
      scrub (workerDeque w)
      affinity <- readRef (workerAffinity w)
      done <- finished affinity
      retired <- isRetired w affinity
      if done
        then pure ()
        else
          if retired
            then retireWorker w >> search w
            else do
              found <- stealLoop w affinity (searching affinity (probeAll w affinity))
              case found of
                Just work -> mark SchedSteal >> start w work
                Nothing -> sleep w affinity
    -- Only a worker that takes any run's work counts as searching, and only during a probe: while
    -- one searches, pushes wake none. (Between two probes it may have to wait for its capability.)
    -- The last searcher to find work wakes another worker, which searches on.
    searching affinity look = case affinity of
      Only _ -> look
      Brief _ -> look
      AnyRun -> do
        _ <- fetchAdd (poolWords pool) searchersWord 1
        found <- look
        last' <- (== 1) <$> fetchAdd (poolWords pool) searchersWord (-1)
        when last' (mapM_ (signal w . taskScope . workTask) found)
        pure found

-- | There are fewer capabilities now than there were.
isRetired :: Worker -> Affinity -> IO Bool
isRetired w = \case
  AnyRun -> (workerLine w >=) <$> getCapabilities
  _ -> pure False

-- | Park until there are more capabilities again. A push may have relied on this worker's search, and
-- it is not known whose work that was, so wake all others first.
retireWorker :: Worker -> IO ()
retireWorker w = do
  let pool = workerPool w
  writeRef (workerTask w) (poolIdleTask pool)
  -- So that the next run notices if there are more again.
  getCapabilities >>= atomicWrite (poolWords pool) capabilitiesWord
  retired <- isRetired w AnyRun
  when retired $ do
    wakeAll pool
    parkQuietly (workerCell w)

-- | Announce the sleep, look once more, and park. That look sees every push from before the
-- announcement; a later push sees the announcement. See Note [Missed pushes] in
-- "Heddle.Sched.Sleep".
--
-- From the announcement on, a caller may give its run to the worker: so the look takes nothing,
-- and a worker that cannot take the announcement back must park.
sleep :: Worker -> Affinity -> IO ()
sleep w affinity = do
  setSleeping pool (workerId w)
  case affinity of
    AnyRun -> settleDown w
    _ -> do
      seePushes w
      found <- workExists w affinity
      done <- finished affinity
      unless (found || done) (parkQuietly (workerCell w))
      void (stopSleeping pool (workerId w))
  search w
  where
    pool = workerPool w

-- | 'sleep' after the announcement, for a worker of any run; it does errands meanwhile.
settleDown :: Worker -> IO ()
settleDown w = do
  seePushes w
  found <- workExists w AnyRun
  -- The announcement and the loan belong together: see 'Heddle.Sched.Workers.hire'.
  back <- if found then holdingLoan (stopSleeping pool (workerId w)) else pure False
  unless back $ do
    -- This worker serves a caller now, or is about to be woken: wake the others for that work,
    -- whosever it is, since its push may have relied on this worker's search.
    when found (wakeAll pool)
    parkOwn
  where
    pool = workerPool w
    parkOwn = do
      parkQuietly (workerCell w)
      readRef (workerErrand w) >>= \case
        Just errand -> runErrand w errand >> settleDown w
        Nothing -> do
          awake <- holdingLoan (not <$> isSleeping pool (workerId w))
          unless awake parkOwn
    holdingLoan look = do
      mine <- compareAndSet (workerWords w) lentWord 0 1
      if mine then look <* atomicWrite (workerWords w) lentWord 0 else pure False

-- Errands --------------------------------------------------------------------

-- | The thread of one of the pool's own workers: search for ever.
--
-- [Masking]: to be called masked.
attend :: Worker -> IO ()
attend w = forever (driver w (search w))

-- | The thread of any other worker: wait for errands for ever.
--
-- [Masking]: to be called masked.
attendErrands :: Worker -> IO ()
attendErrands w = forever $ do
  readRef (workerErrand w) >>= \case
    Just errand -> runErrand w errand
    Nothing -> parkQuietly (workerCell w)

-- | Do an errand. The worker is free for the next before the caller learns of the end, since it may
-- ask for a worker at once.
runErrand :: Worker -> Errand -> IO ()
runErrand w (Errand affinity work done) = do
  writeRef (workerErrand w) Nothing
  writeRef (workerAffinity w) affinity
  mark SchedRun
  driver w (start w work)
  _ <- stopSleeping pool (workerId w)
  writeRef (workerTask w) (poolIdleTask pool)
  writeRef (workerAffinity w) AnyRun
  if workerLine w < 0
    then Atomic.push (poolSpare pool) w
    else do
      setSleeping pool (workerId w)
      atomicWrite (workerWords w) lentWord 0
  done
  where
    pool = workerPool w

-- Note [Whose exception]
-- ~~~~~~~~~~~~~~~~~~~~~~
-- An exception that reaches a handler does not tell whether it was thrown there or by another
-- thread: its type does not tell (a task may throw an 'ExitCode', or a timeout that it has
-- caught), nor does the machine's state, since any handler in between (bracket's) throws again
-- what was thrown at it. So no task runs on a thread that others know. The caller of a run hands
-- it to a worker and waits: what is thrown at the caller arrives in that wait and nowhere else, and
-- what arrives at a worker was thrown by its task, or by the runtime because of it (a stack
-- overflow, a wait for something unreachable). The one exception that the scheduler throws at a
-- worker has a private type and the worker's number.
--
-- The price is that the run begins and ends with a switch of threads: a fraction of a
-- microsecond for a thread of the runtime, but some tens of microseconds for one bound to a
-- thread of the system, such as a program's main thread.
--
-- Note [No safe point]
-- ~~~~~~~~~~~~~~~~~~~~
-- Masking costs two calls into the runtime for each task. 'commitFork' and 'finish' do
-- without: an asynchronous exception reaches a thread only at a safe point, which is where
-- it allocates or calls; between the first count and the last store they do neither (their
-- arguments are built before the call, 'workerGoOn' once and for all), so an exception
-- falls before all of it or after all of it. Code that does not fit this is masked.
--
-- That is a property of the compiled code: with -O1 GHC 9.0 allocates a closure in the
-- middle of 'finish', and a program that injects exceptions hung within seconds; a lazy scope in
-- 'commitFork' became a thunk for 'signal', with its heap check between the count and the push. So this
-- module, and each that it is compiled from, insists on -O2 itself: the options of a package give way
-- to -O0 on the command line, after which a run that was interrupted stood still. With that -O0 goes
-- -fno-ignore-interface-pragmas: without it, GHC reads the interfaces of modules that it need not compile again
-- without what could be inlined. @make check@ looks at the machine code (scripts/check_safe_points.py), of a build
-- with -O0, too.
