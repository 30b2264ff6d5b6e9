-- |
-- Module      : Heddle.OpenFlow.Learning
-- Description : Learning switches: for each switch by itself, or for the network
-- Stability   : stable
--
-- The learning switch of the Mio paper's evaluation: remember at which port an address was seen, send a packet to the
-- port of its destination and install a flow for it, and flood what has no known destination.
--
-- A host is an address in a VLAN: the identifier of a frame's outer tag, of 802.1Q or 802.1ad. A tag of identifier 0
-- carries a priority alone, so such frames and those without a tag are of one VLAN.
--
-- Invariants: a flow matches all that its port was chosen by, which are the destination and the VLAN, and all that is
-- learned from, which are the ingress port and the source; a frame that the switch does not ask about would have been
-- answered the same. When a host moves, or its port is gone, the flows to it and from it are deleted: those to it
-- lead to the old place, and those from it would keep its return from being seen.
--
-- Hosts age as in a bridge, by the frames that they send. Frames that a flow carries are not seen here, but a flow ends
-- 'learnIdle' seconds after its last frame, so a switch is asked which flows it has, and their sources have been seen.
--
-- Cost: a packet-in is about thirty loads, two probes of the table, prefetched while the packet-in before it is
-- handled, and the stores of the answer; nothing is allocated.
-- Owner: the thread that reads the switch.
-- Shared writes per packet-in: 0 for a host that is known and has not moved.
module Heddle.OpenFlow.Learning
  ( -- * Settings
    Learning (..),
    defaultLearning,

    -- * Applications
    learningSwitch,
    hub,
    forgetLearned,
    forgetHost,
    forgetAt,
    ageHosts,

    -- * Counts
    LearningCounts (..),
    learningCounts,
  )
where

import Control.Monad (forM_, unless, void, when)
import Data.Bits ((.&.), (.|.))
import Data.ByteString qualified as B
import Data.Word (Word16, Word64, Word8)
import Foreign.Ptr (Ptr, plusPtr)
import Heddle.OpenFlow.Action
import Heddle.OpenFlow.Controller
import Heddle.OpenFlow.Hosts
import Heddle.OpenFlow.Match
import Heddle.OpenFlow.Message
import Heddle.OpenFlow.Multipart
import Heddle.OpenFlow.Switch (giveUp)
import Heddle.OpenFlow.Types
import Heddle.OpenFlow.View
import Heddle.Prim.Atomic
import Heddle.Prim.Exception (throwIO)

-- | Settings of the flows that are made, and of where hosts are.
data Learning = Learning
  { -- | Seconds without a packet after which a flow ends.
    learnIdle :: !Word16,
    -- | Seconds after which a flow ends.
    learnHard :: !Word16,
    learnPriority :: !Word16,
    -- | The table of hosts: this switch's own, or one that all switches share.
    learnHosts :: !(Switch -> IO Hosts),
    -- | Floods the packet-in that 'withFrame' has instead of the switch; 'Nothing' for the switch's own flooding.
    learnFlood :: !(Maybe (Switch -> IO ())),
    -- | Says whether the packet-in that 'withFrame' has came in at a port that leads to other switches, where no host
    -- is learned.
    learnIsLink :: !(Maybe (Switch -> IO Bool)),
    -- | The port that leads to a host of another switch; 'PortAny' if none is known.
    learnRoute :: !(Switch -> Place -> IO PortNo),
    -- | The other switches that have flows to this one's hosts: those flows are deleted too when a host has moved, or
    -- its port is gone.
    learnOthers :: !(Switch -> IO [Switch])
  }

-- | Flows end after 60 seconds without a packet; each switch has a table of 65,536 hosts at most.
defaultLearning :: Learning
defaultLearning =
  Learning 60 0 1000 (const (newHosts 16 0x10000)) Nothing Nothing (\_ _ -> pure PortAny) (\_ -> pure [])

-- | Sums of what was done, in this process.
data LearningCounts = LearningCounts
  { countFlows :: !Int,
    countFloods :: !Int,
    countMoves :: !Int,
    countFull :: !Int
  }
  deriving stock (Eq, Show)

