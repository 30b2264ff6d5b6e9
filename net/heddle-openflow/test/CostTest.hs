{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : CostTest
-- Description : What a packet-in allocates
module CostTest
  ( costTests,
  )
where

import Control.Monad (forM, forM_, when)
import Data.ByteString qualified as B
import Heddle.IO (withRuntime)
import Heddle.IO qualified as IO
import Heddle.OpenFlow
import Heddle.OpenFlow.Controller
import Heddle.OpenFlow.FakeSwitch
import Heddle.OpenFlow.Learning
import Heddle.OpenFlow.Packet
import Heddle.Prim.Atomic
import Heddle.Scope qualified as Scope
import Heddle.Testkit.Ovs (waitFor)
import Network.Socket (SockAddr (..), tupleToHostAddress)
import System.Mem (getAllocationCounter)
import Test.Tasty
import Test.Tasty.HUnit

costTests :: TestTree
costTests = testGroup "cost" [testCase ("learning allocates nothing for a packet-in (" ++ show v ++ ")") (learningAllocates v) | v <- [OF10, OF13]]

-- The counter is that of the thread that reads the switch. What it allocates for each wake-up is shared by the packet-ins of a
-- batch; a boxed number for each packet-in would be 16 bytes, a thunk 32.
learningAllocates :: Version -> IO ()
learningAllocates v = withRuntime IO.defaultConfig $ \runtime -> do
  marks <- newWords 3
  counts <- newWords 8
  let handlers controller switch = do
        base <- learningSwitch defaultLearning counts controller switch
        -- Messages before and after the packet-ins mark their begin and end: the test does nothing between them.
        pure base {onMessage = \xid _ -> when (xid `elem` [1, 2]) (getAllocationCounter >>= writeRelease marks (fromIntegral xid) . fromIntegral)}
      config = defaultConfig {configAddress = SockAddrInet 0 (tupleToHostAddress (127, 0, 0, 1))}
  withController runtime config handlers $ \controller ->
    withFakeSwitch runtime (controllerAddress controller) (fakeSwitch 5) {fakeVersions = [v]} $ \fake -> Scope.withScope $ \scope -> do
      -- The learning switch has asked for a barrier before it answers this. A reader would answer the barrier while the other thread is
      -- sending: it would wait for that thread, which waits for the controller, which waits for the reader.
      fakeSend fake 3 (EchoRequest "")
      fakeReceiveWhere fake (\_ m -> case m of EchoReply _ -> Just (); _ -> Nothing) >>= (@?= Right ())
      reader <- Scope.fork scope (fakeReceiveWhere fake (\_ _ -> Nothing :: Maybe ()))
      -- Hosts that are known, unknown, and behind the port that they were sent from.
      batch <- either (assertFailure . show) (pure . B.concat) (mapM (encode v 0 . packet) [1 .. perBatch])
      let mark xid = fakeSend fake xid (ErrorMessage (ErrorKind 1 0) "")
      forM_ [1 .. 4 :: Int] $ \_ -> fakeSendBytes fake batch
      measured <- forM [1 .. 3 :: Int] $ \_ -> do
        writeWord marks 2 0
        mark 1
        forM_ [1 .. batches] $ \_ -> fakeSendBytes fake batch
        mark 2
        waitFor "the packet-ins" ((/= 0) <$> readAcquire marks 2)
        before <- readWord marks 1
        after' <- readWord marks 2
        -- The counter counts down.
        pure (fromIntegral (before - after') / fromIntegral (batches * perBatch) :: Double)
      Scope.cancel reader
      -- On a busy machine batches are cut into more wake-ups; what each packet-in allocates is in each measurement.
      assertBool (show measured ++ " bytes for each packet-in") (minimum measured < 8)
  where
    perBatch = 500
    batches = 100 :: Int
    packet :: Int -> Message
    packet i =
      let place = toInteger (i `rem` 4 + 1)
          bytes = ethernet (Mac (fromIntegral ((i * 7) `rem` 120))) (Mac (fromIntegral (i `rem` 100))) 0x0800 (B.replicate 50 0)
       in PacketInMessage (PacketIn (fromIntegral i) 64 ReasonNoMatch 0 0 (Match [oxm InPort place]) bytes)
