-- |
-- Module      : Heddle.Prim.File
-- Description : File system calls
-- Stability   : stable
--
-- Opening beneath a root, status, positioned reads and sendfile. Calls that may wait for a disk are
-- safe foreign calls and release the capability; the variants named cached or nowait never wait.
-- Results are counts, or minus the error number.
--
-- Cost: one system call each.
-- Owner: the caller, which keeps the descriptor open.
module Heddle.Prim.File
  ( -- * Opening
    openFile,
    openBeneath,
    openBeneathCached,
    OpenFlags,
    readOnly,
    readOnlyWaiting,
    appendCreate,
    truncateCreate,
    directoryOnly,
    replaceFile,
    closeFile,
    removeName,
    isSocketName,

    -- * Status
    FileStatus (..),
    FileKind (..),
    fileStatus,

    -- * Bytes
    readSome,
    readAt,
    readAtNoWait,
    writeWhole,
    sendFile,
  )
where

import Control.Monad (when)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.Int (Int64)
import Data.Word (Word8)
import Foreign.C.String (withCString)
import Foreign.C.Types (CChar, CInt (..), CLong (..), CSize (..))
import Foreign.Marshal.Alloc (allocaBytes)
import Foreign.Ptr (Ptr)
import Foreign.Storable (peekElemOff)
import Heddle.Prim.Errno (Errno (..), throwErrnoFor)
import System.Posix.Types (Fd (..))

-- | Flags of open(2), and the mode of a file that it creates.
data OpenFlags = OpenFlags !CInt !CInt

-- | Read only, without waiting for a FIFO's writer (O_NONBLOCK). A terminal does not become the
-- controlling one (O_NOCTTY).
readOnly :: OpenFlags
readOnly = OpenFlags 0x900 0

-- | Read only, waiting for a FIFO's writer. A terminal does not become the controlling one (O_NOCTTY).
readOnlyWaiting :: OpenFlags
readOnlyWaiting = OpenFlags 0x100 0

-- | Append; a missing file is created with mode 0644. Does not wait for a FIFO's reader: -ENXIO while
-- there is none. The descriptor is non-blocking, which affects only FIFOs.
appendCreate :: OpenFlags
appendCreate = OpenFlags 0xC41 0o644

-- | Write to an empty file: an existing one is truncated, a missing one is created with mode 0666 less the
-- umask. Waits for a FIFO's reader.
truncateCreate :: OpenFlags
truncateCreate = OpenFlags 0x241 0o666

-- | A directory, as a root to open beneath (O_PATH).
directoryOnly :: OpenFlags
directoryOnly = OpenFlags c_directory_only 0

-- | Open a path.
--
-- [Blocks]: holds an OS thread.
openFile :: ByteString -> OpenFlags -> IO Int
openFile path (OpenFlags flags mode) = B.useAsCString path $ \p -> fromIntegral <$> c_open p flags mode

-- | Open a relative path beneath a directory. A path that leaves the directory, by a symbolic link or
-- otherwise, gives -EXDEV. A rename elsewhere in the system is no failure.
--
-- [Blocks]: holds an OS thread.
-- [Source]: openat2(2), RESOLVE_BENEATH.
openBeneath :: Fd -> ByteString -> OpenFlags -> IO Int
openBeneath (Fd root) path (OpenFlags flags _) = B.useAsCString path $ \p -> fromIntegral <$> c_beneath root p flags 0

-- | As 'openBeneath', from the kernel's cache only; -EAGAIN if it would have to read the disk.
--
-- [Blocks]: never.
-- [Source]: openat2(2), RESOLVE_CACHED.
openBeneathCached :: Fd -> ByteString -> OpenFlags -> IO Int
openBeneathCached (Fd root) path (OpenFlags flags _) =
  B.useAsCString path $ \p -> fromIntegral <$> c_beneath_cached root p flags 1

-- | @replaceFile new old@ makes the number @old@ refer to the file of @new@, atomically, and closes the
-- previous file of @old@. A system call in progress on @old@ finishes on that previous file.
--
-- [Blocks]: holds an OS thread: the close may write first.
-- [Source]: dup3(2).
replaceFile :: Fd -> Fd -> IO Int
replaceFile (Fd new) (Fd old) = fromIntegral <$> c_replace new old

-- | Close a file opened for reading or appending.
--
-- [Blocks]: holds an OS thread: a network file system may write first.
closeFile :: Fd -> IO Int
closeFile (Fd fd) = fromIntegral <$> c_close fd

-- | Remove a name from its directory.
--
-- [Blocks]: holds an OS thread.
-- [Throws]: 'IOError'.
removeName :: FilePath -> IO ()
removeName path = withCString path $ \p -> do
  r <- c_unlink p
  when (r < 0) (throwErrnoFor ("remove " ++ path) (Errno (negate (fromIntegral r))))

-- | Does the path name a Unix socket?
--
-- [Blocks]: holds an OS thread.
isSocketName :: FilePath -> IO Bool
isSocketName path = withCString path (fmap (== 1) . c_is_socket)

