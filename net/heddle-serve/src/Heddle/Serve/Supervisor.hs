-- |
-- Module      : Heddle.Serve.Supervisor
-- Description : Processes that serve, and the one that keeps them alive
-- Stability   : internal, exempt from the version policy
--
-- Each worker is the same program with one core, its own heap and its own listening sockets, which the supervisor has opened and
-- keeps open: connections that wait for a worker that has died are accepted by the one that takes its place. The kernel ends the
-- workers with the supervisor's main thread (PR_SET_PDEATHSIG).
--
-- Cost: an OS thread that sleeps in waitpid for each worker; nothing per request.
-- Owner: the supervisor's main thread starts workers; signal handlers pass signals on to those there are.
module Heddle.Serve.Supervisor
  ( -- * In the supervisor
    Supervision (..),
    Supervised,
    newSupervised,
    supervise,
    beginWorker,
    passSignal,
    awaitEnd,
    endWorkers,
    shareOf,

    -- * In a worker
    isWorker,
    takeSupervisor,
    leaveGroup,
    followSupervisor,
  )
where

import Control.Monad (unless, void, when)
import Data.Foldable (for_)
import Data.IntMap.Strict (IntMap)
import Data.IntMap.Strict qualified as IntMap
import Data.List.NonEmpty (NonEmpty (..))
import Data.List.NonEmpty qualified as NonEmpty
import Data.Maybe (isJust)
import Foreign.C.Types (CInt (..))
import Heddle.Prim.Atomic
import Heddle.Prim.Clock
import Heddle.Prim.Exception
import Heddle.Prim.Thread (fork, nap)
import Heddle.Prim.WaitCell
import Heddle.Serve.Signal
import Heddle.Serve.Signals (handleSignals)
import System.Environment (lookupEnv, unsetEnv)
import System.Exit (ExitCode (..))
import System.Posix.Process (createProcessGroupFor, exitImmediately, getProcessID)
import System.Posix.Signals (sigKILL, signalProcess)
import Text.Read (readMaybe)

-- | What a supervisor does its work with.
data Supervision = Supervision
  { superviseNumber :: !Int,
    -- | Start the worker of a slot with these variables, and wait until it serves: its process id, or why it does not.
    superviseStart :: !([(String, String)] -> Int -> IO (Either String Int)),
    -- | Start another supervisor that takes this one's place.
    superviseSuccessor :: !(IO (Either String Int)),
    superviseTell :: !(String -> IO ())
  }

-- | The workers, and what has happened to them.
data Supervised = Supervised
  { supervisedHow :: !Supervision,
    -- | The slots of the workers that run, by process id, with when they began.
    supervisedWorkers :: !(Ref (IntMap (Int, Deadline))),
    -- | Newest first.
    supervisedEvents :: !(Ref [Event]),
    supervisedWake :: !WaitCell,
    -- | Word 0: 1 after the first signal to stop.
    supervisedStops :: !Words,
    -- | How often each signal has been passed on.
    supervisedPassed :: !(Ref (IntMap Int))
  }

data Event
  = -- | The worker with this process id has ended so.
    Ended !Int !Int
  | -- | The worker of a slot is to start, after as many failures.
    Due !Int !Int
  | Upgrade

-- | Without workers yet.
newSupervised :: Supervision -> IO Supervised
newSupervised how = Supervised how <$> newRef IntMap.empty <*> newRef [] <*> newWaitCell <*> newWords 1 <*> newRef IntMap.empty

-- | Start the workers and handle signals; why the first worker that failed did. The actions: at the second signal to stop, and
-- around a reload.
--
-- [Blocks]: parks until all serve.
supervise :: Supervision -> IO () -> IO (IO ()) -> IO (Either String Supervised)
supervise how atSecond reloading = do
  supervised <- newSupervised how
  let stop = atomicWrite (supervisedStops supervised) 0 1 >> unpark (supervisedWake supervised)
      again = tellWorkers supervised sigKILL >> atSecond
      passed signal = reloading >>= \done -> passSignal supervised signal >> done
  handleSignals stop again (passed sigUSR1) (passed sigHUP) (happened supervised Upgrade)
  let go slot
        | slot == superviseNumber how = pure (Right supervised)
        | otherwise =
          beginWorker supervised slot >>= \case
            Right () -> go (slot + 1)
            Left why -> Left why <$ endWorkers supervised
  go 0 `onException` tellWorkers supervised sigKILL

