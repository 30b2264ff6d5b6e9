{-# LANGUAGE OverloadedStrings #-}

-- | UTF-8: the laws, the regressions of other libraries, and the generators themselves.
module Utf8Test
  ( tests,
  )
where

import Control.Monad (forM_)
import Data.Bits (unsafeShiftL, (.&.), (.|.))
import Data.ByteString (ByteString)
import Data.ByteString qualified as ByteString
import Data.ByteString.Char8 qualified as Char8
import Data.Either (isLeft)
import Data.List (mapAccumL)
import Data.Text qualified as Text
import Data.Text.Encoding qualified as Text
import Heddle.Bytes.Utf8
import Heddle.Testkit.Utf8
import Heddle.Testkit.Watchdog (limitEach)
import System.Process (readProcess)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, testCase, (@?=))
import Test.Tasty.QuickCheck hiding (generate, (.&.))
import Test.Tasty.QuickCheck qualified as QuickCheck
import Utf8Automaton (verdictOf)
import Prelude hiding (length, splitAt)
import Prelude qualified

tests :: TestTree
tests = testGroup "UTF-8" [examples, laws, generators, chunks, repairs, regressions]

valid :: ByteString -> Utf8
valid = either (error . show) id . validate

examples :: TestTree
examples =
  testCase "examples" $ do
    validate "caf\xc3\xa9" @?= Right "caf\233"
    validate "caf\xc3" @?= Left (Invalid {offset = 3, subpart = 1})
    show (validate "caf\xc3\xa9") @?= "Right \"caf\\233\""
    show (validate "caf\xc3") @?= "Left (Invalid {offset = 3, subpart = 1})"
    toText "na\239ve" @?= "na\239ve"
    length "\955x" @?= 2
    splitAt 1 "\955x" @?= ("\955", "x")
    splitAtByte 2 "x\955" @?= ("x", "\955")
    decode "\xe2\x82\xac" @?= Right "\8364"
    decode "x\xed\xa0\x80" @?= Left (Invalid {offset = 1, subpart = 1})
    encode "\8364" @?= "\226\130\172"
    decodeReplacing "a\xf0\x90\x80\&b\xed\xa0\x80" @?= "a\65533b\65533\65533\65533"
    repair "a\xff" @?= "a\65533"
    spell '\8364' @?= [226, 130, 172]

laws :: TestTree
laws =
  testGroup
    "laws"
    [ testProperty "automaton" $
        forAll anyText $ \text ->
          either Just (const Nothing) (validate text) === verdictOf text,
      testProperty "text" . forAll validDocument $ \text ->
        let decoded = Text.decodeUtf8 text
         in (toText (valid text), toByteString (fromText decoded), toText (fromText decoded)) === (decoded, text, decoded),
      testProperty "short" . forAll validDocument $ \text ->
        fromShortText (toShortText (valid text)) === valid text,
      testProperty "decode" . forAll anyText $ \text -> decode text === (toText <$> validate text),
      testProperty "encode" . forAll validDocument $ \text ->
        -- Slices of a text, so that its array does not begin with it.
        forAll (choose (0, 5)) $ \n ->
          let slice = Text.drop n (Text.dropEnd n (Text.decodeUtf8 text)) in encode slice === Text.encodeUtf8 slice,
      testProperty "length" . forAll validDocument $ \text -> length (valid text) === Text.length (Text.decodeUtf8 text),
      testProperty "split" . forAll validDocument $ \text ->
        forAll (choose (-2, ByteString.length text + 2)) $ \n ->
          both toText (splitAt n (valid text)) === Text.splitAt n (Text.decodeUtf8 text),
      testProperty "split-byte" . forAll validDocument $ \text ->
        forAll (choose (-2, ByteString.length text + 2)) $ \n ->
          let (a, b) = both toByteString (splitAtByte n (valid text))
           in conjoin
                [ a <> b === text,
                  property (ByteString.length a <= max 0 n),
                  property (ByteString.length a > n - 4 || ByteString.null b),
                  verdictOf a === Nothing,
                  verdictOf b === Nothing
                ],
      testProperty "order" . forAll validText $ \a -> forAll validText $ \b ->
        compare (valid a) (valid b) === compare (Text.unpack (Text.decodeUtf8 a)) (Text.unpack (Text.decodeUtf8 b)),
      testProperty "joined" . forAll (listOf validText) $ \parts ->
        toByteString (mconcat (map valid parts)) === mconcat parts
    ]

