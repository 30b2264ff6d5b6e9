-- | The reader and the model: made logs, damaged logs, and one of this runtime.
module ReaderTest (tests) where

import Control.Monad (forM_)
import Data.Bits (shiftL, xor)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Heddle.Prim.Exception (try)
import Heddle.Trace.Log
import Heddle.Trace.Model
import Heddle.Trace.Summary (summary)
import Logs
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, assertFailure, testCase, (@?=))
import Workload (withWorkload)

tests :: TestTree
tests =
  testGroup
    "reader"
    [ testCase "two cores are merged by time, though their blocks come in another order" $ do
        (t, notes) <- reading small
        notes @?= 0
        traceEvents t @?= 15
        map coreNumber (traceCores t) @?= [0, 1]
        map coreRunning (traceCores t) @?= [500, 200]
        map coreCollecting (traceCores t) @?= [100, 0]
        map threadNumber (traceThreads t) @?= [7, 8]
        map threadRunning (traceThreads t) @?= [500, 200]
        map threadLabel (traceThreads t) @?= [C.pack "seven", B.empty],
      testCase "a wake-up on another core counts from the waker's event to the run" $ do
        (t, _) <- reading small
        -- Thread 8 was woken by core 0 at 450, and ran on core 1 from 600.
        [threadReadyMax th | th <- traceThreads t, threadNumber th == 8] @?= [150]
        [threadWaiting th | th <- traceThreads t, threadNumber th == 8] @?= [150],
      testCase "an idle core while another thread is ready: work waited" $ do
        (t, _) <- reading small
        [coreIdleReady c | c <- traceCores t, coreNumber c == 1] @?= [150 + 50],
      testCase "what a thread was blocked on is counted" $ do
        (t, _) <- reading small
        [(reasonName (blockedReason b), blockedCount b, blockedTime b) | b <- traceBlocked t] @?= [("MVar", 1, 150)],
      testCase "collections belong to the generation that their statistics name" $ do
        (t, _) <- reading small
        traceCollections t @?= [Collections 1 1 100 100 64],
      testCase "an unknown event is skipped by its declared size" $ do
        (t, notes) <- reading (encodeLog plain [Block 0 0 9 [event 200 1 [(3, 5)], event 1 2 [(4, 7)]]])
        (traceEvents t, notes) @?= (2, 0),
      testCase "an undeclared event skips its block, and the next block is read" $ do
        (t, notes) <- reading (encodeLog plain [Block 0 0 9 [event 77 1 [(3, 5)], event 1 2 [(4, 7)]], Block 0 10 19 [event 1 12 [(4, 8)]]])
        (map threadNumber (traceThreads t), notes) @?= ([8], 1),
      testCase "the mark of the log's end inside a block, as GHC 9.2 and later write it, is no damage" $ do
        (t, notes) <- reading (encodeLog plain [Block 0 0 9 [event 1 2 [(4, 7)]], Block 0xffff 10 10 [B.pack [0xff, 0xff]]])
        (map threadNumber (traceThreads t), notes) @?= ([7], 0)
        (_, other) <- reading (encodeLog plain [Block 0 0 9 [event 1 2 [(4, 7)], B.pack [0, 1]]])
        other @?= 1,
      testCase "bytes between blocks are skipped up to the next block" $ do
        let whole = encodeLog plain [Block 0 0 9 [event 1 2 [(4, 7)]]]
            next = B.drop (B.length (encodeLog plain []) - 2) (encodeLog plain [Block 1 10 19 [event 1 12 [(4, 8)]]])
        (t, notes) <- reading (B.take (B.length whole - 2) whole <> C.replicate 99 'x' <> next)
        assertBool "a note" (notes >= 1)
        map threadNumber (traceThreads t) @?= [7, 8],
      testCase "a foreign file is refused" $ do
        r <- try (reading (C.pack "\DELELF\2\1\1 and so on"))
        either (\(NotALog _) -> pure ()) (const (assertFailure "read")) r,
      testCase "every truncation is read without a failure" $
        forM_ [16 .. B.length small - 1] $ \n -> do
          (t, _) <- reading (B.take n small)
          assertBool "a summary" (B.length (summary B.empty 5 t) > 0),
      testCase "every byte flipped in three ways is read without a failure" $
        forM_ [8 .. B.length small - 1] $ \n -> forM_ [0, 3, 7] $ \bit -> do
          let (a, b) = B.splitAt n small
          (t, _) <- reading (a <> B.cons (B.head b `xor` (1 `shiftL` bit)) (B.tail b))
          assertBool "a summary" (B.length (summary B.empty 5 t) > 0),
      testCase "a log of this runtime: nothing is skipped, and threads, labels, waits and messages are there" $
        withWorkload "-l" $ \path -> withLog (C.pack path) $ \l -> do
          t <- analyse l (const True) silent
          (notes, _) <- logNotes l
          notes @?= []
          length (traceCores t) @?= 2
          traceMessages t @?= 51
          [threadWaits th > 0 | th <- traceThreads t, threadLabel th == C.pack "pong"] @?= [True]
          assertBool "MVar" (or [reasonName (blockedReason b) == "MVar" && blockedCount b > 0 | b <- traceBlocked t])
          assertBool "collections" (or [collectionsCopied c > 0 | c <- traceCollections t])
          forM_ (traceCores t) $ \c ->
            coreRunning c + coreCollecting c + coreIdle c @?= traceEnd t - traceBegin t,
      testCase "a thread that announces a wait for a descriptor waits for that, and not for an MVar" $ do
        (t, notes) <- reading marked
        notes @?= 0
        [(reasonName (blockedReason b), blockedCount b, blockedTime b) | b <- traceBlocked t] @?= [("descriptor (heddle-io)", 1, 100), ("MVar", 1, 50)]
        traceMessages t @?= 0,
      testCase "a worker's time is that of running tasks, of searching and of sleeping" $ do
        (t, _) <- reading marked
        traceWorkers t @?= [Worker 8 (C.pack "worker") 300 (100 + 50) 250 1]
        [[n | n <- coreMarkers c, n > 0] | c <- traceCores t] @?= [[1, 2, 1, 1, 1]],
      testCase "emptyBlockBeganBeforeTheLog: a log started in a running program begins with its first events" $ do
        (t, notes) <- reading (encodeLog plain [Block 0 5 5000 [], Block 0 5000 5100 [event 1 5000 [(4, 7)], variable 181 5001 (C.pack "heddle io sleep")]])
        (traceBegin t, traceEnd t, notes) @?= (5000, 5100, 0)
        -- Its label was written before.
        map threadLabel (traceThreads t) @?= [C.pack "event manager"],
      testCase "a marker of another program's is skipped" $ do
        (t, notes) <- reading (encodeLog plain [Block 0 0 9 [variable 181 1 (C.pack "heddle io parking"), variable 181 2 (B.pack [0, 255])]])
        (map (sum . coreMarkers) (traceCores t), notes) @?= ([0], 0),
      testCase "more threads than are kept are added up" $ do
        let n = maxThreads + 10
            events = concat [[event 1 (2 * i) [(4, i)], event 2 (2 * i + 1) [(4, i), (2, 5), (4, 0)]] | i <- [1 .. n]]
        (t, _) <- reading (encodeLog plain [Block 0 0 (2 * n + 2) events])
        length (traceThreads t) + fst (traceOthers t) @?= n
        sum (map threadRunning (traceThreads t)) + snd (traceOthers t) @?= n
    ]
