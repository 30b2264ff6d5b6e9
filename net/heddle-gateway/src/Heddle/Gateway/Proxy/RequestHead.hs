{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Gateway.Proxy.RequestHead
-- Description : The head that a proxy writes to its upstream
-- Stability   : hidden; "Heddle.Gateway.Proxy" uses it
--
-- A head is written from the parsed request, never copied: what frames the client's message, belongs to its connection, or claims where the
-- request comes from is left out and written afresh. So the upstream reads one request whatever the client has sent.
--
-- Cost: one copy of the client's head and one of the new head.
-- Owner: values.
-- Source: RFC 9110, sections 7.6.1 and 7.6.3; RFC 7239.
module Heddle.Gateway.Proxy.RequestHead
  ( -- * Plans
    Plan (..),
    Framed (..),
    Unplanned (..),
    planOf,

    -- * Heads
    headFor,
    basePath,
    spelling,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.Char (toLower, toUpper)
import Data.Maybe (fromMaybe, isJust)
import Data.Primitive.SmallArray (SmallArray, indexSmallArray, smallArrayFromList)
import Heddle.Gateway.Proxy.Address
import Heddle.Gateway.Proxy.Settings
import Heddle.Http
import Heddle.Http.Client (Url (..), originAuthority)
import Heddle.Http.HeadCopy
import Heddle.Http.UriPath

-- | What is to be forwarded, apart from where.
data Plan = Plan
  { planMethod :: !ByteString,
    -- | The path after the prefix, and the query.
    planRest :: !ByteString,
    planHost :: !ByteString,
    -- | Header lines, in pieces.
    planLines :: ![ByteString],
    planUpgrade :: !(Maybe ByteString),
    planExpects :: !Bool,
    planFraming :: !Framed,
    -- | What upstreams are chosen by.
    planKey :: !ByteString,
    planSecure :: !Bool
  }

-- | How the body is framed.
data Framed
  = Bodiless
  | Counted !Int
  | InChunks
  deriving stock (Eq)

-- | Why a request is not forwarded: what to answer, and a sentence.
data Unplanned = Unplanned !Status !ByteString

data Name = Known !KnownHeader | Other !ByteString

-- | Plan the forwarding of a request.
--
-- [Threads]: the handler's.
planOf :: ProxySettings -> Request -> IO (Either Unplanned Plan)
planOf settings request = do
  copy <- copyHead request
  left <- bodyLeft request
  major <- httpMajor request
  authority <- host request
  let from = peerAddressOf (peer request)
      secure = isSecure request
      fields = copiedHeaders Known Other copy
  pure (plan settings copy fields left major authority from secure)

plan :: ProxySettings -> HeadCopy -> [(Name, ByteString)] -> Maybe Int -> Int -> ByteString -> PeerAddress -> Bool -> Either Unplanned Plan
plan settings copy fields left major authority from secure = do
  rest <- restOf (proxyPrefix settings) copy
  pure
    Plan
      { planMethod = copiedMethod copy,
        planRest = rest,
        planHost = authority,
        planLines = foldr line forwarded fields,
        planUpgrade = upgrade,
        planExpects = framing /= Bodiless && isJust (copiedHeader HeaderExpect copy),
        planFraming = framing,
        planKey = key,
        planSecure = secure
      }
  where
    trusted = any (isWithin from) (proxyTrusted settings)
    framing = case left of
      Just 0 -> Bodiless
      Just n -> Counted n
      Nothing -> InChunks
    options = [lower option | (Known HeaderConnection, value) <- fields, option <- listed value]
    upgrade = case [value | (Known HeaderUpgrade, value) <- fields] of
      [value]
        | major == 1,
          copiedMinor copy == 1,
          framing == Bodiless,
          "upgrade" `elem` options,
          not (B.null value),
          -- An upstream that began HTTP/2 on this connection would take requests that this proxy has not seen.
          not (any (\name -> any (`B.isPrefixOf` lower name) ["h2", "http", "tls"]) (listed value)) ->
          Just value
      _ -> Nothing
    line (name, value) others = case name of
      Known known
        | isLeftOut known -> others
        | not (null named), lower (spelling known) `elem` named -> others
        | known == HeaderXRealIp && not trusted -> others
        | otherwise -> prefixOf known : value : "\r\n" : others
      Other spelt
        | not (null named), lower spelt `elem` named -> others
        | dropsOther trusted spelt -> others
        | otherwise -> spelt : ": " : value : "\r\n" : others
    named = filter (`notElem` ["close", "keep-alive", "upgrade", "te"]) options
    -- What this proxy says itself.
    clientText = peerText from
    given known = [value | trusted, (Known k, value) <- fields, k == known, not (B.null value)]
    before known = case given known of
      [] -> ""
      values -> B.intercalate ", " values <> ", "
    scheme = if secure then "https" else "http"
    first known = fromMaybe <*> (\_ -> firstOf (given known))
    firstOf = \case
      value : _ -> Just value
      [] -> Nothing
    forwarded =
      concat
        [ ["X-Forwarded-For: ", before HeaderXForwardedFor, clientText, "\r\n"],
          ["X-Forwarded-Proto: ", first HeaderXForwardedProto scheme, "\r\n"],
          if B.null hostSeen then [] else ["X-Forwarded-Host: ", hostSeen, "\r\n"],
          if B.null (proxyPrefix settings) then [] else ["X-Forwarded-Prefix: ", proxyPrefix settings, "\r\n"],
          ["Forwarded: ", before HeaderForwarded, "for=", node, if B.null authority then "" else ";host=\"" <> B.filter isQuotable authority <> "\"", ";proto=", scheme, "\r\n"],
          ["Via: ", foldMap (<> ", ") [value | (Known HeaderVia, value) <- fields], received, " heddle\r\n"]
        ]
    hostSeen = first HeaderXForwardedHost authority
    node = case from of
      PeerLocal -> "unknown"
      _ | C.elem ':' clientText -> "\"[" <> clientText <> "]\""
      _ -> clientText
    isQuotable b = b /= 0x22 && b /= 0x5C
    received = if major == 2 then "2.0" else if copiedMinor copy == 0 then "1.0" else "1.1"
    key = case proxyBalance settings of
      ByAddress -> case given HeaderXForwardedFor of
        [] -> clientText
        values -> last (listed (last values) ++ [clientText | null (listed (last values))])
      ByHeader name -> case [value | (n, value) <- fields, lower (nameOf n) == lower name] of
        value : _ -> value
        [] -> clientText
      _ -> ""

nameOf :: Name -> ByteString
nameOf = \case
  Known known -> spelling known
  Other spelt -> spelt

-- What belongs to a connection, or is written afresh.
isLeftOut :: KnownHeader -> Bool
isLeftOut = \case
  HeaderHost -> True
  HeaderConnection -> True
  HeaderContentLength -> True
  HeaderTransferEncoding -> True
  HeaderExpect -> True
  HeaderUpgrade -> True
  HeaderTe -> True
  HeaderTrailer -> True
  HeaderKeepAlive -> True
  HeaderProxyConnection -> True
  HeaderProxyAuthorization -> True
  HeaderVia -> True
  HeaderXForwardedFor -> True
  HeaderXForwardedProto -> True
  HeaderXForwardedHost -> True
  HeaderForwarded -> True
  _ -> False

-- Other spellings of the same, for servers that take an underscore for a hyphen, as CGI does; what tells an untrusted tale; what would
-- become the variable HTTP_PROXY of a program.
dropsOther :: Bool -> ByteString -> Bool
dropsOther trusted spelt
  | C.elem '_' spelt = hyphened `elem` framingNames || isForwarding hyphened
  | otherwise = name `elem` ["http2-settings", "proxy"] || (not trusted && isForwarding name)
  where
    name = lower spelt
    hyphened = C.map (\c -> if c == '_' then '-' else c) name
    isForwarding n = "x-forwarded" `B.isPrefixOf` n || n == "x-real-ip" || n == "forwarded"
    framingNames = ["content-length", "transfer-encoding", "host", "connection"]

-- | The name of a known header as it is usually spelt.
spelling :: KnownHeader -> ByteString
spelling known = let prefix = prefixOf known in B.take (B.length prefix - 2) prefix

prefixOf :: KnownHeader -> ByteString
prefixOf known = indexSmallArray prefixes (fromEnum known)
{-# INLINE prefixOf #-}

-- With the colon and the space.
prefixes :: SmallArray ByteString
prefixes = smallArrayFromList [C.pack (capitals (C.unpack (knownHeaderName known))) <> ": " | known <- knownHeaders]
  where
    capitals = \case
      c : rest -> toUpper c : go rest
      [] -> []
    go = \case
      '-' : c : rest -> '-' : toUpper c : go rest
      c : rest -> c : go rest
      [] -> []
{-# NOINLINE prefixes #-}

lower :: ByteString -> ByteString
lower = C.map toLower

-- The elements of a list in a header's value.
listed :: ByteString -> [ByteString]
listed value = [part | raw <- C.split ',' value, let part = C.dropWhileEnd blank (C.dropWhile blank raw), not (B.null part)]
  where
    blank c = c == ' ' || c == '\t'

-- What of the target comes after the prefix. The client's spelling is kept, except where another reader could resolve it differently.
restOf :: ByteString -> HeadCopy -> Either Unplanned ByteString
restOf prefix copy
  | copiedForm copy == AsteriskForm = if B.null prefix then Right "*" else Left elsewhere
  | otherwise = case decodePath raw of
    Left e -> Left (Unplanned (pathErrorStatus e) (pathErrorText e))
    Right path -> case below raw of
      Just rest | not (hasDots rest) -> Right (rest <> copiedQuery copy)
      _ -> maybe (Left elsewhere) (Right . (<> copiedQuery copy)) (below (encodePath path))
  where
    raw = copiedPath copy
    elsewhere = Unplanned status404 "Nothing is forwarded from this path."
    below path
      | B.null prefix = Just path
      | otherwise = case B.stripPrefix prefix path of
        Just rest | B.null rest || "/" `B.isPrefixOf` rest -> Just rest
        _ -> Nothing
    -- A segment of one or two dots, however they are written.
    hasDots rest
      | "/." `B.isInfixOf` rest || C.elem '%' rest = any dots (C.split '/' rest)
      | otherwise = False
    dots segment = unescaped segment `elem` [".", ".."]
    unescaped segment = case B.breakSubstring "%2" segment of
      (a, b) | B.length b >= 3, C.index b 2 `elem` ("eE" :: String) -> a <> "." <> unescaped (B.drop 3 b)
      (a, b) | B.length b >= 2 -> a <> "%2" <> unescaped (B.drop 2 b)
      _ -> segment

-- | The path that takes the prefix's place: that of the upstream's URL, without a slash at its end.
basePath :: Upstream -> ByteString
basePath = C.dropWhileEnd (== '/') . C.takeWhile (/= '?') . urlTarget . upstreamUrl

-- | The whole head for an upstream with this base path.
--
-- [Cost]: a copy.
headFor :: ProxySettings -> Upstream -> ByteString -> Plan -> (ByteString, ByteString)
headFor settings upstream base planned = (target', B.concat (planMethod planned : " " : target' : " HTTP/1.1\r\nHost: " : name : "\r\n" : (planLines planned ++ framing ++ final)))
  where
    target'
      | planRest planned == "*" = "*"
      | "/" `B.isPrefixOf` joined = joined
      | otherwise = "/" <> joined
    joined = base <> planRest planned
    name = case proxyHost settings of
      HostOfClient | not (B.null (planHost planned)) -> planHost planned
      _ -> originAuthority (urlOrigin (upstreamUrl upstream))
    framing = case planFraming planned of
      Counted n -> ["Content-Length: ", C.pack (show n), "\r\n"]
      InChunks -> ["Transfer-Encoding: chunked\r\n"]
      -- A server could wait for the body of a method that usually has one.
      Bodiless | planMethod planned `elem` ["POST", "PUT", "PATCH"] -> ["Content-Length: 0\r\n"]
      Bodiless -> []
    final =
      ["Expect: 100-continue\r\n" | planExpects planned] ++ case planUpgrade planned of
        Just protocol -> ["Connection: Upgrade\r\nUpgrade: ", protocol, "\r\n\r\n"]
        Nothing | proxyAnnounce settings /= announcesNothing -> ["Connection: close\r\n\r\n"]
        Nothing -> ["\r\n"]
    announcesNothing = minBound