both :: (a -> b) -> (a, a) -> (b, b)
both f (a, b) = (f a, f b)

-- | Sometimes longer than a slice of 32 KiB.
validDocument :: Gen ByteString
validDocument = frequency [(200, validText), (1, validBytes =<< choose (32700, 70000))]

anyText :: Gen ByteString
anyText =
  frequency
    [ (100, validText),
      (100, documentBytes <$> invalidDocument),
      (100, mixed),
      (25, ByteString.pack <$> arbitrary),
      (1, documentBytes <$> (invalidAfter =<< choose (32700, 70000))),
      (1, (<>) <$> (validBytes =<< choose (32700, 32800)) <*> mixed)
    ]

-- | Valid and invalid pieces, one after the other.
mixed :: Gen ByteString
mixed = ByteString.concat <$> listOf (oneof [validText, ByteString.pack . wrongBytes <$> wrong])

generators :: TestTree
generators =
  testGroup
    "generators"
    [ testGroup
        "precisely-invalid"
        [ testProperty name . forAll gen $ \(Wrong _ bytes n) -> forAll (oneof [pure "", validText]) $ \after ->
            verdictOf (ByteString.pack bytes <> after) === Just (Invalid 0 n)
          | (name, gen) <- wrongKinds
        ],
      testProperty "embedded" . forAll invalidDocument $ \document ->
        counterexample (documentKind document) $
          verdictOf (documentBytes document) === Just (invalidOf document),
      testProperty "every block offset" . withMaxSuccess 200 . conjoin $
        [ forAll (invalidAfter n) $ \document ->
            conjoin
              [ verdictOf (documentBytes document) === Just (invalidOf document),
                either Just (const Nothing) (validate (documentBytes document)) === Just (invalidOf document),
                documentOffset document === n
              ]
          | n <- [0 .. 130]
        ],
      testProperty "valid" . forAll (oneof [validText, encodedCharacter]) $ \text -> verdictOf text === Nothing,
      testProperty "of so many bytes" . forAll (choose (0, 200)) $ \n ->
        forAll (validBytes n) $ \text -> (ByteString.length text, verdictOf text) === (n, Nothing),
      testProperty "chunks" . forAll validText $ \text -> forAll (chunked text) $ \parts -> ByteString.concat parts === text,
      testCase "the truncation that the blog's decoder accepted is found within 100 cases" $ do
        documents <- QuickCheck.generate (vectorOf 100 invalidDocument)
        assertBool "accepts no invalid text" (any (truncating . documentBytes) documents)
        -- It accepts all valid text, so only its bug is found.
        texts <- QuickCheck.generate (vectorOf 100 validText)
        assertBool "accepts all valid text" (all truncating texts)
    ]
  where
    encodedCharacter = ByteString.pack . spell <$> character

-- | The blog's decoder with its bug: a state machine whose last state is not looked at, unless it
-- is the rejecting one. Does it accept the text?
truncating :: ByteString -> Bool
truncating = go (0 :: Int) 0 0
  where
    -- How many bytes are missing, what they made so far, and the least that they must make.
    go missing code least text = case ByteString.uncons text of
      Nothing -> True
      Just (b, rest)
        | missing == 0, b < 0x80 -> go 0 0 0 rest
        | missing == 0, b >= 0xc2, b < 0xe0 -> go 1 (fromIntegral b .&. 0x1f) 0x80 rest
        | missing == 0, b >= 0xe0, b < 0xf0 -> go 2 (fromIntegral b .&. 0xf) 0x800 rest
        | missing == 0, b >= 0xf0, b < 0xf5 -> go 3 (fromIntegral b .&. 7) 0x10000 rest
        | missing > 0,
          b >= 0x80,
          b < 0xc0 ->
          let next = code `unsafeShiftL` 6 .|. fromIntegral b .&. 0x3f :: Int
           in (missing > 1 || fits next least) && go (missing - 1) next least rest
        | otherwise -> False
    fits next least = next >= least && next < 0x110000 && not (next >= 0xd800 && next < 0xe000)

