{-# LANGUAGE OverloadedStrings #-}

-- | Files of numbers, samples and pixels, and malformed ones.
module InputTest
  ( tests,
  )
where

import Codec.Picture (Image (..), PixelRGB8, encodePng)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Builder (toLazyByteString)
import Data.ByteString.Char8 qualified as C
import Data.ByteString.Lazy qualified as L
import Data.List (isInfixOf)
import Data.Primitive.PrimArray
import Data.Vector.Storable qualified as V
import Rendezvous.Input
import Rendezvous.Picture
import Rendezvous.Sound
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, testCase, (@?=))
import Test.Tasty.QuickCheck

tests :: TestTree
tests =
  testGroup
    "input"
    [ testGroup "numbers" numbers,
      testGroup "pictures" pictures,
      testGroup "samples" samples,
      testGroup "complaints" complaints
    ]

-- The parser refuses, blames this line, and says this.
refuses :: Show a => Result a -> Maybe Int -> String -> IO ()
refuses result line part = case result of
  Left (Complaint at what) -> do
    at @?= line
    assertBool (show what) (part `isInfixOf` what)
  Right found -> assertBool ("expected a complaint about " <> show part <> ", but read " <> show found) False

numbers :: [TestTree]
numbers =
  [ testProperty "whole numbers" $ \(NonEmpty list) ->
      forAll (vectorOf (length list) (elements [" ", "\n", "\t", " \r\n\n "])) $ \gaps ->
        (primArrayToList <$> parseIntegers (C.concat (zipWith (\n gap -> C.pack (show n) <> gap) list gaps))) === Right (list :: [Int]),
    testCase "the extremes" $
      (primArrayToList <$> parseIntegers "-9223372036854775808 9223372036854775807") @?= Right [minBound, maxBound],
    testProperty "decimal numbers" $ \(NonEmpty list) ->
      (primArrayToList <$> parseDecimals (C.unwords (map (C.pack . show) list))) === Right (list :: [Double]),
    testCase "decimal numbers as people write them" $
      (primArrayToList <$> parseDecimals "1 -1. .5 +2.25 1e3 -1.5E-2 0010") @?= Right [1, -1, 0.5, 2.25, 1000, -0.015, 10],
    testCase "none" $ do
      refuses (parseIntegers "") Nothing "no numbers"
      refuses (parseIntegers " \n\n") Nothing "no numbers"
      refuses (parseDecimals "\n") Nothing "no numbers",
    testCase "one beyond the last" $ do
      refuses (parseIntegers "1\n9223372036854775808") (Just 2) "64 bits"
      refuses (parseIntegers "-9223372036854775809") (Just 1) "64 bits",
    testProperty "a word that is none" $
      forAll (elements ["x", "1x", "--1", "1.5", "1e3", "0x10", "1,2", "\255", C.replicate 5000 '9']) $ \bad ->
        forAll (choose (0, 5)) $ \before ->
          lineOf (parseIntegers (C.unlines (replicate before "7 8" <> ["9 " <> bad, "10"]))) === Just (Just (before + 1)),
    testProperty "a word that is no decimal number" $
      forAll (elements ["x", ".", "-", "1..2", "1e", "e3", "1e1.5", "1e999999999999", "NaN", "1,5", C.replicate 5000 '9']) $ \bad ->
        forAll (choose (0, 5)) $ \before ->
          lineOf (parseDecimals (C.unlines (replicate before "7 8" <> ["9 " <> bad, "10"]))) === Just (Just (before + 1))
  ]
  where
    lineOf = either (\(Complaint line _) -> Just line) (const Nothing)

-- Small pictures.
sizes :: Gen (Int, Int)
sizes = (,) <$> choose (1, 12) <*> choose (1, 12)

pictures :: [TestTree]
pictures =
  [ testProperty "PPM: what is written is read" $
      forAll sizes $ \(width, height) ->
        let picture = drawn width height in parsePicture (renderPpm picture) === Right picture,
    testProperty "PNG" $
      forAll sizes $ \(width, height) ->
        let picture = drawn width height
            image = Image width height (V.fromList (B.unpack (picturePixels picture))) :: Image PixelRGB8
         in parsePicture (L.toStrict (encodePng image)) === Right picture,
    testCase "PGM: three times the same" $
      parsePicture "P5 2 1 255\n\1\200" @?= Right (Picture 2 1 "\1\1\1\200\200\200"),
    testCase "comments in the header, and bytes behind the picture" $
      parsePicture "P6 # made by hand\n#\n1 #\n 1\n255\nabcrest" @?= Right (Picture 1 1 "abc"),
    testProperty "a PPM cut anywhere" $
      forAll sizes $ \(width, height) ->
        let whole = renderPpm (drawn width height)
         in forAll (choose (0, B.length whole - 1)) $ \size -> refused (B.take size whole),
    testCase "headers that are none" $ do
      refuses (parsePicture "") Nothing "not a picture"
      refuses (parsePicture "P6") Nothing "width"
      refuses (parsePicture "P6 x 1 255\nabc") Nothing "width"
      refuses (parsePicture "P6 0 1 255\n") Nothing "width"
      refuses (parsePicture "P6 1 -1 255\nabc") Nothing "height"
      refuses (parsePicture "P6 1 1") Nothing "height"
      refuses (parsePicture "P6 1 1 65535\nabcdef") Nothing "65535"
      refuses (parsePicture "P6 9223372036854775807 9223372036854775807 255\nabc") Nothing "has 3"
      refuses (parsePicture "P3 1 1 255\n1 2 3") Nothing "not a picture",
    testProperty "noise" $ \bytes -> refused (B.pack bytes),
    testProperty "noise behind PNG's magic number" $ \bytes -> refused ("\137PNG\r\n\26\n" <> B.pack bytes)
  ]
  where
    refused bytes = case parsePicture bytes of
      Left _ -> property True
      Right picture -> counterexample (show picture) False

