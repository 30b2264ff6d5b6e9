-- |
-- Module      : Heddle.IO.Internal.Queue
-- Description : First come, first served, and free to leave
-- Stability   : internal, exempt from the version policy
--
-- An immutable queue whose entries have numbers, so that one that gives up is taken out
-- without a walk past the others: a thousand threads that wait for one thing can be
-- cancelled in the time of a thousand steps, not of a million.
--
-- Cost: O(log n) for each operation, with at most 64 levels; an empty queue is shared.
-- Owner: a value.
module Heddle.IO.Internal.Queue
  ( Queue,
    Ticket,
    emptyQueue,
    isEmptyQueue,
    enqueue,
    dequeue,
    withdraw,
    entries,
  )
where

import Data.IntMap.Strict (IntMap)
import Data.IntMap.Strict qualified as IntMap

-- | The next number, and the entries by their numbers.
data Queue a = Queue !Int !(IntMap a)

-- | Which entry it is. Numbers are used once in a queue's life.
type Ticket = Int

-- | Without entries.
emptyQueue :: Queue a
emptyQueue = Queue 0 IntMap.empty

-- | Has it no entry?
isEmptyQueue :: Queue a -> Bool
isEmptyQueue (Queue _ waiting) = IntMap.null waiting
{-# INLINE isEmptyQueue #-}

-- | Put an entry at the end.
enqueue :: a -> Queue a -> (Queue a, Ticket)
enqueue x (Queue n waiting) = (Queue (n + 1) (IntMap.insert n x waiting), n)

-- | The first entry, and the queue without it.
dequeue :: Queue a -> Maybe (a, Queue a)
dequeue (Queue n waiting) = case IntMap.minView waiting of
  Just (x, rest) -> Just (x, Queue n rest)
  Nothing -> Nothing
{-# INLINE dequeue #-}

-- | The queue without this entry; 'Nothing' if it is not there any more.
withdraw :: Ticket -> Queue a -> Maybe (Queue a)
withdraw ticket (Queue n waiting) = case IntMap.updateLookupWithKey (\_ _ -> Nothing) ticket waiting of
  (Just _, rest) -> Just (Queue n rest)
  (Nothing, _) -> Nothing

-- | In the order of their coming.
entries :: Queue a -> [a]
entries (Queue _ waiting) = IntMap.elems waiting
