-- |
-- Module      : Heddle.Bytes.Write
-- Description : Bounded primitives: numbers, characters, addresses, dates
-- Stability   : stable
--
-- A 'Write' is a bounded primitive: an action that writes a piece of text, and the most bytes that it can take.
-- Writes joined by '<>' need one check for room. 'Heddle.Bytes.Put.write' turns one into a builder; 'pokeWrite'
-- writes it to an address.
--
-- Invariant: a write stays within its bound.
-- Owner: values; the caller owns the memory.
-- Cost: the stores; a write that is known at compile time allocates nothing.
module Heddle.Bytes.Write
  ( -- * Bounded primitives
    Write,
    writeAtMost,
    writeBound,
    pokeWrite,

    -- * Bytes and characters
    byte,
    char7,
    charUtf8,
    bytes,

    -- * Decimals
    Decimal (..),
    decimalFixed,

    -- * Hexadecimals
    hex,
    hexFixed,

    -- * Floating point numbers
    doubleShortest,
    floatShortest,

    -- * Addresses
    ipv4,
    ipv6,

    -- * Dates
    httpDate,
    logTime,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString qualified as ByteString
import Data.Char (ord)
import Data.Int (Int16, Int32, Int64, Int8)
import Data.Word (Word16, Word32, Word64, Word8, byteSwap64)
import Foreign.Ptr (Ptr, castPtr, plusPtr)
import Foreign.Storable (poke)
import GHC.ByteOrder (ByteOrder (..), targetByteOrder)
import Heddle.Bytes.Address
import Heddle.Bytes.Decimal
import Heddle.Bytes.Double
import Heddle.Bytes.HttpDate
import Heddle.Bytes.Internal.Sink
import Heddle.Prim.Clock (EpochSeconds)

-- | A primitive from its bound and an action that writes it and returns its end.
--
-- Unsafe: the action must not write more bytes than the bound.
--
-- [Cost]: none.
-- [Units]: bytes.
writeAtMost :: Int -> (Ptr Word8 -> IO (Ptr Word8)) -> Write
writeAtMost = Write
{-# INLINE writeAtMost #-}

-- | Its bound: the most bytes that it takes.
--
-- [Cost]: none if the piece is known.
-- [Units]: bytes.
--
-- >>> writeBound (char7 'a' <> char7 'b')
-- 2
writeBound :: Write -> Int
writeBound (Write bound _) = bound
{-# INLINE writeBound #-}

-- | One byte.
--
-- [Cost]: a store.
byte :: Word8 -> Write
byte b = Write 1 (\p -> poke p b >> pure (p `plusPtr` 1))
{-# INLINE byte #-}

-- | An ASCII character; for any other character, its lowest byte.
--
-- [Cost]: a store.
char7 :: Char -> Write
char7 c = byte (fromIntegral (ord c))
{-# INLINE char7 #-}

-- | A character in UTF-8; a surrogate, which has no UTF-8 form, becomes U+FFFD.
--
-- [Cost]: one to four stores.
--
-- Law (@utf8@): the bytes are those that the text package writes.
charUtf8 :: Char -> Write
charUtf8 char = Write 4 (`pokeUtf8` char)
{-# INLINE charUtf8 #-}

-- | Existing bytes.
--
-- [Cost]: a copy.
bytes :: ByteString -> Write
bytes text = Write (ByteString.length text) (`copySlice` text)
{-# INLINE bytes #-}

-- | Numbers of bounded size, in decimal.
class Decimal a where
  -- | The number as 'show' writes it.
  --
  -- [Cost]: about 25 instructions for every eight digits.
  -- [Source]: O'Sullivan, "What's good for C++ is good for … Haskell!?"
  --
  -- Law (@show@): the bytes are those of 'show'.
  decimal :: a -> Write

instance Decimal Int where
  decimal n = Write maxDecimalLength (`pokeDecimal` n)
  {-# INLINE decimal #-}

instance Decimal Int8 where
  decimal n = Write 9 (`pokeDecimal` fromIntegral n)
  {-# INLINE decimal #-}

instance Decimal Int16 where
  decimal n = Write 9 (`pokeDecimal` fromIntegral n)
  {-# INLINE decimal #-}

instance Decimal Int32 where
  decimal n = Write 11 (`pokeDecimal` fromIntegral n)
  {-# INLINE decimal #-}

instance Decimal Int64 where
  decimal n = Write maxDecimalLength (`pokeDecimal` fromIntegral n)
  {-# INLINE decimal #-}

instance Decimal Word where
  decimal n = Write maxDecimalLength (`pokeUnsigned` fromIntegral n)
  {-# INLINE decimal #-}

instance Decimal Word8 where
  decimal n = Write 8 (`pokeUnsigned` fromIntegral n)
  {-# INLINE decimal #-}

instance Decimal Word16 where
  decimal n = Write 8 (`pokeUnsigned` fromIntegral n)
  {-# INLINE decimal #-}

instance Decimal Word32 where
  decimal n = Write 10 (`pokeUnsigned` fromIntegral n)
  {-# INLINE decimal #-}

instance Decimal Word64 where
  decimal n = Write maxDecimalLength (`pokeUnsigned` n)
  {-# INLINE decimal #-}

-- | In decimal with this many digits (1 to 20): padded with zeros, or the last digits of a longer number.
--
-- [Cost]: about 25 instructions for every eight digits.
-- [Units]: the width is in bytes.
--
-- Law (@padded@): the bytes are the last of those of 'show' behind zeros.
decimalFixed :: Int -> Word64 -> Write
decimalFixed width n = Write (max 8 width') (\p -> pokeDecimalFixed width' p n)
  where
    width' = max 1 (min 20 width)
{-# INLINE decimalFixed #-}

-- | In lower-case hexadecimal.
--
-- [Cost]: about 20 instructions for every eight digits.
--
-- Law (@showHex@): the bytes are those of @showHex@.
hex :: Word -> Write
hex n = Write 16 (`pokeHex` n)
{-# INLINE hex #-}

-- | In lower-case hexadecimal with this many digits (1 to 16): padded with zeros, or the last digits of a
-- longer number.
--
-- [Cost]: about 20 instructions for every eight digits.
-- [Units]: the width is in bytes.
--
-- Law (@padded@): the bytes are the last of those of @showHex@ behind zeros.
hexFixed :: Int -> Word64 -> Write
hexFixed width n = Write (max 8 width') (\p -> pokeHexFixed width' p n)
  where
    width' = max 1 (min 16 width)
{-# INLINE hexFixed #-}

-- | The shortest decimal that reads back as the same double; see "Heddle.Bytes.Double" for the layout.
--
-- [Cost]: that of 'pokeDouble'.
doubleShortest :: Double -> Write
doubleShortest x = Write maxDoubleLength (`pokeDouble` x)
{-# INLINE doubleShortest #-}

-- | The shortest decimal that reads back as the same float.
--
-- [Cost]: that of 'pokeFloat'.
floatShortest :: Float -> Write
floatShortest x = Write maxFloatLength (`pokeFloat` x)
{-# INLINE floatShortest #-}

-- | An IPv4 address in network byte order, as in the kernel.
--
-- [Cost]: that of 'pokeIPv4'.
ipv4 :: Word32 -> Write
ipv4 address = Write maxIPv4Length (`pokeIPv4` address)
{-# INLINE ipv4 #-}

-- | An IPv6 address: its first and second eight bytes as numbers (the first byte highest).
--
-- [Cost]: that of 'pokeIPv6'.
ipv6 :: Word64 -> Word64 -> Write
ipv6 high low = Write (maxIPv6Length + 1 + 16) $ \p -> do
  -- The raw address is stored after the room for the longest text.
  let raw = p `plusPtr` (maxIPv6Length + 1)
  poke (castPtr raw) (network high)
  poke (castPtr (raw `plusPtr` 8)) (network low)
  pokeIPv6 p raw
  where
    network = case targetByteOrder of
      LittleEndian -> byteSwap64
      BigEndian -> id
{-# INLINE ipv6 #-}

-- | A date in the fixed form of HTTP.
--
-- [Cost]: that of 'pokeHttpDate'.
httpDate :: EpochSeconds -> Write
httpDate time = Write httpDateLength (`pokeHttpDate` time)
{-# INLINE httpDate #-}

-- | A time as in access logs; the offset says how far local time is ahead.
--
-- [Cost]: that of 'pokeLogTime'.
-- [Units]: the offset is in minutes.
logTime :: EpochSeconds -> Int -> Write
logTime time ahead = Write logTimeLength (\p -> pokeLogTime p time ahead)
{-# INLINE logTime #-}
