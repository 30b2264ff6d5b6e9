{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : TextTest
-- Description : The syntax of ovs-ofctl, and messages that Open vSwitch's programs make
module TextTest
  ( textTests,
    ofctlTests,
  )
where

import Control.Monad (forM_)
import Data.Bits ((.&.))
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.Either (isLeft)
import Data.List (nub, sortOn)
import Generators
import Heddle.OpenFlow
import Heddle.OpenFlow.Text
import Heddle.Prim.Clock (seconds)
import Heddle.Prim.Exception (bracket)
import Heddle.Timer (timeout)
import Network.Socket
import Network.Socket.ByteString (recv, sendAll)
import System.Process (CreateProcess (..), StdStream (..), proc, terminateProcess, waitForProcess, withCreateProcess)
import Test.QuickCheck hiding ((.&.))
import Test.Tasty
import Test.Tasty.HUnit
import Test.Tasty.QuickCheck (testProperty)

textTests :: TestTree
textTests =
  testGroup
    "text"
    [ testProperty "parseMatch of renderMatch is the same, for matches that 1.0 can say" $
        forAll (suchThat canonicalMatch plain) $ \m ->
          counterexample (renderMatch m) (fmap sorted (parseMatch (renderMatch m)) === Right (sorted (cleared m))),
      testGroup
        "masksWereLostInText"
        [ testProperty "parseMatch of renderMatch is the same, for each field and mask" maskedText,
          testProperty "and for TCP's flags and the time to live" flagsText,
          testCase "what the standard does not mask is not taken for exact" $
            forM_ [(f, o) | f <- knownFields, not (fieldMaskable (fieldInfo f)), f `notElem` otherMasks, let { o = oxmMasked f 0 1 }] $ \(f, o) -> do
              let text = renderMatch (Match [o])
              assertBool text ('/' `elem` text)
              assertBool (show f ++ " " ++ text) (isLeft (parseMatch text)),
          testCase "bits under a mask are cleared" $
            forM_ clearedTexts $ \(text, wanted) -> fmap sorted (parseMatch text) @?= Right (sorted (Match wanted)),
          testCase "wrong masks and flags are refused" $
            forM_
              ["tp_dst=80/1", "udp,tp_src=1/0x10000", "udp,udp_src=/1", "tcp_flags=0x1000", "tcp_flags=+syn+syn", "tcp_flags=+syn-syn", "tcp_flags=syn|syn", "tcp_flags=", "tcp_flags=+", "tcp_flags=+fly", "tcp_flags=syn|", "tcp_flags=1/0x1000", "nw_ttl=256", "nw_ttl=1/1", "metadata=1/0x10000000000000000", "vlan_vid=0x2000/0x1000"]
              (\s -> assertBool s (isLeft (parseMatch s)))
        ],
      testGroup "parseFlow of renderFlow is the same" [testProperty (show v) (flowText v) | v <- [OF10, OF13]],
      testCase "a dump is read back" $ do
        parsed <- either assertFailure pure (parseFlow OF13 " cookie=0x5, duration=3.25s, table=2, n_packets=7, n_bytes=490, idle_timeout=60, priority=100,tcp,nw_src=10.0.0.0/8,tp_dst=80 actions=set_field:0x1->metadata,output:2,goto_table:3")
        (flowModCookie parsed, flowModTable parsed, flowModIdle parsed, flowModPriority parsed) @?= (5, 2, 60, 100)
        flowModInstructions parsed @?= [ApplyActions [SetField (oxm Metadata 1), Output (PortNo 2) 0], GotoTable 3],
      testCase "what is wrong is refused" $
        forM_
          ["priority=70000", "nw_src=10.0.0.300", "nw_src=10.0.0.0/33", "dl_src=00:11:22", "tp_dst=80", "reg0=1", "dl_vlan=4097", "actions=fly", "actions=output:", "in_port=x", "ipv6_src=1:2:::3", "tcp,tp_dst=65536", "priority=", "actions=mod_vlan_vid:70000"]
          (\s -> assertBool s (isLeft (parseFlow OF10 s)))
    ]
  where
    -- ICMP's fields have names of their own only where the match says that it is IPv4; 1.0's match can also leave that open.
    plain m = (fieldValue IpProto m == Nothing || fieldValue EthType m == Just (0x800, Nothing) || ipProto m == Nothing) && noPorts m
    ipProto = fieldValue IpProto
    noPorts m = maybe (all (\f -> fieldValue f m == Nothing) [TcpSrc, TcpDst]) (\(p, _) -> p /= 7 || all (\f -> fieldValue f m == Nothing) [TcpSrc, TcpDst]) (ipProto m)

-- Fields that Open vSwitch masks beyond the standard.
otherMasks :: [Field]
otherMasks = [TcpSrc, TcpDst, UdpSrc, UdpDst, SctpSrc, SctpDst, Ipv6NdTarget, Ipv6NdSll, Ipv6NdTll]

-- As ovs-ofctl would send it.
cleared :: Match -> Match
cleared = \case
  Match fields -> Match (concatMap one fields)
  m -> m
  where
    one = \case
      Oxm f v (Just m)
        | B.all (== 0) m -> []
        | oxmNumber m == 2 ^ fieldBits (fieldInfo f) - 1 -> [Oxm f v Nothing]
        | otherwise -> [Oxm f (B.pack (B.zipWith (.&.) v m)) (Just m)]
      o -> [o]

maskedText :: Property
maskedText = forAll field $ \(f, n, m) ->
  let match = Match (context f ++ [oxmMasked f n m])
   in counterexample (renderMatch match) (fmap sorted (parseMatch (renderMatch match)) === Right (sorted (cleared match)))
  where
    field = do
      f <- elements ([f | f <- knownFields, fieldMaskable (fieldInfo f)] ++ otherMasks)
      let most = 2 ^ fieldBits (fieldInfo f) - 1 :: Integer
      n <- choose (0, most)
      m <- oneof [choose (0, most), pure most, pure 0, (\k -> most - (2 ^ (k :: Int) - 1)) <$> choose (0, fieldBits (fieldInfo f))]
      pure (f, n, m)
    -- Ports have short names where the protocol is known, and long ones where it is not; either is read.
    context f = [oxm EthType 0x800 | f `elem` [TcpSrc, UdpDst, SctpDst]] ++ [oxm IpProto p | (g, p) <- [(TcpSrc, 6), (UdpDst, 17), (SctpDst, 132)], f == g]

flagsText :: Property
flagsText = forAll ((,,) <$> choose (0, 0xfff) <*> choose (0, 0xfff) <*> choose (0, 255)) $ \(n, m, ttl) ->
  let masked = [flag (n .&. m) (Just m) | m /= 0]
   in conjoin [counterexample (renderMatch (Match [o])) (parseMatch (renderMatch (Match [o])) === Right (Match [o])) | o <- OxmRaw 1 58 (B.singleton ttl) : flag n Nothing : masked]
  where
    flag :: Int -> Maybe Int -> Oxm
    flag n m = OxmRaw 0xffff (maybe 84 (const 85) m) (B.pack ([0x4f, 0x4e, 0x46, 0] ++ concat [[fromIntegral (w `div` 256), fromIntegral w] | w <- n : foldMap pure m]))

clearedTexts :: [(String, [Oxm])]
clearedTexts =
  [ ("nw_src=10.0.0.1/8", [oxmMasked Ipv4Src 0x0a000000 0xff000000]),
    ("nw_dst=10.0.0.5/255.0.0.1", [oxmMasked Ipv4Dst 0x0a000001 0xff000001]),
    ("nw_dst=10.0.0.5/255.255.255.255", [oxm Ipv4Dst 0x0a000005]),
    ("nw_src=10.0.0.1/0", []),
    ("arp,arp_tpa=10.0.0.1/8", [oxm EthType 0x806, oxmMasked ArpTpa 0x0a000000 0xff000000]),
    ("dl_dst=01:00:00:00:00:01/01:00:00:00:00:00", [oxmMasked EthDst 0x010000000000 0x010000000000]),
    ("dl_src=00:00:00:00:00:01/ff:ff:ff:ff:ff:ff,dl_dst=00:00:00:00:00:01/00:00:00:00:00:00", [oxm EthSrc 1]),
    ("metadata=0xff/0xf,tun_id=5/0", [oxmMasked Metadata 0xf 0xf]),
    ("vlan_tci=0x1123/0x1f00", [oxmMasked VlanVid 0x1100 0x1f00]),
    ("vlan_vid=0x1005/0x1001", [oxmMasked VlanVid 0x1001 0x1001]),
    ("tcp,tp_dst=81/0xfff0", [oxm EthType 0x800, oxm IpProto 6, oxmMasked TcpDst 0x50 0xfff0]),
    ("ip,nw_src=10.0.0.1/24,nw_src=10.0.0.1/8", [oxm EthType 0x800, oxmMasked Ipv4Src 0x0a000000 0xff000000])
  ]

sorted :: Match -> [String]
sorted = \case
  Match fields -> sortOn id (map show fields)
  MatchRaw kind _ -> ["raw " ++ show kind]

flowText :: Version -> Property
flowText v = forAll ((,,,) <$> arbitrary <*> arbitrary <*> arbitrary <*> acts) $ \(priority, idle, cookie, as) ->
  let flow = (flowAdd priority (Match [oxm EthType 0x800, oxm IpProto 6, oxm TcpDst 80]) as) {flowModIdle = idle, flowModCookie = cookie}
   in counterexample (renderFlow flow) (parseFlow v (renderFlow flow) === Right flow)
  where
    acts = map lengths . filter known <$> (choose (0, 4) >>= \n -> vectorOf n (anyAction v))
    -- The text does not say how much of a packet a port gets.
    lengths = \case
      Output p n | p /= PortController -> Output p (n * 0)
      a -> a
    known = \case
      ActionRaw _ _ -> False
      ActionExperimenter _ _ -> False
      SetField _ -> False
      Output p _ -> p /= PortAny && (p >= PortInPort || p < PortNo 0xff00)
      Enqueue p _ -> p >= PortInPort || p < PortNo 0xff00
      _ -> True

-- | What ovs-ofctl sends for a flow is what is read from the same text, and its bytes are canonical.
ofctlTests :: Bool -> TestTree
ofctlTests missing
  | missing = testGroup "ovs-ofctl" []
  | otherwise =
    testGroup
      "ovs-ofctl"
      [ testGroup "what it sends for a flow is what parseFlow reads" [testCase (words' ++ " " ++ flow) (compared v words' flow) | (v, words', flows) <- [(OF10, "OpenFlow10", flows10), (OF13, "OpenFlow13", flows13)], flow <- flows]
      ]

flows10, flows13 :: [String]
flows10 =
  [ "priority=5,dl_dst=00:00:00:00:00:02,actions=output:2",
    "cookie=0x77,idle_timeout=5,hard_timeout=7,tcp,nw_src=10.0.0.0/8,tp_dst=80,actions=mod_nw_src:1.2.3.4,mod_tp_src:9,output:3",
    "send_flow_rem,check_overlap,udp,nw_tos=16,dl_vlan=5,dl_vlan_pcp=3,actions=strip_vlan,enqueue:1:2",
    "arp,nw_src=10.1.2.3,nw_dst=10.0.0.0/24,actions=FLOOD",
    "icmp,icmp_type=8,icmp_code=0,in_port=4,actions=mod_vlan_vid:5,mod_vlan_pcp:1,mod_dl_src:00:01:02:03:04:05,IN_PORT",
    "actions=drop",
    "ip,nw_src=10.0.0.1/8,nw_dst=10.0.0.1/0,actions=drop",
    "arp,arp_spa=10.1.2.3/16,actions=drop",
    "dl_type=0x88cc,actions=CONTROLLER:65535"
  ]
flows13 =
  [ "priority=5,dl_dst=00:00:00:00:00:02,actions=output:2",
    "table=3,cookie=0x77,idle_timeout=5,tcp,nw_src=10.0.0.0/8,tp_dst=80,actions=set_field:1.2.3.4->ip_src,set_field:9->tcp_src,dec_ttl,output:3,goto_table:4",
    "ipv6,ipv6_src=2001:db8::/32,actions=push_vlan:0x8100,set_field:4101->vlan_vid,set_queue:3,group:5,LOCAL",
    "metadata=0x5/0xff,tun_id=0x9,actions=write_metadata:0x12/0xff,goto_table:9",
    "udp6,udp_dst=53,actions=meter:4,output:1",
    "arp,arp_op=1,arp_spa=10.0.0.1,arp_sha=00:00:00:00:00:01,actions=write_actions(output:4)",
    "mpls,mpls_label=1000,mpls_tc=3,mpls_bos=1,actions=set_mpls_ttl:9,pop_mpls:0x0800,clear_actions",
    "dl_vlan=0xffff,dl_dst=01:00:00:00:00:00/01:00:00:00:00:00,actions=CONTROLLER:128",
    "ip,nw_src=10.0.0.1/8,nw_dst=10.0.0.5/255.0.0.1,actions=drop",
    "ip,nw_src=10.0.0.1/24,nw_src=10.0.0.1/8,actions=drop",
    "tcp,tp_src=81/0xfff0,tp_dst=0x50/0xffff,actions=drop",
    "udp6,udp_src=5/0xfffe,ipv6_src=2001:db8::1/32,actions=drop",
    "sctp,sctp_dst=7/7,actions=drop",
    "ip,nw_ttl=64,actions=drop",
    "tcp,tcp_flags=+syn-ack,actions=drop",
    "tcp,tcp_flags=syn|ack,actions=drop",
    "tcp,tcp_flags=0x1ff/0x012,actions=drop",
    "tcp,tcp_flags=0x12/0xfff,actions=drop",
    "tcp,tcp_flags=0,actions=drop",
    "metadata=0xff/0xf,tun_id=5/0,dl_dst=01:00:00:00:00:01/01:00:00:00:00:00,actions=drop",
    "vlan_vid=0x1005/0x1001,actions=drop",
    "arp,arp_spa=10.0.0.1/8,arp_sha=01:00:00:00:00:01/01:00:00:00:00:00,actions=drop",
    "ipv6,ipv6_label=0x5/0x3,actions=drop",
    "icmp6,icmp_type=135,nd_target=2001:db8::1/32,actions=drop",
    "actions=drop"
  ]

compared :: Version -> String -> String -> IO ()
compared v words' flow = do
  answered <- timeout (seconds 40) (sentByOfctl v words' ["add-flow", "@", flow])
  message <- maybe (fail "ovs-ofctl sent no flow within 40 seconds") pure answered
  case decode v message of
    Left e -> assertFailure (show e)
    Right (xid, m) -> do
      assertBool "the bytes are canonical" (encode v xid m == Right message)
      case m of
        FlowModMessage sent -> case parseFlow v flow of
          Left e -> assertFailure e
          Right ours -> do
            -- ovs-ofctl orders fields by number, and writes what we do not care about its own way.
            sorted (flowModMatch ours) @?= nub (sorted (flowModMatch sent))
            map lengths (flowModInstructions ours) @?= map lengths (flowModInstructions sent)
            (flowModPriority ours, flowModCookie ours, flowModIdle ours, flowModHard ours, flowModTable ours) @?= (flowModPriority sent, flowModCookie sent, flowModIdle sent, flowModHard sent, flowModTable sent)
        other -> assertFailure (messageName other)
  where
    lengths = \case
      ApplyActions as -> ApplyActions (map length' as)
      WriteActions as -> WriteActions (map length' as)
      i -> i
    length' = \case
      Output p n | p /= PortController -> Output p (n * 0)
      a -> a

-- Play a switch for ovs-ofctl, and return the first flow modification that it sends.
sentByOfctl :: Version -> String -> [String] -> IO ByteString
sentByOfctl v words' arguments =
  bracket (socket AF_INET Stream defaultProtocol) close $ \listening -> do
    bind listening (SockAddrInet 0 (tupleToHostAddress (127, 0, 0, 1)))
    listen listening 1
    port <- socketPort listening
    let target = "tcp:127.0.0.1:" ++ show port
        command = proc "ovs-ofctl" (["--timeout=40", "--no-names", "-O", words'] ++ map (\a -> if a == "@" then target else a) arguments)
    withCreateProcess command {std_err = CreatePipe, std_out = CreatePipe} $ \_ _ _ handle -> do
      -- The flow may come in another connection than the first.
      let connection left =
            bracket (fst <$> accept listening) close (\peer -> answer peer 0 (Hello []) >> serve [] peer B.empty) >>= \case
              Right message -> pure message
              Left seen
                | left > 0 -> connection (left - 1)
                | otherwise -> fail ("ovs-ofctl has gone; it sent " ++ show (map (B.take 16) seen))
      message <- connection (3 :: Int)
      terminateProcess handle
      _ <- waitForProcess handle
      pure message
  where
    answer peer xid m = either (fail . show) (sendAll peer) (encode v xid m)
    serve :: [ByteString] -> Socket -> ByteString -> IO (Either [ByteString] ByteString)
    serve seen peer bytes
      | B.length bytes >= 8,
        n <- fromIntegral (B.index bytes 2) * 256 + fromIntegral (B.index bytes 3),
        B.length bytes >= n =
        let (message, rest) = B.splitAt n bytes
         in case B.index message 1 of
              14 -> pure (Right message)
              0 -> serve (message : seen) peer rest
              _ -> case decode v message of
                Right (xid, BarrierRequest) -> answer peer xid BarrierReply >> serve (message : seen) peer rest
                Right (xid, FeaturesRequest) -> answer peer xid (FeaturesReply (Features 1 0 254 0 0 0 [])) >> serve (message : seen) peer rest
                Right (xid, GetConfigRequest) -> answer peer xid (GetConfigReply (SwitchConfig 0 0)) >> serve (message : seen) peer rest
                -- Extensions of Open vSwitch are refused, as another switch would.
                Right (xid, _) -> answer peer xid (ErrorMessage (ErrorKind 1 3) (B.take 64 message)) >> serve (message : seen) peer rest
                Left e -> fail (show e)
      | otherwise = do
        more <- recv peer 65536
        if B.null more then pure (Left seen) else serve seen peer (bytes <> more)
