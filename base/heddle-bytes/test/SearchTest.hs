{-# LANGUAGE OverloadedStrings #-}

-- | "Heddle.Bytes.Search": its pure functions, on strings that are one block, several, or have a
-- line of several blocks.
module SearchTest (tests) where

import Data.ByteString (ByteString)
import Data.ByteString qualified as Bytes
import Data.ByteString.Char8 qualified as Char8
import Heddle.Bytes.Internal.Search (largestBlock)
import Heddle.Bytes.Search
import SearchKernelTest qualified
import SearchOracle (naiveFind, naiveLines, slice, wholeLines)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (testCase, (@?=))
import Test.Tasty.QuickCheck (Gen, chooseInt, elements, forAll, listOf1, oneof, testProperty, vectorOf, (===))

tests :: TestTree
tests =
  testGroup
    "Heddle.Bytes.Search"
    [ SearchKernelTest.tests,
      testCase "the documented examples" documented,
      testCase "empty strings and empty literals" empties,
      testCase "a literal with a newline is in no line" newlineIsInNoLine,
      testCase "needles are what they look for" $ do
        newNeedle CaseMatters "a" == newNeedle CaseMatters "a" @?= True
        newNeedle CaseMatters "a" == newNeedle IgnoreAsciiCase "a" @?= False
        show (newNeedle CaseMatters "a\n") @?= "Needle CaseMatters [\"a\\n\"]"
        newNeedles CaseMatters [] @?= Nothing
        newNeedles CaseMatters (replicate (mostLiterals + 1) "a") @?= Nothing
        fmap (`findNeedle` "xxb") (newNeedles CaseMatters (replicate (mostLiterals - 1) "a" ++ ["b"])) @?= Just (Just 2),
      testCase "strings of several blocks" severalBlocks,
      testCase "a line of several blocks" longLine,
      testProperty "bytes agree with bytestring" $
        forAll texts $ \s ->
          (findByte 10 s, findByteEnd 10 s, countByte 10 s, map (\k -> findNthByte k 10 s) [0 .. 4])
            === (Bytes.elemIndex 10 s, Bytes.elemIndexEnd 10 s, Bytes.count 10 s, Nothing : map (nth (Bytes.elemIndices 10 s)) [1 .. 4]),
      testProperty "literals and lines agree with the plain ones" $
        forAll texts $ \s -> forAll (literalsOf s) $ \literals ->
          forAll (elements [minBound .. maxBound]) $ \rule ->
            let needle = newNeedles rule literals
                found = naiveFind rule literals s 0
                expected = naiveLines rule literals s
             in (fmap (`findNeedle` s) needle, fmap (`countLinesWith` s) needle, fmap (`linesWith` s) needle)
                  === (Just (if found < 0 then Nothing else Just found), Just (length expected), Just (numbered expected)),
      testProperty "the lines of the empty literal are all" $
        forAll texts $ \s ->
          let every = linesWith (newNeedle CaseMatters "") s
           in (map lineNumber every, map (lineBytes s) every, countLines s)
                === ([1 .. length every], map (\(from, to) -> slice from (to - from) s) (wholeLines s), length every)
    ]
  where
    nth places k = if length places >= k then Just (places !! (k - 1)) else Nothing

numbered :: [(Int, Int, Int)] -> [Line]
numbered = go 1
  where
    go _ [] = []
    go next ((from, to, skipped) : rest) = Line (next + skipped) from to : go (next + skipped + 1) rest

texts :: Gen ByteString
texts = do
  n <- oneof [chooseInt (0, 20), chooseInt (0, 400)]
  Bytes.pack <$> vectorOf n (elements [10, 97, 98, 65, 0, 200])

literalsOf :: ByteString -> Gen [ByteString]
literalsOf s = take 5 <$> listOf1 (oneof [Bytes.take 3 <$> texts, part])
  where
    part = slice <$> chooseInt (0, Bytes.length s) <*> chooseInt (0, 6) <*> pure s

documented :: IO ()
documented = do
  findByte 10 "one\ntwo\n" @?= Just 3
  findByteEnd 10 "one\ntwo\nth" @?= Just 7
  findNthByte 2 10 "one\ntwo\nth" @?= Just 7
  countByte 10 "one\ntwo\nth" @?= 2
  findNeedle (newNeedle IgnoreAsciiCase "find me") "now FIND ME" @?= Just 4
  map countLines ["", "one", "one\n", "one\n\n"] @?= [0, 1, 1, 2]
  countLinesWith (newNeedle CaseMatters "o") "one\ntwo\nthree" @?= 2
  linesWith (newNeedle CaseMatters "o") "one\ntwo\nthree" @?= [Line 1 0 3, Line 2 4 7]

empties :: IO ()
empties = do
  findByte 0 "" @?= Nothing
  findByteEnd 0 "" @?= Nothing
  findNthByte 1 0 "" @?= Nothing
  countByte 0 "" @?= 0
  findNeedle nothing "" @?= Just 0
  fmap (`findNeedle` "") (newNeedles CaseMatters ["a", ""]) @?= Just (Just 0)
  findNeedle (newNeedle CaseMatters "a") "" @?= Nothing
  linesWith nothing "" @?= []
  map (countLinesWith nothing) ["", "\n", "\n\n", "a", "a\n", "a\n\nb"] @?= [0, 1, 2, 1, 1, 3]
  linesWith nothing "\n\nx" @?= [Line 1 0 0, Line 2 1 1, Line 3 2 3]
  where
    nothing = newNeedle CaseMatters ""

newlineIsInNoLine :: IO ()
newlineIsInNoLine = do
  findNeedle (newNeedle CaseMatters "a\n") "ba\n" @?= Just 1
  countLinesWith (newNeedle CaseMatters "a\n") "ba\nba\n" @?= 0
  linesWith (newNeedle CaseMatters "\n") "ba\nba\n" @?= []
  fmap (`countLinesWith` "ba\nbb\n") (newNeedles CaseMatters ["a\n", "bb"]) @?= Just 1
  countLinesWith (newNeedle CaseMatters "\n") (Bytes.replicate largestBlock 97 <> "\n") @?= 0

-- | Lines on the borders of blocks, and a literal across one.
severalBlocks :: IO ()
severalBlocks = do
  let line = "0123456789abcdef\n"
      size = Bytes.length line
      total = 3 * largestBlock `quot` size
      s = Bytes.concat (replicate total line)
      across = largestBlock - 3
      planted = Bytes.concat [Bytes.take across s, "planted", Bytes.drop (across + 7) s]
      needle = newNeedle CaseMatters "planted"
      expected = numbered (naiveLines CaseMatters ["planted"] planted)
  countByte 10 s @?= total
  countLines s @?= total
  findNthByte (total - 1) 10 s @?= Just ((total - 1) * size - 1)
  findNthByte (total + 1) 10 s @?= Nothing
  findByte 0 s @?= Nothing
  findByte 33 (s <> "!") @?= Just (Bytes.length s)
  findByteEnd 33 ("!" <> s) @?= Just 0
  findByteEnd 33 s @?= Nothing
  findNeedle needle s @?= Nothing
  findNeedle needle planted @?= Just across
  countLinesWith needle planted @?= 1
  length expected @?= 1
  linesWith needle planted @?= expected
  countLinesWith (newNeedle CaseMatters "abc") s @?= total
  map lineNumber (linesWith (newNeedle CaseMatters "abc") s) @?= [1 .. total]
  take 1 (reverse (linesWith (newNeedle CaseMatters "x") (s <> "x\n"))) @?= [Line (total + 1) (Bytes.length s) (Bytes.length s + 1)]

longLine :: IO ()
longLine = do
  let long = Bytes.replicate (2 * largestBlock) 46
      s = Bytes.concat ["first\n", long, "FIND ME", long, "\nlast FIND ME\n"]
      place = 6 + 2 * largestBlock
      end = place + 7 + 2 * largestBlock
      needle = newNeedle CaseMatters "FIND ME"
  findNeedle needle s @?= Just place
  countLinesWith needle s @?= 2
  linesWith needle s @?= [Line 2 6 end, Line 3 (end + 1) (end + 13)]
  map lineNumber (linesWith (newNeedle CaseMatters "last") s) @?= [3]
  map (Bytes.length . lineBytes s) (linesWith (newNeedle CaseMatters "first") s) @?= [5]
  countLinesWith (newNeedle CaseMatters "..\n") s @?= 0
  Char8.lines (lineBytes s (Line 3 (end + 1) (end + 13))) @?= ["last FIND ME"]
