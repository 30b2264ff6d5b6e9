{-# LANGUAGE OverloadedStrings #-}
{-# LANGUAGE RankNTypes #-}

-- |
-- Module      : Network.Wai.Handler.Heddle.Settings
-- Description : Warp's settings, as the engine understands them
-- Stability   : hidden; "Network.Wai.Handler.Heddle" exports it
--
-- 'Settings' hold what Warp's do; 'engineSettings' translates them.
--
-- Cost: read once per server, some per request.
-- Owner: immutable.
module Network.Wai.Handler.Heddle.Settings
  ( Port,
    Settings (..),
    defaultSettings,
    engineSettings,

    -- * Exceptions
    defaultOnException,
    defaultShouldDisplayException,
    defaultOnExceptionResponse,
    exceptionResponseForDebug,

    -- * Setters
    setPort,
    setHost,
    setOnException,
    setOnExceptionResponse,
    setOnOpen,
    setOnClose,
    setTimeout,
    setBeforeMainLoop,
    setNoParsePath,
    setInstallShutdownHandler,
    setServerName,
    setMaximumBodyFlush,
    setSlowlorisSize,
    setLogger,
    setGracefulShutdownTimeout,
    setMaxTotalHeaderLength,
    setAltSvc,
    setHTTP2Disabled,
    setProxyProtocolNone,
    setProxyProtocolRequired,
    setProxyProtocolOptional,

    -- ** Without effect
    setManager,
    setFdCacheDuration,
    setFileInfoCacheDuration,
    setFork,
    setAccept,
    setServerPushLogger,
    setGracefulCloseTimeout1,
    setGracefulCloseTimeout2,
    setMaxBuilderResponseBufferSize,

    -- * Getters
    getPort,
    getHost,
    getOnOpen,
    getOnClose,
    getOnException,
    getGracefulShutdownTimeout,
    getGracefulCloseTimeout1,
    getGracefulCloseTimeout2,
  )
where

import Control.Monad (when)
import Data.ByteString (ByteString)
import Data.ByteString.Builder (stringUtf8)
import Data.Maybe (fromMaybe)
import Data.Streaming.Network (HostPreference)
import GHC.IO.Exception (IOErrorType (InvalidArgument, ResourceVanished))
import Heddle.Http (Limits (..), Pace (..))
import Heddle.Http qualified as Http
import Heddle.IO (Nanos, peerAddress, seconds)
import Heddle.IO.Registration (Registration, connectionOf)
import Heddle.Prim.Exception
import Heddle.Prim.Message (putErrorLine)
import Network.HTTP.Types qualified as H
import Network.Socket (SockAddr (..), Socket)
import Network.Wai (Request (rawPathInfo, remoteHost, requestMethod), Response, responseBuilder)
import Network.Wai.Handler.Heddle.Invalid
import System.IO.Error (ioeGetErrorType)

-- | A TCP port.
type Port = Int

-- | How a server runs. Start from 'defaultSettings' and use the setters.
data Settings = Settings
  { settingsPort :: !Port,
    settingsHost :: !HostPreference,
    -- | 'Nothing' until it is set.
    settingsOnException :: !(Maybe (Maybe Request -> SomeException -> IO ())),
    settingsOnExceptionResponse :: !(SomeException -> Response),
    -- | 'Nothing' until it is set: then no connection pays for the hooks.
    settingsOnOpen :: !(Maybe (SockAddr -> IO Bool)),
    settingsOnClose :: !(Maybe (SockAddr -> IO ())),
    -- | Seconds.
    settingsTimeout :: !Int,
    settingsBeforeMainLoop :: !(IO ()),
    settingsNoParsePath :: !Bool,
    settingsInstallShutdownHandler :: !(IO () -> IO ()),
    settingsServerName :: !ByteString,
    settingsMaximumBodyFlush :: !(Maybe Int),
    settingsSlowlorisSize :: !Int,
    -- | 'Nothing' until it is set.
    settingsLogger :: !(Maybe (Request -> H.Status -> Maybe Integer -> IO ())),
    -- | Seconds.
    settingsGracefulShutdownTimeout :: !(Maybe Int),
    settingsGracefulCloseTimeout1 :: !Int,
    settingsGracefulCloseTimeout2 :: !Int,
    settingsMaxTotalHeaderLength :: !Int,
    settingsAltSvc :: !(Maybe ByteString),
    settingsHttp2 :: !Bool,
    settingsProxy :: !(Maybe Http.ProxyUse)
  }

-- | Port 3000 on every IPv4 address (IPv6 if there is none), a time-out of 30 seconds, heads of at
-- most 50 KB, 8 KB of an unread body dropped; exceptions are lines on the standard error and a
-- plain 500.
defaultSettings :: Settings
defaultSettings =
  Settings
    { settingsPort = 3000,
      settingsHost = "*4",
      settingsOnException = Nothing,
      settingsOnExceptionResponse = defaultOnExceptionResponse,
      settingsOnOpen = Nothing,
      settingsOnClose = Nothing,
      settingsTimeout = 30,
      settingsBeforeMainLoop = pure (),
      settingsNoParsePath = False,
      settingsInstallShutdownHandler = \_ -> pure (),
      settingsServerName = "heddle",
      settingsMaximumBodyFlush = Just 8192,
      settingsSlowlorisSize = 2048,
      settingsLogger = Nothing,
      settingsGracefulShutdownTimeout = Nothing,
      settingsGracefulCloseTimeout1 = 0,
      settingsGracefulCloseTimeout2 = 2000,
      settingsMaxTotalHeaderLength = 50 * 1024,
      settingsAltSvc = Nothing,
      settingsHttp2 = True,
      settingsProxy = Nothing
    }

-- | The engine's settings that do what these say.
engineSettings :: Settings -> Http.Settings
engineSettings settings =
  Http.defaultSettings
    { Http.settingLimits =
        Http.defaultLimits
          { limitTarget = longest,
            limitHeadBytes = longest,
            limitHeaders = 256,
            -- Applications and middlewares have their own limits, as on Warp.
            limitBody = maxBound `quot` 2
          },
      Http.settingServerName = settingsServerName settings,
      Http.settingIdle = timeout,
      Http.settingHead = timeout,
      Http.settingBodyPace = pace,
      Http.settingReplyPace = pace,
      Http.settingDiscard = maybe (maxBound `quot` 2) (max 0) (settingsMaximumBodyFlush settings),
      Http.settingFailed = maybe reported (\hook _ -> hook Nothing) (settingsOnException settings),
      Http.settingOpened = openedHook settings,
      Http.settingHttp2 = settingsHttp2 settings
    }
  where
    -- Each request has memory for the longest head.
    longest = max 1024 (min 1048576 (settingsMaxTotalHeaderLength settings))
    timeout = timeoutOf settings
    -- Warp's rule is slowlorisSize bytes in every time-out.
    pace = Pace timeout (max 1 (settingsSlowlorisSize settings `quot` max 1 (settingsTimeout settings)))

timeoutOf :: Settings -> Nanos
timeoutOf = seconds . max 1 . settingsTimeout

openedHook :: Settings -> Maybe (Registration -> IO (Maybe (IO ())))
openedHook settings = case (settingsOnOpen settings, settingsOnClose settings) of
  (Nothing, Nothing) -> Nothing
  (onOpen, onClose) -> Just $ \registration -> do
    address <- fromMaybe (SockAddrUnix "") <$> peerAddress (connectionOf registration)
    wanted <- interruptible (maybe (pure True) ($ address) onOpen)
    pure (if wanted then Just (maybe (pure ()) ($ address) onClose) else Nothing)

-- | A line on the standard error, if 'defaultShouldDisplayException': the request's method, path and client, if
-- there is one, and the exception. Queries may hold secrets and are left out.
defaultOnException :: Maybe Request -> SomeException -> IO ()
defaultOnException request = reported (named <$> request)
  where
    named r = Http.FailedRequest (requestMethod r) (rawPathInfo r) (Just (remoteHost r))

reported :: Maybe Http.FailedRequest -> SomeException -> IO ()
reported request e =
  when (defaultShouldDisplayException e) (putErrorLine ("heddle-wai: " ++ foldMap ((++ ": ") . Http.describeFailedRequest) request ++ describeException e))

-- | Whether an exception is worth a line: not if a client caused it, and not if the server threw it to
-- end an application.
defaultShouldDisplayException :: SomeException -> Bool
defaultShouldDisplayException e
  | Just (_ :: InvalidRequest) <- fromException e = False
  | Just (_ :: Http.BodyError) <- fromException e = False
  | Just Http.ConnectionLost <- fromException e = False
  | Just kind <- ioeGetErrorType <$> fromException e = kind /= ResourceVanished && kind /= InvalidArgument
  | otherwise = not (Http.isInterruption e)

-- | 413, 431 and 400 for an 'InvalidRequest' and 500 otherwise, with a short text.
defaultOnExceptionResponse :: SomeException -> Response
defaultOnExceptionResponse e = case fromException e of
  Just PayloadTooLarge -> plain H.status413 "Payload too large"
  Just RequestHeaderFieldsTooLarge -> plain H.status431 "Request header fields too large"
  Just (_ :: InvalidRequest) -> plain H.status400 "Bad Request"
  Nothing -> plain H.status500 "Something went wrong"

-- | 500 with the exception's text, for debugging: it may show secrets.
exceptionResponseForDebug :: SomeException -> Response
exceptionResponseForDebug e = plain H.status500 ("Exception: " ++ show e)

plain :: H.Status -> String -> Response
plain status text = responseBuilder status [(H.hContentType, "text/plain; charset=utf-8")] (stringUtf8 text)

-- | The port to listen on. Default: 3000.
setPort :: Port -> Settings -> Settings
setPort x settings = settings {settingsPort = x}

-- | The interface to listen on. Default: @*4@.
setHost :: HostPreference -> Settings -> Settings
setHost x settings = settings {settingsHost = x}

-- | What hears of exceptions: of applications, with the request, once each; of the server itself,
-- without. A request that is refused before the application sees it is no exception here.
setOnException :: (Maybe Request -> SomeException -> IO ()) -> Settings -> Settings
setOnException x settings = settings {settingsOnException = Just x}

-- | The response to an application's exception, if it had sent nothing yet.
setOnExceptionResponse :: (SomeException -> Response) -> Settings -> Settings
setOnExceptionResponse x settings = settings {settingsOnExceptionResponse = x}

-- | Called when a connection begins, which is when its first byte has come; 'False' closes it.
setOnOpen :: (SockAddr -> IO Bool) -> Settings -> Settings
setOnOpen x settings = settings {settingsOnOpen = Just x}

-- | Called once when a connection that 'setOnOpen' has seen and kept has closed.
setOnClose :: (SockAddr -> IO ()) -> Settings -> Settings
setOnClose x settings = settings {settingsOnClose = Just x}

-- | Seconds, at least 1: how long a client may be silent, between requests or within a head; and with
-- 'setSlowlorisSize', how slow within a body or a response. An application may take as long as
-- it likes. Default: 30.
setTimeout :: Int -> Settings -> Settings
setTimeout x settings = settings {settingsTimeout = x}

-- | Called once before connections are accepted. The socket listens already. Default: nothing.
setBeforeMainLoop :: IO () -> Settings -> Settings
setBeforeMainLoop x settings = settings {settingsBeforeMainLoop = x}

-- | Leave 'Network.Wai.rawPathInfo' as the client sent it, also an absolute target's scheme and
-- host: for proxies. Default: 'False'.
setNoParsePath :: Bool -> Settings -> Settings
setNoParsePath x settings = settings {settingsNoParsePath = x}

-- | Given an action that begins a graceful shutdown: accepting ends, requests under way are finished,
-- idle connections are closed after a second, and 'Network.Wai.Handler.Heddle.runSettings' returns.
-- The usual argument installs it as a signal handler. Default: nothing.
setInstallShutdownHandler :: (IO () -> IO ()) -> Settings -> Settings
setInstallShutdownHandler x settings = settings {settingsInstallShutdownHandler = x}

-- | The Server header; empty for none. An application's own is sent instead.
setServerName :: ByteString -> Settings -> Settings
setServerName x settings = settings {settingsServerName = x}

-- | How many bytes of a body that the application left unread are read and dropped to keep the
-- connection; 'Nothing' for all. Default: 8192.
setMaximumBodyFlush :: Maybe Int -> Settings -> Settings
setMaximumBodyFlush x settings
  | Just n <- x, n < 0 = errorWithoutStackTrace "setMaximumBodyFlush: must be positive"
  | otherwise = settings {settingsMaximumBodyFlush = x}

-- | How many bytes a client must send, or take, in each time-out. Default: 2048.
setSlowlorisSize :: Int -> Settings -> Settings
setSlowlorisSize x settings = settings {settingsSlowlorisSize = x}

-- | Called after each response with the request, the status and the bytes of content sent; not
-- after raw responses. Default: nothing.
setLogger :: (Request -> H.Status -> Maybe Integer -> IO ()) -> Settings -> Settings
setLogger x settings = settings {settingsLogger = Just x}

-- | Seconds that a graceful shutdown may take; 'Nothing' for as long as it takes. Default:
-- 'Nothing'.
setGracefulShutdownTimeout :: Maybe Int -> Settings -> Settings
setGracefulShutdownTimeout x settings = settings {settingsGracefulShutdownTimeout = x}

-- | The longest request head, in bytes; a longer one is answered with 431. At least 1024, at most 1048576: a request takes
-- so much memory while it is served. Default: 51200.
setMaxTotalHeaderLength :: Int -> Settings -> Settings
setMaxTotalHeaderLength x settings = settings {settingsMaxTotalHeaderLength = x}

-- | The Alt-Svc header of every response. Default: none.
setAltSvc :: ByteString -> Settings -> Settings
setAltSvc x settings = settings {settingsAltSvc = Just x}

-- | Connections come from clients directly. This is the default.
setProxyProtocolNone :: Settings -> Settings
setProxyProtocolNone settings = settings {settingsProxy = Nothing}

-- | Every connection comes by a proxy, such as HAProxy or a cloud's load balancer, that begins it with a header of the PROXY
-- protocol, version 1 or 2. The address that the header names is 'Network.Wai.remoteHost', and what 'setOnOpen' and 'setOnClose' are told. A
-- connection without a header, or with a malformed one, gets 400; with TLS, whose bytes follow the header, it is closed.
setProxyProtocolRequired :: Settings -> Settings
setProxyProtocolRequired settings = settings {settingsProxy = Just Http.ProxyRequired}

-- | 'setProxyProtocolRequired' for some of the connections; the others have their own address. Only for a port that nobody but
-- proxies and trusted clients can reach: any client could name any address.
setProxyProtocolOptional :: Settings -> Settings
setProxyProtocolOptional settings = settings {settingsProxy = Just Http.ProxyOptional}

-- | No effect: the engine's deadlines need no time-out manager.
setManager :: manager -> Settings -> Settings
setManager _ = id

-- | No effect: files are opened for each response.
setFdCacheDuration :: Int -> Settings -> Settings
setFdCacheDuration _ = id

-- | No effect: a file's status is read for each response.
setFileInfoCacheDuration :: Int -> Settings -> Settings
setFileInfoCacheDuration _ = id

-- | No effect: an idle connection has no thread.
setFork :: (((forall a. IO a -> IO a) -> IO ()) -> IO ()) -> Settings -> Settings
setFork _ = id

-- | No effect: the engine accepts connections itself.
setAccept :: (Socket -> IO (Socket, SockAddr)) -> Settings -> Settings
setAccept _ = id

-- | Speak HTTP/1 only.
setHTTP2Disabled :: Settings -> Settings
setHTTP2Disabled settings = settings {settingsHttp2 = False}

-- | No effect: nothing is pushed.
setServerPushLogger :: (Request -> ByteString -> Integer -> IO ()) -> Settings -> Settings
setServerPushLogger _ = id

-- | No effect: a connection that must not be reset is half closed and drained by the engine.
setGracefulCloseTimeout1 :: Int -> Settings -> Settings
setGracefulCloseTimeout1 x settings = settings {settingsGracefulCloseTimeout1 = x}

-- | No effect, as 'setGracefulCloseTimeout1'.
setGracefulCloseTimeout2 :: Int -> Settings -> Settings
setGracefulCloseTimeout2 x settings = settings {settingsGracefulCloseTimeout2 = x}

-- | No effect: a builder's output buffer never grows.
setMaxBuilderResponseBufferSize :: Int -> Settings -> Settings
setMaxBuilderResponseBufferSize _ = id

-- | The port.
getPort :: Settings -> Port
getPort = settingsPort

-- | The interface.
getHost :: Settings -> HostPreference
getHost = settingsHost

-- | What 'setOnOpen' set.
getOnOpen :: Settings -> SockAddr -> IO Bool
getOnOpen = fromMaybe (\_ -> pure True) . settingsOnOpen

-- | What 'setOnClose' set.
getOnClose :: Settings -> SockAddr -> IO ()
getOnClose = fromMaybe (\_ -> pure ()) . settingsOnClose

-- | What 'setOnException' set.
getOnException :: Settings -> Maybe Request -> SomeException -> IO ()
getOnException = fromMaybe defaultOnException . settingsOnException

-- | What 'setGracefulShutdownTimeout' set.
getGracefulShutdownTimeout :: Settings -> Maybe Int
getGracefulShutdownTimeout = settingsGracefulShutdownTimeout

-- | What 'setGracefulCloseTimeout1' set.
getGracefulCloseTimeout1 :: Settings -> Int
getGracefulCloseTimeout1 = settingsGracefulCloseTimeout1

-- | What 'setGracefulCloseTimeout2' set.
getGracefulCloseTimeout2 :: Settings -> Int
getGracefulCloseTimeout2 = settingsGracefulCloseTimeout2
