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

import Control.Monad (forM_, unless, when)
import Heddle.Par.Internal.Cancel (indexWord, interruptWhere, runningWord, settle)
import Heddle.Par.Internal.Monad (IVar (..), Par (..), get, par)
import Heddle.Par.Internal.Pool
import Heddle.Par.Internal.Ready (pushWork, resume)
import Heddle.Par.Internal.Scope
import Heddle.Par.Internal.Types
import Heddle.Par.Internal.Workers (abort, assign, hire)
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
  ( SomeException,
    mask_,
    throwIO,
    try,
    uninterruptibleMask_,
    unsafeMask,
  )
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
          interruptWhere (workerPool w') (workerId w') isThere
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

-- | Run on whatever workers are free, one of which does this run's work only. The caller
-- waits, and so knows what is thrown at it; see Note [Whose exception] in
-- "Heddle.Par.Internal.Pool".
--
-- [Cost]: 0.5 microseconds and 0.5 KB from a thread of the runtime; some tens of microseconds
-- from one bound to a thread of the system, as a program's main thread is.
-- [Masking]: interruptible unless uninterruptibly masked; tasks run unmasked all the same.
runAs :: Bool -> Par s a -> IO (Result a)
runAs cuts (Par p) = mask_ $ do
  w <- hire
  cell <- newRef Nothing
  caller <- newWaitCell
  done <- newRef False
  s <- newScope w Nothing True cuts (\_ last' -> unless (workerId last' == workerId w) (unpark (workerCell w)))
  let root = RootTask {_taskParent = root, taskIndex = 0, taskHome = s}
      wait = readRef done >>= \over -> unless over (park caller >> wait)
      result =
        outcome s cell >>= \case
          Ended a -> pure (Done a)
          Broken f -> pure (Thrown (failureException f))
          Stuck -> pure Stalled
  assign w caller $
    Errand (Only s) (Work root 0 (\w' () -> p w' (endRoot cell)) ()) (writeRef done True >> unpark caller)
  try wait >>= \case
    Right () -> result
    -- What is thrown now, too, waits until the run has ended.
    Left e -> uninterruptibleMask_ (abort w s >> wait) >> pure (Interrupted e)
