-- |
-- Module      : BarrierTest
-- Description : One thread's barrier serves two
-- Stability   : test
module BarrierTest (tests) where

import Control.Concurrent (forkOn, newEmptyMVar, putMVar, takeMVar, yield)
import Control.Monad (forM_, unless, when)
import Heddle.Prim.Atomic
import Heddle.Prim.Barrier
import Test.Tasty
import Test.Tasty.HUnit

tests :: TestTree
tests =
  testGroup
    "barriers"
    [testCase "of two that announce themselves and look, one sees the other" dekker]

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
