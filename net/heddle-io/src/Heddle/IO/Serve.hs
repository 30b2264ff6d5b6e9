-- |
-- Module      : Heddle.IO.Serve
-- Description : Accepting and serving connections
-- Stability   : hidden; "Heddle.IO" exports it
--
-- Every accepted connection is somebody's from the system call on: its handler's, or the
-- service's, which closes it. A service ends only when all its connections have.
--
-- Cost: per connection that of "Heddle.IO.Internal.Listener", and two compare-and-sets.
-- Owner: the thread in 'serve'.
-- Shared writes per request: 0; per handler call: 2.
module Heddle.IO.Serve
  ( accept,
    acceptUntil,
    ServeOptions (..),
    Shortage (..),
    describeShortage,
    defaultServeOptions,
    serveEach,
    serve,
  )
where

import Control.Monad (unless, void)
import Data.Foldable (for_)
import Data.IntMap.Strict (IntMap)
import Data.IntMap.Strict qualified as IntMap
import Data.Maybe (fromMaybe)
import Heddle.IO.Connection
import Heddle.IO.Internal.Conn (IOClosed)
import Heddle.IO.Internal.Listener hiding (acceptUntil)
import Heddle.IO.Internal.Listener qualified as Listener
import Heddle.IO.Internal.Runtime (capabilitiesOf)
import Heddle.IO.Internal.Slot
import Heddle.IO.Internal.Types
import Heddle.Prim.Atomic
import Heddle.Prim.Clock
import Heddle.Prim.Errno
import Heddle.Prim.Exception
import Heddle.Prim.Message (putErrorLine)
import Heddle.Prim.Thread
import Heddle.Prim.WaitCell (park)
import Heddle.Prim.WaitCell qualified as Cell

-- | Accept a connection; the caller owns it. Out of descriptors, waits until there are.
--
-- [Cost]: two system calls.
-- [Blocks]: parks.
-- [Masking]: interruptible; nothing accepted is lost.
-- [Throws]: 'IOClosed' when the listener is closed, 'IOError'.
-- [Threads]: any number, in turn; with 'PortPerCapability', each thread accepts what came
-- to its capability's socket.
accept :: Listener -> IO Conn
accept listener = ofSlot <$> Listener.acceptUntil listener never

-- | 'accept', or 'Nothing' at the deadline.
--
-- [Cost]: two system calls.
-- [Blocks]: parks.
-- [Masking]: interruptible; nothing accepted is lost.
-- [Throws]: 'IOClosed' when the listener is closed, 'IOError'.
-- [Threads]: as 'accept'.
acceptUntil :: Listener -> Deadline -> IO (Maybe Conn)
acceptUntil listener deadline =
  handleJust late (\() -> pure Nothing) (Just . ofSlot <$> Listener.acceptUntil listener deadline)
  where
    late e = if errnoOf e == Just ETIMEDOUT then Just () else Nothing

-- | How to serve.
data ServeOptions = ServeOptions
  { -- | Begins the names of the service's threads.
    serveName :: !String,
    -- | Hears of handlers that throw, and of the listener's failure, which closes it.
    serveFailed :: !(SomeException -> IO ()),
    -- | Hears, at most once a minute, that accepting paused for want of descriptors or
    -- memory, and no connection was idle ('IdleUntil') to make room.
    servePaused :: !(Errno -> IO ()),
    -- | How many connections may be open at once; 'Nothing' for as many as there are
    -- descriptors.
    serveLimit :: !(Maybe Int),
    -- | Hears, at most once a minute, that the connections idle longest are closed to make
    -- room for new ones.
    serveCrowded :: !(Shortage -> IO ())
  }

-- | Named @io/serve@, without a limit; failures, pauses and crowds go to the standard error.
defaultServeOptions :: ServeOptions
defaultServeOptions =
  ServeOptions
    { serveName = "io/serve",
      serveFailed = \e -> putErrorLine ("heddle-io: serving a connection failed: " ++ displayException e),
      servePaused = \e ->
        putErrorLine $
          "heddle-io: accepting pauses: "
            ++ describeErrno e
            ++ ".\n  Connections wait in the kernel's queue. Raise the limit (ulimit -n) if this happens often.",
      serveLimit = Nothing,
      serveCrowded = \shortage -> putErrorLine ("heddle-io: " ++ describeShortage shortage)
    }

