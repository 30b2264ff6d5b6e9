{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Gateway.Proxy.Forwarded
-- Description : Whose request proxies have passed on
-- Stability   : hidden; "Heddle.Gateway.Proxy" exports what is public
--
-- The client that X-Forwarded-For or Forwarded names. Both are lists to which each proxy appends the one that it was asked by, so
-- both are read from the right: the client is the first address that is not one of the proxies that are trusted. A client can
-- write anything at their beginning, and nothing there changes what is read before it.
--
-- A proxy may append to one of the two, and pass the other on as the client has sent it. Nothing tells which one that is, so where
-- both are there and disagree, a request has two clients: what is forbidden to either of them is forbidden.
--
-- Cost: nothing without trusted proxies; O(header) with them.
-- Owner: values.
-- Source: RFC 7239; RFC 9110, section 5.6.1.
module Heddle.Gateway.Proxy.Forwarded
  ( forwardedClients,
    clientsByHeader,
    addressIn,
    forwardedNodes,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.ByteString.Unsafe qualified as B (unsafeIndex)
import Data.Foldable (fold)
import Data.List (nub)
import Data.Word (Word8)
import Heddle.Gateway.Ascii (lowered)
import Heddle.Gateway.Proxy.Address
import Heddle.Http
import Heddle.Http.Borrowed (hasHeader)

-- | The clients that a request may come from, as trusted proxies tell: that of X-Forwarded-For, then that of Forwarded, if it is
-- another one. None if the peer is no trusted proxy, or names nobody; then the peer is the client. A header that says something
-- else than an address names the nearest trusted proxy that is known, which may be the peer.
--
-- [Cost]: O(bytes of the two headers); two loads if there are none.
-- [Threads]: the handler's.
forwardedClients :: [Network] -> Request -> IO [PeerAddress]
forwardedClients trusted request = nub . map snd <$> clientsByHeader trusted request

-- | The same with the header that names each, and both where both headers are there, even if they agree.
--
-- [Cost]: as 'forwardedClients'.
-- [Threads]: the handler's.
clientsByHeader :: [Network] -> Request -> IO [(KnownHeader, PeerAddress)]
clientsByHeader trusted request
  | not (isTrusted from) = pure []
  | otherwise = do
    one <- named HeaderXForwardedFor (map addressIn . reverse . elements)
    other <- named HeaderForwarded forwardedNodes
    pure (map ((,) HeaderXForwardedFor) one ++ map ((,) HeaderForwarded) other)
  where
    from = peerAddressOf (peer request)
    isTrusted address = any (isWithin address) trusted
    named known nodes = do
      there <- hasHeader request known
      if there then client . nodes . fold <$> header request known else pure []
    client = \case
      [] -> []
      nodes -> [walk from nodes]
    walk found = \case
      Just address : others -> if isTrusted address then walk address others else address
      _ -> found
    elements value = [element | raw <- C.split ',' value, let element = C.strip raw, not (B.null element)]

-- | The nodes that the elements of Forwarded name, the last one first: 'Nothing' for an element that names none, or no address.
--
-- >>> forwardedNodes "for=192.0.2.7;proto=http, for=\"[2001:db8::1]:4711\", for=_hidden"
-- [Nothing,Just (PeerInternet 2306139568115548160 1 0),Just (PeerInternet 0 281473902969351 0)]
--
-- [Cost]: O(length).
forwardedNodes :: ByteString -> [Maybe PeerAddress]
forwardedNodes value = [nodeOf element | element <- fromRight value, not (B.null element)]

-- The elements of a list, the last one first. Commas in quotes are no commas; quotes are followed from the right, so that an open one
-- at the beginning, which a client has written, does not swallow what proxies have appended.
fromRight :: ByteString -> [ByteString]
fromRight value
  | at < 0 = [C.strip value]
  | otherwise = C.strip (B.drop (at + 1) value) : fromRight (B.take at value)
  where
    at = comma (B.length value - 1) False
    comma i quoted
      | i < 0 = -1
      | b == 0x22 = comma (i - 1) (not quoted || escaped (i - 1) False)
      | b == 0x2C && not quoted = i
      | otherwise = comma (i - 1) quoted
      where
        b = B.unsafeIndex value i
    -- Whether the backslashes that end here are odd in number.
    escaped i odd' = if i >= 0 && B.unsafeIndex value i == backslash then escaped (i - 1) (not odd') else odd'

backslash :: Word8
backslash = 0x5C

-- The address that an element names, once.
nodeOf :: ByteString -> Maybe PeerAddress
nodeOf element = case [node | ("for", node) <- fold (pairsOf element)] of
  [node] -> addressIn node
  _ -> Nothing

-- Names in lower case, and values without their quotes.
pairsOf :: ByteString -> Maybe [(ByteString, ByteString)]
pairsOf text
  | B.null text = Just []
  | otherwise = case C.break (\c -> c == '=' || c == ';') (C.dropWhile blank text) of
    (name, rest)
      | Just given <- B.stripPrefix "=" rest -> do
        (node, after) <- maybe (Just (C.break (== ';') given)) (quoted "") (B.stripPrefix "\"" given)
        let following = C.dropWhile blank after
        ((lowered name, C.dropWhileEnd blank node) :) <$> if B.null following then Just [] else B.stripPrefix ";" following >>= pairsOf
      -- Elements may have empty pairs.
      | C.all blank name -> pairsOf (B.drop 1 rest)
      | otherwise -> Nothing
  where
    blank c = c == ' ' || c == '\t'
    quoted found given = case C.break (\c -> c == '"' || c == '\\') given of
      (part, rest) -> case C.uncons rest of
        Just ('"', after) -> Just (found <> part, after)
        Just ('\\', after) | not (B.null after) -> quoted (found <> part <> B.take 1 after) (B.drop 1 after)
        _ -> Nothing

-- | An address, in brackets or not, with a port or without.
--
-- [Cost]: O(length).
addressIn :: ByteString -> Maybe PeerAddress
addressIn text
  | B.length text > 64 = Nothing
  | Just inner <- B.stripPrefix "[" text, (address, rest) <- C.break (== ']') inner = if rest == "]" || "]:" `B.isPrefixOf` rest then plain address else Nothing
  | C.count ':' text == 1 = plain (C.takeWhile (/= ':') text)
  | otherwise = plain text
  where
    plain address
      | C.elem '/' address = Nothing
      | otherwise = case parseNetwork (C.unpack address) of
        Right (Network high low _) -> Just (PeerInternet high low 0)
        _ -> Nothing
