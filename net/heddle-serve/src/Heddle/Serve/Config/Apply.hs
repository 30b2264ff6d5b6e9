{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Serve.Config.Apply
-- Description : From a configuration to what is served
-- Stability   : internal, exempt from the version policy
--
-- Adds the defaults, and finds what is wrong although each value alone is right: two hosts of one name, an address with TLS and no
-- certificate.
--
-- Cost: O(size of the configuration).
-- Owner: values.
module Heddle.Serve.Config.Apply
  ( optionsOf,
    ownSite,
    servedSites,
    Served (..),
    siteOf,
    statusOf,
    tlsOf,
    tlsConfigOf,
    pairsOf,
  )
where

import Control.Applicative ((<|>))
import Data.ByteString.Char8 qualified as C
import Data.Char (toLower)
import Data.List.NonEmpty (NonEmpty (..))
import Data.Map.Strict qualified as Map
import Data.Maybe (isJust, isNothing, maybeToList)
import Data.Text qualified as T
import Data.Text.Encoding (encodeUtf8)
import Heddle.Gateway.Proxy (Announce (..), Network, ProxySettings (..), defaultCheck)
import Heddle.Http (Header (..), Http2Limits (..), Limits (..), Pace (..), Settings (..), reasonPhrase, statusFor, statusForbidsContent)
import Heddle.Http qualified as Http
import Heddle.IO (Spread (..))
import Heddle.Prim.Clock (seconds)
import Heddle.Serve.Certificates (ServeTls (..))
import Heddle.Serve.Config.Codec (Written (..), mergeKeys, onCommandLine)
import Heddle.Serve.Config.Decode (inOrder)
import Heddle.Serve.Config.SiteGrammar
import Heddle.Serve.Config.Tree
import Heddle.Serve.Config.Types
import Heddle.Serve.FileOptions
import Heddle.Serve.Guard
import Heddle.Serve.HostName (HostPattern)
import Heddle.Serve.Listen
import Heddle.Serve.LogFilter (LogFilter (..))
import Heddle.Serve.LogOptions
import Heddle.Serve.LogSink (Rotation (..), noRotation)
import Heddle.Serve.Options
import Heddle.Serve.Routes
import Heddle.Serve.Site
import Heddle.Serve.Status (StatusOptions (..), defaultStatusOptions)
import Heddle.Tls (ClientCertificates (..), PemSource (..), TlsConfig (..), TlsPair (..), TlsTickets (..), defaultTlsConfig, pemFiles)

-- | A site as it is served: where it begins, its names, and what it says with what the top of the file says.
data Served = Served
  { servedAt :: !Position,
    servedNames :: ![Written HostPattern],
    -- | Each of its routes says how long bodies may be, if that is written anywhere.
    servedSite :: !SiteConfig
  }

-- | The site at the top, if it serves anything.
ownSite :: Config -> Maybe SiteConfig
ownSite config = if isJust (siteRoot site) || not (null (siteRouting site)) then Just site else Nothing
  where
    site = configSite config

-- | All sites, the one for unknown hosts first if the top of the file is one. A host does not inherit root and routes.
servedSites :: Position -> Config -> [Served]
servedSites at config = [Served at [] (limited Nothing site) | site <- maybeToList (ownSite config)] ++ map served (configHosts config)
  where
    served host = Served (writtenAt (hostAt host)) (hostNames host) (limited (hostMaxBody host) (mergeKeys siteKeys (hostSite host) (configSite config) {siteRoot = Nothing, siteRouting = []}))
    limited own site = site {siteRouting = [(prefix, if takesBodies route then route {routeMaxBody = routeMaxBody route <|> own <|> serverMaxBody (configServer config)} else route) | (prefix, route) <- siteRouting site]}

-- Whether what answers for a route gets the bodies of requests.
takesBodies :: RouteConfig -> Bool
takesBodies route = isJust (routeCgi route) || not (null (routeFastCgi route) && null (routeScgi route) && null (routeProxy route))

-- | The status, if there is to be one.
statusOf :: Config -> Maybe StatusOptions
statusOf config = statusOptionsOf watch <$> watchStatus watch
  where
    watch = configWatch config

statusOptionsOf :: WatchConfig -> Written RoutePattern -> StatusOptions
statusOptionsOf watch prefix
  | null (watchAllow watch) = timed
  | otherwise = timed {statusAllow = map meant (watchAllow watch)}
  where
    timed = (defaultStatusOptions (meant prefix)) {statusTimeline = meant <$> watchTimeline watch}

-- | Derive what to serve, or everything that is wrong with it. The place is for what is missing altogether.
optionsOf :: Position -> Config -> Either [Problem] ServeOptions
optionsOf at config = case sites of
  [] -> Left (Problem at "there is nothing to serve; give a directory (root), routes, or hosts" : problems)
  first : others
    | null problems ->
      Right
        defaults
          { serveSites = withConnections (opened first) :| map opened others,
            serveUnknown = unknown,
            serveListen = if null (serverListen server) then serveListen defaults else map meant (serverListen server),
            serveTls = tlsOf config,
            serveCores = meant <$> serverCores server,
            serveAccessLog = writtenText <$> logAccess logs,
            serveLogFormat = maybe (serveLogFormat defaults) meant (logShape logs),
            serveLogs = logOptionsOf logs,
            serveStatus = statusOf config,
            serveSlow = meant <$> watchSlow watch,
            serveRequestIds = isYes (watchRequestIds watch),
            serveTraces = meant <$> watchTraces watch,
            serveProxyProtocol = map meant (serverProxyProtocol server),
            serveDrain = maybe (serveDrain defaults) (seconds . meant) (serverDrainTime server),
            serveSpread = if isYes (serverOneAcceptor server) then OneAcceptor else PortPerCapability,
            serveBackend = maybe (serveBackend defaults) meant (serverBackend server),
            servePidFile = meant <$> serverPidFile server,
            serveUser = meant <$> serverUser server,
            serveSettings = settings
          }
    | otherwise -> Left problems
  where
    server = configServer config
    logs = configLogs config
    watch = configWatch config
    sites = servedSites at config
    defaults = defaultServeOptions "."
    settings = settingsOf server longestBodies (serveSettings defaults)
    longestBodies = [meant size | served <- sites, (_, route) <- siteRouting (servedSite served), Just size <- [routeMaxBody route]]
    opened = bodiesUpTo (maybe (limitBody (settingLimits (serveSettings defaults))) meant (serverMaxBody server)) (limitBody (settingLimits settings)) . siteOf (serverTrusted server)
    unknown = case configUnknown config of
      Just word | UnknownFirst <- meant word -> FirstSite
      Just _ -> Misdirected
      Nothing -> if null (concatMap servedNames (take 1 sites)) then FirstSite else Misdirected
    -- Their clients' names are not known when they are opened.
    withConnections one = one {siteGuard = (siteGuard one) {guardConnectionsMost = meant <$> serverPerClient server}}
    problems = inOrder $ concat [repeatedNames, nameless, unreachable, certificates, concatMap siteProblems sites]
    repeatedNames = [Problem (writtenAt name) ("the name '" ++ writtenText name ++ "' is given twice, first at " ++ renderPlace (writtenAt first)) | (first, name) <- repeats (concatMap servedNames sites)]
    nameless = [Problem (servedAt served) "the host has no names; give them by 'names', such as names: www.example.org" | served <- drop 1 sites, null (servedNames served)]
    unreachable = [Problem (writtenAt word) "'unknown-host' is 421, so nobody gets the site that has no names; leave out one of both" | Just word <- [configUnknown config], UnknownMisdirected <- [meant word], served <- take 1 sites, null (servedNames served)]
    -- What the command line lacks is reported when serving begins.
    certificates = [Problem (writtenAt address) ("there is no certificate for " ++ writtenText address ++ "; give tls-cert and tls-key, or tls-self-signed") | NoTls <- [tlsOf config], address <- serverListen server, listenProtocol (meant address) == Https, writtenAt address /= onCommandLine]
    siteProblems (Served from _ site) =
      [Problem from "the host has neither a root nor routes" | isNothing (siteRoot site), null (siteRouting site)]
        ++ [Problem (writtenAt word) "'redirect-https' needs an address to redirect to; listen on https://ADDR:PORT" | Just word <- [siteRedirectsHttps site], meant word, writtenAt word /= onCommandLine, null [() | address <- serverListen server, listenProtocol (meant address) == Https]]
        ++ [Problem (writtenAt prefix) "'try-files' needs a root" | isNothing (siteRoot site), (prefix, route) <- siteRouting site, not (null (routeTryFiles route))]
        -- On the command line several --proxy of a prefix mean several servers; another repetition is reported when routes are opened.
        ++ [Problem (writtenAt prefix) ("there are two routes for " ++ renderPattern (meant prefix) ++ ", the first at " ++ renderPlace (writtenAt first)) | (first, prefix) <- repeats (map fst (siteRouting site)), writtenAt prefix /= onCommandLine]

-- What means the same as something before it, with the first one.
repeats :: Ord a => [Written a] -> [(Written a, Written a)]
repeats = go Map.empty
  where
    go _ [] = []
    go seen (one : others) = case Map.lookup (meant one) seen of
      Just earlier -> (earlier, one) : go seen others
      Nothing -> go (Map.insert (meant one) one seen) others

isYes :: Maybe (Written Bool) -> Bool
isYes = maybe False meant

-- | The certificates of the file and of all hosts.
tlsOf :: Config -> ServeTls
tlsOf config
  | isYes (serverSelfSigned server) = TlsSelfSigned (tlsConfigOf policy [])
  | null pairs' = NoTls
  | otherwise = TlsOf (tlsConfigOf policy (map snd pairs'))
  where
    server = configServer config
    policy = serverTlsPolicy server
    pairs' = concatMap pairsOf (serverCertificates server : map hostCertificates (configHosts config))

-- | Each certificate with its key and OCSP response, and where it was written.
pairsOf :: CertificateConfig -> [(Position, TlsPair)]
pairsOf (CertificateConfig chains keys staples) = zipWith3 pair chains keys (map (Just . meant) staples ++ repeat Nothing)
  where
    pair chain key staple = (writtenAt chain, (pemFiles (meant chain) (meant key)) {pairStaple = staple})

-- | These certificates under this policy.
tlsConfigOf :: TlsPolicyConfig -> [TlsPair] -> TlsConfig
tlsConfigOf policy pairs =
  defaults
    { tlsClients = case policyClientCa policy of
        Nothing -> NoClientCertificates
        Just ca -> (if isYes (policyClientOptional policy) then WantClientCertificates else RequireClientCertificates) (PemFile (meant ca)),
      tlsLowest = maybe (tlsLowest defaults) meant (policyMinimum policy),
      tlsTickets = maybe (tlsTickets defaults) (TicketSecretFile . meant) (policyTicketSecret policy),
      tlsKernel = not (isYes (policyNoKernel policy))
    }
  where
    defaults = defaultTlsConfig pairs

-- The second is the longest of all, which the engine takes. What is not written is limited by the first.
bodiesUpTo :: Int -> Int -> Site -> Site
bodiesUpTo usual longest site = site {siteBodyLimits = [limit | limit@(_, n) <- written ++ [(specPattern spec, usual) | spec <- siteRoutes site, specPattern spec `notElem` map fst written], n < longest]}
  where
    written = siteBodyLimits site

-- With the limits of routes: nothing longer than the longest of all is received.
settingsOf :: ServerConfig -> [Int] -> Settings -> Settings
settingsOf server bodies settings =
  settings
    { settingIdle = time (settingIdle settings) (timeOutIdle times <|> serverIdle server),
      settingHead = time (settingHead settings) (timeOutHead times),
      settingBodyPace = pace (settingBodyPace settings) (timeOutBody times),
      settingReplyPace = pace (settingReplyPace settings) (timeOutReply times),
      settingConnections = meant <$> serverConnections server,
      settingStrictTransport = foldMap (\n -> "max-age=" <> C.pack (show (meant n))) (serverHsts server),
      settingLimits =
        limits
          { limitBody = maximum (maybe (limitBody limits) meant (serverMaxBody server) : bodies),
            limitHeadBytes = headBytes,
            limitTarget = maybe (limitTarget limits) meant (serverMaxTarget server)
          },
      -- Each field counts with 32 bytes more.
      settingHttp2Limits = http2 {http2HeaderList = max (http2HeaderList http2) (2 * headBytes)}
    }
  where
    limits = settingLimits settings
    http2 = settingHttp2Limits settings
    headBytes = maybe (limitHeadBytes limits) meant (serverMaxHead server)
    times = serverTimeOuts server
    time standard = maybe standard (seconds . meant)
    pace standard = maybe standard (\n -> standard {paceGrace = seconds (meant n)})

logOptionsOf :: LogConfig -> LogOptions
logOptionsOf logs =
  LogOptions
    { logFilter = LogFilter (concatMap meant (logOnly logs)) (map meant (logSkip logs)) (maybe 1 meant (logSample logs)),
      logRotation = Rotation (meant <$> logRotate logs) (maybe (rotateKeep noRotation) meant (logKeep logs)),
      logFull = maybe (logFull defaultLogOptions) meant (logWhenFull logs),
      logErrors = meant <$> logError logs,
      logErrorLevel = maybe (logErrorLevel defaultLogOptions) meant (logLevel logs)
    }

-- | A site for serving. Peers in these networks are believed.
siteOf :: [Written Network] -> Served -> Site
siteOf trusted (Served _ names site) =
  standard
    { siteNames = map meant names,
      siteRoutes = routesOf site,
      siteBodyLimits = [(meant prefix, meant size) | (prefix, route) <- siteRouting site, Just size <- [routeMaxBody route]],
      siteRouteOrder = maybe (siteRouteOrder standard) meant (siteOrder site),
      siteProxy = proxyOf (siteProxy standard),
      siteVariables = map meant (siteProgramEnv site),
      siteProgramLimit = maybe (siteProgramLimit standard) meant (siteProgramMost site),
      siteFastCgiKeep = maybe (siteFastCgiKeep standard) meant (siteFastCgiKept site),
      siteProgramTime = maybe (siteProgramTime standard) (seconds . meant) (siteProgramSeconds site),
      siteRedirectHttps = isYes (siteRedirectsHttps site),
      siteIndexes = if null (siteIndex site) then siteIndexes standard else map meant (siteIndex site),
      siteHidden = isYes (siteDotted site),
      siteFiles = sitesFiles site,
      siteGuard = GuardOptions (concatMap rulesOf (siteAccess site)) (meant <$> siteRate site) Nothing
    }
  where
    standard = defaultSite (meant <$> siteRoot site)
    rulesOf (AccessConfig allow deny) = [Allow (concatMap meant allow) | not (null allow)] ++ [Deny (concatMap meant deny) | not (null deny)]
    proxyOf settings =
      settings
        { proxyTrusted = map meant trusted,
          proxyAnswer = maybe (proxyAnswer settings) (seconds . meant) (siteProxyTimeout site),
          proxyPace = maybe (proxyPace settings) (\n -> (proxyPace settings) {paceGrace = seconds (meant n)}) (siteProxyTimeout site),
          -- To wait for a connection is to wait for the answer.
          proxyQueue = maybe (proxyQueue settings) (seconds . meant) (siteProxyTimeout site),
          proxyConnections = meant <$> siteProxyConnections site,
          proxyIdle = maybe (proxyIdle settings) (seconds . meant) (siteProxyIdle site),
          proxyBalance = maybe (proxyBalance settings) meant (siteBalance site),
          proxyCheck = defaultCheck . meant <$> siteCheck site,
          proxyAnnounce = maybe NoAnnouncement meant (siteAnnounce site)
        }

-- | Derive how a site's files are served.
sitesFiles :: SiteConfig -> FileOptions
sitesFiles site =
  defaultFileOptions
    { fileHeaderRules =
        (if isYes (siteSecurity site) then securityRules else [])
          ++ [HeaderRule NoErrors (meant glob) (meant header) | (glob, header) <- siteCaches site]
          ++ [HeaderRule AllReplies (meant glob) (meant header) | (glob, headers) <- siteHeaders site, header <- headers],
      fileOrigins = map meant (siteCors site),
      fileMedia = map meant (siteMedia site),
      fileFallback = isYes (siteSpa site),
      fileErrorPages = map meant (siteErrorPages site),
      fileListings = isYes (siteAutoindex site),
      fileCompression = maybe CompressionOff meant (siteCompression site),
      fileTag = maybe TagOfAll meant (siteTag site),
      fileFollow = isYes (siteFollow site),
      fileUsers = meant <$> siteUsers site
    }

-- | A site's routes. Those of one prefix may be several if they are the command line's.
routesOf :: SiteConfig -> [RouteSpec]
routesOf site = [RouteSpec (meant prefix) target | (prefix, route) <- siteRouting site, target <- targetsOf route]

-- A route has one; see the grammar.
targetsOf :: RouteConfig -> [RouteTarget]
targetsOf route =
  concat
    [ [FilesIn (meant directory) | Just directory <- [routeFiles route]],
      [CgiDirectory (meant directory) | Just directory <- [routeCgi route]],
      [FastCgiServers (map meant servers) | servers@(_ : _) <- [routeFastCgi route]],
      [ScgiServers (map meant servers) | servers@(_ : _) <- [routeScgi route]],
      [ProxyTo (concat [servers | ProxyTo servers <- map meant given]) | given@(_ : _) <- [routeProxy route]],
      [RedirectTo (maybe Http.status302 (statusFor . meant) (routeStatus route)) (meant target) | Just target <- [routeRedirect route]],
      [RespondWith status (typed (map meant (routeReplyHeaders route))) (body status) | Just code <- [routeRespond route], let status = statusFor (meant code)],
      [RewriteTo (meant target) | Just target <- [routeRewrite route]],
      [TryFiles (map meant paths) (maybe (TryStatus Http.status404) (either (TryStatus . statusFor) TryPath . meant) (routeElse route)) | paths@(_ : _) <- [routeTryFiles route]]
    ]
  where
    body status
      | statusForbidsContent status || status == Http.status205 = ""
      | otherwise = maybe (reasonPhrase status <> "\n") (encodeUtf8 . T.pack . meant) (routeBody route)
    typed headers
      | any (\(Header name _) -> C.map toLower name == "content-type") headers = headers
      | otherwise = Header "Content-Type" "text/plain; charset=utf-8" : headers
