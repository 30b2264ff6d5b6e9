-- | Keys that were chosen to collide do not.
module HashFloodTest
  ( tests,
  )
where

import Control.Monad (forM_)
import Data.Bits (xor, (.&.))
import Data.ByteString (ByteString)
import Data.ByteString qualified as ByteString
import Data.HashMap.Strict qualified as HashMap
import Data.HashSet qualified as HashSet
import Data.Hashable (hash, hashWithSalt)
import Data.List (sort)
import Data.Map.Strict qualified as Map
import Data.Set qualified as Set
import Data.Word (Word8)
import Heddle.Bytes.Hash
import Heddle.Testkit.CollidingKeys
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, testCase, (@?=))
import Test.Tasty.QuickCheck hiding ((.&.))

tests :: TestTree
tests = testGroup "Hash flooding" floodTests

-- Chosen against hashable, whose strings have had FNV-1 hashes until 1.4; else against FNV-1 itself.
strings :: [ByteString]
strings = if hashableIsFnv then fnvKeys hash else fnvKeys fnv1

hashableIsFnv :: Bool
hashableIsFnv = not (null (fnvKeys hash))

fnv1 :: ByteString -> Int
fnv1 = ByteString.foldl' (\h byte -> (h * 1099511628211) `xor` fromIntegral byte) (-3750763034362895579)

floodTests :: [TestTree]
floodTests =
  [ testProperty "keyed: a HashMap of keyed keys is a Map" $ \(pairs :: [(Word8, Int)]) ->
      let table = HashMap.fromList [(Keyed k, x) | (k, x) <- pairs]
          set = HashSet.fromList (map (Keyed . fst) pairs)
          model = Map.fromList pairs
       in conjoin
            [ sort [(unKeyed k, x) | (k, x) <- HashMap.toList table] === Map.toList model,
              conjoin [HashMap.lookup (Keyed k) table === Map.lookup k model | k <- [minBound ..]],
              sort (map unKeyed (HashSet.toList set)) === Map.keys model
            ],
    testProperty "keyed: the salt counts" $ \(n :: Int) salt ->
      salt /= 0 ==> hashWithSalt salt (Keyed n) =/= hashWithSalt 0 (Keyed n),
    testCase "2^16 strings with one FNV-1 hash" $ do
      let chosen = take (2 ^ (16 :: Int)) strings
      distinct chosen @?= 2 ^ (16 :: Int)
      distinct (map (if hashableIsFnv then hash else fnv1) chosen) @?= 1
      distinct (map (hash . Keyed) chosen) @?= 2 ^ (16 :: Int),
    testCase "2^16 pairs of numbers with one hash" $ do
      let chosen = take (2 ^ (16 :: Int)) pairKeys
          -- Since 1.4 hashable mixes numbers otherwise, and the first two tell.
          collide = distinct (map hash (take 2 chosen)) == 1
      distinct (map hash chosen) @?= (if collide then 1 else 2 ^ (16 :: Int))
      distinct (map (hash . Keyed) chosen) @?= 2 ^ (16 :: Int)
      distinct (map (hash . Keyed . (\(a, b) -> [a, b])) chosen) @?= 2 ^ (16 :: Int),
    testCase "2^16 numbers that agree in their low bits" $ do
      let chosen = take (2 ^ (16 :: Int)) strideKeys
          low = map (.&. 0xffff)
      distinct (low (map hash chosen)) @?= 1
      -- Of 2^16 numbers at random the low 16 bits have 41427 values, give or take 200.
      let found = distinct (low (map (hash . Keyed) chosen))
      assertBool ("low bits: " <> show found) (found > 40000 && found < 43000),
    testCase "a table of chosen keys holds them all" $ do
      let chosen = take (2 ^ (14 :: Int)) strings
          table = HashMap.fromList (zip (map Keyed chosen) [0 :: Int ..])
      HashMap.size table @?= length chosen
      forM_ (zip chosen [0 ..]) $ \(k, i) -> HashMap.lookup (Keyed k) table @?= Just i
  ]

distinct :: Ord a => [a] -> Int
distinct = Set.size . Set.fromList
