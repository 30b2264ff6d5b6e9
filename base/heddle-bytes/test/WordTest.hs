-- | Products of words, and random bytes.
module WordTest (tests) where

import Data.Bits (shiftL, shiftR)
import Data.ByteString qualified as B
import Data.List (nub)
import Data.Word (Word64)
import Heddle.Bytes.Internal.Random
import Heddle.Bytes.Internal.Word128
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit
import Test.Tasty.QuickCheck

tests :: TestTree
tests =
  testGroup
    "words"
    [ testGroup
        "Word128"
        [ testProperty "the product is that of integers" $
            forAll word $ \a -> forAll word $ \b ->
              let Wide high low = timesWide a b
               in (toInteger high `shiftL` 64) + toInteger low === toInteger a * toInteger b
                    .&&. timesHigh a b === fromInteger ((toInteger a * toInteger b) `shiftR` 64),
          testCase "the largest" $ timesWide maxBound maxBound @?= Wide (maxBound - 1) 1,
          testCase "the examples" $ do
            timesWide maxBound 2 @?= Wide 1 18446744073709551614
            timesHigh maxBound 2 @?= 1,
          testCase "the high half comes first" $ assertBool "order" (Wide 1 0 > Wide 0 maxBound)
        ],
      testGroup
        "Random"
        [ testCase "as many bytes as were asked for, also in more than one answer" $
            mapM (fmap B.length . randomBytes) [0, 1, 16, 256, 257, 100000] >>= (@?= [0, 1, 16, 256, 257, 100000]),
          testCase "they are written up to the end" $ do
            bytes <- randomBytes 100000
            assertBool "zeros at the end" (B.any (/= 0) (B.drop (100000 - 32) bytes)),
          testCase "they differ from call to call" $ do
            keys <- mapM (const (randomBytes 16)) [1 .. 50 :: Int]
            length (nub keys) @?= 50,
          testCase "what cannot be done without is given, too" $
            randomBytesOrStop "a test" 16 >>= (@?= 16) . B.length
        ]
    ]

-- | All sizes, and the ends.
word :: Gen Word64
word = oneof [arbitraryBoundedIntegral, shiftR <$> arbitraryBoundedIntegral <*> choose (0, 63), elements [0, 1, maxBound, 2 ^ (32 :: Int)]]
