{-# LANGUAGE MultiWayIf #-}

-- |
-- Module      : Heddle.Http.Chunked
-- Description : Chunked bodies, decoded in place as they arrive
-- Stability   : internal, exempt from the version policy
--
-- Decodes a chunked body piece by piece. Data is not copied: the answer says where it
-- lies. The bytes between are checked and consumed at once, so no byte is read twice.
-- The answer does not depend on how the bytes were split.
--
-- Owner: one connection at a time; a state is reused for every body.
-- Cost: O(bytes between the data); 24 bytes allocated per step. Nothing blocks,
-- throws or calls the system.
module Heddle.Http.Chunked
  ( -- * States
    ChunkState,
    newChunkState,
    resetChunkState,
    limitChunks,
    copyChunkState,

    -- * Decoding
    ChunkStep (..),
    chunkNext,
    chunkedTotal,

    -- ** Trailers
    trailerBytes,
    trailersIn,
  )
where

import Control.Monad.ST (RealWorld)
import Data.Bits (unsafeShiftL, unsafeShiftR, (.|.))
import Data.Foldable (for_)
import Data.Primitive.ByteArray
  ( MutableByteArray,
    copyMutableByteArray,
    getSizeofMutableByteArray,
    newByteArray,
    readByteArray,
    setByteArray,
    writeByteArray,
  )
import Data.Word (Word8)
import Foreign.Ptr (Ptr)
import Heddle.Http.Head (Slice (..))
import Heddle.Http.Parse (Limits (..))
import Heddle.Http.RejectReason (RejectReason (..), rejectStatus)
import Heddle.Http.Scan (byteAt, hexValue, isFieldByte, isHexByte, isTokenByte)
import Heddle.Http.Status (Status)

-- | How far the decoding of one body has come.
newtype ChunkState = ChunkState (MutableByteArray RealWorld)

-- | The numbers of a state, by their place in it.
data Field
  = FieldPhase
  | -- | Size of the chunk while its line is read; then what remains of its data.
    FieldSize
  | -- | Digits of the size so far.
    FieldDigits
  | -- | Bytes of data announced by all chunks so far.
    FieldTotal
  | -- | Bytes of extensions in excess of what the data allows; see Note [Extensions].
    FieldExtensions
  | -- | Bytes of trailer lines so far.
    FieldTrailers
  | FieldLimitBody
  | FieldLimitExtensions
  | FieldLimitTrailers
  | -- | The 'RejectReason' of a failed body.
    FieldReason
  deriving stock (Bounded, Enum)

-- | What the next byte belongs to.
data Phase
  = -- | The digits of a size.
    InSize
  | -- | White space between a size and the semicolon of its extension.
    BeforeExtension
  | -- | An extension.
    InExtension
  | -- | The LF of a size line.
    SizeFeed
  | -- | Data.
    InData
  | -- | The CR after data.
    DataReturn
  | -- | The LF after data.
    DataFeed
  | -- | The first byte of a trailer line.
    TrailerStart
  | -- | The name of a trailer.
    TrailerName
  | -- | The value of a trailer.
    TrailerValue
  | -- | The LF of a trailer line.
    TrailerFeed
  | -- | The LF of the last, empty line.
    LastFeed
  | -- | The body is over.
    Finished
  | -- | The body is malformed.
    Failed
  deriving stock (Bounded, Enum, Eq)

-- | A new state; call 'resetChunkState' before its first use.
--
-- [Cost]: O(1); about 100 bytes, once.
newChunkState :: IO ChunkState
newChunkState = do
  let fields = fromEnum (maxBound :: Field) + 1
  array <- newByteArray (8 * fields)
  setByteArray array 0 fields (0 :: Int)
  pure (ChunkState array)

-- | Begin a new body under these limits: 'limitBody', 'limitTrailers' and
-- 'limitChunkExtensions'.
--
-- [Cost]: O(1); 0 bytes.
resetChunkState :: Limits -> ChunkState -> IO ()
resetChunkState limits state = do
  for_ [FieldPhase, FieldSize, FieldDigits, FieldTotal, FieldExtensions, FieldTrailers, FieldReason] $
    \field -> set state field 0
  set state FieldLimitBody (limitBody limits)
  set state FieldLimitExtensions (limitChunkExtensions limits)
  set state FieldLimitTrailers (limitTrailers limits)

-- | Refuse content beyond this many bytes.
--
-- [Cost]: a store.
limitChunks :: ChunkState -> Int -> IO ()
limitChunks state = set state FieldLimitBody

-- | @copyChunkState from to@ lets a state continue where another one is.
--
-- [Cost]: a copy of about 100 bytes.
copyChunkState :: ChunkState -> ChunkState -> IO ()
copyChunkState (ChunkState from) (ChunkState to) = getSizeofMutableByteArray from >>= copyMutableByteArray to 0 from 0

-- | One step of decoding. Consumed bytes are never needed again.
data ChunkStep
  = -- | All bytes were consumed without reaching data; their number.
    ChunkMore !Int
  | -- | Data: its offset and its length, at least 1. Bytes before and within it
    -- are consumed.
    ChunkData !Int !Int
  | -- | The body is over, its trailers included. This number of bytes was consumed;
    -- the next request follows them.
    ChunkEnd !Int
  | -- | The body is malformed or too large: answer the status, and close.
    ChunkReject !Status !RejectReason
  deriving stock (Eq, Show)

-- | Bytes of data that the chunks so far announced.
--
-- [Cost]: one load.
chunkedTotal :: ChunkState -> IO Int
chunkedTotal state = get state FieldTotal

-- | Bytes of trailer lines so far, line ends included.
--
-- [Cost]: one load.
trailerBytes :: ChunkState -> IO Int
trailerBytes state = get state FieldTrailers

-- | Where in the buffer of the step just taken the bytes of trailer lines lie, given how many there were before it. They
-- are well-formed lines once the body is over.
--
-- [Cost]: some loads.
trailersIn :: ChunkState -> Int -> ChunkStep -> IO Slice
trailersIn state before step = do
  now <- trailerBytes state
  phase <- toEnum <$> get state FieldPhase
  -- They stand at the end of what was consumed, but for the empty line.
  let end = case step of
        ChunkEnd used -> used - 2
        ChunkMore used | phase == LastFeed -> used - 1
        ChunkMore used -> used
        _ -> 0
      len = now - before
  pure (if len > 0 then Slice (end - len) len else Slice 0 0)

-- | Decode from a buffer of this many bytes, none of which was consumed before.
-- After 'ChunkEnd' or 'ChunkReject' it repeats that answer, consuming nothing.
--
-- Trailers are checked and counted, and none is ever merged into the head: a field after the body could
-- not be checked before the body was acted upon. Who wants them takes them by 'trailersIn'.
--
-- Law (splitting): the data joined, the end and the refusal are those of one call
-- with all the bytes.
--
-- [Cost]: O(bytes consumed, less those of data); one result allocated.
-- [Source]: RFC 9112, section 7.1; RFC 9110, section 6.5.1.
chunkNext :: ChunkState -> Ptr Word8 -> Int -> IO ChunkStep
chunkNext !state !buffer !end = do
  phase <- toEnum <$> get state FieldPhase
  from phase 0
  where
    from :: Phase -> Int -> IO ChunkStep
    from phase !i
      | phase == Finished = pure (ChunkEnd i)
      | phase == Failed = do
        reason <- toEnum <$> get state FieldReason
        pure (ChunkReject (rejectStatus reason) reason)
      | i >= end = do
        set state FieldPhase (fromEnum phase)
        pure (ChunkMore end)
      | phase == InData = do
        size <- get state FieldSize
        let len = min size (end - i)
        set state FieldSize (size - len)
        set state FieldPhase (fromEnum (if len == size then DataReturn else InData))
        pure (ChunkData i len)
      | otherwise = do
        byte <- byteAt buffer i
        step phase byte (i + 1)

    step :: Phase -> Word8 -> Int -> IO ChunkStep
    step phase !byte !next = case phase of
      InSize
        | isHexByte byte -> digit byte next
        | otherwise -> do
          digits <- get state FieldDigits
          if digits == 0 then failed BadChunkSize else afterSize byte next
      BeforeExtension
        | byte == 0x3B || byte == 0x20 || byte == 0x09 -> afterSize byte next
        | otherwise -> failed BadChunkSize
      InExtension
        | byte == 0x0D -> from SizeFeed next
        | isFieldByte byte -> extension InExtension next
        | otherwise -> failed BadChunkExtension
      SizeFeed
        | byte == 0x0A -> sizeDone next
        | otherwise -> failed BadChunkExtension
      DataReturn
        | byte == 0x0D -> from DataFeed next
        | otherwise -> failed BadChunkEnd
      DataFeed
        | byte == 0x0A -> do
          set state FieldSize 0
          set state FieldDigits 0
          from InSize next
        | otherwise -> failed BadChunkEnd
      TrailerStart
        | byte == 0x0D -> from LastFeed next
        | isTokenByte byte -> trailer TrailerName next
        | otherwise -> failed BadTrailer
      TrailerName
        | byte == 0x3A -> trailer TrailerValue next
        | isTokenByte byte -> trailer TrailerName next
        | otherwise -> failed BadTrailer
      TrailerValue
        | byte == 0x0D -> trailer TrailerFeed next
        | isFieldByte byte -> trailer TrailerValue next
        | otherwise -> failed BadTrailer
      TrailerFeed
        | byte == 0x0A -> trailer TrailerStart next
        | otherwise -> failed BadTrailer
      LastFeed
        | byte == 0x0A -> do
          set state FieldPhase (fromEnum Finished)
          pure (ChunkEnd next)
        | otherwise -> failed BadTrailer
      _ -> from phase (next - 1)

    -- One more digit of a size. The total stays within the limit at every
    -- digit, and so can never overflow.
    digit !byte !next = do
      size <- get state FieldSize
      digits <- get state FieldDigits
      total <- get state FieldTotal
      limit <- get state FieldLimitBody
      let !larger = (size `unsafeShiftL` 4) .|. hexValue byte
      if
          | digits >= longestSize -> failed BadChunkSize
          | size > maxBound `unsafeShiftR` 4 || larger > limit - total -> failed BodyTooLarge
          | otherwise -> do
            set state FieldSize larger
            set state FieldDigits (digits + 1)
            from InSize next

    afterSize !byte !next = case byte of
      0x0D -> from SizeFeed next
      0x3B -> extension InExtension next
      0x20 -> extension BeforeExtension next
      0x09 -> extension BeforeExtension next
      _ -> failed BadChunkSize

    extension phase !next = do
      spent <- get state FieldExtensions
      limit <- get state FieldLimitExtensions
      set state FieldExtensions (spent + 1)
      if spent >= limit then failed ChunkExtensionsTooLong else from phase next

    sizeDone !next = do
      size <- get state FieldSize
      total <- get state FieldTotal
      spent <- get state FieldExtensions
      set state FieldTotal (total + size)
      set state FieldExtensions (max 0 (spent - earned size))
      from (if size == 0 then TrailerStart else InData) next

    trailer phase !next = do
      spent <- get state FieldTrailers
      limit <- get state FieldLimitTrailers
      set state FieldTrailers (spent + 1)
      if spent >= limit then failed TrailersTooLarge else from phase next

    failed reason = do
      set state FieldPhase (fromEnum Failed)
      set state FieldReason (fromEnum reason)
      pure (ChunkReject (rejectStatus reason) reason)

-- | Digits of a size, leading zeros included.
longestSize :: Int
longestSize = 16

-- | Bytes of extensions that a chunk's data allows; see Note [Extensions].
earned :: Int -> Int
earned size = (size `unsafeShiftR` 3) + min size 16

get :: ChunkState -> Field -> IO Int
get (ChunkState array) field = readByteArray array (fromEnum field)
{-# INLINE get #-}

set :: ChunkState -> Field -> Int -> IO ()
set (ChunkState array) field = writeByteArray array (fromEnum field)
{-# INLINE set #-}

-- Note [Extensions]
-- ~~~~~~~~~~~~~~~~~
-- Extensions are ignored, so a client could send far more of them than data, and
-- a limit per chunk would not help, since chunks may be one byte long. A limit on
-- their sum would break long uploads that sign every chunk. So a chunk's data allows
-- extensions of an eighth of its size, and up to 16 bytes more; only the excess is
-- bounded.