chunks :: TestTree
chunks =
  testGroup
    "chunks"
    [ testProperty "chunks" . forAll anyText $ \text -> forAll (chunked text) $ \parts ->
        let (end, verdicts) = mapAccumL feed start parts
            wanted = verdictOf text
         in conjoin
              [ finish end === maybe Whole Bad wanted,
                -- Of short texts, after every chunk.
                conjoin
                  [ verdict === verdictOfPrefix (ByteString.concat (take k parts))
                    | ByteString.length text < 1000,
                      (k, verdict) <- zip [1 ..] verdicts
                  ]
              ],
      testProperty "chunks-text" . forAll anyText $ \text -> forAll (chunked text) $ \parts ->
        let ((end, last_), texts) = mapAccumL (\(s, _) c -> let (t, s', v) = feedText s c in ((s', v), t)) (start, Whole) parts
            good = maybe text (\bad -> ByteString.take (offset bad) text) (verdictOf text)
         in conjoin
              [ Text.concat texts === Text.decodeUtf8 good,
                finish end === maybe Whole Bad (verdictOf text),
                last_ === if null parts then Whole else verdictOfPrefix text
              ],
      testProperty "chunks-replacing" . forAll anyText $ \text -> forAll (chunked text) $ \parts ->
        let (end, texts) = mapAccumL (\s c -> swap (feedReplacing s c)) replacing parts
         in Text.concat (texts ++ [finishReplacing end]) === decodeReplacing text,
      testProperty "complete characters do not wait" . forAll (vectorOf 3 character) $ \text ->
        let bytes = ByteString.concat (map (ByteString.pack . spell) text)
            (texts, _, verdict) = feedText start bytes
         in (texts, verdict) === (Text.pack text, Whole)
    ]
  where
    swap (a, b) = (b, a)

