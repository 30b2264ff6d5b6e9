{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Serve.Site
-- Description : The sites of a server
-- Stability   : stable
--
-- A server has one site or more, each with its names, its directory, its routes and its rules. Start from 'defaultSite' and
-- change fields.
--
-- Cost: none; values.
-- Owner: values.
module Heddle.Serve.Site
  ( Site (..),
    defaultSite,
    OnUnknownHost (..),
    RouteOrder (..),
    repeatedName,
  )
where

import Data.ByteString (ByteString)
import Data.List (group, sort)
import Heddle.Gateway.Proxy (ProxySettings, defaultProxySettings)
import Heddle.Prim.Clock (Nanos, seconds)
import Heddle.Serve.FileOptions (FileOptions, defaultFileOptions)
import Heddle.Serve.Guard (GuardOptions, noGuard)
import Heddle.Serve.HostName (HostPattern)
import Heddle.Serve.Routes (RouteOrder (..), RoutePattern, RouteSpec)

-- | What is served under some names.
data Site = Site
  { -- | The names. An exact name goes before a wildcard, and a longer wildcard before a shorter one. The first site of a
    -- server needs no name: it is served for names that no site has, unless 'OnUnknownHost' says otherwise.
    siteNames :: ![HostPattern],
    -- | Where the files are; 'Nothing' for a site that consists of routes.
    siteDirectory :: !(Maybe FilePath),
    -- | What is not answered from the directory.
    siteRoutes :: ![RouteSpec],
    siteRouteOrder :: !RouteOrder,
    -- | The longest bodies of requests for some routes; 'Heddle.Http.limitBody' is that of all, and nothing longer is received.
    siteBodyLimits :: ![(RoutePattern, Int)],
    -- | What the proxies of routes have in common; prefix and upstreams are the routes'.
    siteProxy :: !ProxySettings,
    -- | Variables for the programs of routes.
    siteVariables :: ![(ByteString, ByteString)],
    -- | How many CGI programs of a route may run at once, and for how long each.
    siteProgramLimit :: !Int,
    siteProgramTime :: !Nanos,
    -- | How many unused connections a route to FastCGI keeps; see 'Heddle.Gateway.FastCgi.fastKeep'.
    siteFastCgiKeep :: !Int,
    -- | Answer requests without TLS with a redirection to the first address with TLS.
    siteRedirectHttps :: !Bool,
    -- | Names tried for a directory.
    siteIndexes :: ![FilePath],
    -- | Serve names that begin with a dot.
    siteHidden :: !Bool,
    -- | Headers, pages, listings, compression, passwords.
    siteFiles :: !FileOptions,
    -- | Which clients are answered, and how often. Connections are limited by the first site's options, since their names
    -- are not known when they are opened.
    siteGuard :: !GuardOptions
  }

-- | A directory without names and routes, @index.html@.
defaultSite :: Maybe FilePath -> Site
defaultSite directory =
  Site
    { siteNames = [],
      siteDirectory = directory,
      siteRoutes = [],
      siteRouteOrder = LongestPrefix,
      siteBodyLimits = [],
      siteProxy = defaultProxySettings "" [],
      siteVariables = [],
      siteProgramLimit = 64,
      siteProgramTime = seconds 3600,
      siteFastCgiKeep = 0,
      siteRedirectHttps = False,
      siteIndexes = ["index.html", "index.htm"],
      siteHidden = False,
      siteFiles = defaultFileOptions,
      siteGuard = noGuard
    }

-- | How a request for a name that no site has is answered.
data OnUnknownHost
  = -- | By the first site.
    FirstSite
  | -- | With 421 (Misdirected Request).
    Misdirected
  deriving stock (Eq, Show)

-- | A name that two sites have, or one site twice.
repeatedName :: [Site] -> Maybe HostPattern
repeatedName sites = case [name | name : _ : _ <- group (sort (concatMap siteNames sites))] of
  name : _ -> Just name
  [] -> Nothing
