{-# LANGUAGE OverloadedStrings #-}

-- | The checking automaton against its plain twin, Python, node and aeson; the layouts against plain ones.
module CheckTest
  ( tests,
  )
where

import Control.Monad (forM_, unless, void, when)
import Data.Aeson qualified as Aeson
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Builder qualified as Builder
import Data.ByteString.Char8 qualified as C
import Data.ByteString.Lazy qualified as Lazy
import Data.ByteString.Unsafe qualified as B
import Data.Char (isSpace)
import Data.Either (isRight)
import Data.Text qualified as Text
import Data.Text.Encoding qualified as Text
import Data.Word (Word8)
import Foreign.Marshal.Alloc (allocaBytes)
import Foreign.Marshal.Array (peekArray, pokeArray)
import Foreign.Ptr (castPtr, plusPtr)
import Heddle.Json.Check
import Heddle.Json.Malformed
import Heddle.Json.Options
import Heddle.Prim.Cpu (Level (Plain), levels)
import Heddle.Testkit.Guarded (guarded)
import JsonGen
import Oracle
import PlainCheck qualified as Plain
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertFailure, testCase, (@?=))
import Test.Tasty.QuickCheck hiding (label)
import Test.Tasty.QuickCheck qualified as QuickCheck

tests :: TestTree
tests =
  testGroup
    "Json.Check"
    [ testCase "the examples" $ do
        check defaultLimits "[1, 2, {\"a\": null}]" @?= Right ()
        check defaultLimits "[1, 2" @?= Left (Malformed {malformedOffset = 5, malformedPath = [], malformedReason = Truncated})
        minify defaultLimits "[1, 2, {\"a b\": null}]" @?= Right "[1,2,{\"a b\":null}]"
        pretty defaultLimits 2 "[1,{}]" @?= Right "[\n  1,\n  {}\n]\n"
        relines defaultLimits "{\"a\": 1} [ ]2" @?= Right "{\"a\":1}\n[]\n2\n"
        void (feed (checker defaultLimits OneValue) "[1, 02")
          @?= Left (Malformed {malformedOffset = 5, malformedPath = [], malformedReason = Expected "no digit after a leading zero"}),
      testGroup "right and wrong" verdicts,
      testGroup "the same at every level, in any pieces" twins,
      testGroup "layout" layouts,
      testGroup "lines and columns" places,
      testGroup "other programs" oracles
    ]

-- The automaton at a level, over pieces.
run :: Level -> Limits -> Shape -> [ByteString] -> IO (Either Malformed ())
run level limits shape texts = do
  automaton <- newAutomaton level limits shape
  let go [] =
        atEnd automaton >>= \case
          Wrong e -> pure (Left e)
          _ -> pure (Right ())
      go (t : ts) =
        B.unsafeUseAsCStringLen t (\(p, n) -> advance automaton (castPtr p) n) >>= \case
          Wrong e -> pure (Left e)
          Taken -> go ts
          Begins n -> go (B.drop n t : ts)
          Ends n -> go (B.drop n t : ts)
  go texts

small :: Limits
small = defaultLimits {limitDepth = 300, limitNumber = 200}

