-- | Exceptions: always the leftmost, never lost.
module ExceptionTest (tests) where

import Control.Exception (ErrorCall (..), Exception (..), SomeException, evaluate, throw, throwIO, try)
import Control.Monad (forM_, unless, void)
import Data.IORef (atomicModifyIORef', newIORef, readIORef)
import Heddle.Par qualified as Par
import Heddle.Par.IO hiding (try)
import Heddle.Par.IO qualified as ParIO
import Test.QuickCheck (generate, resize, suchThat)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertFailure, testCase, (@?=))
import Trees

tests :: TestTree
tests =
  testGroup
    "exceptions"
    [ testCase "100,000 injected, always the leftmost" injected,
      testCase "a fork's reaches the caller" forked,
      testCase "a spawn's reaches its reader, who may handle it" handled,
      testCase "a spawn's is not lost when nobody reads it" unread,
      testCase "to the right of a hit it is not seen, to the left it is" besideHit,
      testCase "what is right of a failure ends, what is left goes on" siblings,
      testCase "a second put is an error, always" twice,
      testCase "who waits for ever is told so" deadlock,
      testCase "a failed writer's readers do not hang the run" failedWriter,
      testCase "an error in a pure task" pureError,
      testCase "theExceptionIsItselfAnError" errorAsException,
      testCase "handledByOneReaderNotByTheOther" secondReader,
      testCase "aFailingSpawnAndAPut" putAgainstFailure,
      testCase "ParException catches each of the package's exceptions" everyChild
    ]

-- | What is thrown need not be an exception yet.
errorAsException :: IO ()
errorAsException = forM_ [1 .. 100 :: Int] $ \_ -> do
  got <- try . runParIO $ do
    fork (pure ())
    fork (liftIO (throwIO (error "boom" :: SomeException)))
  either (\(ErrorCall m) -> m) show got @?= "boom"

secondReader :: IO ()
secondReader = forM_ [1 .. 100 :: Int] $ \_ -> do
  got <- try . runParIO $ do
    v <- spawn (liftIO (throwIO (Boom 1)) :: ParIO Int)
    _ <- ParIO.try (get v) :: ParIO (Either Boom Int)
    get v
  got @?= Left (Boom 1)
  forked' <- try . runParIO $ do
    v <- spawn (liftIO (throwIO (Boom 2)) :: ParIO Int)
    fork (void (get v))
    either (\(Boom i) -> i) id <$> ParIO.try (get v)
  forked' @?= Left (Boom 2)

putAgainstFailure :: IO ()
putAgainstFailure = forM_ [1 .. 2000 :: Int] $ \_ -> do
  let answer = Par.runPar $ do
        v <- Par.spawn (parallel (Fail 1))
        Par.put v 1
        Par.get v
  got <- try (evaluate answer)
  got @?= Left MultiplePut

injected :: IO ()
injected = do
  forM_ [1, 2, 3, 8] $ \n -> onCapabilities n (go (25000 :: Int))
  where
    go left = unless (left <= 0) $ do
      t <- generate (resize 60 failingTree)
      got <- try (runParIO (parallelIO t))
      got @?= sequentially t
      pureTree <- generate (resize 60 (anyTree 3 `suchThat` isPure))
      gotPure <- try (evaluate (Par.runPar (parallel pureTree)))
      gotPure @?= sequentially pureTree
      mixed <- generate (resize 60 (anyTree 3))
      gotMixed <- try (runParIO (parallelIO mixed))
      gotMixed @?= sequentially mixed
      go (left - failures t - failures pureTree - failures mixed)

forked :: IO ()
forked = do
  got <- try (runParIO (fork (liftIO (throwIO (Boom 1))) >> pure ()))
  got @?= Left (Boom 1)

handled :: IO ()
handled = do
  got <- runParIO $ do
    v <- spawn (liftIO (throwIO (Boom 1)) :: ParIO Int)
    ParIO.try (get v)
  got @?= Left (Boom 1)

unread :: IO ()
unread = do
  got <- try (runParIO (void (spawn (liftIO (throwIO (Boom 1)) :: ParIO ()))))
  got @?= Left (Boom 1)

