-- |
-- Module      : Heddle.MPI.Internal.Turn
-- Description : One after the other, in the order of the calls
-- Stability   : internal, exempt from the version policy
--
-- What has to be done in the order in which it was asked for, though threads of its own do it.
--
-- Cost: a wait cell for each turn.
-- Owner: any thread; who has taken a turn has to use it.
module Heddle.MPI.Internal.Turn
  ( Turns,
    newTurns,
    Turn,
    nextTurn,
    whenTurn,
    inOrder,
  )
where

import Heddle.Prim.Atomic (Ref, modifyRef, newRef)
import Heddle.Prim.Exception (finally)
import Heddle.Prim.WaitCell (WaitCell, newWaitCell, park, unpark)

-- | An order: what tells that the newest turn has ended.
newtype Turns = Turns (Ref (Maybe WaitCell))

-- | Without any turn.
newTurns :: IO Turns
newTurns = Turns <$> newRef Nothing

-- | A place in the order: what is before it, and what tells those behind.
data Turn = Turn !(Maybe WaitCell) !WaitCell

-- | The next place.
--
-- [Blocks]: never.
nextTurn :: Turns -> IO Turn
nextTurn (Turns newest) = do
  mine <- newWaitCell
  before <- modifyRef newest ((,) (Just mine))
  pure (Turn before mine)

-- | Run this when it is its turn.
--
-- [Blocks]: parks the thread.
whenTurn :: Turn -> IO a -> IO a
whenTurn (Turn before mine) body = (mapM_ park before >> body) `finally` unpark mine

-- | Run this at the next place.
--
-- [Blocks]: parks the thread, while others are before it.
inOrder :: Turns -> IO a -> IO a
inOrder turns body = nextTurn turns >>= \turn -> whenTurn turn body
