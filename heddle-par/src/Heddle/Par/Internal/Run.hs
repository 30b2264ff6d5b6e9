-- |
-- Module      : Heddle.Par.Internal.Run
-- Description : Scopes and runs
-- Stability   : internal
--
-- What begins and ends a set of tasks, for Par and ParIO.
--
-- Cost: as said at each.
-- Owner: a run owns its tasks; when it returns, none is left.
module Heddle.Par.Internal.Run
  ( -- * Scopes
    Kind (..),
    scoped,
    failWith,
    leftmostOf,
    branchesOf,

    -- * Runs
    Result (..),
    runAs,
  )
where

import Control.Monad (forM_, when)
import Heddle.Par.Internal.Cancel (indexWord, interruptWhere, runningWord, settle)
import Heddle.Par.Internal.Monad (IVar (..), Par (..), get, par)
import Heddle.Par.Internal.Pool
import Heddle.Par.Internal.Ready (pushWork, resume)
import Heddle.Par.Internal.Scope
import Heddle.Par.Internal.Types
import Heddle.Prim.Atomic
  ( Ref,
    atomicWrite,
    modifyRef,
    newRef,
    readRef,
    readWord,
    writeRef,
    writeWord,
  )
import Heddle.Prim.Exception
  ( MaskingState (..),
    SomeException,
    getMaskingState,
    mask_,
    throwIO,
    throwTo,
    try,
    uninterruptibleMask_,
    unsafeMask,
  )
import Heddle.Prim.Thread (forkMasked, labelMe)
import Heddle.Prim.WaitCell (newWaitCell, park, unpark)

-- Scopes ---------------------------------------------------------------------

-- | Can tasks of the scope wait for IVars from outside it?
data Kind = Closed' | Open'

-- | Run a part as a scope of its own, which ends when all its tasks have.
scoped :: Kind -> Par s a -> Par s (Scope, Outcome a)
scoped kind (Par p) = par $ \w k -> do
  cell <- newRef Nothing
  unsafeMask $ do
    t <- readRef (workerTask w)
    i <- readWord (workerWords w) indexWord
    let parent = taskScope t
        whenQuiet s w' = do
          out <- outcome s cell
          resume w' (Work t (i + 1) k (s, out))
    s <- newScope w (Just parent) (isClosed kind) (scopeCuts parent) whenQuiet
    countParked parent w
    countDown parent w
    atomicWrite (workerWords w) runningWord 0
    settle w
    start w (Work (RootTask t i s) 0 (\w' () -> p w' (endRoot cell)) ())

isClosed :: Kind -> Bool
isClosed = \case
  Closed' -> True
  Open' -> False

endRoot :: Ref (Maybe a) -> Worker -> a -> IO ()
endRoot cell w a = unsafeMask $ do
  writeWord (workerWords w) runningWord 0
  writeRef cell (Just a)
  s <- taskScope <$> readRef (workerTask w)
  next w s

-- | Fail with what a scope inside failed with.
failWith :: Failure -> Par s a
failWith f = par (\w _ -> failHere w f)

-- | The result of the leftmost computation that has one, or the failure of the leftmost
-- that fails, whichever is further left. What is right of it is cancelled.
leftmostOf :: Kind -> [Par s (Maybe a)] -> Par s (Maybe a)
leftmostOf kind branches = branchesOf kind branches >>= collect
  where
    collect [] = pure Nothing
    collect (v : vs) =
      get v >>= \case
        Ended Nothing -> collect vs
        Ended hit -> mapM_ get vs >> pure hit
        Broken f -> mapM_ get vs >> failWith f
        Stuck -> mapM_ get vs >> par (\_ _ -> throwIO Deadlock)

-- | Begin them all, each a scope of its own. As soon as one has a result or fails, those to
-- the right of it are cancelled, and perhaps not begun.
branchesOf :: Kind -> [Par s (Maybe a)] -> Par s [IVar s (Outcome (Maybe a))]
branchesOf kind branches = do
  decided <- par (\w k -> newRef maxBound >>= k w)
  started <- par (\w k -> newRef [] >>= k w)
  let open _ [] = pure []
      open j (p : ps) = do
        limit <- par (\w k -> readRef decided >>= k w)
        if limit < j
          then pure []
          else do
            v <- openBranch kind decided started j p
            (v :) <$> open (j + 1) ps
  open (0 :: Int) branches

