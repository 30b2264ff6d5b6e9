-- |
-- Module      : Heddle.OpenFlow.Text
-- Description : Flows in the syntax of ovs-ofctl, read and written
-- Stability   : stable
--
-- @priority=100,udp,nw_src=10.0.0.0/8,tp_dst=53 actions=output:2@ and the like: what @ovs-ofctl add-flow@ takes and
-- @ovs-ofctl dump-flows@ prints. Counters of a dump (@duration=@, @n_packets=@ and so on) are skipped when a flow is read.
--
-- What Open vSwitch adds to OpenFlow (NXM fields, registers, @learn@, @resubmit@, connection tracking) is not known here and is
-- refused with its name.
--
-- Law (@text@): 'parseFlow' of 'renderFlow' is the same flow, for flows of known fields and actions.
--
-- Cost: O(characters), through 'String': for people, not for the hot path.
module Heddle.OpenFlow.Text
  ( parseFlow,
    renderFlow,
    renderFlowStats,
    parseMatch,
    renderMatch,
    parseActions,
    renderInstructions,
  )
where

import Data.Bits (complement, popCount, shiftL, shiftR, (.&.), (.|.))
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.Char (isDigit, isHexDigit, isSpace, toLower)
import Data.Foldable (asum)
import Data.List (dropWhileEnd, intercalate, stripPrefix)
import Data.Maybe (fromMaybe, isJust)
import Data.Word (Word16, Word32, Word64)
import Heddle.OpenFlow.Action
import Heddle.OpenFlow.Match
import Heddle.OpenFlow.Message
import Heddle.OpenFlow.Multipart
import Heddle.OpenFlow.Types
import Numeric (readHex, showHex)

-- | Read a flow for a version, with 'FlowAdd' and 1.0's and ovs-ofctl's default priority of 32768. The error says which part is
-- wrong.
--
-- [Cost]: O(characters).
parseFlow :: Version -> String -> Either String FlowMod
parseFlow version line = do
  let (front, acts) = splitActions line
      parts = pieces front
  instructions <- maybe (Right []) (parseActions version) acts
  foldl (\sofar part -> sofar >>= attribute part) (Right ((flowAdd 32768 matchAll []) {flowModInstructions = instructions})) parts
  where
    attribute part flow = case break (== '=') part of
      ("priority", '=' : v) -> (\n -> flow {flowModPriority = n}) <$> number part v
      ("cookie", '=' : v) -> case break (== '/') v of
        (c, '/' : m) -> (\a b -> flow {flowModCookie = a, flowModCookieMask = b}) <$> number part c <*> number part m
        (c, _) -> (\n -> flow {flowModCookie = n}) <$> number part c
      ("table", '=' : v) -> (\n -> flow {flowModTable = n}) <$> number part v
      ("idle_timeout", '=' : v) -> (\n -> flow {flowModIdle = n}) <$> number part v
      ("hard_timeout", '=' : v) -> (\n -> flow {flowModHard = n}) <$> number part v
      ("out_port", '=' : v) -> (\p -> flow {flowModOutPort = p}) <$> port v
      ("out_group", '=' : v) -> (\n -> flow {flowModOutGroup = n}) <$> number part v
      ("send_flow_rem", "") -> Right flow {flowModFlags = flowModFlags flow .|. SendFlowRemoved}
      ("check_overlap", "") -> Right flow {flowModFlags = flowModFlags flow .|. CheckOverlap}
      ("reset_counts", "") -> Right flow {flowModFlags = flowModFlags flow .|. 4}
      ("no_packet_counts", "") -> Right flow {flowModFlags = flowModFlags flow .|. 8}
      ("no_byte_counts", "") -> Right flow {flowModFlags = flowModFlags flow .|. 16}
      (name, '=' : _) | name `elem` ["duration", "n_packets", "n_bytes", "idle_age", "hard_age"] -> Right flow
      _ -> do
        let old = case flowModMatch flow of
              Match m -> m
              MatchRaw _ _ -> []
        new <- matchPart (typesOf old) part
        pure flow {flowModMatch = Match (merge old new)}