-- | Handlers of a learning switch. The words are the sums of one switch: flows, floods, moves, hosts that found the
-- table full.
learningSwitch :: Learning -> Words -> Controller -> Switch -> IO Handlers
learningSwitch settings counts _ switch = do
  prepare switch
  hosts <- learnHosts settings switch
  let version = infoVersion (switchInfo switch)
  pure
    noHandlers
      { onPacketIn = case version of
          OF10 -> packetIn OF10 settings counts hosts switch
          OF13 -> packetIn OF13 settings counts hosts switch,
        onMessage = \_ -> \case
          -- Hosts behind a port that is gone, or down, are where nobody knows.
          PortStatusMessage status
            | portStatusReason status == 1 || odd (portState port) || odd (portConfig port) ->
              forgetPort settings hosts switch (portNumber port)
            where
              port = portStatusPort status
          MultipartReply _ (FlowReply flows) -> mapM_ (sourceSeen hosts switch) flows
          _ -> pure (),
        onDown = \_ -> forgetSwitch hosts (infoNumber (switchInfo switch))
      }

-- | The sums of a switch.
learningCounts :: Words -> IO LearningCounts
learningCounts counts =
  LearningCounts <$> readWord counts 0 <*> readWord counts 1 <*> readWord counts 2 <*> readWord counts 3

-- Whole packets to the controller; in 1.3 also the entry for packets without a flow. Flows of an earlier life are
-- removed: they may lead to ports where nobody is any more.
prepare :: Switch -> IO ()
prepare switch = do
  send (SetConfig (SwitchConfig 0 0xffff))
  send (FlowModMessage (flowDelete matchAll))
  send BarrierRequest
  when (infoVersion (switchInfo switch) == OF13) $
    send (FlowModMessage (flowAdd 0 matchAll [Output PortController 0xffff]))
  flushOutput switch
  where
    send m = emit switch 0 m >>= either (throwIO . HandlerFailed . show) pure

