{-# LANGUAGE ExistentialQuantification #-}

-- |
-- Module      : Heddle.MPI.Internal.Request
-- Description : Outstanding operations, and waiting for them
-- Stability   : internal, exempt from the version policy
--
-- An operation that is not complete at once is registered with C under a stable pointer to its
-- continuation. The pointer keeps the operation's memory alive even if the request is dropped or
-- its waiters are interrupted. The waiter or the engine, whichever finds the operation complete
-- first, runs the continuation.
--
-- A waiter tests for a few microseconds in an unsafe call, then for the configured time in a safe
-- call, then parks in STM while the engine tests. See @heddle_mpi_engine.c@.
--
-- Invariant: from the start of an operation to its registration exceptions are masked.
-- See Note [Memory lent].
-- Cost: an operation that is complete at once allocates only its outcome, 48 bytes.
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
import Heddle.Prim.Atomic (Ref, acquireFence, modifyRef, newRef, readRef)
import Heddle.Prim.Clock (Deadline, Nanos (..), elapsed, monotonicNow)
import Heddle.Prim.Exception
import Heddle.Prim.Thread (forkMasked, labelMe, threadedRuntime, yield)
import Heddle.Prim.Unsafe (unsafeInSTM)

-- | How an operation is started, given its testing budget in nanoseconds: by a safe call, which
-- gives up the capability, and by an unsafe call, which holds it.
data Start = Start
  { startCall :: !String,
    startFree :: Int64 -> CInt -> Ptr Outcome -> IO Slot,
    startHeld :: Int64 -> CInt -> Ptr Outcome -> IO Slot,
    startWeight :: !Weight,
    -- | Whether the continuation also runs after failure and cancellation. Otherwise a failure
    -- throws, and the continuation does not run.
    startTells :: !Bool
  }

-- | Whether the call that starts an operation may copy much data ('Bulky').
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

-- How long a call that holds the capability tests, in nanoseconds.
heldBudget :: Int64
heldBudget = 5000

-- How long a call that gives up the capability tests after starting an operation.
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
-- [Blocks]: parks the thread until the operation is complete.
-- [Masking]: interruptible while it waits; the operation continues and keeps its memory.
-- [Throws]: 'MPIError'; what the continuation throws.
perform :: Start -> (Outcome -> IO (Next a)) -> IO a
perform start rest = either waitFor pure =<< mask_ (withOutcome (chain start rest))
{-# INLINE perform #-}

-- | Start a send and wait until it is complete. It has no outcome to read.
--
-- [Blocks]: parks the thread until the operation is complete.
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

-- The codes of heddle_mpi.c: the negated error; the second one if the send may have begun.
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

-- Run operations in sequence while each is complete at once.
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

-- | Start an operation as one of several phases. Its continuation gets its error and the number of
-- bytes received, at once if the operation is complete. The action that keeps the memory alive runs
-- on completion. The first argument says whether starting may test for a while; it is passed on to
-- the continuation, and is 'False' after an operation that was not complete at once.
--
-- Pass a saturated call of a known function as the continuation: then an operation that is complete
-- at once allocates nothing.
--
-- [Blocks]: never.
-- [Masking]: call it masked.
-- [Throws]: 'MPIError' if the start failed, unless the continuation handles failures.
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

-- After a failure that the starting call reported.
failedAmong :: String -> Bool -> Ptr Outcome -> IO () -> IO ()
failedAmong call tells p keep = do
  outcome <- peekOutcome p
  when (outcomeLost outcome) (keepForEver keep)
  keep
  unless tells (failWith call (fromIntegral (outcomeError outcome)))
{-# NOINLINE failedAmong #-}

-- | Run operations in sequence while each is complete at once. Call it masked.
phases :: IO (Next a) -> IO (Either (Under a) a)
phases first =
  first >>= \case
    Finished a -> pure (Right a)
    next -> furtherPhases next
{-# INLINE phases #-}

furtherPhases :: Next a -> IO (Either (Under a) a)
furtherPhases next = withOutcome (`phasesFrom` next)
{-# NOINLINE furtherPhases #-}

-- | Run operations in sequence, and wait until the last is complete.
--
-- [Blocks]: parks the thread until the operation is complete.
-- [Masking]: as 'perform': the operations continue.
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

-- | A started operation. Its memory is kept until it is complete, even if the request is dropped.
-- Any thread may ask for the result, any number of times.
data Request a = forall x. Request !(Under x) (x -> a)

instance Functor Request where
  fmap f (Request under g) = Request under (f . g)

data Under a = Under
  { underState :: !(TVar (State a)),
    -- | The slot of the current phase.
    underSlot :: !(Ref Slot),
    -- | Whether a thread is parked for it: then the slots of later phases are watched as well.
    underWatched :: !(Ref Bool)
  }

data State a
  = Underway
  | Over a
  | Cancelled'
  | Broken !SomeException

newUnder :: IO (Under a)
newUnder = Under <$> newTVarIO Underway <*> newRef 0 <*> newRef False

-- | A request that is already complete.
finishedWith :: a -> IO (Request a)
finishedWith a = (\state slot watched -> Request (Under state slot watched) id) <$> newTVarIO (Over a) <*> newRef 0 <*> newRef False

-- | Run an action on a separate thread, as a request. It cannot be cancelled.
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

-- Start the next phase. Masked.
enter :: Under a -> Start -> (Outcome -> IO (Next a)) -> IO ()
enter under start rest = withOutcome $ \p -> do
  slot <- launch start False p
  if slot == 0
    then peekOutcome p >>= advance under start rest
    else follow under start slot rest

-- Continue with an outcome. Masked.
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

-- Continue when the slot is complete. Masked.
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

-- Waiting --------------------------------------------------------------------

-- The answer to a state that has been read. The fence: the memory that MPI has filled must not be read before the
-- state, which another thread may have written.
outcomeOf :: State a -> Maybe (IO a)
outcomeOf = \case
  Underway -> Nothing
  Over a -> Just (a <$ acquireFence)
  Cancelled' -> Just throwCancelled
  Broken e -> Just (throwIO e)

throwCancelled :: IO a
throwCancelled = wrong Cancelled "wait" "the request was cancelled"

-- | The progress of a sequence of phases.
data Stage = Going | Ended | Failing !SomeException

-- | Read the progress.
stageOf :: Under a -> IO Stage
stageOf under =
  readTVarIO (underState under) >>= \case
    Underway -> pure Going
    Over _ -> pure Ended
    Broken e -> pure (Failing e)
    Cancelled' -> either Failing id <$> try throwCancelled

-- Park until the request is complete. Watching a slot is idempotent and is never undone.
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

-- | Wait for the result in a transaction, so that requests combine with each other and with any
-- other STM action. It retries until the request is complete.
--
-- [Blocks]: parks the thread; the engine tests meanwhile.
-- [Throws]: 'MPIError' when the operation failed or was cancelled.
await :: Request a -> STM a
await (Request under f) =
  readTVar (underState under) >>= \case
    Over a -> f a <$ unsafeInSTM acquireFence
    Broken e -> throwSTM e
    Cancelled' -> throwSTM (MPIError Cancelled (-1) "await" "the request was cancelled" (-1))
    Underway -> over under >> retry

-- | Wait for the result.
--
-- [Cost]: tens of nanoseconds if the operation is already complete.
-- [Blocks]: tests for some microseconds, then tests without the capability, then parks.
-- [Masking]: interruptible; the operation continues.
-- [Throws]: 'MPIError' when the operation failed or was cancelled.
wait :: Request a -> IO a
wait (Request under f) = f <$> waitFor under

-- | Wait for the result of the last phase.
--
-- [Blocks]: as 'wait'.
-- [Masking]: interruptible; the phases continue.
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

-- Test the slot; 'True' if it was complete, in which case its continuation has run.
testFor :: Under a -> Bool -> IO Bool
testFor under patient = mask_ . withOutcome $ \p -> do
  slot <- readRef (underSlot under)
  held <- c_wait_held slot (if patient then heldBudget else 0) 1 p
  answer <- if held == 0 && patient then c_wait slot (if threadedRuntime then -1 else 20000) 0 p else pure held
  when (answer > 0) (peekOutcome p >>= runOutcome)
  pure (answer > 0)

-- | The result if the request is complete, else 'Nothing'.
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

-- | 'wait' until a deadline; 'Nothing' if it passes first, and the operation continues.
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

-- | Wait for the first of several requests: its index in the list, and its result.
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

-- | Wait for all requests, and return their results in order.
--
-- [Blocks]: as 'wait'.
-- [Throws]: as 'wait', for the first that failed; the others continue.
waitAll :: [Request a] -> IO [a]
waitAll = mapM wait

-- | Cancel a receive that has not begun; 'False' if it was too late. On return the request is
-- complete in either case.
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

-- | How many outcomes the engine takes in one batch.
engineBatch :: Int
engineBatch = 64

-- | Test every slot once and run the continuations of complete ones, for a runtime without threads.
pollEngine :: IO ()
pollEngine = mask_ . allocaBytesAligned (engineBatch * outcomeBytes) 8 $ \p -> do
  n <- c_engine_poll p (fromIntegral engineBatch) 0
  runOutcomes p (fromIntegral n)

-- | Run the continuations of a batch of outcomes.
runOutcomes :: Ptr Outcome -> Int -> IO ()
runOutcomes p n = forM_ [0 .. n - 1] (\i -> peekOutcome (p `plusPtr` (i * outcomeBytes)) >>= runOutcome)

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
-- Only the caller can keep the memory of a bare address alive. This package itself starts no
-- operation on a bare address unless the operation's continuation holds the memory.
