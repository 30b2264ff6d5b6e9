-- | Pooled timers between two uses, at moments that callers cannot choose: a late firer, or a
-- check by the loop while the timer is borrowed again.
module PooledTimerTest (tests) where

import Control.Concurrent
import Control.Exception
import Control.Monad
import Data.IORef
import Harness
import Heddle.IO.Internal.PooledTimer
import Heddle.IO.Internal.Runtime (managerOn)
import Heddle.IO.Internal.Types
import Heddle.Prim.Atomic
import Heddle.Prim.Clock
import Test.Tasty
import Test.Tasty.HUnit

tests :: TestTree
tests =
  testGroup
    "Heddle.IO.Internal.PooledTimer"
    [ bothBackends "lateRingerReadTheLastUsesDeadline" $ \rt -> do
        pooled <- nextTimer (managerOn rt 1)
        over <- newIORef False
        rung <- newIORef 0
        firer <- forkTaskOn 1 (ringEveryUse pooled over rung)
        far <- late
        uses <- forkTaskOn 0 . forAWhile $ do
          passed <- monotonicNow
          _ <- timeoutOn (managerOn rt 1) passed (untilRung pooled rung)
          r <- timeoutOn (managerOn rt 1) far (untilRung pooled rung)
          r @?= Just ()
        joinTask uses `finally` writeIORef over True
        joinTask firer,
      -- Without the order, about one round in ten million fails: this is a sample.
      bothBackends "lookDuringTheNextUseLeftItsDeadlineUnarmed" $ \rt -> do
        pooled <- nextTimer (managerOn rt 1)
        far <- late
        uses <- forkTaskOn 0 (forAWhile (armedUse (managerOn rt 1) pooled far))
        joinTask uses
    ]

-- Repeat for two seconds: on a busy machine that is only a few rounds.
forAWhile :: IO () -> IO ()
forAWhile act = deadlineIn (seconds 2) >>= go
  where
    go end = do
      replicateM_ 4 act
      done <- isOver end
      unless done (go end)

-- The pooled timer that every following use will borrow.
nextTimer :: Manager -> IO PooledTimer
nextTimer m = mask_ (borrowTimer m >>= \pooled -> pooled <$ returnTimer pooled)

-- Fires each use as soon as its state is visible.
ringEveryUse :: PooledTimer -> IORef Bool -> IORef Int -> IO ()
ringEveryUse pooled over rung = mask_ go
  where
    go = do
      look 1000
      -- The borrower kills the thread that fires.
      _ <- try allowInterrupt :: IO (Either AsyncException ())
      yield
      done <- readIORef over
      unless done go
    look :: Int -> IO ()
    look n = when (n > 0) $ do
      before <- readIORef rung
      readRef (pooledState pooled) >>= \case
        TimerArmed use _ | use > before -> do
          registrationResume (pooledRegistration pooled) (pooledRegistration pooled)
          writeIORef rung use
        _ -> look (n - 1)

-- The body of a use that lasts until the firer has finished with it.
untilRung :: PooledTimer -> IORef Int -> IO ()
untilRung pooled rung = do
  use <-
    readRef (pooledState pooled) >>= \case
      TimerIdle _ -> assertFailure "another timer was lent"
      TimerArmed n _ -> pure n
      TimerFiring n _ -> pure n
  waitUntilTrue ((>= use) <$> readIORef rung)

-- A use whose deadline has passed, so that the loop checks it, and directly after it one with a
-- later deadline than the armed one. Whatever the loop has read, the second use must be armed.
armedUse :: Manager -> PooledTimer -> Deadline -> IO ()
armedUse m pooled far = do
  passed <- monotonicNow
  mask_ (withCellOn m passed (\_ -> pure ()))
  mask_ . withCellOn m far $ \_ -> do
    -- The loop may be checking it now.
    replicateM_ 100 isArmed
    waitArmed
  where
    waitArmed = do
      armed <- isArmed
      unless armed $ do
        isOver far >>= assertBool "the deadline is armed" . not
        yield
        waitArmed
    isArmed = (< maxBound) <$> atomicRead (registrationWords (pooledRegistration pooled)) RegistrationArmed
