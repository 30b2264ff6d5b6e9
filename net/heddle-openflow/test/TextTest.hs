{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : TextTest
-- Description : The syntax of ovs-ofctl
module TextTest
  ( textTests,
    sorted,
  )
where

import Control.Monad (forM_)
import Data.Bits ((.&.))
import Data.ByteString qualified as B
import Data.Either (isLeft)
import Data.List (sortOn)
import Generators
import Heddle.OpenFlow
import Heddle.OpenFlow.Text
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
      testCase "fieldsOfAnotherTypeWereReadBeforeTheirType" $
        forM_ movedTexts $ \(text, wanted) -> fmap sorted (parseMatch text) @?= Right (sorted (Match wanted)),
      testCase "priorityWithoutATagWasRefusedBySwitches" $ do
        flowModMatch <$> parseFlow OF13 "dl_vlan_pcp=3" @?= Right (Match [oxm VlanPcp 3, oxmMasked VlanVid 0x1000 0x1000])
        flowModMatch <$> parseFlow OF13 "dl_vlan=5,dl_vlan_pcp=3" @?= Right (Match [oxm VlanVid 0x1005, oxm VlanPcp 3])
        flowModMatch <$> parseFlow OF10 "dl_vlan_pcp=3" @?= Right (Match [oxm VlanPcp 3]),
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
    ("ip,nw_src=10.0.0.1/24,nw_src=10.0.0.1/0", [oxm EthType 0x800]),
    ("tcp,tcp_flags=+syn,tcp_flags=0/0", [oxm EthType 0x800, oxm IpProto 6]),
    ("ip,nw_src=10.0.0.1/24,nw_src=10.0.0.1/8", [oxm EthType 0x800, oxmMasked Ipv4Src 0x0a000000 0xff000000])
  ]

movedTexts :: [(String, [Oxm])]
movedTexts =
  [ ("nw_src=10.0.0.1,arp", [oxm EthType 0x806, oxm ArpSpa 0x0a000001]),
    ("nw_proto=2,nw_dst=10.0.0.1,dl_type=0x806", [oxm EthType 0x806, oxm ArpOp 2, oxm ArpTpa 0x0a000001]),
    ("tp_dst=80,tcp", [oxm EthType 0x800, oxm IpProto 6, oxm TcpDst 80]),
    ("tp_src=53,nw_proto=17,ip", [oxm EthType 0x800, oxm IpProto 17, oxm UdpSrc 53]),
    ("icmp_type=135,icmp6", [oxm EthType 0x86dd, oxm IpProto 58, oxm Icmpv6Type 135]),
    ("tcp,tp_dst=5,udp", [oxm EthType 0x800, oxm IpProto 17, oxm UdpDst 5]),
    ("tcp,tp_dst=5,nw_proto=17", [oxm EthType 0x800, oxm IpProto 17, oxm UdpDst 5])
  ]

-- | Its fields, as texts, in one order.
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
