{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Serve.Forward
-- Description : The reverse proxy of a route
-- Stability   : internal, exempt from the version policy
--
-- Makes a proxy of a route's prefix and servers. Servers reached by @https@ are verified against the system's authorities, and are told
-- their own name in Host, by which they choose their certificate and site.
--
-- Cost: that of the proxy; with @https@, the authorities' certificates, 1 MB.
-- Owner: 'withForwarding'.
module Heddle.Serve.Forward
  ( parseUpstreams,
    joinedProxies,
    withForwarding,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.Char (isAlphaNum, isAscii, isDigit, ord, toUpper)
import Data.List (intercalate)
import Data.Text qualified as T
import Data.Text.Encoding (encodeUtf8)
import Heddle.Gateway.Place (Gateway, Place (..), placePath)
import Heddle.Gateway.Proxy
import Heddle.Http (Header (..), Reply (..), status303)
import Heddle.Http.Client (Origin (..), Url (..), describeUrlError, parseUrl, renderOrigin)
import Heddle.IO (Runtime)
import Heddle.Prim.Exception (displayException)
import Heddle.Serve.Routes
import Heddle.Serve.UpstreamFigures
import Heddle.Tls (defaultTlsClientConfig, newTlsClient, tlsConnecting)
import Numeric (showHex)

-- | Read URLs with commas between them; @*3@ after one is its weight, the part of the requests that it gets.
--
-- >>> fmap (\(ProxyTo servers) -> map upstreamWeight servers) (parseUpstreams "http://a*3,http://b/c")
-- Right [3,1]
--
-- >>> parseUpstreams "ftp://x"
-- Left "'ftp://x': an address begins with http://, https:// or unix:"
parseUpstreams :: String -> Either String RouteTarget
parseUpstreams text = ProxyTo <$> traverse weighted (commas text)
  where
    weighted one = case span isDigit (reverse one) of
      (digits@(_ : _), '*' : address) -> weight one (read (reverse digits)) >>= \n -> (`Upstream` n) <$> url (reverse address)
      _ -> upstreamAt <$> url one
    weight :: String -> Integer -> Either String Int
    weight one n
      | n >= 1 && n <= 1000 = Right (fromInteger n)
      | otherwise = Left ("'" ++ one ++ "': a weight is a number from 1 to 1000")
    url one = either (\e -> Left ("'" ++ one ++ "': " ++ describeUrlError e)) Right (parseUrl (encodeUtf8 (T.pack one)))
    commas s = case break (== ',') s of
      (one, _ : others) -> one : commas others
      (one, []) -> [one]

-- | Proxies of one pattern as one, with the servers of all.
joinedProxies :: [RouteSpec] -> [RouteSpec]
joinedProxies = foldr join' []
  where
    join' spec@(RouteSpec pattern' (ProxyTo servers)) others = case break (alike pattern') others of
      (before, RouteSpec _ (ProxyTo more) : after) -> RouteSpec pattern' (ProxyTo (servers ++ more)) : before ++ after
      _ -> spec : others
    join' spec others = spec : others
    alike pattern' = \case
      RouteSpec p (ProxyTo _) -> p == pattern'
      _ -> False

-- | Open a proxy with these settings, of which the prefix and the upstreams are the route's, and tell how to ask for its figures;
-- 'Left' says why it cannot be opened.
--
-- [Blocks]: as the body does.
withForwarding :: Runtime -> (String -> IO ()) -> (IO UpstreamFigures -> IO ()) -> ProxySettings -> RoutePattern -> [Upstream] -> (Either String Gateway -> IO a) -> IO a
withForwarding runtime tell watch settings pattern' servers body =
  if any (originSecure . urlOrigin . upstreamUrl) servers
    then
      newTlsClient defaultTlsClientConfig >>= \case
        Left problems -> body (Left (intercalate "\n" (map displayException problems)))
        Right client -> opened given {proxySecure = Just (tlsConnecting client), proxyHost = HostOfUpstream}
    else opened given
  where
    opened with = withProxy runtime with (\proxy -> watch (ofProxy (map (renderOrigin . urlOrigin . upstreamUrl) servers) proxy) >> body (Right (forwarding proxy)))
    -- A proxy forwards what the client has sent. Where a program redirects to instead, the client goes itself.
    forwarding proxy place = case placeQuery place of
      Nothing -> proxyHandlerFor proxy ((\asked -> addressOf place <> (if B.null asked then "" else "?" <> asked)) <$> placeRewritten place) (placeUser place)
      Just asked -> \_ -> pure (Whole status303 [Header "Location" (addressOf place <> (if B.null asked then "" else "?" <> asked))] "")
    addressOf place = "/" <> B.drop 1 (escaped (C.dropWhile (== '/') (placePath place)))
    given = settings {proxyPrefix = escaped (patternPrefix pattern'), proxyUpstreams = servers, proxyFailed = tell}

-- A decoded path as it stands in an address.
escaped :: ByteString -> ByteString
escaped prefix
  | B.null prefix = ""
  | otherwise = "/" <> C.concatMap spelt prefix
  where
    spelt c
      | isAscii c && isAlphaNum c || c `elem` ("/-._~!$&'()*+,;=:@" :: String) = C.singleton c
      | c == '\0' = "%2F"
      -- In upper case, as encodePath spells it.
      | otherwise = C.pack ('%' : (if ord c < 16 then "0" else "") ++ map toUpper (showHex (ord c) ""))
