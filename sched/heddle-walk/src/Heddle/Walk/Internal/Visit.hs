{-# LANGUAGE MultiWayIf #-}
{-# LANGUAGE PatternSynonyms #-}
{-# OPTIONS_HADDOCK not-home #-}

-- |
-- Module      : Heddle.Walk.Internal.Visit
-- Description : One directory on one worker: opening, visiting, leaving
-- Stability   : internal, exempt from the version policy
--
-- The parts of a walk that a worker does alone. "Heddle.Walk.Internal.Engine" puts them together, with forks
-- in between.
--
-- Cost: per entry about ten stores, no allocation.
-- Owner: the walk.
module Heddle.Walk.Internal.Visit
  ( -- * Starting points
    visitRoot,

    -- * Directories
    openChild,
    leave,

    -- * Entries
    visitAll,
    visitFirst,
    visitUntil,
    nameIn,
    followFlag,
  )
where

import Control.Monad (void, when)
import Data.Bits ((.|.))
import Data.ByteString qualified as ByteString
import Data.ByteString.Short (ShortByteString)
import Data.ByteString.Short qualified as Short
import Data.ByteString.Short.Internal qualified as Short (createFromPtr)
import Data.Word (Word8)
import Foreign.Ptr (Ptr, plusPtr)
import Foreign.Storable (peekByteOff, pokeByteOff)
import Heddle.Prim.Atomic (readRef, writeRef)
import Heddle.Prim.Buffer (Buffer, bufferPtr, keepAlive, newBuffer)
import Heddle.Prim.Errno (Errno (..), pattern ELOOP, pattern ENOENT)
import Heddle.Prim.Exception (catchSync)
import Heddle.Walk.Internal.Cursor
import Heddle.Walk.Internal.Directory
import Heddle.Walk.Internal.Dirent (directoryKind, entrySize, entryType, isDot, linkKind, nameLength, namePointer)
import Heddle.Walk.Internal.Entry
import Heddle.Walk.Internal.Options
import Heddle.Walk.Internal.Output
import Heddle.Walk.Internal.Worker

-- Starting points ------------------------------------------------------------

-- | Visit a starting point; its name if it has to be entered.
visitRoot :: Walk -> Worker -> Dir -> RawPath -> IO (Maybe ShortByteString)
visitRoot walk w top root = do
  let name = Short.toShort root
      size = ByteString.length root
  alive <- goesOn walk w
  if not alive
    then pure Nothing
    else do
      tailAt <- enterName c top name
      showDirectory w top (if walkFollow options == FollowNone then 0 else 1)
      writeField c fieldRoot size
      beginRecord c
      showName c tailAt size
      showKind c 0 0
      r <- askStatus (workerVisit w)
      through <- isThroughFile (workerVisit w)
      kind <- readInt32 c fieldKind
      let enters = kind == directoryKind && walkMaxDepth options > 0
      if
          | r < 0 -> Nothing <$ reportAt walk w size (Errno (negate r))
          | through -> pure Nothing
          | enters && walkPostOrder options -> pure (Just name)
          | otherwise -> do
            verdict <- if walkMinDepth options <= 0 then callVisitor walk w else pure Descend
            case verdict of
              Descend -> pure (if enters then Just name else Nothing)
              Prune -> pure Nothing
              Quit -> Nothing <$ quitAt w
  where
    c = workerCursor w
    options = walkOptions walk

-- The name for system calls and, without trailing slashes and what is before the last
-- component, the entry's own.
showName :: CursorPtr -> Ptr Word8 -> Int -> IO ()
showName c p size = do
  writePtr c fieldTail p
  writeField c fieldTailLength size
  end <- trim size
  -- Of "/" the slash is the name.
  from <- if end <= 1 then pure 0 else back end
  writePtr c fieldName (p `plusPtr` from)
  writeField c fieldNameLength (end - from)
  where
    slash i = (== (47 :: Word8)) <$> peekByteOff p i
    trim n
      | n <= 1 = pure n
      | otherwise = slash (n - 1) >>= \s -> if s then trim (n - 1) else pure n
    back n
      | n == 0 = pure 0
      | otherwise = slash (n - 1) >>= \s -> if s then pure n else back (n - 1)

-- What is known of the entry before any system call.
showKind :: CursorPtr -> Int -> Int -> IO ()
showKind c kind inode = do
  writeInt32 c fieldKind kind
  writeInt32 c fieldState 0
  writeField c fieldInode inode
{-# INLINE showKind #-}

-- Under 'StopAtErrors', a visitor's exception is an error like others, with its place in the order.
callVisitor :: Walk -> Worker -> IO WalkControl
callVisitor walk w
  | walkOnError (walkOptions walk) == StopAtErrors =
    walkVisitor walk (workerVisit w)
      `catchSync` \e -> Descend <$ quitHere (workerRope w) (FoundThrown e)
  | otherwise = walkVisitor walk (workerVisit w)
{-# INLINE callVisitor #-}

quitAt :: Worker -> IO ()
quitAt w = do
  path <- entryPath (workerVisit w)
  quitHere (workerRope w) (FoundHit path)

-- Directories ----------------------------------------------------------------

-- | Open a directory and read its entries. The caller's use and 'todo' of the parent go over to it.
openChild :: Walk -> Worker -> Dir -> Link -> ShortByteString -> IO (Maybe Dir)
openChild walk w parent fork name = do
  alive <- goesOn walk w
  p <- enterName c parent name
  r <-
    if alive
      then openOr holder parent (\fd -> openDirectory c (holderTable holder) fd p (flags .|. how) (dirDevice parent))
      else pure unopened
  release holder parent (if post then use else use + todo)
  device <- readField c fieldOpenedDevice
  inode <- readField c fieldOpenedInode
  if r < 0
    then do
      let cause = Errno (negate r)
      when (alive && not (leftOut walk cause)) (reportAt walk w size cause)
      leaveUnread (-1) 0 0 (cause /= ENOENT)
    else
      if walkOneFileSystem options && not starting && device /= dirDevice parent
        then leaveUnread r device inode True
        else do
          dir <- newDir parent name r device inode flags fork
          path <- readPtr c fieldPath
          pokeByteOff path (dirPrefix dir - 1) (47 :: Word8)
          pure (Just dir)
  where
    c = workerCursor w
    holder = walkHolder walk
    options = walkOptions walk
    post = walkPostOrder options
    starting = dirDepth parent < startingDepth
    size = dirPrefix parent + Short.length name
    unopened = let Errno e = ENOENT in negate e
    flags = case walkFollow options of
      FollowAll -> followLink
      FollowRoots | starting -> followLink
      _ -> 0
    how =
      (if walkFollow options == FollowAll then identify else 0)
        .|. (if walkOneFileSystem options then (if starting then identify else sameDevice) else 0)
        .|. (if walkOrder options == Sorted then sortNames else 0)
    -- Post-order visits what could not be read, too, unless it has gone.
    leaveUnread fd device inode there
      | not post = do
        when (fd >= 0) (closeDirectory (holderTable holder) (fromIntegral fd))
        pure Nothing
      | otherwise = do
        dir <- newDir parent name fd device inode flags fork
        release holder dir use
        Nothing <$ complete walk w dir there

-- | The directory's own loop is over.
leave :: Walk -> Worker -> Dir -> Link -> Bool -> IO ()
leave walk w dir r held = do
  dropReserve rope r
  when (walkPrompt (walkOptions walk)) (flushRecords rope)
  if not (walkPostOrder (walkOptions walk))
    then release holder dir (if held then use + todo else todo)
    else do
      when held (release holder dir use)
      alone <- expectsOnlyMe dir
      if alone
        then complete walk w dir True
        else do
          parkSegment rope >>= writeRef (dirLast dir)
          completeIfLast walk w dir
  where
    holder = walkHolder walk
    rope = workerRope w

-- Post-order: one of those that a directory waits for is done. The last one goes on with the directory.
completeIfLast :: Walk -> Worker -> Dir -> IO ()
completeIfLast walk w dir = do
  lastOne <- arrived dir
  when lastOne $ do
    readRef (dirLast dir) >>= takeSegment (workerRope w)
    complete walk w dir True

-- Post-order: everything in the directory is done, and its path is in the buffer.
complete :: Walk -> Worker -> Dir -> Bool -> IO ()
complete walk w dir there = do
  release holder dir todo
  alive <- goesOn walk w
  when (alive && there && dirDepth dir >= walkMinDepth options) $ do
    acquire holder parent use
    showDirectory w parent (if followed then 1 else 0)
    when starting (writeField c fieldRoot size)
    beginRecord c
    path <- readPtr c fieldPath
    pokeByteOff path (dirPrefix parent + size) (0 :: Word8)
    showName c (path `plusPtr` dirPrefix parent) size
    showKind c directoryKind 0
    verdict <- callVisitor walk w
    when (verdict == Quit) (quitAt w)
    release holder parent use
  release holder parent todo
  endTask rope (dirFork dir)
  completeIfLast walk w parent
  where
    c = workerCursor w
    rope = workerRope w
    holder = walkHolder walk
    options = walkOptions walk
    parent = dirParent dir
    size = Short.length (dirName dir)
    starting = dirDepth dir == startingDepth
    followed = case walkFollow options of
      FollowAll -> True
      FollowRoots -> starting
      FollowNone -> False

-- Entries --------------------------------------------------------------------

-- | Visit all entries; those to be entered, packed.
visitAll :: Walk -> Worker -> Dir -> IO (Maybe Buffer)
visitAll walk w dir = do
  showDirectory w dir (followFlag walk)
  go 0 0
  where
    c = workerCursor w
    go keep from = do
      entries <- readPtr c fieldEntries
      used <- readField c fieldEntriesUsed
      keep' <- visitPacking walk w dir entries keep from used
      over <- readField c fieldEnded
      if keep' >= 0 && over == 0
        then do
          fd <- descriptor dir
          r <- readMore c (fromIntegral fd) keep' 0
          if r < 0
            then reportAt walk w (pathLength dir) (Errno (negate r)) >> pack keep'
            else go keep' keep'
        else pack keep'
    pack keep
      | keep <= 0 = pure Nothing
      | otherwise = do
        entries <- readPtr c fieldEntries
        Just <$> packed entries keep

packed :: Ptr Word8 -> Int -> IO Buffer
packed from n = do
  block <- newBuffer n
  moveBytes (bufferPtr block) from n
  keepAlive block
  pure block

-- | The name of a packed entry, and where the next one is.
nameIn :: Buffer -> Int -> IO (ShortByteString, Int)
nameIn block at = do
  let p = bufferPtr block `plusPtr` at
  size <- entrySize p
  n <- nameLength p size
  name <- Short.createFromPtr (namePointer p) n
  keepAlive block
  pure (name, at + size)

-- Visit entries, moving those to be entered to the front; where they end, or -1 to stop.
visitPacking :: Walk -> Worker -> Dir -> Ptr Word8 -> Int -> Int -> Int -> IO Int
visitPacking walk w dir entries = go
  where
    !visiting = visitEntry walk w dir
    go !keep !at !end
      | at >= end = pure keep
      | otherwise = do
        let p = entries `plusPtr` at
        size <- entrySize p
        what <- visiting p size
        case what of
          0 -> go keep (at + size) end
          1 -> do
            when (keep /= at) (moveBytes (entries `plusPtr` keep) p size)
            go (keep + size) (at + size) end
          _ -> pure (-1)

-- | In sorted order: visit entries until one has to be entered; that one and those after it, packed.
visitFirst :: Walk -> Worker -> Dir -> IO (Maybe Buffer)
visitFirst walk w dir = do
  showDirectory w dir (followFlag walk)
  entries <- readPtr (workerCursor w) fieldEntries
  used <- readField (workerCursor w) fieldEntriesUsed
  at <- visitUntil walk w dir entries 0 used
  if at < 0 then pure Nothing else Just <$> packed (entries `plusPtr` at) (used - at)

-- | Visit entries until one has to be entered; where it is, -1 when none is left, -2 to stop.
visitUntil :: Walk -> Worker -> Dir -> Ptr Word8 -> Int -> Int -> IO Int
visitUntil walk w dir entries = go
  where
    !visiting = visitEntry walk w dir
    go !at !end
      | at >= end = pure (-1)
      | otherwise = do
        let p = entries `plusPtr` at
        size <- entrySize p
        what <- visiting p size
        case what of
          0 -> go (at + size) end
          1 -> pure at
          _ -> pure (-2)

-- 0 to go on, 1 to enter this directory, too, 2 to stop.
visitEntry :: Walk -> Worker -> Dir -> Ptr Word8 -> Int -> IO Int
visitEntry walk w dir = \p size -> do
  dot <- isDot p
  if dot
    then pure 0
    else do
      n <- nameLength p size
      inode <- peekByteOff p 0
      kind <- entryType p
      let name = namePointer p
          kind' = if distrust then 0 else kind
      writePtr c fieldName name
      writePtr c fieldTail name
      writeField c fieldNameLength n
      writeField c fieldTailLength n
      showKind c kind' inode
      beginRecord c
      if kind' == 0 || (followsAll && (kind' == linkKind || kind' == directoryKind))
        then do
          resolved <- resolve walk w dir
          if resolved < 0 then ahead 0 else visitAs resolved
        else visitAs kind'
  where
    c = workerCursor w
    options = walkOptions walk
    visit = callVisitor walk w
    !distrust = walkDistrustTypes options
    !followsAll = walkFollow options == FollowAll
    !depth = dirDepth dir + 1
    !visible = depth >= walkMinDepth options
    !entering = depth < walkMaxDepth options
    !late = walkPostOrder options
    visitAs kind
      | late && enters = pure 1
      | visible = do
        verdict <- visit
        case verdict of
          Descend -> ahead (if enters then 1 else 0)
          Prune -> ahead 0
          Quit -> 2 <$ quitAt w
      | otherwise = pure (if enters then 1 else 0)
      where
        enters = entering && kind == directoryKind
    -- Unless the walk has ended elsewhere.
    ahead what = do
      alive <- goesOn walk w
      pure (if alive then what else 2)
{-# INLINE visitEntry #-}

-- The kind of the file; -1 to skip it.
resolve :: Walk -> Worker -> Dir -> IO Int
resolve walk w dir = do
  before <- readInt32 c fieldKind
  void (entryDirectory (workerVisit w))
  r <- askStatus (workerVisit w)
  kind <- readInt32 c fieldKind
  if r >= 0
    then if follows && kind == directoryKind then loops kind else pure kind
    else do
      let cause = Errno (negate r)
      entryStatusError (workerVisit w) cause
      pure (if cause == ENOENT || (follows && cause == ELOOP) then -1 else before)
  where
    c = workerCursor w
    follows = walkFollow (walkOptions walk) == FollowAll
    loops kind = do
      device <- statusDevice (workerVisit w)
      inode <- statusInode (workerVisit w)
      let go d
            | dirDepth d < startingDepth = pure kind
            | dirDevice d == device && dirInode d == inode = (-1) <$ reportLoop walk w d
            | otherwise = go (dirParent d)
      go dir

-- | Whether status follows links: 1 or 0.
followFlag :: Walk -> Int
followFlag walk = if walkFollow (walkOptions walk) == FollowAll then 1 else 0
