-- |
-- Module      : Heddle.MPI.Internal.Request
-- Description : Performing operations, and waiting for them
-- Stability   : internal, exempt from the version policy
--
-- A waiter tests for a few microseconds in an unsafe call, then for the configured time in a safe
-- call, then parks in STM while the engine tests. See @heddle_mpi_engine.c@.
--
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
    testFor,
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
import Data.Int (Int64)
import Data.Maybe (fromMaybe)
import Foreign.C.Types (CInt)
import Foreign.Marshal.Alloc (allocaBytesAligned)
import Foreign.Ptr (Ptr, nullPtr, plusPtr)
import Foreign.Storable (peekByteOff)
import Heddle.MPI.Internal.Error
import Heddle.MPI.Internal.Foreign
import Heddle.MPI.Internal.Operation
import Heddle.Prim.Atomic (acquireFence, modifyRef, readRef)
import Heddle.Prim.Clock (Deadline, Nanos (..), elapsed, monotonicNow)
import Heddle.Prim.Exception
import Heddle.Prim.Thread (forkMasked, labelMe, threadedRuntime, yield)
import Heddle.Prim.Unsafe (unsafeInSTM)

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
  pure (requestOf under)

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
  pure (requestOf under)

-- Waiting --------------------------------------------------------------------

-- The answer to a state that has been read. The fence: the memory that MPI has filled must not be read before the
-- state, which another thread may have written.
outcomeOf :: State a -> Maybe (IO a)
outcomeOf = \case
  Underway -> Nothing
  Over a -> Just (a <$ acquireFence)
  Cancelled' -> Just throwCancelled
  Broken e -> Just (throwIO e)

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
      | otherwise = readTVarIO (underState under) >>= fromMaybe (pollEngine >> allowInterrupt >> yield >> park) . outcomeOf

-- | Test the slot; 'True' if it was complete, in which case its continuation has run.
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
      withdraw under >>= check "cancel" . pure
      void (trySync (waitFor under))
      isCancelled
    _ -> isCancelled
  where
    isCancelled =
      readTVarIO (underState under) >>= \case
        Cancelled' -> pure True
        _ -> pure False

-- The engine -----------------------------------------------------------------

-- | The number of outcomes that the engine takes in one batch.
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
