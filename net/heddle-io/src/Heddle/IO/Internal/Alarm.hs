-- |
-- Module      : Heddle.IO.Internal.Alarm
-- Description : Deadlines lent from a pool
-- Stability   : internal, exempt from the version policy
--
-- An 'Alarm' is a timer-only slot that one wait or time-out after the other borrows. It
-- stays linked in the wheel between uses, so a use whose deadline is later than the armed
-- one, the common case, tells the loop nothing: borrowing, arming and giving back is a
-- handful of atomic operations.
--
-- Tokens and wakes of an earlier use may reach a later one. Every wait here looks at its
-- own condition again after each wake, so they are harmless; see Note [Ringing] for
-- time-outs, which must not be.
--
-- Cost: about 50 ns a use; the first ones make a slot, about 400 bytes.
-- Owner: the borrower, between 'borrowAlarm' and 'returnAlarm'.
module Heddle.IO.Internal.Alarm
  ( -- * Borrowing
    borrowAlarm,
    returnAlarm,
    discardAlarm,
    armAlarm,

    -- * Waiting
    withCellUntil,
    isOver,
    sleepOn,

    -- * Time-outs
    timeoutOn,
  )
where

import Control.Monad (void, when)
import Data.Foldable (for_)
import Heddle.IO.Internal.Manager (Start (..), newSlot, revive, submit)
import Heddle.IO.Internal.Slot (closeSlot, isClosing)
import Heddle.IO.Internal.Types
import Heddle.Prim.Atomic
import Heddle.Prim.Clock (Deadline (..), monotonicNow, never)
import Heddle.Prim.Exception
import Heddle.Prim.Thread (myThreadId)
import Heddle.Prim.WaitCell (WaitCell, newWaitCell, park, reset)

-- So many free alarms a manager keeps; more are closed.
freeLimit :: Int
freeLimit = 4096

-- | An alarm of this manager, whose deadline means nothing yet. The caller is masked.
--
-- [Cost]: one compare-and-set, or the making of a slot.
-- [Blocks]: never.
-- [Throws]: 'IOError' (EBADF) when the runtime has stopped.
borrowAlarm :: Manager -> IO Alarm
borrowAlarm m = do
  revive m
  lentOut <- modifyRef (managerAlarms m) $ \case
    FreeAlarms n (alarm : rest) -> (FreeAlarms (n - 1) rest, Just alarm)
    none -> (none, Nothing)
  case lentOut of
    Just alarm -> do
      closing <- isClosing (alarmSlot alarm)
      if closing then borrowAlarm m else pure alarm
    Nothing -> do
      state <- newRef (AlarmIdle 0)
      slot <- newSlot m TimerOnly (-1) mempty Attached (ring state)
      pure (Alarm slot state)

-- | Give an alarm back. Its last deadline stays, so that it stays linked in the wheel; it
-- passes without effect.
--
-- [Cost]: one compare-and-set.
-- [Blocks]: never.
returnAlarm :: Alarm -> IO ()
returnAlarm alarm = do
  let slot = alarmSlot alarm
  writeWord (slotWords slot) SlotDetached 0
  kept <- modifyRef (managerAlarms (slotManager slot)) $ \case
    FreeAlarms n rest
      | n < freeLimit -> (FreeAlarms (n + 1) (alarm : rest), True)
      | otherwise -> (FreeAlarms n rest, False)
  if kept then pure () else discardAlarm alarm

-- | Close an alarm instead of giving it back: a thread may still be parked on it.
--
-- [Blocks]: never.
discardAlarm :: Alarm -> IO ()
discardAlarm alarm = void (closeSlot (alarmSlot alarm))

-- | Set a borrowed alarm's deadline: its slot's cell gets a token then, and perhaps before.
--
-- [Cost]: about 20 ns; an earlier deadline than the armed one sends a command to the loop.
-- [Blocks]: never.
armAlarm :: Alarm -> Deadline -> IO ()
armAlarm alarm deadline = do
  let slot = alarmSlot alarm
  _ <- reset (slotRead slot)
  writeWord (slotWords slot) SlotReadDeadline (deadlineNanos deadline)
  tellLoop slot deadline 0

-- After the deadline was stored; see Note [Arming once].
tellLoop :: Slot -> Deadline -> Int -> IO ()
tellLoop slot (Deadline d) detached = do
  atomicWrite (slotWords slot) SlotDetached detached
  armed <- readWord (slotWords slot) SlotArmed
  when (d < armed) (submit (slotManager slot) (Arm slot))

-- | Has the deadline passed?
--
-- [Cost]: one reading of the clock.
isOver :: Deadline -> IO Bool
isOver deadline
  | deadline == never = pure False
  | otherwise = (>= deadline) <$> monotonicNow

