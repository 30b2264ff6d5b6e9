-- |
-- Module      : Heddle.MPI.Internal.Turn
-- Description : A ticket lock with tickets that are taken early
-- Stability   : internal, exempt from the version policy
--
-- Operations run in the order in which they were asked for, on whatever threads. Taking a
-- ticket ('nextTurn') fixes the place in that order; the operation runs later.
--
-- Invariant: a turn ends after all turns before it, also if its owner is interrupted while it
-- waits: then a thread waits in its place.
-- Cost: a wait cell and one atomic update for each turn.
-- Owner: any thread. Exceptions are masked from 'nextTurn' until 'whenTurn' or 'endTurn',
-- since a turn that never ends stops all later ones.
module Heddle.MPI.Internal.Turn
  ( Turns,
    newTurns,
    Turn,
    nextTurn,
    whenTurn,
    inOrder,

    -- * Without waiting
    isTurn,
    endTurn,
  )
where

import Heddle.Prim.Atomic (Ref, modifyRef, newRef)
import Heddle.Prim.Exception (finally, mask, onException)
import Heddle.Prim.Thread (fork)
import Heddle.Prim.WaitCell (WaitCell, newWaitCell, park, reset, unpark)

-- | An order: the cell that the newest turn unparks at its end.
newtype Turns = Turns (Ref (Maybe WaitCell))

-- | Without any turn.
newTurns :: IO Turns
newTurns = Turns <$> newRef Nothing

-- | A place in the order: the cell of the turn before, and its own.
data Turn = Turn !(Maybe WaitCell) !WaitCell

-- | Take the next place.
--
-- [Blocks]: never.
-- [Masking]: to be called masked.
nextTurn :: Turns -> IO Turn
nextTurn (Turns newest) = do
  mine <- newWaitCell
  before <- modifyRef newest ((,) (Just mine))
  pure (Turn before mine)

-- | Wait for the turn, run this, and end the turn.
--
-- [Blocks]: parks the thread.
-- [Masking]: interruptible while it waits; then this is not run.
whenTurn :: Turn -> IO a -> IO a
whenTurn (Turn before mine) body = mask $ \restore -> do
  mapM_ park before `onException` fork "mpi/turn" (mapM_ park before >> unpark mine)
  restore body `finally` unpark mine

-- | Run this at the next place.
--
-- [Blocks]: parks the thread, while others are before it.
inOrder :: Turns -> IO a -> IO a
inOrder turns body = mask $ \restore -> nextTurn turns >>= \turn -> whenTurn turn (restore body)

-- | Have all turns before this one ended? If so, it is this one's turn, and 'endTurn' ends it;
-- if not, 'whenTurn' waits.
--
-- [Blocks]: never.
isTurn :: Turn -> IO Bool
isTurn (Turn before _) = maybe (pure True) reset before
{-# INLINE isTurn #-}

-- | Let the next one run.
--
-- [Blocks]: never.
endTurn :: Turn -> IO ()
endTurn (Turn _ mine) = unpark mine
{-# INLINE endTurn #-}