-- | Keep the workers alive until a signal to stop ('Nothing') or until another supervisor serves (its process id).
--
-- [Blocks]: parks.
awaitEnd :: Supervised -> IO (Maybe Int)
awaitEnd supervised = go IntMap.empty
  where
    how = supervisedHow supervised
    -- How often the worker of a slot has failed one after the other.
    go failures = do
      stops <- atomicRead (supervisedStops supervised) 0
      events <- modifyRef (supervisedEvents supervised) (\events -> ([], reverse events))
      if stops == 1
        then pure Nothing
        else if null events then park (supervisedWake supervised) >> go failures else handle failures events
    handle failures = \case
      [] -> go failures
      Ended pid status : rest -> do
        known <- modifyRef (supervisedWorkers supervised) (\workers -> (IntMap.delete pid workers, IntMap.lookup pid workers))
        case known of
          Nothing -> handle failures rest
          Just (slot, began) -> do
            now <- monotonicNow
            -- One that has served for a while has not failed at its start.
            let before = if now > after (seconds 10) began then 0 else IntMap.findWithDefault 0 slot failures
            superviseTell how ("worker " ++ show (slot + 1) ++ " (process " ++ show pid ++ ") " ++ endOf status ++ "; another one takes its place" ++ waiting before)
            later slot before
            handle (IntMap.insert slot (before + 1) failures) rest
      Due slot failed : rest ->
        beginWorker supervised slot >>= \case
          Right () -> handle failures rest
          Left why -> do
            superviseTell how ("worker " ++ show (slot + 1) ++ " does not serve: " ++ why ++ "; it is started again" ++ waiting (failed + 1))
            later slot (failed + 1)
            handle (IntMap.insert slot (failed + 1) failures) rest
      Upgrade : rest ->
        startedInto supervised (\_ -> pure ()) (superviseSuccessor how) >>= \case
          Right pid -> pure (Just pid)
          Left why -> do
            superviseTell how ("the successor does not serve, so this process goes on: " ++ why)
            handle failures rest
    later slot failed = case delayOf failed of
      Nanos 0 -> happened supervised (Due slot failed)
      delay -> void (fork "serve/restart" (nap delay >> happened supervised (Due slot failed)))
    waiting failed = case delayOf failed of
      Nanos 0 -> ""
      Nanos n -> " in " ++ show (n `quot` 1000000) ++ " ms"
    endOf status
      | status > 128 = "was ended by signal " ++ show (status - 128)
      | otherwise = "ended with exit code " ++ show status

-- At once, then after 100 ms, doubled each time up to 12.8 s.
delayOf :: Int -> Nanos
delayOf failed
  | failed <= 0 = Nanos 0
  | otherwise = milliseconds (100 * 2 ^ min 7 (failed - 1))

-- | Start the worker of a slot, or say why it does not serve. It gets the signals that have been passed on meanwhile: it may have read its
-- files before.
--
-- [Blocks]: parks until it serves.
beginWorker :: Supervised -> Int -> IO (Either String ())
beginWorker supervised slot = do
  me <- getProcessID
  void <$> startedInto supervised enter (superviseStart (supervisedHow supervised) [(workerVariable, show me)] slot)
  where
    enter pid = do
      now <- monotonicNow
      modifyRef (supervisedWorkers supervised) (\workers -> (IntMap.insert pid (slot, now) workers, ()))
      void . fork "serve/worker" $ do
        status <- c_wait (fromIntegral pid)
        happened supervised (Ended pid (fromIntegral status))

