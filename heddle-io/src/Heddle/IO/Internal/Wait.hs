-- |
-- Module      : Heddle.IO.Internal.Wait
-- Description : Queues of parked threads, served in order
-- Stability   : internal, exempt from the version policy
--
-- A 'Waiter' stands in some queue until another thread takes it out and gives it what it
-- waits for. Queues are immutable values behind a reference that changes by
-- compare-and-set, so every step is done or not done, and there is nothing to undo when a
-- waiting thread is interrupted between two of them.
--
-- Invariant: whoever takes a waiter out of its queue gives to it, without parking before.
-- Cost: a wait is about 200 bytes; a queue operation one compare-and-set.
-- Owner: the waiting thread makes the waiter; the queue's users share the queue.
module Heddle.IO.Internal.Wait
  ( -- * Waiters
    Waiter,
    newWaiter,
    sameWaiter,
    give,
    awaitGift,

    -- * Gates
    Gate,
    newGate,
    enterUntil,
    leave,
  )
where

import Data.Foldable (traverse_)
import Data.Sequence (Seq, ViewL (..), viewl, (|>))
import Data.Sequence qualified as Seq
import Heddle.IO.Internal.Alarm (isOver, withCellUntil)
import Heddle.IO.Internal.Types (Manager)
import Heddle.Prim.Atomic (Ref, modifyRef, newRef, readRef, writeRef)
import Heddle.Prim.Clock (Deadline)
import Heddle.Prim.Exception (onException, uninterruptibleMask_)
import Heddle.Prim.WaitCell (WaitCell, park, unpark)

-- | A thread that waits to be given something.
data Waiter a = Waiter
  { waiterCell :: !WaitCell,
    waiterBox :: !(Ref (Maybe a))
  }

-- | A waiter that parks on a cell.
newWaiter :: WaitCell -> IO (Waiter a)
newWaiter cell = Waiter cell <$> newRef Nothing

-- | Are they one?
sameWaiter :: Waiter a -> Waiter b -> Bool
sameWaiter a b = waiterCell a == waiterCell b

-- | Give to a waiter that was taken out of its queue, and wake it.
--
-- [Cost]: two stores and a wake.
-- [Blocks]: never.
give :: Waiter a -> a -> IO ()
give w x = writeRef (waiterBox w) (Just x) >> unpark (waiterCell w)

-- | Park until something is given: @awaitGift w deadline withdraw undo@. The caller is
-- masked. At the deadline, and when the thread is interrupted, @withdraw@ takes the waiter
-- out of its queue ('False' if it is not there any more). A gift that an interruption comes
-- too late for is handed to @undo@; one that the deadline comes too late for is returned.
--
-- [Blocks]: parks.
-- [Masking]: interruptible while parked; neither action parks.
awaitGift :: Waiter a -> Deadline -> IO Bool -> (a -> IO ()) -> IO (Maybe a)
awaitGift w deadline withdraw undo = go
  where
    go =
      readRef (waiterBox w) >>= \case
        Just x -> pure (Just x)
        Nothing -> do
          over <- isOver deadline
          if over
            then do
              out <- withdraw
              if out then pure Nothing else Just <$> certain
            else do
              park (waiterCell w) `onException` abandon
              go
    abandon = do
      out <- withdraw
      if out then pure () else certain >>= undo
    -- The giver has begun and does not park: finite, so it may be uninterruptible.
    certain = uninterruptibleMask_ soon
    soon = readRef (waiterBox w) >>= maybe (park (waiterCell w) >> soon) pure

-- | A lock that threads enter in the order of their coming, each with its own deadline.
newtype Gate = Gate (Ref GateState)

-- Open -> Held (who enters); Held -> Held by the next or Open (who leaves).
data GateState = Open | Held !(Seq (Waiter ()))

-- | An open gate.
newGate :: IO Gate
newGate = Gate <$> newRef Open

-- | Enter; 'False' when the deadline passed first. The caller is masked, and leaves with
-- 'leave' if it has entered. The manager keeps the time.
--
-- [Cost]: one compare-and-set when the gate is open.
-- [Blocks]: parks.
-- [Masking]: interruptible while parked.
enterUntil :: Manager -> Gate -> Deadline -> IO Bool
enterUntil m gate@(Gate ref) deadline = do
  free <- modifyRef ref $ \case
    Open -> (Held Seq.empty, True)
    held -> (held, False)
  if free
    then pure True
    else withCellUntil m deadline $ \cell -> do
      w <- newWaiter cell
      entered <- modifyRef ref $ \case
        Open -> (Held Seq.empty, True)
        Held queue -> (Held (queue |> w), False)
      if entered
        then pure True
        else do
          given <- awaitGift w deadline (withdrawFrom w) (\() -> leave gate)
          pure (given == Just ())
  where
    withdrawFrom w = modifyRef ref $ \case
      Open -> (Open, False)
      Held queue ->
        let rest = Seq.filter (not . sameWaiter w) queue
         in (Held rest, Seq.length rest < Seq.length queue)

-- | Leave, to the thread that has waited longest.
--
-- [Cost]: one compare-and-set, and a wake.
-- [Blocks]: never.
leave :: Gate -> IO ()
leave (Gate ref) = do
  next <- modifyRef ref $ \case
    Open -> (Open, Nothing)
    Held queue -> case viewl queue of
      EmptyL -> (Open, Nothing)
      w :< rest -> (Held rest, Just w)
  traverse_ (`give` ()) next
