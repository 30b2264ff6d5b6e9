-- |
-- Module      : Heddle.Serve.Config.Types
-- Description : A configuration as it was written
-- Stability   : internal, exempt from the version policy
--
-- What files and the command line say, before defaults. Each value knows its place, for messages and for @--explain@. Keys and their
-- meanings are in "Heddle.Serve.Config.Grammar".
--
-- Cost: none; values.
-- Owner: values.
module Heddle.Serve.Config.Types
  ( Config (..),
    emptyConfig,
    ServerConfig (..),
    CertificateConfig (..),
    noCertificates,
    TlsPolicyConfig (..),
    noTlsPolicy,
    TimeOutConfig (..),
    LogConfig (..),
    WatchConfig (..),
    SiteConfig (..),
    emptySite,
    HostConfig (..),
    RouteConfig (..),
    emptyRoute,
    SandboxMode (..),
    ConsoleLog (..),
    AccessConfig (..),
    UnknownHost (..),
  )
where

import Data.ByteString (ByteString)
import Heddle.Gateway.Proxy (Announce, Balance, Network)
import Heddle.Http (Header)
import Heddle.IO (BackendChoice)
import Heddle.Prim.Clock (Nanos)
import Heddle.Serve.Config.Codec (Written)
import Heddle.Serve.FileOptions (Compression, TagParts)
import Heddle.Serve.Glob (Glob)
import Heddle.Serve.Guard (RateLimit)
import Heddle.Serve.HostName (HostPattern)
import Heddle.Serve.Listen (ListenPlace, ListenSpec)
import Heddle.Serve.LogFormat (LogFormat)
import Heddle.Serve.LogOptions (WhenFull)
import Heddle.Serve.LogSink (RotateAt)
import Heddle.Serve.LogTarget (LogTarget, Severity)
import Heddle.Serve.Process (UserSpec)
import Heddle.Serve.Routes (RouteOrder, RoutePattern, RouteTarget)
import Heddle.Serve.TargetTemplate (TargetTemplate)
import Heddle.Tls (TlsVersion)

-- | All of it.
data Config = Config
  { configServer :: !ServerConfig,
    configLogs :: !LogConfig,
    configWatch :: !WatchConfig,
    -- | The site of names that no host has, if it has a root or routes; and what hosts do not say themselves.
    configSite :: !SiteConfig,
    configUnknown :: !(Maybe (Written UnknownHost)),
    configHosts :: ![HostConfig]
  }
  deriving stock (Eq, Show)

-- | The process, its addresses and connections.
data ServerConfig = ServerConfig
  { serverListen :: ![Written ListenSpec],
    serverProxyProtocol :: ![Written Network],
    serverCertificates :: !CertificateConfig,
    serverSelfSigned :: !(Maybe (Written Bool)),
    serverTlsPolicy :: !TlsPolicyConfig,
    serverHsts :: !(Maybe (Written Int)),
    serverTrusted :: ![Written Network],
    serverCores :: !(Maybe (Written Int)),
    serverProcesses :: !(Maybe (Written Int)),
    serverOneAcceptor :: !(Maybe (Written Bool)),
    serverBackend :: !(Maybe (Written BackendChoice)),
    serverUser :: !(Maybe (Written UserSpec)),
    serverPidFile :: !(Maybe (Written FilePath)),
    serverDrainTime :: !(Maybe (Written Int)),
    serverIdle :: !(Maybe (Written Int)),
    serverTimeOuts :: !TimeOutConfig,
    serverMaxBody :: !(Maybe (Written Int)),
    serverMaxHead :: !(Maybe (Written Int)),
    serverMaxTarget :: !(Maybe (Written Int)),
    serverConnections :: !(Maybe (Written Int)),
    serverPerClient :: !(Maybe (Written Int)),
    serverSandbox :: !(Maybe (Written SandboxMode)),
    serverSandboxRead :: ![Written FilePath],
    serverSandboxWrite :: ![Written FilePath]
  }
  deriving stock (Eq, Show)

-- | Files of certificates, and those of their keys and OCSP responses in the same order.
data CertificateConfig = CertificateConfig
  { certificateChains :: ![Written FilePath],
    certificateKeys :: ![Written FilePath],
    -- | There may be fewer.
    certificateStaples :: ![Written FilePath]
  }
  deriving stock (Eq, Show)

