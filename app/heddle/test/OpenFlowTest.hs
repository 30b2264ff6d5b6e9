{-# LANGUAGE OverloadedStrings #-}

-- | heddle controller and heddle ofbench as their users meet them, with each other and with Open vSwitch. What they are made of is
-- tested with the library.
module OpenFlowTest (tests) where

import Control.Monad (forM_, unless, void)
import Data.ByteString.Char8 qualified as C
import Data.Char (isDigit)
import Data.List (isInfixOf, isPrefixOf, isSuffixOf, sort)
import Data.Maybe (isNothing)
import GHC.Clock (getMonotonicTime)
import Heddle.Testkit.HttpClient
import Heddle.Testkit.Ovs
import Heddle.Testkit.Watchdog
import Network.Socket (PortNumber, SockAddr (..), tupleToHostAddress)
import Program
import System.Directory (findExecutable)
import System.Exit (ExitCode (..))
import System.FilePath ((</>))
import System.Posix.Signals
import System.Process (StdStream (..), readProcessWithExitCode)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, assertFailure, testCase, (@?=))

tests :: TestTree
tests =
  testGroup
    "controller and ofbench"
    [ testGroup
        "Open vSwitch"
        [ withSwitch "flows are learned; JSON and metrics; the log; the end" learns,
          withSwitch "--app hub: every packet at every port, no flows" floods,
          withSwitch "--app topology: a packet reaches the other bridge's host" crossing,
          withSwitch "TLS: a certificate of ours, and one made at start" encrypted
        ],
      testCase "ofbench's flags, and its RESULT line" benchFlags,
      testCase "ofbench: --rate bounds the requests, and 1.3 is spoken" benchRate,
      testCase "ofbench without a controller" noController,
      testCase "a controller's address in use" addressInUse,
      testCase "options that are wrong" wrongOptions,
      testCase "interruptedReadMadeTheControllerDeaf: TERM and INT" deafened,
      testCase "on a terminal: a status line, cleared before each line of the log; none with --quiet" onTerminal
    ]

-- A test that is left out without Open vSwitch.
withSwitch :: String -> (Ovs -> IO ()) -> TestTree
withSwitch name act = testCase name $ ovsMissing >>= \missing -> unless missing (withOvs act)

-- A controller on a free port; its port.
withController :: [String] -> (Program -> PortNumber -> IO a) -> IO a
withController more act =
  withProgramSaying listening Inherit [] ("heddle", ["controller", "--listen", "127.0.0.1:0", "--cores", "1"] ++ more) $ \program ->
    act program (portIn (programLine program))

listening :: (String, String)
listening = ("Listening for OpenFlow switches on ", " stops)")

-- The port of the first address in a line.
portIn :: String -> PortNumber
portIn line = case break (== ':') line of
  (_, ':' : rest) | (digits@(_ : _), _) <- span isDigit rest -> read digits
  (_, _ : rest) -> portIn rest
  _ -> error ("no port in " ++ show line)

loopback :: PortNumber -> SockAddr
loopback port = SockAddrInet port (tupleToHostAddress (127, 0, 0, 1))

fetch :: PortNumber -> String -> Int -> IO String
fetch port path code = withClient (loopback port) $ \client -> do
  say client ("GET " <> C.pack path <> " HTTP/1.1\r\nHost: h\r\n\r\n")
  answer <- hearAnswer client
  answerCode answer @?= code
  pure (C.unpack (answerBody answer))

