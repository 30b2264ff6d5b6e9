-- |
-- Module      : Heddle.IO.Internal.TicketLock
-- Description : A fair lock for each direction of a registration
-- Stability   : internal, exempt from the version policy
--
-- A registration has one wait cell and one deadline in each direction, and a readiness edge
-- wakes one thread. So of the threads that read (or write) one descriptor, only one at a time
-- may wait there: the holder of the direction's lock, from its first attempt to its last. The
-- others wait for the lock, each until its own deadline, and are served in the order of their
-- arrival. No edge is lost among them, and what one call sends is not interleaved with
-- another's.
--
-- Protocol: see Note [Ticket locks].
-- Cost: two compare-and-sets without competition, about 10 ns; nothing allocated.
-- Owner: the thread that holds the lock.
module Heddle.IO.Internal.TicketLock
  ( lockDirection,
    unlockDirection,
    withDirection,
    attemptLocked,
  )
where

import Control.Monad (when)
import Data.Bits (shiftL, (.|.))
import Data.IntMap.Strict qualified as IntMap
import Heddle.IO.Internal.Manager (revive)
import Heddle.IO.Internal.PooledTimer (withCellOn)
import Heddle.IO.Internal.Registration
import Heddle.IO.Internal.Types
import Heddle.IO.WaitQueue
import Heddle.Prim.Atomic
import Heddle.Prim.Clock (Deadline)
import Heddle.Prim.Exception (mask_, onException)
import System.Posix.Types (Fd)