besideHit :: IO ()
besideHit = forM_ [1 .. 200 :: Int] $ \_ -> do
  right <- try (runParIO (leftmost [pure Nothing, pure (Just 'x'), liftIO (throwIO (Boom 1))]))
  right @?= (Right (Just 'x') :: Either Boom (Maybe Char))
  left <- try (runParIO (leftmost [pure Nothing, liftIO (throwIO (Boom 1)), pure (Just 'x')]))
  -- theSchedulerForcedTheResultOfASearch: which hung, masked.
  lazy <- try (runParIO (leftmost [pure Nothing, pure (throw (Boom 2)), pure (Just 'x')]))
  either (\(Boom n) -> n) (const 0) lazy @?= 2
  left @?= Left (Boom 1)

siblings :: IO ()
siblings = forM_ [1 .. 200 :: Int] $ \_ -> do
  ran <- newIORef (0 :: Int)
  gate <- newIORef False
  got <- try . runParIO $ do
    fork (liftIO (waitUntil gate) >> liftIO (atomicModifyIORef' ran (\n -> (n + 1, ()))))
    fork (liftIO (atomicModifyIORef' gate (const (True, ())) >> throwIO (Boom 1)))
    fork (liftIO forever')
  got @?= Left (Boom 1)
  readIORef ran >>= (@?= 1)
  where
    -- The left one may find that the right one has not begun: on one worker it runs first.
    waitUntil gate = spin (1000 :: Int)
      where
        spin 0 = pure ()
        spin k = readIORef gate >>= \open -> unless open (spin (k - 1))
    forever' = forever'' 0
    forever'' :: Integer -> IO ()
    forever'' n = evaluate (n + 1) >>= forever''

twice :: IO ()
twice = forM_ [1 .. 500 :: Int] $ \_ -> do
  let answer = Par.runPar $ do
        v <- Par.new
        Par.fork (Par.put v (1 :: Int))
        Par.fork (void (evaluateBoom 7))
        Par.fork (Par.put v 2)
        Par.get v
  got <- try (evaluate answer)
  got @?= Left MultiplePut
  where
    evaluateBoom i = Par.spawn (parallel (Fail i))

deadlock :: IO ()
deadlock = do
  got <- try (evaluate (Par.runPar (Par.new >>= Par.get)))
  (got :: Either BlockedOnIVar ()) @?= Left BlockedOnIVar
  inScope <- try (runParIO (scope (new >>= get)))
  (inScope :: Either BlockedOnIVar ()) @?= Left BlockedOnIVar

failedWriter :: IO ()
failedWriter = forM_ [1 .. 200 :: Int] $ \_ -> do
  got <- try . runParIO $ do
    v <- new
    scope (fork (liftIO (throwIO (Boom 3)) >> put v ()) >> get v)
  got @?= Left (Boom 3)

pureError :: IO ()
pureError = do
  got <- try (evaluate (Par.runPar (Par.spawn (pure (error "oh" :: Int)) >>= Par.get)))
  case got of
    Left (ErrorCall m) -> m @?= "oh"
    Right _ -> assertFailure "no exception"
  other <- try (runParIO (pure ())) :: IO (Either SomeException ())
  either (assertFailure . show) pure other

-- | Each is caught by the root and by its own type, and says the same either way; by the root
-- also where a run throws it.
everyChild :: IO ()
everyChild = do
  child MultiplePut (new >>= \v -> put v 'a' >> put v 'b' >> get v)
  child BlockedOnIVar (new >>= get)
  inside <- runParIO (ParIO.try (newFull 'a' >>= \v -> put v 'b' >> get v))
  either (\r -> displayException (r :: ParException)) show inside @?= displayException MultiplePut
  where
    child :: Exception e => e -> ParIO Char -> IO ()
    child e run = do
      own <- try (throwIO e)
      either (\o -> displayException (o `asTypeOf` e)) (\() -> "nothing") own @?= displayException e
      root <- try (runParIO run)
      either (\r -> displayException (r :: ParException)) show root @?= displayException e
