-- |
-- Module      : Heddle.WebSocket.Gate
-- Description : A fair mutex that can be tried, for senders
-- Stability   : hidden
--
-- The senders of a connection take turns in the order of their arrival.
--
-- Protocol: Free -> Held (the thread that enters); Held -> Held with a queue (a thread that must wait); Held -> Held
-- (the holder leaves: the thread that has waited longest is in); Held -> Free (the holder leaves, nobody waits). Each
-- move is one compare-and-set.
-- Cost: two compare-and-sets without competition; nothing allocated.
-- Owner: the thread inside.
module Heddle.WebSocket.Gate
  ( Gate,
    newGate,
    enter,
    tryEnter,
    leave,
  )
where

import Control.Monad (void)
import Heddle.IO.WaitQueue
import Heddle.Prim.Atomic (Ref, modifyRef, newRef)
import Heddle.Prim.Clock (never)
import Heddle.Prim.WaitCell (newWaitCell)

-- | A mutex.
newtype Gate = Gate (Ref State)

data State = Free | Held !(Queue (Waiter ()))

-- | A gate that no thread is in.
--
-- [Cost]: O(1).
newGate :: IO Gate
newGate = Gate <$> newRef Free

heldAlone :: State
heldAlone = Held emptyQueue
{-# NOINLINE heldAlone #-}

-- | Enter, if no thread is in.
--
-- [Cost]: one compare-and-set.
-- [Blocks]: never.
tryEnter :: Gate -> IO Bool
tryEnter (Gate ref) = modifyRef ref $ \case
  Free -> (heldAlone, True)
  held -> (held, False)
{-# INLINE tryEnter #-}

-- | Enter. The caller is masked, and leaves.
--
-- [Cost]: one compare-and-set if no thread is in.
-- [Blocks]: parks until the threads that came before have left.
-- [Masking]: interruptible while parked; interrupted, the caller is not in.
enter :: Gate -> IO ()
enter gate = tryEnter gate >>= \entered -> if entered then pure () else queueUp gate
{-# INLINE enter #-}

queueUp :: Gate -> IO ()
queueUp gate@(Gate ref) = do
  waiter <- newWaitCell >>= newWaiter
  ticket <- modifyRef ref $ \case
    Free -> (heldAlone, Nothing)
    Held queue -> let (longer, ticket) = enqueue waiter queue in (Held longer, Just ticket)
  case ticket of
    Nothing -> pure ()
    Just mine -> void (awaitHandOff waiter never (withdrawn mine) (\() -> leave gate))
  where
    withdrawn mine = modifyRef ref $ \case
      Held queue | Just shorter <- withdraw mine queue -> (Held shorter, True)
      other -> (other, False)

-- | Leave; the thread that has waited longest is in.
--
-- [Cost]: one compare-and-set, and a wake-up if a thread waits.
-- [Blocks]: never.
leave :: Gate -> IO ()
leave (Gate ref) = do
  next <- modifyRef ref $ \case
    Held queue | Just (waiter, rest) <- dequeue queue -> (Held rest, Just waiter)
    _ -> (Free, Nothing)
  maybe (pure ()) (`handOff` ()) next
{-# INLINE leave #-}
