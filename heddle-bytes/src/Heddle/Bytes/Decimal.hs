-- |
-- Module      : Heddle.Bytes.Decimal
-- Description : Numbers as text, written in place and read back strictly
-- Stability   : stable
--
-- Writes decimal and hexadecimal numbers straight into memory, two digits at a
-- time, and reads decimals back without ever accepting more than digits.
--
-- Invariant: exactly as many bytes are written as the length functions say.
-- Owner: the memory is the caller's, and only while the call lasts.
-- Cost: linear in the digits; 0 bytes; no system call.
module Heddle.Bytes.Decimal
  ( -- * Writing decimals
    pokeDecimal,
    pokeDecimal2,
    pokeDecimal4,
    decimalLength,
    maxDecimalLength,

    -- * Writing hexadecimals
    pokeHex,
    hexLength,

    -- * Reading decimals
    readDecimal,
  )
where

import Data.Bits (countLeadingZeros, finiteBitSize, unsafeShiftL, unsafeShiftR, (.&.), (.|.))
import Data.Word (Word8)
import Foreign.Ptr (Ptr, plusPtr)
import Foreign.Storable (peekByteOff, poke, pokeByteOff)

-- | Write a number in decimal, as 'show' does, and return the end of the text.
--
-- [Cost]: O(digits), one multiplication for every two digits of a number below
-- 2^32 and one division for every further eight; 0 bytes.
-- [Blocks]: never.
-- [Units]: 'decimalLength' bytes are written, at most 'maxDecimalLength'.
-- [Threads]: any.
-- [Source]: O'Sullivan, on writing decimals two digits at a time.
--
-- Law (@show@): the bytes written are those of 'show', for every 'Int'.
--
-- @since 0.1.0.0
pokeDecimal :: Ptr Word8 -> Int -> IO (Ptr Word8)
pokeDecimal target number
  | number >= 0 = pokeUnsigned target (fromIntegral number)
  | otherwise = do
    poke target 0x2d
    -- As a word even 'minBound' has its magnitude.
    pokeUnsigned (target `plusPtr` 1) (negate (fromIntegral number))

pokeUnsigned :: Ptr Word8 -> Word -> IO (Ptr Word8)
pokeUnsigned target number
  | number < 10 = do
    pokeDigit target number
    pure (target `plusPtr` 1)
  | number < 100 = do
    pokePair target number
    pure (target `plusPtr` 2)
  | number < below32 = do
    let end = target `plusPtr` digits32 number
    pokeBackwards end number
    pure end
  | otherwise = do
    let (high, low) = number `quotRem` 100000000
    next <- pokeUnsigned target high
    pokeEight next low
    pure (next `plusPtr` 8)

-- | Fill the bytes that end here with a number below 2^32.
pokeBackwards :: Ptr Word8 -> Word -> IO ()
pokeBackwards end number
  | number < 10 = pokeDigit (end `plusPtr` (-1)) number
  | number < 100 = pokePair (end `plusPtr` (-2)) number
  | otherwise = do
    let high = hundredth number
    pokePair (end `plusPtr` (-2)) (number - 100 * high)
    pokeBackwards (end `plusPtr` (-2)) high

-- | Eight digits, with their leading zeros, of a number below 10^8.
pokeEight :: Ptr Word8 -> Word -> IO ()
pokeEight target number = do
  let six = hundredth number
      four = hundredth six
      two = hundredth four
  pokePair target two
  pokePair (target `plusPtr` 2) (four - 100 * two)
  pokePair (target `plusPtr` 4) (six - 100 * four)
  pokePair (target `plusPtr` 6) (number - 100 * six)
{-# INLINE pokeEight #-}

-- | Write a number from 0 to 99 as two digits and return their end.
--
-- Of any other number its two bytes are unspecified, but still two.
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
-- Of any other number its four bytes are unspecified, but still four.
--
-- [Cost]: O(1), without a division; 0 bytes.
-- [Blocks]: never.
-- [Units]: 4 bytes are written.
-- [Threads]: any.
--
-- @since 0.1.0.0
pokeDecimal4 :: Ptr Word8 -> Int -> IO (Ptr Word8)
pokeDecimal4 target number = do
  let whole = fromIntegral number
      high = hundredth whole
  pokePair target high
  pokePair (target `plusPtr` 2) (whole - 100 * high)
  pure (target `plusPtr` 4)
{-# INLINE pokeDecimal4 #-}

-- | Count the bytes of a number in decimal, with the sign of a negative one.
--
-- [Cost]: O(1) below 2^32, one division above; 0 bytes.
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
  | number >= 0 = digits (fromIntegral number)
  | otherwise = 1 + digits (negate (fromIntegral number))
  where
    digits :: Word -> Int
    digits magnitude
      | magnitude < below32 = digits32 magnitude
      | otherwise = 8 + digits (magnitude `quot` 100000000)

-- | The most bytes that an 'Int' takes in decimal: those of 'minBound'.
--
-- [Units]: bytes.
--
-- @since 0.1.0.0
maxDecimalLength :: Int
maxDecimalLength = 20

-- | Write a number in lower-case hexadecimal, without leading zeros, and return
-- the end of the text.
--
-- [Cost]: O(digits); 0 bytes.
-- [Blocks]: never.
-- [Units]: 'hexLength' bytes are written, at most 16.
-- [Threads]: any.
--
-- Law (@showHex@): the bytes written are those of @showHex@, for every 'Word'.
--
-- @since 0.1.0.0
pokeHex :: Ptr Word8 -> Word -> IO (Ptr Word8)
pokeHex target number = go (4 * (hexLength number - 1)) target
  where
    go !shift !at
      | shift < 0 = pure at
      | otherwise = do
        poke at (hexDigit (fromIntegral (number `unsafeShiftR` shift) .&. 15))
        go (shift - 4) (at `plusPtr` 1)

    hexDigit nibble
      | nibble < 10 = 0x30 + nibble
      | otherwise = 0x57 + nibble

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
-- There must be a byte, every byte must be a digit, and the number must not
-- exceed 'maxBound': no sign, space or separator passes, and nothing wraps.
-- Leading zeros are digits.
--
-- [Cost]: O(bytes); 0 bytes allocated.
-- [Blocks]: never.
-- [Units]: the length is in bytes.
-- [Threads]: any; the memory must not change meanwhile.
--
-- Law (@inverse@): what 'pokeDecimal' writes of a number of 0 or more is read
-- as that number.
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

below32 :: Word
below32 = 1 `unsafeShiftL` 32
{-# INLINE below32 #-}

-- | A hundredth of a number below 2^32, rounded down; see Note [Hundredths].
hundredth :: Word -> Word
hundredth number = (number * 1374389535) `unsafeShiftR` 37
{-# INLINE hundredth #-}

-- | The digits of a number below 2^32.
digits32 :: Word -> Int
digits32 number
  | number < 10000 =
    if number < 100
      then if number < 10 then 1 else 2
      else if number < 1000 then 3 else 4
  | number < 1000000 = if number < 100000 then 5 else 6
  | number < 100000000 = if number < 10000000 then 7 else 8
  | number < 1000000000 = 9
  | otherwise = 10

pokeDigit :: Ptr Word8 -> Word -> IO ()
pokeDigit target digit = poke target (fromIntegral (0x30 + digit))
{-# INLINE pokeDigit #-}

-- | Two digits; the tens are exact below 179.
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
