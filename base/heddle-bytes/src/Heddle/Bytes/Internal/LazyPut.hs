-- |
-- Module      : Heddle.Bytes.Internal.LazyPut
-- Description : Runs a builder into a lazy byte string
-- Stability   : internal; exempt from the version policy
--
-- The thread that needs a result of at most one chunk writes it. A separate thread writes a larger one, and stops after
-- each batch of chunks until the next batch is needed; see Note [Lazy chunks].
--
-- Cost: a small result is copied once. The first chunk of a larger one is written twice; it takes a thread, and two
-- thread switches for each 512 KiB.
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
import Data.ByteString.Internal qualified as ByteString (create, fromForeignPtr)
import Data.ByteString.Lazy qualified as Lazy
import Data.ByteString.Lazy.Internal qualified as Lazy (chunk)
import Data.Word (Word8)
import Foreign.Marshal.Utils (copyBytes)
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

-- | The size of a chunk, and of the buffers in 'scratches'.
--
-- [Units]: bytes.
chunkSize :: Int
chunkSize = 32768

-- | Buffers for small results. If an exception keeps a writer from returning one, the collector frees it.
scratches :: Pool Buffer
scratches = unsafeGlobal (newPool 16 (newBuffer chunkSize))
{-# NOINLINE scratches #-}

-- | Write all of a small result, or the first chunk, at once; further chunks when they are needed.
--
-- May run within a thunk: an asynchronous exception suspends the thunk and does not become its value.
lazyChunks :: Put -> IO Lazy.ByteString
lazyChunks put = do
  scratch <- borrow scratches
  sink <- newSink (\_ _ _ -> throwIO TooLong) (\_ _ _ -> throwIO TooLong)
  setSinkEnd sink (bufferPtr scratch `plusPtr` bufferSize scratch)
  result <- try (runPut put sink (bufferPtr scratch))
  case result of
    Right end -> do
      let used = end `minusPtr` bufferPtr scratch
      whole <- ByteString.create used (\to -> copyBytes to (bufferPtr scratch) used)
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

-- | Hands over one batch from the writing thread to the thunk that needs it.
data Link = Link
  { -- | Has a token when the batch is needed.
    linkWanted :: !WaitCell,
    -- | 'Nothing' until the batch is complete; written once.
    linkBatch :: !(Ref (Maybe Batch)),
    -- | Has a token when the batch is complete.
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

-- | Start the writing thread.
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

-- | The chunks from this link on.
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

-- | Write the whole result, and stop after each full batch until the next one is needed.
produce :: Put -> Link -> IO ()
produce put first = do
  place <- newRef first
  chunks <- newRef []
  buffer <- newBuffer chunkSize
  current <- newRef buffer
  -- The limit of chunks in this batch, and their number so far.
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

-- | The most chunks of a batch.
largestBatch :: Int
largestBatch = 16

-- | The part of a buffer before this address as a chunk.
closed :: Ptr Word8 -> Buffer -> IO ByteString
closed p buffer
  | 2 * used < bufferSize buffer = withBuffer buffer (\from -> ByteString.create used (\to -> copyBytes to from used))
  | otherwise = pure (ByteString.fromForeignPtr (bufferForeign buffer 0) 0 used)
  where
    used = p `minusPtr` bufferPtr buffer

-- Note [Lazy chunks]
-- ~~~~~~~~~~~~~~~~~~
-- A Put is a function that runs to its end. Unlike the steps of bytestring's Builder, it has no continuation to keep
-- when a buffer is full; giving it one would cost an allocation for each piece. A thread's stack serves as the
-- continuation: a separate thread writes a large result, and waits whenever a batch is full.
--
-- Why it is sound:
--
--   * A Put has no effects, so it may run more than once. The thread that needs the result writes the first chunk, and
--     the writer writes it again if there is more. Most results are small and need no thread; from a program's main
--     thread, which is bound, each switch would cost tens of microseconds.
--   * Sharing: each batch is written once, into the link of one thunk of the lazy string. The request for it is a
--     token, and giving it twice does no harm. A thunk that is interrupted while it waits is suspended; the thread that
--     enters it next finds the batch or waits for it.
--   * The writer catches an exception of the Put; the reader throws it after the chunks that were full before. An
--     exception that interrupts a waiting reader does not reach the writer, which completes its batch.
--   * An abandoned string: only its thunks refer to the keeper. When the collector finds the keeper unreachable, the
--     writer is stopped, even within an endless piece.
--   * Memory: a batch has at most 16 chunks, and slices count as chunks.
