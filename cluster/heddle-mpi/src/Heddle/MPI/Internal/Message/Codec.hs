-- |
-- Module      : Heddle.MPI.Internal.Message.Codec
-- Description : How values of a type are written and read
-- Stability   : internal, exempt from the version policy
--
-- A 'Codec' says how many bytes of a header a value takes and how it is written and read.
-- A 'Writer' fills a header that was measured before, and collects the large parts; a
-- 'Reader' walks a message and never leaves it.
--
-- Invariant: a reader checks each length against what is left, and moves past the bytes,
-- before anything is allocated for them: what a decoder allocates is a multiple of the
-- bytes it passed. See Note [Nothing from nothing].
-- Owner: writers and readers belong to the call that made them, hence to one thread.
-- Cost: a step is a load, a comparison and a store; nothing is allocated.
module Heddle.MPI.Internal.Message.Codec
  ( -- * Codecs
    Codec (..),
    measured,
    written,
    received,
    mapCodec,
    checkedCodec,
    emptyCodec,

    -- * Parts
    Part (..),
    largeBytes,
    aligned,

    -- * Writing
    Writer,
    newWriter,
    claim,
    writerDone,

    -- * Reading
    Reader,
    readerBuffer,
    newReader,
    consume,
    consumeCount,
    readerDone,
    Refused (..),
    refuse,

    -- * Runs of bytes
    runBytes,
    writeInside,
    writeRun,
    readRun,
    writeBytes,
    readBytes,
  )
where

import Control.Monad (when)
import Control.Monad.Primitive (RealWorld)
import Data.Bits (clearBit, complement, setBit, testBit, (.&.))
import Data.ByteString (ByteString)
import Data.ByteString.Internal (create, fromForeignPtr, toForeignPtr)
import Data.Primitive.ByteArray (MutableByteArray, newByteArray, readByteArray, writeByteArray)
import Data.Primitive.MutVar (MutVar, newMutVar, readMutVar, writeMutVar)
import Data.Word (Word64, Word8)
import Foreign.ForeignPtr (ForeignPtr, plusForeignPtr)
import Foreign.Marshal.Utils (copyBytes)
import Foreign.Ptr (Ptr, minusPtr, plusPtr)
import Foreign.Storable (peekByteOff, pokeByteOff)
import GHC.ForeignPtr (unsafeWithForeignPtr)
import Heddle.Prim.Buffer (Buffer, bufferForeign, bufferPtr)
import Heddle.Prim.Exception (Exception, bug, throwIO)

-- | The way in which values of a type are written into a message and read from it.
--
-- One constructor is chosen for a type, never for a value, and without looking at the
-- codecs of the fields of a sum's constructors or of list elements: types may be recursive.
data Codec a
  = -- | Every value takes so many bytes, anywhere in the header: how to write one at an
    -- address, and how to read one. Writing evaluates the value.
    Fixed !Int !(Ptr Word8 -> a -> IO ()) !(Ptr Word8 -> IO a)
  | -- | The bytes of the header that a value takes, at least one; how to write exactly
    -- those; how to read them.
    Varying !(a -> Int) !(Writer -> a -> IO ()) !(Reader -> IO a)
  | -- | Another library encodes the value as a byte string, which is done only once.
    Blob !(a -> ByteString) !(ByteString -> IO (Either String a))

