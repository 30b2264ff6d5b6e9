{-# LANGUAGE RankNTypes #-}
{-# OPTIONS_GHC -fno-cse -fno-full-laziness #-}

-- | What grows with the number of branches grows in proportion to it: the bytes allocated
-- for n branches and for four times as many are compared, which no clock disturbs.
module CostTest (tests) where

import Control.Concurrent (forkIO, newEmptyMVar, putMVar, takeMVar)
import Control.Monad (forM, replicateM, replicateM_, void)
import Data.Foldable (sequenceA_)
import GHC.Stats (RTSStats (..), getRTSStats, getRTSStatsEnabled)
import Heddle.Prim.Atomic (newRef, readRef, writeRef)
import Heddle.Prim.Exception (Exception (..), evaluate, try)
import Heddle.Rendezvous
import System.Mem (performGC, performMajorGC, performMinorGC)
import System.Timeout (timeout)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (Assertion, assertBool, assertFailure, testCase)

tests :: TestTree
tests =
  testGroup
    "costs in proportion to the number of branches"
    [ testCase "a deadlock report in which each waits for half of all" (proportional 7 500 (reported halves)),
      -- Their paths alone are as long as the square of the number.
      testCase "a deadlock report of parents inside parents" (proportional 20 40 (reported nestedParents)),
      testCase "a deadlock report of a ring" (proportional 7 500 (reported ring)),
      testCase "readers that split" (proportional 7 1000 splitting),
      testGroup
        "everyCollectionVisitsEveryChannel"
        [ testCase "a writer and a reader of each" (visited (grantedTo 1)),
          testCase "a writer and three readers" (visited (grantedTo 3)),
          testCase "granted to none" (visited ungranted),
          testCase "in a par of its own" (visited parsInside)
        ]
    ]

-- | At most so many times as much for four times as many branches. In proportion, that is 4,
-- and a little more for sorting; quadratic growth gives 16, cubic growth 64.
proportional :: Integer -> Int -> (Int -> IO ()) -> Assertion
proportional most n body = do
  enabled <- getRTSStatsEnabled
  assertBool "run with +RTS -T" enabled
  small <- allocatedBy (body n)
  -- Threads of the runtime allocate as well, so the least of three counts. Each run builds its own program: one that
  -- was shared would cost nothing the second time (and fail).
  large <- minimum <$> forM [1 .. 3 :: Int] (\_ -> allocatedBy (body (4 * n)))
  assertBool
    (show (4 * n) ++ " branches allocate " ++ show large ++ " bytes, " ++ show n ++ " allocate " ++ show small)
    (small < large && large < most * small)

-- | A minor collection does not visit channels and branches that wait: what it copies, with which the runtime counts 8 bytes
-- for each old object that it visits, does not grow with their number. The program is given that number, and what looks.
visited :: (forall s. Int -> (forall t. World t -> Det t ()) -> World s -> Det s ()) -> Assertion
visited program = do
  enabled <- getRTSStatsEnabled
  assertBool "run with +RTS -T" enabled
  seen <- newRef 0
  runDetIO (program channels (\world -> io world (look seen)))
  bytes <- readRef seen
  assertBool (show channels ++ " channels that wait: " ++ show bytes ++ " bytes for a minor collection") (0 < bytes && bytes < 4 * fromIntegral channels)
  where
    channels = 4000
    -- What was young is old after the first collections. Other branches may still be on their way to the channels they
    -- wait at, so the least of many counts.
    look seen = do
      replicateM_ 3 performMajorGC
      each <- replicateM 50 $ do
        before <- copied_bytes <$> getRTSStats
        performMinorGC
        after <- copied_bytes <$> getRTSStats
        pure (after - before)
      writeRef seen (minimum each)

-- | One branch has all writers' ends and the world; the others wait for a second value.
grantedTo :: Int -> Int -> (forall t. World t -> Det t ()) -> World s -> Det s ()
grantedTo readers n look w = do
  cs <- mapM (newChan . show) [1 .. n]
  par $
    sequenceA_ [branch (inp c) (replicateM_ 2 . recv) | c <- cs, _ <- [1 .. readers]]
      *> branch (w, map out cs) (\(w', os) -> mapM_ (`send` 'x') os >> look w' >> mapM_ (`send` 'y') os)

ungranted :: Int -> (forall t. World t -> Det t ()) -> World s -> Det s ()
ungranted n look w = do
  cs <- mapM (newChan . show) [1 .. n]
  par (branch w look)
  par (branch (map out cs) (mapM_ (`send` 'x')))

parsInside :: Int -> (forall t. World t -> Det t ()) -> World s -> Det s ()
parsInside n look w = do
  go <- newChan "go"
  par (sequenceA_ [branch (inp go) inside | _ <- [1 .. n]] *> branch (out go, w) (\(o, w') -> send o 'x' >> look w' >> send o 'y'))
  where
    inside :: In t Char -> Det t ()
    inside i = do
      c <- newChan "c"
      par (branch (out c) (`send` 'x') *> branch (inp c, i) (\(x, i') -> recv x >> replicateM_ 2 (recv i')))

-- | By all threads, within a time that is a hundred times as long as needed.
allocatedBy :: IO () -> IO Integer
allocatedBy body = do
  before <- sofar
  done <- newEmptyMVar
  _ <- forkIO (try body >>= putMVar done)
  timeout 60000000 (takeMVar done) >>= \case
    Just (Right ()) -> pure ()
    Just (Left e) -> assertFailure (displayException (e :: IOError))
    Nothing -> assertFailure "does not end"
  after <- sofar
  pure (after - before)
  where
    sofar = performGC >> toInteger . allocated_bytes <$> getRTSStats

-- | All of the report, and its text.
reported :: (forall s. Int -> Det s ()) -> Int -> IO ()
reported program n =
  try (evaluate (runDet (program n))) >>= \case
    Right () -> assertFailure "no deadlock"
    Left d -> do
      -- The lists of missing members are shared, so only one of each is forced.
      void . evaluate $ length (concatMap waitThread (deadlockWaits d))
      void . evaluate $ length (concatMap (concat . take 1 . waitMissing) (deadlockWaits d))
      void . evaluate $ length (concat (deadlockCycle d))
      void . evaluate $ length (displayException d)

-- | Every branch has an end of both channels; half of them wait at each.
halves :: Int -> Det s ()
halves n = do
  c <- newChan "c"
  d <- newChan "d"
  let half k = (n `div` 2) <= k
  par . sequenceA_ $ [branch (inp c, inp d) (\(i, j) -> if half k then recv i else recv j) | k <- [1 .. n]]

-- | Each has the next inside, beside a branch that waits.
nestedParents :: Int -> Det s ()
nestedParents n = newChan "c" >>= \c -> par (branch (inp c) (go n))
  where
    go :: Int -> In s () -> Det s ()
    go k i = if k == 0 then recv i else par (branch i (go (k - 1)) *> branch i recv)

ring :: Int -> Det s ()
ring n = do
  cs <- mapM (newChan . show) [1 .. n]
  par (sequenceA_ [branch (inp a, out b) (\(i, o) -> recv i >>= \() -> send o ()) | (a, b) <- zip cs (drop 1 (cycle cs))])

-- | Every reader lets two branches of its own read, and then reads itself.
splitting :: Int -> IO ()
splitting n = evaluate (runDet program)
  where
    program :: Det s ()
    program = do
      c <- newChan "c"
      par $
        branch (out c) (\o -> replicateM_ 2 (send o 'x'))
          *> sequenceA_ [branch (inp c) (\i -> par (branch i recv *> branch i recv) >> void (recv i)) | _ <- [1 .. n]]
