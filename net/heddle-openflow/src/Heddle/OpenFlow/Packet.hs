-- |
-- Module      : Heddle.OpenFlow.Packet
-- Description : Packets taken apart: Ethernet, VLAN, ARP, IPv4, IPv6, TCP, UDP, ICMP, LLDP
-- Stability   : stable
--
-- What a packet-in carries, as values: for policies that look into packets. The parser never fails: where a packet is
-- cut off or unknown, the rest is 'Unparsed'.
--
-- "Heddle.OpenFlow.Learning" reads addresses in place and does not use it.
--
-- Cost: a few hundred bytes of allocation for each packet.
module Heddle.OpenFlow.Packet
  ( Packet (..),
    Vlan (..),
    Payload (..),
    Arp (..),
    Ipv4 (..),
    Ipv6 (..),
    Transport (..),
    parsePacket,
    packetKey,

    -- * LLDP
    Lldp (..),
    lldpTlv,
    renderLldp,
    parseLldp,
    lldpMulticast,
    lldpType,

    -- * Building
    ethernet,
  )
where

import Data.Bits (shiftL, shiftR, (.&.), (.|.))
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.Word (Word16, Word32, Word8)
import Heddle.OpenFlow.Match
import Heddle.OpenFlow.Types

-- | An Ethernet frame.
data Packet = Packet
  { packetDestination :: !Mac,
    packetSource :: !Mac,
    -- | Outermost first.
    packetVlans :: ![Vlan],
    packetType :: !Word16,
    packetPayload :: !Payload
  }
  deriving stock (Eq, Show)

-- | A tag of 802.1Q.
data Vlan = Vlan
  { -- | 0x8100 or 0x88a8
    vlanTpid :: !Word16,
    vlanPcp :: !Word8,
    vlanDei :: !Bool,
    vlanId :: !Word16
  }
  deriving stock (Eq, Show)

-- | An Ethernet frame's payload.
data Payload
  = ArpPayload !Arp
  | Ipv4Payload !Ipv4
  | Ipv6Payload !Ipv6
  | LldpPayload !Lldp
  | -- | Of another type, or cut off.
    Unparsed !ByteString
  deriving stock (Eq, Show)

-- | A message of ARP for IPv4.
data Arp = Arp
  { -- | 1: request, 2: reply
    arpOperation :: !Word16,
    arpSenderMac :: !Mac,
    arpSenderIp :: !Word32,
    arpTargetMac :: !Mac,
    arpTargetIp :: !Word32
  }
  deriving stock (Eq, Show)

-- | An IPv4 packet.
data Ipv4 = Ipv4
  { ipv4Tos :: !Word8,
    ipv4Ttl :: !Word8,
    ipv4Protocol :: !Word8,
    ipv4Source :: !Word32,
    ipv4Destination :: !Word32,
    -- | In units of 8 bytes; a fragment other than the first has no transport header.
    ipv4FragmentOffset :: !Word16,
    ipv4Transport :: !Transport
  }
  deriving stock (Eq, Show)

-- | An IPv6 packet.
data Ipv6 = Ipv6
  { ipv6TrafficClass :: !Word8,
    ipv6FlowLabel :: !Word32,
    ipv6HopLimit :: !Word8,
    -- | Behind the extension headers.
    ipv6Protocol :: !Word8,
    -- | 16 bytes.
    ipv6Source :: !ByteString,
    -- | 16 bytes.
    ipv6Destination :: !ByteString,
    ipv6Transport :: !Transport
  }
  deriving stock (Eq, Show)

-- | An IP packet's payload.
data Transport
  = -- | Source, destination, flags, the rest after the header.
    Tcp !Word16 !Word16 !Word8 !ByteString
  | -- | Source, destination, the rest after the header.
    Udp !Word16 !Word16 !ByteString
  | -- | Type, code, the rest; ICMP of either version.
    Icmp !Word8 !Word8 !ByteString
  | -- | Another protocol, or cut off.
    UnparsedTransport !ByteString
  deriving stock (Eq, Show)

-- | LLDP's values by type, in order, without the end.
newtype Lldp = Lldp [(Word8, ByteString)]
  deriving stock (Eq, Show)

-- | The address to which LLDP goes, and its type.
lldpMulticast :: Mac
lldpMulticast = Mac 0x0180c200000e

