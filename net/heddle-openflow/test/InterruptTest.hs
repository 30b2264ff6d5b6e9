{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : InterruptTest
-- Description : Interruption at every step of a connection's life
--
-- A time-out strikes after 0, 1, 2… parts of what the whole takes, so each step is met: listening, the handshake, a request and
-- its answer in parts, a commit, packet-ins, closing. Collections are forced meanwhile. Afterwards no descriptor is open that was
-- not open before, and no peer waits.
module InterruptTest
  ( interruptTests,
  )
where

import Control.Monad (forM, forM_, forever, replicateM_, unless, void, when)
import Data.ByteString qualified as B
import Heddle.IO (Runtime, systemRuntime, withRuntime)
import Heddle.IO qualified as IO
import Heddle.OpenFlow
import Heddle.OpenFlow.Controller
import Heddle.OpenFlow.FakeSwitch
import Heddle.OpenFlow.Learning
import Heddle.OpenFlow.Packet
import Heddle.Prim.Atomic
import Heddle.Prim.Clock
import Heddle.Prim.Exception
import Heddle.Scope qualified as Scope
import Heddle.Testkit.Ovs (waitFor)
import Heddle.Testkit.Watchdog (eventually)
import Heddle.Timer (timeout)
import Network.Socket (SockAddr (..), tupleToHostAddress)
import System.Directory (listDirectory)
import System.Mem (performMajorGC)
import Test.Tasty
import Test.Tasty.HUnit

interruptTests :: TestTree
interruptTests =
  testGroup
    "interruption"
    [ testCase "the controller's thread, at every step: nothing is left open, and the switch sees its end" controllerInterrupted,
      testCase "the switch's end, at every step: the controller keeps nothing of it" switchInterrupted,
      testCase "who asks, at every step: the switch is asked on, and no answer goes to another" askerInterrupted,
      testCase "aLateAnswerWasAMessage: an answer after its deadline is dropped" lateAnswer
    ]

local :: Config
local = defaultConfig {configAddress = SockAddrInet 0 (tupleToHostAddress (127, 0, 0, 1))}

open :: IO Int
open = length <$> listDirectory "/proc/self/fd"

-- Descriptors that are open after the body are those before it; a closed one may need a moment.
nothingLeft :: IO a -> IO a
nothingLeft body = do
  -- Its descriptors, which timers use, are opened once and never closed.
  _ <- systemRuntime
  before <- open
  result <- body
  performMajorGC
  waitFor ("the descriptors to be " ++ show before ++ " again") ((<= before) <$> open)
  pure result

learningHandlers :: IO (Controller -> Switch -> IO Handlers)
learningHandlers = learningSwitch defaultLearning <$> newWords 8

-- Answer as a switch does: flows in three parts, everything else that fakeReceive knows.
answering :: FakeSwitch -> IO ()
answering fake =
  fakeReceive fake >>= \case
    Left FakeClosed -> pure ()
    Left FakeLate -> throwIO FakeLate
    Right (xid, MultipartRequest _ (FlowRequest _)) -> do
      forM_ [1, 1, 0] $ \more -> fakeSend fake xid (MultipartReply more (FlowReply []))
      answering fake
    Right _ -> answering fake

-- All that happens to a switch.
life :: FakeSwitch -> Switch -> IO ()
life fake switch = do
  fakePacketIn fake NoBuffer (PortNo 1) (ethernet (Mac 2) (Mac 1) 0x0800 (B.replicate 50 0))
  void (request switch (askFlows allFlows))
  void (commit switch [flowDelete matchAll, flowAdd 1 matchAll []])
  void (request switch askBarrier)

theSwitch :: Controller -> IO Switch
theSwitch controller = head <$> eventually "the switch" (switches controller) (not . null)

-- The last switch has left, so that the next one is not taken for it.
noSwitch :: Controller -> IO ()
noSwitch controller = waitFor "no switch" (null <$> switches controller)

-- Run an action with time-outs that grow until it ends by itself three times; for a slow machine by ever larger steps.
atEveryStep :: (Int -> IO (Maybe ())) -> IO ()
atEveryStep attempt = go (0 :: Int) 0 0
  where
    go ended microseconds' count = unless (ended >= 3 || count >= (400 :: Int)) $ do
      r <- attempt microseconds'
      when (count `rem` 8 == 0) performMajorGC
      go (maybe ended (const (ended + 1)) r) (microseconds' + 50 + microseconds' `quot` 20) (count + 1)

after' :: Int -> Nanos
after' n = nanos (n * 1000)

controllerInterrupted :: IO ()
controllerInterrupted = withRuntime IO.defaultConfig $ \runtime -> nothingLeft $
  forM_ [OF10, OF13] $ \v -> atEveryStep $ \d -> do
    handlers <- learningHandlers
    Scope.withScope $ \scope -> do
      peers <- newRef []
      r <- timeout (after' d) $
        withController runtime local handlers $ \controller -> do
          ready <- newRef Nothing
          peer <- Scope.fork scope . trySync $
            withFakeSwitch runtime (controllerAddress controller) (fakeSwitch 3) {fakeVersions = [v]} $ \fake -> writeRef ready (Just fake) >> answering fake
          modifyRef peers (\p -> (peer : p, ()))
          switch <- theSwitch controller
          waitFor "the fake switch" ((\case Just _ -> True; Nothing -> False) <$> readRef ready)
          readRef ready >>= mapM_ (`life` switch)
      -- Whatever the controller was doing: its peer comes to an end.
      started <- readRef peers
      forM_ started $ \peer -> timeout (seconds 20) (Scope.await peer) >>= maybe (assertFailure ("a peer waits after " ++ show d ++ " us")) (const (pure ()))
      pure r

switchInterrupted :: IO ()
switchInterrupted = withRuntime IO.defaultConfig $ \runtime -> nothingLeft $ do
  handlers <- learningHandlers
  withController runtime local handlers $ \controller -> do
    forM_ [OF10, OF13] $ \v -> atEveryStep $ \d -> do
      noSwitch controller
      timeout (after' d) . Scope.withScope $ \scope ->
        withFakeSwitch runtime (controllerAddress controller) (fakeSwitch 3) {fakeVersions = [v]} $ \fake -> do
          _ <- Scope.fork scope (trySync (answering fake))
          switch <- theSwitch controller
          life fake switch
    -- The controller may still have to accept a connection whose switch has left.
    waitFor "no switch, and as many ended as connected" $ do
      none <- null <$> switches controller
      counted <- controllerCounts controller
      pure (none && countConnected counted == countEnded counted)

withAnswering :: Runtime -> Controller -> Version -> (FakeSwitch -> Switch -> IO a) -> IO a
withAnswering runtime controller v body = do
  noSwitch controller
  withFakeSwitch runtime (controllerAddress controller) (fakeSwitch 3) {fakeVersions = [v]} $ \fake -> Scope.withScope $ \scope -> do
    task <- Scope.fork scope (answering fake)
    switch <- theSwitch controller
    body fake switch <* Scope.cancel task

askerInterrupted :: IO ()
askerInterrupted = withRuntime IO.defaultConfig $ \runtime -> do
  handlers <- learningHandlers
  withController runtime local handlers $ \controller -> forM_ [OF10, OF13] $ \v -> nothingLeft . withAnswering runtime controller v $ \_ switch -> do
    atEveryStep $ \d -> timeout (after' d) $ do
      r <- request switch (askFlows allFlows)
      c <- commit switch [flowDelete matchAll, flowAdd 1 matchAll []]
      (r, c) @?= (Right [], Right ())
    -- Several at once, cancelled in the middle.
    Scope.withScope $ \scope -> do
      tasks <- forM [1 .. 8 :: Int] $ \_ -> Scope.fork scope (forever (request switch (askFlows allFlows)))
      replicateM_ 3 performMajorGC
      mapM_ Scope.cancel tasks
    request switch (askEcho "still there") >>= (@?= Right "still there")

lateAnswer :: IO ()
lateAnswer = withRuntime IO.defaultConfig $ \runtime -> do
  seen <- newRef []
  let handlers _ _ = pure noHandlers {onMessage = \xid m -> modifyRef seen (\s -> ((xid, m) : s, ()))}
  withController runtime local handlers $ \controller ->
    withFakeSwitch runtime (controllerAddress controller) (fakeSwitch 4) $ \fake -> do
      switch <- theSwitch controller
      soon <- deadlineIn (milliseconds 50)
      requestUntil switch soon (askFlows allFlows) >>= (@?= Left NoAnswer)
      asked <- fakeReceiveWhere fake (\xid m -> case m of MultipartRequest _ _ -> Just xid; _ -> Nothing) >>= either throwIO pure
      fakeSend fake asked (MultipartReply 0 (FlowReply []))
      -- An answer to a question of the user's own, and an error, are messages.
      fakeSend fake 7 (MultipartReply 0 (FlowReply []))
      fakeSend fake asked (ErrorMessage (ErrorKind 1 0) "late")
      waitFor "the error" ((== 2) . length <$> readRef seen)
      readRef seen >>= (@?= [(7, MultipartReply 0 (FlowReply [])), (asked, ErrorMessage (ErrorKind 1 0) "late")]) . reverse
