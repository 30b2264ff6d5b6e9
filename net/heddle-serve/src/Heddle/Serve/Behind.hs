-- |
-- Module      : Heddle.Serve.Behind
-- Description : The gateways of a site's routes
-- Stability   : internal, exempt from the version policy
--
-- Opens what answers below each prefix when serving begins, and closes it when serving has ended.
--
-- Cost: that of the gateways.
-- Owner: 'withGateways'.
module Heddle.Serve.Behind
  ( withGateways,
    NotRouted (..),
  )
where

import Heddle.Gateway.Place (Gateway)
import Heddle.IO (Runtime)
import Heddle.Prim.Exception (Exception (..), throwIO)
import Heddle.Serve.Routes

-- | A route that cannot be served, and why.
data NotRouted = NotRouted !RoutePattern !String
  deriving stock (Eq, Show)

instance Exception NotRouted where
  displayException (NotRouted pattern' why) = "cannot serve " ++ renderPattern pattern' ++ ": " ++ why

-- | Open the gateways of routes, run with them, close them. Troubles of the gateways are told as they occur.
--
-- [Blocks]: as the body does.
-- [Throws]: 'NotRouted' before the body begins.
withGateways :: Runtime -> (String -> IO ()) -> [RouteSpec] -> (Routes -> IO a) -> IO a
withGateways runtime tell specs body = case repeatedPattern specs of
  Just twice -> throwIO (NotRouted twice "there are two routes for it.\n  Give each prefix once.")
  Nothing -> go specs []
  where
    go [] opened = body (newRoutes (reverse opened))
    go (RouteSpec pattern' target : others) opened =
      withGateway runtime tell pattern' target (\gateway -> go others ((pattern', gateway) : opened))

-- One gateway; each kind has a line here.
withGateway :: Runtime -> (String -> IO ()) -> RoutePattern -> RouteTarget -> (Gateway -> IO a) -> IO a
withGateway _runtime _tell pattern' target _body = case target of
  CgiDirectory _ -> missing "--cgi"
  FastCgiServers _ -> missing "--fastcgi"
  ScgiServers _ -> missing "--scgi"
  ProxyTo _ -> missing "--proxy"
  where
    missing option = throwIO (NotRouted pattern' (option ++ " is not part of this build.\n  Leave the option out."))
