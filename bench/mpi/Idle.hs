{-# LANGUAGE ViewPatterns #-}

-- | What a process takes of a core while many of its threads wait for messages that nobody sends yet.
--
-- Prints @idle SHARE@ for each second: CPU time of rank 0 divided by wall time, while its threads wait,
-- each for another tag. Rank 1 waits for a message meanwhile, and then sends them all.
module Main
  ( main,
  )
where

import Control.Concurrent (forkIO, threadDelay)
import Control.Concurrent.STM
import Control.Monad (forM_, replicateM_, unless, when)
import Data.Word (Word8)
import Heddle.MPI
import Heddle.MPI.Fast
import Samples
import System.Environment (getArgs)
import System.Exit (die)
import System.IO (hFlush, stdout)
import Text.Printf (printf)

main :: IO ()
main =
  getArgs >>= \case
    (numbers -> Just [threads, times]) -> mpi $ do
      rank <- commRank commWorld
      if rank == 0 then waiting threads times else sending threads
    _ -> usage "THREADS SECONDS"

waiting :: Int -> Int -> IO ()
waiting threads times = do
  begun <- newTVarIO 0
  received <- newTVarIO 0
  forM_ [1 .. threads] $ \tag -> forkIO $ do
    atomically (modifyTVar' begun (+ 1))
    (n, _) <- recvValue commWorld 1 (toTag tag)
    when (n == tag) (atomically (modifyTVar' received (+ 1)))
  atomically (readTVar begun >>= check . (== threads))
  -- The last ones still look for their messages before they park.
  threadDelay 1000000
  replicateM_ times $ do
    Mark wall cpu <- mark
    threadDelay 1000000
    Mark wall' cpu' <- mark
    printf "idle %.5f\n" (fromIntegral (cpu' - cpu) / 1000 / fromIntegral (wall' - wall) :: Double)
    hFlush stdout
  sendValue commWorld 1 0 (1 :: Word8)
  -- All of them arrive.
  atomically (readTVar received >>= check . (== threads))

sending :: Int -> IO ()
sending threads = do
  (go, _) <- recvValue commWorld 0 0
  unless (go == (1 :: Word8)) (die "another message")
  forM_ [1 .. threads] (\tag -> sendValue commWorld 0 (toTag tag) tag)
