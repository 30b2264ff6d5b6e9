-- |
-- Module      : Heddle.MPI.Internal.PackedMessage
-- Description : Values as messages
-- Stability   : internal, exempt from the version policy
--
-- Sends an encoded value as one message, its large parts in place, and receives a message of any
-- length by a matched probe into one buffer, which the value then shares.
--
-- Cost: sending, an encoding; receiving, a probe and a buffer.
-- Owner: an outgoing message keeps its parts until it is sent.
module Heddle.MPI.Internal.PackedMessage
  ( -- * Sending
    sendPacked,
    isendPacked,
    bytesOf,
    leavingPacked,
    ileavingPacked,

    -- * Receiving
    Packed,
    recvPacked,
    recvUnpacked,
    recvUnpackedUntil,
    keepPacked,
    receivingPacked,
    arrivingPacked,
    unpack,
    decodeOr,
  )
where

import Control.Monad (forM_, when, (>=>))
import Control.Monad.IO.Class (liftIO)
import Data.Int (Int64)
import Data.Word (Word8)
import Foreign.C.Types (CInt (..))
import Foreign.ForeignPtr (touchForeignPtr)
import Foreign.Marshal.Alloc (alloca)
import Foreign.Marshal.Array (withArrayLen)
import Foreign.Ptr (Ptr, nullPtr, ptrToIntPtr)
import Foreign.Storable (peek, poke)
import Heddle.MPI.Internal.Buffer
import Heddle.MPI.Internal.Error
import Heddle.MPI.Internal.Foreign
import Heddle.MPI.Internal.GivenUp
import Heddle.MPI.Internal.Message
import Heddle.MPI.Internal.Point
import Heddle.MPI.Internal.Request
import Heddle.MPI.Internal.Steps
import Heddle.MPI.Internal.Types
import Heddle.Prim.Buffer (Buffer, bufferPtr, foreignAddress, keepAlive, newBuffer)
import Heddle.Prim.Clock (Deadline)
import Heddle.Prim.Exception
import Heddle.Prim.Global (unsafeGlobal)

-- The memory to send: one piece, or a type that lists several; and the action that frees the type.
lendOutgoing :: Outgoing -> IO (Lent, IO ())
lendOutgoing out
  | null (outgoingParts out) = pure (Lent (bufferPtr header) (outgoingBytes out) byteType 1 (keepAlive header) (pure ()), pure ())
  | otherwise = do
    type' <- alloca $ \made -> do
      poke made 0
      withArrayLen (map snd pieces) $ \n lengths ->
        withArrayLen (map (address . fst) pieces) $ \_ offsets ->
          check "send" (c_type_indexed (fromIntegral n) lengths offsets bytes made)
      peek made
    pure (Lent nullPtr 1 (Datatype type') (outgoingBytes out) keep (pure ()), check "send" (c_type_free type'))
  where
    Datatype bytes = byteType
    header = outgoingHeader out
    address = fromIntegral . ptrToIntPtr :: Ptr Word8 -> Int64
    pieces = (bufferPtr header, fromIntegral (outgoingHeaderBytes out)) : after (outgoingHeaderBytes out) (outgoingParts out)
    after _ [] = []
    after end (part : parts) =
      [(bufferPtr gap, fromIntegral (partOffset part - end)) | partOffset part > end]
        ++ (foreignAddress (partMemory part), fromIntegral (partBytes part)) :
      after (partOffset part + partBytes part) parts
    keep = keepAlive header >> forM_ (outgoingParts out) (touchForeignPtr . partMemory) >> keepAlive gap

