{-# LANGUAGE OverloadedStrings #-}

module ScanTest (tests) where

import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.Word (Word8)
import Foreign.Ptr (Ptr)
import Heddle.Http.Internal
import Oracle (tokenChars)
import Requests (withBytes)
import Test.Tasty (TestTree, localOption, testGroup)
import Test.Tasty.HUnit (testCase, (@?=))
import Test.Tasty.QuickCheck

tests :: TestTree
tests =
  testGroup
    "Scan"
    [ testGroup
        "classes"
        [ classOf "token" isTokenByte (C.pack tokenChars),
          classOf "host" isHostByte (alphanumeric <> "-._~!$&'()*+,;="),
          classOf "path" isPathByte (alphanumeric <> "-._~!$&'()*+,;=:@/"),
          classOf "hexadecimal" isHexByte "0123456789abcdefABCDEF",
          classOf "digit" isDigitByte "0123456789",
          classOf "blank" isBlank " \t",
          classOf "field" isFieldByte (B.pack (9 : [32 .. 126] ++ [128 .. 255]))
        ],
      localOption (QuickCheckTests 3000) $
        testGroup
          "scans"
          [ scans "nameEnd" nameEnd (\b -> b < 0x21 || b == 0x3A),
            scans "valueEnd" valueEnd (not . isFieldByte),
            scans "controlEnd" controlEnd (\b -> b < 0x20 || b == 0x7F),
            scans "visibleEnd" visibleEnd (\b -> b < 0x21 || b >= 0x7F),
            scans "targetEnd" targetEnd (\b -> b < 0x21 || b == 0x7F),
            scans "tokenEnd" tokenEnd (not . isTokenByte),
            scans "blankEnd" blankEnd (not . isBlank),
            scans "findByte" (findByte 0x0A) (== 0x0A)
          ]
    ]

alphanumeric :: ByteString
alphanumeric = C.pack (['a' .. 'z'] ++ ['A' .. 'Z'] ++ ['0' .. '9'])

-- | A class holds exactly these bytes.
classOf :: String -> (Word8 -> Bool) -> ByteString -> TestTree
classOf name isMember members =
  testCase name $ filter isMember [0 .. 255] @?= filter (`B.elem` members) [0 .. 255]

-- | A scan stops where a search byte by byte stops, or at the end.
scans :: String -> (Ptr Word8 -> Int -> Int -> IO Int) -> (Word8 -> Bool) -> TestTree
scans name scan stops = testProperty name $
  forAll bytes $ \input -> forAll (choose (0, B.length input)) $ \from -> ioProperty $ do
    stop <- withBytes input (`scan` from)
    pure (stop === maybe (B.length input) (+ from) (B.findIndex stops (B.drop from input)))
  where
    -- Mostly bytes that do not stop, so that the loop by words is reached.
    bytes = B.pack <$> listOf (frequency [(20, elements (B.unpack (alphanumeric <> "\t "))), (40, elements (0x2D : [0x41 .. 0x5A] ++ [0x61 .. 0x7A])), (1, arbitrary), (1, elements [0x09, 0x0A, 0x0D, 0x1F, 0x20, 0x21, 0x3A, 0x40, 0x5B, 0x60, 0x7B, 0x7E, 0x7F, 0x80, 0xAD, 0xC1, 0xFF])])
