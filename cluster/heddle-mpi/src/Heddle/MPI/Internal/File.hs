{-# LANGUAGE DataKinds #-}

-- |
-- Module      : Heddle.MPI.Internal.File
-- Description : Files that several processes have open: opening, closing, views, pointers
-- Stability   : internal, exempt from the version policy
--
-- All of a file but its transfers; see "Heddle.MPI.File", which documents and exports it.
--
-- Cost: opening and closing, the implementation's, and a duplicate of the communicator.
-- Owner: whoever opens a file closes it; see Note [Closing after an exception].
module Heddle.MPI.Internal.File
  ( -- * Opening and closing
    File (..),
    FileMode (..),
    Creation (..),
    FileOption (..),
    withFile,
    openFile,
    closeFile,
    deleteFile,

    -- * The file as a whole
    fileSize,
    resizeFile,
    preallocateFile,
    syncFile,
    setAtomicity,

    -- * Views
    View (..),
    setView,
    resetView,

    -- * Pointers
    Whence (..),
    seek,
    tell,
    seekShared,
    tellShared,
    tellNow,
  )
where

import Control.Monad (forM, unless, void, when)
import Data.Bits ((.|.))
import Data.Int (Int64)
import Foreign.C.String (CString)
import Foreign.C.Types (CInt (..))
import Foreign.Marshal.Alloc (alloca)
import Foreign.Marshal.Array (withArrayLen)
import Foreign.Ptr (Ptr, nullPtr)
import Foreign.Storable (peek, poke)
import GHC.Foreign qualified as Encoded
import GHC.IO.Encoding (getFileSystemEncoding)
import Heddle.MPI.Datatype (typeSize)
import Heddle.MPI.Internal.Buffer
import Heddle.MPI.Internal.Error
import Heddle.MPI.Internal.Foreign
import Heddle.MPI.Internal.Request
import Heddle.MPI.Internal.TicketLock
import Heddle.MPI.Internal.Types
import Heddle.Prim.Atomic (Ref, newRef, readRef, writeRef)
import Heddle.Prim.Exception
import Heddle.Prim.Thread (fork)
import Heddle.Prim.WaitCell (WaitCell, newWaitCell, park, unpark)
import System.Timeout (timeout)

-- | The permitted uses of a file. The same on all processes.
data FileMode
  = -- | It must exist.
    ReadOnly
  | WriteOnly !Creation
  | ReadWrite !Creation
  deriving stock (Eq, Show)

-- | The state of a file that is opened for writing: it exists, or is made.
data Creation
  = -- | It must exist, and keeps what it contains.
    MustExist
  | -- | It is created, empty, if it does not exist; else it keeps what it contains.
    MayExist
  | -- | It is created, and must not exist.
    MustNotExist
  deriving stock (Bounded, Enum, Eq, Ord, Show)

-- | Further options when a file is opened. The same on all processes.
data FileOption
  = -- | Delete it when it is closed.
    DeleteOnClose
  | -- | Nobody else opens it meanwhile: it may be faster then.
    UniqueOpen
  | -- | All pointers begin at its end.
    StartAtEnd
  | -- | A key and its value for the implementation, such as @striping_factor@; those that it
    -- does not know, it ignores.
    Hint !String !String
  deriving stock (Eq, Show)

-- | A file that all processes of a communicator have open. On each of them, one thread at a
-- time changes its view or uses its pointers.
data File = File
  { fileHandle :: !Int64,
    -- | As it was opened.
    filePath :: !FilePath,
    -- | As it was opened.
    fileMode :: !FileMode,
    fileShows :: !(Ref View),
    -- | For the processes to meet before they close it; 'Nothing' if there is but one.
    fileMeeting :: !(Maybe (Comm 'Intra)),
    -- | Transfers go one after the other, in the order in which they were asked for.
    fileOrder :: !TicketLock
  }

instance Eq File where
  a == b = fileHandle a == fileHandle b

instance Show File where
  showsPrec _ file = showString "File " . shows (filePath file)

-- | The part of a file that a process sees.
data View = View
  { -- | Of an element, in bytes.
    viewElement :: !Int,
    -- | Are they all the bytes there are?
    viewPlain :: !Bool
  }

-- Opening and closing --------------------------------------------------------

-- | Open a file together, use it, and close it together on every path.
--
-- After an exception on some processes only, those wait for the others at most 5 seconds,
-- and go on with the exception; the file is closed when all have come and the transfers that
-- were begun have ended. If that fails, the program's handler of uncaught exceptions gets the error.
--
-- [Blocks]: as 'openFile' and 'closeFile'.
-- [Masking]: the body runs as it was called.
-- [Throws]: 'MPIError'; what the body throws.
withFile :: Comm 'Intra -> FilePath -> FileMode -> [FileOption] -> (File -> IO a) -> IO a
withFile comm path mode options body = mask $ \restore -> do
  file <- openFile comm path mode options
  a <- restore (body file) `onException` closeInTime file
  a <$ closeFile file

-- | Open a file together: collective. The view shows bytes, from the beginning on.
--
-- [Blocks]: holds an OS thread until all processes have come.
-- [Throws]: 'MPIError': 'NoSuchFile', 'FileExists', 'AccessDenied', 'BadFileName' and others.
openFile :: Comm 'Intra -> FilePath -> FileMode -> [FileOption] -> IO File
openFile comm path mode options = mask_ $ do
  checkName "openFile" path
  hints <- forM [(key, value) | Hint key value <- options] $ \(key, value) -> do
    when (null key || '=' `elem` key || '\0' `elem` key ++ value) (wrong InvalidInfo "openFile" ("no hint: " ++ show (key, value)))
    pure (key ++ "=" ++ value)
  size <- commSize comm
  meeting <- if size == 1 then pure Nothing else Just <$> duplicate
  handle <-
    withPath path (withPaths hints . open) `onException` mapM_ closeComm meeting
  shows' <- newRef (View 1 True)
  File handle path mode shows' meeting <$> newTicketLock
  where
    duplicate = made "openFile" (c_comm_dup (commHandle comm)) >>= commFrom
    open name hints = withArrayLen hints $ \n p ->
      made ("openFile " ++ show path) (c_open (commHandle comm) name bits (if n == 0 then nullPtr else p) (fromIntegral n))
    bits = modeBits mode .|. foldr ((.|.) . optionBits) 0 options

-- As enum heddle_mpi_file_mode has them.
modeBits :: FileMode -> CInt
modeBits = \case
  ReadOnly -> 1
  WriteOnly creation -> 2 .|. creationBits creation
  ReadWrite creation -> 3 .|. creationBits creation
  where
    creationBits = \case
      MustExist -> 0
      MayExist -> 4
      MustNotExist -> 12

optionBits :: FileOption -> CInt
optionBits = \case
  DeleteOnClose -> 16
  UniqueOpen -> 32
  StartAtEnd -> 128
  Hint _ _ -> 0

made :: String -> (Ptr Int64 -> IO CInt) -> IO Int64
made call make = alloca $ \p -> poke p 0 >> check call (make p) >> peek p

checkName :: String -> FilePath -> IO ()
checkName call path = when (null path || '\0' `elem` path) (wrong BadFileName call (show path ++ " is no name of a file"))

withPath :: FilePath -> (CString -> IO a) -> IO a
withPath path use = getFileSystemEncoding >>= \encoding -> Encoded.withCString encoding path use

withPaths :: [String] -> ([CString] -> IO a) -> IO a
withPaths texts use = go texts []
  where
    go [] ps = use (reverse ps)
    go (text : others) ps = withPath text (\p -> go others (p : ps))

-- | Close a file, when the transfers that were begun have ended: collective. If it is
-- interrupted while it waits, a thread of the library waits in its place and closes the file,
-- so do not call it again; an error of that goes to the program's handler of uncaught exceptions.
--
-- [Blocks]: parks the thread until all processes have come; then holds an OS thread.
-- [Throws]: 'MPIError': 'AlreadyClosed' the second time.
closeFile :: File -> IO ()
closeFile file = mask_ $ do
  inOrder (fileOrder file) (pure ()) `onException` unheard (meet file >>= void . closeLater file)
  -- Nobody comes to a meeting for a file that is closed.
  -- If it is open and has no size, its closing tells why.
  try (fileSizeOf "closeFile" file) >>= either (\e -> when (errorClass e == AlreadyClosed) (throwIO e)) (const (pure ()))
  met <- meet file
  wait met `onException` closeLater file met
  closeNow file

-- All processes have come.
closeNow :: File -> IO ()
closeNow file = do
  code <- c_close (fileHandle file)
  -- The error of the file is the one that tells of lost data.
  mapM_ closeComm (fileMeeting file) `finally` check "closeFile" (pure code)

-- After an exception. Masked.
closeInTime :: File -> IO ()
closeInTime file = unheard $ do
  closed <- meet file >>= closeLater file
  void (timeout 5000000 (park closed))

-- When all have come, if ever, and the transfers that were begun have ended.
closeLater :: File -> Request () -> IO WaitCell
closeLater file met = do
  closed <- newWaitCell
  _ <- fork "mpi/close" (unheard (wait met >> inOrder (fileOrder file) (closeNow file)) `finally` unpark closed)
  pure closed

-- Begin to meet the other processes.
meet :: File -> IO (Request ())
meet file = maybe (finishedWith ()) meetIn (fileMeeting file)
  where
    meetIn comm =
      begin
        Start
          { startCall = "closeFile",
            startFree = \budget held p -> withAsked (barrier comm) (\asked -> c_collective asked 0 budget held p),
            startHeld = \budget held p -> withAsked (barrier comm) (\asked -> c_collective_held asked 0 budget held p),
            startWeight = Light,
            startTells = False
          }
        (const (pure (Finished ())))
    barrier comm = Asked (commHandle comm) 0 0 nullPtr nullPtr 0 0 nullPtr nullPtr nullPtr nullPtr 0 0 (-1)

-- | Delete a file, on one process.
--
-- [Blocks]: holds an OS thread.
-- [Throws]: 'MPIError': 'NoSuchFile', 'AccessDenied' and others.
deleteFile :: FilePath -> IO ()
deleteFile path = checkName "deleteFile" path >> withPath path (check ("deleteFile " ++ show path) . c_delete)

-- The file as a whole --------------------------------------------------------

-- | Its size.
--
-- [Blocks]: holds an OS thread.
-- [Units]: bytes.
-- [Throws]: 'MPIError'.
fileSize :: File -> IO Int
fileSize = fileSizeOf "fileSize"

fileSizeOf :: String -> File -> IO Int
fileSizeOf call file = fromIntegral <$> made call (c_size (fileHandle file))

-- | Cut it off, or let it grow: collective. What is new is zero. Some implementations do it
-- before all processes have come: what these begin before, they should have agreed upon.
--
-- [Blocks]: holds an OS thread until all processes have come.
-- [Units]: bytes.
-- [Throws]: 'MPIError': 'ReadOnlyFile'.
resizeFile :: File -> Int -> IO ()
resizeFile = resizeWith "resizeFile" 0

-- | Make sure that there is room for so much, and let it grow to that at least: collective.
-- The view must show all bytes.
--
-- [Blocks]: holds an OS thread until all processes have come.
-- [Units]: bytes.
-- [Throws]: 'MPIError': 'ReadOnlyFile', 'NoSpace', 'UnsupportedOperation' if there is a view.
preallocateFile :: File -> Int -> IO ()
preallocateFile file bytes = do
  view <- readRef (fileShows file)
  -- Open MPI 4.1 would write through the view what it has read without it.
  unless (viewPlain view) (wrong UnsupportedOperation "preallocateFile" "the view does not show all bytes; see resetView")
  resizeWith "preallocateFile" 1 file bytes

resizeWith :: String -> CInt -> File -> Int -> IO ()
resizeWith call how file bytes = do
  when (bytes < 0) (wrong InvalidArgument call (show bytes ++ " bytes"))
  when (fileMode file == ReadOnly) (wrong ReadOnlyFile call (filePath file ++ " is open only for reading"))
  check call (c_resize (fileHandle file) (fromIntegral bytes) how)

-- | Write what was written to the disk, and let all processes see it: collective.
--
-- [Blocks]: holds an OS thread until all processes have come.
-- [Throws]: 'MPIError'.
syncFile :: File -> IO ()
syncFile file = check "syncFile" (c_sync (fileHandle file))

-- | Should each transfer be seen by the other processes as a whole, or not at all, and at
-- once? Collective. At first it is not so.
--
-- [Blocks]: holds an OS thread until all processes have come.
-- [Throws]: 'MPIError'.
setAtomicity :: File -> Bool -> IO ()
setAtomicity file yes = check "setAtomicity" (c_atomic (fileHandle file) (if yes then 1 else 0))

-- Views ----------------------------------------------------------------------

-- | Say what this process sees of the file: collective. From so many bytes on, the second
-- type is repeated to the end, and what it leaves out is not seen. Offsets count elements,
-- of the first type, in what is seen. All pointers return to the beginning.
--
-- The element has the same size on all processes; the rest may differ. The offsets in the
-- type are not negative and ascend. The types may be closed afterwards.
--
-- [Blocks]: holds an OS thread until all processes have come.
-- [Units]: the offset, bytes.
-- [Throws]: 'MPIError': 'InvalidArgument' if the view is not of whole elements.
setView :: File -> Int -> Datatype -> Datatype -> IO ()
setView file offset element@(Datatype e) view@(Datatype v) = do
  when (offset < 0) (wrong InvalidArgument call (show offset ++ " bytes"))
  each <- typeSize element
  size <- typeSize view
  when (each == 0) (wrong InvalidType call "elements without a byte")
  when (size `rem` each /= 0) . wrong InvalidArgument call $
    "a view of " ++ show size ++ " bytes has no whole number of elements of " ++ show each
  inOrder (fileOrder file) . mask_ $ do
    check call (c_view (fileHandle file) (fromIntegral offset) e v)
    writeRef (fileShows file) (View each False)
  where
    call = "setView"

-- | See all bytes again: collective.
--
-- [Blocks]: as 'setView'.
-- [Throws]: 'MPIError'.
resetView :: File -> IO ()
resetView file = mask_ $ do
  setView file 0 byteType byteType
  writeRef (fileShows file) (View 1 True)

-- Pointers -------------------------------------------------------------------

-- | The place that a pointer is moved from.
data Whence = FromStart | FromHere | FromEnd
  deriving stock (Bounded, Enum, Eq, Ord, Show)

-- | Move this process's own pointer.
--
-- [Units]: elements of the view.
-- [Throws]: 'MPIError': 'InvalidArgument' if that is before the beginning.
seek :: File -> Whence -> Int -> IO ()
seek = seekWith "seek" 0

-- | Move the pointer that the processes share: collective, with the same arguments. Nobody
-- may be using it: some implementations move it before all processes have come.
--
-- [Blocks]: holds an OS thread until all processes have come.
-- [Units]: elements of the view.
-- [Throws]: 'MPIError': 'InvalidArgument' if that is before the beginning.
seekShared :: File -> Whence -> Int -> IO ()
seekShared = seekWith "seekShared" 1

seekWith :: String -> CInt -> File -> Whence -> Int -> IO ()
seekWith call shared file whence by = inOrder (fileOrder file) $ do
  -- Of an implementation, one would be told that something is wrong, but not what.
  from <- case whence of
    FromStart -> pure 0
    FromHere -> if by < 0 then fromIntegral <$> made call (c_tell (fileHandle file) shared) else pure 0
    FromEnd -> pure (maxBound - max 0 by)
  when (from + by < 0) (wrong InvalidArgument call (show by ++ " from there is before the beginning"))
  check call (c_seek (fileHandle file) (fromIntegral by) (fromIntegral (fromEnum whence)) shared)

-- | Where this process's own pointer is.
--
-- [Units]: elements of the view.
-- [Throws]: 'MPIError'.
tell :: File -> IO Int
tell file = inOrder (fileOrder file) (tellNow file)

-- | 'tell', by what is in its turn already.
tellNow :: File -> IO Int
tellNow file = fromIntegral <$> made "tell" (c_tell (fileHandle file) 0)

-- | Where the shared pointer is.
--
-- [Units]: elements of the view.
-- [Throws]: 'MPIError'.
tellShared :: File -> IO Int
tellShared file = inOrder (fileOrder file) $ fromIntegral <$> made "tellShared" (c_tell (fileHandle file) 1)

-- Note [Closing after an exception]
-- ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
-- Closing is collective. A process that leaves the body by an exception cannot know whether
-- the others come: they may wait for it in another collective, and to close then would stop
-- all of them, or meet that collective's messages. So whoever closes first meets the others by
-- a barrier in a communicator of the file's own, which can wait for ever without harm, as no
-- other call uses it. After an exception the process waits for 5 seconds; then the exception
-- goes on, and ends the job if nobody catches it. The file is closed by a thread of its own:
-- it waits for the others and for the transfers in progress, however long that takes.

foreign import ccall safe "heddle_mpi_comm_dup" c_comm_dup :: Int64 -> Ptr Int64 -> IO CInt

foreign import ccall safe "heddle_mpi_file_open" c_open :: Int64 -> CString -> CInt -> Ptr CString -> CInt -> Ptr Int64 -> IO CInt

foreign import ccall safe "heddle_mpi_file_close" c_close :: Int64 -> IO CInt

foreign import ccall safe "heddle_mpi_file_delete" c_delete :: CString -> IO CInt

foreign import ccall safe "heddle_mpi_file_size" c_size :: Int64 -> Ptr Int64 -> IO CInt

foreign import ccall safe "heddle_mpi_file_resize" c_resize :: Int64 -> Int64 -> CInt -> IO CInt

foreign import ccall safe "heddle_mpi_file_sync" c_sync :: Int64 -> IO CInt

foreign import ccall safe "heddle_mpi_file_atomic" c_atomic :: Int64 -> CInt -> IO CInt

foreign import ccall safe "heddle_mpi_file_view" c_view :: Int64 -> Int64 -> Int64 -> Int64 -> IO CInt

foreign import ccall safe "heddle_mpi_file_seek" c_seek :: Int64 -> Int64 -> CInt -> CInt -> IO CInt

foreign import ccall safe "heddle_mpi_file_tell" c_tell :: Int64 -> CInt -> Ptr Int64 -> IO CInt
