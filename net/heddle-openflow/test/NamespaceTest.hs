-- |
-- Module      : NamespaceTest
-- Description : Open vSwitch's netdev datapath between network namespaces
--
-- Real hosts: two network namespaces of the kernel, cabled to a bridge. Needs root, iproute2 and the right to make namespaces;
-- where one is missing the test is left out, and says why.
module NamespaceTest
  ( namespaceTests,
  )
where

import Control.Monad (forM_, void)
import Data.List (isInfixOf)
import Heddle.IO (withRuntime)
import Heddle.IO qualified as IO
import Heddle.OpenFlow.Controller
import Heddle.OpenFlow.Learning
import Heddle.Prim.Atomic
import Heddle.Prim.Exception
import Heddle.Testkit.Ovs
import Network.Socket (SockAddr (..), tupleToHostAddress)
import System.Exit (ExitCode (..))
import System.Process (readProcessWithExitCode)
import Test.Tasty
import Test.Tasty.HUnit

-- | The test, or why it is left out.
namespaceTests :: Bool -> IO TestTree
namespaceTests ovsIsMissing = do
  obstacle <- if ovsIsMissing then pure (Just "Open vSwitch is not installed") else namespacesObstacle
  pure $ case obstacle of
    Just why -> testCase ("ping between namespaces: left out, " ++ why) (pure ())
    Nothing -> testGroup "ping between namespaces, through the netdev datapath" [testCase v (pings v) | v <- ["OpenFlow10", "OpenFlow13"]]

-- What keeps this process from making two connected namespaces.
namespacesObstacle :: IO (Maybe String)
namespacesObstacle =
  trySync (withHosts "obstacle" (\_ -> python ["-c", "import socket; socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)"])) >>= \case
    Left e -> pure (Just (unwords (lines (describeException e))))
    Right _ -> pure Nothing

command :: String -> [String] -> IO String
command program arguments = do
  (code, out, err) <- readProcessWithExitCode program arguments ""
  if code == ExitSuccess then pure out else fail (unwords (program : take 4 arguments) ++ ": " ++ err)

python :: [String] -> IO String
python = command "python3"

-- | Two namespaces with an address each, and the names of their cables' other ends.
withHosts :: String -> ([(String, String)] -> IO a) -> IO a
withHosts tag body = do
  -- Names of interfaces are short, and another run may be beside this one.
  port <- freePort
  let names = [("heddle-" ++ tag ++ "-" ++ show port ++ "-" ++ show i, "hv" ++ show port ++ "-" ++ show i) | i <- [1, 2 :: Int]]
      make [] done = body (reverse done)
      make ((space, cable) : rest) done =
        bracket_ (void (command "ip" ["netns", "add", space])) (void (command "ip" ["netns", "delete", space])) $ do
          void (command "ip" ["link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", space])
          void (command "ip" ["link", "set", cable, "up"])
          void (command "ip" ["-n", space, "address", "add", "10.99.0." ++ show (length done + 1) ++ "/24", "dev", "eth0"])
          void (command "ip" ["-n", space, "link", "set", "eth0", "up"])
          make rest ((space, cable) : done)
  make names []

pings :: String -> IO ()
pings words' = withOvs $ \ovs -> withHosts words' $ \hosts -> withRuntime IO.defaultConfig $ \runtime -> do
  port <- freePort
  counts <- newWords 8
  withController runtime defaultConfig {configAddress = SockAddrInet port (tupleToHostAddress (127, 0, 0, 1))} (learningSwitch defaultLearning counts) $ \controller -> do
    void . vsctl ovs $
      ["add-br", "hbr" ++ show port, "--", "set", "bridge", "hbr" ++ show port, "datapath_type=netdev", "fail-mode=secure", "protocols=" ++ words']
        ++ concat [["--", "add-port", "hbr" ++ show port, cable] | (_, cable) <- hosts]
        ++ ["--", "set-controller", "hbr" ++ show port, "tcp:127.0.0.1:" ++ show port]
    waitFor "the switch" (not . null <$> switches controller)
    -- Each way; the first needs ARP too.
    forM_ (zip hosts ["10.99.0.2", "10.99.0.1"]) $ \((space, _), other) ->
      command "ip" ["netns", "exec", space, "python3", "-c", ping, other] >>= (@?= "answered\n")
    -- The packets used flows between the two hosts, and not the controller alone.
    waitFor "flows that were used" $ do
      flows <- lines <$> ofctl ovs words' "dump-flows" ("hbr" ++ show port) []
      pure (length [f | f <- flows, "dl_src" `isInfixOf` f, not ("n_packets=0" `isInfixOf` f)] >= 2)
    vsctl ovs ["del-br", "hbr" ++ show port] >>= (@?= "")

-- Echo requests until five were answered in a row: the first ones may be lost while the bridge is set up.
ping :: String
ping =
  unlines
    [ "import socket, struct, sys",
      "def checksum(b):",
      "    s = sum(struct.unpack('!%dH' % (len(b) // 2), b)); s = (s >> 16) + (s & 0xffff)",
      "    return ~(s + (s >> 16)) & 0xffff",
      "s = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)",
      "s.settimeout(1)",
      "row = 0",
      "for n in range(40):",
      "    body = struct.pack('!BBHHH', 8, 0, 0, 77, n) + b'heddle' * 4",
      "    try:",
      "        s.sendto(body[:2] + struct.pack('!H', checksum(body)) + body[4:], (sys.argv[1], 0))",
      "        while True:",
      "            reply = s.recv(2000)[20:]",
      "            if reply[0] == 0 and reply[4:] == body[4:]: break",
      "        row += 1",
      "    except OSError:",
      "        row = 0",
      "    if row == 5: print('answered'); break"
    ]
