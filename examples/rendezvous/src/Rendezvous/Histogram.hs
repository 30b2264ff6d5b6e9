-- |
-- Module      : Rendezvous.Histogram
-- Description : Figures 26 and 27: how often each shade of each colour occurs
-- Stability   : example
--
-- Cost: a load, an addition and a store for each byte; 6 KiB for each job.
module Rendezvous.Histogram
  ( -- * Input
    Shades (..),
    pixelsOf,

    -- * Ways
    sequential,
    det,

    -- * Answer
    channelMeans,
  )
where

import Control.Monad.ST (ST)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.Primitive.PrimArray
import Data.Word (Word8)
import Heddle.Rendezvous (runDet)
import Rendezvous.Farm (farm)
import Rendezvous.Spans

-- | What is counted.
data Shades = Shades
  { -- | Three bytes for each pixel: red, green, blue.
    shadesPixels :: !(PrimArray Word8),
    -- | The picture so many times over.
    shadesTimes :: !Int
  }

-- | Copied once: in GHC 9.0, each look into a ByteString allocates.
pixelsOf :: ByteString -> PrimArray Word8
pixelsOf bytes = generatePrimArray (B.length bytes) (B.index bytes)

-- The picture in spans of so many pixels, again and again.
jobs :: Int -> Shades -> [Span]
jobs size (Shades pixels times) = concat (replicate times (spansOf size (sizeofPrimArray pixels `quot` 3)))

-- | Into one table: 256 counts of red, then of green, then of blue.
sequential :: Shades -> PrimArray Int
sequential shades = runPrimArray $ do
  table <- emptyTable
  mapM_ (countInto table (shadesPixels shades)) (jobs maxBound shades)
  pure table

-- | Workers count spans of so many pixels into tables of their own; the server adds the tables.
det :: Int -> Int -> Shades -> PrimArray Int
det workers size shades = runDet (farm workers count plus none (jobs size shades))
  where
    none = runPrimArray emptyTable
    count piece = runPrimArray $ do
      table <- emptyTable
      countInto table (shadesPixels shades) piece
      pure table

emptyTable :: ST s (MutablePrimArray s Int)
emptyTable = do
  table <- newPrimArray 768
  table <$ setPrimArray table 0 768 0

countInto :: MutablePrimArray s Int -> PrimArray Word8 -> Span -> ST s ()
countInto table pixels (Span start size) = go (3 * start)
  where
    end = 3 * (start + size)
    go i
      | i >= end = pure ()
      | otherwise = do
        add (shade i)
        add (256 + shade (i + 1))
        add (512 + shade (i + 2))
        go (i + 3)
    shade i = fromIntegral (indexPrimArray pixels i)
    add !slot = do
      count <- readPrimArray table slot
      writePrimArray table slot (count + 1)
    {-# INLINE add #-}

plus :: PrimArray Int -> PrimArray Int -> PrimArray Int
plus a b = generatePrimArray 768 (\i -> indexPrimArray a i + indexPrimArray b i)

-- | The mean shade of red, green and blue.
channelMeans :: PrimArray Int -> [Double]
channelMeans table = map mean [0, 256, 512]
  where
    mean base =
      let counts = [indexPrimArray table (base + i) | i <- [0 .. 255]]
       in fromIntegral (sum (zipWith (*) [0 ..] counts)) / fromIntegral (max 1 (sum counts))
