-- See Note [No safe point] in "Heddle.Sched.Pool".
{-# OPTIONS_GHC -O2 #-}

-- |
-- Module      : Heddle.Sched.Scope
-- Description : Counting tasks, and knowing when none is left
-- Stability   : internal
--
-- A scope counts the tasks that run or are ready to, and the scopes inside it that have such
-- tasks. Each worker counts in its own cache line with plain stores; only a worker that runs out of
-- the scope's work adds them up.
--
-- Cost: two plain memory operations a task, however many scopes lie around; no shared write.
-- Owner: a line belongs to its worker; all other workers share the last line, atomically.
module Heddle.Sched.Scope
  ( newScope,
    enrol,
    endlessCounts,

    -- * Counting
    isPlain,
    countUp,
    countDown,
    countDownBy,
    countParked,
    countResumed,
    countsOfWaiting,
    rouse,
    retire,
    checkQuiet,
    isQuiet,

    -- * Cancelling
    markCancelled,
    markCutoff,
    admits,
    isOfRun,
    isUnwanted,

    -- * Failing
    addFailure,
    Outcome (..),
    outcome,
    handleFailures,
  )
where

import Control.Monad (filterM, forM_, unless, void, when)
import Data.Bits ((.&.))
import Data.List (minimumBy)
import Data.Maybe (isJust)
import Heddle.Prim.Atomic
  ( Ref,
    Words,
    atomicRead,
    compareAndSet,
    fetchAdd,
    fetchOr,
    modifyRef,
    newRef,
    newWords,
    readRef,
    readWord,
    tableSize,
    writeRef,
    writeRelease,
  )
import Heddle.Prim.Exception (Exception (..), SomeException)
import Heddle.Sched.Bag (Bag, addTo, inBag, newBag)
import Heddle.Sched.Position (compareTasks, isRightOf)
import Heddle.Sched.Sleep (scopeNumberWord)
import Heddle.Sched.Steps (step)
import Heddle.Sched.Types

flagsWord, stateWord, firstLine, lineWords :: Int
flagsWord = 0
stateWord = 1
firstLine = 8
lineWords = 8

-- | Of 'flagsWord': no task of the scope may begin; none to the right of the cutoff may; and no task
-- of the scopes inside may, either.
cancelledFlag, cutoffFlag, sealedFlag :: Int
cancelledFlag = 1
cutoffFlag = 2
sealedFlag = 4

-- | Of 'stateWord'; see Note [Scopes inside].
--
-- Active -> Dormant (a worker that finds all tasks waiting); Dormant -> Active (a worker that is
-- about to wake one); Active or Dormant -> Ended (a worker that finds the scope quiet).
activeState, endedState, dormantState :: Int
activeState = 0
endedState = 1
dormantState = 2

-- | A scope with one task counted. One that is not the outermost is known to the scope around it only
-- after 'enrol'.
--
-- [Cost]: 64 bytes for each capability, and 300.
newScope :: Worker -> Maybe Scope -> Bool -> Bool -> (Scope -> Worker -> IO ()) -> IO Scope
newScope w around closed cuts whenQuiet = do
  number <- fetchAdd (poolWords (workerPool w)) scopeNumberWord 1
  workers <- readRef (poolWorkers (workerPool w))
  let pinned = tableSize (workersPinned workers)
  ws <- newWords (firstLine + lineWords * (pinned + 2))
  failures <- newBag
  children <- newBag
  cutoff <- newRef NoCutoff
  let scope =
        Scope
          { scopeId = number,
            scopeRun = maybe number scopeRun around,
            scopeAround = around,
            scopeWords = ws,
            scopeLines = pinned,
            scopeGuest = maybe (workerId w) scopeGuest around,
            scopeClosed = closed,
            scopeCuts = cuts,
            scopeCutoff = cutoff,
            scopeFailures = failures,
            scopeChildren = children,
            scopeWhenQuiet = whenQuiet scope
          }
  countUp scope w
  pure scope

-- | Make a scope known to the scope around it, which then cancels it with its other tasks; if that has
-- been done already, cancel it now. The place is the one that its first task has among the
-- tasks around.
--
-- [Cost]: a compare-and-set; as 'addTo'.
enrol :: Worker -> Scope -> Scope -> Task -> IO ()
enrol w around s place = do
  addTo (scopeChildren around) lives child
  -- After a full barrier: whoever sets a flag looks for children afterwards.
  needed <- admits around place
  unless needed (cancelChild w child)
  where
    child = Child {childPlace = place, childWords = scopeWords s, childChildren = scopeChildren s}
    lives other = step w >> (/= endedState) <$> readWord (childWords other) stateWord

-- | The counts of a scope without lines for workers in which one task never ends, so that the
-- scope does not either.
endlessCounts :: IO Words
endlessCounts = do
  ws <- newWords (firstLine + 2 * lineWords)
  ws <$ fetchAdd ws (firstLine + upCount) 1

-- | Has nothing in it failed or been cancelled?
--
-- [Cost]: one read.
isPlain :: Scope -> IO Bool
isPlain s = (== 0) <$> readWord (scopeWords s) flagsWord
{-# INLINE isPlain #-}

-- | One task more is ready or running. Allocates nothing; no call, and no safe point.
--
-- [Cost]: two plain memory operations.
-- [Threads]: the worker's.
countUp :: Scope -> Worker -> IO ()
countUp s w = count s w upCount
{-# INLINE countUp #-}

-- | A task has ended or waits, and the scope cannot end with it, since another task of it
-- is ready; else 'retire'. No call, and no safe point.
--
-- [Cost]: as 'countUp'.
-- [Threads]: the worker's.
countDown :: Scope -> Worker -> IO ()
countDown s w = count s w downCount
{-# INLINE countDown #-}

-- | 'countDown' for several tasks.
--
-- [Cost]: as 'countDown'.
-- [Threads]: the worker's.
countDownBy :: Int -> Scope -> Worker -> IO ()
countDownBy n s w = countBy n s w downCount

-- | A task waits; before its 'countDown'.
countParked :: Scope -> Worker -> IO ()
countParked s w = count s w parkedCount
{-# INLINE countParked #-}

-- | A task waits no longer; after its 'countUp'.
countResumed :: Scope -> Worker -> IO ()
countResumed s w = count s w resumedCount
{-# INLINE countResumed #-}

-- | What a line counts.
upCount, downCount, parkedCount, resumedCount :: Int
upCount = 0
downCount = 1
parkedCount = 2
resumedCount = 3

count :: Scope -> Worker -> Int -> IO ()
count = countBy 1
{-# INLINE count #-}

countBy :: Int -> Scope -> Worker -> Int -> IO ()
countBy by s w which
  | line >= 0 && line < scopeLines s = plain line
  | workerId w == scopeGuest s = plain (scopeLines s)
  | otherwise = void (fetchAdd (scopeWords s) (firstLine + lineWords * (scopeLines s + 1) + which) by)
  where
    line = workerLine w
    plain l = do
      let i = firstLine + lineWords * l + which
      n <- readWord (scopeWords s) i
      -- A release, so that a reader that sees a task counted down sees it counted up.
      writeRelease (scopeWords s) i (n + by)
{-# INLINE countBy #-}

-- | Count a task of the scope down, and end the scope where none is left, or count it down in the one
-- around where all wait; of all workers that see it, one does.
--
-- A scope that ends lets a task outside go on, so that one is counted up before we count
-- down there.
--
-- [Cost]: O(capabilities) for each scope that ends or of which all tasks wait.
-- [Masking]: to be called masked.
retire :: Worker -> Scope -> IO ()
retire w s = do
  countDown s w
  checkQuiet w s

-- | If no task of the scope is left, end it; if all wait for others outside, let the scope around know.
--
-- [Cost]: as 'retire'.
-- [Threads]: any worker, after counting down or cancelling; see Note [Quiet].
-- [Masking]: to be called masked.
checkQuiet :: Worker -> Scope -> IO ()
checkQuiet w s = do
  step w
  -- Our own counts, before we look at those of the others.
  state <- fetchAdd (scopeWords s) stateWord 0
  unless (state == endedState) $ do
    down <- total downCount
    resumed <- total resumedCount
    up <- total upCount
    parked <- total parkedCount
    flags <- atomicRead (scopeWords s) flagsWord
    when (down == up) $
      if flags .&. sealedFlag /= 0 || flags == 0 && (scopeClosed s || parked == resumed)
        then end state
        else
          if flags /= 0
            then markCancelled w s >> checkQuiet w s
            else when (state == activeState) rest
  where
    end state = do
      won <- compareAndSet (scopeWords s) stateWord state endedState
      if won
        then do
          markCancelled w s
          scopeWhenQuiet s w
          when (state == activeState) retireAround
        else checkQuiet w s
    rest = do
      won <- compareAndSet (scopeWords s) stateWord activeState dormantState
      if won
        then do
          -- A worker may have woken a task, and have found the scope active.
          down <- total downCount
          up <- total upCount
          active <- if down == up then pure False else compareAndSet (scopeWords s) stateWord dormantState activeState
          if active then checkQuiet w s else retireAround
        else checkQuiet w s
    retireAround = mapM_ (retire w) (scopeAround s)
    total = totalOf s

-- | The sum of what all lines count.
totalOf :: Scope -> Int -> IO Int
totalOf s which = go 0 0
  where
    go !acc l
      | l > scopeLines s + 1 = pure acc
      | otherwise = do
        n <- atomicRead (scopeWords s) (firstLine + lineWords * l + which)
        go (acc + n) (l + 1 :: Int)

-- | How many tasks of the scope wait, about, and how many have been woken.
--
-- [Cost]: O(capabilities).
-- [Threads]: any.
countsOfWaiting :: Scope -> IO (Int, Int)
countsOfWaiting s = do
  resumed <- totalOf s resumedCount
  parked <- totalOf s parkedCount
  pure (parked - resumed, resumed)

-- | A waiting task of the scope has been counted up, and will be made ready: let the scopes around
-- know, where all tasks waited until now. 'False' if the scope has ended, so that nobody needs
-- the task.
--
-- [Cost]: one locked instruction; O(1) for each scope of which all tasks waited.
-- [Masking]: to be called masked.
rouse :: Worker -> Scope -> IO Bool
rouse w s = case scopeAround s of
  Nothing -> pure True
  Just around -> do
    step w
    -- A full barrier, after the count.
    state <- fetchAdd (scopeWords s) stateWord 0
    if state /= dormantState
      then pure (state == activeState)
      else do
        countUp around w
        _ <- rouse w around
        won <- compareAndSet (scopeWords s) stateWord dormantState activeState
        if won then pure True else retire w around >> rouse w s

-- | Has every task ended?
--
-- [Cost]: one read.
isQuiet :: Scope -> IO Bool
isQuiet s = (== endedState) <$> atomicRead (scopeWords s) stateWord

-- | Drop every task that has not begun, in the scopes inside, too; the running ones are interrupted
-- elsewhere.
--
-- [Cost]: O(scopes inside that were not cancelled).
markCancelled :: Worker -> Scope -> IO ()
markCancelled w s = cancel w (scopeWords s) (scopeChildren s)

cancelChild :: Worker -> Child -> IO ()
cancelChild w child = cancel w (childWords child) (childChildren child)

-- The seal comes last, so that who sees it knows that the scopes inside are cancelled; who sees only
-- that the scope is cancelled cancels those, too.
cancel :: Worker -> Words -> Bag Child -> IO ()
cancel w ws children = do
  step w
  flags <- fetchOr ws flagsWord cancelledFlag
  when (flags .&. sealedFlag == 0) $ do
    inBag children >>= mapM_ (cancelChild w)
    void (fetchOr ws flagsWord sealedFlag)

-- | Drop every task to the right of a failed one, and every scope that was opened there.
--
-- [Cost]: a comparison for each scope opened in this one.
markCutoff :: Worker -> Scope -> Task -> IO ()
markCutoff w s failed = do
  modifyRef (scopeCutoff s) $ \case
    RightOf other | compareTasks other failed == LT -> (RightOf other, ())
    _ -> (RightOf failed, ())
  _ <- fetchOr (scopeWords s) flagsWord cutoffFlag
  children <- inBag (scopeChildren s)
  forM_ children $ \child -> step w >> when (childPlace child `isRightOf` failed) (cancelChild w child)

-- | May this task of the scope (still) run?
--
-- [Cost]: one read, unless something failed.
admits :: Scope -> Task -> IO Bool
admits s t = do
  flags <- readWord (scopeWords s) flagsWord
  if flags == 0 then pure True else slowly flags
  where
    slowly flags
      | odd flags = pure False
      | otherwise =
        readRef (scopeCutoff s) >>= \case
          RightOf failed -> pure (not (isRightOf t failed))
          NoCutoff -> pure True

-- | Is the task one of the scope's run?
--
-- [Cost]: two reads.
isOfRun :: Scope -> Task -> Bool
isOfRun s t = scopeRun (taskScope t) == scopeRun s

-- | Is the task one of the scope's run that may not run on? So is then every task that it forks.
--
-- [Cost]: as 'admits'.
isUnwanted :: Scope -> Task -> IO Bool
isUnwanted s t
  | isOfRun s t = not <$> admits (taskScope t) t
  | otherwise = pure False

-- | Keep a failure for the end of the scope.
--
-- [Cost]: O(1) amortised.
addFailure :: Worker -> Scope -> Failure -> IO ()
addFailure w s = addTo (scopeFailures s) (\f -> step w >> not <$> readRef (failureHandled f))

-- | How a scope ended.
data Outcome a
  = -- | All its tasks have ended, with this result.
    Ended a
  | -- | With the leftmost failure that no task handled.
    Broken !Failure
  | -- | It was cancelled, or waits for ever.
    Stuck

-- | The outcome of a quiet scope: the leftmost failure that no task handled, else the
-- value. A 'MultiplePut' goes before all others, since which of the two writers comes
-- second, and hence what follows from it, is a matter of timing.
--
-- [Cost]: O(failures).
outcome :: Scope -> Ref (Maybe a) -> IO (Outcome a)
outcome s result = do
  failures <- inBag (scopeFailures s) >>= filterM (fmap not . readRef . failureHandled)
  case (filter (isMultiplePut . failureException) failures, failures) of
    (f : fs, _) -> pure (Broken (leftmost f fs))
    ([], f : fs) -> pure (Broken (leftmost f fs))
    ([], []) -> maybe Stuck Ended <$> readRef result
  where
    leftmost f fs = minimumBy (\a b -> compareTasks (failureTask a) (failureTask b)) (f : fs)

isMultiplePut :: SomeException -> Bool
isMultiplePut e = isJust (fromException e :: Maybe MultiplePut)

-- | Mark every failure of an ended scope, and what caused it, as handled, so that no scope
-- around it fails with one of them.
--
-- [Cost]: O(failures and causes).
handleFailures :: Scope -> IO ()
handleFailures s = inBag (scopeFailures s) >>= mapM_ handle
  where
    -- Readers of readers share their causes, which are marked once.
    handle f = do
      handled <- readRef (failureHandled f)
      unless handled (writeRef (failureHandled f) True >> mapM_ handle (failureCause f))

-- Note [Quiet]
-- ~~~~~~~~~~~~
-- Every line counts ups and downs and never goes back. A task is counted up before it can
-- be counted down; the task that wakes a waiting one counts that up before it is itself
-- counted down. We read all downs before all ups. If D and U are the sums so read
-- and d, u the true sums at the moment between the two passes, then D <= d <= u <= U;
-- D == U means d == u: at that moment no task was ready or running, so none can come,
-- unless from outside the scope.
--
-- A task that waits is counted parked before it is counted down, and resumed after it is
-- counted up. We read resumed before up, and parked last: a reader that sees a task resumed
-- sees it up, so a scope whose task is being woken from outside does not look ended.
--
-- The end is always noticed: the worker that counted the last task down adds up the counts
-- afterwards (a locked instruction lies between), and of two that do so at once one sees the
-- other's count. A task of a scope that has ended is found cancelled when it is woken.
--
-- A scope of which something failed ends although tasks of it wait, and those may be woken from
-- outside meanwhile. So it is cancelled first, with the scopes inside, and its counts are added up
-- again: a task that began before that is seen, one that comes later is dropped.
--
-- Note [Scopes inside]
-- ~~~~~~~~~~~~~~~~~~~~
-- A scope counts for one task of the scope around it while it is active. Its opener gives it its
-- own count there, since that waits until the scope ends; a branch of a search is counted up.
-- So a task is counted in one scope only, however deep that lies.
--
-- If all tasks of an open scope wait, it is dormant, and not counted around: otherwise a closed
-- scope further out, such as the run, would not see that nothing goes on in it. Whoever wakes a
-- task from outside counts the task up, and then finds the scope active or dormant; the worker that
-- makes the scope dormant does so first and then adds up the counts again. A full barrier lies
-- between, on both sides, so one of the two sees the other. If both do, each of them changes the
-- scope around by one, and the sum is right.
--
-- The scope around is counted up before the scope becomes active, and down after it has become
-- dormant or ended, so it never counts fewer than are active.
--
-- A change from active to dormant may go on to the scopes around, as far as the first in which a
-- task is ready: a task in n scopes that waits for one outside all of them costs O(n).
