{-# LANGUAGE InterruptibleFFI #-}
{-# LANGUAGE PatternSynonyms #-}
{-# OPTIONS_HADDOCK not-home #-}

-- |
-- Module      : Heddle.Walk.Internal.Cursor
-- Description : A worker's memory outside the heap, and the C that works on it
-- Stability   : internal, exempt from the version policy
--
-- One 'Cursor' belongs to each worker of a walk: the entry it visits, its path, its output
-- buffer, the entries of the directory it read last. The layout is that of
-- @cbits/heddle_walk.h@, which asserts these offsets.
--
-- Cost: a field is one load or store.
-- Owner: the worker; freed at the end of the walk.
module Heddle.Walk.Internal.Cursor
  ( -- * Life
    Cursor,
    CursorPtr,
    newCursor,
    freeCursor,

    -- * Fields
    Field (..),
    readField,
    writeField,
    readPtr,
    writePtr,
    readInt32,
    writeInt32,
    fieldName,
    fieldNameLength,
    fieldTail,
    fieldTailLength,
    fieldInode,
    fieldDirectory,
    fieldDepth,
    fieldKind,
    fieldState,
    fieldFollow,
    fieldPath,
    fieldPrefix,
    fieldRoot,
    fieldOut,
    fieldOutUsed,
    fieldOutCapacity,
    fieldRecord,
    fieldEntries,
    fieldEntriesUsed,
    fieldEnded,
    fieldOpenedDevice,
    fieldOpenedInode,
    fieldStatus,

    -- * Threads
    beginAlone,
    endAlone,
    aloneUpTo,

    -- * Descriptors
    Descriptors,
    newDescriptors,
    sweepDescriptors,
    descriptorLimit,
    lowestDescriptor,
    openDirectory,
    readMore,
    reopenDirectory,
    closeDirectory,
    followLink,
    identify,
    sameDevice,
    sortNames,
    currentDirectory,

    -- * Status
    cursorStatus,
    statusAt,
    statusBytes,

    -- * Buffers
    reservePath,
    cursorPath,
    putPathBytes,
    putRawBytes,
    writeBytes,
    quoteBytes,
    moveBytes,
  )
where

import Data.Int (Int32)
import Data.Word (Word8)
import Foreign.C.Types (CInt (..), CSize (..))
import Foreign.Ptr (Ptr, nullPtr)
import Foreign.Storable (peek, peekByteOff, poke, pokeByteOff)
import Heddle.Prim.Errno (throwErrnoFor, pattern ENOMEM)

-- | The C structure's type.
data Cursor

-- | Where a worker's structure lies.
type CursorPtr = Ptr Cursor

-- | An offset in the structure.
newtype Field = Field Int

-- | A cursor without an output buffer.
--
-- [Cost]: a few allocations in the C heap; 69 KiB.
-- [Throws]: 'Heddle.Prim.Exception.IOException' when memory is short.
newCursor :: IO CursorPtr
newCursor = do
  p <- c_cursor
  if p == nullPtr then throwErrnoFor "heddle walk: cannot allocate a worker's buffers" ENOMEM else pure p

-- | Read a 64-bit field.
readField :: CursorPtr -> Field -> IO Int
readField p (Field o) = peekByteOff p o
{-# INLINE readField #-}

-- | Write a 64-bit field.
writeField :: CursorPtr -> Field -> Int -> IO ()
writeField p (Field o) = pokeByteOff p o
{-# INLINE writeField #-}

-- | Read an address.
readPtr :: CursorPtr -> Field -> IO (Ptr Word8)
readPtr p (Field o) = peekByteOff p o
{-# INLINE readPtr #-}

-- | Write an address.
writePtr :: CursorPtr -> Field -> Ptr Word8 -> IO ()
writePtr p (Field o) = pokeByteOff p o
{-# INLINE writePtr #-}

-- | Read a 32-bit field.
readInt32 :: CursorPtr -> Field -> IO Int
readInt32 p (Field o) = do
  n <- peekByteOff p o
  pure $! fromIntegral (n :: Int32)
{-# INLINE readInt32 #-}

-- | Write a 32-bit field.
writeInt32 :: CursorPtr -> Field -> Int -> IO ()
writeInt32 p (Field o) n = pokeByteOff p o (fromIntegral n :: Int32)
{-# INLINE writeInt32 #-}

-- | Named as in @heddle_walk.h@, which says what each holds.
fieldName, fieldNameLength, fieldTail, fieldTailLength, fieldInode, fieldDirectory, fieldDepth, fieldKind, fieldState, fieldFollow, fieldPath, fieldPrefix, fieldRoot, fieldOut, fieldOutUsed, fieldOutCapacity, fieldRecord, fieldEntries, fieldEntriesUsed, fieldEnded, fieldOpenedDevice, fieldOpenedInode, fieldStatus :: Field
fieldName = Field 0
fieldNameLength = Field 8
fieldTail = Field 16
fieldTailLength = Field 24
fieldInode = Field 32
fieldDirectory = Field 40
fieldDepth = Field 44
fieldKind = Field 48
fieldState = Field 52
fieldFollow = Field 56
fieldPath = Field 64
fieldPrefix = Field 80
fieldRoot = Field 88
fieldOut = Field 96
fieldOutUsed = Field 104
fieldOutCapacity = Field 112
fieldRecord = Field 120
fieldEntries = Field 128
fieldEntriesUsed = Field 136
fieldEnded = Field 176
fieldOpenedDevice = Field 184
fieldOpenedInode = Field 192
fieldStatus = Field 200

-- | The descriptors that a walk holds, in C's memory.
data Descriptors

-- | A table with room for a number of descriptors.
--
-- [Throws]: 'Heddle.Prim.Exception.IOException' when memory is short.
newDescriptors :: Int -> IO (Ptr Descriptors)
newDescriptors count = do
  d <- c_descriptors count
  if d == nullPtr then throwErrnoFor "heddle walk: cannot allocate a table of descriptors" ENOMEM else pure d

-- | Flags of 'openDirectory': the name may be a link; note device and inode; do not read
-- what is on another device than given; read whole and sort.
followLink, identify, sameDevice, sortNames :: CInt
followLink = 1
identify = 2
sameDevice = 4
sortNames = 8

-- | The descriptor that stands for the working directory.
currentDirectory :: Int
currentDirectory = -100

-- | How many bytes a status takes.
statusBytes :: Int
statusBytes = 144

-- | The target, the source and the number of bytes; they may overlap.
moveBytes :: Ptr Word8 -> Ptr Word8 -> Int -> IO ()
moveBytes to from n = c_memmove to from (fromIntegral n) >>= \p -> p `seq` pure ()
{-# INLINE moveBytes #-}

-- Unsafe, all of these: they allocate or copy memory and never enter the kernel's file
-- systems.
foreign import ccall unsafe "heddle_walk_cursor" c_cursor :: IO CursorPtr

-- | Free a cursor and its buffers.
foreign import ccall unsafe "heddle_walk_free" freeCursor :: CursorPtr -> IO ()

-- Unsafe: allocates.
foreign import ccall unsafe "heddle_walk_descriptors" c_descriptors :: Int -> IO (Ptr Descriptors)

-- Unsafe: moves bytes in memory.
foreign import ccall unsafe "memmove" c_memmove :: Ptr Word8 -> Ptr Word8 -> CSize -> IO (Ptr Word8)

-- | How many descriptors the process may have. (Unsafe: @getrlimit@ reads memory.)
foreign import ccall unsafe "heddle_walk_limit" descriptorLimit :: IO Int

-- | The lowest number that the next descriptor can get, or minus an error number.
-- (Unsafe: @/@ is always in the kernel's cache.)
foreign import ccall unsafe "heddle_walk_lowest" lowestDescriptor :: IO Int

-- | Say that the calling thread is the program's only one, that the program has no event manager, and that it shall have this
-- many capabilities when a walk first needs workers. Until then, system calls that may sleep are unsafe calls: for a
-- safe one, the runtime starts a thread of the system that could run others meanwhile, and the caller waits for that thread
-- when it comes back.
--
-- [Cost]: a store.
-- [Threads]: see above; the whole process has one such state.
beginAlone :: Int -> IO ()
beginAlone = poke c_alone . fromIntegral

-- | The number given to 'beginAlone'; from now on, there may be other threads.
--
-- [Cost]: a load and a store.
endAlone :: IO Int
endAlone = aloneUpTo <* poke c_alone 0

-- | The number given to 'beginAlone', or 0 after 'endAlone'.
--
-- [Cost]: a load.
aloneUpTo :: IO Int
aloneUpTo = fromIntegral <$> peek c_alone
{-# INLINE aloneUpTo #-}

-- The first, while the program is alone, else the second.
aloneOr :: IO a -> IO a -> IO a
aloneOr unsafely safely = aloneUpTo >>= \n -> if n > 0 then unsafely else safely
{-# INLINE aloneOr #-}

foreign import ccall "&heddle_walk_alone" c_alone :: Ptr CInt

-- | Close every descriptor that the walk still holds, and free the table. (Safe: there may
-- be many.)
sweepDescriptors :: Ptr Descriptors -> IO ()
sweepDescriptors table = c_sweepAlone table `aloneOr` c_sweep table

foreign import ccall unsafe "heddle_walk_sweep" c_sweepAlone :: Ptr Descriptors -> IO () -- no other thread is there to wait

foreign import ccall safe "heddle_walk_sweep" c_sweep :: Ptr Descriptors -> IO ()

-- | Open a directory relative to a descriptor and read its entries into the cursor, as
-- much as fits or, with 'sortNames', all of it: the descriptor, or minus an error number.
-- (Safe: disks sleep.)
openDirectory :: CursorPtr -> Ptr Descriptors -> CInt -> Ptr Word8 -> CInt -> Int -> IO Int
openDirectory c table at name flags device =
  c_openAlone c table at name flags device `aloneOr` c_open c table at name flags device

foreign import ccall unsafe "heddle_walk_open"
  c_openAlone :: CursorPtr -> Ptr Descriptors -> CInt -> Ptr Word8 -> CInt -> Int -> IO Int -- no other thread is there to wait

foreign import ccall safe "heddle_walk_open"
  c_open :: CursorPtr -> Ptr Descriptors -> CInt -> Ptr Word8 -> CInt -> Int -> IO Int

-- | Read on, keeping a number of bytes at the front of the buffer. (Safe: disks sleep.)
readMore :: CursorPtr -> CInt -> Int -> CInt -> IO Int
readMore c fd keep sort = c_moreAlone c fd keep sort `aloneOr` c_more c fd keep sort

foreign import ccall unsafe "heddle_walk_more" c_moreAlone :: CursorPtr -> CInt -> Int -> CInt -> IO Int -- no other thread is there to wait

foreign import ccall safe "heddle_walk_more" c_more :: CursorPtr -> CInt -> Int -> CInt -> IO Int

-- | Open a directory without reading it. (Safe: disks sleep.)
foreign import ccall safe "heddle_walk_reopen"
  reopenDirectory :: Ptr Descriptors -> CInt -> Ptr Word8 -> CInt -> IO Int

-- | Close a directory. (Unsafe: nothing was written, so nothing is waited for.)
foreign import ccall unsafe "heddle_walk_close" closeDirectory :: Ptr Descriptors -> CInt -> IO ()

-- | Fill in the status of the entry visited: 0, or minus an error number. (Safe: disks
-- sleep.)
cursorStatus :: CursorPtr -> IO Int
cursorStatus c = c_statusAlone c `aloneOr` c_status c

foreign import ccall unsafe "heddle_walk_status" c_statusAlone :: CursorPtr -> IO Int -- no other thread is there to wait

foreign import ccall safe "heddle_walk_status" c_status :: CursorPtr -> IO Int

-- | The status of any name, following a link if the flag is not 0. (Safe: disks sleep.)
foreign import ccall safe "heddle_walk_stat" statusAt :: CInt -> Ptr Word8 -> CInt -> Ptr Word8 -> IO Int

-- | Make the path buffer at least as large as given. (Unsafe: memory only.)
foreign import ccall unsafe "heddle_walk_reserve_path" reservePath :: CursorPtr -> Int -> IO Int

-- | Write the whole path and a NUL into the path buffer; its length. (Unsafe: memory only.)
foreign import ccall unsafe "heddle_walk_path" cursorPath :: CursorPtr -> IO Int

-- | Append the path and a byte (none when negative) to the output: 0, or how many bytes of room
-- are missing. (Unsafe: memory only.)
foreign import ccall unsafe "heddle_walk_put_path" putPathBytes :: CursorPtr -> CInt -> IO Int

-- | Append bytes to the output: 0, or how many bytes of room are missing. (Unsafe: memory only.)
foreign import ccall unsafe "heddle_walk_put" putRawBytes :: CursorPtr -> Ptr Word8 -> Int -> IO Int

-- | Write: the number of bytes, fewer than asked only after a signal, or minus an error number.
-- (Interruptible: it waits while a pipe is full, and cancelling the walk ends that wait.)
writeBytes :: CInt -> Ptr Word8 -> Int -> IO Int
writeBytes fd from n = c_writeAlone fd from n `aloneOr` c_write fd from n

foreign import ccall unsafe "heddle_walk_write" c_writeAlone :: CInt -> Ptr Word8 -> Int -> IO Int -- no other thread is there to wait

foreign import ccall interruptible "heddle_walk_write" c_write :: CInt -> Ptr Word8 -> Int -> IO Int

-- | Quote a name as GNU's messages do, into 4 bytes for each and 6 more; the length.
-- (Unsafe: memory only.)
foreign import ccall unsafe "heddle_walk_quote" quoteBytes :: Ptr Word8 -> Int -> Ptr Word8 -> IO Int
