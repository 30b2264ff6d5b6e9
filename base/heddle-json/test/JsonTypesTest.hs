{-# LANGUAGE DataKinds #-}
{-# LANGUAGE OverloadedStrings #-}
-- Interfaces that a module reads without their pragmas are without them for the modules compiled after it, too.
{-# OPTIONS_GHC -O0 -fno-ignore-interface-pragmas -fdefer-type-errors -Wno-deferred-type-errors #-}

-- | What must not have a type. The errors are put off until the program runs, so that each of these expressions is
-- a test that it is one; with a counterpart that differs only in being right.
module JsonTypesTest
  ( tests,
  )
where

import Control.Exception (TypeError (..), evaluate, try)
import Data.ByteString (ByteString)
import Data.ByteString qualified as ByteString
import Heddle.Bytes.Put (toByteString)
import Heddle.Json.Build
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertFailure, testCase, (@?=))

tests :: TestTree
tests =
  testGroup
    "Json.Build: types"
    [ refused "elements of two kinds" elementsOfTwoKinds,
      accepted "mixed" (bytes (array (mixed (int one) <> mixed (text "foo")))) "[1,\"foo\"]",
      refused "an object in an object" anObjectInAnObject,
      accepted "an object in an object, with a key" (bytes (object ("o" <:> object ("a" <:> int one)))) "{\"o\":{\"a\":1}}",
      refused "a pair in an array" aPairInAnArray,
      accepted "an object in an array" (bytes (array (object ("a" <:> int one)))) "[{\"a\":1}]",
      refused "a key with two values" aKeyWithTwoValues,
      accepted "a key with an array" (bytes (object ("a" <:> array (int one <> int one)))) "{\"a\":[1,1]}",
      refused "a key without a value" aKeyWithoutAValue,
      accepted "a key with an empty array" (bytes (object ("a" <:> array noInts))) "{\"a\":[]}",
      refused "two values" twoValues,
      refused "no value" noValue,
      refused "a pair alone" aPairAlone,
      refused "a number as a key" aNumberAsAKey,
      refused "an element in an object" anElementInAnObject,
      refused "a value and a pair" aValueAndAPair,
      refused "bytes that nobody checked" bytesThatNobodyChecked
    ]

one :: Int
one = 1

noInts :: Build 'Many Int
noInts = mempty

-- Each by itself: an error that was put off is one of the whole definition.

elementsOfTwoKinds :: ByteString
elementsOfTwoKinds = bytes (array (int one <> text "foo"))

anObjectInAnObject :: ByteString
anObjectInAnObject = bytes (object (object ("a" <:> int one)))

aPairInAnArray :: ByteString
aPairInAnArray = bytes (array ("a" <:> int one))

aKeyWithTwoValues :: ByteString
aKeyWithTwoValues = bytes (object ("a" <:> (int one <> int one)))

aKeyWithoutAValue :: ByteString
aKeyWithoutAValue = bytes (object ("a" <:> mempty))

twoValues :: ByteString
twoValues = bytes (int one <> int one)

noValue :: ByteString
noValue = bytes mempty

aPairAlone :: ByteString
aPairAlone = bytes ("a" <:> int one)

aNumberAsAKey :: ByteString
aNumberAsAKey = bytes (object (int one <:> int one))

anElementInAnObject :: ByteString
anElementInAnObject = bytes (object (int one))

aValueAndAPair :: ByteString
aValueAndAPair = bytes (object ("a" <:> int one <> int one))

bytesThatNobodyChecked :: ByteString
bytesThatNobodyChecked = bytes (embedded ("[,]" :: ByteString))

bytes :: Build 'One a -> ByteString
bytes = toByteString . encode

refused :: String -> ByteString -> TestTree
refused label expression =
  testCase ("refused: " <> label) $
    try (evaluate (ByteString.length expression)) >>= \case
      Left (TypeError _) -> pure ()
      Right _ -> assertFailure ("it has a type, and became " <> show expression)

accepted :: String -> ByteString -> ByteString -> TestTree
accepted label expression expected = testCase ("accepted: " <> label) (expression @?= expected)
