{-# LANGUAGE OverloadedStrings #-}

-- | Serving: connections, their threads, their ends.
module ServeTest (tests) where

import Control.Concurrent hiding (threadWaitRead, threadWaitWrite)
import Control.Exception
import Control.Monad
import Data.ByteString qualified as B
import Data.List (union)
import Harness
import Heddle.IO
import Network.Socket qualified as N
import Test.Tasty
import Test.Tasty.HUnit

echo :: Conn -> IO ()
echo conn =
  recvUntil conn 4096 never >>= \case
    Got b -> sendAllUntil conn b never >>= \r -> when (r == Sent) (echo conn)
    _ -> pure ()

dial :: Runtime -> Listener -> IO Conn
dial rt listener = connectUntil rt (listenerAddress listener) never >>= either throwIO pure

readToEnd :: Conn -> IO B.ByteString
readToEnd conn = late >>= \d -> let go acc = recvUntil conn 4096 d >>= \case Got b -> go (b : acc); Eof -> pure (B.concat (reverse acc)); r -> assertFailure (show r) in go []

quiet :: ServiceOptions
quiet = defaultServiceOptions {serviceFailed = \_ -> pure ()}

tests :: TestTree
tests =
  testGroup
    "Heddle.IO serving"
    [ bothBackends "every client is served" $ \rt -> withLoopback rt $ \listener -> do
        server <- forkTask (serveEach listener echo)
        clients <- forM [1 .. 50 :: Int] $ \i -> forkTask $
          bracket (dial rt listener) close $ \c -> forM_ [1 .. 10 :: Int] $ \k -> do
            let text = B.replicate (1 + i * k) (fromIntegral i)
                readExactly n
                  | n == 0 = pure []
                  | otherwise = recvUntil c n never >>= got >>= \b -> (b :) <$> readExactly (n - B.length b)
            _ <- sendAllUntil c text never
            back <- B.concat <$> readExactly (B.length text)
            back @?= text
        mapM_ joinTask clients
        closeListener listener
        joinTask server,
      bothBackends "a handler may speak first" $ \rt -> withLoopback rt $ \listener -> do
        server <- forkTask (serveEach listener (\c -> void (sendAllUntil c "220 ready" never)))
        c <- dial rt listener
        readToEnd c >>= (@?= "220 ready")
        close c
        closeListener listener
        joinTask server,
      bothBackends "handlers run unmasked, whatever the caller's state" $ \rt -> withLoopback rt $ \listener -> do
        state <- newEmptyMVar
        server <- forkTask (mask_ (serveEach listener (\_ -> getMaskingState >>= putMVar state)))
        c <- dial rt listener
        takeMVar state >>= (@?= Unmasked)
        close c
        closeListener listener
        joinTask server,
      bothBackends "a handler that throws closes its connection, and is reported" $ \rt -> withLoopback rt $ \listener -> do
        heard <- newEmptyMVar
        server <- forkTask (serve defaultServiceOptions {serviceFailed = putMVar heard} listener (\_ -> throwIO (userError "handler")))
        c <- dial rt listener
        readToEnd c >>= (@?= "")
        e <- takeMVar heard
        fromException e @?= Just (userError "handler")
        close c
        closeListener listener
        joinTask server,
      bothBackends "it ends when the listener is closed and the last connection has ended" $ \rt -> withLoopback rt $ \listener -> do
        server <- forkTask (serveEach listener echo)
        c <- dial rt listener
        _ <- sendAllUntil c "one" never
        recvUntil c 10 never >>= got >>= (@?= "one")
        closeListener listener
        waitParked (taskThread server)
        _ <- sendAllUntil c "two" never
        recvUntil c 10 never >>= got >>= (@?= "two")
        close c
        joinTask server,
      bothBackends "interrupted, it leaves no thread and no connection" $ \rt -> withLoopback rt $ \listener -> do
        started <- newMVar (0 :: Int)
        ended <- newMVar (0 :: Int)
        let handler _ = do
              modifyMVar_ started (pure . (+ 1))
              -- Not waiting on the connection: only killing ends this.
              forever (threadDelay 1000000) `finally` modifyMVar_ ended (pure . (+ 1))
        server <- forkTask (serve quiet listener (\c -> Done <$ handler c))
        clients <- replicateM 10 (dial rt listener)
        waitUntilTrue ((== 10) <$> readMVar started)
        _ <- killTask server
        readMVar ended >>= (@?= 10)
        forM_ clients $ \c -> readToEnd c >>= (@?= "") >> close c,
      bothBackends "an idle connection has no thread, and goes on" $ \rt -> withLoopback rt $ \listener -> do
        calls <- newMVar (0 :: Int)
        threads <- newMVar []
        let handler c = do
              modifyMVar_ calls (pure . (+ 1))
              t <- myThreadId
              modifyMVar_ threads (pure . (t :))
              near <- deadlineIn mempty
              recvUntil c 100 near >>= \case
                Got b -> sendAllUntil c b never >> IdleUntil <$> late
                TimedOut -> IdleUntil <$> late
                _ -> pure Done
        server <- forkTask (serve quiet listener handler)
        c <- dial rt listener
        forM_ ["a", "b", "c"] $ \x -> do
          _ <- sendAllUntil c x never
          recvUntil c 10 never >>= got >>= (@?= x)
        close c
        closeListener listener
        joinTask server
        n <- readMVar calls
        assertBool ("handler calls: " ++ show n) (n >= 3),
      bothBackends "an idle deadline calls the handler again" $ \rt -> withLoopback rt $ \listener -> do
        calls <- newMVar (0 :: Int)
        let handler _ = do
              n <- modifyMVar calls (\n -> pure (n + 1, n + 1))
              if n >= 3 then pure Done else IdleUntil <$> soon
        server <- forkTask (serve quiet listener handler)
        c <- dial rt listener
        readToEnd c >>= (@?= "")
        close c
        closeListener listener
        joinTask server
        readMVar calls >>= (@?= 3),
      bothBackends "interrupted while connections idle" $ \rt -> withLoopback rt $ \listener -> do
        -- A handler may be called without need: count the peers, not the calls.
        peers <- newMVar []
        server <- forkTask $
          serve quiet listener $ \c -> do
            peer <- peerAddress c
            modifyMVar_ peers (pure . union [peer])
            IdleUntil <$> late
        clients <- replicateM 5 (dial rt listener)
        waitUntilTrue ((== 5) . length <$> readMVar peers)
        _ <- killTask server
        forM_ clients $ \c -> readToEnd c >>= (@?= "") >> close c,
      bothBackends "one port per capability serves, too" $ \rt ->
        withListener rt defaultListenOptions {listenSpread = PortPerCapability} loopback $ \listener -> do
          server <- forkTask (serveEach listener echo)
          forM_ [1 .. 30 :: Int] $ \_ -> bracket (dial rt listener) close $ \c -> do
            _ <- sendAllUntil c "hi" never
            recvUntil c 10 never >>= got >>= (@?= "hi")
          closeListener listener
          joinTask server,
      bothBackends "closing the runtime ends a service" $ \_ -> forM_ [Epoll, Poll] $ \b -> do
        server <- withRuntime defaultConfig {configBackend = b} $ \rt -> do
          listener <- newListener rt defaultListenOptions loopback
          server <- forkTask (serveEach listener echo)
          c <- dial rt listener
          _ <- sendAllUntil c "x" never
          _ <- recvUntil c 1 never
          server <$ closeListener listener
        joinTask server,
      bothBackends "serving over a Unix socket pair's kin" $ \rt -> do
        -- An abstract address needs no file.
        let address = N.SockAddrUnix "\0heddle-io-test"
        r <- try (withListener rt defaultListenOptions address (pure . listenerAddress))
        either (\e -> assertFailure (show (e :: IOException))) (const (pure ())) r
    ]
