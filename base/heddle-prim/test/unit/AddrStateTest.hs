-- | The address-threading monad, and what the processor has.
module AddrStateTest (tests) where

import Control.Monad.IO.Class (liftIO)
import Data.Word (Word8)
import Foreign.Marshal.Alloc (allocaBytes)
import Foreign.Ptr (minusPtr, plusPtr)
import Foreign.Storable (peek, peekByteOff, poke)
import Heddle.Prim.AddrState
import Heddle.Prim.Cpu
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit

tests :: TestTree
tests =
  testGroup
    "address state"
    [ testCase "each action begins where the one before ended" $
        allocaBytes 8 $ \start -> do
          At end total <- runAddrState (sum <$> traverse put [3, 1, 4, 1, 5]) (10 :: Word8) start
          end `minusPtr` start @?= 5
          total @?= 14
          mapM (peekByteOff start) [0 .. 4] >>= (@?= [13, 11, 14, 11, 15 :: Word8]),
      testCase "effects besides and the environment leave the address" $
        allocaBytes 8 $ \start -> do
          At end seen <- runAddrState (put 1 *> environment <* liftIO (pure ()) <* advancing (\_ p -> pure (p `plusPtr` 2))) (7 :: Word8) start
          (end `minusPtr` start, seen) @?= (3, 7),
      testCase "a later action may depend on a result" $
        allocaBytes 8 $ \start -> do
          At end () <- runAddrState (put 3 >>= \n -> advancing (\_ p -> pure (p `plusPtr` n))) (0 :: Word8) start
          end `minusPtr` start @?= 4
          peek start >>= (@?= 3),
      testCase "the levels begin with plain C, and one of them is taken" $ do
        take 1 levels @?= [Plain]
        assertBool "taken" (level `elem` levels)
        map levelCode levels @?= take (length levels) [0 ..]
    ]

-- | Writes the number plus the environment, and answers the number.
put :: Int -> AddrState Word8 Int
put n = addrState $ \extra p -> do
  poke p (fromIntegral n + extra)
  pure (At (p `plusPtr` 1) n)
