-- |
-- Module      : Heddle.Measure.Server
-- Description : What a server in another process costs, and how long its clients wait
-- Stability   : stable
--
-- CPU time per operation of another process, and its threads' time on and waiting for a core; and an open-loop
-- load whose latencies count from when a request was due, not from when the client got round to sending it.
--
-- Cost: two system calls around the work; threads are read from @\/proc@.
-- Owner: values.
module Heddle.Measure.Server
  ( -- * CPU time of another process
    ServerUse (..),
    measureServer,
    ThreadUse (..),
    threadUse,

    -- * Latency under a given rate
    Load (..),
    openLoop,

    -- * Histograms of latencies
    module Heddle.Prim.Histogram,
  )
where

import Control.Concurrent (threadDelay)
import Control.Monad (guard)
import Data.ByteString qualified as ByteString
import Data.ByteString.Char8 qualified as Char8
import Data.Maybe (catMaybes)
import Heddle.Measure.Counters (processCpu)
import Heddle.Prim.Clock (Deadline (..), Nanos (..), elapsed, minusNanos, monotonicNow)
import Heddle.Prim.Exception (IOException, handleJust, throwIO, try)
import Heddle.Prim.Histogram
import System.Directory (listDirectory)
import System.IO.Error (isDoesNotExistError)
import Text.Read (readMaybe)

-- | What a process used while something was done.
data ServerUse = ServerUse
  { operations :: !Int,
    serverCpu :: !Nanos,
    serverWall :: !Nanos
  }
  deriving stock (Eq, Show)

-- | Run an action that has a server do work and returns how many operations it did; measure the CPU time of the
-- server by its process number meanwhile. Divide it by the operations for the time of each. 'Nothing' if
-- the process is not there, before or after.
--
-- [Throws]: what the action throws; 'IOException' if the clock of a process that is there cannot be read.
measureServer :: Int -> IO Int -> IO (Maybe ServerUse)
measureServer pid action = do
  before <- processCpu pid
  begun <- monotonicNow
  n <- action
  ended <- monotonicNow
  after <- processCpu pid
  pure ((\b a -> ServerUse n (a `minusNanos` b) (elapsed begun ended)) <$> before <*> after)

-- | A thread of another process, since it began.
data ThreadUse = ThreadUse
  { threadNumber :: !Int,
    threadName :: !String,
    -- | On a core.
    threadRan :: !Nanos,
    -- | Ready to run, without a core.
    threadWaited :: !Nanos
  }
  deriving stock (Eq, Show)

-- | The threads of a process, from @\/proc\/PID\/task@, without those that end meanwhile. 'Nothing' if there is no such
-- process.
--
-- [Throws]: 'IOException' if the process is there and its threads cannot be read: without permission, without a free
-- descriptor, or from a kernel without schedstat.
threadUse :: Int -> IO (Maybe [ThreadUse])
threadUse pid = ifThere (listDirectory folder) >>= traverse (fmap catMaybes . mapM thread)
  where
    folder = "/proc/" ++ show pid ++ "/task"
    thread number = do
      let schedstat = folder ++ "/" ++ number ++ "/schedstat"
      times <- try (ByteString.readFile schedstat)
      name <- ifThere (ByteString.readFile (folder ++ "/" ++ number ++ "/comm"))
      -- Read last, the name says whether the thread was still there when its times could not be read.
      case (name, times) of
        (Nothing, _) -> pure Nothing
        (Just _, Left e) -> throwIO (e :: IOException)
        (Just comm, Right found) -> case (readMaybe number, map readMaybe (words (Char8.unpack found))) of
          (Just tid, Just ran : Just waited : _) -> pure (Just (ThreadUse tid (takeWhile (/= '\n') (Char8.unpack comm)) (Nanos ran) (Nanos waited)))
          _ -> throwIO (userError (schedstat ++ ": not times on and waiting for a core"))

-- 'Nothing' only where what is asked for is gone (ENOENT, ESRCH).
ifThere :: IO a -> IO (Maybe a)
ifThere action = handleJust (guard . isDoesNotExistError) (const (pure Nothing)) (Just <$> action)

-- | A steady rate of requests.
data Load = Load
  { -- | Requests in a second.
    rate :: !Double,
    -- | How many in all.
    requests :: !Int
  }
  deriving stock (Eq, Show)

-- | Send requests at a steady rate from the calling thread: the action sends one and waits for its answer.
-- Latencies, in nanoseconds, count from when a request was due. When an answer is late, those that were due
-- meanwhile are sent at once, and their waiting counts, so a server that stops for a second cannot hide it
-- (coordinated omission). For a rate that one connection cannot carry, run one of these in each of several threads
-- and put the histograms together. They are exact to 1/64.
--
-- [Blocks]: parks between requests.
-- [Throws]: what the action throws.
openLoop :: Load -> (Int -> IO ()) -> IO Histogram
openLoop load send = do
  recorder <- newRecorder (Precision 6)
  Deadline start <- monotonicNow
  let due k = start + round (fromIntegral k * 1e9 / rate load)
      go k
        | k >= requests load = pure ()
        | otherwise = do
          wait (due k)
          send k
          Deadline now <- monotonicNow
          recordValue recorder (now - due k)
          go (k + 1)
  go 0
  snapshot recorder
  where
    wait moment = do
      Deadline now <- monotonicNow
      if now >= moment
        then pure ()
        else threadDelay ((moment - now) `div` 1000) >> wait moment
