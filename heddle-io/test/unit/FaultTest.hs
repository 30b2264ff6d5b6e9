{-# LANGUAGE OverloadedStrings #-}
{-# LANGUAGE PatternSynonyms #-}

-- | Faults of the system, each in a child process that may lower its own limits.
module FaultTest (tests, scenarios) where

import Control.Concurrent hiding (threadWaitRead, threadWaitWrite)
import Control.Exception
import Control.Monad
import Data.ByteString qualified as B
import Data.List (isInfixOf)
import Harness
import Heddle.IO
import Heddle.IO.Internal (Manager (..), backendClose, interrupt, managerOn)
import Heddle.Prim.Errno
import Network.Socket qualified as N
import Network.Socket.ByteString qualified as NB
import System.Directory (createDirectory, getTemporaryDirectory, removePathForcibly)
import System.Environment (getEnv)
import System.Exit (ExitCode (..))
import System.Posix.Files (setFileMode)
import System.Posix.IO (OpenMode (..), closeFd, defaultFileFlags, openFd)
import System.Posix.Process (getProcessID)
import System.Posix.Resource
import System.Posix.Types (Fd)
import System.Posix.User (getRealUserID, setUserID)
import Test.Tasty
import Test.Tasty.HUnit

tests :: TestTree
tests =
  testGroup
    "Heddle.IO faults"
    ( [ testGroup
          name
          [ testCase (show b) $ do
              (code, out, err) <- child name [("HEDDLE_TEST_BACKEND", show b)] []
              assertEqual (out ++ err) ExitSuccess code
            | b <- backends
          ]
        | (name, backends, _) <- scenarios
      ]
        ++ [ bothBackends "a busy address is EADDRINUSE, however it is spread" $ \rt -> withLoopback rt $ \l -> do
               let again spread = newListener rt defaultListenOptions {listenSpread = spread} (listenerAddress l)
               expectIOError EADDRINUSE (again OneAcceptor)
               expectIOError EADDRINUSE (again PortPerCapability)
               withListener rt defaultListenOptions {listenSpread = PortPerCapability} loopback $ \shared -> do
                 let second spread = newListener rt defaultListenOptions {listenSpread = spread} (listenerAddress shared)
                 -- SO_REUSEPORT must not let a second server in silently.
                 expectIOError EADDRINUSE (second PortPerCapability)
                 expectIOError EADDRINUSE (second OneAcceptor),
             bothBackends "an address of another machine is EADDRNOTAVAIL" $ \rt ->
               expectIOError EADDRNOTAVAIL (newListener rt defaultListenOptions (N.SockAddrInet 0 (N.tupleToHostAddress (192, 0, 2, 1))))
           ]
    )

-- | By name: what the child does.
scenarios :: [(String, [BackendChoice], IO ())]
scenarios =
  [ ("accepting pauses without descriptors, and recovers", both, pausing),
    ("accept waits without descriptors", both, waitingAccept),
    ("connecting and starting without descriptors", both, starting),
    ("a forbidden path is EACCES", both, forbidden),
    -- poll(2) owns no descriptor that could be taken from it.
    ("a manager that dies is reported, and its waits end", [Epoll], dying)
  ]
  where
    both = [Epoll, Poll]

inRuntime :: (Runtime -> IO a) -> IO a
inRuntime body = do
  name <- getEnv "HEDDLE_TEST_BACKEND"
  let b = if name == show Poll then Poll else Epoll
  limited (withRuntime defaultConfig {configBackend = b} body)

-- Take every descriptor there is below a small limit.
exhaust :: IO [Fd]
exhaust = do
  limits <- getResourceLimit ResourceOpenFiles
  setResourceLimit ResourceOpenFiles limits {softLimit = ResourceLimit 128}
  let go taken =
        try (openFd "/dev/null" ReadOnly Nothing defaultFileFlags) >>= \case
          Right fd -> go (fd : taken)
          Left e
            | errnoOf e == Just EMFILE -> pure taken
            | otherwise -> throwIO e
  go []

clients :: Int -> IO [N.Socket]
clients n = replicateM n (N.socket N.AF_INET N.Stream N.defaultProtocol)

pausing :: IO ()
pausing = inRuntime $ \rt -> withLoopback rt $ \l -> do
  sockets <- clients 20
  pauses <- newEmptyMVar
  server <-
    forkTask $
      serve defaultServeOptions {servePaused = \e -> void (tryPutMVar pauses e)} l $ \c ->
        Done <$ (recvUntil c 100 never >>= got >>= \b -> sendAllUntil c b never)
  taken <- exhaust
  -- The kernel connects them all; none can be accepted.
  forM_ sockets $ \s -> N.connect s (listenerAddress l) >> NB.sendAll s "ping"
  takeMVar pauses >>= (@?= EMFILE)
  mapM_ closeFd taken
  forM_ sockets $ \s -> NB.recv s 100 >>= (@?= "ping") >> NB.recv s 100 >>= (@?= B.empty) >> N.close s
  closeListener l
  joinTask server

waitingAccept :: IO ()
waitingAccept = inRuntime $ \rt -> withLoopback rt $ \l -> do
  sockets <- clients 3
  taken <- exhaust
  forM_ sockets $ \s -> N.connect s (listenerAddress l)
  near <- soon
  acceptUntil l near >>= (@?= Nothing)
  acceptor <- forkTask (replicateM 3 (accept l))
  waitParked (taskThread acceptor)
  mapM_ closeFd taken
  joinTask acceptor >>= mapM_ close
  mapM_ N.close sockets

starting :: IO ()
starting = inRuntime $ \rt -> withLoopback rt $ \l -> do
  before <- descriptors
  taken <- exhaust
  connectUntil rt (listenerAddress l) never >>= (@?= Left (ConnectFailed (listenerAddress l) EMFILE))
  expectIOError EMFILE (newListener rt defaultListenOptions loopback)
  expectIOError EMFILE (withRuntime defaultConfig (\_ -> pure ()))
  -- With one descriptor only, half of a manager must not stay behind.
  closeFd (head taken)
  expectIOError EMFILE (withRuntime defaultConfig (\_ -> pure ()))
  mapM_ closeFd (tail taken)
  withRuntime defaultConfig (\_ -> pure ())
  descriptors >>= (@?= before)

forbidden :: IO ()
forbidden = do
  base <- getTemporaryDirectory
  pid <- getProcessID
  let dir = base ++ "/heddle-forbidden-" ++ show pid
  createDirectory dir
  setFileMode dir 0
  root <- (== 0) <$> getRealUserID
  -- The directory is removed by who may; a superuser gives its power up only afterwards.
  flip finally (unless root (removePathForcibly dir)) $ inRuntime $ \rt -> do
    when root (setUserID 65534)
    expectIOError EACCES (newListener rt defaultListenOptions (N.SockAddrUnix (dir ++ "/socket")))
    connectUntil rt (N.SockAddrUnix (dir ++ "/socket")) never >>= (@?= Left (ConnectFailed (N.SockAddrUnix (dir ++ "/socket")) EACCES))

dying :: IO ()
dying = do
  waits <- newEmptyMVar
  r <- try $ inRuntime $ \rt -> do
    (x, _) <- N.socketPair N.AF_UNIX N.Stream N.defaultProtocol
    conn <- adopt rt x
    -- One manager at least waits; all of them die.
    reader <- forkTask (recvUntil conn 1 never)
    waitParked (taskThread reader)
    putMVar waits reader
    n <- getNumCapabilities
    forM_ [0 .. n - 1] $ \i -> do
      let m = managerOn rt i
      backendClose (managerBackend m)
      interrupt m
    newEmptyMVar >>= takeMVar
  case r of
    Left e@(ManagerDied _ _) -> assertBool (show e) ("died" `isInfixOf` displayException e)
    Left other -> throwIO other
    Right () -> assertFailure "returned"
  takeMVar waits >>= joinTask >>= (@?= Closed)
