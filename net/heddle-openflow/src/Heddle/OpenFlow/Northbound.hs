{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.OpenFlow.Northbound
-- Description : What a controller tells: JSON and Prometheus
-- Stability   : stable
--
-- Answers to paths, without a server: @heddle controller --http@ mounts them on heddle-http. The names of the JSON paths are
-- a subset of those of Ryu's REST interface.
--
-- [@\/metrics@] counters for Prometheus
-- [@\/stats\/switches@] the datapaths, as numbers
-- [@\/stats\/desc\/N@] what is known of a switch (its number in decimal, or in hexadecimal after @0x@)
-- [@\/stats\/flow\/N@] its flows, in the syntax of ovs-ofctl
-- [@\/stats\/port\/N@] its ports' counters
--
-- Cost: one request to the switch for its flows or ports.
-- Owner: any thread but a switch's handlers.
module Heddle.OpenFlow.Northbound
  ( Answer (..),
    northbound,
    metrics,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString.Char8 qualified as Char8
import Data.Word (Word64)
import Heddle.Bytes.Put (toByteString)
import Heddle.Json.Build
import Heddle.OpenFlow.Controller
import Heddle.OpenFlow.Multipart
import Heddle.OpenFlow.Text
import Heddle.OpenFlow.Types
import Text.Read (readMaybe)

-- | The answer to a path.
data Answer
  = -- | The type of the content, and the content.
    Found !ByteString !ByteString
  | -- | There is no such path, or no such switch.
    NotFound
  | -- | The switch did not answer, and why.
    NoReply !ByteString
  deriving stock (Eq, Show)

-- | Answer a path.
--
-- [Blocks]: parks until the switch has answered.
northbound :: Controller -> ByteString -> IO Answer
northbound controller path = case filter (/= "") (Char8.split '/' path) of
  ["metrics"] -> Found "text/plain; version=0.0.4" <$> metrics controller
  ["stats", "switches"] -> do
    found <- switches controller
    pure (json (encode (arrayOf (int . infoDatapath . switchInfo) found)))
  ["stats", "desc", n] -> about n $ \switch -> pure (Right (json (encode (describe (switchInfo switch)))))
  ["stats", "flow", n] -> about n $ \switch -> fmap (json . encode . arrayOf (string . renderFlowStats)) <$> ask switch (askFlows allFlows)
  ["stats", "port", n] -> about n $ \switch -> fmap (json . encode . arrayOf portCounters) <$> ask switch (askPortStats PortAny)
  _ -> pure NotFound
  where
    json = Found "application/json" . toByteString
    about n act = case readMaybe (Char8.unpack n) :: Maybe Integer of
      Just d | d >= 0 && d <= toInteger (maxBound :: Word64) -> findSwitch controller (fromInteger d) >>= maybe (pure NotFound) (fmap (either NoReply id) . act)
      _ -> pure NotFound
    ask switch question = either (Left . Char8.pack . renderRequestError (infoVersion (switchInfo switch))) Right <$> request switch question
    describe info =
      object $
        "dpid" <:> string (renderDatapath (infoDatapath info))
          <> "version" <:> string (case infoVersion info of OF10 -> "1.0"; OF13 -> "1.3")
          <> "address" <:> string (infoPeer info)
    portCounters p =
      object $
        "port_no" <:> string (show (portStatsPort p))
          <> mconcat (zipWith (\name n -> name <:> int n) ["rx_packets", "tx_packets", "rx_bytes", "tx_bytes", "rx_dropped", "tx_dropped", "rx_errors", "tx_errors", "rx_frame_err", "rx_over_err", "rx_crc_err", "collisions"] (portStatsCounters p))

-- | Counters in the text format of Prometheus.
--
-- [Cost]: O(switches).
metrics :: Controller -> IO ByteString
metrics controller = do
  totals <- controllerCounts controller
  found <- switches controller
  each <- mapM (\s -> (,) (renderDatapath (infoDatapath (switchInfo s))) <$> switchCounts s) found
  pure . Char8.pack . unlines . concat $
    [ family "openflow_switches" "gauge" "Switches that are connected." [("", length found)],
      family "openflow_connections_total" "counter" "Connections that became switches." [("", countConnected totals)],
      family "openflow_connections_ended_total" "counter" "Connections of switches that ended." [("", countEnded totals)],
      family "openflow_connections_refused_total" "counter" "Connections that failed before they were switches." [("", countRefused totals)],
      family "openflow_packet_ins_total" "counter" "Packets that switches sent to the controller." [("", countPacketIns totals)],
      family "openflow_switch_packet_ins_total" "counter" "The same by switch, since it connected." [(d, countsPacketIns c) | (d, c) <- each],
      family "openflow_switch_messages_total" "counter" "Other messages by switch." [(d, countsMessages c) | (d, c) <- each],
      family "openflow_switch_undecodable_total" "counter" "Messages that could not be read." [(d, countsUndecodable c) | (d, c) <- each],
      family "openflow_switch_dropped_total" "counter" "Packet-ins dropped because their handler was behind." [(d, countsDropped c) | (d, c) <- each],
      family "openflow_switch_sent_bytes_total" "counter" "Bytes sent to a switch." [(d, countsSent c) | (d, c) <- each]
    ]
  where
    family :: String -> String -> String -> [(String, Int)] -> [String]
    family name kind text' samples =
      ("# HELP " ++ name ++ " " ++ text') :
      ("# TYPE " ++ name ++ " " ++ kind) :
        [name ++ (if null d then "" else "{dpid=\"" ++ d ++ "\"}") ++ " " ++ show n | (d, n) <- samples]
