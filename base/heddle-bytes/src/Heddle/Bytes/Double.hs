{-# LANGUAGE MultiWayIf #-}

-- |
-- Module      : Heddle.Bytes.Double
-- Description : Floating point numbers: shortest decimals, correctly rounded parsing
-- Stability   : stable
--
-- Writes the shortest decimal that reads back as the same number, and reads decimals of any
-- length as the nearest double. No digits are lost either way.
--
-- Cost: tens of nanoseconds for a number; linear in the digits read.
-- Owner: the memory is the caller's, and only while the call lasts.
module Heddle.Bytes.Double
  ( -- * Writing

    -- | The layout is JavaScript's: a plain decimal from 1e-6 up to 1e21, else one digit before
    -- the point and an exponent, here without its plus: @1@, @0.000001@, @1.5e-7@, @1e21@.
    -- Zeros are @0@ and @-0.0@, which keeps its sign even in readers that take whole numbers for
    -- integers. The other values are @NaN@, @Infinity@ and @-Infinity@.
    pokeDouble,
    maxDoubleLength,
    pokeFloat,
    maxFloatLength,

    -- * Reading
    readDouble,
    decimalToDouble,
  )
where

import Control.Monad (foldM, when)
import Data.Bits (unsafeShiftR, (.&.), (.|.))
import Data.Word (Word64, Word8, byteSwap64)
import Foreign.Ptr (Ptr, castPtr, minusPtr, plusPtr)
import Foreign.Storable (peek, peekByteOff, poke, pokeByteOff)
import GHC.ByteOrder (ByteOrder (..), targetByteOrder)
import Heddle.Bytes.Decimal (signed64, unsigned64)
import Heddle.Bytes.Internal.Nearest
import Heddle.Bytes.Internal.Shortest
import Heddle.Bytes.Internal.Word128 (timesHigh)
import Heddle.Prim.AddrState (AddrState, At (..), addrState, runAddrState)

-- | The room that a double needs; its text has at most 25 bytes.
--
-- [Units]: bytes.
maxDoubleLength :: Int
maxDoubleLength = 32

-- | The room that a float needs; its text has at most 22 bytes.
--
-- [Units]: bytes.
maxFloatLength :: Int
maxFloatLength = 32

-- | Write the shortest decimal that reads back as the same double, the closest of several; returns the
-- end. Bytes after the end may be written, too, up to 'maxDoubleLength'.
--
-- [Cost]: six multiplications and those of the digits; 0 bytes.
-- [Blocks]: never.
-- [Units]: there must be room for 'maxDoubleLength' bytes.
-- [Threads]: any.
-- [Source]: ECMA-262, Number::toString, for the layout.
--
-- Law (@round trip@): 'readDouble' reads the same double.
--
-- Law (@shortest@): no decimal of fewer digits reads back, and none of as many is closer.
pokeDouble :: Ptr Word8 -> Double -> IO (Ptr Word8)
pokeDouble p x = do
  At end () <- runAddrState double x p
  pure end
{-# INLINE pokeDouble #-}

double :: AddrState Double ()
double = addrState $ \x p -> do
  -- The bits go through memory: 'castDoubleToWord64' would be a call.
  poke (castPtr p) x
  bits <- peek (castPtr p)
  if
      | x > 0 -> if bits == 0x7ff0000000000000 then pokeAscii p "Infinity" else pokeShortest p (shortest64 bits)
      | x < 0 ->
        if bits == 0xfff0000000000000
          then pokeAscii p "-Infinity"
          else poke p 0x2d >> pokeShortest (p `plusPtr` 1) (shortest64 (bits - 0x8000000000000000))
      | x == 0 -> if bits == 0 then pokeAscii p "0" else pokeAscii p "-0.0"
      | otherwise -> pokeAscii p "NaN"
{-# NOINLINE double #-}

-- | Write the shortest decimal that reads back as the same float, as 'pokeDouble' does.
--
-- [Cost]: six multiplications and those of the digits; 0 bytes.
-- [Blocks]: never.
-- [Units]: there must be room for 'maxFloatLength' bytes.
-- [Threads]: any.
--
-- Law (@shortest@): no decimal of fewer digits reads back, and none of as many is closer.
pokeFloat :: Ptr Word8 -> Float -> IO (Ptr Word8)
pokeFloat p x = do
  At end () <- runAddrState float x p
  pure end
{-# INLINE pokeFloat #-}

float :: AddrState Float ()
float = addrState $ \x p -> do
  poke (castPtr p) x
  bits <- peek (castPtr p)
  if
      | x > 0 -> if bits == 0x7f800000 then pokeAscii p "Infinity" else pokeShortest p (shortest32 bits)
      | x < 0 ->
        if bits == 0xff800000
          then pokeAscii p "-Infinity"
          else poke p 0x2d >> pokeShortest (p `plusPtr` 1) (shortest32 (bits - 0x80000000))
      | x == 0 -> if bits == 0 then pokeAscii p "0" else pokeAscii p "-0.0"
      | otherwise -> pokeAscii p "NaN"
{-# NOINLINE float #-}

pokeAscii :: Ptr Word8 -> String -> IO (At ())
pokeAscii p text = (`At` ()) <$> foldM (\q c -> poke q (fromIntegral (fromEnum c)) >> pure (q `plusPtr` 1)) p text
{-# NOINLINE pokeAscii #-}

-- | Write digits and an exponent of ten.
pokeShortest :: Ptr Word8 -> Decimal -> IO (At ())
pokeShortest p decimal = runAddrState layout decimal p
{-# INLINE pokeShortest #-}

layout :: AddrState Decimal ()
layout = addrState $ \decimal p -> case decimal of
  Decimal digits 0 -> runAddrState unsigned64 digits p
  _ -> laidOut (withoutZeros decimal) p
{-# NOINLINE layout #-}

laidOut :: Decimal -> Ptr Word8 -> IO (At ())
laidOut (Decimal digits tens) p = do
  let -- One byte further: the digits before the point will move down by one.
      first = p `plusPtr` 1
  At end () <- runAddrState unsigned64 digits first
  let count = end `minusPtr` first
      point = count + tens
  if
      | tens >= 0 && point <= 21 -> do
        moveDown p
        pokeZeros (p `plusPtr` count) tens
        pure (At (p `plusPtr` point) ())
      | point > 0 && point <= 21 -> do
        insertPoint p point
        pure (At (p `plusPtr` (count + 1)) ())
      | point > -6 && point <= 0 -> do
        one <- peekAt first 0
        two <- peekAt first 8
        three <- peekAt first 16
        let start = p `plusPtr` (2 - point)
        pokeAt p 0 (little 0x3030303030302e30)
        pokeAt start 0 one
        pokeAt start 8 two
        pokeAt start 16 three
        pure (At (start `plusPtr` count) ())
      | otherwise -> do
        insertPoint p 1
        let !offset = if count == 1 then 1 else count + 1
        pokeByteOff p offset (0x65 :: Word8)
        runAddrState signed64 (fromIntegral (point - 1)) (p `plusPtr` (offset + 1))
{-# INLINE laidOut #-}

-- | Move up to 17 digits down by one byte.
moveDown :: Ptr Word8 -> IO ()
moveDown p = do
  one <- peekAt p 1
  two <- peekAt p 9
  three <- peekAt p 17
  pokeAt p 0 one
  pokeAt p 8 two
  pokeAt p 16 three
{-# INLINE moveDown #-}

-- | Move this many (1 to 16) of up to 17 digits down by one byte, and write a point after them.
insertPoint :: Ptr Word8 -> Int -> IO ()
insertPoint p point = do
  one <- peekAt p 1
  two <- peekAt p 9
  -- The digits after the point that the moves overwrite.
  rest <- peekAt behind 0
  pokeAt p 0 one
  when (point > 8) (pokeAt p 8 two)
  pokeByteOff p point (0x2e :: Word8)
  pokeAt behind 0 rest
  where
    behind = p `plusPtr` (point + 1)
{-# INLINE insertPoint #-}

peekAt :: Ptr Word8 -> Int -> IO Word64
peekAt = peekByteOff
{-# INLINE peekAt #-}

pokeAt :: Ptr Word8 -> Int -> Word64 -> IO ()
pokeAt = pokeByteOff
{-# INLINE pokeAt #-}

pokeZeros :: Ptr Word8 -> Int -> IO ()
pokeZeros _ 0 = pure ()
pokeZeros p n = poke p 0x30 >> pokeZeros (p `plusPtr` 1) (n - 1)

withoutZeros :: Decimal -> Decimal
withoutZeros given@(Decimal digits tens)
  | 10 * tenth /= digits = given
  | 100000000 * eighth == digits = one (Decimal eighth (tens + 8))
  | otherwise = one (Decimal tenth (tens + 1))
  where
    tenth = tenthOf digits
    eighth = timesHigh digits 0xabcc77118461cefd `unsafeShiftR` 26
    one (Decimal n e)
      | 10 * next == n = one (Decimal next (e + 1))
      | otherwise = Decimal n e
      where
        next = tenthOf n
    tenthOf n = timesHigh n 0xcccccccccccccccd `unsafeShiftR` 3

-- | The double nearest to @w * 10^q@, the even one of two equally near; infinity if that is too large, 0 if
-- it is too small.
--
-- [Cost]: a division, or two multiplications.
--
-- Law (@nearest@): it equals 'fromRational'.
--
-- >>> decimalToDouble 15 (-1)
-- 1.5
decimalToDouble :: Word64 -> Int -> Double
decimalToDouble = nearest64
{-# INLINE decimalToDouble #-}

-- | Read this many bytes as a number in the grammar of RFC 8259; NaN if they are not one. The result is the
-- nearest double, for any number of digits; the even one of two equally near; an infinity if the number is
-- too large, a zero with its sign if it is too small.
--
-- [Cost]: O(bytes). Numbers of more than 19 digits that are close to the middle of two doubles take
-- integers of at most 800 digits.
-- [Blocks]: never.
-- [Units]: the length is in bytes.
-- [Threads]: any; the memory must not change meanwhile.
--
-- Law (@exact@): it equals 'fromRational' of the decimal.
readDouble :: Ptr Word8 -> Int -> IO Double
readDouble source len
  | len <= 0 = pure nan
  | otherwise = do
    byte <- peek source
    if byte == 0x2d then negate <$> unsigned (source `plusPtr` 1) end else unsigned source end
  where
    end = source `plusPtr` len

nan :: Double
nan = 0 / 0

-- | Read digits, a fraction and an exponent, by loops that call each other. All digits are accumulated in
-- one word, which wraps and is not used if there are too many.
unsigned :: Ptr Word8 -> Ptr Word8 -> IO Double
unsigned start end = do
  zero <- if start == end then pure False else (== 0x30) <$> peek start
  let whole :: Ptr Word8 -> Word64 -> IO Double
      whole !p !w
        | p == end = afterWhole p w
        | otherwise = do
          byte <- peek p
          let digit = byte - 0x30
          if digit > 9 then afterWhole p w else whole (p `plusPtr` 1) (10 * w + fromIntegral digit)
      afterWhole p w
        | count == 0 || (zero && count > 1) = pure nan
        | p == end = nearest count p w 0
        | otherwise = do
          byte <- peek p
          if byte == 0x2e then fraction count (p `plusPtr` 1) (p `plusPtr` 1) w else exponent_ count p w 0
        where
          count = p `minusPtr` start
      fraction :: Int -> Ptr Word8 -> Ptr Word8 -> Word64 -> IO Double
      fraction !count !from !p !w
        | end `minusPtr` p >= 8 = do
          eight <- peekLittle p
          if areDigits eight
            then fraction count from (p `plusPtr` 8) (100000000 * w + eightDigits eight)
            else fractionSlowly count from p w
        | otherwise = fractionSlowly count from p w
      fractionSlowly !count !from !p !w
        | p == end = afterFraction count from p w
        | otherwise = do
          byte <- peek p
          let digit = byte - 0x30
          if digit > 9
            then afterFraction count from p w
            else fractionSlowly count from (p `plusPtr` 1) (10 * w + fromIntegral digit)
      afterFraction count from p w
        | fractions == 0 = pure nan
        | p == end = nearest (count + fractions) p w (negate fractions)
        | otherwise = exponent_ (count + fractions) p w (negate fractions)
        where
          fractions = p `minusPtr` from
      -- The digits end here; what follows must be an exponent.
      exponent_ :: Int -> Ptr Word8 -> Word64 -> Int -> IO Double
      exponent_ count p w tens
        | p `plusPtr` 1 >= end = pure nan
        | otherwise = do
          e <- peek p
          sign <- peekByteOff p 1 :: IO Word8
          let minus = sign == 0x2d
              at = p `plusPtr` (if minus || sign == 0x2b then 2 else 1)
          if (e /= 0x65 && e /= 0x45) || at == end then pure nan else power count p w tens minus at 0
      power :: Int -> Ptr Word8 -> Word64 -> Int -> Bool -> Ptr Word8 -> Int -> IO Double
      power !count !p !w !tens !minus !at !e
        | at == end = nearest count p w (if minus then tens - e else tens + e)
        | otherwise = do
          byte <- peek at
          let digit = byte - 0x30
          if digit > 9
            then pure nan
            else -- Stop counting at an exponent larger than any number of digits.
              power count p w tens minus (at `plusPtr` 1) (if e < 1000000000000000 then 10 * e + fromIntegral digit else e)
      nearest :: Int -> Ptr Word8 -> Word64 -> Int -> IO Double
      nearest count digitsEnd w tens
        | count <= 19 = pure $! nearest64 w tens
        | otherwise = manyDigits start digitsEnd tens
  whole start 0

-- | Load eight bytes, the first one lowest.
peekLittle :: Ptr Word8 -> IO Word64
peekLittle p = little <$> peek (castPtr p)
{-# INLINE peekLittle #-}

-- | Order a word's bytes so that the lowest one is the first in memory.
little :: Word64 -> Word64
little = case targetByteOrder of
  LittleEndian -> id
  BigEndian -> byteSwap64
{-# INLINE little #-}

-- | Are all eight bytes digits?
areDigits :: Word64 -> Bool
areDigits bytes = ((bytes + 0x4646464646464646) .|. (bytes - 0x3030303030303030)) .&. 0x8080808080808080 == 0
{-# INLINE areDigits #-}

-- | The value of eight digits: pairs, then groups of four, then all eight are combined at once.
eightDigits :: Word64 -> Word64
eightDigits bytes = (lower * 0x000f424000000064 + upper * 0x0000271000000001) `unsafeShiftR` 32
  where
    digits = bytes - 0x3030303030303030
    pairs = digits * 10 + (digits `unsafeShiftR` 8)
    lower = pairs .&. 0x000000ff000000ff
    upper = (pairs `unsafeShiftR` 16) .&. 0x000000ff000000ff
{-# INLINE eightDigits #-}

-- | Convert more than 19 digits, perhaps with a point among them, and their exponent of ten.
manyDigits :: Ptr Word8 -> Ptr Word8 -> Int -> IO Double
manyDigits start end tens = do
  first <- skipZeros start
  (w, taken, after) <- take19 first 0 0
  left <- countDigits after 0
  if taken < 19 || left == 0
    then pure (nearest64 w tens)
    else nearestBetween w (tens + left) $ do
      (digits, used, next) <- leading first 0 0
      rest <- countDigits next 0
      more <- anyDigit next
      pure $
        if more
          then Exactly (10 * digits + 1) (tens + left + 19 - used - 1)
          else Exactly digits (tens + rest)
  where
    skipZeros p
      | p == end = pure p
      | otherwise = do
        byte <- peek p
        if byte == 0x30 || byte == 0x2e then skipZeros (p `plusPtr` 1) else pure p
    take19 :: Ptr Word8 -> Word64 -> Int -> IO (Word64, Int, Ptr Word8)
    take19 p w n
      | p == end || n == 19 = pure (w, n, p)
      | otherwise = do
        byte <- peek p
        if byte == 0x2e
          then take19 (p `plusPtr` 1) w n
          else take19 (p `plusPtr` 1) (10 * w + fromIntegral (byte - 0x30)) (n + 1)
    leading :: Ptr Word8 -> Integer -> Int -> IO (Integer, Int, Ptr Word8)
    leading p w n
      | p == end || n == 800 = pure (w, n, p)
      | otherwise = do
        byte <- peek p
        if byte == 0x2e
          then leading (p `plusPtr` 1) w n
          else leading (p `plusPtr` 1) (10 * w + toInteger (byte - 0x30)) (n + 1)
    countDigits :: Ptr Word8 -> Int -> IO Int
    countDigits p n
      | p == end = pure n
      | otherwise = do
        byte <- peek p
        countDigits (p `plusPtr` 1) (if byte == 0x2e then n else n + 1)
    anyDigit :: Ptr Word8 -> IO Bool
    anyDigit p
      | p == end = pure False
      | otherwise = do
        byte <- peek p
        if byte == 0x2e || byte == 0x30 then anyDigit (p `plusPtr` 1) else pure True