-- | The bytes of the header that a value takes.
--
-- [Cost]: that of the codec; may evaluate the value.
-- [Units]: bytes.
measured :: Codec a -> a -> Int
measured codec x = case codec of
  Fixed n _ _ -> n
  Varying size _ _ -> size x
  Blob _ _ -> 8
{-# INLINE measured #-}

-- | Write a value.
--
-- [Cost]: that of the codec; evaluates the value fully.
-- [Throws]: what evaluating the value throws.
written :: Codec a -> Writer -> a -> IO ()
written codec w x = case codec of
  Fixed n put _ -> do
    at <- claim w n
    put at x
  Varying _ put _ -> put w x
  Blob make _ -> writeBlob w (make x)
{-# INLINE written #-}

-- | Read a value.
--
-- [Cost]: that of the codec.
-- [Throws]: 'Refused', which the decoder catches.
received :: Codec a -> Reader -> IO a
received codec r = case codec of
  Fixed n _ get -> consume r n >>= get
  Varying _ _ get -> get r
  Blob _ parse -> readBlob r parse
{-# INLINE received #-}

-- | Convert a codec by an isomorphism. Both functions must be total.
--
-- [Cost]: O(1), and the functions for each value.
mapCodec :: (a -> b) -> (b -> a) -> Codec a -> Codec b
mapCodec there back = \case
  Fixed n put get -> Fixed n (\at x -> put at (back x)) (\at -> get at >>= \x -> pure $! there x)
  Varying size put get ->
    Varying (size . back) (\w x -> put w (back x)) (\r -> get r >>= \x -> pure $! there x)
  Blob make parse -> Blob (make . back) (fmap (fmap there) . parse)
{-# INLINE mapCodec #-}

-- | Like 'mapCodec', for a conversion that can fail when reading: it then says what was expected.
--
-- [Cost]: O(1), and the functions for each value.
checkedCodec :: (a -> Either String b) -> (b -> a) -> Codec a -> Codec b
checkedCodec there back = \case
  Fixed n put get ->
    Fixed n (\at x -> put at (back x)) (\at -> get at >>= either (refuse at) (pure $!) . there)
  Varying size put get ->
    Varying (size . back) (\w x -> put w (back x)) $ \r -> do
      at <- consume r 0
      x <- get r
      either (refuse at) (pure $!) (there x)
  Blob make parse -> Blob (make . back) (fmap (>>= there) . parse)
{-# INLINE checkedCodec #-}

-- | The codec of a type without values.
--
-- [Cost]: O(1).
emptyCodec :: Codec a
emptyCodec =
  Varying (`seq` 1) (\_ x -> x `seq` pure ()) $ \r -> do
    at <- consume r 0
    refuse at "expected nothing: the type has no values"

-- | Memory that is sent in place.
data Part = Part
  { -- | Its offset in the message, a multiple of 16.
    partOffset :: !Int,
    -- | Its size in bytes.
    partBytes :: !Int,
    -- | Its memory, pinned.
    partMemory :: !(ForeignPtr Word8)
  }

-- | The least size of a byte string or vector that is a separate part.
--
-- [Units]: bytes.
largeBytes :: Int
largeBytes = 4096

-- | The next multiple of 16.
--
-- [Units]: bytes.
aligned :: Int -> Int
aligned n = (n + 15) .&. complement 15
{-# INLINE aligned #-}

-- | Fills the header of one message.
data Writer = Writer
  { -- | The next address to be written; after it, the offset where the parts end.
    writerState :: !(MutableByteArray RealWorld),
    -- | The end of the header: an instance that writes more than it measured stops there.
    writerEnd :: !(Ptr Word8),
    -- | The parts so far, the last one first.
    writerParts :: !(MutVar RealWorld [Part])
  }

-- | A writer for a header of the given size at the address.
--
-- [Cost]: O(1).
newWriter :: Ptr Word8 -> Int -> IO Writer
newWriter at bytes = do
  state <- newByteArray 16
  writeByteArray state 0 at
  writeByteArray state 1 (8 + bytes)
  Writer state (at `plusPtr` bytes) <$> newMutVar []

-- | The next bytes of the header, to be written by the caller.
--
-- [Cost]: O(1); 0 bytes.
-- [Throws]: 'Heddle.Prim.Exception.HeddleBug' if more is written than was measured.
-- [Units]: bytes.
claim :: Writer -> Int -> IO (Ptr Word8)
claim w n = do
  at <- readByteArray (writerState w) 0
  when (n > writerEnd w `minusPtr` at) mismeasured
  writeByteArray (writerState w) 0 (at `plusPtr` n :: Ptr Word8)
  pure at
{-# INLINE claim #-}

mismeasured :: IO a
mismeasured = bug "a Message instance writes other bytes than it measured"
{-# NOINLINE mismeasured #-}

-- | The parts in order, and the bytes of the whole message.
--
-- [Cost]: O(parts).
-- [Throws]: 'Heddle.Prim.Exception.HeddleBug' if less was written than was measured.
writerDone :: Writer -> IO ([Part], Int)
writerDone w = do
  at <- readByteArray (writerState w) 0
  when (at /= writerEnd w) mismeasured
  parts <- readMutVar (writerParts w)
  bytes <- readByteArray (writerState w) 1
  pure (reverse parts, bytes)

-- | The state of decoding one message.
data Reader = Reader
  { -- | The buffer, which slices share.
    readerBuffer :: !Buffer,
    -- | Where the message starts in the buffer.
    readerStart :: !Int,
    -- | The bytes of the message.
    readerBytes :: !Int,
    -- | The end of the header.
    readerEnd :: !(Ptr Word8),
    -- | The next address to be read; after it, the offset in the message where the parts
    -- that were read end.
    readerState :: !(MutableByteArray RealWorld)
  }

-- | A reader for a message in a buffer, given its offset, its size and the size of its header.
--
-- [Cost]: O(1).
newReader :: Buffer -> Int -> Int -> Int -> IO Reader
newReader buffer start bytes header = do
  state <- newByteArray 16
  let at = bufferPtr buffer `plusPtr` (start + 8)
  writeByteArray state 0 (at :: Ptr Word8)
  writeByteArray state 1 (8 + header)
  pure (Reader buffer start bytes (at `plusPtr` header) state)

-- | Skip a number of bytes of the header, 0 or more, and return their address.
--
-- [Cost]: O(1); 0 bytes.
-- [Throws]: 'Refused'.
-- [Units]: bytes.
consume :: Reader -> Int -> IO (Ptr Word8)
consume r n = do
  at <- readByteArray (readerState r) 0
  when (n > readerEnd r `minusPtr` at) (missing at n (readerEnd r `minusPtr` at))
  writeByteArray (readerState r) 0 (at `plusPtr` n :: Ptr Word8)
  pure at
{-# INLINE consume #-}

missing :: Ptr Word8 -> Int -> Int -> IO a
missing at n left = refuse at ("expected " ++ counted n "more byte" ++ ", found " ++ show left)
{-# NOINLINE missing #-}

-- | Read the number of the following elements, each of which takes at least the given number of
-- bytes, one or more.
--
-- [Cost]: O(1); 0 bytes.
-- [Throws]: 'Refused' if so many elements cannot be in what is left.
consumeCount :: Reader -> Int -> IO Int
consumeCount r each = do
  at <- consume r 8
  n <- peekByteOff at 0
  let left = readerEnd r `minusPtr` at - 8
  when (n < 0 || n > left `quot` each) $
    refuse at ("expected the number of elements in " ++ counted left "byte" ++ ", found " ++ show n)
  pure n
{-# INLINE consumeCount #-}

-- | Check that the whole message has been read.
--
-- [Cost]: O(1).
-- [Throws]: 'Refused' if something is left over.
readerDone :: Reader -> IO ()
readerDone r = do
  at <- readByteArray (readerState r) 0
  when (at /= readerEnd r) $
    refuse at ("expected the end of the header, found " ++ counted (readerEnd r `minusPtr` at) "byte")
  parts <- readByteArray (readerState r) 1
  when (parts /= readerBytes r) $
    refuse
      (bufferPtr (readerBuffer r) `plusPtr` (readerStart r + parts))
      ("expected the end of the message, found " ++ counted (readerBytes r - parts) "byte")

-- | Stops a decoder, which catches it. It carries the address of the wrong byte and the reason.
data Refused = Refused !(Ptr Word8) String
  deriving stock (Show)

instance Exception Refused

-- | The bytes at the address are not what was expected.
--
-- [Throws]: 'Refused', always.
refuse :: Ptr Word8 -> String -> IO a
refuse at reason = throwIO (Refused at reason)
{-# NOINLINE refuse #-}

counted :: Int -> String -> String
counted n what = show n ++ " " ++ what ++ (if n == 1 then "" else "s")

-- | The bytes of the header that a run of so many bytes takes.
--
-- [Units]: bytes.
runBytes :: Int -> Int
runBytes n
  | n < largeBytes = 8 + n
  | otherwise = 8
{-# INLINE runBytes #-}

-- | Write a run inside the header, whatever its length.
--
-- [Cost]: O(1), and the copying.
-- [Units]: bytes; 8 more than these are claimed.
writeInside :: Writer -> Int -> (Ptr Word8 -> IO ()) -> IO ()
writeInside w n copy = do
  at <- claim w (8 + n)
  pokeByteOff at 0 n
  copy (at `plusPtr` 8)
{-# INLINE writeInside #-}

-- | Write a run: copied into the header, or pinned memory as a part.
--
-- [Cost]: O(1), and the copying of a small one.
-- [Units]: bytes; 'runBytes' of them are claimed.
writeRun :: Writer -> Int -> (Ptr Word8 -> IO ()) -> IO (ForeignPtr Word8) -> IO ()
writeRun w n copy memory
  | n < largeBytes = writeInside w n copy
  | otherwise = memory >>= writePart w n
{-# INLINE writeRun #-}

-- | A run as a part. It is not empty.
writePart :: Writer -> Int -> ForeignPtr Word8 -> IO ()
writePart w n memory = do
  at <- claim w 8
  pokeByteOff at 0 (setBit (fromIntegral n) 63 :: Word64)
  end <- readByteArray (writerState w) 1
  parts <- readMutVar (writerParts w)
  let offset = aligned end
  writeMutVar (writerParts w) (Part offset n memory : parts)
  writeByteArray (writerState w) 1 (offset + n)

-- | Read a run. The first function gets the address of a small run, which it copies; the
-- second gets the offset of a large run in the buffer. Both also get the run's size.
--
-- [Cost]: O(1), and that of the function.
-- [Throws]: 'Refused' if the run is not in the message.
readRun :: Reader -> (Ptr Word8 -> Int -> IO a) -> (Int -> Int -> IO a) -> IO a
readRun r small large = do
  at <- consume r 8
  word <- peekByteOff at 0
  if testBit (word :: Word64) 63
    then do
      let n = fromIntegral (clearBit word 63)
      end <- readByteArray (readerState r) 1
      let offset = aligned end
          start = readerStart r + offset
      when (n == 0 || n > readerBytes r - offset) (outside at n (readerBytes r - offset))
      writeByteArray (readerState r) 1 (offset + n)
      if n < largeBytes
        then small (bufferPtr (readerBuffer r) `plusPtr` start) n
        else large start n
    else do
      let n = fromIntegral word
      memory <- consume r n
      small memory n
{-# INLINE readRun #-}

outside :: Ptr Word8 -> Int -> Int -> IO a
outside at n left =
  refuse at $
    "expected the length of a part, 1 to " ++ show (max 0 left) ++ " bytes, found " ++ show n
{-# NOINLINE outside #-}

-- | Write a byte string, as a run.
--
-- [Cost]: O(1) for a large one, which is not copied.
writeBytes :: Writer -> ByteString -> IO ()
writeBytes w bytes = writeRun w n (copyForeign memory n) (pure memory)
  where
    (memory, n) = bytesMemory bytes

-- | Read a byte string: a large one is a slice of the buffer.
--
-- [Cost]: O(1) for a large one, which is not copied.
-- [Throws]: 'Refused'.
readBytes :: Reader -> IO ByteString
readBytes r =
  readRun
    r
    (\at n -> create n (\to -> copyBytes to at n))
    (\offset n -> pure $! fromForeignPtr (bufferForeign (readerBuffer r) offset) 0 n)

-- | A byte string whose length was not known when the header was measured: a part, even
-- if it is small. An empty part might start after the end of the message.
writeBlob :: Writer -> ByteString -> IO ()
writeBlob w bytes
  | n == 0 = writeInside w 0 (const (pure ()))
  | otherwise = writePart w n memory
  where
    (memory, n) = bytesMemory bytes
{-# NOINLINE writeBlob #-}

readBlob :: Reader -> (ByteString -> IO (Either String a)) -> IO a
readBlob r parse = do
  at <- consume r 0
  bytes <- readBytes r
  parse bytes >>= either (refuse at) (pure $!)
{-# NOINLINE readBlob #-}

bytesMemory :: ByteString -> (ForeignPtr Word8, Int)
bytesMemory bytes = case toForeignPtr bytes of
  (memory, offset, n) -> (memory `plusForeignPtr` offset, n)
{-# INLINE bytesMemory #-}

copyForeign :: ForeignPtr Word8 -> Int -> Ptr Word8 -> IO ()
copyForeign memory n to = unsafeWithForeignPtr memory (\from -> copyBytes to from n)
{-# INLINE copyForeign #-}

-- Note [Nothing from nothing]
-- ~~~~~~~~~~~~~~~~~~~~~~~~~~~
-- A sender may send any length, so a length alone must not make the reader allocate or
-- loop. Elements of fixed size are claimed together (number times size, at most what is
-- left) before the first is decoded. Elements of varying size are collected in a list, and an
-- array is allocated only after all are read: otherwise each level of a recursive type could
-- claim all remaining bytes and get an array for them. Every element takes at least one byte:
-- in a list, values of a type without bytes, such as (), are padded to one.
