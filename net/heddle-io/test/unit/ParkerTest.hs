-- | Parkers and the queues of waiting threads.
module ParkerTest (tests) where

import Control.Concurrent
import Control.Exception
import Control.Monad
import Data.Foldable (for_)
import Data.IORef
import Data.Maybe (fromMaybe, isJust, isNothing)
import Harness
import Heddle.IO (Deadline, defaultConfig, never, withRuntime)
import Heddle.IO.Parker
import Heddle.IO.WaitQueue
import Heddle.Prim.Atomic (Ref, modifyRef, newRef)
import Heddle.Timer (isOver, withCellUntil)
import System.Mem (performMajorGC)
import Test.Tasty
import Test.Tasty.HUnit
import Test.Tasty.QuickCheck

tests :: TestTree
tests =
  testGroup
    "waiting"
    [ testGroup "Heddle.IO.Parker" parkers,
      testGroup "Heddle.IO.WaitQueue" queues
    ]

parkers :: [TestTree]
parkers =
  [ bothBackends "a condition that comes true ends the wait" $ \rt -> withParker rt $ \parker -> do
      condition <- newIORef Nothing
      d <- late
      waiter <- forkTask (awaitUntil parker d (readIORef condition))
      waitParked (taskThread waiter)
      writeIORef condition (Just "there")
      unpark parker
      joinTask waiter >>= (@?= Just "there"),
    bothBackends "an early wake-up does not" $ \rt -> withParker rt $ \parker -> do
      looks <- newIORef (0 :: Int)
      d <- late
      waiter <- forkTask (awaitUntil parker d (Nothing <$ modifyIORef' looks (+ 1)))
      waitParked (taskThread waiter)
      before <- readIORef looks
      unpark parker
      waitUntilTrue ((> before) <$> readIORef looks)
      waitParked (taskThread (waiter :: Task (Maybe ())))
      killTask waiter >>= assertBool "it waited" . isJust,
    bothBackends "the deadline does" $ \rt -> withParker rt $ \parker -> do
      d <- soon
      awaitUntil parker d (pure Nothing) >>= (@?= (Nothing :: Maybe ()))
      isPast parker d >>= assertBool "past",
    bothBackends "a token left before parking ends the park" $ \rt -> withParker rt $ \parker -> do
      unpark parker
      parkUntil parker never
      unpark parker
      prepare parker
      d <- soon
      parkUntil parker d
      isPast parker d >>= assertBool "the token was dropped",
    bothBackends "closing ends the wait" $ \rt -> do
      parker <- newParker rt
      waiter <- forkTask (awaitUntil parker never (pure (Nothing :: Maybe ())))
      waitParked (taskThread waiter)
      closeParker parker
      joinTask waiter >>= (@?= Nothing)
      isClosed parker >>= assertBool "closed",
    testIn "so does its runtime's end" . withoutLeak $ do
      waiter <- withRuntime defaultConfig $ \rt -> do
        parker <- newParker rt
        waiter <- forkTask (awaitUntil parker never (pure (Nothing :: Maybe ())))
        waiter <$ waitParked (taskThread waiter)
      joinTask waiter >>= (@?= Nothing),
    bothBackends "the collector does not take its thread for deadlocked" $ \rt -> withParker rt $ \parker -> do
      waiter <- forkTask (awaitUntil parker never (pure (Nothing :: Maybe ())))
      waitParked (taskThread waiter)
      performMajorGC
      closeParker parker
      joinTask waiter >>= (@?= Nothing)
  ]

queues :: [TestTree]
queues =
  [ testProperty "first come, first served, without those who left" $ \(leaving :: [Bool]) ->
      let (queue, tickets) = foldl (\(q, ts) x -> let (q', t) = enqueue x q in (q', ts ++ [t])) (emptyQueue, []) [0 .. length leaving - 1]
          gone = [t | (t, True) <- zip tickets leaving]
          left = foldl (\q t -> fromMaybe (error "was there") (withdraw t q)) queue gone
          stay = [x | (x, False) <- zip [0 ..] leaving]
       in entries left === stay
            .&&. drainAll left === stay
            .&&. isEmptyQueue left === null stay
            .&&. conjoin [property (isNothing (void (withdraw t left))) | t <- gone],
    testIn "a value is handed to the thread that has waited longest" $ do
      queue <- newRef emptyQueue
      waiters <- forM [1 .. 3 :: Int] $ \_ -> do
        t <- forkTask (waitIn queue never)
        t <$ waitParked (taskThread t)
      for_ "abc" (serveFirst queue)
      mapM joinTask waiters >>= (@?= map Just "abc"),
    testIn "a wait ends at its deadline, and leaves the queue" $ do
      queue <- newRef emptyQueue
      d <- soon
      waitIn queue d >>= (@?= Nothing)
      isOver d >>= assertBool "over"
      isOver never >>= assertBool "never" . not
      modifyRef queue (\q -> (q, length (entries q))) >>= (@?= 0),
    testIn "a value whose receiver was interrupted is undone" $ do
      queue <- newRef emptyQueue
      undone <- newEmptyMVar
      taken <- newEmptyMVar
      waiter <- forkTask . mask_ . withCellUntil never $ \cell -> do
        w <- newWaiter cell
        _ <- modifyRef queue (enqueueIn w)
        -- The queue reports that the waiter was dequeued before it could leave.
        awaitHandOff w never (False <$ putMVar taken ()) (putMVar undone)
      waitParked (taskThread waiter)
      killer <- forkTask (killTask waiter)
      takeMVar taken
      serveFirst queue 'x'
      takeMVar undone >>= (@?= 'x')
      joinTask killer >>= assertBool "it ended by the exception" . not . isNothing
  ]
  where
    drainAll q = maybe [] (\(x, rest) -> x : drainAll rest) (dequeue q)
    enqueueIn w q = let (q', t) = enqueue w q in (q', t)
    serveFirst queue x = do
      next <- modifyRef queue (\q -> maybe (q, Nothing) (\(w, rest) -> (rest, Just w)) (dequeue q))
      maybe (assertFailure "nobody waits") (`handOff` x) next

waitIn :: Ref (Queue (Waiter Char)) -> Deadline -> IO (Maybe Char)
waitIn queue deadline = mask_ . withCellUntil deadline $ \cell -> do
  w <- newWaiter cell
  ticket <- modifyRef queue (\q -> let (q', t) = enqueue w q in (q', t))
  let leave = modifyRef queue (\q -> maybe (q, False) (\rest -> (rest, True)) (withdraw ticket q))
  awaitHandOff w deadline leave (const (pure ()))
