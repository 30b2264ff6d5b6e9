-- | Tasks, cells, scopes and hooks, through the public interface.
module TaskTest (tests) where

import Control.Concurrent (forkIO, myThreadId, newEmptyMVar, putMVar, takeMVar, throwTo)
import Control.Exception (ErrorCall (..), Exception (..), SomeException, throwIO, try)
import Control.Monad (forM_)
import Data.IORef (IORef, atomicModifyIORef', newIORef, readIORef)
import Heddle.Sched
import System.Timeout (timeout)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (Assertion, assertFailure, testCase, (@?=))

tests :: TestTree
tests =
  testGroup
    "tasks"
    [ testCase "a spawned task's result is read from its cell" spawned,
      testCase "a cell written twice ends the run with MultiplePut" twice,
      testCase "ParException catches MultiplePut" rooted,
      testCase "a run that waits for a cell that nobody writes is stalled" stalled,
      testCase "a run ends when its last fork has ended" forked,
      testCase "what a forked task throws fails the run" thrown,
      testCase "what a hooked task throws goes to its hook and not to the scope" hooked,
      testCase "what is thrown at the caller comes back as Interrupted" interrupted,
      testCase "a scope hands over its failure" failed
    ]

end :: IORef Int -> Body ()
end done w k = atomicModifyIORef' done (\n -> (n + 1, ())) >> k w ()

finished :: Result a -> IO a
finished = \case
  Done a -> pure a
  Stalled -> assertFailure "stalled"
  Thrown e -> assertFailure (show e)
  Interrupted e -> assertFailure ("interrupted: " ++ show e)

spawned :: Assertion
spawned = do
  total <- runBody GoOn (sums 14) >>= finished
  total @?= 2 ^ (14 :: Int)
  where
    sums :: Int -> Body Int
    sums 0 worker continue = continue worker 1
    sums n worker continue =
      spawn (sums (n - 1)) worker $ \parent cell ->
        sums (n - 1) parent $ \reader a ->
          readCell cell reader $ \final b -> continue final $! a + b

twice :: Assertion
twice =
  runBody GoOn body >>= \case
    Thrown e | Just MultiplePut <- fromException e -> pure ()
    _ -> assertFailure "no MultiplePut"
  where
    body :: Body ()
    body w k = do
      cell <- newFullCell 'a'
      writeCell cell 'b' w k

rooted :: Assertion
rooted = do
  caught <- try (throwIO MultiplePut)
  either (\e -> displayException (e :: ParException)) (\() -> "nothing") caught @?= displayException MultiplePut

stalled :: Assertion
stalled =
  runBody GoOn (\w k -> newCell >>= \cell -> readCell cell w (\w' () -> k w' ())) >>= \case
    Stalled -> pure ()
    _ -> assertFailure "not stalled"

forked :: Assertion
forked = do
  done <- newIORef 0
  let go :: Int -> Body ()
      go 0 w k = k w ()
      go n w k = fork (end done) w (\w' () -> go (n - 1) w' k)
  runBody GoOn (go 1000) >>= finished
  readIORef done >>= (@?= 1000)

thrown :: Assertion
thrown = forM_ [fork, \p w k -> forkStolen p w (\w' _ -> k w' ())] $ \begin ->
  runBody CancelRight (begin (\_ _ -> throwIO (ErrorCall "task"))) >>= \case
    Thrown e | Just (ErrorCall "task") <- fromException e -> pure ()
    _ -> assertFailure "the failure is lost"

hooked :: Assertion
hooked = do
  seen <- newIORef []
  let hook :: Worker -> Int -> SomeException -> IO ()
      hook _ i e = atomicModifyIORef' seen (\es -> ((i, fromException e) : es, ()))
      body :: Body Char
      body w k = do
        scope <- taskScope <$> runningTask w
        pushHere w (workOf (hookedTask 7 scope hook) (\_ () -> throwIO (ErrorCall "hooked")) ())
        k w 'z'
  runBody CancelRight body >>= finished >>= (@?= 'z')
  readIORef seen >>= (@?= [(7, Just (ErrorCall "hooked"))])

interrupted :: Assertion
interrupted = do
  caller <- myThreadId
  gate <- newEmptyMVar
  r <- timeout 60000000 . runBody GoOn $ \w k -> do
    _ <- forkIO (throwTo caller (ErrorCall "stop"))
    takeMVar gate
    k w ()
  putMVar gate ()
  case r of
    Just (Interrupted e) | Just (ErrorCall "stop") <- fromException e -> pure ()
    _ -> assertFailure "the caller's exception is lost"

failed :: Assertion
failed = do
  r <-
    runBody GoOn $ \w k ->
      scoped OpenScope (\_ _ -> throwIO (ErrorCall "inside") :: IO ()) w $ \w' (s, out) -> case out of
        Broken f -> handleFailures s >> k w' (fromException (failureThrown f))
        _ -> k w' Nothing
  finished r >>= (@?= Just (ErrorCall "inside"))
