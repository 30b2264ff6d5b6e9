-- |
-- Module      : Heddle.IO.Internal.Listener
-- Description : Listening sockets, and accepting from them
-- Stability   : hidden; "Heddle.IO" exports what is public
--
-- A listener is one listening socket, or one per capability (SO_REUSEPORT). An accepted
-- descriptor has an owner from the system call on: the code between accept4 and the
-- registration is masked and does not park.
--
-- Cost: per connection accept4, epoll_ctl and 300 bytes.
-- Owner: 'withListener' closes the sockets.
module Heddle.IO.Internal.Listener
  ( -- * Listening
    Listener (..),
    Spread (..),
    ListenOptions (..),
    defaultListenOptions,
    withListener,
    newListener,
    adoptListener,
    adoptListeners,
    closeListener,

    -- * From process to process
    listenerDescriptors,
    handOverListener,
    takenOver,
    removeStaleSocket,

    -- * One at a time
    acceptUntil,

    -- * For services
    acceptRoom,
    accept4,
    adoptAccepted,
    Refusal (..),
    refusalOf,
  )
where

import Control.Monad (unless, void, when)
import Data.Foldable (toList, traverse_)
import Data.Int (Int32)
import Data.List.NonEmpty (NonEmpty (..))
import Data.List.NonEmpty qualified as NonEmpty
import Data.Maybe (fromMaybe)
import Foreign.Marshal.Alloc (allocaBytes)
import Foreign.Ptr (Ptr, plusPtr)
import Foreign.Storable (peek, poke)
import Heddle.IO.Internal.Address
import Heddle.IO.Internal.Manager
import Heddle.IO.Internal.Registration
import Heddle.IO.Internal.Runtime
import Heddle.IO.Internal.TicketLock (lockDirection, unlockDirection)
import Heddle.IO.Internal.Transfer (throwCode)
import Heddle.IO.Internal.Types
import Heddle.Prim.Clock
import Heddle.Prim.Errno
import Heddle.Prim.Exception
import Heddle.Prim.File (isSocketName, removeName)
import Heddle.Prim.Socket qualified as S
import Heddle.Prim.WaitCell (WaitCell, newWaitCell, reset, unpark)
import Network.Socket (SockAddr (..))
import System.Posix.Types (Fd)

-- | How connections reach the capabilities.
data Spread
  = -- | One socket, one accepting thread, which hands each connection to the less loaded
    -- of two capabilities.
    OneAcceptor
  | -- | One socket per capability (SO_REUSEPORT); the kernel spreads by address.
    PortPerCapability
  deriving stock (Eq, Show)

-- | How to listen.
data ListenOptions = ListenOptions
  { listenSpread :: !Spread,
    -- | How many connections the kernel keeps waiting; it caps this at somaxconn.
    listenBacklog :: !Int,
    -- | Send small segments at once (TCP_NODELAY), on every accepted connection.
    listenNoDelay :: !Bool
  }
  deriving stock (Eq, Show)

-- | One acceptor, a backlog of 4096, no delay.
defaultListenOptions :: ListenOptions
defaultListenOptions = ListenOptions {listenSpread = OneAcceptor, listenBacklog = 4096, listenNoDelay = True}

