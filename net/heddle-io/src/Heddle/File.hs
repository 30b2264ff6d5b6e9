-- |
-- Module      : Heddle.File
-- Description : Files beneath a root, read and sent without stopping a capability
-- Stability   : stable
--
-- A call that may wait for a disk is first tried on data in memory, and otherwise made as a
-- safe call, so that other threads continue. Paths are bytes. A path can never leave the
-- directory that it is opened beneath, by @..@, by a symbolic link or by a mount of @\/proc@.
--
-- Cost: stated at each export.
-- Owner: the thread that opened a file closes it; while it is open, any thread may read and send
-- it.
module Heddle.File
  ( -- * Roots
    Root,
    withRoot,

    -- * Files
    File,
    withFileBeneath,
    fileDescriptor,

    -- * Status
    status,
    FileStatus (..),
    FileKind (..),

    -- * Bytes
    readAt,
    readInto,
    sendFileUntil,
    FileSent (..),

    -- * Low level

    -- | What is opened here stays open until it is closed.
    newRoot,
    closeRoot,
    newFileBeneath,
    closeFile,
  )
where

import Control.Monad (void, when)
import Data.ByteString (ByteString)
import Data.ByteString.Char8 qualified as C
import Data.ByteString.Internal (createUptoN)
import Data.Int (Int64)
import Data.Word (Word8)
import Foreign.Ptr (Ptr)
import Heddle.IO.Connection (Conn (..), failedOn, held)
import Heddle.IO.Internal.Registration
import Heddle.IO.Internal.TicketLock (withDirection)
import Heddle.IO.Internal.Types (Interest (..))
import Heddle.Prim.Clock (Deadline)
import Heddle.Prim.Errno
import Heddle.Prim.Exception
import Heddle.Prim.File (FileKind (..), FileStatus (..))
import Heddle.Prim.File qualified as Prim
import System.Posix.Types (Fd)

-- | An open directory, to open files beneath.
data Root = Root !ByteString !Fd

instance Show Root where
  show (Root path _) = C.unpack path

-- | An open file.
data File = File !ByteString !Fd

instance Show File where
  show (File path _) = C.unpack path

-- | Open a directory, run, close it.
--
-- [Cost]: two system calls.
-- [Blocks]: holds an OS thread.
-- [Masking]: the body runs in the caller's state.
-- [Throws]: 'IOError' from opening: ENOENT, ENOTDIR, EACCES…
-- @since 0.1.0.0
withRoot :: ByteString -> (Root -> IO a) -> IO a
withRoot path = bracket (newRoot path) closeRoot

-- | Open a directory until 'closeRoot'.
--
-- [Cost]: one system call.
-- [Blocks]: holds an OS thread.
-- [Throws]: 'IOError': ENOENT, ENOTDIR, EACCES…
-- @since 0.1.0.0
newRoot :: ByteString -> IO Root
newRoot path = Root path . fromIntegral <$> opened
  where
    opened = checked ("open directory " ++ C.unpack path) (Prim.openFile path Prim.directoryOnly)

-- | Close a directory, once.
--
-- [Cost]: one system call.
-- [Blocks]: holds an OS thread.
-- @since 0.1.0.0
closeRoot :: Root -> IO ()
closeRoot (Root _ fd) = void (Prim.closeFile fd)

-- | Open a file for reading beneath a directory, run, close it.
--
-- [Cost]: two system calls, the first from memory when the path is in the kernel's cache.
-- [Blocks]: otherwise holds an OS thread.
-- [Masking]: the body runs in the caller's state.
-- [Throws]: 'IOError' from opening: ENOENT, EACCES, EXDEV when the path leads out…
-- @since 0.1.0.0
withFileBeneath :: Root -> ByteString -> (File -> IO a) -> IO a
withFileBeneath root path = bracket open closeFile
  where
    open = newFileBeneath root path >>= either (throwErrnoFor ("open " ++ C.unpack path ++ " beneath " ++ show root)) pure

-- | Open a file for reading beneath a directory, until 'closeFile'. The path is relative;
-- a symbolic link that leads out of the root fails with EXDEV, and so does @..@ above it. A
-- FIFO is opened without waiting for its writer.
--
-- [Cost]: one system call, from memory when the path is in the kernel's cache.
-- [Blocks]: otherwise holds an OS thread.
-- [Threads]: any.
-- [Source]: openat2(2), RESOLVE_BENEATH and RESOLVE_CACHED.
-- @since 0.1.0.0
newFileBeneath :: Root -> ByteString -> IO (Either Errno File)
newFileBeneath (Root _ root) path
  | C.elem '\0' path = pure (Left EINVAL) -- the kernel would see a shorter path
  | otherwise = mask_ $ do
    cached <- Prim.openBeneathCached root path Prim.readOnly
    -- EINVAL: a kernel that does not know RESOLVE_CACHED.
    r <-
      if cached < 0 && Errno (negate cached) `elem` [EAGAIN, EINTR, EINVAL]
        then Prim.openBeneath root path Prim.readOnly
        else pure cached
    pure (if r < 0 then Left (Errno (negate r)) else Right (File path (fromIntegral r)))

