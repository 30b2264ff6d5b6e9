{-# LANGUAGE PatternSynonyms #-}
{-# OPTIONS_HADDOCK not-home #-}

-- |
-- Module      : Heddle.Walk.Internal.Directory
-- Description : Directories in progress and their descriptors
-- Stability   : internal, exempt from the version policy
--
-- A 'Dir' is a directory whose entries are being visited or still have to be entered. It
-- keeps its descriptor until the last of those is opened, unless descriptors become few: then
-- the walk closes those highest up, and opens them again component by component when it comes
-- back to them. The kernel never gets a whole path.
--
-- Cost: about 200 bytes a directory, two atomic additions for each time it is entered.
-- Owner: the walk; see Note [Uses of a directory].
module Heddle.Walk.Internal.Directory
  ( -- * Directories
    Dir (..),
    newTop,
    newDir,
    startingDepth,
    pathLength,

    -- * The walk's descriptors
    Holder,
    newHolder,
    closeHolder,
    holderTable,
    tooFew,

    -- * Use
    use,
    todo,
    acquire,
    release,
    descriptor,
    openOr,

    -- * Paths
    enterName,
    rebuildPath,

    -- * Joining
    expect,
    arrived,
    expectsOnlyMe,
  )
where

import Control.Monad (unless, void, when)
import Data.ByteString.Short (ShortByteString)
import Data.ByteString.Short qualified as Short
import Data.ByteString.Short.Internal qualified as Short (copyToPtr)
import Data.Word (Word8)
import Foreign.C.Types (CInt)
import Foreign.Marshal.Alloc (allocaBytes)
import Foreign.Ptr (Ptr, plusPtr)
import Foreign.Storable (pokeByteOff)
import Heddle.Prim.Atomic
  ( Ref,
    Words,
    atomicRead,
    compareAndSet,
    fetchAdd,
    newRef,
    newWords,
    readWord,
    writeWord,
  )
import Heddle.Prim.Errno (Errno (..), pattern EMFILE, pattern ENFILE)
import Heddle.Prim.Lock (Lock, newLock, withLock)
import Heddle.Prim.Thread (yield)
import Heddle.Walk.Internal.Cursor
import Heddle.Walk.Internal.Output (Link (..))

-- | A directory in progress.
data Dir = Dir
  { -- | Lazy, because the top is its own.
    dirParent :: Dir,
    -- | As given to @openat@: a component, or a whole starting point.
    dirName :: !ShortByteString,
    -- | Bytes of its path, with a slash behind.
    dirPrefix :: !Int,
    -- | 0 for starting points.
    dirDepth :: !Int,
    -- | Bytes of the starting point.
    dirRoot :: !Int,
    -- | Device and inode, when the walk wants to know.
    dirDevice :: !Int,
    dirInode :: !Int,
    -- | How to open it again.
    dirFlags :: !CInt,
    -- | Descriptor or -1; uses; tasks to end before it is complete.
    dirWords :: !Words,
    -- | Post-order: what its end is announced to.
    dirFork :: !Link,
    -- | Post-order: the segment that its own visit goes to.
    dirLast :: !(Ref Link)
  }

descriptorWord, usesWord, pendingWord :: Int
descriptorWord = 0
usesWord = 1
pendingWord = 2

-- | Above the starting points: the working directory, never closed or complete.
newTop :: IO Dir
newTop = do
  counts <- newWords 3
  writeWord counts descriptorWord currentDirectory
  writeWord counts usesWord (2 * todo)
  writeWord counts pendingWord 1
  parked <- newRef End
  let top = Dir top Short.empty 0 (startingDepth - 1) 0 0 0 0 counts End parked
  pure top

-- | The depth of starting points.
startingDepth :: Int
startingDepth = 0

-- | A directory opened at a descriptor (-1: it could not be opened), in use by the caller, which
-- then enters its entries.
newDir :: Dir -> ShortByteString -> Int -> Int -> Int -> CInt -> Link -> IO Dir
newDir parent name fd device inode flags fork = do
  counts <- newWords 3
  writeWord counts descriptorWord fd
  writeWord counts usesWord (todo + use)
  writeWord counts pendingWord 1
  parked <- newRef End
  pure (Dir parent name prefix (dirDepth parent + 1) root device inode flags counts fork parked)
  where
    size = Short.length name
    slash = size > 0 && Short.index name (size - 1) == 47
    prefix = dirPrefix parent + size + (if slash then 0 else 1)
    root = if dirDepth parent < startingDepth then size else dirRoot parent

-- | How long its path is, as printed: a starting point's slashes belong to it.
pathLength :: Dir -> Int
pathLength d = if dirDepth d == startingDepth then dirRoot d else dirPrefix d - 1

-- | The descriptors of a walk.
data Holder = Holder
  { -- | Which are open, for the end of the walk.
    holderTable :: !(Ptr Descriptors),
    -- | A descriptor of this number or above says that there are many.
    holderMany :: !Int,
    -- | How many of those above it a worker keeps when there are many.
    holderKeep :: !Int,
    -- | How many there are in all.
    holderAll :: !Int,
    -- | Held while descriptors are given up or opened again.
    holderLock :: !Lock,
    -- | How many workers need a descriptor now, so that others give up theirs.
    holderLack :: !Words
  }

-- | A holder of at most the given number of descriptors; 0 takes most of the process's limit.
newHolder :: Int -> IO Holder
newHolder wanted = do
  limit <- descriptorLimit
  lowest <- max 0 <$> lowestDescriptor
  let spare = max 8 (min 64 (limit `quot` 8))
      most = max 8 (limit - lowest - spare)
      budget = if wanted <= 0 then most else max 8 (min wanted most)
  table <- newDescriptors limit
  Holder table (lowest + budget) (max 2 (budget `quot` 4)) (limit - lowest) <$> newLock <*> newWords 1

-- | Are descriptors too few for a number of workers? Each uses two or three at once.
tooFew :: Holder -> Int -> Bool
tooFew h workers = holderAll h < 16 + 4 * workers

-- | Close what is still open, and the holder.
closeHolder :: Holder -> IO ()
closeHolder h = sweepDescriptors (holderTable h)

-- | A present use of the descriptor, which must then stay open.
use :: Int
use = 1

-- | Work left in the directory that needs its descriptor later.
todo :: Int
todo = 1048576

-- Subtracted while the descriptor is being given up.
givingUp :: Int
givingUp = 1125899906842624

-- | Add uses.
--
-- [Cost]: one atomic addition.
-- [Blocks]: parks while the descriptor is being given up.
acquire :: Holder -> Dir -> Int -> IO ()
acquire h d n = do
  before <- fetchAdd (dirWords d) usesWord n
  when (before < 0) (withLock (holderLock h) (pure ()))
{-# INLINE acquire #-}

-- | Take uses away; the last closes the directory.
release :: Holder -> Dir -> Int -> IO ()
release h d n = do
  before <- fetchAdd (dirWords d) usesWord (negate n)
  when (before == n) $ do
    fd <- readWord (dirWords d) descriptorWord
    when (fd >= 0) $ do
      writeWord (dirWords d) descriptorWord (-1)
      closeDirectory (holderTable h) (fromIntegral fd)

-- | The descriptor of a directory in use, or -1 if it has to be opened again.
descriptor :: Dir -> IO Int
descriptor d = readWord (dirWords d) descriptorWord
{-# INLINE descriptor #-}

-- | Open something in a directory that is in use, by an action that wants its descriptor.
-- Others are closed when there are many, or too many; the result is the action's: a
-- descriptor, or minus an error number.
openOr :: Holder -> Dir -> (CInt -> IO Int) -> IO Int
openOr h d open = go (0 :: Int)
  where
    go tries = do
      fd <- descriptor d
      at <- if fd == -1 then reopen h d else pure fd
      r <- if at < 0 && at /= currentDirectory then pure at else open (fromIntegral at)
      if r < 0
        then if exhausted r && tries < 1000 then again tries r else pure r
        else do
          lack <- readWord (holderLack h) 0
          when (r >= holderMany h || lack > 0) $
            void (giveUp h (if lack > 0 then 0 else holderKeep h) d)
          pure r
    again tries r = do
      freed <- giveUp h 0 d
      if freed > 0
        then go tries
        else
          if tries >= 999
            then pure r
            else do
              -- Others hold them, and give them up when they see that one is needed.
              void (fetchAdd (holderLack h) 0 1)
              yield
              void (fetchAdd (holderLack h) 0 (-1))
              go (tries + 1)

exhausted :: Int -> Bool
exhausted r = Errno (negate r) == EMFILE || Errno (negate r) == ENFILE

-- Close the descriptors of ancestors that are not in use at present, except a number of the
-- nearest; returns how many were closed.
giveUp :: Holder -> Int -> Dir -> IO Int
giveUp h keep d = withLock (holderLock h) (giveUpLocked h keep d)

giveUpLocked :: Holder -> Int -> Dir -> IO Int
giveUpLocked h = go 0
  where
    go !freed !keep d
      | dirDepth d < startingDepth = pure (freed :: Int)
      | otherwise = do
        fd <- descriptor d
        if fd < 0
          then go freed keep (dirParent d)
          else
            if keep > 0
              then go freed (keep - 1) (dirParent d)
              else do
                uses <- atomicRead (dirWords d) usesWord
                closed <- if uses > 0 && uses `rem` todo == 0 then close d uses else pure False
                go (if closed then freed + 1 else freed) 0 (dirParent d)
    close d uses = do
      mine <- compareAndSet (dirWords d) usesWord uses (uses - givingUp)
      when mine $ do
        fd <- descriptor d
        when (fd >= 0) $ do
          writeWord (dirWords d) descriptorWord (-1)
          closeDirectory (holderTable h) (fromIntegral fd)
        void (fetchAdd (dirWords d) usesWord givingUp)
      pure mine

-- Open a directory in use again, from the nearest ancestor still open: its descriptor, or
-- minus an error number.
reopen :: Holder -> Dir -> IO Int
reopen h d = withLock (holderLock h) $ do
  fd <- descriptor d
  if fd /= -1 then pure fd else climb [] 0 d
  where
    -- The directories to open, highest first, and how many.
    climb below !n e = do
      fd <- descriptor e
      if fd == -1
        then climb (e : below) (n + 1 :: Int) (dirParent e)
        else do
          held <- if fd < 0 then pure True else tryUse e
          if not held
            then climb (e : below) (n + 1) (dirParent e)
            else do
              -- Between the look and the use it cannot have been given up (we hold the lock),
              -- but closed for good.
              fd' <- descriptor e
              if fd' == -1
                then unuse e >> climb (e : below) (n + 1) (dirParent e)
                else descend (if fd' < 0 then Nothing else Just e) fd' Nothing n below
    -- `over`: the ancestor to release; `temporary`: to close when its child is open.
    descend over at temporary !n = \case
      [] -> at <$ mapM_ unuse over
      e : below -> do
        r <- component at e (8 :: Int)
        mapM_ unuse over
        mapM_ (closeDirectory (holderTable h) . fromIntegral) temporary
        if r < 0
          then pure r
          else
            if null below
              then r <$ writeWord (dirWords e) descriptorWord r
              else do
                -- Those nearest are wanted again soon.
                kept <- if n <= holderKeep h then adopt e r else pure False
                if kept
                  then descend (Just e) r Nothing (n - 1) below
                  else descend Nothing r (Just r) (n - 1) below
    component at e tries = allocaBytes (Short.length (dirName e) + 1) $ \p -> do
      copyName (dirName e) p
      r <- reopenDirectory (holderTable h) (fromIntegral at) p (dirFlags e)
      if r < 0 && exhausted r && tries > 0
        then do
          freed <- giveUpLocked h 0 d
          if freed == 0 then pure r else component at e (tries - 1)
        else pure r
    tryUse e = do
      uses <- atomicRead (dirWords e) usesWord
      if uses <= 0
        then pure False
        else do
          ok <- compareAndSet (dirWords e) usesWord uses (uses + use)
          if ok then pure True else tryUse e
    unuse e = release h e use
    -- With a use, to be released when the next one is open.
    adopt e r = do
      ok <- tryUse e
      when ok (writeWord (dirWords e) descriptorWord r)
      pure ok

copyName :: ShortByteString -> Ptr Word8 -> IO ()
copyName name p = do
  Short.copyToPtr name 0 p (Short.length name)
  pokeByteOff p (Short.length name) (0 :: Word8)

-- | Write a name and a NUL behind the path of its directory, which is in the buffer; its
-- address.
enterName :: CursorPtr -> Dir -> ShortByteString -> IO (Ptr Word8)
enterName c parent name = do
  -- Room for the slash that comes behind it.
  void (reservePath c (dirPrefix parent + Short.length name + 2))
  path <- readPtr c fieldPath
  let p = path `plusPtr` dirPrefix parent
  copyName name p
  pure p

-- | Write the whole path of a directory, with its slash, into the buffer.
--
-- [Cost]: O(path).
rebuildPath :: CursorPtr -> Dir -> IO ()
rebuildPath c d = do
  void (reservePath c (dirPrefix d + 1))
  path <- readPtr c fieldPath
  let go e = unless (dirDepth e < startingDepth) $ do
        pokeByteOff path (dirPrefix e - 1) (47 :: Word8)
        Short.copyToPtr (dirName e) 0 (path `plusPtr` dirPrefix (dirParent e)) (Short.length (dirName e))
        go (dirParent e)
  go d

-- | One more task before the directory is complete.
expect :: Dir -> IO ()
expect d = void (fetchAdd (dirWords d) pendingWord 1)

-- | A task has ended; 'True' if it was the last.
arrived :: Dir -> IO Bool
arrived d = (== 1) <$> fetchAdd (dirWords d) pendingWord (-1)

-- | Has every other task ended?
expectsOnlyMe :: Dir -> IO Bool
expectsOnlyMe d = (== 1) <$> atomicRead (dirWords d) pendingWord

-- Note [Uses of a directory]
-- ~~~~~~~~~~~~~~~~~~~~~~~~~~
-- The uses word counts two things: present uses of the descriptor ('use') and what is still
-- to be done in the directory ('todo': its own loop, and each entry not yet opened, or in
-- post-order not yet complete). At zero the descriptor is closed for good.
--
-- A directory without present uses may be given up: under the lock, by a compare-and-set
-- that makes the word negative, so that a new user sees it and waits for the lock. The
-- descriptor is then -1, and the next user opens the directory again, under the lock. Only
-- three threads change the descriptor: the one that opens it, holding a use, under the lock; the
-- one that gives it up, as above; and the one that takes the word to zero, which is the last.
