{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : LearningTest
-- Description : Learning switches by VLAN: flows that are made, and flows that are deleted
module LearningTest
  ( learningTests,
  )
where

import Control.Monad (forM_, void)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.List (sort)
import Data.Word (Word16, Word64)
import Heddle.IO (Runtime, withRuntime)
import Heddle.IO qualified as IO
import Heddle.OpenFlow
import Heddle.OpenFlow.Controller
import Heddle.OpenFlow.FakeSwitch
import Heddle.OpenFlow.Hosts (Hosts, newHosts)
import Heddle.OpenFlow.Learning
import Heddle.OpenFlow.Packet
import Heddle.OpenFlow.Topology
import Heddle.Prim.Atomic
import Heddle.Prim.Clock
import Heddle.Scope qualified as Scope
import Heddle.Testkit.Ovs (waitFor)
import Heddle.Timer (timeout)
import Network.Socket (SockAddr (..), tupleToHostAddress)
import Test.Tasty
import Test.Tasty.HUnit

learningTests :: TestTree
learningTests =
  testGroup
    "learning by VLAN"
    [ forVersions "flowLeftOutItsVlan" leftOut,
      forVersions "tagsOf8021adWereNoVlan" service,
      forVersions "cutTagWasNoTag" cut,
      forVersions "untaggedAndIdentifierZeroWereOneVlan" zero,
      forVersions "movedHostTookFlowsOfOtherVlans" moved,
      forVersions "returningHostFoundItsOldFlow" returning,
      forVersions "gonePortKeptTheFlowsFromIt" gone,
      forVersions "movedHostKeptItsFlowsAtOtherSwitches" movedBetween,
      forVersions "goneSwitchKeptTheFlowsThroughIt" through,
      forVersions "idleTimeOfANetworksFlowsWasFixed" idleTime,
      testGroup
        "hostWhoseFramesAFlowCarriesWasForgotten"
        [ forVersions "it is known while its flow is there, and no longer" carried,
          forVersions "no other flow keeps it, nor one from another port" othersKeep
        ]
    ]
  where
    forVersions name body = testGroup name [testCase (show v) (within name (body v)) | v <- [OF10, OF13]]
    within name body = timeout (seconds 60) body >>= maybe (assertFailure (name ++ " took more than a minute")) pure

-- A tag: its type and its content.
data Tag = Untagged | Tag !Word16 !Word16

-- From the first host to the second.
frame :: Tag -> Word64 -> Word64 -> ByteString
frame tag source destination = case tag of
  Untagged -> ethernet (Mac destination) (Mac source) 0x0800 (B.replicate 50 0)
  Tag kind content -> ethernet (Mac destination) (Mac source) kind (bytes16 content <> bytes16 0x0800 <> B.replicate 46 0)

bytes16 :: Word16 -> ByteString
bytes16 w = B.pack [fromIntegral (w `quot` 256), fromIntegral w]

vlan :: Word16 -> Tag
vlan = Tag 0x8100

withFake :: Version -> (FakeSwitch -> IO ()) -> IO ()
withFake v body = withHosts v (\_ _ -> body)

-- Also the table of hosts.
withHosts :: Version -> (Controller -> Hosts -> FakeSwitch -> IO ()) -> IO ()
withHosts v body = withRuntime IO.defaultConfig $ \runtime -> do
  counts <- newWords 8
  hosts <- newHosts 16 0x10000
  let settings = defaultLearning {learnHosts = const (pure hosts)}
  withController runtime local (learningSwitch settings counts) $ \controller ->
    withFakeSwitch runtime (controllerAddress controller) (fakeSwitch 5) {fakeVersions = [v]} $ \fake ->
      settled fake >> body controller hosts fake

local :: Config
local =
  defaultConfig
    { configAddress = SockAddrInet 0 (tupleToHostAddress (127, 0, 0, 1)),
      configPatience = seconds 20
    }

-- All that the controller has sent for what it was sent: an echo is answered after it.
settled :: FakeSwitch -> IO [Message]
settled fake = fakeSend fake 0 (EchoRequest "settled") >> go []
  where
    go seen =
      fakeReceive fake >>= \case
        Left e -> assertFailure (show e)
        Right (_, EchoReply "settled") -> pure (reverse seen)
        Right (_, m) -> go (m : seen)

-- Send a frame in at a port; what it was answered by.
asked :: FakeSwitch -> Int -> ByteString -> IO [Message]
asked fake port bytes = fakePacketIn fake 7 (PortNo (fromIntegral port)) bytes >> settled fake

-- The flows that a frame has made: the VLAN that they match and the port to which they lead.
flowsFor :: FakeSwitch -> Int -> ByteString -> IO [(Maybe (Integer, Maybe Integer), [Instruction])]
flowsFor fake port bytes =
  fmap (\f -> (fieldValue VlanVid (flowModMatch f), flowModInstructions f)) . adds <$> asked fake port bytes

adds :: [Message] -> [FlowMod]
adds messages = [f | FlowModMessage f <- messages, flowModCommand f == FlowAdd]

-- A flow of a VLAN, by vlan_vid, that leads to a port.
flowTo :: Integer -> Int -> [(Maybe (Integer, Maybe Integer), [Instruction])]
flowTo vid port = [(Just (vid, Nothing), [ApplyActions [Output (PortNo (fromIntegral port)) 0xffff]])]

-- What a switch's table has after these changes.
changed :: Version -> [FlowMod] -> [Message] -> [FlowMod]
changed v = foldl change
  where
    change table = \case
      FlowModMessage m
        | flowModCommand m == FlowAdd -> m : filter (not . same m) table
        | flowModCommand m == FlowDelete -> filter (not . covered m) table
      _ -> table
    same a b = (flowModPriority a, flowModMatch a) == (flowModPriority b, flowModMatch b)
    covered d f =
      (v == OF10 || flowModCookieMask d == 0 || flowModCookie d == flowModCookie f)
        && (flowModOutPort d == PortAny || flowModOutPort d `elem` outs f)
        && all (`elem` fields f) (fields d)
    outs f = [p | ApplyActions as <- flowModInstructions f, Output p _ <- as]
    fields f = case flowModMatch f of
      Match fs -> fs
      MatchRaw _ _ -> []

-- Where flows of a VLAN between hosts lead: vlan_vid, source, destination, port.
leads :: [FlowMod] -> [(Integer, Integer, Integer, PortNo)]
leads table =
  sort
    [ (vid, source, destination, port)
      | f <- table,
        Just (vid, _) <- [fieldValue VlanVid (flowModMatch f)],
        Just (source, _) <- [fieldValue EthSrc (flowModMatch f)],
        Just (destination, _) <- [fieldValue EthDst (flowModMatch f)],
        ApplyActions [Output port _] <- flowModInstructions f
    ]

-- The table after frames have come in.
after' :: Version -> FakeSwitch -> [FlowMod] -> [(Int, ByteString)] -> IO [FlowMod]
after' v fake = foldl (\sofar (port, bytes) -> sofar >>= \table -> changed v table <$> asked fake port bytes) . pure

leftOut :: Version -> IO ()
leftOut v = withFake v $ \fake -> do
  forM_ [(2, vlan 10), (3, vlan 20), (4, Untagged)] $ \(port, tag) -> asked fake port (frame tag 2 1)
  flowsFor fake 1 (frame (vlan 10) 1 2) >>= (@?= flowTo 0x100a 2)
  flowsFor fake 1 (frame (vlan 20) 1 2) >>= (@?= flowTo 0x1014 3)
  flowsFor fake 1 (frame Untagged 1 2) >>= (@?= flowTo 0 4)
  -- The priority and the drop bit are not the VLAN's.
  flowsFor fake 1 (frame (vlan 0xb00a) 1 2) >>= (@?= flowTo 0x100a 2)
  -- Nobody is known there, also in the greatest VLAN.
  flowsFor fake 1 (frame (vlan 30) 1 2) >>= (@?= [])
  flowsFor fake 1 (frame (vlan 4094) 1 2) >>= (@?= [])
  flowsFor fake 3 (frame (vlan 4094) 2 1) >>= (@?= flowTo 0x1ffe 1)

service :: Version -> IO ()
service v = withFake v $ \fake -> do
  forM_ [(2, Tag 0x88a8 10), (3, Tag 0x88a8 20), (4, Untagged)] $ \(port, tag) -> asked fake port (frame tag 2 1)
  flowsFor fake 1 (frame (Tag 0x88a8 10) 1 2) >>= (@?= flowTo 0x100a 2)
  flowsFor fake 1 (frame (Tag 0x88a8 20) 1 2) >>= (@?= flowTo 0x1014 3)
  flowsFor fake 1 (frame Untagged 1 2) >>= (@?= flowTo 0 4)
  -- A flow of identifier 10 is also for tags of 802.1Q, so they are of one VLAN.
  flowsFor fake 1 (frame (vlan 10) 1 2) >>= (@?= flowTo 0x100a 2)
  -- The outer one of two tags counts.
  let inner = bytes16 0x8100 <> bytes16 20 <> bytes16 0x0800 <> B.replicate 46 0
  flowsFor fake 1 (ethernet (Mac 2) (Mac 1) 0x88a8 (bytes16 10 <> inner)) >>= (@?= flowTo 0x100a 2)

cut :: Version -> IO ()
cut v = withFake v $ \fake -> do
  void (asked fake 2 (frame Untagged 2 1))
  forM_ [0x8100, 0x88a8] $ \kind -> forM_ [0 .. 3] $ \more ->
    asked fake 1 (ethernet (Mac 2) (Mac 1) kind (B.replicate more 0)) >>= (@?= [])
  -- Host 1 was not learned from them.
  flowsFor fake 2 (frame Untagged 2 1) >>= (@?= [])

zero :: Version -> IO ()
zero v = withFake v $ \fake -> do
  void (asked fake 2 (frame Untagged 2 1))
  flowsFor fake 1 (frame Untagged 1 2) >>= (@?= flowTo 0 2)
  -- A flow without a tag is not for frames with one.
  flowsFor fake 1 (frame (vlan 0) 1 2) >>= (@?= flowTo 0x1000 2)
  -- The host moves, seen by either kind of frame, and the flows of both kinds go.
  table <- after' v fake [] [(1, frame Untagged 1 2), (1, frame (vlan 0xe000) 1 2)]
  leads table @?= [(0, 1, 2, PortNo 2), (0x1000, 1, 2, PortNo 2)]
  forM_ [(3, Untagged), (4, vlan 0)] $ \(port, tag) -> do
    left <- after' v fake table [(port, frame tag 2 9)]
    leads left @?= []

moved :: Version -> IO ()
moved v = withFake v $ \fake -> do
  table <-
    after'
      v
      fake
      others
      [ (2, frame (vlan 10) 2 1),
        (3, frame (vlan 20) 2 1),
        (1, frame (vlan 10) 1 2),
        (1, frame (vlan 20) 1 2),
        (2, frame (vlan 10) 2 1),
        (4, frame Untagged 2 1),
        (1, frame Untagged 1 2)
      ]
  leads table @?= [(0, 1, 2, PortNo 4), (0x100a, 1, 2, PortNo 2), (0x100a, 2, 1, PortNo 1), (0x1014, 1, 2, PortNo 3)]
  -- To a place where its frame makes no flow.
  left <- after' v fake table [(4, frame (vlan 10) 2 9)]
  leads left @?= [(0, 1, 2, PortNo 4), (0x1014, 1, 2, PortNo 3)]
  -- Others' flows stay, where the version can tell them apart, and of other VLANs in any case.
  length [f | f <- left, flowModCookie f == 5] @?= (if v == OF13 then 3 else 2)
  where
    others = [other [oxm EthDst 2, oxm VlanVid 0x100a], other [oxm EthDst 2], other [oxm EthDst 2, oxm VlanVid 0x1014]]
    other fs = (flowAdd 7 (Match fs) [Output (PortNo 9) 0]) {flowModCookie = 5}

returning :: Version -> IO ()
returning v = withFake v $ \fake -> do
  table <- after' v fake [] [(2, frame (vlan 10) 2 1), (1, frame (vlan 10) 1 2)]
  leads table @?= [(0x100a, 1, 2, PortNo 2)]
  -- A flow from its old port would take its frames when it is back, and nobody would see that it is.
  left <- after' v fake table [(3, frame (vlan 10) 1 9)]
  leads left @?= []

gone :: Version -> IO ()
gone v = withFake v $ \fake -> do
  table <-
    after'
      v
      fake
      others
      [ (2, frame (vlan 10) 2 1),
        (1, frame (vlan 10) 1 2),
        (2, frame (vlan 10) 2 1),
        (3, frame Untagged 3 1),
        (4, frame Untagged 4 3)
      ]
  leads table @?= [(0, 4, 3, PortNo 3), (0x100a, 1, 2, PortNo 2), (0x100a, 2, 1, PortNo 1)]
  fakeSend fake 0 (PortStatusMessage (PortStatus 2 (Port (PortNo 1) (Mac 99) B.empty 0 1 0 0 0 0 0 0)))
  left <- changed v table <$> settled fake
  leads left @?= [(0, 4, 3, PortNo 3)]
  length [f | f <- left, flowModCookie f == 5] @?= (if v == OF13 then 2 else 0)
  -- It is seen again when it is back, as somebody new.
  flowsFor fake 1 (frame (vlan 10) 1 2) >>= (@?= flowTo 0x100a 2)
  where
    others = [other [oxm EthDst 8] 1, other [oxm InPort 1] 9]
    other fs port = (flowAdd 7 (Match fs) [Output (PortNo port) 0]) {flowModCookie = 5}

-- Minutes pass; the switch answers what it is asked with these flows, in two parts.
minutesPass :: Controller -> Hosts -> FakeSwitch -> [FlowMod] -> [Int] -> IO ()
minutesPass controller hosts fake table minutes = do
  forM_ minutes $ \minute -> do
    connected <- switches controller
    ageHosts 30 minute [hosts] connected
    -- Comes after what was asked.
    forM_ connected $ \switch -> trySend switch 0 (PacketOutMessage over) >>= (@?= Sent)
    answer
  void (settled fake)
  where
    over = PacketOut NoBuffer PortController [] "over"
    answer =
      fakeReceive fake >>= \case
        Left e -> assertFailure (show e)
        Right (_, PacketOutMessage p) | packetOutData p == "over" -> pure ()
        Right (xid, MultipartRequest _ (FlowRequest _)) -> mapM_ (fakeSend fake xid) [part 1 odds, part 0 evens] >> answer
        Right _ -> answer
    part flag flows = MultipartReply flag (FlowReply (map stats flows))
    (odds, evens) = splitAt (length table `quot` 2) table
    stats f = FlowStats 0 60 0 (flowModPriority f) (flowModIdle f) 0 0 (flowModCookie f) 9 900 (flowModMatch f) (flowModInstructions f)

carried :: Version -> IO ()
carried v = withHosts v $ \controller hosts fake -> do
  table <- after' v fake [] [(1, frame (vlan 10) 1 9), (2, frame (vlan 10) 2 1), (3, frame Untagged 3 9), (4, frame Untagged 4 3)]
  leads table @?= [(0, 4, 3, PortNo 3), (0x100a, 2, 1, PortNo 1)]
  -- The senders are known after hours, at the places where they were; the receivers have sent nothing.
  minutesPass controller hosts fake table [1 .. 100]
  flowsFor fake 1 (frame (vlan 10) 8 1) >>= (@?= [])
  flowsFor fake 1 (frame (vlan 10) 1 2) >>= (@?= flowTo 0x100a 2)
  flowsFor fake 1 (frame Untagged 1 4) >>= (@?= flowTo 0 4)
  -- The flows have ended.
  minutesPass controller hosts fake [] [101 .. 140]
  flowsFor fake 1 (frame (vlan 10) 1 2) >>= (@?= [])
  flowsFor fake 1 (frame Untagged 1 4) >>= (@?= [])

othersKeep :: Version -> IO ()
othersKeep v = withHosts v $ \controller hosts fake -> do
  table <- after' v fake [] [(1, frame (vlan 10) 1 9), (2, frame (vlan 10) 2 1)]
  let changed' f = map f table
      elsewhere flow = flow {flowModMatch = on [if s == oxm InPort 2 then oxm InPort 3 else s | s <- of' flow]}
      otherVlan flow = flow {flowModMatch = on [if s == oxm VlanVid 0x100a then oxm VlanVid 0x100b else s | s <- of' flow]}
      noSource flow = flow {flowModMatch = on (filter (/= oxm EthSrc 2) (of' flow))}
      foreign' flow = flow {flowModCookie = 5}
  minutesPass controller hosts fake (concatMap changed' [elsewhere, otherVlan, noSource, foreign']) [1 .. 40]
  flowsFor fake 1 (frame (vlan 10) 1 2) >>= (@?= [])
  -- Nor is a host learned from what is late.
  minutesPass controller hosts fake table [41 .. 80]
  flowsFor fake 1 (frame (vlan 10) 1 2) >>= (@?= [])
  where
    on = Match
    of' flow = case flowModMatch flow of
      Match fs -> fs
      MatchRaw _ _ -> []

-- Two switches of one network.
withTwo :: Version -> (Runtime -> Controller -> Topology -> FakeOptions -> FakeSwitch -> IO ()) -> IO ()
withTwo v body = withRuntime IO.defaultConfig $ \runtime -> do
  counts <- newWords 8
  hosts <- newHosts 16 1000
  withTopology (TopologyOptions (seconds 30) (seconds 30) 7) hosts $ \topology -> Scope.withScope $ \scope ->
    withController runtime local (topologySwitch topology scope counts) $ \controller ->
      withFakeSwitch runtime (controllerAddress controller) (options 2) $ \far -> do
        waitFor "the second switch" ((== 1) . length <$> switches controller)
        void (settled far)
        body runtime controller topology (options 1) far
  where
    options d = (fakeSwitch d) {fakeVersions = [v], fakePatience = seconds 40}

-- The next change of a switch that is a deletion.
deletion :: FakeSwitch -> IO (Word64, [String])
deletion fake = fakeReceiveWhere fake wanted >>= either (assertFailure . show) pure
  where
    wanted _ = \case
      FlowModMessage f | flowModCommand f == FlowDelete -> Just (flowModCookieMask f, fieldsOf (flowModMatch f))
      _ -> Nothing
    fieldsOf = \case
      Match fs -> map show fs
      MatchRaw _ _ -> ["raw"]

-- The changes of other switches, for a host of VLAN 10.
ofHost :: Version -> Integer -> [(Word64, [String])]
ofHost v host =
  [(if v == OF13 then maxBound else 0, map show [oxm end host, oxm VlanVid 0x100a]) | end <- [EthDst, EthSrc]]

idleTime :: Version -> IO ()
idleTime v = withTwo v $ \_ _ _ _ far -> do
  void (asked far 1 (frame (vlan 10) 1 9))
  flows <- adds <$> asked far 2 (frame (vlan 10) 2 1)
  map flowModIdle flows @?= [7]

movedBetween :: Version -> IO ()
movedBetween v = withTwo v $ \runtime controller _ options far ->
  withFakeSwitch runtime (controllerAddress controller) options $ \near -> do
    waitFor "both switches" ((== 2) . length <$> switches controller)
    void (settled near)
    void (asked far 1 (frame (vlan 10) 1 2))
    -- It moves to the near switch, and the far one has flows to it.
    fakePacketIn near 7 (PortNo 3) (frame (vlan 10) 1 2)
    forM_ (ofHost v 1) $ \expected -> deletion far >>= (@?= expected)
    -- Its port is gone there.
    fakeSend near 0 (PortStatusMessage (PortStatus 1 (Port (PortNo 3) (Mac 99) B.empty 0 0 0 0 0 0 0 0)))
    forM_ (ofHost v 1) $ \expected -> deletion far >>= (@?= expected)

through :: Version -> IO ()
through v = withTwo v $ \runtime controller topology options far -> do
  withFakeSwitch runtime (controllerAddress controller) options $ \near -> do
    -- The probe of port 1 of the near switch comes in at port 2 of the far one.
    probe <- fakeReceiveWhere near (\_ m -> probeOf m)
    either (assertFailure . show) (fakePacketIn far NoBuffer (PortNo 2)) probe
    waitFor "the link" ((== 1) . length <$> links topology)
    deletion far >>= (@?= (mask, []))
  -- The near one is gone, and with it the link.
  deletion far >>= (@?= (mask, []))
  links topology >>= (@?= [])
  where
    mask = if v == OF13 then maxBound else 0
    probeOf = \case
      PacketOutMessage p | [Output (PortNo 1) _] <- packetOutActions p -> Just (packetOutData p)
      _ -> Nothing