-- Start a process, enter it, and give it the signals that were passed on meanwhile. Later ones find it where it was entered.
startedInto :: Supervised -> (Int -> IO ()) -> IO (Either String Int) -> IO (Either String Int)
startedInto supervised enter start = do
  before <- readRef (supervisedPassed supervised)
  started <- either (Left . describeException) id <$> trySync start
  for_ started $ \pid -> do
    enter pid
    passed <- readRef (supervisedPassed supervised)
    for_ (IntMap.keys (IntMap.differenceWith (\n m -> if n == m then Nothing else Just n) passed before)) $ \signal ->
      trySync (signalProcess (fromIntegral signal) (fromIntegral pid))
  pure started

happened :: Supervised -> Event -> IO ()
happened supervised event = modifyRef (supervisedEvents supervised) (\events -> (event : events, ())) >> unpark (supervisedWake supervised)

-- | Pass a signal on to all workers, those included that are being started. One may get it twice.
--
-- [Blocks]: never.
-- [Threads]: any.
passSignal :: Supervised -> Signal -> IO ()
passSignal supervised signal = do
  -- Counted before the workers are looked up, and 'startedInto' looks at the count after it has entered its worker: one of both sees the
  -- other.
  modifyRef (supervisedPassed supervised) (\passed -> (IntMap.insertWith (+) (fromIntegral signal) 1 passed, ()))
  tellWorkers supervised signal

-- One that has ended meanwhile needs no signal.
tellWorkers :: Supervised -> Signal -> IO ()
tellWorkers supervised signal = do
  workers <- readRef (supervisedWorkers supervised)
  for_ (IntMap.keys workers) (trySync . signalProcess signal . fromIntegral)

-- | Let the workers finish their requests and end, and wait for that; each one limits the time itself.
--
-- [Blocks]: parks.
endWorkers :: Supervised -> IO ()
endWorkers supervised = tellWorkers supervised sigTERM >> go
  where
    go = do
      events <- modifyRef (supervisedEvents supervised) (\events -> ([], events))
      for_ [pid | Ended pid _ <- events] $ \pid -> modifyRef (supervisedWorkers supervised) (\workers -> (IntMap.delete pid workers, ()))
      left <- readRef (supervisedWorkers supervised)
      unless (IntMap.null left) (park (supervisedWake supervised) >> go)

-- | A worker's share of the sockets of an address: one of as many as there are workers, or all of them if there are fewer.
shareOf :: Int -> Int -> NonEmpty a -> NonEmpty a
shareOf number slot sockets
  | NonEmpty.length sockets < number = sockets
  | otherwise = case NonEmpty.drop slot sockets of
    -- What remains of a larger number of before is the last worker's.
    one : others -> one :| (if slot == number - 1 then others else [])
    [] -> sockets

-- The process id of the supervisor.
workerVariable :: String
workerVariable = "HEDDLE_WORKER"

-- | Test whether this process was started by a supervisor; before 'takeSupervisor'.
isWorker :: IO Bool
isWorker = isJust <$> lookupEnv workerVariable

-- | The supervisor of this process, if it is a worker; once.
takeSupervisor :: IO (Maybe Int)
takeSupervisor = do
  given <- (>>= readMaybe) <$> lookupEnv workerVariable
  given <$ unsetEnv workerVariable

-- | Leave the terminal's process group: what is typed there is for the supervisor, which passes it on. It fails only for the leader
-- of a session, who has left already.
leaveGroup :: IO ()
leaveGroup = void (trySync (createProcessGroupFor 0))

-- | End with the supervisor; at once, if it has ended.
followSupervisor :: Int -> IO ()
followSupervisor pid = do
  there <- c_follow (fromIntegral pid)
  when (there == 0) (exitImmediately (ExitFailure 1))

-- safe: waits for a process.
foreign import ccall safe "heddle_successor_wait" c_wait :: CInt -> IO CInt

-- unsafe: asks the kernel for a signal, which never sleeps.
foreign import ccall unsafe "heddle_successor_follow" c_follow :: CInt -> IO CInt