verdicts :: [TestTree]
verdicts =
  [ testProperty "documents are right" . forAll document $ \text -> check loose text === Right (),
    testProperty "what is wrong is found where and why" . forAll (wrong small) $ \w ->
      QuickCheck.label (wrongKind w) (check small (wrongText w) === Left (Malformed (wrongOffset w) [] (wrongReason w))),
    testProperty "the twin finds it, too" . forAll (wrong small) $ \w ->
      Plain.check small (wrongText w) === Left (Malformed (wrongOffset w) [] (wrongReason w)),
    testProperty "cut off anywhere" . forAll (documentOf 10) $ \text ->
      conjoin [check loose cut === Left (Malformed (B.length cut) [] Truncated) | cut <- truncations text],
    testCase "a million levels" $ do
      let deep = C.replicate 1000000 '['
          closed = deep <> C.replicate 1000000 ']'
          objects = B.concat (replicate 1000000 "{\"\":") <> "1" <> C.replicate 1000000 '}'
      check defaultLimits deep @?= Left (Malformed 512 [] (TooDeep 512))
      check loose {limitDepth = 1000000} deep @?= Left (Malformed 1000000 [] Truncated)
      check loose {limitDepth = 1000000} closed @?= Right ()
      check loose {limitDepth = 999999} closed @?= Left (Malformed 999999 [] (TooDeep 999999))
      check loose {limitDepth = 1000000} objects @?= Right ()
      check loose {limitDepth = 1000000} (objects <> "}") @?= Left (Malformed (B.length objects) [] TrailingBytes)
      (B.length <$> pretty loose {limitDepth = 1000000} 0 closed) @?= Right (4000000 - 1),
    testCase "limits" $ do
      check small {limitDepth = 0} "1" @?= Right ()
      check small {limitDepth = 0} "[]" @?= Left (Malformed 0 [] (TooDeep 0))
      check small {limitNumber = 3} "[123]" @?= Right ()
      check small {limitNumber = 3} "[1234]" @?= Left (Malformed 1 [] (NumberTooLong 3))
      check small {limitNumber = 3} "123" @?= Right ()
      check small {limitNumber = 3} "-123" @?= Left (Malformed 0 [] (NumberTooLong 3))
      check small {limitSize = 3} "[1]" @?= Right ()
      check small {limitSize = 3} "[1] " @?= Left (Malformed 3 [] (TooLarge 3))
      check small {limitSize = 3} "[]x]" @?= Left (Malformed 2 [] TrailingBytes),
    testCase "a number of a hundred million digits ends at its limit" $
      check defaultLimits (C.replicate 100000000 '1') @?= Left (Malformed 0 [] (NumberTooLong 1024)),
    testCase "every text of up to four of these" . forM_ (concatMap words' [0 .. 4]) $ \text -> do
      when (check tiny text /= Plain.check tiny text) (assertFailure (show text))
      got <- run Plain tiny ManyValues [text]
      when (got /= many tiny text) (assertFailure ("many: " <> show text))
  ]
  where
    words' n = map C.pack (mapM (const "[]{},:\"\\0-1.eu tn\xff") [1 .. n :: Int])
    tiny = small {limitDepth = 2, limitNumber = 3}

many :: Limits -> ByteString -> Either Malformed ()
many limits text = maybe (Right ()) Left (snd (Plain.values limits text))

everyLevel :: (Level -> IO (Either Malformed ())) -> Either Malformed () -> Property
everyLevel act wanted = conjoin [ioProperty (QuickCheck.counterexample (show level) . (=== wanted) <$> act level) | level <- levels]

twins :: [TestTree]
twins =
  [ testProperty "anyChunking: of what is right" . forAll document $ \text -> forAll (pieces text) $ \cut ->
      everyLevel (\level -> run level loose OneValue cut) (Right ()),
    testProperty "anyChunking: of what is wrong" . forAll (wrong small) $ \w -> forAll (pieces (wrongText w)) $ \cut ->
      everyLevel (\level -> run level small OneValue cut) (Left (Malformed (wrongOffset w) [] (wrongReason w))),
    testProperty "anyChunking: of what may be either" . forAll mutant $ \text -> forAll (pieces text) $ \cut ->
      everyLevel (\level -> run level loose OneValue cut) (Plain.check loose text),
    testProperty "agreesWithTwin" . forAll mutant $ \text ->
      QuickCheck.classify (isRight (Plain.check loose text)) "right" (check loose text === Plain.check loose text),
    testProperty "within narrow limits" . forAll mutant $ \text ->
      forAll ((,,) <$> choose (0, 5) <*> choose (1, 8) <*> choose (4, 200)) $ \(depth, number, size) -> forAll (pieces text) $ \cut ->
        let limits = loose {limitDepth = depth, limitNumber = number, limitSize = size}
         in everyLevel (\level -> run level limits OneValue cut) (Plain.check limits text),
    testProperty "many values" . forAll several $ \text -> forAll (pieces text) $ \cut ->
      everyLevel (\level -> run level loose ManyValues cut) (many loose text),
    testProperty "announced values and elements are as many values and arrays" . forAll (oneof [several, (\t -> "[" <> t <> "]") <$> several, mutant]) $ \text -> forAll (pieces text) $ \cut ->
      everyLevel (\level -> run level loose Values cut) (many loose text)
        .&&. everyLevel (\level -> run level loose Elements cut) (maybe (Right ()) Left (snd (Plain.elements loose text))),
    testProperty "as values" . forAll mutant $ \text -> forAll (pieces text) $ \cut ->
      go (checker loose OneValue) cut === Plain.check loose text,
    testCase "every two bytes in a string, and three with a lead" $
      forM_ levels $ \level -> forM_ ([[a, b] | a <- [0 ..], b <- [0 ..]] <> [[a, b, c] | a <- leads, b <- borders, c <- borders] <> [[a, b, c, d] | a <- leads, b <- borders, c <- borders, d <- [0x7f, 0x80, 0xbf, 0xc0]]) $ \bytes -> do
        let text = "\"" <> B.pack bytes <> "..\""
        got <- run level loose OneValue [text]
        when (got /= Plain.check loose text) (assertFailure (show (level, text, got))),
    testCase "wrong bytes at every place of a block" $
      forM_ levels $ \level -> forM_ ["\xff", "\xed\xa0\x80", "\xe2\x82\&a", "\x01", "\\x", "\xf0\x9f\x98\x22"] $ \bad -> forM_ ["a", "\xe3\x81\x82", "\xc3\xa9", "\xf0\x9f\x98\x80"] $ \fill -> forM_ [0 .. 140] $ \n -> do
        let text = "\"" <> B.concat (replicate n fill) <> bad <> "\""
        got <- run level loose OneValue [text]
        when (got /= Plain.check loose text) (assertFailure (show (level, text, got))),
    testProperty "nothing outside of the text is touched" . forAll (oneof [document, mutant]) $ \text ->
      conjoin [ioProperty (guarded text (run level loose OneValue . pure) >>= \got -> pure (got === (Plain.check loose text, Plain.check loose text))) | level <- levels]
  ]
  where
    go c [] = finish c
    go c (t : ts) = feed c t >>= \c' -> go c' ts
    leads = [0xc1, 0xc2, 0xdf, 0xe0, 0xe1, 0xec, 0xed, 0xee, 0xef, 0xf0, 0xf1, 0xf3, 0xf4, 0xf5, 0xff] :: [Word8]
    borders = [0x00, 0x22, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xff] :: [Word8]

-- Values one after the other, sometimes too close to each other.
several :: Gen ByteString
several = do
  n <- choose (0, 5 :: Int)
  mconcat <$> mapM (const ((<>) <$> oneof [documentOf 4, numberText, documentOf 1, mutant] <*> elements ["", " ", "\n", "\n\n"])) [1 .. n]

-- Tokens of a right text.
tokens :: ByteString -> [ByteString]
tokens text = case C.uncons text of
  Nothing -> []
  Just ('"', rest) -> let n = 2 + closing rest in B.take n text : tokens (B.drop n text)
  Just (c, rest)
    | isSpace c -> tokens rest
    | c `elem` ("[]{},:" :: String) -> C.singleton c : tokens rest
    | otherwise -> let (a, b) = C.break (\d -> isSpace d || d `elem` ("[]{},:\"" :: String)) text in a : tokens b
  where
    closing t = case C.uncons t of
      Just ('\\', more) -> 2 + closing (B.drop 1 more)
      Just ('"', _) -> 0
      Just (_, more) -> 1 + closing more
      Nothing -> 0

-- As 'pretty' has it, from tokens; and as 'relines' has it.
plainPretty :: Int -> ByteString -> ByteString
plainPretty indent = joined . go (0 :: Int) . tokens
  where
    joined = Lazy.toStrict . Builder.toLazyByteString . mconcat . map Builder.byteString
    go depth (a : b : rest)
      | a `elem` ["[", "{"], b `elem` ["]", "}"] = a : b : next depth rest
    go depth (t : rest)
      | t `elem` ["[", "{"] = t : line (depth + 1) : go (depth + 1) rest
      | t `elem` ["]", "}"] = line (depth - 1) : t : next (depth - 1) rest
      | t == "," = t : line depth : go depth rest
      | t == ":" = ": " : go depth rest
      | otherwise = t : next depth rest
    go _ [] = []
    next depth rest
      | depth == 0 = "\n" : go depth rest
      | otherwise = go depth rest
    line depth = "\n" <> C.replicate (depth * indent) ' '

plainLines :: ByteString -> ByteString
plainLines = B.concat . go (0 :: Int) . tokens
  where
    go depth (t : rest)
      | t `elem` ["[", "{"] = t : go (depth + 1) rest
      | t `elem` ["]", "}"] = t : next (depth - 1) rest
      | t `elem` [",", ":"] = t : go depth rest
      | otherwise = t : next depth rest
    go _ [] = []
    next depth rest = ["\n" | depth == 0] <> go depth rest

-- A layout of pieces, into room of some sizes in turn.
laidOut :: Level -> Layout -> [ByteString] -> [Int] -> IO ByteString
laidOut level layout texts sizes = do
  formatter <- newFormatter level layout
  let go (t : ts) (room : rooms) done = do
        (took, out) <- step formatter t room
        go (if took == B.length t then ts else B.drop took t : ts) rooms (out : done)
      go [] rooms done = endLayout formatter >> end rooms done
      go _ [] done = pure (B.concat (reverse done))
      end (room : rooms) done = do
        (_, out) <- step formatter B.empty room
        if B.length out < room then pure (B.concat (reverse (out : done))) else end rooms (out : done)
      end [] done = pure (B.concat (reverse done))
  go texts (cycle sizes) []
  where
    -- The bytes after the room must not change.
    step formatter text room = allocaBytes (room + 8) $ \out -> B.unsafeUseAsCStringLen text $ \(p, n) -> do
      let fence = [1 .. 8] :: [Word8]
      pokeArray (out `plusPtr` room) fence
      (took, wrote) <- layOut formatter (castPtr p) n out room
      kept <- peekArray 8 (out `plusPtr` room)
      unless (kept == fence) (assertFailure "wrote behind the room")
      (,) took <$> B.packCStringLen (castPtr out, wrote)

layouts :: [TestTree]
layouts =
  [ testProperty "minifyIsIdempotent" . forAll document $ \text ->
      (minify loose text >>= minify loose) === minify loose text .&&. minify loose text === Right (B.concat (tokens text)),
    testProperty "layoutKeepsTheValue" . forAll document $ \text -> forAll (choose (0, 9)) $ \indent ->
      (pretty loose indent text >>= minify loose) === minify loose text,
    testProperty "indented as the plain layout" . forAll document $ \text -> forAll (choose (0, 9)) $ \indent ->
      pretty loose indent text === Right (plainPretty indent text),
    testProperty "lines as the plain layout" . forAll (scale (`quot` 2) (listOf (documentOf 6))) $ \texts ->
      let text = C.intercalate "\n" texts in relines loose text === Right (plainLines text),
    testProperty "at every level, in any pieces, into any room" . forAll document $ \text ->
      forAll ((,) <$> pieces text <*> listOf1 (frequency [(3, choose (1, 9)), (2, choose (1, 200)), (1, choose (1, 5000))])) $ \(cut, sizes) ->
        conjoin
          [ ioProperty (QuickCheck.counterexample (show (level, layout)) . (=== wanted) <$> laidOut level layout cut sizes)
            | level <- levels,
              (layout, wanted) <- [(Minified, B.concat (tokens text)), (Lines, plainLines text), (Indented 3, plainPretty 3 text)]
          ],
    testProperty "nothing outside of the text is touched" . forAll document $ \text ->
      let wanted = B.concat (tokens text)
       in conjoin [ioProperty ((=== (wanted, wanted)) <$> guarded text (\t -> laidOut level Minified [t] [B.length t + 1])) | level <- levels],
    testProperty "what is wrong has no output" . forAll (wrong small) $ \w ->
      minify small (wrongText w) === Left (Malformed (wrongOffset w) [] (wrongReason w))
  ]

places :: [TestTree]
places =
  [ testProperty "as counted by characters" . forAll (Text.encodeUtf8 . Text.pack <$> listOf (elements "a\n\xe9\x3042\x1f600 \r")) $ \text -> forAll (pieces text) $ \cut ->
      conjoin [ioProperty ((=== counted text) <$> placed level cut) | level <- levels],
    testProperty "of long lines" . forAll (listOf ((\n c -> B.concat (replicate n c) <> "\n") <$> choose (0, 300) <*> elements ["a", "\xc3\xa9", "\xe3\x81\x82"])) $ \texts -> forAll (pieces (B.concat texts)) $ \cut ->
      conjoin [ioProperty ((=== counted (B.concat texts)) <$> placed level cut) | level <- levels]
  ]
  where
    placed level cut = do
      place <- newPosition level
      forM_ cut (\t -> B.unsafeUseAsCStringLen t (\(p, n) -> movePosition place (castPtr p) n))
      lineColumn place
    counted text = let (ended, rest) = C.spanEnd (/= '\n') text in (1 + C.count '\n' ended, 1 + Text.length (Text.decodeUtf8 rest))

-- Python and node take lone surrogates; aeson 2.0.3, too, and control characters. Everything else is to agree.
oracles :: [TestTree]
oracles =
  [ withOracle python (testCase "Python's json.loads" . agreeing),
    withOracle node (testCase "node's JSON.parse" . agreeing),
    testProperty "aeson" . forAll (oneof [document, mutant, wrongText <$> wrong small]) $ \text ->
      case check loose text of
        Left e | malformedReason e `elem` [LoneSurrogate, ControlCharacter] -> property True
        verdict -> isRight (Aeson.eitherDecodeStrict text :: Either String Aeson.Value) === isRight verdict
  ]
  where
    agreeing make = do
      oracle <- make
      texts <- generate (vectorOf 2000 (oneof [document, mutant, wrongText <$> wrong small]))
      forM_ texts $ \text -> do
        let verdict = check loose text
            skipped = either ((== LoneSurrogate) . malformedReason) (const False) verdict
        unless skipped $ do
          answer <- ask oracle text
          when ((answer /= Invalid) /= isRight verdict) (assertFailure (show (answer, verdict, text)))
          -- Reformatting keeps the value.
          forM_ [minify loose text, pretty loose 1 text] $ \laid -> forM_ laid $ \new -> do
            meaning <- ask oracle new
            when (meaning /= answer) (assertFailure (show (text, new)))
