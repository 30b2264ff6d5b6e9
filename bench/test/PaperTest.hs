{-# LANGUAGE RankNTypes #-}
{-# LANGUAGE RecordWildCards #-}

-- | The paper's library does what the paper says, on mailboxes and on transactions.
module PaperTest
  ( tests,
  )
where

import Control.Concurrent (newEmptyMVar, putMVar, takeMVar, tryPutMVar, tryTakeMVar, yield)
import Control.Monad (replicateM, replicateM_)
import Data.Foldable (for_)
import Paper.MVar qualified as M
import Paper.STM qualified as S
import System.Timeout (timeout)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (Assertion, assertFailure, testCase, (@?=))

-- | What both versions export.
data Library chan = Library
  { newChannel :: forall a. IO (chan a),
    dPar :: forall a b c. ([chan a] -> IO b) -> [chan a] -> ([chan a] -> IO c) -> [chan a] -> IO (b, c),
    dSend :: forall a. chan a -> a -> IO (),
    dRecv :: forall a. chan a -> IO a,
    connectionCount :: forall a. chan a -> IO Int
  }

tests :: TestTree
tests =
  testGroup
    "the paper's libraries"
    [ testGroup "MVar" $
        testCase "a send that nobody shares returns" (within (loneSend mailboxes)) : figures mailboxes,
      testGroup "STM" (figures transactions)
    ]
  where
    mailboxes = Library M.newChannel M.dPar M.dSend M.dRecv M.connectionCount
    transactions = Library S.newChannel S.dPar S.dSend S.dRecv S.connectionCount

figures :: Library chan -> [TestTree]
figures library =
  [ testCase "Figure 4: producer and consumer" (within (producerConsumer library)),
    testCase "Figure 5: a pipeline of two stages" (within (pipeline library)),
    testCase "Figure 10: connections go 1, 2, 3, 2, 1" (within (nestedCounts library)),
    testCase "Figure 10: a writer meets two readers, then their parent" (within (nestedReaders library)),
    testCase "Figure 11: one writer, two readers" (within (twoReaders library)),
    testCase "Figure 11: nobody goes on before all have come" (within (allTogether library)),
    testCase "only shared channels count" (within (unshared library)),
    testCase "twenty readers, three hundred values" (within (many library))
  ]

-- | A hanging test fails. No test is near this long.
within :: Assertion -> Assertion
within test = timeout 60000000 test >>= maybe (assertFailure "it did not end within a minute") pure

-- | The data ends with -1, as in the figure.
producerConsumer :: Library chan -> Assertion
producerConsumer Library {..} = do
  c <- newChannel
  ((), consumed) <- dPar (produce [1 .. 500]) [c] consume [c]
  consumed @?= [1 .. 500 :: Int]
  where
    produce values cs = for_ (values <> [-1]) (dSend (only cs))
    consume cs = do
      val <- dRecv (only cs)
      if val == -1 then pure [] else (val :) <$> consume cs

-- | That of the figure, but each part ends with the data.
pipeline :: Library chan -> Assertion
pipeline Library {..} = do
  c1 <- newChannel
  c2 <- newChannel
  c3 <- newChannel
  let forkFunc1 _ = dPar inputToPipeline [c1] pipelineStage1 [c1, c2]
      forkFunc2 _ = dPar pipelineStage2 [c2, c3] outputFromPipeline [c3]
  (((), ()), ((), printed)) <- dPar forkFunc1 [c1, c2] forkFunc2 [c2, c3]
  printed @?= map ((* 3) . (+ 1)) [1 .. items]
  mapM connectionCount [c1, c2, c3] >>= (@?= [1, 1, 1])
  where
    items = 300 :: Int
    inputToPipeline cs = for_ [1 .. items] (dSend (only cs))
    pipelineStage1 = stage (+ 1)
    pipelineStage2 = stage (* 3)
    stage process cs = replicateM_ items (dRecv (fst (both cs)) >>= dSend (snd (both cs)) . process)
    outputFromPipeline cs = replicateM items (dRecv (only cs))

-- | F0 is the test; F1 only waits for the end of F2, so nobody changes the count but who is looking.
nestedCounts :: Library chan -> Assertion
nestedCounts Library {..} = do
  c <- newChannel
  before <- connectionCount c
  ended <- newEmptyMVar
  let f1 _ = takeMVar ended
      f2 cs = do
        alone <- connectionCount c
        nested <- dPar f3 cs f4 cs
        again <- connectionCount c
        putMVar ended ()
        pure (alone, nested, again)
      f3 _ = connectionCount c
      f4 _ = connectionCount c
  ((), counts) <- dPar f1 [c] f2 [c]
  after <- connectionCount c
  (before, counts, after) @?= (1, (2, (3, 3), 2), 1)
  -- It is a channel of something.
  ((), value) <- dPar (\_ -> dSend c 'x') [c] (\_ -> dRecv c) [c]
  value @?= 'x'

nestedReaders :: Library chan -> Assertion
nestedReaders Library {..} = do
  c <- newChannel
  ((), got) <- dPar (\_ -> for_ [1 .. 6 :: Int] (dSend c)) [c] reader [c]
  got @?= ([1, 2], ([3, 4], [3, 4]), [5, 6])
  where
    reader cs = (,,) <$> two cs <*> dPar two cs two cs <*> two cs
    two = replicateM 2 . dRecv . only

twoReaders :: Library chan -> Assertion
twoReaders Library {..} = do
  c <- newChannel
  let reader _ = replicateM 100 (dRecv c)
  (first, (second, ())) <- dPar reader [c] (\cs -> dPar reader cs (\_ -> for_ [1 .. 100 :: Int] (dSend c)) cs) [c]
  (first, second) @?= ([1 .. 100], [1 .. 100])

-- | T1 and T3 come at once. T2 lets them run, looks whether either has gone on, and only then comes. It may
-- look too early to see what is wrong, but never sees wrong what is right.
allTogether :: Library chan -> Assertion
allTogether Library {..} = for_ [1 .. 200 :: Int] $ \value -> do
  c <- newChannel
  wentOn <- newEmptyMVar
  let t1 _ = dRecv c <* tryPutMVar wentOn ()
      t3 _ = dSend c value <* tryPutMVar wentOn ()
      t2 _ = do
        replicateM_ 20 yield
        early <- tryTakeMVar wentOn
        (,) early <$> dRecv c
  (got, ((early, too), ())) <- dPar t1 [c] (\cs -> dPar t2 cs t3 cs) [c]
  (got, early, too) @?= (value, Nothing, value)

-- | Each part of a pipeline is a member of its own channels only.
unshared :: Library chan -> Assertion
unshared Library {..} = do
  c <- newChannel
  d <- newChannel
  let counts = (,) <$> connectionCount c <*> connectionCount d
  (inFirst, inSecond) <- dPar (const counts) [c] (const counts) [c, d]
  ((), value) <- dPar (\_ -> dSend c 'y') [d, c] (\_ -> dRecv c) [c]
  (inFirst, inSecond, value) @?= ((2, 1), (2, 1), 'y')

many :: Library chan -> Assertion
many Library {..} = do
  c <- newChannel
  let reader _ = replicateM 300 (dRecv c)
      readers :: Int -> IO [[Int]]
      readers 1 = pure <$> reader [c]
      readers k = uncurry (:) <$> dPar reader [c] (\_ -> readers (k - 1)) [c]
  ((), got) <- dPar (\_ -> for_ [1 .. 300] (dSend c)) [c] (\_ -> readers 20) [c]
  got @?= replicate 20 [1 .. 300]
  connectionCount c >>= (@?= 1)

loneSend :: Library chan -> Assertion
loneSend Library {..} = do
  c <- newChannel
  dSend c 'z'
  connectionCount c >>= (@?= 1)

only :: [chan a] -> chan a
only = \case
  [c] -> c
  cs -> error ("one channel was expected, not " <> show (length cs))

both :: [chan a] -> (chan a, chan a)
both = \case
  [c, d] -> (c, d)
  cs -> error ("two channels were expected, not " <> show (length cs))
