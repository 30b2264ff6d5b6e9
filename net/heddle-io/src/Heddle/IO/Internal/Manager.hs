{-# LANGUAGE PatternSynonyms #-}
{-# OPTIONS_HADDOCK not-home #-}

-- |
-- Module      : Heddle.IO.Internal.Manager
-- Description : One event manager per capability
-- Stability   : internal, exempt from the version policy
--
-- The loop polls without blocking, wakes threads and yields to them. If there is no event, it
-- polls once more and then waits in a safe call until the next deadline. On a quiet server it
-- skips the polls; see Note [Polling]. Only the loop touches the wheel; other threads push
-- commands into its inbox and, if it sleeps, write its eventfd.
--
-- Cost: per event about 60 ns; one poll and one clock reading per batch.
-- Owner: the loop's thread, @io/manager/N@, pinned to its capability.
-- Shared writes per wait and wake on the manager's capability: 0.
module Heddle.IO.Internal.Manager
  ( -- * Life
    BackendChoice (..),
    newManager,
    startManager,
    stopManager,
    closeManager,

    -- * Registrations
    Start (..),
    newRegistration,
    freeRegistration,
    openRegistrations,

    -- * Requests
    submit,
    interrupt,
    managerNow,
    managerFreshNow,
    continue,

    -- * After a fork
    revive,
  )
where

import Control.Monad (unless, void, when)
import Data.Bits (shiftR, (.&.), (.|.))
import Data.ByteString.Short (ShortByteString)
import Data.Foldable (for_, traverse_)
import Data.IntMap.Strict qualified as IntMap
import Data.Word (Word32, Word8)
import Foreign.Ptr (Ptr)
import Heddle.IO.Internal.Epoll (newEpoll)
import Heddle.IO.Internal.Poll (newPoll)
import Heddle.IO.Internal.Types
import Heddle.IO.Internal.Wheel
import Heddle.Prim.Atomic
import Heddle.Prim.Buffer (newBuffer, newPool, withBuffer)
import Heddle.Prim.Clock (Deadline (..), monotonicNow)
import Heddle.Prim.Errno (Errno (..), checked, throwErrnoFor, pattern EBADF, pattern EINTR)
import Heddle.Prim.Exception (bracketOnError, mask_, uninterruptibleMask_)
import Heddle.Prim.Global (unsafeGlobal)
import Heddle.Prim.Lock (Lock, newLock, releaseLock, withLock)
import Heddle.Prim.Poller
import Heddle.Prim.Socket (closeSocket)
import Heddle.Prim.Thread (ThreadId, forkMaskedOn, forkOn, processGeneration, yield)
import Heddle.Prim.Trace (Marker (..), mark)
import Heddle.Prim.WaitCell (newWaitCell, unpark)
import System.Posix.Types (Fd)

-- | The system calls that report events to the loop.
data BackendChoice
  = -- | epoll, edge-triggered.
    Epoll
  | -- | poll(2), for comparison and for kernels without epoll.
    Poll
  deriving stock (Eq, Show)

wakeTag :: Num a => a
wakeTag = 0xFFFFFFFFFFFFFFFF

-- | A manager for a capability, not yet running.
--
-- [Throws]: 'IOError' when out of descriptors.
newManager :: BackendChoice -> Int -> IO Manager
newManager choice capability =
  bracketOnError (fromIntegral <$> checked "eventfd" newEventFd) closeSocket $ \(wakeFd :: Fd) -> do
    Deadline now <- monotonicNow
    ws <- newWords managerWordCount
    writeWord ws WordNow now
    backend <- case choice of
      Poll -> newPoll wakeFd wakeTag
      Epoll -> do
        b <- newEpoll
        b <$ checked "epoll_ctl" (backendAdd b wakeFd wakeTag)
    registrations <- noTable >>= newRef
    m <-
      Manager capability backend ws registrations
        <$> newLock
        <*> newRef (Registry [] 1 1)
        <*> newStack
        <*> newWheel (tickFloor now)
        <*> pure wakeFd
        <*> newRef (FreeTimers 0 [])
        <*> newPool 64 (newBuffer 32768)
        <*> newRef IntMap.empty
        <*> newRef id
    processGeneration >>= writeWord ws WordProcess
    none <- blankRegistration m
    newTable 64 none >>= writeRef registrations
    pure m
  where
    -- Nothing is read from it before the real one takes its place.
    noTable = newTable 0 (error "registration of an empty table")

-- Fills the unused places of the table: closed, with a stamp that no event carries.
blankRegistration :: Manager -> IO Registration
blankRegistration m = do
  ws <- newWords registrationWordCount
  writeWord ws RegistrationState (Closing .|. Released)
  (\r w -> Registration m 0 (-1) (-1) TimerOnly ws r w (\_ -> pure ()) mempty) <$> newWaitCell <*> newWaitCell

-- | Run the loop in a thread of its own, wrapped in the action.
startManager :: Manager -> (IO () -> IO ()) -> IO ThreadId
startManager m supervise = do
  writeRef (managerSupervise m) supervise
  forkOn (managerCapability m) ("io/manager/" ++ show (managerCapability m)) (supervise (loop m))

-- | Ask the loop to end.
stopManager :: Manager -> IO ()
stopManager m = atomicWrite (managerWords m) WordStopping 1 >> interrupt m

-- | Release the descriptors of a manager whose loop has ended.
closeManager :: Manager -> IO ()
closeManager m = backendClose (managerBackend m) >> void (closeSocket (managerEventFd m))

-- | The manager's clock: the time of its loop's last poll. It is exact right after a wake-up,
-- and old in a thread that has computed for long.
--
-- [Cost]: one read.
managerNow :: Manager -> IO Deadline
managerNow m = Deadline <$> readWord (managerWords m) WordNow
{-# INLINE managerNow #-}

-- | The time, at most as old as the loop's last poll: the manager's clock while the loop is
-- busy, the real clock while it sleeps.
--
-- [Cost]: two reads, or one reading of the clock.
managerFreshNow :: Manager -> IO Deadline
managerFreshNow m = do
  resting <- readAcquire (managerWords m) WordResting
  if resting == 0 then managerNow m else monotonicNow
{-# INLINE managerFreshNow #-}

-- | How a registration's life begins.
data Start
  = -- | Its maker's thread runs it.
    Attached
  | -- | No thread does, until something can be read or the deadline passes.
    DetachedUntil !Deadline

-- | A registration in the manager's table, known to the back end if it has a descriptor.
--
-- [Cost]: about 100 ns and one epoll_ctl; 250 bytes.
-- [Throws]: 'IOError': EPERM for a regular file, EEXIST for a second registration.
-- [Threads]: any.
newRegistration :: Manager -> Kind -> Fd -> ShortByteString -> Start -> (Registration -> IO ()) -> IO Registration
newRegistration m kind fd peer start resume = do
  revive m
  ws <- newWords registrationWordCount
  let (detached, firstDeadline) = case start of
        Attached -> (False, maxBound)
        DetachedUntil (Deadline d) -> (True, d)
  writeWord ws RegistrationReadDeadline firstDeadline
  writeWord ws RegistrationIdle firstDeadline
  writeWord ws RegistrationWriteDeadline maxBound
  writeWord ws RegistrationArmed maxBound
  when detached $ do
    Deadline now <- monotonicNow
    writeWord ws RegistrationAccepted now
    writeWord ws RegistrationDetached 1
  readCell <- newWaitCell
  writeCell <- newWaitCell
  registration <- withLock (managerLock m) $ do
    Registry free next stamp <- readRef (managerRegistry m)
    let (index, free', next') = case free of
          i : rest -> (i, rest, next)
          [] -> (next, [], next + 1)
        registration = Registration m index stamp fd kind ws readCell writeCell resume peer
    -- A stopped manager wakes no thread, and its descriptors' numbers may be reused.
    stopping <- atomicRead (managerWords m) WordStopping
    when (stopping == 1) $ throwErrnoFor "register: the runtime has stopped" EBADF
    table <- readRef (managerRegistrations m)
    table' <-
      if index < tableSize table
        then pure table
        else readEntry table 0 >>= growTable table (2 * tableSize table)
    writeEntry table' index registration
    writeRef (managerRegistrations m) table'
    -- Still under the lock: a listing finds only registrations that can be closed.
    r <- case kind of
      TimerOnly -> pure 0
      _ -> backendAdd (managerBackend m) fd (registrationTag stamp index)
    when (r < 0) $ do
      readEntry table' 0 >>= writeEntry table' index
      throwErrnoFor ("register descriptor " ++ show fd) (Errno (negate r))
    case kind of
      TimerOnly -> pure ()
      _ -> void (fetchAdd (managerWords m) WordLive 1)
    writeRef (managerRegistry m) (Registry free' next' ((stamp + 1) .&. 0xFFFFFFFF))
    pure registration
  when (detached && backendOneshot (managerBackend m)) (submit m (Enable registration Readable))
  when (firstDeadline /= maxBound) (submit m (Arm registration))
  pure registration

-- | Hand a released registration back to its manager.
--
-- [Threads]: any, once per registration.
freeRegistration :: Registration -> IO ()
freeRegistration registration = do
  let m = registrationManager registration
  case registrationKind registration of
    TimerOnly -> pure ()
    _ -> void (fetchAdd (managerWords m) WordLive (-1))
  push (managerInbox m) (Free registration)
  -- A late reuse of the index does no harm, but see Note [A wait holds the file].
  when (backendOneshot (managerBackend m)) (interrupt m)

-- | Every open registration.
--
-- [Cost]: O(registrations).
openRegistrations :: Manager -> IO [Registration]
openRegistrations m = withLock (managerLock m) $ do
  table <- readRef (managerRegistrations m)
  filter ((/= 0) . registrationIndex) <$> traverse (readEntry table) [1 .. tableSize table - 1]

-- | Push a command, and wake the loop if it sleeps.
--
-- [Cost]: one compare-and-set; an eventfd write if the loop sleeps.
-- [Blocks]: never.
submit :: Manager -> Command -> IO ()
submit m c = revive m >> push (managerInbox m) c >> interrupt m

-- | End the loop's blocking wait, if it is in one.
--
-- [Cost]: a read, or one eventfd write.
-- [Blocks]: never.
interrupt :: Manager -> IO ()
interrupt m = mask_ $ do
  asleep <- atomicRead (managerWords m) WordAsleep
  when (asleep == 1) $ do
    won <- compareAndSet (managerWords m) WordAsleep 1 0
    when won (void (signalEventFd (managerEventFd m)))

-- The loop --------------------------------------------------------------------

-- How the loop finds events; see Note [Polling].
data Mode = Busy | Quiet

loop :: Manager -> IO ()
loop m = do
  buffer <- newBuffer (eventCapacity * eventBytes)
  withBuffer buffer (\events -> turn m events Busy)

turn :: Manager -> Ptr Word8 -> Mode -> IO ()
turn m events mode = do
  stopping <- readWord (managerWords m) WordStopping
  unless (stopping == 1) $ do
    obey m
    case mode of
      Busy -> do
        n <- look m events
        yield
        if n > 0
          then turn m events Busy
          else do
            obey m
            again <- look m events
            if again > 0 then yield >> turn m events Busy else wait
      Quiet -> wait
  where
    wait = do
      n <- sleep m events
      yield
      turn m events (if n > 3 then Busy else Quiet)

look :: Manager -> Ptr Word8 -> IO Int
look m events = backendPoll (managerBackend m) events >>= arrived m events

sleep :: Manager -> Ptr Word8 -> IO Int
sleep m events = do
  writeWord (managerWords m) WordResting 1
  atomicWrite (managerWords m) WordAsleep 1
  idle <- isEmpty (managerInbox m)
  stopping <- atomicRead (managerWords m) WordStopping
  tick <- nextTick (managerWheel m)
  Deadline now <- monotonicNow
  let due = tickStart tick
      !ms
        | not idle || stopping == 1 || due <= now = 0
        | due == maxBound = -1
        | otherwise = min 3600000 ((due - now + 999999) `quot` 1000000)
  unless (ms == 0) (mark IoSleep)
  n <- backendWait (managerBackend m) events ms
  atomicWrite (managerWords m) WordAsleep 0
  arrived m events n

arrived :: Manager -> Ptr Word8 -> Int -> IO Int
arrived m events n = do
  Deadline now <- monotonicNow
  writeWord (managerWords m) WordNow now
  -- A release: managerFreshNow must not read 0 here and the time from before the sleep there.
  writeRelease (managerWords m) WordResting 0
  fired <- expire m now
  if n > 0
    then do
      mark IoDispatch
      table <- readRef (managerRegistrations m)
      dispatch table 0
      pure (n + fired)
    else do
      when (n < 0 && Errno (negate n) /= EINTR) $
        throwErrnoFor (backendName (managerBackend m)) (Errno (negate n))
      pure fired
  where
    dispatch :: Table Registration -> Int -> IO ()
    dispatch table i = when (i < n) $ do
      bits <- peekEventBits events i
      tag <- peekEventTag events i
      when (tag /= wakeTag) $ do
        let index = fromIntegral (tag .&. 0xFFFFFFFF)
            stamp = fromIntegral (tag `shiftR` 32)
        registration <- readEntry table index
        when (registrationStamp registration == stamp) (deliver registration bits)
      dispatch table (i + 1)

deliver :: Registration -> Word32 -> IO ()
deliver registration bits = do
  let hung = bits .&. (eventReadHangUp .|. eventHangUp .|. eventError)
  when (hung /= 0) $ do
    old <- readWord (registrationWords registration) RegistrationSticky
    writeWord (registrationWords registration) RegistrationSticky (old .|. fromIntegral hung)
  when (bits .&. (eventOut .|. eventHangUp .|. eventError) /= 0) $ do
    -- Each IN edge may carry OUT; nearly always no thread waits for it.
    writing <- atomicRead (registrationWords registration) RegistrationWriting
    when (writing == 1) $ do
      writeWord (registrationWords registration) RegistrationWriting 0
      mark IoUnpark
      unpark (registrationWrite registration)
  when (bits .&. eventIn /= 0 || hung /= 0) $ do
    mark IoUnpark
    unpark (registrationRead registration)
    continue registration

-- | Continue a detached registration in a new thread of its manager's capability; nothing happens
-- to one that a thread runs.
--
-- [Cost]: one read, or a fork.
-- [Blocks]: never.
continue :: Registration -> IO ()
continue registration = do
  detached <- atomicRead (registrationWords registration) RegistrationDetached
  when (detached == 1) $ do
    won <- compareAndSet (registrationWords registration) RegistrationDetached 1 0
    when won $ void (forkMaskedOn (managerCapability (registrationManager registration)) (\_ -> registrationResume registration registration))
{-# INLINE continue #-}

-- Deadlines; see Note [Lazy re-arm].
expire :: Manager -> Int -> IO Int
expire m now = do
  let wheel = managerWheel m
  tick <- nextTurn wheel
  if tick > tickFloor now
    then pure 0
    else do
      table <- readRef (managerRegistrations m)
      advance wheel (tickFloor now) $ \index ->
        readEntry table index >>= \registration -> rearm m now registration
      pure 1

-- Read both deadlines of a registration: wake the waits that are over, and link the registration
-- at the earliest deadline left. A deadline that passed long ago causes a useless wake-up. It
-- must not be skipped, because that could lose a new deadline; see Note [Lazy re-arm].
rearm :: Manager -> Int -> Registration -> IO ()
rearm m now registration = do
  let ws = registrationWords registration
  atomicWrite ws RegistrationArmed maxBound
  state <- readWord ws RegistrationState
  when (state .&. Closing == 0) $ do
    r <- atomicRead ws RegistrationReadDeadline
    w <- atomicRead ws RegistrationWriteDeadline
    let over d = d <= now
        next = min (if r <= now then maxBound else r) (if w <= now then maxBound else w)
        tick = tickCeiling next
    when (over r) $ unpark (registrationRead registration) >> continue registration
    when (over w) $ unpark (registrationWrite registration)
    when (tick /= noTick) $ do
      insert (managerWheel m) (registrationIndex registration) tick
      atomicWrite ws RegistrationArmed next

obey :: Manager -> IO ()
obey m =
  takeAll (managerInbox m) >>= \case
    [] -> pure ()
    newestFirst -> do
      Deadline now <- monotonicNow
      for_ (reverse newestFirst) $ \case
        Arm registration -> do
          state <- readWord (registrationWords registration) RegistrationState
          when (state .&. Released == 0) (rearm m now registration)
        Enable registration interest -> do
          state <- readWord (registrationWords registration) RegistrationState
          when (state .&. Closing == 0) (backendEnable (managerBackend m) registration interest)
        Free registration -> do
          remove (managerWheel m) (registrationIndex registration)
          backendForget (managerBackend m) registration
          withLock (managerLock m) $ do
            table <- readRef (managerRegistrations m)
            readEntry table 0 >>= writeEntry table (registrationIndex registration)
            Registry free next stamp <- readRef (managerRegistry m)
            writeRef (managerRegistry m) (Registry (registrationIndex registration : free) next stamp)

-- After a fork -----------------------------------------------------------------

-- | Make sure that the manager's loop runs in this process. After a fork without exec only the
-- forking thread exists, so the first use starts a new loop; see Note [After a fork].
--
-- [Cost]: two reads.
-- [Blocks]: never, but for that first use.
revive :: Manager -> IO ()
revive m = do
  process <- processGeneration
  known <- readWord (managerWords m) WordProcess
  unless (process == known) (startAgain m)
{-# INLINE revive #-}

startAgain :: Manager -> IO ()
startAgain m = uninterruptibleMask_ $
  withLock reviveLock $ do
    process <- processGeneration
    known <- atomicRead ws WordProcess
    stopping <- atomicRead ws WordStopping
    unless (process == known) $ do
      -- A thread that does not exist in this process may have held it.
      releaseLock (managerLock m)
      when (stopping == 0) $ do
        replaced <- renewEventFd (managerEventFd m)
        renewed <- if replaced < 0 then pure replaced else backendRenew (managerBackend m)
        when (renewed < 0) $ throwErrnoFor "start an event manager in a forked process" (Errno (negate renewed))
        unless (backendOneshot (managerBackend m)) $
          void (backendAdd (managerBackend m) (managerEventFd m) wakeTag)
        writeWord ws WordResting 0
        atomicWrite ws WordAsleep 0
        writeRef (managerLockQueues m) IntMap.empty
        clearWheel (managerWheel m)
        openRegistrations m >>= traverse_ inherit
      atomicWrite ws WordProcess process
      when (stopping == 0) $
        readRef (managerSupervise m) >>= void . startManager m
  where
    ws = managerWords m
    inherit registration = do
      let words' = registrationWords registration
      state <- atomicRead words' RegistrationState
      -- Drop the references and locks of threads that do not exist in this process.
      atomicWrite words' RegistrationState (state .&. (Closing .|. Released))
      writeWord words' RegistrationReadLock 0
      writeWord words' RegistrationWriteLock 0
      writeWord words' RegistrationArmed maxBound
      case registrationKind registration of
        _ | state .&. Closing /= 0 -> pure ()
        TimerOnly -> push (managerInbox m) (Arm registration)
        Served {} -> do
          -- A connection that the parent serves: only this process's copy is closed.
          writeWord words' RegistrationDetached 0
          atomicWrite words' RegistrationState (Closing .|. Released)
          void (closeSocket (registrationFd registration))
          freeRegistration registration
        _ -> do
          void (backendAdd (managerBackend m) (registrationFd registration) (registrationTag (registrationStamp registration) (registrationIndex registration)))
          push (managerInbox m) (Arm registration)

reviveLock :: Lock
reviveLock = unsafeGlobal newLock
{-# NOINLINE reviveLock #-}

-- Note [After a fork]
-- ~~~~~~~~~~~~~~~~~~~
-- fork(2) copies memory and descriptors, but only the thread that called it. So no loop runs in
-- a child made by forkProcess, and every wait would last for ever. Worse, the child shares its
-- parent's epoll instance: what it registers or removes there changes the parent. A handler of
-- pthread_atfork counts the forks, and everything that needs a loop (a new registration, a
-- command, a wait, a pooled timer) compares that count with the count when the loop started.
--
-- When they differ, the manager gets an eventfd and an epoll descriptor of its own under the
-- old numbers (dup3), registers its open registrations again, drops the locks and references of
-- threads that no longer exist, links all deadlines again, as the loop may have been
-- stopped in the middle of that, and starts a new loop. Connections that a service of the
-- parent serves stay with the parent: here they are closed, without a shutdown, which
-- would reach the peer.

-- Note [Polling]
-- ~~~~~~~~~~~~~~
-- Under load, a poll without blocking costs less than a blocking wait, which hands the
-- capability to another OS thread (Mio, section 3.3). On a quiet server both polls find
-- nothing and the blocking wait follows anyway, which is two useless system calls per request.
-- So after a wait that returned at most three events, the loop yields to the threads that it
-- woke and then waits again at once. After more than three events it polls first.

-- Note [A wait holds the file]
-- ~~~~~~~~~~~~~~~~~~~~~~~~~~~~
-- A poll(2) in progress holds references to its open files. A connection whose descriptor is
-- closed meanwhile ends only when the call returns; until then the peer sees no end of file.
-- So closing interrupts the poll(2) back end. epoll holds no reference.

-- Note [Lazy re-arm]
-- ~~~~~~~~~~~~~~~~~~
-- A waiter stores its deadline and reads RegistrationArmed, in that order, sequentially
-- consistent; only if its deadline is earlier it sends Arm. The loop, when a registration fires,
-- stores RegistrationArmed = maxBound and then reads the deadlines. So either the loop sees the
-- new deadline, or the waiter sees maxBound and sends Arm.
--
-- A deadline that is not earlier than the one it replaces needs no such order. If the loop
-- misses it, it acts on the earlier one: it causes a useless wake-up, after which the waiter
-- arms again, or links the registration at an earlier time and reads the deadlines again then.
-- Pooled timers are armed once, and always in order ("Heddle.IO.Internal.PooledTimer").
