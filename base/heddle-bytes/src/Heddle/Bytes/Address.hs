-- |
-- Module      : Heddle.Bytes.Address
-- Description : Internet addresses as text, written in place
-- Stability   : stable
--
-- Writes IPv4 and IPv6 addresses straight into memory, in the spelling that their standards recommend, so
-- that equal addresses have equal texts.
--
-- Invariant: at most 'maxIPv4Length' or 'maxIPv6Length' bytes are written.
-- Owner: the memory is the caller's, and only while the call lasts.
-- Cost: linear in the text; 0 bytes; no system call.
module Heddle.Bytes.Address
  ( -- * IPv4
    pokeIPv4,
    maxIPv4Length,

    -- * IPv6
    pokeIPv6,
    maxIPv6Length,
  )
where

import Data.Bits (unsafeShiftL, unsafeShiftR, (.&.), (.|.))
import Data.Word (Word32, Word8, byteSwap32)
import Foreign.Ptr (Ptr, plusPtr)
import Foreign.Storable (peekByteOff, poke, pokeByteOff)
import GHC.ByteOrder (ByteOrder (..), targetByteOrder)
import Heddle.Bytes.Decimal (hexLength, pokeDecimal2)

-- | The most bytes of an IPv4 address: @255.255.255.255@.
--
-- [Units]: bytes.
--
-- @since 0.1.0.0
maxIPv4Length :: Int
maxIPv4Length = 15

-- | The most bytes of an IPv6 address: eight groups of four digits.
--
-- [Units]: bytes.
--
-- @since 0.1.0.0
maxIPv6Length :: Int
maxIPv6Length = 39

-- | Write an IPv4 address, such as @192.0.2.7@, and return its end.
--
-- The word is in network byte order, as in the kernel's @sin_addr@ and the network package's
-- @HostAddress@.
--
-- [Cost]: O(1); 0 bytes.
-- [Blocks]: never.
-- [Units]: at most 'maxIPv4Length' bytes are written.
-- [Threads]: any.
--
-- Law (@inet_ntop@): the text is the C library's.
--
-- @since 0.1.0.0
pokeIPv4 :: Ptr Word8 -> Word32 -> IO (Ptr Word8)
pokeIPv4 target address =
  pokeOctets target (octet 24) (octet 16) (octet 8) (octet 0)
  where
    host = case targetByteOrder of
      LittleEndian -> byteSwap32 address
      BigEndian -> address
    octet shift = fromIntegral (host `unsafeShiftR` shift) .&. 255

-- | Write the IPv6 address in these 16 bytes, such as @2001:db8::7@, and return
-- its end.
--
-- Digits are lower-case and without leading zeros; the longest run of two or
-- more zero groups, the first of equals, becomes @::@; the last four bytes of an
-- IPv4-mapped address are written as IPv4, @::ffff:192.0.2.7@.
--
-- [Cost]: O(1), two passes over eight groups; 0 bytes.
-- [Blocks]: never.
-- [Units]: 16 bytes are read, at most 'maxIPv6Length' written.
-- [Threads]: any; the two areas must not overlap.
-- [Source]: RFC 5952, sections 4 and 5.
--
-- Law (@inet_ntop@): the text is the C library's, except that the C library
-- also writes IPv4 into the deprecated block @::\/96@.
--
-- @since 0.1.0.0
pokeIPv6 :: Ptr Word8 -> Ptr Word8 -> IO (Ptr Word8)
pokeIPv6 target source = do
  gap <- longestGap source
  mapped <- isMapped source gap
  if mapped
    then do
      next <- pokeColon target >>= pokeColon >>= (`pokeGroup` 0xffff) >>= pokeColon
      a <- byteAt 12
      b <- byteAt 13
      c <- byteAt 14
      d <- byteAt 15
      pokeOctets next a b c d
    else pokeGroups gap
  where
    byteAt :: Int -> IO Int
    byteAt place = fromIntegral <$> (peekByteOff source place :: IO Word8)

    pokeGroups Gap {gapStart = start, gapLen = len}
      | len < 2 = pokeRange target 0 8
      | otherwise = do
        before <- pokeRange target 0 start
        colons <- pokeColon before >>= pokeColon
        pokeRange colons (start + len) 8

    -- The groups from the first index to before the second, with colons between them.
    pokeRange !next !from !to
      | from >= to = pure next
      | otherwise = do
        group <- peekGroup source from
        end <- pokeGroup next group
        if from + 1 < to
          then pokeColon end >>= \after -> pokeRange after (from + 1) to
          else pure end

-- | A run of zero groups.
data Gap = Gap
  { gapStart :: !Int,
    gapLen :: !Int
  }

-- | The first of the longest runs of zero groups.
longestGap :: Ptr Word8 -> IO Gap
longestGap source = go 0 0 (Gap 0 0)
  where
    go :: Int -> Int -> Gap -> IO Gap
    go !place !run !best
      | place == 8 = pure best
      | otherwise = do
        group <- peekGroup source place
        let run' = if group == 0 then run + 1 else 0
        go (place + 1) run' (if run' > gapLen best then Gap (place + 1 - run') run' else best)

-- | IPv4 is mapped into IPv6 by five zero groups and one of ones; then the gap is exactly those five.
isMapped :: Ptr Word8 -> Gap -> IO Bool
isMapped source Gap {gapStart = start, gapLen = len}
  | start == 0 && len == 5 = (== 0xffff) <$> peekGroup source 5
  | otherwise = pure False

peekGroup :: Ptr Word8 -> Int -> IO Word
peekGroup source place = do
  high <- peekByteOff source (2 * place) :: IO Word8
  low <- peekByteOff source (2 * place + 1) :: IO Word8
  pure ((fromIntegral high `unsafeShiftL` 8) .|. fromIntegral low)
{-# INLINE peekGroup #-}

pokeColon :: Ptr Word8 -> IO (Ptr Word8)
pokeColon target = do
  poke target 0x3a
  pure (target `plusPtr` 1)
{-# INLINE pokeColon #-}

pokeOctets :: Ptr Word8 -> Int -> Int -> Int -> Int -> IO (Ptr Word8)
pokeOctets target a b c d =
  pokeOctet target a >>= next b >>= next c >>= next d
  where
    next octet end = do
      pokeByteOff end 0 (0x2e :: Word8)
      pokeOctet (end `plusPtr` 1) octet

-- | Digit by digit, because the last group of an address has no room after it.
pokeOctet :: Ptr Word8 -> Int -> IO (Ptr Word8)
pokeOctet target octet
  | octet >= 100 = do
    let hundreds = if octet >= 200 then 2 else 1
    poke target (fromIntegral (0x30 + hundreds))
    pokeDecimal2 (target `plusPtr` 1) (octet - 100 * hundreds)
  | octet >= 10 = pokeDecimal2 target octet
  | otherwise = do
    poke target (fromIntegral (0x30 + octet))
    pure (target `plusPtr` 1)
{-# INLINE pokeOctet #-}

-- | A group of up to four hexadecimal digits.
pokeGroup :: Ptr Word8 -> Word -> IO (Ptr Word8)
pokeGroup target group = go (4 * (hexLength group - 1)) target
  where
    go !shift !at
      | shift < 0 = pure at
      | otherwise = do
        poke at (hexDigit (fromIntegral (group `unsafeShiftR` shift) .&. 15))
        go (shift - 4) (at `plusPtr` 1)
    hexDigit nibble
      | nibble < 10 = 0x30 + nibble
      | otherwise = 0x57 + nibble
{-# INLINE pokeGroup #-}