-- | Run with a cell that gets a token, among other occasions, at the deadline. The caller
-- is masked and looks at its condition again after each wake.
--
-- [Cost]: about 50 ns; a cell of 32 bytes when the deadline is 'never'.
-- [Blocks]: never by itself.
withCellUntil :: Manager -> Deadline -> (WaitCell -> IO a) -> IO a
withCellUntil m deadline use
  | deadline == never = newWaitCell >>= use
  | otherwise = withAlarmUntil m deadline (use . slotRead . alarmSlot)
{-# INLINE withCellUntil #-}

withAlarmUntil :: Manager -> Deadline -> (Alarm -> IO a) -> IO a
withAlarmUntil m deadline use = do
  alarm <- borrowAlarm m
  armAlarm alarm deadline
  r <- use alarm `onException` returnAlarm alarm
  r <$ returnAlarm alarm
{-# INLINE withAlarmUntil #-}

-- | Park the calling thread until the deadline. Even with 'never' it parks on an alarm,
-- which the manager's table keeps reachable: the collector takes a thread parked on a cell
-- of its own for deadlocked.
--
-- [Blocks]: parks.
-- [Masking]: interruptible.
sleepOn :: Manager -> Deadline -> IO ()
sleepOn m deadline = mask_ $ withAlarmUntil m deadline (go . slotRead . alarmSlot)
  where
    go cell = do
      over <- isOver deadline
      if over then pure () else park cell >> go cell

-- Interrupts a body; its slot's cell and the number of the use say which.
data Expired = Expired !WaitCell !Int

instance Show Expired where
  show _ = "time-out of Heddle"

instance Exception Expired where
  toException = asyncExceptionToException
  fromException = asyncExceptionFromException

-- | Run until the deadline: 'Nothing' when it passed first, and the body was interrupted
-- by an asynchronous exception that no other handler should keep.
--
-- [Cost]: about 100 ns besides the body's.
-- [Blocks]: as the body does.
-- [Masking]: the body runs in the caller's state.
-- [Threads]: nests to any depth.
timeoutOn :: Manager -> Deadline -> IO a -> IO (Maybe a)
timeoutOn m deadline body
  | deadline == never = Just <$> body
  | otherwise = mask $ \restore -> do
    me <- myThreadId
    alarm <- borrowAlarm m
    let slot = alarmSlot alarm
    use <- (+ 1) . useOf <$> readRef (alarmState alarm)
    -- In this order; see Note [Ringing].
    writeWord (slotWords slot) SlotReadDeadline (deadlineNanos deadline)
    writeRef (alarmState alarm) (AlarmArmed use me)
    tellLoop slot deadline 1
    r <- try (restore body)
    endUse alarm
    returnAlarm alarm
    case r of
      Right x -> pure (Just x)
      Left e
        | Just (Expired cell n) <- fromException e, n == use, cell == slotRead slot -> pure Nothing
        | otherwise -> throwIO (e :: SomeException)

useOf :: AlarmState -> Int
useOf = \case
  AlarmIdle n -> n
  AlarmArmed n _ -> n
  AlarmRinging n _ -> n

-- After this the use's exception cannot arrive any more.
endUse :: Alarm -> IO ()
endUse alarm = do
  ringing <- modifyRef (alarmState alarm) $ \case
    AlarmIdle n -> (AlarmIdle n, Nothing)
    AlarmArmed n _ -> (AlarmIdle n, Nothing)
    AlarmRinging n ringer -> (AlarmIdle n, Just ringer)
  -- Finite: the ringer is gone, or in an interruptible throwTo.
  for_ ringing $ \ringer -> uninterruptibleMask_ (throwTo ringer ThreadKilled)

-- Continues an alarm's slot in a thread of its own, when its deadline has passed or, by a
-- stale look of the loop, a little early.
ring :: Ref AlarmState -> Slot -> IO ()
ring state slot = mask_ $ do
  -- The state first, the deadline second; see Note [Ringing].
  seen <- readRef state
  case seen of
    AlarmArmed use target -> do
      deadline <- Deadline <$> atomicRead (slotWords slot) SlotReadDeadline
      over <- isOver deadline
      closing <- isClosing slot
      if over
        then do
          me <- myThreadId
          won <- modifyRef state $ \case
            AlarmArmed n t | n == use -> (AlarmRinging n me, t == target)
            other -> (other, False)
          if won
            then throwTo target (Expired (slotRead slot) use) `catch` \(_ :: AsyncException) -> pure ()
            else pure ()
        else
          if closing
            then pure ()
            else do
              atomicWrite (slotWords slot) SlotDetached 1
              submit (slotManager slot) (Arm slot)
    _ -> pure ()

-- Note [Ringing]
-- ~~~~~~~~~~~~~~
-- A time-out's exception must never arrive after 'timeoutOn' has returned. Borrower and
-- ringer both leave Armed by compare-and-set. If the borrower wins, the ringer throws
-- nothing. If the ringer wins, its name is in the state, and the borrower, masked, kills
-- it before going on: throwTo returns when the ringer has been interrupted, in its own
-- throwTo (whose exception is then withdrawn), or has ended because it was received.
--
-- The ringer may be slow, and the alarm lent again meanwhile. So the borrower stores its
-- deadline before the state, and the ringer reads the state before the deadline: one that
-- it finds over belongs to the use that it saw, or to a later one, and then the comparison
-- of the use's number fails. In the other order it could find the last use's deadline over,
-- and interrupt the next use at its very beginning. When it finds the deadline not over, it
-- detaches the slot again and asks for a look at the deadline, which it must not write.

-- Note [Arming once]
-- ~~~~~~~~~~~~~~~~~~
-- Who waits on a descriptor arms again after each wake; the borrower of an alarm arms once.
-- So even a deadline later than the one it replaces must be stored before SlotArmed is read
-- ("Heddle.IO.Internal.Manager", Note [Lazy re-arm]): else the loop may act on the old
-- deadline and disarm the slot, while the borrower still reads the old arming and sends no
-- command, and then the new deadline never comes. The atomic write of SlotDetached puts the
-- two in order. It is also the last store of the three: the loop that takes the slot after
-- it continues a ringer that sees this use.
