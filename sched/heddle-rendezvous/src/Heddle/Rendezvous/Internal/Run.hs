{-# LANGUAGE RankNTypes #-}

-- |
-- Module      : Heddle.Rendezvous.Internal.Run
-- Description : Runs, effects, searches
-- Stability   : internal
--
-- Begins and ends computations on the scheduler of heddle-sched.
--
-- Cost: as said at each.
-- Owner: a run owns its branches; when it returns, none is left.
module Heddle.Rendezvous.Internal.Run
  ( runDet,
    runDetIO,
    runDetSeeded,
    runDetIOSeeded,
    io,
    ioLazy,
    Closed (..),
    leftmost,
  )
where

import Control.DeepSeq (NFData, rnf)
import Heddle.Prim.Atomic (Ref, Words, newRef, newWords, readRef, writeRef, writeWord)
import Heddle.Prim.Exception (BlockedIndefinitelyOnMVar (..), BlockedIndefinitelyOnSTM (..), Exception (..), SomeException, bug, evaluate, throwIO, throwTo)
import Heddle.Prim.Thread (myThreadId)
import Heddle.Prim.Unsafe (unsafePure)
import Heddle.Rendezvous.Internal.Channel (throwIn)
import Heddle.Rendezvous.Internal.Ends (World (..))
import Heddle.Rendezvous.Internal.Exception (BlockedInIO (..), Uncaught (..))
import Heddle.Rendezvous.Internal.Report (findDeadlock)
import Heddle.Rendezvous.Internal.Types
import Heddle.Sched
  ( Body,
    Cell,
    Kind (..),
    OnFailure (..),
    Outcome (..),
    Result (..),
    failureThrown,
    openBranches,
    readCell,
    runBody,
    runningTask,
    tryTask,
  )
import System.Exit (ExitCode)

-- | The result of a computation, the same on every schedule and any number of cores.
--
-- [Cost]: about 1.5 microseconds and 1 KB; some tens of microseconds from a thread that is
-- bound to one of the system's, as a program's main thread is ('Heddle.Prim.Thread.unbound').
-- [Throws]: when evaluated: 'Uncaught', or 'Heddle.Rendezvous.Deadlock'; an 'ExitCode' as it is.
-- [Masking]: an asynchronous exception to the evaluating thread cancels every branch, and
-- is thrown when they have ended; a later evaluation of the value starts it again. What a
-- branch throws is its own failure, whatever the type, and what is thrown at the evaluating
-- thread never is.
runDet :: (forall s. Det s a) -> a
runDet m = unsafePure (purely Nothing m)

-- | 'runDet' on a random schedule, for tests: which branch goes on, in which order others
-- are resumed, and when, depends on the seed (and the number of cores).
runDetSeeded :: Int -> (forall s. Det s a) -> a
runDetSeeded seed m = unsafePure (purely (Just seed) m)

purely :: Maybe Int -> Det s a -> IO a
purely seed m =
  runWith seed m >>= \case
    Right a -> pure a
    -- Thrown at ourselves, not from here, so that the value is not that exception for ever.
    Left e -> myThreadId >>= (`throwTo` e) >> purely seed m

-- | A computation one of whose branches at a time has effects, which so have one order.
--
-- [Cost]: as 'runDet'.
-- [Blocks]: parks while all branches that are left run on other workers.
-- [Masking]: interruptible; an asynchronous exception cancels every branch, waits for their
-- end, and is thrown again, as with 'runDet'. Effects run unmasked.
-- [Throws]: 'Uncaught', 'Heddle.Rendezvous.Deadlock'; an 'ExitCode' as it is, so that
-- 'System.Exit.exitWith' in a branch ends the program with its code.
runDetIO :: (forall s. World s -> Det s a) -> IO a
runDetIO m = runWith Nothing (m World) >>= either throwIO pure

-- | 'runDetIO' on a random schedule.
runDetIOSeeded :: Int -> (forall s. World s -> Det s a) -> IO a
runDetIOSeeded seed m = runWith (Just seed) (m World) >>= either throwIO pure

-- | An effect. What it throws, 'tryDet' catches, whatever its type.
--
-- The result is evaluated completely as part of the action. So input that is read lazily, as by
-- 'getContents', is read here, in its place in the order of effects, and not by the branch
-- that first uses it.
--
-- [Cost]: that of the action, and 'rnf' of its result.
-- [Blocks]: as the action does; other branches go on, on other workers.
-- [Throws]: 'BlockedInIO', if the action can never return.
io :: NFData a => World s -> IO a -> Det s a
io world action = ioLazy world (action >>= \a -> a <$ evaluate (rnf a))
{-# INLINE io #-}

-- | 'io' for a result that is left as it is, such as a handle, whose type has no 'NFData'.
-- If evaluating it has effects, those have no place in the order of effects.
--
-- [Cost]: that of the action.
-- [Blocks]: as the action does; other branches go on, on other workers.
-- [Throws]: 'BlockedInIO', if the action can never return.
ioLazy :: World s -> IO a -> Det s a
ioLazy World action =
  det $ \branch worker continue ->
    tryTask worker action >>= \case
      Right a -> continue worker a
      Left e -> throwIn branch worker (Failure (branchPath branch) False (blockedIn branch e))

-- | 'BlockedInIO' for the runtime's exception of an effect that can never return; others as they are.
blockedIn :: Branch -> SomeException -> SomeException
blockedIn b e = case (fromException e, fromException e) of
  (Just BlockedIndefinitelyOnMVar, _) -> toException (BlockedInIO (branchPath b))
  (_, Just BlockedIndefinitelyOnSTM) -> toException (BlockedInIO (branchPath b))
  _ -> e

-- | 'Left' is an exception that was thrown at the caller.
runWith :: Maybe Int -> Det s a -> IO (Either SomeException a)
runWith seed m = do
  chaos <- traverse seedWords seed
  top <- newRef Nothing
  runBody GoOn (outermost "main" chaos top m) >>= \case
    Done (Right a) -> pure (Right a)
    Done (Left f) -> uncaught (failurePath f) (failureException f)
    Thrown e -> uncaught "main" e
    Stalled -> readRef top >>= maybe (bug "a run without a branch") findDeadlock >>= throwIO
    Interrupted e -> pure (Left e)
  where
    -- Not wrapped: the runtime ends the program with its code only if it sees an ExitCode.
    uncaught path e = case fromException e of
      Just code -> throwIO (code :: ExitCode)
      Nothing -> throwIO (Uncaught path e)
    seedWords n = do
      ws <- newWords 1
      ws <$ writeWord ws 0 (n * 0x2545f4914f6cdd1d)

-- | Run as a branch that is in no frame, and store it where a report can find it.
outermost :: String -> Maybe Words -> Ref (Maybe Branch) -> Det s a -> Body (Either Failure a)
outermost name chaos top m worker continue = do
  task <- runningTask worker
  doing <- newRef (Active 0)
  let branch = Top task name doing chaos (\thrower f -> continue thrower (Left f))
  writeRef top (Just branch)
  unDet m branch worker (\final a -> continue final (Right a))

-- Searching ------------------------------------------------------------------

-- | A computation that uses no channel from outside, so that it can be cancelled without
-- anybody noticing.
newtype Closed a = Closed (forall s. Det s a)

-- | Search in parallel, answer as a sequential search would: the result of the leftmost
-- computation that has one, unless one further left throws, or can never end, which then
-- counts. What lies to the right of it is cancelled.
--
-- [Cost]: a scope (64 bytes a capability, and 400) for each.
-- [Blocks]: the branch, not the worker.
-- [Throws]: what that computation throws. If it can never end, a 'Heddle.Rendezvous.Deadlock', which ends the run inside
-- 'Uncaught' and, like an exception of pure code, is not caught by 'tryDet', neither here nor round a 'par' that this
-- branch belongs to.
leftmost :: [Closed (Maybe a)] -> Det s (Maybe a)
leftmost searches = det $ \branch worker continue -> do
  tops <- mapM (const (newRef Nothing)) searches
  let parts = zipWith (part branch) [0 ..] (zip tops searches)
  openBranches ClosedScope parts worker $ \after cells ->
    collect branch (zip3 [0 ..] tops cells) after (\final -> either (throwIn branch final) (continue final))
  where
    part branch number (top, Closed m) worker continue =
      outermost (named branch number) (branchChaos branch) top m worker (\final r -> continue final (found r))
    found = \case
      Right Nothing -> Nothing
      Right (Just a) -> Just (Right a)
      Left f -> Just (Left f)

-- | The result of a search, from the searches' numbers, branches and outcomes, when all that count
-- have ended.
collect :: Branch -> [(Int, Ref (Maybe Branch), Cell (Outcome (Maybe (Either Failure a))))] -> Body (Either Failure (Maybe a))
collect _ [] worker continue = continue worker (Right Nothing)
collect branch ((number, top, cell) : others) worker continue =
  readCell cell worker $ \after -> \case
    Ended Nothing -> collect branch others after continue
    Ended (Just (Right hit)) -> afterOthers others after (\final -> continue final (Right (Just hit)))
    Ended (Just (Left f)) -> afterOthers others after (\final -> continue final (Left f))
    Broken e -> afterOthers others after (\final -> continue final (Left (crash (failureThrown e))))
    Stuck -> afterOthers others after $ \final -> do
      deadlock <- readRef top >>= maybe (bug "a search without a branch") findDeadlock
      continue final (Left (crash (toException deadlock)))
  where
    crash = Failure (named branch number) True
    afterOthers [] w ended = ended w
    afterOthers ((_, _, other) : more) w ended = readCell other w (\after _ -> afterOthers more after ended)

named :: Branch -> Int -> String
named branch number = branchPath branch ++ "/leftmost[" ++ show number ++ "]"