-- | Listening sockets for one address.
data Listener = Listener
  { listenerRuntime :: !Runtime,
    listenerRegistrations :: ![Registration],
    -- | The address bound, with the port that the kernel chose for 0.
    listenerAddress :: !SockAddr,
    -- | What to remove at closing besides the sockets (a Unix socket's file).
    listenerCleanup :: !(IO ()),
    -- | Has a token from closing on; a thread that takes it puts it back.
    listenerClosed :: !WaitCell
  }

-- | Listen, run, close.
--
-- [Blocks]: binding holds an OS thread for a moment.
-- [Throws]: 'IOError': EADDRINUSE, EACCES, EADDRNOTAVAIL…
withListener :: Runtime -> ListenOptions -> SockAddr -> (Listener -> IO a) -> IO a
withListener runtime options address = bracket (newListener runtime options address) closeListener

-- | Listen until 'closeListener'.
--
-- [Throws]: 'IOError'.
newListener :: Runtime -> ListenOptions -> SockAddr -> IO Listener
newListener runtime options address = mask_ $ do
  let managers = case (listenSpread options, address) of
        (OneAcceptor, _) -> [managerOn runtime 0]
        (_, SockAddrUnix _) -> [managerOn runtime 0]
        _ -> map (managerOn runtime) [0 .. capabilitiesOf runtime - 1]
      shared = length managers > 1
  bound <-
    if shared
      then -- A second server must fail loudly, so one bind without sharing comes first.
        bracket (boundSocket options False address) S.closeSocket boundName
      else pure address
  registrations <- open shared bound managers
  closed <- newWaitCell
  name <- case registrations of
    registration : _ -> boundName (registrationFd registration) `onException` traverse_ closeRegistration registrations
    [] -> pure address
  pure
    Listener
      { listenerRuntime = runtime,
        listenerRegistrations = registrations,
        listenerAddress = name,
        listenerCleanup = cleanupOf address,
        listenerClosed = closed
      }
  where
    boundName fd = fromMaybe address <$> nameOf "getsockname" (S.localName fd)
    open _ _ [] = pure []
    open shared bound (m : rest) = do
      registration <- bracketOnError (boundSocket options shared bound) S.closeSocket $ \fd -> do
        _ <- checked "listen" (S.listen fd (listenBacklog options))
        newRegistration m Owned fd mempty Attached (\_ -> pure ())
      (registration :) <$> open shared bound rest `onException` closeRegistration registration

-- | Accept from a socket that listens already, such as one of the network package or one that was
-- inherited: through a duplicate, so the caller closes its own. Both become non-blocking. There is
-- one acceptor. Accepted connections send small segments at once.
--
-- While the duplicate is open the kernel goes on queueing connections, though the caller has closed
-- the original.
--
-- [Cost]: six system calls.
-- [Blocks]: never.
-- [Throws]: 'IOError': EBADF, ENOTSOCK, EINVAL for a socket that does not listen.
adoptListener :: Runtime -> Fd -> IO Listener
adoptListener runtime original = adoptListeners runtime (original :| [])

-- | 'adoptListener' for all sockets of one address, such as those of a 'PortPerCapability' listener of the process before:
-- each has an acceptor, on the capabilities in turn. A socket without one would keep its share of the connections waiting.
--
-- [Cost]: six system calls for each.
-- [Blocks]: never.
-- [Throws]: as 'adoptListener'.
adoptListeners :: Runtime -> NonEmpty Fd -> IO Listener
adoptListeners runtime originals = mask_ $ do
  registrations <- adoptEach (zip (toList originals) [0 ..])
  flip onException (traverse_ closeRegistration registrations) $ do
    closed <- newWaitCell
    name <- fromMaybe (SockAddrUnix "") <$> nameOf "getsockname" (S.localName (NonEmpty.head originals))
    pure
      Listener
        { listenerRuntime = runtime,
          listenerRegistrations = registrations,
          listenerAddress = name,
          listenerCleanup = pure (),
          listenerClosed = closed
        }
  where
    adoptEach [] = pure []
    adoptEach ((original, i) : rest) = do
      registration <- adopt original (managerOn runtime (i `rem` capabilitiesOf runtime))
      (registration :) <$> adoptEach rest `onException` closeRegistration registration
    adopt original manager = do
      let what = "accept from descriptor " ++ show original
      listening <- checked what (S.getOption original S.Listening)
      when (listening == 0) (throwErrnoFor what EINVAL)
      fd <- fromIntegral <$> checked what (S.duplicate original)
      flip onException (S.closeSocket fd) $ do
        _ <- checked what (S.setNonBlocking fd)
        -- As in 'boundSocket'. On a Unix socket they fail: they do not exist there.
        _ <- S.setOption fd S.NoDelay 1
        _ <- S.setOption fd S.NotSentLowWater 131072
        newRegistration manager Owned fd mempty Attached (\_ -> pure ())

-- | The listening sockets, to be passed to another process. The listener still owns them.
listenerDescriptors :: Listener -> [Fd]
listenerDescriptors = map registrationFd . listenerRegistrations

-- | Close the listening sockets; connections live on. Idempotent.
closeListener :: Listener -> IO ()
closeListener listener = do
  closed <- traverse closeRegistration (listenerRegistrations listener)
  when (or closed) (listenerCleanup listener)
  unpark (listenerClosed listener)

-- | Close the listening sockets, and leave the file of a Unix socket: another process has been given them, and goes on
-- accepting. Idempotent; 'closeListener' does nothing afterwards.
handOverListener :: Listener -> IO ()
handOverListener listener = do
  traverse_ closeRegistration (listenerRegistrations listener)
  unpark (listenerClosed listener)

-- | A listener that was handed over by another process: closing it removes the file of a Unix socket.
takenOver :: Listener -> Listener
takenOver listener = listener {listenerCleanup = cleanupOf (listenerAddress listener)}

cleanupOf :: SockAddr -> IO ()
cleanupOf = \case
  SockAddrUnix path -> removeSocketFile path
  _ -> pure ()

boundSocket :: ListenOptions -> Bool -> SockAddr -> IO Fd
boundSocket options shared address = do
  r <- checked "socket" (S.socket (familyOf address) S.TypeStream 0)
  let fd = fromIntegral r :: Fd
  flip onException (S.closeSocket fd) $ do
    case address of
      SockAddrUnix path -> removeStaleSocket path address
      _ -> do
        set fd S.ReuseAddress 1
        when shared (set fd S.ReusePort 1)
        -- Accepted connections inherit this option.
        when (listenNoDelay options) (set fd S.NoDelay 1)
        -- Also inherited: a socket is writable again when less than this is unsent, so that
        -- progress to a slow client is visible long before its whole buffer has drained.
        set fd S.NotSentLowWater 131072
    case address of
      SockAddrInet6 {} -> set fd S.Inet6Only 1
      _ -> pure ()
    _ <- checked ("bind to " ++ renderAddress address) (withAddress address (S.bind fd))
    pure fd
  where
    set fd option value = void (checked "setsockopt" (S.setOption fd option value))

-- | Remove a socket file only if it refuses connections, which means that its server has ended. An abstract address, which begins
-- with NUL, has no file.
--
-- [Blocks]: holds an OS thread.
-- [Throws]: 'IOError'.
removeStaleSocket :: FilePath -> SockAddr -> IO ()
removeStaleSocket path address = unless (take 1 path == "\0") $ do
  probe <- fromIntegral <$> checked "socket" (S.socket S.FamilyUnix S.TypeStream 0) :: IO Fd
  r <- withAddress address (S.connect probe) `finally` S.closeSocket probe
  isSocket <- isSocketName path
  when (Errno (negate r) == ECONNREFUSED && isSocket) (removeSocketFile path)

-- It may be gone already; if it stays, binding it again tells.
removeSocketFile :: FilePath -> IO ()
removeSocketFile path = void (trySync (removeName path))

-- | Accept one connection, which the caller owns. The event manager of the caller's capability
-- waits for it.
--
-- [Blocks]: parks.
-- [Throws]: 'Heddle.IO.IOClosed', 'IOError'; ETIMEDOUT at the deadline.
-- [Threads]: any number may accept at once.
acceptUntil :: Listener -> Deadline -> IO Registration
acceptUntil listener deadline = mask_ $
  allocaBytes acceptRoom $ \scratch -> do
    m <- managerHere (listenerRuntime listener)
    let registrations = listenerRegistrations listener
        registration = case filter ((== managerCapability m) . managerCapability . registrationManager) registrations of
          mine : _ -> mine
          [] -> head registrations
        go backOff = do
          r <- attempt registration Readable deadline (accept4 scratch)
          if r >= 0
            then pure (fromIntegral r)
            else case refusalOf r of
              Again -> go backOff
              Exhausted -> do
                late <- deadlineOver registration deadline
                when late (void (throwCode "accept" TimedOutCode))
                until' <- deadlineIn backOff
                _ <- reset (registrationWrite registration)
                waitUntil registration Writable (min deadline until')
                go (min (milliseconds 100) (backOff <> backOff))
              Ended -> unpark (registrationRead registration) >> throwCode "accept" r
    entered <- lockDirection registration Readable deadline
    if entered
      then do
        fd <- go (milliseconds 5) `onException` unlockDirection registration Readable
        unlockDirection registration Readable
        adoptAccepted m Owned scratch fd Attached (\_ -> pure ())
      else throwCode "accept" TimedOutCode

-- | Accept; the peer's address goes to the memory.
--
-- [Blocks]: never.
accept4 :: Ptr () -> Fd -> IO Int
accept4 scratch fd = do
  poke (lengthOf scratch) (fromIntegral addressRoom)
  S.acceptFrom fd scratch (lengthOf scratch)

-- | How much memory 'accept4' needs.
--
-- [Units]: bytes.
acceptRoom :: Int
acceptRoom = addressRoom + 8

lengthOf :: Ptr () -> Ptr Int32
lengthOf scratch = scratch `plusPtr` addressRoom

-- | Register what 'accept4' returned, or close it.
--
-- [Throws]: 'IOError'.
adoptAccepted :: Manager -> Kind -> Ptr () -> Fd -> Start -> (Registration -> IO ()) -> IO Registration
adoptAccepted m kind scratch fd start resume = do
  n <- peek (lengthOf scratch)
  peer <- peerBytes scratch (fromIntegral n)
  newRegistration m kind fd peer start resume `onException` S.closeSocket fd

-- | What a failed accept(2) means.
data Refusal
  = -- | The new connection failed, or a signal came: try again.
    Again
  | -- | The process or the system is out of descriptors or memory.
    Exhausted
  | -- | The listener is of no more use.
    Ended

-- | The meaning of a negative answer. accept(2) passes on errors of the new connection,
-- after which the listener continues.
refusalOf :: Int -> Refusal
refusalOf r
  | e `elem` [ECONNABORTED, EINTR, EPERM, EPROTO, EOPNOTSUPP, ENOPROTOOPT, ENETUNREACH, EHOSTUNREACH, ENONET, ENETDOWN, EHOSTDOWN] = Again
  | e `elem` [EMFILE, ENFILE, ENOBUFS, ENOMEM] = Exhausted
  | otherwise = Ended
  where
    e = Errno (negate r)
