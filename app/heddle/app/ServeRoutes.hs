-- |
-- Module      : ServeRoutes
-- Description : heddle serve's options for what is not answered from files
module ServeRoutes
  ( routeOptions,
  )
where

import Heddle.Serve
import Heddle.Serve.Config
import Options.Applicative hiding (argument)
import ServeWords

-- | Programs, other servers, and what these have in common.
routeOptions :: Parser (SiteConfig -> SiteConfig)
routeOptions =
  build
    <$> many routes
    <*> settings "program-env" parseVariable (metavar "NAME=VALUE" <> help "A variable for the programs of --cgi, --fastcgi and --scgi, such as GIT_PROJECT_ROOT=/srv/git; may be given more than once")
    <*> setting "program-limit" (upTo 100000 "a number of programs") (metavar "N" <> help "How many programs of one --cgi may run at once; further requests wait (default: 64)")
    <*> setting "program-time" seconds' (metavar "SECONDS" <> help "How long a program of --cgi may run (default: 3600)")
    <*> setting "fastcgi-keep" (between 0 100000 "a number of connections") (metavar "N" <> help "Unused connections that each --fastcgi keeps; with php-fpm each occupies a process (default: 0)")
    <*> setting "proxy-timeout" seconds' (metavar "SECONDS" <> help "How long a server behind --proxy may take until its answer begins, and between parts of it (default: 60)")
    <*> setting "proxy-connections" (upTo 1000000 "a number of connections") (metavar "N" <> help "The most connections to each server behind --proxy; further requests wait, first come, first served (default: no limit)")
    <*> setting "proxy-idle" (between 0 1000000 "a number of seconds") (metavar "SECONDS" <> help "How long an unused connection to a server behind --proxy is kept; with 0 each request has one of its own (default: 60)")
    <*> setting "proxy-balance" parseBalance (metavar "turn|least|address|header:NAME" <> completeWith ["turn", "least", "address"] <> help "Which of several servers gets a request: in turns, the least busy one, or always the same one for a client's address or a header's value (default: turn)")
    <*> setting "proxy-check" parseCheckTarget (metavar "PATH" <> help "Ask each server behind --proxy for this path every 5 s, and leave out those that do not answer with 200 to 399")
    <*> announcing
  where
    build routed variables most time kept answer connections unused balance check announce site =
      site
        { siteRouting = joined routed,
          siteProgramEnv = addedPairs variables [],
          siteProgramMost = most,
          siteProgramSeconds = time,
          siteFastCgiKept = kept,
          siteProxyTimeout = answer,
          siteProxyConnections = connections,
          siteProxyIdle = unused,
          siteBalance = balance,
          siteCheck = check,
          siteAnnounce = announce
        }
    announcing = setting "proxy-announce" version (metavar "v1|v2" <> completeWith ["v1", "v2"] <> help "Tell servers behind --proxy the client's address by the PROXY protocol, on a connection for each request")
    version text = maybe (Left ("'" ++ text ++ "' is neither v1 nor v2")) Right (lookup text announces)
    -- Several --proxy of a prefix mean several servers.
    joined = foldr join' []
    join' (prefix, route) others = case break (\(p, r) -> meant p == meant prefix && not (null (routeProxy r))) others of
      (before, (_, more) : after) | not (null (routeProxy route)) -> (prefix, route {routeProxy = routeProxy route ++ routeProxy more}) : before ++ after
      _ -> (prefix, route) : others

routes :: Parser (Written RoutePattern, RouteConfig)
routes =
  route "cgi" "PREFIX=DIR" "Answer below PREFIX by the programs in a directory (CGI)" (\text -> Right emptyRoute {routeCgi = Just (Written onCommandLine text text)})
    <|> route "fastcgi" "PREFIX=ADDR" "Answer below PREFIX, or files such as /*.php, by a FastCGI server at HOST:PORT or unix:PATH; several with commas" (fmap (\servers -> emptyRoute {routeFastCgi = servers}) . places)
    <|> route "scgi" "PREFIX=ADDR" "The same with SCGI" (fmap (\servers -> emptyRoute {routeScgi = servers}) . places)
    <|> route "proxy" "PREFIX=URL" "Forward what is below PREFIX to the HTTP server at a URL (http://, https:// or unix:PATH), with *N behind it for a weight; several with commas, or by giving it again" (fmap (\servers -> emptyRoute {routeProxy = [servers]}) . argument parseUpstreams)
  where
    route name what text target = option (eitherReader (routeWith target)) (long name <> metavar what <> help text)
    -- The prefix is the pattern's; what is behind it is read once more as written.
    routeWith target given = do
      spec <- parseRoute (const (Right (CgiDirectory ""))) given
      let (prefix, rest) = break (== '=') given
      answer <- target (drop 1 rest)
      pure (Written onCommandLine prefix (specPattern spec), answer)
    places = traverse (argument (fmap listenPlace . parseListen)) . commas
    commas text = case break (== ',') text of
      (one, _ : others) -> one : commas others
      (one, []) -> [one]