-- | Serve every connection in a thread of its own, on the connection's capability, and
-- close it when the handler returns or throws. Returns when the listener has been closed
-- ('closeListener') and every connection has ended; interrupted, it closes the listener
-- and all connections, kills their threads, waits for them, and then throws on.
--
-- [Cost]: per connection a thread and three system calls.
-- [Blocks]: parks.
-- [Masking]: interruptible. Handlers run unmasked, whatever the caller's state.
-- [Throws]: what the caller is interrupted with; never what a handler throws.
serveEach :: Listener -> (Conn -> IO ()) -> IO ()
serveEach listener handler = serve defaultServeOptions listener (\conn -> Done <$ handler conn)

-- | 'serveEach' for handlers that say what comes next: after 'IdleUntil' the connection
-- costs no thread until something can be read, the deadline passes or it is closed; then
-- the handler is called again, unless it was closed. When descriptors run out or the limit
-- is reached, the connection that has been idle longest is closed for a new one.
--
-- [Cost]: as 'serveEach'; per handler call two compare-and-sets and a label.
-- [Blocks]: parks.
-- [Masking]: interruptible. Handlers run unmasked, whatever the caller's state.
-- [Throws]: what the caller is interrupted with; never what a handler throws.
serve :: ServeOptions -> Listener -> (Conn -> IO After) -> IO ()
serve options listener handler = mask_ $ do
  roster <- newRef (Roster True IntMap.empty)
  service <-
    startService
      listener
      ServiceOptions
        { serviceName = serveName options,
          -- A server may have to speak first, so the handler is called at once.
          serviceFirstByte = nanos 0,
          serviceHandler = converse options listener handler roster,
          serviceFailed = failed roster,
          servicePaused = servePaused options,
          serviceLimit = fromMaybe maxBound (serveLimit options),
          serviceCrowded = serveCrowded options
        }
  let closed = listenerClosed listener
  (park closed >> Cell.unpark closed >> void (awaitDrainedUntil service never))
    `onException` abandon service roster
  where
    -- Losing the connection is no failure of a handler once the service is abandoned.
    failed roster e = do
      Roster open _ <- readRef roster
      case fromException e of
        Just (_ :: IOClosed) | not open -> pure ()
        _ -> serveFailed options e

-- Is the service open to handlers, and its connections: the slot, and the thread in the
-- handler.
data Roster = Roster !Bool !(IntMap (Slot, Maybe ThreadId))

converse :: ServeOptions -> Listener -> (Conn -> IO After) -> Ref Roster -> Slot -> IO After
converse options listener handler roster slot = do
  me <- myThreadId
  closing <- isClosing slot
  admitted <- if closing then pure False else enrol (Just me)
  if admitted then run else strike
  where
    capability = managerCapability (slotManager slot)
    key = slotStamp slot * capabilitiesOf (listenerRuntime listener) + capability
    enrol thread = modifyRef roster $ \case
      Roster True open -> (Roster True (IntMap.insert key (slot, thread) open), True)
      ended -> (ended, False)
    strike = Done <$ modifyRef roster (\(Roster open rest) -> (Roster open (IntMap.delete key rest), ()))
    run = do
      labelMe (serveName options ++ "/" ++ show capability ++ "/" ++ show (slotFd slot))
      try (unsafeUnmask (handler (ofSlot slot))) >>= \case
        Right (IdleUntil deadline) -> do
          markActive slot
          open <- enrol Nothing
          if open then pure (IdleUntil deadline) else strike
        Right Done -> strike
        Left (e :: SomeException) -> strike >> throwIO e

-- Ends when every connection has; a handler that does not let itself be interrupted holds
-- it up, as it must: nothing may outlive the service.
abandon :: Service -> Ref Roster -> IO ()
abandon service roster = uninterruptibleMask_ $ do
  stopAccepting service
  connections <- modifyRef roster (\(Roster _ open) -> (Roster False open, IntMap.elems open))
  for_ connections $ \(slot, _) -> closeSlot slot
  -- In threads of their own, so that none waits for another's masked handler.
  for_ connections $ \(_, thread) -> for_ thread $ \t -> fork "io/serve/abandon" (throwTo t ThreadKilled)
  unless (null connections) yield
  void (awaitDrainedUntil service never)
