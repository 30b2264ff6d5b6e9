-- |
-- Module      : Heddle.MPI.Internal.Message.Scalars
-- Description : Codecs of numbers and small enumerations
-- Stability   : internal, exempt from the version policy
--
-- Invariant: little endian; what is read is checked to be a value of its type.
-- Owner: nothing is stored.
-- Cost: one store or load; linear in the digits of an 'Integer'.
module Heddle.MPI.Internal.Message.Scalars
  ( storableCodec,
    wideCodec,
    boolCodec,
    charCodec,
    integerCodec,
    naturalCodec,
    ratioCodec,
  )
where

import Control.Monad (foldM_, when)
import Data.Char (chr, ord)
import Data.Word (Word32, Word64, Word8)
import Foreign.Ptr (Ptr, castPtr, plusPtr)
import Foreign.Storable (Storable, peek, peekByteOff, poke, pokeByteOff, sizeOf)
import GHC.Num.BigNat (bigNatSize, bigNatToWordList)
import GHC.Num.Integer (Integer (..), integerFromWordList)
import GHC.Num.Natural (Natural (..), naturalFromWordList)
import GHC.Real (Ratio (..))
import Heddle.MPI.Internal.Message.Codec

-- | A number as it is in memory. Every pattern of bits must be a value.
--
-- [Cost]: one store or load.
storableCodec :: forall a. Storable a => Codec a
storableCodec = Fixed (sizeOf (undefined :: a)) (poke . castPtr) (peek . castPtr)
{-# INLINE storableCodec #-}

-- | A number whose size depends on the machine, in eight bytes.
--
-- [Cost]: one store or load.
wideCodec :: (a -> Word64) -> (Word64 -> a) -> Codec a
wideCodec back there =
  Fixed 8 (\at x -> poke (castPtr at) (back x)) (\at -> peek (castPtr at) >>= \x -> pure $! there x)
{-# INLINE wideCodec #-}

-- | 0 or 1, in one byte.
--
-- [Cost]: one store or load.
boolCodec :: Codec Bool
boolCodec = Fixed 1 (\at x -> poke at (if x then 1 else 0)) $ \at ->
  peek at >>= \case
    0 -> pure False
    1 -> pure True
    other -> refuse at ("expected a Bool, 0 or 1, found " ++ show other)
{-# INLINE boolCodec #-}

-- | The code point, in four bytes.
--
-- [Cost]: one store or load.
charCodec :: Codec Char
charCodec = Fixed 4 (\at x -> poke (castPtr at) (fromIntegral (ord x) :: Word32)) $ \at -> do
  code <- peek (castPtr at)
  when (code > (0x10ffff :: Word32)) (refuse at ("expected a Char, at most 1114111, found " ++ show code))
  pure $! chr (fromIntegral code)
{-# INLINE charCodec #-}

-- | A byte, 0: eight bytes follow, an 'Int'; 1 or 2: the number of words, and these, the
-- most significant first, of a positive or negative number.
--
-- [Cost]: linear in the words.
integerCodec :: Codec Integer
integerCodec = Varying size put get
  where
    size = \case
      IS _ -> 9
      IP n -> 9 + 8 * fromIntegral (bigNatSize n)
      IN n -> 9 + 8 * fromIntegral (bigNatSize n)
    put w x = case x of
      IS _ -> claim w 9 >>= \at -> pokeByte at 0 >> pokeByteOff at 1 (fromInteger x :: Int)
      IP n -> putWords w 1 (fromIntegral (bigNatSize n)) (bigNatToWordList n)
      IN n -> putWords w 2 (fromIntegral (bigNatSize n)) (bigNatToWordList n)
    get r = do
      at <- consume r 1
      peek at >>= \case
        0 -> consume r 8 >>= peek . castPtr >>= \x -> pure $! toInteger (x :: Int)
        1 -> getWords r >>= \list -> pure $! integerFromWordList False list
        2 -> getWords r >>= \list -> pure $! integerFromWordList True list
        other -> refuse at ("expected an Integer, of form 0 to 2, found " ++ show other)

-- | A byte, 0: eight bytes follow, a 'Word'; 1: the number of words, and these, the most
-- significant first.
--
-- [Cost]: linear in the words.
naturalCodec :: Codec Natural
naturalCodec = Varying size put get
  where
    size = \case
      NS _ -> 9
      NB n -> 9 + 8 * fromIntegral (bigNatSize n)
    put w x = case x of
      NS _ -> claim w 9 >>= \at -> pokeByte at 0 >> pokeByteOff at 1 (fromIntegral x :: Word)
      NB n -> putWords w 1 (fromIntegral (bigNatSize n)) (bigNatToWordList n)
    get r = do
      at <- consume r 1
      peek at >>= \case
        0 -> consume r 8 >>= peek . castPtr >>= \x -> pure $! fromIntegral (x :: Word)
        1 -> getWords r >>= \list -> pure $! naturalFromWordList list
        other -> refuse at ("expected a Natural, of form 0 or 1, found " ++ show other)

pokeByte :: Ptr Word8 -> Word8 -> IO ()
pokeByte = poke

putWords :: Writer -> Word8 -> Int -> [Word] -> IO ()
putWords w form n list = do
  at <- claim w (9 + 8 * n)
  pokeByte at form
  pokeByteOff at 1 n
  foldM_ (\to word -> poke (castPtr to) word >> pure (to `plusPtr` 8)) (at `plusPtr` 9) list

getWords :: Reader -> IO [Word]
getWords r = do
  n <- consumeCount r 8
  at <- consume r (8 * n)
  let go !i list
        | i < 0 = pure list
        | otherwise = peekByteOff at (8 * i) >>= \(word :: Word) -> go (i - 1) (word : list)
  go (n - 1) []

-- | Numerator and denominator, in lowest terms.
--
-- [Cost]: a greatest common divisor to read one.
ratioCodec :: Integral a => Codec (a, a) -> Codec (Ratio a)
ratioCodec = checkedCodec there (\(n :% d) -> (n, d))
  where
    there (n, d)
      | d > 0 && gcd n d == 1 = Right (n :% d)
      | otherwise = Left "expected a Ratio in lowest terms, found another"
{-# INLINE ratioCodec #-}
