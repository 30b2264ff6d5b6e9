-- |
-- Module      : Heddle.Bytes.Put
-- Description : A builder of bytes
-- Stability   : stable
--
-- A 'Put' is a builder, as in binary and cereal: any number of pieces, written into memory that grows, into a
-- given buffer, or buffer by buffer to an action. A 'Write' is a bounded primitive (bytestring's @BoundedPrim@,
-- blaze-builder's @Write@): a piece whose greatest length is known before it is written, so that pieces joined by
-- '<>' need one check for room.
--
-- Cost: one comparison for each 'write' and a few instructions for each byte; no allocation except the memory
-- that is written.
-- Owner: the function that runs a 'Put' owns the memory. A 'Put' is a value and may be run again.
-- Law (@chunking@): all ways of running a 'Put' give the same bytes.
module Heddle.Bytes.Put
  ( -- * Bounded primitives

    -- | "Heddle.Bytes.Write" has the primitives: numbers, characters, addresses, dates.
    Write,
    writeAtMost,
    pokeWrite,

    -- * Builders
    Put,
    write,
    slice,
    lazySlice,
    shortSlice,
    string,
    text,
    utf8,
    integer,
    natural,
    fromBuilder,

    -- * Lists with separators
    sepBy,
    commaSeparated,

    -- * Running
    toByteString,
    toLazyByteString,
    toBuilder,
    tryPutInto,
    drainTo,
    hPut,
  )
where

import Control.Monad (when)
import Data.ByteString (ByteString)
import Data.ByteString qualified as ByteString
import Data.ByteString.Builder (Builder)
import Data.ByteString.Builder qualified as Builder
import Data.ByteString.Builder.Extra qualified as Builder
import Data.ByteString.Builder.Internal qualified as Builder (builder, runBuilderWith)
import Data.ByteString.Internal qualified as ByteString (create)
import Data.ByteString.Lazy qualified as Lazy
import Data.ByteString.Short (ShortByteString)
import Data.ByteString.Short qualified as Short
import Data.ByteString.Short.Internal qualified as Short (copyToPtr)
import Data.ByteString.Unsafe qualified as ByteString (unsafeUseAsCStringLen)
import Data.Foldable (toList)
import Data.Text (Text)
import Data.Word (Word8)
import Foreign.Marshal.Utils (copyBytes)
import Foreign.Ptr (Ptr, castPtr, minusPtr, plusPtr)
import Heddle.Bytes.Internal.Digits (Digits (..), digitsOf, pokeDigits)
import Heddle.Bytes.Internal.LazyPut (chunkSize, lazyChunks, scratches)
import Heddle.Bytes.Internal.Memory
import Heddle.Bytes.Internal.Sink
import Heddle.Bytes.Internal.TextUnits (maxUnitBytes, wholeSlice)
import Heddle.Bytes.Internal.Utf8 (Utf8 (..), byteCountBetween, pokeBytesBetween)
import Heddle.Bytes.TextArray (textArray)
import Heddle.Bytes.Write
import Heddle.Prim.Atomic (newRef, newWords, readRef, readWord, writeRef, writeWord)
import Heddle.Prim.Buffer
import Heddle.Prim.Exception
import Heddle.Prim.Global (unsafeGlobal)
import Heddle.Prim.Unsafe (unsafePure)
import Numeric.Natural (Natural)
import System.IO (Handle, hPutBuf)
import Prelude hiding (ioError)

-- | The bytes of a lazy string.
--
-- [Cost]: that of 'slice' for each chunk.
lazySlice :: Lazy.ByteString -> Put
lazySlice = foldMap slice . Lazy.toChunks

-- | The bytes of an unpinned string.
--
-- [Cost]: a copy.
shortSlice :: ShortByteString -> Put
shortSlice chunk = go 0
  where
    go from
      | from >= Short.length chunk = mempty
      | otherwise =
        writeBounded count (\p -> Short.copyToPtr chunk from p count >> pure (p `plusPtr` count)) <> go (from + count)
      where
        count = min 8192 (Short.length chunk - from)

-- | Characters in UTF-8, surrogates as U+FFFD.
--
-- [Cost]: a check for each character. Literals and 'text' are faster.
string :: String -> Put
string = foldMap (write . charUtf8)

-- | A text in UTF-8, written in place: no intermediate bytes.
--
-- [Cost]: O(length), by the machine's vectors; where the room may be too small, the bytes are counted first.
--
-- Law (@text@): the bytes are those of Data.Text.Encoding.encodeUtf8.
--
-- >>> toByteString (text "K\246ln")
-- "K\195\182ln"
text :: Text -> Put
text units = case textArray units of
  (array, start, len) -> runningPut (go array start (start + len))
  where
    go array !at !end sink !p
      | at >= end = pure p
      | otherwise = do
        let next = wholeSlice textSlice array at end
        room <- (`minusPtr` p) <$> sinkEnd sink
        if maxUnitBytes * (next - at) <= room
          then poke array at next end sink p room
          else do
            size <- byteCountBetween array at next
            if size <= room
              then poke array at next end sink p room
              else sinkMore sink p size >>= \q -> poke array at next end sink q size
    poke array at next end sink p room = do
      n <- pokeBytesBetween array at next p room
      go array next end sink (p `plusPtr` n)
{-# NOINLINE text #-}

-- | The most units of a text that are written at once: their bytes fit a chunk.
--
-- [Units]: units of the text's array.
textSlice :: Int
textSlice = 8192

-- | Text that is already UTF-8.
--
-- [Cost]: as 'slice'.
utf8 :: Utf8 -> Put
utf8 (Utf8 characters) = slice characters

-- | A number of any size, in decimal.
--
-- [Cost]: that of 'decimal' if it fits a word. A larger number is split in halves by division, to a depth
-- of the logarithm of its digits.
--
-- Law (@show@): the bytes are those of 'show'.
--
-- >>> toByteString (integer (negate (2 ^ 64)))
-- "-18446744073709551616"
integer :: Integer -> Put
integer n
  | n < 0 = write (char7 '-') <> natural (fromInteger (negate n))
  | otherwise = natural (fromInteger n)

-- | A number of any size, 0 or more, in decimal.
--
-- [Cost]: as 'integer'.
--
-- Law (@show@): the bytes are those of 'show'.
natural :: Natural -> Put
natural n
  | n <= 18446744073709551615 = write (decimal (fromIntegral n :: Word))
  | otherwise = case digitsOf n of digits -> writeBounded (digitsBound digits) (`pokeDigits` digits)

-- | The bytes of bytestring's 'Builder'.
--
-- [Cost]: the builder's; its large pieces are treated like slices.
fromBuilder :: Builder -> Put
fromBuilder builder = runningPut (\sink p -> go sink p (Builder.runBuilder builder))
  where
    go sink p writer = do
      end <- sinkEnd sink
      (count, next) <- writer p (end `minusPtr` p)
      let p' = p `plusPtr` count
      case next of
        Builder.Done -> pure p'
        Builder.More need writer' -> sinkMore sink p' need >>= \q -> go sink q writer'
        Builder.Chunk chunk writer' -> runPut (slice chunk) sink p' >>= \q -> go sink q writer'

-- | Write each element by a function, with a separator between two.
--
-- [Cost]: that of the pieces.
--
-- >>> toByteString (sepBy (write (char7 ' ')) (write . decimal) [1 :: Int, 2, 3])
-- "1 2 3"
sepBy :: Foldable t => Put -> (a -> Put) -> t a -> Put
sepBy separator one xs = case toList xs of
  [] -> mempty
  first : others -> one first <> rest others
  where
    rest [] = mempty
    rest (x : more) = separator <> one x <> rest more
{-# INLINE sepBy #-}

-- | As 'sepBy', with commas.
--
-- [Cost]: that of the pieces.
commaSeparated :: Foldable t => (a -> Put) -> t a -> Put
commaSeparated = sepBy (write (char7 ','))
{-# INLINE commaSeparated #-}

-- * Running

-- | The bytes as a strict string.
--
-- [Cost]: up to 2 MiB are written into a reused buffer and copied once; more is written in place, in memory
-- outside the heap that grows without a copy.
toByteString :: Put -> ByteString
toByteString put = unsafePure $ do
  scratch <- borrow scratches
  place <- newRef (Small scratch)
  base <- newWords 1
  let start sink at size = do
        writeWord base 0 (addressOf at)
        setSinkEnd sink (at `plusPtr` size)
      grow sink p need = do
        at <- addressAt <$> readWord base 0
        let used = p `minusPtr` at
        end <- sinkEnd sink
        -- Doubling keeps the number of steps logarithmic.
        let size = max (used + need) (2 * (end `minusPtr` at))
            enlarge = do
              memory <- newMemory size
              to <- memoryAddress memory
              copySlices to at used
              writeRef place (Large memory)
              pure (to, size)
        (at', size') <-
          readRef place >>= \case
            Small buffer
              | used + need <= middleSize -> do
                middle <- borrow middles
                copyBytes (bufferPtr middle) at used
                writeRef place (Middle middle)
                keepAlive buffer
                giveBack scratches buffer
                pure (bufferPtr middle, bufferSize middle)
              | otherwise -> enlarge <* keepAlive buffer <* giveBack scratches buffer
            Middle buffer -> enlarge <* keepAlive buffer <* giveBack middles buffer
            Large memory -> do
              growMemory memory size
              to <- memoryAddress memory
              pure (to, size)
        start sink at' size'
        pure (at' `plusPtr` used)
  sink <- newSink grow (\sink p chunk -> grow sink p (ByteString.length chunk) >>= runPut (slice chunk) sink)
  start sink (bufferPtr scratch) (bufferSize scratch)
  end <- runPut put sink (bufferPtr scratch)
  at <- addressAt <$> readWord base 0
  let used = end `minusPtr` at
      copied pool buffer = do
        result <- ByteString.create used (\to -> copySlices to at used)
        keepAlive buffer
        giveBack pool buffer
        pure result
  readRef place >>= \case
    Small buffer -> copied scratches buffer
    Middle buffer -> copied middles buffer
    Large memory -> finishedMemory memory used
{-# NOINLINE toByteString #-}

-- | The memory that 'toByteString' is writing into.
data Storage
  = Small !Buffer
  | Middle !Buffer
  | Large !Memory

-- | Copy in parts, because a call holds the capability.
copySlices :: Ptr Word8 -> Ptr Word8 -> Int -> IO ()
copySlices !to !from !count
  | count <= chunkSize = copyBytes to from count
  | otherwise = do
    copyBytes to from chunkSize
    copySlices (to `plusPtr` chunkSize) (from `plusPtr` chunkSize) (count - chunkSize)

-- | Buffers for results of medium size. Fresh memory would cost more than the copy, because the system
-- clears each page at its first use. The pool keeps few.
middles :: Pool Buffer
middles = unsafeGlobal (newPool 4 (newBuffer middleSize))
{-# NOINLINE middles #-}

middleSize :: Int
middleSize = 2097152

-- | The bytes as a lazy string of chunks of 32 KiB; larger slices become chunks without a copy. Chunks are written when
-- they are needed, at most 16 ahead, so a string that is consumed incrementally takes half a megabyte at a time. If a
-- piece throws, the exception follows the chunks that were full before.
--
-- [Cost]: the bytes are written once, those of the first chunk twice if there are more; small results are copied. A
-- separate thread writes a result of more than a chunk.
toLazyByteString :: Put -> Lazy.ByteString
toLazyByteString put = unsafePure (lazyChunks put)
{-# NOINLINE toLazyByteString #-}

-- | As a 'Builder', which runs the 'Put' each time it is run.
--
-- [Cost]: that of 'toLazyByteString', and copies of its small chunks.
toBuilder :: Put -> Builder
toBuilder put = Builder.builder $ \step range -> do
  chunks <- lazyChunks put
  Builder.runBuilderWith (Builder.lazyByteString chunks) step range

-- | Write it into this memory, and return the number of bytes. 'Nothing' if they do not fit; any of the
-- buffer's bytes may have been written then.
--
-- [Cost]: the pieces'; a piece whose bound does not fit is written elsewhere and copied.
-- [Units]: bytes.
--
-- Law (@exact@): it fits if and only if it is no longer than the buffer.
tryPutInto :: Buffer -> Put -> IO (Maybe Int)
tryPutInto buffer put = do
  -- Word 0: how much of the buffer is accounted for. Word 1: where the present run of pieces began.
  state <- newWords 2
  aside <- newRef Nothing
  let start = bufferPtr buffer
      goTo sink at size = do
        writeWord state 1 (addressOf at)
        setSinkEnd sink (at `plusPtr` size)
        pure at
      -- Account for the bytes written since the last 'goTo', and copy them if they were written aside.
      settle p = do
        used <- readWord state 0
        at <- addressAt <$> readWord state 1
        let count = p `minusPtr` at
        when (count > bufferSize buffer - used) (throwIO DoesNotFit)
        when (at /= start `plusPtr` used) (copyBytes (start `plusPtr` used) at count)
        readRef aside >>= mapM_ keepAlive
        writeRef aside Nothing
        writeWord state 0 (used + count)
      more sink p need = do
        settle p
        used <- readWord state 0
        if need <= bufferSize buffer - used
          then goTo sink (start `plusPtr` used) (bufferSize buffer - used)
          else do
            other <- newBuffer need
            writeRef aside (Just other)
            goTo sink (bufferPtr other) need
      large sink p chunk = do
        settle p
        used <- readWord state 0
        when (ByteString.length chunk > bufferSize buffer - used) (throwIO DoesNotFit)
        at <- goTo sink (start `plusPtr` used) (bufferSize buffer - used)
        runPut (slice chunk) sink at
  sink <- newSink more large
  _ <- goTo sink start (bufferSize buffer)
  fitted <- handleJust (\DoesNotFit -> Just ()) (\() -> pure False) $ do
    runPut put sink start >>= settle
    pure True
  keepAlive buffer
  if fitted then Just <$> readWord state 0 else pure Nothing

-- | Thrown and caught by 'tryPutInto' alone.
data DoesNotFit = DoesNotFit
  deriving stock (Show)

instance Exception DoesNotFit where
  toException = asyncExceptionToException
  fromException = asyncExceptionFromException

-- | Write it into a buffer of 32 KiB, and call the action with the buffer's contents whenever the next
-- piece does not fit, and at the end. The action runs in this thread. It gets larger slices without a copy.
-- If it throws, nothing further is written.
--
-- The action may use the memory only during the call.
--
-- [Cost]: the pieces', and the action's.
-- [Blocks]: as the action does.
-- [Throws]: what the action throws.
drainTo :: (Ptr Word8 -> Int -> IO ()) -> Put -> IO ()
drainTo give put = do
  buffer <- borrow scratches
  base <- newWords 1
  aside <- newRef Nothing
  let goTo sink at size = do
        writeWord base 0 (addressOf at)
        setSinkEnd sink (at `plusPtr` size)
        pure at
      drain p = do
        at <- addressAt <$> readWord base 0
        when (p /= at) (give at (p `minusPtr` at))
        readRef aside >>= mapM_ keepAlive
        writeRef aside Nothing
      more sink p need = do
        drain p
        if need <= bufferSize buffer
          then goTo sink (bufferPtr buffer) (bufferSize buffer)
          else do
            other <- newBuffer need
            writeRef aside (Just other)
            goTo sink (bufferPtr other) need
      large sink p chunk
        | ByteString.length chunk <= bufferSize buffer = more sink p 0 >>= runPut (slice chunk) sink
        | otherwise = do
          drain p
          ByteString.unsafeUseAsCStringLen chunk (\(from, count) -> give (castPtr from) count)
          goTo sink (bufferPtr buffer) (bufferSize buffer)
  sink <- newSink more large
  _ <- goTo sink (bufferPtr buffer) (bufferSize buffer)
  runPut put sink (bufferPtr buffer) >>= drain
  keepAlive buffer
  giveBack scratches buffer

-- | Write it to a handle.
--
-- [Cost]: as 'drainTo'; the handle's own buffer is bypassed.
-- [Blocks]: as 'hPutBuf' does.
-- [Throws]: as 'hPutBuf' does.
hPut :: Handle -> Put -> IO ()
hPut handle = drainTo (hPutBuf handle)
