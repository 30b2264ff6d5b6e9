{-# LANGUAGE ExistentialQuantification #-}
{-# LANGUAGE RankNTypes #-}

-- |
-- Module      : Heddle.MPI.Internal.Steps
-- Description : Sequences of operations that another thread can continue
-- Stability   : internal, exempt from the version policy
--
-- Heddle's own collectives consist of several operations, with code of the program between them, and a
-- rank must not stop part-way. Written as steps, such a sequence runs on the thread that calls it, and
-- whoever runs it can stop where it waits or evaluates, and hand the remaining steps to another thread.
--
-- Invariant: only 'waiting' and 'computing' can be interrupted. All other code runs masked and does not
-- block, so an interruption always leaves a 'Step' from which the sequence continues.
-- Cost: a closure for each step; an operation that is complete at once makes no 'Step'.
-- Owner: one thread at a time.
module Heddle.MPI.Internal.Steps
  ( -- * Sequences
    Steps,
    performing,
    phased,
    waiting,
    computing,

    -- * Running them
    performSteps,
    performStepsOr,
  )
where

import Control.Monad.IO.Class (MonadIO (..))
import Heddle.MPI.Internal.Foreign (Outcome)
import Heddle.MPI.Internal.Operation
import Heddle.MPI.Internal.Request
import Heddle.Prim.Exception

-- | A sequence of operations and of code between them, with its result. An action that is lifted runs
-- masked, must not block, and must not evaluate what the program gave: 'computing' is for that.
newtype Steps a = Steps (forall r. (a -> IO (Step r)) -> IO (Step r))

-- | A sequence as far as it has run: complete, or with the interruptible action that comes next.
data Step r
  = Done r
  | -- | Wait for an operation.
    forall x. Waiting !(Under x) (x -> IO (Step r))
  | -- | Evaluate something; again from the beginning, if it is interrupted.
    forall x. Computing (IO x) (x -> IO (Step r))

instance Functor Steps where
  fmap f (Steps m) = Steps (\k -> m (k . f))
  {-# INLINE fmap #-}

instance Applicative Steps where
  pure a = Steps (\k -> k a)
  {-# INLINE pure #-}
  Steps mf <*> Steps ma = Steps (\k -> mf (\f -> ma (k . f)))
  {-# INLINE (<*>) #-}

instance Monad Steps where
  Steps m >>= f = Steps (\k -> m (\a -> case f a of Steps n -> n k))
  {-# INLINE (>>=) #-}

instance MonadIO Steps where
  liftIO action = Steps (action >>=)
  {-# INLINE liftIO #-}

-- | Perform an operation.
performing :: Start -> (Outcome -> IO (Next a)) -> Steps a
performing start rest = phased (pure (Then start rest))
{-# INLINE performing #-}

-- | Run operations in sequence; their continuations may run on the engine's thread.
phased :: IO (Next a) -> Steps a
phased first = Steps (\k -> phases first >>= either (\under -> pure (Waiting under k)) k)
{-# INLINE phased #-}

-- | Wait for an operation that has been started.
waiting :: Request a -> Steps a
waiting (Request under f) = Steps (\k -> pure (Waiting under (k . f)))

-- | Run an action that evaluates the program's values. If it is interrupted it is run again, so it must
-- have no effect but to fill memory of its own.
computing :: IO a -> Steps a
computing action = Steps (pure . Computing action)

-- | Run all steps. The caller must be a thread that nothing interrupts.
--
-- [Blocks]: parks the thread.
-- [Throws]: what a step throws.
performSteps :: Steps a -> IO a
performSteps (Steps m) = mask (\restore -> m (pure . Done) >>= finish restore)

finish :: (forall x. IO x -> IO x) -> Step a -> IO a
finish restore = \case
  Done a -> pure a
  Waiting under k -> restore (waitFor under) >>= k >>= finish restore
  Computing action k -> restore action >>= k >>= finish restore

-- | Run the steps until they are complete or have failed, or an exception from another thread interrupts
-- them. The first action gets the remaining steps in the latter case; then the exception is thrown. The
-- second one gets a step's exception.
--
-- [Blocks]: parks the thread.
-- [Masking]: call it masked, with the way to restore the state before. Interruptible where it waits or
-- evaluates.
performStepsOr :: (forall x. IO x -> IO x) -> (IO a -> IO ()) -> (SomeException -> IO a) -> Steps a -> IO a
performStepsOr restore abandon failed (Steps m) = go (m (pure . Done))
  where
    go steps =
      try steps >>= \case
        Left e -> failed e
        Right (Done a) -> pure a
        Right step@(Waiting under k) ->
          try (restore (waitFor under)) >>= \case
            Right x -> go (k x)
            Left e ->
              stageOf under >>= \case
                Failing _ | not (isAsynchronous e) -> failed e
                _ -> abandon (mask (`finish` step)) >> throwIO e
        Right step@(Computing action k) ->
          try (restore action) >>= \case
            Right x -> go (k x)
            Left e
              | isAsynchronous e -> abandon (mask (`finish` step)) >> throwIO e
              | otherwise -> failed e
{-# INLINE performStepsOr #-}
