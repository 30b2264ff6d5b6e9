{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.WebSocket.Handshake
-- Description : The opening handshake, both sides of it, on headers
-- Stability   : hidden; "Heddle.WebSocket.Codec" exports parts
--
-- Cost: a few microseconds a connection.
-- Owner: values.
module Heddle.WebSocket.Handshake
  ( -- * Server
    Asked (..),
    Accepted (..),
    Refusal (..),
    judgeRequest,

    -- * Client
    requestHead,
    judgeResponse,
    Response (..),
    parseResponse,

    -- * Keys
    acceptFor,
    newClientKey,
  )
where

import Control.Monad (unless, when)
import Crypto.Hash.SHA1 qualified as SHA1
import Data.Bits (shiftR)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Base64 qualified as Base64
import Data.ByteString.Char8 qualified as C
import Data.Char (isDigit, toLower)
import Heddle.Bytes.Hash (HashKey (..), newKey)
import Heddle.Http (Header (..), Status, status400, status403, status405, status426)
import Heddle.WebSocket.Deflate (Deflating)
import Heddle.WebSocket.Exception
import Heddle.WebSocket.Extension
import Heddle.WebSocket.Options

-- | What a request says.
data Asked = Asked
  { askedMethod :: !ByteString,
    -- | The y of HTTP/1.y.
    askedMinor :: !Int,
    askedHost :: !ByteString,
    askedHeaders :: ![(ByteString, ByteString)]
  }
  deriving stock (Eq, Show)

-- | A request that is accepted: what its answer's head needs besides the upgrade, and what was agreed on.
data Accepted = Accepted
  { acceptedHeaders :: ![Header],
    acceptedDeflating :: !(Maybe Deflating),
    acceptedSubprotocol :: !(Maybe ByteString)
  }
  deriving stock (Eq, Show)

-- | A request that is not: status, headers, content.
data Refusal = Refusal !Status ![Header] !ByteString
  deriving stock (Eq, Show)

-- | Judge a request.
--
-- [Cost]: O(bytes).
-- [Source]: RFC 6455, section 4.2.
judgeRequest :: WebSocketOptions -> Asked -> Either Refusal Accepted
judgeRequest options asked = do
  unless (hasToken "websocket" "upgrade") $
    Left (Refusal status426 upgradeTo "This resource is a WebSocket: connect with a WebSocket client.\n")
  when (askedMethod asked /= "GET") $
    Left (Refusal status405 [Header "Allow" "GET"] "A WebSocket handshake is a GET request.\n")
  when (askedMinor asked < 1) $ bad "A WebSocket handshake needs HTTP/1.1."
  unless (hasToken "upgrade" "connection") $ bad "The Connection header of a WebSocket handshake contains Upgrade."
  when (any (/= "0") (values "content-length") || not (null (values "transfer-encoding"))) $
    bad "A WebSocket handshake has no content."
  case values "sec-websocket-version" of
    ["13"] -> Right ()
    _ -> Left (Refusal status426 upgradeTo "This server speaks version 13 of the WebSocket protocol.\n")
  key <- case values "sec-websocket-key" of
    [one] | Right nonce <- Base64.decode one, B.length nonce == 16, Base64.encode nonce == one -> Right one
    _ -> bad "The Sec-WebSocket-Key header must be 16 bytes in base64, once."
  origin <- case values "origin" of
    [] -> Right Nothing
    [one] -> Right (Just one)
    _ -> bad "More than one Origin header."
  unless (optionOrigin options origin (askedHost asked)) $
    Left (Refusal status403 [] "This server does not accept WebSocket connections from this origin.\n")
  offered <- maybe (bad "The Sec-WebSocket-Protocol header is malformed.") Right (tokensOf (joined "sec-websocket-protocol"))
  extensions <- maybe (bad "The Sec-WebSocket-Extensions header is malformed.") Right (parseExtensions (joined "sec-websocket-extensions"))
  let chosen = case filter (`elem` offered) (optionSubprotocols options) of
        one : _ -> Just one
        [] -> Nothing
      agreed = optionDeflate options >>= \deflate -> acceptOffers deflate extensions
  Right
    Accepted
      { acceptedHeaders =
          [Header "Upgrade" "websocket", Header "Sec-WebSocket-Accept" (acceptFor key)]
            ++ [Header "Sec-WebSocket-Protocol" one | Just one <- [chosen]]
            ++ [Header "Sec-WebSocket-Extensions" answer | Just (_, answer) <- [agreed]],
        acceptedDeflating = case agreed of
          Just (!deflating, _) -> Just deflating
          Nothing -> Nothing,
        acceptedSubprotocol = chosen
      }
  where
    values name = valuesOf name (askedHeaders asked)
    joined = B.intercalate "," . values
    hasToken word name = maybe False (any ((== word) . C.map toLower)) (tokensOf' (joined name))
    upgradeTo = [Header "Upgrade" "websocket", Header "Connection" "Upgrade", Header "Sec-WebSocket-Version" "13"]
    bad :: ByteString -> Either Refusal a
    bad why = Left (Refusal status400 [] (why <> "\n"))

-- Upgrade may also name a version: @h2c, foo/2@.
tokensOf' :: ByteString -> Maybe [ByteString]
tokensOf' = tokensOf . C.map (\c -> if c == '/' then '!' else c)

valuesOf :: ByteString -> [(ByteString, ByteString)] -> [ByteString]
valuesOf name list = [value | (n, value) <- list, C.map toLower n == name]

-- | The value of Sec-WebSocket-Accept for a key.
--
-- [Cost]: two compressions of SHA-1.
-- [Source]: RFC 6455, section 1.3.
acceptFor :: ByteString -> ByteString
acceptFor key = Base64.encode (SHA1.hash (key <> "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))

-- | A key for a request, from the system's random numbers.
--
-- [Cost]: a system call.
newClientKey :: IO ByteString
newClientKey = do
  HashKey a b <- newKey
  pure (Base64.encode (B.pack [fromIntegral (w `shiftR` (8 * i)) | w <- [a, b], i <- [0 .. 7]]))

-- | The head of a client's request: host, target, further headers, key. 'Left' if one of them cannot be sent.
--
-- [Cost]: O(bytes).
requestHead :: WebSocketOptions -> ByteString -> ByteString -> [Header] -> ByteString -> Either HandshakeFailed ByteString
requestHead options host target headers key
  | not (plainBytes host) || B.null host = Left (BadRequest ("the host " ++ show host))
  | not (plainBytes target) || not ("/" `B.isPrefixOf` target) = Left (BadRequest ("the path " ++ show target ++ ", which must begin with a slash"))
  | (Header n v : _) <- filter (not . sendable) headers = Left (BadRequest ("the header " ++ show n ++ ": " ++ show v))
  | (one : _) <- filter (not . isToken) (optionSubprotocols options) = Left (BadRequest ("the subprotocol " ++ show one))
  | otherwise =
    Right . B.concat $
      ["GET ", target, " HTTP/1.1\r\nHost: ", host, "\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: ", key, "\r\n"]
        ++ ["Sec-WebSocket-Protocol: " <> B.intercalate ", " (optionSubprotocols options) <> "\r\n" | not (null (optionSubprotocols options))]
        ++ ["Sec-WebSocket-Extensions: " <> deflateOffer <> "\r\n" | Just _ <- [optionDeflate options]]
        ++ concat [[n, ": ", v, "\r\n"] | Header n v <- headers]
        ++ ["\r\n"]
  where
    plainBytes = B.all (\b -> b > 0x20 && b < 0x7f)
    sendable (Header n v) = isToken n && B.all (\b -> b /= 13 && b /= 10 && b /= 0) v && C.map toLower n `notElem` ours
    ours = ["host", "upgrade", "connection", "sec-websocket-version", "sec-websocket-key", "sec-websocket-protocol", "sec-websocket-extensions"]

-- | The head of a server's response.
data Response = Response !Int ![(ByteString, ByteString)]
  deriving stock (Eq, Show)

-- | A response's head, without its empty line; or why it is not one.
--
-- [Cost]: O(bytes).
parseResponse :: ByteString -> Either String Response
parseResponse headBytes = case linesOf headBytes of
  [] -> Left "it is empty"
  first : rest -> do
    status <- statusOf first
    Response status <$> traverse field rest
  where
    linesOf s
      | B.null s = []
      | otherwise = case B.breakSubstring "\r\n" s of (a, r) -> a : linesOf (B.drop 2 r)
    statusOf line
      | Just r <- B.stripPrefix "HTTP/1.1 " line,
        (code, r') <- C.span isDigit r,
        B.length code == 3,
        B.null r' || " " `B.isPrefixOf` r' =
        Right (C.foldl' (\acc c -> acc * 10 + fromEnum c - 48) 0 code)
      | otherwise = Left ("the status line " ++ show (B.take 80 line))
    field line = case C.break (== ':') line of
      (name, r)
        | isToken name, not (B.null r), B.all (\b -> b /= 13 && b /= 10 && b /= 0) r -> Right (name, trim (B.drop 1 r))
        | otherwise -> Left ("the line " ++ show (B.take 80 line))
    trim = C.dropWhileEnd space . C.dropWhile space
    space c = c == ' ' || c == '\t'

-- | What a server's response with status 101 agrees to.
--
-- [Cost]: O(bytes).
-- [Source]: RFC 6455, section 4.1.
judgeResponse :: WebSocketOptions -> ByteString -> Response -> Either HandshakeFailed (Maybe Deflating, Maybe ByteString)
judgeResponse options key (Response status headers) = do
  when (status /= 101) $ Left (Refused status B.empty)
  case values "upgrade" of
    [one] | C.map toLower one == "websocket" -> Right ()
    _ -> bad "Upgrade is not websocket"
  unless (maybe False (any ((== "upgrade") . C.map toLower)) (tokensOf (joined "connection"))) $ bad "Connection does not contain Upgrade"
  unless (values "sec-websocket-accept" == [acceptFor key]) $ bad "Sec-WebSocket-Accept does not fit the key"
  subprotocol <- case values "sec-websocket-protocol" of
    [] -> Right Nothing
    [one] | one `elem` optionSubprotocols options -> Right (Just one)
    other -> bad ("the subprotocol " ++ show (B.intercalate "," other) ++ " was not offered")
  extensions <- maybe (bad "Sec-WebSocket-Extensions is malformed") Right (parseExtensions (joined "sec-websocket-extensions"))
  deflate <- either bad Right (judgeAnswer (optionDeflate options) extensions)
  Right (deflate, subprotocol)
  where
    values name = valuesOf name headers
    joined = B.intercalate "," . values
    bad = Left . BadAnswer
