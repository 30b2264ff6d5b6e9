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
import Data.Either (fromRight)
import Data.List (intercalate, isInfixOf, sort)
import Data.Maybe (fromMaybe)
import GHC.Foreign (peekCString)
import GHC.IO.Encoding (getFileSystemEncoding)
import Heddle.Gateway.Proxy (parseNetwork)
import Heddle.Prim.Atomic (atomicRead, atomicWrite, newWords)
import Heddle.Prim.Clock (seconds)
import Heddle.Prim.Exception (displayException, finally, try, trySync)
import Heddle.Prim.Message (putErrorLine)
import Heddle.Prim.Thread (labelMe, nap)
import Heddle.Serve
import Heddle.Serve.Config
import Options.Applicative hiding (Failure, argument)
import ServeConfig
import ServeFiles (fileOptions)
import ServeGuard (guardingOptions, perClient)
import ServeLimits (limitOptions)
import ServeLogs (logOptions)
import ServeProcess
import ServeRoutes (routeOptions)
import ServeSandbox (SandboxOptions (..), beyondSandbox, noSandbox, sandboxed)
import ServeStatus (watchOptions, withProgram)
import ServeTerminal
import ServeWords
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
          \ends at once. SIGUSR1 opens the logs again. SIGHUP does that, reads --config again, and opens DIR and everything else again that is served. SIGUSR2 starts the program \
          \again, for an upgrade: it takes over the addresses, and this process ends when it serves. Exit codes: 0 after a \
          \signal, 1 when a second one had to end it by force, 2 when serving could not begin."
        <> failureCode 2
    )

options :: Parser Given
options =
  Given
    <$> optional (strArgument (metavar "DIR" <> action "directory" <> help "The directory to serve; not needed with --config, or if a route such as --proxy /=URL answers for every path"))
    <*> optional (strOption (long "config" <> short 'c' <> metavar "FILE" <> action "file" <> help "Read a configuration (YAML); options of the command line count before it. Its keys are these options, and hosts, routes and includes"))
    <*> acts
    <*> switch (long "open" <> help "Open the site in the browser (xdg-open)")
    <*> switch (long "sandbox-show" <> help "Print what the sandbox allows, and end")
    <*> (Config <$> serverOptions <*> logOptions <*> watchOptions <*> siteOptions <*> pure Nothing <*> pure [])

acts :: Parser Act
acts =
  flag' Check (long "check" <> help "Report all mistakes of the configuration and of what it names, and end: with 1 if there are any")
    <|> flag' Dump (long "dump-config" <> help "Print the configuration, with includes, variables and the options of the command line, and end")
    <|> (Explain <$> strOption (long "explain" <> metavar "'METHOD URL'" <> help "Print which host, route and file a request would get, which headers, and which lines say so, and end"))
    <|> (Import <$> strOption (long "import" <> metavar "FILE" <> action "file" <> help "Print a configuration of nginx or Mighttpd as one of this server, and on standard error what has no counterpart, and end"))
    <|> flag' Schema (long "config-schema" <> help "Print a JSON schema of the configuration, for editors, and end")
    <|> pure Serve

-- A host may say these, too.
siteOptions :: Parser SiteConfig
siteOptions =
  (\routed files guards redirects -> (routed . files . guards) emptySite {siteRedirectsHttps = redirects})
    <$> routeOptions
    <*> fileOptions
    <*> guardingOptions
    <*> yes "redirect-https" "Redirect requests on addresses without https:// to the first address with it"

tlsPolicyOptions :: Parser TlsPolicyConfig
tlsPolicyOptions =
  TlsPolicyConfig
    <$> setting "tls-client-ca" file (metavar "FILE" <> action "file" <> help "Clients need a certificate that leads to one of these authorities (PEM)")
    <*> yes "tls-client-optional" "Serve clients without a certificate, too"
    <*> word "tls-minimum" "a version of TLS" tlsVersions (help "The lowest version of TLS (default: 1.2)")
    <*> setting "tls-ticket-secret" file (metavar "FILE" <> action "file" <> help "A secret of 32 bytes or more. Sessions are resumed on all machines with the same one (default: a random one)")
    <*> yes "tls-no-kernel" "Do not let the kernel encrypt long files (kTLS), where it can"

