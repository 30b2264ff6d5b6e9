-- | The address state with a second state.
module AddrStateWithTest
  ( tests,
  )
where

import Data.Word (Word8)
import Foreign.Marshal.Alloc (allocaBytes)
import Foreign.Ptr (minusPtr, plusPtr)
import Foreign.Storable (peekByteOff, poke)
import Heddle.Json.Internal.AddrStateWith
import Heddle.Prim.Exception (Exception, throw, try)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit

tests :: TestTree
tests =
  testGroup
    "address state with a second state"
    [ testCase "a state is passed along with the address" $
        allocaBytes 8 $ \start -> do
          Reached total end results <- runAddrStateWith (traverse counted [3, 1, 4]) (10 :: Word8) (0 :: Int) start
          (end `minusPtr` start, total, results) @?= (3, 8, [0, 3, 4])
          mapM (peekByteOff start) [0 .. 2] >>= (@?= [13, 11, 14 :: Word8]),
      testCase "nothing and a function leave state and address" $ do
        allocaBytes 1 $ \start -> do
          let nothing = pure 'a'
          Reached now end x <- runAddrStateWith (succ <$> nothing) () 'z' start
          (now, end == start, x) @?= ('z', True, 'b'),
      testCase "results are evaluated when they are there" $
        allocaBytes 1 $ \start -> do
          got <- try (runAddrStateWith (True <$ (throw Late <$ counted 1)) (0 :: Word8) (0 :: Int) start)
          either (\Late -> True) (\(Reached _ _ done) -> not done) got @?= True
    ]

-- | Writes the number plus the environment; the state is the sum of the numbers. Answers the sum before.
counted :: Int -> AddrStateWith Int Word8 Int
counted n = addrStateWith $ \extra total p -> do
  poke p (fromIntegral n + extra)
  pure (Reached (total + n) (p `plusPtr` 1) total)

data Late = Late
  deriving stock (Show)

instance Exception Late
