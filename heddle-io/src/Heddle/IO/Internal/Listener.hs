-- |
-- Module      : Heddle.IO.Internal.Listener
-- Description : Accepting connections on all capabilities
-- Stability   : internal, exempt from the version policy
--
-- A listener is one listening socket, or one per capability (SO_REUSEPORT). Accepted
-- descriptors are owned from the system call on; a served connection costs no thread until
-- it speaks, and none while it idles. Out of descriptors, accepting pauses: connections
-- stay in the kernel's queue.
--
-- Cost: per connection accept4, epoll_ctl and 300 bytes.
-- Owner: 'withListener' closes the sockets; a 'Service' its connections.
module Heddle.IO.Internal.Listener
  ( -- * Listening
    Listener (..),
    Spread (..),
    ListenOptions (..),
    defaultListenOptions,
    withListener,
    newListener,
    closeListener,

    -- * One at a time
    acceptUntil,

    -- * Serving
    Service,
    ServiceOptions (..),
    After (..),
    startService,
    markActive,
    stopAccepting,
    nudgeAll,
    serviceLive,
    awaitDrainedUntil,
    closeConnections,
    endService,
  )
where

import Control.Monad (unless, void, when)
import Data.Bits ((.&.))
import Data.Foldable (for_, traverse_)
import Data.Int (Int32)
import Data.Maybe (fromMaybe)
import Foreign.Marshal.Alloc (allocaBytes)
import Foreign.Ptr (Ptr, plusPtr)
import Foreign.Storable (peek, poke)
import Heddle.IO.Internal.Address
import Heddle.IO.Internal.Conn (throwCode)
import Heddle.IO.Internal.Manager
import Heddle.IO.Internal.Runtime
import Heddle.IO.Internal.Slot
import Heddle.IO.Internal.Types
import Heddle.IO.Internal.Wait (Gate, enterUntil, leave, newGate)
import Heddle.Prim.Atomic
import Heddle.Prim.Clock
import Heddle.Prim.Errno
import Heddle.Prim.Exception
import Heddle.Prim.File (isSocketName, removeName)
import Heddle.Prim.Socket qualified as S
import Heddle.Prim.Thread (forkOn, yield)
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
    listenerSlots :: ![Slot],
    -- | One per slot: 'acceptUntil' waits in turn, since a slot has one deadline.
    listenerGates :: ![Gate],
    -- | The address bound, with the port that the kernel chose for 0.
    listenerAddress :: !SockAddr,
    -- | What closing has to undo besides the sockets (a Unix socket's file).
    listenerCleanup :: !(IO ()),
    -- | Has a token from closing on; who takes it leaves it again.
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
  slots <- open shared bound managers
  gates <- traverse (const newGate) slots
  closed <- newWaitCell
  name <- case slots of
    slot : _ -> boundName (slotFd slot) `onException` traverse_ closeSlot slots
    [] -> pure address
  pure
    Listener
      { listenerRuntime = runtime,
        listenerSlots = slots,
        listenerGates = gates,
        listenerAddress = name,
        listenerCleanup = case address of
          SockAddrUnix path -> removeSocketFile path
          _ -> pure (),
        listenerClosed = closed
      }
  where
    boundName fd = fromMaybe address <$> nameOf "getsockname" (S.localName fd)
    open _ _ [] = pure []
    open shared bound (m : rest) = do
      slot <- bracketOnError (boundSocket options shared bound) S.closeSocket $ \fd -> do
        _ <- checked "listen" (S.listen fd (listenBacklog options))
        newSlot m Owned fd mempty Attached (\_ -> pure ())
      (slot :) <$> open shared bound rest `onException` closeSlot slot

-- | Close the listening sockets; connections live on. Idempotent.
closeListener :: Listener -> IO ()
closeListener listener = do
  closed <- traverse closeSlot (listenerSlots listener)
  when (or closed) (listenerCleanup listener)
  unpark (listenerClosed listener)

boundSocket :: ListenOptions -> Bool -> SockAddr -> IO Fd
boundSocket options shared address = do
  r <- checked "socket" (S.socket (familyOf address) 1 0)
  let fd = fromIntegral r :: Fd
  flip onException (S.closeSocket fd) $ do
    case address of
      SockAddrUnix path -> removeStaleSocket path address
      _ -> do
        set fd 1 2 1 -- SOL_SOCKET SO_REUSEADDR
        when shared (set fd 1 15 1) -- SOL_SOCKET SO_REUSEPORT
        when (listenNoDelay options) (set fd 6 1 1) -- IPPROTO_TCP TCP_NODELAY, inherited
        -- Also inherited: a socket is writable again when less than so much is unsent, so
        -- that progress to a slow client shows long before its whole buffer has drained.
        set fd 6 25 131072 -- IPPROTO_TCP TCP_NOTSENT_LOWAT
    case address of
      SockAddrInet6 {} -> set fd 41 26 1 -- IPPROTO_IPV6 IPV6_V6ONLY
      _ -> pure ()
    _ <- checked ("bind to " ++ renderAddress address) (withAddress address (S.bind fd))
    pure fd
  where
    set fd level name value = void (checked "setsockopt" (S.setOption fd level name value))

-- A socket file whose server is gone refuses connections; only then it is removed.
removeStaleSocket :: FilePath -> SockAddr -> IO ()
removeStaleSocket path address = do
  probe <- fromIntegral <$> checked "socket" (S.socket 1 1 0) :: IO Fd
  r <- withAddress address (S.connect probe) `finally` S.closeSocket probe
  isSocket <- isSocketName path
  when (Errno (negate r) == ECONNREFUSED && isSocket) (removeSocketFile path)

removeSocketFile :: FilePath -> IO ()
removeSocketFile path = void (trySync (removeName path))

-- | Accept one connection; the caller owns it. It is looked after by the manager of the
-- caller's capability.
--
-- [Blocks]: parks.
-- [Throws]: 'Heddle.IO.Internal.Conn.IOClosed', 'IOError'; ETIMEDOUT at the deadline.
-- [Threads]: any number may accept at once.
acceptUntil :: Listener -> Deadline -> IO Slot
acceptUntil listener deadline = mask_ $
  allocaBytes (addressRoom + 8) $ \scratch -> do
    m <- managerHere (listenerRuntime listener)
    let slots = listenerSlots listener
        doors = zip slots (listenerGates listener)
        (slot, gate) = case filter ((== managerCapability m) . managerCapability . slotManager . fst) doors of
          door : _ -> door
          [] -> head doors
        go backOff = do
          r <- attempt slot Readable deadline (accept4 scratch)
          if r >= 0
            then do
              -- One edge may stand for several connections: keep it for the next.
              unpark (slotRead slot)
              pure (fromIntegral r)
            else case verdict r of
              Again -> go backOff
              Exhausted -> do
                late <- deadlineOver slot deadline
                when late (void (throwCode "accept" TimedOutCode))
                until' <- deadlineIn backOff
                _ <- reset (slotWrite slot)
                waitUntil slot Writable (min deadline until')
                go (min (milliseconds 100) (backOff * 2))
              Ended -> unpark (slotRead slot) >> throwCode "accept" r
    entered <- enterUntil m gate deadline
    if entered
      then do
        fd <- go (milliseconds 5) `onException` leave gate
        leave gate
        adoptAccepted m Owned scratch fd Attached (\_ -> pure ())
      else throwCode "accept" TimedOutCode

accept4 :: Ptr () -> Fd -> IO Int
accept4 scratch fd = do
  poke (lengthOf scratch) (fromIntegral addressRoom)
  S.acceptFrom fd scratch (lengthOf scratch)

lengthOf :: Ptr () -> Ptr Int32
lengthOf scratch = scratch `plusPtr` addressRoom

adoptAccepted :: Manager -> Kind -> Ptr () -> Fd -> Start -> (Slot -> IO ()) -> IO Slot
adoptAccepted m kind scratch fd start resume = do
  n <- peek (lengthOf scratch)
  peer <- peerBytes scratch (fromIntegral n)
  newSlot m kind fd peer start resume `onException` S.closeSocket fd

data Verdict = Again | Exhausted | Ended

-- accept(2): errors of the new connection are passed on through accept; the listener is fine.
verdict :: Int -> Verdict
verdict r
  | e `elem` [ECONNABORTED, EINTR, EPERM, EPROTO, EOPNOTSUPP, ENETUNREACH, EHOSTUNREACH] = Again
  | errnoNumber e `elem` [64, 92, 100, 112] = Again -- ENONET ENOPROTOOPT ENETDOWN EHOSTDOWN
  | e `elem` [EMFILE, ENFILE, ENOBUFS, ENOMEM] = Exhausted
  | otherwise = Ended
  where
    e = Errno (negate r)

-- Serving ---------------------------------------------------------------------

-- | What a connection's thread wants next.
data After
  = -- | Close the connection.
    Done
  | -- | Nothing to do: go on when something can be read or the deadline passes. The
    -- thread must hold nothing; it may end, and another one call the handler again.
    IdleUntil !Deadline

-- | How a service treats its connections.
data ServiceOptions = ServiceOptions
  { -- | The name of its accepting threads.
    serviceName :: !String,
    -- | How long a new connection may stay silent.
    serviceFirstByte :: !Nanos,
    -- | Runs a connection that is new or has something to read, masked, in a thread on the
    -- connection's capability, until it says what comes after.
    serviceHandler :: !(Slot -> IO After),
    -- | Hears of handlers that throw.
    serviceFailed :: !(SomeException -> IO ()),
    -- | Hears, once per pause, that accepting paused for want of descriptors or memory.
    servicePaused :: !(Errno -> IO ())
  }

-- | A listener being served.
data Service = Service
  { serviceListener :: !Listener,
    -- | Tells its connections from those of others.
    serviceNumber :: !Int,
    serviceOptions :: !ServiceOptions,
    -- | Word 0: connections open; 1: accepting threads; 8: accepting is paused; 16: draining.
    serviceWords :: !Words,
    -- | A timer slot whose write cell is woken when the last connection closes.
    serviceDrained :: !Slot
  }

-- | Accept and serve in the background until 'stopAccepting'.
--
-- [Cost]: one thread per listening socket.
-- [Blocks]: never.
startService :: Listener -> ServiceOptions -> IO Service
startService listener given = mask_ $ do
  -- A report that cannot be written must not end the thread that makes it.
  let options =
        given
          { serviceFailed = void . trySync . serviceFailed given,
            servicePaused = void . trySync . servicePaused given
          }
  drained <- newSlot (managerOn (listenerRuntime listener) 0) TimerOnly (-1) mempty Attached (\_ -> pure ())
  number <- fetchAdd (runtimeTurn (listenerRuntime listener)) 8 1
  service <- (\ws -> Service listener number options ws drained) <$> newWords 24
  _ <- fetchAdd (serviceWords service) 1 (length (listenerSlots listener))
  for_ (listenerSlots listener) $ \slot -> do
    let capability = managerCapability (slotManager slot)
    forkOn capability (serviceName options ++ "/accept/" ++ show capability) (acceptLoop service slot)
  pure service

acceptLoop :: Service -> Slot -> IO ()
acceptLoop service slot =
  mask_ $ allocaBytes (addressRoom + 8) (\scratch -> go scratch (0 :: Int) firstBackOff) `finally` gone
  where
    options = serviceOptions service
    listener = serviceListener service
    alone = length (listenerSlots listener) == 1
    firstBackOff = milliseconds 5
    go scratch burst backOff = do
      r <- attempt slot Readable never (accept4 scratch)
      if r >= 0
        then do
          m <- if alone then leastLoaded (listenerRuntime listener) else pure (slotManager slot)
          _ <- fetchAdd (serviceWords service) 0 1
          first <- deadlineIn (serviceFirstByte options)
          opened <- trySync (adoptAccepted m (Served (serviceNumber service)) scratch (fromIntegral r) (DetachedUntil first) (activate service))
          case opened of
            Right opened' -> do
              -- A drain that began meanwhile has not seen it.
              draining <- atomicRead (serviceWords service) 16
              when (draining == 1) (unpark (slotRead opened') >> continue opened')
            Left e -> countDown service >> serviceFailed options e
          -- A burst lets the connections' threads run now and then.
          when (burst .&. 63 == 63) yieldHere
          go scratch (burst + 1) firstBackOff
        else case verdict r of
          Again -> go scratch burst backOff
          Exhausted -> do
            when (backOff == firstBackOff) (servicePaused options (Errno (negate r)))
            writeWord (serviceWords service) 8 1
            until' <- deadlineIn backOff
            _ <- reset (slotWrite slot)
            waitUntil slot Writable until'
            writeWord (serviceWords service) 8 0
            go scratch burst (min (milliseconds 100) (backOff * 2))
          Ended ->
            isClosing slot >>= \closing -> unless (closing || r == ClosedCode) $ do
              failed <- trySync (throwCode "accept" r)
              either (serviceFailed options) pure failed
              -- A service without its acceptor must not look alive.
              closeListener listener
    yieldHere = yield
    -- What was accepted last is counted by now, so that draining is exact.
    gone = fetchAdd (serviceWords service) 1 (-1) >> wakeDrainer service

-- | Note that the connection did something useful: one that does so twice within a second
-- keeps its thread while it waits.
--
-- [Cost]: two stores.
markActive :: Slot -> IO ()
markActive slot = do
  Deadline now <- managerNow (slotManager slot)
  last' <- readWord (slotWords slot) SlotLastActive
  writeWord (slotWords slot) SlotBeforeLast last'
  writeWord (slotWords slot) SlotLastActive now
{-# INLINE markActive #-}

-- One life of a connection's thread; see Note [Threads are earned]. One handler frame
-- serves all of its requests. 'True' from the talk: somebody else runs the slot now.
activate :: Service -> Slot -> IO ()
activate service slot =
  mask_ $
    try talk >>= \case
      Right True -> pure ()
      Right False -> finish
      Left e -> do
        finish
        unless (isAsynchronous e) (serviceFailed options e)
  where
    options = serviceOptions service
    talk =
      serviceHandler options slot >>= \case
        IdleUntil deadline -> idle deadline
        Done -> pure False
    idle deadline@(Deadline d) = do
      -- A handler that finds nothing to read asks how long it may go on waiting.
      writeWord (slotWords slot) SlotIdle d
      Deadline now <- managerNow (slotManager slot)
      before <- readWord (slotWords slot) SlotBeforeLast
      latest <- readWord (slotWords slot) SlotLastActive
      if now - before < keep && now - latest < keep
        then do
          waitUntil slot Readable (min deadline (Deadline (latest + keep)))
          talk
        else do
          parked <- detachUntil slot deadline
          if parked then pure True else talk
    keep = 1000000000
    finish = do
      _ <- closeSlot slot
      countDown service

countDown :: Service -> IO ()
countDown service = do
  left <- fetchAdd (serviceWords service) 0 (-1)
  paused <- readWord (serviceWords service) 8
  when (paused == 1) $ for_ (listenerSlots (serviceListener service)) (unpark . slotWrite)
  when (left == 1) (wakeDrainer service)

wakeDrainer :: Service -> IO ()
wakeDrainer service = do
  draining <- atomicRead (serviceWords service) 16
  when (draining == 1) $ unpark (slotWrite (serviceDrained service))

-- | Close the listening sockets; the connections are served on. Idempotent.
stopAccepting :: Service -> IO ()
stopAccepting = closeListener . serviceListener

-- | Call every idle connection's handler, though there is nothing to read.
--
-- [Cost]: O(connections).
nudgeAll :: Service -> IO ()
nudgeAll service = allSlots service $ \slot -> unpark (slotRead slot) >> continue slot

-- | Close every connection at once.
--
-- [Cost]: O(connections).
closeConnections :: Service -> IO ()
closeConnections service = allSlots service (void . closeSlot)

allSlots :: Service -> (Slot -> IO ()) -> IO ()
allSlots service act = for_ [0 .. capabilitiesOf runtime - 1] $ \i ->
  liveSlots (managerOn runtime i) >>= traverse_ (\slot -> when (ours slot) (act slot))
  where
    runtime = listenerRuntime (serviceListener service)
    ours slot = case slotKind slot of Served number -> number == serviceNumber service; _ -> False

-- | How many connections are open.
serviceLive :: Service -> IO Int
serviceLive service = readWord (serviceWords service) 0

-- | Give back what the service itself holds; whoever awaits its drain is told 'False'.
--
-- [Blocks]: never.
endService :: Service -> IO ()
endService = void . closeSlot . serviceDrained

-- | After 'stopAccepting', wait until no connection is open; 'False' at the deadline, or when the runtime stops.
--
-- [Blocks]: parks.
awaitDrainedUntil :: Service -> Deadline -> IO Bool
awaitDrainedUntil service deadline = do
  atomicWrite (serviceWords service) 16 1
  go
  where
    slot = serviceDrained service
    go = do
      _ <- reset (slotWrite slot)
      left <- (+) <$> atomicRead (serviceWords service) 1 <*> atomicRead (serviceWords service) 0
      late <- deadlineOver slot deadline
      -- A runtime that stops closes its slots; nothing would wake us any more.
      stopped <- isClosing slot
      if left == 0
        then pure True
        else if late || stopped then pure False else waitUntil slot Writable deadline >> go

-- Note [Threads are earned]
-- ~~~~~~~~~~~~~~~~~~~~~~~~~
-- A thread that waits costs over a kilobyte; starting one costs a fraction of a
-- microsecond. So a connection that idles has none: the loop starts one when there is
-- something to read. Only a connection that was useful twice within the last second keeps
-- its thread, for a second, and saves the start. Fifteen thousand idle browsers therefore
-- hold slots, not stacks.
