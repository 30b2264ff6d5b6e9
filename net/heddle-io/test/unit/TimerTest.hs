-- | Sleeping, time-outs and timers, in the system runtime.
module TimerTest (tests) where

import Control.Concurrent
import Control.Exception
import Control.Monad
import Data.IORef
import Data.Maybe (isNothing)
import GHC.Conc (ThreadStatus (..), threadStatus)
import Harness
import Heddle.IO (BackendChoice (..), Config (..), defaultConfig, withRuntime)
import Heddle.Timer
import System.Mem (performMajorGC)
import System.Mem.Weak (deRefWeak)
import Test.Tasty
import Test.Tasty.HUnit

forEver :: IO a
forEver = newEmptyMVar >>= \m -> takeMVar m

tests :: TestTree
tests =
  testGroup
    "Heddle.Timer"
    [ testIn "sleeping ends at the deadline, not before" $ do
        deadlines <- forM [1 .. 50] (deadlineIn . milliseconds)
        sleepers <- forM deadlines $ \d -> forkTask (sleepUntil d >> (>= d) <$> monotonicNow)
        mapM joinTask sleepers >>= assertBool "too early" . and
        sleepFor mempty
        sleepFor (nanos (-1))
        sleepFor (seconds minBound)
        monotonicNow >>= sleepUntil,
      testIn "a sleeper can be killed, and its timer goes on to serve" $ do
        sleeper <- forkTask (sleepUntil never)
        waitParked (taskThread sleeper)
        _ <- killTask sleeper
        other <- forkTask (sleepFor (seconds 100))
        waitParked (taskThread other)
        _ <- killTask other
        sleepFor (milliseconds 5),
      testIn "neverIsNoDeadlockToTheCollector" $
        forM_ [sleepUntil never, sleepFor (nanos maxBound), sleepFor (seconds maxBound), void (timeout (nanos maxBound) (sleepUntil never))] $ \sleeping -> do
          ended <- newIORef Nothing
          -- Nothing refers to the thread, so that only its wait keeps it.
          weak <- forkIO (try sleeping >>= \r -> writeIORef ended (Just (r :: Either SomeException ()))) >>= mkWeakThreadId
          waitUntilTrue (deRefWeak weak >>= maybe (pure True) (fmap (/= ThreadRunning) . threadStatus))
          replicateM_ 5 (performMajorGC >> yield)
          readIORef ended >>= maybe (pure ()) (either (assertFailure . show) (const (assertFailure "woke")))
          deRefWeak weak >>= mapM_ killThread,
      testIn "durationsSaturate" $ do
        forM_ [seconds, milliseconds, microseconds] $ \unit -> (unit maxBound, unit minBound) @?= (nanos maxBound, nanos minBound)
        timeout (seconds (10 ^ (10 :: Int))) (pure 'x') >>= (@?= Just 'x')
        timeout (seconds maxBound) (pure 'y') >>= (@?= Just 'y')
        timeout (nanos (maxBound - 1)) (pure 'z') >>= (@?= Just 'z'),
      testIn "a negative time-out is none, as in System.Timeout" $ do
        timeout (nanos (-1)) (pure 'x') >>= (@?= Just 'x')
        timeout (nanos minBound) (pure 'y') >>= (@?= Just 'y'),
      testIn "timeout: in time, too late, none, zero" $ do
        timeout (seconds 50) (pure 'x') >>= (@?= Just 'x')
        timeout (milliseconds 5) forEver >>= (@?= (Nothing :: Maybe ()))
        timeout mempty (assertFailure "run") >>= (@?= (Nothing :: Maybe ()))
        timeoutUntil never (pure 'y') >>= (@?= Just 'y')
        now <- monotonicNow
        timeoutUntil now (assertFailure "run") >>= (@?= (Nothing :: Maybe ())),
      testIn "the body's exception passes" $ do
        r <- try (timeout (seconds 50) (throwIO (userError "mine")))
        r @?= (Left (userError "mine") :: Either IOException (Maybe ())),
      testIn "nested: the inner one ends first" $ do
        r <- timeout (seconds 50) (timeout (milliseconds 5) (forEver :: IO ()))
        r @?= Just Nothing,
      testIn "nested: the outer one ends first" $ do
        r <- timeout (milliseconds 5) (timeout (seconds 50) (forEver :: IO ()))
        r @?= Nothing,
      testIn "nested: both at once" $
        forM_ [1 .. 200 :: Int] $ \_ -> do
          deadline <- deadlineIn (microseconds 1500)
          r <- timeoutUntil deadline (timeoutUntil deadline (timeoutUntil deadline forEver))
          assertBool "some level ended it" (r `elem` [Nothing, Just Nothing, Just (Just (Nothing :: Maybe ()))]),
      testIn "deep nesting" $ do
        let nest :: Int -> IO Int
            nest 0 = pure 0
            nest n = maybe (assertFailure "timed out") (pure . (+ 1)) =<< timeout (seconds 50) (nest (n - 1))
        nest 1000 >>= (@?= 1000),
      testIn "timeoutNeverArrivesLate" $ do
        -- The body ends about when the time does; afterwards nothing may arrive.
        outcomes <- forM [0 .. 3000 :: Int] $ \i -> do
          deadline <- deadlineIn (microseconds (200 + i `mod` 1500))
          r <- timeoutUntil deadline $ do
            let spin = monotonicNow >>= \now -> unless (now >= deadline) spin
            if even i then spin else sleepUntil deadline
          -- A late exception would end this test.
          _ <- evaluate (sum [1 .. 200 :: Int])
          yield
          pure r
        assertBool "ran" (length outcomes == 3001),
      testIn "a time-out in a masked body waits for an interruptible operation" $ do
        r <- mask_ (timeout (milliseconds 2) (deadlineIn (milliseconds 10) >>= \d -> spinUntil d >> pure 'x'))
        r @?= Just 'x'
        s <- mask_ (timeout (milliseconds 2) (forEver :: IO ()))
        s @?= Nothing,
      testIn "killing a thread in a time-out is not a time-out" $ do
        t <- forkTask (timeout (seconds 50) (forEver :: IO ()))
        waitParked (taskThread t)
        e <- killTask t
        fmap show e @?= Just "thread killed",
      testIn "many time-outs at once" $ do
        ts <- forM [1 .. 2000 :: Int] $ \i ->
          forkTask (if i `mod` 3 == 0 then timeout (seconds 50) (pure ()) else timeout (milliseconds (1 + i `mod` 20)) forEver)
        results <- mapM joinTask ts
        length (filter isNothing results) @?= 2000 - 2000 `div` 3,
      testIn "a timer wakes its waiter" $ do
        deadline <- soon
        withTimerUntil deadline $ \t -> do
          await t
          now <- monotonicNow
          assertBool "early" (now >= deadline)
          -- It stays fired.
          await t
          closeTimer t >>= (@?= False)
          rearmUntil t never >>= (@?= False),
      testIn "closing wakes the waiter with TimerClosed" $ do
        t <- newTimerUntil never
        waiter <- forkTask (await t)
        waitParked (taskThread waiter)
        closeTimer t >>= (@?= True)
        closeTimer t >>= (@?= False)
        r <- try (joinTask waiter)
        r @?= Left TimerClosed
        again <- try (await t)
        again @?= Left TimerClosed,
      testIn "a timer closed before anybody waited" $ do
        t <- newTimerUntil never
        closeTimer t >>= (@?= True)
        try (await t) >>= (@?= Left TimerClosed),
      testIn "re-arming, later and earlier" $ do
        first <- soon
        t <- newTimerUntil first
        rearmUntil t never >>= (@?= True)
        waiter <- forkTask (await t)
        waitParked (taskThread waiter)
        sleepUntil =<< deadlineIn (milliseconds 60)
        waitParked (taskThread waiter)
        near <- soon
        rearmUntil t near >>= (@?= True)
        joinTask waiter
        now <- monotonicNow
        assertBool "early" (now >= near)
        void (closeTimer t),
      testIn "fire or close, never both" $
        forM_ [0 .. 300 :: Int] $ \i -> do
          deadline <- deadlineIn (microseconds (500 + 5 * i))
          t <- newTimerUntil deadline
          waiter <- forkTask (try (await t))
          spinUntil deadline
          closed <- closeTimer t
          outcome <- joinTask waiter
          outcome @?= if closed then Left TimerClosed else Right (),
      testIn "a timer of a stopped runtime is refused, its waits end" $
        forM_ [Epoll, Poll] $ \b -> do
          (rt, t, waiter) <- withRuntime defaultConfig {configBackend = b} $ \rt -> do
            t <- newTimerOnUntil rt never
            near <- soon
            fires <- newTimerOnUntil rt near
            await fires
            waiter <- forkTask (await t)
            waitParked (taskThread waiter)
            pure (rt, t, waiter)
          _ <- closeTimer t
          try (joinTask waiter) >>= (@?= Left TimerClosed)
          r <- try (newTimerOnUntil rt never)
          either (\e -> const (pure ()) (e :: IOException)) (const (assertFailure "made")) r
    ]

spinUntil :: Deadline -> IO ()
spinUntil d = monotonicNow >>= \now -> unless (now >= d) (spinUntil d)
