-- |
-- Module      : Heddle.IO.Parker
-- Description : A thread waits for other threads, until a deadline
-- Stability   : stable
--
-- A 'Parker' holds at most one token. 'unpark' leaves it, 'parkUntil' takes it or waits for
-- it until a deadline. It is a 'Heddle.Prim.WaitCell.WaitCell' with deadlines, for a
-- background thread that lives as long as its runtime. The runtime refers to the parker, so the
-- collector never finds its thread deadlocked, and a runtime that stops wakes it.
--
-- Protocol: the waiting thread calls 'prepare', checks its condition, and parks if it does
-- not hold; 'awaitUntil' is that loop. The thread that makes the condition true calls
-- 'unpark' afterwards. A token left between the check and the park ends the park at once.
--
-- Cost: a parker is about 400 bytes; parking 24 bytes, without a system call.
-- Owner: the thread that waits; any thread may unpark.
module Heddle.IO.Parker
  ( -- * Parkers
    Parker,
    withParker,

    -- * Waiting
    awaitUntil,
    prepare,
    parkUntil,
    isPast,
    isClosed,

    -- * Waking
    unpark,

    -- * Low level

    -- | A parker that is never closed is kept until its runtime ends.
    newParker,
    closeParker,
  )
where

import Control.Monad (void)
import Heddle.IO.Internal.Manager (Start (..), newRegistration)
import Heddle.IO.Internal.Registration (closeRegistration, deadlineOver, isClosing, waitUntil)
import Heddle.IO.Internal.Runtime (Runtime, managerHere)
import Heddle.IO.Internal.Types (Interest (..), Kind (..), Registration (..))
import Heddle.Prim.Clock (Deadline)
import Heddle.Prim.Exception (bracket)
import Heddle.Prim.WaitCell qualified as Cell

-- | One token, and at most one thread that waits for it.
newtype Parker = Parker Registration

-- | Make a parker, run, close it.
--
-- [Cost]: as 'newParker' and 'closeParker'.
-- [Blocks]: as the body does.
-- [Masking]: the body runs in the caller's state.
-- [Throws]: 'IOError' (EBADF) when the runtime has stopped.
withParker :: Runtime -> (Parker -> IO a) -> IO a
withParker runtime = bracket (newParker runtime) closeParker

-- | A parker of the caller's capability, until 'closeParker'.
--
-- [Cost]: about 100 ns; 400 bytes.
-- [Blocks]: never.
-- [Throws]: 'IOError' (EBADF) when the runtime has stopped.
newParker :: Runtime -> IO Parker
newParker runtime = do
  manager <- managerHere runtime
  Parker <$> newRegistration manager TimerOnly (-1) mempty Attached (\_ -> pure ())

-- | Close a parker: its wait ends, and later ones do not wait.
--
-- [Cost]: O(1).
-- [Blocks]: never.
-- [Threads]: any.
closeParker :: Parker -> IO ()
closeParker (Parker registration) = void (closeRegistration registration)

-- | Run the action after each wake-up until it returns an answer; 'Nothing' when the deadline
-- passed or the parker was closed first. The action runs at least once.
--
-- [Cost]: one run of the action for each wake-up.
-- [Blocks]: parks.
-- [Masking]: interruptible while parked.
-- [Threads]: one at a time.
awaitUntil :: Parker -> Deadline -> IO (Maybe a) -> IO (Maybe a)
awaitUntil parker deadline look = go
  where
    go = do
      prepare parker
      answer <- look
      case answer of
        Just _ -> pure answer
        Nothing -> do
          late <- isPast parker deadline
          closed <- isClosed parker
          if late || closed then pure Nothing else parkUntil parker deadline >> go

-- | Drop the token of an earlier wake-up, before checking the condition.
--
-- [Cost]: O(1).
-- [Blocks]: never.
-- [Threads]: the waiting one.
prepare :: Parker -> IO ()
prepare (Parker registration) = void (Cell.reset (registrationWrite registration))

-- | Park until there is a token, the deadline passes or the parker is closed. It may also
-- return early, so check the condition again.
--
-- [Cost]: 24 bytes; no system call.
-- [Blocks]: parks.
-- [Masking]: interruptible.
-- [Units]: wakes up to 2 ms late.
-- [Threads]: one at a time.
parkUntil :: Parker -> Deadline -> IO ()
parkUntil (Parker registration) = waitUntil registration Writable

-- | Leave a token; a thread that is parked takes it.
--
-- [Cost]: O(1).
-- [Blocks]: never.
-- [Threads]: any.
unpark :: Parker -> IO ()
unpark (Parker registration) = Cell.unpark (registrationWrite registration)

-- | Whether the deadline has passed.
--
-- [Cost]: one read, or one reading of the clock.
-- [Blocks]: never.
isPast :: Parker -> Deadline -> IO Bool
isPast (Parker registration) = deadlineOver registration

-- | Whether the parker is closed, by 'closeParker' or with its runtime.
--
-- [Cost]: one read.
-- [Blocks]: never.
isClosed :: Parker -> IO Bool
isClosed (Parker registration) = isClosing registration
