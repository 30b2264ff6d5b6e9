{-# LANGUAGE MultiWayIf #-}
{-# LANGUAGE PatternSynonyms #-}

-- |
-- Module      : Heddle.Serve.LogPending
-- Description : The file that holds an access log's rings, and what a killed process has left in one
-- Stability   : internal, exempt from the version policy
--
-- A log that is a file has its rings in a shared mapping of @FILE.pending.K@. The kernel keeps what was stored there when the
-- process is killed, and whoever opens the log next writes the lines that are left. K is the first number whose file nobody has
-- locked; the lock ends with the process. A file is laid out as a page with a magic number, the version, the number of rings and
-- their size, the boot, a note, and each ring's positions, and then the rings.
--
-- Invariant: a line is in the log or between its ring's tail and head; while a note stands, the noted bytes may be in both, and
-- the log tells.
-- Cost: a batch stores eight words more; nothing per line.
-- Owner: the log's writer. Before there is one, whoever opens the log.
module Heddle.Serve.LogPending
  ( PendingFile,
    pendingPath,
    pendingRings,
    openPending,
    closePending,
    note,
    forgetNote,

    -- * For tests
    acquirePending,
    formatPending,
    leavePending,
    dataOffset,
  )
where

import Control.Monad (unless, void, when)
import Data.Bits (popCount, shiftL, (.&.))
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.ByteString.Internal qualified as BI (createUptoN)
import Data.ByteString.Unsafe (unsafePackCStringLen, unsafeUseAsCStringLen)
import Data.Either (fromRight)
import Data.Foldable (find, for_)
import Data.Int (Int64)
import Data.List (sortOn)
import Data.Maybe (listToMaybe)
import Data.Word (Word8)
import Foreign.C.String (CString)
import Foreign.C.Types (CInt (..))
import Foreign.ForeignPtr (FinalizerEnvPtr, ForeignPtr, newForeignPtrEnv, plusForeignPtr, withForeignPtr)
import Foreign.Marshal.Alloc (malloc)
import Foreign.Marshal.Utils (copyBytes, fillBytes)
import Foreign.Ptr (Ptr, castPtr, nullPtr, plusPtr)
import Foreign.Storable (peekByteOff, peekElemOff, poke, pokeElemOff)
import Heddle.Prim.Atomic (Ref, newRef, readRef, writeRef)
import Heddle.Prim.Errno
import Heddle.Prim.Exception
import Heddle.Prim.File
import Heddle.Serve.FileName (fileNameBytes)
import Heddle.Serve.Internal.LogRing
import Heddle.Serve.LogSink (SinkPlace (..))
import System.Posix.Types (Fd (..))

-- | A file that this process has locked, and its rings.
data PendingFile = PendingFile
  { -- | For messages.
    pendingPath :: !FilePath,
    pendingFd :: !Fd,
    pendingMemory :: !(ForeignPtr Word8),
    -- | One for each capability.
    pendingRings :: ![LogRing]
  }

-- More than there are processes, were all of them upgrading.
mostFiles :: Int
mostFiles = 520

nameOf :: FilePath -> Int -> FilePath
nameOf path k = path ++ ".pending." ++ show k

-- | @openPending tell path log old count size@ first writes to the open log of this name the lines that killed processes have left. It
-- looks for them in this many rotated files, too. Then it makes a file of empty rings, of this number and size. 'Left' says why there
-- is none.
--
-- [Blocks]: holds an OS thread.
-- [Units]: bytes, a power of two.
openPending :: (String -> IO ()) -> FilePath -> Fd -> Int -> Int -> Int -> IO (Either String PendingFile)
openPending tell path log' old count size = go [] Nothing 0
  where
    -- The files that are not ours to open, the first one that is free, and the next number.
    go others mine k
      | k == mostFiles = maybe (create others 0) (uncurry use) mine
      | otherwise =
        acquirePending (nameOf path k) False >>= \case
          Left e
            | e `elem` [ENOENT, EAGAIN] -> go others mine (k + 1)
            | e `elem` [ELOOP, TooManyLinks, EINVAL, EACCES, EPERM] -> do
              tell (nameOf path k ++ " is left alone: " ++ describeErrno e)
              go (k : others) mine (k + 1)
            | otherwise -> maybe (create others k) (uncurry use) mine
          Right fd -> do
            empty <- replay tell path (nameOf path k) log' old fd
            case mine of
              _ | not empty -> c_release fd >> go (k : others) mine (k + 1)
              Nothing -> go others (Just (k, fd)) (k + 1)
              Just _ -> remove (nameOf path k) fd >> go others mine (k + 1)
    create others k
      | k == mostFiles = pure (Left (nameOf path 0 ++ " and all others are taken"))
      | k `elem` others = create others (k + 1)
      | otherwise =
        acquirePending (nameOf path k) True >>= \case
          Left EAGAIN -> create others (k + 1)
          Left e -> pure (Left (nameOf path k ++ ": " ++ describeErrno e))
          Right fd -> do
            -- Another process may have had it, and been killed, since it was looked for.
            empty <- replay tell path (nameOf path k) log' old fd
            if empty then use k fd else c_release fd >> create others (k + 1)
    use k fd =
      formatPending (nameOf path k) fd count size >>= \case
        Left e -> Left (nameOf path k ++ ": " ++ describeErrno e) <$ remove (nameOf path k) fd
        Right file -> pure (Right file)

pattern TooManyLinks :: Errno
pattern TooManyLinks = Errno 31

-- What cannot be removed stays, empty.
remove :: FilePath -> Fd -> IO ()
remove path fd = do
  void (c_size fd 0)
  void (trySync (removeName path))
  c_release fd

-- | Remove the file, if no line is left in it, and close it. It stays locked, and is not cut, as long as it is mapped: a thread that
-- is late may still put a line.
--
-- [Blocks]: holds an OS thread.
closePending :: PendingFile -> IO ()
closePending file = do
  -- One that stays has no line for the next process.
  left <- sum <$> traverse pendingBytes (pendingRings file)
  when (left == 0) (void (trySync (removeName (pendingPath file))))
  void (closeFile (pendingFd file))

-- | Leave it as the kernel leaves that of a process that is killed.
leavePending :: PendingFile -> IO ()
leavePending = c_release . pendingFd

-- | Open and lock a file; the flag says whether to make it. EAGAIN: another process has it.
--
-- [Blocks]: holds an OS thread.
acquirePending :: FilePath -> Bool -> IO (Either Errno Fd)
acquirePending path create = do
  name <- fileNameBytes path
  fd <- B.useAsCString name (\p -> c_open p (if create then 1 else 0))
  pure (if fd < 0 then Left (Errno (fromIntegral (negate fd))) else Right (Fd fd))

-- The layout ---------------------------------------------------------------------

-- Words of the first page.
pattern AtMagic, AtVersion, AtCount, AtSize, AtNote, AtSlots :: Int
pattern AtMagic = 0
pattern AtVersion = 1
pattern AtCount = 2
pattern AtSize = 3
-- 0: no note; 1 or 2: which slot has it. See heddle_log_pending.c.
pattern AtNote = 16
pattern AtSlots = 24

-- "heddlelp" in memory.
magic, version :: Int64
magic = 0x706c656c64646568
version = 1

-- Bytes.
bootOffset, bootLength, positionsOffset :: Int
bootOffset = 32
bootLength = 40
positionsOffset = 384

-- | Where the rings begin, behind this many rings' positions.
--
-- [Units]: bytes.
dataOffset :: Int -> Int
dataOffset count = (positionsOffset + 128 * count + 4095) .&. (-4096)

-- Which start of the machine this is. What was mapped before it was not written to the disk in order. Where there is no /proc, all
-- are the same: lines that are not whole are found in any case, and to drop all would lose those of each process that was killed.
currentBoot :: IO ByteString
currentBoot = do
  text <- trySync (B.readFile "/proc/sys/kernel/random/boot_id")
  pure (B.take bootLength (fromRight B.empty text <> B.replicate bootLength 0))

-- | Make the file one of so many empty rings of this size.
--
-- [Blocks]: holds an OS thread.
formatPending :: FilePath -> Fd -> Int -> Int -> IO (Either Errno PendingFile)
formatPending path fd count size = do
  r <- c_size fd (fromIntegral total)
  if r < 0
    then pure (Left (Errno (fromIntegral (negate r))))
    else
      mapped fd total >>= \case
        Nothing -> pure (Left ENOMEM)
        Just memory -> do
          boot <- currentBoot
          withForeignPtr memory $ \p -> do
            fillBytes p 0 (dataOffset count)
            unsafeUseAsCStringLen boot (uncurry (copyBytes (p `plusPtr` bootOffset)))
            let words' = castPtr p :: Ptr Int64
            pokeElemOff words' AtVersion version
            pokeElemOff words' AtCount (fromIntegral count)
            pokeElemOff words' AtSize (fromIntegral size)
            -- Last, so that a file whose process was killed before is no file of rings yet.
            pokeElemOff words' AtMagic magic
          Right . PendingFile path fd memory <$> ringsIn memory count size
  where
    total = dataOffset count + count * size

ringsIn :: ForeignPtr Word8 -> Int -> Int -> IO [LogRing]
ringsIn memory count size =
  traverse
    (\i -> ringIn (memory `plusForeignPtr` (positionsOffset + 128 * i)) (memory `plusForeignPtr` (dataOffset count + size * i)) size)
    [0 .. count - 1]

-- Its memory is unmapped when nobody refers to it, so a thread that outlives the log can still put lines.
mapped :: Fd -> Int -> IO (Maybe (ForeignPtr Word8))
mapped fd total = mask_ $ do
  p <- c_map fd (fromIntegral total)
  if p == nullPtr
    then pure Nothing
    else do
      size <- malloc
      poke size (fromIntegral total)
      Just <$> newForeignPtrEnv c_unmap size p

-- Notes --------------------------------------------------------------------------

-- | @note file ring begin length place@: these bytes of a ring are about to be written there.
--
-- [Blocks]: never.
note :: PendingFile -> Int -> Int64 -> Int -> SinkPlace -> IO ()
note file ring begin len (SinkPlace device inode size) =
  withForeignPtr (pendingMemory file) $ \p -> c_note (castPtr p) (fromIntegral ring) device inode size begin (fromIntegral len)

-- | They have been, and the tail has moved.
--
-- [Blocks]: never.
forgetNote :: PendingFile -> IO ()
forgetNote file = withForeignPtr (pendingMemory file) (c_clear . castPtr)

-- Bytes of a ring that may have been written to a file.
data Noted = Noted
  { notedRing :: !Int,
    notedPlace :: !SinkPlace,
    notedBegin :: !Int64,
    notedLength :: !Int
  }

-- What another process has left ----------------------------------------------------

-- Write the lines that are left in a locked file; whether it may be used now.
replay :: (String -> IO ()) -> FilePath -> FilePath -> Fd -> Int -> Fd -> IO Bool
replay tell path name log' old fd =
  examine name fd >>= \case
    Left why -> True <$ unless (null why) (tell (name ++ " " ++ why))
    Right (file, noted) -> do
      counted <- newRef 0
      r <- trySync $ do
        for_ noted (settle path log' old file)
        forgetNote file
        bytes <- sum <$> traverse pendingBytes (pendingRings file)
        when (bytes > 0) (endLine path log')
        sequence_ [drainTo log' file counted i ring | (i, ring) <- zip [0 ..] (pendingRings file)]
      lines' <- readRef counted
      when (lines' > 0) (tell (show lines' ++ (if lines' == 1 then " line" else " lines") ++ " of a process that was killed " ++ (if lines' == 1 then "was" else "were") ++ " written"))
      case r of
        Right () -> pure True
        Left e -> False <$ tell (name ++ " keeps lines of a process that was killed: " ++ maybe (describeException e) describeErrno (fromException e >>= errnoOf))

-- What a file holds, or what is wrong with it; nothing is, if it is empty.
examine :: FilePath -> Fd -> IO (Either String (PendingFile, Maybe Noted))
examine name fd =
  fileStatus fd >>= \case
    Left e -> pure (damaged (describeErrno (Errno (negate e))))
    Right status
      | statusSize status == 0 -> pure (Left "")
      | statusSize status < 4096 || statusSize status > 1 `shiftL` 34 -> pure (damaged "its size")
      | otherwise ->
        mapped fd (fromIntegral (statusSize status)) >>= \case
          Nothing -> pure (damaged "it cannot be mapped")
          Just memory -> withForeignPtr memory $ \p -> do
            let word = peekElemOff (castPtr p :: Ptr Int64)
            isMagic <- (== magic) <$> word AtMagic
            isVersion <- (== version) <$> word AtVersion
            count <- word AtCount
            size <- word AtSize
            boot <- unsafePackCStringLen (castPtr p `plusPtr` bootOffset, bootLength)
            now <- currentBoot
            let rings = fromIntegral count
                fits =
                  count >= 1 && count <= 65536 && size >= 1 && size <= 1 `shiftL` 30 && popCount size == 1
                    && statusSize status == fromIntegral (dataOffset rings) + count * size
            if
                | not isMagic -> pure (damaged "its beginning")
                | not isVersion -> pure (damaged "its version")
                | not fits -> pure (damaged "its size")
                | otherwise -> do
                  file <- PendingFile name fd memory <$> ringsIn memory rings (fromIntegral size)
                  wrong <- or <$> traverse (isWrong p rings (fromIntegral size)) [0 .. rings - 1]
                  left <- if wrong then pure 0 else sum <$> traverse pendingBytes (pendingRings file)
                  noted <- readNote word rings file
                  pure $ case noted of
                    _ | wrong -> damaged "its lines"
                    _ | boot /= now -> Left (if left == 0 then "" else "is from before the machine was started, so its " ++ show left ++ " bytes of lines are dropped")
                    Left () -> damaged "its note"
                    Right found -> Right (file, found)
  where
    damaged what = Left ("is damaged (" ++ what ++ ") and started afresh")

-- A ring that is not one of whole lines.
isWrong :: Ptr Word8 -> Int -> Int -> Int -> IO Bool
isWrong p count size i = do
  end <- peekByteOff p at :: IO Int64
  start <- peekByteOff p (at + 64) :: IO Int64
  if start < 0 || end < start || end - start > fromIntegral size
    then pure True
    else do
      let byte n = peekByteOff p (dataOffset count + size * i + fromIntegral n .&. (size - 1)) :: IO Word8
          isEnd n = (== 10) <$> byte n
      -- A full ring has no byte left before its first line.
      begun <- if start == 0 || end - start == fromIntegral size then pure True else isEnd (start - 1)
      ended <- if end == start then pure True else isEnd (end - 1)
      let first = fromIntegral start .&. (size - 1)
          len = fromIntegral (end - start)
      one <- unsafePackCStringLen (castPtr p `plusPtr` (dataOffset count + size * i + first), min len (size - first))
      two <- unsafePackCStringLen (castPtr p `plusPtr` (dataOffset count + size * i), max 0 (len - (size - first)))
      pure (not (begun && ended) || B.elem 0 one || B.elem 0 two)
  where
    at = positionsOffset + 128 * i

-- The note, unless its bytes are behind the tail. 'Left' if there can be no such note.
readNote :: (Int -> IO Int64) -> Int -> PendingFile -> IO (Either () (Maybe Noted))
readNote word rings file =
  word AtNote >>= \case
    0 -> pure (Right Nothing)
    slot | slot == 1 || slot == 2 -> do
      let at i = word (AtSlots + 8 * (fromIntegral slot - 1) + i)
      ring <- at 0
      place <- SinkPlace <$> at 1 <*> at 2 <*> at 3
      begin <- at 4
      len <- at 5
      if ring < 0 || ring >= fromIntegral rings || len < 1 || begin < 0 || begin > maxBound - len
        then pure (Left ())
        else do
          start <- ringTail (pendingRings file !! fromIntegral ring)
          left <- pendingBytes (pendingRings file !! fromIntegral ring)
          pure $ case place of
            _ | begin + len <= start -> Right Nothing
            SinkPlace _ _ size
              | begin < start || begin + len > start + fromIntegral left || size < 0 -> Left ()
              | otherwise -> Right (Just (Noted (fromIntegral ring) place begin (fromIntegral len)))
    _ -> pure (Left ())

-- Find how much of the noted bytes is in the file that they were written to, complete a line that was cut off there, and move the
-- tail accordingly. A file that is not there any more is taken for one that has none of them: rather a line twice than none.
settle :: FilePath -> Fd -> Int -> PendingFile -> Noted -> IO ()
settle path log' old file noted = do
  bytes <- notedBytes
  open <- statusOf log'
  let start = notedBegin noted
      moveTo :: Int -> IO ()
      moveTo done = do
        now <- ringTail ring
        consume ring (fromIntegral (start + fromIntegral done - now))
  found <- findFile (nextNames (0 :: Int))
  case found of
    Nothing -> moveTo 0
    Just (name, (base, text)) -> case written bytes (size - base) base text of
      Whole -> moveTo (B.length bytes)
      Cut done -> moveTo (wholeIn (B.take done bytes))
      AtEnd 0 -> moveTo 0
      AtEnd done
        | C.last (B.take done bytes) == '\n' -> moveTo done
        | otherwise -> do
          let end = done + maybe 0 (+ 1) (C.elemIndex '\n' (B.drop done bytes))
              rest = B.take (end - done) (B.drop done bytes)
          if fmap identity open == Just noted'
            then writeAll log' rest >> moveTo end
            else
              appending name >>= \case
                Right fd -> (writeAll fd rest `finally` closeFile fd) >> moveTo end
                -- The rotated file cannot be written any more: the whole line goes to the log.
                Left _ -> moveTo (wholeIn (B.take done bytes))
  where
    ring = pendingRings file !! notedRing noted
    SinkPlace device inode size = notedPlace noted
    noted' = (device, inode)
    identity s = (statusDevice s, statusInode s)
    statusOf fd = either (const Nothing) Just <$> fileStatus fd
    wholeIn = maybe 0 (+ 1) . C.elemIndexEnd '\n'
    nextNames i
      | i > old = []
      | otherwise = (if i == 0 then path else path ++ "." ++ show i) : nextNames (i + 1)
    findFile [] = pure Nothing
    findFile (name : more) = do
      bytes <- fileNameBytes name
      fd <- openFile bytes readOnly
      if fd < 0
        then findFile more
        else do
          r <- (statusOf (fromIntegral fd) >>= traverse (look (fromIntegral fd))) `finally` closeFile (fromIntegral fd)
          maybe (findFile more) (pure . Just . (,) name) (r >>= id)
    look fd s
      | identity s /= noted' || statusKind s /= RegularFile = pure Nothing
      | otherwise = do
        -- A file that was cut meanwhile (copytruncate) is shorter than noted. One byte more shows whether a line begins there.
        let end = statusSize s
            from = max 0 (maximum [min size (end - fromIntegral (notedLength noted)), end - 67108864] - 1)
        text <- readRange fd from (fromIntegral (end - from))
        pure (Just (if from == 0 then (-1, C.cons '\n' text) else (from, text)))
    notedBytes = do
      now <- ringTail ring
      -- The ring is read through, because the noted bytes may go around its end.
      all' <- snapshot file (notedRing noted)
      pure (B.take (notedLength noted) (B.drop (fromIntegral (notedBegin noted - now)) all'))

-- All that a ring holds.
snapshot :: PendingFile -> Int -> IO ByteString
snapshot file i = do
  left <- pendingBytes ring
  start <- ringTail ring
  withForeignPtr (pendingMemory file) $ \p -> do
    count <- peekElemOff (castPtr p :: Ptr Int64) AtCount
    size <- fromIntegral <$> peekElemOff (castPtr p :: Ptr Int64) AtSize
    let bytes = p `plusPtr` (dataOffset (fromIntegral count) + size * i)
        at = fromIntegral start .&. (size - 1)
        first = min left (size - at)
    (<>) <$> B.packCStringLen (castPtr bytes `plusPtr` at, first) <*> B.packCStringLen (castPtr bytes, left - first)
  where
    ring = pendingRings file !! i

-- How much of the noted bytes has been written.
data Written
  = Whole
  | -- | So many, and nothing after them.
    AtEnd !Int
  | -- | So many, and then something else.
    Cut !Int

-- Compare the noted bytes with what has come since: where the noted place is in it, and which offset of the file it begins at. Other
-- processes may append to the same file before and after, but never within the bytes of one write(2), which a kill ends early only
-- at the end of a page. So equal lines are no proof that they are the noted ones, unless they are at the noted place.
written :: ByteString -> Int64 -> Int64 -> ByteString -> Written
written bytes noted base text
  | any whole starts = Whole
  | Just n <- find (> 0) (map atEnd starts) = AtEnd n
  | otherwise = maybe (AtEnd 0) Cut (listToMaybe (sortOn negate (filter (> 0) (map cut starts))))
  where
    starts = map (+ 1) (C.elemIndices '\n' text)
    whole at = bytes `B.isPrefixOf` B.drop at text
    atEnd at = let rest = B.drop at text in if (fromIntegral at == noted || isPage (B.length text)) && rest `B.isPrefixOf` bytes then B.length rest else 0
    cut at = let n = common (B.drop at text) in if n < B.length bytes && isPage (at + n) then n else 0
    common rest = length (takeWhile id (B.zipWith (==) bytes rest))
    isPage at = (base + fromIntegral at) .&. 4095 == 0

-- Begin a new line, if something has left an incomplete one; not in a log that may be written and not read, since an empty line
-- would be as wrong as two in one.
endLine :: FilePath -> Fd -> IO ()
endLine path log' = do
  name <- fileNameBytes path
  fd <- openFile name readOnly
  unless (fd < 0) $ do
    final <- (fileStatus (fromIntegral fd) >>= either (const (pure B.empty)) (\s -> readRange (fromIntegral fd) (max 0 (statusSize s - 1)) 1)) `finally` closeFile (fromIntegral fd)
    unless (B.null final || C.last final == '\n') (writeAll log' (C.singleton '\n'))

-- As the writer does, so that this process may be killed, too.
drainTo :: Fd -> PendingFile -> Ref Int -> Int -> LogRing -> IO ()
drainTo log' file counted i ring = do
  n <- pending ring $ \p n -> do
    when (n > 0) $ do
      begin <- ringTail ring
      fileStatus log' >>= either (const (pure ())) (\s -> note file i begin n (SinkPlace (statusDevice s) (statusInode s) (statusSize s)))
      text <- unsafePackCStringLen (castPtr p, n)
      writeAll log' text
      before <- readRef counted
      writeRef counted $! before + C.count '\n' text
    pure n
  unless (n == 0) $ do
    consume ring n
    forgetNote file
    drainTo log' file counted i ring

writeAll :: Fd -> ByteString -> IO ()
writeAll fd text = unless (B.null text) $ do
  r <- unsafeUseAsCStringLen text (\(p, n) -> writeWhole fd (castPtr p) n)
  if r > 0
    then writeAll fd (B.drop r text)
    else case Errno (negate r) of
      EINTR -> writeAll fd text
      e -> throwErrnoFor "write" e

readRange :: Fd -> Int64 -> Int -> IO ByteString
readRange fd from count = B.concat <$> go from count
  where
    go at n
      | n <= 0 = pure []
      | otherwise = do
        let most = min n 1048576
        piece <- BI.createUptoN most (\p -> max 0 <$> readAt fd p most at)
        if B.null piece then pure [] else (piece :) <$> go (at + fromIntegral (B.length piece)) (n - B.length piece)

appending :: FilePath -> IO (Either Errno Fd)
appending path = do
  name <- fileNameBytes path
  fd <- B.useAsCString name c_append
  pure (if fd < 0 then Left (Errno (fromIntegral (negate fd))) else Right (Fd fd))

-- safe: looks up a path.
foreign import ccall safe "heddle_pending_open" c_open :: CString -> CInt -> IO CInt

-- safe: looks up a path.
foreign import ccall safe "heddle_pending_append" c_append :: CString -> IO CInt

-- safe: closes a file.
foreign import ccall safe "heddle_pending_release" c_release :: Fd -> IO ()

-- safe: the disk gives blocks.
foreign import ccall safe "heddle_pending_size" c_size :: Fd -> Int64 -> IO CInt

-- safe: the kernel may wait for the process's memory map.
foreign import ccall safe "heddle_pending_map" c_map :: Fd -> Int64 -> IO (Ptr Word8)

foreign import ccall "&heddle_pending_unmap" c_unmap :: FinalizerEnvPtr Int64 Word8

-- Unsafe: eight stores.
foreign import ccall unsafe "heddle_pending_note" c_note :: Ptr Int64 -> Int64 -> Int64 -> Int64 -> Int64 -> Int64 -> Int64 -> IO ()

-- Unsafe: a store.
foreign import ccall unsafe "heddle_pending_clear" c_clear :: Ptr Int64 -> IO ()
