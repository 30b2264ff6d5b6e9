-- |
-- Module      : Heddle.WebSocket.Server
-- Description : WebSockets of an HTTP server
-- Stability   : hidden; "Heddle.WebSocket" exports it
--
-- Cost: a few microseconds a connection.
-- Owner: the engine, which gives the connection to the session and closes it.
module Heddle.WebSocket.Server
  ( websocket,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString.Char8 qualified as C
import Heddle.Http
import Heddle.Prim.Exception (catch)
import Heddle.WebSocket.Connection (Connection, Role (..))
import Heddle.WebSocket.Exception (ConnectionEnded)
import Heddle.WebSocket.Handshake
import Heddle.WebSocket.Options
import Heddle.WebSocket.Session

-- | Answer a request: if it asks for a WebSocket and is accepted, by the body, as
-- 'Heddle.WebSocket.serveWebSocketOn' runs it; otherwise with status 400, 403, 405 or 426. That the
-- peer goes away is no failure: 'ConnectionEnded' ends the body without a report.
--
-- [Blocks]: never; the body runs when the handler has returned.
-- [Masking]: the body runs unmasked.
-- [Threads]: the connection's.
websocket :: WebSocketOptions -> (Connection -> IO ()) -> Request -> IO Reply
websocket options body request = do
  asked <- Asked <$> methodBytes request <*> httpMinor request <*> host request <*> headers request
  pure $ case judgeRequest options asked of
    Left (Refusal status fields text) -> Whole status (Header (C.pack "Content-Type") plainText : fields) text
    -- Only what the session needs: it must not keep the request's headers.
    Right (Accepted fields !deflating !chosen) -> Tunnel (Just (status101, fields)) (session deflating chosen)
  where
    session deflating chosen duplex =
      runSession options Server deflating chosen (duplexTransport duplex) (duplexReceived duplex) body
        `catch` \(_ :: ConnectionEnded) -> pure ()

plainText :: ByteString
plainText = C.pack "text/plain; charset=utf-8"
