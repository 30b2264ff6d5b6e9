-- |
-- Module      : Heddle.Sched.Workers
-- Description : The pool: its threads, and handing them runs
-- Stability   : internal
--
-- One pool for the process: a worker for each capability, pinned there, and others as runs nest
-- or block. Every worker has a thread of its own.
--
-- Cost: a worker is 1.5 KB and a thread; it is kept.
-- Owner: the process. Invariant: user code runs unmasked, everything else masked.
module Heddle.Sched.Workers
  ( -- * Runs
    hire,
    assign,
    abort,

    -- * Blocking
    lend,

    -- * The pool
    thePool,
  )
where

import Control.Monad (forM_, unless, void)
import Foreign.StablePtr (newStablePtr)
import Heddle.Prim.Atomic
  ( Table,
    atomicWrite,
    compareAndSet,
    fetchAdd,
    growTable,
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
import Heddle.Prim.Exception (uninterruptibleMask_, unsafeMask, unsafeUnmask)
import Heddle.Prim.Global (unsafeGlobal)
import Heddle.Prim.Lock (newLock, withLock)
import Heddle.Prim.Thread (forkMasked, forkMaskedOn, getCapabilities, labelMe, myCapability, myWeakThread)
import Heddle.Prim.WaitCell (WaitCell, newWaitCell, unpark)
import Heddle.Sched.Bag (newBag)
import Heddle.Sched.Cancel
import Heddle.Sched.Deque (newDeque)
import Heddle.Sched.Internal.PrivateStack
import Heddle.Sched.Pool
import Heddle.Sched.RunQueue (seedWord, workerWordCount)
import Heddle.Sched.Scope
import Heddle.Sched.Sleep
import Heddle.Sched.Types

-- Runs -----------------------------------------------------------------------

-- | A worker for a run: the calling capability's, if that sleeps; else a spare one. It waits
-- for 'assign'.
--
-- [Cost]: two compare-and-sets; rarely a new worker.
-- [Masking]: to be called masked, and left only to 'assign'.
hire :: IO Worker
hire = do
  pool <- thePool
  capability <- myCapability
  pinned <- workersPinned <$> readRef (poolWorkers pool)
  own <- if capability < tableSize pinned then readEntry pinned capability >>= borrow pool else pure Nothing
  maybe (spareWorker pool) pure own

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

spareWorker :: Pool -> IO Worker
spareWorker pool =
  Atomic.pop (poolSpare pool) >>= \case
    Just w -> pure w
    Nothing -> uninterruptibleMask_ . withLock (poolGrowing pool) $ do
      w <- newWorker pool (-1)
      _ <- forkMasked (\_ -> begin w "spare" attendErrands)
      pure w

-- | Give a hired worker its errand, for a caller that waits in the cell.
--
-- [Cost]: wakes the worker's thread.
assign :: Worker -> WaitCell -> Errand -> IO ()
assign w caller errand = do
  writeRef (workerCaller w) caller
  writeRef (workerErrand w) (Just errand)
  unpark (workerCell w)

-- | Cancel a run.
--
-- [Blocks]: until the running tasks have been interrupted.
-- [Masking]: to be called masked.
abort :: Worker -> Scope -> IO ()
abort w s = do
  markCancelled w s
  interruptWhere (workerPool w) (-1) (pure . isOfRun s)

-- Blocking -------------------------------------------------------------------

-- | Before the running task blocks: go on with it on a spare worker, and on this worker with
-- other work. If 500 tasks of the process do so already, the task stays where it is.
--
-- [Blocks]: never; the continuation may park the spare worker's thread.
-- [Threads]: the worker's; called unmasked, and so is the continuation.
--
-- [Cost]: a switch of threads.
lend :: Worker -> (Worker -> IO ()) -> IO ()
lend w continuation = unsafeMask $ do
  others <- fetchAdd (poolWords pool) blockingWord 1
  if others >= mostBlocking
    then returned >> unsafeUnmask (continuation w)
    else do
      t <- readRef (workerTask w)
      index <- readWord (workerWords w) indexWord
      pause w
      spare <- spareWorker pool
      let s = taskScope t
      -- It stays counted here, where 'next' counts it down.
      countUp s w
      caller <- newWaitCell
      assign spare caller (Errand (Brief s) (Work t index (\w' () -> continuation w') ()) returned)
      next w s
  where
    pool = workerPool w
    returned = void (fetchAdd (poolWords pool) blockingWord (-1))

-- | A bound, since idle workers probe every worker there is, spare ones included.
mostBlocking :: Int
mostBlocking = 500

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
  ws <- newWords poolWordCount
  masks <- newWords maskWords
  none <- newTable 0 (error "no worker")
  workers <- newRef (Workers none none 0)
  growing <- newLock
  spare <- newStack
  scopeCounts <- endlessCounts
  failures <- newBag
  children <- newBag
  cutoff <- newRef NoCutoff
  let idle = RootTask {_taskParent = idle, taskIndex = 0, _taskScope = idleScope}
      idleScope =
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
            scopeChildren = children,
            scopeWhenQuiet = \_ -> pure ()
          }
  -- Number 0 is that scope's.
  _ <- fetchAdd ws scopeNumberWord 1
  let pool = Pool ws masks workers growing spare idle
  -- Its threads are parked, not forgotten, and so are the callers of runs.
  _ <- newStablePtr pool
  pure pool

