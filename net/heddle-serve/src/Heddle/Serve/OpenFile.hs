-- |
-- Module      : Heddle.Serve.OpenFile
-- Description : Opening files beneath a root, and reading them
-- Stability   : internal, exempt from the version policy
--
-- openat2(2) beneath the root, from the kernel's cache if it can be, and with descriptors that are set aside when
-- clients have taken all others. Whether a path may be opened is decided here for all: requests, 'newHasFile', the pages that a
-- configuration names, and @--explain@.
--
-- Cost: openat2 and fstat for a file; see each function.
-- Owner: the caller, which closes what it opened.
module Heddle.Serve.OpenFile
  ( -- * Opening
    OpenFile (..),
    Opening (..),
    openHere,
    openServed,
    kindServed,
    newHasFile,
    closeOpened,

    -- * Reading
    readFully,
    readLarge,
  )
where

import Control.Monad (void, when)
import Data.Bifunctor (bimap)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.Int (Int64)
import Data.Map.Strict qualified as Map
import Data.Word (Word8)
import Foreign.C.Types (CChar, CInt (..), CLong (..), CSize (..))
import Foreign.Marshal.Alloc (allocaBytes)
import Foreign.Ptr (Ptr, plusPtr)
import Heddle.Http (Request)
import Heddle.Http.Borrowed (pauseRequestUntil, requestBegan)
import Heddle.Prim.Atomic (modifyRef, newRef, readRef)
import Heddle.Prim.Clock
import Heddle.Prim.Errno
import Heddle.Prim.Exception (finally, mask_, onException)
import Heddle.Prim.File
import Heddle.Serve.DescriptorReserve
import Heddle.Serve.FileName (fileNameBytes)
import Heddle.Serve.Root
import System.Posix.Types (Fd (..))

-- | A file or directory that is open.
data OpenFile = OpenFile
  { -- | Its path beneath the root.
    openName :: !ByteString,
    openFd :: !Fd,
    openStatus :: !FileStatus
  }

-- | Where and how files are opened.
data Opening = Opening
  { -- | 'Nothing' if there are no files.
    openingRoot :: !(Maybe Root),
    -- | Descriptors for files when clients have taken all others.
    openingReserve :: !DescriptorReserve,
    -- | Whether symbolic links may lead out of the root.
    openingFollows :: !Bool
  }

-- | Close it.
--
-- [Blocks]: holds an OS thread.
closeOpened :: OpenFile -> IO ()
closeOpened = void . closeFile . openFd

-- | Open a path beneath the root for a request; the caller masks asynchronous exceptions until it has closed the file.
--
-- [Blocks]: holds an OS thread if the path is not in the kernel's cache; parks while descriptors are out.
openHere :: Opening -> Request -> ByteString -> IO (Either Errno OpenFile)
openHere opening request relative
  -- NUL stands for an encoded slash, and would end the name early.
  | B.elem 0 relative = pure (Left ENOENT)
  | otherwise = maybe (pure (Left ENOENT)) (openBelow opening request relative) (openingRoot opening)

openBelow :: Opening -> Request -> ByteString -> Root -> IO (Either Errno OpenFile)
openBelow opening request relative below = do
  let path = if B.null relative then dot else relative
  root <- currentRoot below (requestBegan request)
  cached <- fromCache root path
  r <-
    if cached >= 0 || Errno (negate cached) `elem` [ENOENT, ENOTDIR]
      then pure cached
      else fromDisk root path
  got <- if exhausted r then patiently (20 :: Int) root path else pure r
  if got < 0
    then pure (Left (Errno (negate got)))
    else do
      let fd = fromIntegral got
      fileStatus fd `onException` closeFile fd >>= \case
        Right status -> pure (Right (OpenFile relative fd status))
        Left e -> Left (Errno (negate e)) <$ closeFile fd
  where
    dot = B.singleton 46
    fromCache root path
      | openingFollows opening = following c_following_cached root path 1
      | otherwise = openBeneathCached root path readOnly
    fromDisk = openServed (openingFollows opening)
    exhausted r = Errno (negate r) `elem` [EMFILE, ENFILE]
    -- Other requests release descriptors within milliseconds, so wait instead of refusing.
    patiently tries root path = do
      r <- withReserved (openingReserve opening) (fromDisk root path)
      if exhausted r && tries > 0
        then do
          deadlineIn (milliseconds 10) >>= pauseRequestUntil request
          patiently (tries - 1) root path
        else pure r

-- | Open a path beneath a directory. With 'True', symbolic links may lead anywhere; otherwise anywhere beneath the directory, also
-- by an absolute path. The answer is as that of 'openBeneath': -EXDEV for what leads out.
--
-- [Cost]: openat2; four system calls more for a path that leads out, or by an absolute link.
-- [Blocks]: holds an OS thread.
openServed :: Bool -> Fd -> ByteString -> IO Int
openServed follows root path
  | follows = following c_following root path 0
  | otherwise = do
    r <- openBeneath root path readOnly
    if Errno (negate r) == EXDEV then placeWithin root path >>= either missing (\place -> openBeneath root place readOnly) else pure r
  where
    missing e = negate . errnoNumber <$> if e `elem` [ENOENT, ENOTDIR, EACCES] then reason e path else pure e
    -- Below a link that leads out, a file that is missing is not told apart from one that is there.
    reason e name
      | B.null above = pure e
      | otherwise =
        placeWithin root above >>= \case
          Right _ -> pure e
          Left EXDEV -> pure EXDEV
          Left _ -> reason e above
      where
        above = B.dropWhileEnd (== 47) (fst (B.spanEnd (/= 47) name))