-- | The type of an open file.
data FileKind = RegularFile | Directory | OtherKind
  deriving stock (Eq, Show)

-- | The part of fstat(2) that a server needs.
data FileStatus = FileStatus
  { statusKind :: !FileKind,
    -- | In bytes.
    statusSize :: !Int64,
    -- | Modification time, seconds since 1970.
    statusSeconds :: !Int64,
    -- | And nanoseconds.
    statusNanos :: !Int64,
    statusInode :: !Int64,
    statusDevice :: !Int64,
    -- | Time of the last change of content or attributes, seconds since 1970.
    statusChanged :: !Int64,
    -- | And nanoseconds.
    statusChangedNanos :: !Int64
  }
  deriving stock (Eq, Show)

-- | Status of an open file, or minus the error number.
--
-- [Blocks]: holds an OS thread.
fileStatus :: Fd -> IO (Either Int FileStatus)
fileStatus (Fd fd) = allocaBytes 64 $ \p -> do
  r <- c_stat fd p
  if r < 0
    then pure (Left (fromIntegral r))
    else do
      mode <- peekElemOff p 0
      let kind
            | mode == 0o100000 = RegularFile
            | mode == 0o040000 = Directory
            | otherwise = OtherKind
      Right <$> (FileStatus kind <$> peekElemOff p 1 <*> peekElemOff p 2 <*> peekElemOff p 3 <*> peekElemOff p 4 <*> peekElemOff p 5 <*> peekElemOff p 6 <*> peekElemOff p 7)

-- | Read from the current offset.
--
-- [Blocks]: holds an OS thread.
readSome :: Fd -> Ptr Word8 -> Int -> IO Int
readSome (Fd fd) p n = fromIntegral <$> c_read fd p (fromIntegral n)

-- | Read at an offset.
--
-- [Blocks]: holds an OS thread.
readAt :: Fd -> Ptr Word8 -> Int -> Int64 -> IO Int
readAt (Fd fd) p n o = fromIntegral <$> c_pread fd p (fromIntegral n) o

-- | Read at an offset from the page cache; -EAGAIN if the disk would be needed. -EOPNOTSUPP and -EPERM mean
-- that the file system does not support this; 0 is a miss, too.
--
-- [Blocks]: never.
-- [Source]: preadv2(2), RWF_NOWAIT.
readAtNoWait :: Fd -> Ptr Word8 -> Int -> Int64 -> IO Int
readAtNoWait (Fd fd) p n o = fromIntegral <$> c_pread_nowait fd p (fromIntegral n) o

-- | Write to a disk file, a blocking pipe or a terminal.
--
-- [Blocks]: holds an OS thread.
writeWhole :: Fd -> Ptr Word8 -> Int -> IO Int
writeWhole (Fd fd) p n = fromIntegral <$> c_write fd p (fromIntegral n)

-- | @sendFile socket file offset count@: bytes moved, 0 at the file's end.
--
-- [Blocks]: holds an OS thread: cold pages come from the disk.
-- [Source]: Mighttpd, simple-sendfile: no lseek, no stat.
sendFile :: Fd -> Fd -> Int64 -> Int -> IO Int
sendFile (Fd out) (Fd from) o n = fromIntegral <$> c_sendfile out from o (fromIntegral n)

-- Unsafe: returns a constant, which is not the same on x86-64 and Arm.
foreign import ccall unsafe "heddle_directory_only" c_directory_only :: CInt

foreign import ccall safe "heddle_open" c_open :: Ptr CChar -> CInt -> CInt -> IO CLong

foreign import ccall safe "heddle_open_beneath" c_beneath :: CInt -> Ptr CChar -> CInt -> CInt -> IO CLong

-- Unsafe: RESOLVE_CACHED answers from memory or fails at once.
foreign import ccall unsafe "heddle_open_beneath" c_beneath_cached :: CInt -> Ptr CChar -> CInt -> CInt -> IO CLong

foreign import ccall safe "heddle_replace" c_replace :: CInt -> CInt -> IO CLong

foreign import ccall safe "heddle_close" c_close :: CInt -> IO CLong

foreign import ccall safe "heddle_stat" c_stat :: CInt -> Ptr Int64 -> IO CLong

foreign import ccall safe "heddle_read" c_read :: CInt -> Ptr Word8 -> CSize -> IO CLong

foreign import ccall safe "heddle_pread" c_pread :: CInt -> Ptr Word8 -> CSize -> Int64 -> IO CLong

-- Unsafe: RWF_NOWAIT answers from memory or fails at once.
foreign import ccall unsafe "heddle_pread_nowait" c_pread_nowait :: CInt -> Ptr Word8 -> CSize -> Int64 -> IO CLong

foreign import ccall safe "heddle_write" c_write :: CInt -> Ptr Word8 -> CSize -> IO CLong

foreign import ccall safe "heddle_sendfile" c_sendfile :: CInt -> CInt -> Int64 -> CSize -> IO CLong

foreign import ccall safe "heddle_unlink" c_unlink :: Ptr CChar -> IO CLong

foreign import ccall safe "heddle_is_socket" c_is_socket :: Ptr CChar -> IO CInt