serverOptions :: Parser ServerConfig
serverOptions =
  build
    <$> many
      ( option
          (eitherReader (argument parseListen))
          (long "listen" <> short 'l' <> metavar "ADDR:PORT" <> help "Listen here; may be given more than once. Also :PORT for every address, unix:PATH, systemd for the sockets of a .socket unit, and any of these after https:// (default: localhost:8080)")
      )
    <*> settings "proxy-protocol" parseNetwork (metavar "NETWORK" <> help "Connections from this network, such as those of a load balancer, begin with a header of the PROXY protocol (version 1 or 2), which names the client; unix for Unix sockets; may be given more than once")
    <*> settings "tls-cert" file (metavar "FILE" <> action "file" <> help "Certificate, then its issuers' (PEM), for addresses after https://; may be given more than once: clients get the one with the name that they ask for")
    <*> settings "tls-key" file (metavar "FILE" <> action "file" <> help "Private key (PEM) of the --tls-cert at the same place")
    <*> settings "tls-staple" file (metavar "FILE" <> action "file" <> help "OCSP response (DER) of the --tls-cert at the same place, to be stapled; the last certificates may have none")
    <*> yes "tls-self-signed" "Make a certificate for this machine's names at start, for development"
    <*> tlsPolicyOptions
    <*> setting "hsts" (upTo 1000000000 "a number of seconds") (metavar "SECONDS" <> help "Tell browsers for how long to use HTTPS only (Strict-Transport-Security)")
    <*> settings "trusted-proxy" parseNetwork (metavar "NETWORK" <> help "Believe X-Forwarded-* and Forwarded of peers in this network, such as 10.0.0.0/8, or unix for Unix sockets; may be given more than once")
    <*> optional (option (eitherReader (argument (upTo 256 "a number of cores"))) (long "cores" <> short 'N' <> metavar "N" <> help "How many cores to use (default: all)"))
    <*> setting "processes" (upTo 256 "a number of processes") (metavar "N" <> help "Serve by N processes of one core each, which this one starts, watches, and starts again")
    <*> yes "one-acceptor" "One listening socket for all cores, instead of one per core (SO_REUSEPORT)"
    <*> word "backend" "a back end" backends (help "The system calls that report events (default: epoll)")
    <*> setting "user" parseUser (metavar "USER[:GROUP]" <> action "user" <> help "Serve with the rights of this user, after the addresses, the log and the certificates have been opened")
    <*> setting "pid-file" file (metavar "FILE" <> action "file" <> help "Write the process id to a file, and remove it at the end")
    <*> setting "drain" seconds' (metavar "SECONDS" <> help "How long open connections may take to end after a signal (default: 30)")
    <*> setting "idle" seconds' (metavar "SECONDS" <> help "How long a kept connection may be silent (default: 60)")
    <*> limitOptions
    <*> setting "max-connections" (upTo 10000000 "a number of connections") (metavar "N" <> help "Open connections at once; then the one that has been idle longest makes room for a new one (default: as many as there are descriptors)")
    <*> perClient
    <*> word "sandbox" "a way to use the sandbox" sandboxModes (help "Give up what the options do not need: files (Landlock) and system calls (seccomp); auto: where the system has them, and programs of --cgi keep their files; on: or refuse to start (default: auto)")
    <*> settings "sandbox-read" file (metavar "PATH" <> action "file" <> help "Let the sandbox read this too; may be given more than once")
    <*> settings "sandbox-write" file (metavar "PATH" <> action "file" <> help "Let the sandbox write this too; may be given more than once")
  where
    build listen announced certs keys staples self policy strict trusted cores processes one backend user pid drain idle limits most clients sandbox reads' writes =
      (limits . clients)
        (configServer emptyConfig)
          { serverListen = listen,
            serverProxyProtocol = announced,
            serverCertificates = CertificateConfig certs keys staples,
            serverSelfSigned = self,
            serverTlsPolicy = policy,
            serverHsts = strict,
            serverTrusted = trusted,
            serverCores = cores,
            serverProcesses = processes,
            serverOneAcceptor = one,
            serverBackend = backend,
            serverUser = user,
            serverPidFile = pid,
            serverDrainTime = drain,
            serverIdle = idle,
            serverConnections = most,
            serverSandbox = sandbox,
            serverSandboxRead = reads',
            serverSandboxWrite = writes
          }

