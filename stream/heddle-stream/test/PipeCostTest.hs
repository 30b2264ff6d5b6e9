-- | What hops, binds, stages and brackets cost, in bytes: they repeat exactly.
module PipeCostTest (tests) where

import Control.Monad (void)
import Data.IORef
import Heddle.Pipe (Pipe, Void, await, yield, (.|))
import Heddle.Pipe qualified as Pipe
import Heddle.Testkit.Judging (whenOptimised)
import System.Mem (getAllocationCounter)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, testCase, (@?=))

{- HLINT ignore "Use void" -}
-- The dropped results are intended.

tests :: TestTree
tests =
  testGroup
    "pipe cost"
    [ whenOptimised . testCase "a hop: 64 bytes" $ do
        one <- bytes (source 10000 .| sink)
        two <- bytes (source 10000 .| opaque .| sink)
        ten <- bytes (foldl (.|) (source 10000) (replicate 10 opaque) .| sink)
        right <- bytes (source 10000 .| foldr (.|) sink (replicate 10 opaque))
        below 66 ((two - one) `div` 10000)
        below 66 ((ten - one) `div` 100000)
        below 66 ((right - one) `div` 100000),
      whenOptimised . testCase "a hop inside a bracket: the same" $ do
        one <- bytes (source 10000 .| sink)
        two <- bytes (source 10000 .| Pipe.bracketP (pure ()) pure (const opaque) .| sink)
        below 66 ((two - one) `div` 10000),
      testCase "a hop below ten brackets, as one of none" $ do
        let nested :: Int -> Pipe i o r -> Pipe i o r
            nested k p = if k == 0 then p else Pipe.bracketP (pure ()) pure (\_ -> nested (k - 1) p)
        none <- bytes (source 10000 .| opaque .| sink)
        ten <- bytes (source 10000 .| nested 10 opaque .| sink)
        below 1 ((ten - none) `div` 10000),
      linear "binds nested to the left" 1000 (\n -> foldl (\p k -> p *> yield k) (pure ()) [1 .. n] .| sink),
      linear "stages, to the left" 1000 (\n -> foldl (.|) (source 1) (replicate n opaque) .| sink),
      linear "stages, to the right" 1000 (\n -> source 1 .| foldr (.|) sink (replicate n opaque)),
      linear "stages that end one after the other" 1000 (\n -> source 1 .| foldr (\_ p -> (await >>= mapM_ yield) .| p) sink [1 .. n]),
      linear "compositions that leave input" 1000 (\n -> source (2 * n) .| (mapM_ (\_ -> Pipe.map id .| (await >>= mapM_ yield)) [1 .. n] *> opaque) .| sink),
      linear "nested compositions that leave input" 300 (\n -> source (2 * n) .| (foldl (\p _ -> (p .| Pipe.take 1) *> Pipe.take 1) (Pipe.take 2) [1 .. n] *> opaque) .| sink),
      linear "brackets, one in the other" 1000 (\n -> foldr (\_ p -> Pipe.bracketP (pure ()) pure (const p)) (pure 0) [1 .. n]),
      linear "brackets of many stages, closed at once" 1000 $
        \n -> foldl (\p _ -> p .| Pipe.bracketP (pure ()) pure (const opaque)) (source 5) [1 .. n] .| (0 <$ await),
      testCase "a million binds nested to the left" $ do
        n <- Pipe.runPipe (foldl (\p k -> p *> yield k) (pure ()) [1 .. 1000000 :: Int] .| Pipe.fold (\c _ -> c + 1) (0 :: Int))
        n @?= 1000000,
      testCase "100,000 stages" $ do
        n <- Pipe.runPipe (foldl (.|) (source 3) (replicate 100000 opaque) .| sink)
        n @?= 6,
      testCase "what is released of 100,000 stages" $ do
        released <- newIORef (0 :: Int)
        let stage = Pipe.bracketP (pure ()) (\_ -> modifyIORef' released (+ 1)) (const opaque)
        Pipe.runPipe (foldl (.|) (source 3) (replicate 100000 stage) .| void await)
        readIORef released >>= (@?= 100000)
    ]

source :: Int -> Pipe i Int ()
source n = go 1
  where
    go k = if k > n then pure () else yield k *> go (k + 1)
{-# NOINLINE source #-}

opaque :: Pipe Int Int ()
opaque = await >>= maybe (pure ()) (\a -> yield a *> opaque)
{-# NOINLINE opaque #-}

sink :: Pipe Int o Int
sink = go 0
  where
    go s = s `seq` (await >>= maybe (pure s) (\a -> go (s + a)))
{-# NOINLINE sink #-}

bytes :: Pipe Void Void Int -> IO Int
bytes p = do
  _ <- Pipe.runPipe p
  before <- getAllocationCounter
  _ <- Pipe.runPipe p
  after <- getAllocationCounter
  pure (fromIntegral (before - after))

below :: Int -> Int -> IO ()
below bound n = assertBool (show n ++ " bytes, at most " ++ show bound) (n <= bound)

-- | Ten times as much takes ten times as many bytes.
linear :: String -> Int -> (Int -> Pipe Void Void Int) -> TestTree
linear name n body = testCase name $ do
  one <- bytes (body n)
  ten <- bytes (body (10 * n))
  assertBool (show one ++ " bytes, and " ++ show ten ++ " for ten times as much") (ten < 12 * one)
