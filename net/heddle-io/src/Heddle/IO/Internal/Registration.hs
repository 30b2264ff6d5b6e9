{-# LANGUAGE PatternSynonyms #-}

-- |
-- Module      : Heddle.IO.Internal.Registration
-- Description : Waiting on, using and closing one registration
-- Stability   : hidden; "Heddle.IO.Registration" exports what is public
--
-- The protocols of a registration: references that keep a descriptor open during a system
-- call, closing that wakes every waiter, waiting with a deadline, detaching from a thread.
--
-- Invariants: close(2) is called once, when the registration is closing and no system call
-- is in flight; after that no system call names the descriptor. A reference spans a system
-- call, never a park, so cancelling a thread leaves nothing to undo.
--
-- Cost: a reference is two atomic additions (about 10 ns); a wait allocates 24 bytes.
-- Owner: any thread may use or close a registration; one thread at a time waits per
-- direction. Where several may come, they lock it ("Heddle.IO.Internal.TicketLock").
module Heddle.IO.Internal.Registration
  ( -- * References and closing
    using,
    usingMasked,
    closeRegistration,
    isClosing,

    -- * Waiting
    waitUntil,
    wakeReader,
    deadlineOver,
    armUntil,
    armWordsUntil,
    pauseUntil,
    cellOf,
    hungUp,
    peerHungUp,
    forgetHangUp,

    -- * Facts
    registrationCapability,
    freshNow,
    borrowBuffer,
    giveBackBuffer,

    -- * Attempts that wait
    attempt,
    tryOnce,
    retryUntil,
    pattern TimedOutCode,
    pattern ClosedCode,

    -- * Without a thread
    detachUntil,
  )
where

import Control.Monad (unless, void, when)
import Data.Bits (complement, (.&.), (.|.))
import Heddle.IO.Internal.Manager (continue, freeRegistration, managerFreshNow, managerNow, revive, submit)
import Heddle.IO.Internal.Types
import Heddle.Prim.Atomic
import Heddle.Prim.Buffer (Buffer, borrow, giveBack)
import Heddle.Prim.Clock (Deadline (..), monotonicNow, never)
import Heddle.Prim.Errno (Errno (..), pattern EAGAIN, pattern EINTR)
import Heddle.Prim.Exception (mask_)
import Heddle.Prim.Poller (eventError, eventHangUp, eventOut, eventReadHangUp, pollOne)
import Heddle.Prim.Socket (closeSocket, getOption, shutdown, pattern Listening, pattern ShutBoth)
import Heddle.Prim.Thread (yield)
import Heddle.Prim.Trace (Marker (..), mark)
import Heddle.Prim.WaitCell (WaitCell, park, reset, unpark)
import System.Posix.Types (Fd)

-- | The answer when the deadline passed first.
pattern TimedOutCode :: Int
pattern TimedOutCode = -100001

-- | The answer when the registration is closed on this side.
pattern ClosedCode :: Int
pattern ClosedCode = -100002

-- | Make a system call that 'closeRegistration' cannot overtake: either it runs on this
-- very descriptor, or the answer is 'ClosedCode'. The call must not park; a safe foreign
-- call is allowed, and defers asynchronous exceptions. It answers with a result, or with
-- minus the error number, as the functions of "Heddle.Prim.Socket" do.
--
-- [Cost]: two atomic additions; masking, which is free in a masked thread.
-- [Blocks]: as the call does.
-- [Masking]: the call runs masked, so that no reference is left behind.
-- [Threads]: any.
using :: Registration -> (Fd -> IO Int) -> IO Int
using registration call = mask_ (usingMasked registration call)
{-# INLINE using #-}

-- | 'using' for a caller that is masked already.
--
-- [Cost]: two atomic additions; nothing allocated.
usingMasked :: Registration -> (Fd -> IO Int) -> IO Int
usingMasked registration call = do
  old <- fetchAdd (registrationWords registration) RegistrationState OneRef
  r <- if old .&. Closing == 0 then call (registrationFd registration) else pure ClosedCode
  now <- fetchAdd (registrationWords registration) RegistrationState (-OneRef)
  when (now .&. Closing /= 0) (releaseIfLast registration)
  pure r
{-# INLINE usingMasked #-}

-- The thread that sets Released closes: all references are gone, and none can be added.
releaseIfLast :: Registration -> IO ()
releaseIfLast registration = do
  won <- compareAndSet (registrationWords registration) RegistrationState Closing (Closing .|. Released)
  when won $ do
    case registrationKind registration of
      Owned -> closeIt
      Served {} -> closeIt
      Lent release -> do
        -- In a forked process, not from its parent's epoll descriptor.
        revive (registrationManager registration)
        void (backendRemove backend (registrationFd registration))
        release
      TimerOnly -> pure ()
    freeRegistration registration
  where
    backend = managerBackend (registrationManager registration)
    closeIt = do
      -- epoll forgets a closed descriptor by itself.
      when (backendOneshot backend) $ void (backendRemove backend (registrationFd registration))
      void (closeSocket (registrationFd registration))
{-# NOINLINE releaseIfLast #-}

-- | Close: no system call begins after this, every waiter wakes, and the descriptor is
-- closed now or by the last call in flight. Idempotent; 'True' for the caller that closed.
--
-- [Cost]: one system call; up to three while another call is in flight.
-- [Blocks]: never.
-- [Threads]: any.
closeRegistration :: Registration -> IO Bool
closeRegistration registration = mask_ $ do
  -- The closer's own reference keeps the descriptor for the shutdown.
  _ <- fetchAdd (registrationWords registration) RegistrationState OneRef
  old <- fetchOr (registrationWords registration) RegistrationState Closing
  let first = old .&. Closing == 0
      others = old .&. complement 3 > OneRef
  when (first && others) $ case registrationKind registration of
    Owned -> do
      -- Another process may accept from a socket that listens, and a shutdown would end that, too.
      listening <- getOption (registrationFd registration) Listening
      unless (listening > 0) end
    Served {} -> end
    _ -> pure ()
  _ <- fetchAdd (registrationWords registration) RegistrationState (-OneRef)
  releaseIfLast registration
  when first $ do
    unpark (registrationRead registration)
    unpark (registrationWrite registration)
    continue registration
  pure first
  where
    end = void (shutdown (registrationFd registration) ShutBoth)

-- | Whether it is closed, or about to be.
--
-- [Cost]: one read.
isClosing :: Registration -> IO Bool
isClosing registration = (\s -> s .&. Closing /= 0) <$> readWord (registrationWords registration) RegistrationState
{-# INLINE isClosing #-}

-- | The cell that a direction's waiter parks on.
cellOf :: Registration -> Interest -> WaitCell
cellOf registration = \case
  Readable -> registrationRead registration
  Writable -> registrationWrite registration
{-# INLINE cellOf #-}

-- | Whether the peer has hung up or an error is pending: reading does not wait any more.
-- Read on; bytes may be left before the end. With poll(2) only a wait finds out.
--
-- [Cost]: one read.
hungUp :: Registration -> IO Bool
hungUp registration = (/= 0) <$> readWord (registrationWords registration) RegistrationSticky
{-# INLINE hungUp #-}

-- | 'hungUp', also with poll(2), which is asked: for a thread that looks after a connection whose own thread
-- waits for something else.
--
-- [Cost]: one read; with poll(2), one system call.
-- [Blocks]: never.
-- [Threads]: any.
peerHungUp :: Registration -> IO Bool
peerHungUp registration = do
  hung <- hungUp registration
  if hung || not (backendOneshot (managerBackend (registrationManager registration)))
    then pure hung
    else (> 0) <$> using registration (`pollOne` (eventReadHangUp .|. eventHangUp .|. eventError))

-- | Clear a hang-up that a reader has seen without finding bytes or the end. Otherwise the
-- next wait would return at once, and a loop of waiting and reading would spin.
--
-- [Cost]: one store.
-- [Threads]: the reader's.
forgetHangUp :: Registration -> IO ()
forgetHangUp registration = writeWord (registrationWords registration) RegistrationSticky 0
{-# INLINE forgetHangUp #-}

-- | The capability whose event manager has the registration. A service runs its
-- handler there, so state kept per capability is found by this number.
--
-- [Cost]: two loads.
registrationCapability :: Registration -> Int
registrationCapability = managerCapability . registrationManager
{-# INLINE registrationCapability #-}

-- | The time, at most as old as the event manager's last poll: no clock is read while the
-- manager is busy. Right after a wake-up the answer is exact.
--
-- [Cost]: two reads; while the manager sleeps, one reading of the clock (25 ns).
-- [Blocks]: never.
-- [Threads]: any; in a thread that has computed for long, the answer is that old.
freshNow :: Registration -> IO Deadline
freshNow = managerFreshNow . registrationManager
{-# INLINE freshNow #-}

-- | Borrow one of the capability's buffers of 32 KiB, so that a connection owns memory only
-- while it has bytes in it. A buffer that is not given back is left to the collector.
--
-- [Cost]: one compare-and-set, or the making of a buffer.
-- [Blocks]: never.
-- [Units]: 'Heddle.Prim.Buffer.bufferSize' bytes, 32,768.
-- [Threads]: any.
borrowBuffer :: Registration -> IO Buffer
borrowBuffer = borrow . managerBuffers . registrationManager
{-# INLINE borrowBuffer #-}

-- | Give a borrowed buffer back; the caller must not use it afterwards.
--
-- [Cost]: one compare-and-set.
-- [Blocks]: never.
-- [Threads]: any.
giveBackBuffer :: Registration -> Buffer -> IO ()
giveBackBuffer = giveBack . managerBuffers . registrationManager
{-# INLINE giveBackBuffer #-}

-- | Set the deadline of the current or next wait in a direction, without waiting.
--
-- [Cost]: about 3 ns: one store, if the deadline is later than the one before it. One that
-- is earlier than the armed one sends a command to the event manager.
-- [Blocks]: never.
-- [Threads]: any.
armUntil :: Registration -> Interest -> Deadline -> IO ()
armUntil registration = armWordsUntil (registrationWords registration) registration
{-# INLINE armUntil #-}

-- | 'armUntil' for a caller that has the registration's words at hand; the registration is
-- loaded only if the loop needs a command.
--
-- [Blocks]: never.
armWordsUntil :: Words -> Registration -> Interest -> Deadline -> IO ()
armWordsUntil ws registration interest (Deadline d) = do
  let at = case interest of
        Readable -> RegistrationReadDeadline
        Writable -> RegistrationWriteDeadline
  before <- readWord ws at
  if d >= before then writeWord ws at d else atomicWrite ws at d
  armed <- readWord ws RegistrationArmed
  when (d < armed) (mark IoArm >> submit (registrationManager registration) (Arm registration))
{-# INLINE armWordsUntil #-}

-- | Park until the direction may be ready, the deadline passes or the registration is
-- closed. An attempt that answered -EAGAIN ('Heddle.IO.Registration.receiveNow', or a call
-- within 'attempt') comes before it: an event since that attempt ends the wait at once. A
-- wake-up does not mean readiness; try again.
--
-- [Cost]: 24 bytes; no system call.
-- [Blocks]: parks the thread.
-- [Masking]: interruptible.
-- [Threads]: one in each direction.
waitUntil :: Registration -> Interest -> Deadline -> IO ()
waitUntil registration interest deadline = do
  revive (registrationManager registration)
  when (backendOneshot (managerBackend (registrationManager registration))) $
    submit (registrationManager registration) (Enable registration interest)
  when (deadline /= never) (armUntil registration interest deadline)
  closing <- isClosing registration
  ready <- case interest of
    Readable -> hungUp registration
    Writable -> writableAlready registration
  if closing || ready
    then pure ()
    else do
      mark IoPark
      park cell
      -- A closed registration's token goes round: every waiter must see it.
      closed <- isClosing registration
      when closed (unpark cell)
  where
    cell = cellOf registration interest
{-# INLINE waitUntil #-}

-- | Park until the deadline, whatever the descriptor is ready for; at once when the
-- registration is closed, after yielding. It uses the wait of the writing direction.
--
-- [Cost]: 24 bytes for each park; no system call.
-- [Blocks]: parks the thread.
-- [Masking]: interruptible.
-- [Threads]: the writer's.
pauseUntil :: Registration -> Deadline -> IO ()
pauseUntil registration deadline = do
  _ <- reset (registrationWrite registration)
  armUntil registration Writable deadline
  closing <- isClosing registration
  if closing
    then yield
    else do
      late <- deadlineOver registration deadline
      unless late (park (registrationWrite registration) >> pauseUntil registration deadline)

-- | End the current wait of the reading direction, or else the next one: for threads that have
-- something to tell the connection's thread. Whatever that is, set it before; the reader looks at
-- it between its attempt to read and its wait.
--
-- [Cost]: O(1).
-- [Blocks]: never.
-- [Threads]: any.
wakeReader :: Registration -> IO ()
wakeReader registration = unpark (registrationRead registration)
{-# INLINE wakeReader #-}

-- The loop wakes a writer only while RegistrationWriting is set. This poll finds an edge that
-- came between the attempt and the setting of that word.
writableAlready :: Registration -> IO Bool
writableAlready registration = do
  told <- atomicRead ws RegistrationWriting
  if told == 1 || registrationFd registration < 0
    then pure False
    else do
      atomicWrite ws RegistrationWriting 1
      (/= 0) <$> using registration (`pollOne` writableBits)
  where
    ws = registrationWords registration
    writableBits = eventOut .|. eventHangUp .|. eventError

-- | Whether the deadline has passed. The real clock is read only if the deadline has not passed
-- by the event manager's clock.
--
-- [Cost]: one read, or one reading of the clock.
-- [Blocks]: never.
deadlineOver :: Registration -> Deadline -> IO Bool
deadlineOver registration deadline
  | deadline == never = pure False
  | otherwise = do
    seen <- managerNow (registrationManager registration)
    if seen >= deadline then pure True else (>= deadline) <$> monotonicNow

-- | Try a non-blocking call until it does not answer -EAGAIN, waiting for the direction in
-- between. At least one try is made, even if the deadline has passed. The answer is the
-- call's, 'TimedOutCode' or 'ClosedCode'.
--
-- [Cost]: that of the call, 15 ns, and a wait for each -EAGAIN.
-- [Blocks]: parks the thread.
-- [Masking]: interruptible while parked; the call itself runs masked.
-- [Threads]: one in each direction.
attempt :: Registration -> Interest -> Deadline -> (Fd -> IO Int) -> IO Int
attempt registration interest deadline call = mask_ (tryOnce registration interest call >>= retryUntil registration interest deadline call)
{-# INLINE attempt #-}

-- | One try, as 'attempt' makes it. The caller is masked.
--
-- [Blocks]: never.
tryOnce :: Registration -> Interest -> (Fd -> IO Int) -> IO Int
tryOnce registration interest call = reset (cellOf registration interest) >> usingMasked registration call
{-# INLINE tryOnce #-}

-- | What 'attempt' does after a try with this answer. The caller is masked.
--
-- [Blocks]: parks the thread.
retryUntil :: Registration -> Interest -> Deadline -> (Fd -> IO Int) -> Int -> IO Int
retryUntil registration interest deadline call = judge
  where
    judge r
      | r > 0 = pure r
      | r == 0 = ended
      | otherwise = failed r
    go = tryOnce registration interest call >>= judge
    -- The end may be the work of our own close, which shuts down what is in flight.
    ended = do
      closing <- isClosing registration
      if closing then failed ClosedCode else pure 0
    failed r
      | Errno (negate r) == EAGAIN = do
        late <- deadlineOver registration deadline
        if late
          then pure TimedOutCode
          else do
            -- Hung up, yet nothing to read: the next try must not spin.
            hung <- hungUp registration
            when (hung && interest == Readable) $ forgetHangUp registration
            waitUntil registration interest deadline
            go
      | Errno (negate r) == EINTR = go
      | r == ClosedCode = ClosedCode <$ unpark (cellOf registration interest)
      -- An error also causes a single edge: wake the next waiter, which will see it. EPIPE may be the work of our own close, too.
      | otherwise = do
        closing <- isClosing registration
        (if closing then ClosedCode else r) <$ unpark (cellOf registration interest)
{-# INLINE retryUntil #-}

-- | Detach the registration from the calling thread: 'True' when the thread may end, since
-- an event, the deadline or closing will continue the registration in a new thread; 'False'
-- when there is already something to do, and the caller continues to run the registration.
--
-- [Cost]: two atomic operations.
-- [Blocks]: never.
detachUntil :: Registration -> Deadline -> IO Bool
detachUntil registration deadline = do
  let ws = registrationWords registration
  -- Armed first: once the registration is detached it may be another thread's.
  armUntil registration Readable deadline
  armed <- readWord ws RegistrationArmed
  -- Link the registration at its new deadline, or the old one would wake an idle program.
  when (Deadline armed < deadline) (submit (registrationManager registration) (Arm registration))
  atomicWrite ws RegistrationDetached 1
  when (backendOneshot (managerBackend (registrationManager registration))) $
    submit (registrationManager registration) (Enable registration Readable)
  waiting <- reset (registrationRead registration)
  closing <- isClosing registration
  hung <- hungUp registration
  if waiting || closing || hung
    then do
      won <- compareAndSet ws RegistrationDetached 1 0
      -- Lost: the token may have been for the thread that runs the registration now.
      when (waiting && not won) (unpark (registrationRead registration))
      pure (not won)
    else pure True
