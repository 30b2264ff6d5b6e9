{-# OPTIONS_GHC -fdefer-type-errors -Wno-deferred-type-errors -Wno-type-defaults #-}

-- | Calls written for functions of base that count microseconds do not compile. The compiler is told to go on all the
-- same; what it had to say is thrown when the program runs.
module DurationTest (tests) where

import Control.Exception (TypeError (..), evaluate, try)
import Control.Monad (join, void)
import Data.List (isInfixOf)
import Heddle.Channel (newUnbounded, recvUntil)
import Heddle.Scope (Nanos, microseconds, milliseconds, seconds, timeout, withTask)
import Heddle.Scope qualified as Scope
import Heddle.Timer (deadlineIn, minusNanos, sleepFor, timesNanos)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (Assertion, assertBool, assertFailure, testCase, (@?=))

tests :: TestTree
tests =
  testGroup
    "aNumberIsNotADuration"
    [ testCase "System.Timeout's timeout" (refused (void (timeout 1000000 (pure ())))),
      testCase "its time-out of zero" (refused (void (timeout 0 (pure ())))),
      testCase "its time-out without limit" (refused (void (timeout (-1) (pure ())))),
      testCase "threadDelay's number" (refused (sleepFor 1000000)),
      testCase "computed from numbers" (refused (void (timeout (5 * 1000) (pure ())))),
      testCase "a fraction" (refused (void (timeout 0.5 (pure ())))),
      testCase "converted from an Int" (refused (void (timeout (fromIntegral (length "four")) (pure ())))),
      testCase "in a deadline" (refused (deadlineIn 5 >>= void . evaluate)),
      testCase "added to a duration" (refused (void (timeout (seconds 1 + milliseconds 500) (pure ())))),
      testCase "as a deadline of a task" (refused (withTask (pure ()) (\t -> void (Scope.awaitUntil t 1000)))),
      testCase "as a deadline of a channel" (refused (newUnbounded >>= \c -> void (recvUntil c 1000 :: IO (Maybe ())))),
      testCase "a number with its unit is one" $ do
        timeout (microseconds 1000000) (pure 'x') >>= (@?= Just 'x')
        timeout mempty (assertFailure "run") >>= (@?= (Nothing :: Maybe ()))
        timeout (mempty `minusNanos` seconds 1) (pure 'y') >>= (@?= Just 'y')
        seconds 1 <> milliseconds 500 @?= (3 `timesNanos` milliseconds 500 :: Nanos)
    ]

-- | The program does not typecheck, because a number would have to be a duration or a deadline.
refused :: IO () -> Assertion
refused program =
  try (join (evaluate program)) >>= \case
    Right () -> assertFailure "it typechecks"
    Left (TypeError text) ->
      assertBool text (any (`isInfixOf` unwords (words text)) [wanted ++ of' | wanted <- ["Num ", "Fractional "], of' <- ["Nanos", "Heddle.Prim.Clock.Nanos", "Deadline", "Heddle.Prim.Clock.Deadline"]])
