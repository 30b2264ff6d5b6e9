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
    redirectGateway,
    fillingOf,
  )
where

import Control.Applicative ((<|>))
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.Maybe (fromMaybe)
import Heddle.Gateway.Place
import Heddle.Http
import Heddle.Http.UriPath (escapedPath)
import Heddle.Serve.FileReply (problem, withHeaders)
import Heddle.Serve.HostName (normalHost)
import Heddle.Serve.TargetTemplate

-- | @redirectToHttps port handler@ answers requests that came without TLS with the same address
-- at this port with TLS, and gives all others to the handler. Challenges of ACME are exempt: a
-- certificate authority asks for them without TLS, when there may be no certificate yet.
redirectToHttps :: Int -> Handler -> Handler
redirectToHttps port handler request
  | isSecure request = handler request
  | otherwise = do
    path <- rawPath request
    if "/" `B.isPrefixOf` path && not ("/.well-known/acme-challenge/" `B.isPrefixOf` path)
      then do
        name <- normalHost <$> host request
        q <- query request
        let location = B.concat ["https://", name, if port == 443 then "" else ":" <> C.pack (show port), path, if B.null q then "" else "?" <> q]
        pure $
          if B.null name
            then problem status400 "This site is served over HTTPS, and without a Host it has no address there."
            else withHeaders [Header "Location" location] (problem status308 "This site is served over HTTPS.")
      else handler request

-- | Answers with a redirection to an address made from the request.
redirectGateway :: Status -> TargetTemplate -> Gateway
redirectGateway status address place request = do
  filling <- fillingOf place request
  pure (withHeaders [Header "Location" (fillTarget address filling)] (problem status "What was asked for is at another address."))

-- | What an address is made from: the request, and the path of the place.
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
