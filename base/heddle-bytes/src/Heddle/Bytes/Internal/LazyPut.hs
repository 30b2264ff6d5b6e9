-- |
-- Module      : Heddle.Bytes.Internal.LazyPut
-- Description : Runs a builder into a lazy byte string
-- Stability   : internal; exempt from the version policy
--
-- A result of at most one chunk is written by the thread that needs it. A larger one is written by a thread of its own,
-- which stops after each batch of chunks until the next one is needed; see Note [Lazy chunks].
--
-- Cost: for a small result a copy; for a larger one its first chunk twice, a thread, and two switches of threads for each
-- 512 KiB.
-- Owner: the thunk of the next chunk, which alone can ask the writing thread to go on.
module Heddle.Bytes.Internal.LazyPut
  ( lazyChunks,
    chunkSize,
    scratches,
  )
where

import Control.Monad (unless)
import Data.ByteString (ByteString)
import Data.ByteString qualified as ByteString
import Data.ByteString.Internal qualified as ByteString (create, fromForeignPtr, memcpy)
import Data.ByteString.Lazy qualified as Lazy
import Data.ByteString.Lazy.Internal qualified as Lazy (chunk)
import Data.Word (Word8)
import Foreign.Ptr (Ptr, minusPtr, plusPtr)
import Heddle.Bytes.Internal.Sink
import Heddle.Prim.Atomic (Ref, newRef, readRef, writeRef)
import Heddle.Prim.Buffer
import Heddle.Prim.Exception
import Heddle.Prim.Global (unsafeGlobal)
import Heddle.Prim.Keeper (Keeper, keeping, newKeeper)
import Heddle.Prim.Thread (fork, myThreadId)
import Heddle.Prim.Unsafe (unsafePure)
import Heddle.Prim.WaitCell (WaitCell, newWaitCell, park, unpark)

-- | A chunk of a lazy byte string, and the buffer that small results are written into first.
--
-- [Units]: bytes.
chunkSize :: Int
chunkSize = 32768

