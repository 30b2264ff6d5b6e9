{-# LANGUAGE OverloadedStrings #-}

-- | A server with a proxy before scripted upstreams.
module ProxyFixture
  ( -- * Scripted upstreams
    module Heddle.Testkit.Scripted,
    chunksFrom,

    -- * A server before them
    Front (..),
    withFront,
    withFrontOn,
    withFrontBy,
    onBothBackends,
    patient,
    urlOf,
    deadOrigin,
    ask,
    get,
    heardField,
    heardFields,
    requestLine,
    idle,
  )
where

import Control.Exception (bracket)
import Control.Monad (void)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.Char (toLower)
import Data.IORef
import Heddle.Gateway.Proxy
import Heddle.Http (Handler, Pace (..), Scheme (..), Settings (..), connectionsOpen, handlersOf, withServerOn)
import Heddle.Http.Client (Url, parseUrl)
import Heddle.IO
  ( BackendChoice (..),
    Config (..),
    ListenOptions (..),
    Listener (..),
    Spread (..),
    defaultConfig,
    defaultListenOptions,
    withListener,
    withRuntime,
  )
import Heddle.Prim.Clock (seconds)
import Heddle.Prim.Exception (describeException)
import Heddle.Testkit.HttpClient (Answer, Client, hear, say, withClient)
import Heddle.Testkit.Scripted
import Heddle.Testkit.Watchdog
import Network.Socket
import Test.Tasty (TestTree, testGroup)

-- | The data of a chunked body, which is well formed.
chunksFrom :: Peer -> IO ByteString
chunksFrom peer = do
  size <- sizeLine ""
  piece <- hearExactlyFrom peer size
  _ <- hearExactlyFrom peer 2
  if size == 0 then pure "" else (piece <>) <$> chunksFrom peer
  where
    sizeLine acc = do
      b <- hearExactlyFrom peer 1
      if b == "\n" then pure (read ("0x" ++ C.unpack (C.takeWhile (/= '\r') acc))) else sizeLine (acc <> b)

-- | A server whose handler is a proxy.
data Front = Front
  { frontAddress :: !SockAddr,
    frontProxy :: !Proxy,
    -- | What the proxy has reported, in order.
    frontReports :: !(IO [String]),
    -- | What the engine has reported.
    frontFailures :: !(IO [String])
  }

-- | Serve, run, and see that nothing is left in use.
withFront :: BackendChoice -> Settings -> ProxySettings -> (Front -> IO a) -> IO a
withFront = withFrontOn ClearText

-- | The same with a listener of another kind.
withFrontOn :: Scheme -> BackendChoice -> Settings -> ProxySettings -> (Front -> IO a) -> IO a
withFrontOn = withFrontBy proxyHandler

-- | The same with a handler around the proxy.
withFrontBy :: (Proxy -> Handler) -> Scheme -> BackendChoice -> Settings -> ProxySettings -> (Front -> IO a) -> IO a
withFrontBy handling scheme backend settings proxied body = do
  reports <- newIORef []
  failures <- newIORef []
  let note ref what = atomicModifyIORef' ref (\rs -> (what : rs, ()))
  withRuntime defaultConfig {configBackend = backend} $ \runtime ->
    withProxy runtime proxied {proxyFailed = note reports} $ \proxy ->
      withListener runtime defaultListenOptions {listenSpread = PortPerCapability} (SockAddrInet 0 (tupleToHostAddress (127, 0, 0, 1))) $ \listener ->
        withServerOn runtime settings {settingFailed = \_ -> note failures . describeException} (\_ -> pure (handlersOf (handling proxy))) [(listener, scheme)] $ \server -> do
          r <- body (Front (listenerAddress listener) proxy (reverse <$> readIORef reports) (reverse <$> readIORef failures))
          _ <- eventually "every connection to end" (connectionsOpen server) (== 0)
          idle proxy
          pure r

-- | No connection is in use, and nothing waits.
idle :: Proxy -> IO ()
idle proxy = void . eventually "every connection to be returned" (proxyFigures proxy) $ \figures ->
  figureKept figures == figureConnections figures && all (== 0) (figureOpen figures) && figureWaiting figures == 0

-- | The same tests on epoll and on poll.
onBothBackends :: String -> (BackendChoice -> [TestTree]) -> TestTree
onBothBackends name tests = testGroup name [testGroup "epoll" (tests Epoll), testGroup "poll" (tests Poll)]

-- | Deadlines that only patience could meet: a test about one of them shortens it.
patient :: ByteString -> [SockAddr] -> ProxySettings
patient prefix addresses =
  (defaultProxySettings prefix (map (upstreamAt . urlOf "/") addresses))
    { proxyConnect = seconds 60,
      proxyAnswer = seconds 60,
      proxyQueue = seconds 60,
      proxyPace = Pace (seconds 60) 1,
      proxyHeadBytes = 4096
    }

-- | A URL with this path.
urlOf :: ByteString -> SockAddr -> Url
urlOf path address = case parseUrl text of
  Right url -> url
  Left e -> error (show (text, e))
  where
    text = case address of
      SockAddrInet port _ -> B.concat ["http://127.0.0.1:", C.pack (show port), path]
      SockAddrUnix name -> B.concat ["unix:", C.pack name, ":", path]
      other -> error (show other)

-- | An address at which nothing listens: its port is taken, by a socket that does not listen.
deadOrigin :: (SockAddr -> IO a) -> IO a
deadOrigin body = bracket (socket AF_INET Stream 0) close $ \s -> do
  withFdSocket s setCloseOnExecIfNeeded
  bind s (SockAddrInet 0 (tupleToHostAddress (127, 0, 0, 1)))
  getSocketName s >>= body

-- | One request on a connection of its own.
ask :: Front -> ByteString -> IO Answer
ask front request = withClient (frontAddress front) (asking request)

asking :: ByteString -> Client -> IO Answer
asking request client = do
  say client request
  hear client (C.takeWhile (/= ' ') request) >>= maybe (unexpected "an answer" "the end of the connection") pure

get :: ByteString -> ByteString
get path = B.concat ["GET ", path, " HTTP/1.1\r\nHost: site.example\r\n\r\n"]

-- | The values of a header in a head that an upstream has heard.
heardFields :: ByteString -> ByteString -> [ByteString]
heardFields name heard = [C.dropWhile (== ' ') (B.drop 1 value) | line <- drop 1 (C.lines heard), (n, value) <- [C.break (== ':') (C.filter (/= '\r') line)], C.map toLower n == name]

heardField :: ByteString -> ByteString -> Maybe ByteString
heardField name heard = case heardFields name heard of
  [] -> Nothing
  [value] -> Just value
  values -> error ("expected one " ++ show name ++ "\n but got: " ++ show values)

requestLine :: ByteString -> ByteString
requestLine = C.takeWhile (/= '\r')
