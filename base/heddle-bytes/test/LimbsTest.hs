-- | The words of integers.
module LimbsTest
  ( tests,
  )
where

import Data.Bits (shiftL)
import Data.Primitive.ByteArray (ByteArray, indexByteArray, sizeofByteArray)
import Data.Word (Word64)
import Heddle.Bytes.Internal.Limbs
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit
import Test.Tasty.QuickCheck hiding (Small)

tests :: TestTree
tests =
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
    ]
  where
    fits n = n >= toInteger (minBound :: Int) && n <= toInteger (maxBound :: Int)
    form = \case
      Small _ -> "small"
      Above _ -> "above"
      Below _ -> "below"

integer :: Gen Integer
integer =
  oneof
    [ arbitrary,
      (\sign k d -> sign * 2 ^ k + d) <$> elements [1, -1] <*> choose (0, 300 :: Int) <*> choose (-2, 2),
      product <$> listOf (toInteger <$> (arbitraryBoundedIntegral :: Gen Word64))
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
