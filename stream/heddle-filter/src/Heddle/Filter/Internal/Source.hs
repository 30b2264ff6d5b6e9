{-# LANGUAGE PatternSynonyms #-}
{-# LANGUAGE RankNTypes #-}

-- |
-- Module      : Heddle.Filter.Internal.Source
-- Description : Sources of bytes
-- Stability   : internal, exempt from the version policy
--
-- Files, standard input, or any reader; a plan reads several as one stream.
--
-- Cost: a system call for each read.
-- Owner: the thread that reads; a source is open while it is read.
module Heddle.Filter.Internal.Source
  ( Source (..),
    Opened (..),
    fileSource,
    standardInput,
    readerSource,
    readingFrom,
  )
where

import Control.Concurrent (threadWaitRead)
import Control.Monad (when)
import Data.ByteString (ByteString)
import Data.ByteString.Char8 qualified as Char8
import Data.Int (Int64)
import Data.Word (Word8)
import Foreign.Marshal.Alloc (allocaBytes)
import Foreign.Ptr (Ptr)
import Foreign.Storable (peek)
import Heddle.Filter.Internal.Exception (SourceError (..))
import Heddle.Prim.Errno (Errno (..), pattern EAGAIN, pattern EINTR, pattern EISDIR)
import Heddle.Prim.Exception
import Heddle.Prim.File (FileKind (..), FileStatus (..), closeFile, fileStatus, openFile, readAt, readOnlyWaiting, readSome)
import System.IO (SeekMode (..))
import System.Posix.IO.ByteString (fdSeek)
import System.Posix.Types (Fd (..))

-- | Something that can be opened and read.
data Source = Source
  { -- | For messages.
    sourceName :: !ByteString,
    -- | Open it, and close it afterwards.
    withSource :: !(forall a. (Opened -> IO a) -> IO a)
  }

-- | A source that is open.
data Opened = Opened
  { -- | Read up to this many bytes; 0 at the end.
    openedRead :: !(Ptr Word8 -> Int -> IO Int),
    -- | Of a regular file: its descriptor, the offset that reading begins at, and its size.
    openedFile :: !(Maybe (Fd, Int64, Int64)),
    -- | Is its last byte a newline? (Regular files only.)
    openedWhole :: !(IO Bool)
  }

-- | The file with this path.
--
-- [Blocks]: opening and reading hold an OS thread; waiting for a pipe or a terminal parks.
-- [Throws]: 'SourceError'.
fileSource :: ByteString -> Source
fileSource name = Source name $ \use -> bracket (opening name) closeFile (\fd -> opened name fd >>= use)

-- | Standard input, named @(standard input)@ in messages.
--
-- [Blocks]: as 'fileSource'.
-- [Throws]: 'SourceError'.
standardInput :: Source
standardInput = Source name (\use -> opened name (Fd 0) >>= use)
  where
    name = Char8.pack "(standard input)"

-- | A reader, with a name for messages. It is called with a buffer and its size, and answers
-- how many bytes it has put there; 0 at the end.
readerSource :: ByteString -> (Ptr Word8 -> Int -> IO Int) -> Source
readerSource name reading = Source name (\use -> use (Opened reading Nothing (pure False)))

-- | Open a source, and use its reader: it reads up to this many bytes, and answers 0 at the
-- end.
--
-- [Blocks]: as the source.
-- [Throws]: as the source.
readingFrom :: Source -> ((Ptr Word8 -> Int -> IO Int) -> IO a) -> IO a
readingFrom source use = withSource source (use . openedRead)

opening :: ByteString -> IO Fd
opening name = do
  r <- openFile name readOnlyWaiting
  if r < 0 then throwIO (SourceError name (Errno (negate r))) else pure (Fd (fromIntegral r))

opened :: ByteString -> Fd -> IO Opened
opened name fd =
  fileStatus fd >>= \case
    Left e -> failed e
    Right status -> case statusKind status of
      Directory -> throwIO (SourceError name EISDIR)
      RegularFile -> do
        here <- fromIntegral <$> fdSeek fd RelativeSeek 0
        pure (Opened (reading False) (Just (fd, here, statusSize status)) (endsRow (statusSize status)))
      OtherKind -> pure (Opened (reading True) Nothing (pure False))
  where
    failed e = throwIO (SourceError name (Errno (negate e)))
    -- Wait first, where that is possible, because a system call cannot be interrupted; some
    -- devices cannot be waited for.
    reading waits p n = do
      when waits (threadWaitRead fd `catch` \(_ :: IOException) -> pure ())
      r <- readSome fd p n
      if r >= 0
        then pure r
        else case Errno (negate r) of
          EINTR -> reading waits p n
          EAGAIN -> reading True p n
          e -> throwIO (SourceError name e)
    endsRow size
      | size <= 0 = pure True
      | otherwise = allocaBytes 1 $ \p -> do
        r <- readAt fd p 1 (size - 1)
        if r == 1 then (== 0x0a) <$> peek p else pure False
