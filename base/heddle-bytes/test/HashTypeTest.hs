{-# LANGUAGE DeriveAnyClass #-}
{-# LANGUAGE DeriveGeneric #-}
{-# LANGUAGE OverloadedStrings #-}

-- | Hashes of all types, by their laws.
module HashTypeTest
  ( tests,
  )
where

import Control.Monad (forM_, unless, when)
import Data.Bits (complementBit, popCount, testBit, xor)
import Data.ByteString (ByteString)
import Data.ByteString qualified as ByteString
import Data.ByteString.Char8 qualified as Char8
import Data.ByteString.Lazy qualified as Lazy
import Data.ByteString.Short qualified as Short
import Data.Char (chr)
import Data.Complex (Complex (..))
import Data.Foldable qualified as Foldable
import Data.Int (Int16, Int32, Int64, Int8)
import Data.IntMap.Strict qualified as IntMap
import Data.IntSet qualified as IntSet
import Data.List (nub)
import Data.List.NonEmpty (NonEmpty (..))
import Data.Map.Strict qualified as Map
import Data.Ratio ((%))
import Data.Sequence qualified as Seq
import Data.Set qualified as Set
import Data.Text (Text)
import Data.Text qualified as Text
import Data.Text.Lazy qualified as LazyText
import Data.Text.Short qualified as ShortText
import Data.Word (Word16, Word32, Word64, Word8)
import GHC.Generics (Generic)
import HashValues (allocated, cut, reference, withKey)
import Heddle.Bytes.Hash
import Heddle.Bytes.Internal.Sip (finishWords, start)
import Heddle.Bytes.Utf8 qualified as Utf8
import Heddle.Testkit.Judging (whenOptimised)
import Numeric.Natural (Natural)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertFailure, testCase, (@?=))
import Test.Tasty.QuickCheck hiding (total, within)

tests :: TestTree
tests = testGroup "Hash of any type" typeTests

data MyType = MyStr String | MyInt Integer
  deriving stock (Eq, Generic, Show)
  deriving anyclass (Hash)

newtype Poly a = Poly a
  deriving stock (Eq, Generic, Show)

instance Hash a => Hash (Poly a)

data Colour = Red | Green | Blue | Grey Word8 | Mixed Colour Colour
  deriving stock (Eq, Generic, Show)
  deriving anyclass (Hash)

data Tree a = Leaf | Node (Tree a) a (Tree a)
  deriving stock (Eq, Generic, Show)
  deriving anyclass (Hash)

data Named = Named {name :: Text, size :: Int}
  deriving stock (Eq, Generic, Show)
  deriving anyclass (Hash)

data Wide = Wide Int Text (Maybe Bool) [Double] (Char, Word16) ByteString () Ordering
  deriving stock (Eq, Generic, Show)
  deriving anyclass (Hash)

typeTests :: [TestTree]
typeTests =
  [ testProperty "equal: numbers" $ \(n :: Integer) (m :: Word64) -> withKey $ \key ->
      conjoin
        [ hashWith key m === finishWords (absorbWord m (start key)),
          hashWith key (m, m) === finishWords (absorbWord m (absorbWord m (start key))),
          hashWith key (fromIntegral m :: Natural) === hashWith key (toInteger m),
          hashWith key (n % 7) === hashWith key ((n * 6) % 42),
          hashWith key (fromIntegral m :: Int) === hashWith key m,
          hashWith key (fromIntegral m :: Int8) === hashWith key (fromIntegral (fromIntegral m :: Int8) :: Int64)
        ],
    testCase "equal: zeros, and what is not a number" $ do
      hashWith reference (0 :: Double) @?= hashWith reference (-0.0 :: Double)
      hashWith reference (0 :: Float) @?= hashWith reference (-0.0 :: Float)
      hashWith reference (0 / 0 :: Double) @?= hashWith reference (negate (0 / 0) :: Double)
      hashWith reference (0 / 0 :: Float) @?= hashWith reference (negate (0 / 0) :: Float)
      hashWith reference (0 :+ 1 :: Complex Double) @?= hashWith reference ((-0.0) :+ 1 :: Complex Double),
    testProperty "equal: strings, however they are cut" $
      withKey $ \key -> forAll cut $ \pieces ->
        let strict = ByteString.concat pieces
            lazy = Lazy.fromChunks pieces
            short = Short.toShort strict
         in conjoin
              [ hashWith key lazy === hashWith key strict,
                hashWith key short === hashWith key strict,
                hashWith key (1 :: Int, lazy) === hashWith key (1 :: Int, strict),
                hashWith key (1 :: Int, short) === hashWith key (1 :: Int, strict)
              ],
    testProperty "equal: texts, however they are cut" $
      withKey $ \key -> forAll (listOf texts) $ \pieces ->
        let strict = Text.concat pieces
            lazy = LazyText.fromChunks pieces
            within = Text.drop 3 ("abc" <> strict)
            short = ShortText.fromText strict
         in conjoin
              [ hashWith key lazy === hashWith key strict,
                hashWith key within === hashWith key strict,
                hashWith key [lazy] === hashWith key [strict],
                hashWith key [within] === hashWith key [strict],
                hashWith key short === hashWith key (ShortText.fromText within),
                hashWith key (Just short) === hashWith key (Just (ShortText.fromText within)),
                hashWith key (Utf8.fromText within) === hashWith key (Utf8.encode strict),
                hashWith key (Just (Utf8.fromText within), ()) === hashWith key (Just (Utf8.encode strict), ())
              ],
    testCase "equal: long texts" $ do
      let strict = Text.replicate 30000 "\233\120120"
          lazy = LazyText.fromChunks (Text.chunksOf 777 strict)
      hashWith reference lazy @?= hashWith reference strict
      hashWith reference (Short.toShort (ByteString.replicate 100000 3)) @?= sipHash13 reference (ByteString.replicate 100000 3),
    testProperty "equal: containers, however they were made" $ \(pairs :: [(Int, Word8)]) -> withKey $ \key ->
      let forwards = Map.fromList (reverse unique)
          one = Foldable.foldl' (\m (k, x) -> Map.insert k x m) Map.empty unique
          unique = Map.toList (Map.fromList pairs)
          list = map fst pairs
       in conjoin
            [ hashWith key forwards === hashWith key one,
              hashWith key (Map.keysSet forwards) === hashWith key (Set.fromList (map fst unique)),
              hashWith key (IntMap.fromList pairs) === hashWith key (IntMap.fromList (Map.toList (Map.fromList pairs))),
              hashWith key (IntSet.fromList list) === hashWith key (IntSet.fromList (reverse list)),
              hashWith key (Seq.fromList list) === hashWith key (foldr (Seq.<|) Seq.empty list)
            ],
    testCase "apart: no two of these" $ do
      allApart "strings" (map hashed ["", "\0", "\0\0", "a", "b", "ab", "ba", "aaaaaaaa", "aaaaaaa", "aaaaaaaa\0" :: ByteString])
      allApart "pairs" (map hashed [("ab", "c"), ("a", "bc"), ("", "abc"), ("abc", ""), ("c", "ab") :: (ByteString, ByteString)])
      allApart "pairs of texts" (map hashed [("ab", "c"), ("a", "bc"), ("", "abc"), ("abc", ""), ("c", "ab") :: (Text, Text)])
      allApart "lists" (map hashed [[], [[]], [[], []], [[[]]], [[], [[]]], [[[]], []], [[[], []]] :: [[[()]]]])
      allApart "units" (map hashed [[], [()], [(), ()]] <> map hashed [Nothing, Just ()])
      allApart "maybes" (map hashed [Nothing, Just Nothing, Just (Just Nothing), Just (Just (Just ()))])
      allApart "eithers" (map hashed [Left (Left 0), Left (Right 0), Right (Left 0), Right (Right (0 :: Int)) :: Either (Either Int Int) (Either Int Int)])
      allApart "lists of numbers" (map hashed [[0], [0, 0], [1], [0, 1], [1, 0], [2], [], [1, 1 :: Int]])
      allApart "non-empty" (map hashed [0 :| [], 0 :| [0], 1 :| [], 0 :| [1], 1 :| [0 :: Int]])
      let cuts = [([1], [2, 3]), ([1, 2], [3]), ([], [1, 2, 3]), ([1, 2, 3], []), ([0], []), ([], [0]), ([0, 1], []), ([0], [1]), ([], [0, 1]), ([1], []), ([], [1])] :: [([Int], [Int])]
      allApart "two lists" (map hashed cuts)
      allApart "two sequences" (map (\(a, b) -> hashed (Seq.fromList a, Seq.fromList b)) cuts)
      allApart "two sets" (map (\(a, b) -> hashed (Set.fromList a, Set.fromList b)) cuts)
      allApart "two sets of numbers" (map (\(a, b) -> hashed (IntSet.fromList a, IntSet.fromList b)) cuts)
      allApart "maps" (map hashed [Map.fromList [(1, 2)], Map.fromList [(2, 1)], Map.fromList [(1, 2), (2, 1)], Map.empty :: Map.Map Int Int])
      allApart "maps of numbers" (map hashed [IntMap.fromList [(1, 2)], IntMap.fromList [(2, 1)], IntMap.fromList [(1, 2), (2, 1)], IntMap.empty :: IntMap.IntMap Int])
      allApart "numbers" (map hashed ([0, 1, -1, 255, 256] <> [2 ^ k | k <- [9 .. 200 :: Int]] <> [negate (2 ^ k) | k <- [9 .. 200 :: Int]] :: [Integer]))
      allApart "doubles" (map hashed [0, 1, -1, 1 / 0, -1 / 0, 0 / 0, 5.0e-324, 2 :: Double])
      allApart "ratios" (map hashed [1 % 2, 2 % 1, -1 % 2, 0 % 1, 1 % 3 :: Rational])
      allApart "complexes" (map hashed [0 :+ 1, 1 :+ 0, 1 :+ 1 :: Complex Double])
      let n = 1 :: Int
          m = 2 :: Int
      allApart "tuples" [hashed n, hashed (n, m), hashed (m, n), hashed (n, m, n), hashed (m, n, n), hashed (n, n, m, n), hashed (n, n, n, m), hashed (n, n, n, n, m), hashed (n, n, n, n, m, n), hashed (n, n, n, n, n, m), hashed (n, n, n, n, n, m, n), hashed (n, n, n, n, n, n, m)],
    testProperty "apart: what joins to one, cut in two ways" $
      forAll cutTwice $ \(one, other) -> withKey $ \key ->
        one /= other
          ==> conjoin
            [ hashWith key one =/= hashWith key other,
              hashWith key (map Char8.unpack one) =/= hashWith key (map Char8.unpack other),
              hashWith key (map (ByteString.foldr (\b n -> 256 * n + toInteger b) 0) one) =/= 0
            ],
    testProperty "apart: different trees" $
      forAll trees $ \one -> forAll trees $ \other -> withKey $ \key ->
        (one == other) === (hashWith key one == hashWith key other),
    testCase "generic: the types of the post" $ do
      allApart "MyType" (map hashed [MyStr "1", MyInt 1, MyStr "", MyInt 0, MyInt (2 ^ (70 :: Int)), MyStr "11"])
      hashed (Poly 'x') @?= hashed 'x'
      let named = Named {name = "a", size = 1}
      allApart "Named" (map hashed [named, named {size = 2}, named {name = "b"}])
      allApart "Poly" (map (hashed . Poly) [Nothing, Just 'a', Just 'b'])
      allApart "Colour" (map hashed ([Red, Green, Blue, Mixed Red Green, Mixed Green Red, Mixed Red (Mixed Green Red), Mixed (Mixed Red Green) Red] <> map Grey [0 ..]))
      let wide = Wide 1 "a" (Just True) [1, 2] ('c', 4) "b" () LT
      hashed wide @?= hashed (Wide 1 (Text.drop 1 "ba") (Just True) [1, 2] ('c', 4) "b" () LT)
      allApart
        "Wide"
        [ hashed wide,
          hashed (Wide 2 "a" (Just True) [1, 2] ('c', 4) "b" () LT),
          hashed (Wide 1 "" (Just True) [1, 2] ('c', 4) "b" () LT),
          hashed (Wide 1 "a" Nothing [1, 2] ('c', 4) "b" () LT),
          hashed (Wide 1 "a" (Just True) [1] ('c', 4) "b" () LT),
          hashed (Wide 1 "a" (Just True) [1, 2] ('d', 4) "b" () LT),
          hashed (Wide 1 "a" (Just True) [1, 2] ('c', 4) "" () LT),
          hashed (Wide 1 "a" (Just True) [1, 2] ('c', 4) "b" () GT)
        ],
    whenOptimised . testCase "a hash of a number, a pair or a sum allocates nothing" $ do
      allocated "Int" (hashWith reference)
      allocated "pair" (\i -> hashWith reference (i, fromIntegral i :: Word8))
      allocated "Maybe" (\i -> hashWith reference (if even i then Just i else Nothing)),
    testCase "avalanche: numbers" $ avalanche 64 (hashWith reference),
    testCase "avalanche: narrow numbers" $ avalanche 16 (\n -> hashWith reference (fromIntegral n :: Word16)),
    testCase "avalanche: the second of a pair" $ avalanche 64 (\n -> hashWith reference (7 :: Int, n)),
    testCase "avalanche: lists" $ avalanche 64 (\n -> hashWith reference [n, 1]),
    testCase "avalanche: strings of 5 and 8 bytes" $ do
      avalanche 40 (\n -> hashWith reference (ByteString.pack [fromIntegral (n `div` 256 ^ i) | i <- [0 .. 4 :: Int]]))
      avalanche 64 (\n -> hashWith reference (ByteString.pack [fromIntegral (n `div` 256 ^ i) | i <- [0 .. 7 :: Int]])),
    testCase "avalanche: keys" $ avalanche 64 (\n -> hashWith (HashKey n 0) 'x'),
    testCase "every type keyed: another key, another hash" $ do
      let both :: Hash a => a -> [Word64]
          both x = [hashWith reference x, hashWith (HashKey 1 2) x]
      forM_
        [ both (1 :: Int),
          both (1 :: Int32),
          both (1 :: Word),
          both (1 :: Word32),
          both (1 :: Int16),
          both (2 ^ (99 :: Int) :: Integer),
          both (1 :: Natural),
          both True,
          both 'c',
          both (1.5 :: Double),
          both (1.5 :: Float),
          both LT,
          both (),
          both ("a" :: ByteString),
          both ("a" :: Lazy.ByteString),
          both ("a" :: Short.ShortByteString),
          both ("a" :: Text),
          both ("a" :: LazyText.Text),
          both (ShortText.pack "a"),
          both ("a" :: String),
          both (Just 'a'),
          both (1 :: Int, 2 :: Int, 3 :: Int, 4 :: Int, 5 :: Int, 6 :: Int, 7 :: Int)
        ]
        (allApart "keys")
  ]

hashed :: Hash a => a -> Word64
hashed = hashWith reference

allApart :: String -> [Word64] -> IO ()
allApart what found = unless (length (nub found) == length found) $ assertFailure (what <> ": equal hashes among " <> show found)

-- | Changing any one of this many input bits changes each bit of the hash in about half of the cases, and half of
-- the bits. The numbers and the key are always the same, and so are the counts: they are off from half by at most six
-- standard deviations.
avalanche :: Int -> (Word64 -> Word64) -> IO ()
avalanche bits f = forM_ [0 .. bits - 1] $ \bit -> do
  let changes = [f n `xor` f (complementBit n bit) | n <- numbers]
      perBit = [length (filter (`testBit` out) changes) | out <- [0 .. 63]]
      total = sum (map popCount changes)
  when (minimum perBit < 500 - 95 || maximum perBit > 500 + 95) . assertFailure $
    "input bit " <> show bit <> " changes output bits in " <> show (minimum perBit) <> " to " <> show (maximum perBit) <> " of 1000 cases"
  when (abs (total - 32000) > 6 * 127) . assertFailure $
    "input bit " <> show bit <> " changes " <> show total <> " of 64000 bits"
  where
    numbers = take 1000 (iterate (\n -> n * 6364136223846793005 + 1442695040888963407) 42)

-- | One string, cut in two ways.
cutTwice :: Gen ([ByteString], [ByteString])
cutTwice = do
  n <- chooseInt (0, 12)
  whole <- ByteString.pack <$> vectorOf n (elements [0, 1, 97])
  (,) <$> pieces whole <*> pieces whole
  where
    pieces rest
      | ByteString.null rest = frequency [(4, pure []), (1, ("" :) <$> pieces rest)]
      | otherwise = do
        n <- chooseInt (0, 5)
        (ByteString.take n rest :) <$> pieces (ByteString.drop n rest)

trees :: Gen (Tree Bool)
trees = sized (\n -> resize (min n 6) tree)
  where
    tree = sized $ \n -> if n <= 0 then pure Leaf else oneof [pure Leaf, Node <$> resize (n `div` 2) tree <*> arbitrary <*> resize (n `div` 2) tree]

texts :: Gen Text
texts = Text.pack <$> listOf (frequency [(3, chr <$> chooseInt (32, 126)), (1, chr <$> chooseInt (0xa0, 0xd7ff)), (1, chr <$> chooseInt (0x10000, 0x10ffff))])
