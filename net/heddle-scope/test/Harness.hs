-- | What the tests share: deadlines that turn a hang into a failure, threads with results, and
-- waiting for a state instead of for a time.
module Harness
  ( testIn,
    limited,
    waitParked,
    waitUntilTrue,
    Task (..),
    forkTask,
    joinTask,
    killTask,
    expectIOError,
  )
where

import Control.Concurrent
import Control.Exception
import Control.Monad
import GHC.Conc (BlockReason (..), ThreadStatus (..), threadStatus)
import Heddle.Prim.Errno (Errno, errnoOf)
import System.Timeout (timeout)
import Test.Tasty
import Test.Tasty.HUnit

-- | A test that fails instead of hanging.
testIn :: TestName -> Assertion -> TestTree
testIn name = testCase name . limited

-- | Fail after a minute.
limited :: IO a -> IO a
limited body = timeout 60000000 body >>= maybe (assertFailure "did not end within a minute") pure

-- | Wait until a thread is parked.
waitParked :: ThreadId -> IO ()
waitParked t = waitUntilTrue $ (`elem` [ThreadBlocked BlockedOnMVar, ThreadBlocked BlockedOnSTM]) <$> threadStatus t

-- | Wait for a state.
waitUntilTrue :: IO Bool -> IO ()
waitUntilTrue state = do
  there <- state
  unless there (yield >> waitUntilTrue state)

-- | A thread with a result.
data Task a = Task {taskThread :: ThreadId, taskResult :: MVar (Either SomeException a)}

forkTask :: IO a -> IO (Task a)
forkTask body = do
  result <- newEmptyMVar
  t <- mask $ \restore -> forkIO (try (restore body) >>= putMVar result)
  pure (Task t result)

joinTask :: Task a -> IO a
joinTask t = readMVar (taskResult t) >>= either throwIO pure

-- | Kill it and wait; the exception that ended it.
killTask :: Task a -> IO (Maybe SomeException)
killTask t = killThread (taskThread t) >> either Just (const Nothing) <$> readMVar (taskResult t)

-- | Expect an 'IOException' with this errno.
expectIOError :: Errno -> IO a -> Assertion
expectIOError wanted body =
  try body >>= \case
    Left e -> assertEqual (show e) (Just wanted) (errnoOf e)
    Right _ -> assertFailure ("expected " ++ show wanted)
