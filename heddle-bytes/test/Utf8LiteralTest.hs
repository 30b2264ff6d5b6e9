{-# LANGUAGE OverloadedStrings #-}

-- | String literals of type 'Utf8': what they are, and how large.
module Utf8LiteralTest
  ( tests,
  )
where

import Data.ByteString qualified as ByteString
import Data.Char (isHexDigit)
import Data.List (isInfixOf)
import Data.String (fromString)
import Data.Text qualified as Text
import Heddle.Bytes.Utf8 (Utf8, toByteString, toText)
import Heddle.Prim.Literal (literalBytes)
import Numeric (readHex)
import System.Environment (getExecutablePath)
import System.Process (readProcess)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, testCase, (@?=))
import Test.Tasty.QuickCheck (testProperty, (===))
import Utf8LiteralHundred (hundred)

tests :: TestTree
tests =
  testGroup
    "literals"
    [ testCase "the bytes of the characters" $ do
        toByteString "plain" @?= ByteString.pack [0x70, 0x6c, 0x61, 0x69, 0x6e]
        toByteString "" @?= ByteString.empty
        toByteString "\955\8364\x1f600" @?= ByteString.pack [0xce, 0xbb, 0xe2, 0x82, 0xac, 0xf0, 0x9f, 0x98, 0x80]
        literalBytes "\955x" @?= ByteString.pack [206, 187, 120],
      testCase "nulInLiteralIsTwoBytes" $ do
        toByteString "a\0b" @?= ByteString.pack [0x61, 0, 0x62]
        toByteString "\0" @?= ByteString.pack [0]
        toByteString "\0\955\0" @?= ByteString.pack [0, 0xce, 0xbb, 0],
      testCase "surrogateInLiteralIsNotUtf8" $ do
        toText "a\xd800z" @?= "a\xfffdz"
        toText "\xdfff" @?= "\xfffd"
        toText "\xd7ff\xe000" @?= "\xd7ff\xe000",
      testProperty "strings that are no literals" $ \text -> toText (fromString text :: Utf8) === Text.pack text,
      testCase "a literal of 22 bytes is at most 200 bytes of program" $ do
        assertBool "the literals are there" (sum (map (ByteString.length . toByteString) hundred) == 2200)
        program <- getExecutablePath
        symbols <- readProcess "nm" [program] ""
        -- Each kind of section has the module's symbols next to each other.
        let places =
              [ (kind, address)
                | [number, [kind], name] <- map words (lines symbols),
                  "Utf8LiteralHundred" `isInfixOf` name,
                  all isHexDigit number,
                  [(address, "")] <- [readHex number :: [(Int, String)]]
              ]
            size kind = case [address | (k, address) <- places, k == kind] of
              [] -> 0
              at -> maximum at - minimum at
            total = sum (map size "tTdDrRbB")
        assertBool ("symbols of the module: " <> show (length places)) (not (null places))
        assertBool (show total <> " bytes for 100 literals") (total <= 20000)
    ]
