-- | What deadlines, time-outs and tasks cost, by the process's CPU time.
--
-- Prints a line per figure, then @RESULT@ lines: a name, and a number or all samples of a ratio. Each sample is of one
-- round, in which both sides ran one after the other.
module Main
  ( main,
  )
where

import Control.Concurrent (forkIO, newEmptyMVar, putMVar, runInUnboundThread, takeMVar)
import Control.Monad (forM, forM_, replicateM, replicateM_, void)
import Data.List (sort)
import Data.Primitive.SmallArray (SmallArray, indexSmallArray, smallArrayFromList)
import Heddle.Scope (await, fork, withScope)
import Heddle.Timer (Timer, closeTimer, deadlineIn, newTimerUntil, rearmUntil, seconds, timeout)
import System.CPUTime (getCPUTime)
import System.Timeout qualified as Base
import Text.Printf (printf)

main :: IO ()
main = runInUnboundThread $ do
  first <- deadlineIn (seconds 600)
  timers <- smallArrayFromList <$> replicateM armed (newTimerUntil first)
  -- Each round moves every timer later, as a connection does with its idle deadline.
  cold <- medianOf $
    perOperation armed $ do
      later <- deadlineIn (seconds 600)
      overAll armed timers (void . (`rearmUntil` later))
  -- A server's busy connections are few of its many: their deadlines are in the cache.
  rearm <- medianOf $
    perOperation armed $ do
      later <- deadlineIn (seconds 600)
      replicateM_ (armed `quot` busy) (overAll busy timers (void . (`rearmUntil` later)))
  insertCancel <- medianOf $
    perOperation 100000 $ do
      deadline <- deadlineIn (seconds 300)
      replicateM_ 100000 (newTimerUntil deadline >>= closeTimer)
  forM_ [0 .. armed - 1] (closeTimer . indexSmallArray timers)
  limits <- pairs (replicateM_ 100000 (timeout (seconds 60) (pure ()))) (replicateM_ 100000 (Base.timeout 60000000 (pure ())))
  tasks <-
    pairs
      (withScope (\scope -> replicateM_ 100000 (fork scope (pure ()) >>= await)))
      (replicateM_ 100000 (newEmptyMVar >>= \done -> forkIO (putMVar done ()) >> takeMVar done))
  printf "re-arm each of %d armed deadlines in turn     %8.1f ns\n" armed cold
  printf "re-arm %d busy ones among as many armed          %8.1f ns\n" busy rearm
  printf "insert and cancel, as many armed                 %8.1f ns\n" insertCancel
  ratio "time-out       heddle / base" limits
  ratio "fork and await heddle / forkIO and MVar" tasks
  printf "RESULT timer-rearm-ns %.1f\n" rearm
  printf "RESULT timer-rearm-cold-ns %.1f\n" cold
  printf "RESULT timer-insert-cancel-ns %.1f\n" insertCancel
  report "timeout/base" limits
  report "fork-await/forkIO-MVar" tasks
  where
    ratio name samples =
      printf
        "%-40s %8.1f ns %8.1f ns   ratio %.3f [%.3f, %.3f]\n"
        (name :: String)
        (median (map fst samples))
        (median (map snd samples))
        (median rates)
        (minimum rates)
        (maximum rates)
      where
        rates = [a / b | (a, b) <- samples]
    report name samples = putStrLn (unwords ("RESULT" : name : [printf "%.3f" (a / b) | (a, b) <- samples]))
    pairs ours theirs = forM [1 .. rounds] $ \_ -> (,) <$> perOperation 100000 ours <*> perOperation 100000 theirs

armed :: Int
armed = 1000000

busy :: Int
busy = 1000

rounds :: Int
rounds = 7

overAll :: Int -> SmallArray Timer -> (Timer -> IO ()) -> IO ()
overAll count timers act = go 0
  where
    go :: Int -> IO ()
    go i
      | i == count = pure ()
      | otherwise = act (indexSmallArray timers i) >> go (i + 1)

-- | Nanoseconds of CPU per operation.
perOperation :: Int -> IO () -> IO Double
perOperation count act = do
  before <- getCPUTime
  act
  now <- getCPUTime
  pure (fromIntegral (now - before) / 1000 / fromIntegral count)

medianOf :: IO Double -> IO Double
medianOf measure = median <$> replicateM rounds measure

median :: [Double] -> Double
median samples = sort samples !! (length samples `quot` 2)
