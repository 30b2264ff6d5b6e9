{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.OpenFlow.Topology
-- Description : Links between switches, and flooding without loops
-- Stability   : stable
--
-- Each port of each switch sends a probe (LLDP) from time to time; the switch at the other end gives it to the
-- controller. Probes are signed with a key of this process, so that a host cannot make up links. A network-wide
-- learning switch then floods along a spanning tree, and learns hosts only at ports that lead to no switch.
--
-- A port whose state has changed is probed at once. A link is forgotten when one of its ports goes down, or when
-- three probes in a row have not come through.
--
-- Until a port that came up has been probed for a while, it could be a link that nobody has seen: it takes no part in
-- flooding before 'topologySettle' has passed, or two rings of flooding would meet.
--
-- Cost: one packet-out for each port and probe; the tree is made when links change, O(links log links).
-- Owner: the controller; any thread may read.
-- Shared writes per packet-in: 0, but for probes.
module Heddle.OpenFlow.Topology
  ( Topology,
    TopologyOptions (..),
    defaultTopology,
    withTopology,
    topologySwitch,
    Link (..),
    links,
    treePorts,

    -- * For tests
    spanningTree,
    nextHop,
    probeFrame,
    readProbe,
  )
where

import Control.Monad (forM_, forever, unless, void, when)
import Data.Bits (shiftR)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as Char8
import Data.Either (fromRight)
import Data.Map.Strict (Map)
import Data.Map.Strict qualified as Map
import Data.Set (Set)
import Data.Set qualified as Set
import Data.Word (Word16, Word64)
import Heddle.Bytes.Hash (HashKey, newKey, sipHash24)
import Heddle.OpenFlow.Action
import Heddle.OpenFlow.Controller
import Heddle.OpenFlow.Hosts
import Heddle.OpenFlow.Learning
import Heddle.OpenFlow.Message
import Heddle.OpenFlow.Multipart
import Heddle.OpenFlow.Packet
import Heddle.OpenFlow.Types
import Heddle.OpenFlow.View
import Heddle.Prim.Atomic
import Heddle.Prim.Clock
import Heddle.Prim.Thread (labelMe)
import Heddle.Scope qualified as Scope
import Heddle.Timer (sleepFor)

-- | Times of probing, and of flows.
data TopologyOptions = TopologyOptions
  { topologyProbe :: !Nanos,
    -- | The time in which a new port takes no part in flooding.
    topologySettle :: !Nanos,
    -- | Seconds without a packet after which a flow ends.
    topologyIdle :: !Word16
  }

-- | A probe in five seconds; new ports wait for two; flows end after a minute.
defaultTopology :: TopologyOptions
defaultTopology = TopologyOptions (seconds 5) (seconds 2) 60

-- | One direction of a link.
data Link = Link
  { linkFrom :: !(DatapathId, PortNo),
    linkTo :: !(DatapathId, PortNo)
  }
  deriving stock (Eq, Ord, Show)

-- A port that is up: when it came up, and whether its silence has made it an edge.
data State = State
  { statePorts :: !(Map DatapathId (Map PortNo Deadline)),
    -- | When a link's probe last came through.
    stateLinks :: !(Map Link Deadline),
    -- | The ports that flooding uses.
    stateTree :: !(Map DatapathId (Set PortNo)),
    -- | The switches by their numbers.
    stateNumbers :: !(Map Int DatapathId)
  }

-- | The known state of the network.
data Topology = Topology
  { topologyState :: !(Ref State),
    topologyKey :: !HashKey,
    topologyOptions :: !TopologyOptions,
    topologyHosts :: !Hosts
  }

-- | Watch a network while the body runs.
--
-- [Blocks]: as the body does.
withTopology :: TopologyOptions -> Hosts -> (Topology -> IO a) -> IO a
withTopology options hosts body = do
  topology <- Topology <$> newRef (State Map.empty Map.empty Map.empty Map.empty) <*> newKey <*> pure options <*> pure hosts
  body topology

-- | All links, in both directions.
links :: Topology -> IO [Link]
links topology = Map.keys . stateLinks <$> readRef (topologyState topology)

-- | The ports of a switch that flooding uses.
treePorts :: Topology -> DatapathId -> IO [PortNo]
treePorts topology datapath = foldMap Set.toList . Map.lookup datapath . stateTree <$> readRef (topologyState topology)

-- | Handlers of a switch of a network: probes, and a learning switch that all switches share the hosts of. The scope
-- has a thread for each switch, which probes its ports.
topologySwitch :: Topology -> Scope.Scope -> Words -> Controller -> Switch -> IO Handlers
topologySwitch topology scope counts controller switch = do
  change (\_ s -> s {stateNumbers = Map.insert (infoNumber (switchInfo switch)) datapath (stateNumbers s)})
  base <- learningSwitch settings counts controller switch
  task <- Scope.fork scope (labelMe "openflow/topology" >> probing)
  pure
    base
      { onPacketIn = do
          probe <- arrived
          unless probe (onPacketIn base),
        onMessage = \xid m -> do
          case m of
            PortStatusMessage status
              | portStatusReason status == 1 || isDown (portStatusPort status) -> portGone datapath (portNumber (portStatusPort status))
              | otherwise -> portHere datapath (portNumber (portStatusPort status)) >> sendProbe (portNumber (portStatusPort status))
            _ -> pure ()
          onMessage base xid m,
        onDown = \reason -> do
          Scope.cancel task
          wasLinked <- any (touches datapath) <$> links topology
          change $ \now s ->
            rebuild
              topology
              now
              s
                { statePorts = Map.delete datapath (statePorts s),
                  stateLinks = Map.filterWithKey (\l _ -> not (touches datapath l)) (stateLinks s)
                }
          onDown base reason
          when wasLinked rerouted
      }
  where
    datapath = infoDatapath (switchInfo switch)
    version = infoVersion (switchInfo switch)
    settings =
      defaultLearning
        { learnIdle = topologyIdle (topologyOptions topology),
          learnHosts = const (pure (topologyHosts topology)),
          learnFlood = Just floodTree,
          learnIsLink = Just (const cameByLink),
          learnRoute = \_ place -> route place,
          learnOthers = const (filter (/= switch) <$> switches controller)
        }
    change f = do
      now <- monotonicNow
      modifyRef (topologyState topology) (\s -> (f now s, ()))
    isDown p = odd (portState p) || odd (portConfig p)
    touches d l = fst (linkFrom l) == d || fst (linkTo l) == d
    isLink port = any (\l -> linkTo l == (datapath, port) || linkFrom l == (datapath, port)) . Map.keys . stateLinks <$> readRef (topologyState topology)

    -- The first port of a shortest way to the host's switch.
    route place = do
      s <- readRef (topologyState topology)
      pure $ case Map.lookup (placeSwitch place) (stateNumbers s) of
        Nothing -> PortAny
        Just to -> nextHop (Map.keys (stateLinks s)) datapath to

    cameByLink = withFrame switch $ \p n -> withPacketIn version p n (pure False) (\_ _ inPort _ _ _ -> isLink inPort)

    -- Flooding sends the packet to each port of the tree but the one that it came from.
    floodTree _ = withFrame switch $ \p n -> withPacketIn version p n (pure ()) $ \_ _ inPort _ packet size -> do
      ports <- treePorts topology datapath
      bytes <- packed packet size
      let out = [Output port 0 | port <- ports, port /= inPort]
      -- A packet that comes in outside the tree has been, or will be, flooded by another way.
      when (inPort `elem` ports && not (null out)) $ void (emit switch 0 (PacketOutMessage (PacketOut NoBuffer inPort out bytes)))

    portHere d p = change $ \now s -> rebuild topology now s {statePorts = Map.insertWith (flip Map.union) d (Map.singleton p now) (statePorts s)}
    portGone d p = do
      link <- isLink p
      change $ \now s ->
        rebuild
          topology
          now
          s
            { statePorts = Map.adjust (Map.delete p) d (statePorts s),
              stateLinks = Map.filterWithKey (\l _ -> linkFrom l /= (d, p) && linkTo l /= (d, p)) (stateLinks s)
            }
      when link rerouted
    -- Flows made for the old links may lead nowhere, or around in a ring.
    rerouted = switches controller >>= mapM_ (`forgetAt` [forgetLearned])

    -- A thread of the switch: it learns the ports, then probes.
    probing = do
      asked <- request switch askPorts
      forM_ (fromRight [] asked) $ \p -> unless (isDown p || portNumber p >= PortMax) (portHere datapath (portNumber p))
      rounds (3 :: Int)
    -- New ports are probed several times while they settle.
    rounds quick = forever' quick $ \k -> do
      s <- readRef (topologyState topology)
      forM_ (foldMap Map.keys (Map.lookup datapath (statePorts s))) postProbe
      sleepFor (if k > 0 then pieceOf (topologySettle (topologyOptions topology)) else topologyProbe (topologyOptions topology))
      -- Links whose probes are missing, and ports that have settled.
      now <- monotonicNow
      lost <- modifyRef (topologyState topology) $ \s' ->
        let (alive, gone) = Map.partition (\seen -> elapsed seen now < tooLong) (stateLinks s')
         in (rebuild topology now s' {stateLinks = alive}, not (Map.null gone))
      when lost rerouted
    forever' k act = if k > 0 then act k >> forever' (k - 1) act else forever (act 0)
    pieceOf (Nanos n) = Nanos (n `quot` 3 + 1000000)
    tooLong = let Nanos n = topologyProbe (topologyOptions topology) in Nanos (3 * n + n `quot` 2) <> topologySettle (topologyOptions topology)

    postProbe port = void (trySend switch 0 (probeOut port))
    sendProbe port = void (emit switch 0 (probeOut port))
    probeOut port = PacketOutMessage (PacketOut NoBuffer PortController [Output port 0] (probeFrame (topologyKey topology) datapath port))

    -- Whether the packet-in is a probe.
    arrived = withFrame switch $ \p n -> withPacketIn version p n (pure False) $ \_ _ inPort _ packet size ->
      if size < 60
        then pure False
        else do
          kind <- peek16 packet 12
          if kind /= lldpType
            then pure False
            else do
              bytes <- packed packet size
              case readProbe (topologyKey topology) bytes of
                Just from | from /= (datapath, inPort) -> True <$ linked (Link from (datapath, inPort))
                _ -> pure True
    linked link = do
      s <- readRef (topologyState topology)
      now <- monotonicNow
      modifyRef (topologyState topology) (\s' -> (s' {stateLinks = Map.insert link now (stateLinks s')}, ()))
      when (Map.notMember link (stateLinks s)) $ do
        change (rebuild topology)
        rerouted
        -- A host that was learned at a port before the port was known as a link is not there.
        forgetPlace (topologyHosts topology) (placeOf (infoNumber (switchInfo switch)) (snd (linkTo link)))

-- The tree's ports: those of its links, and those that have settled and are no link's.
rebuild :: Topology -> Deadline -> State -> State
rebuild topology now s = s {stateTree = Map.mapWithKey usable (statePorts s)}
  where
    usable d ports = Set.fromList [p | (p, since) <- Map.toList ports, if Set.member (d, p) linkEnds then Set.member (d, p) tree else elapsed since now >= topologySettle (topologyOptions topology)]
    linkEnds = Set.fromList (concat [[linkFrom l, linkTo l] | l <- Map.keys (stateLinks s)])
    tree = spanningTree (Map.keys (stateLinks s))

-- | The ends of the links of a spanning forest, the same for the same links in any order.
--
-- Law (@tree@): its links connect what all links connect, and without any one of them they do not.
spanningTree :: [Link] -> Set (DatapathId, PortNo)
spanningTree all' = snd (Set.foldl' add (Map.empty, Set.empty) (Set.fromList (map ordered all')))
  where
    ordered (Link a b) = if a <= b then (a, b) else (b, a)
    add (parents, ends) (a, b)
      | ra == rb = (parents, ends)
      | otherwise = (Map.insert ra rb parents, Set.insert a (Set.insert b ends))
      where
        ra = root parents (fst a)
        rb = root parents (fst b)
    root parents d = maybe d (root parents) (Map.lookup d parents)

-- | The port of the first switch that begins a shortest way to the second; 'PortAny' if there is none.
nextHop :: [Link] -> DatapathId -> DatapathId -> PortNo
nextHop all' from to
  | from == to = PortAny
  | otherwise = go (Set.singleton from) [(fst (linkTo l), snd (linkFrom l)) | l <- outOf from]
  where
    byFrom = Map.fromListWith (++) [(fst (linkFrom l), [l]) | l <- all']
    outOf d = Map.findWithDefault [] d byFrom
    go _ [] = PortAny
    go seen ((d, first) : rest)
      | d == to = first
      | Set.member d seen = go seen rest
      | otherwise = go (Set.insert d seen) (rest ++ [(fst (linkTo l), first) | l <- outOf d])

-- | The packet that goes out of a port to find what is at its other end: chassis (7: locally assigned), port (7),
-- time to live, and the signature in a value of our own (127).
probeFrame :: HashKey -> DatapathId -> PortNo -> ByteString
probeFrame key datapath port = ethernet lldpMulticast (Mac (0x020000000000 + datapath `rem` 0x10000000000)) lldpType (content <> B.replicate (46 - B.length content) 0)
  where
    content = renderLldp (Lldp [(1, B.cons 7 chassis), (2, B.cons 7 place), (3, B.pack [0, 120]), (127, "\x00\x26\xe1\x00" <> signature key datapath port)])
    chassis = Char8.pack (renderDatapath datapath)
    place = Char8.pack (show (portWord port))

-- | The port where a probe of ours went out; 'Nothing' if it is none, or signed with another key.
readProbe :: HashKey -> ByteString -> Maybe (DatapathId, PortNo)
readProbe key bytes = do
  packet <- parsePacket bytes
  LldpPayload lldp <- Just (packetPayload packet)
  chassis <- B.drop 1 <$> lldpTlv 1 lldp
  place <- B.drop 1 <$> lldpTlv 2 lldp
  signed <- B.drop 4 <$> lldpTlv 127 lldp
  datapath <- hexadecimal chassis
  (port, "") <- Char8.readInt place
  let p = PortNo (fromIntegral port)
  if signed == signature key datapath p then Just (datapath, p) else Nothing
  where
    hexadecimal b = if B.length b == 16 then Just (Char8.foldl' (\n c -> n * 16 + digit c) 0 b) else Nothing
    digit c = maybe 0 fromIntegral (B.elemIndex (toByte c) "0123456789abcdef") :: Word64
    toByte = fromIntegral . fromEnum

-- The signature of a probe: SipHash under the process's key.
signature :: HashKey -> DatapathId -> PortNo -> ByteString
signature key datapath (PortNo port) = B.pack [fromIntegral (h `shiftR` (8 * i)) | i <- [7, 6 .. 0]]
  where
    h = sipHash24 key (Char8.pack (renderDatapath datapath ++ "/" ++ show port))
