{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Http.Head
-- Description : The parsed head of a request, as offsets
-- Stability   : internal, exempt from the version policy
--
-- A 'HeadTable' describes one request head in a single unboxed array that is
-- reused for every request: where the method, the target and each header
-- lie, which headers are well known, and how far the parser has come.
--
-- Invariant: offsets count from the start of the buffer that was parsed, so the
-- buffer may be moved, but not changed, while the table is in use.
-- Invariant: after 'Heddle.Http.Parse.Done' each slice lies inside the head.
-- Owner: one connection at a time; nothing here is safe for two threads.
-- Cost: reading a field is one load. Nothing blocks, throws or calls the system;
-- only the functions that answer a 'ByteString' allocate.
module Heddle.Http.Head
  ( -- * Tables
    HeadTable,
    newHeadTable,
    headCapacity,
    startHead,

    -- ** Put away

    -- | A copy of a table frees the table while a slow client sends the rest of a head.
    SavedHead,
    saveHead,
    restoreHead,

    -- ** Copied
    numbersSize,
    copyNumbers,
    copiedAt,

    -- * Slices
    Slice (..),
    copySlice,
    sliceEquals,

    -- * The request line
    requestMethod,
    methodSlice,
    targetSlice,
    targetForm,
    pathSlice,
    querySlice,
    authoritySlice,
    effectiveHost,
    minorVersion,
    headLength,

    -- ** Methods
    MethodCode (..),
    methodName,

    -- ** Forms of a target
    TargetForm (..),

    -- * Headers
    headerCount,
    headerName,
    headerValue,
    headerKnown,
    foldHeaders,
    foldHeaderBytes,

    -- * Known headers

    -- | Recognised while parsing, so that finding one later is a single load.
    KnownHeader (..),
    knownHeaderName,
    knownHeaders,
    knownCount,
    knownIndex,
    knownSlice,
    foldKnown,

    -- * For the parser

    -- | The parser alone writes to a table.
    Field (..),
    readField,
    writeField,
    Phase (..),
    readPhase,
    addHeader,
    removeHeaders,
    shiftHeaders,
  )
where

import Control.Monad (when)
import Control.Monad.ST (RealWorld)
import Data.Bits (unsafeShiftR, (.&.), (.|.))
import Data.ByteString (ByteString)
import Data.ByteString.Internal qualified as B (create)
import Data.Int (Int32)
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
import Foreign.Marshal.Utils (copyBytes)
import Foreign.Ptr (Ptr, plusPtr)
import Heddle.Http.Names (KnownHeader (..), MethodCode (..), knownHeaderName, knownHeaders, knownTotal, methodName)
import Heddle.Http.Scan (equalsIgnoringCase)

-- | The description of one request head; see Note [Layout].
newtype HeadTable = HeadTable (MutableByteArray RealWorld)

-- | A table with room for this many headers, at most 32,767.
--
-- [Cost]: O(capacity); 20 bytes per header, once.
newHeadTable :: Int -> IO HeadTable
newHeadTable wanted = do
  let capacity = max 0 (min 32767 wanted)
  array <- newByteArray (4 * (headersAt + headerWidth * capacity))
  let table = HeadTable array
  startHead table
  pure table

-- | How many headers a table has room for.
--
-- [Cost]: O(1).
headCapacity :: HeadTable -> IO Int
headCapacity (HeadTable array) = do
  size <- getSizeofMutableByteArray array
  pure ((size `unsafeShiftR` 2 - headersAt) `quot` headerWidth)
{-# INLINE headCapacity #-}

-- | Forget what was parsed, ready for the next head.
--
-- [Cost]: O(1): clears about 330 bytes.
startHead :: HeadTable -> IO ()
startHead (HeadTable array) = setByteArray array 0 headersAt (0 :: Int32)

-- | A copy of a table's content.
newtype SavedHead = SavedHead (MutableByteArray RealWorld)

-- | Copy what the parser has put into a table so far.
--
-- [Cost]: about 320 bytes, and 20 per header.
saveHead :: HeadTable -> IO SavedHead
saveHead table@(HeadTable array) = do
  count <- readField table FieldHeaderCount
  let size = 4 * (headersAt + headerWidth * count)
  copy <- newByteArray size
  copyMutableByteArray copy 0 array 0 size
  pure (SavedHead copy)

-- | Put a copy back, into a table of the same capacity.
--
-- [Cost]: a copy.
restoreHead :: HeadTable -> SavedHead -> IO ()
restoreHead (HeadTable array) (SavedHead copy) = getSizeofMutableByteArray copy >>= copyMutableByteArray array 0 copy 0

-- | How much memory 'copyNumbers' fills.
--
-- [Units]: bytes.
numbersSize :: HeadTable -> IO Int
numbersSize table = (\count -> 4 * copiedAt count) <$> readField table FieldHeaderCount
{-# INLINE numbersSize #-}

-- | Copy the numbers that describe the head, those of the headers that it has, to the beginning of an array.
--
-- [Cost]: O(headers).
copyNumbers :: HeadTable -> MutableByteArray RealWorld -> IO ()
copyNumbers table@(HeadTable array) copy = do
  count <- readField table FieldHeaderCount
  copyMutableByteArray copy 0 array 0 (4 * knownAt)
  copyMutableByteArray copy (4 * knownAt) array (4 * headersAt) (4 * headerWidth * count)

-- | Where the numbers of a header begin in 'copyNumbers'.
copiedAt :: Int -> Int
copiedAt i = knownAt + headerWidth * i
{-# INLINE copiedAt #-}

-- | Part of the buffer.
data Slice = Slice
  { -- | From the start of the buffer.
    sliceOffset :: !Int,
    sliceLength :: !Int
  }
  deriving stock (Eq, Show)

-- | The bytes of a slice.
--
-- [Cost]: O(length); a copy.
copySlice :: Ptr Word8 -> Slice -> IO ByteString
copySlice buffer (Slice offset len) =
  B.create len $ \to -> copyBytes to (buffer `plusPtr` offset) len

-- | Whether a slice equals some bytes, letters compared without regard to case.
--
-- [Cost]: O(length); 0 bytes.
sliceEquals :: Ptr Word8 -> Slice -> ByteString -> IO Bool
sliceEquals buffer (Slice offset len) = equalsIgnoringCase buffer offset len
{-# INLINE sliceEquals #-}

-- | How the target of a request is written.
--
-- [Source]: RFC 9112, section 3.2.
data TargetForm
  = -- | @\/path?query@
    OriginForm
  | -- | @http:\/\/authority\/path?query@
    AbsoluteForm
  | -- | @host:port@, of CONNECT alone.
    AuthorityForm
  | -- | @*@, of OPTIONS alone.
    AsteriskForm
  deriving stock (Bounded, Enum, Eq, Show)

-- | A number in the fixed part of a table; see Note [Layout].
data Field
  = FieldPhase
  | FieldLineStart
  | FieldScan
  | FieldMethod
  | FieldMethodOffset
  | FieldMethodLength
  | FieldTargetOffset
  | FieldTargetLength
  | FieldTargetForm
  | FieldPathOffset
  | FieldPathLength
  | FieldAuthorityOffset
  | FieldAuthorityLength
  | FieldMinorVersion
  | FieldHeaderCount
  | FieldHeadLength
  deriving stock (Bounded, Enum, Eq, Show)

-- | What the parser expects at the start of the current line.
data Phase
  = -- | A request line, or one empty line.
    AtStart
  | -- | A request line.
    AfterEmptyLine
  | -- | A header line, or the empty line that ends the head.
    AtHeader
  deriving stock (Bounded, Enum, Eq, Show)

-- | Read a number of the fixed part.
--
-- [Cost]: one load.
readField :: HeadTable -> Field -> IO Int
readField (HeadTable array) field = readInt array (fromEnum field)
{-# INLINE readField #-}

-- | Write a number of the fixed part.
--
-- [Cost]: one store.
writeField :: HeadTable -> Field -> Int -> IO ()
writeField (HeadTable array) field = writeInt array (fromEnum field)
{-# INLINE writeField #-}

-- | Where the parser stands.
--
-- [Cost]: one load.
readPhase :: HeadTable -> IO Phase
readPhase table = do
  phase <- readField table FieldPhase
  pure $! toEnum phase
{-# INLINE readPhase #-}

readSlice :: HeadTable -> Field -> Field -> IO Slice
readSlice table offset len = Slice <$> readField table offset <*> readField table len
{-# INLINE readSlice #-}

-- | The method's code.
--
-- [Cost]: one load.
requestMethod :: HeadTable -> IO MethodCode
requestMethod table = MethodCode <$> readField table FieldMethod
{-# INLINE requestMethod #-}

-- | The method as it was spelt.
--
-- [Cost]: O(1).
methodSlice :: HeadTable -> IO Slice
methodSlice table = readSlice table FieldMethodOffset FieldMethodLength
{-# INLINE methodSlice #-}

-- | The whole target, as it was spelt.
--
-- [Cost]: O(1).
targetSlice :: HeadTable -> IO Slice
targetSlice table = readSlice table FieldTargetOffset FieldTargetLength
{-# INLINE targetSlice #-}

-- | The form of the target.
--
-- [Cost]: O(1).
targetForm :: HeadTable -> IO TargetForm
targetForm table = do
  form <- readField table FieldTargetForm
  pure $! toEnum form
{-# INLINE targetForm #-}

-- | The path: up to the question mark, and with its leading slash. Empty for
-- 'AuthorityForm' and 'AsteriskForm', and for an absolute form that has none,
-- which means the root (or, with OPTIONS and no query, the server).
--
-- [Cost]: O(1).
pathSlice :: HeadTable -> IO Slice
pathSlice table = readSlice table FieldPathOffset FieldPathLength
{-# INLINE pathSlice #-}

-- | The query, from its question mark on; empty when there is none.
--
-- [Cost]: O(1).
querySlice :: HeadTable -> IO Slice
querySlice table = do
  Slice target len <- targetSlice table
  Slice path pathLen <- pathSlice table
  pure (Slice (path + pathLen) (target + len - path - pathLen))
{-# INLINE querySlice #-}

-- | The authority in the target of 'AbsoluteForm' or 'AuthorityForm'; otherwise
-- empty.
--
-- [Cost]: O(1).
authoritySlice :: HeadTable -> IO Slice
authoritySlice table = readSlice table FieldAuthorityOffset FieldAuthorityLength
{-# INLINE authoritySlice #-}

-- | The host, with its port if any, that the request is for: the target's
-- authority, which overrides Host, or else the value of Host; empty if neither.
--
-- [Cost]: O(1).
-- [Source]: RFC 9112, sections 3.2.2 and 3.3.
effectiveHost :: HeadTable -> IO Slice
effectiveHost table = do
  Slice offset len <- authoritySlice table
  if len > 0 then pure (Slice offset len) else knownSlice table HeaderHost
{-# INLINE effectiveHost #-}

-- | 0 for HTTP/1.0, 1 for HTTP/1.1; a later minor version counts as 1.
--
-- [Cost]: one load.
-- [Source]: RFC 9110, section 2.5.
minorVersion :: HeadTable -> IO Int
minorVersion table = readField table FieldMinorVersion
{-# INLINE minorVersion #-}

-- | The bytes of the whole head, its empty line included.
--
-- [Cost]: one load.
headLength :: HeadTable -> IO Int
headLength table = readField table FieldHeadLength
{-# INLINE headLength #-}

-- | How many header lines there are; they are numbered from 0 in their order.
--
-- [Cost]: one load.
headerCount :: HeadTable -> IO Int
headerCount table = readField table FieldHeaderCount
{-# INLINE headerCount #-}

-- | The name of a header, as it was spelt. Precondition: the number is below
-- 'headerCount'.
--
-- [Cost]: O(1).
headerName :: HeadTable -> Int -> IO Slice
headerName (HeadTable array) i = Slice <$> readInt array at <*> readInt array (at + 1)
  where
    at = headersAt + headerWidth * i
{-# INLINE headerName #-}

-- | The value of a header, without white space around it. Precondition: the
-- number is below 'headerCount'.
--
-- [Cost]: O(1).
headerValue :: HeadTable -> Int -> IO Slice
headerValue (HeadTable array) i = Slice <$> readInt array (at + 2) <*> readInt array (at + 3)
  where
    at = headersAt + headerWidth * i
{-# INLINE headerValue #-}

-- | The code of a header's name, if it is well known. Precondition: the number
-- is below 'headerCount'.
--
-- [Cost]: O(1).
headerKnown :: HeadTable -> Int -> IO (Maybe KnownHeader)
headerKnown (HeadTable array) i = do
  code <- readInt array (headersAt + headerWidth * i + 4)
  pure (if code < 0 then Nothing else Just (toEnum code))
{-# INLINE headerKnown #-}

-- | Fold over the names and values, in order.
--
-- [Cost]: O(headers).
foldHeaders :: HeadTable -> (a -> Slice -> Slice -> IO a) -> a -> IO a
foldHeaders table step start = do
  count <- headerCount table
  let go !i acc
        | i >= count = pure acc
        | otherwise = do
          name <- headerName table i
          value <- headerValue table i
          step acc name value >>= go (i + 1)
  go 0 start
{-# INLINE foldHeaders #-}

-- | 'foldHeaders' over a head in this memory, by addresses: the code of a well-known name or -1, and address and length of name
-- and value.
--
-- [Cost]: O(headers).
foldHeaderBytes :: Ptr Word8 -> HeadTable -> (a -> Int -> Ptr Word8 -> Int -> Ptr Word8 -> Int -> IO a) -> a -> IO a
foldHeaderBytes p table step start = do
  count <- headerCount table
  let go !i !acc
        | i >= count = pure acc
        | otherwise = do
          known <- headerKnown table i
          Slice n nameLength <- headerName table i
          Slice v valueLength <- headerValue table i
          step acc (maybe (-1) fromEnum known) (p `plusPtr` n) nameLength (p `plusPtr` v) valueLength >>= go (i + 1)
  go 0 start
{-# INLINE foldHeaderBytes #-}

-- | How many header lines have this name.
--
-- [Cost]: one load.
knownCount :: HeadTable -> KnownHeader -> IO Int
knownCount (HeadTable array) known = do
  packed <- readInt array (knownAt + fromEnum known)
  pure (packed `unsafeShiftR` 16)
{-# INLINE knownCount #-}

-- | The number of the first header line with this name, or -1.
--
-- [Cost]: one load.
knownIndex :: HeadTable -> KnownHeader -> IO Int
knownIndex (HeadTable array) known = do
  packed <- readInt array (knownAt + fromEnum known)
  pure $! (if packed == 0 then -1 else packed .&. 0xFFFF)
{-# INLINE knownIndex #-}

-- | The value of the first header line with this name; an empty slice at 0 when
-- there is none.
--
-- [Cost]: O(1); 0 bytes.
knownSlice :: HeadTable -> KnownHeader -> IO Slice
knownSlice table known = do
  i <- knownIndex table known
  if i < 0 then pure (Slice 0 0) else headerValue table i
{-# INLINE knownSlice #-}

-- | Fold over the values of every header line with this name, in order.
--
-- [Cost]: O(1) when there is at most one, otherwise O(headers).
foldKnown :: HeadTable -> KnownHeader -> (a -> Slice -> IO a) -> a -> IO a
foldKnown table@(HeadTable array) known step start = do
  first <- knownIndex table known
  total <- knownCount table known
  let go !i !left acc
        | left <= (0 :: Int) = pure acc
        | otherwise = do
          this <- readInt array (headersAt + headerWidth * i + 4)
          if this == fromEnum known
            then headerValue table i >>= step acc >>= go (i + 1) (left - 1)
            else go (i + 1) left acc
  go first total start
{-# INLINE foldKnown #-}

-- | Append a header: its number, the slices of its name and value, and its code
-- or -1. Precondition: the number is below 'headCapacity'.
--
-- [Cost]: O(1).
addHeader :: HeadTable -> Int -> Int -> Int -> Int -> Int -> Int -> IO ()
addHeader (HeadTable array) i nameOffset nameLen valueOffset valueLen code = do
  let at = headersAt + headerWidth * i
  writeInt array at nameOffset
  writeInt array (at + 1) nameLen
  writeInt array (at + 2) valueOffset
  writeInt array (at + 3) valueLen
  writeInt array (at + 4) code
  when (code >= 0) $ do
    packed <- readInt array (knownAt + code)
    writeInt array (knownAt + code) (if packed == 0 then 0x10000 .|. i else packed + 0x10000)
{-# INLINE addHeader #-}

-- | Take all headers of a name, in any case, out of the table.
--
-- [Cost]: O(headers).
removeHeaders :: Ptr Word8 -> HeadTable -> ByteString -> IO ()
removeHeaders buffer table@(HeadTable array) name = do
  count <- headerCount table
  let named i = headerName table i >>= \spelt -> sliceEquals buffer spelt name
      find i
        | i >= count = pure ()
        | otherwise = named i >>= \same -> if same then setByteArray array knownAt knownTotal (0 :: Int32) >> compact 0 0 else find (i + 1)
      -- The index of known headers is made again as they move.
      compact i to
        | i >= count = writeField table FieldHeaderCount to
        | otherwise = do
          same <- named i
          if same
            then compact (i + 1) to
            else do
              Slice n nameLen <- headerName table i
              Slice v valueLen <- headerValue table i
              code <- readInt array (headersAt + headerWidth * i + 4)
              addHeader table to n nameLen v valueLen code
              compact (i + 1) (to + 1)
  find 0
{-# NOINLINE removeHeaders #-}

-- | Move the headers that stand at or behind an offset by this much: the buffer's part before it has moved, and they have not.
--
-- [Cost]: O(headers).
shiftHeaders :: HeadTable -> Int -> Int -> IO ()
shiftHeaders table@(HeadTable array) from by = do
  count <- headerCount table
  let shift at = readInt array at >>= \offset -> when (offset >= from) (writeInt array at (offset + by))
      go i = when (i < count) $ do
        shift (headersAt + headerWidth * i)
        shift (headersAt + headerWidth * i + 2)
        go (i + 1)
  go (0 :: Int)
{-# NOINLINE shiftHeaders #-}

-- | The first number of the index of known headers, and of the headers.
knownAt, headersAt, headerWidth :: Int
knownAt = 16
headersAt = knownAt + knownTotal
headerWidth = 5

readInt :: MutableByteArray RealWorld -> Int -> IO Int
readInt array i = do
  n <- readByteArray array i
  pure (fromIntegral (n :: Int32))
{-# INLINE readInt #-}

writeInt :: MutableByteArray RealWorld -> Int -> Int -> IO ()
writeInt array i n = writeByteArray array i (fromIntegral n :: Int32)
{-# INLINE writeInt #-}

-- Note [Layout]
-- ~~~~~~~~~~~~~
-- A table is an array of 32-bit numbers: the 'Field's; one number per known
-- header, its repetitions in the upper half and the index of the first in the
-- lower, 0 when absent; then five per header: offset and length of its name,
-- offset and length of its value, its code or -1. 'startHead' clears all but the
-- headers. The capacity of a table is below 32,768, so neither half overflows.
