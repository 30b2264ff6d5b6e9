{-# LANGUAGE OverloadedStrings #-}

-- | Faults of the system, each in a child process that may lower its own limits.
module FaultTest (tests, scenarios) where

import Control.Concurrent hiding (threadWaitRead, threadWaitWrite)
import Control.Exception
import Control.Monad
import Data.ByteString qualified as B
import Data.IORef
import Data.List (isInfixOf, (\\))
import Data.Maybe (isNothing)
import Harness
import Heddle.IO
import Heddle.IO.Internal.Manager (interrupt)
import Heddle.IO.Internal.Runtime (managerOn)
import Heddle.Prim.Clock (Deadline (..), monotonicNow)
import Heddle.Prim.Errno
import Heddle.Socket qualified as S
import Heddle.Testkit.Descriptors (openDescriptor)
import Heddle.Timer (sleepFor, sleepUntil, timeout)
import Network.Socket qualified as N
import Network.Socket.ByteString qualified as NB
import System.Directory (createDirectory, getTemporaryDirectory, removePathForcibly)
import System.Environment (getEnv, setEnv)
import System.Exit (ExitCode (..))
import System.IO (hPutStrLn, stderr)
import System.Posix.Files (setFileMode)
import System.Posix.IO (OpenMode (..), closeFd, fdWrite)
import System.Posix.Process (ProcessStatus (..), exitImmediately, forkProcess, getProcessStatus)
import System.Posix.Resource
import System.Posix.Signals (sigKILL, signalProcess)
import System.Posix.Types (Fd)
import System.Posix.User (getRealUserID, setUserID)
import System.Timeout qualified
import Test.Tasty
import Test.Tasty.HUnit

tests :: TestTree
tests =
  testGroup
    "Heddle.IO faults"
    ( [ testGroup
          name
          [ testCase (show b) $
              withClosedDirectory $ \dir -> do
                (code, out, err) <- child name [("HEDDLE_TEST_BACKEND", show b), ("HEDDLE_TEST_DIRECTORY", dir)] []
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

-- | What the child does, by scenario.
scenarios :: [(String, [BackendChoice], IO ())]
scenarios =
  [ ("accepting pauses without descriptors, and recovers", both, pausing),
    ("accept waits without descriptors", both, waitingAccept),
    ("connecting and starting without descriptors", both, starting),
    ("a forbidden path is EACCES", both, forbidden),
    -- poll(2) owns no descriptor that could be taken from it.
    ("idleConnectionsGiveWayWhenDescriptorsRunOut", both, givingWay),
    ("aMistypedBackEndIsRefused", [Epoll], mistyped),
    ("afterForkProcessTimersAndSocketsWork", both, forked),
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
  waitTicker
  limits <- getResourceLimit ResourceOpenFiles
  setResourceLimit ResourceOpenFiles limits {softLimit = ResourceLimit 128}
  -- The runtime system of GHC may still give one back: insist.
  let go taken tries =
        try (openDescriptor "/dev/null" ReadOnly) >>= \case
          Right fd -> go (fd : taken) tries
          Left e
            | errnoOf e /= Just EMFILE -> throwIO e
            | tries == 0 -> pure taken
            | otherwise -> yield >> go taken (tries - 1)
  go [] (10000 :: Int)

clients :: Int -> IO [N.Socket]
clients n = replicateM n (N.socket N.AF_INET N.Stream N.defaultProtocol)

pausing :: IO ()
pausing = inRuntime $ \rt -> withLoopback rt $ \l -> do
  sockets <- clients 20
  pauses <- newEmptyMVar
  server <-
    forkTask $
      serve defaultServiceOptions {servicePaused = void . tryPutMVar pauses} l $ \c ->
        Done <$ (recvUntil c 100 never >>= got >>= \b -> sendAllUntil c b never)
  taken <- exhaust
  -- The kernel connects them all; none can be accepted.
  forM_ sockets $ \s -> N.connect s (listenerAddress l) >> NB.sendAll s "ping"
  takeMVar pauses >>= (@?= EMFILE)
  mapM_ closeFd taken
  forM_ sockets $ \s -> NB.recv s 100 >>= (@?= "ping") >> NB.recv s 100 >>= (@?= B.empty) >> N.close s
  closeListener l
  joinTask server

-- Idle clients have all descriptors. A new client is served at once: the connection that has
-- been idle longest is closed for it.
givingWay :: IO ()
givingWay = inRuntime $ \rt -> withLoopback rt $ \l -> do
  -- It opens its descriptors at its first use, which is the sleep below.
  _ <- systemRuntime
  waitTicker
  before <- length <$> openDescriptors
  pauses <- newIORef (0 :: Int)
  threads <- newMVar []
  server <-
    forkTask $
      serve defaultServiceOptions {servicePaused = \_ -> modifyIORef' pauses (+ 1)} l $ \c -> do
        t <- myThreadId
        modifyMVar_ threads (pure . (t :))
        -- After a spurious wake-up it must not wait here, because a connection whose handler waits is
        -- not idle.
        recvUntil c 100 (Deadline 1) >>= \case
          Got b -> sendAllUntil c b never >> IdleUntil <$> late
          TimedOut -> IdleUntil <$> late
          _ -> pure Done
  let answer s = N.withFdSocket s (\fd -> late >>= threadWaitReadUntil rt (fromIntegral fd)) >>= assertBool "an answer" >> NB.recv s 100
      ping s = NB.sendAll s "ping" >> answer s
      -- A connection is idle some steps after its client has the answer.
      settled = readMVar threads >>= mapM_ waitSettled
      inTime = do
        sockets <- clients 24
        let (old, new) = splitAt 20 sockets
        forM_ old $ \s -> N.connect s (listenerAddress l) >> ping s >>= (@?= "ping")
        taken <- exhaust
        limit <- deadlineIn (milliseconds 900)
        forM_ (take 4 old) $ \s -> ping s >>= (@?= "ping")
        settled
        -- Activity is dated by the event managers' clocks, which differ by their last turns.
        sleepFor (milliseconds 100)
        forM_ (drop 4 old) $ \s -> ping s >>= (@?= "ping")
        settled
        forM_ new $ \s -> N.connect s (listenerAddress l) >> ping s >>= (@?= "ping")
        now <- monotonicNow
        -- A kept thread calls its handler again after a second, which takes that for activity: then the order is another one.
        if now >= limit
          then do
            mapM_ N.close sockets
            mapM_ closeFd taken
            waitUntilTrue ((<= before) . length <$> openDescriptors)
            inTime
          else do
            -- The first four have made room, the others have not.
            forM_ (take 4 old) $ \s -> answer s >>= (@?= B.empty)
            forM_ (drop 4 old) $ \s -> ping s >>= (@?= "ping")
            readIORef pauses >>= (@?= 0)
            mapM_ N.close sockets
            mapM_ closeFd taken
  inTime
  closeListener l
  joinTask server

mistyped :: IO ()
mistyped = do
  setEnv "HEDDLE_BACKEND" "epol"
  try systemRuntime >>= \case
    Left e -> do
      let text = displayException (e :: IOManagerError)
      assertBool text (all (`isInfixOf` text) ["HEDDLE_BACKEND", "'epol'", "epoll", "poll"])
    Right _ -> assertFailure "started"

-- A child by fork(2) uses the runtimes of its parent; each process sees its own events only.
forked :: IO ()
forked = do
  name <- getEnv "HEDDLE_TEST_BACKEND"
  setEnv "HEDDLE_BACKEND" (if name == show Poll then "poll" else "epoll")
  limited $
    inRuntime $ \rt -> do
      sleepFor (milliseconds 2)
      withPipe $ \(r, w) -> bracket (S.socketPair N.AF_UNIX N.Stream N.defaultProtocol) (\(a, b) -> S.close a >> S.close b) $ \(a, b) -> do
        -- Threads that will not exist in the child hold these.
        reader <- forkTask (S.recv a 100)
        waiter <- forkTask (threadWaitRead rt r)
        mapM_ waitParked [taskThread reader, taskThread waiter]
        pid <- forkProcess (try (inChild rt r w) >>= either (\e -> hPutStrLn stderr ("in the child: " ++ show (e :: SomeException)) >> exitImmediately (ExitFailure 3)) (\() -> exitImmediately ExitSuccess))
        -- The parent's own waits continue.
        status <- timeoutBy 20 (getProcessStatus True False pid)
        when (isNothing status) $ signalProcess sigKILL pid >> assertFailure "the child hangs"
        join status @?= Just (Exited ExitSuccess)
        _ <- fdWrite w "p"
        joinTask waiter
        S.sendAll b "parent"
        joinTask reader >>= (@?= "parent")
        timeout (milliseconds 5) (sleepUntil never) >>= (@?= Nothing)
  where
    timeoutBy n act = System.Timeout.timeout (n * 1000000) (interruptibly act)
    -- waitpid in a thread of its own, which may be left behind.
    interruptibly act = newEmptyMVar >>= \out -> forkIO (act >>= putMVar out) >> takeMVar out
    inChild rt r w = do
      sleepFor (milliseconds 5)
      timeout (milliseconds 5) (sleepUntil never) >>= (@?= Nothing)
      -- Sockets made in the child, in the parent's runtimes.
      (c, d) <- S.socketPair N.AF_UNIX N.Stream N.defaultProtocol
      reader <- forkTask (S.recv c 100)
      waitParked (taskThread reader)
      S.sendAll d "child"
      joinTask reader >>= (@?= "child")
      -- A descriptor that the parent waits on, too.
      near <- soon
      threadWaitReadUntil rt r near >>= (@?= False)
      withPair rt $ \x y -> do
        back <- forkTask (recvUntil y 100 never)
        waitParked (taskThread back)
        sendAllUntil x "pair" never >>= (@?= Sent)
        joinTask back >>= got >>= (@?= "pair")
      threadWaitWrite rt w

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
starting = inRuntime $ \rt -> withLoopback rt $ \l -> withoutLeak $ do
  taken <- exhaust
  connectUntil rt (listenerAddress l) never >>= (@?= Left (ConnectFailed (listenerAddress l) EMFILE))
  expectIOError EMFILE (newListener rt defaultListenOptions loopback)
  expectIOError EMFILE (withRuntime defaultConfig (\_ -> pure ()))
  -- With one descriptor only, half of a manager must not stay behind.
  closeFd (head taken)
  expectIOError EMFILE (withRuntime defaultConfig (\_ -> pure ()))
  mapM_ closeFd (tail taken)
  withRuntime defaultConfig (\_ -> pure ())

forbidden :: IO ()
forbidden = do
  path <- (++ "/socket") <$> getEnv "HEDDLE_TEST_DIRECTORY"
  root <- (== 0) <$> getRealUserID
  inRuntime $ \rt -> do
    when root (setUserID 65534)
    expectIOError EACCES (newListener rt defaultListenOptions (N.SockAddrUnix path))
    connectUntil rt (N.SockAddrUnix path) never >>= (@?= Left (ConnectFailed (N.SockAddrUnix path) EACCES))

-- A directory that only the superuser may use.
withClosedDirectory :: (FilePath -> IO a) -> IO a
withClosedDirectory = bracket make removePathForcibly
  where
    make = do
      base <- getTemporaryDirectory
      now <- monotonicNow
      let dir = base ++ "/heddle-forbidden-" ++ show now
      createDirectory dir
      dir <$ setFileMode dir 0

dying :: IO ()
dying =
  -- The peer is closed, at the end: GHC closes it sooner when nothing refers to it.
  bracket (N.socketPair N.AF_UNIX N.Stream N.defaultProtocol) (N.close . snd) $ \(x, _) -> do
    waits <- newEmptyMVar
    others <- openDescriptors
    r <- try $
      inRuntime $ \rt -> do
        conn <- adopt rt x
        -- One manager at least waits; all of them die.
        reader <- forkTask (recvUntil conn 1 never)
        waitParked (taskThread reader)
        putMVar waits reader
        n <- getNumCapabilities
        epolls <- filter ((== "anon_inode:[eventpoll]") . snd) . (\\ others) <$> openDescriptors
        length epolls @?= n
        mask_ $ do
          -- The runtime will close these numbers: keep them taken until then.
          mapM_ (retire . fst) epolls
          forM_ [0 .. n - 1] $ interrupt . managerOn rt
        newEmptyMVar >>= takeMVar
    case r of
      Left e@(ManagerDied _ _) -> assertBool (show e) ("died" `isInfixOf` displayException e)
      Left other -> throwIO other
      Right () -> assertFailure "returned"
    takeMVar waits >>= joinTask >>= (@?= Closed)
