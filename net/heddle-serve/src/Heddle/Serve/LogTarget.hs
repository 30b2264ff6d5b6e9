-- |
-- Module      : Heddle.Serve.LogTarget
-- Description : Where a log goes, as users write it
-- Stability   : stable
--
-- Cost: none; values.
-- Owner: values.
module Heddle.Serve.LogTarget
  ( LogTarget (..),
    SyslogPlace (..),
    parseLogTarget,
    renderLogTarget,

    -- * Severities
    Severity (..),
    parseSeverity,
    severityName,
  )
where

import Data.List (elemIndex, intercalate, isPrefixOf, stripPrefix)
import Heddle.Serve.Listen

-- | Where a log goes.
data LogTarget
  = -- | Standard output.
    LogOutput
  | LogFile !FilePath
  | -- | The facility's number.
    LogSyslog !Int !SyslogPlace
  | -- | The journal's socket.
    LogJournald !FilePath
  deriving stock (Eq, Show)

-- | Who receives syslog messages.
data SyslogPlace
  = -- | @\/dev\/log@, whose messages are as those of libc's syslog(3).
    SyslogLocal
  | -- | A Unix socket, for RFC 5424.
    SyslogUnix !FilePath
  | -- | Host and port, for RFC 5424.
    SyslogUdp !String !Int
  deriving stock (Eq, Show)

-- | Read a target: @-@, @journald@, @journald:SOCKET@, @syslog@ with @:FACILITY@ and @:unix:PATH@ or @:udp:HOST:PORT@ after it
-- if wanted, or a file. A file of such a name is written with a directory: @.\/syslog@.
--
-- >>> parseLogTarget "syslog:local3:udp:logs.example:514"
-- Right (LogSyslog 19 (SyslogUdp "logs.example" 514))
parseLogTarget :: String -> Either String LogTarget
parseLogTarget = \case
  "" -> Left "the log's name is empty"
  "-" -> Right LogOutput
  "journald" -> Right (LogJournald "/run/systemd/journal/socket")
  "syslog" -> Right (LogSyslog daemon SyslogLocal)
  text
    | Just path <- stripPrefix "journald:" text -> if null path then Left "after 'journald:' a socket's path is needed" else Right (LogJournald path)
    | Just rest <- stripPrefix "syslog:" text -> syslog rest
    | otherwise -> Right (LogFile text)
  where
    daemon = 3
    syslog rest = case break (== ':') rest of
      (name@(_ : _), after') | Just facility <- elemIndex name facilities -> LogSyslog facility <$> place (drop 1 after')
      (name, _)
        | name `elem` ["unix", "udp"] -> LogSyslog daemon <$> place rest
        | otherwise -> Left ("'" ++ name ++ "' is not a facility of syslog; there are " ++ intercalate ", " (filter (not . null) facilities))
    place = \case
      "" -> Right SyslogLocal
      text
        | Just address <- stripPrefix "udp:" text -> case parseListen address of
          Right (ListenSpec Http (ListenHost host port)) | not (null host), not ("unix:" `isPrefixOf` address) -> Right (SyslogUdp host port)
          _ -> Left ("'" ++ address ++ "' is not HOST:PORT, such as logs.example:514")
        | Just path@(_ : _) <- stripPrefix "unix:" text -> Right (SyslogUnix path)
        | otherwise -> Left ("'" ++ text ++ "' is neither unix:PATH nor udp:HOST:PORT")

-- By number; those without a name are the system's.
facilities :: [String]
facilities = ["kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron", "authpriv", "ftp", "", "", "", "", "local0", "local1", "local2", "local3", "local4", "local5", "local6", "local7"]

-- | For messages.
renderLogTarget :: LogTarget -> String
renderLogTarget = \case
  LogOutput -> "standard output"
  LogFile path -> path
  LogJournald path -> "the journal at " ++ path
  LogSyslog _ place -> case place of
    SyslogLocal -> "syslog at /dev/log"
    SyslogUnix path -> "syslog at " ++ path
    SyslogUdp host port -> "syslog at " ++ host ++ ":" ++ show port

-- | How much a message matters, the most first; syslog's numbers from 3 on.
data Severity = SeverityError | SeverityWarn | SeverityNotice | SeverityInfo
  deriving stock (Bounded, Enum, Eq, Ord, Show)

-- | @error@, @warn@, @notice@ or @info@.
severityName :: Severity -> String
severityName = \case
  SeverityError -> "error"
  SeverityWarn -> "warn"
  SeverityNotice -> "notice"
  SeverityInfo -> "info"

-- | As 'severityName' writes it.
parseSeverity :: String -> Either String Severity
parseSeverity text = case [s | s <- [minBound ..], severityName s == text] of
  s : _ -> Right s
  [] -> Left ("'" ++ text ++ "' is not a level; there are error, warn, notice and info")
