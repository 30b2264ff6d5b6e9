-- |
-- Module      : Heddle.Serve.Options
-- Description : What to serve and how
-- Stability   : stable
--
-- Start from 'defaultServeOptions' and change fields.
--
-- Cost: none; values.
-- Owner: values.
module Heddle.Serve.Options
  ( ServeOptions (..),
    defaultServeOptions,
    serveTrusted,
  )
where

import Data.List (nub)
import Data.List.NonEmpty (NonEmpty (..))
import Data.List.NonEmpty qualified as NonEmpty
import Heddle.Gateway.Proxy (Network, ProxySettings (..))
import Heddle.Http (Settings, defaultSettings)
import Heddle.IO (BackendChoice (..), Spread (..))
import Heddle.Prim.Clock (Nanos, seconds)
import Heddle.Serve.Certificates (ServeTls (..))
import Heddle.Serve.Listen
import Heddle.Serve.LogFormat (LogFormat (..))
import Heddle.Serve.LogOptions
import Heddle.Serve.Process (UserSpec)
import Heddle.Serve.Site
import Heddle.Serve.Status (StatusOptions)
import Heddle.Serve.Timeline (Recorder)

-- | What to serve and how.
data ServeOptions = ServeOptions
  { -- | The sites. The first one answers for names that no site has, unless 'serveUnknown' says otherwise.
    serveSites :: !(NonEmpty Site),
    serveUnknown :: !OnUnknownHost,
    -- | What SIGHUP serves from then on: reads the configuration again, or says what is wrong with it. 'Nothing' opens the
    -- same sites again.
    serveReload :: !(Maybe (IO (Either String ServeOptions))),
    serveListen :: ![ListenSpec],
    -- | The certificates of the addresses after @https:\/\/@.
    serveTls :: !ServeTls,
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
    -- | How long open connections may take to finish after the first signal to stop.
    serveDrain :: !Nanos,
    -- | How connections reach the cores.
    serveSpread :: !Spread,
    -- | The system call that reports events to the event managers.
    serveBackend :: !BackendChoice,
    -- | Where and to whom the server tells how it is.
    serveStatus :: !(Maybe StatusOptions),
    -- | Records the timelines that the status answers with.
    serveRecorder :: !(Maybe Recorder),
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
    { serveSites = defaultSite (Just directory) :| [],
      serveUnknown = FirstSite,
      serveReload = Nothing,
      serveListen = [ListenSpec Http (ListenHost "localhost" defaultListenPort)],
      serveTls = NoTls,
      serveCores = Nothing,
      serveAccessLog = Nothing,
      serveLogFormat = Combined,
      serveLogs = defaultLogOptions,
      serveProxyProtocol = [],
      serveConsole = Nothing,
      serveActivity = False,
      serveDrain = seconds 30,
      serveSpread = PortPerCapability,
      serveBackend = Epoll,
      serveStatus = Nothing,
      serveRecorder = Nothing,
      serveSlow = Nothing,
      serveRequestIds = False,
      serveTraces = Nothing,
      serveSecond = pure (),
      serveSuccessor = Nothing,
      servePidFile = Nothing,
      serveUser = Nothing,
      serveSettings = defaultSettings
    }

-- | The proxies that some site believes: what logs show of a request does not depend on its site.
serveTrusted :: ServeOptions -> [Network]
serveTrusted = nub . concatMap (proxyTrusted . siteProxy) . NonEmpty.toList . serveSites
