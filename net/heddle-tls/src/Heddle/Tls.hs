-- |
-- Module      : Heddle.Tls
-- Description : TLS for the connections of heddle-io
-- Stability   : stable
--
-- TLS 1.2 and 1.3 by libssl, on the event manager. A server loads its certificates into a site, makes a listener for
-- it, and opens a layer ("Heddle.IO.Transport") on each connection with 'tlsOpening'; a client does so with
-- 'tlsConnecting'. Certificates can be replaced while connections are open.
--
-- Invariant: what a layer has accepted for writing is in the kernel when the call returns, so an idle session holds no
-- output; nothing blocks a capability, except signing with an elliptic curve, 0.2 ms.
-- Cost: a read or write is its cryptography, one system call and about 50 ns; an idle session takes 14 KB.
-- Owner: of a layer, the connection's threads: one that reads and one that writes, on any capabilities.
-- Shared writes per call: 0; per connection: 5, of counts and references.
module Heddle.Tls
  ( -- * Servers

    -- ** Settings
    TlsConfig (..),
    defaultTlsConfig,
    TlsPair (..),
    pemFiles,
    PemSource (..),
    TlsVersion (..),
    ClientCertificates (..),
    TlsTickets (..),
    tlsFiles,
    TlsTuning (..),
    defaultTlsTuning,

    -- ** Loading
    TlsSite,
    loadSite,
    loadSiteBy,
    FileOpener,
    siteConfig,
    siteNames,
    siteExpires,
    siteExpiries,
    TlsProblem (..),
    TlsReason (..),

    -- ** Serving
    TlsListener,
    newTlsListener,
    listenerSite,
    tlsOpening,

    -- ** Reloading
    swapSite,
    reloadWhenChanged,
    reloadEvery,
    Reload (..),

    -- ** Tickets
    rotateTicketKeys,

    -- * Clients
    TlsClientConfig (..),
    defaultTlsClientConfig,
    Trust (..),
    TlsClient,
    newTlsClient,
    tlsConnecting,

    -- * Certificates of clients
    certificateSubject,

    -- * Certificates for development
    selfSigned,
    selfSignedPair,

    -- * Counts
    TlsCounts (..),
    tlsCounts,
    liveSessions,
  )
where

import Heddle.Tls.Client
import Heddle.Tls.Config
import Heddle.Tls.Listener
import Heddle.Tls.Problem
import Heddle.Tls.SelfSigned
import Heddle.Tls.Session (liveSessions)
import Heddle.Tls.Site
import Heddle.Tls.Subject (certificateSubject)
