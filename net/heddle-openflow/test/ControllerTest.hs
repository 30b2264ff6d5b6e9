{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : ControllerTest
-- Description : The controller and fake switches, good and bad ones
module ControllerTest
  ( controllerTests,
  )
where

import Control.Concurrent.MVar (newEmptyMVar, putMVar, readMVar)
import Control.Monad (forM, forM_, void, when)
import Data.Bits (xor)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as Char8
import Data.Set qualified as Set
import GHC.Conc (getUncaughtExceptionHandler, setUncaughtExceptionHandler)
import Heddle.Bytes.Hash (newKey)
import Heddle.IO (Runtime, withRuntime)
import Heddle.IO qualified as IO
import Heddle.IO.Transport (Opened (..), Opening)
import Heddle.OpenFlow
import Heddle.OpenFlow.Controller
import Heddle.OpenFlow.FakeSwitch
import Heddle.OpenFlow.Learning
import Heddle.OpenFlow.Load
import Heddle.OpenFlow.Northbound
import Heddle.OpenFlow.Packet
import Heddle.OpenFlow.Topology
import Heddle.Prim.Atomic
import Heddle.Prim.Clock
import Heddle.Prim.Exception
import Heddle.Prim.Histogram (greatest, quantile, valueCount)
import Heddle.Scope qualified as Scope
import Heddle.Testkit.Ovs (waitFor)
import Heddle.Timer (sleepFor, timeout)
import Network.Socket (SockAddr (..), tupleToHostAddress)
import Test.QuickCheck hiding (within)
import Test.Tasty
import Test.Tasty.HUnit
import Test.Tasty.QuickCheck (testProperty)

controllerTests :: TestTree
controllerTests =
  testGroup
    "controller"
    [ testGroup "the learning switch answers each packet-in" [within' (show v) (learns v) | v <- [OF10, OF13]],
      within' "a message with a length below 8: an error, and that switch only is closed" (oneBad (\fake -> fakeSendBytes fake (header fake 10 4)) isBroken),
      within' "a message of another version: an error, and that switch only is closed" (oneBad (\fake -> fakeSendBytes fake (B.pack [9, 10, 0, 8, 0, 0, 0, 1])) isBroken),
      within' "a body that cannot be decoded is counted and given raw, and the stream goes on" undecodable,
      within' "a first message that is no hello is answered by an error" (noHello (B.pack [1, 5, 0, 8, 0, 0, 0, 1])),
      within' "anotherProtocolsLengthWasWaitedFor: so is a client of HTTP, at once" (noHello "GET / HTTP/1.1\r\n\r\n"),
      within' "a handler's exception closes its switch only, with the reason" handlerFails,
      within' "a duplicate of a datapath is refused while the first is alive, and replaces a silent one" duplicates,
      within' "a silent switch is asked for an echo, and closed" silent,
      within' "a switch that does not read: its mailbox is full, then it is closed" notReading,
      within' "requests end with the connection, and by their deadline" requestsEnd,
      within' "an answer of more than 16 MiB is given up, and the switch stays" tooBig,
      within' "two bodies ask each other's switches, and packet-ins meanwhile are bounded" bodiesAsk,
      within' "a body that returns early does not hold its switch" (bodyEnds (\_ -> pure ())),
      within' "a body that never looks is cancelled when the controller stops" (bodyEnds (\feed -> void (recvUntil feed never) >> bodyForever)),
      within' "a hundred switches at once, all served, no connection is left" manySwitches,
      within' "stoppingInterruptedWhatTellsHandlersOfTheEnd" stopped,
      within' "aHandlerThatFailedAtTheEndWasSilent" endFails,
      within' "every request is answered and counted once" loaded,
      within' "metrics and JSON" northbounds,
      within' "an opening that refuses is told, and nothing is left" refusedOpening,
      testGroup
        "topology"
        [ testProperty "a spanning tree connects what the links connect, without a ring" treeLaw,
          testProperty "the next hop leads to the goal" hopLaw,
          testProperty "a forged probe makes no link" forged
        ]
    ]

-- Whoever changes a byte of a probe, or signs with another key, names no other place with it.
forged :: Property
forged = forAll ((,,,) <$> choose (1, 1000000) <*> choose (1, 1000) <*> choose (14, 59) <*> choose (1, 255)) $ \(datapath, port, at, change) -> ioProperty $ do
  key <- newKey
  other <- newKey
  let probe = probeFrame key datapath (PortNo port)
      changed = B.concat [B.take at probe, B.singleton (B.index probe at `xor` change), B.drop (at + 1) probe]
  pure $
    (readProbe key probe, readProbe other probe) === (Just (datapath, PortNo port), Nothing)
      .&&. (readProbe key changed `elem` [Nothing, Just (datapath, PortNo port)])

within' :: String -> IO () -> TestTree
within' name body = testCase name (timeout (seconds 60) body >>= maybe (assertFailure "took more than a minute") pure)

withIO :: (Runtime -> IO a) -> IO a
withIO = withRuntime IO.defaultConfig

local :: Config
local = defaultConfig {configAddress = SockAddrInet 0 (tupleToHostAddress (127, 0, 0, 1)), configPatience = seconds 20}

withLearning :: Config -> (Runtime -> Controller -> Ref [Event] -> IO a) -> IO a
withLearning config body = withIO $ \runtime -> do
  events <- newRef []
  counts <- newWords 8
  let config' = config {configTell = \e -> modifyRef events (\es -> (e : es, ()))}
  withController runtime config' (learningSwitch defaultLearning counts) $ \controller -> body runtime controller events

-- The event waits longer than the controller does between two interruptions of its handlers; that is no synchronisation, as a shorter wait
-- only finds less.
stopped :: IO ()
stopped = withIO $ \runtime -> Scope.withScope $ \scope -> do
  ended <- newRef (0 :: Int)
  over <- newEmptyMVar
  let slow = \case
        Ended _ _ -> sleepFor (milliseconds 300)
        _ -> pure ()
  withController runtime local {configTell = slow} (\_ _ -> pure noHandlers {onDown = \_ -> modifyRef ended (\n -> (n + 1, ()))}) $ \controller -> do
    forM_ [1 .. 4] $ \d -> Scope.fork scope (withFakeSwitch runtime (controllerAddress controller) (fakeSwitch d) (\_ -> readMVar over))
    waitFor "four switches" ((== 4) . length <$> switches controller)
  readRef ended >>= (@?= 4)
  putMVar over ()

endFails :: IO ()
endFails = do
  reported <- newRef []
  let add e = modifyRef reported (\es -> (describeException e : es, ()))
  bracket (getUncaughtExceptionHandler <* setUncaughtExceptionHandler add) setUncaughtExceptionHandler $ \_ -> withIO $ \runtime ->
    withController runtime local (\_ _ -> pure noHandlers {onDown = \_ -> throwIO (userError "the end")}) $ \controller ->
      withFakeSwitch runtime (controllerAddress controller) (fakeSwitch 1) (\_ -> waitFor "a switch" ((== 1) . length <$> switches controller))
  readRef reported >>= (@?= ["user error (the end)"])

frameOf :: Int -> Int -> ByteString
frameOf source destination = ethernet (Mac (fromIntegral destination)) (Mac (fromIntegral source)) 0x0800 (B.replicate 50 0)

-- The next packet-out or flow modification.
answerOf :: FakeSwitch -> IO Message
answerOf fake =
  fakeReceiveWhere fake wanted >>= either (assertFailure . show) pure
  where
    wanted _ = \case
      m@(PacketOutMessage _) -> Just m
      m@(FlowModMessage f) | flowModCommand f == FlowAdd && flowModPriority f > 0 -> Just m
      _ -> Nothing

learns :: Version -> IO ()
learns v = withLearning local $ \runtime controller _ ->
  withFakeSwitch runtime (controllerAddress controller) (fakeSwitch 5) {fakeVersions = [v]} $ \fake -> do
    fakeVersion fake @?= v
    -- Unknown: flooded.
    fakePacketIn fake 11 (PortNo 1) (frameOf 1 2)
    answerOf fake >>= \case
      PacketOutMessage out -> (packetOutBuffer out, packetOutActions out) @?= (11, [Output PortFlood 0])
      other -> assertFailure (show other)
    -- Known, and kept by the switch: one flow, which takes the packet.
    fakePacketIn fake 12 (PortNo 2) (frameOf 2 1)
    answerOf fake >>= \case
      FlowModMessage f -> do
        (flowModBuffer f, flowModInstructions f) @?= (12, [ApplyActions [Output (PortNo 1) 0xffff]])
        [field | Oxm field _ _ <- fieldsOf (flowModMatch f)] @?= [InPort, EthDst, EthSrc, VlanVid]
      other -> assertFailure (show other)
    -- Not kept: a flow, and the packet back.
    let whole = frameOf 1 2
    fakePacketIn fake NoBuffer (PortNo 1) whole
    answerOf fake >>= \case
      FlowModMessage f -> flowModBuffer f @?= NoBuffer
      other -> assertFailure (show other)
    answerOf fake >>= \case
      PacketOutMessage out -> (packetOutActions out, packetOutData out) @?= ([Output (PortNo 2) 0], whole)
      other -> assertFailure (show other)
    -- A multicast source is nobody; a short packet is nothing; the next one is answered.
    fakePacketIn fake 13 (PortNo 3) "short"
    fakePacketIn fake 14 (PortNo 3) (frameOf 1 0x010000000001)
    answerOf fake >>= \case
      PacketOutMessage out -> packetOutBuffer out @?= 14
      other -> assertFailure (show other)
  where
    fieldsOf = \case
      Match fs -> fs
      MatchRaw _ _ -> []

header :: FakeSwitch -> Int -> Int -> ByteString
header fake kind size = B.pack [if fakeVersion fake == OF10 then 1 else 4, fromIntegral kind, 0, fromIntegral size, 0, 0, 0, 9]

isBroken :: CloseReason -> Bool
isBroken = \case
  ProtocolBroken _ -> True
  _ -> False

-- One switch does something bad, and another one is served on.
oneBad :: (FakeSwitch -> IO ()) -> (CloseReason -> Bool) -> IO ()
oneBad bad expected = withLearning local $ \runtime controller events ->
  withFakeSwitch runtime (controllerAddress controller) (fakeSwitch 1) $ \good -> do
    withFakeSwitch runtime (controllerAddress controller) (fakeSwitch 2) $ \fake -> do
      fakePacketIn fake 1 (PortNo 1) (frameOf 1 2)
      _ <- answerOf fake
      bad fake
      told <- fakeReceiveWhere fake (\_ m -> case m of ErrorMessage kind _ -> Just kind; _ -> Nothing)
      errorType <$> told @?= Right 1
      end <- fakeReceiveWhere fake (\_ _ -> Nothing :: Maybe ())
      end @?= Left FakeClosed
    waitFor "the reason" (any ended <$> readRef events)
    fakePacketIn good 1 (PortNo 1) (frameOf 1 2)
    void (answerOf good)
  where
    ended = \case
      Ended info why -> infoDatapath info == 2 && expected why
      _ -> False

undecodable :: IO ()
undecodable = withIO $ \runtime -> do
  seen <- newRef []
  events <- newRef []
  let handlers _ _ = pure noHandlers {onMessage = \xid m -> modifyRef seen (\s -> ((xid, m) : s, ()))}
  withController runtime local {configTell = \e -> modifyRef events (\es -> (e : es, ()))} handlers $ \controller ->
    withFakeSwitch runtime (controllerAddress controller) (fakeSwitch 3) {fakeVersions = [OF10]} $ \fake -> do
      -- A port status that is too short, an unknown type, and a good one.
      fakeSendBytes fake (B.pack [1, 12, 0, 12, 0, 0, 0, 77, 1, 2, 3, 4])
      fakeSendBytes fake (B.pack [1, 99, 0, 9, 0, 0, 0, 78, 5])
      fakeSend fake 79 (ErrorMessage (ErrorKind 3 4) "x")
      waitFor "three messages" ((== 3) . length <$> readRef seen)
      readRef seen >>= (@?= [(77, MessageRaw 12 (B.pack [1, 2, 3, 4])), (78, MessageRaw 99 (B.pack [5])), (79, ErrorMessage (ErrorKind 3 4) "x")]) . reverse
      [switch] <- switches controller
      (@?= 1) . countsUndecodable =<< switchCounts switch
      told <- readRef events
      assertBool (show told) (or [True | Undecodable _ _ <- told])

noHello :: ByteString -> IO ()
noHello first = withLearning local $ \runtime controller events -> do
  deadline <- deadlineIn (seconds 10)
  conn <- IO.connectUntil runtime (controllerAddress controller) deadline >>= either throwIO pure
  _ <- IO.sendAllUntil conn first deadline
  let gather bytes =
        IO.recvUntil conn 1000 deadline >>= \case
          IO.Got more -> gather (bytes <> more)
          _ -> pure bytes
  bytes <- gather B.empty
  -- The controller's hello, then the error.
  let (_, rest) = B.splitAt (fromIntegral (B.index bytes 2) * 256 + fromIntegral (B.index bytes 3)) bytes
  B.take 2 rest @?= B.pack [4, 1]
  IO.close conn
  waitFor "the report" (any refused <$> readRef events)
  where
    refused = \case
      NotConnected _ (HandshakeFailed _) -> True
      _ -> False

handlerFails :: IO ()
handlerFails = withIO $ \runtime -> do
  events <- newRef []
  let handlers _ switch = pure noHandlers {onPacketIn = when (infoDatapath (switchInfo switch) == 2) (ioError (userError "a bug in a policy"))}
  withController runtime local {configTell = \e -> modifyRef events (\es -> (e : es, ()))} handlers $ \controller ->
    withFakeSwitch runtime (controllerAddress controller) (fakeSwitch 1) $ \good -> withFakeSwitch runtime (controllerAddress controller) (fakeSwitch 2) $ \fake -> do
      waitFor "two switches" ((== 2) . length <$> switches controller)
      fakePacketIn good 1 (PortNo 1) (frameOf 1 2)
      fakePacketIn fake 1 (PortNo 1) (frameOf 1 2)
      (@?= Left FakeClosed) =<< fakeReceiveWhere fake (\_ _ -> Nothing :: Maybe ())
      waitFor "the report" (any failed <$> readRef events)
      (@?= [1]) . map (infoDatapath . switchInfo) =<< switches controller
  where
    failed = \case
      Ended info (HandlerFailed why) -> infoDatapath info == 2 && "a bug in a policy" `B.isInfixOf` Char8.pack why
      _ -> False

duplicates :: IO ()
duplicates = do
  withFirst (seconds 30) $ \first another controller events -> do
    -- The first answers the probe while the second waits.
    Scope.withScope $ \scope -> do
      task <- Scope.fork scope (fakeReceiveWhere first (\_ _ -> Nothing :: Maybe ()))
      another $ \second -> (@?= Right ()) =<< fakeReceiveWhere second (\_ m -> case m of ErrorMessage _ _ -> Just (); _ -> Nothing)
      Scope.cancel task
    waitFor "the refusal" (any refused <$> readRef events)
    (@?= 1) . length =<< switches controller
  -- A silent one: the next one takes its place.
  withFirst (milliseconds 300) $ \_ another _ events -> another $ \second -> do
    fakePacketIn second 1 (PortNo 1) (frameOf 1 2)
    void (answerOf second)
    waitFor "the replacement" (any replaced <$> readRef events)
  where
    withFirst probe body = withLearning local {configProbe = probe} $ \runtime controller events -> do
      let connecting :: (FakeSwitch -> IO a) -> IO a
          connecting = withFakeSwitch runtime (controllerAddress controller) (fakeSwitch 7)
      connecting $ \first -> do
        waitFor "the first" ((== 1) . length <$> switches controller)
        body first connecting controller events
    refused = \case
      NotConnected _ (HandshakeFailed _) -> True
      _ -> False
    replaced = \case
      Ended _ Replaced -> True
      _ -> False

silent :: IO ()
silent = withLearning local {configEchoAfter = milliseconds 200, configDeadAfter = milliseconds 600} $ \runtime controller events ->
  withFakeSwitch runtime (controllerAddress controller) (fakeSwitch 9) $ \_ ->
    -- It reads nothing more, so it answers nothing.
    waitFor "the end" (any ended <$> readRef events)
  where
    ended = \case
      Ended _ Silent -> True
      _ -> False

notReading :: IO ()
notReading = withLearning local {configStall = seconds 1, configMailRoom = 0x40000} $ \runtime controller events ->
  withFakeSwitch runtime (controllerAddress controller) (fakeSwitch 9) $ \_ -> do
    waitFor "the switch" (not . null <$> switches controller)
    [switch] <- switches controller
    -- Until the kernel's buffers are full too.
    met <- newRef Set.empty
    waitFor "the end" $ do
      r <- trySend switch 0 (EchoRequest (B.replicate 60000 1))
      modifyRef met (\s -> (Set.insert (show r) s, ()))
      if r == Sent then pure False else any ended <$> readRef events
    results <- readRef met
    assertBool (show results) (Set.member "Full" results)
  where
    ended = \case
      Ended _ NotReading -> True
      _ -> False

requestsEnd :: IO ()
requestsEnd = withLearning local $ \runtime controller _ -> do
  answers <- newRef []
  Scope.withScope $ \scope -> do
    task <- withFakeSwitch runtime (controllerAddress controller) (fakeSwitch 9) {fakeVersions = [OF10]} $ \fake -> do
      waitFor "the switch" (not . null <$> switches controller)
      [switch] <- switches controller
      short <- deadlineIn (milliseconds 100)
      -- The fake switch knows no statistics, and is not asked by this thread.
      requestUntil switch short (askFlows allFlows) >>= \r -> writeRef answers [r]
      t <- Scope.fork scope (request switch (askFlows allFlows))
      Right () <- fakeReceiveWhere fake (\_ m -> case m of MultipartRequest _ _ -> Just (); _ -> Nothing)
      Right () <- fakeReceiveWhere fake (\_ m -> case m of MultipartRequest _ _ -> Just (); _ -> Nothing)
      pure t
    readRef answers >>= (@?= [Left NoAnswer])
    Scope.await task >>= (@?= Left Disconnected)

tooBig :: IO ()
tooBig = withLearning local $ \runtime controller _ ->
  withFakeSwitch runtime (controllerAddress controller) (fakeSwitch 9) {fakeVersions = [OF13]} $ \fake -> do
    waitFor "the switch" (not . null <$> switches controller)
    [switch] <- switches controller
    let part = MultipartReplyRaw 0xffff (B.replicate 60000 0)
        -- Of 60,016 bytes each: 280 are too many, and the next are for nobody.
        asked (parts :: Int) = Scope.withScope $ \scope -> do
          task <- Scope.fork scope (request switch (askFlows allFlows))
          Right xid <- fakeReceiveWhere fake (\xid m -> case m of MultipartRequest _ _ -> Just xid; _ -> Nothing)
          forM_ [1 .. parts] $ \n -> fakeSend fake xid (MultipartReply (if n == parts then 0 else 1) part)
          answer <- Scope.await task
          pure $ case answer of
            Left (Unexpected (MultipartReply 0 (MultipartReplyRaw _ bytes))) -> Left (B.length bytes)
            other -> Right (void other)
    asked 279 >>= (@?= Left (279 * 60000))
    asked 300 >>= (@?= Right (Left TooBig))
    Scope.withScope $ \scope -> do
      answering <- Scope.fork scope (fakeReceive fake)
      request switch askBarrier >>= (@?= Right ())
      Scope.cancel answering

bodiesAsk :: IO ()
bodiesAsk = withIO $ \runtime -> do
  rounds <- newWords 1
  known <- newRef Nothing
  let body feed = do
        -- The other one's switch.
        waitFor "the controller" ((/= Nothing) . void <$> readRef known)
        Just controller <- readRef known
        waitFor "both" ((== 2) . length <$> switches controller)
        others <- filter (/= feedSwitch feed) <$> switches controller
        forM_ [1 .. 50 :: Int] $ \_ -> forM_ others $ \other -> do
          r <- request other askBarrier
          when (r == Right ()) (void (fetchAdd rounds 0 1))
        drain feed
      drain feed =
        recv feed >>= \case
          Down _ -> pure ()
          _ -> drain feed
  withController runtime local {configQueue = 4} (directly body) $ \controller -> Scope.withScope $ \scope -> do
    writeRef known (Just controller)
    tasks <- forM [1, 2] $ \d -> Scope.fork scope $
      withFakeSwitch runtime (controllerAddress controller) (fakeSwitch d) $ \fake -> do
        -- Many packet-ins that nobody takes meanwhile.
        let serve k = do
              when (k < (400 :: Int)) $ fakePacketIn fake 1 (PortNo 1) (frameOf k 2)
              r <- deadlineIn (milliseconds 5) >>= fakeReceiveUntil fake
              n <- atomicRead rounds 0
              case r of
                Left FakeClosed -> pure ()
                _ | n < 100 -> serve (k + 1)
                _ -> pure ()
        serve 0
    mapM_ Scope.await tasks
    atomicRead rounds 0 >>= (@?= 100)

bodyForever :: IO ()
bodyForever = do
  w <- newRef ()
  let go = timeout (seconds 30) (waitFor "nothing" (False <$ readRef w)) >> go
  go

bodyEnds :: (Feed -> IO ()) -> IO ()
bodyEnds body = withIO $ \runtime -> do
  started <- newWords 1
  withController runtime local (directly (\feed -> fetchAdd started 0 1 >> body feed)) $ \controller ->
    withFakeSwitch runtime (controllerAddress controller) (fakeSwitch 4) $ \fake -> do
      waitFor "the body" ((== 1) <$> atomicRead started 0)
      forM_ [1 .. 5000] $ \k -> fakePacketIn fake 1 (PortNo 1) (frameOf k 2)
      [switch] <- switches controller
      waitFor "packet-ins" ((> 1000) . countsPacketIns <$> switchCounts switch)

manySwitches :: IO ()
manySwitches = withLearning local $ \runtime controller events -> do
  Scope.withScope $ \scope -> do
    tasks <- forM [1 .. 100] $ \d -> Scope.fork scope $
      withFakeSwitch runtime (controllerAddress controller) (fakeSwitch d) {fakePatience = seconds 40} $ \fake -> do
        fakePacketIn fake 1 (PortNo 1) (frameOf 1 2)
        void (answerOf fake)
    mapM_ Scope.await tasks
  waitFor "all have ended" (null <$> switches controller)
  waitFor "a hundred reports" ((== 100) . length . filter ended <$> readRef events)
  counts <- controllerCounts controller
  (countConnected counts, countEnded counts, countPacketIns counts) @?= (100, 100, 100)
  where
    ended = \case
      Ended _ SwitchClosed -> True
      _ -> False

loaded :: IO ()
loaded = forM_ [(OF10, Nothing, 8), (OF13, Nothing, 1), (OF10, Just 2000, 16)] $ \(v, rate, window) ->
  -- A busy machine may leave some switch without an answer in half a second: then again, for longer.
  let attempt (duration : longer) = do
        (result, took) <- withLearning local $ \runtime controller _ -> do
          began <- monotonicNow
          result <-
            runLoad
              runtime
              (defaultLoad (controllerAddress controller))
                { loadVersion = v,
                  loadSwitches = 5,
                  loadHosts = 20,
                  loadWindow = window,
                  loadRate = rate,
                  loadWarmup = milliseconds 200,
                  loadDuration = duration,
                  loadThreads = 2
                }
          ended <- monotonicNow
          pure (result, fromIntegral (nanosCount (elapsed began ended)) / 1e9)
        resultFailed result @?= []
        (resultLost result, resultSecond result, resultOther result) @?= (0, 0, 0)
        -- What was due before the measurement may have waited for it.
        forM_ rate $ \r -> assertBool (show (resultAnswers result)) (fromIntegral (resultAnswers result) <= 1.5 * r * took + 100)
        let latencies = resultLatencies result
            answered = resultAnswers result > 50 && all ((> 0) . switchAnswers) (resultSwitches result)
        if not answered && not (null longer)
          then attempt longer
          else do
            assertBool "answers" answered
            assertBool "latencies" (valueCount latencies > 0 && quantile 0.5 latencies <= greatest latencies)
      attempt [] = pure ()
   in attempt [milliseconds 500, seconds 2, seconds 8]

northbounds :: IO ()
northbounds = withLearning local $ \runtime controller _ ->
  withFakeSwitch runtime (controllerAddress controller) (fakeSwitch 0x2a) $ \fake -> do
    fakePacketIn fake 1 (PortNo 1) (frameOf 1 2)
    void (answerOf fake)
    northbound controller "/stats/switches" >>= (@?= Found "application/json" "[42]")
    text <- metrics controller
    forM_ ["openflow_switches 1\n", "openflow_packet_ins_total 1\n", "openflow_switch_packet_ins_total{dpid=\"000000000000002a\"} 1\n"] $ \line -> assertBool (show text) (line `B.isInfixOf` text)
    northbound controller "/stats/desc/0x2a" >>= \case
      Found _ json -> forM_ ["\"dpid\":\"000000000000002a\"", "\"address\":\"127.0.0.1:"] $ \part -> assertBool (show json) (part `B.isInfixOf` json)
      other -> assertFailure (show other)
    forM_ ["/", "/stats/desc/43", "/stats/desc/x", "/stats/desc/-1", "/stats/flow/99999999999999999999"] $ \path -> northbound controller path >>= (@?= NotFound)

refusedOpening :: IO ()
refusedOpening = withLearning local {configTls = Just refusing, configHandshake = seconds 1} $ \runtime controller events -> do
  deadline <- deadlineIn (seconds 10)
  conn <- IO.connectUntil runtime (controllerAddress controller) deadline >>= either throwIO pure
  _ <- IO.sendAllUntil conn "hello" deadline
  -- The end, or a reset, because the greeting was not read.
  trySync (IO.recvUntil conn 10 deadline) >>= \case
    Right (IO.Got bytes) -> assertFailure (show bytes)
    _ -> pure ()
  IO.close conn
  waitFor "the report" (any refused <$> readRef events)
  (@?= 1) . countRefused =<< controllerCounts controller
  where
    refusing :: Opening
    refusing _ _ = pure (NotOpened "no session")
    refused = \case
      NotConnected _ _ -> True
      _ -> False

newtype Network = Network [Link]
  deriving stock (Show)

instance Arbitrary Network where
  arbitrary = do
    n <- choose (1, 6)
    pairs <- choose (0, 12) >>= \k -> vectorOf k ((,) <$> choose (1, n) <*> choose (1, n))
    pure (Network (concat [[Link (a, p) (b, q), Link (b, q) (a, p)] | (i, (a, b)) <- zip [0 ..] pairs, a /= b, let p = PortNo (2 * i + 1), let q = PortNo (2 * i + 2)]))
  shrink (Network ls) = [Network (take i ls ++ drop (i + 2) ls) | i <- [0, 2 .. length ls - 2]]

reach :: [Link] -> DatapathId -> Set.Set DatapathId
reach ls from = go (Set.singleton from) [from]
  where
    go seen [] = seen
    go seen (d : rest) = let new = [fst (linkTo l) | l <- ls, fst (linkFrom l) == d, not (Set.member (fst (linkTo l)) seen)] in go (foldr Set.insert seen new) (rest ++ new)

treeLaw :: Network -> Property
treeLaw (Network ls) =
  let ends = spanningTree ls
      inTree = [l | l <- ls, Set.member (linkFrom l) ends]
      nodes = Set.toList (Set.fromList (map (fst . linkFrom) ls))
      edges = length inTree `div` 2
      components = Set.size (Set.fromList (map (Set.toList . reach ls) nodes))
   in conjoin [conjoin [reach inTree d === reach ls d | d <- nodes], edges === length nodes - components]

hopLaw :: Network -> Property
hopLaw (Network ls) =
  conjoin
    [ if Set.member b (reach ls a) then counterexample (show (a, b)) (walk (10 :: Int) a b) else nextHop ls a b === PortAny
      | let nodes = Set.toList (Set.fromList (map (fst . linkFrom) ls)),
        a <- nodes,
        b <- nodes,
        a /= b
    ]
  where
    walk 0 _ _ = False
    walk k a b
      | a == b = True
      | otherwise = case [fst (linkTo l) | l <- ls, linkFrom l == (a, nextHop ls a b)] of
        next : _ -> walk (k - 1) next b
        [] -> False
