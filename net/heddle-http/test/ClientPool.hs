-- | The pool, with numbers for connections.
module ClientPool
  ( tests,
  )
where

import Control.Concurrent
import Control.Exception (mask_)
import Control.Monad (forM, forM_, replicateM, void)
import Data.IORef
import Data.List (sort)
import Heddle.Http.Client.Internal
import Heddle.Prim.Clock (Deadline (..), deadlineIn, milliseconds, never)
import Heddle.Testkit.Threads (waitParked)
import Heddle.Testkit.Watchdog
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (testCase, (@?=))
import Test.Tasty.QuickCheck

tests :: TestTree
tests =
  testGroup
    "pool"
    [ testCase "the connection used last is used next" $ do
        (shard, _) <- numbered 3 9
        mapM_ (\i -> acquire shard 'a' >>= (@?= "new") >> pure i) [1 .. 3 :: Int]
        forM_ [1, 2, 3] $ \c -> release shard 'a' c never
        acquire shard 'a' >>= (@?= "3")
        acquire shard 'a' >>= (@?= "2")
        shardCounts shard >>= (@?= (1, 3)),
      testCase "an origin at its limit waits, others do not" $ do
        (shard, _) <- numbered 1 9
        acquire shard 'a' >>= (@?= "new")
        soon <- deadlineIn (milliseconds 5)
        mask_ (acquireUntil shard 'a' soon) >>= (@?= "late") . shown
        acquire shard 'b' >>= (@?= "new"),
      testCase "the limit in all closes the connection that is due first" $ do
        (shard, closed) <- numbered 2 2
        _ <- acquire shard 'a'
        _ <- acquire shard 'b'
        release shard 'a' 1 (Deadline 20)
        release shard 'b' 2 (Deadline 10)
        acquire shard 'c' >>= (@?= "new")
        readIORef closed >>= (@?= [2])
        shardCounts shard >>= (@?= (1, 2)),
      testCase "threads that wait are served in the order of their arrival" $ do
        (shard, _) <- numbered 1 9
        _ <- acquire shard 'a'
        served <- newIORef []
        done <- newEmptyMVar
        threads <- forM [1 .. 5 :: Int] $ \i -> do
          thread <- forkIO $ do
            r <- acquire shard 'a'
            modifyIORef served ((i, r) :)
            mask_ (release shard 'a' i never)
            putMVar done ()
          thread <$ waitParked thread
        release shard 'a' 0 never
        mapM_ (const (takeMVar done)) threads
        readIORef served >>= (@?= [(1, "0"), (2, "1"), (3, "2"), (4, "3"), (5, "4")]) . reverse
        shardCounts shard >>= (@?= (1, 1)),
      testCase "a slot that is given up goes to the thread that has waited longest, of any origin below its limit" $ do
        (shard, closed) <- numbered 1 2
        _ <- acquire shard 'a'
        _ <- acquire shard 'b'
        served <- newIORef []
        -- c waits for the limit in all, then a and b for their own.
        threads <- forM "cab" $ \o -> do
          thread <- forkIO (acquire shard o >>= \r -> modifyIORef served ((o, r) :))
          thread <$ waitParked thread
        mask_ (release shard 'b' 7 never)
        _ <- eventually "c to be served" (readIORef served) (== [('c', "new")])
        readIORef closed >>= (@?= [7])
        mask_ (surrender shard 'a')
        _ <- eventually "a to be served" (readIORef served) ((== 2) . length)
        mask_ (surrender shard 'c')
        _ <- eventually "b to be served" (readIORef served) ((== 3) . length)
        readIORef served >>= (@?= "cab") . map fst . reverse
        shardCounts shard >>= (@?= (0, 2))
        length threads @?= 3,
      testCase "interruptedWaiterLosesNothing" $ do
        (shard, _) <- numbered 1 9
        _ <- acquire shard 'a'
        threads <- replicateM 10 (forkIO (mask_ (void (acquireUntil shard 'a' never))))
        mapM_ waitParked threads
        mapM_ killThread threads
        mask_ (release shard 'a' 1 never)
        acquire shard 'a' >>= (@?= "1"),
      testCase "sweeping closes what is due" $ do
        (shard, closed) <- numbered 9 9
        mapM_ (const (acquire shard 'a')) [1 .. 3 :: Int]
        forM_ [1, 2, 3] $ \c -> release shard 'a' c (Deadline (c * 10))
        mask_ (sweep shard (Deadline 20)) >>= (@?= Deadline 30)
        readIORef closed >>= (@?= [1, 2]) . sort
        mask_ (sweep shard (Deadline 30)) >>= (@?= never)
        shardCounts shard >>= (@?= (0, 0)),
      testCase "an unused connection may be taken away, and is counted no more" $ do
        (shard, closed) <- numbered 1 9
        takeKept shard 'a' >>= (@?= Nothing)
        _ <- acquire shard 'a'
        takeKept shard 'a' >>= (@?= Nothing)
        release shard 'a' 1 never
        takeKept shard 'b' >>= (@?= Nothing)
        takeKept shard 'a' >>= (@?= Just 1)
        shardCounts shard >>= (@?= (0, 0))
        acquire shard 'a' >>= (@?= "new")
        readIORef closed >>= (@?= []),
      testCase "a server is full when all that it has been seen to serve are open" $ do
        widths <- newWidths
        isFull widths 'a' >>= (@?= False)
        answered widths 'a'
        isFull widths 'a' >>= (@?= True)
        answered widths 'a'
        ended widths 'a'
        -- It has served two.
        isFull widths 'a' >>= (@?= False)
        narrowed widths 'a'
        isFull widths 'a' >>= (@?= True)
        isFull widths 'b' >>= (@?= False)
        ended widths 'a'
        isFull widths 'a' >>= (@?= False),
      testCase "a returned connection is awaited while a request waits and the server is full" $ do
        widths <- newWidths
        waitBegins widths 'a'
        isAwaited widths 'a' >>= (@?= True)
        isFull widths 'a' >>= (@?= False)
        answered widths 'a'
        answered widths 'a'
        waitBegins widths 'a'
        mapM (isAwaited widths) "ab" >>= (@?= [True, False])
        ended widths 'a'
        -- It has served two, so that one can be kept.
        isAwaited widths 'a' >>= (@?= False)
        narrowed widths 'a'
        isAwaited widths 'a' >>= (@?= True)
        waitEnds widths 'a'
        isAwaited widths 'a' >>= (@?= True)
        waitEnds widths 'a'
        isAwaited widths 'a' >>= (@?= False),
      testCase "closing ends waits, and closes what is returned later" $ do
        (shard, closed) <- numbered 2 9
        _ <- acquire shard 'a'
        _ <- acquire shard 'a'
        release shard 'a' 1 never
        _ <- acquire shard 'a'
        result <- newEmptyMVar
        thread <- forkIO (acquire shard 'a' >>= putMVar result)
        waitParked thread
        mask_ (closeShard shard)
        takeMVar result >>= (@?= "closed")
        mask_ (release shard 'a' 1 never)
        readIORef closed >>= (@?= [1])
        acquire shard 'a' >>= (@?= "closed"),
      testProperty "counts never exceed the limits, and nothing is lost, whatever is interrupted" . forAll ((,) <$> choose (1, 3) <*> choose (1, 4)) $ \(per, whole) ->
        ioProperty $ do
          (shard, _) <- numbered per whole
          highest <- newIORef 0
          threads <- forM (zip (cycle "abc") [1 .. 30 :: Int]) $ \(o, i) -> do
            done <- newEmptyMVar
            fmap (\thread -> (done, thread)) . mask_ . flip forkFinally (\_ -> putMVar done ()) . mask_ $
              acquireUntil shard o never >>= \case
                Just (Reuse c _) -> seen highest shard >> yield >> release shard o c never
                Just OpenNew -> seen highest shard >> yield >> if even i then release shard o i never else surrender shard o
                _ -> pure ()
          forM_ (zip [1 :: Int ..] (map snd threads)) $ \(i, t) -> if i `mod` 3 == 0 then killThread t else pure ()
          mapM_ (patiently "every thread to end" . takeMVar . fst) threads
          top <- readIORef highest
          (kept, open) <- shardCounts shard
          pure (counterexample (show (top, kept, open)) (top <= whole && kept == open))
    ]
  where
    seen highest shard = do
      (_, open) <- shardCounts shard
      atomicModifyIORef' highest (\h -> (max h open, ()))

numbered :: Int -> Int -> IO (Shard Char Int, IORef [Int])
numbered per whole = do
  closed <- newIORef []
  shard <- newShard (PoolLimits per whole) (\_ c -> modifyIORef closed (c :))
  pure (shard, closed)

acquire :: Shard Char Int -> Char -> IO String
acquire shard origin = shown <$> patiently "a connection" (mask_ (acquireUntil shard origin never))

shown :: Maybe (Grant Int) -> String
shown = \case
  Nothing -> "late"
  Just (Reuse c _) -> show c
  Just OpenNew -> "new"
  Just PoolClosed -> "closed"
