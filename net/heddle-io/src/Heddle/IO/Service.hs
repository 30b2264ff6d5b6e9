-- |
-- Module      : Heddle.IO.Service
-- Description : Listeners served without a thread per idle connection
-- Stability   : stable
--
-- For writers of servers. A service accepts the connections of a listener and calls a
-- handler when one has something to read. The handler reads and writes through
-- "Heddle.IO.Registration", and returns what to do next: close the connection, or let it idle
-- without a thread and without a buffer. heddle-http uses this module, and so does
-- 'Heddle.IO.serve', which is simpler and gives each connection a thread.
--
-- Out of descriptors, or at the limit of connections, the service closes the connection that
-- has been idle longest for a new one. If none is idle, accepting pauses, and new connections
-- wait in the kernel's queue.
--
-- Invariant: a connection has an owner from accept4 on: the service, or the thread in its
-- handler. At most one thread runs a connection.
-- Cost: per connection accept4, epoll_ctl and 300 bytes; a thread while it is busy.
-- Owner: the caller of 'startService' ends the service.
-- Shared writes per request: 0.
module Heddle.IO.Service
  ( -- * Starting
    Service,
    startService,
    startServices,
    startSessions,
    startSessionsBeside,
    ServiceOptions (..),
    defaultServiceOptions,
    Shortage (..),
    describeShortage,

    -- * In a handler
    After (..),
    markActive,
    everActive,
    idleDeadline,

    -- * Ending

    -- | To drain: 'stopAccepting', 'resumeIdle', 'awaitDrainedUntil'. To cut:
    -- 'stopAccepting', 'closeConnections', 'endService'; before the last, 'awaitDrainedUntil'
    -- waits for handlers that were interrupted.
    stopAccepting,
    resumeIdle,
    awaitDrainedUntil,
    closeConnections,
    HandlerInterrupted (..),
    endService,

    -- * Looking
    openConnections,
  )
where

import Control.Monad (unless, void, when, (>=>))
import Data.Bits ((.&.))
import Data.Foldable (for_, traverse_)
import Data.Maybe (fromMaybe, isJust)
import Foreign.Marshal.Alloc (allocaBytes)
import Heddle.IO.Internal.Evict
import Heddle.IO.Internal.Listener
import Heddle.IO.Internal.Manager
import Heddle.IO.Internal.Registration
import Heddle.IO.Internal.Runtime
import Heddle.IO.Internal.Transfer (throwCode)
import Heddle.IO.Internal.Types
import Heddle.IO.Parker (Parker, closeParker, newParker)
import Heddle.IO.Parker qualified as Parker
import Heddle.Prim.Atomic
import Heddle.Prim.Clock
import Heddle.Prim.Errno
import Heddle.Prim.Exception
import Heddle.Prim.Message (putErrorLine)
import Heddle.Prim.Poller (eventIn, pollOne)
import Heddle.Prim.Socket qualified as S
import Heddle.Prim.Thread (WeakThread, fork, forkOn, myWeakThread, strongThread, yield)
import Heddle.Prim.WaitCell (reset, unpark)

-- | What a handler wants next.
data After
  = -- | Close the connection.
    Done
  | -- | Wait until something can be read or the deadline passes, then call the handler again.
    -- The handler must have given back what it borrowed, because its thread may end and the
    -- next call run in another thread of the capability. Closing an idle connection also
    -- calls its handler, which then finds it closed.
    IdleUntil !Deadline

-- | How a service treats its connections.
data ServiceOptions = ServiceOptions
  { -- | Begins the names of the service's threads.
    serviceName :: !String,
    -- | How long a new connection may be silent before the handler is called anyway; 0 for a
    -- server that sends first.
    serviceFirstByte :: !Nanos,
    -- | Receives what a handler throws, and the failure of a listener, which closes it.
    serviceFailed :: !(SomeException -> IO ()),
    -- | Called, at most once a minute, when accepting pauses because descriptors or
    -- memory have run out and no idle connection could make room.
    servicePaused :: !(Errno -> IO ()),
    -- | How many connections may be open at once, over all listeners started together;
    -- 'Nothing' for as many as there are descriptors. Capabilities that accept at the same
    -- moment may exceed it by one each.
    serviceLimit :: !(Maybe Int),
    -- | Called, at most once a minute, when idle connections are closed, those idle longest
    -- first, to make room for new ones.
    serviceCrowded :: !(Shortage -> IO ())
  }

