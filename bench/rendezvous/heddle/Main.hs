{-# LANGUAGE ViewPatterns #-}

-- | Rendezvous with Heddle.Rendezvous.
--
-- @N ROUNDS@: one writer and N - 1 readers meet so many times on one channel.
--
-- @pipeline STAGES STEPS ITEMS@: so many stages between a source and a sink, each with so many steps of
-- pure work for each item. @alone STAGES STEPS ITEMS@ does that work without channels, one item after the
-- other; @alone 1 STEPS ITEMS@ says how long STEPS take.
--
-- @memory N@: how many bytes are alive while N readers wait. @own N@: the same without readers, branches and channel, with what is N readers' own: to go
-- on with a value, a place for the result, to read that, and to make one list of all.
--
-- @channels N@: the live bytes of N channels. @grants N ROUNDS@: ROUNDS times, grant each of N channels to a writer and a
-- reader, one channel after the other.
--
-- The clocks are read inside, after some rendezvous (or items) that nobody counts, so starting and ending
-- are not measured.
module Main
  ( main,
  )
where

import Clock (Mark, mark, numbers, report, usage)
import Control.Monad (replicateM, replicateM_, unless)
import Data.Word (Word64)
import GHC.Stats (GCDetails (..), RTSStats (..), getRTSStats)
import Heddle.Prim.Atomic (newRef, newTable, readEntry, readRef, writeEntry, writeRef)
import Heddle.Prim.Exception (evaluate)
import Heddle.Prim.Thread (yield)
import Heddle.Rendezvous
import System.Environment (getArgs)
import System.Exit (die)
import System.Mem (performMajorGC)

main :: IO ()
main =
  getArgs >>= \case
    "pipeline" : (numbers [1, 0, 1] -> Just [stages, steps, items]) -> pipeline stages steps items
    "alone" : (numbers [1, 0, 1] -> Just [stages, steps, items]) -> alone stages steps items
    "memory" : (numbers [1] -> Just [n]) -> memory n
    "own" : (numbers [1] -> Just [n]) -> own n
    "channels" : (numbers [1] -> Just [n]) -> channels n
    "grants" : (numbers [1, 1] -> Just [n, rounds]) -> grants n rounds
    (numbers [2, 1] -> Just [n, rounds]) -> rendezvous n rounds
    _ -> usage "N ROUNDS | pipeline|alone STAGES STEPS ITEMS | memory|own|channels N | grants N ROUNDS"

rendezvous :: Int -> Int -> IO ()
rendezvous n rounds = do
  ((begun, ended), sums) <- runDetIO $ \world -> do
    c <- newChan "c"
    par $
      (,) <$> branch (out c, world) (writer warm rounds)
        <*> traverse (\_ -> branch (inp c) (receive (warm + rounds))) [2 .. n]
  let answer = sum sums
  unless (answer == (n - 1) * (total warm + total rounds)) (die ("wrong: " <> show answer))
  report rounds begun ended answer
  where
    warm = some rounds
    total k = k * (k + 1) `div` 2

-- | How many go before those that count.
some :: Int -> Int
some rounds = 1 + rounds `div` 10

writer :: Int -> Int -> (Out s Int, World s) -> Det s (Mark, Mark)
writer warm rounds (o, w) = do
  sendDown o warm
  begun <- ioLazy w mark
  sendDown o rounds
  ended <- ioLazy w mark
  pure (begun, ended)

-- | Send the numbers down to 1.
sendDown :: Out s Int -> Int -> Det s ()
sendDown o = go
  where
    go 0 = pure ()
    go k = send o k >> go (k - 1)

-- | The sum of so many values.
receive :: Int -> In s Int -> Det s Int
receive count i = go count 0
  where
    go 0 !found = pure found
    go k !found = recv i >>= go (k - 1 :: Int) . (found +)

pipeline :: Int -> Int -> Int -> IO ()
pipeline stages steps items = do
  (begun, ended, answer) <- runDetIO $ \world -> do
    chans <- mapM (newChan . ("c" <>) . show) [0 .. stages]
    par $
      branch (out (head chans)) (\o -> sendDown o (warm + items))
        *> traverse (\(c, d) -> branch (inp c, out d) (stage steps (warm + items))) (zip chans (tail chans))
        *> branch (inp (last chans), world) (sink warm items)
  report items begun ended answer
  where
    warm = some items

stage :: Int -> Int -> (In s Int, Out s Int) -> Det s ()
stage steps count (i, o) = go count
  where
    go 0 = pure ()
    go k = do
      item <- recv i
      send o (work steps item)
      go (k - 1 :: Int)

sink :: Int -> Int -> (In s Int, World s) -> Det s (Mark, Mark, Int)
sink warm items (i, w) = do
  before <- receive warm i
  begun <- ioLazy w mark
  measured <- receive items i
  ended <- ioLazy w mark
  pure (begun, ended, before + measured)

alone :: Int -> Int -> Int -> IO ()
alone stages steps items = do
  before <- evaluate (through (warm + items) items)
  begun <- mark
  measured <- evaluate (through items 0)
  ended <- mark
  report items begun ended (before + measured)
  where
    warm = some items
    -- The items from the first down to the one above the last.
    through first end = go first 0
      where
        go k !found
          | k == end = found
          | otherwise = go (k - 1) (found + each stages k)
    each :: Int -> Int -> Int
    each 0 !item = item
    each k !item = each (k - 1) (work steps item)

memory :: Int -> IO ()
memory n = do
  (live, received) <- runDetIO $ \world -> do
    c <- newChan "c"
    par $
      flip (,) <$> traverse (\_ -> branch (inp c) recv) [1 .. n]
        <*> branch (out c, world) (\(o, w) -> io w alive <* send o 1)
  unless (sum received == n) (die "wrong")
  putStrLn ("bytes " <> show live)

own :: Int -> IO ()
own n = do
  goOn <- newTable n (\_ -> pure ())
  let cells i
        | i == n = pure (pure [])
        | otherwise = do
          cell <- newRef Nothing
          writeEntry goOn i (writeRef cell . Just)
          let !result = readRef cell >>= maybe (die "nothing received") pure
          !others <- cells (i + 1)
          pure $! result >>= \x -> (x :) <$> others
  results <- cells 0
  live <- alive
  mapM_ (\i -> readEntry goOn i >>= \k -> k 1) [0 .. n - 1]
  received <- results
  unless (sum received == n) (die "wrong")
  -- Without the table.
  putStrLn ("bytes " <> show (live - 8 * fromIntegral n))

channels :: Int -> IO ()
channels n = do
  (live, named) <- runDetIO $ \world -> do
    chans <- replicateM n (newChan "c")
    (,) <$> io world alive <*> grantEach chans
  unless (named == n) (die "wrong")
  putStrLn ("bytes " <> show live)

grants :: Int -> Int -> IO ()
grants n rounds = do
  (begun, ended, answer) <- runDetIO $ \world -> do
    chans <- replicateM n (newChan "c")
    before <- grantEach chans
    begun <- ioLazy world mark
    granted <- sum <$> replicateM rounds (grantEach chans)
    ended <- ioLazy world mark
    pure (begun, ended, before + granted)
  unless (answer == n * (rounds + 1)) (die ("wrong: " <> show answer))
  report (n * rounds) begun ended answer

-- | A par for each channel, whose reader gets 1; the sum.
grantEach :: [Chan s Int] -> Det s Int
grantEach = go 0
  where
    go !found [] = pure found
    go found (c : cs) = par (branch (out c) (`send` 1) *> branch (inp c) recv) >>= \one -> go (found + one) cs

-- | When it has stopped to fall: the writer may have been taken by another worker, and be there before
-- all readers are.
alive :: IO Word64
alive = look >>= again (3 :: Int)
  where
    again 0 least = pure least
    again left least = do
      replicateM_ 100 yield
      now <- look
      if now + 4096 < least then again 3 now else again (left - 1) (min least now)
    look = performMajorGC >> gcdetails_live_bytes . gc <$> getRTSStats

-- | Pure work on an item: nothing is allocated, and each step waits for the one before.
work :: Int -> Int -> Int
work 0 !x = x
work steps !x = work (steps - 1) (x * 6364136223846793005 + 1442695040888963407)
