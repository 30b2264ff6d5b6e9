{-# OPTIONS_HADDOCK not-home #-}

-- |
-- Module      : Heddle.MPI.Internal.Message
-- Description : Whole messages, as the transport sends and receives them
-- Stability   : internal, exempt from the version policy
--
-- Encodes a value as a message, and decodes a message. The layout is described in
-- "Heddle.MPI.Message".
--
-- Invariant: decoding is total: it returns an answer for any bytes.
-- Owner: the caller owns the result of 'encode'; the buffer given to 'decode' becomes part of
-- the value and must not be written to any more.
-- Cost: encoding a number makes one allocation of pinned memory; no system call.
module Heddle.MPI.Internal.Message
  ( -- * Sending
    Outgoing (..),
    Part (..),
    encode,
    flatten,

    -- * Receiving
    decode,
    decodeAt,
    DecodeProblem (..),

    -- * The class
    Message (..),
    Codec,
  )
where

import Control.Monad (when)
import Data.Bits (unsafeShiftL, unsafeShiftR, (.&.), (.|.))
import Data.Word (Word64, Word8)
import Foreign.Marshal.Utils (copyBytes, fillBytes)
import Foreign.Ptr (Ptr, minusPtr, plusPtr)
import Foreign.Storable (peekByteOff, pokeByteOff)
import GHC.ForeignPtr (unsafeWithForeignPtr)
import Heddle.MPI.Internal.Error (ErrorClass (..), wrong)
import Heddle.MPI.Internal.Message.Bytes (bytesCodec)
import Heddle.MPI.Internal.Message.Class (Message (..))
import Heddle.MPI.Internal.Message.Codec
import Heddle.Prim.Buffer (Buffer, bufferPtr, bufferSize, keepAlive, newBuffer)
import Heddle.Prim.Exception (bug, try)

-- | A message about to be sent.
data Outgoing = Outgoing
  { -- | The header, preceded by its length and the format mark, eight bytes.
    outgoingHeader :: !Buffer,
    -- | The size of the header, including those eight bytes.
    outgoingHeaderBytes :: !Int,
    -- | The parts, in order. The padding between them, up to 15 bytes, has no meaning.
    outgoingParts :: ![Part],
    -- | The size of the whole message.
    outgoingBytes :: !Int
  }

-- | The message of a value, which is evaluated fully. Large byte strings and vectors are
-- not copied: the parts are their memory.
--
-- [Cost]: one buffer of the header's size, filled in one pass after one that measures.
-- [Blocks]: never, apart from evaluating the value.
-- [Throws]: what evaluating the value throws; 'MPIError' of class 'TooLarge' if it takes 4 GiB or
-- more apart from its large byte strings and vectors.
-- [Threads]: any.
encode :: Message a => a -> IO Outgoing
encode x = case codec of
  Fixed n put _ -> do
    header <- started n
    put (bufferPtr header `plusPtr` 8) x
    keepAlive header
    pure (Outgoing header (8 + n) [] (8 + n))
  Varying size put _ -> encodeVarying size put x
  Blob make _ -> case bytesCodec of
    Varying size put _ -> encodeVarying size put $! make x
    _ -> bug "the size of a byte string's message does not vary"
{-# INLINEABLE encode #-}

encodeVarying :: (a -> Int) -> (Writer -> a -> IO ()) -> a -> IO Outgoing
encodeVarying size put x = do
  let !n = size x
  when (n > 0xffffffff) . wrong TooLarge "encode" $
    "the value takes " ++ show n ++ " bytes apart from its large byte strings and vectors, and a message has room for 4294967295.\n"
      ++ "  Send it in pieces, or as vectors of numbers"
  header <- started n
  w <- newWriter (bufferPtr header `plusPtr` 8) n
  put w x
  keepAlive header
  (parts, bytes) <- writerDone w
  pure (Outgoing header (8 + n) parts bytes)

-- | A buffer for a header of the given size, with the eight bytes before it.
started :: Int -> IO Buffer
started n = do
  header <- newBuffer (8 + n)
  pokeByteOff (bufferPtr header) 0 (fromIntegral n .|. (formatMark `unsafeShiftL` 32))
  pure header
{-# INLINE started #-}

-- | The letters "HMP1".
formatMark :: Word64
formatMark = 0x31504d48

-- | The whole message in one buffer: the header's, if there are no parts.
--
-- [Cost]: O(1) without parts, otherwise a copy.
-- [Blocks]: never.
-- [Units]: bytes.
flatten :: Outgoing -> IO (Buffer, Int)
flatten out
  | null (outgoingParts out) = pure (outgoingHeader out, outgoingBytes out)
  | otherwise = do
    whole <- newBuffer (outgoingBytes out)
    let at = bufferPtr whole
    copyBytes at (bufferPtr (outgoingHeader out)) (outgoingHeaderBytes out)
    keepAlive (outgoingHeader out)
    let copyParts !_ [] = pure ()
        copyParts end (part : parts) = do
          -- Zero the padding, so that no old content of this memory is sent.
          fillBytes (at `plusPtr` end) 0 (partOffset part - end)
          unsafeWithForeignPtr (partMemory part) $ \from ->
            copyBytes (at `plusPtr` partOffset part) from (partBytes part)
          copyParts (partOffset part + partBytes part) parts
    copyParts (outgoingHeaderBytes out) (outgoingParts out)
    keepAlive whole
    pure (whole, outgoingBytes out)

-- | Why bytes are not a message of the type.
data DecodeProblem = DecodeProblem
  { -- | The offset in the message of the byte in question.
    problemOffset :: !Int,
    -- | The text: what was expected there, what was found, and the bytes of the message.
    problemReason :: !String
  }
  deriving stock (Eq, Show)

-- | The value of a message that fills the buffer's first bytes. Large byte strings and
-- vectors are slices of the buffer; small ones are copied.
--
-- [Cost]: linear in the header.
-- [Blocks]: never.
-- [Units]: bytes.
-- [Threads]: any.
decode :: Message a => Buffer -> Int -> IO (Either DecodeProblem a)
decode buffer = decodeAt buffer 0
{-# INLINE decode #-}

-- | Like 'decode', for a message that starts at an offset of the buffer, a multiple of 16.
--
-- [Cost]: linear in the header.
-- [Blocks]: never.
-- [Units]: bytes: the offset, and the length of the message.
-- [Threads]: any.
decodeAt :: Message a => Buffer -> Int -> Int -> IO (Either DecodeProblem a)
decodeAt buffer start bytes
  | start < 0 || start .&. 15 /= 0 || bytes > bufferSize buffer - start =
    problem 0 "expected a message inside the buffer, at a multiple of 16, found it elsewhere"
  | bytes < 8 = problem 0 "expected 8 bytes of a message, found less"
  | otherwise = do
    word <- peekByteOff (bufferPtr buffer) start
    let header = fromIntegral (word .&. 0xffffffff :: Word64)
    if word `unsafeShiftR` 32 /= formatMark
      then problem 4 "expected the format mark HMP1, found another"
      else
        if header > bytes - 8
          then problem 0 ("expected the length of a header, found " ++ show header)
          else do
            answer <- try $ case codec of
              Fixed n _ get -> do
                when (n /= header || n /= bytes - 8) (wrongSize at n header)
                get (at `plusPtr` 8)
              Blob _ _ -> walk header
              Varying {} -> walk header
            keepAlive buffer
            case answer of
              Left (Refused where' reason) -> problem (where' `minusPtr` at) reason
              Right x -> pure (Right x)
  where
    at = bufferPtr buffer `plusPtr` start :: Ptr Word8
    walk header = do
      r <- newReader buffer start bytes header
      x <- received codec r
      readerDone r
      pure x
    problem offset reason =
      pure (Left (DecodeProblem offset (reason ++ " (the message has " ++ show bytes ++ " bytes)")))
{-# INLINEABLE decodeAt #-}

wrongSize :: Ptr Word8 -> Int -> Int -> IO a
wrongSize at n header =
  refuse at ("expected a header and a message of " ++ show n ++ " and " ++ show (8 + n) ++ " bytes, found a header of " ++ show header)
{-# NOINLINE wrongSize #-}