-- | The Ethernet type of LLDP.
lldpType :: Word16
lldpType = 0x88cc

-- | The first value of a type.
lldpTlv :: Word8 -> Lldp -> Maybe ByteString
lldpTlv kind (Lldp values) = lookup kind values

at16 :: ByteString -> Int -> Word16
at16 b i = fromIntegral (B.index b i) `shiftL` 8 .|. fromIntegral (B.index b (i + 1))

at32 :: ByteString -> Int -> Word32
at32 b i = fromIntegral (at16 b i) `shiftL` 16 .|. fromIntegral (at16 b (i + 2))

macAt :: ByteString -> Int -> Mac
macAt b i = Mac (fromIntegral (at16 b i) `shiftL` 32 .|. fromIntegral (at32 b (i + 2)))

-- | Take a frame apart. 'Nothing' if there is no whole Ethernet header.
--
-- [Cost]: O(headers); what follows them is not copied.
parsePacket :: ByteString -> Maybe Packet
parsePacket b
  | B.length b < 14 = Nothing
  | otherwise = tags [] (B.drop 12 b)
  where
    tags vlans rest
      | B.length rest < 2 = Nothing
      | tpid `elem` [0x8100, 0x88a8], B.length rest >= 6, length vlans < 8 = tags (Vlan tpid (fromIntegral (tci `shiftR` 13)) (tci .&. 0x1000 /= 0) (tci .&. 0xfff) : vlans) (B.drop 4 rest)
      | otherwise = Just (Packet (macAt b 0) (macAt b 6) (reverse vlans) tpid (payload tpid (B.drop 2 rest)))
      where
        tpid = at16 rest 0
        tci = at16 rest 2

payload :: Word16 -> ByteString -> Payload
payload kind b = case kind of
  0x0806
    | B.length b >= 28 && at16 b 0 == 1 && at16 b 2 == 0x0800 && at16 b 4 == 0x0604 ->
      ArpPayload (Arp (at16 b 6) (macAt b 8) (at32 b 14) (macAt b 18) (at32 b 24))
  0x0800
    | B.length b >= 20 && B.head b `shiftR` 4 == 4 && header >= 20 && B.length b >= header ->
      Ipv4Payload $
        Ipv4 (B.index b 1) (B.index b 8) (B.index b 9) (at32 b 12) (at32 b 16) offset $
          if offset == 0 then transport (B.index b 9) (body header) else UnparsedTransport (body header)
    where
      header = 4 * fromIntegral (B.head b .&. 15)
      offset = at16 b 6 .&. 0x1fff
      -- Padding of a short frame is not the packet's.
      body n = B.drop n (if fromIntegral (at16 b 2) >= n then B.take (fromIntegral (at16 b 2)) b else b)
  0x86dd
    | B.length b >= 40 && B.head b `shiftR` 4 == 6 ->
      let first = at32 b 0
          (proto, rest) = extensions (8 :: Int) (B.index b 6) (B.take (fromIntegral (at16 b 4)) (B.drop 40 b))
       in Ipv6Payload (Ipv6 (fromIntegral (first `shiftR` 20)) (first .&. 0xfffff) (B.index b 7) proto (B.take 16 (B.drop 8 b)) (B.take 16 (B.drop 24 b)) (transport proto rest))
  0x88cc | Just l <- parseLldp b -> LldpPayload l
  _ -> Unparsed b

-- Hop-by-hop, routing and destination options; a fragment other than the first ends the search.
extensions :: Int -> Word8 -> ByteString -> (Word8, ByteString)
extensions most proto b
  | most == 0 || B.length b < 8 = (proto, b)
  | proto `elem` [0, 43, 60] = let n = 8 * (fromIntegral (B.index b 1) + 1) in if B.length b < n then (proto, b) else extensions (most - 1) (B.head b) (B.drop n b)
  | proto == 44 && at16 b 2 .&. 0xfff8 == 0 = extensions (most - 1) (B.head b) (B.drop 8 b)
  | otherwise = (proto, b)