-- Packets that the port has sent.
sentBy :: Ovs -> String -> Int -> IO Int
sentBy ovs bridge port = do
  said <- lines <$> ofctl ovs "OpenFlow13" "dump-ports" bridge [show port]
  case [takeWhile isDigit (drop 5 w) | l <- said, "tx pkts" `isInfixOf` l, w <- tails' l, "pkts=" `isPrefixOf` w] of
    digits@(_ : _) : _ -> pure (read digits)
    _ -> assertFailure (show said)
  where
    tails' [] = []
    tails' s@(_ : rest) = s : tails' rest

learns :: Ovs -> IO ()
learns ovs = withController ["--idle", "7", "--http", "127.0.0.1:0"] $ \program port -> do
  -- The line for HTTP comes after the start-up line.
  said <- eventually "where HTTP is answered" (programOut program) (any ("Answering HTTP on " `isPrefixOf`) . lines)
  let http = portIn (head (filter ("Answering HTTP on " `isPrefixOf`) (lines said)))
  addBridge ovs "br0" 17 [("p1", 1), ("p2", 2)] "OpenFlow13" port
  _ <- eventually "the switch" (programOut program) ("switch 0000000000000017 connected from 127.0.0.1:" `isInfixOf`)
  programOut program >>= contains "(OpenFlow 1.3)"
  waitFor "the entry for packets without a flow" (("priority=0" `isInfixOf`) <$> ofctl ovs "OpenFlow13" "dump-flows" "br0" [])
  inject ovs "p1" 1 2
  waitFor "the flooded packet" ((== 1) <$> sentBy ovs "br0" 2)
  inject ovs "p2" 2 1
  flows <- eventually "a flow" (ofctl ovs "OpenFlow13" "dump-flows" "br0" []) ("dl_dst=00:00:00:00:00:01" `isInfixOf`)
  contains "idle_timeout=7" flows
  fetch http "/stats/switches" 200 >>= (@?= "[23]")
  fetch http "/stats/desc/23" 200 >>= contains "\"version\":\"1.3\""
  fetch http "/stats/flow/23" 200 >>= contains "dl_dst=00:00:00:00:00:01"
  fetch http "/stats/port/23" 200 >>= contains "\"tx_packets\""
  forM_ ["/stats/desc/24", "/stats/flow/x", "/nothing", "/"] $ \path -> fetch http path 404
  metrics <- fetch http "/metrics" 200
  contains "openflow_switches 1\n" metrics
  contains "openflow_switch_packet_ins_total{dpid=\"0000000000000017\"} 2\n" metrics
  promtool <- findExecutable "promtool"
  unless (isNothing promtool) $ readProcessWithExitCode "promtool" ["check", "metrics"] metrics >>= (@?= (ExitSuccess, "", ""))
  stopSwitchd ovs
  _ <- eventually "the end of the connection" (programOut program) ("switch 0000000000000017 disconnected: " `isInfixOf`)
  signal program sigTERM
  ends program >>= (@?= ExitSuccess)
  programOut program >>= contains "Stopped.\n"
  programErr program >>= (@?= "")

floods :: Ovs -> IO ()
floods ovs = withController ["--app", "hub"] $ \program port -> do
  addBridge ovs "br0" 18 [("p1", 1), ("p2", 2), ("p3", 3)] "OpenFlow13" port
  waitFor "the entry for packets without a flow" (("priority=0" `isInfixOf`) <$> ofctl ovs "OpenFlow13" "dump-flows" "br0" [])
  forM_ [(1, 2), (2, 1), (1, 2 :: Int)] $ \(from, to) -> inject ovs ("p" ++ show from) from to
  -- Port 3 gets all three, also those whose destination has been heard of.
  waitFor "all packets at port 3" ((== 3) <$> sentBy ovs "br0" 3)
  flows <- ofctl ovs "OpenFlow13" "dump-flows" "br0" []
  assertBool flows (not ("dl_dst" `isInfixOf` flows))
  signal program sigINT
  ends program >>= (@?= ExitSuccess)

-- Two bridges, port 1 of each cabled to the other's.
crossing :: Ovs -> IO ()
crossing ovs = do
  port <- freePort
  withProgramSaying listening Inherit [] ("heddle", ["controller", "--listen", "127.0.0.1:" ++ show port, "--app", "topology"]) $ \program -> do
    forM_ [1, 2] $ \b -> addBridge ovs ("br" ++ show b) b [(name b p, p) | p <- [1, 2]] "OpenFlow10,OpenFlow13" port
    patch ovs (name 1 1) (name 2 1)
    _ <- eventually "both switches" (programOut program) (\o -> all (`isInfixOf` o) ["switch 0000000000000001 connected", "switch 0000000000000002 connected"])
    -- Ports are flooded to when they have settled; probes are among the packets, so their sums say nothing, but flows do.
    waitFor "a flow to host 1 on both bridges" $ do
      inject ovs (name 1 2) 1 2
      inject ovs (name 2 2) 2 1
      and <$> mapM (\b -> ("dl_dst=00:00:00:00:00:01" `isInfixOf`) <$> ofctl ovs "OpenFlow13" "dump-flows" ("br" ++ show b) []) [1, 2 :: Int]
    signal program sigTERM
    ends program >>= (@?= ExitSuccess)
  where
    name :: Int -> Int -> String
    name b p = "b" ++ show b ++ "p" ++ show p

encrypted :: Ovs -> IO ()
encrypted ovs = do
  (certificate, key) <- selfSignedFiles ovs
  void (vsctl ovs ["set-ssl", key, certificate, certificate])
  withController ["--tls-cert", certificate, "--tls-key", key] $ \program port -> do
    addBridge ovs "br0" 21 [("p1", 1)] "OpenFlow13" port
    -- Without TLS it is refused, and told.
    _ <- eventually "a refusal" (programOut program) ("TLS" `isInfixOf`)
    void (vsctl ovs ["set-controller", "br0", "ssl:127.0.0.1:" ++ show port])
    void (eventually "the switch" (programOut program) ("switch 0000000000000021 connected" `isInfixOf`))
  withController ["--tls-self-signed"] $ \_ port -> do
    (_, shown, _) <- readProcessWithExitCode "openssl" ["s_client", "-connect", "127.0.0.1:" ++ show port, "-brief"] ""
    (_, _, said) <- readProcessWithExitCode "openssl" ["s_client", "-connect", "127.0.0.1:" ++ show port, "-brief"] ""
    contains "CONNECTION ESTABLISHED" (shown ++ said)

bench :: PortNumber -> [String] -> IO Ended
bench port arguments = runTool "heddle" (["ofbench", "-p", show port] ++ arguments)

-- The numbers of the RESULT line.
resultOf :: Ended -> IO [Double]
resultOf ended = do
  (endedCode ended, endedErr ended) @?= (ExitSuccess, "")
  case filter ("RESULT: " `isPrefixOf`) said of
    [line] -> pure (map read (splitOn '/' (words line !! 7)))
    _ -> assertFailure (show said)
  where
    said = lines (C.unpack (endedOut ended))

splitOn :: Char -> String -> [String]
splitOn c s = case break (== c) s of
  (a, _ : rest) -> a : splitOn c rest
  (a, []) -> [a]

benchFlags :: IO ()
benchFlags = withController [] $ \program port -> do
  -- cbench's, short and long. Tests without any answer fail, so they take longer than a slow machine may stall.
  ended <- bench port ["-c", "localhost", "-s", "4", "-M", "10", "-t", "-m", "300", "-l", "3", "--warmup-ms", "100"]
  numbers <- resultOf ended
  let said = lines (C.unpack (endedOut ended))
  head said @?= "4 switches, 10 hosts each, window 512, closed loop, OpenFlow 1.0, 3 tests of 300 ms"
  length said @?= 5
  contains "RESULT: 4 switches 3 tests min/max/avg/stdev = " (last said)
  contains " responses/s" (last said)
  case numbers of
    -- A machine that stalls may have had no answer in one of the tests.
    [least, most, mean, _] -> assertBool (last said) (0 < most && least <= mean && mean <= most)
    _ -> assertFailure (last said)
  forM_ (zip [1 :: Int ..] (init (tail said))) $ \(i, line) -> do
    assertBool line ((show i ++ ": ") `isPrefixOf` line)
    -- Each request was answered once, and none was lost.
    assertBool line (not (any (`isInfixOf` line) ["lost", "second answers", "no request"]))
  -- Latencies are in order.
  let latencies = map read (splitOn '/' (takeWhile (`notElem` (", " :: String)) (words (said !! 1) !! 6))) :: [Double]
  assertBool (said !! 1) (length latencies == 5 && sort latencies == latencies)
  told program ["switch 000000000000000" ++ show n ++ " connected" | n <- [1 .. 4 :: Int]]
  other <- bench port ["--switches", "2", "--mac-addresses", "5", "--window", "8", "--no-learn", "--threads", "2", "--ms-per-test", "1500", "--loops", "1", "--warmup-ms", "50", "--first-datapath", "250"]
  _ <- resultOf other
  C.unpack (C.takeWhile (/= '\n') (endedOut other)) @?= "2 switches, 5 hosts each (not made known first), window 8, closed loop, OpenFlow 1.0, 1 tests of 1500 ms"
  told program ["switch 00000000000000fb connected"]
  -- Tests that do not count, and with one switch and then two.
  ranged <- bench port ["-r", "-L", "-s", "2", "-M", "5", "-m", "300", "-l", "3", "-w", "1", "-C", "1", "-o", "900", "--warmup-ms", "20"]
  endedCode ranged @?= ExitSuccess
  let outcomes = [(take 3 line, "(does not count)" `isSuffixOf` line) | line <- drop 1 (lines (C.unpack (endedOut ranged)))]
  outcomes @?= concat (replicate 2 [("1: ", True), ("2: ", False), ("3: ", True), ("RES", False)])
  contains "RESULT: 1 switches 1 tests" (C.unpack (endedOut ranged))
  contains "RESULT: 2 switches 1 tests" (C.unpack (endedOut ranged))

benchRate :: IO ()
benchRate = withController [] $ \program port -> do
  before <- getMonotonicTime
  ended <- bench port ["-s", "2", "-M", "10", "--window", "16", "--rate", "500", "--of13", "-m", "2000", "-l", "1", "--warmup-ms", "100"]
  after <- getMonotonicTime
  numbers <- resultOf ended
  contains "window 16, open loop, 500 requests/s, OpenFlow 1.3" (C.unpack (endedOut ended))
  -- A loaded machine may be late, and then makes up for it with at most what is due: all of it within the two seconds.
  assertBool (show (numbers, after - before)) (all (\n -> n > 0 && 2 * n <= 500 * (after - before) + 2 * 16) (take 1 numbers))
  told program ["(OpenFlow 1.3)"]

-- What the controller has said of switches that are gone again; its output may come after theirs.
told :: Program -> [String] -> IO ()
told program parts = void (eventually (show parts) (programOut program) (\said -> all (`isInfixOf` said) parts))

noController :: IO ()
noController = do
  port <- freePort
  ended <- bench port ["-s", "3", "-m", "100", "-l", "1", "--warmup-ms", "50"]
  endedCode ended @?= ExitFailure 1
  contains "heddle ofbench: 3 switches failed; the first: " (endedErr ended)
  contains "ECONNREFUSED" (endedErr ended)

addressInUse :: IO ()
addressInUse = withController [] $ \_ port -> do
  ended <- runTool "heddle" ["controller", "--listen", "127.0.0.1:" ++ show port, "--cores", "1"]
  endedCode ended @?= ExitFailure 2
  contains "Address already in use" (endedErr ended)
  contains "Choose another address with --listen" (endedErr ended)

wrongOptions :: IO ()
wrongOptions = withDirectory $ \d -> do
  refuses ["controller", "--app", "router"] "'router' is not an application; there are learning, hub and topology"
  refuses ["controller", "--cores", "0"] "'0' is not a number of cores (1 to 256)"
  refuses ["controller", "--idle", "70000"] "'70000' is not a number of seconds (1 to 65535)"
  refuses ["controller", "--listen", "nonsense"] "nonsense"
  refuses ["controller", "--tls-cert", d </> "missing.pem", "--tls-key", d </> "missing.key"] "missing.pem"
  refuses ["controller", "--tls-cert", d </> "missing.pem"] "--tls-key"
  refuses ["ofbench", "-s", "0"] "'0' is not a number of switches (1 to 100000)"
  refuses ["ofbench", "-p", "70000"] "'70000' is not a port (1 to 65535)"
  refuses ["ofbench", "-l", "3", "-w", "2", "-C", "1"] "of 3 tests (--loops) none counts"
  refuses ["ofbench", "--rate", "-5"] "not a number of requests a second"
  refuses ["ofbench", "-c", "no.such.host.invalid"] "no.such.host.invalid"
  refuses ["ofbench", "extra"] "extra"
  where
    refuses arguments why = do
      ended <- runTool "heddle" arguments
      endedCode ended @?= ExitFailure 2
      contains why (endedErr ended)

-- script(1) makes the terminal.
onTerminal :: IO ()
onTerminal = do
  terminal [] $ \program port -> do
    -- The switches stay until a status line has counted them; the end of the bracket ends them.
    let arguments = ["ofbench", "-p", show port, "-s", "2", "-M", "5", "-m", "60000", "-l", "1", "--warmup-ms", "100"]
    withProgramSaying ("2 switches", "tests of") NoStream [] ("heddle", arguments) $ \_ ->
      told program ["\r\ESC[K2 switches, ", " packet-ins/s, "]
    -- The status line is gone before a line of the log comes (it was not: the clearing waited for the next status line).
    let switch = "switch 0000000000000001 "
    told program (map ("\r\ESC[K" ++) [switch ++ "connected", switch ++ "disconnected", "2 switches, ", "0 switches, "])
  terminal ["--quiet", "--http", "127.0.0.1:0"] $ \program port -> do
    _ <- bench port ["-s", "2", "-M", "5", "-m", "1500", "-l", "1", "--warmup-ms", "100"]
    said <- programOut program
    assertBool said (not (any (`isInfixOf` said) ["\ESC", "connected"]))
  where
    terminal more act = do
      port <- freePort
      withProgramSaying (if null more then listening else ("Answering HTTP on ", ":")) Inherit [("TERM", "xterm")] ("/usr/bin/script", ["-qfec", unwords (("exec heddle controller --cores 1 --listen 127.0.0.1:" ++ show port) : more), "/dev/null"]) $ \program -> do
        () <- act program port
        child <- runTool "pgrep" ["-P", show (programPid program)]
        forM_ (lines (C.unpack (endedOut child))) $ \pid -> signalProcess sigTERM (read pid)
        void (ends program)

-- GHC's own thread for signals ends at an interrupted read.
deafened :: IO ()
deafened = forM_ [sigTERM, sigINT] $ \s ->
  withController [] $ \program _ -> withReadsInterrupted program $ do
    signal program s
    ends program >>= (@?= ExitSuccess)
    programOut program >>= contains "Stopped."
