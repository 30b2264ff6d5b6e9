{-# LANGUAGE PatternSynonyms #-}
{-# OPTIONS_HADDOCK not-home #-}

-- |
-- Module      : Heddle.Walk.Find.Internal.System
-- Description : The C library behind find
-- Stability   : internal, exempt from the version policy
--
-- Typed wrappers of @cbits/heddle_find.c@: locale, quoting, local time, reference files,
-- accounts and programs. Patterns and regular expressions have modules of their own.
--
-- Cost: that of the C function named.
-- Owner: nothing is stored, but the process's locale.
module Heddle.Walk.Find.Internal.System
  ( -- * Start
    initialise,
    bytesCompare,

    -- * Bytes
    withText,
    built,

    -- * Descriptors
    openNamed,
    writeText,
    readText,
    readLine,

    -- * Names and answers
    forTerminal,
    affirmative,

    -- * Numbers and times
    Timestamp (..),
    timeNow,
    decimalNumber,
    unsafeFormatInteger,
    unsafeFormatDouble,
    renderTime,
    renderCtime,
    renderListTime,
    LocalTime (..),
    localTime,
    localOffset,
    Summer,
    anySeason,
    summerTime,
    zoneNamesAround,
    fromLocal,
    inZone,

    -- * Files
    FollowLink (..),
    emptyDirectory,
    mayAccess,
    removeName,
    linkTarget,
    holdDirectory,
    securityContext,

    -- * Accounts
    Account (..),
    accountNumber,
    accountName,

    -- * Programs
    rememberMask,
    spawnProgram,
    Ending (..),
    waitProgram,
    argumentRoom,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString qualified as Bytes
import Data.ByteString.Internal qualified as Bytes (createAndTrim, createUptoN)
import Data.ByteString.Unsafe qualified as Bytes (unsafeUseAsCStringLen)
import Data.Either (fromRight)
import Data.Int (Int64)
import Data.Word (Word32, Word8)
import Foreign.C.String (CString)
import Foreign.C.Types (CChar (..), CDouble (..), CInt (..), CSize (..))
import Foreign.Marshal.Alloc (alloca, allocaBytes, free)
import Foreign.Marshal.Array (allocaArray, withArray0)
import Foreign.Marshal.Utils (with)
import Foreign.Ptr (Ptr, castPtr, nullPtr, plusPtr)
import Foreign.Storable (peek, peekElemOff, poke)
import Heddle.Prim.Errno (Errno (..), checked, pattern EINTR)
import Heddle.Prim.Exception (bracket, trySync)
import Heddle.Prim.File (OpenFlags, openFile)
import Heddle.Prim.Unsafe (unsafePure)
import Heddle.Walk.Internal.Cursor (writeBytes)
import System.Posix.IO.ByteString (fdReadBuf)
import System.Posix.Types (Fd)

-- | Adopt the user's locale and time zone: first thing in the process's life.
--
-- [Blocks]: holds the capability while locale files are read.
initialise :: IO ()
initialise = c_init

-- | May plain text be compared byte by byte in this locale? (UTF-8 and one-byte sets.)
bytesCompare :: IO Bool
bytesCompare = (/= 0) <$> c_bytes_compare

-- | Lend a text to C, with a NUL at its end.
--
-- [Cost]: one copy.
withText :: ByteString -> (CString -> IO a) -> IO a
withText = Bytes.useAsCString

-- | The text that a C function writes; the number is the room that it has, in bytes.
built :: Int -> (Ptr Word8 -> IO Int) -> IO ByteString
built = Bytes.createUptoN
{-# INLINE built #-}

-- | Write a whole text to a descriptor, for messages of a program that has not started GHC's event
-- manager: handles need it, and @heddle find@ does without.
--
-- [Cost]: a system call, more if a pipe takes the text in parts.
-- [Blocks]: holds an OS thread while a pipe is full.
-- [Throws]: nothing; 'Left' is the errno that ended it, never EINTR.
writeText :: CInt -> ByteString -> IO (Either Errno ())
writeText fd text = Bytes.unsafeUseAsCStringLen text $ \(from, size) -> go (castPtr from) size
  where
    go from n
      | n <= 0 = pure (Right ())
      | otherwise = do
        r <- writeBytes fd from n
        if r >= 0
          then go (from `plusPtr` r) (n - r)
          else if Errno (negate r) == EINTR then go from n else pure (Left (Errno (negate r)))

-- | Open a file.
--
-- [Blocks]: holds an OS thread; for a named pipe, until its other end is open.
-- [Throws]: 'IOError'.
openNamed :: ByteString -> OpenFlags -> IO Fd
openNamed name flags = fromIntegral <$> checked "open" (openFile name flags)

-- | Read a descriptor to its end.
--
-- [Blocks]: holds an OS thread.
-- [Throws]: 'IOError' if reading fails.
readText :: Fd -> IO ByteString
readText fd = Bytes.concat . reverse <$> pieces []
  where
    pieces before = do
      piece <- Bytes.createAndTrim 65536 (\p -> fromIntegral <$> fdReadBuf fd p 65536)
      if Bytes.null piece then pure before else pieces (piece : before)

-- | Read a line without its newline, byte by byte, because what follows is not ours; 'Nothing'
-- at the end, or where reading fails: an answer that cannot be read is no consent, and GNU find, too, says nothing of it.
--
-- [Blocks]: holds an OS thread.
readLine :: Fd -> IO (Maybe ByteString)
readLine fd = alloca (go [])
  where
    go before p = do
      n <- fromRight 0 <$> trySync (fdReadBuf fd p 1)
      if n == 0
        then pure (if null before then Nothing else Just (ended before))
        else peek p >>= \byte -> if byte == 10 then pure (Just (ended before)) else go (byte : before) p
    ended = Bytes.pack . reverse

-- | A name for a terminal: what cannot be shown becomes a question mark.
--
-- [Cost]: O(n).
forTerminal :: ByteString -> ByteString
forTerminal name = unsafePure $
  Bytes.useAsCStringLen name $ \(p, n) -> do
    m <- c_terminal p (fromIntegral n)
    Bytes.packCStringLen (p, fromIntegral m)

-- | Does an answer mean yes in the user's language?
affirmative :: ByteString -> IO Bool
affirmative reply = withText reply (fmap (/= 0) . c_affirmative)

-- | A time: seconds and nanoseconds since 1970.
data Timestamp = Timestamp !Int64 !Int64
  deriving stock (Eq, Ord, Show)

-- | The time of day.
timeNow :: IO Timestamp
timeNow = allocaArray 2 $ \out -> c_now out >> Timestamp <$> peekElemOff out 0 <*> peekElemOff out 1

-- | All of a text as strtod(3) reads it.
decimalNumber :: ByteString -> Maybe Double
decimalNumber text = unsafePure $
  withText text $ \p -> alloca $ \out -> do
    ok <- c_number p out
    if ok /= 0 then (\(CDouble d) -> Just d) <$> peek out else pure Nothing

-- | A number in a format of printf(3) that takes one @long long@.
--
-- Unsafe: with any other format, memory is read that is none of ours.
unsafeFormatInteger :: ByteString -> Int -> IO ByteString
unsafeFormatInteger format value = withText format $ \f ->
  built 4096 (\out -> fromIntegral <$> c_integer (castPtr out) 4096 f (fromIntegral value))

-- | A number in a format of printf(3) that takes one @double@.
--
-- Unsafe: as 'unsafeFormatInteger'.
unsafeFormatDouble :: ByteString -> Double -> IO ByteString
unsafeFormatDouble format value = withText format $ \f ->
  built 4096 (\out -> fromIntegral <$> c_ratio (castPtr out) 4096 f (CDouble value))

-- | A time in a format of @-printf@: @\'\@\'@ or a letter of strftime(3).
renderTime :: Char -> Timestamp -> IO ByteString
renderTime kind (Timestamp s n) =
  built 512 (\out -> fromIntegral <$> c_time (castPtr out) 512 s n 0 (fromIntegral (fromEnum kind)))

-- | A time in the form of ctime(3), with a fraction.
renderCtime :: Timestamp -> IO ByteString
renderCtime (Timestamp s n) = built 128 (\out -> fromIntegral <$> c_time (castPtr out) 128 s n 1 0)

-- | @renderListTime now time@, as @-ls@ shows it.
renderListTime :: Timestamp -> Timestamp -> IO ByteString
renderListTime (Timestamp now _) (Timestamp s _) =
  built 128 (\out -> fromIntegral <$> c_list_time (castPtr out) 128 s now)

-- | Fields of a calendar: year, month (from 1), day, hour, minute, second.
data LocalTime = LocalTime !Int64 !Int64 !Int64 !Int64 !Int64 !Int64
  deriving stock (Eq, Show)

-- | A time's fields in the user's zone, with its day of the week (Sunday is 0).
localTime :: Int64 -> IO (Maybe (LocalTime, Int64))
localTime seconds = allocaArray 8 $ \fields -> do
  ok <- c_local seconds fields
  if ok == 0
    then pure Nothing
    else do
      let field = peekElemOff fields
      time <- LocalTime <$> field 0 <*> ((+ 1) <$> field 1) <*> field 2 <*> field 3 <*> field 4 <*> field 5
      day <- field 6
      pure (Just (time, day))

-- | How many seconds east the user's zone is at a time.
localOffset :: Int64 -> IO Int64
localOffset seconds = allocaArray 8 $ \fields -> do
  ok <- c_local seconds fields
  if ok == 0 then pure 0 else peekElemOff fields 7

-- | Is summer time in force?
newtype Summer = Summer CInt

-- | Whichever is right for the time.
anySeason :: Summer
anySeason = Summer (-1)

-- | It is in force.
summerTime :: Summer
summerTime = Summer 1

-- | What the user's zone is called at a time and, if it has another one, in its other season.
--
-- [Blocks]: holds an OS thread if the zone's file has to be looked at.
zoneNamesAround :: Int64 -> IO [(ByteString, Summer)]
zoneNamesAround now = do
  names <- mapM (\quarter -> nameAt (now + quarter * 90 * 86400)) [0 .. 3]
  let here = take 1 names
  pure (here ++ take 1 [other | other@(_, Summer s) <- names, all (\(_, Summer h) -> s /= h) here])
  where
    nameAt seconds = alloca $ \flag -> do
      poke flag 0
      name <- built 64 (\out -> fromIntegral <$> c_zone_name seconds (castPtr out) 64 flag)
      (,) name . Summer <$> peek flag

-- | The time of fields in the user's zone, taken for summer or winter time, and which of
-- them it was; fields out of range are carried over.
--
-- [Blocks]: holds an OS thread if the zone's file has to be looked at.
fromLocal :: Summer -> LocalTime -> IO (Maybe (Int64, Summer))
fromLocal (Summer season) (LocalTime year month day hour minute second) =
  with season $ \flag -> alloca $ \out -> do
    ok <- c_mktime year (month - 1) day hour minute second flag out
    if ok == 0
      then pure Nothing
      else (\t was -> Just (t, Summer was)) <$> peek out <*> peek flag

-- | Act while local time is that of another zone, in the form of the variable TZ.
--
-- [Blocks]: holds an OS thread while the zone's file is read.
-- [Threads]: while no other reads the environment.
inZone :: ByteString -> IO a -> IO a
inZone zone act = bracket (withText zone c_enter_zone) c_leave_zone (const act)

-- | Is a symbolic link itself meant, or what it points to?
data FollowLink = TheLink | ItsTarget
  deriving stock (Eq, Show)

-- | Is there nothing in a directory?
--
-- [Blocks]: holds an OS thread.
emptyDirectory :: CInt -> CString -> FollowLink -> IO (Either Errno Bool)
emptyDirectory directory name follow = do
  r <- c_empty directory name (if follow == ItsTarget then 1 else 0)
  pure (if r < 0 then Left (Errno (fromIntegral (negate r))) else Right (r == 1))

-- | May this process read (4), write (2), execute (1) it?
--
-- [Blocks]: holds an OS thread.
mayAccess :: CInt -> CString -> CInt -> IO Bool
mayAccess directory name how = (/= 0) <$> c_access directory name how

-- | Remove a name; the flag says that it is a directory's.
--
-- [Blocks]: holds an OS thread.
removeName :: CInt -> CString -> Bool -> IO (Either Errno ())
removeName directory name isDirectory = (() <$) . answer . fromIntegral <$> c_remove directory name (if isDirectory then 1 else 0)

-- | What a symbolic link says.
--
-- [Blocks]: holds an OS thread.
linkTarget :: CInt -> CString -> IO (Either Errno ByteString)
linkTarget directory name = go 1024
  where
    go size = do
      result <- allocaBytes size $ \out -> do
        n <- c_link directory name out (fromIntegral size)
        if n < fromIntegral size
          then Just <$> traverse (\m -> Bytes.packCStringLen (out, fromIntegral m)) (answer n)
          else pure Nothing
      maybe (go (8 * size)) pure result

-- | A descriptor of one's own, to be closed, for a directory: of this name, or that of a
-- descriptor.
--
-- [Blocks]: holds an OS thread.
holdDirectory :: CInt -> Maybe ByteString -> IO (Either Errno CInt)
holdDirectory directory name =
  fmap fromIntegral . answer . fromIntegral <$> case name of
    Nothing -> c_hold directory nullPtr
    Just text -> withText text (c_hold directory)

-- | SELinux's context of a path, the link's own or its target's.
--
-- [Blocks]: holds an OS thread.
securityContext :: ByteString -> FollowLink -> IO (Either Errno ByteString)
securityContext path follow = withText path $ \p -> allocaBytes 4096 $ \out -> do
  n <- c_context p (if follow == ItsTarget then 1 else 0) out 4096
  traverse (\m -> Bytes.packCStringLen (out, fromIntegral m)) (answer n)

answer :: Int64 -> Either Errno Int64
answer n = if n < 0 then Left (Errno (fromIntegral (negate n))) else Right n

-- | Users have names and numbers, and so have groups.
data Account = User | Group
  deriving stock (Eq, Show)

accountKind :: Account -> CInt
accountKind = \case User -> 0; Group -> 1

-- | The number of a name.
--
-- [Blocks]: holds an OS thread; may ask servers.
accountNumber :: Account -> ByteString -> IO (Maybe Word32)
accountNumber account name = do
  r <- withText name (c_account_number (accountKind account))
  pure (if r < 0 then Nothing else Just (fromIntegral r))

-- | The name of a number.
--
-- [Blocks]: holds an OS thread; may ask servers.
accountName :: Account -> Word32 -> IO (Maybe ByteString)
accountName account number = do
  p <- c_account_name (accountKind account) number
  if p == nullPtr
    then pure Nothing
    else do
      name <- Bytes.packCString p
      free p
      pure (Just name)

-- | Let programs started from now on have the caller's signal mask.
rememberMask :: IO ()
rememberMask = c_children_mask

-- | @spawnProgram arguments directory noInput@ starts a program: in a directory (-100:
-- where we are), with nothing on its standard input if so asked. Returns its number.
--
-- [Blocks]: holds an OS thread until the program has been loaded.
spawnProgram :: [ByteString] -> CInt -> Bool -> IO (Either Errno Int64)
spawnProgram arguments directory noInput = go arguments []
  where
    go [] pointers = withArray0 nullPtr (reverse pointers) $ \argv -> do
      r <- c_spawn argv directory (if noInput then 1 else 0)
      pure (if r < 0 then Left (Errno (fromIntegral (negate r))) else Right r)
    go (a : as) pointers = withText a (\p -> go as (p : pointers))

-- | How a program ended.
data Ending = Exited !Int | Killed !Int
  deriving stock (Eq, Show)

-- | Wait until a program ends.
--
-- [Blocks]: holds an OS thread.
waitProgram :: Int64 -> IO (Either Errno Ending)
waitProgram pid = do
  r <- fromIntegral <$> c_wait pid
  pure $
    if r < 0
      then Left (Errno (negate r))
      else if r >= 256 then Right (Killed (r - 256)) else Right (Exited r)

-- | Bytes that the arguments of a program may take, the environment deducted.
argumentRoom :: IO Int64
argumentRoom = c_argument_room

-- Unsafe, although it reads locale and zone files: nothing else runs yet that it could hold up, and
-- a safe call would hand the capability to another thread and wait to get it back.
foreign import ccall unsafe "heddle_find_init" c_init :: IO ()

-- Unsafe: reads a variable.
foreign import ccall unsafe "heddle_find_bytes_compare" c_bytes_compare :: IO CInt

-- Unsafe: computes on memory.
foreign import ccall unsafe "heddle_find_terminal" c_terminal :: CString -> CSize -> IO CSize

-- Unsafe: reads the clock.
foreign import ccall unsafe "heddle_find_now" c_now :: Ptr Int64 -> IO ()

-- Unsafe: matches a short text in memory.
foreign import ccall unsafe "heddle_find_affirmative" c_affirmative :: CString -> IO CInt

-- Unsafe: computes on memory.
foreign import ccall unsafe "heddle_find_number" c_number :: CString -> Ptr CDouble -> IO CInt

-- Unsafe: computes on memory.
foreign import ccall unsafe "heddle_find_integer" c_integer :: CString -> CSize -> CString -> Int64 -> IO CInt

-- Unsafe: computes on memory.
foreign import ccall unsafe "heddle_find_ratio" c_ratio :: CString -> CSize -> CString -> CDouble -> IO CInt

-- Unsafe: the zone was read by 'initialise'; its lock is held for a computation only.
foreign import ccall unsafe "heddle_find_time" c_time :: CString -> CSize -> Int64 -> Int64 -> CInt -> CChar -> IO CSize

-- Unsafe: as above.
foreign import ccall unsafe "heddle_find_list_time" c_list_time :: CString -> CSize -> Int64 -> Int64 -> IO CSize

-- Unsafe: as above.
foreign import ccall unsafe "heddle_find_local" c_local :: Int64 -> Ptr Int64 -> IO CInt

-- Safe: mktime(3) looks whether the zone's file has changed.
foreign import ccall safe "heddle_find_zone_name" c_zone_name :: Int64 -> CString -> CSize -> Ptr CInt -> IO CSize

-- Safe: reads the zone's file.
foreign import ccall safe "heddle_find_mktime" c_mktime :: Int64 -> Int64 -> Int64 -> Int64 -> Int64 -> Int64 -> Ptr CInt -> Ptr Int64 -> IO CInt

-- Safe: reads the zone's file.
foreign import ccall safe "heddle_find_enter_zone" c_enter_zone :: CString -> IO CString

-- The same.
foreign import ccall safe "heddle_find_leave_zone" c_leave_zone :: CString -> IO ()

-- Safe: touches the file system.
foreign import ccall safe "heddle_find_access" c_access :: CInt -> CString -> CInt -> IO CInt

-- Safe: touches the file system.
foreign import ccall safe "heddle_find_remove" c_remove :: CInt -> CString -> CInt -> IO CInt

-- Safe: touches the file system.
foreign import ccall safe "heddle_find_link" c_link :: CInt -> CString -> CString -> CSize -> IO Int64

-- Safe: touches the file system.
foreign import ccall safe "heddle_find_hold" c_hold :: CInt -> CString -> IO CInt

-- Safe: touches the file system.
foreign import ccall safe "heddle_find_context" c_context :: CString -> CInt -> CString -> CSize -> IO Int64

-- Safe: reads a directory.
foreign import ccall safe "heddle_find_empty" c_empty :: CInt -> CString -> CInt -> IO CInt

-- Safe: reads files or asks servers.
foreign import ccall safe "heddle_find_account_number" c_account_number :: CInt -> CString -> IO Int64

-- Safe: reads files or asks servers.
foreign import ccall safe "heddle_find_account_name" c_account_name :: CInt -> Word32 -> IO CString

-- Unsafe: reads the thread's signal mask.
foreign import ccall unsafe "heddle_find_children_mask" c_children_mask :: IO ()

-- Safe: loads a program.
foreign import ccall safe "heddle_find_spawn" c_spawn :: Ptr CString -> CInt -> CInt -> IO Int64

-- Safe: waits.
foreign import ccall safe "heddle_find_wait" c_wait :: Int64 -> IO CInt

-- Unsafe: adds up the environment's lengths.
foreign import ccall unsafe "heddle_find_argument_room" c_argument_room :: IO Int64
