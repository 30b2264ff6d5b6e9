{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Http.Client.Settings
-- Description : Limits and deadlines of a client
-- Stability   : hidden; "Heddle.Http.Client" exports it
--
-- Start from 'defaultClientSettings' and change fields.
--
-- Cost: read per request.
-- Owner: immutable.
module Heddle.Http.Client.Settings
  ( ClientSettings (..),
    defaultClientSettings,
    ClientProxy (..),
    resolveByName,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString.Char8 qualified as C
import Heddle.Http.Client.Url (Origin)
import Heddle.Http.Parse (Limits (..), defaultLimits)
import Heddle.Http.Settings (Pace (..))
import Heddle.IO.Transport (Opening)
import Heddle.Prim.Clock (Nanos, seconds)
import Network.Socket (AddrInfo (..), AddrInfoFlag (AI_ADDRCONFIG, AI_NUMERICSERV), SockAddr, SocketType (Stream), defaultHints, getAddrInfo)

-- | How a client treats servers. Numbers of connections are for each capability, because each
-- has a pool of its own, unless 'clientShared' says otherwise.
data ClientSettings = ClientSettings
  { -- | How long opening a connection may take: looking up the host, connecting, the tunnel through a proxy,
    -- securing.
    clientConnect :: !Nanos,
    -- | How long to wait for a connection when all that the limits allow are in use.
    clientQueue :: !Nanos,
    -- | How long the response's head may take once the request is sent.
    clientHead :: !Nanos,
    -- | How slowly a response's content may come.
    clientBodyPace :: !Pace,
    -- | How slowly a server may take a request.
    clientSendPace :: !Pace,
    -- | How long to wait for 100 (Continue) before the body is sent anyway.
    clientContinue :: !Nanos,
    -- | How long an unused connection is kept; a server's @Keep-Alive: timeout@ shortens it.
    clientIdle :: !Nanos,
    -- | Most connections to one origin.
    clientPerOrigin :: !Int,
    -- | Most connections in all.
    clientConnections :: !Int,
    -- | Whether all capabilities have one pool. Then the numbers are the client's, and requests that wait for a connection are served in the
    -- order of their arrival; for that, each request writes to memory that the capabilities share.
    clientShared :: !Bool,
    -- | How much of a content that the caller left unread is read and dropped to keep the
    -- connection, if it has arrived.
    clientDiscard :: !Int,
    -- | Sizes of responses; the target's limit has no meaning here.
    clientLimits :: !Limits,
    -- | Secures a connection to a host, as @https@ needs: heddle-tls makes such a function. The host is as in
    -- the address, for the name to ask for and to verify.
    clientSecure :: !(Maybe (ByteString -> Opening)),
    -- | Finds the addresses of a host and port, in the order in which to try them. It may block its thread.
    clientResolve :: !(ByteString -> Int -> IO [SockAddr]),
    -- | Through which proxy to reach all origins but Unix sockets.
    clientProxy :: !(Maybe ClientProxy),
    -- | The User-Agent header, unless the request has one; empty for none.
    clientAgent :: !ByteString
  }

-- | An HTTP proxy: @http@ requests name their whole address, @https@ connections are tunnels.
data ClientProxy = ClientProxy
  { proxyOrigin :: !Origin,
    -- | The value of Proxy-Authorization.
    proxyAuthorization :: !(Maybe ByteString)
  }
  deriving stock (Eq)

-- The authorization is a secret.
instance Show ClientProxy where
  showsPrec d proxy = showParen (d > 10) (showString "ClientProxy " . showsPrec 11 (proxyOrigin proxy) . showString " …")

-- | 10 s to connect, 10 s to wait for a connection, 60 s for a head, bodies and requests at least 240 B/s after
-- 30 s, 1 s for 100 (Continue), 30 s idle, 64 connections per origin and 512 in all on each capability, 64 KB
-- discarded, heads of 16 KB with 100 headers, content of any length, no security, no proxy.
defaultClientSettings :: ClientSettings
defaultClientSettings =
  ClientSettings
    { clientConnect = seconds 10,
      clientQueue = seconds 10,
      clientHead = seconds 60,
      clientBodyPace = Pace (seconds 30) 240,
      clientSendPace = Pace (seconds 30) 240,
      clientContinue = seconds 1,
      clientIdle = seconds 30,
      clientPerOrigin = 64,
      clientConnections = 512,
      clientShared = False,
      clientDiscard = 65536,
      clientLimits = defaultLimits {limitBody = maxBound},
      clientSecure = Nothing,
      clientResolve = resolveByName,
      clientProxy = Nothing,
      clientAgent = "heddle"
    }

-- | The system's resolver: the addresses of a name or of an address literal, in its order of preference.
--
-- [Blocks]: holds an OS thread.
-- [Throws]: 'IOError' with the resolver's words.
resolveByName :: ByteString -> Int -> IO [SockAddr]
resolveByName name port =
  map addrAddress <$> getAddrInfo (Just hints) (Just (C.unpack name)) (Just (show port))
  where
    -- ADDRCONFIG would hide ::1 and 127.0.0.1 from a machine that has no other address of the family.
    hints
      | name == "localhost" || C.all (`elem` ("0123456789.:abcdefABCDEF" :: String)) name = base
      | otherwise = base {addrFlags = [AI_ADDRCONFIG, AI_NUMERICSERV]}
    base = defaultHints {addrSocketType = Stream, addrFlags = [AI_NUMERICSERV]}
