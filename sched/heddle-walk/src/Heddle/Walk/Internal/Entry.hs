{-# LANGUAGE GeneralizedNewtypeDeriving #-}
{-# LANGUAGE PatternSynonyms #-}
{-# OPTIONS_HADDOCK not-home #-}

-- |
-- Module      : Heddle.Walk.Internal.Entry
-- Description : What a visitor sees of an entry, and where it writes
-- Stability   : internal, exempt from the version policy
--
-- An 'Entry' is one worker's window on the tree: the same value, whatever the entry. It is valid
-- while the visitor runs and shows another entry afterwards. Addresses taken from it are valid
-- as long, those into the path only until the next call that asks for the path.
--
-- Cost: accessors load from memory and do not allocate; the status is read once per
-- entry, when it is first asked for.
-- Owner: the worker that called the visitor, and no other thread.
module Heddle.Walk.Internal.Entry
  ( -- * The entry
    Entry (..),
    Visitor,
    entryName,
    entryAtName,
    entryDepth,
    entryKind,
    entryInode,
    entryRootLength,
    entryPrefixLength,
    entryDirectory,

    -- * Its path
    entryPath,
    entryPathBytes,

    -- * Its kind
    Kind (..),
    kindUnknown,
    kindFifo,
    kindCharacter,
    kindDirectory,
    kindBlock,
    kindFile,
    kindLink,
    kindSocket,
    isKnownKind,

    -- * Its status
    hasStatus,
    askStatus,
    isThroughFile,
    statusMode,
    statusLinks,
    statusUser,
    statusGroup,
    statusSize,
    statusBlocks,
    statusBlockSize,
    statusDevice,
    statusInode,
    statusSpecial,
    statusAccessed,
    statusModified,
    statusChanged,
    statusBorn,
    Seconds,
    NanosOfSecond,
    Status (..),
    entryStatus,
    statusOf,

    -- * Output

    -- | What one call of a visitor appends is one record: no other worker's bytes come
    -- between.
    putPath,
    putBytes,
    putByteString,
    putByte,
    flushOutput,
    writeRecordTo,

    -- * Reporting errors
    reportErrno,
    reportText,
    markFailed,
    quoted,
    quotedPath,
  )
where

import Control.Monad (void, when)
import Data.ByteString (ByteString)
import Data.ByteString.Internal qualified as B
import Data.ByteString.Unsafe qualified as B
import Data.Word (Word8)
import Foreign.C.Types (CInt)
import Foreign.Marshal.Alloc (alloca, allocaBytes)
import Foreign.Ptr (Ptr, castPtr, plusPtr)
import Foreign.Storable (peekByteOff, poke)
import Heddle.Prim.Errno (Errno (..), pattern ENOTDIR)
import Heddle.Walk.Internal.Cursor
import Heddle.Walk.Internal.Options (RawPath, WalkControl)

-- | One worker's window on the tree. The actions are the engine's; visitors use the
-- functions below.
data Entry = Entry
  { -- | Entry, path and output buffer.
    entryCursor :: !CursorPtr,
    -- | Open the parent's descriptor again, which had to be given up.
    entryReopen :: !(IO Int),
    -- | Make room for a number of bytes in the output buffer.
    entryMakeRoom :: !(Int -> IO ()),
    -- | Write out what was appended; in sorted order, once everything to the left is written.
    entryFlush :: !(IO Bool),
    -- | Bytes for another descriptor, in their turn.
    entryWriteTo :: !(CInt -> ByteString -> IO ()),
    -- | An error of the entry.
    entryError :: !(Errno -> IO ()),
    -- | The status could not be read: an error, unless the entry has vanished and the walk
    -- leaves such entries out.
    entryStatusError :: !(Errno -> IO ()),
    -- | A message, and the walk has failed.
    entryText :: !(ByteString -> IO ()),
    -- | The walk has failed.
    entryFailed :: !(IO ())
  }

-- | What is called for every entry.
type Visitor = Entry -> IO WalkControl

-- | The last component of the path: address and length. A NUL follows, except after a
-- starting point given with trailing slashes, which are left out here.
--
-- [Cost]: two loads.
entryName :: Entry -> (Ptr Word8 -> Int -> IO a) -> IO a
entryName v use = do
  p <- readPtr (entryCursor v) fieldName
  n <- readField (entryCursor v) fieldNameLength
  use p n
{-# INLINE entryName #-}

-- | The name, with a NUL after it, for system calls relative to 'entryDirectory': the last
-- component, and for a starting point the whole of it as given.
--
-- [Cost]: one load.
entryAtName :: Entry -> IO (Ptr Word8)
entryAtName v = readPtr (entryCursor v) fieldTail
{-# INLINE entryAtName #-}

-- | The parent's descriptor, or that of the working directory for starting points. To be
-- asked for again after anything else was done with the visit.
--
-- [Cost]: one load; may open the directories above, if descriptors are few.
-- [Throws]: 'Heddle.Prim.Exception.IOException' if they cannot be opened any more.
entryDirectory :: Entry -> IO CInt
entryDirectory v = do
  fd <- readInt32 (entryCursor v) fieldDirectory
  if fd /= -1 then pure (fromIntegral fd) else fromIntegral <$> entryReopen v
{-# INLINE entryDirectory #-}

-- | How deep; starting points have depth 0.
entryDepth :: Entry -> IO Int
entryDepth v = readInt32 (entryCursor v) fieldDepth
{-# INLINE entryDepth #-}

-- | How many bytes at the front of the path are the starting point.
entryRootLength :: Entry -> IO Int
entryRootLength v = readField (entryCursor v) fieldRoot
{-# INLINE entryRootLength #-}

-- | How many bytes of the path come before 'entryAtName', slash included; 0 for a starting
-- point.
entryPrefixLength :: Entry -> IO Int
entryPrefixLength v = readField (entryCursor v) fieldPrefix
{-# INLINE entryPrefixLength #-}

-- | What kind of file it is, links followed as the walk's options say.
--
-- [Cost]: one load; a system call where the file system does not say.
-- [Blocks]: holds an OS thread for that system call.
entryKind :: Entry -> IO Kind
entryKind v = do
  k <- readInt32 (entryCursor v) fieldKind
  if k /= 0
    then pure (Kind k)
    else do
      void (hasStatus v)
      Kind <$> readInt32 (entryCursor v) fieldKind
{-# INLINE entryKind #-}

-- | The inode's number, as 'statusInode' has it; 0 if it cannot be read.
--
-- [Cost]: one load; a system call for directories (others may be mounted on them), for
-- starting points and for links that are followed.
entryInode :: Entry -> IO Int
entryInode v = do
  inode <- readField c fieldInode
  kind <- readInt32 c fieldKind
  follow <- readInt32 c fieldFollow
  state <- readInt32 c fieldState
  if inode /= 0 && kind /= 0 && kind /= 4 && follow == 0 && state == 0
    then pure inode
    else do
      ok <- hasStatus v
      if ok then statusInode v else pure 0
  where
    c = entryCursor v

-- | The path as it would be printed, with a NUL after it: address and length.
--
-- [Cost]: copies the name behind the prefix.
entryPathBytes :: Entry -> (Ptr Word8 -> Int -> IO a) -> IO a
entryPathBytes v use = do
  n <- cursorPath (entryCursor v)
  p <- readPtr (entryCursor v) fieldPath
  use p (max 0 n)
{-# INLINE entryPathBytes #-}

-- | The path as it would be printed.
--
-- [Cost]: copies it.
entryPath :: Entry -> IO RawPath
entryPath v = entryPathBytes v $ \p n -> B.create n (\to -> moveBytes to p n)

-- | A kind of file: the kernel's @DT_@ number.
newtype Kind = Kind Int
  deriving newtype (Eq, Ord, Show)

-- | The kinds; 'kindUnknown' only where the status cannot be read.
kindUnknown, kindFifo, kindCharacter, kindDirectory, kindBlock, kindFile, kindLink, kindSocket :: Kind
kindUnknown = Kind 0
kindFifo = Kind 1
kindCharacter = Kind 2
kindDirectory = Kind 4
kindBlock = Kind 6
kindFile = Kind 8
kindLink = Kind 10
kindSocket = Kind 12

-- | Is it anything but 'kindUnknown'?
isKnownKind :: Kind -> Bool
isKnownKind (Kind k) = k /= 0

-- | Read the status, if it was not read before; 'False' if it cannot be, which has then
-- been reported. Links are followed as the walk's options say, except those that lead
-- nowhere. The @status…@ accessors are valid after a 'True'.
--
-- [Cost]: one load; a system call the first time.
-- [Blocks]: holds an OS thread for the system call.
hasStatus :: Entry -> IO Bool
hasStatus v = do
  state <- readInt32 c fieldState
  if state > 0 then pure True else if state < 0 then pure False else ask
  where
    c = entryCursor v
    ask = do
      void (entryDirectory v)
      r <- askStatus v
      when (r < 0) (entryStatusError v (Errno (negate r)))
      pure (r >= 0)

-- | Read the status, whether it was read before or not: 0, or minus an error number. A link that
-- should have been followed and leads through a file is reported, and is then itself what is
-- visited, as in GNU find.
--
-- [Blocks]: holds an OS thread for the system call.
askStatus :: Entry -> IO Int
askStatus v = do
  r <- cursorStatus (entryCursor v)
  through <- isThroughFile v
  when through (entryError v ENOTDIR)
  pure r

-- | After the status was read: is it that of a link that should have been followed and leads
-- through a file?
isThroughFile :: Entry -> IO Bool
isThroughFile v = (== 3) <$> readInt32 (entryCursor v) fieldState
{-# INLINE isThroughFile #-}

status :: Int -> Entry -> IO Int
status i v = readField (entryCursor v) (Field (at + 8 * i))
  where
    Field at = fieldStatus
{-# INLINE status #-}

-- | As in stat(2). Blocks have 512 bytes, whatever 'statusBlockSize'.
statusMode, statusLinks, statusUser, statusGroup, statusSize, statusBlocks, statusDevice, statusInode, statusSpecial, statusBlockSize :: Entry -> IO Int
statusMode = status 0
statusLinks = status 1
statusUser = status 2
statusGroup = status 3
statusSize = status 4
statusBlocks = status 5
statusDevice = status 6
statusInode = status 7
statusSpecial = status 8
statusBlockSize = status 17

-- | Seconds since 1970.
type Seconds = Int

-- | The rest, 0 to 999,999,999; -1 for a birth time that the file system does not keep.
type NanosOfSecond = Int

-- | Times of last access, of last change of contents and of status, and of birth.
statusAccessed, statusModified, statusChanged, statusBorn :: Entry -> (Seconds -> NanosOfSecond -> IO a) -> IO a
statusAccessed = time 9
statusModified = time 11
statusChanged = time 13
statusBorn = time 15

time :: Int -> Entry -> (Seconds -> NanosOfSecond -> IO a) -> IO a
time i v use = do
  s <- status i v
  n <- status (i + 1) v
  use s n
{-# INLINE time #-}

-- | A status as a value.
data Status = Status
  { fileMode, fileLinks, fileUser, fileGroup, fileSize, fileBlocks, fileBlockSize :: !Int,
    fileDevice, fileInode, fileSpecial :: !Int,
    fileAccessed, fileModified, fileChanged, fileBorn :: !Seconds,
    fileAccessedNanos, fileModifiedNanos, fileChangedNanos, fileBornNanos :: !NanosOfSecond
  }
  deriving stock (Eq, Show)

-- | The entry's status, as 'hasStatus' reads it.
--
-- [Cost]: 168 bytes; see 'hasStatus'.
entryStatus :: Entry -> IO (Maybe Status)
entryStatus v = do
  ok <- hasStatus v
  if ok then Just <$> peekStatus (entryCursor v `plusPtr` at) else pure Nothing
  where
    Field at = fieldStatus

-- | The status of another name, NUL-terminated, relative to a directory; the flag says
-- whether to follow a link.
--
-- [Cost]: one system call.
-- [Blocks]: holds an OS thread.
statusOf :: CInt -> Ptr Word8 -> Bool -> IO (Either Errno Status)
statusOf directory name follow = allocaBytes statusBytes $ \p -> do
  r <- statusAt directory name (if follow then 1 else 0) p
  if r < 0 then pure (Left (Errno (negate r))) else Right <$> peekStatus p

peekStatus :: Ptr Word8 -> IO Status
peekStatus p = do
  let at i = peekByteOff p (8 * i) :: IO Int
  mode <- at 0
  links <- at 1
  user <- at 2
  group <- at 3
  size <- at 4
  blocks <- at 5
  device <- at 6
  inode <- at 7
  special <- at 8
  accessed <- at 9
  accessedNs <- at 10
  modified <- at 11
  modifiedNs <- at 12
  changed <- at 13
  changedNs <- at 14
  born <- at 15
  bornNs <- at 16
  blockSize <- at 17
  pure
    Status
      { fileMode = mode,
        fileLinks = links,
        fileUser = user,
        fileGroup = group,
        fileSize = size,
        fileBlocks = blocks,
        fileBlockSize = blockSize,
        fileDevice = device,
        fileInode = inode,
        fileSpecial = special,
        fileAccessed = accessed,
        fileModified = modified,
        fileChanged = changed,
        fileBorn = born,
        fileAccessedNanos = accessedNs,
        fileModifiedNanos = modifiedNs,
        fileChangedNanos = changedNs,
        fileBornNanos = bornNs
      }

-- | Append the path and one byte, such as a newline or NUL; no byte if negative.
--
-- [Cost]: two copies; one write per full buffer.
putPath :: Entry -> Int -> IO ()
putPath v end = do
  lack <- putPathBytes (entryCursor v) (fromIntegral end)
  when (lack /= 0) $ do
    entryMakeRoom v lack
    void (putPathBytes (entryCursor v) (fromIntegral end))
{-# INLINE putPath #-}

-- | Append bytes.
putBytes :: Entry -> Ptr Word8 -> Int -> IO ()
putBytes v p n = do
  lack <- putRawBytes (entryCursor v) p n
  when (lack /= 0) $ do
    entryMakeRoom v lack
    void (putRawBytes (entryCursor v) p n)

-- | Append a string of bytes.
putByteString :: Entry -> ByteString -> IO ()
putByteString v s = B.unsafeUseAsCStringLen s $ \(p, n) -> putBytes v (castPtr p) n

-- | Append one byte.
putByte :: Entry -> Word8 -> IO ()
putByte v w = alloca $ \p -> poke p w >> putBytes v p 1

-- | Write out everything appended, so that what another program then writes comes after
-- it. In sorted order this waits for everything to the left; 'False' when the walk was cut
-- off to the left meanwhile, so that this visit must have no effect.
--
-- [Blocks]: holds an OS thread while the reader is slow; parks while it is not its turn.
flushOutput :: Entry -> IO Bool
flushOutput = entryFlush

-- | One record for another descriptor than 'Heddle.Walk.Internal.Options.walkOutput'. In
-- sorted order, in its turn; it is written at once when that has come.
--
-- [Cost]: one system call each.
writeRecordTo :: Entry -> CInt -> ByteString -> IO ()
writeRecordTo = entryWriteTo

-- | Report that a system call on this entry failed, in GNU find's words; the walk's status
-- becomes 1, and what 'Heddle.Walk.Internal.Options.walkOnError' says is done.
reportErrno :: Entry -> Errno -> IO ()
reportErrno = entryError

-- | Write a whole message, newline included, to the messages, in its turn; the walk's status
-- becomes 1.
reportText :: Entry -> ByteString -> IO ()
reportText = entryText

-- | The walk's status becomes 1.
markFailed :: Entry -> IO ()
markFailed = entryFailed

-- | A name as GNU's messages quote it, in the locale's way: @‘a\\nb’@.
quoted :: ByteString -> IO ByteString
quoted s = B.unsafeUseAsCStringLen s $ \(p, n) ->
  B.createAndTrim (4 * n + 6) $ \out -> quoteBytes (castPtr p) n out

-- | The entry's path, quoted.
quotedPath :: Entry -> IO ByteString
quotedPath v = entryPath v >>= quoted
