{-# LANGUAGE PatternSynonyms #-}

-- | Channels: order, fairness, waiting, interruption, no leak.
module ChannelTest (tests) where

import Control.Concurrent
import Control.Exception hiding (assert)
import Control.Monad
import Data.IORef
import Data.List (sort)
import Harness
import Heddle.Channel
import Heddle.Prim.Errno (pattern EINVAL)
import Heddle.Timer (deadlineIn, microseconds, milliseconds, monotonicNow, never)
import System.Mem (performMajorGC)
import System.Mem.Weak (deRefWeak)
import Test.QuickCheck
import Test.QuickCheck.Monadic (assert, monadicIO, run)
import Test.Tasty
import Test.Tasty.HUnit hiding (assert)
import Test.Tasty.QuickCheck (testProperty)

-- Single-threaded, a channel is a queue with a capacity.
queueModel :: Positive Int -> [Maybe Int] -> Property
queueModel (Positive capacity) script = monadicIO $ do
  agrees <- run $ do
    channel <- newBounded capacity
    let go _ [] = pure True
        go model (Just x : rest) = do
          sent <- trySend channel x
          let room = length model < capacity
          n <- pending channel
          let model' = if room then model ++ [x] else model
          if sent == room && n == length model' then go model' rest else pure False
        go model (Nothing : rest) = do
          r <- tryRecv channel
          case model of
            [] -> if r == Nothing then go [] rest else pure False
            x : xs -> if r == Just x then go xs rest else pure False
    go [] script
  assert agrees

tests :: TestTree
tests =
  testGroup
    "Heddle.Channel"
    [ testProperty "alone, it is a bounded queue" queueModel,
      testIn "order from one to one" $
        forM_ [newUnbounded, newBounded 1, newBounded 4] $ \make -> do
          channel <- make
          sender <- forkTask (mapM_ (send channel) [1 .. 20000 :: Int])
          received <- replicateM 20000 (recv channel)
          joinTask sender
          received @?= [1 .. 20000],
      testIn "many to many lose and double nothing" $
        forM_ [newUnbounded, newBounded 2, newBounded 64] $ \make -> do
          channel <- make
          senders <- forM [0 .. 7] $ \k -> forkTask (mapM_ (send channel) [k * 1000 .. k * 1000 + 999 :: Int])
          receivers <- replicateM 8 (forkTask (replicateM 1000 (recv channel)))
          mapM_ joinTask senders
          received <- concat <$> mapM joinTask receivers
          sort received @?= [0 .. 7999],
      testIn "a bounded channel makes its senders wait, in order" $ do
        channel <- newBounded 2
        mapM_ (send channel) [1, 2 :: Int]
        trySend channel 9 >>= (@?= False)
        senders <- forM [3, 4, 5] $ \x -> do
          t <- forkTask (send channel x)
          t <$ waitParked (taskThread t)
        replicateM 5 (recv channel) >>= (@?= [1 .. 5])
        mapM_ joinTask senders
        tryRecv channel >>= (@?= Nothing),
      testIn "waiting receivers are served in order" $ do
        channel <- newUnbounded
        receivers <- replicateM 4 $ do
          t <- forkTask (recv channel)
          t <$ waitParked (taskThread t)
        mapM_ (send channel) [1 .. 4 :: Int]
        mapM joinTask receivers >>= (@?= [1 .. 4]),
      testIn "deadlines" $ do
        channel <- newBounded 1
        near <- deadlineIn (milliseconds 5)
        recvUntil channel near >>= (@?= Nothing)
        sendUntil channel 'a' near >>= (@?= True)
        sendUntil channel 'b' near >>= (@?= False)
        now <- monotonicNow
        assertBool "early" (now >= near)
        recvUntil channel never >>= (@?= Just 'a')
        recvUntil channel near >>= (@?= Nothing)
        pending channel >>= (@?= 0),
      testIn "a killed receiver takes nothing, a killed sender leaves nothing" $ do
        channel <- newBounded 1
        receiver <- forkTask (recv channel)
        waitParked (taskThread receiver)
        _ <- killTask receiver
        send channel 'a'
        sender <- forkTask (send channel 'b')
        waitParked (taskThread sender)
        _ <- killTask sender
        recv channel >>= (@?= 'a')
        tryRecv channel >>= (@?= Nothing),
      testIn "interruptedReceiverLosesNothing" $ do
        -- Receivers are killed and time out while values are handed to them.
        channel <- newUnbounded
        taken <- newIORef []
        let n = 4000 :: Int
        receivers <- forM [1 .. 4 :: Int] $ \k -> forkTask $
          forever $ do
            victim <- forkTask $
              mask_ $ do
                r <- if even k then Just <$> recv channel else deadlineIn (microseconds 1200) >>= recvUntil channel
                forM_ r $ \x -> atomicModifyIORef' taken (\xs -> (x : xs, ()))
            replicateM_ 3 yield
            killTask victim
        forM_ [1 .. n] $ \i -> send channel i >> when (i `mod` 7 == 0) yield
        -- Values counted as taken, or still there: none lost, none double.
        mapM_ killTask receivers
        waitUntilTrue $ do
          performMajorGC
          left <- pending channel
          got' <- length <$> readIORef taken
          pure (left + got' >= n)
        rest <- let go acc = tryRecv channel >>= maybe (pure acc) (go . (: acc)) in go []
        xs <- readIORef taken
        sort (rest ++ xs) @?= [1 .. n],
      testIn "values are not evaluated" $ do
        channel <- newBounded 1
        send channel (error "not forced" :: Int)
        _ <- recv channel
        pure (),
      testIn "a capacity below one is refused" $ expectIOError EINVAL (newBounded 0 :: IO (Channel ())),
      testIn "multicast: all subscriptions see all, from where they began" $ do
        m <- newMulticast
        publish m 0
        a <- subscribe m
        b <- subscribe m
        mapM_ (publish m) [1 .. 5 :: Int]
        c <- duplicate a
        d <- subscribe m
        publish m 6
        replicateM 6 (next a) >>= (@?= [1 .. 6])
        replicateM 6 (next b) >>= (@?= [1 .. 6])
        replicateM 6 (next c) >>= (@?= [1 .. 6])
        next d >>= (@?= 6)
        mapM tryNext [a, b, c, d] >>= (@?= replicate 4 Nothing),
      testIn "multicast: publishers in parallel, one order for all" $ do
        m <- newMulticast
        subscriptions <- replicateM 4 (subscribe m)
        readers <- forM subscriptions (forkTask . replicateM 4000 . next)
        publishers <- forM [0 .. 3] $ \k -> forkTask (mapM_ (publish m) [k * 1000 .. k * 1000 + 999 :: Int])
        mapM_ joinTask publishers
        seen <- mapM joinTask readers
        assertBool "one order" (all (== head seen) seen)
        sort (head seen) @?= [0 .. 3999],
      testIn "multicast: threads that share a subscription share its values" $ do
        m <- newMulticast
        s <- subscribe m
        readers <- replicateM 4 (forkTask (replicateM 500 (next s)))
        mapM_ (publish m) [1 .. 2000 :: Int]
        seen <- concat <$> mapM joinTask readers
        sort seen @?= [1 .. 2000],
      testIn "multicast: deadlines, and a killed reader takes nothing" $ do
        m <- newMulticast
        s <- subscribe m
        near <- deadlineIn (milliseconds 5)
        nextUntil s near >>= (@?= Nothing)
        reader <- forkTask (next s)
        waitParked (taskThread reader)
        _ <- killTask reader
        publish m 'x'
        nextUntil s near >>= (@?= Just 'x'),
      testIn "multicastWithoutReadersLeaks" $ do
        -- A value that no subscription can receive any more is garbage.
        m <- newMulticast
        s <- subscribe m
        weaks <- forM [1 .. 1000 :: Int] $ \i -> do
          x <- newIORef i
          publish m x
          mkWeakIORef x (pure ())
        replicateM_ 1000 (next s)
        waitUntilTrue $ do
          performMajorGC
          alive <- filterM (fmap (maybe False (const True)) . deRefWeak) weaks
          pure (length alive <= 1)
        publish m =<< newIORef 0
        _ <- next s
        pure (),
      testIn "an abandoned receiver is told by the runtime" $ do
        outcome <- newEmptyMVar
        _ <- forkIO (try (newUnbounded >>= recv) >>= putMVar outcome)
        waitUntilTrue (performMajorGC >> not <$> isEmptyMVar outcome)
        takeMVar outcome >>= (@?= (Left (ChannelDeserted "recv") :: Either ChannelDeserted ()))
    ]
