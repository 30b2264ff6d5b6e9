-- |
-- Module      : ServeCommand
-- Description : heddle serve
--
-- Options, start-up line and messages of the web server.
module ServeCommand
  ( serveCommand,
  )
where

import Browser (openBrowser)
import Control.Monad (when)
import Data.ByteString.Char8 qualified as C
import Data.Char (toLower)
import Data.Either (fromRight)
import Data.Functor ((<&>))
import Data.List (intercalate)
import Data.List.NonEmpty (NonEmpty (..))
import Data.Maybe (fromMaybe)
import Data.Text qualified as T
import Data.Text.Encoding (encodeUtf8)
import GHC.Foreign (peekCString)
import GHC.IO.Encoding (getFileSystemEncoding)
import Heddle.Gateway.Proxy (Announce (..), Balance (..), ProxySettings (..), defaultCheck, parseNetwork)
import Heddle.Http (Pace (..), Settings (..))
import Heddle.IO (BackendChoice (..), Spread (..))
import Heddle.Prim.Atomic (atomicRead, atomicWrite, newWords)
import Heddle.Prim.Clock (Nanos (..), seconds)
import Heddle.Prim.Exception (displayException, finally, try, trySync)
import Heddle.Prim.Message (putErrorLine)
import Heddle.Prim.Thread (labelMe, nap)
import Heddle.Serve
import Heddle.Tls (defaultTlsConfig, pemFiles)
import Options.Applicative hiding (Failure)
import ServeFiles (fileOptions)
import ServeGuard (guardingOptions)
import ServeLimits (limitOptions)
import ServeLogs
import ServeProcess
import ServeSandbox (SandboxOptions, sandboxOptions, sandboxed)
import ServeStatus (statusRules)
import ServeTerminal
import System.Directory (findExecutable)
import System.Environment (getExecutablePath)
import System.Exit (ExitCode (..), exitWith)
import System.Posix.Files (fileAccess)
import System.Posix.Process (exitImmediately)

-- | The sub-command's options and action.
serveCommand :: ParserInfo (IO ())
serveCommand =
  info
    (run <$> options)
    ( fullDesc
        <> progDesc "Serve a directory's files, programs and other servers over HTTP and HTTPS"
        <> footer
          "SIGTERM, SIGINT (Ctrl-C) and SIGQUIT let open requests finish, then end; a second signal \
          \ends at once. SIGUSR1 opens the logs again. SIGHUP does that, and opens DIR and everything else again that is served. SIGUSR2 starts the program \
          \again, for an upgrade: it takes over the addresses, and this process ends when it serves. Exit codes: 0 after a \
          \signal, 1 when a second one had to end it by force, 2 when serving could not begin."
        <> failureCode 2
    )

