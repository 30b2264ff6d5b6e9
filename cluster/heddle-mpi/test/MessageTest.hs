{-# LANGUAGE AllowAmbiguousTypes #-}
{-# LANGUAGE CPP #-}
{-# LANGUAGE DeriveAnyClass #-}
{-# LANGUAGE DeriveGeneric #-}
{-# LANGUAGE ExistentialQuantification #-}
{-# LANGUAGE GeneralizedNewtypeDeriving #-}
{-# LANGUAGE TypeApplications #-}

-- | The codec of messages: round trips, slices, and malformed messages.
module MessageTest (tests) where

import Control.Exception (ErrorCall (..), Exception, evaluate, throw, try)
import Control.Monad (forM_, unless, when)
import Data.Array (Array, listArray)
import Data.Array.Unboxed (UArray)
import Data.Array.Unboxed qualified as UArray (listArray)
import Data.Bits (shiftL)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Lazy qualified as Lazy
import Data.ByteString.Short (ShortByteString)
import Data.ByteString.Short qualified as Short
import Data.ByteString.Unsafe qualified as B (unsafeUseAsCString)
import Data.Complex (Complex (..))
import Data.Either (isLeft)
import Data.Fixed (Micro)
import Data.Functor.Const (Const (..))
import Data.Functor.Identity (Identity (..))
import Data.Int
import Data.IntMap (IntMap)
import Data.IntMap qualified as IntMap
import Data.IntSet (IntSet)
import Data.IntSet qualified as IntSet
import Data.List.NonEmpty (NonEmpty (..))
import Data.Map (Map)
import Data.Map qualified as Map
import Data.Monoid qualified as Monoid
import Data.Ord (Down (..))
import Data.Primitive.ByteArray (ByteArray, byteArrayContents, byteArrayFromList)
import Data.Primitive.PrimArray (PrimArray, primArrayFromList)
import Data.Proxy (Proxy (..))
import Data.Ratio (Ratio)
import Data.Semigroup qualified as Semigroup
import Data.Sequence (Seq)
import Data.Sequence qualified as Seq
import Data.Set (Set)
import Data.Text (Text)
import Data.Text qualified as Text
import Data.Vector qualified as Vector
import Data.Vector.Primitive qualified as Primitive
import Data.Vector.Storable qualified as Storable
import Data.Vector.Unboxed qualified as Unboxed
import Data.Vector.Unboxed.Base qualified as Unboxed (Vector (V_Int))
import Data.Void (Void)
import Data.Word
import Foreign.C.Types
import Foreign.ForeignPtr (withForeignPtr)
import Foreign.Ptr (Ptr, castPtr, minusPtr, plusPtr)
import Foreign.Storable (pokeByteOff)
import GHC.Generics (Generic)
import Heddle.MPI.Internal.Message
import Heddle.MPI.Message (AsBinary (..), Serialized (..), checkedCodec, mapCodec)
import Heddle.Prim.Buffer
import Numeric.Natural (Natural)
import System.Mem (getAllocationCounter)
import Test.Tasty
import Test.Tasty.HUnit
import Test.Tasty.QuickCheck

data Reading = Reading {station :: Text, celsius :: Double, raw :: ByteString}
  deriving stock (Eq, Generic, Show)
  deriving anyclass (Message)

data Colour = Red | Green | Blue
  deriving stock (Bounded, Enum, Eq, Generic, Ord, Show)
  deriving anyclass (Message)

data Shape = Point | Circle Double | Box Int Int | Named Text Shape
  deriving stock (Eq, Generic, Show)
  deriving anyclass (Message)

data Tree a = Leaf | Node (Tree a) a (Tree a)
  deriving stock (Eq, Generic, Show)
  deriving anyclass (Message)

-- Recursive through a record, a list and a vector, without an alternative.
data Rose = Rose Word8 [Rose] (Vector.Vector Rose)
  deriving stock (Eq, Generic, Show)
  deriving anyclass (Message)

data Unit = Unit
  deriving stock (Eq, Generic, Show)
  deriving anyclass (Message)

newtype Metres = Metres Double
  deriving stock (Show)
  deriving newtype (Eq, Message)

newtype Even = Even Int
  deriving stock (Eq, Show)

instance Message Even where
  codec = checkedCodec (\n -> if even n then Right (Even n) else Left "expected an even number") (\(Even n) -> n) codec

newtype Mapped = Mapped [Int]
  deriving stock (Eq, Show)

instance Message Mapped where
  codec = mapCodec Mapped (\(Mapped list) -> list) codec

-- | A type under test, with its small values.
data Subject = forall a. (Message a, Eq a, Show a) => Subject String (Gen a)

subjects :: [Subject]
subjects =
  [ Subject "()" (pure ()),
    Subject "Bool" (arbitrary @Bool),
    Subject "Char" (arbitrary @Char),
    Subject "Ordering" (arbitrary @Ordering),
    Subject "Int" (arbitrary @Int),
    Subject "Int8" (arbitrary @Int8),
    Subject "Int16" (arbitrary @Int16),
    Subject "Int32" (arbitrary @Int32),
    Subject "Int64" (arbitrary @Int64),
    Subject "Word" (arbitrary @Word),
    Subject "Word8" (arbitrary @Word8),
    Subject "Word16" (arbitrary @Word16),
    Subject "Word32" (arbitrary @Word32),
    Subject "Word64" (arbitrary @Word64),
    Subject "Integer" integer,
    Subject "Natural" natural,
    Subject "Float" (arbitrary @Float),
    Subject "Double" (arbitrary @Double),
    Subject "Ratio Int" (arbitrary @(Ratio Int)),
    Subject "Rational" (arbitrary @Rational),
    Subject "Complex" ((:+) <$> arbitrary <*> arbitrary @Double),
    Subject "Maybe" (arbitrary @(Maybe Int)),
    Subject "Either" (arbitrary @(Either Bool Text')),
    Subject "(,)" (arbitrary @(Int, Double)),
    Subject "(,,)" (arbitrary @(Int, Bool, [Char])),
    Subject "(,,,)" (arbitrary @((), Bool, Char, Word8)),
    Subject "(,,,,)" (arbitrary @(Int, Bool, Char, Word8, Maybe ())),
    Subject "(,,,,,)" (arbitrary @(Int, Bool, Char, Word8, Int16, Float)),
    Subject "(,,,,,,)" (arbitrary @(Int, Bool, Char, Word8, Int16, Float, [Int])),
    Subject "[Int]" (arbitrary @[Int]),
    Subject "[()]" (arbitrary @[()]),
    Subject "[[()]]" (arbitrary @[[()]]),
    Subject "String" (arbitrary @String),
    Subject "[Maybe [Double]]" (arbitrary @[Maybe [Double]]),
    Subject "NonEmpty" ((:|) <$> arbitrary @Int <*> arbitrary),
    Subject "Map" (arbitrary @(Map [Int] (Maybe Int))),
    Subject "Map Word8" (arbitrary @(Map Word8 ())),
    Subject "Set" (arbitrary @(Set Int)),
    Subject "IntMap" (IntMap.fromList <$> arbitrary @[(Int, Char)]),
    Subject "IntSet" (IntSet.fromList <$> arbitrary @[Int] :: Gen IntSet),
    Subject "IntMap IntSet" (IntMap.fromList . fmap (fmap IntSet.fromList) <$> arbitrary :: Gen (IntMap IntSet)),
    Subject "Seq" (Seq.fromList <$> arbitrary @[Int] :: Gen (Seq Int)),
    Subject "ByteString" bytes,
    Subject "large ByteString" (B.pack <$> vectorOf 4097 arbitrary),
    Subject "[ByteString], some large" (listOf (oneof [bytes, B.replicate <$> choose (4090, 4100) <*> arbitrary])),
    Subject "lazy ByteString" (Lazy.fromChunks . filter (not . B.null) <$> listOf bytes),
    Subject "ShortByteString" (Short.toShort <$> bytes :: Gen ShortByteString),
    Subject "large ShortByteString" (pure (Short.toShort (B.replicate 5000 7))),
    Subject "Text" text,
    Subject "Array" (array (listArray :: (Int, Int) -> [Bool] -> Array Int Bool)),
    Subject "Array of two" (matrix (listArray :: ((Int, Int), (Int, Int)) -> [Text] -> Array (Int, Int) Text) text),
    Subject "UArray" (array (UArray.listArray :: (Int, Int) -> [Double] -> UArray Int Double)),
    Subject "UArray Bool" (array (UArray.listArray :: (Int, Int) -> [Bool] -> UArray Int Bool)),
    Subject "ByteArray" (byteArrayFromList <$> arbitrary @[Word8] :: Gen ByteArray),
    Subject "PrimArray" (primArrayFromList <$> arbitrary :: Gen (PrimArray Int32)),
    Subject "Vector" (Vector.fromList <$> arbitrary @[Maybe Int]),
    Subject "Vector Int" (Vector.fromList <$> arbitrary @[Int]),
    Subject "Storable" (Storable.fromList <$> arbitrary @[Double]),
    Subject "Storable Complex" (Storable.fromList <$> listOf ((:+) <$> arbitrary @Double <*> arbitrary)),
    Subject "Storable ()" (Storable.fromList <$> arbitrary @[()]),
    Subject "Primitive" (Primitive.fromList <$> arbitrary @[Word16]),
    Subject "large Primitive" (Primitive.fromList <$> vectorOf 2050 (arbitrary @Word16)),
    Subject "Unboxed" (Unboxed.fromList <$> arbitrary @[Int]),
    Subject "sliced Unboxed" (Unboxed.drop 3 . Unboxed.fromList <$> vectorOf 600 (arbitrary @Word64)),
    Subject "Unboxed pairs" (Unboxed.fromList <$> arbitrary @[(Int, Bool)]),
    Subject "Unboxed units" (Unboxed.fromList <$> arbitrary @[()]),
    Subject "Identity" (Identity <$> arbitrary @Int),
    Subject "Const" (Const <$> arbitrary :: Gen (Const Int Bool)),
    Subject "Down" (Down <$> arbitrary @Int),
    Subject "Proxy" (pure Proxy :: Gen (Proxy Int)),
    Subject "Monoid" (arbitrary @(Monoid.Sum Int, Monoid.Product Int, Monoid.All, Monoid.Any)),
    Subject "Monoid.First" (arbitrary @(Monoid.First Int, Monoid.Last Bool)),
    Subject "Semigroup.First" ((,) . Semigroup.First <$> arbitrary @Int <*> (Semigroup.Last <$> arbitrary @Bool)),
    Subject "Semigroup.Min" ((,) . Semigroup.Min <$> arbitrary @Int <*> (Semigroup.Max <$> arbitrary @Bool)),
    Subject "Fixed" (arbitrary @Micro),
    Subject "C types" (arbitrary @(CInt, CUChar, CDouble, CSize, CLong, CFloat)),
    Subject "Serialized" (Serialized <$> arbitrary @(Map Int String)),
    Subject "[Serialized]" (listOf (Serialized <$> arbitrary @(Int, [Bool]))),
    Subject "[Serialized ()]" (listOf (pure (Serialized ()))),
    Subject "AsBinary" (AsBinary <$> arbitrary @(Int, String)),
    Subject "(Serialized, AsBinary)" ((,) . Serialized <$> arbitrary @Int <*> (AsBinary <$> arbitrary @[Int])),
    Subject "Reading" (Reading <$> text <*> arbitrary <*> bytes),
    Subject "Colour" (elements [Red ..]),
    Subject "[Colour]" (listOf (elements [Red ..])),
    Subject "Shape" shape,
    Subject "Tree" (tree @Int),
    Subject "Rose" (sized rose),
    Subject "Unit" (pure Unit),
    Subject "Metres" (Metres <$> arbitrary),
    Subject "Even" (Even . (* 2) <$> arbitrary),
    Subject "[Even]" (listOf (Even . (* 2) <$> arbitrary)),
    Subject "Mapped" (Mapped <$> arbitrary)
  ]

type Text' = [Maybe Char]

integer :: Gen Integer
integer = oneof [arbitrary, (\n s -> s * (1 `shiftL` n) + s) <$> choose (60, 400) <*> arbitrary]

natural :: Gen Natural
natural = fromInteger . abs <$> integer

bytes :: Gen ByteString
bytes = B.pack <$> arbitrary

text :: Gen Text
text = Text.pack <$> arbitrary

array :: Arbitrary e => ((Int, Int) -> [e] -> a) -> Gen a
array make = do
  list <- arbitrary
  low <- arbitrary
  pure (make (low, low + length list - 1) list)

matrix :: (((Int, Int), (Int, Int)) -> [e] -> a) -> Gen e -> Gen a
matrix make one = do
  (m, n) <- (,) <$> choose (0, 4) <*> choose (0, 4)
  make ((0, 1), (m - 1, n)) <$> vectorOf (m * n) one

shape :: Gen Shape
shape = oneof [pure Point, Circle <$> arbitrary, Box <$> arbitrary <*> arbitrary, Named <$> text <*> scale (`div` 2) shape]

tree :: Arbitrary a => Gen (Tree a)
tree = sized go
  where
    go 0 = pure Leaf
    go n = oneof [pure Leaf, Node <$> go (n `div` 2) <*> arbitrary <*> go (n `div` 2)]

rose :: Int -> Gen Rose
rose n = Rose <$> arbitrary <*> few <*> (Vector.fromList <$> few)
  where
    few = choose (0, min 3 n) >>= \k -> vectorOf k (rose (n `div` 4))

tests :: TestTree
tests =
  testGroup
    "Message"
    [ testGroup "round trips" [testProperty name (forAll gen roundTrip) | Subject name gen <- subjects],
      testGroup "truncations are refused" [testProperty name (withMaxSuccess 10 (forAll gen truncations)) | Subject name gen <- subjects],
      testGroup "changed bytes do no harm" [testProperty name (withMaxSuccess 40 (changed gen)) | Subject name gen <- subjects],
      testGroup "huge lengths do no harm" [testProperty name (withMaxSuccess 10 (forAll (resize 8 gen) hugeLengths)) | Subject name gen <- subjects],
      testGroup "random bytes do no harm" [testProperty name (withMaxSuccess 100 (randomBytes gen)) | Subject name gen <- subjects],
      sliceTests,
      strictnessTests,
      layoutTests,
      refusalTests
    ]

-- | The whole message as a byte string.
message :: Message a => a -> IO ByteString
message x = do
  (buffer, n) <- encode x >>= flatten
  withBuffer buffer (\at -> B.packCStringLen (castPtr at, n))

-- | A buffer of exactly these bytes, after an offset.
bufferOf :: Int -> ByteString -> IO Buffer
bufferOf offset contents = do
  buffer <- newBuffer (offset + B.length contents)
  withBuffer buffer $ \at ->
    forM_ (zip [offset ..] (B.unpack contents)) (uncurry (pokeByteOff at))
  pure buffer

decodeBytes :: Message a => ByteString -> IO (Either DecodeProblem a)
decodeBytes contents = bufferOf 0 contents >>= \buffer -> decode buffer (B.length contents)

roundTrip :: (Message a, Eq a, Show a) => a -> Property
roundTrip x = ioProperty $ do
  out <- encode x
  (buffer, n) <- flatten out
  direct <- decode buffer n
  contents <- message x
  moved <- bufferOf 48 contents
  later <- decodeAt moved 48 n
  other <- decodeAt moved 40 n
  pure $
    direct === Right x .&&. later === Right x .&&. property (isLeft (other `asTypeOf` direct))
      .&&. outgoingBytes out === n
      .&&. B.length contents === n

-- | Decode without an exception and within bounds; whether the message is refused.
harmless :: forall a. (Message a, Eq a) => Gen a -> ByteString -> IO Bool
harmless _ contents = do
  buffer <- bufferOf 0 contents
  before <- getAllocationCounter
  answer <- decode buffer (B.length contents)
  refused <- case answer of
    Left problem -> do
      unless (problemOffset problem >= 0 && problemOffset problem <= B.length contents) $
        assertFailure ("an offset outside the message: " ++ show problem)
      pure True
    Right (x :: a) -> False <$ evaluate (x == x)
  later <- getAllocationCounter
  let used = fromIntegral (before - later) :: Int
  when (used > 65536 + 400 * B.length contents) $
    assertFailure (show used ++ " bytes allocated for " ++ show (B.length contents))
  pure refused

truncations :: forall a. (Message a, Eq a) => a -> Property
truncations x = ioProperty $ do
  contents <- message x
  let n = B.length contents
      step = max 1 (n `div` 500)
  results <- mapM (\k -> (,) k <$> harmless (pure x) (B.take k contents)) ([0, step .. n - 1] ++ [max 0 (n - 20) .. n - 1])
  more <- harmless (pure x) (contents <> B.singleton 0)
  pure ([k | (k, False) <- results] === [] .&&. more === True)

changed :: (Message a, Eq a, Show a) => Gen a -> Property
changed gen = forAll gen $ \x ->
  forAllBlind (listOf1 ((,,) <$> choose (0, 1000000) <*> arbitrary <*> choose (0, 3 :: Int))) $ \edits ->
    ioProperty $ do
      contents <- message x
      let edit bs (k, b, how)
            | B.null bs = bs
            | otherwise =
              let (front, back) = B.splitAt (k `mod` B.length bs) bs
               in case how of
                    0 -> front <> B.cons b back
                    1 -> front <> B.drop 1 back
                    _ -> front <> B.cons b (B.drop 1 back)
          variants = scanl edit contents edits
      mapM_ (harmless gen) variants
      -- The same with the length of the header put right.
      mapM_ (harmless gen . rightLength) variants
      pure True

rightLength :: ByteString -> ByteString
rightLength bs
  | n < 0 = bs
  | otherwise = B.pack [fromIntegral (n `div` 256 ^ k) | k <- [0 .. 3 :: Int]] <> B.pack mark <> B.drop 8 bs
  where
    n = B.length bs - 8

mark :: [Word8]
mark = [0x48, 0x4d, 0x50, 0x31]

hugeLengths :: forall a. (Message a, Eq a) => a -> Property
hugeLengths x = ioProperty $ do
  contents <- message x
  let n = B.length contents
      le :: Word64 -> ByteString
      le w = B.pack [fromIntegral (w `div` 256 ^ k) | k <- [0 .. 7 :: Int]]
      at = if n > 600 then [0 .. 40] ++ [n - 16 .. n] else [0 .. n]
  forM_ [minBound, maxBound, 2 ^ (62 :: Int), 2 ^ (63 :: Int), 2 ^ (63 :: Int) + 1, 2 ^ (63 :: Int) + 5000, 2 ^ (40 :: Int), 2 ^ (61 :: Int) + 1] $ \value ->
    forM_ at $ \k -> harmless (pure x) (B.take n (B.take k contents <> le value <> B.drop (k + 8) contents))
  pure True

randomBytes :: (Message a, Eq a) => Gen a -> Property
randomBytes gen = forAllBlind (B.pack <$> scale (* 3) (listOf (frequency [(1, arbitrary), (1, choose (0, 3))]))) $ \junk ->
  ioProperty $ do
    _ <- harmless gen junk
    _ <- harmless gen (rightLength (B.replicate 8 0 <> junk))
    pure True

sliceTests :: TestTree
sliceTests =
  testGroup
    "slices"
    [ testCase "a large byte string goes out as it is and comes in as a slice" $ do
        let big = B.pack (take 100000 (cycle [0 ..]))
        out <- encode (7 :: Int, big, "x", big)
        [p, q] <- pure (outgoingParts out)
        (partOffset p, partBytes p) @?= (48, 100000)
        partOffset q @?= 100048
        outgoingHeaderBytes out @?= 8 + 8 + 8 + 8 + 4 + 8
        withForeignPtr (partMemory p) $ \at -> B.unsafeUseAsCString big $ \from -> at @?= castPtr from
        (buffer, n) <- flatten out
        Right (_ :: Int, one, s :: String, two) <- decode buffer n
        (one, s, two) @?= (big, "x", big)
        liesAt buffer one 48
        liesAt buffer two 100048,
      testCase "at an offset" $ do
        contents <- message (B.replicate 5000 3)
        buffer <- bufferOf 64 contents
        Right slice <- decodeAt buffer 64 (B.length contents)
        liesAt buffer slice 80,
      testCase "a small byte string is copied" $
        forM_ [1, 100, 4095] $ \n -> do
          (buffer, k) <- encode (B.replicate n 1) >>= flatten
          Right slice <- decode buffer k
          B.unsafeUseAsCString slice $ \at -> inside buffer (castPtr at) @?= False,
      testCase "4096 bytes are large" $ do
        out <- encode (B.replicate 4096 1)
        length (outgoingParts out) @?= 1
        less <- encode (B.replicate 4095 1)
        length (outgoingParts less) @?= 0,
      testCase "a storable vector" $ do
        let xs = Storable.enumFromN 0 1000 :: Storable.Vector Double
        out <- encode xs
        [p] <- pure (outgoingParts out)
        withForeignPtr (partMemory p) $ \at -> Storable.unsafeWith xs (\from -> at @?= castPtr from)
        (buffer, n) <- flatten out
        Right ys <- decode buffer n
        ys @?= xs
        Storable.unsafeWith ys (\at -> inside buffer (castPtr at) @?= True),
      testCase "a primitive and an unboxed vector" $ do
        (buffer, n) <- encode (Primitive.enumFromN 0 1000 :: Primitive.Vector Int, Unboxed.enumFromN 0 1000 :: Unboxed.Vector Int) >>= flatten
        Right (xs, ys) <- decode buffer n
        (xs, ys) @?= (Primitive.enumFromN 0 1000 :: Primitive.Vector Int, Unboxed.enumFromN 0 1000)
        primitiveInside buffer xs @?= True
        case ys of Unboxed.V_Int inner -> primitiveInside buffer inner @?= True,
      testCase "a part of a vector sends only that" $ do
        out <- encode (Primitive.slice 100 600 (Primitive.enumFromN 0 1000 :: Primitive.Vector Int))
        map partBytes (outgoingParts out) @?= [4800]
    ]
  where
    liesAt buffer slice offset = B.unsafeUseAsCString slice $ \at -> (at `minusPtr` bufferPtr buffer) @?= offset
    primitiveInside buffer (Primitive.Vector offset _ memory) = inside buffer (byteArrayContents memory `plusPtr` (8 * offset))

inside :: Buffer -> Ptr Word8 -> Bool
inside buffer at = k >= 0 && k < bufferSize buffer
  where
    k = at `minusPtr` bufferPtr buffer

data Hidden = Hidden
  deriving stock (Show)

instance Exception Hidden

strictnessTests :: TestTree
strictnessTests =
  testGroup
    "what evaluation throws, encoding throws"
    [ throws "Int" (hidden :: Int),
      throws "()" (hidden :: ()),
      throws "element" [1, hidden, 3 :: Int],
      throws "unit element" [(), hidden],
      throws "list" (1 : 2 : hidden :: [Int]),
      throws "field" (1 :: Int, hidden :: Double),
      throws "Maybe" (Just (Just (hidden :: Char))),
      throws "Map" (Map.fromList [(1 :: Int, 'a'), (2, hidden)]),
      throws "Vector" (Vector.fromList [1, hidden :: Int]),
      throws "Array" (listArray (0, 1) [1, hidden] :: Array Int Int),
      throws "Seq" (Seq.fromList [1, hidden :: Int]),
      throws "Tree" (Node Leaf (hidden :: Int) Leaf),
      throws "Colour" (hidden :: Colour),
      throws "record" (Reading (Text.pack "a") 1 hidden),
      throws "Identity" (Identity (hidden :: Int)),
      throws "Integer" (hidden :: Integer),
      throws "Void" (hidden :: Void),
      throws "Serialized" (Serialized [1 :: Int, hidden]),
      throws "[AsBinary]" [AsBinary (hidden :: Int)]
    ]
  where
    hidden :: b
    hidden = throw Hidden
    throws :: Message a => String -> a -> TestTree
    throws name x = testCase name $ do
      answer <- try (encode x)
      case answer of
        Left Hidden -> pure ()
        Right _ -> assertFailure "encoded"

layoutTests :: TestTree
layoutTests =
  testGroup
    "layout"
    [ layout "Word16" (0x0102 :: Word16) ([2, 0, 0, 0] ++ mark ++ [2, 1]),
      layout "record" (Box 1 2) ([17, 0, 0, 0] ++ mark ++ [2] ++ word 1 ++ word 2),
      layout "list" [True, False] ([10, 0, 0, 0] ++ mark ++ word 2 ++ [1, 0]),
      layout "units" [(), ()] ([10, 0, 0, 0] ++ mark ++ word 2 ++ [0, 0]),
      layout "bytes" (B.pack [7, 8]) ([10, 0, 0, 0] ++ mark ++ word 2 ++ [7, 8]),
      layout "Integer" (negate (2 ^ (64 :: Int)) :: Integer) ([25, 0, 0, 0] ++ mark ++ [2] ++ word 2 ++ word 1 ++ word 0),
      layout "a blob inside" [Serialized 'a'] ([16, 0, 0, 0] ++ mark ++ word 1 ++ [1, 0, 0, 0, 0, 0, 0, 128] ++ replicate 8 0 ++ [97]),
      layout "part" (B.replicate 4096 9) ([8, 0, 0, 0] ++ mark ++ [0, 16, 0, 0, 0, 0, 0, 128] ++ replicate 4096 9)
    ]
  where
    layout :: Message a => String -> a -> [Word8] -> TestTree
    layout name x expected = testCase name (message x >>= \contents -> B.unpack contents @?= expected)

word :: Word8 -> [Word8]
word n = n : replicate 7 0

-- Half of a surrogate pair, as a text holds it, and what is said about it.
loneSurrogate :: ([Word8], String)
#if MIN_VERSION_text(2,0,0)
loneSurrogate = (word 3 ++ [0xed, 0xa0, 0x80], "expected a Text in UTF-8, found other bytes (the message has 19 bytes)")
#else
loneSurrogate = (word 2 ++ [0, 0xd8], "expected a Text in UTF-16, found a lone surrogate at unit 0 (the message has 18 bytes)")
#endif

refusalTests :: TestTree
refusalTests =
  testGroup
    "refusals"
    [ refused @Bool "Bool" [2] "expected a Bool, 0 or 1, found 2 (the message has 9 bytes)",
      refused @Colour "constructor" [3] "expected a constructor of Colour, 0 to 2, found 3 (the message has 9 bytes)",
      refused @Char "Char" [0, 0, 17, 0] "expected a Char, at most 1114111, found 1114112 (the message has 12 bytes)",
      refused @[()] "number of elements" [0, 0, 0, 0, 0, 1, 0, 0] "expected the number of elements in 0 bytes, found 1099511627776 (the message has 16 bytes)",
      refused @(Ratio Int) "denominator 0" (word 1 ++ word 0) "expected a Ratio in lowest terms, found another (the message has 24 bytes)",
      uncurry (refused @Text "lone surrogate") loneSurrogate,
      refused @Even "checked" (word 3) "expected an even number (the message has 16 bytes)",
      refused @Void "Void" [] "expected nothing: the type has no values (the message has 8 bytes)",
      testCase "bounds of an array" $ do
        contents <- message ((minBound :: Int, maxBound :: Int), [] :: [Int])
        answer <- decodeBytes contents
        isLeft (answer :: Either DecodeProblem (Array Int Int)) @?= True,
      testCase "another mark" $ do
        answer <- decodeBytes (B.pack [1, 0, 0, 0, 0x48, 0x4d, 0x50, 0x32, 1])
        answer @?= Left (DecodeProblem 4 "expected the format mark HMP1, found another (the message has 9 bytes)" :: DecodeProblem) `asTypeOf` Right True,
      testCase "displayed" $ do
        Left problem <- decodeBytes @Bool (B.pack ([1, 0, 0, 0] ++ mark ++ [7]))
        problem @?= DecodeProblem 8 "expected a Bool, 0 or 1, found 7 (the message has 9 bytes)",
      testCase "deep values" $ do
        let deep = iterate (\t -> Node t 'a' Leaf) Leaf !! 100000
        contents <- message deep
        answer <- decodeBytes contents
        answer @?= Right deep,
      testCase "levels that each claim the rest allocate it once" $ do
        let claims = B.concat [B.pack (7 : word 0) <> le (fromIntegral (17 * k - 17)) | k <- reverse [1 .. 2000 :: Int]]
            le :: Word64 -> ByteString
            le w = B.pack [fromIntegral (w `div` 256 ^ k) | k <- [0 .. 7 :: Int]]
        ok <- harmless (sized rose) (rightLength (B.replicate 8 0 <> claims))
        ok @?= True,
      testCase "NaN keys survive" $ do
        let m = Map.fromList [(1 :: Double, 'a'), (0 / 0, 'b'), (2, 'c')]
        Right m' <- message m >>= decodeBytes
        show (m' :: Map Double Char) @?= show m,
      testCase "a value that throws when measured" $ do
        answer <- try (encode (error "no" :: String))
        either (\(ErrorCall what) -> what @?= "no") (const (assertFailure "encoded")) answer
    ]
  where
    refused :: forall a. (Message a, Show a) => String -> [Word8] -> String -> TestTree
    refused name header expected = testCase name $ do
      answer <- decodeBytes (rightLength (B.replicate 8 0 <> B.pack header))
      case answer of
        Left problem -> problemReason problem @?= expected
        Right x -> assertFailure ("decoded " ++ show (x :: a))
