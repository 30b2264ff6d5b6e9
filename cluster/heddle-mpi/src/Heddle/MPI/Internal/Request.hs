{-# LANGUAGE ExistentialQuantification #-}

-- |
-- Module      : Heddle.MPI.Internal.Request
-- Description : Operations under way, and waiting for them
-- Stability   : internal, exempt from the version policy
--
-- An operation that is not complete at once is registered with C under a stable pointer to
-- what is done when it is. That keeps its memory, whatever becomes of the request and of the
-- threads that wait for it. Whoever finds it complete first, a waiter or the engine, does it.
--
-- Waiting: a few microseconds in an unsafe call; then for as long as the settings say in a
-- safe one; then the thread parks in STM, and the engine tests. See @heddle_mpi_engine.c@.
--
-- Invariant: from the start of an operation to its registration exceptions are masked.
-- See Note [Memory lent].
-- Cost: complete at once, nothing is allocated but the outcome's 48 bytes.
-- Owner: a request may be used by any thread.
module Heddle.MPI.Internal.Request
  ( -- * Starting
    Start (..),
    Weight (..),
    weigh,
    perform,
    performSend,
    begin,

    -- * Phases
    Next (..),
    Under,
    startAmong,
    phases,
    performPhases,
    waitFor,
    Stage (..),
    stageOf,
    Request,
    finishedWith,
    forked,

    -- * Waiting
    await,
    wait,
    waitUntil,
    test,
    waitAny,
    waitAll,
    cancel,

    -- * The engine
    runOutcomes,
    engineBatch,
    pollEngine,
  )
where

import Control.Concurrent.STM hiding (check)
import Control.Monad (forM_, join, unless, void, when)
import Data.Foldable (for_)
import Data.Int (Int64)
import Data.Maybe (fromMaybe)
import Foreign.C.Types (CInt)
import Foreign.Marshal.Alloc (allocaBytesAligned)
import Foreign.Ptr (Ptr, nullPtr, plusPtr)
import Foreign.StablePtr (deRefStablePtr, freeStablePtr, newStablePtr)
import Foreign.Storable (peekByteOff)
import Heddle.MPI.Internal.Error
import Heddle.MPI.Internal.Foreign
import Heddle.Prim.Atomic (Ref, modifyRef, newRef, readRef)
import Heddle.Prim.Clock (Deadline, Nanos (..), elapsed, monotonicNow)
import Heddle.Prim.Exception
import Heddle.Prim.Thread (forkMasked, labelMe, threadedRuntime, yield)
import Heddle.Prim.Unsafe (unsafeInSTM)

-- | How an operation is started: with its budget in nanoseconds, without the capability and
-- with it.
data Start = Start
  { startCall :: !String,
    startFree :: Int64 -> CInt -> Ptr Outcome -> IO Slot,
    startHeld :: Int64 -> CInt -> Ptr Outcome -> IO Slot,
    startWeight :: !Weight,
    -- | Whether what follows is told of failures and of being cancelled. Otherwise a failure
    -- throws, and nothing follows.
    startTells :: !Bool
  }

-- | May its call copy much?
data Weight = Light | Bulky
  deriving stock (Eq)

-- | Of so many bytes.
weigh :: Int -> Weight
weigh n = if n > bulkBytes then Bulky else Light
{-# INLINE weigh #-}

-- | What follows when an operation is complete.
data Next a
  = Finished a
  | -- | Another one, and what follows that.
    Then !Start (Outcome -> IO (Next a))
  | -- | One that has been started and is not complete, and what follows that.
    Awaiting !Slot !Start (Outcome -> IO (Next a))
  | -- | The operation was cancelled.
    Gone

-- How long a call that holds the capability tests.
heldBudget :: Int64
heldBudget = 5000

-- How long one that does not hold it tests after it has started an operation.
freeBudget :: Int64
freeBudget = 200000

withOutcome :: (Ptr Outcome -> IO a) -> IO a
withOutcome = allocaBytesAligned outcomeBytes 8
{-# INLINE withOutcome #-}

launch :: Start -> Bool -> Ptr Outcome -> IO Slot
launch start patient p = case startWeight start of
  Light -> startHeld start (if patient then heldBudget else 0) 1 p
  Bulky -> startFree start (if patient then freeBudget else 0) 0 p
{-# INLINE launch #-}

-- | Start an operation and wait until it is complete.
--
-- [Blocks]: parks the thread, at last.
-- [Masking]: interruptible while it waits: then the operation goes on, and keeps what it needs.
-- [Throws]: 'MPIError'; what the rest throws.
perform :: Start -> (Outcome -> IO (Next a)) -> IO a
perform start rest = either waitFor pure =<< mask_ (withOutcome (chain start rest))
{-# INLINE perform #-}

-- | Start a send and wait until it is complete: without an outcome, which nobody looks at.
--
-- [Blocks]: parks the thread, at last.
-- [Masking]: as 'perform'.
-- [Throws]: 'MPIError'.
performSend :: Start -> IO () -> IO ()
performSend start done = mapM_ waitFor =<< mask_ begun
  where
    begun = do
      slot <- launch start True nullPtr
      if slot == 0
        then Nothing <$ done
        else
          if slot < sendFailed + 1000
            then sendFailure (startCall start) slot done
            else do
              under <- newUnder
              Just under <$ follow under start slot (\_ -> Finished () <$ done)
{-# INLINE performSend #-}

-- As heddle_mpi.c has them: minus the error; the second where the send may have begun.
sendFailed, sendLost :: Slot
sendFailed = -1000000
sendLost = -1099511627776

sendFailure :: String -> Slot -> b -> IO a
sendFailure call slot keeper
  | slot < sendLost + 1000000 = keepForEver keeper >> failWith call (fromIntegral (sendLost - slot))
  | otherwise = failWith call (fromIntegral (sendFailed - slot))
{-# NOINLINE sendFailure #-}

-- See Note [Memory lent].
keepForEver :: a -> IO ()
keepForEver keeper = void (newStablePtr keeper)
{-# NOINLINE keepForEver #-}

-- One operation after the other, as far as they are complete at once.
chain :: Start -> (Outcome -> IO (Next a)) -> Ptr Outcome -> IO (Either (Under a) a)
chain start rest p = do
  slot <- launch start True p
  if slot == 0
    then do
      e <- peekByteOff p 8 :: IO CInt
      if e == 0 || startTells start
        then do
          outcome <- peekOutcome p
          when (outcomeLost outcome) (keepForEver rest)
          rest outcome >>= phasesFrom p
        else do
          outcome <- peekOutcome p
          when (outcomeLost outcome) (keepForEver rest)
          failWith (startCall start) e
    else do
      under <- newUnder
      Left under <$ follow under start slot rest
{-# INLINE chain #-}

phasesFrom :: Ptr Outcome -> Next a -> IO (Either (Under a) a)
phasesFrom p = \case
  Finished a -> pure (Right a)
  Then start rest -> chain start rest p
  Awaiting slot start rest -> do
    under <- newUnder
    Left under <$ follow under start slot rest
  Gone -> throwCancelled

-- | Start an operation among phases, and go on with its error and how much was received, at once
-- if it is complete. What keeps its memory is performed when it is complete. The first argument
-- tells whether starting may test for a while; it is handed on, and is 'False' for what goes on
-- after an operation that was not complete at once.
--
-- What follows is to be a call of a function that exists anyway: then nothing is allocated for
-- an operation that is complete at once.
--
-- [Blocks]: never.
-- [Masking]: to be called masked.
-- [Throws]: 'MPIError' if it failed, unless what follows is told of that.
startAmong :: Bool -> Ptr Outcome -> IO () -> Start -> (Bool -> CInt -> Int64 -> IO (Next a)) -> IO (Next a)
startAmong patient p keep start next = do
  slot <- launch start patient p
  if slot == 0
    then do
      e <- peekByteOff p 8 :: IO CInt
      received <- peekByteOff p 16 :: IO Int64
      when (e /= 0) (failedAmong (startCall start) (startTells start) p keep)
      keep
      next patient e received
    else pure (Awaiting slot start (\outcome -> keep >> next False (fromIntegral (outcomeError outcome)) (outcomeReceived outcome)))
{-# INLINE startAmong #-}

-- After a failure that was told of at once.
failedAmong :: String -> Bool -> Ptr Outcome -> IO () -> IO ()
failedAmong call tells p keep = do
  outcome <- peekOutcome p
  when (outcomeLost outcome) (keepForEver keep)
  keep
  unless tells (failWith call (fromIntegral (outcomeError outcome)))
{-# NOINLINE failedAmong #-}

-- | Do one operation after the other, as far as they are complete at once. Masked.
phases :: IO (Next a) -> IO (Either (Under a) a)
phases first =
  first >>= \case
    Finished a -> pure (Right a)
    next -> furtherPhases next
{-# INLINE phases #-}

furtherPhases :: Next a -> IO (Either (Under a) a)
furtherPhases next = withOutcome (`phasesFrom` next)
{-# NOINLINE furtherPhases #-}

-- | Do one operation after the other, and wait until the last is complete.
--
-- [Blocks]: parks the thread, at last.
-- [Masking]: as 'perform': the operations go on.
-- [Throws]: 'MPIError'; what a phase throws.
performPhases :: IO (Next a) -> IO a
performPhases first = either waitFor pure =<< mask_ (phases first)

-- | Start an operation.
--
-- [Blocks]: never.
begin :: Start -> (Outcome -> IO (Next a)) -> IO (Request a)
begin start rest = mask_ $ do
  under <- newUnder
  enter under start rest
  pure (Request under id)

-- | An operation that has been started. It holds what it works on until it is complete, even
-- if it is dropped; what it gives may be asked for any number of times, by any thread.
data Request a = forall x. Request !(Under x) (x -> a)

instance Functor Request where
  fmap f (Request under g) = Request under (f . g)

data Under a = Under
  { underState :: !(TVar (State a)),
    -- | What it waits for now.
    underSlot :: !(Ref Slot),
    -- | Somebody is parked for it: so its next slots are watched as well.
    underWatched :: !(Ref Bool)
  }

data State a
  = Underway
  | Over a
  | Cancelled'
  | Broken !SomeException

newUnder :: IO (Under a)
newUnder = Under <$> newTVarIO Underway <*> newRef 0 <*> newRef False

-- | A request that is complete.
finishedWith :: a -> IO (Request a)
finishedWith a = (\state slot watched -> Request (Under state slot watched) id) <$> newTVarIO (Over a) <*> newRef 0 <*> newRef False

-- | What a thread of its own works on, as a request: it cannot be cancelled.
--
-- [Cost]: a thread.
-- [Blocks]: never.
forked :: String -> IO a -> IO (Request a)
forked name body = do
  under <- newUnder
  _ <- forkMasked $ \unmask -> do
    labelMe name
    result <- try (unmask body)
    atomically (writeTVar (underState under) (either Broken Over result))
  pure (Request under id)

-- Start what comes next. Masked.
enter :: Under a -> Start -> (Outcome -> IO (Next a)) -> IO ()
enter under start rest = withOutcome $ \p -> do
  slot <- launch start False p
  if slot == 0
    then peekOutcome p >>= advance under start rest
    else follow under start slot rest

-- Go on with an outcome. Masked.
advance :: Under a -> Start -> (Outcome -> IO (Next a)) -> Outcome -> IO ()
advance under start rest outcome
  | outcomeCancelled outcome && not (startTells start) = settle Cancelled'
  | otherwise = do
    when (outcomeLost outcome) (keepForEver rest)
    try (if code /= 0 && not (startTells start) then failWith (startCall start) code else rest outcome) >>= \case
      Left e -> settle (Broken e)
      Right (Finished a) -> settle (Over a)
      Right (Then start' rest') -> enter under start' rest'
      Right (Awaiting slot start' rest') -> follow under start' slot rest'
      Right Gone -> settle Cancelled'
  where
    code = fromIntegral (outcomeError outcome)
    settle = atomically . writeTVar (underState under)

-- Go on when the slot is complete. Masked.
follow :: Under a -> Start -> Slot -> (Outcome -> IO (Next a)) -> IO ()
follow under start slot rest
  | slot < 0 = do
    -- It has been started, and there was no memory to follow it.
    keepForEver rest
    errorFrom (startCall start) (fromIntegral slot) >>= atomically . writeTVar (underState under) . Broken . toException
  | otherwise = do
    owner <- newStablePtr (advance under start rest)
    modifyRef (underSlot under) (const (slot, ()))
    c_register slot owner
    watched <- modifyRef (underWatched under) (\w -> (w, w))
    when watched (c_watch slot)

-- | Do what is to be done with an outcome that was taken.
runOutcome :: Outcome -> IO ()
runOutcome outcome = for_ (outcomeOwner outcome) $ \owner -> do
  go <- deRefStablePtr owner
  freeStablePtr owner
  go outcome

-- Waiting --------------------------------------------------------------------

outcomeOf :: State a -> Maybe (IO a)
outcomeOf = \case
  Underway -> Nothing
  Over a -> Just (pure a)
  Cancelled' -> Just throwCancelled
  Broken e -> Just (throwIO e)

throwCancelled :: IO a
throwCancelled = wrong Cancelled "wait" "the request was cancelled"

-- | How far phases have come.
data Stage = Going | Ended | Failing !SomeException

-- | How far they have come by now.
stageOf :: Under a -> IO Stage
stageOf under =
  readTVarIO (underState under) >>= \case
    Underway -> pure Going
    Over _ -> pure Ended
    Broken e -> pure (Failing e)
    Cancelled' -> either Failing id <$> try throwCancelled

-- Parks until it is over. To tell the engine may be repeated, and undone by nobody.
over :: Under a -> STM (IO a)
over under =
  readTVar (underState under) >>= \state -> case outcomeOf state of
    Just answer -> pure answer
    Nothing -> unsafeInSTM watch >> retry
  where
    watch = do
      modifyRef (underWatched under) (const (True, ()))
      slot <- modifyRef (underSlot under) (\s -> (s, s))
      c_watch slot

-- | What it gives, in a transaction: so that requests may be waited for together with one
-- another and with anything else. It retries until the request is complete.
--
-- [Blocks]: parks the thread; the engine tests meanwhile.
-- [Throws]: 'MPIError' when the operation failed or was cancelled.
await :: Request a -> STM a
await (Request under f) =
  readTVar (underState under) >>= \case
    Over a -> pure (f a)
    Broken e -> throwSTM e
    Cancelled' -> throwSTM (MPIError Cancelled (-1) "await" "the request was cancelled" (-1))
    Underway -> over under >> retry

-- | What it gives.
--
-- [Cost]: complete at once, tens of nanoseconds.
-- [Blocks]: tests for some microseconds, then without the capability, then parks.
-- [Masking]: interruptible; the operation goes on.
-- [Throws]: 'MPIError' when the operation failed or was cancelled.
wait :: Request a -> IO a
wait (Request under f) = f <$> waitFor under

-- | What phases give at last.
--
-- [Blocks]: as 'wait'.
-- [Masking]: interruptible; the phases go on.
waitFor :: Under a -> IO a
waitFor under =
  readTVarIO (underState under) >>= \state -> case outcomeOf state of
    Just answer -> answer
    Nothing -> do
      taken <- testFor under True
      if taken then waitFor under else park
  where
    park
      | threadedRuntime = join (atomically (over under))
      | otherwise = readTVarIO (underState under) >>= fromMaybe (pollEngine >> yield >> park) . outcomeOf

-- Test for it; whether it was complete, and has been gone on with.
testFor :: Under a -> Bool -> IO Bool
testFor under patient = mask_ . withOutcome $ \p -> do
  slot <- readRef (underSlot under)
  held <- c_wait_held slot (if patient then heldBudget else 0) 1 p
  answer <- if held == 0 && patient then c_wait slot (if threadedRuntime then -1 else 20000) 0 p else pure held
  when (answer > 0) (peekOutcome p >>= runOutcome)
  pure (answer > 0)

-- | What it gives, unless it is not complete.
--
-- [Blocks]: never.
-- [Throws]: as 'wait'.
test :: Request a -> IO (Maybe a)
test (Request under f) = do
  now <- readTVarIO (underState under)
  case now of
    Underway -> void (testFor under False)
    _ -> pure ()
  maybe (pure Nothing) (fmap (Just . f)) . outcomeOf =<< readTVarIO (underState under)

-- | What it gives, unless the deadline passes before: then the operation goes on.
--
-- [Blocks]: as 'wait'.
-- [Throws]: as 'wait'.
waitUntil :: Deadline -> Request a -> IO (Maybe a)
waitUntil deadline request =
  test request >>= \case
    Just a -> pure (Just a)
    Nothing -> do
      now <- monotonicNow
      let Nanos left = elapsed now deadline
      if left <= 0
        then pure Nothing
        else do
          passed <- registerDelay (min (left `div` 1000 + 1) 1000000000)
          answer <- atomically ((Just <$> await request) `orElse` (readTVar passed >>= \p -> if p then pure Nothing else retry))
          maybe (waitUntil deadline request) (pure . Just) answer

-- | What the first to be complete gives, and its place in the list.
--
-- [Blocks]: as 'wait'; for ever, if the list is empty.
-- [Throws]: as 'wait'.
waitAny :: [Request a] -> IO (Int, a)
waitAny requests = go (64 :: Int)
  where
    go 0 = atomically (foldr (\(i, r) others -> ((,) i <$> await r) `orElse` others) retry (zip [0 ..] requests))
    go n = firstOf (zip [0 ..] requests) >>= maybe (go (n - 1)) pure
    firstOf = \case
      [] -> pure Nothing
      (i, r) : others -> test r >>= maybe (firstOf others) (pure . Just . (,) i)

-- | What all of them give.
--
-- [Blocks]: as 'wait'.
-- [Throws]: as 'wait', for the first that failed; the others go on.
waitAll :: [Request a] -> IO [a]
waitAll = mapM wait

-- | Cancel a receive that has not begun: 'False' if it was too late; it is over in any case.
--
-- [Blocks]: until the request is complete.
cancel :: Request a -> IO Bool
cancel (Request under _) =
  readTVarIO (underState under) >>= \case
    Underway -> do
      slot <- readRef (underSlot under)
      when (slot /= 0) (check "cancel" (c_cancel slot))
      void (trySync (waitFor under))
      isCancelled
    _ -> isCancelled
  where
    isCancelled =
      readTVarIO (underState under) >>= \case
        Cancelled' -> pure True
        _ -> pure False

-- The engine -----------------------------------------------------------------

-- | How many outcomes the engine takes at once.
engineBatch :: Int
engineBatch = 64

-- | Test everything once, and go on with what is complete: for a runtime without threads.
pollEngine :: IO ()
pollEngine = mask_ . allocaBytesAligned (engineBatch * outcomeBytes) 8 $ \p -> do
  n <- c_engine_poll p (fromIntegral engineBatch) 0
  runOutcomes p (fromIntegral n)

-- | Go on with so many outcomes.
runOutcomes :: Ptr Outcome -> Int -> IO ()
runOutcomes p n = forM_ [0 .. n - 1] (\i -> peekOutcome (p `plusPtr` (i * outcomeBytes)) >>= runOutcome)

-- Note [Memory lent]
-- ~~~~~~~~~~~~~~~~~~
-- What follows an operation (the continuation in 'Then', the action given to 'performSend')
-- refers to all memory that was lent to it; 'Heddle.MPI.Internal.Buffer.lentDone' is a part of
-- it. While the call that starts the operation runs, exceptions are masked, and the thread's
-- stack holds the continuation. An operation that is not complete when that call returns is
-- registered under a stable pointer to the continuation before the mask ends. The pointer is
-- freed by whoever takes the outcome, after MPI has said that the operation is complete. So
-- the thread that waits holds nothing: it may be interrupted at any time.
--
-- Three cases are left in which nobody can know when MPI is done: starting fails with an error
-- that is not about the arguments, and may have come after the start; a test fails without
-- completing the request; there is no memory for a slot. Then the continuation is kept until
-- the process ends ('keepForEver'). C tells of the first two by 'outcomeLost'.
--
-- Memory behind a bare address belongs to the caller, who alone can keep it. In this package
-- no operation is started on one whose memory its continuation does not hold.
