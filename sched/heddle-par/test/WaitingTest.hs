-- | Many tasks that wait: what each costs, and how many there are at once.
module WaitingTest (tests) where

import Control.Monad (replicateM, replicateM_)
import Heddle.Par.IO
import Heddle.Prim.Atomic (newRef, readRef, writeRef)
import Heddle.Prim.Exception (evaluate)
import Heddle.Testkit.Heap (liveBytes)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, assertFailure, testCase)
import Trees (onCapabilities)

tests :: TestTree
tests =
  testGroup
    "waiting"
    [ testCase "aTaskThatWaitsWasThreeObjects" . onCapabilities 1 $ waiterBytes,
      testCase "aWorkerMadeAllLinksOfAChainWhileTheFirstRan" . onCapabilities 2 $ aheadInChain
    ]

-- | What a task takes that waits for a cell with many others. The live bytes are of the process, so the least of
-- several runs is taken.
waiterBytes :: IO ()
waiterBytes = do
  let waiting n = runParIO $ do
        v <- new
        replicateM_ n (fork (get v))
        bytes <- liftIO liveBytes
        bytes <$ put v ()
      least n = minimum <$> replicateM 5 (waiting n)
  few <- least 1000
  many <- least 71000
  let each = (many - few) `quot` 70000 :: Int
  assertBool (show each ++ " bytes for each task") (each <= 80)

-- | Each link waits for the one before it, and takes longer than making one. A worker that makes them while another
-- runs them must not make all of them. Where that other is stopped for long it may, so the least of several runs
-- counts.
aheadInChain :: IO ()
aheadInChain = go (6 :: Int)
  where
    links = 120000 :: Int
    go runs = do
      ended <- newRef 0
      most <- newRef 0
      let chain i link
            | i > links = get link
            | otherwise = do
              next <- spawn (get link >>= \() -> liftIO (evaluate (sum [1 .. 300 :: Int]) >> writeRef ended i))
              liftIO $ do
                ahead <- (i -) <$> readRef ended
                before <- readRef most
                writeRef most $! max ahead before
              chain (i + 1) next
      runParIO (newFull () >>= chain 1)
      ahead <- readRef most
      if ahead <= links `quot` 2
        then pure ()
        else
          if runs > 1
            then go (runs - 1)
            else assertFailure (show ahead ++ " of " ++ show links ++ " tasks waited at once")
