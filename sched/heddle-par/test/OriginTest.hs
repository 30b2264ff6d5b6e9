-- | Whose exception it is: known by how it came, never by its type.
module OriginTest (tests) where

import Control.Concurrent (forkIO, forkIOWithUnmask, myThreadId, newEmptyMVar, putMVar, takeMVar, throwTo, yield)
import Control.Exception
  ( AsyncException (..),
    ErrorCall (..),
    Exception (..),
    SomeException,
    asyncExceptionFromException,
    asyncExceptionToException,
    bracket_,
    evaluate,
    finally,
    mask_,
    throw,
    throwIO,
    try,
  )
import Control.Monad (forM_, forever, replicateM_, void)
import Data.IORef (atomicModifyIORef', newIORef, readIORef)
import Heddle.Par qualified as Par
import Heddle.Par.IO hiding (try)
import Heddle.Par.IO qualified as ParIO
import System.Exit (ExitCode (..))
import System.IO.Unsafe (unsafePerformIO)
import System.Timeout (timeout)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, testCase, (@?=))
import Trees (onCapabilities)

tests :: TestTree
tests =
  testGroup
    "whose exception"
    [ testCase "theTypeDecidedWhoseExceptionItWas" leftmostWhateverType,
      testCase "tryDidNotCatchATasksOwnExit" caughtInTask,
      testCase "a pure task's exception is its own, whatever its type" purely,
      testCase "aHandlerThatThrowsAgainHidWhereItCameFrom" outside,
      testCase "a handler inside pure code does not, either" outsidePure,
      testCase "an exception of an ordinary type may be thrown at a caller" ordinaryOutside,
      testCase "a time-out inside a task is that task's" timeoutInside
    ]

-- | As the async package's.
data Cancelled = Cancelled
  deriving stock (Eq, Show)

instance Exception Cancelled where
  toException = asyncExceptionToException
  fromException = asyncExceptionFromException

types :: [SomeException]
types =
  [ toException (ExitFailure 3),
    toException ExitSuccess,
    toException UserInterrupt,
    toException ThreadKilled,
    toException StackOverflow,
    toException HeapOverflow,
    toException Cancelled
  ]

onEach :: IO () -> IO ()
onEach body = forM_ [1, 2, 4] $ \n -> onCapabilities n body

leftmostWhateverType :: IO ()
leftmostWhateverType = onEach . forM_ types $ \e -> replicateM_ 300 $ do
  inOrder (toException (ErrorCall "left")) e
  inOrder e (toException (ErrorCall "right"))
  where
    -- The left task cannot fail before the right one has begun, so each has its chance.
    inOrder left right = do
      thrown <- try . runParIO $ do
        begun <- new
        fork (get begun >> liftIO (throwIO left))
        fork (put begun () >> liftIO (throwIO right))
      shown thrown @?= show left

caughtInTask :: IO ()
caughtInTask = onEach . forM_ types $ \e -> replicateM_ 300 $ do
  direct <- runParIO (ParIO.try (liftIO (throwIO e) :: ParIO ()))
  shown direct @?= show e
  spawned <- runParIO $ do
    v <- spawn (liftIO (throwIO e) :: ParIO ())
    ParIO.try (get v)
  shown spawned @?= show e

purely :: IO ()
purely = onEach . forM_ types $ \e -> replicateM_ 300 $ do
  let value = Par.runPar $ do
        a <- Par.spawn (pure (sum [1 .. 50 :: Int]))
        b <- Par.spawn (pure $! throw e)
        c <- Par.spawn (pure $! errorWithoutStackTrace "right")
        sum <$> mapM Par.get [a, b, c]
  first <- try (evaluate value)
  shown first @?= show e
  again <- try (evaluate value)
  shown again @?= show e
  let left = Par.runPar $ do
        a <- Par.spawn (pure $! errorWithoutStackTrace "left")
        b <- Par.spawn (pure $! throw e)
        (+) <$> Par.get a <*> Par.get b
  other <- try (evaluate (left :: Int))
  shown other @?= "left"

-- | Everything in the tasks throws again what comes by, and tasks fail, too, and try to
-- handle everything; the caller is told nevertheless, and all tasks have ended.
outside :: IO ()
outside = onEach . forM_ types $ \e -> forM_ [1 .. 100 :: Int] $ \i -> do
  live <- newIORef (0 :: Int)
  let busy = bracket_ (change live 1) (change live (-1)) (forever yield `finally` pure ())
  (r, n) <- hit e i (readIORef live) . runParIO . void $ do
    v <- spawn (liftIO busy :: ParIO ())
    w <- spawn (ParIO.try (liftIO busy) :: ParIO (Either SomeException ()))
    fork (liftIO busy)
    _ <- ParIO.try (void (get w) >> get v) :: ParIO (Either SomeException ())
    liftIO busy
  (shown r, n) @?= (show e, 0)
  where
    change live d = atomicModifyIORef' live (\k -> (k + d, ()))

outsidePure :: IO ()
outsidePure = onEach . forM_ types $ \e -> forM_ [1 .. 15 :: Int] $ \i -> do
  turns <- newIORef 0
  -- The handler makes the kill part of the value, so no two may share one, and GHC shares what does not depend on k.
  let endless k = unsafePerformIO (bracket_ (pure ()) (pure ()) (forever (atomicModifyIORef' turns (\n -> (n + k, ())) >> yield))) :: Int
      value = Par.runPar (mapM (\k -> Par.spawn (pure $! endless k)) [i .. i + 3] >>= mapM Par.get)
  (r, ()) <- hit e i (pure ()) (evaluate (sum value))
  shown r @?= show e

ordinaryOutside :: IO ()
ordinaryOutside = onEach . forM_ [1 .. 200 :: Int] $ \i -> do
  (r, ()) <- hit (toException (ErrorCall "outside")) i (pure ()) . runParIO $ do
    fork (void (ParIO.try (liftIO (forever yield)) :: ParIO (Either SomeException ())))
    liftIO (forever yield) :: ParIO ()
  shown r @?= "outside"

-- | Throw at a run that never ends, after a while, which is different every time.
hit :: SomeException -> Int -> IO b -> IO a -> IO (Either SomeException a, b)
hit e i after body = do
  done <- newEmptyMVar
  t <- mask_ $
    forkIOWithUnmask $ \unmask -> do
      r <- try (unmask body)
      b <- after
      putMVar done (r, b)
  replicateM_ (i * 7 `mod` 60) yield
  _ <- forkIO (throwTo t e)
  timeout 60000000 (takeMVar done) >>= maybe (fail "the run does not end") pure

timeoutInside :: IO ()
timeoutInside = onEach . replicateM_ 20 $ do
  me <- myThreadId
  (r, other) <- runParIO $ do
    v <- spawn (liftIO (timeout 500 (forever yield)) :: ParIO (Maybe ()))
    w <- liftIO myThreadId
    r <- get v
    pure (r, w /= me)
  r @?= Nothing
  assertBool "no task runs on its caller's thread" other

shown :: Either SomeException a -> String
shown = either show (const "no exception")
