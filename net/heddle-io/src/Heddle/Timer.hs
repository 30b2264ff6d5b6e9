-- |
-- Module      : Heddle.Timer
-- Description : Deadlines that wake and interrupt threads
-- Stability   : stable
--
-- Sleeping, time-outs, and timers as values, kept by the event manager of the caller's
-- capability in the system runtime ('Heddle.IO.systemRuntime').
--
-- Invariant: a timer fires or is closed, never both; a time-out's exception never arrives
-- after the call has returned.
-- Cost: arming and disarming take no lock and, unless the deadline is the earliest one of
-- its registration so far, send the event manager no command.
-- Owner: the wheel of the capability where the timer was made.
module Heddle.Timer
  ( -- * Sleeping
    sleepFor,
    sleepUntil,

    -- * Time-outs
    timeout,
    timeoutUntil,

    -- * Timers, bracketed
    Timer,
    withTimerUntil,
    await,
    rearmUntil,
    TimerClosed (..),

    -- * For waits of other kinds

    -- | What locks and channels are made of; see also "Heddle.IO.WaitQueue".
    withCellUntil,
    isOver,

    -- * Low level

    -- | A timer that is never closed is kept for ever.
    newTimerUntil,
    newTimerOnUntil,
    closeTimer,

    -- * Time
    Deadline,
    Nanos,
    deadlineIn,
    monotonicNow,
    never,
    nanos,
    microseconds,
    milliseconds,
    seconds,
    minusNanos,
    timesNanos,
  )
where

import Control.Monad (when)
import Heddle.IO.Internal.Exception (HeddleIOException (..), fromHeddleIO)
import Heddle.IO.Internal.Manager (submit)
import Heddle.IO.Internal.PooledTimer
import Heddle.IO.Internal.Registration (armWordsUntil, isClosing)
import Heddle.IO.Internal.Runtime (Runtime, managerHere, systemRuntime)
import Heddle.IO.Internal.Types
import Heddle.Prim.Atomic
import Heddle.Prim.Clock
import Heddle.Prim.Exception
import Heddle.Prim.WaitCell (WaitCell, newWaitCell, park, unpark)

-- | Park the calling thread for this time; not at all for zero or less, like @threadDelay@,
-- and for ever for 292 years or more.
--
-- [Cost]: about 200 ns; no system call of its own.
-- [Blocks]: parks.
-- [Masking]: interruptible.
-- [Units]: wakes up to 2 ms late.
-- [Threads]: any.
-- @since 0.1.0.0
sleepFor :: Nanos -> IO ()
sleepFor n
  | n <= mempty = pure ()
  | otherwise = deadlineIn n >>= sleepUntil

-- | Park the calling thread until the deadline passes; not at all if it has, and for ever
-- if it is 'never'.
--
-- [Cost]: about 200 ns; no system call of its own.
-- [Blocks]: parks.
-- [Masking]: interruptible.
-- [Units]: wakes up to 2 ms late.
-- [Threads]: any.
-- @since 0.1.0.0
sleepUntil :: Deadline -> IO ()
sleepUntil deadline = do
  m <- systemRuntime >>= managerHere
  sleepOn m deadline

-- | Run a body for at most this time: 'Nothing' when the time was over first, and an
-- asynchronous exception has interrupted the body. With a time of zero the body does not run; a
-- negative time is no limit, as in "System.Timeout", whose argument is a number of microseconds:
-- @timeout (microseconds n)@ is its @timeout n@.
--
-- [Cost]: about 150 ns besides the body's.
-- [Blocks]: as the body does.
-- [Masking]: the body runs in the caller's state, and where that defers asynchronous
-- exceptions, the time-out is deferred.
-- [Units]: up to 2 ms late.
-- [Threads]: nests to any depth: each time-out interrupts its own body.
-- [Source]: "System.Timeout"; Parallel and Concurrent Programming, chapter 9.
-- @since 0.1.0.0
timeout :: Nanos -> IO a -> IO (Maybe a)
timeout n body
  | n < mempty = Just <$> body
  | n == mempty = pure Nothing
  | otherwise = do
    deadline <- deadlineIn n
    m <- systemRuntime >>= managerHere
    timeoutOn m deadline body

-- | 'timeout' with a deadline. One that has passed does not run the body.
--
-- [Cost]: as 'timeout'.
-- [Blocks]: as the body does.
-- [Masking]: as 'timeout'.
-- [Units]: up to 2 ms late.
-- [Threads]: as 'timeout'.
-- @since 0.1.0.0
timeoutUntil :: Deadline -> IO a -> IO (Maybe a)
timeoutUntil deadline body = do
  over <- isOver deadline
  if over
    then pure Nothing
    else do
      m <- systemRuntime >>= managerHere
      timeoutOn m deadline body

