-- |
-- Module      : Heddle.Testkit.Ovs
-- Description : Open vSwitch with its dummy datapath, in a folder of its own
-- Stability   : internal, exempt from the version policy
--
-- Needs no privilege and no kernel module. Everything is ended and removed afterwards.
--
-- Owner: the calling thread.
-- Cost: two processes of Open vSwitch; each command is one more.
module Heddle.Testkit.Ovs
  ( -- * Life
    Ovs,
    ovsMissing,
    withOvs,
    stopSwitchd,
    startSwitchd,

    -- * Its programs
    vsctl,
    ofctl,
    appctl,

    -- * Networks
    addBridge,
    patch,
    inject,

    -- * What tests need beside it
    selfSignedFiles,
    waitFor,
    freePort,
  )
where

import Control.Exception (IOException, bracket, try)
import Control.Monad (void)
import Data.Either (isRight)
import Data.IORef
import Data.Maybe (isNothing)
import GHC.Clock (getMonotonicTimeNSec)
import Heddle.Testkit.Watchdog (eventually)
import Network.Socket
import System.Directory (createDirectory, findExecutable, getTemporaryDirectory, removeDirectoryRecursive)
import System.Environment (getEnvironment)
import System.Exit (ExitCode (..))
import System.FilePath ((</>))
import System.IO (IOMode (..), openFile)
import System.Process

-- | A running Open vSwitch.
data Ovs = Ovs
  { ovsFolder :: !FilePath,
    ovsSwitchd :: !(IORef (Maybe ProcessHandle))
  }

-- | Whether Open vSwitch is not installed.
ovsMissing :: IO Bool
ovsMissing = any isNothing <$> mapM findExecutable ["ovsdb-server", "ovs-vswitchd", "ovs-vsctl", "ovs-ofctl", "ovs-appctl", "ovsdb-tool"]

-- | Run with a database and a switch daemon.
withOvs :: (Ovs -> IO a) -> IO a
withOvs body = bracket folder removeDirectoryRecursive $ \d -> do
  void (call d "ovsdb-tool" ["create", d </> "conf.db", "/usr/share/openvswitch/vswitch.ovsschema"])
  bracket (daemon d "ovsdb-server" [d </> "conf.db", "--remote=punix:" ++ d </> "db.sock", "--unixctl=" ++ d </> "db.ctl"]) end $ \_ -> do
    -- Its file is there before it is listened on.
    waitFor "the database" (listens (d </> "db.sock"))
    void (call d "ovs-vsctl" ["--timeout=20", "--db=unix:" ++ d </> "db.sock", "--no-wait", "init"])
    bracket (Ovs d <$> newIORef Nothing) stopSwitchd $ \ovs -> do
      startSwitchd ovs
      body ovs
  where
    folder = do
      base <- getTemporaryDirectory
      port <- freePort
      let d = base </> ("heddle-ovs-" ++ show port)
      d <$ createDirectory d
    listens path = isRight <$> (try (bracket opened close (`connect` SockAddrUnix path)) :: IO (Either IOException ()))
    opened = socket AF_UNIX Stream defaultProtocol

environment :: FilePath -> IO [(String, String)]
environment d = (++ [("OVS_RUNDIR", d), ("OVS_LOGDIR", d), ("OVS_DBDIR", d)]) . filter ((`notElem` ["OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR"]) . fst) <$> getEnvironment

daemon :: FilePath -> String -> [String] -> IO ProcessHandle
daemon d program arguments = do
  variables <- environment d
  out <- openFile (d </> program ++ ".out") AppendMode
  (_, _, _, handle) <- createProcess (proc program arguments) {env = Just variables, std_out = UseHandle out, std_err = UseHandle out, std_in = NoStream}
  pure handle

end :: ProcessHandle -> IO ()
end handle = terminateProcess handle >> void (waitForProcess handle)

-- | Start the switch daemon again.
startSwitchd :: Ovs -> IO ()
startSwitchd ovs = do
  let d = ovsFolder ovs
  handle <- daemon d "ovs-vswitchd" ["--enable-dummy", "--disable-system", "--unixctl=" ++ d </> "vs.ctl", "unix:" ++ d </> "db.sock"]
  writeIORef (ovsSwitchd ovs) (Just handle)

-- | End the switch daemon; the database goes on.
stopSwitchd :: Ovs -> IO ()
stopSwitchd ovs = readIORef (ovsSwitchd ovs) >>= mapM_ end >> writeIORef (ovsSwitchd ovs) Nothing

