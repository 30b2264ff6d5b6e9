-- |
-- Module      : Heddle.Bytes.Utf8.Plain
-- Description : The UTF-8 kernels in Haskell
-- Stability   : internal; exempt from the version policy
--
-- The functions of "Heddle.Bytes.Internal.Foreign.Utf8" in Haskell, a character at a time. Tests compare the
-- kernels with them.
--
-- Cost: 1 to 3 ns a character; 0 bytes.
-- Owner: the memory is the caller's, and only while the call lasts.
module Heddle.Bytes.Utf8.Plain
  ( -- * Single characters
    Sequence (..),
    sequenceOf,
    surrogatePair,

    -- * Kernels
    validLength,
    characterCount,
    unitCount,
    pokeUnits,
    byteCount,
    pokeAscii,
    pokeBytes,

    -- * With replacement
    Replaced (..),
    replacedUnits,
    pokeReplacedUnits,
    replacedBytes,
    pokeReplacedBytes,
  )
where

import Control.Monad.Primitive (RealWorld)
import Data.Bits (unsafeShiftL, unsafeShiftR, (.&.), (.|.))
import Data.Primitive.ByteArray (ByteArray, MutableByteArray, indexByteArray, writeByteArray)
import Data.Word (Word16, Word8)
import Foreign.Ptr (Ptr, plusPtr)
import Foreign.Storable (peekByteOff, pokeByteOff)

-- | The sequence at an offset of a text.
data Sequence
  = -- | A character of this many bytes.
    Complete !Int
  | -- | The beginning of a character that the end of the text cuts off.
    CutOff
  | -- | The beginning of a character followed by a wrong byte, or a byte that begins no character: this
    -- many bytes, which one U+FFFD replaces (a maximal subpart).
    IllFormed !Int
  deriving stock (Eq, Show)