-- | What all addresses with TLS ask of clients.
data TlsPolicyConfig = TlsPolicyConfig
  { policyClientCa :: !(Maybe (Written FilePath)),
    policyClientOptional :: !(Maybe (Written Bool)),
    policyMinimum :: !(Maybe (Written TlsVersion)),
    policyTicketSecret :: !(Maybe (Written FilePath)),
    policyNoKernel :: !(Maybe (Written Bool))
  }
  deriving stock (Eq, Show)

-- | Seconds. The last is the same as 'serverIdle', and counts before it.
data TimeOutConfig = TimeOutConfig
  { timeOutHead :: !(Maybe (Written Int)),
    timeOutBody :: !(Maybe (Written Int)),
    timeOutReply :: !(Maybe (Written Int)),
    timeOutIdle :: !(Maybe (Written Int))
  }
  deriving stock (Eq, Show)

-- | The logs.
data LogConfig = LogConfig
  { logAccess :: !(Maybe (Written LogTarget)),
    logShape :: !(Maybe (Written LogFormat)),
    logOnly :: ![Written [(Int, Int)]],
    logSkip :: ![Written Glob],
    logSample :: !(Maybe (Written Int)),
    logRotate :: !(Maybe (Written RotateAt)),
    logKeep :: !(Maybe (Written Int)),
    logWhenFull :: !(Maybe (Written WhenFull)),
    logError :: !(Maybe (Written LogTarget)),
    logLevel :: !(Maybe (Written Severity)),
    logConsole :: !(Maybe (Written ConsoleLog))
  }
  deriving stock (Eq, Show)

-- | How the server is watched.
data WatchConfig = WatchConfig
  { watchStatus :: !(Maybe (Written RoutePattern)),
    watchAllow :: ![Written Network],
    watchTimeline :: !(Maybe (Written Int)),
    watchSlow :: !(Maybe (Written Nanos)),
    watchRequestIds :: !(Maybe (Written Bool)),
    watchTraces :: !(Maybe (Written Double))
  }
  deriving stock (Eq, Show)

-- | What a host can say.
data SiteConfig = SiteConfig
  { siteRoot :: !(Maybe (Written FilePath)),
    siteIndex :: ![Written FilePath],
    siteDotted :: !(Maybe (Written Bool)),
    siteSecurity :: !(Maybe (Written Bool)),
    siteCaches :: ![(Written Glob, Written Header)],
    siteHeaders :: ![(Written Glob, [Written Header])],
    siteCors :: ![Written ByteString],
    siteMedia :: ![Written (ByteString, ByteString)],
    siteSpa :: !(Maybe (Written Bool)),
    siteErrorPages :: ![Written (Int, FilePath)],
    siteAutoindex :: !(Maybe (Written Bool)),
    siteCompression :: !(Maybe (Written Compression)),
    siteTag :: !(Maybe (Written TagParts)),
    siteFollow :: !(Maybe (Written Bool)),
    siteUsers :: !(Maybe (Written FilePath)),
    siteAccess :: ![AccessConfig],
    siteRate :: !(Maybe (Written RateLimit)),
    siteRedirectsHttps :: !(Maybe (Written Bool)),
    siteProxyTimeout :: !(Maybe (Written Int)),
    siteProxyConnections :: !(Maybe (Written Int)),
    siteProxyIdle :: !(Maybe (Written Int)),
    siteBalance :: !(Maybe (Written Balance)),
    siteCheck :: !(Maybe (Written ByteString)),
    siteAnnounce :: !(Maybe (Written Announce)),
    siteProgramEnv :: ![Written (ByteString, ByteString)],
    siteProgramMost :: !(Maybe (Written Int)),
    siteProgramSeconds :: !(Maybe (Written Int)),
    siteFastCgiKept :: !(Maybe (Written Int)),
    siteOrder :: !(Maybe (Written RouteOrder)),
    siteRouting :: ![(Written RoutePattern, RouteConfig)]
  }
  deriving stock (Eq, Show)

-- | A host: its names, certificates and site.
data HostConfig = HostConfig
  { -- | Where it begins.
    hostAt :: !(Written ()),
    hostNames :: ![Written HostPattern],
    hostCertificates :: !CertificateConfig,
    hostMaxBody :: !(Maybe (Written Int)),
    hostSite :: !SiteConfig
  }
  deriving stock (Eq, Show)

