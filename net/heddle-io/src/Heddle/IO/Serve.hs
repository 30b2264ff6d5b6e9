-- |
-- Module      : Heddle.IO.Serve
-- Description : Accepting and serving connections
-- Stability   : hidden; "Heddle.IO" exports it
--
-- Connections of "Heddle.IO" over a service of "Heddle.IO.Service". 'serve' returns only when
-- all its connections have ended.
--
-- Cost: per connection that of "Heddle.IO.Service", and two compare-and-sets.
-- Owner: the thread in 'serve'.
-- Shared writes per request: 0; per handler call: 2.
module Heddle.IO.Serve
  ( accept,
    acceptUntil,
    serveEach,
    serve,
  )
where

import Control.Monad (unless, void)
import Data.Foldable (for_)
import Data.IntMap.Strict (IntMap)
import Data.IntMap.Strict qualified as IntMap
import Heddle.IO.Connection
import Heddle.IO.Internal.Listener hiding (acceptUntil)
import Heddle.IO.Internal.Listener qualified as Listener
import Heddle.IO.Internal.Registration
import Heddle.IO.Internal.Runtime (capabilitiesOf)
import Heddle.IO.Internal.Transfer (IOClosed)
import Heddle.IO.Internal.Types
import Heddle.IO.Service
import Heddle.Prim.Atomic
import Heddle.Prim.Clock
import Heddle.Prim.Errno
import Heddle.Prim.Exception
import Heddle.Prim.Thread
import Heddle.Prim.WaitCell (park)
import Heddle.Prim.WaitCell qualified as Cell

-- | Accept a connection, which the caller owns. Waits while the process is out of descriptors.
--
-- [Cost]: two system calls.
-- [Blocks]: parks.
-- [Masking]: interruptible; nothing accepted is lost.
-- [Throws]: 'IOClosed' when the listener is closed, 'IOError'.
-- [Threads]: any number, in turn; with 'PortPerCapability', each thread accepts what came
-- to its capability's socket.
accept :: Listener -> IO Conn
accept listener = connectionOf <$> Listener.acceptUntil listener never

-- | 'accept', or 'Nothing' at the deadline.
--
-- [Cost]: two system calls.
-- [Blocks]: parks.
-- [Masking]: interruptible; nothing accepted is lost.
-- [Throws]: 'IOClosed' when the listener is closed, 'IOError'.
-- [Threads]: as 'accept'.
acceptUntil :: Listener -> Deadline -> IO (Maybe Conn)
acceptUntil listener deadline =
  handleJust late (\() -> pure Nothing) (Just . connectionOf <$> Listener.acceptUntil listener deadline)
  where
    late e = if errnoOf e == Just ETIMEDOUT then Just () else Nothing

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
serveEach listener handler = serve defaultServiceOptions listener (\conn -> Done <$ handler conn)

-- | 'serveEach' for handlers that say what comes next: after 'IdleUntil' the connection
-- costs no thread until something can be read, the deadline passes or it is closed; then
-- the handler is called again, unless it was closed. When descriptors run out or the limit
-- is reached, the connection that has been idle longest is closed for a new one. The options
-- are those of "Heddle.IO.Service".
--
-- [Cost]: as 'serveEach'; per handler call two compare-and-sets and a label.
-- [Blocks]: parks.
-- [Masking]: interruptible. Handlers run unmasked, whatever the caller's state.
-- [Throws]: what the caller is interrupted with; never what a handler throws.
serve :: ServiceOptions -> Listener -> (Conn -> IO After) -> IO ()
serve options listener handler = mask_ $ do
  roster <- newRef (Roster True IntMap.empty)
  service <- startService options {serviceFailed = failed roster} listener (converse options listener handler roster)
  let closed = listenerClosed listener
  (park closed >> Cell.unpark closed >> void (awaitDrainedUntil service never))
    `onException` abandon service roster
  where
    -- Losing the connection is not a failure of the handler once the service is abandoned.
    failed roster e = do
      Roster open _ <- readRef roster
      case fromException e of
        Just (_ :: IOClosed) | not open -> pure ()
        _ -> serviceFailed options e

-- Whether handlers may still start, and the connections: the registration, and the thread in
-- the handler.
data Roster = Roster !Bool !(IntMap (Registration, Maybe ThreadId))

converse :: ServiceOptions -> Listener -> (Conn -> IO After) -> Ref Roster -> Registration -> IO After
converse options listener handler roster registration = do
  me <- myThreadId
  closing <- isClosing registration
  admitted <- if closing then pure False else enrol (Just me)
  if admitted then run else strike
  where
    capability = managerCapability (registrationManager registration)
    key = registrationStamp registration * capabilitiesOf (listenerRuntime listener) + capability
    enrol thread = modifyRef roster $ \case
      Roster True open -> (Roster True (IntMap.insert key (registration, thread) open), True)
      ended -> (ended, False)
    strike = Done <$ modifyRef roster (\(Roster open rest) -> (Roster open (IntMap.delete key rest), ()))
    run = do
      labelMe (serviceName options ++ "/" ++ show capability ++ "/" ++ show (registrationFd registration))
      try (unsafeUnmask (handler (connectionOf registration))) >>= \case
        Right (IdleUntil deadline) -> do
          markActive registration
          open <- enrol Nothing
          if open then pure (IdleUntil deadline) else strike
        Right Done -> strike
        Left (e :: SomeException) -> strike >> throwIO e

-- Ends when every connection has ended. A handler that does not let itself be interrupted
-- delays it, because nothing may outlive the service.
abandon :: Service -> Ref Roster -> IO ()
abandon service roster = uninterruptibleMask_ $ do
  stopAccepting service
  connections <- modifyRef roster (\(Roster _ open) -> (Roster False open, IntMap.elems open))
  for_ connections $ \(registration, _) -> closeRegistration registration
  -- In threads of their own, so that none waits for another's masked handler.
  for_ connections $ \(_, thread) -> for_ thread $ \t -> fork "io/serve/abandon" (throwTo t ThreadKilled)
  unless (null connections) yield
  void (awaitDrainedUntil service never)