-- | Named @io/serve@; the handler is called at once; no limit; failures, pauses and shortages
-- go to the standard error.
defaultServiceOptions :: ServiceOptions
defaultServiceOptions =
  ServiceOptions
    { serviceName = "io/serve",
      serviceFirstByte = nanos 0,
      serviceFailed = \e -> putErrorLine ("heddle-io: serving a connection failed: " ++ describeException e),
      servicePaused = \e ->
        putErrorLine $
          "heddle-io: accepting pauses: "
            ++ describeErrno e
            ++ ".\n  Connections wait in the kernel's queue. Raise the limit (ulimit -n) if this happens often.",
      serviceLimit = Nothing,
      serviceCrowded = \shortage -> putErrorLine ("heddle-io: " ++ describeShortage shortage)
    }

-- | Why there is no room for a new connection.
data Shortage
  = -- | No descriptors: EMFILE or ENFILE.
    NoDescriptors !Errno
  | -- | As many connections are open as 'serviceLimit' allows.
    AtLimit !Int
  deriving stock (Eq, Show)

-- | A line for the operator.
--
-- [Cost]: O(characters).
describeShortage :: Shortage -> String
describeShortage shortage =
  "idle connections are closed to make room for new ones: " ++ case shortage of
    NoDescriptors e -> describeErrno e ++ "; raise the limit of open files (ulimit -n)"
    AtLimit n -> "all " ++ show n ++ " that the limit allows are open"

-- | A listener that is being served.
data Service = Service
  { serviceListener :: !Listener,
    -- | Distinguishes its connections from those of other services.
    serviceNumber :: !Int,
    serviceOptions :: !ServiceOptions,
    -- | Makes a new connection's handler.
    serviceHandlerFor :: !(IO (Registration -> IO After)),
    -- | Word 0: connections open; 1: accepting threads; 8: accepting is paused; 9, 10: when
    -- a pause or a crowd was last reported; 16: draining.
    serviceWords :: !Words,
    -- | The words of the services that share the limit of connections, this one's among them.
    servicePeers :: !(Ref [Words]),
    -- | Words 9 and 10 are those of all these services.
    serviceReports :: !Words,
    -- | Woken when the last connection closes.
    serviceDrained :: !Parker
  }

-- | Accept and serve in the background until 'stopAccepting'. The handler is called for a
-- connection that is new or has something to read, masked, in a thread on the connection's
-- capability. If it throws, its connection is closed.
--
-- [Cost]: one thread per listening socket.
-- [Blocks]: never.
-- [Masking]: handlers run masked, whatever the caller's state; they wait interruptibly.
-- [Throws]: 'IOError' (EBADF) when the runtime has stopped.
startService :: ServiceOptions -> Listener -> (Registration -> IO After) -> IO Service
startService options listener handler = head <$> startServices options [listener] handler

-- | 'startService' for several listeners, which share the limit of connections.
--
-- [Cost]: one thread per listening socket.
-- [Blocks]: never.
-- [Masking]: as 'startService'.
-- [Throws]: as 'startService'.
startServices :: ServiceOptions -> [Listener] -> (Registration -> IO After) -> IO [Service]
startServices options listeners handler = startSessions options [(listener, pure handler) | listener <- listeners]

-- | 'startServices' with a handler for each connection, made when it is accepted. A handler can
-- keep what its connection needs from one call to the next, such as the keys of TLS: it is
-- called until it answers 'Done' or throws, also after the connection was closed by other means.
--
-- [Cost]: as 'startServices', and what making a handler costs.
-- [Blocks]: never.
-- [Masking]: as 'startService'; handlers are made masked, by the accepting thread, so making one
-- must not park.
-- [Throws]: as 'startService'.
startSessions :: ServiceOptions -> [(Listener, IO (Registration -> IO After))] -> IO [Service]
startSessions given listeners = mask_ $ do
  -- A report that cannot be written must not end the thread that makes it.
  let options =
        given
          { serviceFailed = void . trySync . serviceFailed given,
            servicePaused = void . trySync . servicePaused given,
            serviceCrowded = void . trySync . serviceCrowded given
          }
  peers <- newRef []
  reports <- newWords 24
  startBeside options peers reports listeners

-- | Serve further listeners as a service's, and share its limit of connections.
--
-- [Cost]: as 'startSessions'.
-- [Blocks]: never.
-- [Masking]: as 'startSessions'.
-- [Throws]: as 'startService'.
startSessionsBeside :: Service -> [(Listener, IO (Registration -> IO After))] -> IO [Service]
startSessionsBeside service = mask_ . startBeside (serviceOptions service) (servicePeers service) (serviceReports service)

