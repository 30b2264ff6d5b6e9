{-# LANGUAGE AllowAmbiguousTypes #-}
{-# LANGUAGE TypeApplications #-}

-- |
-- Module      : Heddle.MPI.File
-- Description : Files that all processes read and write at once
-- Stability   : stable
--
-- A file is opened by all processes of a communicator. Each writes its part from memory, and
-- reads it into memory; a view says which bytes of the file a process sees, so that each finds
-- its block of a matrix as if that were all. Import it qualified: 'withFile' is one of
-- "System.IO" as well.
--
-- Offsets, pointers, and what reads return count elements of the view: bytes, until 'setView'.
--
-- Where a transfer begins, and with whom it is done:
--
-- +----------------------+------------------------------+---------------------------------+
-- |                      | alone                        | together (collective)           |
-- +======================+==============================+=================================+
-- | at an offset         | 'readAt', 'writeAt'          | 'readAtAll', 'writeAtAll'       |
-- +----------------------+------------------------------+---------------------------------+
-- | at the own pointer   | 'readNext', 'writeNext'      | 'readAll', 'writeAll'           |
-- +----------------------+------------------------------+---------------------------------+
-- | at the shared pointer| 'readShared', 'writeShared'  | 'readOrdered', 'writeOrdered'   |
-- +----------------------+------------------------------+---------------------------------+
--
-- What one process has written, another finds only after 'syncFile', a barrier and 'syncFile' again, also
-- if both transfers are collective: a collective write may return on a process before another process has
-- carried out its part. Or use 'setAtomicity', and a barrier between the two.
--
-- What begins with @i@ returns a 'Request'; what ends in @New@ reads into a new vector, as
-- long as what was there. A file must not be closed before its requests are complete.
--
-- Cost: the implementation's, and less than a microsecond; reading through a view, or
-- together, asks for the size of the file as well.
-- Owner: a buffer belongs to the transfer until that is complete; one thread of a process at a
-- time uses a pointer or changes the view.
module Heddle.MPI.File
  ( -- * Opening and closing
    File,
    filePath,
    fileMode,
    withFile,
    openFile,
    closeFile,
    deleteFile,
    FileMode (..),
    Creation (..),
    FileOption (..),

    -- * The file as a whole
    fileSize,
    resizeFile,
    preallocateFile,
    syncFile,
    setAtomicity,

    -- * Views
    setView,
    resetView,

    -- * Pointers
    Whence (..),
    seek,
    tell,
    seekShared,
    tellShared,

    -- * Writing
    writeAt,
    writeAtAll,
    writeNext,
    writeAll,
    writeShared,
    writeOrdered,

    -- * Reading
    readAt,
    readAtAll,
    readNext,
    readAll,
    readShared,
    readOrdered,

    -- * Reading into a new vector
    readAtNew,
    readAtAllNew,
    readNextNew,
    readAllNew,
    readSharedNew,
    readOrderedNew,

    -- * Without waiting
    iwriteAt,
    iwriteAtAll,
    iwriteNext,
    iwriteAll,
    iwriteShared,
    ireadAt,
    ireadAtAll,
    ireadNext,
    ireadAll,
    ireadShared,
  )
where

import Control.Monad (when)
import Data.Int (Int64)
import Data.Vector.Storable (Vector)
import Data.Vector.Storable qualified as Vector
import Data.Vector.Storable.Mutable qualified as Mutable
import Data.Word (Word8)
import Foreign.C.Types (CInt (..))
import Foreign.Marshal.Alloc (alloca, allocaBytesAligned)
import Foreign.Ptr (Ptr)
import Foreign.Storable (peek, poke)
import Heddle.MPI.Internal.Buffer
import Heddle.MPI.Internal.Error
import Heddle.MPI.Internal.File
import Heddle.MPI.Internal.Foreign
import Heddle.MPI.Internal.Request
import Heddle.MPI.Internal.TicketLock
import Heddle.Prim.Atomic (readRef)
import Heddle.Prim.Exception

-- Where a transfer begins.
data Place = At !Int | Own | Shared

data Company = Alone | Together
  deriving stock (Eq)

-- All that is known before a transfer.
data Transfer = Transfer
  { transferCall :: !String,
    transferFile :: !File,
    transferWrites :: !Bool,
    transferPlace :: !Place,
    transferCompany :: !Company,
    transferLent :: !Lent,
    -- What is seen of the file.
    transferView :: !View,
    -- How many bytes there are to be read, if that can be known before.
    transferThere :: !Int
  }

-- Find out what is wrong before MPI is called.
permitted :: String -> Bool -> Place -> File -> Lent -> IO ()
permitted call writes place file lent = do
  case (fileMode file, writes) of
    (ReadOnly, True) -> wrong ReadOnlyFile call (filePath file ++ " is open only for reading")
    (WriteOnly _, False) -> wrong AccessDenied call (filePath file ++ " is open only for writing")
    _ -> pure ()
  view <- readRef (fileShows file)
  when (lentBytes lent `rem` viewElement view /= 0) . wrong InvalidArgument call $
    show (lentBytes lent) ++ " bytes are no whole number of elements of the view, of " ++ show (viewElement view)
  case place of
    At offset | offset < 0 -> wrong InvalidArgument call ("the offset " ++ show offset)
    _ -> pure ()

-- Transfer, in C, when it is its turn; what was transferred.
transfer :: String -> Bool -> Company -> Place -> File -> Lent -> (Transfer -> Int -> IO a) -> IO a
transfer call writes company place file lent rest = do
  view <- readRef (fileShows file)
  -- What implementations tell of reading through a view, or together, is not what was there
  -- but what was asked for.
  let wanted = lentBytes lent
      known = not writes && (company == Together || not (viewPlain view))
  there <- case place of
    At offset | known -> availableBytes file offset view wanted
    Own | known -> tellNow file >>= \offset -> availableBytes file offset view wanted
    _ -> pure wanted
  let t = Transfer call file writes place company lent view there
  mask_ . allocaBytesAligned outcomeBytes 8 $ \p -> do
    _ <- run t p
    outcome <- peekOutcome p
    lentDone lent
    let code = fromIntegral (outcomeError outcome)
    when (code /= 0) (failWith call code)
    transferred t outcome >>= rest t

-- At an offset, alone, it is nobody's turn: threads may do that beside one another. A collective
-- transfer is done even if the calling thread is interrupted while it waits for its turn, since
-- the other processes count on it.
now :: String -> Bool -> Company -> Place -> File -> Lent -> (Transfer -> Int -> IO a) -> IO a
now call writes company place file lent rest = do
  permitted call writes place file lent
  case (company, place) of
    (Alone, At _) -> go
    (Together, _) -> later call writes company place file lent rest >>= wait
    _ -> inOrder (fileOrder file) go
  where
    go = transfer call writes company place file lent rest

-- On a thread of its own, with the implementation's blocking call: that of Open MPI 4.1 that does
-- not block is neither safe with threads nor ever complete at the end of a file; that of MPICH
-- 4.0 stops at 2 GiB.
later :: String -> Bool -> Company -> Place -> File -> Lent -> (Transfer -> Int -> IO a) -> IO (Request a)
later call writes company place file lent rest = do
  permitted call writes place file lent
  mask_ $ do
    ticket <- takeTicket (fileOrder file)
    forked ("mpi/" ++ call) (withTicket ticket (transfer call writes company place file lent rest))

run :: Transfer -> Ptr Outcome -> IO Slot
run t = c_transfer (fileHandle (transferFile t)) writes place together offset (lentAt lent) (fromIntegral (lentCount lent)) type' 1
  where
    lent = transferLent t
    Datatype type' = lentType lent
    writes = if transferWrites t then 1 else 0
    together = if transferCompany t == Together then 1 else 0
    (place, offset) = case transferPlace t of
      At from -> (0, fromIntegral from)
      Own -> (1, 0)
      Shared -> (2, 0)

-- How many bytes of the memory were transferred.
transferred :: Transfer -> Outcome -> IO Int
transferred t outcome
  | transferWrites t =
    if told == wanted
      then pure wanted
      else wrong InputOutput call (filePath file ++ ": only " ++ show told ++ " of " ++ show wanted ++ " bytes were written")
  | otherwise = pure (min told (transferThere t))
  where
    call = transferCall t
    file = transferFile t
    wanted = lentBytes (transferLent t)
    -- Some do not tell: then it was all of it.
    told = if outcomeReceived outcome < 0 then wanted else fromIntegral (outcomeReceived outcome)

-- How many of so many elements lie before the end of the file.
availableElements :: File -> Int -> View -> Int -> IO Int
availableElements file from view most = alloca $ \p -> do
  poke p 0
  check "fileSize" (c_available (fileHandle file) (fromIntegral from) (fromIntegral (viewElement view)) (fromIntegral most) p)
  fromIntegral <$> peek p

-- The same, of so many bytes.
availableBytes :: File -> Int -> View -> Int -> IO Int
availableBytes file from view bytes
  | bytes == 0 = pure 0
  | otherwise = (* viewElement view) <$> availableElements file from view (bytes `quot` viewElement view)

-- Writing --------------------------------------------------------------------

writeWith :: SendBuffer b => String -> Company -> Place -> File -> b -> IO ()
writeWith call company place file b = do
  lent <- lendOut b
  now call True company place file lent (\_ _ -> pure ())

iwriteWith :: SendBuffer b => String -> Company -> Place -> File -> b -> IO (Request ())
iwriteWith call company place file b = do
  lent <- lendOut b
  later call True company place file lent (\_ _ -> pure ())

-- | Write at an offset.
--
-- [Blocks]: holds an OS thread.
-- [Units]: the offset, elements of the view.
-- [Throws]: 'MPIError': 'ReadOnlyFile', 'InvalidArgument', 'NoSpace', 'InputOutput'.
-- [Source]: MPI 3.1, section 13.4.2.
writeAt :: SendBuffer b => File -> Int -> b -> IO ()
writeAt file offset = writeWith "writeAt" Alone (At offset) file

-- | 'writeAt', collective.
--
-- [Blocks]: holds an OS thread until all processes have come.
-- [Throws]: as 'writeAt'.
writeAtAll :: SendBuffer b => File -> Int -> b -> IO ()
writeAtAll file offset = writeWith "writeAtAll" Together (At offset) file

-- | Write at the own pointer, and move it behind that.
--
-- [Blocks]: holds an OS thread.
-- [Throws]: as 'writeAt'.
writeNext :: SendBuffer b => File -> b -> IO ()
writeNext = writeWith "writeNext" Alone Own

-- | 'writeNext', collective.
--
-- [Blocks]: holds an OS thread until all processes have come.
-- [Throws]: as 'writeAt'.
writeAll :: SendBuffer b => File -> b -> IO ()
writeAll = writeWith "writeAll" Together Own

-- | Write at the shared pointer, and move it behind that, before anybody else uses it. The
-- view must be the same on all processes.
--
-- [Blocks]: holds an OS thread.
-- [Throws]: as 'writeAt'.
writeShared :: SendBuffer b => File -> b -> IO ()
writeShared = writeWith "writeShared" Alone Shared

-- | Write at the shared pointer in the order of the ranks: collective. The view must be the
-- same on all processes.
--
-- [Blocks]: holds an OS thread until all processes have come.
-- [Throws]: as 'writeAt'.
writeOrdered :: SendBuffer b => File -> b -> IO ()
writeOrdered = writeWith "writeOrdered" Together Shared

-- | 'writeAt', without waiting. The memory must not be changed before the request is complete.
--
-- [Blocks]: holds an OS thread for as long as the implementation needs to begin.
-- [Throws]: as 'writeAt': what is wrong with the arguments now, the rest when it is waited for.
iwriteAt :: SendBuffer b => File -> Int -> b -> IO (Request ())
iwriteAt file offset = iwriteWith "iwriteAt" Alone (At offset) file

-- | 'writeAtAll', without waiting.
--
-- [Blocks]: as 'iwriteAt'.
-- [Throws]: as 'iwriteAt'.
iwriteAtAll :: SendBuffer b => File -> Int -> b -> IO (Request ())
iwriteAtAll file offset = iwriteWith "iwriteAtAll" Together (At offset) file

-- | 'writeNext', without waiting: transfers at pointers go one after the other.
--
-- [Blocks]: as 'iwriteAt'.
-- [Throws]: as 'iwriteAt'.
iwriteNext :: SendBuffer b => File -> b -> IO (Request ())
iwriteNext = iwriteWith "iwriteNext" Alone Own

-- | 'writeAll', without waiting: transfers at pointers go one after the other.
--
-- [Blocks]: as 'iwriteAt'.
-- [Throws]: as 'iwriteAt'.
iwriteAll :: SendBuffer b => File -> b -> IO (Request ())
iwriteAll = iwriteWith "iwriteAll" Together Own

-- | 'writeShared', without waiting: transfers at pointers go one after the other.
--
-- [Blocks]: as 'iwriteAt'.
-- [Throws]: as 'iwriteAt'.
iwriteShared :: SendBuffer b => File -> b -> IO (Request ())
iwriteShared = iwriteWith "iwriteShared" Alone Shared

-- Reading --------------------------------------------------------------------

-- Whole elements of the view.
elements :: Transfer -> Int -> IO Int
elements t = whole (transferCall t) "of the view" (viewElement (transferView t))

whole :: String -> String -> Int -> Int -> IO Int
whole call what each bytes = case bytes `quotRem` max 1 each of
  (n, 0) -> pure n
  _ -> wrong SizeMismatch call (show bytes ++ " bytes to the end of the file are no whole number of elements " ++ what ++ ", of " ++ show each)

readWith :: ReceiveBuffer b => String -> Company -> Place -> File -> b -> IO Int
readWith call company place file b = do
  lent <- lendIn b
  now call False company place file lent elements

ireadWith :: ReceiveBuffer b => String -> Company -> Place -> File -> b -> IO (Request Int)
ireadWith call company place file b = do
  lent <- lendIn b
  later call False company place file lent elements

readNewWith :: forall a. Element a => String -> Company -> Place -> File -> Int -> IO (Vector a)
readNewWith call company place file most = do
  when (most < 0) (wrong InvalidCount call (show most ++ " elements"))
  v <- Mutable.unsafeNew most :: IO (Mutable.IOVector a)
  lent <- lendIn v
  n <- now call False company place file lent (const (whole call "wanted" (elementBytes @a)))
  Vector.unsafeTake n <$> Vector.unsafeFreeze v

-- | Read at an offset, and say how many elements of the view there were: less than there is
-- room for at the end of the file only.
--
-- [Blocks]: holds an OS thread.
-- [Units]: elements of the view.
-- [Throws]: 'MPIError': 'AccessDenied' if the file is open only for writing,
-- 'InvalidArgument', 'InputOutput', and 'SizeMismatch' if the file ends within an element.
-- [Source]: MPI 3.1, section 13.4.2.
readAt :: ReceiveBuffer b => File -> Int -> b -> IO Int
readAt file offset = readWith "readAt" Alone (At offset) file

-- | 'readAt', collective.
--
-- [Blocks]: holds an OS thread until all processes have come.
-- [Throws]: as 'readAt'.
readAtAll :: ReceiveBuffer b => File -> Int -> b -> IO Int
readAtAll file offset = readWith "readAtAll" Together (At offset) file

-- | Read at the own pointer, and move it behind that. Where it is after the end of the file
-- was met is the implementation's affair: 'seek' then.
--
-- [Blocks]: holds an OS thread.
-- [Throws]: as 'readAt'.
readNext :: ReceiveBuffer b => File -> b -> IO Int
readNext = readWith "readNext" Alone Own

-- | 'readNext', collective.
--
-- [Blocks]: holds an OS thread until all processes have come.
-- [Throws]: as 'readAt'.
readAll :: ReceiveBuffer b => File -> b -> IO Int
readAll = readWith "readAll" Together Own

-- | Read at the shared pointer, and move it behind that, before anybody else uses it. The view
-- must be the same on all processes. At the end of the file, what is returned is what the
-- implementation says.
--
-- [Blocks]: holds an OS thread.
-- [Throws]: as 'readAt'.
readShared :: ReceiveBuffer b => File -> b -> IO Int
readShared = readWith "readShared" Alone Shared

-- | Read at the shared pointer in the order of the ranks: collective. The view must be the
-- same on all processes. At the end of the file, what is returned is what the implementation
-- says.
--
-- [Blocks]: holds an OS thread until all processes have come.
-- [Throws]: as 'readAt'.
readOrdered :: ReceiveBuffer b => File -> b -> IO Int
readOrdered = readWith "readOrdered" Together Shared

-- | 'readAt', of at most so many elements of the vector, into a new one.
--
-- [Blocks]: as 'readAt'.
-- [Units]: the offset, elements of the view; the number, elements of the vector.
-- [Throws]: as 'readAt'; 'SizeMismatch' if there is no whole number of the vector's elements.
readAtNew :: Element a => File -> Int -> Int -> IO (Vector a)
readAtNew file offset = readNewWith "readAtNew" Alone (At offset) file

-- | 'readAtNew', collective.
--
-- [Blocks]: as 'readAtAll'.
-- [Throws]: as 'readAtNew'.
readAtAllNew :: Element a => File -> Int -> Int -> IO (Vector a)
readAtAllNew file offset = readNewWith "readAtAllNew" Together (At offset) file

-- | 'readNext', of at most so many elements, into a new vector.
--
-- [Blocks]: as 'readNext'.
-- [Throws]: as 'readAtNew'.
readNextNew :: Element a => File -> Int -> IO (Vector a)
readNextNew = readNewWith "readNextNew" Alone Own

-- | 'readNextNew', collective.
--
-- [Blocks]: as 'readAll'.
-- [Throws]: as 'readAtNew'.
readAllNew :: Element a => File -> Int -> IO (Vector a)
readAllNew = readNewWith "readAllNew" Together Own

-- | 'readShared', of at most so many elements, into a new vector.
--
-- [Blocks]: as 'readShared'.
-- [Throws]: as 'readAtNew'.
readSharedNew :: Element a => File -> Int -> IO (Vector a)
readSharedNew = readNewWith "readSharedNew" Alone Shared

-- | 'readOrdered', of at most so many elements, into a new vector.
--
-- [Blocks]: as 'readOrdered'.
-- [Throws]: as 'readAtNew'.
readOrderedNew :: Element a => File -> Int -> IO (Vector a)
readOrderedNew = readNewWith "readOrderedNew" Together Shared

-- | 'readAt', without waiting: nobody may look at the memory before the request is complete.
--
-- [Blocks]: as 'iwriteAt'.
-- [Throws]: as 'readAt': what is wrong with the arguments now, the rest when it is waited for.
ireadAt :: ReceiveBuffer b => File -> Int -> b -> IO (Request Int)
ireadAt file offset = ireadWith "ireadAt" Alone (At offset) file

-- | 'readAtAll', without waiting.
--
-- [Blocks]: as 'iwriteAt'.
-- [Throws]: as 'ireadAt'.
ireadAtAll :: ReceiveBuffer b => File -> Int -> b -> IO (Request Int)
ireadAtAll file offset = ireadWith "ireadAtAll" Together (At offset) file

-- | 'readNext', without waiting: transfers at pointers go one after the other.
--
-- [Blocks]: as 'iwriteAt'.
-- [Throws]: as 'ireadAt'.
ireadNext :: ReceiveBuffer b => File -> b -> IO (Request Int)
ireadNext = ireadWith "ireadNext" Alone Own

-- | 'readAll', without waiting: transfers at pointers go one after the other.
--
-- [Blocks]: as 'iwriteAt'.
-- [Throws]: as 'ireadAt'.
ireadAll :: ReceiveBuffer b => File -> b -> IO (Request Int)
ireadAll = ireadWith "ireadAll" Together Own

-- | 'readShared', without waiting: transfers at pointers go one after the other.
--
-- [Blocks]: as 'iwriteAt'.
-- [Throws]: as 'ireadAt'.
ireadShared :: ReceiveBuffer b => File -> b -> IO (Request Int)
ireadShared = ireadWith "ireadShared" Alone Shared

foreign import ccall safe "heddle_mpi_file_transfer" c_transfer :: Int64 -> CInt -> CInt -> CInt -> Int64 -> Ptr Word8 -> Int64 -> Int64 -> CInt -> Ptr Outcome -> IO Slot

foreign import ccall safe "heddle_mpi_file_available" c_available :: Int64 -> Int64 -> Int64 -> Int64 -> Ptr Int64 -> IO CInt
