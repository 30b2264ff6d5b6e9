-- | Tasks that block: for ever, and many at once.
module BlockTest (tests) where

import Control.Concurrent (MVar, forkIO, myThreadId, newEmptyMVar, putMVar, readMVar, takeMVar, tryPutMVar, yield)
import Control.Exception (BlockedIndefinitelyOnMVar (..), bracket_, try)
import Control.Monad (forM, forM_, forever, replicateM, replicateM_, unless, void)
import Data.IORef (IORef, atomicModifyIORef', newIORef, readIORef)
import Heddle.Par.IO hiding (try)
import Heddle.Par.IO qualified as ParIO
import Heddle.Prim.Clock (elapsed, microseconds, monotonicNow)
import Heddle.Prim.Thread (setCapabilities)
import System.Exit (ExitCode (..), exitWith)
import System.Timeout (timeout)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, assertEqual, testCase, (@?=))
import Trees (onCapabilities)

tests :: TestTree
tests =
  testGroup
    "blocking"
    [ testCase "aWorkerKeptItsBlockedThreadReachable" forEver,
      testCase "a task may handle that it waits for ever" handledForEver,
      testCase "aHundredBlockedTasksStopThePool" hundred,
      testCase "more than may be lent block in place" tooMany,
      testCase "aRetiredWorkerTookTheWakeMeantForARunsOwn" retired,
      testCase "the places come back" reclaimed,
      testCase "what a blocking action throws is the task's" throws,
      testCase "a run that is killed ends its blocking tasks" killed,
      testCase "a task waiting for ever in a blocking action is told" lentForEver
    ]

onEach :: IO () -> IO ()
onEach body = forM_ [1, 2, 4] $ \n -> onCapabilities n body

within :: IO a -> IO a
within body = timeout 30000000 body >>= maybe (fail "the run does not end") pure

waiting :: IO ()
waiting = (newEmptyMVar :: IO (MVar ())) >>= takeMVar

forEver :: IO ()
forEver = onEach $ do
  r <- within (try (runParIO (spawn (liftIO waiting) >>= get)))
  told r @?= True
  both <- within . try . runParIO $ do
    a <- spawn (liftIO waiting)
    b <- spawn (liftIO waiting)
    get a >> get b
  told both @?= True

handledForEver :: IO ()
handledForEver = onEach $ do
  r <- within . runParIO $ do
    v <- spawn (liftIO waiting)
    r <- ParIO.try (get v)
    n <- spawn (pure (7 :: Int)) >>= get
    pure (either (\BlockedIndefinitelyOnMVar -> n) (const 0) r)
  r @?= 7
  -- Its worker can still be interrupted.
  spinning <- within (timeout 2000 (runParIO (liftIO (forever yield))))
  spinning @?= (Nothing :: Maybe ())

-- | The last task lets the others go, after all of them have begun to wait.
hundred :: IO ()
hundred = onEach . replicateM_ 10 $ do
  gate <- newEmptyMVar
  begun <- newIORef (0 :: Int)
  sums <- within . runParIO $ do
    vs <- forM [1 .. 100 :: Int] $ \i -> spawn $ do
      blocking (count begun 1 >> readMVar gate)
      pure i
    others <- replicateM 20 (spawn (pure (1 :: Int)))
    more <- sum <$> mapM get others
    liftIO (putMVar gate ())
    (+ more) . sum <$> mapM get vs
  sums @?= 5070
  readIORef begun >>= (@?= 100)

-- | The gate opens when a task has blocked its own worker, however many were lent before.
tooMany :: IO ()
tooMany = onCapabilities 2 $ do
  gate <- newEmptyMVar
  blocked <- newEmptyMVar
  inPlace <- newIORef 0
  lent <- newIORef 0
  _ <- forkIO (takeMVar blocked >> putMVar gate ())
  let blockAndReturn i = do
        worker <- liftIO myThreadId
        blocking $ do
          here <- myThreadId
          if here == worker then count inPlace 1 >> void (tryPutMVar blocked ()) else count lent 1
          readMVar gate
        pure i
  got <- timeout 30000000 . runParIO $ do
    vs <- mapM (spawn . blockAndReturn) [1 .. 2000 :: Int]
    sum <$> mapM get vs
  begun <- (,) <$> readIORef inPlace <*> readIORef lent
  assertEqual ("begun in place and lent: " ++ show begun) (Just 2001000) got
  uncurry (+) begun @?= 2000

-- | Workers sleep when their capabilities are taken away. The worker of the run must be woken all
-- the same: the other one that is left waits for what it is to run.
retired :: IO ()
retired = replicateM_ 40 . onCapabilities 4 . within . runParIO . liftIO . runParIO $ do
  mvar <- liftIO newEmptyMVar
  -- Another worker steals what follows,
  fork (liftIO (spinFor 1000))
  -- all others fall asleep,
  liftIO (spinFor 20000)
  liftIO (setCapabilities 2)
  -- and the run's own must be woken for what follows.
  fork (liftIO (takeMVar mvar))
  liftIO (putMVar mvar ())

-- | Keep the thread busy for a number of microseconds. It yields to other threads meanwhile.
spinFor :: Int -> IO ()
spinFor micros = monotonicNow >>= go
  where
    go begun = do
      now <- monotonicNow
      unless (elapsed begun now >= microseconds micros) (yield >> go begun)

-- | Runs that block one after the other take the same spare workers.
reclaimed :: IO ()
reclaimed = onCapabilities 1 $ do
  replicateM_ 20 once
  before <- highest
  replicateM_ 200 once
  after <- highest
  assertBool (show (before, after)) (after <= before + 8)
  where
    once = within . runParIO $ do
      gate <- liftIO newEmptyMVar
      vs <- replicateM 20 (spawn (blocking (readMVar gate)))
      liftIO (putMVar gate ())
      mapM_ get vs
    highest = within . runParIO $ do
      gate <- liftIO newEmptyMVar
      vs <- replicateM 20 (spawn (blocking (readMVar gate) >> workerIndex))
      liftIO (putMVar gate ())
      maximum <$> mapM get vs

throws :: IO ()
throws = onEach . replicateM_ 100 $ do
  caught <- within (runParIO (ParIO.try (blocking (exitWith (ExitFailure 3))))) :: IO (Either ExitCode ())
  caught @?= Left (ExitFailure 3)
  left <- within . try . runParIO $ do
    fork (blocking (void (exitWith (ExitFailure 1))))
    fork (blocking (void (exitWith (ExitFailure 2))))
  left @?= Left (ExitFailure 1)

killed :: IO ()
killed = onEach . forM_ [1 .. 20 :: Int] $ \i -> do
  live <- newIORef 0
  gate <- newEmptyMVar :: IO (MVar ())
  r <- timeout (i * 200) . runParIO . forM_ [1 .. 10 :: Int] $ \_ ->
    fork (blocking (bracket_ (count live 1) (count live (-1)) (readMVar gate)))
  r @?= Nothing
  readIORef live >>= (@?= 0)
  putMVar gate ()

lentForEver :: IO ()
lentForEver = onEach $ do
  r <- within (try (runParIO (spawn (blocking waiting) >>= get)))
  told r @?= True

told :: Either BlockedIndefinitelyOnMVar a -> Bool
told = either (const True) (const False)

count :: IORef Int -> Int -> IO ()
count ref d = atomicModifyIORef' ref (\n -> (n + d, ()))