options :: Parser (Either String Chosen)
options =
  build
    <$> optional (strArgument (metavar "DIR" <> action "directory" <> help "The directory to serve; not needed if a route such as --proxy /=URL answers for every path"))
    <*> many
      ( option
          (eitherReader parseListen)
          ( long "listen" <> short 'l' <> metavar "ADDR:PORT"
              <> help ("Listen here; may be given more than once. Also :PORT for every address, unix:PATH, systemd for the sockets of a .socket unit, and any of these after https:// (default: " <> intercalate ", " (map renderListen (serveListen standard)) <> ")")
          )
      )
    <*> many routes
    <*> proxying
    <*> programRules
    <*> statusRules
    <*> certificates
    <*> switch (long "redirect-https" <> help "Redirect requests on addresses without https:// to the first address with it")
    <*> optional
      ( option
          (positive 1000000000 "a number of seconds")
          (long "hsts" <> metavar "SECONDS" <> help "Tell browsers for how long to use HTTPS only (Strict-Transport-Security)")
      )
    <*> optional
      ( option
          (positive 256 "a number of cores")
          (long "cores" <> short 'N' <> metavar "N" <> help "How many cores to use (default: all)")
      )
    <*> accessLogOption
    <*> many
      ( strOption
          (long "index" <> metavar "NAME" <> help ("Name of a directory's index; may be given more than once (default: " <> intercalate ", " (siteIndexes (defaultSite Nothing)) <> ")"))
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
    <*> optional (strOption (long "pid-file" <> metavar "FILE" <> action "file" <> help "Write the process id to a file, and remove it at the end"))
    <*> optional
      ( option
          (eitherReader parseUser)
          (long "user" <> metavar "USER[:GROUP]" <> action "user" <> help "Serve with the rights of this user, after the addresses, the log and the certificates have been opened")
      )
    <*> switch (long "one-acceptor" <> help "One listening socket for all cores, instead of one per core (SO_REUSEPORT)")
    <*> option
      (eitherReader backend)
      (long "backend" <> metavar "epoll|poll" <> completeWith ["epoll", "poll"] <> value (serveBackend standard) <> showDefaultWith (map toLower . show) <> help "The system calls that report events")
    <*> fileOptions
    <*> logOptions
    <*> option
      (eitherReader parseLogChoice)
      (long "log" <> metavar "auto|pretty|quiet" <> completeWith ["auto", "pretty", "quiet"] <> value Auto <> showDefaultWith (const "auto") <> help "pretty: show each request on standard output, for development; auto: on a terminal, a line with requests/s, errors and bytes")
    <*> limitOptions
    <*> guardingOptions
    <*> sandboxOptions
    <*> processOptions
    <*> switch (long "open" <> help "Open the site in the browser (xdg-open)")
    <*> many
      ( option
          (eitherReader parseNetwork)
          (long "proxy-protocol" <> metavar "NETWORK" <> help "Connections from this network, such as those of a load balancer, begin with a header of the PROXY protocol (version 1 or 2), which names the client; unix for Unix sockets; may be given more than once")
      )
  where
    build directory listen routed proxied ruled watched tls redirect strict cores accessLog indexes dotted drain idle most pidFile user one choice files (LogChoices format logs) showing limits guards sandbox processes opens announced =
      tlsOf tls <&> \source ->
        Chosen showing opens sandbox processes . watched $
          defaults
            { serveSites = site :| [],
              serveListen = if null listen then serveListen defaults else listen,
              serveTls = source,
              serveCores = cores,
              serveAccessLog = accessLog,
              serveDrain = seconds drain,
              servePidFile = pidFile,
              serveUser = user,
              serveSpread = if one then OneAcceptor else PortPerCapability,
              serveBackend = choice,
              serveLogFormat = format,
              serveLogs = logs,
              serveProxyProtocol = announced,
              serveSettings = limits (serveSettings defaults) {settingIdle = seconds idle, settingConnections = most, settingStrictTransport = foldMap maxAge strict}
            }
      where
        defaults = standard
        blank = defaultSite directory
        site =
          ruled
            blank
              { siteRoutes = routed,
                siteProxy = proxied (siteProxy blank),
                siteRedirectHttps = redirect,
                siteIndexes = if null indexes then siteIndexes blank else indexes,
                siteHidden = dotted,
                siteFiles = files,
                siteGuard = guards
              }
    maxAge n = C.pack ("max-age=" ++ show n)
    -- The defaults do not depend on the directory.
    standard = defaultServeOptions "."
    wholeSeconds (Nanos n) = n `quot` 1000000000
    backend = \case
      "epoll" -> Right Epoll
      "poll" -> Right Poll
      other -> Left ("'" ++ other ++ "' is not a back end; there are epoll and poll")

-- What is not answered from the directory.
routes :: Parser RouteSpec
routes =
  route "cgi" "PREFIX=DIR" "Answer below PREFIX by the programs in a directory (CGI)" (Right . CgiDirectory)
    <|> route "fastcgi" "PREFIX=ADDR" "Answer below PREFIX, or files such as /*.php, by a FastCGI server at HOST:PORT or unix:PATH; several with commas" (fmap FastCgiServers . servers)
    <|> route "scgi" "PREFIX=ADDR" "The same with SCGI" (fmap ScgiServers . servers)
    <|> route "proxy" "PREFIX=URL" "Forward what is below PREFIX to the HTTP server at a URL (http://, https:// or unix:PATH), with *N behind it for a weight; several with commas, or by giving it again" parseUpstreams
  where
    route name what text target =
      option (eitherReader (parseRoute target)) (long name <> metavar what <> help text)
    servers = traverse (fmap listenPlace . parseListen) . commas
    commas text = case break (== ',') text of
      (one, _ : others) -> one : commas others
      (one, []) -> [one]

-- What programs have in common.
programRules :: Parser (Site -> Site)
programRules =
  build
    <$> many
      ( option
          (eitherReader variable)
          (long "program-env" <> metavar "NAME=VALUE" <> help "A variable for the programs of --cgi, --fastcgi and --scgi, such as GIT_PROJECT_ROOT=/srv/git; may be given more than once")
      )
    <*> option
      (positive 100000 "a number of programs")
      (long "program-limit" <> metavar "N" <> value 64 <> showDefault <> help "How many programs of one --cgi may run at once; further requests wait")
    <*> option
      (positive 1000000 "a number of seconds")
      (long "program-time" <> metavar "SECONDS" <> value 3600 <> showDefault <> help "How long a program of --cgi may run")
  where
    build variables most time chosen = chosen {siteVariables = variables, siteProgramLimit = most, siteProgramTime = seconds time}
    variable text = case break (== '=') text of
      (name, '=' : value') | not (null name) -> Right (encodeUtf8 (T.pack name), encodeUtf8 (T.pack value'))
      _ -> Left ("expected NAME=VALUE, not '" ++ text ++ "'")