-- | Run with a wait cell that gets a token at the deadline, and perhaps before. The caller is
-- masked. It puts the cell where other threads find it, and parks on it until its own condition
-- holds or the deadline 'isOver'. A token means neither, so check both.
--
-- [Cost]: about 50 ns; a cell of 32 bytes when the deadline is 'never'.
-- [Blocks]: as the body does.
-- [Masking]: the caller's state, which must be masked.
-- [Threads]: one parks on the cell; any may unpark it while the body runs. A token that
-- comes later reaches another wait, which checks its condition again.
-- @since 0.1.0.0
withCellUntil :: Deadline -> (WaitCell -> IO a) -> IO a
withCellUntil deadline use
  | deadline == never = newWaitCell >>= use
  | otherwise = systemRuntime >>= managerHere >>= \m -> withCellOn m deadline use
{-# INLINE withCellUntil #-}

-- | A deadline that wakes at most one thread.
data Timer = Timer
  { -- | Word 0, see Note [Fire or close].
    timerState :: !Words,
    -- | Its registration's words: moving a deadline needs nothing else.
    timerWords :: !Words,
    timerPooled :: !PooledTimer
  }

-- | The timer was closed before its deadline.
data TimerClosed = TimerClosed
  deriving stock (Eq, Show)

instance Exception TimerClosed where
  toException = toException . HeddleIOException
  fromException = fromHeddleIO
  displayException TimerClosed = "waiting for a timer: another thread closed it before its deadline"

armed, awaited, fired, closed :: Int
armed = 0
awaited = 1
fired = 2
closed = 3

-- | Make a timer, run, close it.
--
-- [Cost]: as 'newTimerUntil' and 'closeTimer'.
-- [Blocks]: as the body does.
-- [Masking]: the body runs in the caller's state.
-- @since 0.1.0.0
withTimerUntil :: Deadline -> (Timer -> IO a) -> IO a
withTimerUntil deadline = bracket (newTimerUntil deadline) closeTimer

-- | A timer that fires at the deadline.
--
-- [Cost]: O(1), about 60 ns; without a system call unless the manager sleeps past the
-- deadline.
-- [Blocks]: never.
-- [Threads]: any.
-- @since 0.1.0.0
newTimerUntil :: Deadline -> IO Timer
newTimerUntil deadline = systemRuntime >>= \runtime -> newTimerOnUntil runtime deadline

-- | 'newTimerUntil' in a runtime of the caller's choice, within whose life it fires.
--
-- [Cost]: as 'newTimerUntil'.
-- [Blocks]: never.
-- [Throws]: 'IOError' (EBADF) when the runtime has stopped.
-- [Threads]: any.
-- @since 0.1.0.0
newTimerOnUntil :: Runtime -> Deadline -> IO Timer
newTimerOnUntil runtime deadline = mask_ $ do
  pooled <- managerHere runtime >>= borrowTimer
  state <- newWords 1
  armTimer pooled deadline
  pure (Timer state (registrationWords (pooledRegistration pooled)) pooled)

-- | Park until the timer fires; at once if it has.
--
-- [Cost]: O(1).
-- [Blocks]: parks.
-- [Masking]: interruptible.
-- [Throws]: 'TimerClosed' if the timer is closed first, or its runtime stopped.
-- [Units]: wakes up to 2 ms late.
-- [Threads]: any number, on any capability.
-- [Source]: Mio, section 4.2.
-- @since 0.1.0.0
await :: Timer -> IO ()
await timer = go False
  where
    registration = pooledRegistration (timerPooled timer)
    go parked = do
      state <- atomicRead (timerState timer) 0
      -- A thread that has parked passes the wake-up on. The pooled timer is discarded, not lent again.
      when (parked && state >= fired) $ unpark (registrationRead registration)
      case () of
        _
          | state == fired -> pure ()
          | state == closed -> throwIO TimerClosed
          | state == armed -> compareAndSet (timerState timer) 0 armed awaited >> go parked
          | otherwise -> do
            deadline <- Deadline <$> atomicRead (registrationWords registration) RegistrationReadDeadline
            over <- isOver deadline
            stopped <- isClosing registration
            now <- case () of
              _
                | over -> fmap (const parked) . mask_ $ do
                  won <- compareAndSet (timerState timer) 0 awaited fired
                  if won then discardTimer (timerPooled timer) else pure ()
                -- The runtime has ended under it.
                | stopped -> parked <$ compareAndSet (timerState timer) 0 awaited closed
                | otherwise -> do
                  ensureArmed registration deadline
                  True <$ park (registrationRead registration)
            go now

-- The loop may have read the old deadline while the store of the new one was not yet visible.
-- Then it woke the waiter without arming the timer, and no other thread will send Arm.
ensureArmed :: Registration -> Deadline -> IO ()
ensureArmed registration (Deadline d) = do
  at <- atomicRead (registrationWords registration) RegistrationArmed
  if d < at then submit (registrationManager registration) (Arm registration) else pure ()

-- | Move the deadline of a timer that has neither fired nor been closed: 'False' if it has.
--
-- [Cost]: a later deadline is one store, about 10 ns.
-- [Blocks]: never.
-- [Threads]: one at a time, and not while another closes the timer.
-- @since 0.1.0.0
rearmUntil :: Timer -> Deadline -> IO Bool
rearmUntil timer deadline = do
  state <- readWord (timerState timer) 0
  if state >= fired
    then pure False
    else True <$ armWordsUntil (timerWords timer) (pooledRegistration (timerPooled timer)) Readable deadline
{-# INLINE rearmUntil #-}

-- | Close a timer; 'True' for the caller that did, 'False' if it had fired or was closed.
--
-- [Cost]: O(1), about 30 ns; without a system call.
-- [Blocks]: never.
-- [Threads]: any.
-- @since 0.1.0.0
closeTimer :: Timer -> IO Bool
closeTimer timer = mask_ go
  where
    go = do
      state <- atomicRead (timerState timer) 0
      case () of
        _
          | state >= fired -> pure False
          | otherwise -> do
            won <- compareAndSet (timerState timer) 0 state closed
            if not won
              then go
              else
                True
                  <$ if state == armed
                    then returnTimer (timerPooled timer)
                    else discardTimer (timerPooled timer)

-- Note [Fire or close]
-- ~~~~~~~~~~~~~~~~~~~~
-- States: armed -> awaited (the waiter, before it first reads the registration); armed or
-- awaited -> closed (any thread); awaited -> fired (the waiter, when the deadline is over).
-- All moves are compare-and-sets, so a timer is never both. The thread that makes the last move
-- gives the pooled timer up. If no thread ever waited, none can be parked on it, and it goes back
-- to the pool. Otherwise it is closed, which wakes the waiter and makes sure that no later use
-- can be confused with this one.