-- | The verdict after these bytes, if more may follow.
verdictOfPrefix :: ByteString -> Verdict
verdictOfPrefix text = case verdictOf text of
  Nothing -> Whole
  Just bad
    -- With the rest of a character it could be valid.
    | offset bad + subpart bad == ByteString.length text,
      any (\more -> null' (verdictOf (text <> more))) continuations ->
      Partial
    | otherwise -> Bad bad
  where
    null' = maybe True (const False)
    continuations = [ByteString.pack (b : replicate n 0x80) | b <- [0x80, 0x90, 0xa0], n <- [0 .. 2]]

repairs :: TestTree
repairs =
  testGroup
    "replacement"
    [ testProperty "repair" . forAll anyText $ \text ->
        conjoin
          [ toText (repair text) === decodeReplacing text,
            verdictOf (toByteString (repair text)) === Nothing,
            if verdictOf text == Nothing then toByteString (repair text) === text else property True
          ],
      testCase "python" $ do
        documents <- QuickCheck.generate (vectorOf 2000 anyText)
        answers <- lines <$> readProcess "python3" ["-E", "-c", program] (unlines (map hex documents))
        forM_ (zip documents answers) $ \(text, answer) -> hex (encode (decodeReplacing text)) @?= answer
        Prelude.length answers @?= Prelude.length documents
    ]
  where
    program =
      "import sys\n\
      \for line in sys.stdin:\n\
      \  print(bytes.fromhex(line.strip()).decode('utf-8', 'replace').encode('utf-8').hex())"
    hex = concatMap digits . ByteString.unpack
    digits b = [Char8.index "0123456789abcdef" (fromIntegral n) | n <- [b `quot` 16, b `rem` 16]]

regressions :: TestTree
regressions =
  limitEach 60000000 $
    testGroup
      "regressions"
      [ -- bytestring #575, text #490
        testCase "asciiPathForgetsCarriedState" . forM_ [0 .. 300] $ \n -> forM_ beginnings $ \bad ->
          validate (spaces n <> bad <> spaces 200) @?= Left (Invalid n (ByteString.length bad)),
        -- bytestring #620
        testCase "vectorTailReadsBeforeSlice" . forM_ [0 .. 140] $ \n -> do
          let text = ByteString.concat [spaces 70, "\xe2\x82\xac", spaces n]
              slice = ByteString.drop 71 text
          assertBool "the lead before the slice counts" (validate slice == Left (Invalid 0 1))
          assertBool "the bytes behind the slice count" (validate (ByteString.take 72 text) == Left (Invalid 70 2)),
        -- text #540
        testCase "offsetIsOfTheWholeNotOfTheChunk" $ do
          let (state, first) = feed start "0123\xe2"
          first @?= Partial
          snd (feed state "\x82z") @?= Bad (Invalid 4 2)
          finish state @?= Bad (Invalid 4 1)
          let (state', _) = feed state "\x82\xac\&89"
          snd (feed state' "\xff") @?= Bad (Invalid 9 1),
        -- text #528
        testCase "streamingDropsAByte" $ do
          let parts = map ByteString.singleton (ByteString.unpack (ByteString.concat (replicate 3 "\xf0\x9f\x98\x80\&a\xe2\x82\xac")))
              (end, texts) = mapAccumL (\s c -> let (t, s', _) = feedText s c in (s', t)) start parts
          (Text.concat texts, finish end) @?= (Text.replicate 3 "\x1f600\&a\x20ac", Whole),
        -- text #495
        testCase "replacementIsQuadratic" . forM_ ["\xff", "\x80", "\xf0\x90", "a\xe2\x82", "\xc0\xaf"] $ \piece -> do
          let copies = 400000
              text = ByteString.concat (replicate copies piece)
              wanted = Text.replicate copies (decodeReplacing piece)
          decodeReplacing text @?= wanted
          toText (repair text) @?= wanted,
        testCase "chunksOfOneByteAreQuadratic" $ do
          let bytes = 200000
              go state n
                | n == (0 :: Int) = (finishReplacing state, 0)
                | otherwise = let (t, s) = feedReplacing state "\x80" in (Text.length t +) <$> go s (n - 1)
          go replacing bytes @?= ("", bytes),
        -- text 1.2: F0 90 80 41 gave three.
        testCase "aBrokenCharacterIsOneReplacement" $ do
          decodeReplacing "\xf0\x90\x80\x41" @?= "\xfffd\&A"
          decodeReplacing "\xe2\x82\x41" @?= "\xfffd\&A"
          decodeReplacing "\xf4\x90\x80\x80" @?= "\xfffd\xfffd\xfffd\xfffd",
        -- aeson and others: text that ends within a character was cut without a word.
        testCase "truncatedEndIsAccepted" . forM_ beginnings $ \bad -> forM_ [0, 1, 63, 64, 65, 127, 128] $ \n -> do
          assertBool (show (n, bad)) (isLeft (validate (spaces n <> bad)))
          decode (spaces n <> bad) @?= Left (Invalid n (ByteString.length bad))
          decodeReplacing (spaces n <> bad) @?= Text.replicate n " " <> "\xfffd",
        testCase "sliceEndsWithinACharacter" . forM_ [32768 - 5 .. 32768 + 5] $ \n ->
          forM_ ["\xe6\xbc\xa2", "\xf0\x9f\x98\x80", "\xc3\xa9", "\x80\x80\x80\x80\x80", "\xe6\xbc", "\xf0\x9f\x98"] $ \piece -> do
            let text = spaces n <> piece <> spaces 40000
            either Just (const Nothing) (validate text) @?= verdictOf text
            decode text @?= maybe (Right (Text.decodeUtf8 text)) Left (verdictOf text)
      ]
  where
    spaces n = ByteString.replicate n 0x20
    beginnings :: [ByteString]
    beginnings = ["\xc2", "\xdf", "\xe0\xa0", "\xe2", "\xe2\x82", "\xed\x9f", "\xf0\x90", "\xf0\x9f\x98", "\xf4\x8f\xbf", "\xf1"]

invalidOf :: Document -> Invalid
invalidOf document = Invalid {offset = documentOffset document, subpart = documentSubpart document}
