-- |
-- Module      : Ovs
-- Description : Open vSwitch with its dummy datapath, in a folder of its own
--
-- Needs no privilege and no kernel module. Everything is ended and removed afterwards.
module Ovs
  ( Ovs,
    ovsMissing,
    withOvs,
    vsctl,
    ofctl,
    appctl,
    inject,
    stopSwitchd,
    startSwitchd,
    addBridge,
    patch,
    selfSignedFiles,
    waitFor,
    freePort,
  )
where

import Control.Monad (void)
import Data.Maybe (isNothing)
import Heddle.Prim.Atomic (Ref, newRef, readRef, writeRef)
import Heddle.Prim.Clock
import Heddle.Prim.Exception
import Heddle.Timer (sleepFor)
import Network.Socket
import System.Directory (createDirectory, doesFileExist, findExecutable, getTemporaryDirectory, removeDirectoryRecursive)
import System.Environment (getEnvironment)
import System.Exit (ExitCode (..))
import System.FilePath ((</>))
import System.IO (IOMode (..), openFile)
import System.Process

data Ovs = Ovs
  { ovsFolder :: !FilePath,
    ovsSwitchd :: !(Ref (Maybe ProcessHandle))
  }

-- | Whether Open vSwitch is not installed.
ovsMissing :: IO Bool
ovsMissing = any isNothing <$> mapM findExecutable ["ovsdb-server", "ovs-vswitchd", "ovs-vsctl", "ovs-ofctl", "ovs-appctl", "ovsdb-tool"]

-- | Run with a database and a switch daemon.
withOvs :: (Ovs -> IO a) -> IO a
withOvs body = bracket folder removeDirectoryRecursive $ \d -> do
  void (call d "ovsdb-tool" ["create", d </> "conf.db", "/usr/share/openvswitch/vswitch.ovsschema"])
  bracket (daemon d "ovsdb-server" [d </> "conf.db", "--remote=punix:" ++ d </> "db.sock", "--unixctl=" ++ d </> "db.ctl"]) end $ \_ -> do
    waitFor "the database's socket" (doesFileExist' (d </> "db.sock"))
    void (call d "ovs-vsctl" ["--timeout=20", "--db=unix:" ++ d </> "db.sock", "--no-wait", "init"])
    bracket (Ovs d <$> newRef Nothing) stopSwitchd $ \ovs -> do
      startSwitchd ovs
      body ovs
  where
    folder = do
      base <- getTemporaryDirectory
      port <- freePort
      let d = base </> ("heddle-ovs-" ++ show port)
      d <$ createDirectory d
    doesFileExist' path = (||) <$> doesFileExist path <*> isSocket' path
    isSocket' path = (\(code, _, _) -> code == ExitSuccess) <$> readProcessWithExitCode "test" ["-S", path] ""

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

startSwitchd :: Ovs -> IO ()
startSwitchd ovs = do
  let d = ovsFolder ovs
  handle <- daemon d "ovs-vswitchd" ["--enable-dummy", "--disable-system", "--unixctl=" ++ d </> "vs.ctl", "unix:" ++ d </> "db.sock"]
  writeRef (ovsSwitchd ovs) (Just handle)

stopSwitchd :: Ovs -> IO ()
stopSwitchd ovs = readRef (ovsSwitchd ovs) >>= mapM_ end >> writeRef (ovsSwitchd ovs) Nothing

call :: FilePath -> String -> [String] -> IO String
call d program arguments = do
  variables <- environment d
  (code, out, err) <- readCreateProcessWithExitCode (proc program arguments) {env = Just variables} ""
  if code == ExitSuccess then pure out else fail (unwords (program : arguments) ++ ": " ++ err)

vsctl :: Ovs -> [String] -> IO String
vsctl ovs arguments = call (ovsFolder ovs) "ovs-vsctl" (["--timeout=20", "--db=unix:" ++ ovsFolder ovs </> "db.sock"] ++ arguments)

-- | ovs-ofctl for a bridge: the version (@OpenFlow13@), the command, the bridge, more.
ofctl :: Ovs -> String -> String -> String -> [String] -> IO String
ofctl ovs version command bridge more =
  call (ovsFolder ovs) "ovs-ofctl" (["--timeout=20", "-O", version, command, "unix:" ++ ovsFolder ovs </> (bridge ++ ".mgmt")] ++ more)

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

-- | Wait until it is so; fails after 30 seconds.
waitFor :: String -> IO Bool -> IO ()
waitFor what is = deadlineIn (seconds 30) >>= go
  where
    go deadline = do
      yes <- is
      now <- monotonicNow
      case () of
        _
          | yes -> pure ()
          | now >= deadline -> fail ("waited 30 seconds for " ++ what)
          | otherwise -> sleepFor (milliseconds 20) >> go deadline

-- | A port of the loopback interface that is free now.
freePort :: IO PortNumber
freePort = bracket (socket AF_INET Stream defaultProtocol) close $ \s -> do
  bind s (SockAddrInet 0 (tupleToHostAddress (127, 0, 0, 1)))
  socketPort s
