{-# LANGUAGE PatternSynonyms #-}

-- |
-- Module      : Heddle.IO.Internal.Slot
-- Description : Waiting on, using and closing one slot
-- Stability   : internal, exempt from the version policy
--
-- The protocols of a slot: references that keep a descriptor open during a system call,
-- closing that wakes every waiter, waiting with a deadline, giving the thread up.
--
-- Invariants: close(2) happens once, when the slot is closing and no system call is in
-- flight; after that no system call names the descriptor. A reference spans a system call,
-- never a park, so cancelling a thread undoes nothing.
--
-- Cost: a reference is two atomic additions (about 10 ns); a wait allocates 24 bytes.
-- Owner: any thread may use or close a slot; one thread at a time waits per direction.
-- Where several may come, they take turns ("Heddle.IO.Internal.Turn").
module Heddle.IO.Internal.Slot
  ( -- * References and closing
    using,
    usingMasked,
    closeSlot,
    isClosing,

    -- * Waiting
    waitUntil,
    deadlineOver,
    armUntil,
    armWordsUntil,
    cellOf,
    hungUp,

    -- * Attempts that wait
    attempt,
    tryOnce,
    goOn,
    pattern TimedOutCode,
    pattern ClosedCode,

    -- * Without a thread
    detachUntil,
  )
where

import Control.Monad (void, when)
import Data.Bits (complement, (.&.), (.|.))
import Heddle.IO.Internal.Manager (continue, freeSlot, managerNow, revive, submit)
import Heddle.IO.Internal.Types
import Heddle.Prim.Atomic
import Heddle.Prim.Clock (Deadline (..), monotonicNow, never)
import Heddle.Prim.Errno (Errno (..), pattern EAGAIN, pattern EINTR)
import Heddle.Prim.Exception (mask_)
import Heddle.Prim.Poller (eventError, eventHangUp, eventOut, pollOne)
import Heddle.Prim.Socket (closeSocket, shutdown)
import Heddle.Prim.WaitCell (WaitCell, park, reset, unpark)
import System.Posix.Types (Fd)

-- | The answer of 'attempt' when the deadline passed first.
pattern TimedOutCode :: Int
pattern TimedOutCode = -100001

-- | The answer of 'attempt' and 'using' when the slot is closed.
pattern ClosedCode :: Int
pattern ClosedCode = -100002

-- | Make a system call that cannot be left behind by 'closeSlot': either it runs on this
-- very descriptor, or the answer is 'ClosedCode'. The call must not park; a safe call is
-- allowed, and defers asynchronous exceptions.
--
-- [Cost]: two atomic additions; masking, which is free in a masked thread.
-- [Masking]: masked, so that no reference is left behind.
using :: Slot -> (Fd -> IO Int) -> IO Int
using slot call = mask_ (usingMasked slot call)
{-# INLINE using #-}

-- | 'using' for a caller that is masked already.
--
-- [Cost]: two atomic additions; nothing allocated.
usingMasked :: Slot -> (Fd -> IO Int) -> IO Int
usingMasked slot call = do
  old <- fetchAdd (slotWords slot) SlotState OneRef
  r <- if old .&. Closing == 0 then call (slotFd slot) else pure ClosedCode
  now <- fetchAdd (slotWords slot) SlotState (-OneRef)
  when (now .&. Closing /= 0) (releaseIfLast slot)
  pure r
{-# INLINE usingMasked #-}

-- Whoever sets Released does the closing: all references are gone, none can come.
releaseIfLast :: Slot -> IO ()
releaseIfLast slot = do
  won <- compareAndSet (slotWords slot) SlotState Closing (Closing .|. Released)
  when won $ do
    case slotKind slot of
      Owned -> closeIt
      Served _ _ -> closeIt
      Lent giveBack -> do
        -- In a forked process, not from its parent's epoll descriptor.
        revive (slotManager slot)
        void (backendRemove backend (slotFd slot))
        giveBack
      TimerOnly -> pure ()
    freeSlot slot
  where
    backend = managerBackend (slotManager slot)
    closeIt = do
      -- epoll forgets a closed descriptor by itself.
      when (backendWatches backend) $ void (backendRemove backend (slotFd slot))
      void (closeSocket (slotFd slot))
{-# NOINLINE releaseIfLast #-}

-- | Close: no system call begins after this, every waiter wakes, and the descriptor is
-- closed now or by the last call in flight. Idempotent; 'True' for the caller that closed.
--
-- [Blocks]: never.
-- [Threads]: any.
closeSlot :: Slot -> IO Bool
closeSlot slot = mask_ $ do
  -- The closer's own reference keeps the descriptor for the shutdown.
  _ <- fetchAdd (slotWords slot) SlotState OneRef
  old <- fetchOr (slotWords slot) SlotState Closing
  let first = old .&. Closing == 0
      others = old .&. complement 3 > OneRef
  when (first && others) $ case slotKind slot of
    Owned -> void (shutdown (slotFd slot) 2)
    Served _ _ -> void (shutdown (slotFd slot) 2)
    _ -> pure ()
  _ <- fetchAdd (slotWords slot) SlotState (-OneRef)
  releaseIfLast slot
  when first $ do
    unpark (slotRead slot)
    unpark (slotWrite slot)
    continue slot
  pure first

-- | Is the slot closed, or about to be?
isClosing :: Slot -> IO Bool
isClosing slot = (\s -> s .&. Closing /= 0) <$> readWord (slotWords slot) SlotState
{-# INLINE isClosing #-}

-- | The cell of a direction.
cellOf :: Slot -> Interest -> WaitCell
cellOf slot = \case
  Readable -> slotRead slot
  Writable -> slotWrite slot
{-# INLINE cellOf #-}

-- | Has the peer hung up, so that reading never waits again?
hungUp :: Slot -> IO Bool
hungUp slot = (/= 0) <$> readWord (slotWords slot) SlotSticky
{-# INLINE hungUp #-}

-- | Set a direction's deadline; a later one is one plain store.
--
-- [Cost]: about 3 ns; an earlier one than the armed one sends a command to the loop.
-- [Blocks]: never.
armUntil :: Slot -> Interest -> Deadline -> IO ()
armUntil slot = armWordsUntil (slotWords slot) slot
{-# INLINE armUntil #-}

-- | 'armUntil' for who has the slot's words at hand; the slot is looked at only when the
-- loop must be told.
--
-- [Blocks]: never.
armWordsUntil :: Words -> Slot -> Interest -> Deadline -> IO ()
armWordsUntil ws slot interest (Deadline d) = do
  let at = case interest of
        Readable -> SlotReadDeadline
        Writable -> SlotWriteDeadline
  before <- readWord ws at
  if d >= before then writeWord ws at d else atomicWrite ws at d
  armed <- readWord ws SlotArmed
  when (d < armed) (submit (slotManager slot) (Arm slot))
{-# INLINE armWordsUntil #-}

-- | Park until the direction may be ready, the deadline passes or the slot is closed.
-- Precede it by 'reset' of the cell and an attempt. Waking says nothing: try again.
--
-- [Cost]: 24 bytes; no system call.
-- [Blocks]: parks the thread.
-- [Masking]: interruptible.
waitUntil :: Slot -> Interest -> Deadline -> IO ()
waitUntil slot interest deadline = do
  revive (slotManager slot)
  when (backendWatches (managerBackend (slotManager slot))) $
    submit (slotManager slot) (Watch slot interest)
  when (deadline /= never) (armUntil slot interest deadline)
  closing <- isClosing slot
  ready <- case interest of
    Readable -> hungUp slot
    Writable -> writableAlready slot
  if closing || ready
    then pure ()
    else do
      park cell
      -- A closed slot's token goes round: every waiter must see it.
      closed <- isClosing slot
      when closed (unpark cell)
  where
    cell = cellOf slot interest
{-# INLINE waitUntil #-}

-- The loop looks for a writer only after being told of one; an edge that came between the
-- attempt and the telling is found here.
writableAlready :: Slot -> IO Bool
writableAlready slot = do
  told <- atomicRead ws SlotWriting
  if told == 1 || slotFd slot < 0
    then pure False
    else do
      atomicWrite ws SlotWriting 1
      (/= 0) <$> using slot (`pollOne` writableBits)
  where
    ws = slotWords slot
    writableBits = eventOut .|. eventHangUp .|. eventError

-- | Has the deadline passed? The manager's clock answers first, the real one only when
-- that says no.
deadlineOver :: Slot -> Deadline -> IO Bool
deadlineOver slot deadline
  | deadline == never = pure False
  | otherwise = do
    seen <- managerNow (slotManager slot)
    if seen >= deadline then pure True else (>= deadline) <$> monotonicNow

-- | Try a non-blocking call until it does not answer -EAGAIN, waiting in between. At
-- least one try is made, even when the deadline has passed.
--
-- [Cost]: that of the call, 15 ns, and a wait per -EAGAIN.
-- [Blocks]: parks the thread.
-- [Masking]: interruptible while parked.
attempt :: Slot -> Interest -> Deadline -> (Fd -> IO Int) -> IO Int
attempt slot interest deadline call = mask_ (tryOnce slot interest call >>= goOn slot interest deadline call)
{-# INLINE attempt #-}

-- | One try, as 'attempt' makes it. The caller is masked.
--
-- [Blocks]: never.
tryOnce :: Slot -> Interest -> (Fd -> IO Int) -> IO Int
tryOnce slot interest call = reset (cellOf slot interest) >> usingMasked slot call
{-# INLINE tryOnce #-}

-- | What 'attempt' does after a try with this answer. The caller is masked.
--
-- [Blocks]: parks the thread.
goOn :: Slot -> Interest -> Deadline -> (Fd -> IO Int) -> Int -> IO Int
goOn slot interest deadline call = judge
  where
    judge r
      | r > 0 = pure r
      | r == 0 = ended
      | otherwise = failed r
    go = tryOnce slot interest call >>= judge
    -- The end may be the work of our own close, which shuts down what is in flight.
    ended = do
      closing <- isClosing slot
      if closing then failed ClosedCode else pure 0
    failed r
      | Errno (negate r) == EAGAIN = do
        late <- deadlineOver slot deadline
        if late
          then pure TimedOutCode
          else do
            -- Hung up, yet nothing to read: the next try must not spin.
            hung <- hungUp slot
            when (hung && interest == Readable) $ writeWord (slotWords slot) SlotSticky 0
            waitUntil slot interest deadline
            go
      | Errno (negate r) == EINTR = go
      | r == ClosedCode = ClosedCode <$ unpark (cellOf slot interest)
      -- An error comes with one edge, too, and shows once: let the next waiter look.
      | otherwise = r <$ unpark (cellOf slot interest)
{-# INLINE goOn #-}

-- | Give the slot's thread up: 'True' when the caller may end, since an event, the deadline
-- or a close will continue the slot in a new thread; 'False' when there is already
-- something to do, and the caller goes on as that thread.
--
-- [Cost]: two atomic operations.
-- [Blocks]: never.
detachUntil :: Slot -> Deadline -> IO Bool
detachUntil slot deadline = do
  let ws = slotWords slot
  -- Armed first: once the slot is detached it may be another thread's.
  armUntil slot Readable deadline
  armed <- readWord ws SlotArmed
  -- About to rest: link it where it belongs, or the old time would wake an idle program.
  when (Deadline armed < deadline) (submit (slotManager slot) (Arm slot))
  atomicWrite ws SlotDetached 1
  when (backendWatches (managerBackend (slotManager slot))) $
    submit (slotManager slot) (Watch slot Readable)
  waiting <- reset (slotRead slot)
  closing <- isClosing slot
  hung <- hungUp slot
  if waiting || closing || hung
    then do
      won <- compareAndSet ws SlotDetached 1 0
      -- Lost: the token may have been for the thread that runs the slot now.
      when (waiting && not won) (unpark (slotRead slot))
      pure (not won)
    else pure True
