{-# LANGUAGE AllowAmbiguousTypes #-}
{-# LANGUAGE FlexibleContexts #-}
{-# LANGUAGE TypeApplications #-}

-- |
-- Module      : Heddle.MPI.Internal.Point
-- Description : Point to point, from memory to memory
-- Stability   : internal, exempt from the version policy
--
-- Messages between two processes, sent from and received into memory in place;
-- "Heddle.MPI.Fast" documents and exports them.
--
-- Cost: an 8-byte message, the implementation's time and about 100 ns.
-- Owner: the operation owns a buffer until it is complete.
module Heddle.MPI.Internal.Point
  ( -- * Starting
    Mode (..),
    sending,
    receiving,
    probing,
    matched,

    -- * Sending
    send,
    ssend,
    rsend,
    bsend,
    sendValue,
    isend,
    issend,
    irsend,

    -- * Receiving
    recv,
    recvNew,
    recvValue,
    recvUntil,
    irecv,
    irecvNew,
    sendrecv,

    -- * Steps of collectives
    leaving,
    arriving,
    arrivingNew,

    -- * Looking first
    probe,
    iprobe,
    Found,
    foundStatus,
    takeFound,
    mprobe,
    improbe,
    mrecv,
    mrecvNew,

    -- * Counting
    statusCount,
  )
where

import Control.Monad (void, when)
import Control.Monad.IO.Class (liftIO)
import Data.Int (Int64)
import Data.Vector.Storable (Vector)
import Data.Vector.Storable qualified as Vector
import Data.Vector.Storable.Mutable qualified as Mutable
import Foreign.Marshal.Alloc (allocaBytesAligned)
import Foreign.Marshal.Utils (copyBytes)
import Foreign.Ptr (Ptr, castPtr)
import Foreign.Storable (peek, poke)
import Heddle.MPI.Internal.Buffer
import Heddle.MPI.Internal.Error
import Heddle.MPI.Internal.Foreign
import Heddle.MPI.Internal.GivenUp
import Heddle.MPI.Internal.Request
import Heddle.MPI.Internal.Steps
import Heddle.MPI.Internal.Types
import Heddle.Prim.Atomic (Ref, modifyRef, newRef, writeRef)
import Heddle.Prim.Buffer (Buffer, bufferPtr, keepAlive, newBuffer)
import Heddle.Prim.Clock (Deadline, microseconds)
import Heddle.Prim.Exception
import Heddle.Prim.Thread (nap)

-- | When a send is complete.
data Mode = Standard | Synchronous | Ready
  deriving stock (Enum, Eq)

-- The weight of a message of this many elements. An element of a derived type may have any size.
weighElements :: Int -> Int64 -> Weight
weighElements n type' = if n > bulkBytes `div` 16 || isDerived (Datatype type') then Bulky else Light
{-# INLINE weighElements #-}

-- | Send memory.
sending :: String -> Mode -> Comm kind -> Rank -> Tag -> Lent -> Start
sending call mode comm (Rank rank) (Tag tag) (Lent p n (Datatype type') _ _ _) =
  Start
    { startCall = call,
      startFree = c_send h r t m p (fromIntegral n) type',
      startHeld = c_send_held h r t m p (fromIntegral n) type',
      startWeight = weighElements n type',
      startTells = False
    }
  where
    h = commHandle comm
    r = fromIntegral rank
    t = fromIntegral tag
    m = fromIntegral (fromEnum mode)
{-# INLINE sending #-}

-- | Receive into memory.
receiving :: String -> Comm kind -> Rank -> Tag -> Lent -> Start
receiving call comm (Rank rank) (Tag tag) (Lent p n (Datatype type') _ _ _) =
  Start
    { startCall = call,
      startFree = c_recv h r t p (fromIntegral n) type',
      startHeld = c_recv_held h r t p (fromIntegral n) type',
      startWeight = weighElements n type',
      startTells = False
    }
  where
    h = commHandle comm
    r = fromIntegral rank
    t = fromIntegral tag
{-# INLINE receiving #-}

-- | Wait for a message.
probing :: String -> Comm kind -> Rank -> Tag -> Start
probing call comm (Rank rank) (Tag tag) =
  Start
    { startCall = call,
      startFree = c_mprobe h r t,
      startHeld = c_mprobe_held h r t,
      startWeight = Light,
      startTells = False
    }
  where
    h = commHandle comm
    r = fromIntegral rank
    t = fromIntegral tag
{-# INLINE probing #-}

-- | Receive a message that a probe found.
matched :: String -> Int64 -> Lent -> Start
matched call message (Lent p n (Datatype type') _ _ _) =
  Start
    { startCall = call,
      startFree = c_mrecv message p (fromIntegral n) type',
      startHeld = c_mrecv_held message p (fromIntegral n) type',
      startWeight = weighElements n type',
      startTells = False
    }
{-# INLINE matched #-}

-- Sending --------------------------------------------------------------------

done :: Lent -> Outcome -> IO (Next ())
done lent _ = Finished () <$ lentDone lent
{-# INLINE done #-}

sendWith :: SendBuffer b => String -> Mode -> Comm kind -> Rank -> Tag -> b -> IO ()
sendWith call mode comm rank tag b = do
  lent <- lendOut b
  performSend (sending call mode comm rank tag lent) (lentDone lent)
{-# INLINE sendWith #-}

isendWith :: SendBuffer b => String -> Mode -> Comm kind -> Rank -> Tag -> b -> IO (Request ())
isendWith call mode comm rank tag b = do
  lent <- lendOut b
  begin (sending call mode comm rank tag lent) (done lent)
{-# INLINE isendWith #-}

-- | Send. It returns when the memory may be changed again, which for a small message may be
-- before it is received; see 'ssend'.
--
-- [Blocks]: parks the thread until the operation is complete.
-- [Throws]: 'MPIError'.
-- [Source]: MPI 3.1, section 3.4.
send :: SendBuffer b => Comm kind -> Rank -> Tag -> b -> IO ()
send = sendWith "send" Standard
{-# INLINE send #-}

-- | Send, and return when the receiver has begun to receive.
--
-- [Blocks]: parks the thread until the operation is complete.
-- [Throws]: 'MPIError'.
ssend :: SendBuffer b => Comm kind -> Rank -> Tag -> b -> IO ()
ssend = sendWith "ssend" Synchronous
{-# INLINE ssend #-}

-- | Send, where the matching receive has already started; otherwise the behaviour is undefined.
--
-- [Blocks]: parks the thread until the operation is complete.
-- [Throws]: 'MPIError'.
rsend :: SendBuffer b => Comm kind -> Rank -> Tag -> b -> IO ()
rsend = sendWith "rsend" Ready
{-# INLINE rsend #-}

-- | Send a copy: returns at once. Unlike with MPI's own @MPI_Bsend@ no buffer has to be attached.
--
-- [Cost]: a copy of the message.
-- [Blocks]: never.
-- [Throws]: 'MPIError': 'UnsupportedOperation' for memory with a derived type.
bsend :: SendBuffer b => Comm kind -> Rank -> Tag -> b -> IO ()
bsend comm rank tag b = do
  lent <- lendOut b
  -- The copy would have to include the bytes that such a type leaves out.
  when (isDerived (lentType lent)) $
    wrong UnsupportedOperation "bsend" "memory with a derived type is not copied; use isend"
  copy <- newBuffer (lentBytes lent)
  copyBytes (bufferPtr copy) (lentAt lent) (lentBytes lent)
  lentDone lent
  let copied = lent {lentAt = bufferPtr copy, lentDone = keepAlive copy}
  void (begin (sending "bsend" Standard comm rank tag copied) (done copied))

-- Memory for one value.
forValue :: forall a. Element a => IO (Buffer, Ptr a, Lent)
forValue = do
  memory <- newBuffer (elementBytes @a)
  let p = castPtr (bufferPtr memory) :: Ptr a
  lent <- lendOut (p, 1 :: Int)
  pure (memory, p, lent)
{-# INLINE forValue #-}

-- | Send one value.
--
-- [Blocks]: as 'send'.
-- [Throws]: 'MPIError'.
sendValue :: Element a => Comm kind -> Rank -> Tag -> a -> IO ()
sendValue comm rank tag a = do
  (memory, p, lent) <- forValue
  poke p a
  performSend (sending "sendValue" Standard comm rank tag lent) (keepAlive memory)
{-# INLINE sendValue #-}

-- | 'send', without waiting. The memory must not be changed before the request is complete.
--
-- [Blocks]: never.
-- [Throws]: 'MPIError', when it is waited for.
isend :: SendBuffer b => Comm kind -> Rank -> Tag -> b -> IO (Request ())
isend = isendWith "isend" Standard
{-# INLINE isend #-}

-- | 'ssend', without waiting.
--
-- [Blocks]: never.
issend :: SendBuffer b => Comm kind -> Rank -> Tag -> b -> IO (Request ())
issend = isendWith "issend" Synchronous
{-# INLINE issend #-}

-- | 'rsend', without waiting.
--
-- [Blocks]: never.
irsend :: SendBuffer b => Comm kind -> Rank -> Tag -> b -> IO (Request ())
irsend = isendWith "irsend" Ready
{-# INLINE irsend #-}

-- Receiving ------------------------------------------------------------------

received :: Lent -> Outcome -> IO (Next Status)
received lent outcome = Finished (statusOf outcome) <$ lentDone lent
{-# INLINE received #-}

-- A receive that can be given up.
receive :: String -> Comm kind -> Rank -> Tag -> Lent -> Receive
receive call comm rank tag lent = Receive (receiving call comm rank tag lent) (lentDone lent) (keepReceived comm lent)
{-# INLINE receive #-}

-- | Receive into memory, which may be larger than the message.
--
-- [Blocks]: parks the thread until the operation is complete.
-- [Masking]: interruptible while it waits for a message; then the memory is the caller's again, and a message that came
-- in that moment is kept for the next receive.
-- [Throws]: 'MPIError': 'Truncated' if the message is larger.
recv :: ReceiveBuffer b => Comm kind -> Rank -> Tag -> b -> IO Status
recv comm rank tag b = do
  lent <- lendIn b
  receiveNow (receive "recv" comm rank tag lent) (pure . statusOf)
{-# INLINE recv #-}

-- | 'recv' until a deadline; 'Nothing' if it passes before a message has come, which then is the next
-- receive's.
--
-- [Blocks]: parks the thread until the operation is complete or the deadline has passed, by up to a millisecond.
-- [Masking]: as 'recv'.
-- [Throws]: as 'recv'.
recvUntil :: ReceiveBuffer b => Comm kind -> Rank -> Tag -> Deadline -> b -> IO (Maybe Status)
recvUntil comm rank tag deadline b = do
  lent <- lendIn b
  receiveUntil deadline (receive "recvUntil" comm rank tag lent) (pure . statusOf)

-- | 'recv', without waiting. The memory must not be read before the request is complete.
--
-- [Blocks]: never.
-- [Throws]: 'MPIError', when it is waited for.
irecv :: ReceiveBuffer b => Comm kind -> Rank -> Tag -> b -> IO (Request Status)
irecv comm rank tag b = do
  lent <- lendIn b
  begin (receiving "irecv" comm rank tag lent) (received lent)
{-# INLINE irecv #-}

-- The part of a new vector that the message filled.
frozen :: forall a. Element a => String -> Mutable.IOVector a -> Outcome -> IO (Vector a, Status)
frozen call v outcome = do
  let status = statusOf outcome
      (n, left) = statusBytes status `quotRem` max 1 (elementBytes @a)
  when (left /= 0) (wrong SizeMismatch call (show (statusBytes status) ++ " bytes are no whole number of elements of " ++ show (elementBytes @a)))
  whole <- Vector.unsafeFreeze v
  pure (Vector.unsafeTake (max 0 n) whole, status)

-- | Receive at most the given number of elements into a new vector of the message's length.
--
-- [Blocks]: as 'recv'.
-- [Throws]: 'MPIError': 'Truncated' if there are more, 'SizeMismatch' if the message is not
-- a whole number of elements.
recvNew :: Element a => Comm kind -> Rank -> Tag -> Int -> IO (Vector a, Status)
recvNew comm rank tag most = do
  v <- newVector "recvNew" most
  lent <- lendIn v
  receiveNow (receive "recvNew" comm rank tag lent) (frozen "recvNew" v)

-- | 'recvNew', without waiting.
--
-- [Blocks]: never.
irecvNew :: Element a => Comm kind -> Rank -> Tag -> Int -> IO (Request (Vector a, Status))
irecvNew comm rank tag most = do
  v <- newVector "irecvNew" most
  lent <- lendIn v
  begin (receiving "irecvNew" comm rank tag lent) (filledNew "irecvNew" v lent)

filledNew :: Element a => String -> Mutable.IOVector a -> Lent -> Outcome -> IO (Next (Vector a, Status))
filledNew call v lent outcome = lentDone lent >> Finished <$> frozen call v outcome
{-# INLINE filledNew #-}

newVector :: Element a => String -> Int -> IO (Mutable.IOVector a)
newVector call n
  | n < 0 = wrong InvalidCount call (show n ++ " elements")
  | otherwise = Mutable.unsafeNew n

-- | Receive one value.
--
-- [Blocks]: as 'recv'.
-- [Throws]: 'MPIError': 'SizeMismatch' if the message is shorter.
recvValue :: forall a kind. Element a => Comm kind -> Rank -> Tag -> IO (a, Status)
recvValue comm rank tag = do
  (memory, p, lent) <- forValue
  receiveNow (receive "recvValue" comm rank tag lent) $ \outcome -> do
    let status = statusOf outcome
    when (statusBytes status /= elementBytes @a) $
      wrong SizeMismatch "recvValue" (show (statusBytes status) ++ " bytes, not the " ++ show (elementBytes @a) ++ " of the value")
    a <- peek p
    keepAlive memory
    pure (a, status)
{-# INLINE recvValue #-}

-- | Send to one rank while receiving from another (or the same), so a ring cannot deadlock.
--
-- [Blocks]: until both are complete.
-- [Throws]: 'MPIError'.
sendrecv :: (SendBuffer b, ReceiveBuffer c) => Comm kind -> Rank -> Tag -> b -> Rank -> Tag -> c -> IO Status
sendrecv comm to sendTag b from recvTag c = mask $ \restore -> do
  lent <- lendIn c
  let wanted = receive "sendrecv" comm from recvTag lent
  begun <- beginReceive wanted
  restore (send comm to sendTag b) `onException` either giveUp (receiveKeep wanted) begun
  outcome <- either finishReceive pure begun
  if outcomeError outcome /= 0
    then failWith "sendrecv" (fromIntegral (outcomeError outcome))
    else statusOf outcome <$ restored restore (receiveKeep wanted outcome)

-- Steps of collectives -------------------------------------------------------

-- | 'send' as a step of a collective.
leaving :: SendBuffer b => Comm kind -> Rank -> Tag -> b -> Steps ()
leaving comm rank tag b = do
  lent <- liftIO (lendOut b)
  performing (sending "send" Standard comm rank tag lent) (done lent)

-- | 'recv' as a step of a collective.
arriving :: ReceiveBuffer b => Comm kind -> Rank -> Tag -> b -> Steps Status
arriving comm rank tag b = do
  lent <- liftIO (lendIn b)
  performing (receiving "recv" comm rank tag lent) (received lent)

-- | 'recvNew' as a step of a collective.
arrivingNew :: Element a => Comm kind -> Rank -> Tag -> Int -> Steps (Vector a, Status)
arrivingNew comm rank tag most = do
  v <- liftIO (newVector "recvNew" most)
  lent <- liftIO (lendIn v)
  performing (receiving "recvNew" comm rank tag lent) (filledNew "recvNew" v lent)

-- Looking first --------------------------------------------------------------

-- | Wait for a message without receiving it. Another thread may receive it first; 'mprobe'
-- prevents that and waits more cheaply.
--
-- [Blocks]: polls; sleeps of up to a millisecond between polls hold an OS thread.
-- [Throws]: 'MPIError'.
probe :: Comm kind -> Rank -> Tag -> IO Status
probe comm rank tag = go (0 :: Int)
  where
    go n =
      iprobe comm rank tag >>= \case
        Just status -> pure status
        -- A thousand polls without a pause, then with sleeps that grow to a millisecond.
        Nothing -> nap (microseconds (min 1000 (max 0 (n - 1000)))) >> go (n + 1)

-- | Poll for a message, without receiving it.
--
-- [Blocks]: never.
-- [Throws]: 'MPIError'.
iprobe :: Comm kind -> Rank -> Tag -> IO (Maybe Status)
iprobe comm (Rank rank) (Tag tag) = allocaBytesAligned outcomeBytes 8 $ \p -> do
  any' <- c_iprobe (commHandle comm) (fromIntegral rank) (fromIntegral tag) p
  outcome <- peekOutcome p
  case any' of
    0 -> pure Nothing
    1 -> pure (Just (statusOf outcome))
    _ -> failWith "iprobe" (fromIntegral (outcomeError outcome))

-- | A message that a matched probe found. It can be received once, only through this value.
data Found = Found !(Ref (Maybe Int64)) !Status

-- | The found message's sender, tag and size.
foundStatus :: Found -> Status
foundStatus (Found _ status) = status

-- | The implementation's message, once.
takeFound :: String -> Found -> IO Int64
takeFound call (Found ref _) =
  modifyRef ref ((,) Nothing) >>= maybe (wrong InvalidRequest call "this message was received before") pure

found :: Outcome -> IO Found
found outcome = do
  ref <- newRef (Just (outcomeMessage outcome))
  pure (Found ref (statusOf outcome))

-- | Wait for a message and reserve it: only the result can receive it.
--
-- [Blocks]: parks the thread until the operation is complete.
-- [Masking]: interruptible while it waits; then it reserves nothing.
-- [Throws]: 'MPIError'.
-- [Source]: MPI 3.1, section 3.8.2.
mprobe :: Comm kind -> Rank -> Tag -> IO Found
mprobe comm rank tag = receiveNow (Receive (probing "mprobe" comm rank tag) (pure ()) (keepFound (matched "mprobe") comm)) found

-- | 'mprobe', without waiting.
--
-- [Blocks]: never.
improbe :: Comm kind -> Rank -> Tag -> IO (Request Found)
improbe comm rank tag = begin (probing "improbe" comm rank tag) (fmap Finished . found)

-- | Receive a found message.
--
-- [Blocks]: parks the thread until the message has arrived.
-- [Masking]: an exception that comes while it waits is thrown when the message has arrived, which can then be received again.
-- [Throws]: 'MPIError': 'Truncated' if the memory is too small, 'InvalidRequest' the second time.
mrecv :: ReceiveBuffer b => Found -> b -> IO Status
mrecv message b = do
  lent <- lendIn b
  receiveFound "mrecv" message lent (pure . statusOf)

receiveFound :: String -> Found -> Lent -> (Outcome -> IO a) -> IO a
receiveFound call message@(Found ref _) lent finish = mask $ \restore -> do
  m <- takeFound call message
  let wanted = Receive (matched call m lent) (lentDone lent) (\outcome -> keepForMatched lent outcome >>= writeRef ref . Just)
  outcome <- receiveMatched wanted
  a <- finish outcome
  a <$ restored restore (receiveKeep wanted outcome)

-- | Receive a found message into a new vector of its length.
--
-- [Blocks]: parks the thread until the message has arrived.
-- [Masking]: as 'mrecv'.
-- [Throws]: 'MPIError': as 'recvNew'.
mrecvNew :: forall a. Element a => Found -> IO (Vector a, Status)
mrecvNew message = do
  let bytes = statusBytes (foundStatus message)
      each = max 1 (elementBytes @a)
  when (bytes `rem` each /= 0) (wrong SizeMismatch "mrecvNew" (show bytes ++ " bytes are no whole number of elements of " ++ show each))
  v <- newVector "mrecvNew" (bytes `quot` each)
  lent <- lendIn v
  receiveFound "mrecvNew" message lent (frozen "mrecvNew" v)

-- | The number of elements in a message; 'Nothing' if its size is not a whole number of them.
statusCount :: forall a. Element a => Status -> Maybe Int
statusCount status
  | statusBytes status < 0 || left /= 0 = Nothing
  | otherwise = Just n
  where
    (n, left) = statusBytes status `quotRem` max 1 (elementBytes @a)
