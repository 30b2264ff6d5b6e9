{-# OPTIONS_HADDOCK not-home #-}

-- |
-- Module      : Heddle.IO.Internal.PooledTimer
-- Description : Deadlines lent from a pool
-- Stability   : internal, exempt from the version policy
--
-- A 'PooledTimer' is a registration without a descriptor, which waits and time-outs borrow one
-- after the other. It stays linked in the wheel between uses. A use whose deadline is later than
-- the armed one, which is the common case, sends the loop no command: borrowing, arming and
-- returning take a few atomic operations.
--
-- Tokens and wake-ups of an earlier use may reach a later one. They are harmless, because every
-- wait here checks its own condition after each wake-up. A time-out's exception must not reach a
-- later use; see Note [Firing].
--
-- Cost: about 50 ns a use; the first ones make a registration, about 400 bytes.
-- Owner: the borrower, between 'borrowTimer' and 'returnTimer'.
module Heddle.IO.Internal.PooledTimer
  ( -- * Borrowing
    borrowTimer,
    returnTimer,
    discardTimer,
    armTimer,

    -- * Waiting
    withCellOn,
    isOver,
    sleepOn,

    -- * Time-outs
    timeoutOn,
  )
where

import Control.Monad (void, when)
import Data.Foldable (for_)
import Heddle.IO.Internal.Manager (Start (..), newRegistration, revive, submit)
import Heddle.IO.Internal.Registration (closeRegistration, isClosing)
import Heddle.IO.Internal.Types
import Heddle.Prim.Atomic
import Heddle.Prim.Clock (Deadline (..), monotonicNow, never)
import Heddle.Prim.Exception
import Heddle.Prim.Thread (myThreadId)
import Heddle.Prim.WaitCell (WaitCell, newWaitCell, park, reset)

-- How many free timers a manager keeps; more are closed.
freeLimit :: Int
freeLimit = 4096

-- | A pooled timer of this manager, whose deadline is not set yet. The caller is masked.
--
-- [Cost]: one compare-and-set, or a new registration.
-- [Blocks]: never.
-- [Throws]: 'IOError' (EBADF) when the runtime has stopped.
borrowTimer :: Manager -> IO PooledTimer
borrowTimer m = do
  revive m
  lentOut <- modifyRef (managerTimers m) $ \case
    FreeTimers n (pooled : rest) -> (FreeTimers (n - 1) rest, Just pooled)
    none -> (none, Nothing)
  case lentOut of
    Just pooled -> do
      closing <- isClosing (pooledRegistration pooled)
      if closing then borrowTimer m else pure pooled
    Nothing -> do
      state <- newRef (TimerIdle 0)
      registration <- newRegistration m TimerOnly (-1) mempty Attached (fire state)
      pure (PooledTimer registration state)

-- | Give a pooled timer back. Its last deadline stays, so that it stays linked in the wheel; it
-- passes without effect.
--
-- [Cost]: one compare-and-set.
-- [Blocks]: never.
returnTimer :: PooledTimer -> IO ()
returnTimer pooled = do
  let registration = pooledRegistration pooled
  writeWord (registrationWords registration) RegistrationDetached 0
  kept <- modifyRef (managerTimers (registrationManager registration)) $ \case
    FreeTimers n rest
      | n < freeLimit -> (FreeTimers (n + 1) (pooled : rest), True)
      | otherwise -> (FreeTimers n rest, False)
  if kept then pure () else discardTimer pooled

-- | Close a pooled timer instead of giving it back: a thread may still be parked on it.
--
-- [Blocks]: never.
discardTimer :: PooledTimer -> IO ()
discardTimer pooled = void (closeRegistration (pooledRegistration pooled))

-- | Set a borrowed timer's deadline: its registration's cell gets a token then, and perhaps before.
--
-- [Cost]: about 20 ns; an earlier deadline than the armed one sends a command to the loop.
-- [Blocks]: never.
armTimer :: PooledTimer -> Deadline -> IO ()
armTimer pooled deadline = do
  let registration = pooledRegistration pooled
  _ <- reset (registrationRead registration)
  writeWord (registrationWords registration) RegistrationReadDeadline (deadlineNanos deadline)
  tellLoop registration deadline 0

-- After the deadline was stored; see Note [Arming once].
tellLoop :: Registration -> Deadline -> Int -> IO ()
tellLoop registration (Deadline d) detached = do
  atomicWrite (registrationWords registration) RegistrationDetached detached
  armed <- readWord (registrationWords registration) RegistrationArmed
  when (d < armed) (submit (registrationManager registration) (Arm registration))

-- | Whether the deadline has passed.
--
-- [Cost]: one reading of the clock, 25 ns.
-- [Blocks]: never.
-- @since 0.1.0.0
isOver :: Deadline -> IO Bool
isOver deadline
  | deadline == never = pure False
  | otherwise = (>= deadline) <$> monotonicNow

-- | Run with a cell that gets a token, among other occasions, at the deadline. The caller
-- is masked and checks its condition after each wake-up.
--
-- [Cost]: about 50 ns; a cell of 32 bytes when the deadline is 'never'.
-- [Blocks]: never by itself.
withCellOn :: Manager -> Deadline -> (WaitCell -> IO a) -> IO a
withCellOn m deadline use
  | deadline == never = newWaitCell >>= use
  | otherwise = withTimerOn m deadline (use . registrationRead . pooledRegistration)
{-# INLINE withCellOn #-}

withTimerOn :: Manager -> Deadline -> (PooledTimer -> IO a) -> IO a
withTimerOn m deadline use = do
  pooled <- borrowTimer m
  armTimer pooled deadline
  r <- use pooled `onException` returnTimer pooled
  r <$ returnTimer pooled
{-# INLINE withTimerOn #-}

-- | Park the calling thread until the deadline. Even with 'never' it parks on a pooled timer,
-- which the manager's table keeps reachable: the collector takes a thread parked on a cell
-- of its own for deadlocked.
--
-- [Blocks]: parks.
-- [Masking]: interruptible.
sleepOn :: Manager -> Deadline -> IO ()
sleepOn m deadline = mask_ $ withTimerOn m deadline (go . registrationRead . pooledRegistration)
  where
    go cell = do
      over <- isOver deadline
      if over then pure () else park cell >> go cell

-- Interrupts a body; its registration's cell and the number of the use say which.
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
    pooled <- borrowTimer m
    let registration = pooledRegistration pooled
    use <- (+ 1) . useOf <$> readRef (pooledState pooled)
    -- In this order; see Note [Firing].
    writeWord (registrationWords registration) RegistrationReadDeadline (deadlineNanos deadline)
    writeRef (pooledState pooled) (TimerArmed use me)
    tellLoop registration deadline 1
    r <- try (restore body)
    endUse pooled
    returnTimer pooled
    case r of
      Right x -> pure (Just x)
      Left e
        | Just (Expired cell n) <- fromException e, n == use, cell == registrationRead registration -> pure Nothing
        | otherwise -> throwIO (e :: SomeException)

useOf :: PooledState -> Int
useOf = \case
  TimerIdle n -> n
  TimerArmed n _ -> n
  TimerFiring n _ -> n

-- After this the use's exception cannot arrive any more.
endUse :: PooledTimer -> IO ()
endUse pooled = do
  firing <- modifyRef (pooledState pooled) $ \case
    TimerIdle n -> (TimerIdle n, Nothing)
    TimerArmed n _ -> (TimerIdle n, Nothing)
    TimerFiring n firer -> (TimerIdle n, Just firer)
  -- Finite: the firer is gone, or in an interruptible throwTo.
  for_ firing $ \firer -> uninterruptibleMask_ (throwTo firer ThreadKilled)

-- Continues a pooled timer's registration in a thread of its own, when its deadline has passed or, by a
-- stale check by the loop, a little early.
fire :: Ref PooledState -> Registration -> IO ()
fire state registration = mask_ $ do
  -- The state first, the deadline second; see Note [Firing].
  seen <- readRef state
  acquireFence
  case seen of
    TimerArmed use target -> do
      deadline <- Deadline <$> atomicRead (registrationWords registration) RegistrationReadDeadline
      over <- isOver deadline
      closing <- isClosing registration
      if over
        then do
          me <- myThreadId
          won <- modifyRef state $ \case
            TimerArmed n t | n == use -> (TimerFiring n me, t == target)
            other -> (other, False)
          if won
            then throwTo target (Expired (registrationRead registration) use) `catch` \(_ :: AsyncException) -> pure ()
            else pure ()
        else
          if closing
            then pure ()
            else do
              atomicWrite (registrationWords registration) RegistrationDetached 1
              submit (registrationManager registration) (Arm registration)
    _ -> pure ()

-- Note [Firing]
-- ~~~~~~~~~~~~~~
-- A time-out's exception must never arrive after 'timeoutOn' has returned. Borrower and
-- firer both leave Armed by compare-and-set. If the borrower wins, the firer throws
-- nothing. If the firer wins, its name is in the state, and the borrower, masked, kills
-- it before going on: throwTo returns when the firer has been interrupted, in its own
-- throwTo (whose exception is then withdrawn), or has ended because it was received.
--
-- The firer may be slow, and the pooled timer borrowed again meanwhile. So the borrower stores
-- its deadline before the state, and the firer reads the state before the deadline. A deadline
-- that the firer finds passed belongs to the use that it saw, or to a later one, and then the
-- comparison of the use's number fails. In the other order the firer could find the last use's
-- deadline passed, and interrupt the next use at its beginning. If the deadline has not passed,
-- the firer detaches the registration again and sends Arm, because it must not write the deadline.

-- Note [Arming once]
-- ~~~~~~~~~~~~~~~~~~
-- A thread that waits on a descriptor arms again after each wake-up; the borrower of a pooled
-- timer arms once.
-- So even a deadline later than the one it replaces must be stored before RegistrationArmed is read
-- ("Heddle.IO.Internal.Manager", Note [Lazy re-arm]). Otherwise the loop may act on the old
-- deadline and disarm the registration while the borrower still reads the old RegistrationArmed
-- and sends no command, and then the new deadline would never fire. The atomic write of
-- RegistrationDetached orders the two. It is also the last of the three stores, so the loop that
-- takes the registration after it continues a firer that sees this use.