-- The text before and after the actions.
splitActions :: String -> (String, Maybe String)
splitActions = go ""
  where
    go front rest = case rest of
      [] -> (reverse front, Nothing)
      _ | Just acts <- asum (map (`stripPrefix` rest) ["actions=", "action="]), boundary front -> (reverse front, Just acts)
      c : more -> go (c : front) more
    boundary = \case
      [] -> True
      c : _ -> c == ',' || isSpace c

-- Parts between commas and spaces, with brackets respected.
pieces :: String -> [String]
pieces = filter (not . null) . map trim . go (0 :: Int) ""
  where
    go depth acc = \case
      [] -> [reverse acc]
      c : rest
        | depth == 0 && (c == ',' || isSpace c) -> reverse acc : go depth "" rest
        | c == '(' -> go (depth + 1) (c : acc) rest
        | c == ')' -> go (max 0 (depth - 1)) (c : acc) rest
        | otherwise -> go depth (c : acc) rest

trim :: String -> String
trim = dropWhileEnd isSpace . dropWhile isSpace

-- Decimal or 0x…; must fit.
number :: Integral a => String -> String -> Either String a
number part v = do
  n <- integer part v
  let r = fromInteger n
  if toInteger r == n && n >= 0 then Right r else Left (part ++ ": " ++ v ++ " is out of range")

integer :: String -> String -> Either String Integer
integer part v = case map toLower v of
  '0' : 'x' : digits@(_ : _) | all isHexDigit digits, [(n, "")] <- readHex digits -> Right n
  digits@(_ : _) | all isDigit digits -> Right (read digits)
  _ -> Left (part ++ ": " ++ v ++ " is not a number")

port :: String -> Either String PortNo
port v = case map toLower v of
  "in_port" -> Right PortInPort
  "table" -> Right PortTable
  "normal" -> Right PortNormal
  "flood" -> Right PortFlood
  "all" -> Right PortAll
  "controller" -> Right PortController
  "local" -> Right PortLocal
  "any" -> Right PortAny
  "none" -> Right PortAny
  _ -> do
    n <- number v v :: Either String Word32
    pure (if n >= 0xff00 && n <= 0xffff then portFrom16 (fromIntegral n) else PortNo n)

renderPort :: PortNo -> String
renderPort = show

-- What later fields depend on.
data Types = Types !(Maybe Integer) !(Maybe Integer)

typesOf :: [Oxm] -> Types
typesOf fields = Types (value EthType) (value IpProto)
  where
    value f = fst <$> fieldValue f (Match fields)

merge :: [Oxm] -> [Oxm] -> [Oxm]
merge old new = old ++ filter (`notElem` old) new

-- | Read a match alone, such as @tcp,nw_dst=10.0.0.1,tp_dst=80@.
--
-- [Cost]: O(characters).
parseMatch :: String -> Either String Match
parseMatch text = Match <$> foldl (\sofar part -> sofar >>= \old -> merge old <$> matchPart (typesOf old) part) (Right []) (pieces text)

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

