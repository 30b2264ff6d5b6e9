-- |
-- Module      : PrivateStackTest
-- Description : One owner, several thieves, every element once
-- Stability   : test
module PrivateStackTest (tests) where

import Control.Concurrent (forkIO, newEmptyMVar, putMVar, takeMVar, yield)
import Control.Exception (evaluate)
import Control.Monad (forM, forM_, replicateM, replicateM_)
import Data.IORef
import Data.List (sort)
import GHC.Conc (BlockReason (..), ThreadStatus (..), threadStatus)
import Heddle.Sched.Internal.PrivateStack
import System.IO.Unsafe (unsafePerformIO)
import System.Mem (performMajorGC)
import System.Mem.Weak (Weak, deRefWeak)
import Test.Tasty
import Test.Tasty.HUnit
import Test.Tasty.QuickCheck

tests :: TestTree
tests =
  testGroup
    "private stacks"
    [ testCase "the owner pops the newest, a thief takes the older half" halves,
      testCase "a thief takes nothing beyond what it does not want" unwanted,
      testCase "a thief who wants nothing hides nothing from the owner" refused,
      testCase "growWhileAThiefTakesKeptStolenWorkAlive" grownMeanwhile,
      testProperty "between an owner and thieves every element goes to one" shared
    ]

popped :: PrivateStack a -> IO (Maybe a)
popped p = popPrivate p (popSlowly p) (pure . Just)

pushed :: PrivateStack a -> a -> IO ()
pushed p a = makeRoom p >> pushPrivate p a

halves :: Assertion
halves = do
  p <- newPrivateStack 2 (0 :: Int)
  mapM_ (pushed p) [1 .. 9]
  popped p >>= (@?= Just 9)
  takeHalf p (const True) >>= (@?= [1, 2, 3, 4])
  offersSome p (== 5) >>= (@?= True)
  offersSome p (== 8) >>= (@?= False)
  mapM_ (pushed p) [10, 11]
  replicateM 6 (popped p) >>= (@?= map Just [11, 10, 8, 7, 6, 5])
  popped p >>= (@?= Nothing)
  takeHalf p (const True) >>= (@?= [])
  -- Lifted and put back.
  pushed p 12
  liftPrivate p (pure Nothing) (pure . Just) >>= (@?= Just 12)
  offersSome p (const True) >>= (@?= False)
  isEmptied p >>= (@?= True)
  putBack p
  popped p >>= (@?= Just 12)

unwanted :: Assertion
unwanted = do
  p <- newPrivateStack 2 (0 :: Int)
  mapM_ (pushed p) [1 .. 8]
  takeHalf p (< 3) >>= (@?= [1, 2])
  takeHalf p (< 3) >>= (@?= [])
  replicateM 7 (popped p) >>= (@?= map Just [8, 7 .. 3] ++ [Nothing])

-- While a thief who likes nothing is about it, what is there seems to be gone to who looks
-- at the top. An owner that believed that slept, or looked elsewhere for ever.
refused :: Assertion
refused = do
  p <- newPrivateStack 2 (0 :: Int)
  pushed p 1
  over <- newIORef False
  ended <- newEmptyMVar
  _ <- forkIO (refusing p over >> putMVar ended ())
  replicateM_ 20000 $ do
    isEmptied p >>= (@?= False)
    popped p >>= (@?= Just 1)
    isEmptied p >>= (@?= True)
    pushed p 1
  writeIORef over True
  takeMVar ended
  where
    refusing p over = do
      takeHalf p (const False) >>= (@?= [])
      done <- readIORef over
      if done then pure () else yield >> refusing p over

-- The owner makes room while a thief has read what it takes, and not yet cleared it. The thief
-- goes on when the owner has done so, or waits for it.
grownMeanwhile :: Assertion
grownMeanwhile = do
  p <- newPrivateStack 8 =<< newIORef (0 :: Int)
  weak <- mapM (fresh p) [1 .. 8]
  looked <- newIORef False
  grown <- newIORef False
  ended <- newEmptyMVar
  owner <- forkIO $ do
    let wait = readIORef looked >>= \l -> if l then pure () else yield >> wait
    wait
    newIORef 9 >>= pushed p
    writeIORef grown True
    putMVar ended ()
  let ownerWaits =
        (||) <$> readIORef grown <*> ((== ThreadBlocked BlockedOnMVar) <$> threadStatus owner) >>= \w ->
          if w then pure True else yield >> ownerWaits
      slowly _ = unsafePerformIO (writeIORef looked True >> ownerWaits)
      {-# NOINLINE slowly #-}
  takeHalf p slowly >>= \taken -> evaluate (length taken) >>= (@?= 4)
  takeMVar ended
  performMajorGC
  alive <- mapM deRefWeak weak
  length [() | Just _ <- alive] @?= 4
  -- What is left is still there.
  popped p >>= mapM readIORef >>= (@?= Just 9)
  popped p >>= mapM readIORef >>= (@?= Just 8)
  where
    fresh :: PrivateStack (IORef Int) -> Int -> IO (Weak (IORef Int))
    fresh p i = do
      r <- newIORef i
      pushed p r
      mkWeakIORef r (pure ())

-- The owner pushes and pops as the list says; the thieves take what they can.
shared :: [NonNegative (Small Int)] -> Positive (Small Int) -> Property
shared steps (Positive (Small thieves)) = withMaxSuccess 40 . ioProperty $ do
  p <- newPrivateStack 2 (-1 :: Int)
  over <- newIORef False
  bags <- forM [0 .. min 3 thieves] $ \_ -> do
    bag <- newEmptyMVar
    bag <$ forkIO (thief p over [] >>= putMVar bag)
  own <- newIORef []
  fresh <- newIORef 0
  forM_ (take 2000 (cycle (0 : 3 : [n | NonNegative (Small n) <- steps]))) $ \n ->
    if even n
      then forM_ [0 .. n `rem` 7] $ \_ -> do
        i <- readIORef fresh
        writeIORef fresh (i + 1)
        pushed p i
      else forM_ [0 .. n `rem` 5] (\_ -> popped p >>= mapM_ (\i -> modifyIORef' own (i :)))
  let rest = popped p >>= mapM_ (\i -> modifyIORef' own (i :) >> rest)
  rest
  writeIORef over True
  taken <- mapM takeMVar bags
  rest
  mine <- readIORef own
  count <- readIORef fresh
  pure (counterexample (show (length mine, map length taken)) (sort (concat (mine : taken)) === [0 .. count - 1]))

thief :: PrivateStack Int -> IORef Bool -> [Int] -> IO [Int]
thief p over found = do
  new <- takeHalf p (const True)
  done <- readIORef over
  if null new && done then pure found else yield >> thief p over (new ++ found)
