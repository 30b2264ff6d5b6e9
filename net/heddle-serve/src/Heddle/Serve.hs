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
    module Heddle.Serve.Options,
    ServeTls (..),
    certificateFiles,
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

    -- * Sites
    module Heddle.Serve.Site,
    HostPattern (..),
    parseHost,
    renderHost,

    -- * Files
    module Heddle.Serve.FileOptions,

    -- * Routes
    RouteSpec (..),
    RouteTarget (..),
    TryLast (..),
    RoutePattern (..),
    parseRoute,
    parsePattern,
    renderPattern,
    servesAll,
    parseUpstreams,
    TargetTemplate,
    parseTarget,
    renderTarget,
    targetVariables,

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
    Recorder,
    TimelineForm (..),
    Recording (..),

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

import Control.Monad (forever, guard, unless, when)
import Data.Char (isControl)
import Data.Foldable (for_)
import Data.List (nub)
import Data.Maybe (catMaybes, isJust)
import Data.Traversable (for)
import Heddle.Http
import Heddle.IO (Config (..), Shortage (..), defaultConfig, handOverListener, listenerAddress, withRuntime)
import Heddle.Prim.Atomic (atomicRead, fetchAdd, newWords, readWord, writeWord)
import Heddle.Prim.Clock
import Heddle.Prim.Errno
import Heddle.Prim.Exception
import Heddle.Prim.Thread (getCapabilities, getProcessors, labelMe, setCapabilities)
import Heddle.Prim.WaitCell
import Heddle.Scope (withTask)
import Heddle.Serve.AccessLog
import Heddle.Serve.Activity
import Heddle.Serve.Certificates
import Heddle.Serve.DescriptorReserve (withDescriptorReserve)
import Heddle.Serve.Error
import Heddle.Serve.ErrorLog
import Heddle.Serve.FileOptions
import Heddle.Serve.Forward (parseUpstreams)
import Heddle.Serve.Gathering
import Heddle.Serve.Generations
import Heddle.Serve.Glob (Glob, parseGlob)
import Heddle.Serve.Guard
import Heddle.Serve.Held (withHolder)
import Heddle.Serve.HostName (HostPattern (..), parseHost, renderHost)
import Heddle.Serve.Identity
import Heddle.Serve.Inherited
import Heddle.Serve.Judge
import Heddle.Serve.Keeper
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
import Heddle.Serve.Options
import Heddle.Serve.Password (hashPassword, longestPassword)
import Heddle.Serve.Process
import Heddle.Serve.Reload
import Heddle.Serve.Routes
import Heddle.Serve.Shared (newShared)
import Heddle.Serve.Signal
import Heddle.Serve.Signals (handleSignals)
import Heddle.Serve.Site
import Heddle.Serve.Sites
import Heddle.Serve.Status
import Heddle.Serve.Successor
import Heddle.Serve.Supervisor
import Heddle.Serve.TargetTemplate (TargetTemplate, parseTarget, renderTarget, targetVariables)
import Heddle.Serve.TicketSecret
import Heddle.Serve.Timeline (Recorder, Recording (..), TimelineForm (..))
import System.Posix.Signals (signalProcess)

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