transport :: Word8 -> ByteString -> Transport
transport proto b = case proto of
  6 | B.length b >= 20 && 4 * fromIntegral (B.index b 12 `shiftR` 4) >= (20 :: Int) -> Tcp (at16 b 0) (at16 b 2) (B.index b 13) (B.drop (4 * fromIntegral (B.index b 12 `shiftR` 4)) b)
  17 | B.length b >= 8 -> Udp (at16 b 0) (at16 b 2) (B.drop 8 b)
  1 | B.length b >= 4 -> Icmp (B.index b 0) (B.index b 1) (B.drop 4 b)
  58 | B.length b >= 4 -> Icmp (B.index b 0) (B.index b 1) (B.drop 4 b)
  _ -> UnparsedTransport b

-- | The exact match of a packet that came in at a port: what 1.0 calls a flow's twelve values, as far as the packet
-- has them.
--
-- [Cost]: O(headers).
packetKey :: PortNo -> Packet -> Match
packetKey inPort p =
  Match $
    [oxm InPort (toInteger (portWord inPort)), mac EthDst (packetDestination p), mac EthSrc (packetSource p), oxm EthType (toInteger (packetType p))]
      ++ vlanFields (packetVlans p)
      ++ case packetPayload p of
        ArpPayload a -> [oxm ArpOp (toInteger (arpOperation a)), oxm ArpSpa (toInteger (arpSenderIp a)), oxm ArpTpa (toInteger (arpTargetIp a))]
        Ipv4Payload ip ->
          [ oxm IpDscp (toInteger (ipv4Tos ip `shiftR` 2)),
            oxm IpProto (toInteger (ipv4Protocol ip)),
            oxm Ipv4Src (toInteger (ipv4Source ip)),
            oxm Ipv4Dst (toInteger (ipv4Destination ip))
          ]
            ++ ports (Icmpv4Type, Icmpv4Code) (ipv4Transport ip)
        Ipv6Payload ip ->
          [ oxm IpDscp (toInteger (ipv6TrafficClass ip `shiftR` 2)),
            oxm IpProto (toInteger (ipv6Protocol ip)),
            Oxm Ipv6Src (ipv6Source ip) Nothing,
            Oxm Ipv6Dst (ipv6Destination ip) Nothing
          ]
            ++ ports (Icmpv6Type, Icmpv6Code) (ipv6Transport ip)
        LldpPayload _ -> []
        Unparsed _ -> []
  where
    mac field m = oxm field (toInteger (macWord m))
    vlanFields = \case
      [] -> [oxm VlanVid 0]
      v : _ -> [oxm VlanVid (toInteger (vlanId v) .|. 0x1000), oxm VlanPcp (toInteger (vlanPcp v))]
    ports (kind, code) = \case
      Tcp s d _ _ -> [oxm TcpSrc (toInteger s), oxm TcpDst (toInteger d)]
      Udp s d _ -> [oxm UdpSrc (toInteger s), oxm UdpDst (toInteger d)]
      Icmp t c _ -> [oxm kind (toInteger t), oxm code (toInteger c)]
      UnparsedTransport _ -> []

-- | An Ethernet frame.
--
-- [Cost]: O(bytes).
ethernet :: Mac -> Mac -> Word16 -> ByteString -> ByteString
ethernet destination source kind body = B.concat [address destination, address source, B.pack [fromIntegral (kind `shiftR` 8), fromIntegral kind], body]
  where
    address (Mac w) = B.pack [fromIntegral (w `shiftR` (8 * i)) | i <- [5, 4 .. 0]]

-- | LLDP's content, from its values: each has at most 511 bytes, longer ones are cut.
renderLldp :: Lldp -> ByteString
renderLldp (Lldp values) = B.concat (map tlv values) <> B.pack [0, 0]
  where
    tlv (kind, value) = let v = B.take 511 value; w = (fromIntegral kind `shiftL` 9 .|. B.length v) :: Int in B.pack [fromIntegral (w `shiftR` 8), fromIntegral w] <> v

-- | LLDP's values up to its end. 'Nothing' if it is cut off.
parseLldp :: ByteString -> Maybe Lldp
parseLldp = fmap Lldp . go
  where
    go b
      | B.length b < 2 = Nothing
      | kind == 0 = Just []
      | B.length b < 2 + size = Nothing
      | otherwise = ((kind, B.take size (B.drop 2 b)) :) <$> go (B.drop (2 + size) b)
      where
        head' = at16 b 0
        kind = fromIntegral (head' `shiftR` 9)
        size = fromIntegral (head' .&. 511)
