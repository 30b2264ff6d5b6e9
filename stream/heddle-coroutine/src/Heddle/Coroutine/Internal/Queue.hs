-- |
-- Module      : Heddle.Coroutine.Internal.Queue
-- Description : A purely functional queue
-- Stability   : internal
--
-- Holds items back until another component has decided about them or awaits them.
--
-- Cost: O(1) for each operation, amortised, if each version of a queue is used once.
-- Owner: values.
module Heddle.Coroutine.Internal.Queue
  ( Queue,
    empty,
    push,
    pop,
    popMany,
  )
where

-- | The older items, oldest first, and the younger ones, youngest first.
data Queue a = Queue ![a] ![a]

-- | The empty queue.
empty :: Queue a
empty = Queue [] []

-- | Add an item.
push :: Queue a -> a -> Queue a
push (Queue old young) a = Queue old (a : young)

-- | Take the oldest item.
pop :: Queue a -> Maybe (a, Queue a)
pop = \case
  Queue (a : old) young -> Just (a, Queue old young)
  Queue [] [] -> Nothing
  Queue [] young -> pop (Queue (reverse young) [])

-- | Take this many of the oldest items, or all if there are fewer.
popMany :: Int -> Queue a -> ([a], Queue a)
popMany n q
  | n > 0, Just (a, q') <- pop q = let (as, q'') = popMany (n - 1) q' in (a : as, q'')
  | otherwise = ([], q)
