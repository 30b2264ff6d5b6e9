-- |
-- Module      : Heddle.MPI.Internal.GivenUp
-- Description : Receives whose waiting thread may be interrupted
-- Stability   : internal, exempt from the version policy
--
-- A thread that is interrupted while it waits for a message gives its receive up: MPI cancels it, or,
-- if the message was faster, the message is kept in C (@heddle_mpi_kept.c@) for the next receive that
-- it fits. Either way it is not lost, and the receive's memory is the caller's again.
--
-- See Note [Giving up a receive].
-- Cost: a message that is there at once, a handler's frame and one look for a pending exception, about
-- 10 ns.
-- Owner: the waiting thread.
module Heddle.MPI.Internal.GivenUp
  ( -- * Receives
    Receive (..),
    receiveNow,
    receiveUntil,

    -- * Messages found
    receiveMatched,

    -- * Apart
    Receiving,
    beginReceive,
    finishReceive,
    giveUp,

    -- * Keeping
    keepReceived,
    keepBytes,
    keepFound,
    keepForMatched,
    restored,
  )
where

import Control.Monad (void, when)
import Data.Int (Int64)
import Foreign.C.Types (CInt)
import Foreign.Marshal.Alloc (alloca)
import Foreign.Ptr (Ptr, nullPtr)
import Foreign.Storable (peek, poke)
import Heddle.MPI.Internal.Buffer
import Heddle.MPI.Internal.Error
import Heddle.MPI.Internal.Foreign
import Heddle.MPI.Internal.Operation (follow, keepForEver, launch, newUnder, requestOf, withOutcome, withdraw)
import Heddle.MPI.Internal.Request
import Heddle.MPI.Internal.Types
import Heddle.Prim.Buffer (bufferPtr, keepAlive, newBuffer)
import Heddle.Prim.Clock (Deadline, Nanos (..), elapsed, monotonicNow)
import Heddle.Prim.Exception

-- | A receive, or a probe for a message.
data Receive = Receive
  { receiveStart :: !Start,
    -- | Runs when it is complete, in any thread: it keeps the memory alive until then.
    receiveDone :: !(IO ()),
    -- | Keeps the message of this outcome for the next receive.
    receiveKeep :: !(Outcome -> IO ())
  }

-- | A receive that was started and is not complete.
data Receiving = Receiving !(Under Outcome) !(Outcome -> IO ())

