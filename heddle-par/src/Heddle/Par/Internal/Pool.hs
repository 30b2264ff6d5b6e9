-- See Note [No safe point].
{-# OPTIONS_GHC -O2 #-}

-- |
-- Module      : Heddle.Par.Internal.Pool
-- Description : Workers: running, stealing, sleeping
-- Stability   : internal
--
-- One pool for the process, a worker for each capability, pinned there. A fork pushes the
-- rest of its task and runs the child; at its end the worker pops that rest again, unless
-- a thief took it (the oldest first). A worker without work looks around briefly, then
-- parks; a push wakes one if any sleeps and none is looking.
--
-- The thread that calls a run is a worker, too, while it waits: it borrows its
-- capability's worker if that sleeps, else takes a spare one. It does its own run's work
-- only, so a run makes progress however busy the pool is, and however deep runs nest.
--
-- Cost: reading two words that seldom change for each push; see the benchmarks.
-- Owner: the process. Invariant: user code runs unmasked, everything else masked.
module Heddle.Par.Internal.Pool
  ( -- * Going on
    start,
    next,
    nextOldest,
    commitFork,
    finish,
    finishPatiently,
    driver,
    search,

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

    -- * Callers as workers
    acquire,
    release,
    abort,

    -- * Nobody's work
    pushSpark,
  )
where

import Control.Monad (forM_, forever, unless, void, when)
import Foreign.StablePtr (newStablePtr)
import Heddle.Par.Internal.Cancel
import Heddle.Par.Internal.Deque (Stolen (..), newDeque, popOr, push, reserve, scrub, steal)
import Heddle.Par.Internal.Hunt
import Heddle.Par.Internal.Patient
import Heddle.Par.Internal.Ready
import Heddle.Par.Internal.Scope
import Heddle.Par.Internal.Sleep
import Heddle.Par.Internal.Types
import Heddle.Prim.Atomic
  ( Ref,
    Table,
    atomicWrite,
    compareAndSet,
    fetchAdd,
    growTable,
    modifyRef,
    newRef,
    newStack,
    newTable,
    newWords,
    readEntry,
    readRef,
    readWord,
    tableSize,
    writeEntry,
    writeRef,
    writeWord,
  )
import Heddle.Prim.Atomic qualified as Atomic
import Heddle.Prim.Exception
  ( AsyncException (..),
    Exception (..),
    SomeException,
    allowInterrupt,
    evaluate,
    isAsynchronous,
    mask_,
    try,
    uninterruptibleMask_,
    unsafeMask,
    unsafeUnmask,
  )
import Heddle.Prim.Global (unsafeGlobal)
import Heddle.Prim.Lock (newLock, withLock)
import Heddle.Prim.Thread
  ( forkMaskedOn,
    getCapabilities,
    labelMe,
    myCapability,
    myThreadId,
  )
import Heddle.Prim.WaitCell (newWaitCell, park, unpark)
import System.Exit (ExitCode)

-- Running --------------------------------------------------------------------

-- | Run a piece of work, if its scope still wants it.
--
-- [Masking]: to be called masked; the work runs unmasked.
start :: Worker -> Work -> IO ()
start w (Work t index rest value) = do
  settleChain w
  admitted <- admits (taskScope t) t
  if admitted
    then do
      link w (taskScope t)
      writeRef (workerTask w) t
      writeWord (workerWords w) indexWord index
      atomicWrite (workerWords w) runningWord 1
      still <- admits (taskScope t) t
      if still then unsafeUnmask (rest w value) else drop'
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
  takePatient w >>= \case
    Just work -> goOn work
    Nothing -> popOr (workerDeque w) (settle w >> retire w s >> search w) goOn
  where
    goOn work = do
      settle w
      if scopeId (taskScope (workTask work)) == scopeId s then countDown s w else retire w s
      start w work

-- | 'next', but with the oldest work, for random schedules.
--
-- [Masking]: to be called masked.
nextOldest :: Worker -> Scope -> IO ()
nextOldest w s =
  steal (workerDeque w) (const True) >>= \case
    Stolen work -> do
      settle w
      if scopeId (taskScope (workTask work)) == scopeId s then countDown s w else retire w s
      start w work
    _ -> next w s

-- | 'finish' for who is mostly followed by patient work.
--
-- [Cost]: some stores, nothing locked; see Note [A chain].
finishPatiently :: Worker -> IO ()
finishPatiently w = do
  chained <- isChained w
  if not chained
    then turnOrFinish False
    else liftPatient (workerPatient w) (turnOrFinish True) $ \(Work t' _ rest value) -> do
      putOff w
      writeRef (workerTask w) t'
      rest w value
  where
    turnOrFinish chained = do
      turns <- isToTurn w chained
      if turns then writeWord (workerWords w) runningWord 0 >> unsafeMask (workerGoOn w) else finish w
{-# NOINLINE finishPatiently #-}

-- | Push the rest of the running task and go over to the child. Called unmasked.
--
-- [Cost]: about ten memory operations, none shared; see Note [No safe point].
commitFork :: Worker -> Task -> Work -> IO ()
commitFork w !child !rest = do
  let s = taskScope child
  reserve (workerDeque w)
  plain <- isPlain s
  if plain
    then countUpHere s w >> handOver
    else unsafeMask (countUp s w >> handOver)
  signal w s
  where
    handOver = do
      writeRef (workerTask w) child
      writeWord (workerWords w) indexWord 0
      push (workerDeque w) rest
    {-# INLINE handOver #-}
{-# NOINLINE commitFork #-}

-- | The running task has ended, and nobody is to be woken: go on with the newest work.
-- Called unmasked, and remains so in the common case.
--
-- [Cost]: one locked instruction; see Note [No safe point].
finish :: Worker -> IO ()
finish w = do
  !t <- readRef (workerTask w)
  let s = taskScope t
  case scopeAround s of
    Just _ -> slowly
    Nothing -> do
      writeWord (workerWords w) runningWord between
      popOr (workerDeque w) slowly $ \work@(Work t' index rest value) -> do
        announced <- isAnnounced w
        plain <- isPlain s
        if announced || not plain || scopeId (taskScope t') /= scopeId s
          then push (workerDeque w) work >> slowly
          else do
            countDownHere s w
            writeRef (workerTask w) t'
            writeWord (workerWords w) indexWord index
            writeWord (workerWords w) runningWord 1
            rest w value
  where
    slowly = writeWord (workerWords w) runningWord 0 >> unsafeMask (workerGoOn w)
    {-# INLINE slowly #-}
{-# NOINLINE finish #-}

-- | Run until the run that this worker is for is quiet; for the pool's own, for ever.
-- What user code throws ends its task, and the worker goes on.
--
-- [Masking]: to be called masked.
driver :: Worker -> IO () -> IO ()
driver w action =
  try action >>= \case
    Right () -> pure ()
    Left e -> ended w e >>= driver w

ended :: Worker -> SomeException -> IO (IO ())
ended w thrown = do
  e <- forced thrown
  running <- readWord (workerWords w) runningWord
  t <- readRef (workerTask w)
  let s = taskScope t
  atomicWrite (workerWords w) runningWord 0
  settle w
  home <- readRef (workerHome w)
  case (fromException e, home) of
    _ | running /= 1 -> fromOutside e >> pure (search w)
    (Just (Interrupt i), _) | i == workerId w -> pure (next w s)
    (_, Only _) | isFromOutside e -> fromOutside e >> pure (next w s)
    _ -> do
      case t of
        HookedTask {taskIndex = i, _taskThrew = threw} -> threw w i e
        _ -> newFailure t e Nothing >>= failTask w t
      pure (next w s)
  where
    fromOutside e = keep w e >> abort w
    -- An exception may itself be an error, which then is the exception.
    forced e =
      try (evaluate e >> evaluate (isAsynchronous e)) >>= \case
        Right _ -> pure e
        Left e' -> forced e'

-- | Was it thrown at the caller of the run, rather than by the task it hit? Only the type
-- can tell. A stack overflows where it is used; to exit, one throws at the main thread.
isFromOutside :: SomeException -> Bool
isFromOutside e = case (fromException e, fromException e) of
  (Just StackOverflow, _) -> False
  (_, Just (_ :: ExitCode)) -> True
  _ -> isAsynchronous e

-- | Cancel the run this worker is for.
--
-- [Blocks]: until the running tasks have been interrupted.
-- [Masking]: to be called masked.
abort :: Worker -> IO ()
abort w =
  readRef (workerHome w) >>= \case
    Everybody -> pure ()
    Only s -> do
      markCancelled s
      interruptWhere w (\t -> scopeRun (taskScope t) == scopeRun s)

-- The running task -----------------------------------------------------------

-- | The running task is at an end, or about to be started anew: from here on nobody
-- interrupts it.
--
-- [Masking]: to be called masked.
pause :: Worker -> IO ()
pause w = do
  atomicWrite (workerWords w) runningWord 0
  settle w

-- Cells ----------------------------------------------------------------------

-- | What writing a cell came to.
data Filled a = Nobody | Wakes [Waiter a] | Already

-- | Write a cell once. Always a full barrier.
--
-- [Cost]: one compare-and-set.
fill :: Ref (Cell a) -> Cell a -> IO (Filled a)
fill cell new = modifyRef cell $ \case
  Empty -> (new, Nobody)
  Waiting ws -> (new, Wakes ws)
  old -> (old, Already)
{-# INLINE fill #-}

-- | Push the rests of those that waited.
--
-- [Masking]: to be called masked.
wake :: Worker -> a -> [Waiter a] -> IO ()
wake w a ws = forM_ (reverse ws) (\(Waiter t i k) -> resume w (Work t i k a))

-- Failing --------------------------------------------------------------------

-- | End the running task with a failure that it was waiting for.
failHere :: Worker -> Failure -> IO ()
failHere w f = unsafeMask $ do
  t <- readRef (workerTask w)
  atomicWrite (workerWords w) runningWord 0
  failMasked w t f
{-# NOINLINE failHere #-}

-- | A failure that nobody has handled yet.
newFailure :: Task -> SomeException -> Maybe Failure -> IO Failure
newFailure t e cause = do
  handled <- newRef False
  pure (Failure t e handled cause)

-- | The same for a task that is not running any more.
--
-- [Masking]: to be called masked.
failMasked :: Worker -> Task -> Failure -> IO ()
failMasked w t f = do
  settle w
  mine <- newFailure (failureTask f) (failureException f) (Just f)
  failTask w t mine
  next w (taskScope t)

-- | Tell whoever waits for the task: readers of its cell, else its scope.
failTask :: Worker -> Task -> Failure -> IO ()
failTask w t f = do
  addFailure s f
  case t of
    SpawnTask {_taskCell = cell} ->
      fill cell (Failed f) >>= \case
        Nobody -> pure ()
        Wakes ws -> forM_ (reverse ws) $ \(Waiter t' i _) -> resume w (Work t' i (\w' () -> failHere w' f) ())
        -- Somebody has put, too: an error whoever comes first.
        Already -> newFailure t (toException MultiplePut) Nothing >>= addFailure s
    _ -> when (scopeCuts s) $ do
      markCutoff s failed
      interruptWhere w (\t' -> within s (taskScope t') && isRightOf t' failed)
  where
    s = taskScope t
    failed = failureTask f

within :: Scope -> Scope -> Bool
within s inner = scopeId s == scopeId inner || maybe False (within s) (scopeAround inner)

-- Searching ------------------------------------------------------------------

-- | Find work: one's own, somebody else's; else park. Returns when the run that the
-- worker is for is quiet.
--
-- [Blocks]: parks.
-- [Masking]: to be called masked.
search :: Worker -> IO ()
search w = do
  settleChain w
  takePatient w >>= \case
    Just work -> settle w >> start w work
    Nothing -> popOr (workerDeque w) outside (start w)
  where
    pool = workerPool w
    outside = do
      settle w
      scrub (workerDeque w)
      home <- readRef (workerHome w)
      abandonIfPending
      done <- finished home
      retired <- isRetired w home
      if done
        then pure ()
        else
          if retired
            then retireWorker w >> search w
            else do
              found <- huntOn w home (searching home (lookAround w home))
              case found of
                Just work -> start w work
                Nothing -> sleep w home
    -- Only those who take any work count as looking, and only while they do: who pushes
    -- leaves it to them. (Between two looks a worker may have to wait for its capability.)
    -- The last to find some sees to it that somebody else looks on.
    searching home look = case home of
      Only _ -> look
      Everybody -> do
        _ <- fetchAdd (poolWords pool) searchersWord 1
        found <- look
        last' <- (== 1) <$> fetchAdd (poolWords pool) searchersWord (-1)
        when last' (mapM_ (signal w . taskScope . workTask) found)
        pure found
    -- Something came from outside while we waited for the end of a handshake.
    abandonIfPending = readRef (workerPending w) >>= mapM_ (const (abort w))

-- | There are fewer capabilities now than there were.
isRetired :: Worker -> Home -> IO Bool
isRetired w = \case
  Everybody -> (workerLine w >=) <$> getCapabilities
  Only _ -> pure False

-- | Park until there are more capabilities again. Who counted on this worker to look for
-- work finds another.
retireWorker :: Worker -> IO ()
retireWorker w = do
  let pool = workerPool w
  writeRef (workerTask w) (poolIdleTask pool)
  -- So that the next run notices if there are more again.
  getCapabilities >>= atomicWrite (poolWords pool) capabilitiesWord
  retired <- isRetired w Everybody
  when retired $ do
    wakeOne pool (taskScope (poolIdleTask pool))
    parkQuietly (workerCell w)

-- | Announce the sleep, look once more, and park. What was pushed before the announcement
-- is seen by that look; who pushes after it sees the announcement. (A push is two plain
-- stores: one that is still on its way to memory at that look is missed, until the next.)
--
-- From the announcement on, a caller may borrow the worker of a parked thread: so the look
-- takes nothing, and who cannot take the announcement back must park.
sleep :: Worker -> Home -> IO ()
sleep w home = do
  writeRef (workerTask w) (poolIdleTask pool)
  setSleeping pool (workerId w)
  found <- workAround w home
  done <- finished home
  case home of
    Only _ -> do
      -- An exception leaves the announcement; 'release' takes it back. Work that others keep
      -- to themselves may be there for ever.
      if found || done then allowInterrupt else park (workerGuestCell w)
      void (stopSleeping pool (workerId w))
    Everybody -> do
      back <- if found then takeBack else pure False
      unless back $ do
        -- Lent, or about to be woken: somebody else should see to that work.
        when found (wakeOne pool (taskScope (poolIdleTask pool)))
        parkOwn
      myThreadId >>= writeRef (workerThread w) . Just
  search w
  where
    pool = workerPool w
    -- The announcement and the loan belong together: see 'borrow'.
    takeBack = holdingLoan (stopSleeping pool (workerId w))
    parkOwn = do
      parkQuietly (workerCell w)
      awake <- holdingLoan (not <$> isSleeping pool (workerId w))
      unless awake parkOwn
    holdingLoan look = do
      mine <- compareAndSet (workerWords w) lentWord 0 1
      if mine then look <* atomicWrite (workerWords w) lentWord 0 else pure False

-- Sparks ---------------------------------------------------------------------

-- | Have an action run by some worker, some time. What it throws is dropped.
--
-- [Cost]: one compare-and-set.
-- [Blocks]: never.
pushSpark :: IO () -> IO ()
pushSpark action = mask_ $ do
  pool <- thePool
  let t = poolIdleTask pool
  Atomic.push (poolSparks pool) (Work t 0 (\w () -> void (try' action) >> finishSpark w) ())
  sleepers <- readWord (poolWords pool) sleepersWord
  when (sleepers > 0) (wakeOne pool (taskScope t))
  where
    try' :: IO () -> IO (Either SomeException ())
    try' = try
    finishSpark w = unsafeMask $ do
      let s = taskScope (poolIdleTask (workerPool w))
      atomicWrite (workerWords w) runningWord 0
      next w s

-- The pool -------------------------------------------------------------------

-- | The pool, with a worker for each capability.
thePool :: IO Pool
thePool = do
  let pool = globalPool
  now <- getCapabilities
  seen <- readWord (poolWords pool) capabilitiesWord
  unless (now == seen) (adapt pool now)
  pure pool

globalPool :: Pool
globalPool = unsafeGlobal newPool
{-# NOINLINE globalPool #-}

newPool :: IO Pool
newPool = do
  ws <- newWords 32
  masks <- newWords maskWords
  nobody <- newTable 0 (error "no worker")
  workers <- newRef (Workers nobody nobody)
  growing <- newLock
  sparks <- newStack
  spare <- newStack
  scopeCounts <- newWords 32
  -- One that never ends, so that the sparks' scope does not either.
  writeWord scopeCounts 8 1
  failures <- newRef (Failures 0 64 [])
  cutoff <- newRef NoCutoff
  let idle = RootTask {_taskParent = idle, taskIndex = 0, taskHome = sparkScope}
      sparkScope =
        Scope
          { scopeId = 0,
            scopeRun = 0,
            scopeAround = Nothing,
            scopeWords = scopeCounts,
            scopeLines = 0,
            scopeGuest = -1,
            scopeClosed = False,
            scopeCuts = False,
            scopeCutoff = cutoff,
            scopeFailures = failures,
            scopeWhenQuiet = \_ -> pure ()
          }
  _ <- fetchAdd ws 16 1
  let pool = Pool ws masks workers growing sparks spare idle
  -- Its threads are parked, not forgotten.
  _ <- newStablePtr pool
  pure pool

-- | Follow a change of the number of capabilities.
adapt :: Pool -> Int -> IO ()
adapt pool now = uninterruptibleMask_ . withLock (poolGrowing pool) $ do
  pinned <- workersPinned <$> readRef (poolWorkers pool)
  let before = tableSize pinned
  forM_ [before .. now - 1] $ \line -> do
    w <- newWorker pool line
    -- It inherits our state, and must be interruptible where it parks.
    forkMaskedOn line $ \_ -> unsafeMask $ do
      labelMe ("par/worker/" ++ show line)
      myThreadId >>= writeRef (workerThread w) . Just
      forever (driver w (search w))
  -- Those that had retired look again.
  pinned' <- workersPinned <$> readRef (poolWorkers pool)
  forM_ [0 .. min before (tableSize pinned') - 1] $ \i -> readEntry pinned' i >>= unpark . workerCell
  atomicWrite (poolWords pool) capabilitiesWord now

-- | A worker, added to the table of all, and to the pinned ones if it has a line.
newWorker :: Pool -> Int -> IO Worker
newWorker pool line = do
  Workers pinned everybody <- readRef (poolWorkers pool)
  let number = tableSize everybody
      idle = poolIdleTask pool
  make <-
    Worker number line pool (poolWords pool) <$> newWords 16
      <*> newDeque 64 (Work idle 0 (\_ () -> pure ()) ())
      <*> newPatient 16 (Work idle 0 (\_ () -> pure ()) ())
      <*> newRef idle
      <*> newRef Nothing
      <*> newRef Everybody
      <*> newRef Nothing
      <*> newLock
      <*> newWaitCell
      <*> newWaitCell
  let w = make (readRef (workerTask w) >>= next w . taskScope)
  writeWord (workerWords w) seedWord (0x2545f4914f6cdd1d + number * 0x9e3779b97f4a7c1)
  everybody' <- append everybody w
  pinned' <- if line < 0 then pure pinned else append pinned w
  writeRef (poolWorkers pool) (Workers pinned' everybody')
  pure w

append :: Table a -> a -> IO (Table a)
append table x = do
  table' <- growTable table (tableSize table + 1) x
  writeEntry table' (tableSize table) x
  pure table'

-- Callers as workers ---------------------------------------------------------

-- | A worker for the calling thread: its capability's, if that sleeps; else a spare one.
--
-- [Cost]: two compare-and-sets; rarely a new worker (1.5 KB), which is kept.
-- [Masking]: to be called masked.
acquire :: IO Worker
acquire = do
  pool <- thePool
  capability <- myCapability
  pinned <- workersPinned <$> readRef (poolWorkers pool)
  own <- if capability < tableSize pinned then readEntry pinned capability >>= borrow pool else pure Nothing
  w <- case own of
    Just w -> pure w
    Nothing ->
      Atomic.pop (poolSpare pool) >>= \case
        Just w -> pure w
        Nothing -> uninterruptibleMask_ (withLock (poolGrowing pool) (newWorker pool (-1)))
  writeRef (workerPending w) Nothing
  myThreadId >>= writeRef (workerThread w) . Just
  pure w

borrow :: Pool -> Worker -> IO (Maybe Worker)
borrow pool w = do
  mine <- compareAndSet (workerWords w) lentWord 0 1
  if not mine
    then pure Nothing
    else do
      slept <- stopSleeping pool (workerId w)
      if slept
        then pure (Just w)
        else do
          atomicWrite (workerWords w) lentWord 0
          unpark (workerCell w)
          pure Nothing

-- | Give the worker back.
--
-- [Masking]: to be called masked.
release :: Worker -> IO ()
release w = do
  let pool = workerPool w
  _ <- stopSleeping pool (workerId w)
  writeRef (workerTask w) (poolIdleTask pool)
  writeRef (workerHome w) Everybody
  writeRef (workerPending w) Nothing
  writeRef (workerThread w) Nothing
  if workerLine w < 0
    then Atomic.push (poolSpare pool) w
    else do
      setSleeping pool (workerId w)
      atomicWrite (workerWords w) lentWord 0
      -- Its thread looks for work before it sleeps on, if it has not been woken already.
      there <- workAround w Everybody
      asleep <- if there then not <$> stopSleeping pool (workerId w) else isSleeping pool (workerId w)
      when (there || not asleep) (unpark (workerCell w))

-- Note [No safe point]
-- ~~~~~~~~~~~~~~~~~~~~
-- Masking costs two calls into the runtime for each task. 'commitFork' and 'finish' do
-- without: an asynchronous exception reaches a thread only at a safe point, which is where
-- it allocates or calls; between the first count and the last store they do neither (their
-- arguments are built before the call, 'workerGoOn' once and for all), so an exception
-- falls before all of it or after all of it. Code that does not fit this is masked.
--
-- That is a property of the compiled code: with -O1 GHC 9.0 allocates a closure in the
-- middle of 'finish', and a program that injects exceptions hung within seconds. So this
-- module, and the packages it is compiled from, insist on -O2.
