{-# LANGUAGE MagicHash #-}
{-# LANGUAGE UnboxedTuples #-}
-- Optimised in every build, since it counts bytes.
{-# OPTIONS_GHC -O2 #-}

-- | Markers without an event log. What they write into one is tested with heddle-trace.
module TraceTest (tests) where

import Data.ByteString.Char8 qualified as C
import Data.List (nub)
import GHC.Conc (getAllocationCounter)
import GHC.Exts (Int (I#), Int#, RealWorld, State#, (-#))
import GHC.IO (IO (..))
import Heddle.Prim.Trace
import Heddle.Testkit.Judging (whenOptimised)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, testCase, (@?=))

tests :: TestTree
tests =
  testGroup
    "markers"
    [ whenOptimised . testCase "a marker without a log allocates nothing" $ do
        -- The first reads the runtime's flags.
        marking 1
        before <- getAllocationCounter
        marking 100000
        after <- getAllocationCounter
        -- The reading itself allocates a little.
        assertBool (show (before - after) ++ " bytes for 200,000 markers") (before - after < 2000),
      testCase "each has a text of its own" $ do
        let texts = map markerText [minBound ..]
        nub texts @?= texts
        map (C.take 7) texts @?= map (const (C.pack "heddle ")) texts
    ]

-- By primitive operations: in a build without optimisation, the compiler does not see base's definitions.
marking :: Int -> IO ()
marking (I# n) = IO (go n)
  where
    go :: Int# -> State# RealWorld -> (# State# RealWorld, () #)
    go 0# s = (# s, () #)
    go k s = case mark IoPark of
      IO parks -> case parks s of
        (# s', _ #) -> case mark SchedSteal of
          IO steals -> case steals s' of (# s'', _ #) -> go (k -# 1#) s''
{-# NOINLINE marking #-}