-- What proxies have in common.
proxying :: Parser (ProxySettings -> ProxySettings)
proxying =
  build
    <$> many
      ( option
          (eitherReader parseNetwork)
          (long "trusted-proxy" <> metavar "NETWORK" <> help "Believe X-Forwarded-* and Forwarded of peers in this network, such as 10.0.0.0/8, or unix for Unix sockets; may be given more than once")
      )
    <*> optional
      ( option
          (positive 1000000 "a number of seconds")
          (long "proxy-timeout" <> metavar "SECONDS" <> help "How long a server behind --proxy may take until its answer begins, and between parts of it (default: 60)")
      )
    <*> option
      (eitherReader balance)
      (long "proxy-balance" <> metavar "turn|least|address|header:NAME" <> completeWith ["turn", "least", "address"] <> value InTurn <> showDefaultWith (const "turn") <> help "Which of several servers gets a request: in turns, the least busy one, or always the same one for a client's address or a header's value")
    <*> optional
      ( option
          (eitherReader target)
          (long "proxy-check" <> metavar "PATH" <> help "Ask each server behind --proxy for this path every 5 s, and leave out those that do not answer with 200 to 399")
      )
    <*> option
      (eitherReader announce)
      (long "proxy-announce" <> metavar "v1|v2" <> completeWith ["v1", "v2"] <> value NoAnnouncement <> help "Tell servers behind --proxy the client's address by the PROXY protocol, on a connection for each request")
  where
    build trusted time how check announcing settings =
      settings
        { proxyTrusted = trusted,
          proxyAnswer = maybe (proxyAnswer settings) seconds time,
          proxyPace = maybe (proxyPace settings) (\s -> (proxyPace settings) {paceGrace = seconds s}) time,
          proxyBalance = how,
          proxyCheck = defaultCheck <$> check,
          proxyAnnounce = announcing
        }
    balance = \case
      "turn" -> Right InTurn
      "least" -> Right LeastBusy
      "address" -> Right ByAddress
      'h' : 'e' : 'a' : 'd' : 'e' : 'r' : ':' : name | not (null name) -> Right (ByHeader (C.pack name))
      other -> Left ("'" ++ other ++ "' is none of turn, least, address and header:NAME")
    target text
      | take 1 text == "/" && all (\c -> c > ' ' && c < '\DEL' && c /= '#') text = Right (C.pack text)
      | otherwise = Left ("'" ++ text ++ "' is not a path; it begins with a slash, and other characters than ASCII are percent-encoded")
    announce = \case
      "v1" -> Right AnnounceV1
      "v2" -> Right AnnounceV2
      other -> Left ("'" ++ other ++ "' is neither v1 nor v2")

certificates :: Parser ([FilePath], [FilePath], Bool)
certificates =
  (,,)
    <$> many
      ( strOption
          (long "tls-cert" <> metavar "FILE" <> action "file" <> help "Certificate, then its issuers' (PEM), for addresses after https://; may be given more than once: clients get the one with the name that they ask for")
      )
    <*> many
      ( strOption
          (long "tls-key" <> metavar "FILE" <> action "file" <> help "Private key (PEM) of the --tls-cert at the same place")
      )
    <*> switch (long "tls-self-signed" <> help "Make a certificate for this machine's names at start, for development")

