{-# LANGUAGE MagicHash #-}
{-# LANGUAGE UnboxedTuples #-}

-- |
-- Module      : Heddle.Http.Scan
-- Description : Byte classes and word-at-a-time scans
-- Stability   : internal, exempt from the version policy
--
-- The loops below the parsers. Each scan takes a buffer, a first index and the
-- index after the last byte, and answers the index of the first byte it stops
-- at, or that end. None reads outside these bounds.
--
-- Everything here runs on any thread, never blocks, throws nothing and
-- allocates nothing.
module Heddle.Http.Scan
  ( -- * Bytes
    byteAt,
    word64At,

    -- * Classes
    isTokenByte,
    isHostByte,
    isPathByte,
    isHexByte,
    isDigitByte,
    isFieldByte,
    isBlank,
    hexValue,
    lowerByte,

    -- * Scans
    nameEnd,
    valueEnd,
    controlEnd,
    visibleEnd,
    targetEnd,
    tokenEnd,
    blankEnd,
    trimEnd,
    findByte,

    -- * Comparison
    equalsIgnoringCase,

    -- * Results without a box
    Unboxed,
    unboxed,
    boxed,
  )
where

{- HLINT ignore "Avoid restricted module" -}
-- No operation is used: only the types that Note [Unboxed results] needs.

import Data.Bits (complement, countTrailingZeros, unsafeShiftR, xor, (.&.), (.|.))
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Internal (memchr)
import Data.ByteString.Unsafe qualified as B (unsafeIndex)
import Data.Word (Word64, Word8)
import Foreign.Ptr (Ptr, castPtr, minusPtr, nullPtr, plusPtr)
import Foreign.Storable (peek, peekByteOff)
import GHC.ByteOrder (ByteOrder (BigEndian, LittleEndian), targetByteOrder)
import GHC.Exts (Int (I#), Int#, RealWorld, State#)
import GHC.IO (IO (IO))
import GHC.Word (byteSwap64)

-- | The byte at an index.
--
-- [Cost]: one load.
byteAt :: Ptr Word8 -> Int -> IO Word8
byteAt = peekByteOff
{-# INLINE byteAt #-}

-- | Eight bytes from an index, the first one lowest, whatever the machine's
-- order.
--
-- [Cost]: one load, at any alignment.
word64At :: Ptr Word8 -> Int -> IO Word64
word64At buffer i = case targetByteOrder of
  LittleEndian -> raw
  BigEndian -> byteSwap64 <$> raw
  where
    raw = peek (castPtr (buffer `plusPtr` i))
{-# INLINE word64At #-}

-- | Membership in a set of ASCII bytes, given as two bit maps.
member :: Word64 -> Word64 -> Word8 -> Bool
member low high byte
  | byte < 64 = bit low byte
  | byte < 128 = bit high (byte - 64)
  | otherwise = False
  where
    bit set i = (set `unsafeShiftR` fromIntegral i) .&. 1 /= 0
{-# INLINE member #-}

-- | A byte of a token: a letter, a digit, or one of @!#$%&'*+-.^_`|~@.
--
-- [Cost]: O(1).
-- [Source]: RFC 9110, section 5.6.2.
isTokenByte :: Word8 -> Bool
isTokenByte = member 0x03ff6cfa00000000 0x57ffffffc7fffffe
{-# INLINE isTokenByte #-}

-- | A byte of a registered name that stands for itself: unreserved, or a
-- sub-delimiter.
--
-- [Cost]: O(1).
-- [Source]: RFC 3986, section 3.2.2.
isHostByte :: Word8 -> Bool
isHostByte = member 0x2bff7fd200000000 0x47fffffe87fffffe
{-# INLINE isHostByte #-}

-- | A byte of a path that stands for itself: unreserved, a sub-delimiter, @:@,
-- @\@@ or the slash.
--
-- [Cost]: O(1).
-- [Source]: RFC 3986, section 3.3.
isPathByte :: Word8 -> Bool
isPathByte = member 0x2fffffd200000000 0x47fffffe87ffffff
{-# INLINE isPathByte #-}

-- | A hexadecimal digit, in either case.
--
-- [Cost]: O(1).
isHexByte :: Word8 -> Bool
isHexByte = member 0x03ff000000000000 0x0000007e0000007e
{-# INLINE isHexByte #-}

-- | A decimal digit.
--
-- [Cost]: O(1).
isDigitByte :: Word8 -> Bool
isDigitByte byte = byte - 0x30 < 10
{-# INLINE isDigitByte #-}

-- | A byte of a field value: HTAB, space, visible ASCII or 0x80 and above.
--
-- [Cost]: O(1).
-- [Source]: RFC 9110, section 5.5.
isFieldByte :: Word8 -> Bool
isFieldByte byte = (byte >= 0x20 && byte /= 0x7F) || byte == 0x09
{-# INLINE isFieldByte #-}

-- | Optional white space: space or HTAB.
--
-- [Cost]: O(1).
-- [Source]: RFC 9110, section 5.6.3.
isBlank :: Word8 -> Bool
isBlank byte = byte == 0x20 || byte == 0x09
{-# INLINE isBlank #-}

-- | The value of a hexadecimal digit; meaningless for another byte.
--
-- [Cost]: O(1).
hexValue :: Word8 -> Int
hexValue byte
  | byte < 0x3A = fromIntegral byte - 0x30
  | otherwise = fromIntegral (byte .|. 0x20) - 0x57
{-# INLINE hexValue #-}

-- | The lower case of an ASCII letter; any other byte unchanged.
--
-- [Cost]: O(1).
lowerByte :: Word8 -> Word8
lowerByte byte
  | byte - 0x41 < 26 = byte + 0x20
  | otherwise = byte
{-# INLINE lowerByte #-}

-- | Stop at the first byte that could end a field name: a colon, a space or a
-- control character.
--
-- [Cost]: O(1) per eight bytes.
nameEnd :: Ptr Word8 -> Int -> Int -> IO Int
nameEnd buffer from end = boxed (nameEnd# buffer from end)
{-# INLINE nameEnd #-}

nameEnd# :: Ptr Word8 -> Int -> Int -> Unboxed
nameEnd# !buffer !from !end =
  unboxed (scan (\w -> below 0x21 w .|. equal 0x3A w) (\b -> b < 0x21 || b == 0x3A) buffer from end)
{-# NOINLINE nameEnd# #-}

-- | Stop at the first byte that no field value has; see 'isFieldByte'.
--
-- [Cost]: O(1) per eight bytes.
valueEnd :: Ptr Word8 -> Int -> Int -> IO Int
valueEnd buffer from end = boxed (valueEnd# buffer from end)
{-# INLINE valueEnd #-}

valueEnd# :: Ptr Word8 -> Int -> Int -> Unboxed
valueEnd# !buffer !from !end = unboxed (go from)
  where
    go !start = do
      i <- controlEnd buffer start end
      if i >= end
        then pure i
        else do
          byte <- byteAt buffer i
          if byte == 0x09 then go (i + 1) else pure i
{-# NOINLINE valueEnd# #-}

-- | Stop at the first control character.
--
-- [Cost]: O(1) per eight bytes.
controlEnd :: Ptr Word8 -> Int -> Int -> IO Int
controlEnd buffer from end = boxed (controlEnd# buffer from end)
{-# INLINE controlEnd #-}

controlEnd# :: Ptr Word8 -> Int -> Int -> Unboxed
controlEnd# !buffer !from !end =
  unboxed (scan (\w -> below 0x20 w .|. equal 0x7F w) (\b -> b < 0x20 || b == 0x7F) buffer from end)
{-# NOINLINE controlEnd# #-}

-- | Stop at the first byte that is not visible ASCII.
--
-- [Cost]: O(1) per eight bytes.
visibleEnd :: Ptr Word8 -> Int -> Int -> IO Int
visibleEnd buffer from end = boxed (visibleEnd# buffer from end)
{-# INLINE visibleEnd #-}

visibleEnd# :: Ptr Word8 -> Int -> Int -> Unboxed
visibleEnd# !buffer !from !end =
  unboxed (scan (\w -> below 0x21 w .|. equal 0x7F w .|. (w .&. highs)) (\b -> b < 0x21 || b >= 0x7F) buffer from end)
{-# NOINLINE visibleEnd# #-}

-- | Stop at the first blank or control character: the end of a target, which may have bytes beyond ASCII.
--
-- [Cost]: O(1) per eight bytes.
targetEnd :: Ptr Word8 -> Int -> Int -> IO Int
targetEnd buffer from end = boxed (targetEnd# buffer from end)
{-# INLINE targetEnd #-}

targetEnd# :: Ptr Word8 -> Int -> Int -> Unboxed
targetEnd# !buffer !from !end =
  unboxed (scan (\w -> below 0x21 w .|. equal 0x7F w) (\b -> b < 0x21 || b == 0x7F) buffer from end)
{-# NOINLINE targetEnd# #-}

-- | Stop at the first byte that is not part of a token.
--
-- [Cost]: O(1) per byte; per eight bytes, where all of them are letters and hyphens.
tokenEnd :: Ptr Word8 -> Int -> Int -> IO Int
tokenEnd buffer from end = boxed (tokenEnd# buffer from end)
{-# INLINE tokenEnd #-}

tokenEnd# :: Ptr Word8 -> Int -> Int -> Unboxed
tokenEnd# !buffer !from !end = unboxed (go from)
  where
    go !i
      | i + 8 <= end = do
        w <- word64At buffer i
        if lettersOnly w then go (i + 8) else boxed (tokenBytes# buffer i end)
      | i < end && end - 8 >= from = do
        w <- word64At buffer (end - 8)
        if lettersOnly w then pure end else boxed (tokenBytes# buffer i end)
      | otherwise = boxed (tokenBytes# buffer i end)
{-# NOINLINE tokenEnd# #-}

-- The same byte by byte.
tokenBytes# :: Ptr Word8 -> Int -> Int -> Unboxed
tokenBytes# !buffer !from !end = unboxed (go from)
  where
    go !i
      | i >= end = pure i
      | otherwise = do
        byte <- byteAt buffer i
        if isTokenByte byte then go (i + 1) else pure i
{-# NOINLINE tokenBytes# #-}

-- | Stop at the first byte that is neither space nor HTAB.
--
-- [Cost]: O(1) per byte.
blankEnd :: Ptr Word8 -> Int -> Int -> IO Int
blankEnd buffer from end = boxed (blankEnd# buffer from end)
{-# INLINE blankEnd #-}

blankEnd# :: Ptr Word8 -> Int -> Int -> Unboxed
blankEnd# !buffer !from !end = unboxed (go from)
  where
    go !i
      | i >= end = pure i
      | otherwise = do
        byte <- byteAt buffer i
        if isBlank byte then go (i + 1) else pure i
{-# NOINLINE blankEnd# #-}

-- | The end of what remains when trailing spaces and HTABs are left out.
--
-- [Cost]: O(1) per byte left out.
trimEnd :: Ptr Word8 -> Int -> Int -> IO Int
trimEnd buffer from end = boxed (trimEnd# buffer from end)
{-# INLINE trimEnd #-}

trimEnd# :: Ptr Word8 -> Int -> Int -> Unboxed
trimEnd# !buffer !from !end = unboxed (go end)
  where
    go !i
      | i <= from = pure from
      | otherwise = do
        byte <- byteAt buffer (i - 1)
        if isBlank byte then go (i - 1) else pure i
{-# NOINLINE trimEnd# #-}

-- | Stop at the first byte equal to a given one.
--
-- [Cost]: that of @memchr@.
findByte :: Word8 -> Ptr Word8 -> Int -> Int -> IO Int
findByte !byte !buffer !from !end
  | from >= end = pure end
  | otherwise = do
    found <- memchr (buffer `plusPtr` from) byte (fromIntegral (end - from))
    pure (if found == nullPtr then end else found `minusPtr` buffer)
{-# INLINE findByte #-}

-- | Whether a slice of a buffer equals some bytes, ASCII letters compared
-- without regard to case.
--
-- [Cost]: O(length).
equalsIgnoringCase :: Ptr Word8 -> Int -> Int -> ByteString -> IO Bool
equalsIgnoringCase !buffer !from !len expected
  | len /= B.length expected = pure False
  | otherwise = go 0
  where
    go !i
      | i >= len = pure True
      | otherwise = do
        byte <- byteAt buffer (from + i)
        if lowerByte byte == lowerByte (B.unsafeIndex expected i)
          then go (i + 1)
          else pure False

-- | The common loop: eight bytes at a time, of which the last ones may have been seen before; fewer than eight one by one.
scan :: (Word64 -> Word64) -> (Word8 -> Bool) -> Ptr Word8 -> Int -> Int -> IO Int
scan marks stops !buffer !from !end = wide from
  where
    wide !i
      | i + 8 <= end = do
        w <- word64At buffer i
        case marks w of
          0 -> wide (i + 8)
          m -> pure (i + (countTrailingZeros m `unsafeShiftR` 3))
      | i < end && end - 8 >= from = do
        w <- word64At buffer (end - 8)
        case marks w of
          0 -> pure end
          m -> pure (end - 8 + (countTrailingZeros m `unsafeShiftR` 3))
      | otherwise = narrow i
    narrow !i
      | i >= end = pure i
      | otherwise = do
        byte <- byteAt buffer i
        if stops byte then pure i else narrow (i + 1)
{-# INLINE scan #-}

-- | Mark the bytes of a word that are below a bound; see Note [Marks].
below :: Word64 -> Word64 -> Word64
below bound w = (w - bound * ones) .&. complement w .&. highs
{-# INLINE below #-}

-- | Whether all bytes of a word are ASCII letters and hyphens.
lettersOnly :: Word64 -> Bool
lettersOnly w = w .&. highs == 0 && ((letters .|. hyphens) .&. highs) == highs
  where
    -- Without high bits, no addition carries into the next byte.
    folded = w .|. 0x20 * ones
    letters = (folded + (0x80 - 0x61) * ones) .&. complement (folded + (0x80 - 0x7B) * ones)
    hyphens = complement ((w `xor` (0x2D * ones)) + 0x7F * ones)
{-# INLINE lettersOnly #-}

-- | Mark the bytes of a word that equal a byte; see Note [Marks].
equal :: Word64 -> Word64 -> Word64
equal byte w = below 1 (w `xor` (byte * ones))
{-# INLINE equal #-}

ones, highs :: Word64
ones = 0x0101010101010101
highs = 0x8080808080808080

-- | An action whose result is a number in a register; see Note [Unboxed results].
type Unboxed = State# RealWorld -> (# State# RealWorld, Int# #)

-- | Take the number out of its box, as the last step of a function that is not
-- inlined.
--
-- [Cost]: none.
unboxed :: IO Int -> Unboxed
unboxed (IO action) s = case action s of (# after, I# n #) -> (# after, n #)
{-# INLINE unboxed #-}

-- | Put the number in a box, which disappears when this is inlined into its caller.
--
-- [Cost]: none.
boxed :: Unboxed -> IO Int
boxed action = IO (\s -> case action s of (# after, n #) -> (# after, I# n #))
{-# INLINE boxed #-}

-- Note [Unboxed results]
-- ~~~~~~~~~~~~~~~~~~~~~~
-- GHC 9.0 returns the result of an 'IO' function in a box of 16 bytes: it finds
-- that a pure function constructs its result, but does not look inside the pair
-- that an 'IO' function returns. The scans therefore come in two halves: a loop
-- that returns a bare number, and a wrapper, inlined into its caller, whose box
-- disappears there.

-- Note [Marks]
-- ~~~~~~~~~~~~
-- A mark is the high bit of a byte. The subtraction in 'below' borrows only out
-- of a byte that is itself below the bound, so marks below and at the first true
-- one are exact, and only those above it may be wrong. Taking the lowest set bit
-- of several marks joined by "or" is therefore exact too.
