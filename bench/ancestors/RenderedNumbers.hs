{-# LANGUAGE RankNTypes #-}
{-# OPTIONS_GHC -Wno-identities #-}

-- | The number renderers of "What's good for C++ is good for … Haskell!?" (O'Sullivan, 2013), over the
-- text package's Builder, as printed: the naive one, digits counted in two ways, digits written one or
-- two at a time, the latter with quot and rem or with quotRem.
--
-- Where the print is no program (a missing @where@, @intTodigit@, the table of digits) it is repaired.
-- A Text's units are 16 bits in text 1, as in the print, and bytes in text 2. The types' class is the print's; the functions are specialised where they are used.
module RenderedNumbers
  ( naive,
    byFours,
    byTwelves,
    twoDigits,
    twoDigitsQuotAndRem,
    shown,
  )
where

import Control.Monad.ST (ST)
import Data.ByteString (ByteString)
import Data.ByteString.Char8 qualified as BC
import Data.ByteString.Unsafe qualified as B
import Data.Char (intToDigit)
import Data.Text.Array (MArray, unsafeWrite)
import Data.Text.Internal.Builder (Builder, fromString, singleton, writeN)
import Data.Word (Word64)

{- HLINT ignore "Eta reduce" -}
-- As printed.

-- | The first: a bounds check for every character.
naive :: (Integral a) => a -> Builder
naive = go
  where
    go n
      | n < 10 = digit n
      | otherwise = go (n `quot` 10) <> digit (n `rem` 10)
    digit n = singleton (intToDigit (fromIntegral n))
{-# INLINE naive #-}

-- | What the first was slower than.
shown :: (Show a) => a -> Builder
shown = fromString . show
{-# INLINE shown #-}

-- | Andrei's second way of counting.
countByFours :: (Integral a) => a -> Int
countByFours v0 = go 1 (fromIntegral v0 :: Word64)
  where
    go :: Int -> Word64 -> Int
    go !k v
      | v < 10 = k
      | v < 100 = k + 1
      | v < 1000 = k + 2
      | v < 10000 = k + 3
      | otherwise = go (k + 4) (v `quot` 10000)
{-# INLINE countByFours #-}

-- | Andrei's third, as a loop.
countByTwelves :: (Integral a) => a -> Int
countByTwelves v0 = go 1 (fromIntegral v0 :: Word64)
  where
    go :: Int -> Word64 -> Int
    go !k v
      | v < 10 = k
      | v < 100 = k + 1
      | v < 1000 = k + 2
      | v < 1000000000000 =
        k
          + if v < 100000000
            then
              if v < 1000000
                then
                  if v < 10000
                    then 3
                    else 4 + fin v 100000
                else 6 + fin v 10000000
            else
              if v < 10000000000
                then 8 + fin v 1000000000
                else 10 + fin v 100000000000
      | otherwise = go (k + 12) (v `quot` 1000000000000)
    fin v n = if v >= n then 1 else 0
{-# INLINE countByTwelves #-}

-- | Counted by fours, one digit at a time.
byFours :: (Integral a) => a -> Builder
byFours = positive countByFours posDecimal
{-# INLINE byFours #-}

-- | Counted by twelves, one digit at a time.
byTwelves :: (Integral a) => a -> Builder
byTwelves = positive countByTwelves posDecimal
{-# INLINE byTwelves #-}

-- | Counted by twelves, two digits at a time.
twoDigits :: (Integral a) => a -> Builder
twoDigits = positive countByTwelves (posDecimal2 quotRem)
{-# INLINE twoDigits #-}

-- | The same before the last step, with separate quotients and remainders.
twoDigitsQuotAndRem :: (Integral a) => a -> Builder
twoDigitsQuotAndRem = positive countByTwelves (posDecimal2 (\v n -> (v `quot` n, v `rem` n)))
{-# INLINE twoDigitsQuotAndRem #-}

positive :: (Integral a) => (a -> Int) -> (forall s. MArray s -> Int -> Int -> a -> ST s ()) -> a -> Builder
positive countDigits render i
  -- we win when we special-case single-digit numbers
  | i < 10 = writeN 1 $ \marr off -> unsafeWrite marr off (i2w i)
  | otherwise =
    let !n = countDigits i
     in writeN n $ \marr off -> render marr off n i
{-# INLINE positive #-}

posDecimal :: (Integral a) => forall s. MArray s -> Int -> Int -> a -> ST s ()
posDecimal marr off0 ds v0 = go (off0 + ds - 1) v0
  where
    go off v
      | v < 10 = unsafeWrite marr off (i2w v)
      | otherwise = do
        unsafeWrite marr off (i2w (v `rem` 10))
        go (off - 1) (v `div` 10)
{-# INLINE posDecimal #-}

posDecimal2 :: (Integral a) => (a -> a -> (a, a)) -> forall s. MArray s -> Int -> Int -> a -> ST s ()
posDecimal2 divided marr off0 ds v0 = go (off0 + ds - 1) v0
  where
    go off v
      | v >= 100 = do
        let (q, r) = v `divided` 100
        write2 off r
        go (off - 2) q
      | v < 10 = unsafeWrite marr off (i2w v)
      | otherwise = write2 off v
    write2 off i0 = do
      let i = fromIntegral i0
          j = i + i
      unsafeWrite marr off $ get (j + 1)
      unsafeWrite marr (off - 1) $ get j
    get = fromIntegral . B.unsafeIndex digits
{-# INLINE posDecimal2 #-}

digits :: ByteString
digits = BC.pack (concat [[intToDigit a, intToDigit b] | a <- [0 .. 9], b <- [0 .. 9]])
{-# NOINLINE digits #-}

i2w :: (Integral a, Num unit) => a -> unit
i2w v = 48 + fromIntegral v
{-# INLINE i2w #-}