-- The padding between parts; its content has no meaning.
gap :: Buffer
gap = unsafeGlobal (newBuffer 16)
{-# NOINLINE gap #-}

-- | Send a value.
sendPacked :: Message a => String -> Mode -> Comm kind -> Rank -> Tag -> a -> IO ()
sendPacked call mode comm rank tag a = do
  out <- encode a
  if null (outgoingParts out)
    then do
      let header = outgoingHeader out
          lent = Lent (bufferPtr header) (outgoingBytes out) byteType 1 (keepAlive header) (pure ())
      performSend (sending call mode comm rank tag lent) (keepAlive header)
    else isendOutgoing call mode comm rank tag out >>= wait
{-# INLINE sendPacked #-}

-- | Start sending a value.
isendPacked :: Message a => String -> Mode -> Comm kind -> Rank -> Tag -> a -> IO (Request ())
isendPacked call mode comm rank tag a = encode a >>= isendOutgoing call mode comm rank tag
{-# INLINE isendPacked #-}

isendOutgoing :: String -> Mode -> Comm kind -> Rank -> Tag -> Outgoing -> IO (Request ())
isendOutgoing call mode comm rank tag out = mask_ $ do
  (lent, free) <- lendOutgoing out
  -- MPI permits freeing the type once the send has started.
  let start = (sending call mode comm rank tag lent) {startWeight = weigh (outgoingBytes out)}
  begin start (\_ -> Finished () <$ lentDone lent) <* free

-- | Send a value as a step of a collective; if encoding it throws, the other value instead.
leavingPacked :: (Message a, Message b) => String -> Comm kind -> Rank -> Tag -> a -> b -> Steps ()
leavingPacked call comm rank tag a other = do
  (out, _) <- encoded a other
  let header = outgoingHeader out
      lent = Lent (bufferPtr header) (outgoingBytes out) byteType 1 (keepAlive header) (pure ())
  if null (outgoingParts out)
    then performing (sending call Standard comm rank tag lent) (\_ -> Finished () <$ keepAlive header)
    else liftIO (isendOutgoing call Standard comm rank tag out) >>= waiting

-- | 'leavingPacked', without waiting; and what encoding the value has thrown.
ileavingPacked :: (Message a, Message b) => String -> Comm kind -> Rank -> Tag -> a -> b -> Steps (Request (), Maybe SomeException)
ileavingPacked call comm rank tag a other = do
  (out, problem) <- encoded a other
  request <- liftIO (isendOutgoing call Standard comm rank tag out)
  pure (request, problem)

encoded :: (Message a, Message b) => a -> b -> Steps (Outgoing, Maybe SomeException)
encoded a other = computing $ ((\out -> (out, Nothing)) <$> encode a) `catchSync` \e -> (\out -> (out, Just e)) <$> encode other

-- | The whole message of a value in one buffer.
bytesOf :: Message a => a -> IO (Buffer, Int)
bytesOf a = encode a >>= flatten

-- | A message that has arrived.
data Packed = Packed !Buffer !Int !Status

-- Receive a message that a probe found.
matchedPacked :: String -> Outcome -> IO (Next Packed)
matchedPacked call found' = do
  let n = fromIntegral (outcomeReceived found')
      status = statusOf found'
  memory <- newBuffer (max 16 n)
  let lent = Lent (bufferPtr memory) n byteType 1 (keepAlive memory) (pure ())
  pure (Then (matched call (outcomeMessage found') lent) (\_ -> Finished (Packed memory n status) <$ keepAlive memory))

-- The probe of a receive, which keeps what it found if it is given up.
anyLength :: String -> Comm kind -> Rank -> Tag -> Receive
anyLength call comm rank tag = Receive (probing call comm rank tag) (pure ()) (keepFound (matched call) comm)
{-# INLINE anyLength #-}

-- Receive the message that it found. Masked.
filled :: String -> Comm kind -> Outcome -> IO Packed
filled call comm found' = do
  let n = fromIntegral (outcomeReceived found')
  memory <- newBuffer (max 16 n)
  let lent = Lent (bufferPtr memory) n byteType 1 (keepAlive memory) (pure ())
  _ <- receiveMatched (Receive (matched call (outcomeMessage found') lent) (keepAlive memory) (keepReceived comm lent))
  pure (Packed memory n (statusOf found'))

-- | Receive a message of any length.
--
-- [Masking]: as 'Heddle.MPI.Internal.GivenUp.receiveNow'.
recvPacked :: String -> Comm kind -> Rank -> Tag -> IO Packed
recvPacked call comm rank tag = mask $ \restore -> do
  packed <- receiveMasked call comm rank tag
  packed <$ restored restore (keepPacked comm packed)

receiveMasked :: String -> Comm kind -> Rank -> Tag -> IO Packed
receiveMasked call comm rank tag = receiveNow (anyLength call comm rank tag) (filled call comm)
{-# INLINE receiveMasked #-}

-- | Receive a value. The message is kept if an exception comes from another thread before its value is there.
--
-- [Masking]: as 'Heddle.MPI.Internal.GivenUp.receiveNow'; the value is decoded unmasked.
recvUnpacked :: Message a => String -> Comm kind -> Rank -> Tag -> IO (a, Status)
recvUnpacked call comm rank tag = mask $ \restore -> do
  packed <- receiveMasked call comm rank tag
  unpackedOrKept restore call comm packed
{-# INLINE recvUnpacked #-}

unpackedOrKept :: Message a => (IO (a, Status) -> IO (a, Status)) -> String -> Comm kind -> Packed -> IO (a, Status)
unpackedOrKept restore call comm packed =
  restore (unpack call packed) `catch` \e -> do
    when (isAsynchronous e) (keepPacked comm packed)
    throwIO e
{-# INLINE unpackedOrKept #-}

-- | 'recvUnpacked' until a deadline.
recvUnpackedUntil :: Message a => Deadline -> String -> Comm kind -> Rank -> Tag -> IO (Maybe (a, Status))
recvUnpackedUntil deadline call comm rank tag = mask $ \restore ->
  receiveUntil deadline (anyLength call comm rank tag) (filled call comm)
    >>= traverse (unpackedOrKept restore call comm)

-- | Keep a message for the next receive.
keepPacked :: Comm kind -> Packed -> IO ()
keepPacked comm (Packed memory n status) =
  uninterruptibleMask_ (keepBytes comm (Lent (bufferPtr memory) n byteType 1 (keepAlive memory) (pure ())) status)

-- | Start receiving a value. The thread that finds the message complete decodes it.
receivingPacked :: Message a => String -> Comm kind -> Rank -> Tag -> IO (Request (a, Status))
receivingPacked call comm rank tag = begin (probing call comm rank tag) (\found' -> matchedPacked call found' >>= opened)
  where
    opened = \case
      Finished packed -> Finished <$> unpack call packed
      Then start rest -> pure (Then start (rest >=> opened))
      Awaiting slot start rest -> pure (Awaiting slot start (rest >=> opened))
      Gone -> pure Gone

-- | Receive a message of any length as a step of a collective.
arrivingPacked :: String -> Comm kind -> Rank -> Tag -> Steps Packed
arrivingPacked call comm rank tag = performing (probing call comm rank tag) (matchedPacked call)

-- | Decode a received message.
--
-- [Throws]: 'MPIError' of class 'DecodeError'.
unpack :: Message a => String -> Packed -> IO (a, Status)
unpack call (Packed memory n status) = do
  a <- decodeOr call (" from rank " ++ show (statusSource status) ++ " with tag " ++ show (statusTag status)) memory 0 n
  pure (a, status)
{-# INLINE unpack #-}

-- | Decode bytes of a buffer, given their offset and number; errors mention the given origin.
--
-- [Throws]: 'MPIError' of class 'DecodeError'.
decodeOr :: Message a => String -> String -> Buffer -> Int -> Int -> IO a
decodeOr call from memory offset n =
  decodeAt memory offset n >>= \case
    Right a -> pure a
    Left problem ->
      wrong DecodeError call $
        "a message of " ++ show n ++ " bytes" ++ from ++ " is not of the type wanted: at byte "
          ++ show (problemOffset problem)
          ++ ": "
          ++ problemReason problem
{-# INLINE decodeOr #-}

foreign import ccall safe "heddle_mpi_type_indexed" c_type_indexed :: Int64 -> Ptr Int64 -> Ptr Int64 -> Int64 -> Ptr Int64 -> IO CInt

foreign import ccall safe "heddle_mpi_type_free" c_type_free :: Int64 -> IO CInt
