-- |
-- Module      : Heddle.IO.Internal.Wait
-- Description : Threads that wait to be given something
-- Stability   : internal, exempt from the version policy
--
-- A 'Waiter' stands in some queue ("Heddle.IO.Internal.Queue") until another thread takes it
-- out and gives it what it waits for. Queues are immutable values behind a reference that
-- changes by compare-and-set, so every step is done or not done, and there is nothing to
-- undo when a waiting thread is interrupted between two of them.
--
-- Invariant: whoever takes a waiter out of its queue gives to it, without parking before.
-- Cost: a wait is about 200 bytes; a queue operation one compare-and-set.
-- Owner: the waiting thread makes the waiter; the queue's users share the queue.
module Heddle.IO.Internal.Wait
  ( -- * Waiters
    Waiter,
    newWaiter,
    give,
    awaitGift,
  )
where

import Heddle.IO.Internal.Alarm (isOver)
import Heddle.IO.Internal.Types (Waiter (..))
import Heddle.Prim.Atomic (newRef, readRef, writeRef)
import Heddle.Prim.Clock (Deadline)
import Heddle.Prim.Exception (onException, uninterruptibleMask_)
import Heddle.Prim.WaitCell (WaitCell, park, unpark)

-- | A waiter that parks on a cell.
newWaiter :: WaitCell -> IO (Waiter a)
newWaiter cell = Waiter cell <$> newRef Nothing

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
