-- |
-- Module      : Heddle.Trace.Log
-- Description : A streaming reader of GHC's event logs
-- Stability   : stable
--
-- Reads the logs that programs linked with @-eventlog@ write (GHC 9.0 to 9.10). The runtime writes blocks, each the
-- events of one capability in the order of time. 'openLog' reads the header and the blocks' headers only;
-- 'forEvents' then merges the capabilities' streams by time, with a window of each stream in memory.
--
-- Whatever is damaged is skipped, and 'logNotes' says what: an unknown event by its declared size, the rest of a block
-- whose event cannot be understood, bytes between blocks up to the next one that looks like a block.
--
-- Cost: one positioned read for each block, and then one for each window that is used up. Memory: 128 KiB for each
-- capability of the log, and 16 bytes for each of its blocks, at most a million.
-- Owner: the thread that called 'withLog'; a 'Log' is not for several threads at once.
module Heddle.Trace.Log
  ( -- * Opening
    Log,
    withLog,
    NotALog (..),

    -- * What it is about
    logStreams,
    streamCapability,
    logBegin,
    logEnd,
    logSize,
    threadIdBytes,
    declaredSize,

    -- * Events
    forEvents,
    word16At,
    word32At,
    word64At,

    -- * Damage
    Note (..),
    logNotes,
    logSkipped,
  )
where

import Control.Monad (forM_, unless, when)
import Control.Monad.Primitive (RealWorld)
import Data.ByteString (ByteString)
import Data.Int (Int32)
import Data.Primitive.ByteArray
import Data.Primitive.PrimArray
import Data.Word (Word16, Word32, Word64, Word8, byteSwap16, byteSwap32, byteSwap64)
import Foreign.Marshal.Utils (moveBytes)
import Foreign.Ptr (Ptr, plusPtr)
import Foreign.Storable (peekByteOff)
import Heddle.Prim.Atomic (Ref, newRef, readRef, writeRef)
import Heddle.Prim.Buffer (newBuffer, withBuffer)
import Heddle.Prim.Errno (Errno (..), throwErrnoFor)
import Heddle.Prim.Exception (Exception (..), finally, throwIO)
import Heddle.Prim.File (FileKind (..), FileStatus (..), closeFile, fileStatus, openFile, readAt, readOnlyWaiting)
import System.Posix.Types (Fd (..))

-- | An open event log.
data Log = Log
  { logFd :: !Fd,
    -- | In bytes.
    logSize :: !Int,
    -- | The payload's size of each type of event: -1 if each event says its own, -2 if the type is not declared.
    logSizes :: !(PrimArray Int32),
    -- | Where each block begins.
    logOffsets :: !(PrimArray Int),
    -- | How long it is, and the next block of its stream (-1: none).
    logLengths, logNexts :: !(PrimArray Int32),
    -- | The first block of each stream.
    logFirsts :: !(PrimArray Int),
    logCapabilities :: !(PrimArray Int),
    -- | The first block's time, in nanoseconds since the program's start.
    logBegin :: !Int,
    -- | The time at which the last block was closed.
    logEnd :: !Int,
    logDamage :: !Damage
  }

-- | The file is not an event log.
newtype NotALog = NotALog String
  deriving stock (Eq, Show)

instance Exception NotALog where
  displayException (NotALog why) = why

-- | Something that was skipped.
data Note = Note
  { -- | Where, in bytes from the file's beginning.
    noteOffset :: !Int,
    noteText :: !String
  }
  deriving stock (Eq, Show)

-- | The first notes, how many there were, the bytes skipped, and whether the events
-- were read before: a second pass finds the same.
data Damage = Damage !(Ref [Note]) !(Ref Int) !(Ref Int) !(Ref Bool)

-- | What was skipped until now: the first 20 notes in the order in which they were made, and how many there were.
logNotes :: Log -> IO ([Note], Int)
logNotes Log {logDamage = Damage notes count _ _} = (,) <$> (reverse <$> readRef notes) <*> readRef count

-- | How many bytes were skipped until now.
logSkipped :: Log -> IO Int
logSkipped Log {logDamage = Damage _ _ bytes _} = readRef bytes

