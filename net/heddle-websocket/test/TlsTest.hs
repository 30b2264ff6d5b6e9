{-# LANGUAGE OverloadedStrings #-}

-- | WebSockets over TLS: Python's client, and our own; sessions that are cut leave none of libssl's behind.
module TlsTest (tests) where

import Control.Concurrent (forkIO, killThread, myThreadId)
import Control.Concurrent.MVar
import Control.Exception (bracket, mask_, try)
import Control.Monad (forM_, forever, void)
import Data.ByteString qualified as B
import Fixture
import Heddle.Http (Scheme (..), defaultSettings, handlersOf, withServerOn)
import Heddle.IO (connectUntil, defaultConfig, defaultListenOptions, listenerAddress, withListener, withRuntime)
import Heddle.IO.Registration (closeRegistration, registrationOf)
import Heddle.IO.Transport
import Heddle.Prim.Clock (deadlineIn, milliseconds, seconds)
import Heddle.Testkit.Watchdog
import Heddle.Tls
import Heddle.WebSocket
import Network.Socket (SockAddr)
import System.Exit (ExitCode (..))
import System.Process (readProcessWithExitCode)
import Test.Tasty
import Test.Tasty.HUnit

tests :: TestTree
tests =
  testGroup
    "TLS"
    [ testCase "Python's client" . overTls defaults echo $ \address -> do
        (code, out, err) <- patiently "Python to end" (readProcessWithExitCode "/usr/bin/python3" ["-c", program, "wss://" ++ show address ++ "/"] "")
        (code, out, err) @?= (ExitSuccess, "done\n", ""),
      testCase "our client: messages longer than records, both ways, compressed and not" . overTls defaults echo $ \address ->
        forM_ [Just (DeflateOptions 6 0), Nothing] $ \deflate -> dialling address $ \transport ->
          connectWebSocket defaults {optionDeflate = deflate} (Endpoint "localhost" "/" []) transport $ \conn -> do
            forM_ [0, 125, 16383, 16384, 40000, 900000] $ \n -> do
              sendBinary conn (B.replicate n 5)
              receive conn >>= (@?= BinaryMessage (B.replicate n 5))
            -- Several messages in one record.
            forM_ [1 .. 20 :: Int] (const (sendText conn "small"))
            forM_ [1 .. 20 :: Int] (const (receive conn >>= (@?= TextMessage "small"))),
      testCase "a ping and its answer while nothing else comes" . overTls defaults {optionPing = milliseconds 10} echo $ \address -> dialling address $ \transport ->
        connectWebSocket defaults (Endpoint "localhost" "/" []) transport $ \conn -> do
          soon <- deadlineIn (milliseconds 100)
          receiveUntil conn soon >>= (@?= Nothing)
          sendText conn "still"
          receive conn >>= (@?= TextMessage "still"),
      testCase "a session that is interrupted while other threads send and receive" $ do
        before <- liveSessions
        thread <- newEmptyMVar
        let body conn = do
              _ <- forkIO (void (try (forever (sendBinary conn (B.replicate 100000 1))) :: IO (Either ConnectionEnded ())))
              _ <- forkIO (void (try (forever (receive conn)) :: IO (Either ConnectionEnded ())))
              myThreadId >>= putMVar thread
              newEmptyMVar >>= takeMVar
        overTls defaults {optionDeflate = Nothing} body $ \address -> forM_ [1 .. 10 :: Int] $ \_ -> dialling address $ \transport -> do
          r <- try . connectWebSocket defaults {optionClose = milliseconds 10} (Endpoint "localhost" "/" []) transport $ \conn -> do
            _ <- receive conn
            patiently "its thread" (takeMVar thread) >>= killThread
            forever (receive conn)
          case r of
            Left (_ :: ConnectionEnded) -> pure ()
            Right () -> pure ()
        void (eventually "libssl's sessions to be freed" liveSessions (<= before))
    ]

overTls :: WebSocketOptions -> (Connection -> IO ()) -> (SockAddr -> IO a) -> IO a
overTls options body use = do
  certificate <- selfSignedPair ["localhost", "127.0.0.1"]
  site <- loadSite (defaultTlsConfig [certificate]) >>= either (assertFailure . show) pure
  tls <- newTlsListener site
  withRuntime defaultConfig $ \runtime ->
    withListener runtime defaultListenOptions loopback $ \listener ->
      withServerOn runtime defaultSettings (\_ -> pure (handlersOf (websocket options body))) [(listener, Encrypted (tlsOpening tls))] (const (use (listenerAddress listener)))

dialling :: SockAddr -> (Transport -> IO a) -> IO a
dialling address use = withRuntime defaultConfig $ \runtime -> do
  client <- newTlsClient defaultTlsClientConfig {clientTrust = TrustEverybody} >>= either (assertFailure . show) pure
  deadline <- deadlineIn (seconds 20)
  conn <- connectUntil runtime address deadline >>= either (assertFailure . show) pure
  let registration = registrationOf conn
  opened <- mask_ (tlsConnecting client "localhost" registration deadline)
  case opened of
    Opened layer -> bracket (pure (Layered registration layer)) closeTransport use
    NotOpened why -> closeRegistration registration >> assertFailure why
    OtherProtocol what -> closeRegistration registration >> assertFailure (show what)

program :: String
program =
  unlines
    [ "import asyncio, ssl, sys, websockets",
      "async def main():",
      "    context = ssl.create_default_context()",
      "    context.check_hostname = False",
      "    context.verify_mode = ssl.CERT_NONE",
      "    async with websockets.connect(sys.argv[1], ssl=context, max_size=None) as ws:",
      "        for n in [0, 125, 16384, 300000]:",
      "            await ws.send(b'x' * n)",
      "            assert await ws.recv() == b'x' * n",
      "        for n in range(100):",
      "            await ws.send(str(n))",
      "        for n in range(100):",
      "            assert await ws.recv() == str(n)",
      "    print('done')",
      "asyncio.run(main())"
    ]
