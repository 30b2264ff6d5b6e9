{-# LANGUAGE PatternSynonyms #-}

-- |
-- Module      : Heddle.IO.Internal.Types
-- Description : Managers, slots and the back-end contract
-- Stability   : internal, exempt from the version policy
--
-- A 'Manager' is one capability's event manager; a 'Slot' is one descriptor or timer that
-- it looks after. Who may write what is said at each field.
--
-- Cost: a slot is about 250 bytes and no thread.
-- Owner: the manager keeps every open slot reachable, so that the collector never takes a
-- thread parked on one for deadlocked.
module Heddle.IO.Internal.Types
  ( -- * Managers
    Manager (..),
    Registry (..),
    Command (..),
    pattern WordNow,
    pattern WordAsleep,
    pattern WordResting,
    pattern WordLive,
    pattern WordStopping,
    pattern WordProcess,
    managerWordCount,

    -- * Slots
    Slot (..),
    Kind (..),
    pattern SlotState,
    pattern SlotSticky,
    pattern SlotReadDeadline,
    pattern SlotWriteDeadline,
    pattern SlotArmed,
    pattern SlotDetached,
    pattern SlotLastActive,
    pattern SlotBeforeLast,
    pattern SlotWriting,
    pattern SlotIdle,
    pattern SlotUnparked,
    pattern SlotReadTurn,
    pattern SlotWriteTurn,
    pattern SlotAccepted,
    slotWordCount,
    pattern Closing,
    pattern Released,
    pattern OneRef,
    slotTag,

    -- * Waiters
    Waiter (..),

    -- * Alarms
    Alarm (..),
    AlarmState (..),
    FreeAlarms (..),

    -- * Back ends
    Backend (..),
    Interest (..),
    eventCapacity,
  )
where

import Data.Bits (shiftL, (.|.))
import Data.ByteString.Short (ShortByteString)
import Data.IntMap.Strict (IntMap)
import Data.Word (Word64, Word8)
import Foreign.Ptr (Ptr)
import Heddle.IO.Internal.Queue (Queue)
import Heddle.IO.Internal.Wheel (Wheel)
import Heddle.Prim.Atomic (Ref, Stack, Table, Words)
import Heddle.Prim.Buffer (Buffer, Pool)
import Heddle.Prim.Lock (Lock)
import Heddle.Prim.Thread (ThreadId)
import Heddle.Prim.WaitCell (WaitCell)
import System.Posix.Types (Fd)

-- | One capability's event manager.
data Manager = Manager
  { -- | The capability that the loop is pinned to.
    managerCapability :: !Int,
    managerBackend :: !Backend,
    -- | See the @Word…@ patterns; each has its own cache line.
    managerWords :: !Words,
    -- | Slot by index; number 0 stands for none. Replaced when it grows, under the lock;
    -- read freely.
    managerSlots :: !(Ref (Table Slot)),
    -- | Guards 'managerRegistry' and the growth of 'managerSlots'.
    managerLock :: !Lock,
    managerRegistry :: !(Ref Registry),
    -- | Requests of other threads to the loop.
    managerInbox :: !(Stack Command),
    -- | Touched by the loop alone.
    managerWheel :: !Wheel,
    -- | Written to interrupt the loop's blocking wait.
    managerEventFd :: !Fd,
    -- | Timer-only slots between two uses ("Heddle.IO.Internal.Alarm").
    managerAlarms :: !(Ref FreeAlarms),
    -- | Buffers for one system call each.
    managerBuffers :: !(Pool Buffer),
    -- | Threads that wait for their turn at a slot ("Heddle.IO.Internal.Turn").
    managerTurns :: !(Ref (IntMap (Queue (Waiter ())))),
    -- | What the loop's thread runs around the loop; for the time after a fork.
    managerSupervise :: !(Ref (IO () -> IO ()))
  }

-- | Free slot numbers, the first number never used, and the next stamp.
data Registry = Registry ![Int] !Int !Int

-- | What a thread asks of a loop.
data Command
  = -- | A deadline earlier than the armed one was set, or one so much later that the armed
    -- one would only wake the loop for nothing.
    Arm !Slot
  | -- | The slot is closed: unlink it and reuse its number.
    Free !Slot
  | -- | Level-triggered back ends: report the next readiness.
    Watch !Slot !Interest

-- | A direction to wait for.
data Interest = Readable | Writable
  deriving stock (Eq, Show)

-- | The manager's clock in nanoseconds; the loop writes it after each wait.
pattern WordNow :: Int
pattern WordNow = 0

-- | 1 while the loop is, or is about to be, in a blocking wait. Set by the loop; whoever
-- clears it writes the eventfd.
pattern WordAsleep :: Int
pattern WordAsleep = 8

-- | 1 from before a blocking wait until the clock was read after it; the loop's alone.
pattern WordResting :: Int
pattern WordResting = 1

-- | How many descriptors are registered.
pattern WordLive :: Int
pattern WordLive = 16

-- | 1 when the loop is to end.
pattern WordStopping :: Int
pattern WordStopping = 24

-- | Which process the loop runs in, as 'Heddle.Prim.Thread.processGeneration' counts them;
-- written when a loop starts.
pattern WordProcess :: Int
pattern WordProcess = 25

-- | The length of 'managerWords'.
managerWordCount :: Int
managerWordCount = 32

-- | What a slot stands for.
data Kind
  = -- | Its descriptor is closed with the slot.
    Owned
  | -- | The same, for a connection of the service with this number; the action takes it
    -- out of the service's count.
    Served !Int !(IO ())
  | -- | Its descriptor is taken out of the back end and given to the action.
    Lent !(IO ())
  | -- | No descriptor, only a deadline.
    TimerOnly

-- | One registered descriptor, or one timer.
data Slot = Slot
  { slotManager :: !Manager,
    slotIndex :: !Int,
    -- | Tells this use of the index from earlier ones.
    slotStamp :: !Int,
    slotFd :: !Fd,
    slotKind :: !Kind,
    -- | See the @Slot…@ patterns.
    slotWords :: !Words,
    slotRead :: !WaitCell,
    slotWrite :: !WaitCell,
    -- | What continues a detached slot, in a new thread of the manager's capability.
    slotResume :: !(Slot -> IO ()),
    -- | The peer's @sockaddr@, empty when unknown.
    slotPeer :: !ShortByteString
  }

-- | 'Closing', 'Released' and 'OneRef' times the system calls in flight.
pattern SlotState :: Int
pattern SlotState = 0

-- | Event bits that never go away (hang-ups, errors). Written by the loop.
pattern SlotSticky :: Int
pattern SlotSticky = 1

-- | When the present wait for reading ends; written by its waiter.
pattern SlotReadDeadline :: Int
pattern SlotReadDeadline = 2

-- | When the present wait for writing ends; written by its waiter.
pattern SlotWriteDeadline :: Int
pattern SlotWriteDeadline = 3

-- | When the wheel will look at the slot, 'maxBound' for never. Written by the loop.
pattern SlotArmed :: Int
pattern SlotArmed = 4

-- | 1 while no thread runs the slot; whoever changes 1 to 0 continues it. 2 while a thread
-- of a service keeps it without work; whoever changes 2 to 0 decides between the next
-- request (the thread itself) and closing (a service that needs the descriptor). 3 after
-- the latter: it is closed and not counted any more.
pattern SlotDetached :: Int
pattern SlotDetached = 5

-- | When the slot last did something useful (monotonic nanoseconds); its thread's.
pattern SlotLastActive :: Int
pattern SlotLastActive = 6

-- | And the time before that; its thread's.
pattern SlotBeforeLast :: Int
pattern SlotBeforeLast = 7

-- | 1 after an explicit unpark that no wait has answered yet; written by any thread.
pattern SlotUnparked :: Int
pattern SlotUnparked = 8

-- | 1 while somebody may wait for writability; only then the loop looks for him. Set by
-- waiters, cleared by the loop.
pattern SlotWriting :: Int
pattern SlotWriting = 9

-- | Until when a connection without work is kept; its thread's, and its handler's to read.
pattern SlotIdle :: Int
pattern SlotIdle = 10

-- | Who may read; see "Heddle.IO.Internal.Turn". Any thread's.
pattern SlotReadTurn :: Int
pattern SlotReadTurn = 11

-- | Who may write; see "Heddle.IO.Internal.Turn". Any thread's.
pattern SlotWriteTurn :: Int
pattern SlotWriteTurn = 12

-- | When a connection was accepted (monotonic nanoseconds).
pattern SlotAccepted :: Int
pattern SlotAccepted = 13

-- | The length of 'slotWords'.
slotWordCount :: Int
slotWordCount = 14

-- | No system call may begin.
pattern Closing :: Int
pattern Closing = 1

-- | The descriptor is gone.
pattern Released :: Int
pattern Released = 2

-- | One system call in flight.
pattern OneRef :: Int
pattern OneRef = 4

-- | A thread that waits to be given something ("Heddle.IO.Internal.Wait").
data Waiter a = Waiter
  { waiterCell :: !WaitCell,
    waiterBox :: !(Ref (Maybe a))
  }

-- | What the back end gives back with an event: stamp and index.
slotTag :: Int -> Int -> Word64
slotTag stamp index = (fromIntegral stamp `shiftL` 32) .|. fromIntegral index

-- | A timer-only slot that is lent to one wait or one time-out after the other.
data Alarm = Alarm
  { alarmSlot :: !Slot,
    -- | Moves are listed at 'AlarmState'.
    alarmState :: !(Ref AlarmState)
  }

-- | Idle -> Armed (the borrower); Armed -> Idle (the borrower) or Ringing (the thread that
-- the loop started at the deadline), whichever is first; Ringing -> Idle (the borrower).
data AlarmState
  = -- | In the pool, or lent for a wait that its own thread ends. The number of uses.
    AlarmIdle !Int
  | -- | Interrupts this thread at the slot's deadline. The number of this use.
    AlarmArmed !Int !ThreadId
  | -- | The second thread is throwing to the first.
    AlarmRinging !Int !ThreadId

-- | How many alarms are free, and they themselves.
data FreeAlarms = FreeAlarms !Int ![Alarm]

-- | How a loop learns of readiness. Contract: after an attempt that found a direction
-- not ready, or came back short, the next readiness of that direction is reported once;
-- if 'backendWatches', only after a 'Watch' command that follows the attempt. Events are
-- left at the pointer as epoll lays them out, at most 'eventCapacity' of them; spurious
-- ones are legal. All but 'backendAdd' and 'backendRemove' are called by the loop alone.
data Backend = Backend
  { -- | For messages.
    backendName :: !String,
    -- | Begin to report a descriptor under a tag; 0 or minus the error number.
    backendAdd :: !(Fd -> Word64 -> IO Int),
    -- | Stop reporting a descriptor that stays open.
    backendRemove :: !(Fd -> IO Int),
    -- | Must waits be announced by 'Watch'?
    backendWatches :: !Bool,
    -- | Report this slot's next readiness.
    backendWatch :: !(Slot -> Interest -> IO ()),
    -- | Forget a closed slot.
    backendForget :: !(Slot -> IO ()),
    -- | Events there are now; never sleeps.
    backendPoll :: !(Ptr Word8 -> IO Int),
    -- | Wait so many milliseconds (-1: for ever); a safe call.
    backendWait :: !(Ptr Word8 -> Int -> IO Int),
    -- | After a fork: replace the back end's own descriptors, which the parent process
    -- shares, by new ones under the same numbers; 0 or minus the error number.
    backendRenew :: !(IO Int),
    -- | Release the back end's own descriptors.
    backendClose :: !(IO ())
  }

-- | How many events a back end reports at most at once.
eventCapacity :: Int
eventCapacity = 256
