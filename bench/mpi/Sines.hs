{-# OPTIONS_GHC -fregs-graph #-}

-- | The loop of the trapezoid benchmark; its twin in C is in @c/mpi_trapezoid.c@.
--
-- GHC's own allocation of registers moves numbers between registers by an instruction that keeps half of
-- the target, and so waits for whatever was there: for some part of the sine before. Most loops with a
-- call of @sin@ lose 5 % by that, some half of their speed, as one does that converts an Int for each
-- point. Colouring (@-fregs-graph@) leaves no such move in this loop.
module Sines
  ( sines,
  )
where

-- | The sines at the points from one up to another.
--
-- A point's place is the one before and the width, as in the article; every 65,536 points it is computed
-- from its number again, so that rounding does not add up.
sines :: Double -> Double -> Int -> Int -> Double
sines !a !h !from !to = go 0 from
  where
    go :: Double -> Int -> Double
    go !found !i
      | i >= to = found
      | otherwise = go (found + row 0 i next h (a + fromIntegral i * h)) next
      where
        next = min to (i + 65536)
{-# NOINLINE sines #-}

-- | The sines at the points from one up to another, given the width and the first place.
row :: Double -> Int -> Int -> Double -> Double -> Double
row !found !i !to !h !x
  | i < to = row (found + sin x) (i + 1) to h (x + h)
  | otherwise = found
