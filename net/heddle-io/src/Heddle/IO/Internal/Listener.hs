-- |
-- Module      : Heddle.IO.Internal.Listener
-- Description : Accepting connections on all capabilities
-- Stability   : internal, exempt from the version policy
--
-- A listener is one listening socket, or one per capability (SO_REUSEPORT). Accepted
-- descriptors are owned from the system call on; a served connection costs no thread until
-- it speaks, and none while it idles. Out of descriptors, or at the limit of connections,
-- the one that has been idle longest is closed for a newcomer; if none is idle, accepting
-- pauses, and connections stay in the kernel's queue.
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
    Shortage (..),
    describeShortage,
    After (..),
    startService,
    startServices,
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
import Heddle.IO.Internal.Evict
import Heddle.IO.Internal.Manager
import Heddle.IO.Internal.Runtime
import Heddle.IO.Internal.Slot
import Heddle.IO.Internal.Turn (enterTurn, leaveTurn)
import Heddle.IO.Internal.Types
import Heddle.Prim.Atomic
import Heddle.Prim.Clock
import Heddle.Prim.Errno
import Heddle.Prim.Exception
import Heddle.Prim.File (isSocketName, removeName)
import Heddle.Prim.Poller (eventIn, pollOne)
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
  closed <- newWaitCell
  name <- case slots of
    slot : _ -> boundName (slotFd slot) `onException` traverse_ closeSlot slots
    [] -> pure address
  pure
    Listener
      { listenerRuntime = runtime,
        listenerSlots = slots,
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
        slot = case filter ((== managerCapability m) . managerCapability . slotManager) slots of
          mine : _ -> mine
          [] -> head slots
        go backOff = do
          r <- attempt slot Readable deadline (accept4 scratch)
          if r >= 0
            then pure (fromIntegral r)
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
    entered <- enterTurn slot Readable deadline
    if entered
      then do
        fd <- go (milliseconds 5) `onException` leaveTurn slot Readable
        leaveTurn slot Readable
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
    -- | Hears, at most once a minute, that accepting paused for want of descriptors or
    -- memory, and no idle connection could make room.
    servicePaused :: !(Errno -> IO ()),
    -- | How many connections may be open at once, over all listeners started together;
    -- 'maxBound' for no limit. Cores that accept at the same moment may go past it by one
    -- each.
    serviceLimit :: !Int,
    -- | Hears, at most once a minute, that idle connections are closed, those idle longest
    -- first, to make room for new ones.
    serviceCrowded :: !(Shortage -> IO ())
  }

-- | What there is too little of for all connections.
data Shortage
  = -- | Descriptors: EMFILE or ENFILE.
    NoDescriptors !Errno
  | -- | So many connections are open, which is the limit.
    AtLimit !Int
  deriving stock (Eq, Show)

-- | What to tell an operator, in one line.
describeShortage :: Shortage -> String
describeShortage shortage =
  "idle connections are closed to make room for new ones: " ++ case shortage of
    NoDescriptors e -> describeErrno e ++ "; raise the limit of open files (ulimit -n)"
    AtLimit n -> "all " ++ show n ++ " that the limit allows are open"

-- | A listener being served.
data Service = Service
  { serviceListener :: !Listener,
    -- | Tells its connections from those of others.
    serviceNumber :: !Int,
    serviceOptions :: !ServiceOptions,
    -- | Word 0: connections open; 1: accepting threads; 8: accepting is paused; 9, 10: when
    -- a pause or a crowd was last reported; 16: draining.
    serviceWords :: !Words,
    -- | The words of the services started together, this one's among them.
    servicePeers :: ![Words],
    -- | A timer slot whose write cell is woken when the last connection closes.
    serviceDrained :: !Slot
  }

-- | Accept and serve in the background until 'stopAccepting'.
--
-- [Cost]: one thread per listening socket.
-- [Blocks]: never.
startService :: Listener -> ServiceOptions -> IO Service
startService listener options = head <$> startServices [listener] options

-- | 'startService' for several listeners, whose connections together are limited.
--
-- [Cost]: one thread per listening socket.
-- [Blocks]: never.
startServices :: [Listener] -> ServiceOptions -> IO [Service]
startServices listeners given = mask_ $ do
  -- A report that cannot be written must not end the thread that makes it.
  let options =
        given
          { serviceFailed = void . trySync . serviceFailed given,
            servicePaused = void . trySync . servicePaused given,
            serviceCrowded = void . trySync . serviceCrowded given
          }
  peers <- traverse (const (newWords 24)) listeners
  traverse (\(listener, ws) -> startOne listener options ws peers) (zip listeners peers)

