-- | The bounded queue between two threads.
module PipeQueueTest (tests) where

import Control.Concurrent (forkIO, killThread, newEmptyMVar, putMVar, takeMVar, yield)
import Control.Exception
import Control.Monad (forM_, replicateM_)
import Heddle.Pipe.Queue (Queue, Taken (..))
import Heddle.Pipe.Queue qualified as Queue
import Test.QuickCheck
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (testCase, (@?=))
import Test.Tasty.QuickCheck (testProperty)

tests :: TestTree
tests =
  testGroup
    "pipe queue"
    [ testProperty "items in order, then the outcome, for sizes 1 to 4" $ \(Positive n) items -> ioProperty $ do
        queue <- Queue.newQueue (n `mod` 4 + 1)
        _ <- forkIO (mapM_ (Queue.put queue) items >> Queue.finish queue 'r')
        r <- takeAll queue
        pure (r === (items :: [Int], 'r')),
      testCase "100,000 items through sizes 1 to 5" $
        forM_ [1 .. 5] $ \n -> do
          queue <- Queue.newQueue n
          _ <- forkIO (mapM_ (Queue.put queue) [1 .. 100000 :: Int] >> Queue.finish queue ())
          (items, ()) <- takeAll queue
          sum items @?= 5000050000,
      testCase "a size below 1 is 1" $ do
        queue <- Queue.newQueue 0
        _ <- forkIO (mapM_ (Queue.put queue) "ab" >> Queue.finish queue ())
        takeAll queue >>= (@?= ("ab", ())),
      testCase "a queue that is refused drops what is put" $ do
        queue <- Queue.newQueue 2 :: IO (Queue Char ())
        Queue.isWanted queue >>= (@?= True)
        Queue.put queue 'a' >>= (@?= True)
        Queue.refuse queue
        Queue.isWanted queue >>= (@?= False)
        replicateM_ 5 (Queue.put queue 'b' >>= (@?= False)),
      testCase "refusing wakes a producer that waits for room" . forM_ [1 .. 200 :: Int] $ \i -> do
        queue <- Queue.newQueue 1 :: IO (Queue Char ())
        answer <- newEmptyMVar
        Queue.put queue 'a' >>= (@?= True)
        _ <- forkIO (Queue.put queue 'b' >>= putMVar answer)
        replicateM_ (i `mod` 7) yield
        Queue.refuse queue
        takeMVar answer >>= (@?= False),
      testCase "awaitFinish waits for the outcome, not for the items" $ do
        queue <- Queue.newQueue 2
        _ <- forkIO (mapM_ (Queue.put queue) "ab" >> yield >> Queue.finish queue ())
        Queue.awaitFinish queue
        takeAll queue >>= (@?= ("ab", ())),
      testCase "either side can be cancelled while it waits" $ do
        empty <- Queue.newQueue 1 :: IO (Queue Char ())
        cancelled (Queue.take empty)
        full <- Queue.newQueue 1 :: IO (Queue Char ())
        _ <- Queue.put full 'a'
        cancelled (Queue.put full 'b')
        -- Both still work.
        _ <- forkIO (Queue.put full 'c' >> Queue.finish full ())
        takeAll full >>= (@?= ("ac", ()))
    ]
  where
    cancelled action = do
      result <- newEmptyMVar
      thread <- forkIO (try action >>= putMVar result . either (\e -> Just (e :: AsyncException)) (const Nothing))
      replicateM_ 100 yield
      killThread thread
      takeMVar result >>= (@?= Just ThreadKilled)

takeAll :: Queue item outcome -> IO ([item], outcome)
takeAll queue = go []
  where
    go items =
      Queue.take queue >>= \case
        Item item -> go (item : items)
        Finished outcome -> pure (reverse items, outcome)
