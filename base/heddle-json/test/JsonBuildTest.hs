{-# LANGUAGE DataKinds #-}
{-# LANGUAGE OverloadedStrings #-}

-- | Builds against plain descriptions of their values, with aeson as the judge of valid JSON; strings at every
-- level of instructions against their twin in Haskell; sinks with as little room as they may have.
module JsonBuildTest
  ( tests,
  )
where

import Control.Monad (forM, forM_, unless, when)
import Data.Aeson qualified as Aeson
import Data.ByteString (ByteString)
import Data.ByteString qualified as ByteString
import Data.ByteString.Char8 qualified as Char8
import Data.ByteString.Unsafe (unsafeUseAsCStringLen)
import Data.Int (Int16, Int32, Int64, Int8)
import Data.List (intercalate)
import Data.Primitive.ByteArray (ByteArray, byteArrayFromList)
import Data.Text (Text)
import Data.Text qualified as Text
import Data.Text.Encoding (decodeUtf8With, encodeUtf8)
import Data.Text.Encoding.Error (lenientDecode)
import Data.Text.Lazy qualified as Lazy
import Data.Word (Word16, Word32, Word64, Word8)
import Foreign.C.Types (CInt)
import Foreign.Marshal.Utils (copyBytes, fillBytes)
import Foreign.Ptr (Ptr, castPtr, minusPtr, plusPtr)
import Heddle.Bytes.Double (readDouble)
import Heddle.Bytes.Put (Put, toByteString)
import Heddle.Bytes.Put.Sink (newSink, runPut, setSinkEnd)
import Heddle.Json.Build
import Heddle.Json.Internal.Escape (plainUtf16, plainUtf8)
import Heddle.Json.Internal.Foreign.Write (Progress (..), pokeUtf16, pokeUtf8)
import Heddle.Json.Options (defaultLimits)
import Heddle.Prim.Atomic (newRef, readRef, writeRef)
import Heddle.Prim.Cpu (Level, levelCode, levels)
import Heddle.Testkit.Guarded (guarded)
import Heddle.Testkit.Written (written)
import Numeric.Natural (Natural)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, assertEqual, testCase, (@?=))
import Test.Tasty.QuickCheck hiding (Fixed, total)

{- HLINT ignore "Monoid law, left identity" -}
{- HLINT ignore "Monoid law, right identity" -}
-- They are what is tested.

tests :: TestTree
tests =
  testGroup
    "Json.Build"
    [ testCase "the seed's examples" $ do
        bytes (array $ int (1 :: Int) <> int 2) @?= "[1,2]"
        bytes (array $ mixed (int (1 :: Int)) <> mixed (text "foo")) @?= "[1,\"foo\"]"
        bytes (object $ "foo" <:> int (1 :: Int) <> "bar" <:> int (3 :: Int)) @?= "{\"foo\":1,\"bar\":3}",
      testCase "what the seed's Build got wrong" $ do
        bytes (array (mempty <> (int (1 :: Int) <> int 2))) @?= "[1,2]"
        bytes (array ((mempty <> int (1 :: Int)) <> (mempty <> mempty) <> int 2 <> mempty)) @?= "[1,2]"
        bytes (object ("a" <:> object mempty)) @?= "{\"a\":{}}",
      testProperty "valid" $ \tree -> toByteString (encode (treeBuild tree)) === Char8.pack (render tree),
      testProperty "valid, says aeson" $ \tree ->
        case Aeson.eitherDecodeStrict (bytes (treeBuild tree)) of
          Left problem -> counterexample problem False
          Right value -> property (seq (value :: Aeson.Value) True),
      testProperty "with little room" $ \tree -> ioProperty $ do
        let put = encode (treeBuild tree)
        cramped <- crampedBytes put
        pure (cramped === toByteString put),
      testProperty "encoded once" $ \tree ->
        bytes (array (embedded (encoded (treeBuild tree)) <> treeBuild tree)) === bytes (array (treeBuild tree <> treeBuild tree)),
      testProperty "checked: what aeson reads is taken as it is" $ \tree ->
        fmap encodedBytes (checked defaultLimits (bytes (treeBuild tree))) === Right (bytes (treeBuild tree)),
      testCase "checked: what is no JSON is refused" $
        forM_ ["", "[1,]", "{\"a\"}", "1 2", "nul", "\"\xff\"", "[1"] $ \text_ ->
          assertBool (show text_) (either (const True) (const False) (checked defaultLimits text_)),
      testGroup "numbers" numbers,
      testGroup "strings" strings
    ]

bytes :: Build 'One a -> ByteString
bytes = toByteString . encode

-- | The description of a value.
data Tree
  = Null
  | Bool Bool
  | Int Integer
  | Decimal Integer Int
  | Double Double
  | String Text
  | Lazily [Text]
  | Chars String
  | Array (Join Tree)
  | Object (Join (Key, Tree))
  deriving stock (Show)

-- | In which way the parts are joined.
data Join a = Empty | Part a | Join a :<> Join a
  deriving stock (Show)

-- | A key as a literal has it, or as a text.
data Key = Fixed String | Dynamic Text
  deriving stock (Show)

treeBuild :: Tree -> Build c Mixed
treeBuild = \case
  Null -> mixed null_
  Bool b -> mixed (bool b)
  Int n -> mixed (int n)
  Decimal m e -> mixed (decimal m e)
  Double x -> mixed (double x)
  String t -> mixed (text t)
  Lazily ts -> mixed (lazyText (Lazy.fromChunks ts))
  Chars s -> mixed (string s)
  Array parts -> mixed (array (joined treeBuild parts))
  Object parts -> mixed (object (joined (\(key, value) -> name key <:> treeBuild value) parts))
  where
    name = \case
      Fixed s -> nameString s
      Dynamic t -> nameText t

joined :: Monoid m => (a -> m) -> Join a -> m
joined f = \case
  Empty -> mempty
  Part a -> f a
  a :<> b -> joined f a <> joined f b

parts_ :: Join a -> [a]
parts_ = joined pure

-- | The obvious renderer.
render :: Tree -> String
render = \case
  Null -> "null"
  Bool b -> if b then "true" else "false"
  Int n -> show n
  Decimal m 0 -> show m
  Decimal m e -> show m <> "e" <> show e
  Double x
    | isNaN x || isInfinite x -> "null"
    | otherwise -> Char8.unpack (bytes (double x))
  String t -> quoted t
  Lazily ts -> quoted (Text.concat ts)
  Chars s -> quoted (Text.pack s)
  Array p -> "[" <> intercalate "," (map render (parts_ p)) <> "]"
  Object p -> "{" <> intercalate "," [quoted (keyText key) <> ":" <> render value | (key, value) <- parts_ p] <> "}"
  where
    keyText = \case
      Fixed s -> Text.pack s
      Dynamic t -> t

quoted :: Text -> String
quoted t = "\"" <> concatMap escaped (Text.unpack t) <> "\""
  where
    escaped = \case
      '"' -> "\\\""
      '\\' -> "\\\\"
      '\n' -> "\\n"
      '\r' -> "\\r"
      '\t' -> "\\t"
      c
        | c < ' ' -> "\\u00" <> (if c < '\x10' then "0" else "1") <> [("0123456789abcdef" :: String) !! (fromEnum c `mod` 16)]
        | otherwise -> Char8.unpack (encodeUtf8 (Text.singleton c))

instance Arbitrary Tree where
  arbitrary = sized tree
    where
      tree n =
        oneof $
          [ pure Null,
            Bool <$> arbitrary,
            Int <$> oneof [arbitrary, (`shiftedBy` 2) <$> arbitrary, (`shiftedBy` 70) <$> arbitrary],
            Decimal <$> arbitrary <*> arbitrary,
            Double <$> oneof [arbitrary, elements [0 / 0, 1 / 0, -1 / 0, -0.0]],
            String <$> texts,
            Lazily <$> resize 4 (listOf texts),
            Chars <$> listOf characters
          ]
            <> (if n > 0 then [Array <$> joins (tree (n `div` 3)), Object <$> joins ((,) <$> keys <*> tree (n `div` 3))] else [])
      shiftedBy n k = n * 2 ^ (k :: Int)
      keys = oneof [Fixed <$> listOf characters, Dynamic <$> texts]
  shrink = \case
    Array p -> parts_ p <> [Array (foldr ((:<>) . Part) Empty q) | q <- shrinkList shrink (parts_ p)]
    Object p -> map snd (parts_ p)
    _ -> []

joins :: Gen a -> Gen (Join a)
joins part = sized go
  where
    go n
      | n <= 0 = oneof [pure Empty, Part <$> part]
      | otherwise = frequency [(1, pure Empty), (2, Part <$> part), (4, (:<>) <$> go (n `div` 2) <*> go (n `div` 2))]

texts :: Gen Text
texts = Text.pack <$> frequency [(3, listOf characters), (3, listOf (choose (' ', '~'))), (1, (`replicate` 'x') <$> choose (0, 300))]

-- | No surrogates.
characters :: Gen Char
characters =
  frequency
    [ (8, choose (' ', '~')),
      (2, elements "\"\\\n\r\t/\b\f\0\x1f\x7f"),
      (2, choose ('\x80', '\x7ff')),
      (2, choose ('\x3000', '\x30ff')),
      (1, elements "\xd7ff\xe000\xffff\x10000\x10ffff"),
      (1, choose ('\x10000', '\x10ffff'))
    ]

-- | Through a sink that never has more room than was asked for, and whose memory ends there.
crampedBytes :: Put -> IO ByteString
crampedBytes put = do
  done <- newRef []
  -- Each piece of memory is a call that returns when the next one is needed or all is done, so it is run here with
  -- memory of its own: written aside and copied out.
  current <- newRef (ByteString.replicate 0 0, 0)
  let keep p = do
        (memory, _) <- readRef current
        unsafeUseAsCStringLen memory $ \(from, len) -> do
          let used = p `minusPtr` from
          when (used < 0 || used > len - tailLength) $ fail ("wrote " <> show used <> " bytes of " <> show (len - tailLength))
          unless (ByteString.all (== 0xaa) (ByteString.drop (len - tailLength) memory)) $ fail "wrote behind the room"
          chunk <- ByteString.packCStringLen (from, used)
          readRef done >>= writeRef done . (chunk :)
      open sink need = do
        memory <- fresh (need + tailLength)
        writeRef current (memory, need)
        unsafeUseAsCStringLen memory $ \(from, _) -> do
          setSinkEnd sink (castPtr from `plusPtr` need)
          pure (castPtr from)
      more sink p need = keep p >> open sink need
  sink <-
    newSink
      more
      ( \sink p text_ -> do
          q <- more sink p (ByteString.length text_)
          unsafeUseAsCStringLen text_ $ \(from, len) -> copyBytes q (castPtr from) len >> pure (q `plusPtr` len)
      )
  start <- open sink 1
  end <- runPut put sink start
  keep end
  ByteString.concat . reverse <$> readRef done
  where
    tailLength = 64
    -- A copy of its own, which nothing else shares.
    fresh n = pure $! ByteString.copy (ByteString.replicate n 0xaa)

numbers :: [TestTree]
numbers =
  [ shows_ "Int" (arbitrary :: Gen Int),
    shows_ "Int, all lengths" (oneof [(10 ^) <$> choose (0, 18 :: Int), negate . (10 ^) <$> choose (0, 18 :: Int), elements [minBound, maxBound :: Int]]),
    shows_ "Int8" (arbitrary :: Gen Int8),
    shows_ "Int16" (arbitrary :: Gen Int16),
    shows_ "Int32" (arbitrary :: Gen Int32),
    shows_ "Int64" (arbitraryBoundedIntegral :: Gen Int64),
    shows_ "Word" (oneof [arbitraryBoundedIntegral, elements [maxBound, 2 ^ (63 :: Int)]] :: Gen Word),
    shows_ "Word8" (arbitrary :: Gen Word8),
    shows_ "Word16" (arbitrary :: Gen Word16),
    shows_ "Word32" (arbitraryBoundedIntegral :: Gen Word32),
    shows_ "Word64" (oneof [arbitraryBoundedIntegral, elements [maxBound, 2 ^ (63 :: Int)]] :: Gen Word64),
    shows_ "Integer" ((\n k -> n * 2 ^ k) <$> arbitrary <*> choose (0, 300 :: Int) :: Gen Integer),
    shows_ "Natural" ((\n k -> fromInteger (abs n) * 2 ^ k) <$> (arbitrary :: Gen Integer) <*> choose (0, 300 :: Int) :: Gen Natural),
    testProperty "double: round trip" $ \x -> ioProperty $ do
      back <- unsafeUseAsCStringLen (bytes (double x)) (\(p, n) -> readDouble (castPtr p) n)
      pure (back === x),
    testProperty "double: what aeson reads" $ \x -> Aeson.decodeStrict (bytes (array (double x))) === Just [x :: Double],
    testProperty "float: what aeson reads" $ \x -> Aeson.decodeStrict (bytes (array (float x))) === Just [x :: Float],
    testCase "what is no number is null" $ do
      forM_ [0 / 0, 1 / 0, -1 / 0] $ \x -> bytes (double x) @?= "null"
      forM_ [0 / 0, 1 / 0, -1 / 0] $ \x -> bytes (float x) @?= "null",
    testCase "decimal" $ do
      bytes (decimal 125 (-2)) @?= "125e-2"
      bytes (decimal (-7) 0) @?= "-7"
      bytes (decimal (10 ^ (30 :: Int)) maxBound) @?= "1000000000000000000000000000000e9223372036854775807"
  ]
  where
    shows_ :: (Show n, Integral n) => String -> Gen n -> TestTree
    shows_ kind gen = testProperty ("int: " <> kind) $ forAll gen $ \n -> bytes (int n) === Char8.pack (show n)

strings :: [TestTree]
strings =
  [ testProperty "text" $ forAll texts $ \t -> bytes (text t) === Char8.pack (quoted t),
    testProperty "text: a slice" $
      forAll ((,,) <$> texts <*> choose (0, 20) <*> choose (0, 20)) $ \(t, from, to) ->
        let part = Text.drop from (Text.dropEnd to t) in bytes (text part) === Char8.pack (quoted part),
    testProperty "utf8" $ forAll texts $ \t -> bytes (utf8 (encodeUtf8 t)) === bytes (text t),
    testProperty "utf8: repaired as the text package does" $
      forAll (ByteString.pack <$> listOf (oneof [arbitrary, choose (0x80, 0xff), elements [0xe0, 0xed, 0xf0, 0xf4, 0x80, 0x9f, 0xa0, 0xbf]])) $ \raw ->
        -- The text package counts maximal subparts otherwise; with those taken together both agree.
        runs (Text.unpack (decodeUtf8With lenientDecode (ByteString.drop 1 (ByteString.init (bytes (utf8 (ByteString.filter (>= 0x80) raw)))))))
          === runs (Text.unpack (decodeUtf8With lenientDecode (ByteString.filter (>= 0x80) raw))),
    testProperty "utf8: always JSON" $ \raw ->
      fmap (map Text.length) (Aeson.decodeStrict (bytes (array (utf8 (ByteString.pack raw)))))
        === Just [Text.length (decoded (bytes (utf8 (ByteString.pack raw))))],
    testCase "halves of pairs" $ do
      bytes (string "a\xd800z") @?= "\"a\xef\xbf\xbdz\""
      bytes (string "\xdfff") @?= "\"\xef\xbf\xbd\"",
    testCase "names of every kind" $ do
      bytes (object ("" <:> null_)) @?= "{\"\":null}"
      bytes (object ("a\"b\\\n" <:> null_)) @?= "{\"a\\\"b\\\\\\n\":null}"
      bytes (object ("\0" <:> null_)) @?= "{\"\\u0000\":null}"
      bytes (object ("\xe9\x3042\x1f600" <:> null_)) @?= "{\"" <> encodeUtf8 "\xe9\x3042\x1f600" <> "\":null}",
    testCase "long texts, in every sink" $
      forM_ [15000, 16383, 16384, 16385, 40000, 100000] $ \n ->
        forM_ ["x", "\x1f600", "\"", "\x3042" :: Text] $ \c -> do
          let t = Text.take n ("ab" <> Text.replicate n c)
          bytes (text t) @?= Char8.pack (quoted t)
          bytes (utf8 (encodeUtf8 t)) @?= Char8.pack (quoted t)
          crampedBytes (encode (text t)) >>= (@?= Char8.pack (quoted t)),
    testProperty "UTF-16 at every level as in Haskell" $
      forAll units $ \(array_, offset, len) -> forAll (choose (0, 6 * len + 2)) $ \space -> ioProperty $ do
        twin <- outcome space (\p -> plainUtf16 array_ offset len p space)
        others <- forM levels $ \level -> (,) level <$> outcome space (\p -> pokeUtf16 (levelCode level) array_ offset len p space)
        pure (conjoin [counterexample (show level) (other === twin) | (level, other) <- others]),
    testProperty "UTF-8 at every level as in Haskell" $
      forAll rawBytes $ \raw -> forAll (choose (0, 6 * ByteString.length raw + 2)) $ \space -> ioProperty $ do
        twin <- outcome space (\p -> onBytes raw (\from len -> plainUtf8 from len p space))
        others <- forM levels $ \level -> (,) level <$> outcome space (\p -> onBytes raw (\from len -> pokeUtf8 (levelCode level) from len p space))
        pure (conjoin [counterexample (show level) (other === twin) | (level, other) <- others]),
    testCase "UTF-8: no byte outside of the slice is read, none outside of the room written" $
      forM_ levels $ \level -> forM_ [0 .. 70] $ \n ->
        forM_ [ByteString.replicate n 0x61, ByteString.replicate n 0xe3, ByteString.snoc (ByteString.replicate n 0x61) 0xf0] $ \raw ->
          atGuards level raw,
    testCase "UTF-16: none outside of the room written" $
      forM_ levels $ \level -> forM_ [0 .. 70] $ \n ->
        forM_ [0x61, 0x3042, 0x22, 0xe9] $ \unit -> do
          let array_ = byteArrayFromList (replicate n (unit :: Word16))
          forM_ [0 .. min 80 (3 * n)] $ \space -> do
            -- The room is the last bytes before memory that must not be touched, then the first ones after.
            (a, b) <- guarded (ByteString.replicate space 0) $ \target ->
              onBytes target (\p _ -> pokeUtf16 (levelCode level) array_ 0 n p space)
            assertEqual "the same" a b
  ]
  where
    decoded quotedText = case Aeson.decodeStrict ("[" <> quotedText <> "]") of
      Just [t] -> t :: Text
      _ -> "?"
    runs = \case
      '\xfffd' : rest -> '\xfffd' : runs (dropWhile (== '\xfffd') rest)
      c : rest -> c : runs rest
      [] -> []

atGuards :: Level -> ByteString -> IO ()
atGuards level raw = do
  let code = levelCode level :: CInt
  twin <- outcome (6 * ByteString.length raw) (\p -> onBytes raw (\from len -> plainUtf8 from len p (6 * len)))
  (low, high) <- guarded raw $ \copy ->
    outcome (6 * ByteString.length raw) (\p -> onBytes copy (\from len -> pokeUtf8 code from len p (6 * len)))
  assertEqual "before a page" twin low
  assertEqual "behind a page" twin high

onBytes :: ByteString -> (Ptr Word8 -> Int -> IO a) -> IO a
onBytes raw use = unsafeUseAsCStringLen raw (\(p, n) -> use (castPtr p) n)

-- | The units taken and the bytes written, which must be within the room.
outcome :: Int -> (Ptr Word8 -> IO Progress) -> IO (Int, ByteString)
outcome space poking = do
  taken <- newRef 0
  text_ <- written space $ \p -> do
    Progress units_ count <- poking p
    writeRef taken units_
    -- Within the room, bytes after the end may have changed.
    fillBytes (p `plusPtr` count) 0xaa (space - count)
    pure (p `plusPtr` count)
  (,) <$> readRef taken <*> pure text_

-- | UTF-16, right and wrong, in an array that is longer than the text.
units :: Gen (ByteArray, Int, Int)
units = do
  before <- choose (0, 5)
  after <- choose (0, 5)
  list <- concat <$> listOf block
  pure (byteArrayFromList (replicate before 0xd83d <> list <> replicate after (0xde00 :: Word16)), before, length list)
  where
    block =
      frequency
        [ (6, choose (1, 40) >>= \n -> vectorOf n (choose (0x20, 0x7e))),
          (2, pure <$> elements [0x22, 0x5c, 0x0a, 0x00, 0x1f, 0x7f]),
          (2, choose (1, 40) >>= \n -> vectorOf n (choose (0x3000, 0x30ff))),
          (2, choose (1, 20) >>= \n -> vectorOf n (oneof [choose (0x80, 0x7ff), choose (0x800, 0xd7ff), choose (0xe000, 0xffff)])),
          (2, (\h l -> [h, l]) <$> choose (0xd800, 0xdbff) <*> choose (0xdc00, 0xdfff)),
          (1, pure <$> choose (0xd800, 0xdfff))
        ]

-- | UTF-8, right and wrong.
rawBytes :: Gen ByteString
rawBytes = ByteString.concat <$> listOf block
  where
    block =
      frequency
        [ (6, choose (1, 80) >>= \n -> ByteString.pack <$> vectorOf n (choose (0x20, 0x7e))),
          (2, ByteString.singleton <$> elements [0x22, 0x5c, 0x0a, 0x00, 0x1f, 0x7f]),
          (3, encodeUtf8 . Text.singleton <$> characters),
          (2, ByteString.pack <$> listOf (choose (0x80, 0xff))),
          (1, ByteString.pack <$> listOf (elements [0xe0, 0xed, 0xf0, 0xf4, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc2]))
        ]
