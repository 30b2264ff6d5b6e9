-- |
-- Module      : ServeLogs
-- Description : heddle serve's options for logs
module ServeLogs
  ( logOptions,
  )
where

import Heddle.Serve
import Heddle.Serve.Config
import Options.Applicative hiding (argument)
import ServeWords

-- | The access log: its place, format, conditions, rotation, what happens when the disk is full; the log of messages; what is shown.
logOptions :: Parser LogConfig
logOptions =
  LogConfig
    <$> setting "access-log" parseLogTarget (metavar "FILE" <> action "file" <> help "Append a line for each request to a file; - for standard output, journald for the journal, syslog[:FACILITY][:unix:PATH|:udp:HOST:PORT] for a syslog daemon")
    <*> setting "log-format" parseLogFormat (metavar "combined|common|json|TEXT" <> completeWith ["combined", "common", "json"] <> help "How the lines of --access-log look; TEXT has nginx's variables, such as '$remote_addr $status $request_time' (default: combined)")
    <*> settings "log-only" parseStatuses (metavar "STATUS,..." <> help "Log requests with these statuses only, such as 404 or 4xx,5xx")
    <*> settings "log-skip" (parseGlob . argumentBytes) (metavar "GLOB" <> help "Do not log requests for paths that match, such as /health; may be given more than once")
    <*> setting "log-sample" parseSample (metavar "1/N" <> help "Log one of N requests; all with a status of 400 or more (default: 1/1)")
    <*> setting "log-rotate" parseRotateAt (metavar "SIZE|TIME" <> help "Rename the access log to FILE.1 when it has this size, such as 100M, or each 12h, 1d or 1w")
    <*> setting "log-keep" (upTo 1000 "a number of files") (metavar "N" <> help "How many renamed logs to keep (default: 10)")
    <*> word "log-full" "what to do with a full log" whenFulls (help "When the log accepts no data: let requests wait a second and then drop lines, let them wait, or drop lines at once (default: wait)")
    <*> setting "error-log" parseLogTarget (metavar "FILE" <> action "file" <> help "Write the server's messages there, with time and level, and not to standard error; targets as for --access-log")
    <*> word "error-level" "a level" severities (help "The least level of messages in --error-log (default: notice)")
    <*> word "log" "a way to log" consoleLogs (help "pretty: show each request on standard output, for development; auto: on a terminal, a line with requests/s, errors and bytes (default: auto)")
