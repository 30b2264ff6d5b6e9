-- |
-- Module      : BarrierTest
-- Description : One thread's barrier serves two
-- Stability   : test
module BarrierTest (tests, registrations) where

import Control.Concurrent (forkOn, newEmptyMVar, putMVar, takeMVar, yield)
import Control.Monad (forM_, unless, when)
import Data.Bits (testBit)
import Foreign.C.Types (CInt (..), CLong (..))
import Heddle.Prim.Atomic
import Heddle.Sched.Internal.Barrier
import Test.Tasty
import Test.Tasty.HUnit

-- | With what the kernel says of this process's registrations before anything used a barrier.
tests :: CLong -> TestTree
tests registered =
  testGroup
    "barriers"
    [ testCase "of two that announce themselves and look, one sees the other" dekker,
      testCase "registeringWithThreadsWaitedForTheKernel: the process registered before main" $
        if registered < 0
          then putStrLn "\n        skipped: this kernel (before 6.3) does not tell registrations"
          else -- MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED
            assertBool ("registrations: " ++ show registered) (not canBarrierEverywhere || testBit registered 4)
    ]

-- | What the process has registered for, as a set of bits; negative where the kernel does not tell.
registrations :: IO CLong
registrations = c_syscall 324 512 0 0

-- Unsafe: reads a word of the process. (membarrier, MEMBARRIER_CMD_GET_REGISTRATIONS)
foreign import ccall unsafe "syscall" c_syscall :: CLong -> CInt -> CInt -> CInt -> IO CLong

-- Each stores into its own line and reads the other's; only one has a barrier in between.
dekker :: Assertion
dekker = when canBarrierEverywhere $ do
  ws <- newWords 32
  done <- newEmptyMVar
  let rounds = 2000 :: Int
      often = 0
      seldom = 8
      go = 16
      seen = 24
  _ <- forkOn 1 $ do
    forM_ [1 .. rounds] $ \i -> do
      waitFor ws go i
      writeWord ws often i
      other <- readWord ws seldom
      atomicWrite ws seen (if other == i then i else -i)
    putMVar done ()
  forM_ [1 .. rounds] $ \i -> do
    atomicWrite ws go i
    writeWord ws seldom i
    barrierEverywhere
    other <- readWord ws often
    answer <- waitAbs ws seen i
    unless (answer == i || other == i) (assertFailure ("neither saw the other in round " ++ show i))
  takeMVar done

waitFor :: Words -> Int -> Int -> IO ()
waitFor ws at i = atomicRead ws at >>= \x -> unless (x == i) (yield >> waitFor ws at i)

waitAbs :: Words -> Int -> Int -> IO Int
waitAbs ws at i = atomicRead ws at >>= \x -> if abs x == i then pure x else yield >> waitAbs ws at i
