{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Serve
-- Description : Serve a directory
-- Stability   : stable
--
-- What @heddle serve@ does, as a function: open the root, the log and the listeners, serve
-- on every core, drain at SIGTERM, SIGINT or SIGQUIT.
--
-- Cost: per core one cache of at most 64 MB and one log ring of 256 KB.
-- Owner: 'serveSite' releases everything it opened.
module Heddle.Serve
  ( -- * Serving
    serveSite,
    serveByWorkers,
    isWorker,
    ServeOptions (..),
    defaultServeOptions,
    ServeTls (..),
    ServeEvent (..),
    ServeError (..),

    -- * Logs
    LogFormat (..),
    parseLogFormat,
    LogOptions (..),
    defaultLogOptions,
    LogFilter (..),
    everyRequest,
    parseStatuses,
    parseSample,
    Rotation (..),
    RotateAt (..),
    noRotation,
    parseRotateAt,
    WhenFull (..),
    parseWhenFull,
    LogTarget (..),
    SyslogPlace (..),
    parseLogTarget,
    Severity (..),
    parseSeverity,
    severityName,
    severityOf,
    Glob,
    parseGlob,
    Traffic (..),

    -- * Files
    module Heddle.Serve.FileOptions,

    -- * Routes
    RouteSpec (..),
    RouteTarget (..),
    RoutePattern (..),
    renderPattern,
    parseRoute,
    parseUpstreams,

    -- * Limits of each client
    GuardOptions (..),
    noGuard,
    AccessRule (..),
    RateLimit (..),
    parseAccess,
    parseRate,

    -- * Watching it
    StatusOptions (..),
    defaultStatusOptions,
    parseStatusPrefix,

    -- * Passwords
    hashPassword,
    longestPassword,

    -- * Upgrades
    startedAsSuccessor,

    -- * The user to serve as
    UserSpec (..),
    parseUser,

    -- * Addresses
    ListenSpec (..),
    Protocol (..),
    ListenPlace (..),
    parseListen,
    renderListen,
  )
where

import Control.Monad (unless, when)
import Data.ByteString (ByteString)
import Data.Char (isControl)
import Data.Foldable (for_)
import Data.List (intercalate, nub)
import Data.Maybe (catMaybes, isJust)
import Data.Traversable (for)
import Heddle.Gateway.Proxy (Network, ProxySettings (..), defaultProxySettings, isWithin, peerAddressOf)
import Heddle.Http
import Heddle.Http.UriPath (decodePath)
import Heddle.IO (BackendChoice (..), Config (..), Listener, Shortage (..), Spread (..), defaultConfig, handOverListener, listenerAddress, withRuntime)
import Heddle.Prim.Atomic (modifyRef, newRef, readRef)
import Heddle.Prim.Clock
import Heddle.Prim.Errno
import Heddle.Prim.Exception
import Heddle.Prim.File (closeFile, openBeneath, readOnly)
import Heddle.Prim.Thread (getCapabilities, getProcessors, labelMe, setCapabilities)
import Heddle.Prim.WaitCell
import Heddle.Scope (withTask)
import Heddle.Serve.AccessLog
import Heddle.Serve.Activity
import Heddle.Serve.Behind
import Heddle.Serve.Certificates
import Heddle.Serve.DescriptorReserve (withDescriptorReserve)
import Heddle.Serve.Error
import Heddle.Serve.ErrorLog
import Heddle.Serve.FileName (fileNameBytes)
import Heddle.Serve.FileOptions
import Heddle.Serve.Forward (parseUpstreams)
import Heddle.Serve.Glob (Glob, parseGlob)
import Heddle.Serve.Guard
import Heddle.Serve.Identity
import Heddle.Serve.Inherited
import Heddle.Serve.Internal.Signal
import Heddle.Serve.Listen
import Heddle.Serve.Listeners
import Heddle.Serve.LogFilter (LogFilter (..), everyRequest, parseSample, parseStatuses)
import Heddle.Serve.LogFormat (LogFormat (..), parseLogFormat)
import Heddle.Serve.LogOptions
import Heddle.Serve.LogSink (RotateAt (..), Rotation (..), noRotation, parseRotateAt)
import Heddle.Serve.LogTarget
import Heddle.Serve.Messages
import Heddle.Serve.Metrics
import Heddle.Serve.Notify
import Heddle.Serve.OpenFile (Opening (..), hasFile, openFollowing)
import Heddle.Serve.Password (hashPassword, longestPassword)
import Heddle.Serve.Policy (Policy (..), policyOf)
import Heddle.Serve.Process
import Heddle.Serve.Redirect (redirectToHttps)
import Heddle.Serve.Root (Root, closeRoot, currentRoot, noRoot, openRoot, refreshRoot)
import Heddle.Serve.Routes
import Heddle.Serve.Signals (handleSignals)
import Heddle.Serve.Static
import Heddle.Serve.Status
import Heddle.Serve.Successor
import Heddle.Serve.Supervisor
import Heddle.Serve.Users (guarded, newVerified, openUsers)

-- | What to serve and how.
data ServeOptions = ServeOptions
  { -- | The directory of files. 'Nothing' if a route answers for every path.
    serveDirectory :: !(Maybe FilePath),
    serveListen :: ![ListenSpec],
    -- | What is not answered from the directory.
    serveRoutes :: ![RouteSpec],
    -- | What the proxies of routes have in common; prefix and upstreams are the routes'.
    serveProxy :: !ProxySettings,
    -- | Variables for the programs of routes.
    serveVariables :: ![(ByteString, ByteString)],
    -- | How many CGI programs of a route may run at once, and for how long each.
    serveProgramLimit :: !Int,
    serveProgramTime :: !Nanos,
    -- | The certificates of the addresses after @https:\/\/@.
    serveTls :: !ServeTls,
    -- | Answer requests without TLS with a redirection to the first address with TLS.
    serveRedirect :: !Bool,
    -- | How many cores; 'Nothing' for all that the process may run on.
    serveCores :: !(Maybe Int),
    -- | As 'parseLogTarget' reads it: a file, or @-@ for standard output, or a daemon.
    serveAccessLog :: !(Maybe FilePath),
    serveLogFormat :: !LogFormat,
    serveLogs :: !LogOptions,
    -- | Peers that begin each connection with a header of the PROXY protocol, which names its client.
    serveProxyProtocol :: ![Network],
    -- | Requests on standard output in this format, besides the access log.
    serveConsole :: !(Maybe LogFormat),
    -- | Tell of the traffic about once a second while there is any: 'Busy'.
    serveActivity :: !Bool,
    -- | Names tried for a directory.
    serveIndexes :: ![FilePath],
    -- | Serve names that begin with a dot.
    serveHidden :: !Bool,
    -- | How long open connections may take to finish after the first signal to stop.
    serveDrain :: !Nanos,
    -- | How connections reach the cores.
    serveSpread :: !Spread,
    -- | The system call that reports events to the event managers.
    serveBackend :: !BackendChoice,
    -- | Headers, pages, listings, compression.
    serveFiles :: !FileOptions,
    -- | Which clients are answered, and how often.
    serveGuard :: !GuardOptions,
    -- | Where and to whom the server tells how it is.
    serveStatus :: !(Maybe StatusOptions),
    -- | Tell of requests that take longer than this: 'Trouble'.
    serveSlow :: !(Maybe Nanos),
    -- | Give each request an X-Request-Id, and continue its traceparent.
    serveRequestIds :: !Bool,
    -- | Begin a trace for requests without one, and record this share of them: 0 to 1.
    serveTraces :: !(Maybe Double),
    -- | Runs in a thread of its own at the second signal, after all connections were closed.
    -- The event listener may be stuck at that time, so a program that must end exits here.
    serveSecond :: !(IO ()),
    -- | The program and the arguments of a successor, which SIGUSR2 starts; 'Nothing' to do nothing then.
    serveSuccessor :: !(Maybe (FilePath, [String])),
    -- | A file for the process id.
    servePidFile :: !(Maybe FilePath),
    -- | Whose rights to serve with, after the addresses, the log and the certificates have been opened.
    serveUser :: !(Maybe UserSpec),
    serveSettings :: !Settings
  }

-- | A directory on @localhost:8080@, all cores, no log, @index.html@.
defaultServeOptions :: FilePath -> ServeOptions
defaultServeOptions directory =
  ServeOptions
    { serveDirectory = Just directory,
      serveListen = [ListenSpec Http (ListenHost "localhost" defaultListenPort)],
      serveRoutes = [],
      serveProxy = defaultProxySettings "" [],
      serveVariables = [],
      serveProgramLimit = 64,
      serveProgramTime = seconds 3600,
      serveTls = NoTls,
      serveRedirect = False,
      serveCores = Nothing,
      serveAccessLog = Nothing,
      serveLogFormat = Combined,
      serveLogs = defaultLogOptions,
      serveProxyProtocol = [],
      serveConsole = Nothing,
      serveActivity = False,
      serveIndexes = ["index.html", "index.htm"],
      serveHidden = False,
      serveDrain = seconds 30,
      serveSpread = PortPerCapability,
      serveBackend = Epoll,
      serveFiles = defaultFileOptions,
      serveGuard = noGuard,
      serveStatus = Nothing,
      serveSlow = Nothing,
      serveRequestIds = False,
      serveTraces = Nothing,
      serveSecond = pure (),
      serveSuccessor = Nothing,
      servePidFile = Nothing,
      serveUser = Nothing,
      serveSettings = defaultSettings
    }

-- | Events while serving.
data ServeEvent
  = -- | Connections are accepted at these URLs, on this number of cores.
    Serving ![String] !Int
  | -- | A signal arrived; the number of open connections.
    Draining !Int
  | -- | Serving has ended; the number of connections that were cut.
    Stopped !Int
  | -- | A problem that the operator should know of; the server continues.
    Trouble !String
  | -- | A request failed by an error of the server's.
    Failure !String
  | -- | Something that went well, such as new certificates.
    Notice !String
  | -- | What was counted so far.
    Busy !Traffic
  deriving stock (Eq, Show)

-- | How much an event matters to an operator; 'Nothing' for one that is no message.
severityOf :: ServeEvent -> Maybe (Severity, String)
severityOf = \case
  Failure what -> Just (SeverityError, what)
  Trouble what -> Just (SeverityWarn, what)
  Notice what -> Just (SeverityNotice, what)
  Serving urls cores -> Just (SeverityInfo, "serving on " ++ unwords urls ++ ", cores: " ++ show cores)
  Draining open -> Just (SeverityInfo, "stopping; open connections: " ++ show open)
  Stopped cut -> Just (SeverityInfo, "stopped; connections cut: " ++ show cut)
  Busy _ -> Nothing

-- | Serve until SIGTERM, SIGINT or SIGQUIT, then drain; a second one cuts all connections.
-- SIGUSR1 and SIGHUP reopen the access log and the root directory, which may have been
-- replaced. SIGUSR2 starts a successor, which takes over the listening sockets; when it serves, this process drains. A SIGHUP because the server's terminal was closed acts as SIGTERM.
--
-- A thread of its own passes events to the listener. Except for 'Trouble', the server waits up
-- to a second for each, so a listener that blocks delays a stop but does not prevent it.
--
-- [Blocks]: parks.
-- [Throws]: 'ServeError' before serving begins.
serveSite :: ServeOptions -> (ServeEvent -> IO ()) -> IO ()
serveSite options tell = do
  cores <- maybe getProcessors pure (serveCores options)
  now <- getCapabilities
  unless (cores == now) (setCapabilities cores)
  -- The others would end the process until they are handled.
  for_ [sigPIPE, sigUSR1, sigUSR2] ignoreSignal
  inherited <- takeInherited
  worker <- takeSupervisor
  for_ worker (const leaveGroup)
  unless (isJust (serveDirectory options) || any (servesAll . specPattern) (serveRoutes options)) (throwIO NothingToServe)
  indexes <- traverse fileNameBytes (serveIndexes options)
  withDescriptorReserve $ \reserve -> withRuntime defaultConfig {configBackend = serveBackend options} $ \runtime ->
    withNotify runtime $ \channel -> withErrors $ \errors -> withMessages runtime (\event -> notifyOf channel event >> for_ errors (toErrorLog event) >> tell event) $ \messages ->
      bracket (maybe noRoot (\path -> fileNameBytes path >>= naming (CannotServe path) . openRoot) (serveDirectory options)) closeRoot $ \root ->
        withLog runtime messages $ \accessLog -> withRoutes runtime messages root $ \upstreams plainRoutes -> withConsole runtime messages $ \console -> withCounts runtime messages $ \counts -> do
          (observer, routes) <- observing cores upstreams plainRoutes
          checkPages options indexes root routes
          users <- openUsersOf messages
          guard <- newGuard (proxyTrusted (serveProxy options)) (serveGuard options)
          let metrics = observerMetrics <$> observer
              guarding = guard >>= \g -> guardConnections g (announce messages . Trouble)
              settings = (settingsWith messages) {settingOpened = maybe guarding (\m -> Just (countingConnections m guarding)) metrics}
              policy = policyOf (serveFiles options)
              site = Site (Opening root reserve (policyFollow policy)) indexes (serveHidden options) (settingServerName settings) policy routes
          withCertificates runtime (serveTls options) (serveListen options) (tellOfCertificates messages) $ \loaded -> do
            certificates <- either (throwIO . CannotUse) pure loaded
            withListeners runtime (serveSpread options) inherited (isJust worker) (serveListen options) $ \places -> do
              schemes <- for places $ \(spec, listener) -> (,) listener . announcedBy (serveProxyProtocol options) <$> schemeOf certificates spec
              redirecting <- redirection options places
              let make capability = do
                    kept <- newKept
                    verified <- newVerified
                    logHook <- traverse (\log' -> accessLogHook log' trusted (serveLogFormat options) capability) accessLog
                    consoleHook <- traverse (\(format, log') -> accessLogHook log' trusted format capability) console
                    let hooks = catMaybes [logHook, consoleHook, (`activityHook` capability) <$> counts, (`metricsHook` capability) <$> metrics, (\longest -> slowHook longest (announce messages . Trouble . visible) routes) <$> serveSlow options]
                        counted :: (Metrics -> Int -> a -> a) -> a -> a
                        counted with = maybe id (`with` capability) metrics
                    for_ observer (`observeCache` keptBytes kept)
                    identities <- newIdentities (IdentityOptions (serveRequestIds options) (serveTraces options) trusted)
                    let named :: (Identities -> a -> a) -> a -> a
                        named with = maybe id with identities
                    pure
                      Handlers
                        { handlersMain = named identified . counted counting $ maybe id (\g -> guardHandler g (staticRefusal site kept)) guard (redirecting (maybe (staticHandler site kept) (\known -> guarded known verified (staticRefusal site kept) (staticHandlerFor site kept)) users)),
                          handlersAtOnce = if serveRedirect options || isJust users then Nothing else Just (named identifiedAtOnce . counted countingAtOnce $ maybe id guardAtOnce guard (staticAtOnce site kept)),
                          handlersLog = together hooks
                        }
              for_ (serveUser options) $ \user -> becomeUser user >>= either (throwIO . CannotBecome (renderUser user)) pure
              -- After that, for a change of rights forgets it.
              for_ worker followSupervisor
              withServerOn runtime settings make schemes $ \http -> do
                stop <- newWaitCell
                upgrade <- newWaitCell
                let reopen' = do
                      notifyReloading channel
                      refreshRoot root
                      for_ accessLog reopen
                      for_ errors reopenErrors
                      for_ certificates (`reload` tellOfCertificates messages)
                      notifyReady channel
                    atSecond = cutShort http >> for_ accessLog abandon >> for_ console (abandon . snd) >> serveSecond options
                    -- One at a time, and none after the stop, which ends a successor that does not serve yet. It runs masked: one that
                    -- has been heard gets the listeners.
                    succession = for_ (serveSuccessor options) $ \(program, arguments) ->
                      let go = do
                            park upgrade
                            started <- trySync (startSuccessor runtime (seconds 60) program arguments (notifyVariables channel) (handedOver places))
                            case either (Left . describeException) id started of
                              Left why -> do
                                announce messages (Trouble ("the successor does not serve, so this process goes on: " ++ why))
                                _ <- reset upgrade
                                go
                              Right pid -> do
                                for_ places (handOverListener . snd)
                                notifySuccessor channel pid
                                announce messages (Notice ("process " ++ show pid ++ " serves from now on"))
                                unpark stop
                       in go
                handleSignals (unpark stop) atSecond reopen' (unpark upgrade)
                unless (null (inheritedSockets inherited) || or [True | ListenInherited _ <- map (listenPlace . fst) places]) $
                  announce messages (Trouble "systemd has passed sockets, and nobody accepts from them; use --listen systemd")
                -- Signals may come from now on.
                maybe id withPid (servePidFile options) $ do
                  for_ (inheritedHandover inherited) announceReady
                  for_ observer (`observeServing` Sources (connectionsOpen http) certificates)
                  announceSoon messages (Serving (nub [listenUrl spec (listenerAddress l) | (spec, l) <- places]) cores)
                  withTask (labelMe "serve/successor" >> mask_ succession) (const (park stop))
                  for_ observer observeStopping
                  open <- connectionsOpen http
                  announceSoon messages (Draining open)
                  deadline <- deadlineIn (serveDrain options)
                  _ <- drainUntil http deadline
                  left <- connectionsOpen http
                  announceSoon messages (Stopped left)
  where
    trusted = proxyTrusted (serveProxy options)
    withErrors body = case logErrors (serveLogs options) of
      Nothing -> body Nothing
      Just place -> withErrorLog (naming (CannotUseLog (renderLogTarget place) . describeErrno)) place (logErrorLevel (serveLogs options)) (body . Just)
    toErrorLog event log' = for_ (severityOf event) (uncurry (logMessage log'))
    notifyOf channel = \case
      Serving urls _ -> notifyServing channel urls
      Draining _ -> notifyStopping channel
      _ -> pure ()
    -- Clients choose paths, and paths are in these messages.
    visible = map (\c -> if isControl c then '?' else c)
    withPid path = naming (CannotWritePid path) . withPidFile path
    tellOfCertificates messages = announce messages . either Trouble Notice
    settingsWith messages =
      (serveSettings options)
        { settingFailed = \e -> announce messages (Failure ("a request failed: " ++ visible (describeException e))),
          settingPaused = \e -> announce messages (Trouble ("accepting pauses: " ++ describeErrno e ++ ", and no connection is idle; raise the limit of open files (ulimit -n)")),
          settingCrowded = \shortage ->
            announce messages . Trouble $
              "idle connections are closed to make room for new ones: " ++ case shortage of
                NoDescriptors e -> describeErrno e ++ "; raise the limit of open files (ulimit -n)"
                AtLimit n -> "all " ++ show n ++ " connections that --max-connections allows are open"
        }
    observing cores upstreams routes = case serveStatus options of
      Nothing -> pure (Nothing, routes)
      Just status ->
        newObserver cores status upstreams routes
          >>= maybe (throwIO (CannotRoute (NotRouted (statusPrefix status) "it is to be the status and another route.\n  Give --status another prefix."))) (\(observer, all') -> pure (Just observer, all'))
    withRoutes runtime messages root body = do
      upstreams <- newRef []
      let watch pattern' figures = modifyRef upstreams (\others -> ((pattern', figures) : others, ()))
          with routes = readRef upstreams >>= \opened -> body (reverse opened) routes
      opened <- try (withGateways runtime (announce messages . Trouble . visible) watch (serveDirectory options) (hasFile (fileFollow (serveFiles options)) root) (serveProxy options) (ProgramRules (serveVariables options) (serveProgramLimit options) (serveProgramTime options)) (serveRoutes options) with)
      either (throwIO . CannotRoute) pure opened
    withLog runtime messages body = case serveAccessLog options of
      Nothing -> body Nothing
      Just path -> do
        place <- either (throwIO . CannotUseLog path) pure (parseLogTarget path)
        withAccessLog runtime (naming (CannotLog path)) (serveLogs options) place (announce messages . Trouble) (body . Just)
    withConsole runtime messages body = case serveConsole options of
      Nothing -> body Nothing
      Just format -> withAccessLog runtime id defaultLogOptions LogOutput (announce messages . Trouble) (body . Just . (,) format)
    openUsersOf messages = for (fileUsers (serveFiles options)) $ \path -> do
      name <- fileNameBytes path
      openUsers name (announce messages . Trouble) >>= either (throwIO . CannotUseUsers path) pure
    withCounts runtime messages body
      | serveActivity options = withActivity runtime (announce messages . Busy) (body . Just)
      | otherwise = body Nothing

