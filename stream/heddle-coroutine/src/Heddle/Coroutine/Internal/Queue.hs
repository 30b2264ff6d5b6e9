-- |
-- Module      : Heddle.Coroutine.Internal.Queue
-- Description : First in, first out
-- Stability   : internal
--
-- What a component holds back: items that another one has yet to decide about, or to ask
-- for.
--
-- Cost: O(1) each, amortised, as long as a queue is used once.
-- Owner: values.
module Heddle.Coroutine.Internal.Queue
  ( Queue,
    empty,
    push,
    pop,
    popMany,
  )
where

-- | The oldest first; then the youngest first.
data Queue a = Queue ![a] ![a]

-- | Nothing.
empty :: Queue a
empty = Queue [] []

-- | Put one in.
push :: Queue a -> a -> Queue a
push (Queue old young) a = Queue old (a : young)

-- | Take the oldest.
pop :: Queue a -> Maybe (a, Queue a)
pop = \case
  Queue (a : old) young -> Just (a, Queue old young)
  Queue [] [] -> Nothing
  Queue [] young -> pop (Queue (reverse young) [])

-- | Take as many of the oldest.
popMany :: Int -> Queue a -> ([a], Queue a)
popMany n q
  | n > 0, Just (a, q') <- pop q = let (as, q'') = popMany (n - 1) q' in (a : as, q'')
  | otherwise = ([], q)