-- What the options say together.
tlsOf :: ([FilePath], [FilePath], Bool) -> Either String ServeTls
tlsOf = \case
  ([], [], False) -> Right NoTls
  ([], [], True) -> Right TlsSelfSigned
  (_, _, True) -> Left "--tls-self-signed makes its own certificate; leave out --tls-cert and --tls-key"
  (certs, keys, False)
    | length certs == length keys -> Right (TlsOf (defaultTlsConfig (zipWith pemFiles certs keys)))
    | otherwise -> Left ("each --tls-cert needs its --tls-key, in the same order; there are " ++ show (length certs) ++ " and " ++ show (length keys))

positive :: Int -> String -> ReadM Int
positive most what = eitherReader $ \text -> case reads text of
  [(n, "")] | n > 0 && n <= most -> Right n
  _ -> Left ("'" ++ text ++ "' is not " ++ what ++ " (1 to " ++ show most ++ ")")

-- What the command line says: what to show, whether to open the browser, what to give up, by how many processes, what to serve.
data Chosen = Chosen !LogChoice !Bool !SandboxOptions !(Maybe Int) !ServeOptions

run :: Either String Chosen -> IO ()
run = either refuse serve . (>>= consistent)
  where
    consistent chosen@(Chosen _ _ _ processes given)
      | Just _ <- processes, Just _ <- serveStatus given = Left "each process of --processes counts for itself, so --status would show one of them; serve by threads (--cores)"
      | all nothingAtRoot (serveSites given) = Left (displayException NothingToServe)
      | otherwise = Right chosen
    nothingAtRoot site = null (siteDirectory site) && not (any (servesAll . specPattern) (siteRoutes site))
    refuse why = do
      putErrorLine ("heddle serve: " ++ why)
      exitWith (ExitFailure 2)

serve :: Chosen -> IO ()
serve (Chosen showing opens sandbox processes given) = do
  labelMe "heddle/serve"
  successor <- sameCommand
  role <- roleOf processes
  case role of
    -- It does nothing for clients, and starts programs.
    Supervisor _ -> pure ()
    _ -> sandboxed sandbox opens given (foldMap snd successor)
  terminal <- newTerminal
  let chosen = forTerminal terminal showing given
  -- A successor serves a site whose page is open.
  follows <- startedAsSuccessor
  telling <- newWords 1
  let tell event = atomicWrite telling 0 1 >> ((say terminal chosen event >> openingAt event) `finally` atomicWrite telling 0 0)
      openingAt = \case
        Serving urls _ | opens && not follows -> openBrowser urls
        _ -> pure ()
      -- Ends the process even if a message is stuck in a pipe without a reader, where the
      -- ordinary end would wait to flush it.
      atSecond = nap (seconds 2) >> exitImmediately (ExitFailure 1)
      site = chosen {serveSecond = atSecond, serveSuccessor = successor}
      -- The supervisor says the rest.
      troubles = \case
        Trouble what -> tell (Trouble what)
        Failure what -> tell (Failure what)
        _ -> pure ()
  result <- try $ case role of
    Alone -> serveSite site tell
    Worker -> serveSite (asWorker site) troubles
    Supervisor n -> serveByWorkers n site tell
  case result of
    Right () -> do
      stuck <- atomicRead telling 0
      when (stuck == 1) (exitImmediately ExitSuccess)
    Left (e :: ServeError) -> do
      putErrorLine ("heddle serve: " ++ displayException e)
      exitWith (ExitFailure 2)

-- This program, as it is found now and not as it was when it was started, with the arguments that it was started with,
-- also those for the runtime. It is found by the name that it was started by, so a symbolic link that leads to a new version
-- by now starts that one.
sameCommand :: IO (Maybe (FilePath, [String]))
sameCommand = do
  -- A chroot may have no /proc, and then there is no successor and no sandbox.
  running <- fromRight "" <$> trySync getExecutablePath
  given <- trySync (C.readFile "/proc/self/cmdline")
  arguments <- either (const (pure [])) (traverse decoded . filter (not . C.null) . C.split '\0') given
  case arguments of
    [] -> pure Nothing
    _ | null running -> pure Nothing
    name : _ -> do
      found <- if '/' `elem` name then pure (Just name) else findExecutable name
      usable <- maybe (pure False) (fmap (fromRight False) . trySync . (\path -> fileAccess path False False True)) found
      pure (Just (if usable then fromMaybe running found else running, arguments))
  where
    decoded bytes = getFileSystemEncoding >>= \encoding -> C.useAsCString bytes (peekCString encoding)
