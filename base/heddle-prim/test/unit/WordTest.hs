-- | Products of words, the words of integers, and random bytes.
module WordTest (tests) where

import Data.Bits (shiftL, shiftR)
import Data.ByteString qualified as B
import Data.List (nub)
import Data.Primitive.ByteArray (ByteArray, indexByteArray, sizeofByteArray)
import Data.Word (Word64)
import Heddle.Prim.Limbs
import Heddle.Prim.Random
import Heddle.Prim.Word128
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit
import Test.Tasty.QuickCheck hiding (Small)

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
        "Limbs"
        [ testProperty "the parts are the number's" . forAll integer $ \n -> joined (limbs n) === n,
          testProperty "small is what fits an Int, and the highest word is not 0" . forAll integer $ \n -> case limbs n of
            Small _ -> fits n
            Above array -> not (fits n) && n > 0 && top array /= 0
            Below array -> not (fits n) && n < 0 && top array /= 0,
          testCase "the ends of Int" $
            map (form . limbs) [2 ^ (63 :: Int) - 1, 2 ^ (63 :: Int), negate (2 ^ (63 :: Int)), negate (2 ^ (63 :: Int)) - 1]
              @?= ["small", "above", "small", "below"]
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
  where
    fits n = n >= toInteger (minBound :: Int) && n <= toInteger (maxBound :: Int)
    form = \case
      Small _ -> "small"
      Above _ -> "above"
      Below _ -> "below"

-- | All sizes, and the ends.
word :: Gen Word64
word = oneof [arbitraryBoundedIntegral, shiftR <$> arbitraryBoundedIntegral <*> choose (0, 63), elements [0, 1, maxBound, 2 ^ (32 :: Int)]]

integer :: Gen Integer
integer =
  oneof
    [ arbitrary,
      (\sign k d -> sign * 2 ^ k + d) <$> elements [1, -1] <*> choose (0, 300 :: Int) <*> choose (-2, 2),
      product <$> listOf (toInteger <$> word)
    ]

joined :: Limbs -> Integer
joined = \case
  Small n -> toInteger n
  Above array -> magnitude array
  Below array -> negate (magnitude array)

magnitude :: ByteArray -> Integer
magnitude array = sum [toInteger (indexByteArray array i :: Word64) `shiftL` (64 * i) | i <- [0 .. sizeofByteArray array `quot` 8 - 1]]

top :: ByteArray -> Word64
top array = indexByteArray array (sizeofByteArray array `quot` 8 - 1)
