{-# LANGUAGE MultiWayIf #-}

-- |
-- Module      : Heddle.Bytes.Decimal
-- Description : Integers in decimal and hexadecimal, written in place and parsed strictly
-- Stability   : stable
--
-- Writes decimal and hexadecimal numbers straight into memory, eight digits at a time, and reads decimals
-- strictly: nothing but digits is accepted, and nothing wraps.
--
-- Invariant: nothing is written outside of the room that a function asks for.
-- Owner: the memory is the caller's, and only while the call lasts.
-- Cost: about two nanoseconds for every eight digits; 0 bytes; no system call.
module Heddle.Bytes.Decimal
  ( -- * Writing decimals

    -- | Eight bytes are stored at a time: bytes after the returned end but within the room may have been
    -- written, too.
    pokeDecimal,
    pokeUnsigned,
    decimalLength,
    unsignedLength,
    maxDecimalLength,
    signed64,
    unsigned64,

    -- * Fixed width
    pokeDecimal2,
    pokeDecimal4,
    pokeDecimalFixed,

    -- * Writing hexadecimals
    pokeHex,
    hexLength,
    pokeHexFixed,

    -- * Reading decimals
    readDecimal,
  )
where

import Data.Bits (countLeadingZeros, countTrailingZeros, finiteBitSize, unsafeShiftL, unsafeShiftR, xor, (.&.), (.|.))
import Data.Int (Int64)
import Data.Word (Word64, Word8, byteSwap64)
import Foreign.Ptr (Ptr, castPtr, plusPtr)
import Foreign.Storable (peekByteOff, poke, pokeByteOff)
import GHC.ByteOrder (ByteOrder (..), targetByteOrder)
import Heddle.Bytes.Internal.Word128 (timesHigh)
import Heddle.Prim.AddrState (AddrState, At (..), addrState, runAddrState)

-- | Write a number in decimal, as 'show' does, and return the end of the text.
--
-- [Cost]: about ten instructions for the sign, 25 for every eight digits; 0 bytes.
-- [Blocks]: never.
-- [Units]: 'decimalLength' bytes of text, in room for 'maxDecimalLength'.
-- [Threads]: any.
-- [Source]: O'Sullivan, on writing decimals two digits at a time; here it is eight.
--
-- Law (@show@): the bytes written are those of 'show', for every 'Int'.
--
-- @since 0.1.0.0
pokeDecimal :: Ptr Word8 -> Int -> IO (Ptr Word8)
pokeDecimal target number = do
  At end () <- runAddrState signed64 (fromIntegral number) target
  pure end
{-# INLINE pokeDecimal #-}

-- | Write a number of 0 or more in decimal, and return the end of the text.
--
-- [Cost]: about 25 instructions for every eight digits; 0 bytes.
-- [Blocks]: never.
-- [Units]: 'unsignedLength' bytes of text, in room for 'maxDecimalLength'.
-- [Threads]: any.
--
-- Law (@show@): the bytes written are those of 'show', for every 'Word64'.
--
-- @since 0.1.0.0
pokeUnsigned :: Ptr Word8 -> Word64 -> IO (Ptr Word8)
pokeUnsigned target number = do
  At end () <- runAddrState unsigned64 number target
  pure end
{-# INLINE pokeUnsigned #-}

-- | 'pokeDecimal' as an 'AddrState', for other address-threading code.
--
-- [Cost]: about ten instructions for the sign, 25 for every eight digits; 0 bytes.
-- [Units]: room for 'maxDecimalLength' bytes is needed.
signed64 :: AddrState Int64 ()
signed64 = addrState $ \number target -> do
  let ones = number `unsafeShiftR` 63
      magnitude = fromIntegral ((number `xor` ones) - ones)
  -- The sign is written always; the digits of a positive number overwrite it.
  poke target 0x2d
  unsignedAt magnitude (target `plusPtr` fromIntegral (negate ones))
{-# NOINLINE signed64 #-}

-- | 'pokeUnsigned' as an 'AddrState', for other address-threading code.
--
-- [Cost]: about 25 instructions for every eight digits; 0 bytes.
-- [Units]: room for 'maxDecimalLength' bytes is needed.
unsigned64 :: AddrState Word64 ()
unsigned64 = addrState unsignedAt
{-# NOINLINE unsigned64 #-}

-- | See Note [Eight digits at once].
unsignedAt :: Word64 -> Ptr Word8 -> IO (At ())
unsignedAt number target
  | number < 100000000 = leading target (eightDigits number)
  | number < 10000000000000000 = do
    let high = tenToEighth number
    At next () <- leading target (eightDigits high)
    whole next (eightDigits (number - 100000000 * high))
  | otherwise = do
    let middle = tenToEighth number
        high = tenToEighth middle
    At next () <- leading target (eightDigits high)
    At next' () <- whole next (eightDigits (middle - 100000000 * high))
    whole next' (eightDigits (number - 100000000 * middle))
{-# INLINE unsignedAt #-}

-- | Write eight digits without leading zeros; eight bytes are stored.
leading :: Ptr Word8 -> Word64 -> IO (At ())
leading target digits = do
  pokeLittle target ((digits + 0x3030303030303030) `unsafeShiftR` zeros)
  pure (At (target `plusPtr` (8 - zeros `unsafeShiftR` 3)) ())
  where
    -- Keep the last digit, even if it is a zero.
    zeros = countTrailingZeros (digits .|. 0x0100000000000000) .&. 0x38
{-# INLINE leading #-}

-- | Write eight digits.
whole :: Ptr Word8 -> Word64 -> IO (At ())
whole target digits = do
  pokeLittle target (digits + 0x3030303030303030)
  pure (At (target `plusPtr` 8) ())
{-# INLINE whole #-}

-- | Store eight bytes, the lowest first.
pokeLittle :: Ptr Word8 -> Word64 -> IO ()
pokeLittle target bytes = case targetByteOrder of
  LittleEndian -> poke (castPtr target) bytes
  BigEndian -> poke (castPtr target) (byteSwap64 bytes)
{-# INLINE pokeLittle #-}

-- | The digits of a number below 10^8, one in each byte, the first digit in the lowest byte.
eightDigits :: Word64 -> Word64
eightDigits number = (twos `unsafeShiftL` 8) - tens * 2559
  where
    high = (number * 109951163) `unsafeShiftR` 40
    fours = (number `unsafeShiftL` 32) - high * 42949672959999
    hundreds = ((fours * 10486) `unsafeShiftR` 20) .&. 0x7f0000007f
    twos = (fours `unsafeShiftL` 16) - hundreds * 6553599
    tens = ((twos * 103) `unsafeShiftR` 10) .&. 0x000f000f000f000f
{-# INLINE eightDigits #-}

-- | A number divided by 10^8, rounded down.
tenToEighth :: Word64 -> Word64
tenToEighth number = timesHigh number 0xabcc77118461cefd `unsafeShiftR` 26
{-# INLINE tenToEighth #-}

-- | Write a number from 0 to 99 as two digits and return their end.
--
-- For any other number, two unspecified bytes are written.
--
-- [Cost]: O(1), without a division; 0 bytes.
-- [Blocks]: never.
-- [Units]: 2 bytes are written.
-- [Threads]: any.
--
-- @since 0.1.0.0
pokeDecimal2 :: Ptr Word8 -> Int -> IO (Ptr Word8)
pokeDecimal2 target number = do
  pokePair target (fromIntegral number)
  pure (target `plusPtr` 2)
{-# INLINE pokeDecimal2 #-}

-- | Write a number from 0 to 9999 as four digits and return their end.
--
-- For any other number, four unspecified bytes are written.
--
-- [Cost]: O(1), without a division; 0 bytes.
-- [Blocks]: never.
-- [Units]: 4 bytes are written.
-- [Threads]: any.
--
-- @since 0.1.0.0
pokeDecimal4 :: Ptr Word8 -> Int -> IO (Ptr Word8)
pokeDecimal4 target number = do
  let all_ = fromIntegral number
      high = hundredth all_
  pokePair target high
  pokePair (target `plusPtr` 2) (all_ - 100 * high)
  pure (target `plusPtr` 4)
{-# INLINE pokeDecimal4 #-}

-- | Write a number in decimal with this many digits (1 to 20): padded with zeros, or the last digits of a
-- longer number. Returns the end.
--
-- [Cost]: about 25 instructions for every eight digits; 0 bytes.
-- [Blocks]: never.
-- [Units]: the width in bytes, in room for eight or for the width, whichever is more.
-- [Threads]: any.
--
-- Law (@padded@): the bytes are the last of those of 'show' behind zeros.
--
-- @since 0.1.0.0
pokeDecimalFixed :: Int -> Ptr Word8 -> Word64 -> IO (Ptr Word8)
pokeDecimalFixed width target number = do
  if
      | width <= 8 -> lastDigits width low
      | width <= 16 -> lastDigits (width - 8) middle >> pokeLittle (end `plusPtr` (-8)) (ascii low)
      | otherwise -> do
        lastDigits (width - 16) high
        pokeLittle (end `plusPtr` (-16)) (ascii middle)
        pokeLittle (end `plusPtr` (-8)) (ascii low)
  pure end
  where
    end = target `plusPtr` width
    above = tenToEighth number
    high = tenToEighth above
    low = number - 100000000 * above
    middle = above - 100000000 * high
    ascii n = eightDigits n + 0x3030303030303030
    lastDigits count n = pokeLittle target (ascii n `unsafeShiftR` (64 - 8 * count))
{-# INLINE pokeDecimalFixed #-}

-- | Count the bytes of a number in decimal, with the sign of a negative one.
--
-- [Cost]: a few comparisons; 0 bytes.
-- [Units]: bytes, from 1 to 'maxDecimalLength'.
--
-- Law (@length@): it is the 'length' of the number's 'show'.
--
-- >>> decimalLength (-151)
-- 4
--
-- @since 0.1.0.0
decimalLength :: Int -> Int
decimalLength number
  | number >= 0 = unsignedLength (fromIntegral number)
  | otherwise = 1 + unsignedLength (negate (fromIntegral number))

-- | Count the bytes of a number of 0 or more in decimal.
--
-- [Cost]: a few comparisons; 0 bytes.
-- [Units]: bytes, from 1 to 'maxDecimalLength'.
--
-- Law (@length@): it is the 'length' of the number's 'show'.
--
-- @since 0.1.0.0
unsignedLength :: Word64 -> Int
unsignedLength number
  | number < 100000000 = digits8 number
  | number < 10000000000000000 = 8 + digits8 (tenToEighth number)
  | otherwise = 16 + digits8 (tenToEighth (tenToEighth number))

-- | The number of digits of a number below 10^8.
digits8 :: Word64 -> Int
digits8 number
  | number < 10000 =
    if number < 100
      then if number < 10 then 1 else 2
      else if number < 1000 then 3 else 4
  | number < 1000000 = if number < 100000 then 5 else 6
  | otherwise = if number < 10000000 then 7 else 8

-- | The most bytes that a number of 64 bits takes in decimal: those of 'minBound' and of the
-- greatest 'Word64'.
--
-- [Units]: bytes.
--
-- @since 0.1.0.0
maxDecimalLength :: Int
maxDecimalLength = 20

-- | Write a number in lower-case hexadecimal, without leading zeros, and return
-- the end of the text.
--
-- [Cost]: about 20 instructions for every eight digits; 0 bytes.
-- [Blocks]: never.
-- [Units]: 'hexLength' bytes of text, in room for 16.
-- [Threads]: any.
--
-- Law (@showHex@): the bytes written are those of @showHex@, for every 'Word'.
--
-- @since 0.1.0.0
pokeHex :: Ptr Word8 -> Word -> IO (Ptr Word8)
pokeHex target number
  | high == 0 = pure' =<< leadingHex target low
  | otherwise = do
    At next () <- leadingHex target high
    pokeLittle next (hexAscii (eightHex low))
    pure (next `plusPtr` 8)
  where
    number64 = fromIntegral number :: Word64
    high = number64 `unsafeShiftR` 32
    low = number64 .&. 0xffffffff
    pure' (At end ()) = pure end
    leadingHex at part = do
      let digits = eightHex part
          zeros = countTrailingZeros (digits .|. 0x0100000000000000) .&. 0x38
      pokeLittle at (hexAscii digits `unsafeShiftR` zeros)
      pure (At (at `plusPtr` (8 - zeros `unsafeShiftR` 3)) ())

-- | Write a number in lower-case hexadecimal with this many digits (1 to 16): padded with zeros, or the last
-- digits of a longer number. Returns the end.
--
-- [Cost]: about 20 instructions for every eight digits; 0 bytes.
-- [Blocks]: never.
-- [Units]: the width in bytes, in room for eight or for the width, whichever is more.
-- [Threads]: any.
--
-- Law (@padded@): the bytes are the last of those of @showHex@ behind zeros.
--
-- @since 0.1.0.0
pokeHexFixed :: Int -> Ptr Word8 -> Word64 -> IO (Ptr Word8)
pokeHexFixed width target number
  | width <= 8 = do
    pokeLittle target (ascii number `unsafeShiftR` (64 - 8 * width))
    pure end
  | otherwise = do
    pokeLittle target (ascii (number `unsafeShiftR` 32) `unsafeShiftR` (128 - 8 * width))
    pokeLittle (end `plusPtr` (-8)) (ascii number)
    pure end
  where
    end = target `plusPtr` width
    ascii n = hexAscii (eightHex (n .&. 0xffffffff))
{-# INLINE pokeHexFixed #-}

-- | The hexadecimal digits of a number below 2^32, one in each byte, the first digit in the lowest byte.
eightHex :: Word64 -> Word64
eightHex number = byteSwap64 ((bytes .|. (bytes `unsafeShiftL` 4)) .&. 0x0f0f0f0f0f0f0f0f)
  where
    pairs = (number .|. (number `unsafeShiftL` 16)) .&. 0x0000ffff0000ffff
    bytes = (pairs .|. (pairs `unsafeShiftL` 8)) .&. 0x00ff00ff00ff00ff
{-# INLINE eightHex #-}

hexAscii :: Word64 -> Word64
hexAscii digits = digits + 0x3030303030303030 + letters * 39
  where
    letters = ((digits + 0x0606060606060606) `unsafeShiftR` 4) .&. 0x0101010101010101
{-# INLINE hexAscii #-}

-- | Count the bytes of a number in hexadecimal.
--
-- [Cost]: O(1), without a branch; 0 bytes.
-- [Units]: bytes, from 1 to 16.
--
-- >>> hexLength 4096
-- 4
--
-- @since 0.1.0.0
hexLength :: Word -> Int
hexLength number =
  (finiteBitSize number + 3 - countLeadingZeros (number .|. 1)) `unsafeShiftR` 2
{-# INLINE hexLength #-}

-- | Read this many bytes as a number in decimal; -1 if they are not one.
--
-- There must be at least one byte, every byte must be a digit, and the number must not exceed 'maxBound':
-- signs, spaces and separators are refused, and nothing wraps. Leading zeros are allowed.
--
-- [Cost]: O(bytes); 0 bytes allocated.
-- [Blocks]: never.
-- [Units]: the length is in bytes.
-- [Threads]: any; the memory must not change meanwhile.
--
-- Law (@inverse@): it reads what 'pokeDecimal' writes for a number of 0 or more.
--
-- @since 0.1.0.0
readDecimal :: Ptr Word8 -> Int -> IO Int
readDecimal source len
  | len <= 0 = pure (-1)
  | otherwise = go 0 0
  where
    go !at !number
      | at >= len = pure number
      | otherwise = do
        byte <- peekByteOff source at
        let digit = fromIntegral (byte - 0x30 :: Word8)
            next = 10 * number + digit
        if digit > 9 || number > maxBound `quot` 10 || next < 0
          then pure (-1)
          else go (at + 1) next

-- | A hundredth of a number below 2^32, rounded down; see Note [Hundredths].
hundredth :: Word -> Word
hundredth number = (number * 1374389535) `unsafeShiftR` 37
{-# INLINE hundredth #-}

-- | Write two digits; the tens are exact below 179.
pokePair :: Ptr Word8 -> Word -> IO ()
pokePair target number = do
  let tens = (number * 103) `unsafeShiftR` 10
  pokeByteOff target 0 (fromIntegral (0x30 + tens) :: Word8)
  pokeByteOff target 1 (fromIntegral (0x30 + number - 10 * tens) :: Word8)
{-# INLINE pokePair #-}

-- Note [Hundredths]
-- ~~~~~~~~~~~~~~~~~
-- GHC 9.0 divides by a constant with a division instruction, 20 to 40 cycles.
-- For 0 <= n < 2^32, n `quot` 100 is (n * 1374389535) >> 37: the factor is
-- 2^37/100 rounded up, too large by 0.28, so the shifted product is too large
-- by less than 2^32 * 0.28 / 2^37 < 0.009, and the fraction of n/100 is at most
-- 0.99: the sum never reaches the next integer. The product stays below 2^63.

-- Note [Eight digits at once]
-- ~~~~~~~~~~~~~~~~~~~~~~~~~~~
-- A number below 10^8 is split into two of four digits in the halves of a word, these into
-- four of two digits, these into eight digits, each time by one multiplication for all lanes:
-- x `quot` 10000 is (x * 109951163) >> 40 for x < 10^8, x `quot` 100 is (x * 10486) >> 20 for
-- x < 10^4, x `quot` 10 is (x * 103) >> 10 for x < 100, and no product reaches the next lane. With
-- q the quotients, (x << w) + q * (1 - d * 2^w) puts each q where x was and the remainder x - d * q
-- one lane of w bits higher: 42949672959999 is 10000 * 2^32 - 1, 6553599 is 100 * 2^16 - 1 and
-- 2559 is 10 * 2^8 - 1. The first digit is in the lowest byte, which little-endian processors
-- store first. Zeros before the first digit are found by counting bits and shifted out: no
-- branch depends on the number of digits below 10^8, and only two above.
--
-- n `quot` 10^8 is the high word of n * 0xabcc77118461cefd, which is 2^90 / 10^8 rounded up,
-- shifted by 26: exact for all words.
