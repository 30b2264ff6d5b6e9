{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : OfctlTest
-- Description : What ovs-ofctl sends for a flow, and what is read from the same text
module OfctlTest
  ( ofctlTests,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.List (intercalate, nub)
import Heddle.OpenFlow
import Heddle.OpenFlow.Text
import Heddle.Prim.Clock (seconds)
import Heddle.Prim.Exception (bracket)
import Heddle.Timer (timeout)
import Network.Socket
import Network.Socket.ByteString (recv, sendAll)
import Numeric (showHex)
import System.IO (hClose, hPutStr)
import System.Process (CreateProcess (..), StdStream (..), proc, terminateProcess, waitForProcess, withCreateProcess)
import Test.QuickCheck
import Test.Tasty
import Test.Tasty.HUnit
import TextTest (sorted)

-- | What ovs-ofctl sends for a flow is what is read from the same text, and its bytes are canonical.
ofctlTests :: Bool -> TestTree
ofctlTests missing
  | missing = testGroup "ovs-ofctl" []
  | otherwise =
    testGroup
      "ovs-ofctl"
      [ testGroup
          "what it sends for a flow is what parseFlow reads"
          [testCase (words' ++ " " ++ flow) (compared v words' [flow]) | (v, words', flows) <- [(OF10, "OpenFlow10", flows10), (OF13, "OpenFlow13", flows13)], flow <- flows],
        testGroup
          "textWasReadOtherwiseThanByOfctl: random flows"
          [testCase words' (generate (vectorOf 5000 (flowTexts v)) >>= compared v words') | (v, words') <- [(OF10, "OpenFlow10"), (OF13, "OpenFlow13")]]
      ]

flows10, flows13 :: [String]
flows10 =
  [ "priority=5,dl_dst=00:00:00:00:00:02,actions=output:2",
    "cookie=0x77,idle_timeout=5,hard_timeout=7,tcp,nw_src=10.0.0.0/8,tp_dst=80,actions=mod_nw_src:1.2.3.4,mod_tp_src:9,output:3",
    "send_flow_rem,check_overlap,udp,nw_tos=16,dl_vlan=5,dl_vlan_pcp=3,actions=strip_vlan,enqueue:1:2",
    "arp,nw_src=10.1.2.3,nw_dst=10.0.0.0/24,actions=FLOOD",
    "icmp,icmp_type=8,icmp_code=0,in_port=4,actions=mod_vlan_vid:5,mod_vlan_pcp:1,mod_dl_src:00:01:02:03:04:05,IN_PORT",
    "actions=drop",
    "ip,nw_tos=3,actions=drop",
    "udp,nw_tos=0xff,actions=drop",
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
    "ip,nw_tos=3,actions=drop",
    "ipv6,nw_tos=7,nw_ecn=3,actions=drop",
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

-- Flows that ovs-ofctl accepts for a version, in any order and with any form of their values.
flowTexts :: Version -> Gen String
flowTexts v = do
  attributes <-
    sublist
      ["priority=", "idle_timeout=", "hard_timeout="]
      (sixteen >>= number)
  cookie <- maybeOne (("cookie=" ++) <$> (bits 64 >>= number))
  table <- only13 (("table=" ++) . show <$> choose (0, 253 :: Int))
  flagged <- sublistOf (["send_flow_rem", "check_overlap"] ++ if new then ["reset_counts", "no_packet_counts", "no_byte_counts"] else [])
  low <- concat <$> sequence [maybeOne (("in_port=" ++) <$> inPort), maybeOne (mac "dl_src"), maybeOne (mac "eth_dst"), oneof [pure [], vlans]]
  beyond <- concat <$> sequence [only13 (masked 64 "metadata"), only13 (masked 64 "tun_id")]
  high <- protocol
  parts <- shuffle (attributes ++ cookie ++ table ++ flagged ++ low ++ beyond ++ high)
  gap <- elements [",", ", ", " "]
  acts <- actions
  pure (intercalate gap (parts ++ ["actions=" ++ acts]))
  where
    new = v == OF13
    sublist names value = sublistOf names >>= mapM (\n -> (n ++) <$> value)
    maybeOne g = oneof [pure [], pure <$> g]
    only13 g = if new then maybeOne g else pure []
    bits n = choose (0, 2 ^ (n :: Int) - 1) :: Gen Integer
    sixteen = oneof [bits 16, bits 8]
    number n = elements [show n, "0x" ++ showHex n "", "0X" ++ showHex n ""]
    plain n name = ((name ++ "=") ++) <$> (bits n >>= number)
    masked n name
      | new = oneof [plain n name, (\a b -> name ++ "=" ++ a ++ "/" ++ b) <$> (bits n >>= number) <*> (oneof [bits n, pure (2 ^ n - 1), pure 0] >>= number)]
      | otherwise = plain n name
    inPort = oneof [show <$> choose (1, 0xfeff :: Int), elements ["LOCAL", "local", "65534"]]
    mac name = do
      a <- address
      m <- if new then oneof [pure "", ('/' :) <$> address] else elements ["", "/ff:ff:ff:ff:ff:ff", "/00:00:00:00:00:00"]
      pure (name ++ "=" ++ a ++ m)
    address = intercalate ":" <$> vectorOf 6 (bits 8 >>= \b -> elements [showHex b "", (if b < 16 then "0" else "") ++ showHex b ""])
    vlans =
      oneof $
        [ pure <$> plain 12 "dl_vlan",
          pure (pure "dl_vlan=0xffff"),
          (\a b -> [a, b]) <$> plain 12 "dl_vlan" <*> plain 3 "dl_vlan_pcp",
          pure <$> plain 3 "dl_vlan_pcp",
          elements [["vlan_tci=0"], ["vlan_tci=0x1123"], ["vlan_tci=0xf00a"]]
        ]
          ++ [oneof [pure <$> tagged "vlan_vid", pure <$> tagged "vlan_tci", pure ["vlan_tci=0x1000/0x1000"]] | new]
    -- Without any bit, ovs-ofctl matches the type of the packet.
    tagged name = (\a b -> name ++ "=" ++ a ++ "/" ++ b) <$> (bits 13 >>= number) <*> (choose (1, 0x1fff :: Integer) >>= number)
    dotted = intercalate "." <$> vectorOf 4 (show <$> bits 8)
    ipv4 name = do
      a <- dotted
      m <- oneof [pure "", ('/' :) . show <$> choose (0, 32 :: Int), if new then ('/' :) <$> dotted else pure "/255.255.0.0"]
      pure (name ++ "=" ++ a ++ m)
    groupsOf n = intercalate ":" <$> vectorOf n ((`showHex` "") <$> bits 16)
    ipv6 name = do
      a <- oneof [groupsOf 8, elements ["::", "::1", "2001:db8::7", "fe80::1:2", "::ffff:10.0.0.1", "1:2:3:4:5:6:7::"]]
      m <- oneof [pure "", ('/' :) . show <$> choose (0, 128 :: Int), ("/ffff:" ++) <$> groupsOf 7]
      pure (name ++ "=" ++ a ++ m)
    some gs = concat <$> mapM maybeOne gs
    protocol =
      oneof $
        [ pure [],
          pure <$> plain 16 "dl_type",
          (:) <$> eth "ip" 0x800 <*> some (plain 8 "nw_proto" : tos ++ v4),
          (:) <$> eth "arp" 0x806 <*> some ([ipv4 "nw_src", ipv4 "nw_dst"] ++ [plain 8 "arp_op" | not new] ++ if new then [plain 8 "arp_op", mac "arp_sha", mac "arp_tha"] else []),
          (:) <$> eth "arp" 0x806 <*> some [ipv4 "arp_spa", ipv4 "arp_tpa", plain 8 "nw_proto"],
          (++) <$> ip "icmp" 1 <*> some ([plain 8 "icmp_type", plain 8 "icmp_code"] ++ tos ++ v4),
          (++) <$> ip "tcp" 6 <*> some ([masked 16 "tp_src", masked 16 "tp_dst"] ++ tos ++ v4 ++ [flags | new]),
          (++) <$> ip "udp" 17 <*> some ([masked 16 "tp_src", masked 16 "udp_dst"] ++ tos ++ v4),
          (++) <$> ip "tcp" 6 <*> some ([masked 16 "tcp_src", masked 16 "tcp_dst"] ++ v4)
        ]
          ++ if new
            then
              [ (++) <$> ip "sctp" 132 <*> some ([masked 16 "tp_src", masked 16 "sctp_dst"] ++ v4),
                (:) <$> eth "ipv6" 0x86dd <*> some (plain 8 "nw_proto" : tos ++ v6),
                (: []) <$> elements ["tcp6", "udp6", "sctp6", "icmp6", "rarp", "mplsm"],
                ("tcp6" :) <$> some ([masked 16 "tp_src", masked 16 "tcp_dst", flags] ++ v6),
                ("udp6" :) <$> some ([masked 16 "udp_src", masked 16 "tp_dst"] ++ tos ++ v6),
                ("icmp6" :) <$> some ([plain 8 "icmp_type", plain 8 "icmp_code"] ++ v6),
                (["icmp6", "icmp_type=135"] ++) <$> some [ipv6 "nd_target", mac "nd_sll"],
                (["icmp6", "icmpv6_type=136", "icmpv6_code=0"] ++) <$> some [ipv6 "nd_target", mac "nd_tll"],
                ("mpls" :) <$> some [plain 20 "mpls_label", plain 3 "mpls_tc", plain 1 "mpls_bos"]
              ]
            else []
    eth short n = oneof [pure short, elements [name ++ digits | name <- "dl_type=" : ["eth_type=" | new], digits <- ["0x" ++ showHex (n :: Int) "", show n]]]
    ip short n = oneof [pure [short], (\e -> [e, "nw_proto=" ++ show (n :: Int)]) <$> eth "ip" 0x800]
    tos = plain 8 "nw_tos" : if new then [plain 6 "ip_dscp", plain 2 "nw_ecn", plain 2 "ip_ecn", plain 8 "nw_ttl"] else []
    v4 = [ipv4 "nw_src", ipv4 "nw_dst"] ++ [ipv4 "ip_src" | new]
    v6 = [ipv6 "ipv6_src", ipv6 "ipv6_dst", masked 20 "ipv6_label"]
    flags = ("tcp_flags=" ++) <$> oneof [elements ["+syn", "-ack", "+syn-ack+fin", "syn|ack", "ns|cwr|ece"], show <$> bits 12, (\a b -> "0x" ++ showHex a "/0x" ++ showHex b "") <$> bits 12 <*> bits 12]
    actions = oneof [pure "drop", intercalate "," <$> (choose (1, 4) >>= \n -> vectorOf n action)]
    action = oneof (common ++ if new then in13 else in10)
    common =
      [ ("output:" ++) . show <$> choose (1, 0xfeff :: Int),
        show <$> choose (1, 0xfeff :: Int),
        elements ["IN_PORT", "in_port", "NORMAL", "FLOOD", "all", "LOCAL", "output:LOCAL", "CONTROLLER", "controller", "output:FLOOD"],
        ("CONTROLLER:" ++) . show <$> bits 16,
        (\n -> "controller(max_len=" ++ show n ++ ")") <$> bits 16
      ]
    in10 =
      [ elements ["strip_vlan", "pop_vlan"],
        ("mod_vlan_vid:" ++) <$> (bits 12 >>= number),
        ("mod_vlan_pcp:" ++) <$> (bits 3 >>= number),
        ("mod_dl_src:" ++) <$> address,
        ("mod_dl_dst:" ++) <$> address,
        ("mod_nw_src:" ++) <$> dotted,
        ("mod_nw_dst:" ++) <$> dotted,
        (\p q -> "enqueue:" ++ show p ++ ":" ++ show q) <$> choose (1, 0xfeff :: Int) <*> bits 16,
        (\p q -> "enqueue(" ++ show p ++ "," ++ show q ++ ")") <$> choose (1, 0xfeff :: Int) <*> bits 16
      ]
    in13 =
      [ ("set_queue:" ++) . show <$> bits 16,
        ("group:" ++) . show <$> choose (0, 0xffffff00 :: Integer),
        ("mod_dl_src:" ++) <$> address,
        (\a -> "set_field:" ++ a ++ "->eth_dst") <$> address,
        (\n -> "set_field:" ++ n ++ "->metadata") <$> (bits 64 >>= number),
        (\n -> "set_field:" ++ n ++ "->tun_id") <$> (bits 64 >>= number)
      ]

-- What ovs-ofctl sends for flows is what is read from them.
compared :: Version -> String -> [String] -> IO ()
compared v words' flows = do
  answered <- timeout (seconds 50) (sentByOfctl v words' (unlines flows))
  messages <- maybe (fail "ovs-ofctl did not send the flows within 50 seconds") pure answered
  length messages @?= length flows
  case concat (zipWith different flows messages) of
    [] -> pure ()
    found -> assertFailure (unlines ((show (length found) ++ " differ") : take 12 found))
  where
    different flow message = case decode v message of
      Left e -> [flow ++ ": " ++ show e]
      Right (xid, m) ->
        [flow ++ ": the bytes are not canonical" | encode v xid m /= Right message] ++ case (m, parseFlow v flow) of
          (FlowModMessage _, Left e) -> [flow ++ ": " ++ e]
          -- ovs-ofctl orders fields by number, and writes what we do not care about its own way.
          (FlowModMessage sent, Right ours)
            | told sent /= told ours -> [flow ++ "\n    sends " ++ show (told sent) ++ "\n    read  " ++ show (told ours)]
            | otherwise -> []
          (other, _) -> [messageName other]
    told f =
      ( nub (sorted (cared (flowModMatch f))),
        map lengths (flowModInstructions f),
        (flowModPriority f, flowModCookie f, flowModIdle f, flowModHard f, flowModTable f, flowModFlags f)
      )
    -- Frames without a tag have no priority, which ovs-ofctl sends as 0 in 1.0.
    cared = \case
      Match fields | v == OF10 && oxm VlanVid 0 `elem` fields -> Match (filter (/= oxm VlanPcp 0) fields)
      m -> m
    lengths = \case
      ApplyActions as -> ApplyActions (map length' as)
      WriteActions as -> WriteActions (map length' as)
      i -> i
    length' = \case
      Output p n | p /= PortController -> Output p (n * 0)
      a -> a

-- Play a switch for ovs-ofctl, and return the flow modifications that it sends for these lines.
sentByOfctl :: Version -> String -> String -> IO [ByteString]
sentByOfctl v words' flows =
  bracket (socket AF_INET Stream defaultProtocol) close $ \listening -> do
    bind listening (SockAddrInet 0 (tupleToHostAddress (127, 0, 0, 1)))
    listen listening 1
    port <- socketPort listening
    let command = proc "ovs-ofctl" ["--timeout=50", "-voff", "--no-names", "-O", words', "add-flows", "tcp:127.0.0.1:" ++ show port, "-"]
    withCreateProcess command {std_in = CreatePipe, std_out = CreatePipe} $ \input _ _ handle -> do
      mapM_ (\h -> hPutStr h flows >> hClose h) input
      -- The flows may come in another connection than the first.
      let connection left =
            bracket (fst <$> accept listening) close (\peer -> answer peer 0 (Hello []) >> serve [] peer B.empty) >>= \seen ->
              case filter ((== 14) . (`B.index` 1)) seen of
                []
                  | left > 0 -> connection (left - 1)
                  | otherwise -> fail ("ovs-ofctl has gone; it sent " ++ show (map (B.take 16) seen))
                sent -> pure sent
      sent <- connection (3 :: Int)
      terminateProcess handle
      _ <- waitForProcess handle
      pure sent
  where
    answer peer xid m = either (fail . show) (sendAll peer) (encode v xid m)
    -- All that comes in a connection.
    serve :: [ByteString] -> Socket -> ByteString -> IO [ByteString]
    serve seen peer bytes
      | B.length bytes >= 8,
        n <- fromIntegral (B.index bytes 2) * 256 + fromIntegral (B.index bytes 3),
        B.length bytes >= n =
        let (message, rest) = B.splitAt n bytes
         in case B.index message 1 of
              kind | kind `elem` [0, 14] -> serve (message : seen) peer rest
              _ -> case decode v message of
                Right (xid, BarrierRequest) -> answer peer xid BarrierReply >> serve (message : seen) peer rest
                Right (xid, FeaturesRequest) -> answer peer xid (FeaturesReply (Features 1 0 254 0 0 0 [])) >> serve (message : seen) peer rest
                Right (xid, GetConfigRequest) -> answer peer xid (GetConfigReply (SwitchConfig 0 0)) >> serve (message : seen) peer rest
                -- Extensions of Open vSwitch are refused, as another switch would.
                Right (xid, _) -> answer peer xid (ErrorMessage (ErrorKind 1 3) (B.take 64 message)) >> serve (message : seen) peer rest
                Left e -> fail (show e)
      | otherwise = do
        more <- recv peer 65536
        if B.null more then pure (reverse seen) else serve seen peer (bytes <> more)