matchPart :: Types -> String -> Either String [Oxm]
matchPart (Types ethType proto) part = case break (== '=') part of
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
    "nw_tos" -> integer part v >>= \n -> limited 8 n >> if n .&. 3 == 0 then Right [oxm IpDscp (n `shiftR` 2)] else Left (part ++ ": the lower two bits are not matched")
    "ip_dscp" -> plain IpDscp v
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
    "tcp_src" -> plain TcpSrc v
    "tcp_dst" -> plain TcpDst v
    "udp_src" -> plain UdpSrc v
    "udp_dst" -> plain UdpDst v
    "sctp_src" -> plain SctpSrc v
    "sctp_dst" -> plain SctpDst v
    "icmp_type" -> plain (if proto == Just 58 then Icmpv6Type else Icmpv4Type) v
    "icmp_code" -> plain (if proto == Just 58 then Icmpv6Code else Icmpv4Code) v
    "icmpv6_type" -> plain Icmpv6Type v
    "icmpv6_code" -> plain Icmpv6Code v
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
      (a, '/' : m) -> (\x y -> [withMask field x y]) <$> integer part a <*> integer part m
      (a, _) -> plain field a
    withMask field n m
      | m == ones field = oxm field n
      | otherwise = oxmMasked field n m
    ones field = 1 `shiftL` fieldBits (fieldInfo field) - 1
    vlanTci v = case break (== '/') v of
      (a, '/' : m) -> do
        n <- integer part a
        mask <- integer part m
        let vid = [withMask VlanVid (n .&. 0x1fff) (mask .&. 0x1fff) | mask .&. 0x1fff /= 0]
            pcp = [oxm VlanPcp ((n `shiftR` 13) .&. 7) | mask .&. 0xe000 == 0xe000]
        if mask .&. 0xe000 `elem` [0, 0xe000] then Right (vid ++ pcp) else Left (part ++ ": a mask of some bits of the priority")
      (a, _) -> integer part a >>= \n -> if n == 0 then Right [oxm VlanVid 0] else Right [oxm VlanVid (n .&. 0x1fff), oxm VlanPcp ((n `shiftR` 13) .&. 7)]
    macs field v = case break (== '/') v of
      (a, '/' : m) -> (\x y -> [oxmMasked field x y]) <$> macOf a <*> macOf m
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
          | all isDigit digits && not (null digits),
            k <- read digits :: Int,
            k <= bits ->
            Right (if k == bits then [oxm field n] else [oxmMasked field n (prefixMask bits k) | k > 0])
          | Just mask <- parse digits -> Right (if mask == prefixMask bits bits then [oxm field n] else [oxmMasked field n mask])
          | otherwise -> Left (part ++ ": " ++ digits ++ " is not a mask")
    ports t u s i4 i6 v = case proto of
      Just 17 -> plain u v
      Just 132 -> plain s v
      Just 1 | ethType /= Just 0x86dd -> plain i4 v
      Just 58 -> plain i6 v
      Just 6 -> plain t v
      _ -> Left (part ++ ": needs a protocol before it, such as tcp or udp")

prefixMask :: Int -> Int -> Integer
prefixMask bits k = (1 `shiftL` bits - 1) .&. complement (1 `shiftL` (bits - k) - 1)

ipv4Of :: String -> Maybe Integer
ipv4Of = go (0 :: Int) 0
  where
    go n acc s = case span isDigit s of
      (digits@(_ : _), rest)
        | length digits <= 3,
          d <- read digits,
          d < 256 ->
          let acc' = acc * 256 + d
           in case rest of
                "" | n == 3 -> Just acc'
                '.' : more | n < 3 -> go (n + 1) acc' more
                _ -> Nothing
      _ -> Nothing

