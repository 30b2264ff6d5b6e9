{-# LANGUAGE TemplateHaskellQuotes #-}
{-# OPTIONS_GHC -O2 -fplugin Test.Inspection.Plugin -Wno-missed-extra-shared-lib #-}

-- | What the optimiser leaves of a flow: nothing of its types, no bytes for an element, and
-- safe points.
module FlowFusionTest (tests) where

import Control.Concurrent (forkIO, killThread, newEmptyMVar, putMVar, takeMVar)
import Control.Exception (AsyncException (..), SomeException, evaluate, fromException, try)
import Control.Monad (forM_)
import Data.Bits (xor)
import Data.Functor (void)
import Data.Version (versionBranch)
import FlowStages qualified as Stages
import GHC.Exts (lazy)
import Heddle.Flow (Flow, Sink, Source, into, run, (>->), (|>))
import Heddle.Flow qualified as Flow
import Heddle.Flow.Internal.Types (And, Next, Seen, Start, Stop)
import Heddle.Testkit.Judging (whenOptimised)
import System.Info (compilerVersion)
import System.Mem (getAllocationCounter, performMajorGC)
import System.Timeout (timeout)
import Test.Inspection (Property (..), Result (..), hasNoTypeClasses, mkObligation)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, assertFailure, testCase, (@?=))

-- | Four stages.
four :: Int -> IO Int
four n =
  Flow.range 1 n
    |> Flow.map (\x -> x * 3 + 1)
    |> Flow.filter (\x -> x `rem` 8 /= 0)
    |> Flow.mapAccum (\t x -> let t' = t + x in (t', t' `xor` x)) 0
    |> Flow.take (n - 1)
    `run` Flow.sum

-- | The same with a loop in the loop.
five :: Int -> IO Int
five n =
  Flow.range 1 n
    |> Flow.map (\x -> x * 3 + 1)
    |> Flow.filter (\x -> x `rem` 8 /= 0)
    |> Flow.mapAccum (\t x -> let t' = t + x in (t', t' `xor` x)) 0
    |> Flow.concatMap (`Flow.countFrom` 3)
    |> Flow.take (3 * n)
    `run` Flow.sum

-- | The same, composed from the other end.
fromTheEnd :: Int -> IO Int
fromTheEnd n =
  run (Flow.range 1 n) $
    (Flow.map (\x -> x * 3 + 1) >-> Flow.filter (\x -> x `rem` 8 /= 0))
      >-> (Flow.mapAccum (\t x -> let t' = t + x in (t', t' `xor` x)) 0 >-> Flow.concatMap (\x -> Flow.range x (x + 2)))
      >-> Flow.take (3 * n)
      `into` Flow.sum

-- | Of parts of another module.
elsewhere :: Int -> IO Int
elsewhere n = Stages.numbers n |> Stages.scaled |> Stages.running |> Stages.tripled |> Flow.take (3 * n) `run` Stages.total

actions :: Int -> IO Int
actions n = Flow.range 1 n |> Flow.mapM up |> Flow.mapM up |> Flow.mapM up |> Flow.mapM up `run` Flow.sum
  where
    up x = pure (x + 1)

zipped :: Int -> IO Int
zipped n = Flow.range 1 n |> Flow.zipUnfold (*) (\i -> if i > n then Nothing else Just (i, i + 1)) 1 `run` Flow.sum

states :: Int -> IO Int
states n =
  Flow.range 1 n
    |> Flow.drop 3
    |> Flow.dropWhile (< 9)
    |> Flow.postscan (+) 0
    |> Flow.number 0
    |> Flow.map (uncurry xor)
    |> Flow.takeWhile (/= -1)
    `run` Flow.length

maybes :: Int -> IO Int
maybes n =
  Flow.range 1 n
    |> Flow.mapMaybe (\x -> if even x then Nothing else Just (x + 1))
    |> Flow.mapAccumMaybe (\t x -> if x > t then (x, Just t) else (t, Nothing)) 0
    `run` Flow.sum

sideBySide :: Int -> IO (Int, Int)
sideBySide n = Flow.range 1 n |> Flow.filter odd `run` Flow.both Flow.sum Flow.length

threeAbreast :: Int -> IO (Int, Maybe Int, Maybe Int)
threeAbreast n = Flow.range 1 n |> Flow.filter odd `run` ((,,) <$> Flow.sum <*> Flow.find (> 1000) <*> Flow.maximum)

nested :: Int -> IO Int
nested n = (Flow.range 1 n >>= \x -> Flow.range x (x + 1) >>= \y -> pure (x * y)) `run` Flow.sum

tests :: TestTree
tests =
  testGroup
    "fusion"
    [ whenOptimised $
        testGroup
          "nothing of these is left in the code"
          [ inspected "four stages" fourTypes,
            inspected "four stages: dictionaries" fourClasses,
            inspected "a loop in the loop" fiveTypes,
            inspected "a loop in the loop: dictionaries" fiveClasses,
            inspected "composed from the other end" fromTheEndTypes,
            inspected "composed from the other end: dictionaries" fromTheEndClasses,
            inspected "across modules" elsewhereTypes,
            inspected "across modules: dictionaries" elsewhereClasses,
            inspected "actions" actionsTypes,
            inspected "actions: dictionaries" actionsClasses,
            inspected "zip" zippedTypes,
            inspected "zip: dictionaries" zippedClasses,
            inspected "states" statesTypes,
            inspected "states: dictionaries" statesClasses
          ],
      whenOptimised $
        testGroup
          "no bytes for an element"
          [ testCase "four stages" (free four),
            testCase "a loop in the loop" (bytesEach (since94 16) five),
            testCase "composed from the other end" (bytesEach (since94 16) fromTheEnd),
            testCase "across modules" (bytesEach (since94 16) elsewhere),
            testCase "actions" (free actions),
            testCase "zip" (free zipped),
            testCase "states" (free states),
            testCase "maybe" (free maybes),
            testCase "two sinks" (free (fmap fst . sideBySide)),
            testCase "three sinks" (bytesEach (since94 56) (fmap (\(s, _, _) -> s) . threeAbreast)),
            testCase "loops in loops" (bytesEach (since94 16) nested)
          ],
      testGroup
        "safe points"
        [ testCase "an endless flow is timed out" timedOut,
          testCase "endless flows of all kinds are killed" killed,
          testCase "garbage is collected around an endless flow" collected
        ]
    ]

-- By hand what 'inspectTest' splices in: with TemplateHaskell, GHC would ask for shared libraries, of
-- which this project builds none. The plugin puts its results in the place of these.
fourTypes,
  fourClasses,
  fiveTypes,
  fiveClasses,
  fromTheEndTypes,
  fromTheEndClasses,
  elsewhereTypes,
  elsewhereClasses,
  actionsTypes,
  actionsClasses,
  zippedTypes,
  zippedClasses,
  statesTypes,
  statesClasses ::
    Result
fourTypes = notRun
fourClasses = notRun
fiveTypes = notRun
fiveClasses = notRun
fromTheEndTypes = notRun
fromTheEndClasses = notRun
elsewhereTypes = notRun
elsewhereClasses = notRun
actionsTypes = notRun
actionsClasses = notRun
zippedTypes = notRun
zippedClasses = notRun
statesTypes = notRun
statesClasses = notRun
{-# NOINLINE fourTypes #-}
{-# NOINLINE fourClasses #-}
{-# NOINLINE fiveTypes #-}
{-# NOINLINE fiveClasses #-}
{-# NOINLINE fromTheEndTypes #-}
{-# NOINLINE fromTheEndClasses #-}
{-# NOINLINE elsewhereTypes #-}
{-# NOINLINE elsewhereClasses #-}
{-# NOINLINE actionsTypes #-}
{-# NOINLINE actionsClasses #-}
{-# NOINLINE zippedTypes #-}
{-# NOINLINE zippedClasses #-}
{-# NOINLINE statesTypes #-}
{-# NOINLINE statesClasses #-}
{-# ANN fourTypes (mkObligation 'four (NoTypes [''Next, ''Start, ''Stop, ''And, ''Seen, ''Sink, ''Flow, ''Source])) #-}
{-# ANN fourClasses (hasNoTypeClasses 'four) #-}
{-# ANN fiveTypes (mkObligation 'five (NoTypes [''Next, ''Start, ''Stop, ''And, ''Seen, ''Sink, ''Flow, ''Source])) #-}
{-# ANN fiveClasses (hasNoTypeClasses 'five) #-}
{-# ANN fromTheEndTypes (mkObligation 'fromTheEnd (NoTypes [''Next, ''Start, ''Stop, ''And, ''Seen, ''Sink, ''Flow, ''Source])) #-}
{-# ANN fromTheEndClasses (hasNoTypeClasses 'fromTheEnd) #-}
{-# ANN elsewhereTypes (mkObligation 'elsewhere (NoTypes [''Next, ''Start, ''Stop, ''And, ''Seen, ''Sink, ''Flow, ''Source])) #-}
{-# ANN elsewhereClasses (hasNoTypeClasses 'elsewhere) #-}
{-# ANN actionsTypes (mkObligation 'actions (NoTypes [''Next, ''Start, ''Stop, ''And, ''Seen, ''Sink, ''Flow, ''Source])) #-}
{-# ANN actionsClasses (hasNoTypeClasses 'actions) #-}
{-# ANN zippedTypes (mkObligation 'zipped (NoTypes [''Next, ''Start, ''Stop, ''And, ''Seen, ''Sink, ''Flow, ''Source])) #-}
{-# ANN zippedClasses (hasNoTypeClasses 'zipped) #-}
{-# ANN statesTypes (mkObligation 'states (NoTypes [''Next, ''Start, ''Stop, ''And, ''Seen, ''Sink, ''Flow, ''Source])) #-}
{-# ANN statesClasses (hasNoTypeClasses 'states) #-}

notRun :: Result
notRun = lazy (Failure "the plugin has not run")
{-# NOINLINE notRun #-}

inspected :: String -> Result -> TestTree
inspected name result = testCase name $ case result of
  Success _ -> pure ()
  Failure why -> assertFailure why

-- | As many bytes for a thousand elements as for a million.
free :: (Int -> IO Int) -> IO ()
free = bytesEach 0

-- | No more than this many bytes per element.
bytesEach :: Int -> (Int -> IO Int) -> IO ()
bytesEach allowed act = do
  _ <- bytes 10
  few <- bytes 1000
  many <- bytes 1000000
  assertBool (show few ++ " bytes for a thousand, " ++ show many ++ " for a million") (many - few < fromIntegral allowed * 999000 + 4096)
  where
    bytes n = do
      before <- getAllocationCounter
      _ <- act n >>= evaluate
      after <- getAllocationCounter
      pure (before - after)

-- | What GHC 9.4 and later allocate. They no longer unbox what a loop may also return as it is: a state that an inner loop
-- has changed is put into a box when the outer one goes on with it, once for each run of the inner loop; and of three
-- sinks, one of which may end early, the states of all are.
since94 :: Int -> Int
since94 bytes = if versionBranch compilerVersion >= [9, 4] then bytes else 0

-- | Neither of them ends, nor allocates.
endless, endlessWithin, endlessInShortRuns, endlessInRanges :: IO ()
endless = Flow.iterate (+ 1) (0 :: Int) |> Flow.filter (< -1) `run` Flow.drain
endlessWithin = Flow.range 1 3 |> Flow.concatMap (Flow.iterate (+ 1)) |> Flow.filter (< -1) `run` Flow.drain
endlessInShortRuns = Flow.iterate (+ 1) 0 |> Flow.concatMap (`Flow.countFrom` 3) |> Flow.filter (== -7) `run` Flow.drain
endlessInRanges = Flow.range minBound maxBound |> Flow.concatMap (\x -> Flow.range (x `rem` 9) 20) |> Flow.filter (== -77) `run` Flow.drain
{-# NOINLINE endless #-}
{-# NOINLINE endlessWithin #-}
{-# NOINLINE endlessInShortRuns #-}
{-# NOINLINE endlessInRanges #-}

timedOut :: IO ()
timedOut = timeout 10000 endless >>= (@?= Nothing)

killed :: IO ()
killed = forM_ [endless, endlessWithin, endlessInShortRuns, endlessInRanges] $ \act -> do
  begun <- newEmptyMVar
  ended <- newEmptyMVar
  thread <- forkIO (try (putMVar begun () >> act) >>= putMVar ended)
  takeMVar begun
  killThread thread
  takeMVar ended >>= \case
    Left e -> fromException (e :: SomeException) @?= Just ThreadKilled
    Right () -> assertFailure "it has ended"

collected :: IO ()
collected = do
  begun <- newEmptyMVar
  thread <- forkIO (putMVar begun () >> endlessInShortRuns)
  takeMVar begun
  forM_ [1 .. 5 :: Int] (const performMajorGC)
  void (evaluate thread)
  killThread thread
