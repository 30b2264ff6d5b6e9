{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Rendezvous.Picture
-- Description : Pictures read and written
-- Stability   : example
--
-- Binary PPM and PGM (P6, P5) are read here, everything else by JuicyPixels: PNG, JPEG, BMP, GIF, TIFF and
-- more.
module Rendezvous.Picture
  ( Picture (..),
    parsePicture,
    renderPpm,
    drawn,
  )
where

import Codec.Picture (Image (..), convertRGB8, decodeImage)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.Char (isDigit, isSpace)
import Data.Vector.Storable qualified as V
import Rendezvous.Input (Complaint (..), Result, decimal)
import Rendezvous.Numbers (below, numberAt)

-- | Three bytes for each pixel, row by row.
data Picture = Picture
  { pictureWidth :: !Int,
    pictureHeight :: !Int,
    picturePixels :: !ByteString
  }
  deriving stock (Eq, Show)

-- | By what it begins with.
parsePicture :: ByteString -> Result Picture
parsePicture bytes
  | "P6" `B.isPrefixOf` bytes = netpbm 3 (B.drop 2 bytes)
  | "P5" `B.isPrefixOf` bytes = grey <$> netpbm 1 (B.drop 2 bytes)
  | otherwise = case decodeImage bytes of
    Left _ -> Left (Complaint Nothing "is not a picture that can be read (PPM, PGM, PNG, JPEG, BMP, GIF, TIFF)")
    Right image ->
      let Image width height samples = convertRGB8 image
       in Right (Picture width height (fst (B.unfoldrN (V.length samples) (\i -> Just (V.unsafeIndex samples i, i + 1)) 0)))
  where
    grey (Picture width height samples) = Picture width height (B.concatMap (B.replicate 3) samples)

-- Behind the magic number: width, height, greatest value; one white space; the samples.
netpbm :: Int -> ByteString -> Result Picture
netpbm channels text = do
  (width, afterWidth) <- header "a width" text
  (height, afterHeight) <- header "a height" afterWidth
  (greatest, afterGreatest) <- header "a greatest value" afterHeight
  let samples = B.drop 1 afterGreatest
      needed = toInteger channels * toInteger width * toInteger height
  if greatest /= 255
    then complaint ("has samples up to " <> show greatest <> "; only 255 can be read. pnmdepth 255 converts it")
    else
      if toInteger (B.length samples) < needed
        then complaint ("is " <> show width <> " by " <> show height <> " pixels, which takes " <> show needed <> " bytes, but has " <> show (B.length samples))
        else Right (Picture width height (B.take (fromInteger needed) samples))
  where
    complaint = Left . Complaint Nothing
    header what rest =
      let (digits, after) = C.span isDigit (blank rest)
       in case decimal digits of
            Just n | n > 0, Just (c, _) <- C.uncons after, isSpace c -> Right (n, after)
            _ -> complaint ("lacks " <> what <> " in its header")
    -- White space and comments.
    blank rest = case C.uncons spaceless of
      Just ('#', comment) -> blank (C.dropWhile (/= '\n') comment)
      _ -> spaceless
      where
        spaceless = C.dropWhile isSpace rest

-- | A binary PPM.
renderPpm :: Picture -> ByteString
renderPpm (Picture width height pixels) = C.pack ("P6\n" <> show width <> " " <> show height <> "\n255\n") <> pixels

-- | A picture of this size, for want of another: a slope in each colour, under noise.
drawn :: Int -> Int -> Picture
drawn width height = Picture width height (fst (B.unfoldrN (3 * width * height) (\i -> Just (shade i, i + 1)) 0))
  where
    shade i =
      let (pixel, channel) = i `quotRem` 3
          (y, x) = pixel `quotRem` width
          slope = case channel of
            0 -> x * 192 `quot` width
            1 -> y * 192 `quot` height
            _ -> 96 + (x - y) * 96 `quot` max width height
       in fromIntegral (slope + below 64 (numberAt 26 i))