openBranch :: Kind -> Ref Int -> Ref [(Int, Scope)] -> Int -> Par s (Maybe a) -> Par s (IVar s (Outcome (Maybe a)))
openBranch kind decided started j (Par p) = par $ \w k -> do
  cell <- newRef Nothing
  out <- newRef Empty
  unsafeMask $ do
    t <- readRef (workerTask w)
    i <- readWord (workerWords w) indexWord
    let parent = taskScope t
        whenQuiet s w' = do
          o <- outcome s cell
          case o of
            Ended Nothing -> pure ()
            _ -> decide w'
          fill out (Full o) >>= \case
            Wakes ws -> wake w' o ws
            _ -> pure ()
        decide w' = do
          modifyRef decided (\limit -> (min limit j, ()))
          others <- readRef started
          let right = [s | (j', s) <- others, j' > j]
              isThere t' = any (`isWithin` taskScope t') right
          forM_ right markCancelled
          interruptWhere w' isThere
          forM_ right (checkQuiet w')
    s <- newScope w (Just parent) (isClosed kind) (scopeCuts parent) whenQuiet
    modifyRef started (\others -> ((j, s) : others, ()))
    limit <- readRef decided
    when (limit < j) (markCancelled s)
    pushWork w (Work t (i + 1) k (IVar out))
    atomicWrite (workerWords w) runningWord 0
    settle w
    -- Forced in the task: who ends the scope looks at it, masked and between tasks.
    start w (Work (RootTask t i s) 0 (\w' () -> p w' (\w'' !a -> endRoot cell w'' a)) ())

isWithin :: Scope -> Scope -> Bool
isWithin s inner = scopeId s == scopeId inner || maybe False (isWithin s) (scopeAround inner)

-- Runs -----------------------------------------------------------------------

-- | How a run ended.
data Result a
  = Done a
  | -- | Every task has ended or waits.
    Stalled
  | Thrown SomeException
  | -- | Somebody threw this at the caller; the run was cancelled and has ended.
    Interrupted SomeException

-- | Run on the calling thread and on whatever workers are free.
--
-- [Cost]: 1 microsecond and 0.5 KB.
-- [Masking]: interruptible; tasks run unmasked all the same.
runAs :: Bool -> Par s a -> IO (Result a)
runAs cuts p =
  getMaskingState >>= \case
    Unmasked -> mask_ (runMasked cuts p)
    _ -> runElsewhere cuts p

runMasked :: Bool -> Par s a -> IO (Result a)
runMasked cuts (Par p) = do
  w <- acquire
  cell <- newRef Nothing
  s <- newScope w Nothing True cuts (\_ _ -> unpark (workerGuestCell w))
  writeRef (workerHome w) (Only s)
  let root = RootTask {_taskParent = root, taskIndex = 0, taskHome = s}
  driver w (start w (Work root 0 (\w' () -> p w' (endRoot cell)) ()))
  pending <- readRef (workerPending w)
  out <- outcome s cell
  release w
  pure $ case (pending, out) of
    (Just e, _) -> Interrupted e
    (Nothing, Ended a) -> Done a
    (Nothing, Broken f) -> Thrown (failureException f)
    (Nothing, Stuck) -> Stalled

-- | The caller is masked and must not be interrupted inside its own code: a thread of its
-- own runs, and the caller waits in its own masking state.
runElsewhere :: Bool -> Par s a -> IO (Result a)
runElsewhere cuts p = do
  cell <- newWaitCell
  result <- newRef Nothing
  -- The thread inherits our state, and must be interruptible where it parks.
  thread <- forkMasked $ \_ -> unsafeMask $ do
    labelMe "par/run"
    r <- try (runMasked cuts p)
    writeRef result (Just r)
    unpark cell
  let wait = readRef result >>= maybe (park cell >> wait) pure
  try wait >>= \case
    Right (Right r) -> pure r
    Right (Left e) -> pure (Thrown e)
    Left e -> do
      uninterruptibleMask_ (throwTo thread (Interrupt (-1)) >> wait) >>= \case
        _ -> pure (Interrupted e)