-- | Serve by this many processes, each of one core, which the calling process starts as 'serveSuccessor' says and starts again
-- when they end. It opens the addresses, writes the process id, and passes signals on; it must be called from @main@'s thread,
-- with which the workers end.
--
-- [Blocks]: parks; holds an OS thread for each process.
-- [Throws]: 'ServeError' before serving begins.
serveByWorkers :: Int -> ServeOptions -> (ServeEvent -> IO ()) -> IO ()
serveByWorkers number options tell = do
  -- A socket for each worker.
  now <- getCapabilities
  unless (number == now) (setCapabilities number)
  for_ [sigPIPE, sigUSR1, sigUSR2] ignoreSignal
  inherited <- takeInherited
  case serveSuccessor options of
    Nothing -> throwIO (CannotStartWorkers "there is no program to start")
    Just (program, arguments) ->
      withoutAccepting (serveSpread options) inherited (serveListen options) $ \places ->
        withRuntime defaultConfig {configBackend = serveBackend options} $ \runtime -> withNotify runtime $ \channel -> withMessages runtime tell $ \messages -> do
          let urls = nub [listenUrl spec address | (spec, address, _) <- places]
              listeners = [(renderListen spec, fds) | (spec, _, fds) <- places]
              starting = startSuccessor runtime (seconds 60) program arguments
              supervision =
                Supervision
                  { superviseNumber = number,
                    superviseStart = \variables slot -> starting variables [(name, shareOf number slot fds) | (name, fds) <- listeners],
                    superviseSuccessor = starting (notifyVariables channel) listeners,
                    superviseTell = announce messages . Trouble
                  }
          maybe id (\path -> naming (CannotWritePid path) . withPidFile path) (servePidFile options) $
            supervise supervision (serveSecond options) (notifyReloading channel >> pure (notifyReady channel)) >>= \case
              Left why -> throwIO (CannotStartWorkers why)
              Right supervised -> do
                for_ (inheritedHandover inherited) announceReady
                notifyServing channel urls
                announceSoon messages (Serving urls number)
                end <- awaitEnd supervised
                for_ end $ \pid -> do
                  notifySuccessor channel pid
                  announce messages (Notice ("process " ++ show pid ++ " serves from now on"))
                notifyStopping channel
                endWorkers supervised
                announceSoon messages (Stopped 0)
                pure (isJust end, ())

