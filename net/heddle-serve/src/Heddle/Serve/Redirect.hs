{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Serve.Redirect
-- Description : To other addresses, and from http:// to https://
-- Stability   : internal, exempt from the version policy
--
-- Cost: one copy of the target for a request that is redirected; a comparison for others.
-- Owner: values.
module Heddle.Serve.Redirect
  ( redirectToHttps,
    isChallenge,
    redirectGateway,
    fillingOf,
  )
where

import Control.Applicative ((<|>))
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.Char (isAlphaNum, isAscii)
import Data.Maybe (fromMaybe)
import Heddle.Gateway.Place
import Heddle.Http
import Heddle.Http.UriPath (escapedPath)
import Heddle.Serve.FileReply (problem, withHeaders)
import Heddle.Serve.HostName (normalHost)
import Heddle.Serve.TargetTemplate

-- | @redirectToHttps port handler@ answers requests that came without TLS with the same address
-- at this port with TLS. Those for a challenge of ACME go to the handler: a certificate authority
-- asks for them without TLS, when there may be no certificate yet. So do @OPTIONS *@ and CONNECT, which name no path.
redirectToHttps :: IO Int -> Handler -> Handler
redirectToHttps securePort handler request
  | isSecure request = handler request
  | otherwise = do
    path <- rawPath request
    asked <- form request
    if isChallenge path || asked `elem` [AsteriskForm, AuthorityForm]
      then handler request
      else do
        name <- normalHost <$> host request
        q <- query request
        port <- securePort
        let location = B.concat ["https://", name, if port == 443 then "" else ":" <> C.pack (show port), if B.null path then "/" else path, if B.null q then "" else "?" <> q]
        pure (if B.null name then nowhere else withHeaders [Header "Location" location] (problem status308 "This site is served over HTTPS."))

-- | Tell whether a path, as sent, names a challenge: its last part is a token of base64url. Other bytes could be dot segments
-- or escapes, and then another file would be served, without TLS.
--
-- [Cost]: O(length).
-- [Source]: RFC 8555, section 8.3.
isChallenge :: ByteString -> Bool
isChallenge path = case B.stripPrefix "/.well-known/acme-challenge/" path of
  Just token -> not (B.null token) && C.all (\c -> isAscii c && isAlphaNum c || c == '-' || c == '_') token
  Nothing -> False

nowhere :: Reply
nowhere = problem status400 "The answer is a redirection, and without a Host it has no address."

-- | Answers with a redirection to an address made from the request; with 400 if it needs a host and the request names none.
redirectGateway :: Status -> TargetTemplate -> Gateway
redirectGateway status address place request = do
  filling <- fillingOf place request
  pure $
    if B.null (fillHost filling) && targetNeedsHost address
      then nowhere
      else withHeaders [Header "Location" (fillTarget address filling)] (problem status "What was asked for is at another address.")

-- | Collect what an address is made from: the request, and the path of the place.
--
-- [Cost]: copies of the host, the path and the query.
fillingOf :: Place -> Request -> IO Filling
fillingOf place request = do
  authority <- host request
  asked <- query request
  pure
    Filling
      { fillScheme = if isSecure request then "https" else "http",
        fillHost = normalHost authority,
        fillAuthority = authority,
        fillPath = escapedPath (placePath place),
        fillRest = escapedPath (placeRest place) <> (if placeSlash place && not (B.null (placeRest place)) then "/" else ""),
        fillQuery = fromMaybe asked (placeQuery place <|> placeRewritten place)
      }
