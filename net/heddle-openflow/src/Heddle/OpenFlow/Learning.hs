-- |
-- Module      : Heddle.OpenFlow.Learning
-- Description : Learning switches: for each switch by itself, or for the network
-- Stability   : stable
--
-- The learning switch of the Mio paper's evaluation: remember at which port an address was seen, send a packet to the port of
-- its destination and install a flow for it, and flood what has no known destination.
--
-- Cost: a packet-in is about thirty loads, two probes of the table, prefetched while the packet-in before it is handled, and the
-- stores of the answer; nothing is allocated.
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

    -- * Counts
    LearningCounts (..),
    learningCounts,
  )
where

import Control.Monad (unless, void, when)
import Data.ByteString qualified as B
import Data.Word (Word16, Word64, Word8)
import Foreign.Ptr (Ptr, plusPtr)
import Heddle.OpenFlow.Action
import Heddle.OpenFlow.Controller
import Heddle.OpenFlow.Hosts
import Heddle.OpenFlow.Match
import Heddle.OpenFlow.Message
import Heddle.OpenFlow.Multipart (Port (..))
import Heddle.OpenFlow.Types
import Heddle.OpenFlow.View
import Heddle.Prim.Atomic
import Heddle.Prim.Exception (throwIO)

-- | How flows are made.
data Learning = Learning
  { -- | Seconds without a packet after which a flow ends.
    learnIdle :: !Word16,
    -- | Seconds after which a flow ends.
    learnHard :: !Word16,
    learnPriority :: !Word16,
    -- | Where hosts are: a table of this switch's own, or one that all switches share.
    learnHosts :: !(Switch -> IO Hosts),
    -- | What floods the packet-in that 'withFrame' has instead of the switch; 'Nothing' for the switch's own flooding.
    learnFlood :: !(Maybe (Switch -> IO ())),
    -- | Whether the packet-in that 'withFrame' has came in at a port that leads to other switches, where no host is learned.
    learnIsLink :: !(Maybe (Switch -> IO Bool)),
    -- | The port that leads to a host of another switch; 'PortAny' if none is known.
    learnRoute :: !(Switch -> Place -> IO PortNo)
  }

-- | Flows end after 60 seconds without a packet; each switch has a table of 65,536 hosts at most.
defaultLearning :: Learning
defaultLearning = Learning 60 0 1000 (const (newHosts 16 0x10000)) Nothing Nothing (\_ _ -> pure PortAny)

-- | What was done, in this process.
data LearningCounts = LearningCounts
  { countFlows :: !Int,
    countFloods :: !Int,
    countMoves :: !Int,
    countFull :: !Int
  }
  deriving stock (Eq, Show)

-- | Handlers of a learning switch. The words are the sums of one switch: flows, floods, moves, hosts that found the table full.
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
            | portStatusReason status == 1 || odd (portState (portStatusPort status)) -> forgetPort hosts switch (portNumber (portStatusPort status))
          _ -> pure (),
        onDown = \_ -> forgetSwitch hosts (infoNumber (switchInfo switch))
      }

-- | The sums of a switch.
learningCounts :: Words -> IO LearningCounts
learningCounts counts = LearningCounts <$> readWord counts 0 <*> readWord counts 1 <*> readWord counts 2 <*> readWord counts 3

-- Whole packets to the controller; in 1.3 also the entry for packets without a flow. Flows of an earlier life are removed: they
-- may lead to ports where nobody is any more.
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
        !vlan <- if kind == 0x8100 && size >= 18 then peek16 packet 14 else pure 0
        -- Link layer protocols are the switch's neighbour's affair.
        unless (kind == 0x88cc) $ do
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
                Moved -> count counts 2 >> forgetFlows switch (Mac source) >> next
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
                  written switch
                    =<< pokeLayer2Flow version out 0 learnedCookie (learnIdle settings) (learnHard settings) (learnPriority settings) buffer 0 inPort (Mac source) (Mac destination) outPort
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

-- The next message, if it has come and is a packet-in as switches send it: its two probes of the table are the larger part of what it
-- costs, and they go on in the memory while this one is handled. A wrong guess costs nothing else.
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

-- | Deletes the flows that a learning switch has made; in 1.0, which cannot tell them apart, all flows.
forgetLearned :: FlowMod
forgetLearned = (flowDelete matchAll) {flowModCookie = learnedCookie, flowModCookieMask = maxBound}

-- Sends the packet of the present packet-in, of more than 16 KiB, to a port. It reads the frame once more: what a function out of
-- line takes in a box, GHC 9.4 and later would make the caller put into one, for each packet-in.
large :: Switch -> PortNo -> IO ()
large switch outPort = withFrame switch $ \p n -> withPacketIn (infoVersion (switchInfo switch)) p n (pure ()) $ \buffer _ inPort _ packet size -> do
  bytes <- packed packet size
  void (emit switch 0 (PacketOutMessage (PacketOut buffer inPort [Output outPort 0] (if buffer == NoBuffer then bytes else B.empty))))
{-# NOINLINE large #-}

-- The flows to a host that has moved lead to its old port.
forgetFlows :: Switch -> Mac -> IO ()
forgetFlows switch (Mac !address) = do
  void (emit switch 0 (FlowModMessage (flowDelete (Match [oxm EthDst (toInteger address)]))))
  void (emit switch 0 BarrierRequest)

forgetPort :: Hosts -> Switch -> PortNo -> IO ()
forgetPort hosts switch port = do
  forgetPlace hosts (placeOf (infoNumber (switchInfo switch)) port)
  void (emit switch 0 (FlowModMessage (flowDelete matchAll) {flowModOutPort = port}))

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
