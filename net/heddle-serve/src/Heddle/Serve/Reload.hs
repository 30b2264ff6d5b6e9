-- |
-- Module      : Heddle.Serve.Reload
-- Description : Serving a new configuration without stopping
-- Stability   : internal, exempt from the version policy
--
-- Everything that a new configuration needs is opened beside what is served: certificates, listeners, sites. If all of that
-- succeeds, new requests get it from one moment on; otherwise it is closed again and nothing has changed. Listeners that both
-- configurations have stay open, so no connection is refused meanwhile.
--
-- Cost: that of starting, but for the listeners that stay.
-- Owner: the thread that reloads, one at a time.
module Heddle.Serve.Reload
  ( Reloading (..),
    ReloadState,
    newReloading,
    reloadOnce,
    reloadingPlaces,

    -- * Also when serving begins
    schemeOf,
    announcedBy,
    securePort,
  )
where

import Control.Monad (unless)
import Data.Foldable (for_, traverse_)
import Data.List (intercalate)
import Data.List.NonEmpty qualified as NonEmpty
import Data.Maybe (fromMaybe, listToMaybe)
import Data.Traversable (for)
import Heddle.Gateway.Proxy (Network, isWithin, peerAddressOf)
import Heddle.Http
import Heddle.IO (Listener, Runtime, Spread, closeListener, listenerAddress)
import Heddle.Prim.Atomic (Ref, newRef, readRef, writeRef)
import Heddle.Prim.Exception
import Heddle.Prim.WaitCell
import Heddle.Serve.Certificates
import Heddle.Serve.Error
import Heddle.Serve.Generations
import Heddle.Serve.Guard (guardConnectionsMost)
import Heddle.Serve.Held
import Heddle.Serve.Inherited (Inherited (..))
import Heddle.Serve.Listen
import Heddle.Serve.Listeners
import Heddle.Serve.Options
import Heddle.Serve.Site (siteGuard)
import Heddle.Serve.Sites
import Heddle.Tls (TlsConfig (..))

-- | What a reload works on.
data Reloading = Reloading
  { reloadingRuntime :: !Runtime,
    reloadingHolder :: !Holder,
    reloadingServer :: !Server,
    reloadingCertificates :: !Certificates,
    reloadingGenerations :: !Generations,
    -- | What sites are opened with, for a port with TLS.
    reloadingContext :: !(Maybe (IO Int) -> SitesContext),
    -- | Is called right before new requests are answered by other sites.
    reloadingPublish :: !(OpenSites -> IO ()),
    -- | Hears of what has changed, and with 'Left' of what could not.
    reloadingTell :: !(Either String String -> IO ())
  }

-- | With the options that serving began with, those in use, and the listeners with what closes them.
data ReloadState = ReloadState !Reloading !ServeOptions !(Ref ServeOptions) !(Ref [(ListenSpec, Listener, IO ())])

-- | Before the first reload.
newReloading :: Reloading -> ServeOptions -> [(ListenSpec, Listener)] -> IO ReloadState
newReloading reloading options places = ReloadState reloading options <$> newRef options <*> newRef [(spec, l, closeListener l) | (spec, l) <- places]

-- | The listeners in use.
reloadingPlaces :: ReloadState -> IO [(ListenSpec, Listener)]
reloadingPlaces (ReloadState _ _ _ places) = map (\(spec, l, _) -> (spec, l)) <$> readRef places

-- | Read the configuration and serve it, or say why not.
--
-- [Blocks]: parks; holds an OS thread while it opens files.
-- [Throws]: never for what is wrong with the configuration.
reloadOnce :: ReloadState -> IO ()
reloadOnce state@(ReloadState reloading started current _) = do
  old <- readRef current
  read' <- trySync (fromMaybe (pure (Right old)) (serveReload old))
  case either (Left . describeException) id read' of
    Left why -> refused why
    Right new ->
      try (apply state new) >>= \case
        Right () -> do
          writeRef current new {serveReload = serveReload old}
          reloadingTell reloading (Right ("the configuration has been loaded again" ++ later (fixedChanges started new)))
        Left (e :: ServeError) -> refused (displayException e)
  where
    refused why = reloadingTell reloading (Left ("the configuration cannot be used, and the old one stays: " ++ why))
    later = \case
      [] -> ""
      names -> "; a restart or SIGUSR2 is needed for " ++ intercalate ", " names

