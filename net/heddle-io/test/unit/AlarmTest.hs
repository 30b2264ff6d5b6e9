-- | Alarms from one use to the next, at moments that callers cannot choose: a ringer that
-- comes late, a look of the loop while the alarm is lent again.
module AlarmTest (tests) where

import Control.Concurrent
import Control.Exception
import Control.Monad
import Data.IORef
import Harness
import Heddle.IO.Internal.Alarm
import Heddle.IO.Internal.Runtime (managerOn)
import Heddle.IO.Internal.Types
import Heddle.Prim.Atomic
import Heddle.Prim.Clock
import Test.Tasty
import Test.Tasty.HUnit

tests :: TestTree
tests =
  testGroup
    "Heddle.IO.Internal.Alarm"
    [ bothBackends "lateRingerReadTheLastUsesDeadline" $ \rt -> do
        alarm <- nextAlarm (managerOn rt 1)
        over <- newIORef False
        rung <- newIORef 0
        ringer <- forkTaskOn 1 (ringEveryUse alarm over rung)
        far <- late
        uses <- forkTaskOn 0 . forAWhile $ do
          passed <- monotonicNow
          _ <- timeoutOn (managerOn rt 1) passed (untilRung alarm rung)
          r <- timeoutOn (managerOn rt 1) far (untilRung alarm rung)
          r @?= Just ()
        joinTask uses `finally` writeIORef over True
        joinTask ringer,
      -- Without the order, about one round in ten million fails: this is a sample.
      bothBackends "lookDuringTheNextUseLeftItsDeadlineUnarmed" $ \rt -> do
        alarm <- nextAlarm (managerOn rt 1)
        far <- late
        uses <- forkTaskOn 0 (forAWhile (armedUse (managerOn rt 1) alarm far))
        joinTask uses
    ]

-- Again and again, for two seconds: on a busy machine rounds are few.
forAWhile :: IO () -> IO ()
forAWhile act = deadlineIn (seconds 2) >>= go
  where
    go end = do
      replicateM_ 4 act
      done <- isOver end
      unless done (go end)

-- The alarm that will be lent next, and again and again.
nextAlarm :: Manager -> IO Alarm
nextAlarm m = mask_ (borrowAlarm m >>= \alarm -> alarm <$ returnAlarm alarm)

-- Rings for each use as soon as the use can be seen.
ringEveryUse :: Alarm -> IORef Bool -> IORef Int -> IO ()
ringEveryUse alarm over rung = mask_ go
  where
    go = do
      look 1000
      -- The borrower kills who rings for it.
      _ <- try allowInterrupt :: IO (Either AsyncException ())
      yield
      done <- readIORef over
      unless done go
    look :: Int -> IO ()
    look n = when (n > 0) $ do
      before <- readIORef rung
      readRef (alarmState alarm) >>= \case
        AlarmArmed use _ | use > before -> do
          slotResume (alarmSlot alarm) (alarmSlot alarm)
          writeIORef rung use
        _ -> look (n - 1)

-- The body of a use that lasts until the ringer is through with it.
untilRung :: Alarm -> IORef Int -> IO ()
untilRung alarm rung = do
  use <-
    readRef (alarmState alarm) >>= \case
      AlarmIdle _ -> assertFailure "another alarm was lent"
      AlarmArmed n _ -> pure n
      AlarmRinging n _ -> pure n
  waitUntilTrue ((>= use) <$> readIORef rung)

-- A use whose deadline has passed, so that the loop has a look at it, and at once one with a
-- later deadline than the armed one: after whatever the loop has seen, it must be armed.
armedUse :: Manager -> Alarm -> Deadline -> IO ()
armedUse m alarm far = do
  passed <- monotonicNow
  mask_ (withCellUntil m passed (\_ -> pure ()))
  mask_ . withCellUntil m far $ \_ -> do
    -- The loop may be at it.
    replicateM_ 100 isArmed
    waitArmed
  where
    waitArmed = do
      armed <- isArmed
      unless armed $ do
        isOver far >>= assertBool "nobody will look at the deadline" . not
        yield
        waitArmed
    isArmed = (< maxBound) <$> atomicRead (slotWords (alarmSlot alarm)) SlotArmed
