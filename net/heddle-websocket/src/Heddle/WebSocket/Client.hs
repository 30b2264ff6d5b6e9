{-# LANGUAGE OverloadedStrings #-}
{-# LANGUAGE PatternSynonyms #-}

-- |
-- Module      : Heddle.WebSocket.Client
-- Description : WebSocket clients
-- Stability   : hidden; "Heddle.WebSocket" exports it
--
-- Cost: the handshake's round trip.
-- Owner: the calling thread.
module Heddle.WebSocket.Client
  ( Endpoint (..),
    connectWebSocket,
    withWebSocket,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.ByteString.Unsafe qualified as B (unsafeUseAsCStringLen)
import Data.Char (isDigit, toLower)
import Data.Foldable (for_)
import Foreign.Ptr (castPtr)
import Heddle.Http (Header)
import Heddle.IO (Runtime, connectUntil)
import Heddle.IO.Registration (borrowBuffer, giveBackBuffer, registrationOf, pattern TimedOutCode)
import Heddle.IO.Transport
import Heddle.Prim.Buffer (bufferSize, withBuffer)
import Heddle.Prim.Clock (Deadline, deadlineIn)
import Heddle.Prim.Errno (Errno (..), describeErrno)
import Heddle.Prim.Exception (bracket, throwIO)
import Heddle.WebSocket.Connection (Connection, Role (..))
import Heddle.WebSocket.Exception
import Heddle.WebSocket.Handshake
import Heddle.WebSocket.Options
import Heddle.WebSocket.Session
import Network.Socket (AddrInfo (..), SocketType (Stream), defaultHints, getAddrInfo)

-- | What a client asks a server for.
data Endpoint = Endpoint
  { -- | The Host header: a name, with the port unless it is the scheme's own.
    endpointHost :: !ByteString,
    -- | Path and query.
    endpointPath :: !ByteString,
    -- | Further headers, such as Cookie, Origin or Authorization.
    endpointHeaders :: ![Header]
  }
  deriving stock (Eq, Show)

-- | Open a WebSocket connection on a transport that is connected, and run the body, as
-- 'Heddle.WebSocket.serveWebSocketOn' does. The caller closes the transport.
--
-- [Blocks]: for the handshake at most 'optionHandshake'; then as 'Heddle.WebSocket.serveWebSocketOn'.
-- [Masking]: the body runs in the caller's masking state.
-- [Throws]: 'HandshakeFailed', and what the body throws.
connectWebSocket :: WebSocketOptions -> Endpoint -> Transport -> (Connection -> IO a) -> IO a
connectWebSocket options endpoint transport body = do
  key <- newClientKey
  request <- either throwIO pure (requestHead options (endpointHost endpoint) (endpointPath endpoint) (endpointHeaders endpoint) key)
  deadline <- deadlineIn (optionHandshake options)
  sent <- B.unsafeUseAsCStringLen request $ \(p, n) -> writeUntil transport (castPtr p) n deadline
  failing sent
  (headBytes, received) <- readHeadUntil transport deadline
  response <- either (throwIO . BadAnswer) pure (parseResponse headBytes)
  case judgeResponse options key response of
    Left (Refused status _) -> throwIO (Refused status (B.take 1000 received))
    Left e -> throwIO e
    Right (deflating, subprotocol) -> runSession options Client deflating subprotocol transport received body

failing :: Int -> IO ()
failing r
  | r == TimedOutCode = throwIO AnswerTimedOut
  | r < 0 = throwIO (BadAnswer (describeErrno (Errno (negate r))))
  | otherwise = pure ()

-- The head, without its empty line, and what follows it.
readHeadUntil :: Transport -> Deadline -> IO (ByteString, ByteString)
readHeadUntil transport deadline = go B.empty
  where
    registration = transportRegistration transport
    go got = case B.breakSubstring "\r\n\r\n" got of
      (headBytes, rest)
        | not (B.null rest) -> pure (headBytes, B.drop 4 rest)
        | B.length got > 32768 -> throwIO (BadAnswer "its head is longer than 32 KB")
        | otherwise -> do
          buffer <- borrowBuffer registration
          (r, bytes) <- withBuffer buffer $ \p -> do
            r <- readUntil transport p (bufferSize buffer) deadline
            (,) r <$> if r > 0 then B.packCStringLen (castPtr p, r) else pure B.empty
          giveBackBuffer registration buffer
          failing r
          if r == 0 then throwIO (BadAnswer "the connection ended before it was complete") else go (got <> bytes)

-- | Connect to a URL such as @ws://localhost:8080/chat?room=1@ and run the body, as 'connectWebSocket' does. For
-- @wss://@, open a layer of TLS and use 'connectWebSocket'.
--
-- [Blocks]: while the name is looked up, holds an OS thread; then parks.
-- [Masking]: the body runs in the caller's masking state.
-- [Throws]: 'HandshakeFailed'; 'Heddle.IO.ConnectError' of the last address that was tried; 'IOError' if the name has no
-- address; what the body throws.
withWebSocket :: WebSocketOptions -> Runtime -> String -> [Header] -> (Connection -> IO a) -> IO a
withWebSocket options runtime url fields body = do
  (name, port, endpoint) <- either (throwIO . BadRequest) pure (parseUrl url)
  addresses <- getAddrInfo (Just defaultHints {addrSocketType = Stream}) (Just name) (Just port)
  deadline <- deadlineIn (optionHandshake options)
  bracket (dial deadline (map addrAddress addresses)) (closeTransport . Bare . registrationOf) $ \conn ->
    connectWebSocket options endpoint {endpointHeaders = fields} (Bare (registrationOf conn)) body
  where
    dial _ [] = throwIO (BadRequest ("no address for " ++ url))
    dial deadline (address : others) =
      connectUntil runtime address deadline >>= \case
        Right conn -> pure conn
        Left e -> if null others then throwIO e else dial deadline others

-- Name, port and endpoint of a URL.
parseUrl :: String -> Either String (String, String, Endpoint)
parseUrl url = do
  rest <- maybe (Left ("the URL " ++ show url ++ ", which does not begin with ws://")) Right (afterScheme (C.pack url))
  let (authority, path) = C.break (\c -> c == '/' || c == '?') (C.takeWhile (/= '#') rest)
      (name, port)
        | "[" `B.isPrefixOf` authority, (a, b) <- C.break (== ']') (B.drop 1 authority) = (a, B.drop 1 b)
        | otherwise = C.break (== ':') authority
  number <- case C.uncons port of
    Nothing -> Right "80"
    Just (':', digits) | not (B.null digits), B.length digits <= 5, C.all isDigit digits -> Right digits
    _ -> Left ("the port of the URL " ++ show url)
  for_ [() | B.null name || C.elem '@' authority] $ \() -> Left ("the host of the URL " ++ show url)
  Right (C.unpack name, C.unpack number, Endpoint authority (if "/" `B.isPrefixOf` path then path else "/" <> path) [])
  where
    afterScheme s = let (a, b) = B.splitAt 5 s in if C.map toLower a == "ws://" then Just b else Nothing
