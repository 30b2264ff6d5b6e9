-- |
-- Module      : Heddle.Testkit.Watchdog
-- Description : Waits that end, and failures that say what was expected
-- Stability   : internal, exempt from the version policy
--
-- A test that would hang fails instead, and says what it waited for. Suites wait for a state, never for a duration.
--
-- The limits count the time in which the process runs: one that was stopped for a minute, or got no processor, has not used up its
-- patience. All processes of a suite are assumed to be stopped together.
--
-- Owner: the calling thread.
-- Cost: from the first wait on, a thread outside of the runtime that wakes 50 times a second; 'eventually' looks 500 times a second.
module Heddle.Testkit.Watchdog
  ( -- * Waiting
    patience,
    patiently,
    within,
    timeoutRunning,
    limitEach,
    eventually,

    -- * Failing
    Unexpected (..),
    unexpected,
  )
where

import Control.Concurrent (forkIOWithUnmask, killThread, myThreadId, threadDelay)
import Control.Exception
  ( Exception (..),
    asyncExceptionFromException,
    asyncExceptionToException,
    bracket,
    handleJust,
    throwIO,
    throwTo,
    uninterruptibleMask_,
  )
import Control.Monad (guard, when)
import Data.Tagged (Tagged, retag)
import Data.Unique (Unique, newUnique)
import Data.Word (Word64)
import Test.Tasty.Options (OptionDescription)
import Test.Tasty.Providers (IsTest (..), testFailed)
import Test.Tasty.Runners (TestTree (..))

-- | How long any single wait may take before the test fails: 20 seconds.
--
-- [Units]: microseconds.
patience :: Int
patience = 20000000

-- | Run an action, given what is expected of it, for at most 'patience'.
--
-- [Blocks]: as the action.
-- [Throws]: 'Unexpected' when patience ends, in the calling thread.
patiently :: String -> IO a -> IO a
patiently = within patience

-- | Run an action for at most a time of the test's own.
--
-- [Blocks]: as the action. One that never allocates, or waits in a foreign call, is not interrupted.
-- [Throws]: 'Unexpected' when the time ends.
-- [Units]: microseconds.
within :: Int -> String -> IO a -> IO a
within limit what action =
  timeoutRunning limit action >>= maybe (unexpected what ("nothing in " ++ show (limit `quot` 1000000) ++ " seconds")) pure

-- | Run an action for at most a time, as 'System.Timeout.timeout' does, by a clock that counts only while the process runs.
--
-- [Blocks]: as the action.
-- [Units]: microseconds.
timeoutRunning :: Int -> IO a -> IO (Maybe a)
timeoutRunning limit action = do
  caller <- myThreadId
  late <- Late <$> newUnique
  began <- clock
  let wait left = do
        threadDelay left
        now <- clock
        let left' = limit - (now - began)
        if left' > 0 then wait (max 20000 left') else throwTo caller late
  handleJust (guard . (== late)) (\() -> pure Nothing) $
    bracket (forkIOWithUnmask (\unmask -> unmask (wait limit))) (uninterruptibleMask_ . killThread) (\_ -> Just <$> action)

-- | A time in microseconds that goes on only while the process runs.
clock :: IO Int
clock = do
  elapsed <- elapsedMilliseconds
  when (elapsed == maxBound) (fail "there is no thread for the clock of Heddle.Testkit.Watchdog")
  pure (fromIntegral elapsed * 1000)

-- Unsafe, as it takes a lock that is held for no longer than a thread takes to start.
foreign import ccall unsafe "heddle_testkit_clock" elapsedMilliseconds :: IO Word64

-- | Give each of the tests at most a time of its own, as tasty's 'Test.Tasty.mkTimeout' does, by the clock of 'timeoutRunning'.
--
-- [Units]: microseconds.
limitEach :: Int -> TestTree -> TestTree
limitEach limit = go
  where
    go = \case
      SingleTest name test -> SingleTest name (Limited limit test)
      TestGroup name tests -> TestGroup name (map go tests)
      PlusTestOptions change tests -> PlusTestOptions change (go tests)
      WithResource resource tests -> WithResource resource (go . tests)
      AskOptions tests -> AskOptions (go . tests)
      After dependency others tests -> After dependency others (go tests)

data Limited t = Limited Int t

instance IsTest t => IsTest (Limited t) where
  run options (Limited limit test) progress =
    timeoutRunning limit (run options test progress)
      >>= maybe (pure (testFailed ("did not end within " ++ show (limit `quot` 1000000) ++ " seconds in which the process ran"))) pure
  testOptions = retag (testOptions :: Tagged t [OptionDescription])

-- | The end of one limited wait.
newtype Late = Late Unique
  deriving stock (Eq)

instance Show Late where
  show _ = "a wait of a test has reached its limit"

instance Exception Late where
  toException = asyncExceptionToException
  fromException = asyncExceptionFromException

-- | Poll every 2 ms until a state is reached; when 'patience' ends, fail with the state seen last.
--
-- [Blocks]: parks the thread.
-- [Throws]: 'Unexpected', and what the action throws.
eventually :: Show a => String -> IO a -> (a -> Bool) -> IO a
eventually what look reached = clock >>= go
  where
    go began = do
      seen <- look
      now <- clock
      if reached seen
        then pure seen
        else
          if now - began > patience
            then unexpected what (show seen)
            else threadDelay 2000 >> go began

-- | Thrown when something happens that a test did not expect.
newtype Unexpected = Unexpected String

instance Show Unexpected where
  show (Unexpected what) = what

instance Exception Unexpected

-- | Fail a test: what was expected, and what happened instead.
--
-- [Throws]: 'Unexpected', always.
unexpected :: String -> String -> IO a
unexpected expected got = throwIO (Unexpected ("expected " ++ expected ++ "\n but got: " ++ got))
