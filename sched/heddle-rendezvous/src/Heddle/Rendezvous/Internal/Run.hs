{-# LANGUAGE RankNTypes #-}

-- |
-- Module      : Heddle.Rendezvous.Internal.Run
-- Description : Runs, effects, searches
-- Stability   : internal
--
-- What begins and ends a computation, on the scheduler of heddle-sched.
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
-- is thrown when they have ended; whoever evaluates the value later starts it again. What a
-- branch throws is its own, whatever the type, and what is thrown at the evaluating thread
-- never is.
runDet :: (forall s. Det s a) -> a
runDet m = unsafePure (purely Nothing m)

-- | 'runDet' on a random schedule, for tests: which branch goes on, in which order others
-- are resumed, and when, is up to the seed (and the number of cores).
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
-- 'getContents', is read here, in its place in the order of effects, and not by whichever
-- branch comes to look at it.
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
  det $ \b w k ->
    tryTask w action >>= \case
      Right a -> k w a
      Left e -> throwIn b w (Failure (branchPath b) False (blockedIn b e))

-- | An effect that can never return, as the branch's own exception.
blockedIn :: Branch -> SomeException -> SomeException
blockedIn b e = case (fromException e, fromException e) of
  (Just BlockedIndefinitelyOnMVar, _) -> toException (BlockedInIO (branchPath b))
  (_, Just BlockedIndefinitelyOnSTM) -> toException (BlockedInIO (branchPath b))
  _ -> e

-- | 'Left' is what came from outside.
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
    -- The runtime ends the program with its code only if it comes as it is.
    uncaught path e = case fromException e of
      Just code -> throwIO (code :: ExitCode)
      Nothing -> throwIO (Uncaught path e)
    seedWords n = do
      ws <- newWords 1
      ws <$ writeWord ws 0 (n * 0x2545f4914f6cdd1d)

-- | Run as a branch that is in no frame, and leave it where a report can find it.
outermost :: String -> Maybe Words -> Ref (Maybe Branch) -> Det s a -> Body (Either Failure a)
outermost name chaos top m w k = do
  task <- runningTask w
  doing <- newRef (Active 0)
  let b = Top task name doing chaos (\w' f -> k w' (Left f))
  writeRef top (Just b)
  unDet m b w (\w' a -> k w' (Right a))

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
leftmost :: [Closed (Maybe a)] -> Det s (Maybe a)
leftmost searches = det $ \b w k -> do
  tops <- mapM (const (newRef Nothing)) searches
  let parts = zipWith (part b) [0 ..] (zip tops searches)
  openBranches ClosedScope parts w $ \w' cells ->
    collect b (zip3 [0 ..] tops cells) w' (\w'' -> either (throwIn b w'') (k w''))
  where
    part b j (top, Closed m) w k = outermost (named b j) (branchChaos b) top m w (\w' r -> k w' (found r))
    found = \case
      Right Nothing -> Nothing
      Right (Just a) -> Just (Right a)
      Left f -> Just (Left f)

-- | What a search by branches (number, branch, outcome) comes to, when all that count have ended.
collect :: Branch -> [(Int, Ref (Maybe Branch), Cell (Outcome (Maybe (Either Failure a))))] -> Body (Either Failure (Maybe a))
collect _ [] w k = k w (Right Nothing)
collect b ((j, top, cell) : others) w k =
  readCell cell w $ \w' -> \case
    Ended Nothing -> collect b others w' k
    Ended (Just (Right hit)) -> afterOthers others w' (\w'' -> k w'' (Right (Just hit)))
    Ended (Just (Left f)) -> afterOthers others w' (\w'' -> k w'' (Left f))
    Broken e -> afterOthers others w' (\w'' -> k w'' (Left (Failure (named b j) True (failureThrown e))))
    Stuck -> afterOthers others w' $ \w'' -> do
      d <- readRef top >>= maybe (bug "a search without a branch") findDeadlock
      k w'' (Left (Failure (named b j) True (toException d)))
  where
    afterOthers [] v continue = continue v
    afterOthers ((_, _, other) : more) v continue = readCell other v (\v' _ -> afterOthers more v' continue)

named :: Branch -> Int -> String
named b j = branchPath b ++ "/leftmost[" ++ show j ++ "]"
