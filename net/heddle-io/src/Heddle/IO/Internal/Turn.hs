-- |
-- Module      : Heddle.IO.Internal.Turn
-- Description : Threads take turns at a descriptor
-- Stability   : internal, exempt from the version policy
--
-- A slot has one wait cell and one deadline in each direction, and a readiness edge wakes
-- one thread. So of the threads that read (or write) one descriptor only one at a time may
-- wait there: it has the direction's turn, from its first attempt to its last. The others
-- wait for the turn, each by its own deadline, and try when they get it. No edge is lost
-- among them, and what one call sends is not interleaved with another's.
--
-- Protocol: see Note [Turns].
-- Cost: two compare-and-sets for a thread that is alone, about 10 ns; nothing allocated.
-- Owner: the thread that has entered.
module Heddle.IO.Internal.Turn
  ( enterTurn,
    leaveTurn,
    inTurn,
    attemptInTurn,
  )
where

import Control.Monad (when)
import Data.Bits (shiftL, (.|.))
import Data.IntMap.Strict qualified as IntMap
import Heddle.IO.Internal.Alarm (withCellUntil)
import Heddle.IO.Internal.Manager (revive)
import Heddle.IO.Internal.Queue
import Heddle.IO.Internal.Slot
import Heddle.IO.Internal.Types
import Heddle.IO.Internal.Wait
import Heddle.Prim.Atomic
import Heddle.Prim.Clock (Deadline)
import Heddle.Prim.Exception (mask_, onException)
import System.Posix.Types (Fd)

-- | Wait for the turn in a direction; 'False' when the deadline passed first. The caller is
-- masked, and leaves with 'leaveTurn' if it has entered.
--
-- [Cost]: one compare-and-set when nobody has it.
-- [Blocks]: parks.
-- [Masking]: interruptible while parked.
enterTurn :: Slot -> Interest -> Deadline -> IO Bool
enterTurn slot interest deadline = do
  free <- compareAndSet (slotWords slot) (turnOf interest) 0 1
  if free then pure True else queueUp slot interest deadline
{-# INLINE enterTurn #-}

-- | Leave, to the thread that has waited longest.
--
-- [Cost]: one compare-and-set when nobody waits.
-- [Blocks]: never.
leaveTurn :: Slot -> Interest -> IO ()
leaveTurn slot interest = do
  alone <- compareAndSet (slotWords slot) (turnOf interest) 1 0
  if alone then pure () else handOn slot interest
{-# INLINE leaveTurn #-}

-- | @inTurn slot interest deadline late first finish rest@: have the turn, make a first
-- step, which must not park, and finish with its answer if that is positive and @finish@
-- says how; else go on with @rest@, which may park. @late@ is the answer when the turn does
-- not come before the deadline.
--
-- [Blocks]: parks.
-- [Masking]: all steps run masked; interruptible while parked.
inTurn :: Slot -> Interest -> Deadline -> IO r -> IO Int -> (Int -> Maybe r) -> (Int -> IO r) -> IO r
inTurn slot interest deadline late first finish rest = mask_ $ do
  entered <- enterTurn slot interest deadline
  if not entered
    then late
    else do
      n <- first
      case finish n of
        Just r -> r <$ leaveTurn slot interest
        Nothing -> do
          r <- rest n `onException` leaveTurn slot interest
          r <$ leaveTurn slot interest
{-# INLINE inTurn #-}

-- | 'attempt' in the direction's turn.
--
-- [Cost]: that of 'attempt', and about 10 ns.
-- [Blocks]: parks.
-- [Masking]: interruptible while parked.
-- [Threads]: any number.
attemptInTurn :: Slot -> Interest -> Deadline -> (Fd -> IO Int) -> IO Int
attemptInTurn slot interest deadline call =
  inTurn slot interest deadline (pure TimedOutCode) (tryOnce slot interest call) (\n -> if n > 0 then Just n else Nothing) (goOn slot interest deadline call)
{-# INLINE attemptInTurn #-}

-- 0: nobody has the turn; 1: somebody; 2: somebody, and others may wait.
turnOf :: Interest -> Int
turnOf = \case
  Readable -> SlotReadTurn
  Writable -> SlotWriteTurn
{-# INLINE turnOf #-}

-- Which queue of the manager's it is. Stamps tell the slots of one index apart.
keyOf :: Slot -> Interest -> Int
keyOf slot interest = (slotStamp slot `shiftL` 33) .|. (slotIndex slot `shiftL` 1) .|. (case interest of Readable -> 0; Writable -> 1)

queueUp :: Slot -> Interest -> Deadline -> IO Bool
queueUp slot interest deadline = do
  -- The thread that has the turn may be one of the process that forked this one.
  revive m
  withCellUntil m deadline $ \cell -> do
    w <- newWaiter cell
    ticket <- modifyRef (managerTurns m) $ \queues ->
      let (queue, number) = enqueue w (IntMap.findWithDefault emptyQueue key queues)
       in (IntMap.insert key queue queues, number)
    mine <- claim slot interest
    if mine
      then True <$ leaveQueue ticket
      else (/= Nothing) <$> awaitGift w deadline (leaveQueue ticket) (\() -> leaveTurn slot interest)
  where
    m = slotManager slot
    key = keyOf slot interest
    leaveQueue ticket = modifyRef (managerTurns m) $ \queues ->
      case IntMap.lookup key queues >>= withdraw ticket of
        Just queue -> (putQueue key queue queues, True)
        Nothing -> (queues, False)
{-# NOINLINE queueUp #-}

putQueue :: Int -> Queue a -> IntMap.IntMap (Queue a) -> IntMap.IntMap (Queue a)
putQueue key queue
  | isEmptyQueue queue = IntMap.delete key
  | otherwise = IntMap.insert key queue

-- Take a free turn ('True'), or see to it that whoever has it looks at the queue.
claim :: Slot -> Interest -> IO Bool
claim slot interest = do
  now <- atomicRead ws at
  case now of
    0 -> compareAndSet ws at 0 2 >>= \won -> if won then pure True else claim slot interest
    1 -> compareAndSet ws at 1 2 >>= \won -> if won then pure False else claim slot interest
    _ -> pure False
  where
    ws = slotWords slot
    at = turnOf interest

-- The turn's holder, when others may wait.
handOn :: Slot -> Interest -> IO ()
handOn slot interest = do
  next <- modifyRef (managerTurns m) $ \queues ->
    case IntMap.lookup key queues >>= dequeue of
      Just (w, queue) -> (putQueue key queue queues, Just w)
      Nothing -> (queues, Nothing)
  case next of
    Just w -> give w ()
    Nothing -> do
      atomicWrite (slotWords slot) (turnOf interest) 0
      -- Somebody may have queued up between the look and the write.
      late <- IntMap.member key <$> readRef (managerTurns m)
      when late $ do
        mine <- claim slot interest
        when mine (handOn slot interest)
  where
    m = slotManager slot
    key = keyOf slot interest
{-# NOINLINE handOn #-}

-- Note [Turns]
-- ~~~~~~~~~~~~
-- The word is 0 (free), 1 (taken) or 2 (taken; the holder must look at the queue). A thread
-- that does not find 0 enters the queue first and then claims: it takes a free turn, and
-- leaves the queue, from which only a holder takes waiters; or it makes the word 2. A
-- holder that finds 2 gives the turn to the first of the queue, and the word stays 2. If the
-- queue is empty it writes 0 and looks once more: whoever queued up before that look and saw
-- 2 is found by it, and whoever queues up later sees the 0.
--
-- Queues are kept by the manager, since nearly every slot goes through its life without
-- one. That also keeps the threads that wait here reachable.