placeWithin :: Fd -> ByteString -> IO (Either Errno ByteString)
placeWithin (Fd root) path = B.useAsCString path $ \p -> allocaBytes most $ \place -> do
  n <- c_place_within root p place (fromIntegral most)
  if n < 0 then pure (Left (Errno (negate (fromIntegral n)))) else Right <$> B.packCStringLen (place, fromIntegral n)
  where
    most = 4096

-- | Find what a request for a path beneath a directory gets, or why nothing.
--
-- [Blocks]: holds an OS thread.
kindServed :: Bool -> FilePath -> ByteString -> IO (Either Errno FileKind)
kindServed follows directory relative = mask_ $ do
  top <- fileNameBytes directory >>= \name -> openFile name directoryOnly
  if top < 0
    then pure (Left (Errno (negate top)))
    else do
      r <- openServed follows (fromIntegral top) (if B.null relative then B.singleton 46 else relative) `finally` closeFile (fromIntegral top)
      if r < 0
        then pure (Left (Errno (negate r)))
        else (bimap (Errno . negate) statusKind <$> fileStatus (fromIntegral r)) `finally` closeFile (fromIntegral r)

-- | Says whether there is a regular file with a path beneath the root, also one that this process may not read; with 'True',
-- symbolic links may lead anywhere, as they may for requests. That a file was there is remembered for a second.
--
-- [Cost]: a look into a map of at most 1,024 paths; with nothing remembered, openat2, fstat and close.
-- [Blocks]: holds an OS thread while it looks at the disk.
-- [Throws]: 'IOError' when it cannot be known.
-- [Threads]: any.
newHasFile :: Bool -> Root -> IO (ByteString -> IO Bool)
newHasFile follows root = do
  seen <- newRef Map.empty
  pure $ \path -> do
    now <- monotonicNow
    known <- Map.lookup path <$> readRef seen
    case known of
      Just until' | now < until' -> pure True
      _ -> do
        there <- hasFile follows root now path
        when there (modifyRef seen (\others -> (Map.insert path (after (seconds 1) now) (withRoom now others), ())))
        pure there
  where
    withRoom now others
      | Map.size others < most = others
      | current <- Map.filter (now <) others, Map.size current < most = current
      | otherwise = Map.empty
    most = 1024

hasFile :: Bool -> Root -> Deadline -> ByteString -> IO Bool
hasFile follows root now path = do
  fd <- currentRoot root now
  mask_ $ do
    cached <- if follows then following c_following_cached fd path 1 else openBeneathCached fd path readOnly
    r <- if cached >= 0 then pure cached else openServed follows fd path
    case Errno (negate r) of
      _ | r >= 0 -> do
        status <- fileStatus (fromIntegral r) `finally` closeFile (fromIntegral r)
        either (throwErrnoFor looking . Errno . negate) (pure . (== RegularFile) . statusKind) status
      e
        -- Without a descriptor, say, it is not known. An answer of 404 for a script that is there might be kept by a cache.
        | e `elem` [EMFILE, ENFILE, ENOMEM, EAGAIN, EIO] -> throwErrnoFor looking e
        | otherwise -> pure (e == EACCES)
  where
    looking = "look for " ++ C.unpack path

following :: (CInt -> Ptr CChar -> CInt -> CInt -> IO CLong) -> Fd -> ByteString -> CInt -> IO Int
following call (Fd root) path cached = B.useAsCString path $ \p -> fromIntegral <$> call root p nonBlocking cached
  where
    -- O_RDONLY, O_NONBLOCK for FIFOs and O_NOCTTY, as in 'readOnly'.
    nonBlocking = 0x900

-- | Read this number of bytes from the start, from the page cache if they are there; fewer only at the file's end or after
-- an error.
--
-- [Blocks]: holds an OS thread if the disk has to be read.
readFully :: Fd -> Ptr Word8 -> Int -> IO Int
readFully = readWith readAtNoWait

-- | The same for a file that takes long to copy.
--
-- [Blocks]: holds an OS thread.
readLarge :: Fd -> Ptr Word8 -> Int -> IO Int
readLarge = readWith (\_ _ _ _ -> pure 0)

readWith :: (Fd -> Ptr Word8 -> Int -> Int64 -> IO Int) -> Fd -> Ptr Word8 -> Int -> IO Int
readWith quickly fd p size = go 0
  where
    go done
      | done >= size = pure done
      | otherwise = do
        quick <- quickly fd (p `plusPtr` done) (size - done) (fromIntegral done)
        n <- if quick > 0 then pure quick else readAt fd (p `plusPtr` done) (size - done) (fromIntegral done)
        if n > 0
          then go (done + n)
          else if Errno (negate n) == EINTR then go done else pure done

foreign import ccall safe "heddle_place_within" c_place_within :: CInt -> Ptr CChar -> Ptr CChar -> CSize -> IO CLong

foreign import ccall safe "heddle_open_following" c_following :: CInt -> Ptr CChar -> CInt -> CInt -> IO CLong

-- Unsafe: RESOLVE_CACHED answers from memory or fails at once.
foreign import ccall unsafe "heddle_open_following" c_following_cached :: CInt -> Ptr CChar -> CInt -> CInt -> IO CLong
