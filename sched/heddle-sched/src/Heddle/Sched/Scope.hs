-- |
-- Module      : Heddle.Sched.Scope
-- Description : Counting tasks, and knowing when none is left
-- Stability   : internal
--
-- A scope counts the tasks that run or are ready to. Each worker counts in its own cache
-- line with plain stores; only a worker that runs out of the scope's work adds them up.
--
-- Cost: two plain memory operations a task; no shared write.
-- Owner: a line belongs to its worker; all other workers share the last line, atomically.
module Heddle.Sched.Scope
  ( newScope,
    endlessCounts,
    noFailures,

    -- * Counting
    isPlain,
    countUpHere,
    countDownHere,
    countUp,
    countDown,
    countDownBy,
    countParked,
    countResumed,
    retire,
    checkQuiet,
    isQuiet,

    -- * Cancelling
    markCancelled,
    markCutoff,
    admits,

    -- * Failing
    addFailure,
    Outcome (..),
    outcome,
    handleFailures,
  )
where

import Control.Monad (filterM, unless, void, when)
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
import Heddle.Sched.Sleep (scopeNumberWord)
import Heddle.Sched.Types

flagsWord, quietWord, firstLine, lineWords :: Int
flagsWord = 0
quietWord = 1
firstLine = 8
lineWords = 8

cancelledFlag, cutoffFlag :: Int
cancelledFlag = 1
cutoffFlag = 2

-- | A scope with one task counted.
--
-- [Cost]: 64 bytes for each capability, and 200.
newScope :: Worker -> Maybe Scope -> Bool -> Bool -> (Scope -> Worker -> IO ()) -> IO Scope
newScope w around closed cuts whenQuiet = do
  number <- fetchAdd (poolWords (workerPool w)) scopeNumberWord 1
  workers <- readRef (poolWorkers (workerPool w))
  let pinned = tableSize (workersPinned workers)
  ws <- newWords (firstLine + lineWords * (pinned + 2))
  failures <- newRef noFailures
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
            scopeWhenQuiet = whenQuiet scope
          }
  countUp scope w
  pure scope

-- | The counts of a scope without lines for workers in which one task never ends, so that the
-- scope does not either.
endlessCounts :: IO Words
endlessCounts = do
  ws <- newWords (firstLine + 2 * lineWords)
  ws <$ fetchAdd ws (firstLine + upCount) 1

-- | Those of a new scope.
noFailures :: Failures
noFailures = Failures 0 forgetLimit []

-- | How many failures a scope keeps before it checks which have been handled.
forgetLimit :: Int
forgetLimit = 64

