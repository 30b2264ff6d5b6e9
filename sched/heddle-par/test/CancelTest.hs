-- | Asynchronous exceptions: everything has ended when the call returns.
module CancelTest (tests) where

import Control.Concurrent (forkIO, forkIOWithUnmask, killThread, myThreadId, newEmptyMVar, putMVar, readMVar, takeMVar, throwTo, yield)
import Control.Exception (AsyncException (..), ErrorCall (..), SomeException, bracket_, evaluate, mask_, try, uninterruptibleMask_)
import Control.Monad (forM, forM_, forever, replicateM_, unless, void, when)
import Data.IORef (IORef, atomicModifyIORef', newIORef, readIORef)
import Heddle.Par qualified as Par
import Heddle.Par.IO hiding (try)
import System.Timeout (timeout)
import Test.QuickCheck (chooseInt, generate)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, testCase, (@?=))
import Trees

tests :: TestTree
tests =
  testGroup
    "cancelling"
    [ testCase "killing the caller ends every task first" killed,
      testCase "a time-out ends tasks that park" parked,
      testCase "a value whose evaluation was interrupted is evaluated anew" restarted,
      testCase "interruptedBetweenTheCountOfAForkAndItsPush" interruptedForks,
      testCase "inside mask, and inside uninterruptibleMask" masked,
      testCase "killing at any moment, 3,000 times" anyMoment,
      testCase "a nested run inside a cancelled one" nestedCancelled,
      testCase "leftmost ends what it cancels before it returns" leftmostEnds,
      testCase "cancelledWhileItWasBeingStarted" cancelledAtStart,
      testCase "lateExceptionToAWorker" lateException,
      testCase "fewerCapabilitiesAndMoreAgain" fewerAndMore,
      testCase "the pool works on after all this" worksOn
    ]

-- | A task that is taken up at the moment in which it is cancelled must not run on.
cancelledAtStart :: IO ()
cancelledAtStart = onCapabilities 2 . forM_ [1 .. 20000 :: Int] $ \i -> do
  hit <- runParIO (leftmost [Just i <$ liftIO (replicateM_ (i `rem` 7) yield), liftIO spin])
  hit @?= Just i

-- | A task gives its thread away, and somebody throws at it when the task has ended.
lateException :: IO ()
lateException = forM_ [1 .. 50 :: Int] $ \i -> do
  threads <- runParIO (mapM (\_ -> spawn (liftIO (replicateM_ 50 yield >> myThreadId))) [1 .. 6 :: Int] >>= mapM get)
  me <- myThreadId
  forM_ (filter (/= me) threads) (`throwTo` ErrorCall "late")
  evaluate (Par.runPar (Par.parMap (+ i) [1 .. 20])) >>= (@?= map (+ i) [1 .. 20])