startOne :: Listener -> ServiceOptions -> Words -> [Words] -> IO Service
startOne listener options words' peers = do
  drained <- newSlot (managerOn (listenerRuntime listener) 0) TimerOnly (-1) mempty Attached (\_ -> pure ())
  number <- fetchAdd (runtimeTurn (listenerRuntime listener)) 8 1
  let service = Service listener number options words' peers drained
  _ <- fetchAdd (serviceWords service) 1 (length (listenerSlots listener))
  for_ (listenerSlots listener) $ \slot -> do
    let capability = managerCapability (slotManager slot)
    forkOn capability (serviceName options ++ "/accept/" ++ show capability) (acceptLoop service slot)
  pure service

acceptLoop :: Service -> Slot -> IO ()
acceptLoop service slot =
  mask_ $ newCandidates >>= \idlers -> allocaBytes (addressRoom + 8) (\scratch -> go idlers scratch (0 :: Int) firstBackOff) `finally` gone
  where
    options = serviceOptions service
    listener = serviceListener service
    alone = length (listenerSlots listener) == 1
    firstBackOff = milliseconds 5
    kind = Served (serviceNumber service) (countDown service)
    go idlers scratch burst backOff = do
      full <- atLimit service
      -- At the limit, room is made only for somebody who is there.
      r <- attempt slot Readable never (if full then newcomer else accept4 scratch)
      if full && r > 0 then makeRoom idlers scratch burst backOff (AtLimit (serviceLimit options)) else accepted idlers scratch burst backOff r
    newcomer fd = (\bits -> if bits == 0 then negate (errnoNumber EAGAIN) else bits) <$> pollOne fd eventIn
    -- A connection that idles gives its place up; if none does, wait for one to end.
    makeRoom idlers scratch burst backOff shortage = do
      made <- closeLongestIdle (listenerRuntime listener) idlers
      let pausing = case shortage of
            NoDescriptors e | not made -> once 9 (servicePaused options e)
            _ -> once 10 (serviceCrowded options shortage)
      pausing
      if made
        then go idlers scratch burst firstBackOff
        else do
          writeWord (serviceWords service) 8 1
          until' <- deadlineIn backOff
          _ <- reset (slotWrite slot)
          waitUntil slot Writable until'
          writeWord (serviceWords service) 8 0
          go idlers scratch burst (min (milliseconds 100) (backOff * 2))
    once = atMostOnceAMinute (head (servicePeers service))
    accepted idlers scratch burst backOff r =
      if r >= 0
        then do
          m <- if alone then leastLoaded (listenerRuntime listener) else pure (slotManager slot)
          _ <- fetchAdd (serviceWords service) 0 1
          first <- deadlineIn (serviceFirstByte options)
          opened <- trySync (adoptAccepted m kind scratch (fromIntegral r) (DetachedUntil first) (activate service))
          case opened of
            Right opened' -> do
              -- A drain that began meanwhile has not seen it.
              draining <- atomicRead (serviceWords service) 16
              when (draining == 1) (unpark (slotRead opened') >> continue opened')
            Left e -> countDown service >> serviceFailed options e
          -- A burst lets the connections' threads run now and then.
          when (burst .&. 63 == 63) yieldHere
          go idlers scratch (burst + 1) firstBackOff
        else case verdict r of
          Again -> go idlers scratch burst backOff
          Exhausted -> do
            -- accept(2) takes a descriptor before it looks whether anybody is there.
            there <- attempt slot Readable never newcomer
            if there > 0
              then makeRoom idlers scratch burst backOff (NoDescriptors (Errno (negate r)))
              else go idlers scratch burst backOff
          Ended ->
            isClosing slot >>= \closing -> unless (closing || r == ClosedCode) $ do
              failed <- trySync (throwCode "accept" r)
              either (serviceFailed options) pure failed
              -- A service without its acceptor must not look alive.
              closeListener listener
    yieldHere = yield
    -- What was accepted last is counted by now, so that draining is exact.
    gone = fetchAdd (serviceWords service) 1 (-1) >> wakeDrainer service

atLimit :: Service -> IO Bool
atLimit service
  | limit == maxBound = pure False
  | otherwise = (>= limit) . sum <$> traverse (`readWord` 0) (servicePeers service)
  where
    limit = serviceLimit (serviceOptions service)
{-# INLINE atLimit #-}

-- The word holds when it was done last.
atMostOnceAMinute :: Words -> Int -> IO () -> IO ()
atMostOnceAMinute ws at report = do
  Deadline now <- monotonicNow
  before <- readWord ws at
  when (before == 0 || Deadline now >= after (seconds 60) (Deadline before)) $ do
    won <- compareAndSet ws at before now
    when won report

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
          writeWord (slotWords slot) SlotDetached 2
          waitUntil slot Readable (min deadline (Deadline (latest + keep)))
          mine <- compareAndSet (slotWords slot) SlotDetached 2 0
          if mine then talk else pure False
        else do
          parked <- detachUntil slot deadline
          if parked then pure True else talk
    keep = 1000000000
    finish = do
      _ <- closeSlot slot
      evicted <- readWord (slotWords slot) SlotDetached
      unless (evicted == 3) (countDown service)

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
    ours slot = case slotKind slot of Served number _ -> number == serviceNumber service; _ -> False

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
