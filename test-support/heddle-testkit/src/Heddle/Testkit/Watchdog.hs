-- |
-- Module      : Heddle.Testkit.Watchdog
-- Description : Waits that end, and failures that say what was expected
-- Stability   : internal, exempt from the version policy
--
-- A test that would hang fails instead, and says what it waited for. Suites wait for a state, never for a duration.
--
-- Owner: the calling thread.
-- Cost: 'eventually' looks 500 times a second.
module Heddle.Testkit.Watchdog
  ( -- * Waiting
    patience,
    patiently,
    within,
    eventually,

    -- * Failing
    Unexpected (..),
    unexpected,
  )
where

import Control.Concurrent (threadDelay)
import Control.Exception (Exception (..), throwIO)
import GHC.Clock (getMonotonicTime)
import System.Timeout (timeout)

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
  timeout limit action >>= maybe (unexpected what ("nothing in " ++ show (limit `quot` 1000000) ++ " seconds")) pure

-- | Poll every 2 ms until a state is reached; when 'patience' ends, fail with the state seen last.
--
-- [Blocks]: parks the thread.
-- [Throws]: 'Unexpected', and what the action throws.
eventually :: Show a => String -> IO a -> (a -> Bool) -> IO a
eventually what look reached = do
  began <- getMonotonicTime
  let go = do
        seen <- look
        now <- getMonotonicTime
        if reached seen
          then pure seen
          else
            if now - began > fromIntegral patience / 1000000
              then unexpected what (show seen)
              else threadDelay 2000 >> go
  go

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
