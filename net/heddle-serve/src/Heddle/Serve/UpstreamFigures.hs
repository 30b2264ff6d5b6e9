{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Serve.UpstreamFigures
-- Description : How the servers and programs behind a route are
-- Stability   : internal, exempt from the version policy
--
-- Health of servers and the state of connection pools, asked of each kind of gateway and told in one shape.
--
-- Cost: O(servers and unused connections) for each question; nothing for a request.
-- Owner: values.
module Heddle.Serve.UpstreamFigures
  ( UpstreamFigures (..),
    ServerFigures (..),
    ofProxy,
    ofFastCgi,
    ofScgi,
    ofPrograms,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString.Char8 qualified as C
import Heddle.Gateway.Cgi
import Heddle.Gateway.FastCgi
import Heddle.Gateway.Proxy
import Heddle.Gateway.Scgi
import Network.Socket (SockAddr)

-- | What is behind a route.
data UpstreamFigures = UpstreamFigures
  { -- | @proxy@, @fastcgi@, @scgi@ or @cgi@.
    upstreamsKind :: !ByteString,
    -- | None for @cgi@.
    upstreamsServers :: ![ServerFigures],
    -- | Connections in use; for @cgi@, running programs.
    upstreamsUsed :: !Int,
    -- | Connections kept for the next request.
    upstreamsKept :: !Int,
    -- | Requests that wait for a connection, or to have their program started; 'Nothing' if the gateway does not tell.
    upstreamsWaiting :: !(Maybe Int)
  }
  deriving stock (Eq, Show)

-- | A server.
data ServerFigures = ServerFigures
  { serverName :: !ByteString,
    -- | Whether it is given requests.
    serverUp :: !Bool,
    -- | Requests under way there, if they are counted by server.
    serverOpen :: !(Maybe Int)
  }
  deriving stock (Eq, Show)

-- | Of a proxy, whose servers have these names.
--
-- [Cost]: O(unused connections).
ofProxy :: [String] -> Proxy -> IO UpstreamFigures
ofProxy names proxy = do
  figures <- proxyFigures proxy
  pure
    UpstreamFigures
      { upstreamsKind = "proxy",
        upstreamsServers = [ServerFigures (C.pack name) up (Just open) | (name, up, open) <- zip3 names (figureUp figures) (figureOpen figures)],
        -- The two numbers are not of one instant.
        upstreamsUsed = max 0 (figureConnections figures - figureKept figures),
        upstreamsKept = figureKept figures,
        upstreamsWaiting = Nothing
      }

-- | Of applications that speak FastCGI.
ofFastCgi :: FastCgi -> IO UpstreamFigures
ofFastCgi fast =
  UpstreamFigures "fastcgi" . map standing <$> fastServers fast
    <*> fastConnectionsUsed fast
    <*> fastConnectionsKept fast
    <*> (Just <$> fastRequestsWaiting fast)

-- | Of applications that speak SCGI.
ofScgi :: Scgi -> IO UpstreamFigures
ofScgi scgi =
  UpstreamFigures "scgi" . map standing <$> scgiServers scgi
    <*> scgiConnectionsUsed scgi
    <*> pure 0
    <*> (Just <$> scgiRequestsWaiting scgi)

-- | Of programs.
ofPrograms :: Cgi -> IO UpstreamFigures
ofPrograms cgi = (\running waiting -> UpstreamFigures "cgi" [] running 0 (Just waiting)) <$> runningPrograms cgi <*> waitingPrograms cgi

standing :: (SockAddr, Bool) -> ServerFigures
standing (address, up) = ServerFigures (C.pack (show address)) up Nothing