-- | The sequence at the beginning of a text of this many bytes, at least one; the function gives the bytes.
--
-- [Cost]: at most four bytes are read.
-- [Source]: RFC 3629, section 4; the Unicode Standard, section 3.9, tables 3-7 and 3-8.
sequenceOf :: Monad m => Int -> (Int -> m Word8) -> m Sequence
sequenceOf n byte = byte 0 >>= first
  where
    first lead
      | lead < 0x80 = pure (Complete 1)
      | lead < 0xc2 = pure (IllFormed 1)
      | lead < 0xe0 = next 1 2 0x80 0xbf
      | lead < 0xf0 = next 1 3 (if lead == 0xe0 then 0xa0 else 0x80) (if lead == 0xed then 0x9f else 0xbf)
      | lead < 0xf5 = next 1 4 (if lead == 0xf0 then 0x90 else 0x80) (if lead == 0xf4 then 0x8f else 0xbf)
      | otherwise = pure (IllFormed 1)
    next i width least most
      | i == width = pure (Complete width)
      | i >= n = pure CutOff
      | otherwise = do
        b <- byte i
        if b >= least && b <= most then next (i + 1) width 0x80 0xbf else pure (IllFormed i)
{-# INLINE sequenceOf #-}

-- | The two units of a character from U+10000 on.
--
-- [Cost]: a few instructions.
surrogatePair :: Int -> (Word16, Word16)
surrogatePair c = (fromIntegral (0xd7c0 + c `unsafeShiftR` 10), fromIntegral (0xdc00 .|. c .&. 0x3ff))
{-# INLINE surrogatePair #-}

-- | The length of the longest prefix of well-formed, whole characters.
--
-- [Cost]: O(n).
-- [Units]: bytes.
validLength :: Ptr Word8 -> Int -> IO Int
validLength p n = go 0
  where
    go at
      | at >= n = pure at
      | otherwise =
        sequenceOf (n - at) (\i -> peekByteOff p (at + i)) >>= \case
          Complete width -> go (at + width)
          _ -> pure at

-- | The number of characters of valid text of this many bytes.
--
-- [Cost]: O(n).
characterCount :: Ptr Word8 -> Int -> IO Int
characterCount p n = countBytes p n (\b -> if b .&. 0xc0 == 0x80 then 0 else 1)

-- | The number of UTF-16 units of valid text of this many bytes.
--
-- [Cost]: O(n).
unitCount :: Ptr Word8 -> Int -> IO Int
unitCount p n = countBytes p n (\b -> if b .&. 0xc0 == 0x80 then 0 else if b >= 0xf0 then 2 else 1)

countBytes :: Ptr Word8 -> Int -> (Word8 -> Int) -> IO Int
countBytes p n f = go 0 0
  where
    go at !total
      | at >= n = pure total
      | otherwise = do
        b <- peekByteOff p at
        go (at + 1) (total + f b)
{-# INLINE countBytes #-}

-- | Write this many bytes of valid, whole characters as UTF-16 into the array between two offsets; returns
-- where it ended.
--
-- [Cost]: O(n).
-- [Units]: places count 16-bit units.
pokeUnits :: Ptr Word8 -> Int -> MutableByteArray RealWorld -> Int -> Int -> IO Int
pokeUnits p n array start end = go 0 start
  where
    go i at
      | i >= n || at >= end = pure at
      | otherwise = do
        lead <- byte i
        if lead < 0x80
          then one (i + 1) at lead
          else
            if lead < 0xe0
              then if n - i < 2 then pure at else more (lead .&. 0x1f) i 1 >>= one (i + 2) at
              else
                if lead < 0xf0
                  then if n - i < 3 then pure at else more (lead .&. 0xf) i 2 >>= one (i + 3) at
                  else if n - i < 4 || at + 2 > end then pure at else more (lead .&. 7) i 3 >>= two (i + 4) at
    byte :: Int -> IO Int
    byte i = fromIntegral <$> (peekByteOff p i :: IO Word8)
    more :: Int -> Int -> Int -> IO Int
    more code i k = rest code (i + 1) (i + k)
    rest !code i last_
      | i > last_ = pure code
      | otherwise = do
        b <- byte i
        rest (code `unsafeShiftL` 6 .|. b .&. 0x3f) (i + 1) last_
    one i at unit = do
      writeByteArray array at (fromIntegral unit :: Word16)
      go i (at + 1)
    two i at code = case surrogatePair code of
      (high, low) -> do
        writeByteArray array at high
        writeByteArray array (at + 1) low
        go i (at + 2)

-- | The number of UTF-8 bytes of valid UTF-16 between two offsets of the array.
--
-- [Cost]: O(n).
-- [Units]: places count 16-bit units.
byteCount :: ByteArray -> Int -> Int -> IO Int
byteCount array from to = pure (go from 0)
  where
    go at !total
      | at >= to = total
      | otherwise = go (at + 1) (total + size (indexByteArray array at))
    size :: Word16 -> Int
    size unit
      | unit < 0x80 = 1
      | unit < 0x800 || unit .&. 0xf800 == 0xd800 = 2
      | otherwise = 3

-- | Write the units between two offsets of the array as bytes, up to the first that is not ASCII; returns
-- their number. There must be room for all of them.
--
-- [Cost]: O(n).
-- [Units]: places count 16-bit units.
pokeAscii :: ByteArray -> Int -> Int -> Ptr Word8 -> IO Int
pokeAscii array from to p = go from
  where
    go at
      | at < to, unit < 0x80 = pokeByteOff p (at - from) (fromIntegral unit :: Word8) >> go (at + 1)
      | otherwise = pure (at - from)
      where
        unit = indexByteArray array at :: Word16

-- | Write valid, whole characters of UTF-16 between two offsets of the array as at most this many bytes of
-- UTF-8; returns their number.
--
-- [Cost]: O(n).
-- [Units]: places count 16-bit units.
pokeBytes :: ByteArray -> Int -> Int -> Ptr Word8 -> Int -> IO Int
pokeBytes array from to p room = go from 0
  where
    go at out
      | at >= to = pure out
      | unit < 0x80 = if out + 1 > room then pure out else put out unit >> go (at + 1) (out + 1)
      | unit < 0x800 =
        if out + 2 > room
          then pure out
          else do
            put out (0xc0 .|. unit `unsafeShiftR` 6)
            put (out + 1) (low 0)
            go (at + 1) (out + 2)
      | unit .&. 0xf800 /= 0xd800 =
        if out + 3 > room
          then pure out
          else do
            put out (0xe0 .|. unit `unsafeShiftR` 12)
            put (out + 1) (low 6)
            put (out + 2) (low 0)
            go (at + 1) (out + 3)
      | out + 2 > room = pure out
      | unit < 0xdc00 = do
        -- The first two bytes of a pair,
        let high = unit .&. 0x3ff + 0x40
        put out (0xf0 .|. high `unsafeShiftR` 8)
        put (out + 1) (0x80 .|. high `unsafeShiftR` 2 .&. 0x3f)
        go (at + 1) (out + 2)
      | otherwise = do
        -- and the last two.
        let before = if at > from then unitAt (at - 1) else 0
        put out (0x80 .|. (before .&. 3) `unsafeShiftL` 4 .|. unit `unsafeShiftR` 6 .&. 0xf)
        put (out + 1) (low 0)
        go (at + 1) (out + 2)
      where
        unit = unitAt at
        low k = 0x80 .|. unit `unsafeShiftR` k .&. 0x3f
    unitAt at = fromIntegral (indexByteArray array at :: Word16) :: Int
    put at b = pokeByteOff p at (fromIntegral b :: Word8)

-- | The number of bytes read, and of the units or bytes that they become.
data Replaced = Replaced !Int !Int
  deriving stock (Eq, Show)

-- | For text that may be ill-formed: how many bytes were read, and how many UTF-16 units they become, with
-- U+FFFD for each maximal subpart. It ends before a character that the end cuts off.
--
-- [Cost]: O(n).
replacedUnits :: Ptr Word8 -> Int -> IO Replaced
replacedUnits p n = replacing p n 0 (\made _ width -> pure (made + if width == 4 then 2 else 1)) (\made -> pure (made + 1))

-- | Write these units into the array between two offsets.
--
-- [Cost]: O(n).
-- [Units]: places count 16-bit units.
pokeReplacedUnits :: Ptr Word8 -> Int -> MutableByteArray RealWorld -> Int -> Int -> IO Replaced
pokeReplacedUnits p n array start end = do
  Replaced at to <- replacing p n start character mark
  pure (Replaced at (to - start))
  where
    character to at width = pokeUnits (p `plusPtr` at) width array to end
    mark :: Int -> IO Int
    mark to
      | to < end = writeByteArray array to (0xfffd :: Word16) >> pure (to + 1)
      | otherwise = pure to

-- | As 'replacedUnits', with the number of bytes in UTF-8.
--
-- [Cost]: O(n).
replacedBytes :: Ptr Word8 -> Int -> IO Replaced
replacedBytes p n = replacing p n 0 (\made _ width -> pure (made + width)) (\made -> pure (made + 3))

-- | Write these bytes, at most this many.
--
-- [Cost]: O(n).
pokeReplacedBytes :: Ptr Word8 -> Int -> Ptr Word8 -> Int -> IO Replaced
pokeReplacedBytes p n to room = replacing p n 0 character mark
  where
    character made at width = copy made (map (at +) [0 .. width - 1]) (peekByteOff p)
    mark made = copy made [0, 1, 2 :: Int] (pure . ([0xef, 0xbf, 0xbd] !!))
    copy made places byte
      | made + length places > room = pure made
      | otherwise = do
        mapM_ (\(i, place) -> byte place >>= \b -> pokeByteOff to i (b :: Word8)) (zip [made ..] places)
        pure (made + length places)

replacing :: Ptr Word8 -> Int -> Int -> (Int -> Int -> Int -> IO Int) -> (Int -> IO Int) -> IO Replaced
replacing p n start character mark = go 0 start
  where
    go at !made
      | at >= n = pure (Replaced at made)
      | otherwise =
        sequenceOf (n - at) (\i -> peekByteOff p (at + i)) >>= \case
          Complete width -> character made at width >>= go (at + width)
          IllFormed bad -> mark made >>= go (at + bad)
          CutOff -> pure (Replaced at made)
{-# INLINE replacing #-}
