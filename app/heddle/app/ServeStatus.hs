-- |
-- Module      : ServeStatus
-- Description : heddle serve's options for watching it
module ServeStatus
  ( watchOptions,
    withProgram,
  )
where

import Data.ByteString.Char8 qualified as C
import Heddle.Gateway.Proxy (parseNetwork)
import Heddle.Serve
import Heddle.Serve.Config
import Options.Applicative hiding (argument)
import ServeTimeline (recordTimeline)
import ServeWords
import VersionText (versionNumber)

-- | The status page, who may read it, slow requests.
watchOptions :: Parser WatchConfig
watchOptions =
  WatchConfig
    <$> setting "status" parseStatusPrefix (metavar "PREFIX" <> help "Show how the server is at PREFIX: a page, and below it json, metrics (Prometheus), health and ready")
    <*> settings "status-allow" parseNetwork (metavar "NETWORK" <> help "Who may read --status, such as 10.0.0.0/8 or unix; others get what they would get without it; may be given more than once (default: loopback)")
    <*> setting "status-timeline" (upTo 600 "a number of seconds") (metavar "SECONDS" <> help "Whoever may read --status may have a timeline recorded, at PREFIX/timeline?seconds=N: a page of what cores and threads do, for up to this many seconds")
    <*> setting "slow" parseDuration (metavar "SECONDS" <> help "Say on standard error which requests take longer than this, such as 2 or 0.5")
    <*> yes "request-id" "Give each request an X-Request-Id, for its reply, the log, programs and the servers behind --proxy; one that is sent is taken over from a --trusted-proxy. Continue traceparent"
    <*> setting "trace" parseShare (metavar "SHARE" <> help "Begin a trace for each request without a traceparent, to be recorded for this share of them, 0 to 1; continue the others")

-- | The status page names the program's version, and this program can record timelines.
withProgram :: ServeOptions -> ServeOptions
withProgram options = options {serveRecorder = Just recordTimeline, serveStatus = (\status -> status {statusVersion = C.pack versionNumber}) <$> serveStatus options}
