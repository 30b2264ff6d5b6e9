{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.OpenFlow.Text.Match
-- Description : Matches in the syntax of ovs-ofctl, read and written
-- Stability   : hidden; "Heddle.OpenFlow.Text" exports it
--
-- Of what Open vSwitch adds to OpenFlow, the time to live (@nw_ttl@) and TCP's flags (@tcp_flags@) are known here.
--
-- Cost: O(characters), through 'String'.
module Heddle.OpenFlow.Text.Match
  ( parseMatch,
    renderMatch,

    -- * Parts
    Types (..),
    matchPart,
    matchParts,
  )
where

import Control.Monad (foldM)
import Data.Bits (popCount, shiftL, shiftR, (.&.), (.|.))
import Data.ByteString qualified as B
import Data.Char (isDigit)
import Data.List (intercalate)
import Data.Maybe (fromMaybe, isJust)
import Heddle.OpenFlow.Match
import Heddle.OpenFlow.Text.Words
import Heddle.OpenFlow.Types

-- | The fields that later ones depend on: the Ethernet type and the protocol.
data Types = Types !(Maybe Integer) !(Maybe Integer)

-- Those of fields.
typesOf :: [Oxm] -> Types
typesOf fields = Types (value EthType) (value IpProto)
  where
    value f = fst <$> fieldValue f (Match fields)

-- Add fields; of two values of a field the later one counts.
merge :: [Oxm] -> [Oxm] -> [Oxm]
merge old new = filter (not . replaced) old ++ filter (`notElem` old) new
  where
    replaced o = any (\n -> kind n == kind o && n /= o) new
    kind = \case
      Oxm field _ _ -> Left field
      OxmRaw cls field _ -> Right (cls, field `shiftR` 1)

-- | Read a match alone, such as @tcp,nw_dst=10.0.0.1,tp_dst=80@.
--
-- [Cost]: O(characters).
parseMatch :: String -> Either String Match
parseMatch text = Match <$> matchParts (pieces text)

-- | Read the parts of a match, in any order: a field such as @nw_src@ is one of ARP or of IPv4 by the type that stands
-- before it or behind.
matchParts :: [String] -> Either String [Oxm]
matchParts parts = do
  Types ethType _ <- typesOf <$> fields (Types Nothing Nothing) typing
  types <- typesOf <$> fields (Types ethType Nothing) typing
  matched <$> fields types parts
  where
    fields types = foldM (\old part -> merge old <$> anyPart types part) []
    typing = [part | part <- parts, let name = takeWhile (/= '=') part, name `elem` typeNames || isJust (lookup part shorthands)]
    typeNames = ["dl_type", "eth_type", "nw_proto", "ip_proto"]

shorthands :: [(String, [Oxm])]
shorthands =
  [ ("ip", eth 0x800),
    ("ipv6", eth 0x86dd),
    ("arp", eth 0x806),
    ("rarp", eth 0x8035),
    ("mpls", eth 0x8847),
    ("mplsm", eth 0x8848),
    ("icmp", eth 0x800 ++ proto 1),
    ("tcp", eth 0x800 ++ proto 6),
    ("udp", eth 0x800 ++ proto 17),
    ("sctp", eth 0x800 ++ proto 132),
    ("icmp6", eth 0x86dd ++ proto 58),
    ("tcp6", eth 0x86dd ++ proto 6),
    ("udp6", eth 0x86dd ++ proto 17),
    ("sctp6", eth 0x86dd ++ proto 132)
  ]
  where
    eth n = [oxm EthType n]
    proto n = [oxm IpProto n]

-- | A field with a mask, as ovs-ofctl sends it: bits of the value that the mask leaves out are cleared, or a switch
-- refuses the flow. A mask of all bits is none. One of no bits takes back what was said of the field before, and is then
-- no field ('matched').
withMask :: Field -> Integer -> Integer -> [Oxm]
withMask field n m
  | m == 1 `shiftL` fieldBits (fieldInfo field) - 1 = [oxm field n]
  | otherwise = [oxmMasked field (n .&. m) m]

-- Those that are matched at all.
matched :: [Oxm] -> [Oxm]
matched = filter $ \case
  Oxm _ _ (Just mask) -> B.any (/= 0) mask
  OxmRaw 0xffff 85 bytes -> B.any (/= 0) (B.drop 6 bytes)
  _ -> True

-- The fields that Open vSwitch adds and sends in 1.3 too.

-- | The time to live, of Nicira's class.
nwTtl :: Integer -> Oxm
nwTtl n = OxmRaw 1 58 (B.singleton (fromInteger n))

-- | TCP's flags, of the experimenter class of the Open Networking Foundation: twelve bits, and a mask.
tcpFlags :: Integer -> Maybe Integer -> Oxm
tcpFlags n mask = OxmRaw 0xffff (maybe 84 (const 85) mask) ("ONF\0" <> two n <> foldMap two mask)
  where
    two w = B.pack [fromInteger (w `shiftR` 8), fromInteger (w .&. 255)]

tcpFlagNames :: [(String, Integer)]
tcpFlagNames = zip ["fin", "syn", "rst", "psh", "ack", "urg", "ece", "cwr", "ns"] (iterate (* 2) 1)

-- A number with or without a mask; all flags that are set, between bars; or flags that are set and not set.
tcpFlagsOf :: String -> Maybe [Oxm]
tcpFlagsOf text = case text of
  c : _
    | isDigit c -> case break (== '/') text of
      (n, "") -> (\x -> [tcpFlags x Nothing]) <$> twelve n
      (n, _ : mask) -> flagsIn <$> twelve n <*> twelve mask
    | c `elem` ("+-" :: String) -> signed 0 0 text
  _ -> (\x -> [tcpFlags x Nothing]) <$> (mapM (`lookup` tcpFlagNames) (barred text) >>= foldM once 0)
  where
    twelve n = either (const Nothing) Just (integer "" n) >>= \x -> if x < 0x1000 then Just x else Nothing
    flagsIn n mask = [tcpFlags (n .&. mask) (Just mask)]
    once sofar bit = if sofar .&. bit /= 0 then Nothing else Just (sofar .|. bit)
    barred t = case break (== '|') t of
      (a, _ : rest) -> a : barred rest
      (a, "") -> [a]
    signed n mask = \case
      "" -> Just (flagsIn n mask)
      sign : rest
        | sign `elem` ("+-" :: String),
          (name, more) <- break (`elem` ("+-" :: String)) rest -> do
          bit <- lookup name tcpFlagNames
          both <- once mask bit
          signed (if sign == '+' then n .|. bit else n) both more
      _ -> Nothing

renderTcpFlags :: Integer -> Maybe Integer -> String
renderTcpFlags n mask
  | (n .|. fromMaybe 0 mask) >= 0x200 = hex n ++ maybe "" (\m -> '/' : hex m) mask
  | Just m <- mask, n .&. m == n, m /= 0 = concat [(if n .&. bit /= 0 then '+' else '-') : name | (name, bit) <- tcpFlagNames, m .&. bit /= 0]
  | Just m <- mask = hex n ++ "/" ++ hex m
  | n == 0 = "0"
  | otherwise = intercalate "|" [name | (name, bit) <- tcpFlagNames, n .&. bit /= 0]

-- | Read one part of a match.
matchPart :: Types -> String -> Either String [Oxm]
matchPart types part = matched <$> anyPart types part

-- Also fields of which nothing is matched.
anyPart :: Types -> String -> Either String [Oxm]
anyPart (Types ethType proto) part = case break (== '=') part of
  (name, "") -> maybe (Left ("'" ++ part ++ "' is not a field")) Right (lookup name shorthands)
  (name, _ : v) -> case name of
    "in_port" -> (\p -> [oxm InPort (toInteger (portWord p))]) <$> port v
    "dl_vlan" -> integer part v >>= \n -> if n == 0xffff then Right [oxm VlanVid 0] else limited 12 n >> Right [oxm VlanVid (n .|. 0x1000)]
    "dl_vlan_pcp" -> plain VlanPcp v
    "vlan_vid" -> masked VlanVid v
    "vlan_pcp" -> plain VlanPcp v
    "vlan_tci" -> vlanTci v
    "dl_src" -> macs EthSrc v
    "dl_dst" -> macs EthDst v
    "eth_src" -> macs EthSrc v
    "eth_dst" -> macs EthDst v
    "dl_type" -> plain EthType v
    "eth_type" -> plain EthType v
    "nw_proto" -> plain (if arp then ArpOp else IpProto) v
    "ip_proto" -> plain IpProto v
    "arp_op" -> plain ArpOp v
    "nw_src" -> ipv4s (if arp then ArpSpa else Ipv4Src) v
    "nw_dst" -> ipv4s (if arp then ArpTpa else Ipv4Dst) v
    "ip_src" -> ipv4s Ipv4Src v
    "ip_dst" -> ipv4s Ipv4Dst v
    "arp_spa" -> ipv4s ArpSpa v
    "arp_tpa" -> ipv4s ArpTpa v
    "arp_sha" -> macs ArpSha v
    "arp_tha" -> macs ArpTha v
    -- The byte of IPv4 that also has the two bits of nw_ecn, which are not matched by it.
    "nw_tos" -> integer part v >>= \n -> limited 8 n >> Right [oxm IpDscp (n `shiftR` 2)]
    "ip_dscp" -> plain IpDscp v
    "nw_ttl" -> integer part v >>= \n -> limited 8 n >> Right [nwTtl n]
    "nw_ecn" -> plain IpEcn v
    "ip_ecn" -> plain IpEcn v
    "ipv6_src" -> ipv6s Ipv6Src v
    "ipv6_dst" -> ipv6s Ipv6Dst v
    "ipv6_label" -> masked Ipv6Flabel v
    "nd_target" -> ipv6s Ipv6NdTarget v
    "nd_sll" -> macs Ipv6NdSll v
    "nd_tll" -> macs Ipv6NdTll v
    "tp_src" -> ports TcpSrc UdpSrc SctpSrc Icmpv4Type Icmpv6Type v
    "tp_dst" -> ports TcpDst UdpDst SctpDst Icmpv4Code Icmpv6Code v
    "tcp_src" -> masked TcpSrc v
    "tcp_dst" -> masked TcpDst v
    "udp_src" -> masked UdpSrc v
    "udp_dst" -> masked UdpDst v
    "sctp_src" -> masked SctpSrc v
    "sctp_dst" -> masked SctpDst v
    "icmp_type" -> plain (if proto == Just 58 then Icmpv6Type else Icmpv4Type) v
    "icmp_code" -> plain (if proto == Just 58 then Icmpv6Code else Icmpv4Code) v
    "icmpv6_type" -> plain Icmpv6Type v
    "icmpv6_code" -> plain Icmpv6Code v
    "tcp_flags" -> maybe (Left (part ++ ": not flags of TCP")) Right (tcpFlagsOf v)
    "metadata" -> masked Metadata v
    "tun_id" -> masked TunnelId v
    "tunnel_id" -> masked TunnelId v
    "in_phy_port" -> plain InPhyPort v
    "mpls_label" -> plain MplsLabel v
    "mpls_tc" -> plain MplsTc v
    "mpls_bos" -> plain MplsBos v
    "pbb_isid" -> masked PbbIsid v
    "ipv6_exthdr" -> masked Ipv6Exthdr v
    _ -> Left ("'" ++ name ++ "' is not a field of OpenFlow")
  where
    arp = ethType `elem` [Just 0x806, Just 0x8035]
    limited bits n = if n < 1 `shiftL` bits then Right () else Left (part ++ ": more than " ++ show (bits :: Int) ++ " bits")
    plain field v = do
      n <- integer part v
      limited (fieldBits (fieldInfo field)) n
      pure [oxm field n]
    masked field v = case break (== '/') v of
      (a, '/' : mask) -> do
        x <- integer part a
        y <- integer part mask
        limited (fieldBits (fieldInfo field)) x
        limited (fieldBits (fieldInfo field)) y
        pure (withMask field x y)
      (a, _) -> plain field a
    vlanTci v = case break (== '/') v of
      (a, '/' : m) -> do
        n <- integer part a
        mask <- integer part m
        let vid = withMask VlanVid (n .&. 0x1fff) (mask .&. 0x1fff)
            pcp = [oxm VlanPcp ((n `shiftR` 13) .&. 7) | mask .&. 0xe000 == 0xe000]
        if mask .&. 0xe000 `elem` [0, 0xe000] then Right (vid ++ pcp) else Left (part ++ ": a mask of some bits of the priority")
      (a, _) -> integer part a >>= \n -> if n == 0 then Right [oxm VlanVid 0] else Right [oxm VlanVid (n .&. 0x1fff), oxm VlanPcp ((n `shiftR` 13) .&. 7)]
    macs field v = case break (== '/') v of
      (a, '/' : m) -> withMask field <$> macOf a <*> macOf m
      (a, _) -> (\x -> [oxm field x]) <$> macOf a
    macOf a = maybe (Left (part ++ ": " ++ a ++ " is not an address")) (Right . toInteger . macWord) (parseMac a)
    ipv4s field = addresses field 32 ipv4Of
    ipv6s field = addresses field 128 ipv6Of
    addresses field bits parse v = do
      let (a, m) = break (== '/') v
      n <- maybe (Left (part ++ ": " ++ a ++ " is not an address")) Right (parse a)
      case m of
        "" -> Right [oxm field n]
        _ : digits
          | all isDigit digits && not (null digits), k <- read digits :: Int, k <= bits -> Right (withMask field n (prefixMask bits k))
          | Just mask <- parse digits -> Right (withMask field n mask)
          | otherwise -> Left (part ++ ": " ++ digits ++ " is not a mask")
    ports t u s i4 i6 v = case proto of
      Just 17 -> masked u v
      Just 132 -> masked s v
      Just 1 | ethType /= Just 0x86dd -> plain i4 v
      Just 58 -> plain i6 v
      Just 6 -> masked t v
      _ -> Left (part ++ ": needs a protocol beside it, such as tcp or udp")

-- | A match: a shorthand for the protocol, then the fields.
--
-- A mask is always written, also where the standard allows none: such a match cannot be read back.
--
-- [Cost]: O(characters).
renderMatch :: Match -> String
renderMatch = \case
  MatchRaw kind _ -> "raw_match_type=" ++ show kind
  Match fields ->
    let ethType = fst <$> fieldValue EthType (Match fields)
        proto = fst <$> fieldValue IpProto (Match fields)
        exact = \case
          Oxm _ _ Nothing -> True
          _ -> False
        shorthand = [(name, os) | (name, os) <- reverse shorthands, all (`elem` fields) os]
        best = case [x | x@(_, [_, _]) <- shorthand] ++ shorthand of
          x : _ -> Just x
          [] -> Nothing
        covered = foldMap snd best
        -- Fields that need a protocol come behind it.
        rest = filter (`notElem` covered) fields
     in intercalate "," (maybe [] (\(name, _) -> [name]) best ++ concatMap (field exact ethType proto) rest)
  where
    field exact ethType proto o = case o of
      Oxm f v m -> [render f (oxmNumber v) (oxmNumber <$> m) (exact o) ethType proto]
      OxmRaw 1 58 v | B.length v == 1 -> ["nw_ttl=" ++ show (oxmNumber v)]
      OxmRaw 0xffff f v
        | f == 84 || f == 85,
          Just bits <- B.stripPrefix "ONF\0" v,
          B.length bits == (if f == 84 then 2 else 4),
          (n, m) <- B.splitAt 2 bits ->
          ["tcp_flags=" ++ renderTcpFlags (oxmNumber n) (if f == 84 then Nothing else Just (oxmNumber m))]
      OxmRaw cls f _ -> ["oxm_class_" ++ hex cls ++ "_field_" ++ show (f `shiftR` 1)]
    render f n m exact ethType proto = case f of
      InPort -> if exact then "in_port=" ++ renderPort (PortNo (fromInteger n)) else hexMasked "in_port"
      InPhyPort -> decimal "in_phy_port"
      Metadata -> hexMasked "metadata"
      EthDst -> macs "dl_dst"
      EthSrc -> macs "dl_src"
      EthType -> hexMasked "dl_type"
      VlanVid
        | exact && n == 0 -> "vlan_vid=0"
        | exact && n .&. 0x1000 /= 0 -> "dl_vlan=" ++ show (n .&. 0xfff)
        | otherwise -> hexMasked "vlan_vid"
      VlanPcp -> decimal "dl_vlan_pcp"
      IpDscp -> if exact then "nw_tos=" ++ show (n `shiftL` 2) else hexMasked "ip_dscp"
      IpEcn -> decimal "nw_ecn"
      IpProto -> decimal "nw_proto"
      Ipv4Src -> ipv4s "nw_src"
      Ipv4Dst -> ipv4s "nw_dst"
      TcpSrc -> transport 6 "tp_src" "tcp_src"
      TcpDst -> transport 6 "tp_dst" "tcp_dst"
      UdpSrc -> transport 17 "tp_src" "udp_src"
      UdpDst -> transport 17 "tp_dst" "udp_dst"
      SctpSrc -> transport 132 "tp_src" "sctp_src"
      SctpDst -> transport 132 "tp_dst" "sctp_dst"
      Icmpv4Type -> decimal "icmp_type"
      Icmpv4Code -> decimal "icmp_code"
      ArpOp -> decimal "arp_op"
      ArpSpa -> ipv4s "arp_spa"
      ArpTpa -> ipv4s "arp_tpa"
      ArpSha -> macs "arp_sha"
      ArpTha -> macs "arp_tha"
      Ipv6Src -> ipv6s "ipv6_src"
      Ipv6Dst -> ipv6s "ipv6_dst"
      Ipv6Flabel -> hexMasked "ipv6_label"
      Icmpv6Type -> decimal "icmpv6_type"
      Icmpv6Code -> decimal "icmpv6_code"
      Ipv6NdTarget -> ipv6s "nd_target"
      Ipv6NdSll -> macs "nd_sll"
      Ipv6NdTll -> macs "nd_tll"
      MplsLabel -> decimal "mpls_label"
      MplsTc -> decimal "mpls_tc"
      MplsBos -> decimal "mpls_bos"
      PbbIsid -> hexMasked "pbb_isid"
      TunnelId -> hexMasked "tun_id"
      Ipv6Exthdr -> hexMasked "ipv6_exthdr"
      where
        hexMasked name = name ++ "=" ++ hex n ++ maybe "" (\mask -> '/' : hex mask) m
        decimal name = if exact then name ++ "=" ++ show n else hexMasked name
        macs name = name ++ "=" ++ renderMac (Mac (fromInteger n)) ++ maybe "" (\mask -> '/' : renderMac (Mac (fromInteger mask))) m
        transport p short long = decimal (if proto == Just p && isJust ethType then short else long)
        ipv4s name = name ++ "=" ++ dotted n ++ maybe "" (maskOf 32 dotted) m
        ipv6s name = name ++ "=" ++ colons n ++ maybe "" (maskOf 128 colons) m
        maskOf bits shown mask
          | mask /= 0 && prefixMask bits (popCount mask) == mask = '/' : show (popCount mask)
          | otherwise = '/' : shown mask
