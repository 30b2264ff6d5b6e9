{-# LANGUAGE OverloadedStrings #-}

-- | Listeners on sockets that listen already.
module AdoptTest (tests) where

import Control.Exception
import Control.Monad
import Data.ByteString qualified as B
import Data.List.NonEmpty qualified as NonEmpty
import Harness
import Heddle.IO
import Heddle.IO.Internal.Manager (openRegistrations)
import Heddle.IO.Internal.Runtime (managerOn)
import Heddle.IO.Internal.Types (Registration (registrationFd))
import Heddle.IO.Registration (using)
import Network.Socket qualified as N
import System.Directory (doesPathExist, getTemporaryDirectory)
import System.Posix.Process (getProcessID)
import System.Posix.Types (Fd)
import Test.Tasty
import Test.Tasty.HUnit

-- A listening socket of the network package, and its descriptor.
withSocket :: (N.Socket -> Fd -> IO a) -> IO a
withSocket act = bracket (N.socket N.AF_INET N.Stream 0) N.close $ \s -> do
  N.bind s (N.SockAddrInet 0 (N.tupleToHostAddress (127, 0, 0, 1)))
  N.listen s 10
  N.withFdSocket s (act s . fromIntegral)

tests :: TestTree
tests =
  testGroup
    "sockets that listen already"
    [ bothBackends "are accepted from, also after their owner has closed them" $ \rt -> withSocket $ \s fd ->
        bracket (adoptListener rt fd) closeListener $ \listener -> do
          N.close s
          forM_ [1 .. 3 :: Int] $ \_ -> do
            server <- forkTask (accept listener)
            client <- connectUntil rt (listenerAddress listener) never >>= either throwIO pure
            conn <- joinTask server
            _ <- sendAllUntil client "x" never
            recvUntil conn 10 never >>= \r -> r @?= Got (B.pack [120])
            close client
            close conn,
      bothBackends "stay their owner's when the listener closes" $ \rt -> withSocket $ \s fd -> do
        listener <- adoptListener rt fd
        closeListener listener
        address <- N.getSocketName s
        client <- connectUntil rt address never >>= either throwIO pure
        (accepted, _) <- N.accept s
        N.close accepted
        close client,
      -- As a process that takes the place of another does: a socket that nobody accepts from would keep its share of the
      -- connections waiting for ever.
      bothBackends "those of another listener: each is accepted from" $ \rt -> do
        let options = defaultListenOptions {listenSpread = PortPerCapability}
        first <- newListener rt options (N.SockAddrInet 0 (N.tupleToHostAddress (127, 0, 0, 1)))
        second <- adoptListeners rt (NonEmpty.fromList (listenerDescriptors first))
        handOverListener first
        length (listenerDescriptors second) @?= length (listenerDescriptors first)
        server <- forkTask (serveEach second (\conn -> void (sendAllUntil conn "y" never)))
        far <- late
        forM_ [1 .. 64 :: Int] $ \_ -> do
          client <- connectUntil rt (listenerAddress second) far >>= either throwIO pure
          recvUntil client 10 far >>= \r -> r @?= Got "y"
          close client
        closeListener second
        joinTask server,
      -- The process that was given the socket got EINVAL from accept4, and ended its service.
      bothBackends "aListenerClosedWhileItAcceptedShutTheSocketOfItsSuccessor" $ \rt -> do
        first <- newListener rt defaultListenOptions {listenSpread = OneAcceptor} (N.SockAddrInet 0 (N.tupleToHostAddress (127, 0, 0, 1)))
        second <- adoptListeners rt (NonEmpty.fromList (listenerDescriptors first))
        listening <- filter ((`elem` listenerDescriptors first) . registrationFd) <$> openRegistrations (managerOn rt 0)
        length listening @?= 1
        -- As while the first's acceptor is in accept4.
        forM_ listening $ \registration -> using registration (\_ -> 0 <$ handOverListener first) >>= (@?= 0)
        far <- late
        client <- connectUntil rt (listenerAddress second) far >>= either throwIO pure
        acceptUntil second far >>= maybe (assertFailure "nothing was accepted") close
        close client
        closeListener second,
      bothBackends "a Unix socket's file goes with the last owner" $ \rt -> do
        pid <- getProcessID
        path <- (++ "/heddle-taken-over-" ++ show pid) <$> getTemporaryDirectory
        first <- newListener rt defaultListenOptions (N.SockAddrUnix path)
        second <- takenOver <$> adoptListeners rt (NonEmpty.fromList (listenerDescriptors first))
        handOverListener first
        closeListener first
        connectUntil rt (N.SockAddrUnix path) never >>= either throwIO close
        closeListener second
        doesPathExist path >>= (@?= False),
      bothBackends "and nothing else is taken" $ \rt -> do
        bracket (N.socket N.AF_INET N.Stream 0) N.close $ \s -> N.withFdSocket s (refused . adoptListener rt . fromIntegral)
        refused (adoptListener rt 1000000)
    ]
  where
    refused act =
      try act >>= \case
        Left (_ :: IOException) -> pure ()
        Right listener -> closeListener listener >> assertFailure "it was taken"
