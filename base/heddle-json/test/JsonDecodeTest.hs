{-# LANGUAGE OverloadedStrings #-}

-- | Decoding JSON: against the plain checker for what is refused and where, against aeson for what is
-- made, at every level of instructions and between pages that must not be read.
module JsonDecodeTest
  ( tests,
  )
where

import Control.Concurrent (forkIO, killThread, newEmptyMVar, putMVar, readMVar, takeMVar, tryPutMVar)
import Control.Monad (forM_, void)
import Data.Aeson qualified as Aeson
import Data.Aeson.Key qualified as Aeson.Key
import Data.Aeson.KeyMap qualified as KeyMap
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.ByteString.Short qualified as Short
import Data.Either (fromRight, isLeft)
import Data.Foldable (toList)
import Data.Int (Int16, Int32, Int64, Int8)
import Data.List (isInfixOf)
import Data.Map.Strict (Map)
import Data.Map.Strict qualified as Map
import Data.Maybe (catMaybes, fromMaybe, listToMaybe)
import Data.Primitive.PrimArray (PrimArray, primArrayToList)
import Data.Scientific qualified as Scientific
import Data.Text (Text)
import Data.Text qualified as Text
import Data.Text.Encoding qualified as Text
import Data.Word (Word16, Word32, Word64, Word8)
import Heddle.Json.Decode
import Heddle.Json.Malformed
import Heddle.Prim.Cpu (levels)
import Heddle.Prim.Exception (SomeException, evaluate, try)
import Heddle.Prim.Unsafe (unsafePure)
import Heddle.Testkit.Guarded (guarded)
import JsonGen hiding (numberText, pieces)
import JsonGen qualified
import PlainCheck qualified as Plain
import System.Mem (getAllocationCounter)
import Test.Tasty (TestTree, adjustOption, testGroup)
import Test.Tasty.HUnit (assertBool, assertFailure, testCase, (@?=))
import Test.Tasty.QuickCheck hiding (reason)

-- | Any value, all of it.
data Tree
  = Null
  | Bool !Bool
  | Number !Integer !Int
  | String !Text
  | Array ![Tree]
  | Object ![(Text, Tree)]
  deriving stock (Eq, Show)

tree :: Decoder Tree
tree = byKind $ \case
  KindNull -> Null <$ null_
  KindBool -> Bool <$> bool
  KindNumber -> uncurry Number <$> decimal
  KindString -> String <$> text
  KindArray -> Array <$> list tree
  KindObject -> Object . reverse <$> foldMembers (\members key x -> (key, x) : members) [] tree

-- With numbers as long as the decoder can have them, and depth within the stack.
wide :: Limits
wide = loose {limitNumber = 30000, limitDepth = 2000}

tests :: TestTree
tests =
  adjustOption (min (500 :: QuickCheckTests)) $
    testGroup
      "Json.Decode"
      [ testGroup "refuses" refusals,
        testGroup "values" values,
        testGroup "numbers" numbers,
        testGroup "strings" strings,
        testGroup "arrays and maps" arrays,
        testGroup "choices" choices,
        testGroup "large" large
      ]

-- The plain checker's offset and reason.
plainly :: Limits -> ByteString -> Either (Int, Reason) ()
plainly limits = either (\e -> Left (malformedOffset e, malformedReason e)) Right . Plain.check limits

at :: Either Malformed a -> Either (Int, Reason) ()
at = either (\e -> Left (malformedOffset e, malformedReason e)) (const (Right ()))

-- Decode at every level; all results must be equal.
everyLevel :: (Eq a, Show a) => Limits -> Decoder a -> ByteString -> IO (Either Malformed a)
everyLevel limits d input = do
  results <- mapM (\l -> (,) l <$> guarded input (\copy -> pure $! forced (decodeAt l limits d copy))) levels
  case results of
    (_, (one, _)) : _ | all (\(_, (a, b)) -> a == one && b == one) results -> pure one
    _ -> assertFailure (show (input, results))
  where
    forced r = length (show r) `seq` r

agree :: Limits -> ByteString -> Property
agree limits input = ioProperty $ do
  made <- everyLevel limits tree input
  skipped <- everyLevel limits skip input
  deeper <- everyLevel limits skip ("[" <> input <> "]")
  pure $
    counterexample (show input) $
      (if beyondInt made then property True else at made === plainly limits input)
        .&&. at skipped === plainly limits input
        -- Within an array, errors up to the value's end are the same, and those after it differ.
        .&&. case plainly limits {limitDepth = limitDepth limits - 1} input of
          _ | limitSize limits <= B.length input + 1 || C.all (`elem` (" \t\r\n" :: String)) input -> property True
          Right () -> at deeper === Right ()
          -- A comma is nothing wrong there.
          Left (_, TrailingBytes) -> property True
          -- A character that the end cut off is ill-formed there, at its own place.
          Left (_, Truncated) -> property (isLeft deeper)
          Left (offset, _) -> property (either (\e -> malformedOffset e > offset) (const False) deeper)

-- | An exponent of ten that 'decimal' cannot represent is valid JSON, and refused with its own reason.
beyondInt :: Either Malformed a -> Bool
beyondInt = either ((== ExponentTooLarge 9999999999999999) . malformedReason) (const False)

refusals :: [TestTree]
refusals =
  [ testProperty "whatAndWhere" . forAll (wrong strict) $ \bad ->
      label (wrongKindOf bad) . ioProperty $ do
        made <- everyLevel strict tree (wrongText bad)
        skipped <- everyLevel strict skip (wrongText bad)
        pure (at made === Left (wrongOffset bad, wrongReason bad) .&&. at skipped === Left (wrongOffset bad, wrongReason bad)),
    testProperty "agreesWithTheTwin" . forAll mutant $ agree wide,
    testProperty "acceptsDocuments" . forAll document $ agree wide,
    testProperty "sizeIsLimited" . forAll document $ \input -> forAll (choose (0, B.length input)) $ \n ->
      agree wide {limitSize = n} input,
    testProperty "truncatedAtEveryByte" . forAll (resize 20 document) $ \input ->
      conjoin [at (decode wide tree cut) === Left (B.length cut, Truncated) | cut <- truncations input],
    testCase "truncated within every type" $
      forM_ (B.inits "{\"a\":[1.5e3,\"x\\u00e9\xc3\xa9\\ud83d\\ude00\",true,null,{\"b\":-0}]") $ \cut ->
        at (decode wide tree cut) @?= Left (B.length cut, Truncated),
    testCase "path" $ do
      path tree "{\"users\":[{},{},{},{\"name\":tru}]}" "$.users[3].name" (Expected "true")
      path tree "{\"users\":[{},{\"full name\":\"\x01\"}]}" "$.users[1][\"full name\"]" ControlCharacter
      path tree "[1,[2,3],{\"a\":{\"b\":1,}}]" "$[2].a" (Expected "a key")
      path tree "[[[1]],[[01]]]" "$[1][0][0]" (Expected "no digit after a leading zero")
      path tree "{\"a\\u00e9\\n\":{\"\\ud83d\\ude00\":[x]}}" "$[\"a\\233\\n\"][\"\\128512\"][0]" (Expected "a value or ']'")
      path tree "{\"a\":1 \"b\":2}" "$" (Expected "',' or '}'")
      path tree "{\"a\" 1}" "$" (Expected "':'")
      path tree "[1,2 3]" "$" (Expected "',' or ']'")
      path tree "{\"a\":[" "$.a[0]" Truncated
      path tree "{\"a\":" "$.a" Truncated
      path tree "{\"a" "$" Truncated
      path (list int) "[1,2,2.5]" "$[2]" (WrongKind "an integer" "a number with a fraction")
      path (textMap (list bool)) "{\"x\":[true,0]}" "$.x[1]" (WrongKind "true or false" "a number")
      path (textMap int) "{\"x\":1,\"x\":2}" "$" (DuplicateKey "x"),
    testCase "pathOfAnErrorBehindAScalar: the object or array, not the scalar that ends there" $ do
      let login = record (required "login" int)
      path login "{\"id\":5}" "$" (MissingKey "login")
      path login "{\"id\":-1.5e2}" "$" (MissingKey "login")
      path login "{\"id\":true}" "$" (MissingKey "login")
      path login "{\"id\":null}" "$" (MissingKey "login")
      path login "{\"id\":false}" "$" (MissingKey "login")
      path login "{\"id\":\"x\"}" "$" (MissingKey "login")
      path login "{\"id\":[1]}" "$" (MissingKey "login")
      path (list login) "[{\"login\":1},{\"id\":5}]" "$[1]" (MissingKey "login")
      path (pairOf int int) "[1]" "$" (Refused "too few elements")
      path (pairOf text int) "[\"a\"]" "$" (Refused "too few elements")
      path (list (pairOf int int)) "[[1,2],[3]]" "$[1]" (Refused "too few elements")
      path (pairOf int int) "[]" "$" (Refused "expected an array of 2 elements")
      path tree "[1:2]" "$" (Expected "',' or ']'")
      -- An error in the scalar itself stays.
      path tree "[1.]" "$[0]" (Expected "a digit")
      path tree "{\"a\":-}" "$.a" (Expected "a digit")
      path tree "{\"a\":tru}" "$.a" (Expected "true")
      path tree "[1,]" "$[1]" (Expected "a value"),
    testCase "interruptedDecodingIsNotRemembered: a value whose evaluation was interrupted is decoded again" $ do
      reached <- newEmptyMVar
      gate <- newEmptyMVar
      let waiting x = unsafePure (tryPutMVar reached () >> readMVar gate >> pure x)
          decoded = decode wide (list (waiting <$> int)) "[1,2]"
      thread <- forkIO (void (try (evaluate decoded) :: IO (Either SomeException (Either Malformed [Int]))))
      takeMVar reached
      killThread thread
      putMVar gate ()
      evaluate decoded >>= (@?= Right [1, 2]),
    testCase "exponentLimitIsNoType: an exponent above the limit says so" $ do
      at (decode defaultLimits integer "1e2000") @?= Left (0, ExponentTooLarge 1024)
      at (decode defaultLimits {limitExponent = 3} natural "1e4") @?= Left (0, ExponentTooLarge 3)
      at (decode defaultLimits int "1e2000") @?= Left (0, OutOfRange "Int")
      at (decode defaultLimits decimal "1e99999999999999999999") @?= Left (0, ExponentTooLarge 9999999999999999)
      decode defaultLimits decimal "0e99999999999999999999" @?= Right (0, 0),
    testCase "kinds" $ do
      kinds int "an integer"
      kinds text "a string"
      kinds bool "true or false"
      kinds (list int) "an array"
      kinds (textMap int) "an object"
      kinds null_ "null"
      kinds double "a number"
  ]
  where
    strict = defaultLimits
    wrongKindOf = JsonGen.wrongKind
    path :: Show a => Decoder a -> ByteString -> String -> Reason -> IO ()
    path d input wanted why = case decode wide {limitDuplicates = DuplicatesRefused} d input of
      Left e -> (showPath (malformedPath e), malformedReason e) @?= (wanted, why)
      Right x -> assertFailure (show x)
    kinds :: Show a => Decoder a -> String -> IO ()
    kinds d wanted = forM_ samples $ \(found, input) ->
      if found == wanted || found `isInfixOf` wanted || (wanted == "an integer" && found == "a number")
        then pure ()
        else either (\e -> (malformedOffset e, malformedReason e) @?= (1, WrongKind wanted found)) (assertFailure . show) (decode wide d (" " <> input))
    samples = [("a string", "\"x\""), ("an object", "{}"), ("an array", "[]"), ("true", "true"), ("false", "false"), ("null", "null"), ("a number", "1")]

-- As aeson has it: of equal keys the first, no order.
sorted :: Tree -> Tree
sorted = \case
  Object members -> Object (Map.toAscList (Map.fromListWith (\_ first -> first) [(key, sorted x) | (key, x) <- members]))
  Array xs -> Array (map sorted xs)
  Number n e -> let s = Scientific.normalize (Scientific.scientific n e) in Number (Scientific.coefficient s) (Scientific.base10Exponent s)
  x -> x

-- Where two trees differ.
differs :: Tree -> Tree -> Maybe (Tree, Tree)
differs a b = case (a, b) of
  (Array xs, Array ys) | length xs == length ys -> listToMaybe (catMaybes (zipWith differs xs ys))
  (Object xs, Object ys) | map fst xs == map fst ys -> listToMaybe (catMaybes (zipWith differs (map snd xs) (map snd ys)))
  _ | a == b -> Nothing
  _ -> Just (a, b)

fromAeson :: Aeson.Value -> Tree
fromAeson = \case
  Aeson.Null -> Null
  Aeson.Bool b -> Bool b
  Aeson.Number s -> Number (Scientific.coefficient s) (Scientific.base10Exponent s)
  Aeson.String t -> String t
  Aeson.Array xs -> Array (map fromAeson (toList xs))
  Aeson.Object members -> Object [(Aeson.Key.toText key, fromAeson x) | (key, x) <- KeyMap.toList members]

values :: [TestTree]
values =
  [ testProperty "asAeson" . forAll (oneof [document, mutant]) $ \input ->
      -- aeson 2.0 takes halves of surrogate pairs for characters that are none, and control characters
      -- in strings that have escapes; and an exponent beyond an Int modulo 2^64.
      case (decode wide tree input, Aeson.eitherDecodeStrict' input) of
        (Right mine, Right theirs) -> counterexample (show (differs (sorted mine) (sorted (fromAeson theirs)))) (sorted mine == sorted (fromAeson theirs))
        (Left e, Left _) -> label (takeWhile (/= ' ') (show (malformedReason e))) True
        (Left e, Right _) | malformedReason e `elem` [LoneSurrogate, ControlCharacter, ExponentTooLarge 9999999999999999] -> label ("only aeson: " <> show (malformedReason e)) True
        other -> counterexample (show other) False,
    testProperty "printedAndReadBack" . forAll (sized anyTree) $ \x ->
      decode wide (sorted <$> tree) (printed x) === Right (sorted x),
    testProperty "rawIsTheText" . forAll document $ \input ->
      fmap (decode wide tree) (decode wide raw input) === Right (decode wide tree input)
  ]

anyTree :: Int -> Gen Tree
anyTree n =
  frequency
    [ (1, pure Null),
      (1, Bool <$> arbitrary),
      (2, Number <$> arbitrary <*> choose (-20, 20)),
      (2, String <$> anyText),
      (if n > 0 then 2 else 0, Array <$> resize 5 (listOf (anyTree (n `quot` 4)))),
      (if n > 0 then 2 else 0, Object <$> resize 5 (listOf ((,) <$> anyText <*> anyTree (n `quot` 4))))
    ]

anyText :: Gen Text
anyText = Text.pack <$> oneof [listOf (elements ['a' .. 'z']), resize 60 (listOf anyChar), (`replicate` 'x') <$> choose (0, 200)]

anyChar :: Gen Char
anyChar = oneof [choose (' ', '~'), choose ('\0', '\x1f'), choose ('\x80', '\x7ff'), choose ('\x800', '\xd7ff'), choose ('\xe000', '\xffff'), choose ('\x10000', '\x10ffff'), elements "\"\\/"]

printed :: Tree -> ByteString
printed = \case
  Null -> "null"
  Bool b -> if b then "true" else "false"
  Number n e -> C.pack (show n <> "e" <> show e)
  String t -> quoted t
  Array xs -> "[" <> B.intercalate "," (map printed xs) <> "]"
  Object members -> "{" <> B.intercalate ", " [quoted key <> ":" <> printed x | (key, x) <- members] <> "}"

quoted :: Text -> ByteString
quoted t = "\"" <> Text.encodeUtf8 (Text.concatMap escape t) <> "\""
  where
    escape c
      | c == '"' || c == '\\' = Text.pack ['\\', c]
      | c < ' ' = Text.pack ("\\u00" <> (if c < '\x10' then "0" else "1") <> [("0123456789abcdef" :: String) !! (fromEnum c `rem` 16)])
      | otherwise = Text.singleton c

numbers :: [TestTree]
numbers =
  [ integers "Int8" int8 (minBound :: Int8, maxBound),
    integers "Int16" int16 (minBound :: Int16, maxBound),
    integers "Int32" int32 (minBound :: Int32, maxBound),
    integers "Int64" int64 (minBound :: Int64, maxBound),
    integers "Int" int (minBound :: Int, maxBound),
    integers "Word8" word8 (minBound :: Word8, maxBound),
    integers "Word16" word16 (minBound :: Word16, maxBound),
    integers "Word32" word32 (minBound :: Word32, maxBound),
    integers "Word64" word64 (minBound :: Word64, maxBound),
    integers "Word" word (minBound :: Word, maxBound),
    testProperty "integersExactly" . forAll JsonGen.numberText $ \input ->
      let s = scientific input
          small = abs (Scientific.base10Exponent s) < 900
       in small ==> case decode wide integer input of
            Right n -> fromInteger n === toRational s
            Left e -> malformedReason e === WrongKind "an integer" "a number with a fraction" .&&. property (not (Scientific.isInteger s)),
    testProperty "decimalsExactly" . forAll JsonGen.numberText $ \input ->
      fmap (uncurry Scientific.scientific) (decode wide decimal input) === Right (scientific input),
    testProperty "nearestDouble" . forAll JsonGen.numberText $ \input ->
      let s = scientific input
          nearest = Scientific.toRealFloat s :: Double
       in abs (Scientific.base10Exponent s) < 2000 ==> case decode wide double input of
            Right x -> x === nearest .&&. isNegativeZero x === (nearest == 0 && C.head input == '-')
            Left e -> malformedReason e === OutOfRange "Double" .&&. property (isInfinite nearest),
    testProperty "nearestFloat" . forAll (oneof [JsonGen.numberText, C.pack . show <$> (arbitrary :: Gen Float), halfway]) $ \input ->
      let s = scientific input
          nearest = if s /= 0 && Scientific.base10Exponent s > 100 then 1 / 0 else fromRational (toRational s) :: Float
       in abs (Scientific.base10Exponent s) < 2000 ==> case decode wide float input of
            Right x -> x === nearest
            Left e -> malformedReason e === OutOfRange "Float" .&&. property (isInfinite nearest),
    testProperty "showThenRead" $ \x -> not (isNaN x || isInfinite x) ==> decode wide double (C.pack (show x)) === Right (x :: Double),
    testCase "integers by value" $ do
      decode wide int "1.0" @?= Right 1
      decode wide int "1e2" @?= Right 100
      decode wide int "-12.5e1" @?= Right (-125)
      decode wide int "-0" @?= Right 0
      decode wide int "0e99999999999999999999" @?= Right 0
      decode wide int "9223372036854775807" @?= Right maxBound
      decode wide int "-9223372036854775808" @?= Right minBound
      decode wide int "9223372036854775807000e-3" @?= Right maxBound
      at (decode wide int " 9223372036854775808") @?= Left (1, OutOfRange "Int")
      at (decode wide int "1.5") @?= Left (0, WrongKind "an integer" "a number with a fraction")
      at (decode wide natural "-1") @?= Left (0, OutOfRange "Natural")
      decode wide natural "36893488147419103232" @?= Right 36893488147419103232,
    testCase "huge exponents make nothing" $ do
      forM_ ["1e1000000000", "1e100000000000000000000", "123456789012345678901234567890e999999999"] $ \input -> do
        at (decode defaultLimits integer input) @?= Left (0, ExponentTooLarge 1024)
        at (decode defaultLimits int input) @?= Left (0, OutOfRange "Int")
        at (decode defaultLimits double input) @?= Left (0, OutOfRange "Double")
        at (decode defaultLimits float input) @?= Left (0, OutOfRange "Float")
      forM_ ["1e-1000000000", "1e-100000000000000000000"] $ \input -> do
        at (decode defaultLimits integer input) @?= Left (0, WrongKind "an integer" "a number with a fraction")
        decode defaultLimits double input @?= Right 0
      at (decode defaultLimits decimal "1e100000000000000000000") @?= Left (0, ExponentTooLarge 9999999999999999)
      at (decode defaultLimits integer "1e1025") @?= Left (0, ExponentTooLarge 1024)
      decode defaultLimits integer "1e1024" @?= Right (10 ^ (1024 :: Int)),
    testCase "a million digits" $ do
      let digits = C.replicate 1000000 '9'
      forM_ [digits, "-" <> digits, "0." <> digits, "1e" <> digits] $ \input -> do
        at (decode defaultLimits integer input) @?= Left (0, NumberTooLong 1024)
        at (decode defaultLimits double input) @?= Left (0, NumberTooLong 1024)
        at (decode defaultLimits int input) @?= Left (0, NumberTooLong 1024)
        at (decode defaultLimits skip input) @?= Left (0, NumberTooLong 1024)
      decode defaultLimits {limitNumber = maxBound} integer (C.replicate 32767 '9') @?= Right (10 ^ (32767 :: Int) - 1)
      at (decode defaultLimits {limitNumber = maxBound} integer (C.replicate 32768 '9')) @?= Left (0, NumberTooLong 32767),
    testCase "limits of short numbers" $ do
      at (decode defaultLimits {limitNumber = 3} int "[") @?= Left (0, WrongKind "an integer" "an array")
      decode defaultLimits {limitNumber = 3} int "-12" @?= Right (-12)
      at (decode defaultLimits {limitNumber = 3} int "-123") @?= Left (0, NumberTooLong 3)
  ]
  where
    scientific input = either error id (Aeson.eitherDecodeStrict' input) :: Scientific.Scientific
    integers :: Integral a => String -> Decoder a -> (a, a) -> TestTree
    integers name d (low, high) = testProperty name . forAll (near (toInteger low) (toInteger high)) $ \n ->
      let input = C.pack (show n)
          expectedly = if n < toInteger low || n > toInteger high then Left (0, OutOfRange name) else Right n
       in conjoin
            [ either (\e -> Left (malformedOffset e, malformedReason e)) (Right . toInteger) (decode wide d form) === expectedly
              | form <- [input, input <> ".0", input <> "e0"] <> [form | n /= 0, form <- [input <> "0e-1", input <> "000E-3"]]
            ]
    near low high = oneof [choose (low - 3, low + 3), choose (high - 3, high + 3), choose (low, high), choose (-5, 5), choose (-2 ^ (70 :: Int), 2 ^ (70 :: Int))]
    halfway = do
      n <- choose (0, 2 ^ (24 :: Int)) :: Gen Integer
      tail' <- elements ["", "1", "0000000000000000000000000000001"]
      pure (C.pack (show (2 * n + 1) <> ".0" <> tail'))

strings :: [TestTree]
strings =
  [ testProperty "everyWay" . forAll anyText $ \t -> ioProperty $ do
      let input = quoted t
          bytes = Text.encodeUtf8 t
      a <- everyLevel wide text input
      b <- everyLevel wide (B.copy <$> byteString) input
      c <- everyLevel wide shortByteString input
      d <- everyLevel wide string input
      pure (a === Right t .&&. b === Right bytes .&&. c === Right (Short.toShort bytes) .&&. d === Right (Text.unpack t)),
    testProperty "refusedEveryWay" . forAll mutantString $ \input -> ioProperty $ do
      a <- everyLevel wide text input
      b <- everyLevel wide (B.copy <$> byteString) input
      c <- everyLevel wide shortByteString input
      pure (at a === plainly wide input .&&. at b === plainly wide input .&&. at c === plainly wide input),
    testProperty "everyOffset" . forAll (choose (0, 140)) $ \n -> forAll (elements ["\\n", "\xc3\xa9", "\xe3\x81\x82", "\xf0\x9f\x98\x80", "\x01", "\\x", "\xff", "\xe3\x81", "\\ud83d"]) $ \part ->
      agree wide ("\"" <> C.replicate n 'a' <> part <> C.replicate (140 - n) 'b' <> "\""),
    testCase "longer than a slice" $
      forM_ [32760 .. 32775] $ \n -> forM_ ["", "\\n", "\\ud83d\\ude00", "\xc3\xa9", "\xe3\x81\x82", "\xf0\x9f\x98\x80"] $ \part -> do
        let inside = C.replicate n 'a' <> part <> C.replicate 40000 'b'
            input = "\"" <> inside <> "\""
            whole = fromMaybe (error "aeson") (Aeson.decodeStrict' input) :: Text
        decode wide text input @?= Right whole
        decode wide byteString input @?= Right (Text.encodeUtf8 whole)
        decode wide skip ("[" <> input <> "]") @?= Right ()
        decode wide (foldMembers (\k key () -> k + Text.length key) 0 skip) ("{" <> input <> ":[" <> input <> "]}") @?= Right (Text.length whole)
        at (decode wide text (B.init input)) @?= Left (B.length input - 1, Truncated)
        at (decode wide skip ("[" <> C.replicate n ' ' <> input <> "\x01")) @?= Left (B.length input + n + 1, Expected "',' or ']'"),
    testCase "slices of the input" $ do
      let input = B.drop 3 "xyz[\"abc\",\"d\xc3\xa9\"]"
      decode wide (list byteString) input @?= Right ["abc", "d\xc3\xa9"]
      decode wide (list number) (B.drop 1 "x[1.50,-0]") @?= Right ["1.50", "-0"],
    testCase "characters" $ do
      decode wide char "\"\\u00e9\"" @?= Right '\233'
      at (decode wide char "\"ab\"") @?= Left (0, Refused "expected a string of one character")
  ]
  where
    mutantString = do
      t <- quoted <$> anyText
      n <- choose (1, B.length t)
      new <- oneof [B.singleton <$> arbitrary, elements ["\\", "\\u12", "\\ud800", "\xe3\x81", "\xed\xa0\x80", "\""]]
      pure (B.take n t <> new <> B.drop n t)

arrays :: [TestTree]
arrays =
  [ testProperty "lists" $ \xs -> decode wide (list int) (C.pack (show xs)) === Right xs,
    testProperty "folds" $ \xs -> decode wide (foldElements (+) 0 int) (C.pack (show (xs :: [Int]))) === Right (sum xs),
    testProperty "primitiveArrays" $ \xs -> fmap primArrayToList (decode wide (primArray int :: Decoder (PrimArray Int)) (C.pack (show xs))) === Right xs,
    testCase "primitive arrays of what has brackets" $ do
      fmap primArrayToList (decode wide (primArray (foldElements (+) 0 int)) "[[1,2],[3],[],[4,5,6]]") @?= Right [3, 3, 0, 15]
      fmap primArrayToList (decode wide (primArray int) ("[" <> B.intercalate ", " (replicate 20000 "7") <> "]")) @?= Right (replicate 20000 7),
    testCase "tuples" $ do
      decode wide (pairOf int bool) "[1, true]" @?= Right (1, True)
      decode wide (tripleOf int bool text) "[1, true , \"x\"]" @?= Right (1, True, "x")
      decode wide (tupleOf (pure 'x')) "[ ]" @?= Right 'x'
      forM_ ["[]", "[1]", "[1,true,2]"] $ \input -> assertBool (show input) (isLeft (decode wide (pairOf int bool) input))
      at (decode wide (pairOf int bool) "[1,true,]") @?= Left (8, Expected "a value"),
    testProperty "maps" . forAll (listOf ((,) <$> anyText <*> arbitrary)) $ \members ->
      let input = printed (Object [(key, Number n 0) | (key, n) <- members])
       in decode wide (textMap integer) input === Right (Map.fromList members)
            .&&. decode wide {limitDuplicates = DuplicatesFirst} (textMap integer) input === Right (Map.fromListWith (\_ old -> old) members)
            .&&. isLeft (decode defaultLimits (textMap integer) input) === (Map.size (Map.fromList members) /= length members),
    testCase "keys of other types" $ do
      decode wide (mapOf bool) "{\"1\":true,\"-20\":false}" @?= Right (Map.fromList [(1 :: Int, True), (-20, False)])
      at (decode wide (mapOf bool :: Decoder (Map Int Bool)) "{\"1\":true,\"x\":false}") @?= Left (10, Refused "the key \"x\": expected a value"),
    testProperty "equalKeysAreOne" . forAll (listOf (elements ["a", "id", "name", "\\u0061", "\xc3\xa9"])) $ \names ->
      let input = "[" <> B.intercalate "," ["{\"" <> name <> "\":1}" | name <- names] <> "]"
       in fmap (map Map.keys) (decode wide (list (textMap int)) input) === maybe (Left undefined) (Right . map Map.keys) (Aeson.decodeStrict' input :: Maybe [Map Text Int]),
    testCase "one by one" $ do
      result <- decodeElements wide int (\seen n -> pure (n : seen)) [] "[1, 2, 3, x]"
      at result @?= Left (10, Expected "a value")
      seen <- decodeElements wide int (\seen n -> pure (n : seen)) [] "[1, 2, 3]"
      seen @?= Right [3, 2, 1]
  ]

choices :: [TestTree]
choices =
  [ testCase "alternatives" $ do
      decode wide (eitherOf int text) "\"x\"" @?= Right (Right "x")
      at (decode wide (list (eitherOf (list int) (list text))) "[[1,2,true]]") @?= Left (6, WrongKind "an integer" "true")
      at (decode wide {limitDepth = 3} (list (eitherOf (list int) (list text))) "[[\"x\"],[\"y\"],[1]]") @?= Right (),
    testCase "tags, first and last" $ do
      let shape = tagged "tag" [("circle", record (required "radius" int)), ("square", negate <$> record (required "side" int))]
      decode wide shape "{\"tag\":\"circle\",\"radius\":1}" @?= Right 1
      decode wide shape "{\"x\":{\"tag\":1},\"side\":2,\"y\":[],\"tag\":\"square\"}" @?= Right (-2)
      decode wide shape "{\"t\\u0061g\" : \"squ\\u0061re\", \"side\":2}" @?= Right (-2)
      at (decode wide shape "{\"radius\":1}") @?= Left (11, MissingKey "tag")
      at (decode wide shape "{\"tag\":\"x\"}") @?= Left (7, Refused "expected one of \"circle\" \"square\"")
      at (decode wide shape "{\"tag\":\"circle\",\"radius\":01}") @?= Left (26, Expected "no digit after a leading zero"),
    testCase "of two tags the one that counts" $ do
      let shape = tagged "tag" [("circle", numbered), ("square", negate <$> numbered)]
          numbered = record (required "tag" skip *> required "n" int)
          input = "{\"tag\":\"circle\",\"n\":1,\"tag\":\"square\"}"
      at (decode wide {limitDuplicates = DuplicatesRefused} shape input) @?= Left (22, DuplicateKey "tag")
      decode wide {limitDuplicates = DuplicatesFirst} shape input @?= Right 1
      decode wide {limitDuplicates = DuplicatesLast} shape input @?= Right (-1)
      at (decode wide {limitDuplicates = DuplicatesLast} shape "{\"n\":1}") @?= Left (6, MissingKey "tag"),
    testCase "the same value twice" $ do
      decode wide ((,) <$> raw <*> int) " 12 " @?= Right ("12", 12)
      decode wide (kind >>= \k -> if k == KindString then Text.length <$> text else int) "\"abc\"" @?= Right 3
      at (decode wide (list (int >>= \n -> if n > 1 then fail "too large" else pure n)) "[1,2]") @?= Left (3, Refused "too large"),
    testCase "one of" $ do
      decode wide (list (oneOf [("a", 'a'), ("\xe9", 'e'), ("", '0')])) "[\"\",\"\xc3\xa9\",\"\\u0061\",\"a\"]" @?= Right "0eaa"
  ]

large :: [TestTree]
large =
  [ testCase "a million levels" $ do
      let deep = C.replicate 1000000 '['
          objects = mconcat (replicate 300000 "{\"a\":")
      at (decode defaultLimits tree deep) @?= Left (512, TooDeep 512)
      at (decode defaultLimits skip deep) @?= Left (512, TooDeep 512)
      at (decode loose {limitDepth = 2000000} skip deep) @?= Left (1000000, Truncated)
      decode loose {limitDepth = 2000000} skip (deep <> C.replicate 1000000 ']') @?= Right ()
      decode loose {limitDepth = 2000000} skip (objects <> "1" <> C.replicate 300000 '}') @?= Right ()
      at (decode defaultLimits tree objects) @?= Left (512 * 5, TooDeep 512),
    testCase "memory does not grow with what is skipped or refused" $ do
      let inputs =
            [ \n -> "[" <> C.replicate n ' ' <> "x",
              \n -> "\"" <> C.replicate n 'a' <> "\x01",
              \n -> "\"" <> mconcat (replicate (n `quot` 4) "\xe3\x81\x82\xff") <> "\"",
              \n -> "[" <> mconcat (replicate (n `quot` 8) "[1,\"a\"],") <> "x",
              (`C.replicate` '['),
              (`C.replicate` '1')
            ]
      forM_ (zip [0 :: Int ..] inputs) $ \(i, make) -> do
        small <- allocated (make 1000)
        big <- allocated (make 1000000)
        assertBool (show (i, small, big)) (big < small + 200000),
    testCase "an alternative that is no primitive array is not searched for its end" $ do
      let numbers_ n = "[" <> B.intercalate "," (replicate n "7") <> "]"
          either_ = list (eitherOf (primArray int :: Decoder (PrimArray Int)) int)
      small <- madeBy either_ (numbers_ 1000)
      big <- madeBy either_ (numbers_ 10000)
      assertBool (show (small, big)) (big < 11 * small),
    testCase "a value's memory is in proportion" $ do
      let one n = "[" <> B.intercalate "," (replicate n "{\"a\":[1,true,\"x\\n\"]}") <> "]"
      small <- made (one 1000)
      big <- made (one 10000)
      assertBool (show (small, big)) (big < 11 * small)
  ]
  where
    allocated input = do
      before <- B.length input `seq` getAllocationCounter
      fromRight () (decode loose {limitDepth = 100, limitNumber = 100} skip input) `seq` pure ()
      after <- getAllocationCounter
      pure (before - after)
    made = madeBy tree
    madeBy :: Show a => Decoder a -> ByteString -> IO Int64
    madeBy d input = do
      before <- B.length input `seq` getAllocationCounter
      either (const 0) (length . show) (decode wide d input) `seq` pure ()
      after <- getAllocationCounter
      pure (before - after)
