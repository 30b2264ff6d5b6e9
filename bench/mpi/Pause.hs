{-# LANGUAGE ViewPatterns #-}

-- | What threads that wait for messages do to the pauses of the collector.
--
-- Rank 0 allocates and collects, and takes the time of each small collection; alone, with a thread that
-- waits in a receive, and with one that sends and receives all the time, in turn. Prints
-- @pause none|waiting|talking MEDIAN P99 MOST@ in microseconds.
module Main
  ( main,
  )
where

import Control.Concurrent (forkIO, newEmptyMVar, putMVar, takeMVar)
import Control.Exception (evaluate)
import Control.Monad (forM, forM_, unless, void, when)
import Data.IORef (newIORef, readIORef, writeIORef)
import Data.List (sort)
import GHC.Clock (getMonotonicTimeNSec)
import Heddle.MPI
import Heddle.MPI.Fast
import Samples
import System.Environment (getArgs)
import System.IO (hFlush, stdout)
import System.Mem (performMinorGC)
import Text.Printf (printf)

main :: IO ()
main =
  getArgs >>= \case
    (numbers -> Just [collections, times]) -> mpi $ do
      rank <- commRank commWorld
      if rank == 0 then collecting collections times else answering
    _ -> usage "COLLECTIONS TIMES"

-- What rank 1 is asked: to answer, or to end.
hold, end :: Int
hold = 1
end = 2

collecting :: Int -> Int -> IO ()
collecting collections times = do
  _ <- pauses 200
  forM_ [1 .. times] $ \_ -> do
    pauses collections >>= tell "none"
    -- The answer to this comes when it is asked for.
    waiter <- forked (void (recvValue commWorld 1 7 :: IO (Int, Status)))
    pauses collections >>= tell "waiting"
    ask hold 7
    waiter
    going <- newIORef True
    let talk = do
          ask hold 8
          _ <- recvValue commWorld 1 8 :: IO (Int, Status)
          more <- readIORef going
          when more talk
    talker <- forked talk
    pauses collections >>= tell "talking"
    writeIORef going False
    talker
  ask end 0
  where
    ask what tag = sendValue commWorld 1 (toTag what) (tag :: Int)

-- | Answers each question with the tag that it asks for.
answering :: IO ()
answering = do
  (tag, status) <- recvValue commWorld 0 anyTag
  unless (statusTag status == toTag end) $ do
    sendValue commWorld 0 (toTag (tag :: Int)) tag
    answering

-- | Start a thread; to wait for its end.
forked :: IO () -> IO (IO ())
forked body = do
  ended <- newEmptyMVar
  _ <- forkIO (body >> putMVar ended ())
  pure (takeMVar ended)

-- | How long so many small collections took, in microseconds.
pauses :: Int -> IO [Double]
pauses collections = forM [1 .. collections] $ \i -> do
  _ <- evaluate (sum (map fromIntegral [i .. i + 1000] :: [Integer]))
  from <- getMonotonicTimeNSec
  performMinorGC
  to <- getMonotonicTimeNSec
  pure $! fromIntegral (to - from) / 1000

tell :: String -> [Double] -> IO ()
tell name times = do
  let sorted = sort times
      at share = sorted !! min (length sorted - 1) (floor (share * fromIntegral (length sorted) :: Double))
  printf "pause %s %.1f %.1f %.1f\n" name (at 0.5) (at 0.99) (last sorted)
  hFlush stdout
