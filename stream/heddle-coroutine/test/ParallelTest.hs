-- | Steps at once.
module ParallelTest (tests) where

import Control.Concurrent (forkIOWithUnmask, killThread, newEmptyMVar, putMVar, takeMVar)
import Control.Exception (AsyncException (..), ErrorCall (..), SomeException, finally, fromException, mask_, throwIO, try)
import Control.Monad (forM_, replicateM, replicateM_)
import Control.Monad.Trans.Class (lift)
import Data.IORef (atomicModifyIORef', newIORef, readIORef)
import Heddle.Coroutine
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertFailure, testCase, (@?=))

tests :: TestTree
tests =
  testGroup
    "in parallel"
    [ testCase "bounces wait for each other" meeting,
      testCase "a bounce ends before the next begins" rounds,
      testCase "a producer and a consumer" producing,
      testCase "two trampolines, and a producer with enough values" pairs,
      testCase "what is thrown has one type" oneType,
      testCase "stages of a pipeline" staged,
      testCase "of two exceptions the left one" leftException,
      testCase "an exception on the right waits for the left one" rightException,
      testCase "an asynchronous exception ends the left one first" interrupted
    ]

-- | In sequence, neither would end.
meeting :: IO ()
meeting = do
  a <- newEmptyMVar
  b <- newEmptyMVar
  let one = replicateM 100 (lift (putMVar a 'a' >> takeMVar b) <* pause)
      other = replicateM 100 (lift (takeMVar a <* putMVar b 'b') <* pause)
  got <- run (interleaveBy inParallel [one, other])
  got @?= [replicate 100 'b', replicate 100 'a']

rounds :: IO ()
rounds = do
  done <- newIORef (0 :: Int)
  let member = replicateM 50 (lift (atomicModifyIORef' done (\n -> (n + 1, n `div` 7))) <* pause)
  got <- run (interleaveBy inParallel (replicate 7 member))
  got @?= replicate 7 [0 .. 49]

producing :: IO ()
producing = do
  got <- pipe2By inParallel (mapM_ yield [1 .. 1000 :: Int]) (total 0)
  got @?= ((), 500500)
  where
    total !s = await >>= maybe (pure s) (\n -> total (s + n))

pairs :: IO ()
pairs = do
  got <- run (mzipWithBy inParallel (,) ('a' <$ pause) ('b' <$ replicateM 3 pause))
  got @?= ('a', 'b')
  sums <- pipe1By inParallel (mapM_ yield [1 .. 100 :: Int]) (sum <$> replicateM 100 await)
  sums @?= ((), 5050)

oneType :: IO ()
oneType = do
  fed <- try (runIteratee [] (await >>= \n -> lift (n @?= (1 :: Int))))
  fed @?= Left NothingToFeed
  piped <- try (pipe1 (pure ()) (await :: Iteratee Int IO Int))
  piped @?= Left ProducerEnded

staged :: IO ()
staged = do
  let stage = lift121 (+ 1) :: Transducer Int Int IO ()
      pipeline = foldl (\p s -> fst <$> pipeBy inParallel p s) (fromGenerator (mapM_ yield [1 .. 200])) (replicate 5 stage)
  (got, ()) <- runGenerator (toGenerator pipeline)
  got @?= [6 .. 205]

leftException :: IO ()
leftException = replicateM_ 200 $ do
  got <- try (bindM2 inParallel (\() () -> pure ()) (throwIO (ErrorCall "left")) (throwIO (ErrorCall "right")))
  got @?= Left (ErrorCall "left")

rightException :: IO ()
rightException = do
  done <- newIORef False
  go <- newEmptyMVar
  got <- try (bindM2 inParallel (\() () -> pure ()) (takeMVar go >> atomicModifyIORef' done (const (True, ()))) (putMVar go () >> throwIO (ErrorCall "right")))
  got @?= Left (ErrorCall "right")
  readIORef done >>= (@?= True)

interrupted :: IO ()
interrupted = forM_ [1 .. 200 :: Int] $ \_ -> do
  begun <- newEmptyMVar
  never <- newEmptyMVar
  left <- newIORef False
  ended <- newEmptyMVar
  let one = (putMVar begun () >> takeMVar never) `finally` atomicModifyIORef' left (const (True, ()))
      both = bindM2 inParallel (\() () -> pure ()) one (takeMVar never)
  thread <- mask_ (forkIOWithUnmask (\unmask -> try (unmask both) >>= putMVar ended))
  takeMVar begun
  killThread thread
  takeMVar ended >>= \case
    Left e -> fromException (e :: SomeException) @?= Just ThreadKilled
    Right () -> assertFailure "it has ended otherwise"
  readIORef left >>= (@?= True)
