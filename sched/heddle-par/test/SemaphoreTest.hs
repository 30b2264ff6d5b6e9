-- | Semaphores: never more units out than there are, none lost.
module SemaphoreTest (tests) where

import Control.Concurrent (forkIO, newEmptyMVar, putMVar, takeMVar, yield)
import Control.Exception (ErrorCall (..), throwIO, try)
import Control.Monad (forM, forM_, replicateM, replicateM_, when)
import Data.IORef (atomicModifyIORef', newIORef, readIORef)
import Heddle.Par.Semaphore
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, testCase, (@?=))

tests :: TestTree
tests =
  testGroup
    "semaphores"
    [ testCase "fetch-and-add" (newSemaphore 3 >>= \s -> contended (tryAcquire s) (release s)),
      testCase "MVar" (newNBSem 3 >>= \s -> contended (tryAcquireNBSem s) (releaseNBSem s)),
      testCase "atomic" (newAtomicNBSem 3 >>= \s -> contended (tryWaitNBSem s) (signalNBSem s)),
      testCase "withUnit gives back on every path" bracketed
    ]

contended :: IO Bool -> IO () -> IO ()
contended acquire giveBack = do
  out <- newIORef (0 :: Int)
  worst <- newIORef 0
  dones <- forM [1 .. 8 :: Int] $ \_ -> do
    done <- newEmptyMVar
    _ <- forkIO $ do
      replicateM_ 5000 $ do
        taken <- acquire
        when taken $ do
          n <- atomicModifyIORef' out (\n -> (n + 1, n + 1))
          atomicModifyIORef' worst (\w -> (max w n, ()))
          yield
          atomicModifyIORef' out (\k -> (k - 1, ()))
          giveBack
      putMVar done ()
    pure done
  mapM_ takeMVar dones
  most <- readIORef worst
  assertBool ("at most 3 units out, not " ++ show most) (most <= 3)
  left <- replicateM 4 acquire
  left @?= [True, True, True, False]

bracketed :: IO ()
bracketed = do
  s <- newSemaphore 1
  forM_ [1 .. 10 :: Int] $ \_ -> do
    inside <- withUnit s (available s) (pure (-1))
    inside @?= 0
    nested <- withUnit s (withUnit s (pure 'a') (pure 'b')) (pure 'c')
    nested @?= 'b'
    failed <- try (withUnit s (throwIO (ErrorCall "x")) (pure ()))
    failed @?= Left (ErrorCall "x")
    available s >>= (@?= 1)
