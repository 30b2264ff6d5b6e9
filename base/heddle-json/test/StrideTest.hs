-- | Walks along memory with a state.
module StrideTest
  ( tests,
  )
where

import Data.Word (Word8)
import Foreign.Marshal.Alloc (allocaBytes)
import Foreign.Ptr (minusPtr, plusPtr)
import Foreign.Storable (peekByteOff, poke)
import Heddle.Json.Internal.Stride
import Heddle.Prim.Exception (Exception, throw, try)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit

tests :: TestTree
tests =
  testGroup
    "strides"
    [ testCase "a state is passed along with the address" $
        allocaBytes 8 $ \start -> do
          Reached total end results <- strideFrom (traverse counted [3, 1, 4]) (10 :: Word8) (0 :: Int) start
          (end `minusPtr` start, total, results) @?= (3, 8, [0, 3, 4])
          mapM (peekByteOff start) [0 .. 2] >>= (@?= [13, 11, 14 :: Word8]),
      testCase "nothing and a function leave state and address" $ do
        allocaBytes 1 $ \start -> do
          let nothing = pure 'a'
          Reached now end x <- strideFrom (succ <$> nothing) () 'z' start
          (now, end == start, x) @?= ('z', True, 'b'),
      testCase "results are evaluated when they are there" $
        allocaBytes 1 $ \start -> do
          got <- try (strideFrom (True <$ (throw Late <$ counted 1)) (0 :: Word8) (0 :: Int) start)
          either (\Late -> True) (\(Reached _ _ done) -> not done) got @?= True
    ]

-- | Writes the number plus the environment; the state is the sum of the numbers. Answers the sum before.
counted :: Int -> Stride Int Word8 Int
counted n = stride $ \extra total p -> do
  poke p (fromIntegral n + extra)
  pure (Reached (total + n) (p `plusPtr` 1) total)

data Late = Late
  deriving stock (Show)

instance Exception Late
