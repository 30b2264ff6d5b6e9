{-# LANGUAGE MultiWayIf #-}
-- Otherwise GHC's workers of decoders take the environment's ten fields as arguments.
{-# OPTIONS_GHC -fmax-worker-args=4 #-}

-- |
-- Module      : Heddle.Json.Internal.Number
-- Description : Exact decoding of JSON numbers
-- Stability   : internal; exempt from the version policy
--
-- Integers of up to 18 digits are read directly. A kernel gives the digits and the exponent of all
-- other numbers. Nothing wraps, and a large exponent makes a large number only after it was compared
-- with the limit.
--
-- Cost: O(digits).
-- Owner: the thread that decodes.
module Heddle.Json.Internal.Number
  ( Small (..),
    smallFrom,
    integerFrom,
    doubleFrom,
    floatFrom,
    nonFiniteFrom,
    scientificFrom,
    numberText,
  )
where

import Control.Monad (when)
import Data.Bits ((.&.))
import Data.ByteString (ByteString)
import Data.ByteString.Char8 qualified as Char8
import Data.Char (digitToInt, isDigit)
import Data.Primitive.ByteArray (readByteArray)
import Data.Ratio ((%))
import Data.Word (Word64, Word8)
import Foreign.Ptr (Ptr, minusPtr, plusPtr)
import Foreign.Storable (peek)
import GHC.Float (castDoubleToWord64, double2Float)
import Heddle.Bytes.Double (decimalToDouble, readDouble)
import Heddle.Json.Internal.Decoder
import Heddle.Json.Internal.Foreign.Read
import Heddle.Json.Internal.String (bytesFrom, inputSlice)
import Heddle.Json.Malformed (Reason (..))
import Heddle.Json.Options (NonFinite (..))
import Heddle.Prim.AddrState (At (..))

-- | An integer of at most 18 digits and where it ended; or nothing.
data Small
  = Small !(Ptr Word8) !Int
  | NotSmall

-- | Read such an integer; nothing for any other value.
--
-- [Cost]: O(digits), without a call.
smallFrom :: Env -> Ptr Word8 -> IO Small
smallFrom env start = do
  c <- byteAt env start
  if c == 0x2d then digits (start `plusPtr` 1) True else digits start False
  where
    end = envEnd env
    digits !from !minus = go from 0
      where
        go :: Ptr Word8 -> Int -> IO Small
        go !p !acc
          | p < end = do
            c <- peek p
            let digit = c - 0x30
            if
                | digit < 10 ->
                  if p `minusPtr` from < 18 then go (p `plusPtr` 1) (10 * acc + fromIntegral digit) else pure NotSmall
                | c == 0x2e || c == 0x65 || c == 0x45 -> pure NotSmall
                | otherwise -> finish p acc
          | otherwise = finish p acc
        finish !p !acc
          | len > 1 = do
            first <- peek from
            pure (if first == 0x30 || p `minusPtr` start > envNumber env then NotSmall else Small p (if minus then negate acc else acc))
          | len == 1 && p `minusPtr` start <= envNumber env = pure (Small p (if minus then negate acc else acc))
          | otherwise = pure NotSmall
          where
            len = p `minusPtr` from

-- | Scan the number that begins here. If none does, fail with the kind of value that was wanted.
answerFrom :: Env -> Ptr Word8 -> String -> IO Answer
answerFrom env p wanted = do
  c <- byteAt env p
  if beginsNumber c then scanFrom env p else wrongKind env p wanted
{-# INLINE answerFrom #-}

beginsNumber :: Word8 -> Bool
beginsNumber c = c - 0x30 < 10 || c == 0x2d
{-# INLINE beginsNumber #-}

-- | Scan what begins as a number.
scanFrom :: Env -> Ptr Word8 -> IO Answer
scanFrom env p = do
  let most = envNumber env + 1
      end = if envEnd env `minusPtr` p > most then p `plusPtr` most else envEnd env
  a <- scanNumber p end (envWords env)
  if answerStatus a /= 0 || answerOffset a >= most
    then skipValue env p >> failAt env p (NumberTooLong (envNumber env))
    else pure a
{-# INLINE scanFrom #-}

-- | An integer of any size. An exponent above this limit is refused, with this reason.
--
-- [Cost]: O(digits^1.6), counting the digits that the exponent adds.
integerFrom :: Reason -> Int -> Env -> Ptr Word8 -> IO (At Integer)
integerFrom tooLarge most env p = do
  a <- answerFrom env p "an integer"
  (digits, power) <- partsFrom env p a
  let q = p `plusPtr` answerOffset a
      sign = if isNegative a then negate else id
  if
      | digits == 0 -> pure (At q 0)
      | power > most -> failAt env p tooLarge
      | power >= 0 -> let !n = sign (digits * 10 ^ power) in pure (At q n)
      | negate power > answerOffset a -> noInteger
      | (whole, 0) <- digits `quotRem` (10 ^ negate power) -> let !n = sign whole in pure (At q n)
      | otherwise -> noInteger
  where
    noInteger = failAt env p (WrongKind "an integer" "a number with a fraction")
{-# NOINLINE integerFrom #-}

-- All digits as an integer, and the exponent of ten.
partsFrom :: Env -> Ptr Word8 -> Answer -> IO (Integer, Int)
partsFrom env p a = do
  mantissa <- readByteArray (envWords env) 0 :: IO Word64
  power <- readByteArray (envWords env) 1 :: IO Int
  pure $
    if isInexact a
      then
        let (number, _) = Char8.span (\c -> c /= 'e' && c /= 'E') (inputSlice env p (answerOffset a))
            digits = Char8.dropWhile (== '0') (Char8.filter isDigit number)
         in (readDigits digits, power - (Char8.length digits - 19))
      else (toInteger mantissa, power)

-- Splits into halves, because multiplying numbers of equal size is fastest.
readDigits :: ByteString -> Integer
readDigits digits
  | len <= 18 = toInteger (Char8.foldl' (\n c -> 10 * n + digitToInt c) 0 digits)
  | otherwise = readDigits high * 10 ^ Char8.length low + readDigits low
  where
    len = Char8.length digits
    (high, low) = Char8.splitAt (len `quot` 2) digits

-- | The number's digits as an integer, and the exponent of ten.
--
-- [Cost]: as 'integerFrom'.
scientificFrom :: Env -> Ptr Word8 -> IO (At (Integer, Int))
scientificFrom env p = do
  a <- answerFrom env p "a number"
  (digits, power) <- partsFrom env p a
  -- The kernel counts no further than 10^17. Zero has any exponent.
  let far = abs power > largest
      !n = if isNegative a then negate digits else digits
  when (far && n /= 0) (failAt env p (ExponentTooLarge largest))
  pure (At (p `plusPtr` answerOffset a) (n, if far then 0 else power))
  where
    largest = 9999999999999999

-- | The nearest double. The function decodes a value that does not begin as a number.
--
-- [Cost]: O(digits).
doubleFrom :: (Env -> Ptr Word8 -> IO (At Double)) -> Env -> Ptr Word8 -> IO (At Double)
doubleFrom other env p = do
  c <- byteAt env p
  if beginsNumber c then scanFrom env p >>= doubleOf env p else other env p
{-# INLINE doubleFrom #-}

doubleOf :: Env -> Ptr Word8 -> Answer -> IO (At Double)
doubleOf env p a = do
  let len = answerOffset a
  mantissa <- readByteArray (envWords env) 0
  power <- readByteArray (envWords env) 1
  magnitude <- if isInexact a then abs <$> readDouble p len else pure (decimalToDouble mantissa power)
  -- An infinity, which is its own half. GHC 9.2 and later compute a literal whose exponent is above 99 from
  -- integers, each time, so the greatest double is not written here.
  if magnitude > 1.0e99 && magnitude * 0.5 == magnitude
    then failAt env p (OutOfRange "Double")
    else let !x = if isNegative a then negate magnitude else magnitude in pure (At (p `plusPtr` len) x)
{-# INLINE doubleOf #-}

-- | A value that is no number as an infinity or NaN, if 'envNonFinite' allows it.
--
-- [Cost]: O(length) of a string.
nonFiniteFrom :: Env -> Ptr Word8 -> IO (At Double)
nonFiniteFrom env p = do
  c <- byteAt env p
  case envNonFinite env of
    NonFiniteNull | c == 0x6e -> do
      q <- skipValue env p
      pure (At q (0 / 0))
    NonFiniteStrings | c == 0x22 -> do
      At q name <- bytesFrom env p
      case lookup name names of
        Just x -> pure (At q x)
        Nothing -> failAt env p (Expected "a number, \"NaN\", \"Infinity\" or \"-Infinity\"")
    _ -> wrongKind env p "a number"
  where
    names = [(Char8.pack "NaN", 0 / 0), (Char8.pack "Infinity", 1 / 0), (Char8.pack "-Infinity", -1 / 0)]
{-# NOINLINE nonFiniteFrom #-}

-- | The nearest float, rounded once.
--
-- [Cost]: O(digits).
floatFrom :: Env -> Ptr Word8 -> IO (At Float)
floatFrom env p = do
  a <- answerFrom env p "a number"
  (digits, power) <- partsFrom env p a
  let len = answerOffset a
  double <- abs <$> readDouble p len
  let bits = castDoubleToWord64 double
      -- The double is halfway between two floats, or so small that floats have fewer bits.
      close = bits .&. 0x1fffffff == 0x10000000 || double < 1.2e-38
      exactly
        | power >= 0 = fromInteger (digits * 10 ^ power)
        | otherwise = fromRational (digits % (10 ^ negate power))
      magnitude
        | double == 0 || double > 1.0e39 = double2Float double
        | double < 1.0e-46 = 0
        | close = exactly
        | otherwise = double2Float double
  if isInfinite magnitude
    then failAt env p (OutOfRange "Float")
    else let !x = if isNegative a then negate magnitude else magnitude in pure (At (p `plusPtr` len) x)
{-# NOINLINE floatFrom #-}

-- | The number as written.
--
-- [Cost]: O(digits); a slice of the text.
numberText :: Env -> Ptr Word8 -> IO (At ByteString)
numberText env p = do
  a <- answerFrom env p "a number"
  let len = answerOffset a
  pure (At (p `plusPtr` len) (inputSlice env p len))
