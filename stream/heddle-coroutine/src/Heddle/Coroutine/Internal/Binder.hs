{-# LANGUAGE RankNTypes #-}

-- |
-- Module      : Heddle.Coroutine.Internal.Binder
-- Description : Two steps, one after the other or in parallel
-- Stability   : internal
--
-- The article uses the monad-parallel package for this: a function that runs two coroutines
-- together binds a step of each, possibly in parallel.
--
-- Cost: see each binder.
-- Owner: 'inParallel' owns a thread for the duration of two steps.
module Heddle.Coroutine.Internal.Binder
  ( Binder (..),
    sequentially,
    inParallel,
  )
where

import Heddle.Prim.Atomic (acquireFence, newRef, readRef, writeRef)
import Heddle.Prim.Exception
  ( AsyncException (..),
    SomeException,
    isAsynchronous,
    mask,
    throwIO,
    throwTo,
    try,
    uninterruptibleMask_,
  )
import Heddle.Prim.Thread (forkMasked, labelMe)
import Heddle.Prim.WaitCell (newWaitCell, park, unpark)

-- | Runs two actions, then a third with their results.
newtype Binder m = Binder {bindM2 :: forall a b c. (a -> b -> m c) -> m a -> m b -> m c}

-- | The left action, then the right one.
--
-- [Cost]: two binds.
sequentially :: Monad m => Binder m
sequentially = Binder (\f ma mb -> ma >>= \a -> mb >>= f a)
{-# INLINE sequentially #-}

-- | Both in parallel, the left action on a thread of its own. This pays for steps of at least
-- some tens of microseconds.
--
-- [Cost]: a thread: 0.4 microseconds on one core, 2 to 5 on two; 13 to 30 if the caller is the
-- main thread, which is bound ('Control.Concurrent.runInUnboundThread' helps).
-- [Blocks]: until both have ended.
-- [Throws]: what the left one throws; otherwise what the right one throws.
-- [Masking]: interruptible; an asynchronous exception first cancels the left one.
inParallel :: Binder IO
inParallel = Binder $ \f ma mb -> do
  (ea, eb) <- mask $ \restore -> do
    result <- newRef Nothing
    cell <- newWaitCell
    thread <- forkMasked $ \unmask -> do
      labelMe "coroutine/left"
      ea <- try (unmask ma)
      writeRef result (Just ea)
      unpark cell
    let -- The fence: also what the left action did.
        left = readRef result >>= maybe (park cell >> left) (<$ acquireFence)
        stop e = uninterruptibleMask_ (throwTo thread ThreadKilled >> left) >> throwIO (e :: SomeException)
    eb <- try (restore mb)
    case eb of
      Left e | isAsynchronous e -> stop e
      _ -> try left >>= either stop (\ea -> pure (ea, eb))
  a <- either (throwIO :: SomeException -> IO a) pure ea
  b <- either (throwIO :: SomeException -> IO b) pure eb
  f a b