call :: FilePath -> String -> [String] -> IO String
call d program arguments = do
  variables <- environment d
  (code, out, err) <- readCreateProcessWithExitCode (proc program arguments) {env = Just variables} ""
  if code == ExitSuccess then pure out else fail (unwords (program : arguments) ++ ": " ++ err)

-- | ovs-vsctl with these arguments; what it prints.
vsctl :: Ovs -> [String] -> IO String
vsctl ovs arguments = call (ovsFolder ovs) "ovs-vsctl" (["--timeout=20", "--db=unix:" ++ ovsFolder ovs </> "db.sock"] ++ arguments)

-- | ovs-ofctl for a bridge: the version (@OpenFlow13@), the command, the bridge, more.
ofctl :: Ovs -> String -> String -> String -> [String] -> IO String
ofctl ovs version command bridge more =
  call (ovsFolder ovs) "ovs-ofctl" (["--timeout=20", "-O", version, command, "unix:" ++ ovsFolder ovs </> (bridge ++ ".mgmt")] ++ more)

-- | ovs-appctl, for the switch daemon.
appctl :: Ovs -> [String] -> IO String
appctl ovs arguments = call (ovsFolder ovs) "ovs-appctl" (["--timeout=20", "-t", ovsFolder ovs </> "vs.ctl"] ++ arguments)

-- | A packet comes in at a port: the last bytes of the addresses.
inject :: Ovs -> String -> Int -> Int -> IO ()
inject ovs port source destination =
  void (appctl ovs ["netdev-dummy/receive", port, "in_port(1),eth(src=00:00:00:00:00:" ++ two source ++ ",dst=00:00:00:00:00:" ++ two destination ++ "),eth_type(0x0800),ipv4(src=10.0.0." ++ show source ++ ",dst=10.0.0." ++ show destination ++ ",proto=17,tos=0,ttl=64,frag=no),udp(src=1,dst=2)"])
  where
    two n = (if n < 10 then "0" else "") ++ show n

-- | A bridge with a datapath's number, ports with their numbers, versions and a controller.
addBridge :: Ovs -> String -> Int -> [(String, Int)] -> String -> PortNumber -> IO ()
addBridge ovs bridge datapath ports versions controller =
  void $
    vsctl ovs $
      ["add-br", bridge, "--", "set", "bridge", bridge, "datapath_type=dummy", "fail-mode=secure", "protocols=" ++ versions, "other-config:datapath-id=" ++ padded (show datapath), "other-config:hwaddr=aa:bb:cc:00:00:" ++ drop 14 (padded (show datapath))]
        ++ concat [["--", "add-port", bridge, name, "--", "set", "interface", name, "type=dummy", "ofport_request=" ++ show n] | (name, n) <- ports]
        ++ ["--", "set-controller", bridge, "tcp:127.0.0.1:" ++ show controller, "--", "set", "controller", bridge, "max_backoff=1000", "inactivity_probe=5000"]
  where
    padded s = replicate (16 - length s) '0' ++ s

-- | A certificate that signs itself, and its key: two files.
selfSignedFiles :: Ovs -> IO (FilePath, FilePath)
selfSignedFiles ovs = do
  let certificate = ovsFolder ovs </> "certificate.pem"
      key = ovsFolder ovs </> "key.pem"
  void (call (ovsFolder ovs) "openssl" ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30", "-subj", "/CN=localhost", "-keyout", key, "-out", certificate])
  pure (certificate, key)

-- | Connect two dummy ports by a cable: the first listens, the second connects.
patch :: Ovs -> String -> String -> IO ()
patch ovs a b = do
  let path = ovsFolder ovs </> (a ++ ".cable")
  void (vsctl ovs ["set", "interface", a, "options:pstream=punix:" ++ path])
  void (vsctl ovs ["set", "interface", b, "options:stream=unix:" ++ path])

-- | Wait until it is so; fails when patience ends.
waitFor :: String -> IO Bool -> IO ()
waitFor what is = void (eventually what is id)

-- | A port of the loopback interface that is free now, and stays so until it is listened on: below 32768, because the kernel gives
-- outgoing connections the ports from there on, and a switch that connects again and again to one of those, while nobody listens,
-- in the end connects to itself.
freePort :: IO PortNumber
freePort = getMonotonicTimeNSec >>= go . (`rem` 12000) . fromIntegral . (`quot` 1000)
  where
    go :: Int -> IO PortNumber
    go n = do
      let port = fromIntegral (20000 + n)
      taken <- try (bracket (socket AF_INET Stream defaultProtocol) close (\s -> bind s (SockAddrInet port (tupleToHostAddress (127, 0, 0, 1)))))
      case taken of
        Left (_ :: IOException) -> go ((n + 1) `rem` 12000)
        Right () -> pure port
