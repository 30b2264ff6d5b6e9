-- |
-- Module      : ServeGuard
-- Description : heddle serve's options for limits of each client
module ServeGuard
  ( guardingOptions,
  )
where

import Heddle.Serve
import Options.Applicative

-- | Rules by address, rate, connections.
guardingOptions :: Parser GuardOptions
guardingOptions =
  GuardOptions
    <$> many (rule "allow" Allow "Answer clients of this network, such as 10.0.0.0/8, 2001:db8::/32, unix or all; the first --allow or --deny that matches counts, and without one the opposite of the last" <|> rule "deny" Deny "Answer clients of this network with 403")
    <*> optional
      ( option
          (eitherReader parseRate)
          (long "rate-limit" <> metavar "N/s[:BURST]" <> help "Requests of each client a second (/m: a minute, /h: an hour), and how many may come at once; then 429 and Retry-After")
      )
    <*> optional
      ( option
          (eitherReader limit)
          (long "max-connections-per-client" <> metavar "N" <> help "Open connections of each client; further ones are closed")
      )
  where
    rule name make text = option (eitherReader (fmap make . parseAccess)) (long name <> metavar "NETWORK" <> help text)
    limit text = case reads text of
      [(n, "")] | n >= 1 && n <= (65535 :: Int) -> Right n
      _ -> Left ("'" ++ text ++ "' is not a number of connections (1 to 65535)")
