{-# LANGUAGE OverloadedStrings #-}

-- | A server in the test's own process, on a free port of the loopback interface.
module EngineFixture
  ( Engine (..),
    withEngine,
    withEngineLogging,
    onBothBackends,
    tight,
    echo,
    get,
    failuresAre,
  )
where

import Control.Exception (SomeException)
import Control.Monad (unless)
import Data.ByteString (ByteString)
import Data.ByteString.Char8 qualified as C
import Data.IORef
import Heddle.Http
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
import Heddle.Prim.Clock (milliseconds, seconds)
import Heddle.Prim.Exception (describeException)
import Heddle.Testkit.Watchdog
import Network.Socket (SockAddr (..), tupleToHostAddress)
import Test.Tasty (TestTree, testGroup)

-- | A server under test.
data Engine = Engine
  { engineAddress :: !SockAddr,
    engineServer :: !Server,
    -- | The targets that reached the handler, in order (over all connections).
    engineSeen :: !(IO [ByteString]),
    -- | The exceptions that 'settingFailed' was called with, and the requests.
    engineFailures :: !(IO [SomeException]),
    engineFailed :: !(IO [Maybe FailedRequest]),
    -- | The status codes passed to the log hook, in order.
    engineLogged :: !(IO [Int])
  }

-- | Serve with a handler, run, and see that every connection ends.
withEngine :: BackendChoice -> Settings -> Handler -> (Engine -> IO a) -> IO a
withEngine backend settings = withEngineLogging backend settings (\_ -> pure ())

-- | The same, and the function is called for each line of the log.
withEngineLogging :: BackendChoice -> Settings -> (Request -> IO ()) -> Handler -> (Engine -> IO a) -> IO a
withEngineLogging backend settings logging handler body = do
  seen <- newIORef []
  failures <- newIORef []
  codes <- newIORef []
  let hook request _ status _ = logging request >> atomicModifyIORef' codes (\cs -> (statusCode status : cs, ()))
      hear' request e = atomicModifyIORef' failures (\es -> (es ++ [(request, e)], ()))
      handler' request = do
        t <- target request
        atomicModifyIORef' seen (\ts -> (t : ts, ()))
        handler request
  withRuntime defaultConfig {configBackend = backend} $ \runtime ->
    withListener runtime defaultListenOptions {listenSpread = PortPerCapability} (SockAddrInet 0 (tupleToHostAddress (127, 0, 0, 1))) $ \listener ->
      withServer runtime settings {settingFailed = hear'} (\_ -> pure (handler', Just hook)) [listener] $ \server -> do
        r <- body (Engine (listenerAddress listener) server (reverse <$> readIORef seen) (map snd <$> readIORef failures) (map fst <$> readIORef failures) (reverse <$> readIORef codes))
        _ <- eventually "every connection to end" (connectionsOpen server) (== 0)
        pure r

-- | The same tests on epoll and on poll.
onBothBackends :: String -> (BackendChoice -> [TestTree]) -> TestTree
onBothBackends name tests =
  testGroup name [testGroup "epoll" (tests Epoll), testGroup "poll" (tests Poll)]

-- | Small limits, and deadlines so long that only patience could meet them: a test that is
-- about one of them shortens it.
tight :: Settings
tight =
  defaultSettings
    { settingLimits =
        defaultLimits
          { limitTarget = 200,
            limitHeadBytes = 1024,
            limitHeaders = 10,
            limitBody = 100000,
            limitTrailers = 100,
            limitChunkExtensions = 50
          },
      settingIdle = seconds 60,
      settingHead = seconds 60,
      settingBodyPace = Pace (seconds 60) 1,
      settingReplyPace = Pace (seconds 60) 1,
      settingDiscard = 1000,
      settingGrace = milliseconds 50
    }

-- | Answers with the request as it was understood: method, target, body.
echo :: Handler
echo request = do
  m <- methodBytes request
  t <- target request
  body <- readWholeBody request 1000000
  pure (Whole status200 [Header "Content-Type" "text/plain"] (C.concat [m, " ", t, "\n", body]))

-- | A plain request.
get :: ByteString -> ByteString
get t = C.concat ["GET ", t, " HTTP/1.1\r\nHost: a\r\n\r\n"]

-- | Exactly these failures were reported, each containing its text.
failuresAre :: Engine -> [String] -> IO ()
failuresAre engine expected = do
  heard <- map describeException <$> engineFailures engine
  unless (length heard == length expected && and (zipWith contains expected heard)) $
    unexpected ("failures about " ++ show expected) (show heard)
  where
    contains part whole = C.pack part `C.isInfixOf` C.pack whole
