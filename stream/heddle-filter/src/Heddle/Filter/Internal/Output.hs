{-# LANGUAGE PatternSynonyms #-}

-- |
-- Module      : Heddle.Filter.Internal.Output
-- Description : Where the bytes go
-- Stability   : internal, exempt from the version policy
--
-- A sink that writes to a descriptor, through a buffer. It copies what it keeps, so a piece's
-- memory may be reused after the call.
--
-- Cost: a copy of each piece, and a system call for each 64 KiB.
-- Owner: the thread that pushes.
module Heddle.Filter.Internal.Output
  ( Output,
    newOutput,
    outputSink,
    flushOutput,
    readerGone,
    isOnlyZero,
  )
where

import Control.Concurrent (threadWaitWrite)
import Control.Monad (unless, when)
import Data.ByteString (ByteString)
import Data.ByteString qualified as Bytes
import Data.ByteString.Char8 qualified as Char8
import Data.ByteString.Unsafe qualified as Bytes
import Data.Word (Word8)
import Foreign.Marshal.Utils (copyBytes)
import Foreign.Ptr (Ptr, castPtr, plusPtr)
import Heddle.Filter.Internal.Machine
import Heddle.Prim.Atomic (Ref, newRef, readRef, writeRef)
import Heddle.Prim.Buffer (Buffer, bufferSize, newBuffer, withBuffer)
import Heddle.Prim.Errno (Errno (..), throwErrnoFor, pattern EAGAIN, pattern EINTR, pattern EPIPE)
import Heddle.Prim.File (writeWhole)
import System.Posix.Types (Fd)

-- | A descriptor, and the bytes that are buffered for it.
data Output = Output
  { outputFd :: !Fd,
    outputName :: String,
    outputBuffer :: !Buffer,
    outputFilled :: !(Ref Int),
    -- | False once a write has failed with @EPIPE@.
    outputOpen :: !(Ref Bool),
    -- | How much has been pushed, and the first bytes of it.
    outputTotal :: !(Ref Int),
    outputFirst :: !(Ref ByteString)
  }

-- | An output to a descriptor; the name is for messages.
newOutput :: Fd -> String -> IO Output
newOutput fd name = Output fd name <$> newBuffer 65536 <*> newRef 0 <*> newRef True <*> newRef 0 <*> newRef Bytes.empty

-- | Write what is buffered.
--
-- [Blocks]: holds an OS thread, or parks if the descriptor is non-blocking.
-- [Throws]: 'IOError', except when the reader has gone ('readerGone').
flushOutput :: Output -> IO ()
flushOutput out = do
  n <- readRef (outputFilled out)
  when (n > 0) $ do
    writeRef (outputFilled out) 0
    withBuffer (outputBuffer out) (\p -> writeAll out p n)

writeAll :: Output -> Ptr Word8 -> Int -> IO ()
writeAll out = go
  where
    go p n = unless (n <= 0) $ do
      open <- readRef (outputOpen out)
      when open $ do
        r <- writeWhole (outputFd out) p n
        if r >= 0
          then go (p `plusPtr` r) (n - r)
          else case Errno (negate r) of
            EINTR -> go p n
            EAGAIN -> threadWaitWrite (outputFd out) >> go p n
            EPIPE -> writeRef (outputOpen out) False
            e -> throwErrnoFor ("write to " ++ outputName out) e

-- | The output as a sink. It wants no more once the reader has gone; finishing it flushes it.
outputSink :: Output -> Sink
outputSink out = Sink take' (flushOutput out)
  where
    take' piece = do
      let n = Bytes.length piece
      total <- readRef (outputTotal out)
      when (total < 2) $ do
        first <- readRef (outputFirst out)
        writeRef (outputFirst out) (first <> Bytes.copy (Bytes.take 3 piece))
      writeRef (outputTotal out) $! total + n
      filled <- readRef (outputFilled out)
      let size = bufferSize (outputBuffer out)
      Bytes.unsafeUseAsCString piece $ \from ->
        if filled + n <= size
          then do
            withBuffer (outputBuffer out) (\p -> copyBytes (p `plusPtr` filled) (castPtr from) n)
            writeRef (outputFilled out) (filled + n)
          else do
            flushOutput out
            if n >= size
              then writeAll out (castPtr from) n
              else do
                withBuffer (outputBuffer out) (\p -> copyBytes p (castPtr from) n)
                writeRef (outputFilled out) n
      readRef (outputOpen out)

-- | Has the reader of the pipe or socket gone?
readerGone :: Output -> IO Bool
readerGone out = not <$> readRef (outputOpen out)

-- | Has nothing been pushed, or only the number 0 on a line? Then a command that searches or
-- counts has found nothing.
isOnlyZero :: Output -> IO Bool
isOnlyZero out = do
  total <- readRef (outputTotal out)
  first <- readRef (outputFirst out)
  pure (total == 0 || (total == 2 && first == Char8.pack "0\n"))
