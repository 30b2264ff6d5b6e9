-- |
-- Module      : Heddle.IO.WaitQueue
-- Description : Fair queues of waiting threads
-- Stability   : stable
--
-- For locks and channels: a first-come, first-served queue whose entries can
-- withdraw, and the hand-off of a value from the thread that takes a waiter out of its queue
-- to the thread that waits.
--
-- A 'Queue' is an immutable value, meant to be part of a state behind a
-- 'Heddle.Prim.Atomic.Ref' that changes by compare-and-set. So every step is done or not
-- done, and nothing has to be undone when a thread is interrupted between two steps.
-- "Heddle.Channel" of heddle-scope is an example.
--
-- Invariant: a thread that takes a waiter out of its queue hands off to it without parking
-- before. 'awaitHandOff' relies on it.
-- Cost: a wait is about 200 bytes; a queue operation O(log n), with at most 64 levels.
-- Owner: the waiting thread makes the waiter; the users of the queue share the queue.
module Heddle.IO.WaitQueue
  ( -- * Queues
    Queue,
    Ticket,
    emptyQueue,
    isEmptyQueue,
    enqueue,
    dequeue,
    withdraw,
    entries,

    -- * Waiters
    Waiter,
    newWaiter,
    handOff,
    awaitHandOff,
  )
where

import Data.IntMap.Strict (IntMap)
import Data.IntMap.Strict qualified as IntMap
import Heddle.Prim.Atomic (Ref, acquireFence, newRef, readRef, writeRef)
import Heddle.Prim.Clock (Deadline, monotonicNow, never)
import Heddle.Prim.Exception (onException, uninterruptibleMask_)
import Heddle.Prim.WaitCell (WaitCell, park, unpark)

-- | Entries in the order of their arrival. An entry that withdraws is removed by its ticket,
-- without a walk past the others: cancelling a thousand threads that wait for one thing takes
-- a thousand steps, not a million.
data Queue a = Queue !Int !(IntMap a)

-- | Identifies an entry. A queue issues each ticket once.
type Ticket = Int

-- | The queue without entries.
--
-- [Cost]: O(1); shared.
emptyQueue :: Queue a
emptyQueue = Queue 0 IntMap.empty

-- | Whether no entry waits.
--
-- [Cost]: O(1).
isEmptyQueue :: Queue a -> Bool
isEmptyQueue (Queue _ waiting) = IntMap.null waiting
{-# INLINE isEmptyQueue #-}

-- | Put an entry at the end.
--
-- [Cost]: O(log n).
enqueue :: a -> Queue a -> (Queue a, Ticket)
enqueue x (Queue n waiting) = (Queue (n + 1) (IntMap.insert n x waiting), n)

-- | The entry that has waited longest, and the queue without it; 'Nothing' if there is none.
--
-- [Cost]: O(log n).
dequeue :: Queue a -> Maybe (a, Queue a)
dequeue (Queue n waiting) = case IntMap.minView waiting of
  Just (x, rest) -> Just (x, Queue n rest)
  Nothing -> Nothing
{-# INLINE dequeue #-}

-- | The queue without this entry; 'Nothing' if the entry is not in it any more.
--
-- [Cost]: O(log n).
withdraw :: Ticket -> Queue a -> Maybe (Queue a)
withdraw ticket (Queue n waiting) = case IntMap.updateLookupWithKey (\_ _ -> Nothing) ticket waiting of
  (Just _, rest) -> Just (Queue n rest)
  (Nothing, _) -> Nothing

-- | All entries, in the order of their arrival.
--
-- [Cost]: O(n).
entries :: Queue a -> [a]
entries (Queue _ waiting) = IntMap.elems waiting

-- | A thread that waits to be handed a value.
data Waiter a = Waiter !WaitCell !(Ref (Maybe a))

-- | A waiter that parks on a cell. A cell of 'Heddle.Timer.withCellUntil' ends the wait at a
-- deadline; a cell of its own waits for ever.
--
-- [Cost]: O(1); 32 bytes.
-- [Blocks]: never.
newWaiter :: WaitCell -> IO (Waiter a)
newWaiter cell = Waiter cell <$> newRef Nothing

-- | Give a value to a waiter that was taken out of its queue, and wake its thread.
--
-- [Cost]: two stores and a wake-up.
-- [Blocks]: never.
-- [Threads]: the one that took the waiter out of its queue, once.
handOff :: Waiter a -> a -> IO ()
handOff (Waiter cell box) x = writeRef box (Just x) >> unpark cell

-- | @awaitHandOff waiter deadline leave undo@ parks until a value is handed off; 'Nothing'
-- when the deadline passed first. The caller is masked. At the deadline, and when the thread
-- is interrupted, @leave@ takes the waiter out of its queue and returns 'False' if it is not
-- there any more. In that case a value is being handed off: after the deadline it is returned,
-- after an interruption it is passed to @undo@.
--
-- [Cost]: a park for each wake-up of the cell.
-- [Blocks]: parks.
-- [Masking]: interruptible while parked; neither action may park.
-- [Threads]: the waiter's.
awaitHandOff :: Waiter a -> Deadline -> IO Bool -> (a -> IO ()) -> IO (Maybe a)
awaitHandOff (Waiter cell box) deadline leave undo = go
  where
    go =
      readRef box >>= \case
        -- The fence: also what was done before the value was handed off.
        Just x -> Just x <$ acquireFence
        Nothing -> do
          over <- if deadline == never then pure False else (>= deadline) <$> monotonicNow
          if over
            then do
              out <- leave
              if out then pure Nothing else Just <$> certain
            else do
              park cell `onException` abandon
              go
    abandon = do
      out <- leave
      if out then pure () else certain >>= undo
    -- The other thread has begun and does not park: finite, so it may be uninterruptible.
    certain = uninterruptibleMask_ soon
    soon = readRef box >>= maybe (park cell >> soon) (<$ acquireFence)
