{-# LANGUAGE OverloadedStrings #-}

-- | Decoding a stream of values: the laws, errors and their offsets, memory.
module StreamTest
  ( tests,
  )
where

import Control.Monad (foldM)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.IORef
import Heddle.Json.Malformed
import Heddle.Json.Options
import Heddle.Json.Stream
import JsonGen hiding (pieces)
import JsonGen qualified
import PlainCheck qualified as Plain
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (testCase, (@?=))
import Test.Tasty.QuickCheck hiding (elements)
import Test.Tasty.QuickCheck qualified as QuickCheck

tests :: TestTree
tests =
  testGroup
    "Json.Stream"
    [ testCase "the examples" $ do
        fst (feed (values defaultLimits Right) "{\"a\": 1}\n[2") @?= ["{\"a\": 1}"]
        fst (feed (elements defaultLimits Right) "[1, {\"b\": [2]}, 3") @?= ["1", "{\"b\": [2]}"],
      testProperty "streamFindsValues" . forAll sequences $ \text -> forAll (JsonGen.pieces text) $ \cut ->
        over (values loose Right) cut === expected (Plain.values loose text) id text,
      testProperty "streamFindsElements" . forAll arrays $ \text -> forAll (JsonGen.pieces text) $ \cut ->
        unpathed (over (elements loose Right) cut) === expected (Plain.elements loose text) id text,
      testProperty "streamAnyChunking" . forAll (oneof [sequences, arrays]) $ \text -> forAll (JsonGen.pieces text) $ \cut ->
        over (elements loose picky) cut === over (elements loose picky) [text] .&&. over (values loose picky) cut === over (values loose picky) [text],
      testCase "a decoder's error is at its place in the whole" $ do
        over (values loose picky) ["[1]  [", "2] \"bad\" 3"] @?= (["[1]", "[2]"], Left (Malformed 12 [] (Refused "bad")))
        over (elements loose picky) ["[[1],", "[2], \"bad\"", ", 3]"] @?= (["[1]", "[2]"], Left (Malformed 13 [InElement 2] (Refused "bad"))),
      testCase "an error within an element names it" $
        over (elements loose Right) ["[0, 1, [tru]]"] @?= (["0", "1"], Left (Malformed 11 [InElement 2] (Expected "true"))),
      testCase "aBrokenLineEndedTheStream: jsonLines reports it and goes on" $ do
        let found = overLines (jsonLines loose {limitSize = 12} picky)
        found ["[1]\n{\"a\": t", "ru}\n\n  [2] \r\n[3] [4]\n\"bad\"\n[1,\n\"", "a very long one\"\n[5]"]
          @?= [ (1, 0, Right "[1]"),
                (2, 4, Left (Malformed 13 [] (Expected "true"))),
                (4, 16, Right "  [2] \r"),
                (5, 24, Left (Malformed 28 [] TrailingBytes)),
                (6, 32, Left (Malformed 35 [] (Refused "bad"))),
                (7, 38, Left (Malformed 41 [] Truncated)),
                (8, 42, Left (Malformed 54 [] (TooLarge 12))),
                (9, 60, Right "[5]")
              ],
      testProperty "linesAnyChunking" . forAll (B.intercalate "\n" <$> resize 8 (listOf (oneof [sequences, arrays]))) $ \text -> forAll (JsonGen.pieces text) $ \cut ->
        overLines (jsonLines loose picky) cut === overLines (jsonLines loose picky) [text],
      testProperty "forEachLine acts on the same lines" . forAll (B.intercalate "\n" <$> resize 8 (listOf (oneof [sequences, arrays]))) $ \text -> forAll (JsonGen.pieces text) $ \cut ->
        ioProperty $ do
          left <- newIORef (filter (not . B.null) cut ++ [""])
          seen <- newIORef []
          let source = atomicModifyIORef' left (\case piece : rest -> (rest, piece); [] -> ([], ""))
          forEachLine (jsonLines loose picky) source $ \line -> modifyIORef' seen ((lineNumber line, lineOffset line, lineResult line) :)
          found <- readIORef seen
          pure (reverse found === overLines (jsonLines loose picky) [text]),
      testCase "a last number" $ do
        over (values loose Right) ["1 2", "3"] @?= (["1", "23"], Right ())
        over (values loose Right) ["1 2."] @?= (["1"], Left (Malformed 4 [] Truncated))
        over (values loose Right) [] @?= ([], Right ())
        over (elements loose Right) [] @?= ([], Left (Malformed 0 [] Truncated)),
      testCase "something that is no array" $
        over (elements loose Right) [" {}"] @?= ([], Left (Malformed 1 [] (WrongKind "an array" "an object"))),
      testCase "the limit is for each value" $ do
        let limits = loose {limitSize = 5}
        over (values limits Right) ["[1,2] [3,4] 12345", " \"abc\""] @?= (["[1,2]", "[3,4]", "12345", "\"abc\""], Right ())
        over (values limits Right) ["[1,2] [3,4", "5]"] @?= (["[1,2]"], Left (Malformed 11 [] (TooLarge 5))),
      testCase "twenty megabytes, a megabyte at a time" $ do
        left <- newIORef (20 :: Int)
        seen <- newIORef (0 :: Int)
        let megabyte = B.concat (replicate 65536 "{\"a\": [1, 23]}, ")
            source = do
              n <- readIORef left
              writeIORef left (n - 1)
              pure $ if n == 20 then "[" <> megabyte else if n > 0 then megabyte else if n == 0 then "0]" else ""
        result <- forEach (elements loose (Right . B.length)) source (\n -> modifyIORef' seen (+ n))
        count <- readIORef seen
        (result, count) @?= (Right (), 1310720 * 14 + 1)
    ]

-- Refuses this one string.
picky :: ByteString -> Either Malformed ByteString
picky text
  | text == "\"bad\"" = Left (Malformed 3 [] (Refused "bad"))
  | otherwise = Right text

over :: Stream a -> [ByteString] -> ([a], Either Malformed ())
over stream cut = case foldM step (stream, []) cut of
  Left (results, e) -> (results, Left e)
  Right (end, results) -> let (more, e) = finish end in (results <> more, e)
  where
    step (s, results) text = case feed s text of
      (more, Right s') -> Right (s', results <> more)
      (more, Left e) -> Left (results <> more, e)

expected :: ([(Int, Int)], Maybe Malformed) -> (ByteString -> b) -> ByteString -> ([b], Either Malformed ())
expected (spans, e) f text = ([f (B.take (to - from) (B.drop from text)) | (from, to) <- spans], maybe (Right ()) Left e)

unpathed :: (a, Either Malformed b) -> (a, Either Malformed b)
unpathed (a, e) = (a, either (\m -> Left m {malformedPath = []}) Right e)

sequences :: Gen ByteString
sequences = do
  n <- choose (0, 5 :: Int)
  mconcat <$> mapM (const ((<>) <$> frequency [(5, documentOf 4), (2, numberText), (1, pure "\"bad\""), (1, mutant)] <*> QuickCheck.elements ["", " ", "\n"])) [1 .. n]

arrays :: Gen ByteString
arrays = do
  n <- choose (0, 5 :: Int)
  inside <- mapM (const (frequency [(6, documentOf 4), (1, pure "\"bad\""), (1, mutant)])) [1 .. n]
  end <- QuickCheck.elements ["]", "]", "] ", "", "] x", ",]"]
  pure ("[" <> C.intercalate "," inside <> end)

-- | Number, offset and result of each line of a text in pieces.
overLines :: Lines a -> [ByteString] -> [(Int, Int, Either Malformed a)]
overLines start cut = map shown (go start cut)
  where
    shown line = (lineNumber line, lineOffset line, lineResult line)
    go s = \case
      [] -> finishLines s
      piece : rest -> let (found, next) = feedLines s piece in found ++ go next rest
