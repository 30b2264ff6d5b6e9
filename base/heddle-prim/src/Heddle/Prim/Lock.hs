-- See Note [No safe point] in "Heddle.Sched.Pool".
{-# OPTIONS_GHC -O2 #-}

-- |
-- Module      : Heddle.Prim.Lock
-- Description : A lock for short, rare critical sections
-- Stability   : stable
--
-- For operations that happen once for each connection or less; never on the path of a request.
--
-- Cost: about 30 ns uncontended.
-- Owner: the thread that holds it; waiting threads are served in order.
module Heddle.Prim.Lock
  ( Lock,
    newLock,
    withLock,
    releaseLock,
  )
where

import Control.Concurrent.MVar (MVar, newMVar, tryPutMVar, withMVarMasked)
import Control.Monad (void)

-- | A fair lock.
newtype Lock = Lock (MVar ())

-- | A lock that no thread holds.
newLock :: IO Lock
newLock = Lock <$> newMVar ()

-- | Run with the lock held, asynchronous exceptions masked.
--
-- [Blocks]: parks until the lock is free.
-- [Masking]: the body runs masked and must be short; waiting is interruptible.
withLock :: Lock -> IO a -> IO a
withLock (Lock m) body = withMVarMasked m (\() -> body)

-- | Release a lock whose holder no longer exists, as in a forked process. A lock that no thread holds stays as it is.
--
-- [Blocks]: never.
releaseLock :: Lock -> IO ()
releaseLock (Lock m) = void (tryPutMVar m ())
