{-# LANGUAGE OverloadedStrings #-}

-- | A server with one gateway below a prefix, in the test's process.
module GatewayFixture
  ( Running (..),
    withGatewayServer,
    withGatewayServerOn,
    hurried,
    withDirectory,
    withTestRuntime,
    Told,
    newTold,
    tellTo,
    toldLines,
    ask,
    asking,
    ended,
    loopback,
    notFound,
    interrupted,
  )
where

import Control.Concurrent (forkIO, killThread, myThreadId, threadDelay)
import Control.Exception (bracket)
import Data.ByteString (ByteString)
import Data.ByteString.Char8 qualified as C
import Data.IORef
import Heddle.Gateway.Place
import Heddle.Http
import Heddle.Http.Borrowed (notedForLog)
import Heddle.Http.UriPath (decodePath)
import Heddle.IO (ListenOptions (..), Runtime, Spread (..), defaultConfig, defaultListenOptions, listenerAddress, milliseconds, withListener, withRuntime)
import Heddle.Testkit.HttpClient
import Heddle.Testkit.Watchdog
import Network.Socket (SockAddr (..), tupleToHostAddress)
import System.Directory (removePathForcibly)
import System.Posix.Temp (mkdtemp)

-- | A gateway that is being served.
data Running = Running
  { runningAddress :: !SockAddr,
    -- | What the engine was told of, oldest first.
    runningFailures :: !(IO [String]),
    -- | For each request that was answered, what was noted for @$upstream_addr@ and @$upstream_status@.
    runningNoted :: !(IO [(Maybe ByteString, Maybe ByteString)])
  }

-- | What a gateway has told.
newtype Told = Told (IORef [String])

newTold :: IO Told
newTold = Told <$> newIORef []

tellTo :: Told -> String -> IO ()
tellTo (Told ref) line = atomicModifyIORef' ref (\ls -> (line : ls, ()))

-- | Oldest first.
toldLines :: Told -> IO [String]
toldLines (Told ref) = reverse <$> readIORef ref

withTestRuntime :: (Runtime -> IO a) -> IO a
withTestRuntime = withRuntime defaultConfig

-- | A new directory, removed afterwards.
withDirectory :: (FilePath -> IO a) -> IO a
withDirectory = bracket (mkdtemp "/tmp/heddle-test-") removePathForcibly

-- | The gateway, whose thread is killed somewhere within the first microseconds given, at another place each time.
interrupted :: Int -> Gateway -> IO Gateway
interrupted most gateway = do
  turns <- newIORef (7 :: Int)
  pure $ \place request -> do
    turn <- atomicModifyIORef' turns (\n -> let n' = (n * 1103515245 + 12345) `mod` 2147483648 in (n', n'))
    me <- myThreadId
    bracket (forkIO (threadDelay (turn `div` 65536 `mod` most) >> killThread me)) killThread (\_ -> gateway place request)

loopback :: SockAddr
loopback = SockAddrInet 0 (tupleToHostAddress (127, 0, 0, 1))

notFound :: Reply
notFound = Whole status404 [] ""

-- | Serve a gateway below @\/p@, run; then every connection must end.
withGatewayServer :: Runtime -> Gateway -> (Running -> IO a) -> IO a
withGatewayServer = withGatewayServerOn defaultSettings

-- | Bodies of 2,000 bytes at most, which have to come quickly.
hurried :: Settings
hurried = defaultSettings {settingBodyPace = Pace (milliseconds 300) 240, settingLimits = (settingLimits defaultSettings) {limitBody = 2000}}

-- | The same with other settings of the engine.
withGatewayServerOn :: Settings -> Runtime -> Gateway -> (Running -> IO a) -> IO a
withGatewayServerOn given runtime gateway body = do
  failures <- newIORef []
  noted <- newIORef []
  let note request _ _ _ = (,) <$> notedForLog request "upstream_addr" <*> notedForLog request "upstream_status" >>= \n -> atomicModifyIORef' noted (\ns -> (n : ns, ()))
      settings = given {settingFailed = \_ e -> atomicModifyIORef' failures (\es -> (show e : es, ()))}
      handler request = do
        raw <- rawPath request
        case decodePath raw of
          Right path -> gateway (placeOf "p" path) request
          _ -> pure notFound
  withListener runtime defaultListenOptions {listenSpread = PortPerCapability} loopback $ \listener ->
    withServer runtime settings (\_ -> pure (handler, Just note)) [listener] $ \server -> do
      r <- body (Running (listenerAddress listener) (reverse <$> readIORef failures) (reverse <$> readIORef noted))
      _ <- eventually "every connection to end" (connectionsOpen server) (== 0)
      pure r

-- | One request on a connection, and its answer.
ask :: Client -> ByteString -> ByteString -> [(ByteString, ByteString)] -> ByteString -> IO Answer
ask client method' path fields content = do
  say client $
    C.concat ([method', " ", path, " HTTP/1.1\r\nHost: test\r\n"] ++ [C.concat [n, ": ", v, "\r\n"] | (n, v) <- fields] ++ [C.concat ["Content-Length: ", C.pack (show (C.length content)), "\r\n"] | not (C.null content)] ++ ["\r\n", content])
  hear client method' >>= maybe (unexpected ("an answer to " ++ C.unpack method' ++ " " ++ C.unpack path) "the end of the connection") pure

-- | 'ask' for a path on a connection of its own, by GET.
asking :: Running -> ByteString -> IO Answer
asking running path = withClient (runningAddress running) $ \client -> ask client "GET" path [] ""

-- | A request on a connection of its own whose answer is cut short: what came.
ended :: Running -> ByteString -> IO (ByteString, Ending)
ended running path = withClient (runningAddress running) $ \client -> do
  say client (C.concat ["GET ", path, " HTTP/1.1\r\nHost: test\r\n\r\n"])
  hearRest client