startBeside :: ServiceOptions -> Ref [Words] -> Words -> [(Listener, IO (Registration -> IO After))] -> IO [Service]
startBeside options peers reports listeners = do
  counts <- traverse (const (newWords 24)) listeners
  modifyRef peers (\known -> (counts ++ known, ()))
  traverse (\((listener, handlerFor), own) -> startOne listener options handlerFor own peers reports) (zip listeners counts)

startOne :: Listener -> ServiceOptions -> IO (Registration -> IO After) -> Words -> Ref [Words] -> Words -> IO Service
startOne listener options handlerFor counts peers reports = do
  drained <- newParker (listenerRuntime listener)
  number <- fetchAdd (runtimeCounters (listenerRuntime listener)) 8 1
  let service = Service listener number options handlerFor counts peers reports drained
  _ <- fetchAdd (serviceWords service) 1 (length (listenerRegistrations listener))
  for_ (listenerRegistrations listener) $ \registration -> do
    let capability = managerCapability (registrationManager registration)
    forkOn capability (serviceName options ++ "/accept/" ++ show capability) (acceptLoop service registration)
  pure service

acceptLoop :: Service -> Registration -> IO ()
acceptLoop service registration =
  mask_ $ newCandidates >>= \idlers -> allocaBytes acceptRoom (\scratch -> go idlers scratch (0 :: Int) firstBackOff) `finally` gone
  where
    options = serviceOptions service
    listener = serviceListener service
    alone = length (listenerRegistrations listener) == 1
    firstBackOff = milliseconds 5
    go idlers scratch burst backOff = do
      full <- atLimit service
      -- At the limit, room is made only for a connection that waits.
      r <- attempt registration Readable never (if full then newcomer else accept4 scratch)
      if full && r > 0 then makeRoom idlers scratch burst backOff (AtLimit (fromMaybe maxBound (serviceLimit options))) else accepted idlers scratch burst backOff r
    newcomer fd = (\bits -> if bits == 0 then negate (errnoNumber EAGAIN) else bits) <$> pollOne fd eventIn
    -- Close an idle connection; if there is none, wait for a connection to end.
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
          _ <- reset (registrationWrite registration)
          waitUntil registration Writable until'
          writeWord (serviceWords service) 8 0
          go idlers scratch burst (min (milliseconds 100) (backOff <> backOff))
    once = atMostOnceAMinute (serviceReports service)
    accepted idlers scratch burst backOff r =
      if r >= 0
        then do
          m <- if alone then leastLoaded (listenerRuntime listener) else pure (registrationManager registration)
          _ <- fetchAdd (serviceWords service) 0 1
          first <- deadlineIn (serviceFirstByte options)
          opened <- trySync $ do
            (handler, thread) <- ((,) <$> serviceHandlerFor service <*> newRef Nothing) `onException` S.closeSocket (fromIntegral r)
            let kind = Served (serviceNumber service) (countDown service) thread
            adoptAccepted m kind scratch (fromIntegral r) (DetachedUntil first) (activate service handler thread)
          case opened of
            Right opened' -> do
              -- A drain that began meanwhile has not seen it.
              draining <- atomicRead (serviceWords service) 16
              when (draining == 1) (unpark (registrationRead opened') >> continue opened')
            Left e -> countDown service >> serviceFailed options e
          -- A burst lets the connections' threads run now and then.
          when (burst .&. 63 == 63) yieldHere
          go idlers scratch (burst + 1) firstBackOff
        else case refusalOf r of
          Again -> go idlers scratch burst backOff
          Exhausted -> do
            -- accept(2) takes a descriptor before it checks whether a connection waits.
            there <- attempt registration Readable never newcomer
            if there > 0
              then makeRoom idlers scratch burst backOff (NoDescriptors (Errno (negate r)))
              else go idlers scratch burst backOff
          Ended ->
            isClosing registration >>= \closing -> unless (closing || r == ClosedCode) $ do
              failed <- trySync (throwCode "accept" r)
              either (serviceFailed options) pure failed
              -- A service without its acceptor must not look alive.
              closeListener listener
    yieldHere = yield
    -- What was accepted last is counted by now, so that draining is exact.
    gone = fetchAdd (serviceWords service) 1 (-1) >> wakeDrainer service

atLimit :: Service -> IO Bool
atLimit service = case serviceLimit (serviceOptions service) of
  Nothing -> pure False
  Just limit -> readRef (servicePeers service) >>= fmap ((>= limit) . sum) . traverse (`readWord` 0)
{-# INLINE atLimit #-}

-- The word holds the time of the last report.
atMostOnceAMinute :: Words -> Int -> IO () -> IO ()
atMostOnceAMinute ws at report = do
  Deadline now <- monotonicNow
  before <- readWord ws at
  when (before == 0 || Deadline now >= after (seconds 60) (Deadline before)) $ do
    won <- compareAndSet ws at before now
    when won report

-- | Note that the connection did something useful, such as answering a request. One that
-- does so twice within a second keeps its thread for a second while it idles, which saves
-- starting a new one; and the time decides which idle connection is closed for a new one.
--
-- [Cost]: two stores.
-- [Threads]: the handler's.
markActive :: Registration -> IO ()
markActive registration = do
  Deadline now <- managerNow (registrationManager registration)
  last' <- readWord (registrationWords registration) RegistrationLastActive
  writeWord (registrationWords registration) RegistrationBeforeLast last'
  writeWord (registrationWords registration) RegistrationLastActive now
{-# INLINE markActive #-}

-- | Whether 'markActive' was ever called for the connection.
--
-- [Cost]: one read.
-- [Threads]: the handler's.
everActive :: Registration -> IO Bool
everActive registration = (/= 0) <$> readWord (registrationWords registration) RegistrationLastActive
{-# INLINE everActive #-}

-- | Until when the connection may idle: the deadline of its last 'IdleUntil', or of its first
-- byte. A handler that finds nothing to read returns it in 'IdleUntil'.
--
-- [Cost]: one read.
-- [Threads]: the handler's.
idleDeadline :: Registration -> IO Deadline
idleDeadline registration = Deadline <$> readWord (registrationWords registration) RegistrationIdle
{-# INLINE idleDeadline #-}

-- One life of a connection's thread; see Note [Threads are earned]. One handler frame
-- serves all of its requests. When @talk@ returns 'True', another thread runs the registration.
activate :: Service -> (Registration -> IO After) -> Ref (Maybe WeakThread) -> Registration -> IO ()
activate service handler thread registration =
  mask_ . handleJust fromException (\HandlerInterrupted -> pure ()) $ do
    -- Until then the handler may be interrupted; see Note [Interrupting handlers].
    myWeakThread >>= here . Just
    try talk >>= \case
      Right True -> pure ()
      Right False -> finish
      Left e -> do
        finish
        unless (isAsynchronous e) (serviceFailed options e)
  where
    options = serviceOptions service
    here = writeRef thread
    talk =
      handler registration >>= \case
        IdleUntil deadline -> idle deadline
        Done -> pure False
    idle deadline@(Deadline d) = do
      -- For 'idleDeadline'.
      writeWord (registrationWords registration) RegistrationIdle d
      Deadline now <- managerNow (registrationManager registration)
      before <- readWord (registrationWords registration) RegistrationBeforeLast
      latest <- readWord (registrationWords registration) RegistrationLastActive
      if now - before < keep && now - latest < keep
        then do
          writeWord (registrationWords registration) RegistrationDetached 2
          waitUntil registration Readable (min deadline (Deadline (latest + keep)))
          mine <- compareAndSet (registrationWords registration) RegistrationDetached 2 0
          -- Closed to make room: call the handler, as for a detached connection.
          if mine then talk else False <$ handler registration
        else do
          -- The next thread names itself.
          here Nothing
          parked <- detachUntil registration deadline
          if parked then pure True else (myWeakThread >>= here . Just) >> talk
    keep = 1000000000
    finish = uninterruptibleMask_ $ do
      here Nothing
      _ <- closeRegistration registration
      evicted <- readWord (registrationWords registration) RegistrationDetached
      unless (evicted == 3) (countDown service)

countDown :: Service -> IO ()
countDown service = do
  left <- fetchAdd (serviceWords service) 0 (-1)
  paused <- readWord (serviceWords service) 8
  when (paused == 1) $ for_ (listenerRegistrations (serviceListener service)) (unpark . registrationWrite)
  when (left == 1) (wakeDrainer service)

wakeDrainer :: Service -> IO ()
wakeDrainer service = do
  draining <- atomicRead (serviceWords service) 16
  when (draining == 1) $ Parker.unpark (serviceDrained service)

-- | Close the listening sockets; open connections are still served. Idempotent.
--
-- [Cost]: one system call per listening socket.
-- [Blocks]: never.
-- [Threads]: any.
stopAccepting :: Service -> IO ()
stopAccepting = closeListener . serviceListener

-- | Call the handler of every idle connection, though there is nothing to read, so that it
-- can end the connection.
--
-- [Cost]: O(connections).
-- [Blocks]: never.
-- [Threads]: any.
resumeIdle :: Service -> IO ()
resumeIdle service = eachConnection service $ \registration -> unpark (registrationRead registration) >> continue registration

-- | Close every connection at once, and interrupt the handlers that run: they meet
-- 'Heddle.IO.Registration.ClosedCode' or 'HandlerInterrupted'.
--
-- [Cost]: O(connections); a thread for each handler that runs.
-- [Blocks]: never.
-- [Threads]: any.
closeConnections :: Service -> IO ()
closeConnections service = eachConnection service $ \registration -> do
  _ <- closeRegistration registration
  case registrationKind registration of
    -- Once each: what follows a handler may take longer than the caller's patience.
    Served _ _ thread -> modifyRef thread (\named -> (Nothing, named)) >>= traverse_ (strongThread >=> traverse_ end)
    _ -> pure ()
  where
    -- In threads of their own, so that none waits for another's masked handler.
    end thread = fork (serviceName (serviceOptions service) ++ "/interrupt") (throwTo thread HandlerInterrupted)

-- | Thrown to a handler whose connection 'closeConnections' closes.
data HandlerInterrupted = HandlerInterrupted
  deriving stock (Eq, Show)

instance Exception HandlerInterrupted where
  toException = asyncExceptionToException
  fromException = asyncExceptionFromException
  displayException HandlerInterrupted = "the server has ended"

eachConnection :: Service -> (Registration -> IO ()) -> IO ()
eachConnection service act = for_ [0 .. capabilitiesOf runtime - 1] $ \i ->
  openRegistrations (managerOn runtime i) >>= traverse_ (\registration -> when (ours registration) (act registration))
  where
    runtime = listenerRuntime (serviceListener service)
    ours registration = case registrationKind registration of Served number _ _ -> number == serviceNumber service; _ -> False

-- | How many connections are open.
--
-- [Cost]: one read.
-- [Blocks]: never.
openConnections :: Service -> IO Int
openConnections service = readWord (serviceWords service) 0

-- | Release what the service itself holds; an 'awaitDrainedUntil' under way answers
-- 'False'. Idempotent.
--
-- [Cost]: O(1).
-- [Blocks]: never.
-- [Threads]: any.
endService :: Service -> IO ()
endService = closeParker . serviceDrained

-- | After 'stopAccepting', wait until no connection is open; 'False' at the deadline, after
-- 'endService', or when the runtime stops.
--
-- [Cost]: one wake-up.
-- [Blocks]: parks.
-- [Masking]: interruptible.
-- [Threads]: one at a time.
awaitDrainedUntil :: Service -> Deadline -> IO Bool
awaitDrainedUntil service deadline = do
  atomicWrite (serviceWords service) 16 1
  isJust <$> Parker.awaitUntil (serviceDrained service) deadline look
  where
    look = do
      left <- (+) <$> atomicRead (serviceWords service) 1 <*> atomicRead (serviceWords service) 0
      pure (if left == 0 then Just () else Nothing)

-- Note [Threads are earned]
-- ~~~~~~~~~~~~~~~~~~~~~~~~~
-- A parked thread costs over a kilobyte; starting one costs a fraction of a microsecond. So an
-- idle connection has no thread: the loop starts one when there is something to read. Only a
-- connection that was useful twice within the last second keeps its thread, for a second, which
-- saves starting a new one. Fifteen thousand idle browsers therefore cost registrations, not
-- stacks.

-- Note [Interrupting handlers]
-- ~~~~~~~~~~~~~~~~~~~~~~~~~~~~
-- A handler may compute, or wait for something other than its connection, long after the service
-- has ended. So a thread names itself before it calls the handler, and 'closeConnections' first
-- closes the connection and then looks for the name. A thread that named itself later finds the
-- connection closed as soon as it reads from it. Between the two, on either side, lies a locked
-- instruction: closing is one, and so is the call that begins each read.
--
-- The exception may come late, when the handler has met the closed connection and returned. So the
-- thread is masked to its end, counts the connection down where nothing interrupts it, and ends
-- silently. What a handler has to do after its end, it does as carefully.