ipv6Of :: String -> Maybe Integer
ipv6Of s = case splitDouble s of
  Just (front, back) -> do
    a <- groups front
    b <- groups back
    if length a + length b < 8 then Just (join' (a ++ replicate (8 - length a - length b) 0 ++ b)) else Nothing
  Nothing -> groups s >>= \a -> if length a == 8 then Just (join' a) else Nothing
  where
    join' = foldl (\n g -> n `shiftL` 16 .|. g) 0
    splitDouble = go ""
      where
        go acc = \case
          ':' : ':' : rest -> Just (reverse acc, rest)
          c : rest -> go (c : acc) rest
          [] -> Nothing
    groups "" = Just []
    groups t = case break (== ':') t of
      (g, rest)
        | '.' `elem` g, null rest, Just n <- ipv4Of g -> Just [n `shiftR` 16, n .&. 0xffff]
        | not (null g) && length g <= 4 && all isHexDigit g,
          [(n, "")] <- readHex g -> case rest of
          "" -> Just [n]
          _ : "" -> Nothing
          _ : more -> (n :) <$> groups more
      _ -> Nothing

-- | Read the actions behind @actions=@. In 1.3 they are one 'ApplyActions', and the instructions that stand among them.
--
-- [Cost]: O(characters).
parseActions :: Version -> String -> Either String [Instruction]
parseActions version text
  | map toLower (trim text) `elem` ["drop", ""] = Right []
  | otherwise = do
    items <- concat <$> mapM item (pieces text)
    let actions = [a | Left a <- items]
        others = [i | Right i <- items]
    if version == OF10 && not (null others) then Left "instructions in 1.0" else Right (ordered ([ApplyActions actions | not (null actions)] ++ others))
  where
    -- As ovs-ofctl sends them.
    ordered is = [i | rank <- [0 .. 5 :: Int], i <- is, rankOf i == rank]
    rankOf = \case
      MeterInstruction _ -> 0
      ApplyActions _ -> 1
      ClearActions -> 2
      WriteActions _ -> 3
      WriteMetadata _ _ -> 4
      _ -> 5
    item part = case break (`elem` ":=(") part of
      (name, rest) -> do
        let v = drop 1 rest
            inside = if take 1 rest == "(" && not (null v) && last v == ')' then init v else v
            act = Right . pure . Left
            num f = number part v >>= act . f
        case (map toLower name, version) of
          ("output", _) -> port v >>= \p -> act (output p)
          ("controller", _)
            | null v -> act (Output PortController 0xffff)
            | take 1 rest == ":" -> number part v >>= act . Output PortController
            | Just n <- stripPrefix "max_len=" inside -> number part n >>= act . Output PortController
          ("enqueue", OF10) -> case break (`elem` ":,") inside of
            (p, _ : q) -> (\x y -> [Left (Enqueue x y)]) <$> port p <*> number part q
            _ -> Left (part ++ ": a port and a queue")
          ("strip_vlan", OF10) -> act StripVlan
          ("pop_vlan", OF10) -> act StripVlan
          ("strip_vlan", OF13) -> act PopVlan
          ("pop_vlan", OF13) -> act PopVlan
          ("mod_vlan_vid", OF10) -> num SetVlanVid
          ("mod_vlan_pcp", OF10) -> num SetVlanPcp
          ("mod_dl_src", OF10) -> macOf part v >>= act . SetDlSrc
          ("mod_dl_dst", OF10) -> macOf part v >>= act . SetDlDst
          ("mod_dl_src", OF13) -> macOf part v >>= act . SetField . oxm EthSrc . toInteger . macWord
          ("mod_dl_dst", OF13) -> macOf part v >>= act . SetField . oxm EthDst . toInteger . macWord
          ("mod_nw_src", OF10) -> ip part v >>= act . SetNwSrc
          ("mod_nw_dst", OF10) -> ip part v >>= act . SetNwDst
          ("mod_nw_src", OF13) -> ip part v >>= act . SetField . oxm Ipv4Src . toInteger
          ("mod_nw_dst", OF13) -> ip part v >>= act . SetField . oxm Ipv4Dst . toInteger
          ("mod_nw_tos", OF10) -> num SetNwTos
          ("mod_tp_src", OF10) -> num SetTpSrc
          ("mod_tp_dst", OF10) -> num SetTpDst
          ("group", OF13) -> num Group
          ("set_queue", OF13) -> num SetQueue
          ("push_vlan", OF13) -> num PushVlan
          ("push_mpls", OF13) -> num PushMpls
          ("pop_mpls", OF13) -> num PopMpls
          ("push_pbb", OF13) -> num PushPbb
          ("pop_pbb", OF13) -> act PopPbb
          ("dec_ttl", OF13) -> act DecNwTtl
          ("mod_nw_ttl", OF13) -> num SetNwTtl
          ("set_mpls_ttl", OF13) -> num SetMplsTtl
          ("dec_mpls_ttl", OF13) -> act DecMplsTtl
          ("copy_ttl_out", OF13) -> act CopyTtlOut
          ("copy_ttl_in", OF13) -> act CopyTtlIn
          ("set_field", OF13) -> setField part v
          ("goto_table", OF13) -> number part v >>= other . GotoTable
          ("write_metadata", OF13) -> case break (== '/') v of
            (a, '/' : m) -> (\x y -> [Right (WriteMetadata x y)]) <$> number part a <*> number part m
            (a, _) -> number part a >>= \x -> other (WriteMetadata x maxBound)
          ("meter", OF13) -> number part v >>= other . MeterInstruction
          ("clear_actions", OF13) -> other ClearActions
          ("write_actions", OF13) ->
            parseActions OF13 inside >>= \case
              [ApplyActions as] -> other (WriteActions as)
              [] -> other (WriteActions [])
              _ -> Left (part ++ ": instructions within write_actions")
          (lower, _)
            | null rest, Right p <- port lower -> act (output p)
            | otherwise -> Left ("'" ++ part ++ "' is not an action of this version")
    other = Right . pure . Right
    output p = Output p (if p == PortController then 0xffff else 0)
    macOf part v = maybe (Left (part ++ ": not an address")) Right (parseMac v)
    ip part v = maybe (Left (part ++ ": not an address")) (Right . fromInteger) (ipv4Of v) :: Either String Word32
    setField part v = case breakArrow v of
      Just (value, field) ->
        matchPart (Types Nothing (protocolOf field)) (field ++ "=" ++ value) >>= \case
          [o] -> Right [Left (SetField o)]
          _ -> Left (part ++ ": one field")
      Nothing -> Left (part ++ ": set_field:VALUE->FIELD")
    protocolOf _ = Nothing
    breakArrow = go ""
      where
        go acc = \case
          '-' : '>' : rest -> Just (reverse acc, rest)
          c : rest -> go (c : acc) rest
          [] -> Nothing

-- | A flow as @ovs-ofctl add-flow@ takes it.
--
-- [Cost]: O(characters).
renderFlow :: FlowMod -> String
renderFlow m =
  intercalate "," (filter (not . null) (attributes ++ [renderMatch (flowModMatch m)]))
    ++ (if null attributes && null (renderMatch (flowModMatch m)) then "" else " ")
    ++ "actions="
    ++ renderInstructions (flowModInstructions m)
  where
    attributes =
      concat
        [ [cookie (flowModCookie m) (flowModCookieMask m) | flowModCookie m /= 0 || flowModCookieMask m /= 0],
          ["table=" ++ show (flowModTable m) | flowModTable m /= 0],
          ["idle_timeout=" ++ show (flowModIdle m) | flowModIdle m /= 0],
          ["hard_timeout=" ++ show (flowModHard m) | flowModHard m /= 0],
          ["out_port=" ++ renderPort (flowModOutPort m) | flowModOutPort m /= PortAny],
          ["out_group=" ++ show (flowModOutGroup m) | flowModOutGroup m /= 0xffffffff],
          flags (flowModFlags m),
          ["priority=" ++ show (flowModPriority m) | flowModPriority m /= 32768]
        ]
    cookie c mask = "cookie=0x" ++ showHex c "" ++ (if mask /= 0 then "/0x" ++ showHex mask "" else "")

flags :: Word16 -> [String]
flags f = [name | (bit, name) <- [(1, "send_flow_rem"), (2, "check_overlap"), (4, "reset_counts"), (8, "no_packet_counts"), (16, "no_byte_counts")], f .&. bit /= 0]

-- | A line of @ovs-ofctl dump-flows@.
--
-- [Cost]: O(characters).
renderFlowStats :: FlowStats -> String
renderFlowStats s =
  intercalate ", " (["cookie=0x" ++ showHex (flowCookie s :: Word64) "", "duration=" ++ duration, "table=" ++ show (flowTable s), "n_packets=" ++ show (flowPackets s), "n_bytes=" ++ show (flowBytes s)] ++ timeouts ++ flags (flowStatsFlags s))
    ++ ", "
    ++ intercalate "," (filter (not . null) (["priority=" ++ show (flowPriority s) | flowPriority s /= 32768] ++ [renderMatch (flowMatch s)]))
    ++ " actions="
    ++ renderInstructions (flowInstructions s)
  where
    duration = show (flowSeconds s) ++ "." ++ millis (flowNanoseconds s `quot` 1000000) ++ "s"
    millis n = reverse (take 3 (reverse (show n) ++ "000"))
    timeouts = ["idle_timeout=" ++ show (flowIdle s) | flowIdle s /= 0] ++ ["hard_timeout=" ++ show (flowHard s) | flowHard s /= 0]

-- | A match: a shorthand for the protocol, then the fields.
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
      OxmRaw cls f _ -> ["oxm_class_0x" ++ showHex cls "" ++ "_field_" ++ show (f `shiftR` 1)]
    render f n m exact ethType proto = case f of
      InPort -> "in_port=" ++ renderPort (PortNo (fromInteger n))
      InPhyPort -> "in_phy_port=" ++ show n
      Metadata -> hexMasked "metadata"
      EthDst -> macs "dl_dst"
      EthSrc -> macs "dl_src"
      EthType -> "dl_type=0x" ++ showHex n ""
      VlanVid
        | exact && n == 0 -> "vlan_vid=0"
        | exact && n .&. 0x1000 /= 0 -> "dl_vlan=" ++ show (n .&. 0xfff)
        | otherwise -> hexMasked "vlan_vid"
      VlanPcp -> "dl_vlan_pcp=" ++ show n
      IpDscp -> "nw_tos=" ++ show (n `shiftL` 2)
      IpEcn -> "nw_ecn=" ++ show n
      IpProto -> "nw_proto=" ++ show n
      Ipv4Src -> ipv4s "nw_src"
      Ipv4Dst -> ipv4s "nw_dst"
      TcpSrc -> transport 6 "tp_src" "tcp_src"
      TcpDst -> transport 6 "tp_dst" "tcp_dst"
      UdpSrc -> transport 17 "tp_src" "udp_src"
      UdpDst -> transport 17 "tp_dst" "udp_dst"
      SctpSrc -> transport 132 "tp_src" "sctp_src"
      SctpDst -> transport 132 "tp_dst" "sctp_dst"
      Icmpv4Type -> "icmp_type=" ++ show n
      Icmpv4Code -> "icmp_code=" ++ show n
      ArpOp -> "arp_op=" ++ show n
      ArpSpa -> ipv4s "arp_spa"
      ArpTpa -> ipv4s "arp_tpa"
      ArpSha -> macs "arp_sha"
      ArpTha -> macs "arp_tha"
      Ipv6Src -> ipv6s "ipv6_src"
      Ipv6Dst -> ipv6s "ipv6_dst"
      Ipv6Flabel -> hexMasked "ipv6_label"
      Icmpv6Type -> "icmpv6_type=" ++ show n
      Icmpv6Code -> "icmpv6_code=" ++ show n
      Ipv6NdTarget -> ipv6s "nd_target"
      Ipv6NdSll -> macs "nd_sll"
      Ipv6NdTll -> macs "nd_tll"
      MplsLabel -> "mpls_label=" ++ show n
      MplsTc -> "mpls_tc=" ++ show n
      MplsBos -> "mpls_bos=" ++ show n
      PbbIsid -> hexMasked "pbb_isid"
      TunnelId -> hexMasked "tun_id"
      Ipv6Exthdr -> hexMasked "ipv6_exthdr"
      where
        hexMasked name = name ++ "=0x" ++ showHex n "" ++ maybe "" (\mask -> "/0x" ++ showHex mask "") m
        macs name = name ++ "=" ++ renderMac (Mac (fromInteger n)) ++ maybe "" (\mask -> '/' : renderMac (Mac (fromInteger mask))) m
        transport p short long = (if proto == Just p && isJust ethType then short else long) ++ "=" ++ show n
        ipv4s name = name ++ "=" ++ dotted n ++ maybe "" (maskOf 32 dotted) m
        ipv6s name = name ++ "=" ++ colons n ++ maybe "" (maskOf 128 colons) m
        maskOf bits shown mask
          | mask /= 0 && prefixMask bits (popCount mask) == mask = '/' : show (popCount mask)
          | otherwise = '/' : shown mask

dotted :: Integer -> String
dotted n = intercalate "." [show ((n `shiftR` s) .&. 255) | s <- [24, 16, 8, 0]]

-- RFC 5952: the longest run of zeros, of two groups at least, is left out.
colons :: Integer -> String
colons n = case longest of
  Just (start, len) -> text (take start groups) ++ "::" ++ text (drop (start + len) groups)
  Nothing -> text groups
  where
    groups = [(n `shiftR` s) .&. 0xffff | s <- [112, 96 .. 0]]
    text = intercalate ":" . map (`showHex` "")
    runs = [(i, len) | i <- [0 .. 7], let len = length (takeWhile (== 0) (drop i groups)), len >= 2]
    longest = foldl (\best r -> case best of Just b | snd b >= snd r -> best; _ -> Just r) Nothing runs

-- | Instructions and actions, as they stand behind @actions=@.
--
-- [Cost]: O(characters).
renderInstructions :: [Instruction] -> String
renderInstructions is = case concatMap instruction is of
  [] -> "drop"
  parts -> intercalate "," parts
  where
    instruction = \case
      GotoTable t -> ["goto_table:" ++ show t]
      WriteMetadata v m -> ["write_metadata:0x" ++ showHex v "" ++ (if m == maxBound then "" else "/0x" ++ showHex m "")]
      WriteActions as -> ["write_actions(" ++ (if null as then "drop" else intercalate "," (map action as)) ++ ")"]
      ApplyActions as -> map action as
      ClearActions -> ["clear_actions"]
      MeterInstruction n -> ["meter:" ++ show n]
      InstructionExperimenter e _ -> ["experimenter_0x" ++ showHex e ""]
      InstructionRaw kind _ -> ["instruction_" ++ show kind]
    action = \case
      Output PortController n -> "CONTROLLER:" ++ show n
      Output p _ | p >= PortMax -> renderPort p
      Output p _ -> "output:" ++ renderPort p
      SetVlanVid v -> "mod_vlan_vid:" ++ show v
      SetVlanPcp v -> "mod_vlan_pcp:" ++ show v
      StripVlan -> "strip_vlan"
      SetDlSrc a -> "mod_dl_src:" ++ renderMac a
      SetDlDst a -> "mod_dl_dst:" ++ renderMac a
      SetNwSrc a -> "mod_nw_src:" ++ dotted (toInteger a)
      SetNwDst a -> "mod_nw_dst:" ++ dotted (toInteger a)
      SetNwTos v -> "mod_nw_tos:" ++ show v
      SetTpSrc v -> "mod_tp_src:" ++ show v
      SetTpDst v -> "mod_tp_dst:" ++ show v
      Enqueue p q -> "enqueue:" ++ renderPort p ++ ":" ++ show q
      CopyTtlOut -> "copy_ttl_out"
      CopyTtlIn -> "copy_ttl_in"
      SetMplsTtl v -> "set_mpls_ttl:" ++ show v
      DecMplsTtl -> "dec_mpls_ttl"
      PushVlan v -> "push_vlan:0x" ++ hex4 v
      PopVlan -> "pop_vlan"
      PushMpls v -> "push_mpls:0x" ++ hex4 v
      PopMpls v -> "pop_mpls:0x" ++ hex4 v
      SetQueue q -> "set_queue:" ++ show q
      Group g -> "group:" ++ show g
      SetNwTtl v -> "mod_nw_ttl:" ++ show v
      DecNwTtl -> "dec_ttl"
      SetField o -> "set_field:" ++ setField o
      PushPbb v -> "push_pbb:0x" ++ hex4 v
      PopPbb -> "pop_pbb"
      ActionExperimenter e _ -> "experimenter_0x" ++ showHex e ""
      ActionRaw kind _ -> "action_" ++ show kind
    hex4 v = let s = showHex v "" in replicate (4 - length s) '0' ++ s
    setField o = case o of
      Oxm VlanVid v Nothing -> show (oxmNumber v) ++ "->vlan_vid"
      Oxm InPort v Nothing -> renderPort (PortNo (fromInteger (oxmNumber v))) ++ "->in_port"
      Oxm f v m -> case break (== '=') (renderMatch (Match [Oxm f v m])) of
        (name, _ : value) -> value ++ "->" ++ fromMaybe name (lookup name [("tp_src", "tcp_src"), ("tp_dst", "tcp_dst"), ("dl_src", "eth_src"), ("dl_dst", "eth_dst"), ("nw_src", "ip_src"), ("nw_dst", "ip_dst")])
        (name, []) -> name
      OxmRaw cls f bytes -> "raw_" ++ show cls ++ "_" ++ show f ++ "_" ++ hexBytes bytes

hexBytes :: ByteString -> String
hexBytes = concatMap (\b -> (if b < 16 then "0" else "") ++ showHex b "") . B.unpack
