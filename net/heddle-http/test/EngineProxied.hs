{-# LANGUAGE OverloadedStrings #-}

-- | Connections that a proxy passes on, over clear text and through a layer.
module EngineProxied
  ( tests,
  )
where

import Control.Monad (forM_)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.IORef
import EngineFixture
import EngineTransport (greeting, hearTurned, toyOpening, turned)
import Heddle.Http
import Heddle.Http.Borrowed (requestConn)
import Heddle.IO (BackendChoice (..), Config (..), ListenOptions (..), Listener (..), Spread (..), defaultConfig, defaultListenOptions, peerAddress, withListener, withRuntime)
import Heddle.IO.Registration (connectionOf)
import Heddle.Prim.Clock (milliseconds)
import Heddle.Testkit.HttpClient
import Heddle.Testkit.Watchdog
import Network.Socket (SockAddr (..), tupleToHostAddress)
import Test.Tasty (TestTree)
import Test.Tasty.HUnit (testCase, (@?=))

tests :: TestTree
tests = onBothBackends "proxies" $ \backend ->
  [ testCase "the header's address is the peer's, for every request" $
      proxied backend ProxyRequired tight $ \_ client -> do
        say client (line <> get "/" <> get "/")
        hearAnswer client >>= answersWith 200 "203.0.113.7:1234"
        hearAnswer client >>= answersWith 200 "203.0.113.7:1234"
        say client (get "/")
        hearAnswer client >>= answersWith 200 "203.0.113.7:1234",
    testCase "a binary header" $
      proxied backend ProxyRequired tight $ \_ client -> do
        say client (binary <> get "/")
        hearAnswer client >>= answersWith 200 "[2001:db8::9]:258",
    testCase "a header that comes byte by byte" $
      forM_ [(line, "203.0.113.7:1234"), (binary, "[2001:db8::9]:258")] $ \(beginning, expected) ->
        forM_ [ProxyRequired, ProxyOptional] $ \use ->
          proxied backend use tight $ \_ client -> do
            sayPieces client (map B.singleton (B.unpack (beginning <> get "/")))
            hearAnswer client >>= answersWith 200 expected,
    testCase "a header, and the request when its sender has seen nothing for a while" $
      proxied backend ProxyRequired tight $ \engine client -> do
        say client line
        _ <- eventually "the connection to be open" (connectionsOpen (engineServer engine)) (== 1)
        say client (get "/")
        hearAnswer client >>= answersWith 200 "203.0.113.7:1234",
    testCase "a health check has the connection's own address" $
      forM_ ["PROXY UNKNOWN\r\n", "\r\n\r\n\0\r\nQUIT\n\32\0\0\0"] $ \beginning ->
        proxied backend ProxyRequired tight $ \_ client -> do
          say client (beginning <> get "/")
          answer <- hearAnswer client
          B.isPrefixOf "127.0.0.1:" (answerBody answer) @?= True,
    testCase "where a header is required, a request without one is refused" $
      proxied backend ProxyRequired tight $ \engine client -> do
        say client (get "/")
        answer <- hearAnswer client
        answerCode answer @?= 400
        B.isInfixOf "PROXY" (answerBody answer) @?= True
        hearEnd client
        failuresAre engine [],
    testCase "a malformed header is refused, also where it is optional" $
      forM_ [ProxyRequired, ProxyOptional] $ \use ->
        proxied backend use tight $ \_ client -> do
          say client ("PROXY TCP4 203.0.113.777 10.0.0.1 1234 80\r\n" <> get "/")
          answer <- hearAnswer client
          answerCode answer @?= 400
          hearEnd client,
    testCase "where it is optional, a request without one is served" $
      proxied backend ProxyOptional tight $ \_ client -> do
        say client (get "/")
        hearAnswer client >>= \answer -> B.isPrefixOf "127.0.0.1:" (answerBody answer) @?= True
        say client (line <> get "/")
        -- Later in a connection it is no header.
        hearAnswer client >>= \answer -> answerCode answer @?= 400,
    testCase "a request that begins as a header does, byte by byte" $
      proxied backend ProxyOptional tight $ \_ client -> do
        sayPieces client (map B.singleton (B.unpack "PROPFIND / HTTP/1.1\r\nHost: a\r\n\r\n"))
        hearAnswer client >>= \answer -> B.isPrefixOf "127.0.0.1:" (answerBody answer) @?= True,
    testCase "one that says nothing, or the beginning of a header, is closed" $
      forM_ ["", "PROXY TCP4 203.0.113.7", "\r\n\r\n\0\r\nQUIT\n\33\17\0\50abc"] $ \beginning ->
        proxied backend ProxyRequired tight {settingHead = milliseconds 20} $ \_ client -> do
          say client beginning
          hearEnd client,
    testCase "clients that leave within the header" $
      forM_ [0 .. B.length line] $ \n ->
        proxied backend ProxyOptional tight $ \engine client -> do
          say client (B.take n line)
          if even n then abort client else finish client
          _ <- eventually "the connection to end" (connectionsOpen (engineServer engine)) (== 0)
          failuresAre engine [],
    testCase "the hook of a connection is told the header's address" $ do
      told <- newIORef []
      let hook registration = do
            address <- peerAddress (connectionOf registration)
            Just (pure ()) <$ modifyIORef' told (address :)
      proxied backend ProxyRequired tight {settingOpened = Just hook} $ \_ client -> do
        say client (line <> get "/")
        hearAnswer client >>= answersWith 200 "203.0.113.7:1234"
      readIORef told >>= (@?= [Just (SockAddrInet 1234 (tupleToHostAddress (203, 0, 113, 7)))]),
    testCase "a header before a layer" $
      forM_ [ProxyRequired, ProxyOptional] $ \use ->
        behind backend use tight toyed $ \_ client -> do
          sayPieces client [line, greeting]
          forM_ [1 :: Int .. 3] $ \_ -> do
            say client (turned (get "/"))
            hearTurned client "203.0.113.7:1234" 200,
    testCase "a layer without a header" $ do
      behind backend ProxyRequired tight toyed $ \_ client -> do
        say client (greeting <> turned (get "/"))
        hearRest client >>= (@?= "") . fst
      behind backend ProxyOptional tight toyed $ \engine client -> do
        say client (greeting <> turned (get "/"))
        _ <- hearExactly client 1
        failuresAre engine [],
    testCase "clear text on a layer's port, after what looked like a header" $
      behind backend ProxyOptional tight toyed $ \_ client -> do
        sayPieces client ["P", "O", "ST / HTTP/1.1\r\n\r\n"]
        hearAnswer client >>= \answer -> answerCode answer @?= 400,
    testCase "a proxy behind a proxy" $
      behind backend ProxyRequired tight (\_ -> Proxied ProxyRequired ClearText) $ \_ client -> do
        say client (line <> binary <> get "/")
        hearAnswer client >>= answersWith 200 "[2001:db8::9]:258"
  ]
  where
    proxied backend use settings = behind backend use settings (const ClearText)
    toyed open = Encrypted (toyOpening open)

line, binary :: ByteString
line = "PROXY TCP4 203.0.113.7 10.0.0.1 1234 80\r\n"
binary = "\r\n\r\n\0\r\nQUIT\n\x21\x21\0\36\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\9" <> B.replicate 16 1 <> "\1\2\0\80"

-- A server behind a proxy, which answers with the peer's address, and a connection to it.
behind :: BackendChoice -> ProxyUse -> Settings -> (IORef Int -> Scheme) -> (Engine -> Client -> IO a) -> IO a
behind backend use settings scheme body = do
  open <- newIORef (0 :: Int)
  failures <- newIORef []
  withRuntime defaultConfig {configBackend = backend} $ \runtime ->
    withListener runtime defaultListenOptions {listenSpread = PortPerCapability} (SockAddrInet 0 (tupleToHostAddress (127, 0, 0, 1))) $ \listener ->
      withServerOn runtime settings {settingFailed = \_ e -> atomicModifyIORef' failures (\es -> (es ++ [e], ()))} (\_ -> pure (handlersOf address)) [(listener, Proxied use (scheme open))] $ \server -> do
        r <- withClient (listenerAddress listener) (body (Engine (listenerAddress listener) server (pure []) (readIORef failures) (pure []) (pure [])))
        _ <- eventually "every connection to end" (connectionsOpen server) (== 0)
        _ <- eventually "every layer to be released" (readIORef open) (== 0)
        pure r
  where
    address request = Whole status200 [] . C.pack . maybe "none" show <$> peerAddress (connectionOf (requestConn request))
