{-# LANGUAGE RankNTypes #-}

-- |
-- Module      : Heddle.Coroutine.Internal.Binder
-- Description : Two steps, one after the other or at once
-- Stability   : internal
--
-- What the article takes from the monad-parallel package: whoever runs two coroutines
-- together binds a step of each, and may do so in parallel.
--
-- Cost: as said at each.
-- Owner: 'inParallel' has a thread for the length of two steps.
module Heddle.Coroutine.Internal.Binder
  ( Binder (..),
    sequentially,
    inParallel,
  )
where

import Heddle.Prim.Atomic (newRef, readRef, writeRef)
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

-- | Do two things, then a third with their results.
newtype Binder m = Binder {bindM2 :: forall a b c. (a -> b -> m c) -> m a -> m b -> m c}

-- | The left one, then the right one.
--
-- [Cost]: two binds.
sequentially :: Monad m => Binder m
sequentially = Binder (\f ma mb -> ma >>= \a -> mb >>= f a)
{-# INLINE sequentially #-}

-- | Both at once, the left one on a thread of its own. Worth while for steps of some tens of
-- microseconds.
--
-- [Cost]: a thread: 0.4 microseconds on one core, 2 to 5 on two; 13 to 30 where the caller
-- is the main thread, which is bound ('Control.Concurrent.runInUnboundThread' helps).
-- [Blocks]: until both have ended.
-- [Throws]: what the left one throws; else what the right one throws.
-- [Masking]: interruptible; an asynchronous exception ends the left one first.
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
    let left = readRef result >>= maybe (park cell >> left) pure
        stop e = uninterruptibleMask_ (throwTo thread ThreadKilled >> left) >> throwIO (e :: SomeException)
    eb <- try (restore mb)
    case eb of
      Left e | isAsynchronous e -> stop e
      _ -> try left >>= either stop (\ea -> pure (ea, eb))
  a <- either (throwIO :: SomeException -> IO a) pure ea
  b <- either (throwIO :: SomeException -> IO b) pure eb
  f a b