apply :: ReloadState -> ServeOptions -> IO ()
apply (ReloadState reloading _ _ current) new = do
  before <- readRef current
  takeCertificates <- prepareCertificates certificates (serveTls new) (serveListen new) (reloadingTell reloading) >>= either (throwIO . CannotUse) pure
  for_ (serveListen new) $ \spec ->
    if listenProtocol spec == Https && serveTls new == NoTls then throwIO (NoCertificateFor (renderListen spec)) else pure ()
  let wanted = map renderListen (serveListen new)
      known = [renderListen spec | (spec, _, _) <- before]
      (stay, go) = splitBy (\(spec, _, _) -> renderListen spec `elem` wanted) before
  opened <- openAll [spec | spec <- serveListen new, renderListen spec `notElem` known]
  let places = stay ++ opened
      closeOpened = traverse_ (\(_, _, close) -> close) opened
      context = reloadingContext reloading (pure <$> securePort [(spec, l) | (spec, l, _) <- places])
  replaced <- replaceGeneration (reloadingGenerations reloading) (withSites context (serveUnknown new) (serveSites new)) (\sites -> takeCertificates >> reloadingPublish reloading sites) `onException` closeOpened
  either (\e -> closeOpened >> throwIO e) pure replaced
  writeRef current places
  schemes <- for opened $ \(spec, l, _) -> (,) l . announcedBy (serveProxyProtocol new) <$> schemeOf certificates spec
  unless (null schemes) (serveAlso (reloadingServer reloading) schemes)
  traverse_ (\(_, _, close) -> close) go
  where
    certificates = reloadingCertificates reloading
    splitBy p xs = (filter p xs, filter (not . p) xs)
    -- Those that could be opened are closed if another one cannot.
    openAll = go []
      where
        go done [] = pure (concat (reverse done))
        go done (spec : rest) =
          openListeners reloading (serveSpread new) spec >>= \case
            Left e -> traverse_ (\(_, _, close) -> close) (concat done) >> throwIO e
            Right more -> go (more : done) rest

-- The listeners of an address, in a thread that closes them in the end.
openListeners :: Reloading -> Spread -> ListenSpec -> IO (Either SomeException [(ListenSpec, Listener, IO ())])
openListeners reloading spread spec =
  holdOpen (reloadingHolder reloading) ("serve/listeners/" ++ renderListen spec) $ \publish ->
    withListeners (reloadingRuntime reloading) spread (Inherited Nothing []) False [spec] $ \places -> do
      over <- newWaitCell
      publish [(place, l, closeListener l >> unpark over) | (place, l) <- places]
      park over

-- What a reload does not change, if it is not as it was when serving began.
fixedChanges :: ServeOptions -> ServeOptions -> [String]
fixedChanges old new =
  [ name
    | (name, changed) <-
        [ ("cores", serveCores old /= serveCores new),
          ("the back end", serveBackend old /= serveBackend new),
          ("the access log", serveAccessLog old /= serveAccessLog new || serveLogFormat old /= serveLogFormat new || serveLogs old /= serveLogs new),
          ("the user", serveUser old /= serveUser new),
          ("the file for the process id", servePidFile old /= servePidFile new),
          ("the limit of connections of each client", connections old /= connections new),
          ("the status", serveStatus old /= serveStatus new),
          ("slow requests", serveSlow old /= serveSlow new),
          ("the ids of requests", serveRequestIds old /= serveRequestIds new || serveTraces old /= serveTraces new),
          ("the PROXY protocol on addresses that stay", serveProxyProtocol old /= serveProxyProtocol new),
          ("the proxies that logs and ids believe", serveTrusted old /= serveTrusted new),
          ("the time to drain", serveDrain old /= serveDrain new),
          ("what is shown on the terminal", serveConsole old /= serveConsole new || serveActivity old /= serveActivity new),
          ("the secret of session tickets", or ((/=) <$> tickets (serveTls old) <*> tickets (serveTls new))),
          ("limits and time-outs", limits (serveSettings old) /= limits (serveSettings new))
        ],
      changed
  ]
  where
    connections = guardConnectionsMost . siteGuard . NonEmpty.head . serveSites
    tickets = \case
      NoTls -> Nothing
      TlsOf config -> Just (tlsTickets config)
      TlsSelfSigned config -> Just (tlsTickets config)
    limits s = (settingLimits s, settingServerName s, settingStrictTransport s, (settingIdle s, settingHead s, settingBodyPace s, settingReplyPace s, settingConnections s))

-- | The port of the first address with TLS.
securePort :: [(ListenSpec, Listener)] -> Maybe Int
securePort places = listToMaybe [p | (spec, listener) <- places, listenProtocol spec == Https, Just p <- [portOf (listenerAddress listener)]]

-- | Tell how the connections of an address begin.
--
-- [Throws]: 'NoCertificateFor'.
schemeOf :: Certificates -> ListenSpec -> IO Scheme
schemeOf certificates spec = case listenProtocol spec of
  Http -> pure ClearText
  Https -> openingOf certificates >>= maybe (throwIO (NoCertificateFor (renderListen spec))) pure

-- | Connections of these peers begin with a header.
announcedBy :: [Network] -> Scheme -> Scheme
announcedBy [] scheme = scheme
announcedBy networks scheme = ProxiedFrom (\address -> any (isWithin (peerAddressOf address)) networks) scheme
