{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Rendezvous.Sound
-- Description : Samples read and written
-- Stability   : example
--
-- Three kinds of file: WAV with samples of 16 bits, whose channels are mixed into one; raw samples of 16
-- bits, the low byte first; and text, a number after the other. In the first two, samples lie between -1
-- and 1.
module Rendezvous.Sound
  ( Kind (..),
    kindOf,
    parseSamples,
    renderSamples,
  )
where

import Data.Bits (shiftL, (.|.))
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Builder
import Data.Char (toLower)
import Data.Int (Int16)
import Data.List (isSuffixOf)
import Data.Primitive.PrimArray
import Rendezvous.Input (Complaint (..), Result, parseDecimals)

-- | Kinds of files; a WAV has a number of samples in a second.
data Kind = Wav !Int | Raw | Numbers
  deriving stock (Eq, Show)

-- | By the name; the number of samples in a second stands until the file says another.
kindOf :: FilePath -> Kind
kindOf name
  | ends ".wav" = Wav 44100
  | ends ".raw" || ends ".pcm" || ends ".s16" = Raw
  | otherwise = Numbers
  where
    ends suffix = suffix `isSuffixOf` map toLower name

-- | The samples of a file, at least one, and its kind.
parseSamples :: Kind -> ByteString -> Result (Kind, PrimArray Double)
parseSamples kind bytes = case kind of
  Numbers -> (,) Numbers <$> parseDecimals bytes
  Raw -> (,) Raw <$> mono 1 bytes
  Wav _
    | B.take 4 bytes == "RIFF", B.take 4 (B.drop 8 bytes) == "WAVE" -> chunks Nothing (B.drop 12 bytes)
    | otherwise -> complaint "is not a WAV file"

complaint :: String -> Result a
complaint = Left . Complaint Nothing

-- A name, a size, and so many bytes, rounded up to an even number.
chunks :: Maybe (Int, Int) -> ByteString -> Result (Kind, PrimArray Double)
chunks format bytes
  | B.length bytes < 8 = complaint "has no samples: its chunk 'data' is missing"
  | name == "data" = case format of
    Nothing -> complaint "has samples before it says what they are (chunk 'fmt ')"
    -- A recorder that was cut off leaves a size that is not there.
    Just (channels, rate) -> (,) (Wav rate) <$> mono channels (B.take size body)
  | size > B.length body = complaint ("ends inside its chunk " <> show name)
  | name == "fmt " = do
    found <- fmt (B.take size body)
    chunks (Just found) next
  | otherwise = chunks format next
  where
    name = B.take 4 bytes
    size = word 4 4 bytes
    body = B.drop 8 bytes
    next = B.drop (size + size `rem` 2) body
    fmt chunk
      | B.length chunk < 16 = complaint "has a chunk 'fmt ' that is too short"
      | coding `notElem` [1, 0xFFFE] || bits /= 16 = complaint ("has samples of coding " <> show coding <> " and " <> show bits <> " bits; only plain samples of 16 bits can be read")
      | channels < 1 = complaint "has no channels"
      | otherwise = Right (channels, word 4 4 chunk)
      where
        coding = word 0 2 chunk
        channels = word 2 2 chunk
        bits = word 14 2 chunk

-- So many bytes from there, the low one first.
word :: Int -> Int -> ByteString -> Int
word start count bytes = foldr (\i n -> n `shiftL` 8 .|. fromIntegral (B.index bytes (start + i))) 0 [0 .. count - 1]

-- The mean of the channels.
mono :: Int -> ByteString -> Result (PrimArray Double)
mono channels bytes
  | rest /= 0 = complaint ("ends inside a sample: " <> show (B.length bytes) <> " bytes are not a multiple of " <> show (2 * channels))
  | count == 0 = complaint "has no samples in it"
  | otherwise = Right (generatePrimArray count (\i -> sum [sample (i * channels + c) | c <- [0 .. channels - 1]] / fromIntegral channels))
  where
    (count, rest) = B.length bytes `quotRem` (2 * channels)
    sample i = fromIntegral (fromIntegral (word (2 * i) 2 bytes) :: Int16) / 32768

-- | The file of some samples; those beyond -1 and 1 are cut in files of 16 bits.
renderSamples :: Kind -> PrimArray Double -> Builder
renderSamples kind samples = case kind of
  Numbers -> foldMap (\x -> string7 (show x) <> "\n") list
  Raw -> foldMap coded list
  Wav rate ->
    mconcat ["RIFF", word32 (36 + size), "WAVEfmt ", word32 16, word16LE 1, word16LE 1, word32 rate, word32 (2 * rate), word16LE 2, word16LE 16, "data", word32 size]
      <> foldMap coded list
  where
    list = primArrayToList samples
    size = 2 * sizeofPrimArray samples
    word32 = word32LE . fromIntegral
    coded x = int16LE (fromInteger (max (-32768) (min 32767 (round (x * 32768)))))
