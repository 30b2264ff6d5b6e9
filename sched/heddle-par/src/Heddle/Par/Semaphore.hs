-- Everything is in IO.
{-# LANGUAGE Trustworthy #-}

-- |
-- Module      : Heddle.Par.Semaphore
-- Description : Semaphores that never wait
-- Stability   : stable
--
-- A number of units that a task takes if one is left, and does without otherwise: the way to
-- fork only as long as cores are free. Use 'Semaphore'; the two of the book keep its names and
-- its representation, so that its programs and measurements can be repeated.
--
-- Cost: one locked instruction to take, one to give back.
-- Owner: its maker; any thread may use it.
module Heddle.Par.Semaphore
  ( -- * By fetch-and-add
    Semaphore,
    newSemaphore,
    tryAcquire,
    release,
    available,
    withUnit,

    -- * By an MVar

    -- | @findpar2@: every user waits for every other.
    NBSem,
    newNBSem,
    tryAcquireNBSem,
    releaseNBSem,

    -- * By an atomically modified reference

    -- | @findpar3@: a compare-and-set, retried under contention.
    AtomicNBSem,
    newAtomicNBSem,
    tryWaitNBSem,
    signalNBSem,
  )
where

import Control.Monad (void)
import Heddle.Prim.Atomic (Ref, Words, atomicRead, fetchAdd, modifyRef, newRef, newWords, readRef, writeRef, writeWord)
import Heddle.Prim.Exception (finally, mask)
import Heddle.Prim.Lock (Lock, newLock, withLock)

-- | Units that can be taken without waiting.
newtype Semaphore = Semaphore Words

-- | A semaphore with the given number of units.
--
-- [Cost]: 32 bytes.
newSemaphore :: Int -> IO Semaphore
newSemaphore n = do
  w <- newWords 1
  writeWord w 0 n
  pure (Semaphore w)

-- | Take a unit, if there is one. It never gives more units than there are. While another thread
-- that found none backs out, it may find none although one was just given back.
--
-- [Cost]: one read if there is none, else one locked instruction.
-- [Blocks]: never.
-- [Source]: PCPH, chapter 13, @tryAcquireNBSem@.
tryAcquire :: Semaphore -> IO Bool
tryAcquire (Semaphore w) = do
  left <- atomicRead w 0
  if left <= 0
    then pure False
    else do
      before <- fetchAdd w 0 (-1)
      if before > 0
        then pure True
        else fetchAdd w 0 1 >> pure False
{-# INLINE tryAcquire #-}

-- | Give a unit back.
--
-- [Cost]: one locked instruction.
-- [Blocks]: never.
release :: Semaphore -> IO ()
release (Semaphore w) = void (fetchAdd w 0 1)
{-# INLINE release #-}

-- | How many units there are now.
--
-- [Cost]: one read.
available :: Semaphore -> IO Int
available (Semaphore w) = max 0 <$> atomicRead w 0

-- | Run the first action with a unit, which is given back on every path, or the second
-- without.
--
-- [Cost]: as 'tryAcquire' and 'release'.
-- [Masking]: taking the unit is masked, the actions run as the caller does.
withUnit :: Semaphore -> IO a -> IO a -> IO a
withUnit s with without = mask $ \restore -> do
  taken <- tryAcquire s
  if taken then restore with `finally` release s else restore without

-- | The semaphore of @findpar2@.
data NBSem = NBSem !Lock !(Ref Int)

-- | A semaphore with the given number of units.
newNBSem :: Int -> IO NBSem
newNBSem i = NBSem <$> newLock <*> newRef i

-- | Take a unit, if there is one.
--
-- [Blocks]: while another thread uses the semaphore.
tryAcquireNBSem :: NBSem -> IO Bool
tryAcquireNBSem (NBSem lock units) = withLock lock $ do
  i <- readRef units
  if i == 0 then pure False else writeRef units (i - 1) >> pure True

-- | Give a unit back.
--
-- [Blocks]: while another thread uses the semaphore.
releaseNBSem :: NBSem -> IO ()
releaseNBSem (NBSem lock units) = withLock lock (readRef units >>= \i -> writeRef units (i + 1))

-- | The semaphore of @findpar3@.
newtype AtomicNBSem = AtomicNBSem (Ref Int)

-- | A semaphore with the given number of units.
newAtomicNBSem :: Int -> IO AtomicNBSem
newAtomicNBSem i = AtomicNBSem <$> newRef i

-- | Take a unit, if there is one.
--
-- [Blocks]: never.
tryWaitNBSem :: AtomicNBSem -> IO Bool
tryWaitNBSem (AtomicNBSem r) = modifyRef r (\i -> if i == 0 then (i, False) else (i - 1, True))

-- | Give a unit back.
--
-- [Blocks]: never.
signalNBSem :: AtomicNBSem -> IO ()
signalNBSem (AtomicNBSem r) = modifyRef r (\i -> (i + 1, ()))
