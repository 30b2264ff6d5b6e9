-- |
-- Module      : ServeLogs
-- Description : heddle serve's options for logs
module ServeLogs
  ( LogChoices (..),
    logOptions,
    accessLogOption,
  )
where

import Data.Text qualified as T
import Data.Text.Encoding (encodeUtf8)
import Heddle.Serve
import Options.Applicative

-- | The format of the access log, and the rest.
data LogChoices = LogChoices !LogFormat !LogOptions

-- | Where the access log goes.
accessLogOption :: Parser (Maybe FilePath)
accessLogOption =
  optional
    ( option
        (eitherReader (\text -> text <$ parseLogTarget text))
        (long "access-log" <> metavar "FILE" <> action "file" <> help "Append a line for each request to a file; - for standard output, journald for the journal, syslog[:FACILITY][:unix:PATH|:udp:HOST:PORT] for a syslog daemon")
    )

-- | Format, conditions, rotation, what happens when the disk is full, and the log of messages.
logOptions :: Parser LogChoices
logOptions =
  build
    <$> option
      (eitherReader parseLogFormat)
      (long "log-format" <> metavar "combined|common|json|TEXT" <> completeWith ["combined", "common", "json"] <> value Combined <> showDefaultWith (const "combined") <> help "How the lines of --access-log look; TEXT has nginx's variables, such as '$remote_addr $status $request_time'")
    <*> (concat <$> many (option (eitherReader parseStatuses) (long "log-only" <> metavar "STATUS,..." <> help "Log requests with these statuses only, such as 404 or 4xx,5xx")))
    <*> many (option (eitherReader glob) (long "log-skip" <> metavar "GLOB" <> help "Do not log requests for paths that match, such as /health; may be given more than once"))
    <*> option (eitherReader parseSample) (long "log-sample" <> metavar "1/N" <> value 1 <> showDefaultWith (const "1/1") <> help "Log one of N requests; all with a status of 400 or more")
    <*> optional (option (eitherReader parseRotateAt) (long "log-rotate" <> metavar "SIZE|TIME" <> help "Rename the access log to FILE.1 when it has this size, such as 100M, or each 12h, 1d or 1w"))
    <*> option (eitherReader number) (long "log-keep" <> metavar "N" <> value (rotateKeep noRotation) <> showDefault <> help "How many renamed logs to keep")
    <*> option (eitherReader parseWhenFull) (long "log-full" <> metavar "wait|block|drop" <> completeWith ["wait", "block", "drop"] <> value WaitThenDrop <> showDefaultWith (const "wait") <> help "When the log accepts no data: let requests wait a second and then drop lines, let them wait, or drop lines at once")
    <*> optional (option (eitherReader parseLogTarget) (long "error-log" <> metavar "FILE" <> action "file" <> help "Write the server's messages there, with time and level, and not to standard error; targets as for --access-log"))
    <*> option (eitherReader parseSeverity) (long "error-level" <> metavar "error|warn|notice|info" <> completeWith ["error", "warn", "notice", "info"] <> value (logErrorLevel defaultLogOptions) <> showDefaultWith severityName <> help "The least level of messages in --error-log")
  where
    build format only skip sample rotation keep full errors level =
      LogChoices format $
        defaultLogOptions
          { logFilter = LogFilter only skip sample,
            logRotation = Rotation rotation keep,
            logFull = full,
            logErrors = errors,
            logErrorLevel = level
          }
    glob text = parseGlob (encodeUtf8 (T.pack text))
    number text = case reads text of
      [(n, "")] | n >= 1 && n <= (1000 :: Int) -> Right n
      _ -> Left ("'" ++ text ++ "' is not a number of files (1 to 1000)")
