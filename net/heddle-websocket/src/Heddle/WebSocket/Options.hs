-- |
-- Module      : Heddle.WebSocket.Options
-- Description : Limits, deadlines, extensions
-- Stability   : hidden; "Heddle.WebSocket" exports it
--
-- Cost: values.
-- Owner: values.
module Heddle.WebSocket.Options
  ( WebSocketOptions (..),
    defaultWebSocketOptions,
    DeflateOptions (..),
    defaultDeflateOptions,
    sameOrigin,
    anyOrigin,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.Char (toLower)
import Heddle.Prim.Clock (Nanos, seconds)

-- | How a connection is run.
data WebSocketOptions = WebSocketOptions
  { -- | The longest message of 'Heddle.WebSocket.receive', in bytes, after decompression. A longer one ends the
    -- connection with code 1009.
    optionMessageLimit :: !Int,
    -- | A peer that is silent for this long is sent a ping. 0: never.
    optionPing :: !Nanos,
    -- | A peer that is silent for this long after a ping is given up.
    optionPong :: !Nanos,
    -- | A peer that takes nothing for this long while something is sent is given up.
    optionSend :: !Nanos,
    -- | How long to wait for the peer's Close after our own, and for the end of the connection.
    optionClose :: !Nanos,
    -- | How long a client waits for the server's answer to its handshake.
    optionHandshake :: !Nanos,
    -- | Compress messages if the peer agrees.
    optionDeflate :: !(Maybe DeflateOptions),
    -- | Names of protocols on top of WebSocket, the preferred one first. A server chooses its first that the client
    -- offers; a client offers them all.
    optionSubprotocols :: ![ByteString],
    -- | Whether a server accepts a request: given its Origin header, if there is one, and its Host. A browser sends
    -- the user's cookies with a page's request to any server, so a server that trusts cookies must look at the origin.
    optionOrigin :: !(Maybe ByteString -> ByteString -> Bool)
  }

-- | How messages are compressed.
data DeflateOptions = DeflateOptions
  { -- | 1, fast, to 9, small.
    deflateLevel :: !Int,
    -- | Shorter messages are sent as they are. In bytes.
    deflateThreshold :: !Int
  }
  deriving stock (Eq, Show)

-- | Messages of up to 1 MiB; a ping after 30 s of silence, an answer within 20 s; 30 s to take what is sent; 5 s to
-- close; 10 s for a handshake; compression; no subprotocol; requests from pages of the same host, and from programs
-- that send no origin.
defaultWebSocketOptions :: WebSocketOptions
defaultWebSocketOptions =
  WebSocketOptions
    { optionMessageLimit = 1048576,
      optionPing = seconds 30,
      optionPong = seconds 20,
      optionSend = seconds 30,
      optionClose = seconds 5,
      optionHandshake = seconds 10,
      optionDeflate = Just defaultDeflateOptions,
      optionSubprotocols = [],
      optionOrigin = sameOrigin
    }

-- | Level 1, from 512 bytes on.
defaultDeflateOptions :: DeflateOptions
defaultDeflateOptions = DeflateOptions {deflateLevel = 1, deflateThreshold = 512}

-- | Accepts requests without an origin, and those whose origin has the requested host and port.
--
-- [Cost]: O(bytes).
sameOrigin :: Maybe ByteString -> ByteString -> Bool
sameOrigin Nothing _ = True
sameOrigin (Just origin) host = case B.breakSubstring (C.pack "://") origin of
  (scheme, rest) -> not (B.null rest) && withPort scheme (B.drop 3 rest) == withPort scheme host
  where
    -- A browser leaves a scheme's own port out of both headers; other programs may not.
    withPort scheme authority = case (C.map toLower scheme, C.map toLower authority) of
      (s, a)
        | s == C.pack "http", Just short <- B.stripSuffix (C.pack ":80") a -> short
        | s == C.pack "https", Just short <- B.stripSuffix (C.pack ":443") a -> short
        | otherwise -> a

-- | Accepts every request: for servers that do not trust cookies.
--
-- [Cost]: O(1).
anyOrigin :: Maybe ByteString -> ByteString -> Bool
anyOrigin _ _ = True
