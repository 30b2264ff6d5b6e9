-- |
-- Module      : ServeCommand
-- Description : heddle serve
--
-- Options, start-up line and messages of the web server.
module ServeCommand
  ( serveCommand,
  )
where

import Control.Monad (when)
import Data.Char (toLower)
import Data.List (intercalate)
import Heddle.Http (Settings (..))
import Heddle.IO (BackendChoice (..), Spread (..))
import Heddle.Prim.Atomic (atomicRead, atomicWrite, newWords)
import Heddle.Prim.Clock (Nanos (..), seconds)
import Heddle.Prim.Exception (displayException, finally, try)
import Heddle.Prim.Message (putErrorLine)
import Heddle.Prim.Thread (labelMe, nap)
import Heddle.Serve
import Options.Applicative
import System.Exit (ExitCode (..), exitWith)
import System.IO (hFlush, stdout)
import System.Posix.Process (exitImmediately)

-- | The sub-command's options and action.
serveCommand :: ParserInfo (IO ())
serveCommand =
  info
    (run <$> options)
    ( fullDesc
        <> progDesc "Serve a directory's files over HTTP/1.1"
        <> footer
          "SIGTERM, SIGINT (Ctrl-C) and SIGQUIT let open requests finish, then end; a second signal \
          \ends at once. SIGUSR1 and SIGHUP open the access log and DIR again. Exit codes: 0 after a \
          \signal, 1 when a second one had to end it by force, 2 when serving could not begin."
        <> failureCode 2
    )

options :: Parser ServeOptions
options =
  build
    <$> strArgument (metavar "DIR" <> action "directory" <> help "The directory to serve")
    <*> many
      ( option
          (eitherReader parseListen)
          ( long "listen" <> short 'l' <> metavar "ADDR:PORT"
              <> help ("Listen here; may be given more than once. Also :PORT for every address, and unix:PATH (default: " <> intercalate ", " (map renderListen (serveListen standard)) <> ")")
          )
      )
    <*> optional
      ( option
          (positive 256 "a number of cores")
          (long "cores" <> short 'N' <> metavar "N" <> help "How many cores to use (default: all)")
      )
    <*> optional
      ( strOption
          (long "access-log" <> metavar "FILE" <> action "file" <> help "Append Apache's combined log format to a file; - for standard output")
      )
    <*> many
      ( strOption
          (long "index" <> metavar "NAME" <> help ("Name of a directory's index; may be given more than once (default: " <> intercalate ", " (serveIndexes standard) <> ")"))
      )
    <*> switch (long "hidden" <> help "Serve names that begin with a dot, too")
    <*> option
      (positive 1000000 "a number of seconds")
      (long "drain" <> metavar "SECONDS" <> value (wholeSeconds (serveDrain standard)) <> showDefault <> help "How long open connections may take to end after a signal")
    <*> option
      (positive 1000000 "a number of seconds")
      (long "idle" <> metavar "SECONDS" <> value (wholeSeconds (settingIdle (serveSettings standard))) <> showDefault <> help "How long a kept connection may be silent")
    <*> optional
      ( option
          (positive 10000000 "a number of connections")
          (long "max-connections" <> metavar "N" <> help "Open connections at once; then the one that has been idle longest makes room for a new one (default: as many as there are descriptors)")
      )
    <*> switch (long "one-acceptor" <> help "One listening socket for all cores, instead of one per core (SO_REUSEPORT)")
    <*> option
      (eitherReader backend)
      (long "backend" <> metavar "epoll|poll" <> completeWith ["epoll", "poll"] <> value (serveBackend standard) <> showDefaultWith (map toLower . show) <> help "The system calls that report events")
  where
    build directory listen cores accessLog indexes dotted drain idle most one choice =
      defaults
        { serveListen = if null listen then serveListen defaults else listen,
          serveCores = cores,
          serveAccessLog = accessLog,
          serveIndexes = if null indexes then serveIndexes defaults else indexes,
          serveHidden = dotted,
          serveDrain = seconds drain,
          serveSpread = if one then OneAcceptor else PortPerCapability,
          serveBackend = choice,
          serveSettings = (serveSettings defaults) {settingIdle = seconds idle, settingConnections = most}
        }
      where
        defaults = defaultServeOptions directory
    -- For the help: the defaults do not depend on the directory.
    standard = defaultServeOptions "."
    wholeSeconds (Nanos n) = n `quot` 1000000000
    backend = \case
      "epoll" -> Right Epoll
      "poll" -> Right Poll
      other -> Left ("'" ++ other ++ "' is not a back end; there are epoll and poll")

positive :: Int -> String -> ReadM Int
positive most what = eitherReader $ \text -> case reads text of
  [(n, "")] | n > 0 && n <= most -> Right n
  _ -> Left ("'" ++ text ++ "' is not " ++ what ++ " (1 to " ++ show most ++ ")")

run :: ServeOptions -> IO ()
run chosen = do
  labelMe "heddle/serve"
  telling <- newWords 1
  let tell event = atomicWrite telling 0 1 >> (say chosen event `finally` atomicWrite telling 0 0)
      -- Ends the process even if a message is stuck in a pipe without a reader, where the
      -- ordinary end would wait to flush it.
      atSecond = nap (seconds 2) >> exitImmediately (ExitFailure 1)
  result <- try (serveSite chosen {serveSecond = atSecond} tell)
  case result of
    Right () -> do
      stuck <- atomicRead telling 0
      when (stuck == 1) (exitImmediately ExitSuccess)
    Left (e :: ServeError) -> do
      putErrorLine ("heddle serve: " ++ displayException e)
      exitWith (ExitFailure 2)

say :: ServeOptions -> ServeEvent -> IO ()
say chosen = \case
  Serving urls cores -> do
    out ("Serving " ++ serveDirectory chosen ++ " on " ++ unwords urls ++ " (" ++ count cores "core" ++ "; Ctrl-C stops)")
  Draining open -> out ("Stopping; " ++ count open "open connection" ++ ".")
  Stopped 0 -> out "Stopped."
  Stopped cut -> out ("Stopped; " ++ count cut "connection" ++ " cut.")
  Trouble what -> putErrorLine ("heddle serve: " ++ what)
  where
    -- Standard output may be the access log.
    out line
      | serveAccessLog chosen == Just "-" = putErrorLine line
      | otherwise = putStrLn line >> hFlush stdout
    count n what = show n ++ " " ++ what ++ (if n == 1 then "" else "s")
