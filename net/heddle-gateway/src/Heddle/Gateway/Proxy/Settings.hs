{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Gateway.Proxy.Settings
-- Description : Where a proxy forwards to, and how
-- Stability   : hidden; "Heddle.Gateway.Proxy" exports it
--
-- Start from 'defaultProxySettings' and change fields.
--
-- Cost: read per request.
-- Owner: immutable.
module Heddle.Gateway.Proxy.Settings
  ( ProxySettings (..),
    defaultProxySettings,
    Upstream (..),
    upstreamAt,
    Balance (..),
    HostRule (..),
    Check (..),
    defaultCheck,
  )
where

import Data.ByteString (ByteString)
import Heddle.Gateway.Proxy.Address (Network)
import Heddle.Gateway.Proxy.Announce (Announce (..))
import Heddle.Http (Pace (..))
import Heddle.Http.Client (Url)
import Heddle.IO.Transport (Opening)
import Heddle.Prim.Clock (Nanos, seconds)
import Heddle.Prim.Message (putErrorLine)

-- | A server that requests are forwarded to.
data Upstream = Upstream
  { -- | Its origin, and the path that takes the place of the prefix.
    upstreamUrl :: !Url,
    -- | How large a part of the requests it gets, at least 1.
    upstreamWeight :: !Int
  }
  deriving stock (Eq, Show)

-- | An upstream of weight 1.
upstreamAt :: Url -> Upstream
upstreamAt url = Upstream url 1

-- | Which of several upstreams gets a request.
data Balance
  = -- | In turns, by weight.
    InTurn
  | -- | The one that has the fewest open requests for its weight, of those that this capability has made.
    LeastBusy
  | -- | The same one for all requests with this value of a header, as long as it is up.
    ByHeader !ByteString
  | -- | The same one for all requests of a client's address.
    ByAddress
  deriving stock (Eq, Show)

-- | What Host says to an upstream.
data HostRule
  = -- | What the client has said.
    HostOfClient
  | -- | The upstream's own name, as servers of several sites and @https@ need.
    HostOfUpstream
  deriving stock (Bounded, Enum, Eq, Show)

-- | Looking after upstreams while nothing is asked of them.
data Check = Check
  { -- | What to ask for, beginning with a slash. An answer from 200 to 399 is a good one.
    checkTarget :: !ByteString,
    checkEvery :: !Nanos,
    -- | How long an answer may take.
    checkWithin :: !Nanos
  }
  deriving stock (Eq, Show)

-- | Every 5 s, within 2 s.
defaultCheck :: ByteString -> Check
defaultCheck target = Check target (seconds 5) (seconds 2)

-- | How a proxy works.
data ProxySettings = ProxySettings
  { -- | Below which path of this server the proxy is: @\/app@, or empty for all paths. It is replaced by the path of the upstream's
    -- URL, and put back in Location and in the paths of cookies.
    proxyPrefix :: !ByteString,
    proxyUpstreams :: ![Upstream],
    proxyBalance :: !Balance,
    proxyHost :: !HostRule,
    -- | Peers whose X-Forwarded-* and Forwarded headers are believed and continued; those of others are replaced.
    proxyTrusted :: ![Network],
    -- | How long opening a connection may take.
    proxyConnect :: !Nanos,
    -- | How long an upstream may take until its answer begins.
    proxyAnswer :: !Nanos,
    -- | How long a request waits for a connection when 'proxyConnections' are in use.
    proxyQueue :: !Nanos,
    -- | How slowly an upstream may take a request's body and send an answer's.
    proxyPace :: !Pace,
    -- | How long a tunnel, such as a WebSocket, may be silent in both directions.
    proxySilence :: !Nanos,
    -- | How long an unused connection is kept. With no time at all none is: each request has a connection of its own, and says that it closes, for
    -- upstreams that serve one connection after the other.
    proxyIdle :: !Nanos,
    -- | Most connections to each upstream, of all capabilities together; further requests wait, first come, first served. With a limit
    -- the capabilities share their connections.
    proxyConnections :: !(Maybe Int),
    -- | How much of an answer is taken from the upstream when its client does not take it, so that a slow client does not occupy the
    -- upstream. All answers of a capability may have 64 times as much.
    --
    -- [Units]: bytes.
    proxyBuffer :: !Int,
    -- | How many upstreams one request may be tried on.
    proxyTries :: !Int,
    -- | After how many failures in a row an upstream is left out for a while.
    proxyFailures :: !Int,
    -- | For how long at first; each further failure doubles it, up to the second time.
    proxyBackOff :: !(Nanos, Nanos),
    proxyCheck :: !(Maybe Check),
    proxyAnnounce :: !Announce,
    -- | Secures connections to @https@ upstreams: heddle-tls's @tlsConnecting@.
    proxySecure :: !(Maybe (ByteString -> Opening)),
    -- | Largest head of an answer.
    --
    -- [Units]: bytes.
    proxyHeadBytes :: !Int,
    -- | Told of each request that an upstream failed to answer and of upstreams that are left out or taken in again, in a clause.
    proxyFailed :: !(String -> IO ())
  }

-- | In turns; the client's Host; nobody trusted; 5 s to connect, 60 s to answer, 60 s in the queue, at least 240 B/s after
-- 60 s, tunnels silent for an hour, connections kept 60 s, as many as there are requests; three upstreams tried; left out after 3 failures
-- for 1 to 30 s; no checks, no announcement; heads of 32 KB, 1 MB of an answer for a slow client; failures are lines on standard error.
defaultProxySettings :: ByteString -> [Upstream] -> ProxySettings
defaultProxySettings prefix upstreams =
  ProxySettings
    { proxyPrefix = prefix,
      proxyUpstreams = upstreams,
      proxyBalance = InTurn,
      proxyHost = HostOfClient,
      proxyTrusted = [],
      proxyConnect = seconds 5,
      proxyAnswer = seconds 60,
      proxyQueue = seconds 60,
      proxyPace = Pace (seconds 60) 240,
      proxySilence = seconds 3600,
      proxyIdle = seconds 60,
      proxyConnections = Nothing,
      proxyBuffer = 1048576,
      proxyTries = 3,
      proxyFailures = 3,
      proxyBackOff = (seconds 1, seconds 30),
      proxyCheck = Nothing,
      proxyAnnounce = NoAnnouncement,
      proxySecure = Nothing,
      proxyHeadBytes = 32768,
      proxyFailed = \what -> putErrorLine ("heddle-gateway: " ++ what)
    }
