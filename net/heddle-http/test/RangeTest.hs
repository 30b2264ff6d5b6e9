{-# LANGUAGE OverloadedStrings #-}

module RangeTest (tests) where

import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.Int (Int64)
import Data.List (nub, sort)
import Data.List.NonEmpty (NonEmpty (..), toList)
import Heddle.Http.Range
import Test.Tasty (TestTree, localOption, testGroup)
import Test.Tasty.HUnit (testCase, (@?=))
import Test.Tasty.QuickCheck

tests :: TestTree
tests =
  testGroup
    "Range"
    [ testGroup "parseRange" [testCase (show (B.take 60 header, size)) (parseRange header size @?= expected) | (header, size, expected) <- table],
      localOption (QuickCheckTests 3000) . testProperty "parts" $
        forAll specs $ \wanted -> forAll (choose (1, 30)) $ \size ->
          let header = "bytes=" <> C.intercalate "," (map spell wanted)
              asked = sort (nub (concatMap (bytesOf size) wanted))
           in counterexample (show header) $ case parseRange header size of
                RangeIgnored -> counterexample "ignored" False
                RangeUnsatisfiable -> asked === []
                RangeParts parts ->
                  conjoin
                    [ sort (concatMap covered (toList parts)) === asked,
                      property (all (\r -> rangeFirst r >= 0 && rangeLast r < size && rangeLength r > 0) parts),
                      -- Parts that touch have been joined.
                      property (and [rangeLast a + 1 /= rangeFirst b | a <- toList parts, b <- toList parts])
                    ],
      localOption (QuickCheckTests 1000) . testProperty "only invalid" $
        forAll invalid $ \header -> parseRange header 100 === RangeIgnored,
      testProperty "total" $ \bytes size -> parseRange ("bytes=" <> B.pack bytes) size `seq` True,
      testCase "the most ranges, and one more" $ do
        let header n = "bytes=" <> C.intercalate "," [C.pack (show i <> "-" <> show i) | i <- take n [0 :: Int, 2 ..]]
        case parseRange (header mostRanges) 1000 of
          RangeParts parts -> length parts @?= mostRanges
          other -> fail (show other)
        parseRange (header (mostRanges + 1)) 1000 @?= RangeIgnored,
      testCase "Content-Range" $ do
        contentRange (ByteRange 0 499) 1234 @?= "bytes 0-499/1234"
        contentRangeUnsatisfied 1234 @?= "bytes */1234"
    ]

table :: [(ByteString, Int64, RangeAnswer)]
table =
  [ ("bytes=0-499", 10000, one 0 499),
    ("bytes=500-999", 10000, one 500 999),
    ("bytes=-500", 10000, one 9500 9999),
    ("bytes=9500-", 10000, one 9500 9999),
    ("bytes=0-0,-1", 10000, RangeParts (ByteRange 0 0 :| [ByteRange 9999 9999])),
    ("bytes= 0-999, 4500-5499, -1000", 10000, RangeParts (ByteRange 0 999 :| [ByteRange 4500 5499, ByteRange 9000 9999])),
    ("bytes=500-600,601-999", 10000, one 500 999),
    ("bytes=500-700,601-999", 10000, one 500 999),
    ("BYTES=1-2", 10, one 1 2),
    ("bytes=0-99999999999999999999999", 10, one 0 9),
    ("bytes=-99999999999999999999999", 10, one 0 9),
    ("bytes=10-", 10, RangeUnsatisfiable),
    ("bytes=-0", 10, RangeUnsatisfiable),
    ("bytes=99999999999999999999999-", 10, RangeUnsatisfiable),
    ("bytes=20-30,5-6", 10, one 5 6),
    ("bytes=0-", 0, RangeUnsatisfiable),
    ("bytes=-5", 0, RangeIgnored),
    ("bytes=5-6,0-1", 10, RangeParts (ByteRange 5 6 :| [ByteRange 0 1])),
    ("bytes=0-1,8-9,1-8", 10, one 0 9),
    ("bytes=,0-1, ,", 10, one 0 1),
    ("bytes=", 10, RangeIgnored),
    ("bytes=,", 10, RangeIgnored),
    ("bytes=-", 10, RangeIgnored),
    ("bytes=2-1", 10, RangeIgnored),
    ("bytes=1", 10, RangeIgnored),
    ("bytes=1-2-3", 10, RangeIgnored),
    ("bytes=a-b", 10, RangeIgnored),
    ("bytes 0-1", 10, RangeIgnored),
    ("items=0-1", 10, RangeIgnored),
    ("", 10, RangeIgnored)
  ]
  where
    one first final = RangeParts (ByteRange first final :| [])

data Wanted = Wanted Int64 (Maybe Int64) | Last Int64
  deriving stock (Show)

specs :: Gen [Wanted]
specs = resize 12 (listOf1 (oneof [closed, open, Last <$> choose (0, 40)]))
  where
    closed = do
      first <- choose (0, 40)
      Wanted first . Just <$> choose (first, 50)
    open = (`Wanted` Nothing) <$> choose (0, 40)

spell :: Wanted -> ByteString
spell = \case
  Wanted first final -> C.pack (show first ++ "-" ++ maybe "" show final)
  Last n -> C.pack ('-' : show n)

bytesOf :: Int64 -> Wanted -> [Int64]
bytesOf size wanted = filter inside [0 .. size - 1]
  where
    inside i = case wanted of
      Wanted first final -> i >= first && maybe True (i <=) final
      Last n -> i >= size - n

covered :: ByteRange -> [Int64]
covered (ByteRange first final) = [first .. final]

-- | Headers with one fault each, among ranges that are right.
invalid :: Gen ByteString
invalid = do
  fault <- elements ["-", "1", "a-1", "1-a", "2-1", "1-2-3", "--1", "+1-2", "1 -2", "1- 2", "0x1-2", "*", "1-\0"]
  before <- elements ["", "0-1,"]
  after <- elements ["", ",5-6"]
  pure (B.concat ["bytes=", before, fault, after])
