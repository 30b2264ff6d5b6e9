-- |
-- Module      : Heddle.Serve.Messages
-- Description : Reporting events without waiting for their listener
-- Stability   : internal, exempt from the version policy
--
-- A thread of its own passes events to the listener, in order. If the listener writes to a
-- pipe without a reader, only this thread blocks: connections, the log's writer and a stop
-- continue.
--
-- Cost: a fork and a queue; nothing until an event comes.
-- Owner: 'withMessages'; its thread is left behind while a message blocks, see Note [A thread
-- left behind].
module Heddle.Serve.Messages
  ( Messages,
    withMessages,
    announce,
    announceSoon,
  )
where

import Control.Monad (unless, void, when)
import Data.Foldable (for_)
import Heddle.IO (Runtime)
import Heddle.IO.Parker qualified as Parker
import Heddle.Prim.Atomic
import Heddle.Prim.Clock
import Heddle.Prim.Exception
import Heddle.Prim.Thread (fork)
import Heddle.Prim.WaitCell

-- | The events that wait for the listener.
data Messages event = Messages
  { -- | Their number, and the events, newest first.
    messagesQueue :: !(Ref (Int, [Item event])),
    messagesWake :: !WaitCell,
    messagesRuntime :: !Runtime
  }

-- An event, or 'Nothing' to end the thread; then an action for after the event was delivered.
data Item event = Item !(Maybe event) !(IO ())

-- Events are dropped while this many wait.
most :: Int
most = 256

-- | Run with a thread that delivers events; at the end, wait up to a second for it.
--
-- [Blocks]: as the body does.
withMessages :: Runtime -> (event -> IO ()) -> (Messages event -> IO a) -> IO a
withMessages runtime tell = bracket open (\messages -> uninterruptibleMask_ (put messages Nothing))
  where
    open = do
      messages <- Messages <$> newRef (0, []) <*> newWaitCell <*> pure runtime
      messages <$ fork "serve/messages" (go messages)
    go messages = do
      items <- modifyRef (messagesQueue messages) (\(_, items) -> ((0, []), reverse items))
      when (null items) (park (messagesWake messages))
      for_ items $ \(Item event told) -> for_ event (void . trySync . tell) >> told
      unless (any last' items) (go messages)
    last' (Item event _) = null event

-- | Queue an event.
--
-- [Blocks]: never.
announce :: Messages event -> event -> IO ()
announce messages event = add messages (Item (Just event) (pure ()))

-- | Queue an event and wait until it was delivered, for a second at most.
--
-- [Blocks]: parks.
announceSoon :: Messages event -> event -> IO ()
announceSoon messages = put messages . Just

add :: Messages event -> Item event -> IO ()
add messages item@(Item event _) = do
  modifyRef (messagesQueue messages) $ \queue@(n, items) ->
    (if n >= most && not (null event) then queue else (n + 1, item : items), ())
  unpark (messagesWake messages)

put :: Messages event -> Maybe event -> IO ()
put messages event = do
  done <- newWords 1
  Parker.withParker (messagesRuntime messages) $ \parker -> do
    add messages (Item event (atomicWrite done 0 1 >> Parker.unpark parker))
    deadline <- deadlineIn (seconds 1)
    void . Parker.awaitUntil parker deadline $ do
      told <- atomicRead done 0
      pure (if told == 1 then Just () else Nothing)

-- Note [A thread left behind]
-- ~~~~~~~~~~~~~~~~~~~~~~~~~~~
-- The thread is not a task of a heddle-scope scope, because a scope ends only after its tasks,
-- and this thread may be in a write to a pipe that nobody reads, which no exception interrupts.
-- 'withMessages' waits for it for a second and then leaves it behind.