damaged :: Damage -> Int -> Int -> String -> IO ()
damaged (Damage notes count bytes told) offset skipped text =
  readRef told >>= \known -> unless known $ do
    n <- readRef count
    writeRef count (n + 1)
    before <- readRef bytes
    writeRef bytes (before + skipped)
    when (n < 20) (readRef notes >>= writeRef notes . (Note offset text :))
{-# NOINLINE damaged #-}

-- | How many streams the log has: one for each capability, and one for the runtime's own events.
logStreams :: Log -> Int
logStreams = sizeofPrimArray . logCapabilities

-- | The capability of a stream; -1 for the runtime's own events.
streamCapability :: Log -> Int -> Int
streamCapability l = indexPrimArray (logCapabilities l)

-- | The bytes of a thread's number in this log: 4 or 8.
threadIdBytes :: Log -> Int
threadIdBytes l = if declaredSize l 1 == 8 then 8 else 4

-- | The size of a type's events without type and time: -1 if each says its own, -2 if the type is not declared.
declaredSize :: Log -> Int -> Int
declaredSize l t = fromIntegral (indexPrimArray (logSizes l) t)
{-# INLINE declaredSize #-}

-- | Open a log, and close it when the action ends.
--
-- [Cost]: a read for the header and one for each block.
-- [Blocks]: holds an OS thread while it reads.
-- [Throws]: 'NotALog' if the file does not begin as an event log, or is no regular file; 'IOError' if it cannot be read.
withLog :: ByteString -> (Log -> IO a) -> IO a
withLog path act = do
  fd <- openFile path readOnlyWaiting
  when (fd < 0) (throwErrnoFor "open" (Errno (negate fd)))
  flip finally (closeFile (Fd (fromIntegral fd))) $ do
    status <- fileStatus (Fd (fromIntegral fd)) >>= either (throwErrnoFor "fstat" . Errno . negate) pure
    case statusKind status of
      RegularFile -> openLog (Fd (fromIntegral fd)) (fromIntegral (statusSize status)) >>= act
      Directory -> throwIO (NotALog "this is a directory")
      OtherKind -> throwIO (NotALog "this is no regular file; an event log is read twice")

-- Bytes from an offset, fewer only at the file's end.
readFully :: Fd -> Ptr Word8 -> Int -> Int -> IO Int
readFully fd p n offset = go 0
  where
    go got
      | got == n = pure got
      | otherwise = do
        r <- readAt fd (p `plusPtr` got) (n - got) (fromIntegral (offset + got))
        if r > 0 then go (got + r) else if r == 0 then pure got else throwErrnoFor "read" (Errno (negate r))

openLog :: Fd -> Int -> IO Log
openLog fd size = do
  damage <- Damage <$> newRef [] <*> newRef 0 <*> newRef 0 <*> newRef False
  scratch <- newBuffer scanBytes
  (sizes, start) <- withBuffer scratch (readHeader fd damage)
  blocks <- newBlocks
  withBuffer scratch $ \p -> findBlocks fd size (indexPrimArray sizes) damage p blocks start
  freezeBlocks fd size sizes damage blocks

scanBytes :: Int
scanBytes = 65536

-- The header: a list of types in which each says its size. It is read in pieces, since a description may have any length.
readHeader :: Fd -> Damage -> Ptr Word8 -> IO (PrimArray Int32, Int)
readHeader fd damage p = do
  sizes <- newPrimArray 65536
  setPrimArray sizes 0 65536 (-2)
  got <- readFully fd p 8 0
  magic <- if got == 8 then (,) <$> word32At p 0 <*> word32At p 4 else pure (0, 0)
  unless (magic == (0x68647262, 0x68657462)) $
    throwIO (NotALog "this is not an event log; programs linked with -eventlog write one with +RTS -l")
  let types offset = do
        n <- readFully fd p 12 offset
        tag <- if n >= 4 then word32At p 0 else pure 0
        if tag == 0x68657465
          then ending (offset + 4)
          else
            if tag /= 0x65746200 || n < 12
              then broken offset
              else do
                number <- word16At p 4
                declared <- word16At p 6
                description <- word32At p 8
                m <- readFully fd p 4 (offset + 12 + description)
                extra <- if m == 4 then word32At p 0 else pure 0
                e <- readFully fd p 4 (offset + 16 + description + extra)
                end <- if m == 4 && e == 4 then word32At p 0 else pure 0
                if end /= 0x65746500
                  then broken offset
                  else do
                    writePrimArray sizes number (if declared == 0xffff then -1 else fromIntegral declared)
                    types (offset + 20 + description + extra)
      ending offset = do
        n <- readFully fd p 8 offset
        end <- if n == 8 then (,) <$> word32At p 0 <*> word32At p 4 else pure (0, 0)
        if end == (0x68647265, 0x64617462) then done (offset + 8) else broken offset
      -- The rest is searched for blocks.
      broken offset = damaged damage offset 0 "the header is damaged or cut off: types of events that are not declared are not read" >> done offset
      done offset = do
        -- A damaged header may have lost what every log declares.
        forM_ alwaysDeclared $ \(number, declared) -> do
          before <- readPrimArray sizes number
          when (before == -2) (writePrimArray sizes number declared)
        frozen <- unsafeFreezePrimArray sizes
        pure (frozen, offset)
  types 8
  where
    alwaysDeclared = [(0, 4), (1, 4), (2, 10), (3, 4), (4, 6), (9, 0), (10, 0), (18, 14)]

-- Growing columns, one entry for each block.
data Blocks = Blocks
  { blocksColumns :: !(Ref (MutablePrimArray RealWorld Int, MutablePrimArray RealWorld Int32, MutablePrimArray RealWorld Int32)),
    -- | The number of blocks, of streams, the earliest and the latest time.
    blocksWords :: !(MutablePrimArray RealWorld Int),
    -- | For each capability number: its stream, or -1.
    blocksStream :: !(MutablePrimArray RealWorld Int32),
    -- | For each stream: its capability, first and last block.
    blocksEnds :: !(MutablePrimArray RealWorld Int)
  }

maxBlocks, maxStreams :: Int
maxBlocks = 1000000
maxStreams = 512

newBlocks :: IO Blocks
newBlocks = do
  columns <- (,,) <$> newPrimArray 1024 <*> newPrimArray 1024 <*> newPrimArray 1024
  words' <- newPrimArray 4
  forM_ (zip [0 ..] [0, 0, maxBound, 0]) (uncurry (writePrimArray words'))
  streams <- newPrimArray 65536
  setPrimArray streams 0 65536 (-1)
  Blocks <$> newRef columns <*> pure words' <*> pure streams <*> newPrimArray (3 * maxStreams)

-- False: there is no room for it.
addBlock :: Blocks -> Int -> Int -> Int -> Int -> Int -> IO Bool
addBlock b offset count capability begin end = do
  n <- readPrimArray words' 0
  known <- fromIntegral <$> readPrimArray (blocksStream b) capability
  streams <- readPrimArray words' 1
  if n == maxBlocks || (known < 0 && streams == maxStreams)
    then pure False
    else do
      (offsets, lengths, nexts) <- room n
      writePrimArray offsets n offset
      writePrimArray lengths n (fromIntegral count)
      writePrimArray nexts n (-1)
      writePrimArray words' 0 (n + 1)
      if known < 0
        then do
          writePrimArray (blocksStream b) capability (fromIntegral streams)
          writePrimArray words' 1 (streams + 1)
          writePrimArray ends (3 * streams) capability
          writePrimArray ends (3 * streams + 1) n
          writePrimArray ends (3 * streams + 2) n
        else do
          lastOne <- readPrimArray ends (3 * known + 2)
          writePrimArray nexts lastOne (fromIntegral n)
          writePrimArray ends (3 * known + 2) n
      readPrimArray words' 2 >>= writePrimArray words' 2 . min begin
      readPrimArray words' 3 >>= writePrimArray words' 3 . max end
      pure True
  where
    words' = blocksWords b
    ends = blocksEnds b
    room n = do
      (offsets, lengths, nexts) <- readRef (blocksColumns b)
      before <- getSizeofMutablePrimArray offsets
      if n < before
        then pure (offsets, lengths, nexts)
        else do
          more <- (,,) <$> resizeMutablePrimArray offsets (2 * before) <*> resizeMutablePrimArray lengths (2 * before) <*> resizeMutablePrimArray nexts (2 * before)
          writeRef (blocksColumns b) more
          pure more

freezeBlocks :: Fd -> Int -> PrimArray Int32 -> Damage -> Blocks -> IO Log
freezeBlocks fd size sizes damage b = do
  (offsets, lengths, nexts) <- readRef (blocksColumns b)
  streams <- readPrimArray (blocksWords b) 1
  begin <- readPrimArray (blocksWords b) 2
  end <- readPrimArray (blocksWords b) 3
  ends <- unsafeFreezePrimArray (blocksEnds b)
  let column k = generatePrimArray streams (\i -> indexPrimArray ends (3 * i + k))
      number c = if c == 0xffff then -1 else c
  (\o l n -> Log fd size sizes o l n (column 1) (mapPrimArray number (column 0)) (if end < begin then 0 else begin) (max 0 end) damage)
    <$> unsafeFreezePrimArray offsets
    <*> unsafeFreezePrimArray lengths
    <*> unsafeFreezePrimArray nexts

-- A block's marker: type, time, size, time of the end, capability.
markerBytes :: Int
markerBytes = 24

-- From block to block. Old runtimes also wrote events outside blocks; these become blocks of the runtime's stream.
findBlocks :: Fd -> Int -> (Int -> Int32) -> Damage -> Ptr Word8 -> Blocks -> Int -> IO ()
findBlocks fd size sizes damage p blocks = go
  where
    go offset
      | offset >= size = pure ()
      | otherwise = do
        n <- readFully fd p markerBytes offset
        kind <- if n >= 2 then word16At p 0 else pure 0xffff
        if kind == 0xffff
          then if n >= 2 && offset + 2 < size then lost offset (offset + 2) else pure ()
          else if kind == 18 then marked n offset else loose offset offset
    marked n offset
      | n < markerBytes = damaged damage offset n "the file ends inside a block's header"
      | otherwise = do
        begin <- word64At p 2
        count <- word32At p 10
        end <- word64At p 14
        capability <- word16At p 22
        if count < markerBytes || begin < 0 || end < begin
          then lost offset (offset + 2)
          else do
            let whole = min count (size - offset)
            when (whole < count) $
              damaged damage offset (count - whole) ("the file ends inside a block: " ++ show (count - whole) ++ " bytes are missing")
            -- A log that was started in a running program has an empty block, which may begin long before.
            taken <- if whole > markerBytes then addBlock blocks offset whole capability begin end else addBlock blocks offset whole capability maxBound 0
            if taken
              then go (offset + whole)
              else do
                damaged damage offset whole "a block of too many: at most 1,000,000 blocks of 512 capabilities are read"
                full <- (== maxBlocks) <$> readPrimArray (blocksWords blocks) 0
                if full then damaged damage offset (size - offset - whole) "the rest is not read" else go (offset + whole)
    -- Events outside blocks, up to the next marker.
    loose from offset = do
      n <- readFully fd p 12 offset
      kind <- if n >= 10 then word16At p 0 else pure 0xffff
      let declared = if kind == 0xffff then -2 else fromIntegral (sizes kind)
      payload <- if declared == -1 && n == 12 then (+ 2) <$> word16At p 10 else pure declared
      if kind == 18 || payload < 0 || offset + 10 + payload > size || offset - from > 0x3fffffff
        then
          if offset == from
            then lost offset (offset + 1)
            else do
              _ <- readFully fd p 10 from
              begin <- word64At p 2
              if begin < 0
                then lost from offset
                else addBlock blocks from (offset - from) 0xffff begin begin >> go offset
        else loose from (offset + 10 + payload)
    -- Search for the next block: one whose successor is a block, too, or the file's end.
    lost from at = do
      found <- search at
      damaged damage from (found - from) ("no block of events begins here: " ++ show (found - from) ++ " bytes are skipped")
      go found
    search at
      | at >= size = pure size
      | otherwise = do
        n <- readFully fd p scanBytes at
        let candidates i
              | i + markerBytes > n = pure Nothing
              | otherwise = do
                a <- peekByteOff p i :: IO Word8
                b <- peekByteOff p (i + 1) :: IO Word8
                if a /= 0 || b /= 18
                  then candidates (i + 1)
                  else do
                    begin <- word64At p (i + 2)
                    count <- word32At p (i + 10)
                    end <- word64At p (i + 14)
                    if count >= markerBytes && begin >= 0 && end >= begin && at + i + count <= size
                      then pure (Just i)
                      else candidates (i + 1)
        candidates 0 >>= \case
          Just i -> pure (at + i)
          Nothing
            | n < scanBytes -> pure size
            | otherwise -> search (at + n - markerBytes + 1)

-- A stream's words: where its next event is in its window, the window's valid bytes, the file's offset after these, the
-- offset of its block's end, the next block, the next event's time and whole length, its type, and the block's times.
streamWords, fieldAt, fieldValid, fieldOffset, fieldEnd, fieldNext, fieldTime, fieldLength, fieldKind, fieldFrom, fieldUntil :: Int
streamWords = 10
fieldAt = 0
fieldValid = 1
fieldOffset = 2
fieldEnd = 3
fieldNext = 4
fieldTime = 5
fieldLength = 6
fieldKind = 7
fieldFrom = 8
fieldUntil = 9

-- More than the longest event.
windowBytes :: Int
windowBytes = 131072

-- | Run an action for each event of the chosen streams, in the order of time. It is given the stream, the time in
-- nanoseconds since the program's start, the event's type, and where its payload is and how long: without the length
-- that precedes a payload of variable size. The address is valid during the call only.
--
-- Times never go back: an event whose time lies outside its block's is moved to the block's nearer end.
--
-- [Cost]: linear in the events; the action's.
-- [Blocks]: holds an OS thread while it reads.
-- [Throws]: 'IOError' if the file cannot be read; what the action throws.
-- [Units]: nanoseconds, bytes.
forEvents :: Log -> (Int -> Bool) -> (Int -> Int -> Int -> Ptr Word8 -> Int -> IO ()) -> IO ()
forEvents l chosen act = do
  let streams = logStreams l
  state <- newByteArray (max 1 streams * streamWords * 8)
  windows <- newBuffer (max 1 streams * windowBytes)
  withBuffer windows $ \base -> do
    forM_ [0 .. streams - 1] $ \i -> do
      forM_ [0 .. streamWords - 1] $ \f -> put state i f 0
      put state i fieldNext (if chosen i then indexPrimArray (logFirsts l) i else -1)
      advance l state base i
    let choose before = do
          (i, bound) <- earliest state streams
          unless (i < 0) (run i bound before)
        run i bound before = do
          time <- get state i fieldTime
          if time > bound || time == maxBound
            then choose before
            else do
              at <- get state i fieldAt
              count <- get state i fieldLength
              kind <- get state i fieldKind
              let now = max before time
                  p = base `plusPtr` (i * windowBytes + at)
              if indexPrimArray (logSizes l) kind < 0
                then act i now kind (p `plusPtr` 12) (count - 12)
                else act i now kind (p `plusPtr` 10) (count - 10)
              put state i fieldAt (at + count)
              advance l state base i
              run i bound now
    choose 0
  let Damage _ _ _ told = logDamage l
  writeRef told True
{-# INLINE forEvents #-}

type State = MutableByteArray RealWorld

get :: State -> Int -> Int -> IO Int
get state i f = readByteArray state (i * streamWords + f)
{-# INLINE get #-}

put :: State -> Int -> Int -> Int -> IO ()
put state i f = writeByteArray state (i * streamWords + f)
{-# INLINE put #-}

-- The stream whose next event is earliest, and the earliest time of the others.
earliest :: State -> Int -> IO (Int, Int)
earliest state streams = go 0 (-1) maxBound maxBound
  where
    go :: Int -> Int -> Int -> Int -> IO (Int, Int)
    go i best first second
      | i == streams = pure (best, second)
      | otherwise = do
        time <- get state i fieldTime
        if time < first then go (i + 1) i time first else go (i + 1) best first (min second time)

-- Brings a stream's next event into its window whole; its time is maxBound when there is none.
advance :: Log -> State -> Ptr Word8 -> Int -> IO ()
advance l state base i = next
  where
    window = base `plusPtr` (i * windowBytes) :: Ptr Word8
    next = do
      at <- get state i fieldAt
      valid <- get state i fieldValid
      if valid - at >= 10 then look at valid else refill at valid
    look at valid = do
      let p = window `plusPtr` at :: Ptr Word8
      kind <- word16At p 0
      let declared = declaredSize l kind
      if declared >= 0
        then whole at valid kind (10 + declared)
        else
          if declared == -1
            then if valid - at < 12 then refill at valid else word16At p 10 >>= \n -> whole at valid kind (12 + n)
            else do
              offset <- get state i fieldOffset
              abandon at valid ("an event of the undeclared type " ++ show kind) (offset - (valid - at))
    whole at valid kind count
      | valid - at < count = refill at valid
      | kind == 18 = put state i fieldAt (at + count) >> next
      | otherwise = do
        time <- word64At (window `plusPtr` at) 2
        from <- get state i fieldFrom
        until' <- get state i fieldUntil
        put state i fieldTime (max from (min until' time))
        put state i fieldLength count
        put state i fieldKind kind
    -- Read more of the block into the window. What is left of a block that has no more is less than an event.
    refill at valid = do
      offset <- get state i fieldOffset
      end <- get state i fieldEnd
      let left = valid - at
      if offset >= end
        then do
          -- Since GHC 9.2 the mark of the log's end is in a block.
          mark <- if left == 2 then word16At (window `plusPtr` at) 0 else pure 0
          if left == 0 || mark == 0xffff then another else abandon at valid "a block ends inside an event" (offset - left)
        else do
          when (left > 0) (moveBytes window (window `plusPtr` at) left)
          n <- readFully (logFd l) (window `plusPtr` left) (min (windowBytes - left) (end - offset)) offset
          put state i fieldAt 0
          put state i fieldValid (left + n)
          put state i fieldOffset (offset + n)
          when (n == 0) $ do
            damaged (logDamage l) offset (end - offset) "the file became shorter while it was read"
            put state i fieldEnd offset
          next
    -- The rest of the block cannot be understood.
    abandon _ valid why offset = do
      end <- get state i fieldEnd
      damaged (logDamage l) offset (end - offset) (why ++ ": the block's last " ++ show (end - offset) ++ " bytes are skipped")
      put state i fieldAt valid
      put state i fieldOffset end
      another
    another = do
      block <- get state i fieldNext
      if block < 0
        then put state i fieldTime maxBound
        else do
          let offset = indexPrimArray (logOffsets l) block
          put state i fieldNext (fromIntegral (indexPrimArray (logNexts l) block))
          put state i fieldEnd (offset + fromIntegral (indexPrimArray (logLengths l) block))
          put state i fieldOffset offset
          -- The marker has the times within which the block's events lie.
          n <- readFully (logFd l) window (min windowBytes (fromIntegral (indexPrimArray (logLengths l) block))) offset
          put state i fieldAt 0
          put state i fieldValid n
          put state i fieldOffset (offset + n)
          when (n == 0) (put state i fieldEnd offset)
          kind <- if n >= markerBytes then word16At window 0 else pure 0
          from <- if kind == 18 then word64At window 2 else pure 0
          until' <- if kind == 18 then word64At window 14 else pure (maxBound - 1)
          put state i fieldFrom from
          put state i fieldUntil until'
          next
{-# NOINLINE advance #-}

-- | A number in the log's byte order, which is big-endian.
word16At, word32At, word64At :: Ptr Word8 -> Int -> IO Int
word16At p i = fromIntegral . byteSwap16 <$> (peekByteOff p i :: IO Word16)
word32At p i = fromIntegral . byteSwap32 <$> (peekByteOff p i :: IO Word32)
word64At p i = fromIntegral . byteSwap64 <$> (peekByteOff p i :: IO Word64)
{-# INLINE word16At #-}
{-# INLINE word32At #-}
{-# INLINE word64At #-}
