{-# LANGUAGE PatternSynonyms #-}
{-# LANGUAGE RankNTypes #-}

-- |
-- Module      : Heddle.Filter.Internal.Source
-- Description : Where the bytes come from
-- Stability   : internal, exempt from the version policy
--
-- Files, standard input, or anything that can be read, one after the other as one stream.
--
-- Cost: a system call for each read.
-- Owner: whoever reads; a source is open while it is read.
module Heddle.Filter.Internal.Source
  ( Source (..),
    Opened (..),
    SourceError (..),
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
import Heddle.Prim.Errno (Errno (..), pattern EAGAIN, pattern EINTR, pattern EISDIR)
import Heddle.Prim.Exception
import Heddle.Prim.File (FileKind (..), FileStatus (..), closeFile, fileStatus, openFile, readAt, readOnlyWaiting, readSome)
import System.IO (SeekMode (..))
import System.Posix.IO.ByteString (fdSeek)
import System.Posix.Types (Fd (..))

-- | Something to be read.
data Source = Source
  { -- | For messages.
    sourceName :: !ByteString,
    -- | Open it for a while.
    withSource :: !(forall a. (Opened -> IO a) -> IO a)
  }

-- | A source that is open.
data Opened = Opened
  { -- | What comes next, up to so many bytes; 0 at the end.
    openedRead :: !(Ptr Word8 -> Int -> IO Int),
    -- | A regular file: its descriptor, where its reading begins, and where it ends.
    openedFile :: !(Maybe (Fd, Int64, Int64)),
    -- | Does its last byte end a row? Asked of regular files.
    openedWhole :: !(IO Bool)
  }

-- | It cannot be opened or read.
data SourceError = SourceError !ByteString !Errno
  deriving stock (Eq, Show)

instance Exception SourceError

-- | A file by its name.
--
-- [Blocks]: opening and reading hold an OS thread; a pipe or a terminal parks.
-- [Throws]: 'SourceError'.
fileSource :: ByteString -> Source
fileSource name = Source name $ \use -> bracket (opening name) closeFile (\fd -> opened name fd >>= use)

-- | Standard input, which is called @(standard input)@.
--
-- [Blocks]: as 'fileSource'.
-- [Throws]: 'SourceError'.
standardInput :: Source
standardInput = Source name (\use -> opened name (Fd 0) >>= use)
  where
    name = Char8.pack "(standard input)"

-- | Anything that can be read.
readerSource :: ByteString -> (Ptr Word8 -> Int -> IO Int) -> Source
readerSource name reading = Source name (\use -> use (Opened reading Nothing (pure False)))

-- | Read from it, while it is open: what comes next, up to so many bytes; 0 at the end.
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
    -- A system call cannot be interrupted, waiting can; some devices cannot be waited for.
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
