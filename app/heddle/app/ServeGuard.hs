-- |
-- Module      : ServeGuard
-- Description : heddle serve's options for limits of each client
module ServeGuard
  ( guardingOptions,
    perClient,
  )
where

import Heddle.Serve
import Heddle.Serve.Config
import Options.Applicative hiding (argument)
import ServeWords

-- | Rules by address, and a rate.
guardingOptions :: Parser (SiteConfig -> SiteConfig)
guardingOptions =
  (\rules rate site -> site {siteAccess = rules, siteRate = rate})
    <$> many (rule "allow" (\networks -> AccessConfig [networks] []) "Answer clients of this network, such as 10.0.0.0/8, 2001:db8::/32, unix or all; the first --allow or --deny that matches counts, and without one the opposite of the last" <|> rule "deny" (\networks -> AccessConfig [] [networks]) "Answer clients of this network with 403")
    <*> setting "rate-limit" parseRate (metavar "N/s[:BURST]" <> help "Requests of each client a second (/m: a minute, /h: an hour), and how many may come at once; then 429 and Retry-After")
  where
    rule name make text = option (eitherReader (fmap make . argument parseAccess)) (long name <> metavar "NETWORK" <> help text)

-- | Connections.
perClient :: Parser (ServerConfig -> ServerConfig)
perClient = (\n server -> server {serverPerClient = n}) <$> setting "max-connections-per-client" (upTo 65535 "a number of connections") (metavar "N" <> help "Open connections of each client; further ones are closed")