-- | Networks that are answered, or that are not.
data AccessConfig = AccessConfig
  { accessAllow :: ![Written [Network]],
    accessDeny :: ![Written [Network]]
  }
  deriving stock (Eq, Show)

-- | A route: exactly one of the first nine.
data RouteConfig = RouteConfig
  { routeFiles :: !(Maybe (Written FilePath)),
    routeCgi :: !(Maybe (Written FilePath)),
    routeFastCgi :: ![Written ListenPlace],
    routeScgi :: ![Written ListenPlace],
    -- | Each is a 'RouteTarget' of proxied servers.
    routeProxy :: ![Written RouteTarget],
    routeRedirect :: !(Maybe (Written TargetTemplate)),
    routeRespond :: !(Maybe (Written Int)),
    routeRewrite :: !(Maybe (Written TargetTemplate)),
    routeTryFiles :: ![Written TargetTemplate],
    -- | Of a redirection.
    routeStatus :: !(Maybe (Written Int)),
    -- | Of a reply.
    routeBody :: !(Maybe (Written String)),
    routeReplyHeaders :: ![Written Header],
    -- | After files were tried.
    routeElse :: !(Maybe (Written (Either Int TargetTemplate))),
    -- | Of requests for programs and servers.
    routeMaxBody :: !(Maybe (Written Int))
  }
  deriving stock (Eq, Show)

-- | Whether to give up rights.
data SandboxMode = SandboxAuto | SandboxOn | SandboxOff
  deriving stock (Eq, Show)

-- | What requests are shown on standard output.
data ConsoleLog
  = -- | On a terminal, how many.
    ConsoleAuto
  | -- | Each.
    ConsolePretty
  | -- | None.
    ConsoleQuiet
  deriving stock (Eq, Show)

-- | What a request for a name that no host has gets.
data UnknownHost = UnknownMisdirected | UnknownFirst
  deriving stock (Eq, Show)

-- | Nothing said.
emptyConfig :: Config
emptyConfig = Config emptyServer emptyLogs (WatchConfig Nothing [] Nothing Nothing Nothing Nothing) emptySite Nothing []

emptyServer :: ServerConfig
emptyServer = ServerConfig [] [] noCertificates Nothing noTlsPolicy Nothing [] Nothing Nothing Nothing Nothing Nothing Nothing Nothing Nothing (TimeOutConfig Nothing Nothing Nothing Nothing) Nothing Nothing Nothing Nothing Nothing Nothing [] []

-- | None.
noCertificates :: CertificateConfig
noCertificates = CertificateConfig [] [] []

-- | Nothing said.
noTlsPolicy :: TlsPolicyConfig
noTlsPolicy = TlsPolicyConfig Nothing Nothing Nothing Nothing Nothing

emptyLogs :: LogConfig
emptyLogs = LogConfig Nothing Nothing [] [] Nothing Nothing Nothing Nothing Nothing Nothing Nothing

-- | Nothing said.
emptySite :: SiteConfig
emptySite =
  SiteConfig
    { siteRoot = Nothing,
      siteIndex = [],
      siteDotted = Nothing,
      siteSecurity = Nothing,
      siteCaches = [],
      siteHeaders = [],
      siteCors = [],
      siteMedia = [],
      siteSpa = Nothing,
      siteErrorPages = [],
      siteAutoindex = Nothing,
      siteCompression = Nothing,
      siteTag = Nothing,
      siteFollow = Nothing,
      siteUsers = Nothing,
      siteAccess = [],
      siteRate = Nothing,
      siteRedirectsHttps = Nothing,
      siteProxyTimeout = Nothing,
      siteProxyConnections = Nothing,
      siteProxyIdle = Nothing,
      siteBalance = Nothing,
      siteCheck = Nothing,
      siteAnnounce = Nothing,
      siteProgramEnv = [],
      siteProgramMost = Nothing,
      siteProgramSeconds = Nothing,
      siteFastCgiKept = Nothing,
      siteOrder = Nothing,
      siteRouting = []
    }

-- | Nothing said.
emptyRoute :: RouteConfig
emptyRoute = RouteConfig Nothing Nothing [] [] [] Nothing Nothing Nothing [] Nothing Nothing [] Nothing Nothing