-- | Close a file, once, when no call uses it any more.
--
-- [Cost]: one system call.
-- [Blocks]: holds an OS thread.
-- @since 0.1.0.0
closeFile :: File -> IO ()
closeFile (File _ fd) = void (Prim.closeFile fd)

-- | The descriptor, valid until the file is closed.
--
-- @since 0.1.0.0
fileDescriptor :: File -> Fd
fileDescriptor (File _ fd) = fd

-- | What the file is, its size and time.
--
-- [Cost]: one system call.
-- [Blocks]: holds an OS thread.
-- [Throws]: 'IOError'.
-- @since 0.1.0.0
status :: File -> IO FileStatus
status file@(File _ fd) =
  Prim.fileStatus fd >>= either (throwErrnoFor ("ask for the status of " ++ show file) . Errno . negate) pure

-- | @readAt file offset count@ reads at least one byte and at most @count@ from the offset,
-- and none at or after the end. If only a part is in memory, that part is returned, so the
-- result may be short anywhere in the file.
--
-- [Cost]: one system call when the bytes are in memory, otherwise two; allocates the bytes.
-- [Blocks]: holds an OS thread while a disk is read.
-- [Throws]: 'IOError': EINVAL for a count below 1 or an offset below 0, EISDIR, EIO…
-- [Threads]: any; the file has no position.
-- @since 0.1.0.0
readAt :: File -> Int64 -> Int -> IO ByteString
readAt file offset count = do
  allowed "readAt" offset count
  createUptoN count $ \p -> readInto file p offset count

-- | 'readAt' to an address; 0 at or after the end.
--
-- [Cost]: as 'readAt', without the allocation.
-- [Blocks]: holds an OS thread while a disk is read.
-- [Throws]: as 'readAt'.
-- [Threads]: any.
-- @since 0.1.0.0
readInto :: File -> Ptr Word8 -> Int64 -> Int -> IO Int
readInto file@(File _ fd) p offset count = do
  allowed "readInto" offset count
  now <- Prim.readAtNoWait fd p count offset
  if now > 0 then pure now else patient
  where
    -- The data is not in memory, or the file system cannot say: EAGAIN, EOPNOTSUPP, EPERM. Some
    -- kernels return 0 for a miss, and an error is returned again.
    patient = do
      r <- Prim.readAt fd p count offset
      case () of
        _
          | r >= 0 -> pure r
          | Errno (negate r) == EINTR -> patient
          | otherwise -> throwErrnoFor ("read " ++ show file) (Errno (negate r))

-- For the kernel, the offset -1 means the descriptor's own position, so it is refused here.
allowed :: String -> Int64 -> Int -> IO ()
allowed what offset count = do
  when (count < 1) $ throwErrnoFor (what ++ " with length " ++ show count ++ ", which must be at least 1") EINVAL
  when (offset < 0) $ throwErrnoFor (what ++ " at offset " ++ show offset ++ ", which must not be negative") EINVAL

-- | The result of sending a file.
data FileSent
  = -- | The number of bytes; fewer than requested if the file ended early.
    FileSent !Int
  | -- | The number of bytes sent before the deadline.
    FileTimedOut !Int
  | -- | The number of bytes sent before the connection was closed on this side.
    FileClosed !Int
  deriving stock (Eq, Show)

-- | @sendFileUntil conn file offset count deadline@ sends a part of a file without copying
-- it through the program.
--
-- [Cost]: one system call for every 4 MiB or full socket.
-- [Blocks]: parks; holds an OS thread while a disk is read.
-- [Masking]: interruptible while parked; how much went is then unknown.
-- [Throws]: 'IOError': EINVAL for a count below 1 or what cannot be sent, EPIPE, ECONNRESET.
-- [Units]: bytes.
-- [Threads]: any number; they take turns at a connection.
-- [Source]: Mighttpd, simple-sendfile: neither lseek nor stat.
-- @since 0.1.0.0
sendFileUntil :: Conn -> File -> Int64 -> Int -> Deadline -> IO FileSent
sendFileUntil conn (File _ fd) offset count deadline = do
  allowed "sendFileUntil" offset count
  held conn $ withDirection (connRegistration conn) Writable deadline (pure (FileTimedOut 0)) (pure 0) (const Nothing) go
  where
    go done = do
      r <- attempt (connRegistration conn) Writable deadline $ \out ->
        Prim.sendFile out fd (offset + fromIntegral done) (min 0x400000 (count - done))
      case () of
        _
          | r == TimedOutCode -> pure (FileTimedOut done)
          | r == ClosedCode -> pure (FileClosed done)
          | r < 0 -> failedOn ("send a file (" ++ show done ++ " of " ++ show count ++ " bytes went) on") conn r
          | r == 0 || done + r == count -> pure (FileSent (done + r))
          | otherwise -> go (done + r)