-- | Grade how much an event matters to an operator; 'Nothing' for one that is no message.
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
  tickets <- takeTicketBytes
  keeper <- takeKeeper
  worker <- takeSupervisor
  for_ worker (const leaveGroup)
  withDescriptorReserve $ \reserve -> withRuntime defaultConfig {configBackend = serveBackend options} $ \runtime ->
    withNotify runtime $ \channel -> withErrors $ \errors -> withMessages runtime (\event -> notifyOf channel event >> for_ errors (toErrorLog event) >> tell event) $ \messages ->
      withLog runtime messages $ \accessLog -> withConsole runtime messages $ \console -> withCounts runtime messages $ \counts ->
        withCertificates runtime (openByKeeper keeper) tickets (serveTls options) (serveListen options) (tellOfCertificates messages) $ \loaded -> do
          certificates <- either (throwIO . CannotUse) pure loaded
          shared <- newShared
          withHolder (announce messages . Trouble) $ \holder -> do
            observer <- traverse (newObserver cores (serveRecorder options)) (serveStatus options)
            membership <- (\o m -> (,) <$> o <*> m) observer <$> takeMembership runtime
            for_ membership $ \(o, m) -> observeTogether o (askAll m)
            secured <- newWords 1
            let context port = SitesContext runtime reserve (announce messages . Trouble . visible) (settingServerName (serveSettings options)) port observer shared
                observe opened = for_ observer (\o -> sitesView opened >>= mapM_ (observeSites o))
            -- Whatever can be wrong is looked at before the addresses are taken: a taken address would hide the mistake, and clients
            -- would connect to a server that ends.
            checkUser options
            for_ (serveListen options) (schemeOf certificates)
            (sites, generations) <- newGenerations holder cores (withSites (context (readWord secured 0 <$ guard (expectsSecurePort (serveListen options)))) (serveUnknown options) (serveSites options))
            observe sites
            withListeners runtime (serveSpread options) inherited (isJust worker) (serveListen options) $ \places -> do
              schemes <- for places $ \(spec, listener) -> (,) listener . announcedBy (serveProxyProtocol options) <$> schemeOf certificates spec
              case securePort places of
                Just port -> writeWord secured 0 port
                Nothing -> when (any siteRedirectHttps (serveSites options)) (throwIO NothingToRedirectTo)
              let metrics = observerMetrics <$> observer
                  connections = sitesConnections sites
                  settings = (settingsWith messages) {settingOpened = maybe connections (\m -> Just (countingConnections m connections)) metrics}
                  slow longest = slowHook longest (announce messages . Trouble . visible) (openLabelled <$> currentSites generations)
                  make capability = do
                    logHook <- traverse (\log' -> accessLogHook log' trusted (serveLogFormat options) capability) accessLog
                    consoleHook <- traverse (\(format, log') -> accessLogHook log' trusted format capability) console
                    let hooks = catMaybes [logHook, consoleHook, (`activityHook` capability) <$> counts, (`metricsHook` capability) <$> metrics, slow <$> serveSlow options]
                    identities <- newIdentities (IdentityOptions (serveRequestIds options) (serveTraces options) trusted)
                    let named :: (Identities -> a -> a) -> a -> a
                        named with = maybe id with identities
                    pure (Handlers (named identified (generationHandler generations)) (Just (named identifiedAtOnce (generationAtOnce generations))) (together hooks))
              for_ (serveUser options) $ \user -> do
                naming (CannotBecome (renderUser user) . describeErrno) (startKeeper keeper (certificateFiles (serveTls options)))
                becomeUser user >>= either (throwIO . CannotBecome (renderUser user)) pure
              -- After that, for a change of rights forgets it.
              for_ worker followSupervisor
              withServerOn runtime settings make schemes $ \http -> do
                stop <- newWaitCell
                upgrade <- newWaitCell
                hangUp <- newWaitCell
                -- How often each of these signals came.
                came <- newWords 2
                reloading <-
                  newReloading
                    Reloading
                      { reloadingRuntime = runtime,
                        reloadingHolder = holder,
                        reloadingServer = http,
                        reloadingCertificates = certificates,
                        reloadingGenerations = generations,
                        reloadingContext = context,
                        reloadingPublish = observe,
                        reloadingTell = announce messages . either Trouble Notice
                      }
                    options
                    places
                let reopen' = do
                      for_ accessLog reopen
                      for_ errors reopenErrors
                    onReopen = notifyReloading channel >> reopen' >> reload certificates (tellOfCertificates messages) >> notifyReady channel
                    -- One at a time; signals that come meanwhile are one more.
                    reloads = forever $ do
                      park hangUp
                      _ <- reset hangUp
                      notifyReloading channel
                      reopen'
                      r <- trySync (reloadOnce reloading)
                      for_ (either (Just . describeException) (const Nothing) r) (announce messages . Trouble . ("the reload failed: " ++))
                      notifyReady channel
                    atSecond = cutShort http >> for_ accessLog abandon >> for_ console (abandon . snd) >> serveSecond options
                    -- One at a time, and none after the stop, which ends a successor that does not serve yet. It runs masked: one that
                    -- has been heard gets the listeners.
                    succession = for_ (serveSuccessor options) $ \(program, arguments) ->
                      let go = do
                            park upgrade
                            here <- reloadingPlaces reloading
                            let signalled = (,) <$> atomicRead came 0 <*> atomicRead came 1
                            (hangUps, reopens) <- signalled
                            keys <- (,) <$> keeperVariables keeper <*> keeperDescriptors keeper
                            started <- trySync (startSuccessor runtime (seconds 60) program arguments (notifyVariables channel ++ fst keys) (snd keys) (handedOver here))
                            case either (Left . describeException) id started of
                              Left why -> do
                                announce messages (Trouble ("the successor does not serve, so this process goes on: " ++ why))
                                _ <- reset upgrade
                                go
                              Right pid -> do
                                for_ here (handOverListener . snd)
                                -- It may have read its files before these signals.
                                (hangUps', reopens') <- signalled
                                for_ ([sigUSR1 | reopens' /= reopens] ++ [sigHUP | hangUps' /= hangUps]) $ \signal ->
                                  trySync (signalProcess signal (fromIntegral pid))
                                notifySuccessor channel pid
                                announce messages (Notice ("process " ++ show pid ++ " serves from now on"))
                                unpark stop
                       in go
                handleSignals (unpark stop) atSecond (fetchAdd came 1 1 >> onReopen) (fetchAdd came 0 1 >> unpark hangUp) (unpark upgrade)
                unless (null (inheritedSockets inherited) || or [True | ListenInherited _ <- map (listenPlace . fst) places]) $
                  announce messages (Trouble "systemd has passed sockets, and nobody accepts from them; use --listen systemd")
                -- Signals may come from now on.
                maybe id withPid (servePidFile options) $ do
                  for_ (inheritedHandover inherited) announceReady
                  for_ observer (`observeServing` Sources (connectionsOpen http) certificates)
                  announceSoon messages (Serving (nub [listenUrl spec (listenerAddress l) | (spec, l) <- places]) cores)
                  let answers = for_ membership $ \(o, m) -> answerQuestions m (ownFigures o)
                  withTask (labelMe "serve/figures" >> answers) $ \_ ->
                    withTask (labelMe "serve/successor" >> mask_ succession) $ \_ ->
                      withTask (labelMe "serve/reload" >> reloads) (const (park stop))
                  for_ observer observeStopping
                  open <- connectionsOpen http
                  announceSoon messages (Draining open)
                  deadline <- deadlineIn (serveDrain options)
                  _ <- drainUntil http deadline
                  left <- connectionsOpen http
                  announceSoon messages (Stopped left)
  where
    trusted = serveTrusted options
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
        { settingFailed = \request e -> announce messages (Failure (maybe "a connection failed: " (\r -> "a request failed: " ++ describeFailedRequest r ++ ": ") request ++ visible (describeException e))),
          settingPaused = \e -> announce messages (Trouble ("accepting pauses: " ++ describeErrno e ++ ", and no connection is idle; raise the limit of open files (ulimit -n)")),
          settingCrowded = \shortage ->
            announce messages . Trouble $
              "idle connections are closed to make room for new ones: " ++ case shortage of
                NoDescriptors e -> describeErrno e ++ "; raise the limit of open files (ulimit -n)"
                AtLimit n -> "all " ++ show n ++ " connections that --max-connections allows are open"
        }
    withLog runtime messages body = case serveAccessLog options of
      Nothing -> body Nothing
      Just path -> do
        place <- either (throwIO . CannotUseLog path) pure (parseLogTarget path)
        withAccessLog runtime (naming (CannotLog path)) (serveLogs options) place (announce messages . Trouble) (body . Just)
    withConsole runtime messages body = case serveConsole options of
      Nothing -> body Nothing
      Just format -> withOrderedLog runtime id defaultLogOptions LogOutput (announce messages . Trouble) (body . Just . (,) format)
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
  -- The workers open them themselves, after the addresses. What is wrong is said before those are taken, and once.
  checkUser options
  checkSites options
  withTicketSecret $ \tickets -> case serveSuccessor options of
    Nothing -> throwIO (CannotStartWorkers "there is no program to start")
    Just (program, arguments) ->
      withoutAccepting (serveSpread options) inherited (serveListen options) $ \places ->
        withRuntime defaultConfig {configBackend = serveBackend options} $ \runtime -> withNotify runtime $ \channel -> withMessages runtime tell $ \messages -> do
          let urls = nub [listenUrl spec address | (spec, address, _) <- places]
              listeners = [(renderListen spec, fds) | (spec, _, fds) <- places]
              starting variables fds = startSuccessor runtime (seconds 60) program arguments (ticketVariables tickets ++ variables) (ticketDescriptors tickets ++ fds)
          gathering <- for (serveStatus options) (const (newGathering runtime (announce messages . Trouble)))
          let worker variables slot more fds = starting (more ++ variables) fds [(name, shareOf number slot sockets) | (name, sockets) <- listeners]
              supervision =
                Supervision
                  { superviseNumber = number,
                    superviseStart = \variables slot -> maybe (worker variables slot [] []) (\g -> startMember g slot (worker variables slot)) gathering,
                    superviseSuccessor = starting (notifyVariables channel) [] listeners,
                    superviseTell = announce messages . Trouble
                  }
          supervise supervision (serveSecond options) (notifyReloading channel >> pure (notifyReady channel)) >>= \case
            Left why -> throwIO (CannotStartWorkers why)
            -- Not before all serve: a successor whose workers cannot must leave the file to the process that goes on.
            Right supervised ->
              maybe id (\path -> naming (CannotWritePid path) . withPidFile path) (servePidFile options) $ do
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

-- That there is the user to serve as.
checkUser :: ServeOptions -> IO ()
checkUser options = for_ (serveUser options) $ \user -> lookUpUser user >>= either (throwIO . CannotBecome (renderUser user)) (const (pure ()))

-- One hook as it is; several ones after each other.
together :: [LogHook] -> Maybe LogHook
together = \case
  [] -> Nothing
  [hook] -> Just hook
  hooks -> Just (\request what status sent -> for_ hooks (\hook -> hook request what status sent))
