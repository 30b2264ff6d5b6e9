-- |
-- Module      : Heddle.Testkit.Threads
-- Description : Threads with results, and waits for their states
-- Stability   : internal, exempt from the version policy
--
-- For suites that test threads themselves, so cannot use heddle-scope.
--
-- Owner: the calling thread.
-- Cost: 'waitUntilTrue' looks as often as the scheduler lets it.
module Heddle.Testkit.Threads
  ( -- * Tests that end
    testIn,
    limited,

    -- * Waiting for a state
    waitUntilTrue,
    waitParked,
    waitSettled,

    -- * Threads with results
    Task,
    taskThread,
    forkTask,
    forkTaskOn,
    joinTask,
    killTask,
  )
where

import Control.Concurrent
import Control.Exception
import Control.Monad (unless)
import GHC.Conc (BlockReason (..), ThreadStatus (..), threadStatus)
import Heddle.Testkit.Watchdog (timeoutRunning)
import Test.Tasty (TestName, TestTree)
import Test.Tasty.HUnit (Assertion, assertFailure, testCase)

-- | A test that fails instead of hanging: it has a minute.
testIn :: TestName -> Assertion -> TestTree
testIn name = testCase name . limited

-- | Fail after a minute in which the process runs.
--
-- [Blocks]: as the action.
limited :: IO a -> IO a
limited body = timeoutRunning 60000000 body >>= maybe (assertFailure "did not end within a minute") pure

-- | Look, and yield, until it is so. For states that are a few steps of another thread away; see
-- 'Heddle.Testkit.Watchdog.eventually' for longer waits.
--
-- [Blocks]: never parks.
waitUntilTrue :: IO Bool -> IO ()
waitUntilTrue state = do
  there <- state
  unless there (yield >> waitUntilTrue state)

-- | Wait until a thread is parked on an @MVar@ or in STM. One that ends instead fails the test.
--
-- [Blocks]: never parks.
waitParked :: ThreadId -> IO ()
waitParked t =
  threadStatus t >>= \case
    ThreadBlocked reason | reason `elem` [BlockedOnMVar, BlockedOnSTM] -> pure ()
    ThreadFinished -> assertFailure "the thread has ended, and was to park"
    ThreadDied -> assertFailure "the thread has died, and was to park"
    _ -> yield >> waitParked t

-- | Wait until a thread is parked or has ended, as one with a near deadline may have.
--
-- [Blocks]: never parks.
waitSettled :: ThreadId -> IO ()
waitSettled t = waitUntilTrue ((`notElem` [ThreadRunning, ThreadBlocked BlockedOnBlackHole]) <$> threadStatus t)

-- | A thread and its result.
data Task a = Task
  { -- | To be interrupted or looked at; 'joinTask' and 'killTask' wait for its end.
    taskThread :: ThreadId,
    taskResult :: MVar (Either SomeException a)
  }

-- | Fork a thread.
--
-- [Blocks]: never.
forkTask :: IO a -> IO (Task a)
forkTask = forkTaskBy forkIO

-- | On one capability.
--
-- [Blocks]: never.
forkTaskOn :: Int -> IO a -> IO (Task a)
forkTaskOn = forkTaskBy . forkOn

forkTaskBy :: (IO () -> IO ThreadId) -> IO a -> IO (Task a)
forkTaskBy fork body = do
  result <- newEmptyMVar
  t <- mask $ \restore -> fork (try (restore body) >>= putMVar result)
  pure (Task t result)

-- | Its result.
--
-- [Blocks]: parks until it has ended.
-- [Throws]: what it threw.
joinTask :: Task a -> IO a
joinTask t = readMVar (taskResult t) >>= either throwIO pure

-- | Kill it; the exception that ended it, if one did.
--
-- [Blocks]: parks until it has ended.
killTask :: Task a -> IO (Maybe SomeException)
killTask t = killThread (taskThread t) >> either Just (const Nothing) <$> readMVar (taskResult t)