-- | All workers there are take part: each of the tasks waits for all others to have begun.
fewerAndMore :: IO ()
fewerAndMore = forM_ [4, 2, 4, 1, 3] $ \n -> onCapabilities n $ do
  _ <- evaluate (Par.runPar (Par.parMap (+ 1) [1 .. 100 :: Int]))
  begun <- newIORef 0
  all' <- newEmptyMVar
  together <- timeout 60000000 . runParIO . forM_ [1 .. n] $ \_ -> fork . liftIO $ do
    k <- atomicModifyIORef' begun (\k -> (k + 1, k + 1))
    when (k == n) (putMVar all' ())
    readMVar all'
  together @?= Just ()

-- | A task that counts itself while it runs.
counted :: IORef Int -> IO a -> ParIO a
counted live body = liftIO (bracket_ (change 1) (change (-1)) body)
  where
    change d = atomicModifyIORef' live (\n -> (n + d, ()))

spin :: IO a
spin = forever yield

killed :: IO ()
killed = forM_ [1 .. 300 :: Int] $ \_ -> do
  live <- newIORef 0
  started <- newEmptyMVar
  done <- newEmptyMVar
  t <- forkIO $ do
    r <- try (runParIO (fork (counted live (putMVar started () >> spin)) >> fork (counted live spin)))
    n <- readIORef live
    putMVar done (r, n)
  takeMVar started
  killThread t
  (r, n) <- takeMVar done
  case r of
    Left ThreadKilled -> pure ()
    other -> assertBool (show (other :: Either AsyncException ())) False
  n @?= 0

parked :: IO ()
parked = forM_ [1 .. 20 :: Int] $ \_ -> do
  live <- newIORef 0
  never <- newEmptyMVar
  r <- timeout 2000 . runParIO $ do
    forM_ [1 .. 6 :: Int] $ \_ -> fork (counted live (takeMVar never))
  r @?= (Nothing :: Maybe ())
  readIORef live >>= (@?= 0)
  -- Till here it can be filled, so the collector ends no task that waits for it.
  putMVar never ()

restarted :: IO ()
restarted = forM_ [1 .. 100 :: Int] $ \i -> do
  let n = 2000 + i
      value = Par.runPar (Par.parMap collatz [1 .. n]) :: [Int]
  wait <- generate (chooseInt (1, 3000))
  _ <- timeout wait (evaluate (sum value))
  sum value @?= sum (map collatz [1 .. n])

collatz :: Int -> Int
collatz = go 0
  where
    go !acc 1 = acc
    go acc n = go (acc + 1) (if even n then n `quot` 2 else 3 * n + 1)

-- | Tasks that do little but fork, so that an interrupt often finds the worker in a fork. One that is counted and
-- not pushed never ends, and no exception frees the caller, which waits for the end.
interruptedForks :: IO ()
interruptedForks = do
  done <- newEmptyMVar
  _ <- forkIO $ do
    forM_ [1 .. 200 :: Int] $ \i -> do
      wait <- generate (chooseInt (100, 2000))
      timeout wait (runParIO (if even i then forM_ [1 .. 1000000 :: Int] (\_ -> fork (pure ())) else deep 1000000))
    putMVar done ()
  ended <- timeout 60000000 (takeMVar done)
  ended @?= Just ()
  where
    deep :: Int -> ParIO ()
    deep n = unless (n == 0) (spawn (pure ()) >>= get >> fork (deep (n - 1)))

masked :: IO ()
masked = do
  mask_ (runParIO (pure 'a')) >>= (@?= 'a')
  uninterruptibleMask_ (runParIO (spawn (pure 'b') >>= get)) >>= (@?= 'b')
  mask_ (evaluate (Par.runPar (Par.parMap (+ 1) [1 .. 50 :: Int]))) >>= (@?= [2 .. 51])
  live <- newIORef 0
  me <- myThreadId
  r <- try . mask_ . runParIO $ fork (counted live (throwTo' me >> spin))
  case r of
    Left UserInterrupt -> pure ()
    other -> assertBool (show (other :: Either AsyncException ())) False
  readIORef live >>= (@?= 0)
  where
    throwTo' t = void (forkIO (throwTo t UserInterrupt))

anyMoment :: IO ()
anyMoment = forM_ [1, 2, 5] $ \n -> onCapabilities n . replicateM_ 1000 $ do
  live <- newIORef 0
  done <- newEmptyMVar
  delay <- generate (chooseInt (0, 300))
  t <- mask_ $
    forkIOWithUnmask $ \unmask -> do
      r <- try (unmask (runParIO (forest live 6)))
      n' <- readIORef live
      putMVar done (r :: Either SomeException (), n')
  replicateM_ delay yield
  killThread t
  (_, n') <- takeMVar done
  n' @?= 0
  where
    forest :: IORef Int -> Int -> ParIO ()
    forest live d = unless (d == 0) $ do
      v <- spawn (forest live (d - 1))
      fork (forest live (d - 1))
      _ <- counted live (evaluate (collatz (d * 77 + 1)))
      when (d == 3) (scope (forest live (d - 1)))
      get v

nestedCancelled :: IO ()
nestedCancelled = forM_ [1 .. 200 :: Int] $ \_ -> do
  live <- newIORef 0
  started <- newEmptyMVar
  done <- newEmptyMVar
  t <- forkIO $ do
    r <- try . runParIO $ do
      fork (liftIO (runParIO (fork (counted live (putMVar started () >> spin)) >> counted live spin)))
      counted live spin
    n <- readIORef live
    putMVar done (r :: Either SomeException (), n)
  takeMVar started
  killThread t
  (_, n) <- takeMVar done
  n @?= 0

leftmostEnds :: IO ()
leftmostEnds = forM_ [1 .. 300 :: Int] $ \_ -> do
  live <- newIORef 0
  (hit, n) <- runParIO $ do
    hit <- leftmost ((Just 0 <$ liftIO (replicateM_ 20 yield)) : [counted live spin | _ <- [1 .. 5 :: Int]])
    n <- liftIO (readIORef live)
    pure (hit, n)
  (hit, n) @?= (Just (0 :: Int), 0)

worksOn :: IO ()
worksOn = do
  rs <- forM [1 .. 200 :: Int] $ \i -> evaluate (Par.runPar (Par.parMap (* i) [1 .. 50]))
  map sum rs @?= [1275 * i | i <- [1 .. 200]]
