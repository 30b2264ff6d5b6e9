-- |
-- Module      : Heddle.Gateway.Slots
-- Description : A bound on how many run at once, and a bounded queue
-- Stability   : stable
--
-- Bounds how many programs run, or connections are open, at once. Who comes when all slots are taken waits in a queue,
-- first come, first served; when the queue is full too, or the wait takes too long, the answer is 'Nothing'.
--
-- Invariant: a slot is taken by one holder, or free. While a thread waits, no slot is free.
-- Cost: a compare-and-set to take a slot and one to release it.
-- Owner: any thread; the state changes by compare-and-set.
module Heddle.Gateway.Slots
  ( Slots,
    newSlots,
    acquireSlotUntil,
    acquireAnywayUntil,
    releaseSlot,
    slotsTaken,
    slotsAwaited,
  )
where

import Control.Monad (join)
import Heddle.IO.WaitQueue
import Heddle.Prim.Atomic (Ref, modifyRef, newRef, readRef)
import Heddle.Prim.Clock (Deadline)
import Heddle.Timer (withCellUntil)

-- | A number of slots.
data Slots = Slots
  { slotsMost :: !Int,
    slotsQueue :: !Int,
    slotsState :: !(Ref State)
  }

-- How many are taken, how many wait, and who.
data State = State !Int !Int !(Queue (Waiter ()))

-- | The number of slots, and the number of places in the queue.
newSlots :: Int -> Int -> IO Slots
newSlots most queue = Slots (max 1 most) (max 0 queue) <$> newRef (State 0 0 emptyQueue)

-- | Take a slot: 'False' if the queue is full, or the deadline passes first. The holder releases it once.
--
-- [Cost]: one compare-and-set if a slot is free.
-- [Blocks]: parks while none is free.
-- [Masking]: the caller is masked; interruptible while parked, and then no slot is taken.
-- [Threads]: any.
acquireSlotUntil :: Slots -> Deadline -> IO Bool
acquireSlotUntil slots = acquireAmong (slotsQueue slots) slots

-- | The same, however long the queue is: for the end, which has to wait for all holders.
--
-- [Cost]: one compare-and-set if a slot is free.
-- [Blocks]: parks while none is free.
-- [Masking]: as 'acquireSlotUntil'.
-- [Threads]: any.
acquireAnywayUntil :: Slots -> Deadline -> IO Bool
acquireAnywayUntil = acquireAmong maxBound

acquireAmong :: Int -> Slots -> Deadline -> IO Bool
acquireAmong places slots deadline = do
  now <- modifyRef (slotsState slots) $ \s@(State taken waiting queue) ->
    if taken < slotsMost slots
      then (State (taken + 1) waiting queue, Just True)
      else (s, if waiting >= places then Just False else Nothing)
  case now of
    Just answer -> pure answer
    Nothing -> withCellUntil deadline $ \cell -> do
      waiter <- newWaiter cell
      join . modifyRef (slotsState slots) $ \s@(State taken waiting queue) ->
        if taken < slotsMost slots
          then -- One came free between the two looks.
            (State (taken + 1) waiting queue, pure True)
          else
            if waiting >= places
              then (s, pure False)
              else
                let (queue', ticket) = enqueue waiter queue
                 in (State taken (waiting + 1) queue', maybe False (const True) <$> awaitHandOff waiter deadline (leave ticket) (\() -> releaseSlot slots))
  where
    leave ticket = modifyRef (slotsState slots) $ \s@(State taken waiting queue) -> case withdraw ticket queue of
      Just rest -> (State taken (waiting - 1) rest, True)
      Nothing -> (s, False)

-- | Release a slot; the thread that has waited longest gets it.
--
-- [Cost]: one compare-and-set.
-- [Blocks]: never.
-- [Threads]: any.
releaseSlot :: Slots -> IO ()
releaseSlot slots = join . modifyRef (slotsState slots) $ \(State taken waiting queue) -> case dequeue queue of
  Just (waiter, rest) -> (State taken (waiting - 1) rest, handOff waiter ())
  Nothing -> (State (taken - 1) waiting queue, pure ())

-- | How many slots are taken.
slotsTaken :: Slots -> IO Int
slotsTaken slots = (\(State taken _ _) -> taken) <$> readRef (slotsState slots)

-- | How many threads wait for one.
slotsAwaited :: Slots -> IO Int
slotsAwaited slots = (\(State _ waiting _) -> waiting) <$> readRef (slotsState slots)
