-- |
-- Module      : Heddle.Measure
-- Description : Benchmarks in one import
-- Stability   : stable
--
-- The words of criterion and tasty-bench: their programs run with only the import changed. Beyond them, 'versus'
-- compares alternatives in alternating rounds of one run, and 'scaling' says how time grows with the input.
--
-- > import Heddle.Measure
-- >
-- > main :: IO ()
-- > main =
-- >   defaultMain
-- >     [ versus "sum" [bench "sum" (nf sum numbers), bench "foldr" (nf (foldr (+) 0) numbers)],
-- >       scaling "reverse" [100, 200, 400, 800, 1600] (\n -> nf reverse (take n numbers))
-- >     ]
-- >   where
-- >     numbers = [1 .. 10000 :: Int]
--
-- Link with @-with-rtsopts=-T@ for copied bytes and collection time. The program's options are shown by @--help@;
-- "Heddle.Measure.Run" has them as 'Heddle.Measure.Run.Settings' for 'defaultMainWith'.
--
-- Cost: 2 seconds for each benchmark, unless told otherwise.
-- Owner: the calling thread runs the benchmarks.
module Heddle.Measure
  ( -- * A program
    defaultMain,
    defaultMainWith,

    -- * Benchmarks
    Benchmark,
    bench,
    bgroup,
    versus,
    scaling,
    bcompare,
    bcompareWithin,

    -- * What is measured
    Benchmarkable,
    nf,
    whnf,
    nfIO,
    whnfIO,
    nfAppIO,
    whnfAppIO,
    toBenchmarkable,

    -- * Environments
    env,
    envWithCleanup,
    perBatchEnv,
    perBatchEnvWithCleanup,
    perRunEnv,
    perRunEnvWithCleanup,
  )
where

import Heddle.Measure.Benchmark
import Heddle.Measure.Main (defaultMain, defaultMainWith)