-- The outcome if it is complete at once. Masked.
started :: Receive -> Bool -> Ptr Outcome -> IO (Either Receiving Outcome)
started (Receive start done keep) patient p = do
  slot <- launch start patient p
  if slot == 0
    then do
      outcome <- peekOutcome p
      when (outcomeLost outcome) (keepForEver done)
      Right outcome <$ done
    else do
      under <- newUnder
      -- A failure is an outcome as well: of a message that was too long, the next receive is told.
      follow under start {startTells = True} slot $ \outcome ->
        (if outcomeCancelled outcome then Gone else Finished outcome) <$ done
      pure (Left (Receiving under keep))
{-# INLINE started #-}

-- | Receive: wait, then run the last action on the outcome, masked. An exception thrown to this
-- thread until its end, or pending at its end, leaves the message to the next receive.
--
-- [Blocks]: parks the thread until the message has come.
-- [Masking]: interruptible until MPI has matched the message.
-- [Throws]: 'MPIError'; what the last action throws, and then the message is consumed.
receiveNow :: Receive -> (Outcome -> IO a) -> IO a
receiveNow receive finish = mask $ \restore -> do
  begun <- withOutcome (started receive True)
  outcome <- either finishReceive pure begun
  when (outcomeError outcome /= 0) (failed receive outcome)
  a <- finish outcome
  a <$ restored restore (receiveKeep receive outcome)
{-# INLINE receiveNow #-}

failed :: Receive -> Outcome -> IO a
failed receive outcome = failWith (startCall (receiveStart receive)) (fromIntegral (outcomeError outcome))
{-# NOINLINE failed #-}

-- | Let pending exceptions come, after this action. A caller that has masked them gets none: the message
-- is then safe with it.
restored :: (IO () -> IO ()) -> IO () -> IO ()
restored restore keep = restore (pure ()) `onException` keep
{-# INLINE restored #-}

-- | 'receiveNow' until a deadline; 'Nothing' if it passes before a message has come.
--
-- [Blocks]: parks the thread, at most until the deadline, and a millisecond more.
-- [Masking]: as 'receiveNow'.
receiveUntil :: Deadline -> Receive -> (Outcome -> IO a) -> IO (Maybe a)
receiveUntil deadline receive finish = mask $ \restore -> do
  begun <- withOutcome (started receive True)
  answer <- either (receivedUntil deadline) (pure . Just) begun
  case answer of
    Nothing -> pure Nothing
    Just outcome -> do
      when (outcomeError outcome /= 0) (failed receive outcome)
      a <- finish outcome
      Just a <$ restored restore (receiveKeep receive outcome)

receivedUntil :: Deadline -> Receiving -> IO (Maybe Outcome)
receivedUntil deadline receiving@(Receiving under _) = begun `onException` giveUp receiving
  where
    begun = do
      Nanos left <- (`elapsed` deadline) <$> monotonicNow
      -- Testing takes up to a millisecond.
      when (left > 2000000) (void (testFor under True))
      waitUntil deadline (requestOf under) >>= \case
        Just outcome -> pure (Just outcome)
        Nothing -> withdraw under >>= check "recvUntil" . pure >> whatCame
    whatCame =
      try (waitFor under) >>= \case
        Right outcome -> pure (Just outcome)
        Left e | errorClass e == Cancelled -> pure Nothing
        Left e -> throwIO e

-- | Start a receive, to be finished or given up.
--
-- [Blocks]: never.
-- [Masking]: call it masked.
beginReceive :: Receive -> IO (Either Receiving Outcome)
beginReceive receive = withOutcome (started receive False)

-- | Wait for the outcome. An exception gives the receive up.
--
-- [Blocks]: parks the thread until the message has come.
-- [Masking]: call it masked; interruptible.
finishReceive :: Receiving -> IO Outcome
finishReceive receiving@(Receiving under _) = waitFor under `onException` giveUp receiving
{-# NOINLINE finishReceive #-}

-- | Cancel the receive, or keep its message.
--
-- [Blocks]: while a message that MPI has matched arrives.
-- [Masking]: uninterruptible, since the caller's memory is MPI's until then.
giveUp :: Receiving -> IO ()
giveUp (Receiving under keep) = uninterruptibleMask_ $ do
  -- If MPI cannot cancel it, it is waited for.
  void (withdraw under)
  ended under keep

-- Wait, and keep the message.
ended :: Under Outcome -> (Outcome -> IO ()) -> IO ()
ended under keep =
  try (waitFor under) >>= \case
    -- The caller's exception goes on, and there is nobody else to tell that memory was short, or the
    -- communicator closed, which loses its messages.
    Right outcome -> void (trySync (keep outcome))
    -- It was cancelled: there is no message.
    Left e -> const (pure ()) (e :: MPIError)

-- | Receive a message that a probe found, which nothing can cancel any more.
--
-- [Blocks]: parks the thread until the message has arrived.
-- [Masking]: call it masked; when it is interrupted, it waits until the message is there, and keeps it.
receiveMatched :: Receive -> IO Outcome
receiveMatched receive@(Receive _ _ keep) = do
  begun <- withOutcome (started receive True)
  outcome <- either arrived pure begun
  outcome <$ when (outcomeError outcome /= 0) (failed receive outcome)
  where
    arrived (Receiving under _) = waitFor under `onException` uninterruptibleMask_ (ended under keep)

-- Keeping --------------------------------------------------------------------

-- | Keep what was received into memory for the next receive of the communicator.
keepReceived :: Comm kind -> Lent -> Outcome -> IO ()
keepReceived comm lent outcome = check "recv" (keepIn (commHandle comm) lent (statusOf outcome) (fromIntegral (outcomeError outcome)) nullPtr) >> lentDone lent

-- | Keep a message that is this memory.
keepBytes :: Comm kind -> Lent -> Status -> IO ()
keepBytes comm lent status = check "recv" (keepIn (commHandle comm) lent status 0 nullPtr) >> lentDone lent

keepIn :: Int64 -> Lent -> Status -> CInt -> Ptr Int64 -> IO CInt
keepIn comm lent (Status (Rank source) (Tag tag) bytes) e =
  c_keep comm (fromIntegral source) (fromIntegral tag) e (fromIntegral bytes) (lentAt lent) (fromIntegral (lentCount lent)) type'
  where
    Datatype type' = lentType lent

-- | Keep the message that a probe found: it is received first.
--
-- [Blocks]: while the message arrives.
-- [Masking]: uninterruptible.
keepFound :: (Int64 -> Lent -> Start) -> Comm kind -> Outcome -> IO ()
keepFound start comm found = uninterruptibleMask_ $ do
  let n = fromIntegral (outcomeReceived found)
  memory <- newBuffer (max 16 n)
  let lent = Lent (bufferPtr memory) n byteType 1 (keepAlive memory) (pure ())
  outcome <- receiveMatched (Receive (start (outcomeMessage found) lent) (keepAlive memory) (const (pure ())))
  keepReceived comm lent outcome

-- | Keep what was received of a found message: the number by which it can be received again.
keepForMatched :: Lent -> Outcome -> IO Int64
keepForMatched lent outcome = alloca $ \p -> do
  poke p 0
  check "mrecv" (keepIn 0 lent (statusOf outcome) (fromIntegral (outcomeError outcome)) p)
  lentDone lent
  peek p

-- Note [Giving up a receive]
-- ~~~~~~~~~~~~~~~~~~~~~~~~~~
-- Everybody writes @timeout t (recv …)@ in a loop. If the receive went on without its thread, it would
-- take the message that the next one waits for.
--
-- So the thread that is interrupted cancels its receive and waits until MPI says how that ended. If the
-- message had been matched, it is complete, or soon is, since its sender has begun; then it is kept.
-- All later receives and probes of the communicator look at kept messages first, and those that wait
-- already are started again ('outcomeAgain'); so messages stay in their order.
--
-- The exception may also come while the thread tests in C, or after that: it is pending when the
-- receive is complete. So it is let in before the message is handed over ('restored'). What remains are the few
-- instructions between that and the caller's own handler; 'receiveUntil' has no such gap.
--
-- Requests ('Heddle.MPI.Fast.irecv') are not given up: whoever holds one can wait for it again.
