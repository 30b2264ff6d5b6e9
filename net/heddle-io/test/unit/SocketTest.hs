{-# LANGUAGE OverloadedStrings #-}

-- | The network package's interface.
module SocketTest (tests) where

import Control.Concurrent
import Control.Exception
import Control.Monad
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Harness (expectIOError, forkTask, joinTask, killTask, openDescriptors, taskThread, testIn, waitParked, waitUntilTrue, withoutLeak)
import Heddle.IO (RecvResult (..), SendResult (..), recvUntil, sendAllUntil)
import Heddle.Prim.Errno
import Heddle.Socket
import Heddle.Timer (deadlineIn, milliseconds, never, timeout)
import System.Directory (createDirectory, getTemporaryDirectory, removeDirectoryRecursive)
import System.Mem (performMajorGC)
import System.Posix.Process (getProcessID)
import Test.Tasty
import Test.Tasty.HUnit

local :: SockAddr
local = SockAddrInet 0 (tupleToHostAddress (127, 0, 0, 1))

stream :: (Socket -> IO a) -> IO a
stream = bracket (socket AF_INET Stream defaultProtocol) close

withServer :: (Socket -> SockAddr -> IO a) -> IO a
withServer body = stream $ \s -> do
  setSocketOption s ReuseAddr 1
  bind s local
  listen s maxListenQueue
  getSocketName s >>= body s

withFolder :: (FilePath -> IO a) -> IO a
withFolder = bracket make removeDirectoryRecursive
  where
    make = do
      pid <- getProcessID
      folder <- (++ "/heddle-socket-" ++ show pid) <$> getTemporaryDirectory
      folder <$ createDirectory folder

readAll :: Socket -> IO B.ByteString
readAll s = B.concat <$> go
  where
    go = recv s 4096 >>= \b -> if B.null b then pure [] else (b :) <$> go

tests :: TestTree
tests =
  testGroup
    "Heddle.Socket"
    [ testIn "aDroppedSocketIsClosedByTheCollector" $ do
        performMajorGC
        before <- length <$> openDescriptors
        replicateM_ 30 (socket AF_INET Stream defaultProtocol)
        replicateM_ 10 (socketPair AF_UNIX Stream defaultProtocol)
        waitUntilTrue (performMajorGC >> (<= before) . length <$> openDescriptors),
      testIn "a socket that is waited on is not dropped" $ do
        (a, b) <- socketPair AF_UNIX Stream defaultProtocol
        reader <- forkTask (recv a 10)
        waitParked (taskThread reader)
        replicateM_ 5 (performMajorGC >> yield)
        sendAll b "here"
        joinTask reader >>= (@?= "here")
        close b,
      testIn "bindLeftAStaleUnixPathInTheWay" . withoutLeak . withFolder $ \folder -> do
        let path = folder ++ "/socket"
            unix = bracket (socket AF_UNIX Stream defaultProtocol) close
        unix $ \first -> bind first (SockAddrUnix path) >> listen first 1
        -- Its server has ended and has left the file.
        unix $ \second -> do
          bind second (SockAddrUnix path)
          listen second 1
          -- One that serves is not replaced, nor is what is no socket.
          unix $ \third -> expectIOError EADDRINUSE (bind third (SockAddrUnix path))
          unix $ \client -> connect client (SockAddrUnix path)
        writeFile (folder ++ "/file") "kept"
        unix $ \fourth -> expectIOError EADDRINUSE (bind fourth (SockAddrUnix (folder ++ "/file")))
        readFile (folder ++ "/file") >>= (@?= "kept"),
      testIn "anAbstractPathInUseWasLookedUpAsAFile" . withoutLeak . withFolder $ \folder -> do
        -- Of this test alone.
        let abstract = SockAddrUnix ('\0' : folder)
            unix = bracket (socket AF_UNIX Stream defaultProtocol) close
        unix $ \first -> do
          -- It does not listen, so connections are refused.
          bind first abstract
          unix $ \second -> expectIOError EADDRINUSE (bind second abstract)
          listen first 1
          unix $ \third -> expectIOError EADDRINUSE (bind third abstract)
          unix $ \client -> connect client abstract,
      testIn "aClosedSocketWasSaidToHaveNoPeer" . withoutLeak $ do
        (a, b) <- socketPair AF_UNIX Stream defaultProtocol
        _ <- getPeerName a
        close a
        expectIOError EBADF (getPeerName a)
        expectIOError EBADF (getSocketName a)
        isConnected a >>= (@?= False)
        close b
        bracket (socket AF_INET Stream defaultProtocol) close $ \alone -> expectIOError ENOTCONN (getPeerName alone),
      testIn "a socket is a connection of Heddle.IO" $
        withoutLeak $ do
          (a, b) <- socketPair AF_UNIX Stream defaultProtocol
          deadline <- deadlineIn (milliseconds 30)
          recvUntil (socketConn a) 10 deadline >>= (@?= TimedOut)
          sendAllUntil (socketConn b) "typed" never >>= (@?= Sent)
          recvUntil (socketConn a) 10 never >>= (@?= Got "typed")
          close a >> close b,
      testIn "client and server" $
        withoutLeak $
          withServer $ \server address -> do
            t <- forkTask $ do
              (conn, peer) <- accept server
              getPeerName conn >>= (@?= peer)
              text <- recv conn 100
              sendAll conn ("you said " <> text)
              sendMany conn [", ", "twice ", text]
              shutdown conn ShutdownSend
              readAll conn >>= (@?= "")
              close conn
            stream $ \c -> do
              isConnected c >>= (@?= False)
              connect c address
              isConnected c >>= (@?= True)
              getPeerName c >>= (@?= address)
              n <- send c "hello"
              n @?= 5
              readAll c >>= (@?= "you said hello, twice hello")
            joinTask t,
      testIn "large transfers, both ways at once" $
        withServer $ \server address -> do
          let big = B.replicate 2000000 120
          t <-
            forkTask
              ( accept server >>= \(conn, _) -> do
                  writer <- forkTask (sendAll conn big >> shutdown conn ShutdownSend)
                  b <- readAll conn
                  joinTask writer
                  close conn
                  pure (B.length b)
              )
          stream $ \c -> do
            connect c address
            writer <- forkTask (sendAll c big >> shutdown c ShutdownSend)
            b <- readAll c
            joinTask writer
            B.length b @?= 2000000
          joinTask t >>= (@?= 2000000),
      testIn "closing ends another thread's waits with EBADF" $
        withServer $ \server address -> stream $ \c -> do
          connect c address
          -- Kept to the end: the collector would close it, and the reader would see that.
          (accepted, _) <- accept server
          reader <- forkTask (recv c 10)
          acceptor <- forkTask (accept server)
          mapM_ waitParked [taskThread reader, taskThread acceptor]
          close c
          close server
          expectIOError EBADF (joinTask reader)
          expectIOError EBADF (joinTask acceptor)
          expectIOError EBADF (send c "x")
          expectIOError EBADF (recv c 1)
          expectIOError EBADF (getSocketName c)
          close accepted,
      testIn "many acceptors" $
        withServer $ \server address -> do
          acceptors <- replicateM 8 (forkTask (accept server >>= close . fst))
          mapM_ (waitParked . taskThread) acceptors
          replicateM_ 8 (stream (`connect` address))
          mapM_ joinTask acceptors,
      testIn "a cancelled acceptor passes its connection on" $
        withServer $ \server address -> do
          one <- forkTask (accept server)
          two <- forkTask (accept server)
          mapM_ (waitParked . taskThread) [one, two]
          _ <- killTask one
          stream (`connect` address)
          joinTask two >>= close . fst,
      testIn "errors keep their errno" $
        withServer $ \server address -> do
          expectIOError EADDRINUSE (stream (`bind` address))
          expectIOError EINVAL (stream (`recv` 0))
          expectIOError ENOTCONN (stream getPeerName)
          expectIOError EINVAL (stream (\s -> setSocketOption s Linger 1))
          close server
          expectIOError ECONNREFUSED (stream (`connect` address)),
      testIn "options and ports" $
        withServer $ \server address -> do
          getSocketOption server ReuseAddr >>= (@?= 1)
          setSocketOption server NoDelay 1
          getSocketOption server NoDelay >>= (@?= 1)
          port <- socketPort server
          address @?= SockAddrInet port (tupleToHostAddress (127, 0, 0, 1))
          withFdSocket server (\fd -> assertBool "descriptor" (fd > 2))
          take 9 (show server) @?= "<socket: ",
      testIn "names are looked up" $ do
        found <- getAddrInfo (Just defaultHints {addrFlags = [AI_NUMERICHOST], addrSocketType = Stream}) (Just "127.0.0.1") (Just "80")
        map addrAddress found @?= [SockAddrInet 80 (tupleToHostAddress (127, 0, 0, 1))]
        bracket (openSocket (head found)) close (\_ -> pure ()),
      testIn "socket pairs and graceful close" $
        withoutLeak $ do
          (a, b) <- socketPair AF_UNIX Stream defaultProtocol
          sendAll a "parting"
          t <- forkTask (gracefulClose a 5000)
          readAll b >>= (@?= "parting")
          close b
          joinTask t
          (c, d) <- socketPair AF_UNIX Stream defaultProtocol
          gracefulClose c 20
          close d,
      testIn "datagrams: several readers" $ do
        bracket (socket AF_INET Datagram defaultProtocol) close $ \server -> bracket (socket AF_INET Datagram defaultProtocol) close $ \client -> do
          bind server local
          getSocketName server >>= connect client
          readers <- replicateM 4 (forkTask (recv server 2000))
          mapM_ (waitParked . taskThread) readers
          forM_ ["a", "b", "c", "d"] (sendAll client)
          texts <- mapM joinTask readers
          assertBool (show texts) (all (`elem` texts) ["a", "b", "c", "d"])
          sendAll client (B.replicate 40000 7)
          recv server 65000 >>= (@?= 40000) . B.length,
      testIn "a time-out ends a wait, and the socket goes on" $ do
        (a, b) <- socketPair AF_UNIX Stream defaultProtocol
        timeout (milliseconds 5) (recv a 10) >>= (@?= Nothing)
        sendAll b "x"
        recv a 10 >>= (@?= "x")
        close a >> close b,
      testIn "a hundred threads on their own sockets" $
        withServer $ \server address -> do
          done <- newEmptyMVar
          _ <- forkIO $
            replicateM_ 100 $ do
              (conn, _) <- accept server
              forkIO (readAll conn >>= sendAll conn . C.map succ >> close conn)
          forM_ [1 .. 100 :: Int] $ \i -> forkIO $ do
            r <- try $
              stream $ \c -> do
                connect c address
                sendAll c (C.pack (show i))
                shutdown c ShutdownSend
                readAll c >>= (@?= C.map succ (C.pack (show i)))
            putMVar done (r :: Either SomeException ())
          rs <- replicateM 100 (takeMVar done)
          mapM_ (either throwIO pure) rs
    ]