samples :: [TestTree]
samples =
  [ testProperty "WAV and raw: what is written is read" $
      forAll (listOf1 (choose (-32768, 32767 :: Int))) $ \list -> forAll (elements [Wav 8000, Wav 48000, Raw]) $ \kind ->
        let levels = primArrayFromList (map ((/ 32768) . fromIntegral) list)
         in parseSamples kind (written kind levels) === Right (kind, levels),
    testProperty "numbers: what is written is read" $ \(NonEmpty list) ->
      parseSamples Numbers (written Numbers (primArrayFromList list)) === Right (Numbers, primArrayFromList list),
    testCase "what is too loud is cut" $
      written Raw (primArrayFromList [2, -2, 1 / 0, -1 / 0]) @?= "\255\127\0\128\255\127\0\128",
    testCase "two channels are mixed" $
      (snd <$> parseSamples (Wav 1) (wav (format 1 2 16) "\0\64\0\32")) @?= Right (primArrayFromList [0.375]),
    testCase "chunks that do not matter, of odd size" $
      parseSamples (Wav 1) ("RIFF____WAVE" <> chunk "LIST" "odd" <> chunk "fmt " (format 1 1 16) <> chunk "data" "\0\64")
        @?= Right (Wav 8000, primArrayFromList [0.5]),
    testCase "a size that is not there, as a recorder that was cut off leaves it" $
      (snd <$> parseSamples (Wav 1) ("RIFF____WAVE" <> chunk "fmt " (format 1 1 16) <> "data\255\255\255\127\0\64")) @?= Right (primArrayFromList [0.5]),
    testCase "kinds by name" $
      map kindOf ["a.wav", "A.WAV", "a.raw", "a.pcm", "a.s16", "a.txt", "wav"] @?= [Wav 44100, Wav 44100, Raw, Raw, Raw, Numbers, Numbers],
    testCase "what is no WAV" $ do
      refuses (sound "") Nothing "not a WAV"
      refuses (sound "RIFF____AVI ") Nothing "not a WAV"
      refuses (sound "RIFF____WAVE") Nothing "data"
      refuses (sound ("RIFF____WAVE" <> chunk "data" "\0\0")) Nothing "fmt"
      refuses (sound "RIFF____WAVEfmt \255\0\0\0") Nothing "ends inside"
      refuses (sound ("RIFF____WAVE" <> chunk "fmt " "\1\0\1\0")) Nothing "too short"
      refuses (sound (wav (format 3 1 16) "\0\0")) Nothing "coding 3"
      refuses (sound (wav (format 1 1 24) "\0\0\0")) Nothing "24 bits"
      refuses (sound (wav (format 1 0 16) "\0\0")) Nothing "no channels"
      refuses (sound (wav (format 1 2 16) "\0\0")) Nothing "inside a sample"
      refuses (sound (wav (format 1 1 16) "")) Nothing "no samples",
    testCase "what is no raw sound" $ do
      refuses (parseSamples Raw "") Nothing "no samples"
      refuses (parseSamples Raw "abc") Nothing "inside a sample"
  ]
  where
    written kind = L.toStrict . toLazyByteString . renderSamples kind
    sound = parseSamples (Wav 44100)

-- A WAV of a format and samples.
wav :: ByteString -> ByteString -> ByteString
wav form content = "RIFF____WAVE" <> chunk "fmt " form <> chunk "data" content

chunk :: ByteString -> ByteString -> ByteString
chunk name content = name <> B.pack [fromIntegral (B.length content), 0, 0, 0] <> content <> B.replicate (B.length content `rem` 2) 0

-- Coding, channels and bits, at 8000 samples in a second.
format :: Int -> Int -> Int -> ByteString
format coding channels bits = B.pack [fromIntegral coding, 0, fromIntegral channels, 0, 0x40, 0x1F, 0, 0, 0, 0, 0, 0, 0, 0, fromIntegral bits, 0]

complaints :: [TestTree]
complaints =
  [ testCase "file, line and what is wrong" $ complain "a.cnf" (Complaint (Just 3) "wrong") @?= "a.cnf:3: wrong",
    testCase "no line to blame" $ complain "a.ppm" (Complaint Nothing "cut") @?= "a.ppm: cut",
    testCase "long words are cut" $ assertBool "short" (length (quoted (C.replicate 1000 'x')) < 50)
  ]
