{-# LANGUAGE ExistentialQuantification #-}

-- |
-- Module      : Heddle.MPI.Internal.Operation
-- Description : Operations that were started, and what runs when they are complete
-- Stability   : internal, exempt from the version policy
--
-- An operation that is not complete at once is registered with C under a stable pointer to its
-- continuation. The pointer keeps the operation's memory alive even if the request is dropped or
-- its waiters are interrupted. The waiter or the engine, whichever finds the operation complete
-- first, runs the continuation. "Heddle.MPI.Internal.Request" waits.
--
-- Invariant: from the start of an operation to its registration exceptions are masked.
-- See Note [Memory lent].
-- Cost: an operation that is complete at once allocates only its outcome, 48 bytes.
-- Owner: a request may be used by any thread.
module Heddle.MPI.Internal.Operation
  ( -- * Starting
    Start (..),
    Weight (..),
    weigh,
    Next (..),
    heldBudget,
    withOutcome,
    launch,

    -- * Under way
    Request (..),
    Under (..),
    State (..),
    newUnder,
    requestOf,
    finishedWith,

    -- * Continuing
    enter,
    follow,
    withdraw,
    runOutcome,
    keepForEver,
    throwCancelled,
  )
where

import Control.Concurrent.STM hiding (check)
import Control.Monad (void, when)
import Data.Foldable (for_)
import Data.Int (Int64)
import Foreign.C.Types (CInt)
import Foreign.Marshal.Alloc (allocaBytesAligned)
import Foreign.Ptr (Ptr)
import Foreign.StablePtr (deRefStablePtr, freeStablePtr, newStablePtr)
import Heddle.MPI.Internal.Error
import Heddle.MPI.Internal.Foreign
import Heddle.Prim.Atomic (Ref, modifyRef, newRef, readRef)
import Heddle.Prim.Exception

-- | The start of an operation, given its testing budget in nanoseconds: by a safe call, which
-- gives up the capability, and by an unsafe call, which holds it.
data Start = Start
  { startCall :: !String,
    startFree :: Int64 -> CInt -> Ptr Outcome -> IO Slot,
    startHeld :: Int64 -> CInt -> Ptr Outcome -> IO Slot,
    startWeight :: !Weight,
    -- | 'True' if the continuation also runs after failure and cancellation. Otherwise a failure
    -- throws, and the continuation does not run.
    startTells :: !Bool
  }

-- | The amount of data that the call which starts an operation may copy: much, if it is 'Bulky'.
data Weight = Light | Bulky
  deriving stock (Eq)

-- | The weight of an operation on this many bytes.
weigh :: Int -> Weight
weigh n = if n > bulkBytes then Bulky else Light
{-# INLINE weigh #-}

-- | The continuation's answer when an operation is complete.
data Next a
  = Finished a
  | -- | Start another operation, with its continuation.
    Then !Start (Outcome -> IO (Next a))
  | -- | Another operation was started and is not complete; with its continuation.
    Awaiting !Slot !Start (Outcome -> IO (Next a))
  | -- | The operation was cancelled.
    Gone

-- | The time that a call that holds the capability tests, in nanoseconds.
heldBudget :: Int64
heldBudget = 5000

-- How long a call that gives up the capability tests after starting an operation.
freeBudget :: Int64
freeBudget = 200000

-- | Room for an outcome.
withOutcome :: (Ptr Outcome -> IO a) -> IO a
withOutcome = allocaBytesAligned outcomeBytes 8
{-# INLINE withOutcome #-}

-- | Start it, testing for a while if patient: its slot, or 0 and the outcome.
launch :: Start -> Bool -> Ptr Outcome -> IO Slot
launch start patient p = case startWeight start of
  Light -> startHeld start (if patient then heldBudget else 0) 1 p
  Bulky -> startFree start (if patient then freeBudget else 0) 0 p
{-# INLINE launch #-}

-- | A started operation. Its memory is kept until it is complete, even if the request is dropped.
-- Any thread may ask for the result, any number of times.
data Request a = forall x. Request !(Under x) (x -> a)

instance Functor Request where
  fmap f (Request under g) = Request under (f . g)

-- | A sequence of phases under way.
data Under a = Under
  { underState :: !(TVar (State a)),
    -- | The slot of the current phase.
    underSlot :: !(Ref Slot),
    -- | 'True' if a thread is parked for it: then the slots of later phases are watched as well.
    underWatched :: !(Ref Bool),
    -- | 'True' if it was cancelled: then it is not started again.
    underWithdrawn :: !(Ref Bool)
  }

-- | The progress of a sequence of phases. All of these but the first are final.
data State a
  = Underway
  | Over a
  | Cancelled'
  | Broken !SomeException

-- | A sequence of phases without a slot yet.
newUnder :: IO (Under a)
newUnder = underIn Underway

underIn :: State a -> IO (Under a)
underIn state = Under <$> newTVarIO state <*> newRef 0 <*> newRef False <*> newRef False

-- | The request for a sequence of phases.
requestOf :: Under a -> Request a
requestOf under = Request under id

-- | A request that is already complete.
finishedWith :: a -> IO (Request a)
finishedWith a = requestOf <$> underIn (Over a)

-- | Start the next phase. Masked.
enter :: Under a -> Start -> (Outcome -> IO (Next a)) -> IO ()
enter under start rest = withOutcome $ \p -> do
  slot <- launch start False p
  if slot == 0
    then peekOutcome p >>= advance under start rest
    else follow under start slot rest

-- Continue with an outcome. Masked.
advance :: Under a -> Start -> (Outcome -> IO (Next a)) -> Outcome -> IO ()
advance under start rest outcome
  | outcomeAgain outcome = withdrawn >>= \w -> if w then ended else again
  | otherwise = ended
  where
    ended = advanceEnded under start rest outcome
    withdrawn = modifyRef (underWithdrawn under) (\w -> (w, w))
    -- Who cancels it meanwhile sees the new slot, or is seen here.
    again = do
      enter under start rest
      w <- withdrawn
      slot <- readRef (underSlot under)
      when w (void (c_cancel slot))

-- Continue with an outcome that is the last of its operation. Masked.
advanceEnded :: Under a -> Start -> (Outcome -> IO (Next a)) -> Outcome -> IO ()
advanceEnded under start rest outcome
  | outcomeCancelled outcome && not (startTells start) = settle Cancelled'
  | otherwise = do
    when (outcomeLost outcome) (keepForEver rest)
    when (code /= 0 && outcomeMessage outcome /= 0) (keepUntil (outcomeMessage outcome) rest)
    try (if code /= 0 && not (startTells start) then failWith (startCall start) code else rest outcome) >>= \case
      Left e -> settle (Broken e)
      Right (Finished a) -> settle (Over a)
      Right (Then start' rest') -> enter under start' rest'
      Right (Awaiting slot start' rest') -> follow under start' slot rest'
      Right Gone -> settle Cancelled'
  where
    code = fromIntegral (outcomeError outcome)
    settle = atomically . writeTVar (underState under)

-- | Continue when the slot is complete. Masked.
follow :: Under a -> Start -> Slot -> (Outcome -> IO (Next a)) -> IO ()
follow under start slot rest
  | slot < 0 = do
    -- The operation has started, but there was no memory for its slot.
    keepForEver rest
    errorFrom (startCall start) (fromIntegral slot) >>= atomically . writeTVar (underState under) . Broken . toException
  | otherwise = do
    owner <- newStablePtr (advance under start rest)
    modifyRef (underSlot under) (const (slot, ()))
    c_register slot owner
    watched <- modifyRef (underWatched under) (\w -> (w, w))
    when watched (c_watch slot)

-- | Run the continuation of an outcome that was taken.
runOutcome :: Outcome -> IO ()
runOutcome outcome = for_ (outcomeOwner outcome) $ \owner -> do
  go <- deRefStablePtr owner
  freeStablePtr owner
  go outcome

-- | Cancel a receive or probe that has not begun, without waiting; MPI's error code.
--
-- [Blocks]: until a test of MPI ends.
withdraw :: Under a -> IO CInt
withdraw under = do
  modifyRef (underWithdrawn under) (const (True, ()))
  slot <- modifyRef (underSlot under) (\s -> (s, s))
  if slot == 0 then pure 0 else c_cancel slot

-- | Keep memory until the process ends; see Note [Memory lent].
keepForEver :: a -> IO ()
keepForEver keeper = void (newStablePtr keeper)
{-# NOINLINE keepForEver #-}

-- Keep the memory of a collective whose communicator was closed, until the slot that it got then is complete.
keepUntil :: Slot -> a -> IO ()
keepUntil slot keeper = newStablePtr (\_ -> keeper `seq` pure ()) >>= c_register slot
{-# NOINLINE keepUntil #-}

-- | Throw what the waiters of a cancelled operation get.
throwCancelled :: IO a
throwCancelled = wrong Cancelled "wait" "the request was cancelled"

-- Note [Memory lent]
-- ~~~~~~~~~~~~~~~~~~
-- The continuation of an operation (that in 'Then', or the action given to 'performSend') refers
-- to all memory lent to the operation, through 'Heddle.MPI.Internal.Buffer.lentDone'. While the call that starts the operation runs, exceptions are masked, and the thread's
-- stack holds the continuation. An operation that is not complete when that call returns is
-- registered under a stable pointer to the continuation before the mask ends. The thread
-- that takes the outcome frees the pointer, after MPI has reported completion. So the waiting
-- thread keeps nothing alive and may be interrupted at any time.
--
-- In three cases it is unknown when MPI has finished: starting fails with an error that is not
-- about the arguments, and the operation may have started; a test fails without completing the
-- request; there is no memory for a slot. Then the continuation is kept until the process ends
-- ('keepForEver'). C reports the first two by 'outcomeLost'.
--
-- When a communicator is closed, the waiters of its collectives get an error at once, while MPI goes on with the operations. C
-- moves each one to another slot, whose stable pointer keeps the memory ('keepUntil').
--
-- Only the caller can keep the memory of a bare address alive. This package itself starts no
-- operation on a bare address unless the operation's continuation holds the memory.
