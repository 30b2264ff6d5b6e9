-- |
-- Module      : Heddle.OpenFlow.Text
-- Description : Flows in the syntax of ovs-ofctl, read and written
-- Stability   : stable
--
-- @priority=100,udp,nw_src=10.0.0.0/8,tp_dst=53 actions=output:2@ and the like: what @ovs-ofctl add-flow@ takes and
-- @ovs-ofctl dump-flows@ prints. Counters of a dump (@duration=@, @n_packets=@ and so on) are skipped when a flow is
-- read.
--
-- Parts may stand in any order, and bits of a value that its mask leaves out are cleared, as ovs-ofctl does. A number
-- that has too many bits is refused, of which ovs-ofctl takes the lower ones; and a field without its protocol, which
-- ovs-ofctl leaves out with a note, is kept if it is known which one it is, or refused.
--
-- What Open vSwitch adds to OpenFlow (NXM fields other than @nw_ttl@ and @tcp_flags@, registers, @learn@, @resubmit@,
-- connection tracking) is not known here and is refused with its name.
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

import Control.Monad (foldM)
import Data.Bits ((.&.), (.|.))
import Data.Char (isSpace, toLower)
import Data.Either (partitionEithers)
import Data.Foldable (asum)
import Data.List (intercalate, stripPrefix)
import Data.Maybe (fromMaybe, isJust)
import Data.Word (Word16, Word32, Word64)
import Heddle.OpenFlow.Action
import Heddle.OpenFlow.Match
import Heddle.OpenFlow.Message
import Heddle.OpenFlow.Multipart
import Heddle.OpenFlow.Text.Match
import Heddle.OpenFlow.Text.Words
import Heddle.OpenFlow.Types
import Numeric (showHex)

-- | Read a flow for a version, with 'FlowAdd' and 1.0's and ovs-ofctl's default priority of 32768. The error says
-- which part is wrong.
--
-- [Cost]: O(characters).
parseFlow :: Version -> String -> Either String FlowMod
parseFlow version line = do
  let (front, acts) = splitActions line
      (matched, changes) = partitionEithers [maybe (Left part) Right (attribute part) | part <- pieces front]
  instructions <- maybe (Right []) (parseActions version) acts
  fields <- matchParts matched
  -- 1.3 matches a priority only beside a tag, of any VLAN.
  let match = Match (fields ++ [oxmMasked VlanVid 0x1000 0x1000 | version == OF13, has VlanPcp fields, not (has VlanVid fields)])
  foldM (\flow change -> change flow) (flowAdd 32768 match []) {flowModInstructions = instructions} changes
  where
    has field fields = isJust (fieldValue field (Match fields))
    attribute part = case break (== '=') part of
      ("priority", '=' : v) -> set (number part v) (\n flow -> flow {flowModPriority = n})
      ("cookie", '=' : v) -> case break (== '/') v of
        (c, '/' : m) -> set ((,) <$> number part c <*> number part m) (\(a, b) flow -> flow {flowModCookie = a, flowModCookieMask = b})
        (c, _) -> set (number part c) (\n flow -> flow {flowModCookie = n})
      ("table", '=' : v) -> set (number part v) (\n flow -> flow {flowModTable = n})
      ("idle_timeout", '=' : v) -> set (number part v) (\n flow -> flow {flowModIdle = n})
      ("hard_timeout", '=' : v) -> set (number part v) (\n flow -> flow {flowModHard = n})
      ("out_port", '=' : v) -> set (port v) (\p flow -> flow {flowModOutPort = p})
      ("out_group", '=' : v) -> set (number part v) (\n flow -> flow {flowModOutGroup = n})
      ("send_flow_rem", "") -> flag SendFlowRemoved
      ("check_overlap", "") -> flag CheckOverlap
      ("reset_counts", "") -> flag 4
      ("no_packet_counts", "") -> flag 8
      ("no_byte_counts", "") -> flag 16
      (name, '=' : _) | name `elem` ["duration", "n_packets", "n_bytes", "idle_age", "hard_age"] -> Just Right
      _ -> Nothing
    set value change = Just (\flow -> (`change` flow) <$> value)
    flag bit = Just (\flow -> Right flow {flowModFlags = flowModFlags flow .|. bit})

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
      OxmRaw {} | (name, _ : value) <- break (== '=') (renderMatch (Match [o])) -> value ++ "->" ++ name
      OxmRaw cls f bytes -> "raw_" ++ show cls ++ "_" ++ show f ++ "_" ++ hexBytes bytes
