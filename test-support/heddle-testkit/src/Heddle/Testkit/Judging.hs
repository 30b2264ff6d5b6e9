-- |
-- Module      : Heddle.Testkit.Judging
-- Description : Tests that refuse to judge without what they need
-- Stability   : internal, exempt from the version policy
--
-- A test of a cost needs optimised code; a test about time needs a machine that runs. Without that such a test neither passes
-- nor fails: its result is "not judged", with the reason, and summaries count it. A test that can wait for a state needs none of this.
--
-- Owner: the calling thread.
module Heddle.Testkit.Judging
  ( -- * Tests
    judging,
    notJudged,

    -- * Needing optimised code
    whenOptimised,
    optimised,

    -- * Needing a machine that runs
    unstalled,
  )
where

import Control.Concurrent (forkIO, killThread, threadDelay)
import Control.Exception (Exception, SomeException, bracket, throwIO, try)
import Control.Monad (forever)
import Data.IORef (atomicModifyIORef', newIORef, readIORef)
import GHC.Clock (getMonotonicTime)
import System.CPUTime (getCPUTime)
import Test.Tasty (TestName, TestTree, testGroup)
import Test.Tasty.HUnit (testCaseInfo)
import Test.Tasty.Runners (testsNames)

{- HLINT ignore "Avoid restricted module" -}
-- What tests share may import what they like, as tests may.

-- | Why a test is not judged.
newtype NotJudged = NotJudged String
  deriving stock (Show)

instance Exception NotJudged

-- | A test that 'notJudged' may end.
judging :: TestName -> IO () -> TestTree
judging name act = testCaseInfo name (either (\(NotJudged why) -> "(not judged: " ++ why ++ ")") (const "") <$> try act)

-- | End a test of 'judging' without a verdict.
--
-- [Throws]: an exception for 'judging', always, in the calling thread.
notJudged :: String -> IO a
notJudged = throwIO . NotJudged

-- | Tests of what the optimiser makes of the code: without it each of them is not judged.
whenOptimised :: TestTree -> TestTree
whenOptimised tests
  | optimised = tests
  | otherwise = case [judging name (notJudged "the code is not optimised") | name <- testsNames mempty tests] of
    [one] -> one
    several -> testGroup "needing optimised code" several

-- | Whether the project is compiled with optimisation. A rule of rewriting says so, which GHC applies only where it
-- optimises; this package has no options of its own for that.
optimised :: Bool
optimised = whenRewritten False

whenRewritten :: Bool -> Bool
whenRewritten given = given
{-# NOINLINE whenRewritten #-}

{-# RULES "optimised" whenRewritten False = True #-}

-- | Run an action that judges a time, inside 'judging'. If it fails, and a clock beside it was late by more than these seconds in
-- which the process did not run, the machine stalled, and the test is not judged. Time that the process itself used counts as its own.
--
-- [Cost]: a thread that wakes 500 times a second.
-- [Throws]: what the action throws, or an exception for 'judging'.
-- [Units]: seconds.
unstalled :: Double -> IO a -> IO a
unstalled most act = do
  worst <- newIORef 0
  let tick = do
        before <- now
        threadDelay 2000
        after <- now
        atomicModifyIORef' worst (\known -> (max known (idle before after - 0.002), ()))
  result <- bracket (forkIO (forever tick)) killThread $ \_ -> try act <* threadDelay 10000
  stall <- readIORef worst
  case result of
    Right got -> pure got
    Left (failure :: SomeException)
      | stall > most -> notJudged ("the machine stalled for " ++ show (round (stall * 1000) :: Int) ++ " ms")
      | otherwise -> throwIO failure
  where
    now = (,) <$> getMonotonicTime <*> (fromIntegral <$> getCPUTime)
    idle (time, used) (time', used') = time' - time - (used' - used) / 1e12
