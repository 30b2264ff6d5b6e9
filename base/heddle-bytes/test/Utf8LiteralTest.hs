{-# LANGUAGE OverloadedStrings #-}

-- | String literals of type 'Utf8'.
module Utf8LiteralTest
  ( tests,
  )
where

import Data.ByteString qualified as ByteString
import Data.String (fromString)
import Data.Text qualified as Text
import Heddle.Bytes.Utf8 (Utf8, toByteString, toText)
import Heddle.Prim.Literal (literal)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (testCase, (@?=))
import Test.Tasty.QuickCheck (testProperty, (===))

tests :: TestTree
tests =
  testGroup
    "literals"
    [ testCase "the bytes of the characters" $ do
        toByteString "plain" @?= ByteString.pack [0x70, 0x6c, 0x61, 0x69, 0x6e]
        toByteString "" @?= ByteString.empty
        toByteString "\955\8364\x1f600" @?= ByteString.pack [0xce, 0xbb, 0xe2, 0x82, 0xac, 0xf0, 0x9f, 0x98, 0x80]
        literal "\955x" @?= ByteString.pack [206, 187, 120],
      testCase "nulInLiteralIsTwoBytes" $ do
        toByteString "a\0b" @?= ByteString.pack [0x61, 0, 0x62]
        toByteString "\0" @?= ByteString.pack [0]
        toByteString "\0\955\0" @?= ByteString.pack [0, 0xce, 0xbb, 0],
      testCase "surrogateInLiteralIsNotUtf8" $ do
        toText "a\xd800z" @?= "a\xfffdz"
        toText "\xdfff" @?= "\xfffd"
        toText "\xd7ff\xe000" @?= "\xd7ff\xe000",
      testProperty "strings that are no literals" $ \text -> toText (fromString text :: Utf8) === Text.pack text
    ]
