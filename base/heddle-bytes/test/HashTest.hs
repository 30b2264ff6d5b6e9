{-# LANGUAGE OverloadedStrings #-}

-- | Hashes of strings: against the reference's vectors, Python's own and our twin in Haskell.
module HashTest
  ( tests,
  )
where

import Control.Monad (forM_)
import Data.Bits (shiftL, (.&.))
import Data.ByteString (ByteString)
import Data.ByteString qualified as ByteString
import Data.ByteString.Lazy qualified as Lazy
import Data.ByteString.Unsafe (unsafeDrop, unsafeTake)
import Data.Foldable qualified as Foldable
import Data.Word (Word64)
import HashValues (allocated, cut, reference, withKey)
import Heddle.Bytes.Hash
import Heddle.Bytes.Internal.Sip (plainHash, start)
import Heddle.Prim.Exception (evaluate)
import Heddle.Testkit.Guarded (guarded)
import Heddle.Testkit.Judging (whenOptimised)
import SipVectors (vectors13, vectors24)
import System.Environment (getEnvironment)
import System.Process (CreateProcess (..), proc, readCreateProcess)
import Test.Tasty (TestTree, localOption, testGroup)
import Test.Tasty.HUnit (assertBool, assertEqual, assertFailure, testCase, (@?=))
import Test.Tasty.QuickCheck hiding ((.&.))

tests :: TestTree
tests =
  testGroup "Hash" . (: []) $
    testGroup
      "strings"
      [ testCase "the reference's vectors" $ do
          assertBool "key" (keyFromBytes (ByteString.pack [0 .. 15]) == Just reference)
          forM_ (zip3 [0 ..] vectors24 vectors13) $ \(len, expected24, expected13) -> do
            let text = ByteString.pack (take len [0 ..])
                pieces = map ByteString.singleton (take len [0 ..])
            assertEqual ("2-4 of " <> show len) (replicate 4 expected24) (allWays SipHash24 reference text pieces)
            assertEqual ("1-3 of " <> show len) (replicate 4 expected13) (allWays SipHash13 reference text pieces),
        testProperty "reference, plain and chunks: one answer" $
          forAll anyRounds $ \rounds -> withKey $ \key -> forAll cut $ \pieces ->
            let ways = allWays rounds key (ByteString.concat pieces) pieces
             in ways === replicate 4 (head ways),
        localOption (QuickCheckTests 30) . testProperty "chunks: the same of long strings" $
          forAll anyRounds $ \rounds -> withKey $ \key -> forAll longCut $ \pieces ->
            let ways = allWays rounds key (ByteString.concat pieces) pieces
             in ways === replicate 4 (head ways),
        testCase "Python's hash of strings is SipHash-1-3, too" pythonAgrees,
        testCase "nothing is read outside of a string" $
          forM_ ([0 .. 80] <> [4095, 4096]) $ \len -> do
            let text = ByteString.pack (take len (cycle [1 .. 251]))
                expected = plainHash 1 (start reference) text
                both f = guarded text (evaluate . f)
            assertEqual (show len) (expected, expected) =<< both (sipHash13 reference)
            assertEqual (show len) (plainHash 2 (start reference) text) . fst =<< both (sipHash24 reference)
            assertEqual (show len) (expected, expected) =<< both (plainHash 1 (start reference))
            assertEqual (show len) (expected, expected) =<< both (finish . update (begin SipHash13 reference))
            forM_ [1 .. 7] $ \held -> do
              let before = ByteString.replicate held 9
              assertEqual (show (held, len)) (replicate 2 (sipHash13 reference (before <> text))) . (\(a, b) -> [a, b])
                =<< both (finish . update (update (begin SipHash13 reference) before)),
        testCase "a stream is gone on with in two ways" $ do
          let one = update (begin SipHash13 reference) "abc"
          finish (update one "d") @?= sipHash13 reference "abcd"
          finish (update one "e") @?= sipHash13 reference "abce"
          finish one @?= sipHash13 reference "abc",
        testCase "the examples of the documentation" $ do
          assertBool "keyFromBytes" (keyFromBytes "0123456789" == Nothing)
          sipHash13 (HashKey 0x0706050403020100 0x0f0e0d0c0b0a0908) "\0\1\2" @?= 10085823154776569851
          sipHash24 (HashKey 0x0706050403020100 0x0f0e0d0c0b0a0908) "\0\1\2" @?= 9612764727700323885
          finish (update (update (begin SipHash13 (HashKey 1 2)) "ab") "c") @?= sipHash13 (HashKey 1 2) "abc"
          assertBool "hashWith" (hashWith (HashKey 1 2) ("ab" :: ByteString, "c" :: ByteString) /= hashWith (HashKey 1 2) ("a" :: ByteString, "bc" :: ByteString)),
        testCase "a key is 16 bytes" $
          forM_ ([0 .. 15] <> [17 .. 40]) $ \len ->
            assertBool (show len) (keyFromBytes (ByteString.replicate len 1) == Nothing),
        whenOptimised . testCase "a hash allocates nothing" $
          forM_ [0, 1, 7, 8, 16, 45, 4096] $ \len -> do
            let whole = ByteString.replicate (len + 100) 7
                -- The checked functions may allocate their results themselves.
                piece i = unsafeTake len (unsafeDrop (i .&. 63) whole)
            allocated ("1-3 of " <> show len) (sipHash13 reference . piece)
            allocated ("2-4 of " <> show len) (sipHash24 reference . piece)
            allocated ("hashWith of " <> show len) (hashWith reference . piece)
            allocated ("plain of " <> show len) (plainHash 1 (start reference) . piece)
      ]

-- | At once, lazily, in pieces, and in Haskell alone.
allWays :: Rounds -> HashKey -> ByteString -> [ByteString] -> [Word64]
allWays rounds key text pieces =
  [ (if one then sipHash13 else sipHash24) key text,
    (if one then sipHash13Lazy else sipHash24Lazy) key (Lazy.fromChunks pieces),
    finish (Foldable.foldl' update (begin rounds key) pieces),
    plainHash (if one then 1 else 2) (start key) text
  ]
  where
    one = rounds == SipHash13

pythonAgrees :: IO ()
pythonAgrees = do
  environment <- getEnvironment
  answer <-
    readCreateProcess
      (proc "python3" ["-c", program]) {env = Just (("PYTHONHASHSEED", "0") : filter ((/= "PYTHONHASHSEED") . fst) environment)}
      ""
  case lines answer of
    algorithm : numbers -> do
      algorithm @?= "siphash13"
      map read numbers @?= [sipHash13 (HashKey 0 0) (text len) | len <- lengths]
    [] -> assertFailure "no answer"
  where
    -- Of the empty string Python says 0.
    lengths = [1 .. 300] :: [Int]
    text len = ByteString.pack [fromIntegral (i * i + len) | i <- [0 .. len - 1]]
    program =
      "import sys\nprint(sys.hash_info.algorithm)\n"
        <> "for n in range(1, 301): print(hash(bytes((i * i + n) & 255 for i in range(n))) & (2 ** 64 - 1))"

anyRounds :: Gen Rounds
anyRounds = elements [minBound ..]

-- | Some 100 KB, cut anywhere.
longCut :: Gen [ByteString]
longCut = do
  len <- elements [32767, 32768, 32769, 65535, 65536, 65537, 100003]
  seed <- chooseAny :: Gen Word64
  let whole = fst (ByteString.unfoldrN len (\n -> Just (fromIntegral (n `div` (1 `shiftL` 56)), n * 6364136223846793005 + 1442695040888963407)) seed)
      pieces rest
        | ByteString.null rest = pure []
        | otherwise = do
          n <- oneof [chooseInt (0, 20), chooseInt (0, 50000), pure 32768]
          (ByteString.take n rest :) <$> pieces (ByteString.drop n rest)
  pieces whole
