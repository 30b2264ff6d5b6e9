-- |
-- Module      : ServeStatus
-- Description : heddle serve's options for watching it
module ServeStatus
  ( statusRules,
  )
where

import Data.ByteString.Char8 qualified as C
import Heddle.Gateway.Proxy (parseNetwork)
import Heddle.Prim.Clock (milliseconds)
import Heddle.Serve
import Options.Applicative
import VersionText (versionNumber)

-- | The status page, who may read it, slow requests.
statusRules :: Parser (ServeOptions -> ServeOptions)
statusRules =
  build
    <$> optional
      ( option
          (eitherReader parseStatusPrefix)
          (long "status" <> metavar "PREFIX" <> help "Show how the server is at PREFIX: a page, and below it json, metrics (Prometheus), health and ready")
      )
    <*> many
      ( option
          (eitherReader parseNetwork)
          (long "status-allow" <> metavar "NETWORK" <> help "Who may read --status, such as 10.0.0.0/8 or unix; others get what they would get without it; may be given more than once (default: loopback)")
      )
    <*> optional
      ( option
          (eitherReader duration)
          (long "slow" <> metavar "SECONDS" <> help "Say on standard error which requests take longer than this, such as 2 or 0.5")
      )
    <*> switch (long "request-id" <> help "Give each request an X-Request-Id, for its reply, the log, programs and the servers behind --proxy; one that is sent is taken over from a --trusted-proxy. Continue traceparent")
    <*> optional
      ( option
          (eitherReader share)
          (long "trace" <> metavar "SHARE" <> help "Begin a trace for each request without a traceparent, to be recorded for this share of them, 0 to 1; continue the others")
      )
  where
    build prefix networks slow ids traces options = options {serveStatus = status networks <$> prefix, serveSlow = slow, serveRequestIds = ids, serveTraces = traces}
    status networks prefix =
      let standard = (defaultStatusOptions prefix) {statusVersion = C.pack versionNumber}
       in if null networks then standard else standard {statusAllow = networks}
    share text = case reads text :: [(Double, String)] of
      [(n, "")] | n >= 0 && n <= 1 -> Right n
      _ -> Left ("'" ++ text ++ "' is not a share of the requests (0 to 1)")
    duration text = case reads text :: [(Double, String)] of
      [(n, "")] | n >= 0.001 && n <= 1000000 -> Right (milliseconds (round (n * 1000)))
      _ -> Left ("'" ++ text ++ "' is not a number of seconds (0.001 to 1000000)")
