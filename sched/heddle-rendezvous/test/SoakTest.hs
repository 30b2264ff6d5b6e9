{-# OPTIONS_GHC -fno-cse -fno-full-laziness #-}

-- | Runs, most of them deadlocks, while the number of capabilities changes.
--
-- GHC 9.0's @setNumCapabilities@ itself stands still now and then, in programs without
-- Heddle, too; 'setCapabilities' avoids what triggers that. A runtime that stands still would
-- stop the test as well, so the changes are made in a process of its own, which writes a letter
-- before and after each of its steps.
module SoakTest (tests, soakHere) where

import Control.Monad (forM_, replicateM_, unless, void, when)
import Data.Foldable (sequenceA_)
import Heddle.Prim.Atomic (atomicRead, fetchAdd, newWords)
import Heddle.Prim.Exception (bracket, evaluate, onException, try)
import Heddle.Prim.Thread (fork, setCapabilities, yield)
import Heddle.Rendezvous
import Heddle.Testkit.Watchdog (limitEach)
import System.Environment (getEnvironment, getExecutablePath, lookupEnv)
import System.Exit (die)
import System.IO (BufferMode (..), Handle, hGetChar, hSetBuffering, stdout)
import System.Process (CreateProcess (..), StdStream (..), createProcess, proc, terminateProcess, waitForProcess)
import System.Timeout (timeout)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (Assertion, assertEqual, assertFailure, testCaseSteps)

tests :: TestTree
tests =
  limitEach (20 * 60 * 1000000) $
    testGroup
      "while the number of capabilities changes (100,000 times: HEDDLE_NIGHTLY=1)"
      [ testCaseSteps "capabilityDisabledUnderItsInCallStopsTheRuntime: between runs" (soak Between),
        testCaseSteps "capabilityDisabledUnderItsInCallStopsTheRuntime: during runs" (soak During)
      ]

-- | When the number changes.
data Mode = Between | During
  deriving stock (Read, Show)

soak :: Mode -> (String -> IO ()) -> Assertion
soak mode step = do
  nightly <- (== Just "1") <$> lookupEnv "HEDDLE_NIGHTLY"
  let changes = if nightly then 50000 else 2000
  (done, end) <- bracket (start mode changes) stop (follow . fst)
  case end of
    Ended -> do
      assertEqual "changes" changes done
      step (show done ++ " changes")
    StoppedIn 'c' -> assertFailure ("setCapabilities did not return, after " ++ show done ++ " changes")
    StoppedIn _ -> assertFailure ("a run did not end, after " ++ show done ++ " changes")

-- | How a process ended.
data End = Ended | StoppedIn Char

-- | Read the letters: c before a change, d after it, r after a run, x when one went wrong, e at
-- the end. Returns how many changes were made. The process has stopped if for two minutes no
-- run ends. A run takes a millisecond, but beside three processes that compute on two cores, 40 seconds
-- without one have been seen, after which it went on.
follow :: Handle -> IO (Int, End)
follow letters = go 0 'd' 0
  where
    go :: Int -> Char -> Int -> IO (Int, End)
    go !done phase silent =
      timeout 1000000 (try (hGetChar letters)) >>= \case
        Nothing
          | silent >= 120 -> pure (done, StoppedIn phase)
          | otherwise -> go done phase (silent + 1)
        Just (Left e) -> fail ("the process has ended: " ++ show (e :: IOError))
        Just (Right c) -> case c of
          'e' -> pure (done, Ended)
          'x' -> fail "a run went wrong; what it said is above"
          'r' -> go done phase 0
          'd' -> go (done + 1) c silent
          _ -> go done c silent

start :: Mode -> Int -> IO (Handle, IO ())
start mode n = do
  program <- getExecutablePath
  others <- filter ((/= variable) . fst) <$> getEnvironment
  (_, output, _, process) <-
    createProcess
      (proc program ["+RTS", "-N4", "-RTS"])
        { std_out = CreatePipe,
          env = Just ((variable, show (mode, n)) : others)
        }
  case output of
    Just h -> hSetBuffering h (BlockBuffering Nothing) >> pure (h, terminateProcess process >> void (waitForProcess process))
    Nothing -> fail "no pipe"

stop :: (Handle, IO ()) -> IO ()
stop = snd

-- | Set in the process that makes the changes.
variable :: String
variable = "HEDDLE_RENDEZVOUS_TEST_SOAK"

-- | What that process does: 'True' if this is one.
soakHere :: IO Bool
soakHere =
  lookupEnv variable >>= \case
    Nothing -> pure False
    Just arguments -> do
      hSetBuffering stdout NoBuffering
      let (mode, n) = read arguments
      True <$ changing mode n

changing :: Mode -> Int -> IO ()
changing mode n = do
  case mode of
    Between -> forM_ [1 .. n] $ \k -> change k >> runs k
    During -> do
      ended <- newWords 1
      _ <- fork "soak/runs" (forM_ [1 ..] (\k -> runs k >> fetchAdd ended 0 1) `onException` putChar 'x')
      forM_ [1 .. n] $ \k -> do
        before <- atomicRead ended 0
        change k
        -- At least one run for each change.
        let wait = atomicRead ended 0 >>= \now -> when (now == before) (yield >> wait)
        wait
  putChar 'e'
  where
    change k = do
      putChar 'c'
      setCapabilities (1 + (k * 7919 `div` 3) `mod` 4)
      putChar 'd'

-- | Two deadlocks and a run that ends.
runs :: Int -> IO ()
runs k = do
  deadlocked (k `mod` 5 + 2) (ring (k `mod` 5 + 2))
  deadlocked 4 crossing
  got <- evaluate (runDet (passing (k `mod` 20)))
  unless (got == k `mod` 20) (die ("wrong: " ++ show got))
  putChar 'r'
  where
    deadlocked :: Int -> Closed () -> IO ()
    deadlocked waits (Closed program) =
      try (evaluate (runDet program)) >>= \case
        Left d | length (deadlockWaits d) == waits -> pure ()
        Left d -> die (show d)
        Right () -> die "no deadlock"

ring :: Int -> Closed ()
ring n = Closed $ do
  cs <- mapM (newChan . show) [1 .. n]
  par (sequenceA_ [branch (inp a, out b) (\(i, o) -> recv i >>= \() -> send o ()) | (a, b) <- zip cs (drop 1 (cycle cs))])

-- | Two wait for the third, which waits for them; a fourth ends.
crossing :: Closed ()
crossing = Closed $ do
  c <- newChan "c"
  d <- newChan "d"
  par . sequenceA_ $
    [ branch (out c) (`send` ()),
      branch (inp c) recv,
      branch (inp c, inp d) (\(i, j) -> recv j >> recv i),
      branch (out d, inp c) (\(o, i) -> recv i >> recv i >> send o ())
    ]

passing :: Int -> Det s Int
passing n = do
  c <- newChan "c"
  d <- newChan "d"
  par $
    branch (out c) (\o -> replicateM_ n (send o (1 :: Int)))
      *> branch (inp c, out d) (\(i, o) -> forM_ [1 .. n] (\_ -> recv i >>= send o))
      *> branch (inp d) (\i -> sum <$> mapM (\_ -> recv i) [1 .. n])