-- One hook as it is; several ones after each other.
together :: [LogHook] -> Maybe LogHook
together = \case
  [] -> Nothing
  [hook] -> Just hook
  hooks -> Just (\request what status sent -> for_ hooks (\hook -> hook request what status sent))

-- The pages that options name must be there, or their mistake would show at the first error only.
checkPages :: ServeOptions -> [ByteString] -> Root -> Routes -> IO ()
checkPages options indexes root routes = do
  when (null (serveDirectory options)) $
    for_ ([("--error-page", path) | (_, path) <- fileErrorPages (serveFiles options)] ++ [("--spa", intercalate " or " (serveIndexes options)) | fileFallback (serveFiles options)]) $ \(option, path) ->
      throwIO (CannotUsePage option path "no directory is served")
  for_ (fileErrorPages (serveFiles options)) $ \(_, path) -> do
    when (isRouted (argumentBytes path)) (throwIO (CannotUsePage "--error-page" path "a route answers for it, so it is not a page"))
    look (argumentBytes path) >>= \e -> for_ e (throwIO . CannotUsePage "--error-page" path)
  when (fileFallback (serveFiles options)) $ do
    found <- traverse look indexes
    case sequence found of
      Just (e : _) -> throwIO (CannotUsePage "--spa" (intercalate " or " (serveIndexes options)) e)
      _ -> pure ()
  where
    look path = do
      now <- monotonicNow
      directory <- currentRoot root now
      r <- (if fileFollow (serveFiles options) then openFollowing directory path else openBeneath directory path readOnly)
      if r < 0 then pure (Just (describeErrno (Errno (negate r)))) else Nothing <$ closeFile (fromIntegral r)
    -- The text of a program is nobody's business.
    isRouted path = either (const False) (isJust . findRoute routes) (decodePath ("/" <> path))

-- How the connections of an address begin.
schemeOf :: Maybe Certificates -> ListenSpec -> IO Scheme
schemeOf certificates spec = case listenProtocol spec of
  Http -> pure ClearText
  Https -> maybe (throwIO (NoCertificateFor (renderListen spec))) (pure . openingOf) certificates

-- Connections of these peers begin with a header.
announcedBy :: [Network] -> Scheme -> Scheme
announcedBy [] scheme = scheme
announcedBy networks scheme = ProxiedFrom (\address -> any (isWithin (peerAddressOf address)) networks) scheme

-- What to do with handlers if requests without TLS are to be redirected: the port is that of the first
-- address with TLS.
redirection :: ServeOptions -> [(ListenSpec, Listener)] -> IO (Handler -> Handler)
redirection options places
  | serveRedirect options = case [p | (spec, listener) <- places, listenProtocol spec == Https, Just p <- [portOf (listenerAddress listener)]] of
    p : _ -> pure (redirectToHttps p)
    [] -> throwIO NothingToRedirectTo
  | otherwise = pure id
