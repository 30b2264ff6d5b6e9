{-# LANGUAGE ExistentialQuantification #-}
-- Otherwise the work is taken out of the loop and done once for all runs.
{-# OPTIONS_GHC -fno-full-laziness -fno-cse #-}

-- | What a program measures, as data: the words of criterion and tasty-bench, and two more.
--
-- Cost: a run adds a call of an unknown function and a counter, whose time is calibrated and subtracted.
-- Owner: values.
module Heddle.Measure.Benchmark
  ( Benchmarkable (..),
    Benchmark (..),
    Together (..),
    Against (..),
    bench,
    bgroup,
    bcompare,
    bcompareWithin,
    versus,
    scaling,
    env,
    envWithCleanup,
    perRunEnv,
    perRunEnvWithCleanup,
    perBatchEnv,
    perBatchEnvWithCleanup,
    nf,
    whnf,
    nfIO,
    whnfIO,
    nfAppIO,
    whnfAppIO,
    toBenchmarkable,
    emptyLoop,
  )
where

import Control.DeepSeq (NFData, force, rnf)
import Control.Monad (void)
import Data.Int (Int64)
import Heddle.Prim.Exception (evaluate)

-- | Something that can be run any number of times. 'whnf', 'nf' and the others make it.
data Benchmarkable = forall e.
  Benchmarkable
  { -- | What is made, unmeasured, before each sample; it is told the sample's number of runs.
    prepare :: Int -> IO e,
    -- | What follows the sample, unmeasured.
    release :: Int -> e -> IO (),
    -- | So many runs.
    runs :: e -> Int -> IO (),
    -- | Whether every run needs a fresh environment, so that a sample has one run.
    single :: Bool
  }

-- | A tree of named things to measure.
data Benchmark
  = Leaf String Benchmarkable
  | Group String [Benchmark]
  | Together Together String [Benchmark]
  | Compared Against Benchmark
  | forall e. Environment (IO e) (e -> IO ()) (e -> Benchmark)

-- | Why benchmarks are run in alternating rounds.
data Together
  = -- | The others are compared with the first.
    Alternatives
  | -- | They do the same for inputs of several sizes, which are their names.
    Sizes
  deriving stock (Eq, Show)

-- | A comparison with a benchmark that ran before.
data Against = Against
  { -- | Part of its path.
    againstText :: String,
    -- | Between what the ratio must be.
    againstWithin :: Maybe (Double, Double)
  }
  deriving stock (Eq, Show)

-- | A benchmark with a name.
bench :: String -> Benchmarkable -> Benchmark
bench = Leaf

-- | Benchmarks under a common name.
bgroup :: String -> [Benchmark] -> Benchmark
bgroup = Group

-- | Compare the benchmarks below with one that ran before: the first whose path contains the text. They ran one
-- after the other, so the interval of the ratio does not know how the machine's speed changed in between; where a
-- small difference matters, use 'versus'.
bcompare :: String -> Benchmark -> Benchmark
bcompare = Compared . (`Against` Nothing)

-- | The same, and the program fails if the ratio's whole interval lies outside these bounds.
--
-- > bcompareWithin 0 0.5 "naive" (bench "fast" (nf fast input))
bcompareWithin :: Double -> Double -> String -> Benchmark -> Benchmark
bcompareWithin low high text = Compared (Against text (Just (low, high)))

-- | Alternatives that do the same work. They run in alternating rounds, in a random order in each round, and the
-- report shows the ratio of each one's time to the first one's, with a 95 % interval: whatever slows the machine
-- down meanwhile slows them all down.
--
-- > versus "sum of 1000"
-- >   [ bench "foldl'" (whnf (foldl' (+) 0) numbers),
-- >     bench "foldr" (whnf (foldr (+) 0) numbers)
-- >   ]
versus :: String -> [Benchmark] -> Benchmark
versus = Together Alternatives

-- | The same work for inputs of several sizes, at least four for the report to say how time grows: the order from
-- @O(1)@ to @O(n^3)@ that fits best, and how clearly.
--
-- > scaling "sort" [1000, 2000, 4000, 8000, 16000] (\n -> nf sort (numbers n))
scaling :: String -> [Int] -> (Int -> Benchmarkable) -> Benchmark
scaling name sizes work = Together Sizes name [Leaf (show n) (work n) | n <- sizes]

-- | Make something once for the benchmarks below, evaluate it completely, and measure that in none of them. Match
-- its parts lazily, as in @env make (\\ ~(small, large) -> ...)@, so that names are known without making it; with a
-- strict pattern it is made for @--list@ and for names that @--match@ then leaves out.
env :: NFData e => IO e -> (e -> Benchmark) -> Benchmark
env make = envWithCleanup make (const (pure ()))

-- | The same with an action that runs at the end, whatever happens.
envWithCleanup :: NFData e => IO e -> (e -> IO a) -> (e -> Benchmark) -> Benchmark
envWithCleanup make clean = Environment (make >>= evaluate . force) (void . clean)

-- | A fresh environment for every single run, which then is a sample of its own: only for work that is much longer
-- than the microsecond that reading the clocks takes.
perRunEnv :: (NFData e, NFData b) => IO e -> (e -> IO b) -> Benchmarkable
perRunEnv make = perRunEnvWithCleanup make (const (pure ()))

-- | The same with an action that runs after each.
perRunEnvWithCleanup :: (NFData e, NFData b) => IO e -> (e -> IO ()) -> (e -> IO b) -> Benchmarkable
perRunEnvWithCleanup make clean work =
  Benchmarkable (const (make >>= evaluate . force)) (const clean) (loopIO rnf . work) True

-- | A fresh environment for every sample; the action is given the number of runs.
perBatchEnv :: (NFData e, NFData b) => (Int64 -> IO e) -> (e -> IO b) -> Benchmarkable
perBatchEnv make = perBatchEnvWithCleanup make (\_ _ -> pure ())

-- | The same with an action that runs after each.
perBatchEnvWithCleanup :: (NFData e, NFData b) => (Int64 -> IO e) -> (Int64 -> e -> IO ()) -> (e -> IO b) -> Benchmarkable
perBatchEnvWithCleanup make clean work =
  Benchmarkable (\n -> make (fromIntegral n) >>= evaluate . force) (clean . fromIntegral) (loopIO rnf . work) False

-- | An action that is told a number of runs, and does all of them itself.
toBenchmarkable :: (Int64 -> IO ()) -> Benchmarkable
toBenchmarkable action = plain (action . fromIntegral)

plain :: (Int -> IO ()) -> Benchmarkable
plain loop = Benchmarkable (const (pure ())) (\_ _ -> pure ()) (const loop) False

-- | A function and its argument; the result is evaluated completely.
nf :: NFData b => (a -> b) -> a -> Benchmarkable
nf f x = plain (loopNf rnf f x)
{-# INLINE nf #-}

-- | A function and its argument; the result is evaluated to its outermost constructor.
whnf :: (a -> b) -> a -> Benchmarkable
whnf f x = plain (loopWhnf f x)
{-# INLINE whnf #-}

-- | An action whose result is evaluated completely.
nfIO :: NFData a => IO a -> Benchmarkable
nfIO action = plain (loopIO rnf action)
{-# INLINE nfIO #-}

-- | An action whose result is evaluated to its outermost constructor.
whnfIO :: IO a -> Benchmarkable
whnfIO action = plain (loopIO (`seq` ()) action)
{-# INLINE whnfIO #-}

-- | A function to an action, and its argument; the result is evaluated completely.
nfAppIO :: NFData b => (a -> IO b) -> a -> Benchmarkable
nfAppIO f x = plain (loopAppIO rnf f x)
{-# INLINE nfAppIO #-}

-- | A function to an action, and its argument; the result is evaluated to its outermost constructor.
whnfAppIO :: (a -> IO b) -> a -> Benchmarkable
whnfAppIO f x = plain (loopAppIO (`seq` ()) f x)
{-# INLINE whnfAppIO #-}

-- | What the others cost around the work: the time of this for each run is subtracted.
emptyLoop :: Benchmarkable
emptyLoop = plain (loopWhnf id ())

-- The loops are not inlined, so that the compiler sees neither the function nor that its argument is always the
-- same, and cannot compute the result once for all runs. They evaluate the result before they pass it on: a thunk
-- of it would count as the benchmark's allocation.
loopWhnf :: (a -> b) -> a -> Int -> IO ()
loopWhnf f x = go
  where
    go !n
      | n <= 0 = pure ()
      | otherwise = f x `seq` go (n - 1)
{-# NOINLINE loopWhnf #-}

loopNf :: (b -> ()) -> (a -> b) -> a -> Int -> IO ()
loopNf reduce f x = go
  where
    go !n
      | n <= 0 = pure ()
      | otherwise = let !y = f x in reduce y `seq` go (n - 1)
{-# NOINLINE loopNf #-}

loopIO :: (b -> ()) -> IO b -> Int -> IO ()
loopIO reduce action = go
  where
    go !n
      | n <= 0 = pure ()
      | otherwise = action >>= \y -> reduce y `seq` go (n - 1)
{-# NOINLINE loopIO #-}

loopAppIO :: (b -> ()) -> (a -> IO b) -> a -> Int -> IO ()
loopAppIO reduce f x = go
  where
    go !n
      | n <= 0 = pure ()
      | otherwise = f x >>= \y -> reduce y `seq` go (n - 1)
{-# NOINLINE loopAppIO #-}
