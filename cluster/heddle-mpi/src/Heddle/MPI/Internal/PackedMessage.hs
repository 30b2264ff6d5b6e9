-- |
-- Module      : Heddle.MPI.Internal.PackedMessage
-- Description : Values as messages
-- Stability   : internal, exempt from the version policy
--
-- Sends what 'encode' makes as one message, its large parts from where they lie, and receives
-- a message of any length by a matched probe into one buffer, which the value then shares.
--
-- Cost: sending, an encoding; receiving, a probe and a buffer.
-- Owner: an outgoing message keeps its parts until it is sent.
module Heddle.MPI.Internal.PackedMessage
  ( -- * Sending
    sendPacked,
    isendPacked,
    bytesOf,

    -- * Receiving
    Packed,
    recvPacked,
    receivingPacked,
    unpack,
    decodeOr,
  )
where

import Control.Monad (forM_, (>=>))
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
import Heddle.MPI.Internal.Message
import Heddle.MPI.Internal.Point
import Heddle.MPI.Internal.Request
import Heddle.MPI.Internal.Types
import Heddle.Prim.Buffer (Buffer, bufferPtr, foreignAddress, keepAlive, newBuffer)
import Heddle.Prim.Exception
import Heddle.Prim.Global (unsafeGlobal)

-- What is sent: one piece of memory, or a type that lists several; and what gives that back.
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

-- What is between parts: of no importance.
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

-- | Begin to send a value.
isendPacked :: Message a => String -> Mode -> Comm kind -> Rank -> Tag -> a -> IO (Request ())
isendPacked call mode comm rank tag a = encode a >>= isendOutgoing call mode comm rank tag
{-# INLINE isendPacked #-}

isendOutgoing :: String -> Mode -> Comm kind -> Rank -> Tag -> Outgoing -> IO (Request ())
isendOutgoing call mode comm rank tag out = mask_ $ do
  (lent, free) <- lendOutgoing out
  -- The type may be freed as soon as the send has begun.
  let start = (sending call mode comm rank tag lent) {startWeight = weigh (outgoingBytes out)}
  begin start (\_ -> Finished () <$ lentDone lent) <* free

-- | The whole message of a value in one buffer.
bytesOf :: Message a => a -> IO (Buffer, Int)
bytesOf a = encode a >>= flatten

-- | A message that has arrived.
data Packed = Packed !Buffer !Int !Status

-- Receive what a probe has found.
matchedPacked :: String -> Outcome -> IO (Next Packed)
matchedPacked call found' = do
  let n = fromIntegral (outcomeReceived found')
      status = statusOf found'
  memory <- newBuffer (max 16 n)
  let lent = Lent (bufferPtr memory) n byteType 1 (keepAlive memory) (pure ())
  pure (Then (matched call (outcomeMessage found') lent) (\_ -> Finished (Packed memory n status) <$ keepAlive memory))

-- | Receive a message of any length.
recvPacked :: String -> Comm kind -> Rank -> Tag -> IO Packed
recvPacked call comm rank tag = perform (probing call comm rank tag) (matchedPacked call)
{-# INLINE recvPacked #-}

-- | Begin to receive a value: it is decoded by who finds it complete.
receivingPacked :: Message a => String -> Comm kind -> Rank -> Tag -> IO (Request (a, Status))
receivingPacked call comm rank tag = begin (probing call comm rank tag) (\found' -> matchedPacked call found' >>= opened)
  where
    opened = \case
      Finished packed -> Finished <$> unpack call packed
      Then start rest -> pure (Then start (rest >=> opened))
      Awaiting slot start rest -> pure (Awaiting slot start (rest >=> opened))
      Gone -> pure Gone

-- | The value in it.
--
-- [Throws]: 'MPIError' of class 'DecodeError'.
unpack :: Message a => String -> Packed -> IO (a, Status)
unpack call (Packed memory n status) = do
  a <- decodeOr call (" from rank " ++ show (statusSource status) ++ " with tag " ++ show (statusTag status)) memory 0 n
  pure (a, status)
{-# INLINE unpack #-}

-- | The value in so many bytes of a buffer, from an offset; with words for where they come from.
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
