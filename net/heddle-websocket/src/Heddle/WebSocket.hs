{-# LANGUAGE PatternSynonyms #-}

-- |
-- Module      : Heddle.WebSocket
-- Description : WebSocket servers and clients in plain blocking code
-- Stability   : stable
--
-- A server answers a request with 'websocket'; a client runs 'withWebSocket'. Both get a 'Connection': one thread
-- receives, any threads send. Whatever RFC 6455 forbids ends the connection with the code that it prescribes; every
-- size and every wait is bounded by the 'WebSocketOptions'. Messages are compressed if the peer agrees (RFC 7692).
--
-- Cost: echoing a small message is one receive and one send; an idle connection is a parked thread and about 1.2 KB,
-- without a buffer (see the README on stacks).
-- Owner: the session; when its body returns, the connection is closed.
module Heddle.WebSocket
  ( -- * Servers
    websocket,
    serveWebSocketOn,

    -- * Clients
    withWebSocket,
    connectWebSocket,
    Endpoint (..),

    -- * Options
    WebSocketOptions (..),
    defaultWebSocketOptions,
    DeflateOptions (..),
    defaultDeflateOptions,
    sameOrigin,
    anyOrigin,

    -- * Connections
    Connection,
    subprotocol,
    compresses,

    -- ** Receiving
    Message (..),
    receive,
    receiveUntil,

    -- ** Receiving long messages
    Kind (..),
    Piece (..),
    receivePiece,
    receivePieceUntil,

    -- ** Sending
    sendText,
    sendBinary,
    sendBinaryLazy,
    sendTextPieces,
    sendBinaryPieces,
    flush,
    sendPing,

    -- ** Closing
    close,
    CloseCode (..),
    pattern NormalClosure,
    pattern GoingAway,
    pattern ProtocolFailure,
    pattern UnsupportedData,
    pattern NoCode,
    pattern LostCode,
    pattern InvalidPayload,
    pattern PolicyViolation,
    pattern TooBig,
    pattern ExtensionNeeded,
    pattern InternalFailure,
    pattern TryAgainLater,

    -- * Exceptions
    WebSocketException (..),
    ConnectionEnded (..),
    Violation (..),
    NotSent (..),
    HandshakeFailed (..),
  )
where

import Data.ByteString (ByteString)
import Data.Maybe (isJust)
import Heddle.WebSocket.Client
import Heddle.WebSocket.Connection
import Heddle.WebSocket.Exception
import Heddle.WebSocket.Options
import Heddle.WebSocket.Receive
import Heddle.WebSocket.Send
import Heddle.WebSocket.Server
import Heddle.WebSocket.Session

-- | The subprotocol that was chosen ('optionSubprotocols').
--
-- [Cost]: O(1).
subprotocol :: Connection -> Maybe ByteString
subprotocol = connSubprotocol

-- | Whether the peer agreed to compression.
--
-- [Cost]: O(1).
compresses :: Connection -> Bool
compresses = isJust . connDeflating