-- What to serve, or what to do instead.
run :: Given -> IO ()
run given = case givenAct given of
  Import other -> imported other
  Schema -> putStr schemaText
  Check ->
    checked >>= \case
      ([], notes) -> do
        mapM_ (putErrorLine . renderProblem) notes
        putStrLn (fromMaybe "the command line" (givenFile given) ++ ": no mistakes")
      (problems, _) -> reported 1 problems
  Dump -> configured 1 >>= \(_, _, config) -> dumped config
  Explain request -> configured 1 >>= \(at, _, config) -> explain at config request >>= either (refuse 1) (putStr . unlines)
  Serve -> do
    (at, files, config) <- configured 2
    case givenFile given of
      Nothing | nothingAtRoot config -> refuse 2 (displayException NothingToServe)
      _ -> mapM_ (refuse 2) (mistake config)
    either (reported 2) (serve given files config (configNotes at config) . withProgram) (optionsOf at config)
  where
    configured code = do
      load <- loaded given
      either (reported code) (\config -> pure (loadedAt load, loadedFiles load, config)) (loadedResult load)
    checked = do
      Loaded at _ rest result <- loaded given
      problems <- case result of
        Right config
          | null (givenFile given), nothingAtRoot config -> (Problem onCommandLine (takeWhile (/= '\n') (displayException NothingToServe)) :) <$> checkRest at config
          | otherwise -> ([Problem onCommandLine why | Just why <- [mistake config]] ++) <$> checkConfig at config
        Left problems -> sort . (problems ++) <$> maybe (pure []) (checkRest at) rest
      -- One that cannot be read has problems, and no notes.
      pure (problems, either (const []) (configNotes at) result)

serve :: Given -> [FilePath] -> Config -> [Problem] -> ServeOptions -> IO ()
serve given files config notes wanted = do
  labelMe "heddle/serve"
  successor <- sameCommand
  role <- roleOf (meant <$> serverProcesses server)
  entered <- case role of
    -- It does nothing for clients, and starts programs.
    Supervisor _ -> pure noSandbox
    _ -> sandboxed sandbox (givenOpen given) wanted (foldMap snd successor)
  terminal <- newTerminal
  let chosen = onTerminal terminal config wanted
  -- A successor serves a site whose page is open.
  follows <- startedAsSuccessor
  telling <- newWords 1
  let tell event = atomicWrite telling 0 1 >> ((say terminal chosen event >> openingAt event) `finally` atomicWrite telling 0 0)
      openingAt = \case
        Serving urls _ -> do
          mapM_ (say terminal chosen {serveLogs = defaultLogOptions} . Trouble . renderProblem) notes
          when (givenOpen given && not follows) (openBrowser urls)
        _ -> pure ()
      -- Ends the process even if a message is stuck in a pipe without a reader, where the
      -- ordinary end would wait to flush it.
      atSecond = nap (seconds 2) >> exitImmediately (ExitFailure 1)
      site = chosen {serveSecond = atSecond, serveSuccessor = successor, serveReload = again terminal entered <$ givenFile given}
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
      putErrorLine ("heddle serve: " ++ displayException e ++ (if follows && "(EACCES)" `isInfixOf` displayException e then "\n  A successor is in the sandbox of the process that started it; stop the server and start it again." else ""))
      exitWith (ExitFailure 2)
  where
    server = configServer config
    sandbox =
      SandboxOptions
        { sandboxMode = maybe SandboxAuto meant (serverSandbox server),
          sandboxShow = givenSandbox given,
          sandboxRead = map meant (serverSandboxRead server),
          sandboxWrite = map meant (serverSandboxWrite server),
          sandboxConfig = files
        }
    onTerminal terminal = forTerminal terminal . maybe ConsoleAuto meant . logConsole . configLogs
    again terminal entered = do
      Loaded at _ _ result <- loaded given
      case result >>= \new -> onTerminal terminal new . withProgram <$> optionsOf at new of
        Left problems -> pure (Left (intercalate "\n  " (map renderProblem problems)))
        Right new ->
          beyondSandbox entered new >>= \case
            [] -> pure (Right new)
            lacks -> pure (Left ("the sandbox stays as it was at the start, and " ++ intercalate ", " lacks ++ ".\n  Stop the server and start it again; a successor (SIGUSR2) would be in the same sandbox. --sandbox-read allows more from the start on."))

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
