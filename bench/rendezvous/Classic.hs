-- | @N ROUNDS@: one writer and N - 1 readers meet so many times on one channel of the paper's library.
--
-- The same source for both of its versions: "Channels" says which. As in the paper, N threads are made by
-- nesting 'dPar'. The writer reads the clocks, after some rendezvous that nobody counts, so starting and
-- ending the threads are not measured.
module Main
  ( main,
  )
where

import Channels (Channel, dPar, dRecv, dSend, newChannel)
import Clock (mark, numbers, report, usage)
import Control.Concurrent (runInUnboundThread)
import Control.Monad (unless)
import System.Environment (getArgs)
import System.Exit (die)

main :: IO ()
main = do
  arguments <- getArgs
  case numbers [2, 1] arguments of
    -- The main thread has an operating system's thread to itself, and each wait of it would be one there.
    Just [n, rounds] -> runInUnboundThread (rendezvous n rounds)
    _ -> usage "N ROUNDS"

rendezvous :: Int -> Int -> IO ()
rendezvous n rounds = do
  c <- newChannel
  ((begun, ended), sums) <- dPar writer [c] (readers (n - 1)) [c]
  let answer = sum (sums :: [Int])
  unless (answer == (n - 1) * (total warm + total rounds)) (die ("wrong: " <> show answer))
  report rounds begun ended answer
  where
    warm = 1 + rounds `div` 10
    total k = k * (k + 1) `div` 2

    writer = on $ \c -> do
      send c warm
      begun <- mark
      send c rounds
      ended <- mark
      pure (begun, ended)

    readers 1 cs = (: []) <$> reader cs
    readers k cs = uncurry (:) <$> dPar reader cs (readers (k - 1)) cs

    reader = on $ \c -> receive c (warm + rounds) 0

-- | Send the numbers down to 1.
send :: Channel Int -> Int -> IO ()
send c = go
  where
    go 0 = pure ()
    go k = dSend c k >> go (k - 1)

receive :: Channel Int -> Int -> Int -> IO Int
receive c = go
  where
    go 0 !found = pure found
    go k !found = dRecv c >>= go (k - 1) . (found +)

on :: (Channel Int -> IO a) -> [Channel Int] -> IO a
on function = \case
  [c] -> function c
  _ -> die "one channel was expected"
