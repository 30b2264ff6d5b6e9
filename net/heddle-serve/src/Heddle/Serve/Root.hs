-- |
-- Module      : Heddle.Serve.Root
-- Description : The directory that is served
-- Stability   : internal, exempt from the version policy
--
-- The root's path is looked up again at most once a second, so that a symbolic link can be
-- switched to another directory while the server runs.
--
-- Cost: a cached hit pays nothing; a miss, or a check of a cached file, one load.
-- Owner: the thread that opened it; any thread may use it.
module Heddle.Serve.Root
  ( Root,
    openRoot,
    noRoot,
    closeRoot,
    refreshRoot,
    currentRoot,
  )
where

import Control.Monad (unless, void, when)
import Data.ByteString (ByteString)
import Data.ByteString.Char8 qualified as C
import Heddle.Prim.Atomic (Words, compareAndSet, newWords, readWord, writeWord)
import Heddle.Prim.Clock (Deadline (..), monotonicNow)
import Heddle.Prim.Errno (checked)
import Heddle.Prim.Exception (mask_)
import Heddle.Prim.File
import System.Posix.Types (Fd)

-- | A path, and an open descriptor of the directory that it names.
data Root = Root
  { rootPath :: !ByteString,
    -- | Keeps its number for the root's life; see 'refreshRoot'.
    rootFd :: !Fd,
    -- | Word 0: when the path was last looked up (monotonic nanoseconds). Shared by all
    -- capabilities; written at most once a second.
    rootWords :: !Words
  }

-- | Open a root directory; close it with 'closeRoot'.
--
-- [Blocks]: holds an OS thread.
-- [Throws]: 'IOError': ENOENT, ENOTDIR, EACCES.
openRoot :: ByteString -> IO Root
openRoot path = mask_ $ do
  ws <- newWords 1
  Deadline now <- monotonicNow
  writeWord ws 0 now
  fd <- fromIntegral <$> checked (C.unpack path) (openFile path directoryOnly)
  pure (Root path fd ws)

-- | A root that has no files: opening one beneath it fails with EBADF.
--
-- [Blocks]: never.
noRoot :: IO Root
noRoot = Root C.empty (-1) <$> newWords 1

-- | Close the root's descriptor.
closeRoot :: Root -> IO ()
closeRoot root = unless (rootFd root < 0) (void (closeFile (rootFd root)))

-- | Look the root's path up now. If it names another directory, that directory atomically
-- replaces the old one under the same descriptor number: a request that is opening a file
-- continues in the directory it began with. If the path names no directory at this moment,
-- the old one stays.
--
-- [Blocks]: holds an OS thread.
-- [Threads]: any.
refreshRoot :: Root -> IO ()
refreshRoot root = unless (rootFd root < 0) . mask_ $ do
  r <- openFile (rootPath root) directoryOnly
  when (r >= 0) $ do
    let new = fromIntegral r
    same <- (==) <$> identity new <*> identity (rootFd root)
    unless same (void (replaceFile new (rootFd root)))
    void (closeFile new)
  where
    identity fd = either (const Nothing) (\s -> Just (statusDevice s, statusInode s)) <$> fileStatus fd

-- | The descriptor of the root as it was at most a second before the given time.
--
-- [Blocks]: holds an OS thread while it looks the path up; otherwise never.
-- [Threads]: any.
currentRoot :: Root -> Deadline -> IO Fd
currentRoot root (Deadline now) = do
  before <- readWord (rootWords root) 0
  when (now - before >= 1000000000) $ do
    won <- compareAndSet (rootWords root) 0 before now
    when won (refreshRoot root)
  pure (rootFd root)