-- | Follow a change of the number of capabilities.
adapt :: Pool -> Int -> IO ()
adapt pool now = uninterruptibleMask_ . withLock (poolGrowing pool) $ do
  pinned <- workersPinned <$> readRef (poolWorkers pool)
  let before = tableSize pinned
  forM_ [before .. now - 1] $ \line -> do
    w <- newWorker pool line
    forkMaskedOn line (\_ -> begin w (show line) attend)
  -- Retired workers look again whether there is a capability for them.
  pinned' <- workersPinned <$> readRef (poolWorkers pool)
  forM_ [0 .. min before (tableSize pinned') - 1] $ \i -> readEntry pinned' i >>= unpark . workerCell
  atomicWrite (poolWords pool) capabilitiesWord now

-- | The thread of a worker begins.
begin :: Worker -> String -> (Worker -> IO ()) -> IO ()
-- The thread inherits the masking state of the thread that forks it, and must be interruptible
-- where it parks.
begin w name work = unsafeMask $ do
  labelMe ("sched/worker/" ++ name)
  myWeakThread >>= writeRef (workerThread w) . Just
  work w

-- | A worker, added to the table of all, and to the pinned ones if it has a line.
newWorker :: Pool -> Int -> IO Worker
newWorker pool line = do
  Workers pinned everyWorker number <- readRef (poolWorkers pool)
  let idle = poolIdleTask pool
  make <-
    Worker number line pool (poolWords pool) <$> newWords workerWordCount
      <*> newDeque dequeCapacity (Work idle 0 (\_ () -> pure ()) ())
      <*> newPrivateStack stackCapacity (Work idle 0 (\_ () -> pure ()) ())
      <*> newRef idle
      <*> newRef Nothing
      <*> newRef AnyRun
      <*> newRef Nothing
      <*> (newWaitCell >>= newRef)
      <*> newLock
      <*> newWaitCell
  let w = make (readRef (workerTask w) >>= next w . taskScope)
  writeWord (workerWords w) seedWord (0x2545f4914f6cdd1d + number * 0x9e3779b97f4a7c1)
  -- One more than there is room for would be a copy each time that runs nest one deeper.
  everyWorker' <-
    if number < tableSize everyWorker
      then pure everyWorker
      else growTable everyWorker (max 8 (2 * number)) w
  writeEntry everyWorker' number w
  pinned' <- if line < 0 then pure pinned else append pinned w
  writeRef (poolWorkers pool) (Workers pinned' everyWorker' (number + 1))
  pure w

-- | How many entries a new worker's deque and private stack have room for, before they grow.
dequeCapacity, stackCapacity :: Int
dequeCapacity = 64
stackCapacity = 16

append :: Table a -> a -> IO (Table a)
append table x = do
  table' <- growTable table (tableSize table + 1) x
  writeEntry table' (tableSize table) x
  pure table'