-- | Wait for a direction's lock; 'False' when the deadline passed first. The caller is masked,
-- and calls 'unlockDirection' if it got the lock.
--
-- [Cost]: one compare-and-set if the lock is free.
-- [Blocks]: parks.
-- [Masking]: interruptible while parked.
lockDirection :: Registration -> Interest -> Deadline -> IO Bool
lockDirection registration interest deadline = do
  free <- compareAndSet (registrationWords registration) (lockWordOf interest) 0 1
  if free then pure True else queueUp registration interest deadline
{-# INLINE lockDirection #-}

-- | Release the lock, to the thread that has waited longest.
--
-- [Cost]: one compare-and-set if no thread waits.
-- [Blocks]: never.
unlockDirection :: Registration -> Interest -> IO ()
unlockDirection registration interest = do
  alone <- compareAndSet (registrationWords registration) (lockWordOf interest) 1 0
  if alone then pure () else handOn registration interest
{-# INLINE unlockDirection #-}

-- | @withDirection registration interest deadline late first finish rest@ holds the
-- lock while it makes a first step, which must not park, and ends if @finish@ turns that
-- step's answer into a result; otherwise it goes on with @rest@, which may park. @late@ is
-- the answer if the deadline passes before the lock is free.
--
-- [Blocks]: parks.
-- [Masking]: all steps run masked; interruptible while parked.
withDirection :: Registration -> Interest -> Deadline -> IO r -> IO Int -> (Int -> Maybe r) -> (Int -> IO r) -> IO r
withDirection registration interest deadline late first finish rest = mask_ $ do
  entered <- lockDirection registration interest deadline
  if not entered
    then late
    else do
      n <- first
      case finish n of
        Just r -> r <$ unlockDirection registration interest
        Nothing -> do
          r <- rest n `onException` unlockDirection registration interest
          r <$ unlockDirection registration interest
{-# INLINE withDirection #-}

-- | 'attempt' under the direction's lock.
--
-- [Cost]: that of 'attempt', and about 10 ns.
-- [Blocks]: parks.
-- [Masking]: interruptible while parked.
-- [Threads]: any number.
attemptLocked :: Registration -> Interest -> Deadline -> (Fd -> IO Int) -> IO Int
attemptLocked registration interest deadline call =
  withDirection registration interest deadline (pure TimedOutCode) (tryOnce registration interest call) (\n -> if n > 0 then Just n else Nothing) (retryUntil registration interest deadline call)
{-# INLINE attemptLocked #-}

-- 0: free; 1: held; 2: held, and other threads may wait.
lockWordOf :: Interest -> Int
lockWordOf = \case
  Readable -> RegistrationReadLock
  Writable -> RegistrationWriteLock
{-# INLINE lockWordOf #-}

-- The key of a direction's queue in the manager. The stamp distinguishes the registrations that
-- use one index in turn.
keyOf :: Registration -> Interest -> Int
keyOf registration interest = (registrationStamp registration `shiftL` 33) .|. (registrationIndex registration `shiftL` 1) .|. (case interest of Readable -> 0; Writable -> 1)

queueUp :: Registration -> Interest -> Deadline -> IO Bool
queueUp registration interest deadline = do
  -- The holder may be a thread of the process that forked this one.
  revive m
  withCellOn m deadline $ \cell -> do
    w <- newWaiter cell
    ticket <- modifyRef (managerLockQueues m) $ \queues ->
      let (queue, number) = enqueue w (IntMap.findWithDefault emptyQueue key queues)
       in (IntMap.insert key queue queues, number)
    mine <- claim registration interest
    if mine
      then True <$ leaveQueue ticket
      else (/= Nothing) <$> awaitHandOff w deadline (leaveQueue ticket) (\() -> unlockDirection registration interest)
  where
    m = registrationManager registration
    key = keyOf registration interest
    leaveQueue ticket = modifyRef (managerLockQueues m) $ \queues ->
      case IntMap.lookup key queues >>= withdraw ticket of
        Just queue -> (putQueue key queue queues, True)
        Nothing -> (queues, False)
{-# NOINLINE queueUp #-}

putQueue :: Int -> Queue a -> IntMap.IntMap (Queue a) -> IntMap.IntMap (Queue a)
putQueue key queue
  | isEmptyQueue queue = IntMap.delete key
  | otherwise = IntMap.insert key queue

-- Take a free lock ('True'), or make its holder check the queue.
claim :: Registration -> Interest -> IO Bool
claim registration interest = do
  now <- atomicRead ws at
  case now of
    0 -> compareAndSet ws at 0 2 >>= \won -> if won then pure True else claim registration interest
    1 -> compareAndSet ws at 1 2 >>= \won -> if won then pure False else claim registration interest
    _ -> pure False
  where
    ws = registrationWords registration
    at = lockWordOf interest

-- The holder's release, when others may wait.
handOn :: Registration -> Interest -> IO ()
handOn registration interest = do
  next <- modifyRef (managerLockQueues m) $ \queues ->
    case IntMap.lookup key queues >>= dequeue of
      Just (w, queue) -> (putQueue key queue queues, Just w)
      Nothing -> (queues, Nothing)
  case next of
    Just w -> handOff w ()
    Nothing -> do
      atomicWrite (registrationWords registration) (lockWordOf interest) 0
      -- A thread may have entered the queue between the check and the write.
      late <- IntMap.member key <$> readRef (managerLockQueues m)
      when late $ do
        mine <- claim registration interest
        when mine (handOn registration interest)
  where
    m = registrationManager registration
    key = keyOf registration interest
{-# NOINLINE handOn #-}

-- Note [Ticket locks]
-- ~~~~~~~~~~~~~~~~~~~
-- The word is 0 (free), 1 (held) or 2 (held; the holder must check the queue). A thread that
-- does not find 0 enters the queue first and then claims: it takes a free lock and leaves the
-- queue, from which only a holder takes waiters; or it sets the word to 2. A holder that finds 2
-- hands the lock to the first waiter, and the word stays 2. If the queue is empty, the holder
-- writes 0 and checks the queue once more. That check finds a thread that entered before it and
-- saw 2; a thread that enters later sees 0.
--
-- The manager keeps the queues, because most registrations never need one. That also keeps the
-- threads that wait here reachable for the garbage collector.