packetIn :: Version -> Learning -> Words -> Hosts -> Switch -> IO ()
packetIn version settings counts hosts switch = withFrame switch $ \p n -> do
  ahead version hosts (p `plusPtr` n) =<< following switch
  withPacketIn version p n (pure ()) $ \ !buffer _total !inPort _reason !packet !size ->
    if size < 14
      then pure ()
      else do
        !destination <- peek48 packet 0
        !source <- peek48 packet 6
        !kind <- peek16 packet 12
        -- As 1.3's vlan_vid has it. Switches see tags of both types, and flows cannot tell them apart.
        !vlan <- case () of
          _
            | kind /= 0x8100 && kind /= 0x88a8 -> pure 0
            | size < 18 -> pure cutTag
            | otherwise -> (\tag -> 0x1000 .|. tag .&. 0xfff) <$> peek16 packet 14
        -- Link layer protocols are the switch's neighbour's affair; a tag that is cut off does not say of which VLAN
        -- the frame is.
        unless (kind == 0x88cc || vlan == cutTag) $ do
          let !number = infoNumber (switchInfo switch)
              !here = placeOf number inPort
              learning next
                | macIsMulticast (Mac source) = next
                | otherwise = case learnIsLink settings of
                  Nothing -> learnHere next
                  Just isLink -> isLink switch >>= \link -> if link then next else learnHere next
              learnHere next = learnHostThen hosts (hostKey vlan (Mac source)) here $ \case
                Known -> next
                Added -> next
                Moved -> count counts 2 >> forgetMoved settings switch vlan (Mac source) >> next
                HostsFull -> count counts 3 >> next
              {-# INLINE learnHere #-}
              send outPort
                | outPort == PortAny = count counts 1 >> flood buffer inPort packet size
                -- It is where it came from: the switch before it has delivered it.
                | outPort == inPort = when (buffer /= NoBuffer) $ do
                  out <- reserve switch releaseBound
                  written switch =<< pokeRelease version out 0 buffer inPort
                | otherwise = do
                  count counts 0
                  out <- reserve switch (layer2FlowBytes version)
                  let !idle = learnIdle settings
                      !hard = learnHard settings
                      !priority = learnPriority settings
                  written switch
                    =<< pokeLayer2Flow version out 0 learnedCookie idle hard priority buffer 0 inPort vlan (Mac source) (Mac destination) outPort
                  when (buffer == NoBuffer) (forward buffer inPort outPort packet size)
          learning $
            if macIsMulticast (Mac destination)
              then send PortAny
              else findHostThen hosts (hostKey vlan (Mac destination)) $ \there -> case () of
                _
                  | there == noPlace -> send PortAny
                  | placeSwitch there == number -> send (placePort there)
                  | otherwise -> learnRoute settings switch there >>= send
  where
    flood buffer inPort packet size = case learnFlood settings of
      Nothing -> forward buffer inPort PortFlood packet size
      Just other -> other switch
    forward buffer inPort outPort packet size
      | packetOutBound size <= 0x4000 = do
        out <- reserve switch (packetOutBound size)
        written switch =<< pokePacketOut version out 0 buffer inPort outPort packet size
      | otherwise = large switch outPort
    {-# INLINE forward #-}
{-# INLINE packetIn #-}

-- The next message, if it has come and is a packet-in as switches send it: its two probes of the table are the larger
-- part of what it costs, and they go on in the memory while this one is handled. A wrong guess costs nothing else.
ahead :: Version -> Hosts -> Ptr Word8 -> Int -> IO ()
ahead version hosts p n = when (n >= at + 14) $ do
  kind <- viewType p
  when (kind == typePacketIn) $ do
    destination <- peek48 p at
    source <- peek48 p (at + 6)
    prefetchHosts hosts (hostKey 0 (Mac source)) (hostKey 0 (Mac destination))
  where
    at = case version of
      OF10 -> 18
      -- A match of the ingress port alone.
      OF13 -> 42
{-# INLINE ahead #-}

-- Marks the flows that are made here.
learnedCookie :: Word64
learnedCookie = 0x6865646c65

-- In place of a VLAN that is not known; no value of vlan_vid.
cutTag :: Word16
cutTag = 0xffff

-- | Deletes the flows that a learning switch has made; in 1.0, which cannot tell them apart, all flows.
forgetLearned :: FlowMod
forgetLearned = learnedOf matchAll

-- | Delete the flows that a learning switch has made to a host of a VLAN, by its identifier (0 also without a tag),
-- and from it; in 1.0, which cannot tell them apart, all flows that match the host's address and VLAN.
forgetHost :: Word16 -> Mac -> [FlowMod]
forgetHost vlan (Mac !address) =
  [learnedOf (Match [oxm end (toInteger address), oxm VlanVid form]) | end <- [EthDst, EthSrc], form <- forms]
  where
    identifier = toInteger (vlan .&. 0xfff)
    forms = [0 | identifier == 0] ++ [0x1000 .|. identifier]

-- Deletes the learned flows that a match covers.
learnedOf :: Match -> FlowMod
learnedOf match = (flowDelete match) {flowModCookie = learnedCookie, flowModCookieMask = maxBound}

-- | Send changes to any switch. One whose mailbox is full would keep flows that lead astray, so its connection ends; it
-- begins without flows when it connects again.
--
-- [Blocks]: never.
-- [Threads]: any.
forgetAt :: Switch -> [FlowMod] -> IO ()
forgetAt switch changes = forM_ changes $ \change -> do
  result <- trySend switch 0 (FlowModMessage change)
  when (result == Full) (giveUp switch NotReading)

-- | @ageHosts minutes minute tables switches@, to be called once a minute with the number of this minute: forgets hosts
-- that have sent nothing for that many minutes (below 2048). Three times in that time the switches are asked for the
-- flows that learning switches have made, whose sources count as seen, so a host is kept while a flow carries its
-- frames, and for as long after the last of them as the flow is idle ('learnIdle'; for ever at 0).
--
-- [Cost]: O(slots); when the switches are asked, O(flows) in the thread that reads each switch.
-- [Blocks]: never.
-- [Threads]: one.
ageHosts :: Int -> Int -> [Hosts] -> [Switch] -> IO ()
ageHosts minutes minute tables asked = do
  forM_ tables (`forgetOlder` minutes)
  -- A switch whose mailbox is full is asked the next time, which is early enough.
  when (minute `rem` max 1 (minutes `quot` 3) == 0) $
    forM_ asked $ \switch -> trySend switch askedXid (MultipartRequest 0 (FlowRequest query))
  where
    -- 1.0 has no cookie in its question.
    query = allFlows {queryCookie = learnedCookie, queryCookieMask = maxBound}

-- Of a question whose answers, in parts, come to the handler.
askedXid :: Xid
askedXid = 1

-- A flow of ours is in use: its source sends frames.
sourceSeen :: Hosts -> Switch -> FlowStats -> IO ()
sourceSeen hosts switch flow = case [fieldValue f (flowMatch flow) | f <- [InPort, VlanVid, EthSrc]] of
  [Just (port, Nothing), Just (vid, Nothing), Just (source, Nothing)]
    | flowCookie flow == learnedCookie ->
      refreshHost hosts (hostKey (fromInteger vid) (Mac (fromInteger source))) $
        placeOf (infoNumber (switchInfo switch)) (PortNo (fromInteger port))
  _ -> pure ()

-- Sends the packet of the present packet-in, of more than 16 KiB, to a port. It reads the frame once more: what a
-- function out of line takes in a box, GHC 9.4 and later would make the caller put into one, for each packet-in.
large :: Switch -> PortNo -> IO ()
large switch outPort = withFrame switch $ \p n -> withPacketIn (infoVersion (switchInfo switch)) p n (pure ()) $ \buffer _ inPort _ packet size -> do
  bytes <- packed packet size
  void (emit switch 0 (PacketOutMessage (PacketOut buffer inPort [Output outPort 0] (if buffer == NoBuffer then bytes else B.empty))))
{-# NOINLINE large #-}

-- A host has moved.
forgetMoved :: Learning -> Switch -> Word16 -> Mac -> IO ()
forgetMoved settings switch !vlan (Mac !address) = do
  forM_ changes (emit switch 0 . FlowModMessage)
  void (emit switch 0 BarrierRequest)
  learnOthers settings switch >>= mapM_ (`forgetAt` changes)
  where
    changes = forgetHost vlan (Mac address)

-- A port is gone, and the hosts behind it.
forgetPort :: Learning -> Hosts -> Switch -> PortNo -> IO ()
forgetPort settings hosts switch port = do
  others <- learnOthers settings switch
  lost <- if null others then pure [] else filter (\(_, _, there) -> there == place) <$> hostsList hosts
  forgetPlace hosts place
  mapM_
    (emit switch 0 . FlowModMessage)
    [(learnedOf matchAll) {flowModOutPort = port}, learnedOf (Match [oxm InPort (toInteger (portWord port))])]
  -- Many hosts would fill the mailboxes.
  let changes = if length lost > 100 then [forgetLearned] else concat [forgetHost vlan host | (vlan, host, _) <- lost]
  mapM_ (`forgetAt` changes) others
  where
    place = placeOf (infoNumber (switchInfo switch)) port

count :: Words -> Int -> IO ()
count ws i = readWord ws i >>= writeWord ws i . (+ 1)
{-# INLINE count #-}

-- | Handlers of a hub: every packet is flooded by the switch, without flows.
hub :: Controller -> Switch -> IO Handlers
hub _ switch = do
  prepare switch
  let version = infoVersion (switchInfo switch)
  pure
    noHandlers
      { onPacketIn = withFrame switch $ \p n ->
          withPacketIn version p n (pure ()) $ \buffer _ inPort _ packet size ->
            if packetOutBound size <= 0x4000
              then do
                out <- reserve switch (packetOutBound size)
                written switch =<< pokePacketOut version out 0 buffer inPort PortFlood packet size
              else large switch PortFlood
      }
