{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : OvsTest
-- Description : The controller and Open vSwitch
module OvsTest
  ( ovsTests,
  )
where

import Control.Monad (forM, forM_, void)
import Data.ByteString qualified as B
import Data.Either (fromRight)
import Data.List (isInfixOf, sortOn)
import Data.Word (Word16)
import Heddle.IO (Runtime, withRuntime)
import Heddle.IO qualified as IO
import Heddle.OpenFlow
import Heddle.OpenFlow.Controller
import Heddle.OpenFlow.Hosts
import Heddle.OpenFlow.Learning
import Heddle.OpenFlow.Packet (ethernet)
import Heddle.OpenFlow.Topology
import Heddle.Prim.Atomic
import Heddle.Prim.Clock
import Heddle.Scope qualified as Scope
import Heddle.Testkit.Ovs
import Heddle.Tls (defaultTlsConfig, loadSite, newTlsListener, pemFiles, tlsOpening)
import Network.Socket (PortNumber, SockAddr (..), tupleToHostAddress)
import Numeric (showHex)
import Test.Tasty
import Test.Tasty.HUnit

ovsTests :: Bool -> TestTree
ovsTests missing
  | missing = testCase "Open vSwitch is not installed (openvswitch-switch): left out" (pure ())
  | otherwise =
    testGroup
      "Open vSwitch"
      [ testGroup "learning: flows are learned, used and aged; either side restarts" [testCase words' (learning v words') | (v, words') <- [(OF10, "OpenFlow10"), (OF13, "OpenFlow13")]],
        testGroup
          "flowLeftOutItsVlan: tagged frames go by their VLAN's flows"
          [ testCase (words' ++ ", tags of type 0x" ++ showHex kind "") (tagged words' kind)
            | words' <- ["OpenFlow10", "OpenFlow13"],
              kind <- [0x8100, 0x88a8]
          ],
        testGroup "hostWhoseFramesAFlowCarriesWasForgotten" [testCase words' (carried words') | words' <- ["OpenFlow10", "OpenFlow13"]],
        testCase "the highest version in common is spoken" bothVersions,
        testGroup "direct style: commit ties errors to commands, dump-flows shows what was sent" [testCase words' (committing v words') | (v, words') <- [(OF10, "OpenFlow10"), (OF13, "OpenFlow13")]],
        testCase "TLS: a switch that trusts our certificate connects, and is asked" encrypted,
        testGroup "a ring of four bridges: links are found, a broadcast arrives once, and no storm begins" [testCase words' (ring words') | words' <- ["OpenFlow10", "OpenFlow13"]],
        testGroup "the same ring without the tree: one broadcast goes round for ever" [testCase words' (storm words') | words' <- ["OpenFlow10", "OpenFlow13"]],
        testCase "every question is answered, and every answer of Open vSwitch is canonical" questions
      ]

onPort :: PortNumber -> Config
onPort port = defaultConfig {configAddress = SockAddrInet port (tupleToHostAddress (127, 0, 0, 1))}

withIO :: (Runtime -> IO a) -> IO a
withIO = withRuntime IO.defaultConfig

theSwitch :: Controller -> IO Switch
theSwitch controller = do
  waitFor "the switch" (not . null <$> switches controller)
  switches controller >>= \case
    [s] -> pure s
    other -> fail ("not one switch: " ++ show other)

-- Packets sent by a port.
sent :: Switch -> Int -> IO Int
sent switch port =
  request switch (askPortStats (PortNo (fromIntegral port))) >>= \case
    Right [stats] -> pure (fromIntegral (portStatsCounters stats !! 1))
    other -> fail ("port statistics: " ++ show other)

learning :: Version -> String -> IO ()
learning version words' = withOvs $ \ovs -> withIO $ \runtime -> do
  port <- freePort
  counts <- newWords 8
  -- Flows that are looked at outlive the programs that are started meanwhile.
  let settings = defaultLearning {learnIdle = 60}
      runWith chosen = withController runtime (onPort port) (learningSwitch chosen counts)
      run = runWith settings
      flows switch = fromRight [] <$> request switch (askFlows allFlows)
      learned switch = filter ((> 0) . flowPriority) <$> flows switch
  addBridge ovs "br0" 17 [("p1", 1), ("p2", 2), ("p3", 3)] words' port
  run $ \controller -> do
    switch <- theSwitch controller
    infoVersion (switchInfo switch) @?= version
    infoDatapath (switchInfo switch) @?= 0x17
    -- Nobody knows 2: all other ports get it.
    inject ovs "p1" 1 2
    forM_ [2, 3] $ \p -> waitFor ("a flooded packet at port " ++ show p) ((== 1) <$> sent switch p)
    -- 1 is known: only its port gets it, and a flow is made.
    inject ovs "p2" 2 1
    waitFor "the answer at port 1" ((== 1) <$> sent switch 1)
    inject ovs "p1" 1 2
    waitFor "a packet at port 2" ((== 2) <$> sent switch 2)
    waitFor "two flows" ((== 2) . length <$> learned switch)
    dumped <- ofctl ovs words' "dump-flows" "br0" []
    assertBool dumped ("dl_dst=00:00:00:00:00:01" `isInfixOf` dumped && "dl_src=00:00:00:00:00:02" `isInfixOf` dumped)
    ins <- countsPacketIns <$> switchCounts switch
    inject ovs "p1" 1 2
    waitFor "a packet that uses the flow" ((== 3) <$> sent switch 2)
    (@?= ins) . countsPacketIns =<< switchCounts switch
    (@?= 1) =<< sent switch 3
    -- The host moves: flows to its old port go.
    inject ovs "p3" 1 9
    waitFor "a flooded packet at port 2" ((== 4) <$> sent switch 2)
    -- Open vSwitch's cache of flows may be behind its table for half a second.
    waitFor "a packet at the host's new port" (inject ovs "p2" 2 1 >> (>= 2) <$> sent switch 3)
  -- Flows that end soon. This one's making is counted, because it may have ended before we look.
  runWith settings {learnIdle = 1} $ \controller -> do
    switch <- theSwitch controller
    made <- countFlows <$> learningCounts counts
    -- Again while Open vSwitch's cache still has the flows of before.
    waitFor "a flow" (inject ovs "p1" 1 2 >> inject ovs "p2" 2 1 >> (> made) . countFlows <$> learningCounts counts)
    waitFor "aged flows" (null <$> learned switch)
  -- The controller is gone; a new one takes over.
  run $ \controller -> do
    switch <- theSwitch controller
    before <- sent switch 2
    waitFor "a flooded packet after the controller's restart" (inject ovs "p1" 1 2 >> (> before) <$> sent switch 2)
    -- The switch is gone, and comes back.
    stopSwitchd ovs
    waitFor "the end of the connection" (null <$> switches controller)
    startSwitchd ovs
    switch' <- theSwitch controller
    waitFor "a port" ((>= 0) <$> sent switch' 2)
    inject ovs "p1" 1 2
    waitFor "a flooded packet after the switch's restart" ((>= 1) <$> sent switch' 2)
    counted <- controllerCounts controller
    countConnected counted @?= 2
    countEnded counted @?= 1

-- One host's address at two ports, in a VLAN each; another host's trunk.
-- The switch says whose frames its flows carry.
carried :: String -> IO ()
carried words' = withOvs $ \ovs -> withIO $ \runtime -> do
  port <- freePort
  counts <- newWords 8
  hosts <- newHosts 16 1000
  addBridge ovs "br0" 17 [("p1", 1), ("p2", 2)] words' port
  -- The flow is there for as long as the test runs.
  let settings = defaultLearning {learnIdle = 3000, learnHosts = const (pure hosts)}
  withController runtime (onPort port) (learningSwitch settings counts) $ \controller -> do
    switch <- theSwitch controller
    let place host = (\p -> if p == noPlace then Nothing else Just (placePort p)) <$> findHost hosts (hostKey 0 (Mac host))
        minutesPass asked minutes = forM_ minutes $ \minute -> do
          ageHosts 30 minute [hosts] [switch | asked]
          -- Comes after the switch's answer.
          request switch askBarrier >>= either (fail . show) pure
    inject ovs "p1" 1 2
    waitFor "the first host" ((== Just (PortNo 1)) <$> place 1)
    inject ovs "p2" 2 1
    waitFor "a flow" ((== 1) . countFlows <$> learningCounts counts)
    minutesPass True [1 .. 100]
    mapM place [1, 2] >>= (@?= [Nothing, Just (PortNo 2)])
    minutesPass False [1 .. 40]
    mapM place [1, 2] >>= (@?= [Nothing, Nothing])

tagged :: String -> Word16 -> IO ()
tagged words' kind = withOvs $ \ovs -> withIO $ \runtime -> do
  port <- freePort
  counts <- newWords 8
  addBridge ovs "br0" 22 [("p1", 1), ("p2", 2), ("p3", 3), ("p4", 4)] words' port
  withController runtime (onPort port) (learningSwitch defaultLearning counts) $ \controller -> do
    switch <- theSwitch controller
    waitFor "ports" ((>= 4) . length . fromRight [] <$> request switch askPorts)
    let made = countFlows <$> learningCounts counts
        comes name vid source destination = appctl ovs ["netdev-dummy/receive", name, concatMap hex2 (B.unpack (framed vid source destination))]
        sums = forM [1 .. 4] (sent switch)
        -- What the last frame has added at each port.
        until' what wanted = waitFor what ((== wanted) <$> sums)
    -- Nobody knows host 1: all other ports get these.
    void (comes "p2" 10 2 1)
    until' "a flooded frame of VLAN 10" [1, 0, 1, 1]
    void (comes "p3" 20 2 1)
    until' "a flooded frame of VLAN 20" [2, 1, 1, 2]
    void (comes "p1" 10 1 2)
    until' "a frame of VLAN 10 at its port" [2, 2, 1, 2]
    void (comes "p1" 20 1 2)
    until' "a frame of VLAN 20 at its port" [2, 2, 2, 2]
    waitFor "two flows" ((== 2) <$> made)
    -- These use the flows.
    ins <- countsPacketIns <$> switchCounts switch
    void (comes "p1" 10 1 2)
    until' "another frame of VLAN 10" [2, 3, 2, 2]
    void (comes "p1" 20 1 2)
    until' "another frame of VLAN 20" [2, 3, 3, 2]
    (@?= ins) . countsPacketIns =<< switchCounts switch
    -- The host moves in VLAN 10 alone.
    void (comes "p4" 10 2 9)
    until' "a flooded frame from the new place" [3, 4, 4, 2]
    waitFor "the flow of VLAN 20 alone" $ do
      dumped <- filter ("dl_src=00:00:00:00:00:01" `isInfixOf`) . lines <$> ofctl ovs words' "dump-flows" "br0" []
      pure (length dumped == 1 && all ("dl_vlan=20" `isInfixOf`) dumped)
    void (comes "p1" 20 1 2)
    until' "a frame of VLAN 20 after the move" [3, 4, 5, 2]
  where
    framed vid source destination =
      ethernet (Mac destination) (Mac source) kind (B.pack [0, vid, 8, 0] <> B.pack ipv4)
    ipv4 = [0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0x66, 0xbd, 10, 0, 0, 1, 10, 0, 0, 2, 0, 1, 0, 2, 0, 26, 0, 0] ++ replicate 18 0
    hex2 b = (if b < 16 then "0" else "") ++ showHex b ""

bothVersions :: IO ()
bothVersions = withOvs $ \ovs -> withIO $ \runtime -> do
  port <- freePort
  addBridge ovs "br0" 18 [("p1", 1)] "OpenFlow10,OpenFlow13" port
  withController runtime (onPort port) (\_ _ -> pure noHandlers) $ \controller -> do
    switch <- theSwitch controller
    infoVersion (switchInfo switch) @?= OF13
  withController runtime (onPort port) {configVersions = [OF10]} (\_ _ -> pure noHandlers) $ \controller -> do
    switch <- theSwitch controller
    infoVersion (switchInfo switch) @?= OF10

committing :: Version -> String -> IO ()
committing version words' = withOvs $ \ovs -> withIO $ \runtime -> do
  port <- freePort
  results <- newRef []
  let body feed = do
        let switch = feedSwitch feed
        first <- commit switch [flowDelete matchAll, good 1, bad, good 2]
        found <- request switch (askFlows allFlows)
        writeRef results [(first, found)]
        untilDown feed
      untilDown feed =
        recv feed >>= \case
          Down _ -> pure ()
          _ -> untilDown feed
  addBridge ovs "br0" 19 [("p1", 1), ("p2", 2)] words' port
  withController runtime (onPort port) (directly body) $ \controller -> do
    void (theSwitch controller)
    waitFor "the body" (not . null <$> readRef results)
    readRef results >>= \case
      [(Left (CommandsRefused [(place, _, _)]), Right found)] -> do
        place @?= 2
        let wanted = [(flowPriority f, fields (flowMatch f), flowInstructions f, flowCookie f) | f <- found]
            expected = [(flowModPriority m, fields (flowModMatch m), flowModInstructions m, flowModCookie m) | m <- [good 1, good 2]]
        assertBool (show wanted) (all (`elem` wanted) expected && length wanted == 2)
      other -> assertFailure (show other)
    dumped <- ofctl ovs words' "dump-flows" "br0" []
    assertBool dumped (all (`isInfixOf` dumped) ["cookie=0x4d1", "cookie=0x4d2", "priority=101,udp,nw_src=10.0.0.0/8,tp_dst=53", "output:2"])
  where
    good n =
      (flowAdd (100 + n) (Match [oxm EthType 0x800, oxm IpProto 17, oxmMasked Ipv4Src 0x0a000000 0xff000000, oxm UdpDst (52 + toInteger n)]) [Output (PortNo 2) 0])
        { flowModCookie = 0x4d0 + fromIntegral n
        }
    fields = \case
      Match fs -> sortOn show fs
      MatchRaw _ _ -> []
    -- What no switch accepts: a queue of the controller, or a group that there is not.
    bad = case version of
      OF10 -> flowAdd 5 matchAll [Enqueue PortController 1]
      OF13 -> flowAdd 5 matchAll [Group 77]

questions :: IO ()
questions = withOvs $ \ovs -> withIO $ \runtime -> do
  port <- freePort
  addBridge ovs "br0" 20 [("p1", 1), ("p2", 2)] "OpenFlow10,OpenFlow13" port
  forM_ [[OF10], [OF13]] $ \versions ->
    withController runtime (onPort port) {configVersions = versions, configPatience = seconds 20} (\_ _ -> pure noHandlers) $ \controller -> do
      switch <- theSwitch controller
      let version = infoVersion (switchInfo switch)
          ask name question check =
            request switch question >>= \case
              Left e -> assertFailure (show version ++ " " ++ name ++ ": " ++ renderRequestError version e)
              Right a -> assertBool (show version ++ " " ++ name ++ ": " ++ show a) (check a)
      ask "description" askDescription (not . null . show)
      ask "flows" (askFlows allFlows) (const True)
      ask "aggregate" (askAggregate allFlows) (const True)
      ask "tables" askTables (not . null)
      ask "ports" askPorts ((>= 2) . length)
      ask "port statistics" (askPortStats PortAny) ((>= 2) . length)
      ask "queues" (askQueueStats PortAny 0xffffffff) (const True)
      ask "configuration" askConfig (const True)
      ask "echo" (askEcho "hello") (== "hello")
      ask "barrier" askBarrier (const True)
      case version of
        OF10 -> pure ()
        OF13 -> do
          ask "groups" askGroups null
          ask "group statistics" (askGroupStats 0xfffffffc) null
          ask "meters" (askMeters 0xffffffff) (const True)
          ask "table features, in several parts" askTableFeatures ((== 254) . length)
          ask "role" (askRole RoleMaster 5) ((== RoleMaster) . roleRole)
          request switch (askRole RoleMaster 4) >>= \case
            Left (RefusedBy (ErrorKind 11 0) _) -> pure ()
            other -> assertFailure ("an old generation: " ++ show other)
          assertBool "generations wrap" (generationAfter 1 maxBound && not (generationAfter maxBound 1))

-- Four bridges in a ring, when all have connected; port 1 leads to the next bridge, port 2 to the one before, port 3 to a host.
inRing :: String -> Runtime -> (Controller -> Switch -> IO Handlers) -> (Ovs -> Controller -> IO ()) -> IO ()
inRing words' runtime handlers act = withOvs $ \ovs -> do
  port <- freePort
  withController runtime (onPort port) handlers $ \controller -> do
    forM_ [1 .. 4] $ \b -> addBridge ovs ("ring" ++ show b) b [(ringPort b p, p) | p <- [1 .. 3]] words' port
    forM_ [1 .. 4] $ \b -> patch ovs (ringPort b 1) (ringPort (b `rem` 4 + 1) 2)
    waitFor "four switches" ((== 4) . length <$> switches controller)
    act ovs controller

ringPort :: Int -> Int -> String
ringPort b p = "r" ++ show b ++ "p" ++ show p

-- How many packets that are no probes each bridge has sent to its host: probes have 60 bytes, and hosts' packets 106.
delivered :: Controller -> IO [Int]
delivered controller = forM [1 .. 4] $ \b -> do
  switch <- findSwitch controller b >>= maybe (fail "a switch has gone") pure
  request switch (askPortStats (PortNo 3)) >>= \case
    Right [stats] -> let c = portStatsCounters stats in pure ((fromIntegral (c !! 3) - 60 * fromIntegral (c !! 1)) `quot` 46)
    other -> fail ("port statistics: " ++ show other)

-- The last byte of an address that no host has, so that it is flooded.
nobody :: Int
nobody = 99

ring :: String -> IO ()
ring words' = withIO $ \runtime -> do
  counts <- newWords 8
  hosts <- newHosts 16 1000
  withTopology defaultTopology {topologyProbe = milliseconds 500} hosts $ \topology -> Scope.withScope $ \scope ->
    inRing words' runtime (topologySwitch topology scope counts) $ \ovs controller -> do
      waitFor "eight directions of links" ((== 8) . length <$> links topology)
      -- Three of the four links are in the tree, and each bridge's host port.
      waitFor "a tree" ((== 3 * 2 + 4) . sum <$> mapM (fmap length . treePorts topology) [1 .. 4])
      inject ovs (ringPort 1 3) 1 nobody
      waitFor "the broadcast at each other host" ((== [1, 1, 1]) . drop 1 <$> delivered controller)
      -- An answer goes straight back, and the way is learned.
      inject ovs (ringPort 3 3) 3 1
      waitFor "the answer" ((== [1, 1, 1, 1]) <$> delivered controller)
      inject ovs (ringPort 1 3) 1 3
      waitFor "a packet to 3" ((== [1, 1, 2, 1]) <$> delivered controller)
      -- A storm would go on: after more broadcasts than there is time for a round trip, the sums are exact.
      forM_ [1 .. 5 :: Int] $ \_ -> inject ovs (ringPort 1 3) 1 nobody
      waitFor "five broadcasts" ((== [1, 6, 7, 6]) <$> delivered controller)
      inject ovs (ringPort 4 3) 4 1
      waitFor "what came after them" ((== [2, 6, 7, 6]) <$> delivered controller)

-- What the tree prevents, and that the sums above would show it.
storm :: String -> IO ()
storm words' = withIO $ \runtime -> inRing words' runtime hub $ \ovs controller -> do
  inject ovs (ringPort 1 3) 1 nobody
  waitFor "the packet a hundred times at each host" (all (>= 100) <$> delivered controller)

encrypted :: IO ()
encrypted = withOvs $ \ovs -> withIO $ \runtime -> do
  port <- freePort
  (certificate, key) <- selfSignedFiles ovs
  site <- loadSite (defaultTlsConfig [pemFiles certificate key]) >>= either (fail . unlines . map show) pure
  tls <- newTlsListener site
  void (vsctl ovs ["set-ssl", key, certificate, certificate])
  withController runtime (onPort port) {configTls = Just (tlsOpening tls)} (\_ _ -> pure noHandlers) $ \controller -> do
    addBridge ovs "br0" 21 [("p1", 1)] "OpenFlow13" port
    void (vsctl ovs ["set-controller", "br0", "ssl:127.0.0.1:" ++ show port])
    switch <- theSwitch controller
    request switch askPorts >>= either (fail . renderRequestError OF13) (\ports -> assertBool (show ports) (length ports == 2))
    request switch (askEcho "through TLS") >>= (@?= Right "through TLS")
