{-# LANGUAGE GeneralizedNewtypeDeriving #-}

-- |
-- Module      : Heddle.Bytes.Internal.Utf8
-- Description : Validated text, and the kernels over texts of any length
-- Stability   : internal; exempt from the version policy
--
-- Calls the kernels of "Heddle.Bytes.Internal.Foreign.Utf8" and "Heddle.Bytes.Internal.TextUnits" a slice at a time, at this machine's level, and
-- defines the types of their results.
--
-- Invariant: the bytes of a 'Utf8' are well-formed UTF-8 (RFC 3629).
-- Cost: the kernels', and a call for each 32 KiB.
-- Owner: a 'Utf8' keeps the memory alive of which it is a slice.
module Heddle.Bytes.Internal.Utf8
  ( -- * Types
    Utf8 (..),
    Invalid (..),

    -- * Memory
    withBytes,
    validPrefix,
    Measured (..),
    validUnits,
    characters,
    units,
    fillUnits,
    newText,
    measureReplaced,
    fillReplaced,
    textOfPtr,
    utf8OfText,
    placeOf,

    -- * A slice of a text
    byteCountBetween,
    pokeBytesBetween,
  )
where

import Control.Monad (void)
import Control.Monad.Primitive (RealWorld)
import Data.ByteString (ByteString)
import Data.ByteString qualified as ByteString
import Data.ByteString.Internal qualified as ByteString (create, createUptoN', toForeignPtr)
import Data.Primitive.ByteArray (ByteArray, MutableByteArray, newByteArray, unsafeFreezeByteArray)
import Data.String (IsString (..))
import Data.Text (Text)
import Data.Text qualified as Text
import Data.Word (Word8)
import Foreign.ForeignPtr (touchForeignPtr)
import Foreign.Marshal.Utils (copyBytes)
import Foreign.Ptr (Ptr, plusPtr)
import Foreign.Storable (peekByteOff)
import Heddle.Bytes.Internal.Foreign.Utf8 (characterCount, sliceSize, validLength)
import Heddle.Bytes.Internal.TextUnits
import Heddle.Bytes.TextArray (textArray, unitSize, unsafeText)
import Heddle.Bytes.Utf8.Plain (Replaced (..))
import Heddle.Prim.Buffer (foreignAddress)
import Heddle.Prim.Cpu (level)
import Heddle.Prim.Exception (Exception (..))
import Heddle.Prim.Literal (literal)
import Heddle.Prim.Unsafe (unsafeDupable)

-- | Valid text in UTF-8: a slice of the bytes that were validated.
--
-- Texts are ordered by their code points. A literal costs its own bytes; a surrogate in it is U+FFFD.
newtype Utf8 = Utf8 ByteString
  deriving newtype (Eq, Ord)

instance Semigroup Utf8 where
  Utf8 a <> Utf8 b = Utf8 (a <> b)

instance Monoid Utf8 where
  mempty = Utf8 ByteString.empty
  mconcat texts = Utf8 (ByteString.concat [b | Utf8 b <- texts])

-- | Shows the text.
instance Show Utf8 where
  showsPrec d text = showsPrec d (textOf text)

-- | Costs a literal its bytes and a call.
instance IsString Utf8 where
  fromString text = Utf8 (literal text)
  {-# INLINE fromString #-}

-- | The place where a text stops being UTF-8.
data Invalid = Invalid
  { -- | Bytes before the ill-formed ones, over all chunks.
    offset :: !Int,
    -- | How many bytes are ill-formed: the longest prefix of a character, or one byte that begins
    -- none. One U+FFFD replaces them (a maximal subpart).
    subpart :: !Int
  }
  deriving stock (Eq, Ord, Show)

instance Exception Invalid where
  displayException (Invalid at n) =
    "invalid UTF-8 at byte " <> show at <> " (" <> show n <> (if n == 1 then " byte" else " bytes") <> ")"

-- | Call the action with the bytes' address and length. The action must end.
--
-- [Cost]: O(1).
withBytes :: ByteString -> (Ptr Word8 -> Int -> IO a) -> IO a
withBytes text use = case ByteString.toForeignPtr text of
  (memory, start, n) -> do
    result <- use (foreignAddress memory `plusPtr` start) n
    touchForeignPtr memory
    pure result
{-# INLINE withBytes #-}

-- | The length of the longest prefix of valid, whole characters.
--
-- [Cost]: O(n), by the machine's vectors; 0 bytes.
-- [Units]: bytes.
validPrefix :: Ptr Word8 -> Int -> IO Int
validPrefix p n = go 0
  where
    go at
      | at == n = pure at
      | otherwise = do
        (next, more) <- slicePrefix p at n
        if more then go next else pure next

-- | A number of valid bytes, and the number of units that they become in a text.
data Measured = Measured !Int !Int

-- | As 'validPrefix', with the number of units that the prefix becomes in a text.
--
-- [Cost]: O(n), by the machine's vectors.
-- [Units]: bytes, and units.
validUnits :: Ptr Word8 -> Int -> IO Measured
validUnits p n = go 0 0
  where
    go !at !total
      | at == n = pure (Measured at total)
      | otherwise = do
        (next, more) <- slicePrefix p at n
        count <- unitCount level (p `plusPtr` at) (next - at)
        if more then go next (total + count) else pure (Measured next (total + count))

-- The end of the valid prefix of a slice that begins here, and whether a longer slice might extend it.
slicePrefix :: Ptr Word8 -> Int -> Int -> IO (Int, Bool)
slicePrefix p at n = do
  end <- cut p at n
  next <- (at +) <$> validLength level (p `plusPtr` at) (end - at)
  -- In invalid text, 'cut' can end a slice within what might be a character: check from there again.
  pure (next, end < n && next > at && end - next < 4)
{-# INLINE slicePrefix #-}

-- The end of the slice that begins here, which in valid text is not within a character.
cut :: Ptr Word8 -> Int -> Int -> IO Int
cut p at n
  | n - at <= sliceSize = pure n
  | otherwise = back (at + sliceSize) (3 :: Int)
  where
    back end 0 = pure end
    back end most = do
      b <- peekByteOff p end :: IO Word8
      if b >= 0x80 && b < 0xc0 then back (end - 1) (most - 1) else pure end

-- | The number of characters of valid text of this many bytes.
--
-- [Cost]: O(n), by the machine's vectors.
characters :: Ptr Word8 -> Int -> IO Int
characters = bySlices (characterCount level)
{-# INLINE characters #-}

-- | The number of units of valid text of this many bytes.
--
-- [Cost]: O(n), by the machine's vectors.
units :: Ptr Word8 -> Int -> IO Int
units = bySlices (unitCount level)
{-# INLINE units #-}

bySlices :: (Ptr Word8 -> Int -> IO Int) -> Ptr Word8 -> Int -> IO Int
bySlices count p n = go 0 0
  where
    go at !total
      | at >= n = pure total
      | otherwise = do
        some <- count (p `plusPtr` at) (min sliceSize (n - at))
        go (at + sliceSize) (total + some)
{-# INLINE bySlices #-}

-- | Write valid text of this many bytes into the array of a text between two offsets; returns where it ended.
--
-- [Cost]: O(n), by the machine's vectors.
-- [Units]: places count units.
fillUnits :: Ptr Word8 -> Int -> MutableByteArray RealWorld -> Int -> Int -> IO Int
fillUnits p n array start end = go 0 start
  where
    go from at
      | from >= n = pure at
      | otherwise = do
        to <- cut p from n
        next <- pokeUnits level (p `plusPtr` from) (to - from) array at end
        go to next

-- | A text of this many units, which the action fills.
--
-- [Cost]: the units.
-- [Units]: units.
newText :: Int -> (MutableByteArray RealWorld -> IO ()) -> IO Text
newText n fill
  | n == 0 = pure Text.empty
  | otherwise = do
    array <- newByteArray (unitSize * n)
    fill array
    frozen <- unsafeFreezeByteArray array
    pure (unsafeText frozen 0 n)
{-# INLINE newText #-}

-- | Run a replacing kernel over a text, slice by slice. The kernel gets the address, the number of bytes,
-- and what was written before. Returns where it ended, before a character that the end cuts off, and the
-- sum of its results.
--
-- [Cost]: the kernel's.
measureReplaced :: (Ptr Word8 -> Int -> Int -> IO Replaced) -> Ptr Word8 -> Int -> Int -> IO Measured
measureReplaced kernel p n = go 0
  where
    go at made
      | at >= n = pure (Measured at made)
      | otherwise = do
        let size = min sliceSize (n - at)
        Replaced got some <- kernel (p `plusPtr` at) size made
        -- If the slice ends within a character, the next slice begins with that character.
        if at + size == n then pure (Measured (at + got) (made + some)) else go (at + got) (made + some)
{-# INLINE measureReplaced #-}

-- | Write text that may be ill-formed, with U+FFFD, into the array of a text between two offsets; returns where reading
-- and writing ended.
--
-- [Cost]: O(n).
-- [Units]: places count units.
fillReplaced :: Ptr Word8 -> Int -> MutableByteArray RealWorld -> Int -> Int -> IO Measured
fillReplaced p n array start end = measureReplaced (\from size at -> pokeReplacedUnits level from size array at end) p n start

-- | Text from valid text.
--
-- [Cost]: O(n): its units are counted and written.
textOfPtr :: Ptr Word8 -> Int -> IO Text
textOfPtr p n = do
  count <- units p n
  newText count (\array -> void (fillUnits p n array 0 count))

textOf :: Utf8 -> Text
textOf (Utf8 text) = unsafeDupable (withBytes text textOfPtr)

-- | The bytes of a text in UTF-8.
--
-- [Cost]: O(n). An ASCII prefix is written in one pass; the rest is counted and then written.
utf8OfText :: Text -> IO ByteString
utf8OfText text = case textArray text of
  (array, start, len) -> do
    let glance = min 64 len
    first <- byteCount level array start (start + glance)
    if glance == len
      then ByteString.create first (\p -> void (pokeBytes level array start (start + len) p first))
      else
        if first > glance
          then encoded array start (start + len) ByteString.empty
          else do
            -- The whole text may be ASCII.
            (ascii, place) <- ByteString.createUptoN' len (asciiOf array start (start + len))
            if place == start + len then pure ascii else encoded array place (start + len) ascii

-- Write the ASCII prefix; returns its length and where it ended.
asciiOf :: ByteArray -> Int -> Int -> Ptr Word8 -> IO (Int, Int)
asciiOf array start end p = go start
  where
    go at
      | at >= end = pure (at - start, at)
      | otherwise = do
        let next = min end (at + sliceSize)
        n <- pokeAscii level array at next (p `plusPtr` (at - start))
        if at + n == next then go next else pure (at + n - start, at + n)

-- These bytes followed by those of the units.
encoded :: ByteArray -> Int -> Int -> ByteString -> IO ByteString
encoded array start end before = do
  size <- count start 0
  ByteString.create (ByteString.length before + size) $ \p -> do
    withBytes before (copyBytes p)
    fill start (p `plusPtr` ByteString.length before) size
  where
    count at !total
      | at >= end = pure total
      | otherwise = do
        n <- byteCountBetween array at (slice at)
        count (slice at) (total + n)
    fill at p room
      | at >= end = pure ()
      | otherwise = do
        n <- pokeBytesBetween array at (slice at) p room
        fill (slice at) (p `plusPtr` n) (room - n)
    slice at = wholeSlice sliceSize array at end

-- | The number of UTF-8 bytes of a text between two offsets.
--
-- [Cost]: O(n), by the machine's vectors.
-- [Units]: places count units.
byteCountBetween :: ByteArray -> Int -> Int -> IO Int
byteCountBetween = byteCount level
{-# INLINE byteCountBetween #-}

-- | Write a text between two offsets as at most this many bytes; returns their number.
--
-- [Cost]: O(n), by the machine's vectors.
-- [Units]: places count units.
pokeBytesBetween :: ByteArray -> Int -> Int -> Ptr Word8 -> Int -> IO Int
pokeBytesBetween = pokeBytes level
{-# INLINE pokeBytesBetween #-}

-- | The length in bytes of this many first characters of valid text.
--
-- [Cost]: O(n), by the machine's vectors.
-- [Units]: bytes.
placeOf :: Int -> Ptr Word8 -> Int -> IO Int
placeOf wanted p n = pieces wanted 0
  where
    -- Skip whole pieces while they have too few characters.
    pieces left at
      | left <= 0 = pure at
      | at >= n = pure n
      | otherwise = do
        let size = min pieceSize (n - at)
        here <- characterCount level (p `plusPtr` at) size
        if here < left then pieces (left - here) (at + size) else within left at size
    -- The place is in this piece: halve it down to 32 bytes, and scan those.
    within left at size
      | size <= 32 = scan left at
      | otherwise = do
        let half = size `quot` 2
        here <- characterCount level (p `plusPtr` at) half
        if here < left then within (left - here) (at + half) (size - half) else within left at half
    scan :: Int -> Int -> IO Int
    scan left at
      | at >= n = pure n
      | otherwise = do
        b <- peekByteOff p at :: IO Word8
        if b >= 0x80 && b < 0xc0
          then scan left (at + 1)
          else if left == 0 then pure at else scan (left - 1) (at + 1)
    pieceSize = 4096
