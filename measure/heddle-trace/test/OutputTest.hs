{-# LANGUAGE OverloadedStrings #-}

-- | Files for other programs.
module OutputTest (tests) where

import Data.Bits (shiftL, testBit, (.&.), (.|.))
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Heddle.Json (decode, defaultLimits)
import Heddle.Json.Decode qualified as Json
import Heddle.Trace.Perfetto
import Heddle.Trace.Speedscope
import Heddle.Trace.Tables (titleOf)
import Logs
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (testCase, (@?=))

tests :: TestTree
tests =
  testGroup
    "outputs"
    [ testCase "speedscope's file is JSON with a profile for each core" $ do
        file <- written nasty (\h l -> writeSpeedscope h l title)
        either (const False) (const True) (decode defaultLimits Json.skip file) @?= True
        map (`occurrences` file) ["\"type\":\"evented\"", "\"type\":\"O\"", "\"type\":\"C\""] @?= [2, 41, 41],
      testCase "Perfetto's file is a sequence of packets: every begin has its end" $ do
        file <- written nasty (\h l -> writePerfetto h l title)
        let events = [kind | packet <- messagesOf 1 file, inner <- messagesOf 11 packet, kind <- numbersOf 9 inner]
        (length (filter (== 1) events), length (filter (== 2) events), length (filter (== 3) events)) @?= (41, 41, 3)
    ]
  where
    title = titleOf Nothing "a.eventlog"

occurrences :: ByteString -> ByteString -> Int
occurrences needle hay = case B.breakSubstring needle hay of
  (_, found)
    | B.null found -> 0
    | otherwise -> 1 + occurrences needle (B.drop (B.length needle) found)

-- A protocol buffer's fields.
messagesOf :: Int -> ByteString -> [ByteString]
messagesOf tag bytes = [b | (t, Right b) <- fields bytes, t == tag]

numbersOf :: Int -> ByteString -> [Int]
numbersOf tag bytes = [n | (t, Left n) <- fields bytes, t == tag]

fields :: ByteString -> [(Int, Either Int ByteString)]
fields bytes
  | B.null bytes = []
  | key .&. 7 == 0 = let (n, more) = varint rest in (key `div` 8, Left n) : fields more
  | key .&. 7 == 2 = let (n, more) = varint rest in (key `div` 8, Right (B.take n more)) : fields (B.drop n more)
  | otherwise = error ("wire type " ++ show (key .&. 7))
  where
    (key, rest) = varint bytes

varint :: ByteString -> (Int, ByteString)
varint bytes = case B.uncons bytes of
  Just (b, rest)
    | testBit b 7 -> let (n, more) = varint rest in (fromIntegral (b .&. 127) .|. (n `shiftL` 7), more)
    | otherwise -> (fromIntegral b, rest)
  Nothing -> (0, bytes)