-- | Where small results are written first. One that a writer did not give back, because of an exception, is collected.
scratches :: Pool Buffer
scratches = unsafeGlobal (newPool 16 (newBuffer chunkSize))
{-# NOINLINE scratches #-}

-- | The first chunk, or all of a small result, at once; the others when they are needed.
--
-- May run within a thunk: an exception from outside suspends it, and does not become its value.
lazyChunks :: Put -> IO Lazy.ByteString
lazyChunks put = do
  scratch <- borrow scratches
  sink <- newSink (\_ _ _ -> throwIO TooLong) (\_ _ _ -> throwIO TooLong)
  setSinkEnd sink (bufferPtr scratch `plusPtr` bufferSize scratch)
  result <- try (runPut put sink (bufferPtr scratch))
  case result of
    Right end -> do
      let used = end `minusPtr` bufferPtr scratch
      whole <- ByteString.create used (\to -> ByteString.memcpy to (bufferPtr scratch) used)
      keepAlive scratch
      giveBack scratches scratch
      pure (Lazy.fromStrict whole)
    Left e -> do
      keepAlive scratch
      giveBack scratches scratch
      case fromException e of
        Just TooLong -> produced put
        Nothing -> do
          me <- myThreadId
          throwTo me e
          lazyChunks put
{-# NOINLINE lazyChunks #-}

-- | Thrown and caught by 'lazyChunks' alone.
data TooLong = TooLong
  deriving stock (Show)

instance Exception TooLong where
  toException = asyncExceptionToException
  fromException = asyncExceptionFromException

-- | A place for the next batch.
data Link = Link
  { -- | Has a token when the batch is needed.
    linkWanted :: !WaitCell,
    -- | Nothing until the batch is there; written once.
    linkBatch :: !(Ref (Maybe Batch)),
    -- | Has a token when the batch is there.
    linkDone :: !WaitCell
  }

-- | Chunks, and what follows them.
data Batch = Batch [ByteString] !After

data After
  = Next !Link
  | End
  | Failure !SomeException

newLink :: IO Link
newLink = Link <$> newWaitCell <*> newRef Nothing <*> newWaitCell

-- | Start the thread that writes.
produced :: Put -> IO Lazy.ByteString
produced put = do
  first <- newLink
  writer <- fork "bytes/lazy" (produce put first `catch` \Unwanted -> pure ())
  reader <- newKeeper (throwTo writer Unwanted)
  pure (consumed reader first)

-- | Thrown at a writing thread whose result has become unreachable.
data Unwanted = Unwanted
  deriving stock (Show)

instance Exception Unwanted where
  toException = asyncExceptionToException
  fromException = asyncExceptionFromException

-- | The chunks from this place on.
consumed :: Keeper -> Link -> Lazy.ByteString
consumed reader link = unsafePure $ do
  unpark (linkWanted link)
  -- The keeper keeps the writer running as long as this thunk is reachable.
  Batch chunks after <- keeping reader await
  pure . (`append` chunks) $ case after of
    Next next -> consumed reader next
    End -> Lazy.empty
    Failure e -> throw e
  where
    append = foldr Lazy.chunk
    await = readRef (linkBatch link) >>= maybe (park (linkDone link) >> await) pure

-- | Write all of it, and stop wherever a batch is full until the next one is wanted.
produce :: Put -> Link -> IO ()
produce put first = do
  place <- newRef first
  chunks <- newRef []
  buffer <- newBuffer chunkSize
  current <- newRef buffer
  -- How many chunks the batch may have, and has.
  most <- newRef 1
  count <- newRef (0 :: Int)
  let keep chunk = unless (ByteString.null chunk) $ do
        readRef chunks >>= writeRef chunks . (chunk :)
        readRef count >>= writeRef count . (+ 1)
      deliver after = do
        link <- readRef place
        batch <- reverse <$> readRef chunks
        writeRef chunks []
        writeRef count 0
        writeRef (linkBatch link) (Just (Batch batch after))
        unpark (linkDone link)
      close p = readRef current >>= closed p >>= keep
      open sink size = do
        n <- readRef count
        limit <- readRef most
        if n < limit
          then pure ()
          else do
            next <- newLink
            deliver (Next next)
            writeRef place next
            writeRef most (min largestBatch (2 * limit))
            park (linkWanted next)
        new <- newBuffer (max chunkSize size)
        writeRef current new
        setSinkEnd sink (bufferPtr new `plusPtr` bufferSize new)
        pure (bufferPtr new)
      more sink p need = close p >> open sink need
      large sink p chunk
        | ByteString.length chunk <= chunkSize `quot` 4 = more sink p 0 >>= runPut (slice chunk) sink
        | otherwise = close p >> keep chunk >> open sink 0
  sink <- newSink more large
  setSinkEnd sink (bufferPtr buffer `plusPtr` bufferSize buffer)
  (runPut put sink (bufferPtr buffer) >>= close >> deliver End) `catch` (deliver . Failure)
{-# NOINLINE produce #-}

-- | Chunks that are written at once.
largestBatch :: Int
largestBatch = 16

-- | What was written into a buffer, up to here, as a chunk.
closed :: Ptr Word8 -> Buffer -> IO ByteString
closed p buffer
  | 2 * used < bufferSize buffer = withBuffer buffer (\from -> ByteString.create used (\to -> ByteString.memcpy to from used))
  | otherwise = pure (ByteString.fromForeignPtr (bufferForeign buffer 0) 0 used)
  where
    used = p `minusPtr` bufferPtr buffer

-- Note [Lazy chunks]
-- ~~~~~~~~~~~~~~~~~~
-- A Put is a function that runs to its end: unlike the steps of bytestring's Builder it has no continuation that could be
-- kept when a buffer is full, and giving it one would cost each piece an allocation. What can be kept is a stack. So a
-- thread of its own writes a large result, and waits whenever a batch is full.
--
-- Why it is sound:
--
--   * The bytes are those of the Put, whoever writes them and however often: a Put has no effects. So the first chunk may
--     be written by the thread that needs it, and again by the writer if there is more. Most results are small, and
--     need no thread; from a program's main thread, which is bound, each switch would cost tens of microseconds.
--   * Sharing: a batch is written once, into a place of its own, and each thunk of the lazy string has such a place.
--     The request for it is a token, which can be given twice. A thunk that is interrupted while it waits is suspended, and
--     whoever enters it next finds the batch or waits on.
--   * An exception of the Put is caught by the writer and thrown where the string ends because of it, behind all chunks
--     that were full before. One that hits the thread that waits is not seen by the writer, which goes on to the end
--     of its batch.
--   * Nobody needs the rest: the thunks of the string hold a keeper that nobody else holds. When it has been collected,
--     the writer is stopped, also one that is busy with an endless piece.
--   * Memory: a batch has at most 16 chunks, and slices count as chunks.
