{-# LANGUAGE MultiWayIf #-}
{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Http.Client.Url
-- Description : Origins, and the addresses that name them
-- Stability   : hidden; "Heddle.Http.Client" exports it
--
-- An 'Origin' is where a connection leads: requests of equal origins may share connections. A
-- 'Url' is an origin and what to ask it for. 'parseUrl' answers every sequence of bytes.
--
-- Cost: O(bytes).
-- Owner: values.
module Heddle.Http.Client.Url
  ( -- * Origins
    Origin (..),
    Place (..),
    renderOrigin,
    originAuthority,
    defaultPort,

    -- * Addresses
    Url (..),
    parseUrl,
    UrlError (..),
    describeUrlError,

    -- * Parts
    isTargetByte,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.Char (isDigit, toLower)
import Data.Word (Word8)
import Heddle.Http.Scan (isHexByte, isHostByte)

-- | Where a connection leads.
data Origin = Origin
  { -- | Whether the connection is secured: @https@.
    originSecure :: !Bool,
    originPlace :: !Place
  }
  deriving stock (Eq, Show)

instance Ord Origin where
  compare (Origin s a) (Origin t b)
    | s == t = compare a b
    | otherwise = compare s t

-- | A network address that may have to be looked up, or a path.
data Place
  = -- | A host name in lower case, or an address without brackets; and a port.
    Tcp !ByteString !Int
  | -- | The path of a Unix socket.
    UnixSocket !ByteString
  deriving stock (Eq, Show)

-- Names that are compared often are mostly the same memory, which '==' sees at once and 'compare' does not.
instance Ord Place where
  compare (Tcp a p) (Tcp b q)
    | p /= q = compare p q
    | a == b = EQ
    | otherwise = compare a b
  compare (UnixSocket a) (UnixSocket b) = if a == b then EQ else compare a b
  compare (Tcp _ _) (UnixSocket _) = LT
  compare (UnixSocket _) (Tcp _ _) = GT

-- | The origin as an address: @http:\/\/example.org:8080@, @unix:\/run\/app.sock@.
--
-- >>> renderOrigin (Origin True (Tcp "example.org" 443))
-- "https://example.org"
renderOrigin :: Origin -> String
renderOrigin origin = case originPlace origin of
  UnixSocket path -> "unix:" ++ C.unpack path
  Tcp _ _ -> (if originSecure origin then "https://" else "http://") ++ C.unpack (originAuthority origin)

-- | What Host says of an origin: the host, and the port unless it is the scheme's own.
originAuthority :: Origin -> ByteString
originAuthority origin = case originPlace origin of
  UnixSocket _ -> "localhost"
  Tcp name port
    | port == defaultPort (originSecure origin) -> bracketed name
    | otherwise -> B.concat [bracketed name, ":", C.pack (show port)]
  where
    bracketed name = if C.elem ':' name then B.concat ["[", name, "]"] else name

-- | 443 for a secured origin, otherwise 80.
defaultPort :: Bool -> Int
defaultPort secure = if secure then 443 else 80

-- | An origin, and the target of a request to it.
data Url = Url
  { urlOrigin :: !Origin,
    -- | The path and the query, as written; at least @\/@.
    urlTarget :: !ByteString
  }
  deriving stock (Eq, Show)

-- | Why an address cannot be used.
data UrlError
  = -- | Neither @http:\/\/@ nor @https:\/\/@ nor @unix:@.
    UrlScheme
  | -- | User information before the host, which would be sent or logged by accident.
    UrlUserInfo
  | -- | The host is missing, or has a byte that no host has.
    UrlHost
  | -- | The port is not a number from 1 to 65,535.
    UrlPort
  | -- | The path or the query has a space, a control character or a byte above 0x7E.
    UrlPath
  | -- | The path of a Unix socket is empty, not absolute, or longer than 107 bytes.
    UrlSocketPath
  deriving stock (Bounded, Enum, Eq, Show)

-- | A sentence that says what is wrong.
describeUrlError :: UrlError -> String
describeUrlError = \case
  UrlScheme -> "an address begins with http://, https:// or unix:"
  UrlUserInfo -> "user information in an address is refused; send an Authorization header"
  UrlHost -> "the host is missing or malformed"
  UrlPort -> "the port is not a number from 1 to 65535"
  UrlPath -> "the path has a space, a control character or a byte that is not ASCII; percent-encode it"
  UrlSocketPath -> "the path of a Unix socket is absolute and has at most 107 bytes"

-- | Parse @http:\/\/host:port\/path?query@, @https:\/\/…@, or @unix:\/path\/of\/socket:\/path?query@. A
-- fragment is dropped; an IPv6 address stands in brackets. A host name is put into lower case.
--
-- >>> urlTarget <$> parseUrl "http://[::1]:8080?q=1#top"
-- Right "/?q=1"
--
-- [Cost]: O(bytes).
-- [Source]: RFC 3986, section 3; RFC 9110, section 4.2.
parseUrl :: ByteString -> Either UrlError Url
parseUrl text
  | Just rest <- scheme "https://" = network True rest
  | Just rest <- scheme "http://" = network False rest
  | Just rest <- scheme "unix:" = local rest
  | otherwise = Left UrlScheme
  where
    scheme name
      | C.map toLower (B.take (B.length name) text) == name = Just (B.drop (B.length name) text)
      | otherwise = Nothing

-- After the slashes: an authority, then a target.
network :: Bool -> ByteString -> Either UrlError Url
network secure rest = do
  let (authority, after) = C.break (`elem` ("/?#" :: String)) rest
  (name, portText) <-
    if
        | C.elem '@' authority -> Left UrlUserInfo
        | "[" `B.isPrefixOf` authority -> literal authority
        | otherwise -> named authority
  port <- portOf secure portText
  target <- targetOf after
  pure (Url (Origin secure (Tcp name port)) target)

literal :: ByteString -> Either UrlError (ByteString, ByteString)
literal authority
  | not (B.null close),
    C.count ':' address >= 2,
    B.all (\b -> isHexByte b || b == 0x3A || b == 0x2E) address =
    Right (C.map toLower address, B.drop 1 close)
  | otherwise = Left UrlHost
  where
    (address, close) = C.break (== ']') (B.drop 1 authority)

-- A registered name. An escape in it would only hide another spelling of it.
named :: ByteString -> Either UrlError (ByteString, ByteString)
named authority
  | B.null name || B.length name > 255 || not (B.all isHostByte name) = Left UrlHost
  | otherwise = Right (C.map toLower name, after)
  where
    (name, after) = C.break (== ':') authority

portOf :: Bool -> ByteString -> Either UrlError Int
portOf secure text
  | B.null text || text == ":" = Right (defaultPort secure)
  | Just digits <- B.stripPrefix ":" text,
    C.all isDigit digits,
    B.length digits <= 5,
    Just (port, "") <- C.readInt digits,
    port >= 1,
    port <= 65535 =
    Right port
  | "[" `B.isInfixOf` text || not (":" `B.isPrefixOf` text) = Left UrlHost
  | otherwise = Left UrlPort

targetOf :: ByteString -> Either UrlError ByteString
targetOf after
  | not (B.all isTargetByte whole) = Left UrlPath
  | "/" `B.isPrefixOf` whole = Right whole
  | otherwise = Right ("/" <> whole)
  where
    whole = C.takeWhile (/= '#') after

-- | A byte that a target may have: visible ASCII, as the server's parser accepts. The number
-- sign, which begins a fragment, is not one.
isTargetByte :: Word8 -> Bool
isTargetByte b = b > 0x20 && b < 0x7F && b /= 0x23

-- After @unix:@: the socket's path up to a colon, then a target.
local :: ByteString -> Either UrlError Url
local rest
  | not ("/" `B.isPrefixOf` path) || B.length path > 107 || B.elem 0 path || path == "/" = Left UrlSocketPath
  | otherwise = do
    let after = B.drop 1 target
    if B.null after || "/" `B.isPrefixOf` after || "?" `B.isPrefixOf` after || "#" `B.isPrefixOf` after
      then Url (Origin False (UnixSocket path)) <$> targetOf after
      else Left UrlPath
  where
    (path, target) = C.break (== ':') rest