-- | Is it the outermost scope, with nothing failed or cancelled?
--
-- [Cost]: two reads.
isPlain :: Scope -> IO Bool
isPlain s = case scopeAround s of
  Just _ -> pure False
  Nothing -> (== 0) <$> readWord (scopeWords s) flagsWord
{-# INLINE isPlain #-}

-- | 'countUp' for the outermost scope; no call, and no safe point.
countUpHere :: Scope -> Worker -> IO ()
countUpHere s w = count s w upCount
{-# INLINE countUpHere #-}

-- | 'countDown' for the outermost scope; no call, and no safe point.
countDownHere :: Scope -> Worker -> IO ()
countDownHere s w = count s w downCount
{-# INLINE countDownHere #-}

-- | One task more is ready or running, here and in the scopes around. Allocates nothing.
--
-- [Cost]: two plain memory operations for each scope.
-- [Threads]: the worker's.
countUp :: Scope -> Worker -> IO ()
countUp s w = do
  count s w upCount
  case scopeAround s of
    Nothing -> pure ()
    Just around -> countUp around w

-- | A task has ended or waits, and the scope cannot end with it, since another task of it
-- is ready; else 'retire'.
--
-- [Cost]: as 'countUp'.
-- [Threads]: the worker's.
countDown :: Scope -> Worker -> IO ()
countDown s w = do
  count s w downCount
  case scopeAround s of
    Nothing -> pure ()
    Just around -> countDown around w

-- | 'countDown' for several tasks of the outermost scope.
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

-- | Count a task of the scope down, and end the scope, and those around it, where none is
-- left; of all workers that see it, one does.
--
-- A scope that ends lets a task outside go on, so that one is counted up before we count
-- down there.
--
-- [Cost]: O(capabilities) for each scope.
-- [Masking]: to be called masked.
retire :: Worker -> Scope -> IO ()
retire w s = do
  count s w downCount
  checkQuiet w s
  mapM_ (retire w) (scopeAround s)

-- | If no task of the scope is left, end it.
--
-- [Cost]: O(capabilities).
-- [Threads]: any worker, after counting down or cancelling; see Note [Quiet].
-- [Masking]: to be called masked.
checkQuiet :: Worker -> Scope -> IO ()
checkQuiet w s = do
  -- Our own counts, before we look at those of the others.
  already <- fetchAdd (scopeWords s) quietWord 0
  when (already == 0) $ do
    down <- total downCount
    resumed <- total resumedCount
    up <- total upCount
    parked <- total parkedCount
    flags <- atomicRead (scopeWords s) flagsWord
    when (down == up && (scopeClosed s || flags /= 0 || parked == resumed)) $ do
      first <- compareAndSet (scopeWords s) quietWord 0 1
      when first $ do
        markCancelled s
        scopeWhenQuiet s w
  where
    total which = go 0 0
      where
        go !acc l
          | l > scopeLines s + 1 = pure acc
          | otherwise = do
            n <- atomicRead (scopeWords s) (firstLine + lineWords * l + which)
            go (acc + n) (l + 1 :: Int)

-- | Has every task ended?
--
-- [Cost]: one read.
isQuiet :: Scope -> IO Bool
isQuiet s = (/= 0) <$> atomicRead (scopeWords s) quietWord

-- | Drop every task that has not begun; the running ones are interrupted elsewhere.
markCancelled :: Scope -> IO ()
markCancelled s = void (fetchOr (scopeWords s) flagsWord cancelledFlag)

-- | Drop every task to the right of a failed one.
markCutoff :: Scope -> Task -> IO ()
markCutoff s failed = do
  modifyRef (scopeCutoff s) $ \case
    RightOf other | compareTasks other failed == LT -> (RightOf other, ())
    _ -> (RightOf failed, ())
  void (fetchOr (scopeWords s) flagsWord cutoffFlag)

-- | May this task (still) run?
--
-- [Cost]: one read for each scope around it, unless something failed.
admits :: Scope -> Task -> IO Bool
admits s t = do
  flags <- readWord (scopeWords s) flagsWord
  here <- if flags == 0 then pure True else slowly flags
  if here then maybe (pure True) (`admits` t) (scopeAround s) else pure False
  where
    slowly flags
      | odd flags = pure False
      | otherwise =
        readRef (scopeCutoff s) >>= \case
          RightOf failed -> pure (not (isRightOf t failed))
          NoCutoff -> pure True

-- | Keep a failure for the end of the scope.
--
-- [Cost]: O(1) amortised; when the limit is reached, one look at each failure.
addFailure :: Scope -> Failure -> IO ()
addFailure s f = do
  many <- modifyRef (scopeFailures s) $ \(Failures n limit fs) ->
    (Failures (n + 1) limit (f : fs), null (drop (limit - 1) fs))
  unless many (forget s)

-- | Drop those that have been handled.
forget :: Scope -> IO ()
forget s = do
  Failures n _ fs <- readRef (scopeFailures s)
  open <- filterM (fmap not . readRef . failureHandled) fs
  let limit = max forgetLimit (2 * length open)
  modifyRef (scopeFailures s) $ \case
    Failures n' _ _ | n' == n -> (Failures (n + 1) limit open, ())
    other -> (other, ())

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
  Failures _ _ everything <- readRef (scopeFailures s)
  failures <- filterM (fmap not . readRef . failureHandled) everything
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
-- [Cost]: O(failures).
handleFailures :: Scope -> IO ()
handleFailures s = do
  Failures _ _ failures <- readRef (scopeFailures s)
  mapM_ handle failures
  where
    handle f = writeRef (failureHandled f) True >> mapM_ handle (failureCause f)

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
