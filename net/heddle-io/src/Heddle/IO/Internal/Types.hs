{-# LANGUAGE PatternSynonyms #-}
{-# OPTIONS_HADDOCK not-home #-}

-- |
-- Module      : Heddle.IO.Internal.Types
-- Description : Managers, registrations and the back-end contract
-- Stability   : internal, exempt from the version policy
--
-- A 'Manager' is one capability's event manager; a 'Registration' is one descriptor or timer
-- in it. Each field's comment says which thread may write it.
--
-- Cost: a registration is about 250 bytes and no thread.
-- Owner: the manager keeps every open registration reachable, so that the collector never
-- finds a thread parked on one deadlocked.
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

    -- * Registrations
    Registration (..),
    Kind (..),
    pattern RegistrationState,
    pattern RegistrationSticky,
    pattern RegistrationReadDeadline,
    pattern RegistrationWriteDeadline,
    pattern RegistrationArmed,
    pattern RegistrationDetached,
    pattern RegistrationLastActive,
    pattern RegistrationBeforeLast,
    pattern RegistrationWriting,
    pattern RegistrationIdle,
    pattern RegistrationUnparked,
    pattern RegistrationReadLock,
    pattern RegistrationWriteLock,
    pattern RegistrationAccepted,
    registrationWordCount,
    pattern Closing,
    pattern Released,
    pattern OneRef,
    registrationTag,

    -- * Pooled timers
    PooledTimer (..),
    PooledState (..),
    FreeTimers (..),

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
import Heddle.IO.Internal.Wheel (Wheel)
import Heddle.IO.WaitQueue (Queue, Waiter)
import Heddle.Prim.Atomic (Ref, Stack, Table, Words)
import Heddle.Prim.Buffer (Buffer, Pool)
import Heddle.Prim.Lock (Lock)
import Heddle.Prim.Thread (ThreadId, WeakThread)
import Heddle.Prim.WaitCell (WaitCell)
import System.Posix.Types (Fd)

-- | One capability's event manager.
data Manager = Manager
  { -- | The capability that the loop is pinned to.
    managerCapability :: !Int,
    managerBackend :: !Backend,
    -- | See the @Word…@ patterns; each has its own cache line.
    managerWords :: !Words,
    -- | Registrations by index; index 0 stands for none. Replaced when it grows, under the
    -- lock; read without it.
    managerRegistrations :: !(Ref (Table Registration)),
    -- | Guards 'managerRegistry' and the growth of 'managerRegistrations'.
    managerLock :: !Lock,
    managerRegistry :: !(Ref Registry),
    -- | Requests of other threads to the loop.
    managerInbox :: !(Stack Command),
    -- | Touched by the loop alone.
    managerWheel :: !Wheel,
    -- | Written to interrupt the loop's blocking wait.
    managerEventFd :: !Fd,
    -- | Timer-only registrations between two uses ("Heddle.IO.Internal.PooledTimer").
    managerTimers :: !(Ref FreeTimers),
    -- | Buffers for one system call each.
    managerBuffers :: !(Pool Buffer),
    -- | Threads that wait for the lock of a registration's direction
    -- ("Heddle.IO.Internal.TicketLock").
    managerLockQueues :: !(Ref (IntMap (Queue (Waiter ())))),
    -- | Wraps the loop in its thread; kept to start the loop again after a fork.
    managerSupervise :: !(Ref (IO () -> IO ()))
  }

-- | Free registration numbers, the first number never used, and the next stamp.
data Registry = Registry ![Int] !Int !Int

-- | What a thread asks of a loop.
data Command
  = -- | A deadline earlier than the armed one was set, or one so much later that the armed
    -- one would only wake the loop for nothing.
    Arm !Registration
  | -- | The registration is closed: unlink it and reuse its number.
    Free !Registration
  | -- | Level-triggered back ends: report the next readiness.
    Enable !Registration !Interest

-- | A direction to wait for.
data Interest = Readable | Writable
  deriving stock (Eq, Show)

-- | The manager's clock in nanoseconds; the loop writes it after each wait.
pattern WordNow :: Int
pattern WordNow = 0

-- | 1 while the loop is, or is about to be, in a blocking wait. Set by the loop; the
-- thread that clears it writes the eventfd.
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

-- | What a registration stands for.
data Kind
  = -- | Its descriptor is closed with the registration.
    Owned
  | -- | The same, for a connection of the service with this number; the action takes it
    -- out of the service's count. The thread is that in the handler; weak, so that the runtime
    -- can tell a handler that it waits for something unreachable.
    Served !Int !(IO ()) !(Ref (Maybe WeakThread))
  | -- | Its descriptor is taken out of the back end and given to the action.
    Lent !(IO ())
  | -- | No descriptor, only a deadline.
    TimerOnly

-- | One registered descriptor, or one timer.
data Registration = Registration
  { registrationManager :: !Manager,
    registrationIndex :: !Int,
    -- | Distinguishes this use of the index from earlier ones.
    registrationStamp :: !Int,
    registrationFd :: !Fd,
    registrationKind :: !Kind,
    -- | See the @Registration…@ patterns.
    registrationWords :: !Words,
    registrationRead :: !WaitCell,
    registrationWrite :: !WaitCell,
    -- | What continues a detached registration, in a new, masked thread of the manager's capability.
    registrationResume :: !(Registration -> IO ()),
    -- | The peer's @sockaddr@, empty when unknown.
    registrationPeer :: !ShortByteString
  }

-- | 'Closing', 'Released' and 'OneRef' times the system calls in flight.
pattern RegistrationState :: Int
pattern RegistrationState = 0

-- | Event bits that never go away (hang-ups, errors). Written by the loop.
pattern RegistrationSticky :: Int
pattern RegistrationSticky = 1

-- | When the current wait for reading ends; written by its waiter.
pattern RegistrationReadDeadline :: Int
pattern RegistrationReadDeadline = 2

-- | When the current wait for writing ends; written by its waiter.
pattern RegistrationWriteDeadline :: Int
pattern RegistrationWriteDeadline = 3

-- | When the wheel will reach the registration, 'maxBound' for never. Written by the loop.
pattern RegistrationArmed :: Int
pattern RegistrationArmed = 4

-- | 1 while no thread runs the registration; the thread that changes 1 to 0 continues it. 2
-- while a thread of a service keeps it without work; then its own thread changes 2 to 0 for
-- the next request, or a service that needs the descriptor changes 2 to 3 and closes it. At 3
-- it is not counted any more.
pattern RegistrationDetached :: Int
pattern RegistrationDetached = 5

-- | When the registration last did something useful (monotonic nanoseconds); its thread's.
pattern RegistrationLastActive :: Int
pattern RegistrationLastActive = 6

-- | And the time before that; its thread's.
pattern RegistrationBeforeLast :: Int
pattern RegistrationBeforeLast = 7

-- | 1 after an explicit unpark that no wait has answered yet; written by any thread.
pattern RegistrationUnparked :: Int
pattern RegistrationUnparked = 8

-- | 1 while a thread may wait for writability; only then the loop wakes it. Set by waiters,
-- cleared by the loop.
pattern RegistrationWriting :: Int
pattern RegistrationWriting = 9

-- | Until when a connection without work is kept; its thread's, and its handler's to read.
pattern RegistrationIdle :: Int
pattern RegistrationIdle = 10

-- | The lock of reading; see "Heddle.IO.Internal.TicketLock". Any thread's.
pattern RegistrationReadLock :: Int
pattern RegistrationReadLock = 11

-- | The lock of writing; see "Heddle.IO.Internal.TicketLock". Any thread's.
pattern RegistrationWriteLock :: Int
pattern RegistrationWriteLock = 12

-- | When a connection was accepted (monotonic nanoseconds).
pattern RegistrationAccepted :: Int
pattern RegistrationAccepted = 13

-- | The length of 'registrationWords'.
registrationWordCount :: Int
registrationWordCount = 14

-- | No system call may begin.
pattern Closing :: Int
pattern Closing = 1

-- | The descriptor is gone.
pattern Released :: Int
pattern Released = 2

-- | One system call in flight.
pattern OneRef :: Int
pattern OneRef = 4

-- | What the back end returns with an event: stamp and index.
registrationTag :: Int -> Int -> Word64
registrationTag stamp index = (fromIntegral stamp `shiftL` 32) .|. fromIntegral index

-- | A timer-only registration that is lent to one wait or one time-out after the other.
data PooledTimer = PooledTimer
  { pooledRegistration :: !Registration,
    -- | Moves are listed at 'PooledState'.
    pooledState :: !(Ref PooledState)
  }

-- | Idle -> Armed (the borrower); Armed -> Idle (the borrower) or Firing (the thread that
-- the loop started at the deadline), whichever is first; Firing -> Idle (the borrower).
data PooledState
  = -- | In the pool, or lent for a wait that its own thread ends. The number of uses.
    TimerIdle !Int
  | -- | Interrupts this thread at the registration's deadline. The number of this use.
    TimerArmed !Int !ThreadId
  | -- | The second thread is throwing to the first.
    TimerFiring !Int !ThreadId

-- | The number of free timers, and the timers.
data FreeTimers = FreeTimers !Int ![PooledTimer]

-- | How a loop learns of readiness. Contract: after an attempt that found a direction
-- not ready, or came back short, the next readiness of that direction is reported once;
-- if 'backendOneshot', only after an 'Enable' command that follows the attempt. Events are
-- left at the pointer as epoll lays them out, at most 'eventCapacity' of them; spurious
-- ones are legal. All but 'backendAdd' and 'backendRemove' are called by the loop alone.
data Backend = Backend
  { -- | For messages.
    backendName :: !String,
    -- | Begin to report a descriptor under a tag; 0 or minus the error number.
    backendAdd :: !(Fd -> Word64 -> IO Int),
    -- | Stop reporting a descriptor that stays open.
    backendRemove :: !(Fd -> IO Int),
    -- | Whether waits must be announced by 'Enable'.
    backendOneshot :: !Bool,
    -- | Report this registration's next readiness.
    backendEnable :: !(Registration -> Interest -> IO ()),
    -- | Forget a closed registration.
    backendForget :: !(Registration -> IO ()),
    -- | Events there are now; never sleeps.
    backendPoll :: !(Ptr Word8 -> IO Int),
    -- | Wait at most this many milliseconds (-1: without limit); a safe call.
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
