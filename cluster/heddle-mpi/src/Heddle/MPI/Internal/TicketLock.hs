-- |
-- Module      : Heddle.MPI.Internal.TicketLock
-- Description : A ticket lock whose tickets are taken in advance
-- Stability   : internal, exempt from the version policy
--
-- Operations run in the order in which they were requested, on whatever threads. 'takeTicket'
-- fixes the place in that order; the operation runs later, when its number is called.
--
-- Invariant: a ticket is released after all tickets before it, even if its owner is interrupted
-- while it waits: then another thread waits in its place.
-- Cost: a wait cell and one atomic update for each ticket.
-- Owner: any thread. Exceptions are masked from 'takeTicket' until 'withTicket' or 'release',
-- because a ticket that is never released stops all later ones.
module Heddle.MPI.Internal.TicketLock
  ( TicketLock,
    newTicketLock,
    Ticket,
    takeTicket,
    withTicket,
    inOrder,

    -- * Without waiting
    isCalled,
    release,
  )
where

import Heddle.Prim.Atomic (Ref, modifyRef, newRef)
import Heddle.Prim.Exception (finally, mask, onException)
import Heddle.Prim.Thread (fork)
import Heddle.Prim.WaitCell (WaitCell, newWaitCell, park, reset, unpark)

-- | The cell that the newest ticket unparks when it is released.
newtype TicketLock = TicketLock (Ref (Maybe WaitCell))

-- | A lock without any ticket.
newTicketLock :: IO TicketLock
newTicketLock = TicketLock <$> newRef Nothing

-- | A place in the order: the cell of the ticket before, and its own.
data Ticket = Ticket !(Maybe WaitCell) !WaitCell

-- | Take the next place.
--
-- [Blocks]: never.
-- [Masking]: call it masked.
takeTicket :: TicketLock -> IO Ticket
takeTicket (TicketLock newest) = do
  mine <- newWaitCell
  before <- modifyRef newest ((,) (Just mine))
  pure (Ticket before mine)

-- | Wait until all tickets before this one are released, run the action, release the ticket.
--
-- [Blocks]: parks the thread.
-- [Masking]: interruptible while it waits; then the action does not run.
withTicket :: Ticket -> IO a -> IO a
withTicket (Ticket before mine) body = mask $ \restore -> do
  mapM_ park before `onException` fork "mpi/ticket" (mapM_ park before >> unpark mine)
  restore body `finally` unpark mine

-- | Run the action at the next place.
--
-- [Blocks]: parks the thread, while others are before it.
inOrder :: TicketLock -> IO a -> IO a
inOrder lock body = mask $ \restore -> takeTicket lock >>= \ticket -> withTicket ticket (restore body)

-- | Ask if all tickets before this one are released. If so, the caller must 'release' this one; if
-- not, 'withTicket' waits.
--
-- [Blocks]: never.
isCalled :: Ticket -> IO Bool
isCalled (Ticket before _) = maybe (pure True) reset before
{-# INLINE isCalled #-}

-- | Let the next operation run.
--
-- [Blocks]: never.
release :: Ticket -> IO ()
release (Ticket _ mine) = unpark mine
{-# INLINE release #-}
