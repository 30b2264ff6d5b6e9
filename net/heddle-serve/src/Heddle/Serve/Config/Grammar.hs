-- |
-- Module      : Heddle.Serve.Config.Grammar
-- Description : Every key of a configuration
-- Stability   : internal, exempt from the version policy
--
-- Keys are named as the options of @heddle serve@ are, wherever both mean the same. The reference in the manual and the JSON schema are
-- made of these definitions.
--
-- Cost: that of the decoders.
-- Owner: values.
module Heddle.Serve.Config.Grammar
  ( configCodec,
    configKeys,

    -- * Words, which the command line has, too
    backends,
    sandboxModes,
    consoleLogs,
    whenFulls,
    severities,
    parseSize,
    parseSizeWithin,
    parseDuration,
    parseShare,
    tlsMistake,
    tlsVersions,
  )
where

import Data.Maybe (fromMaybe, isNothing, listToMaybe)
import Heddle.Gateway.Proxy (parseNetwork)
import Heddle.IO (BackendChoice (..))
import Heddle.Prim.Clock (Nanos, milliseconds)
import Heddle.Serve.Config.Codec
import Heddle.Serve.Config.SiteGrammar
import Heddle.Serve.Config.Tree (Position, Problem (..))
import Heddle.Serve.Config.Types
import Heddle.Serve.Config.Yaml
import Heddle.Serve.HostName (parseHost)
import Heddle.Serve.Listen (parseListen)
import Heddle.Serve.LogFilter (parseSample, parseStatuses)
import Heddle.Serve.LogFormat (parseLogFormat)
import Heddle.Serve.LogOptions (WhenFull (..))
import Heddle.Serve.LogSink (parseRotateAt)
import Heddle.Serve.LogTarget
import Heddle.Serve.Process (parseUser)
import Heddle.Serve.Status (parseStatusPrefix)
import Heddle.Tls (TlsVersion (..))
import System.FilePath ((</>))

-- | A whole configuration.
configCodec :: Codec Config
configCodec = judgedBy check id (object "the configuration" configKeys)
  where
    check at config = config <$ checkTls at (serverCertificates server) (serverSelfSigned server) (serverTlsPolicy server)
      where
        server = configServer config

-- | The keys of a file.
configKeys :: Keys Config Config
configKeys =
  Config
    <$> part configServer serverKeys'
    <*> part configLogs logKeys
    <*> part configWatch watchKeys
    <*> part configSite siteKeys
    <*> key "unknown-host" "" "What a request gets whose Host no host has: 421, or the first host. Without it, the site at the top of the file, if it has a root or routes; otherwise the first host if it has no names; otherwise 421" (choice "an answer to unknown hosts" [("421", UnknownMisdirected), ("first", UnknownFirst)]) configUnknown
    <*> mergedKey (flip (++)) "hosts" "none" "The sites by name" (severalOf hostCodec) configHosts

hostCodec :: Codec HostConfig
hostCodec =
  judgedBy check id . object "a host" $
    HostConfig (Written onCommandLine "" ())
      <$> listKey "names" "" "The host's names; *.example.org for every name below example.org. An exact name goes before a wildcard. Only the first host can do without names: it answers for names that no host has" (severalOf (word "a host's name" ["www.example.org", "*.example.org"] parseHost)) hostNames
      <*> part hostCertificates certificateFileKeys
      <*> key "max-body" "that of the server" "The longest body of a request for a program or a server behind a route of this host" bodySize hostMaxBody
      <*> part hostSite siteKeys
  where
    check at host = host {hostAt = Written at "" ()} <$ checkTls at (hostCertificates host) Nothing noTlsPolicy

checkTls :: Position -> CertificateConfig -> Maybe (Written Bool) -> TlsPolicyConfig -> Either [Problem] ()
checkTls at files self policy = maybe (Right ()) (\(from, why) -> Left [Problem (fromMaybe at from) why]) (tlsMistake (\name -> "'" ++ name ++ "'") files self policy)

-- | The first thing that is wrong with these keys together, and where, if a place says it. The function shows a key's name as it is
-- written.
tlsMistake :: (String -> String) -> CertificateConfig -> Maybe (Written Bool) -> TlsPolicyConfig -> Maybe (Maybe Position, String)
tlsMistake shown (CertificateConfig chains keys staples) self policy
  | Just own <- self, meant own, not (null chains && null keys && null staples) = Just (Just (writtenAt own), shown "tls-self-signed" ++ " makes its own certificate; leave out " ++ shown "tls-cert" ++ " and " ++ shown "tls-key")
  | length chains /= length keys = Just (writtenAt <$> listToMaybe (chains ++ keys), "each " ++ shown "tls-cert" ++ " needs its " ++ shown "tls-key" ++ ", in the same order; there are " ++ show (length chains) ++ " and " ++ show (length keys))
  | length staples > length chains = Just (writtenAt <$> listToMaybe staples, "each " ++ shown "tls-staple" ++ " belongs to the " ++ shown "tls-cert" ++ " at the same place; there are " ++ show (length staples) ++ " and " ++ show (length chains))
  | Just optional <- policyClientOptional policy, meant optional, isNothing (policyClientCa policy) = Just (Just (writtenAt optional), shown "tls-client-optional" ++ " needs " ++ shown "tls-client-ca" ++ ", which clients' certificates must lead to")
  | otherwise = Nothing

certificateFileKeys :: Keys CertificateConfig CertificateConfig
certificateFileKeys =
  CertificateConfig
    <$> listKey "tls-cert" "none" "Files with a certificate and its issuers' (PEM). Clients get the one with the name that they ask for" (severalOf (path "a file" ["/etc/ssl/site.pem"])) certificateChains
    <*> listKey "tls-key" "none" "Files with the private keys (PEM), in the order of `tls-cert`" (severalOf (path "a file" ["/etc/ssl/site.key"])) certificateKeys
    <*> listKey "tls-staple" "none" "Files with OCSP responses (DER) to be stapled, in the order of `tls-cert`; the last certificates may have none" (severalOf (path "a file" ["/etc/ssl/site.ocsp"])) certificateStaples

tlsPolicyKeys :: Keys TlsPolicyConfig TlsPolicyConfig
tlsPolicyKeys =
  TlsPolicyConfig
    <$> key "tls-client-ca" "none" "A file with authorities (PEM). Clients need a certificate that leads to one of them" (path "a file" ["/etc/ssl/clients.pem"]) policyClientCa
    <*> flag "tls-client-optional" "Serve clients without a certificate, too" policyClientOptional
    <*> key "tls-minimum" "1.2" "The lowest version of TLS" (choice "a version of TLS" tlsVersions) policyMinimum
    <*> key "tls-ticket-secret" "a random one" "A file of 32 bytes or more. Sessions are resumed on all machines with the same one" (path "a file" ["/etc/ssl/tickets"]) policyTicketSecret
    <*> flag "tls-no-kernel" "Do not let the kernel encrypt long files (kTLS), where it can" policyNoKernel

-- | The versions of TLS.
tlsVersions :: [(String, TlsVersion)]
tlsVersions = [("1.2", Tls12), ("1.3", Tls13)]

serverKeys' :: Keys ServerConfig ServerConfig
serverKeys' =
  ServerConfig
    <$> listKey "listen" "localhost:8080" "Addresses: ADDR:PORT, :PORT, unix:PATH, systemd, and these after https://" (severalOf (resolved "an address" [":8080", "https://:8443", "unix:/run/site.sock"] (unix parseListen) (YamlText . writtenText))) serverListen
    <*> listKey "proxy-protocol" "none" "Connections from these networks begin with a header of the PROXY protocol" (severalOf (word "a network" ["10.0.0.0/8", "unix"] parseNetwork)) serverProxyProtocol
    <*> part serverCertificates certificateFileKeys
    <*> flag "tls-self-signed" "Make a certificate for this machine's names at start, for development" serverSelfSigned
    <*> part serverTlsPolicy tlsPolicyKeys
    <*> key "hsts" "none" "Seconds for which browsers use HTTPS only (Strict-Transport-Security)" (number 1 1000000000 "a number of seconds") serverHsts
    <*> listKey "trusted-proxy" "none" "Believe X-Forwarded-* and Forwarded of peers in these networks" (severalOf (word "a network" ["10.0.0.0/8", "unix"] parseNetwork)) serverTrusted
    <*> key "cores" "all" "How many cores to use" (number 1 256 "a number of cores") serverCores
    <*> key "processes" "none" "Serve by this many processes of one core each" (number 1 256 "a number of processes") serverProcesses
    <*> flag "one-acceptor" "One listening socket for all cores, instead of one per core" serverOneAcceptor
    <*> key "backend" "epoll" "The system calls that report events" (choice "a back end" backends) serverBackend
    <*> key "user" "the user who starts the server" "Serve with the rights of this user, after the addresses, the log and the certificates have been opened" (word "a user" ["www-data", "www-data:www-data"] parseUser) serverUser
    <*> key "pid-file" "none" "A file for the process id" (path "a file" ["/run/heddle.pid"]) serverPidFile
    <*> key "drain" "30" "Seconds that open connections may take to end after a signal" (number 1 1000000 "a number of seconds") serverDrainTime
    <*> key "idle" "60" "Seconds that a kept connection may be silent" (number 1 1000000 "a number of seconds") serverIdle
    <*> nestedKey "time-outs" "the time-outs" "Seconds, by name" (TimeOutConfig Nothing Nothing Nothing Nothing) timeOutKeys serverTimeOuts
    <*> key "max-body" "1G" "The longest body of a request, in bytes or with k, M or G" bodySize serverMaxBody
    <*> key "max-head" "16k" "The longest head of a request: its line and headers, cookies among them. Each connection that has work takes that much memory" (word "a size, 4k to 1M" ["32k", "64k"] (parseSizeWithin 4096 1048576)) serverMaxHead
    <*> key "max-target" "8000" "The longest target of a request: its path and query; within `max-head`" (word "a size, 1k to 1M" ["16k"] (parseSizeWithin 1024 1048576)) serverMaxTarget
    <*> key "max-connections" "as many as there are descriptors" "Open connections at once; then the one that has been idle longest makes room" (number 1 10000000 "a number of connections") serverConnections
    <*> key "max-connections-per-client" "no limit" "Open connections of each client; further ones are closed" (number 1 65535 "a number of connections") serverPerClient
    <*> key "sandbox" "auto" "Give up what is not needed: files (Landlock) and system calls (seccomp)" (choice "a way to use the sandbox" sandboxModes) serverSandbox
    <*> listKey "sandbox-read" "none" "What the sandbox may read besides" (severalOf (path "a path" ["/srv/shared"])) serverSandboxRead
    <*> listKey "sandbox-write" "none" "What the sandbox may write besides" (severalOf (path "a path" ["/var/lib/site"])) serverSandboxWrite

timeOutKeys :: Keys TimeOutConfig TimeOutConfig
timeOutKeys =
  TimeOutConfig
    <$> key "head" "10" "For a request's head" seconds' timeOutHead
    <*> key "body" "10" "Before a request's body must come at 240 bytes/s at least" seconds' timeOutBody
    <*> key "reply" "30" "Before a reply must be taken at 240 bytes/s at least" seconds' timeOutReply
    <*> key "idle" "60" "As `idle` at the top, and before it" seconds' timeOutIdle
  where
    seconds' = number 1 1000000 "a number of seconds"

logKeys :: Keys LogConfig LogConfig
logKeys =
  LogConfig
    <$> key "access-log" "none" "A line for each request: a file, - for standard output, journald, or syslog" target logAccess
    <*> key "log-format" "combined" "combined, common, json, or a text with variables such as $status" (word "a format" ["combined", "json", "$remote_addr $status $request_time"] parseLogFormat) logShape
    <*> appendKey "log-only" "all" "Log requests with these statuses only" (severalOf (word "a status" ["404", "5xx", "4xx,5xx"] parseStatuses)) logOnly
    <*> appendKey "log-skip" "none" "Do not log requests for paths that match" (severalOf globWord) logSkip
    <*> key "log-sample" "1/1" "Log one of N requests; all with a status of 400 or more" (word "a share" ["1/100"] parseSample) logSample
    <*> key "log-rotate" "never" "Rename the log at this size, or after this time" (word "a size or a time" ["100M", "1d"] parseRotateAt) logRotate
    <*> key "log-keep" "10" "How many renamed logs to keep" (number 1 1000 "a number of files") logKeep
    <*> key "log-full" "wait" "When the log accepts no data: requests wait a second and then lines are dropped, requests wait, or lines are dropped at once" (choice "what to do with a full log" whenFulls) logWhenFull
    <*> key "error-log" "standard error" "The server's messages, with time and level; targets as for `access-log`" target logError
    <*> key "error-level" "notice" "The least level of messages in `error-log`" (choice "a level" severities) logLevel
    <*> key "log" "auto" "pretty: show each request on standard output; auto: on a terminal, a line of figures" (choice "a way to log" consoleLogs) logConsole
  where
    -- Files are relative to the file of the configuration.
    target = resolved "a log's target" ["/var/log/heddle.log", "-", "journald", "syslog:local3"] located encode
    located directory text =
      parseLogTarget text >>= \case
        LogFile file | directory /= "." -> let whole = directory </> file in Right (whole, LogFile whole)
        other -> Right (text, other)
    encode given = case meant given of
      LogFile file -> YamlPath file
      _ -> YamlText (writtenText given)

watchKeys :: Keys WatchConfig WatchConfig
watchKeys =
  WatchConfig
    <$> key "status" "none" "Show how the server is at this prefix: a page, and below it json, metrics (Prometheus), health and ready" (word "a prefix" ["/status"] parseStatusPrefix) watchStatus
    <*> listKey "status-allow" "loopback" "Who may read `status`; others get what they would get without it" (severalOf (word "a network" ["10.0.0.0/8", "unix"] parseNetwork)) watchAllow
    <*> key "status-timeline" "none" "Whoever may read `status` may have a timeline recorded: what cores and threads do, for up to this many seconds" (number 1 600 "a number of seconds") watchTimeline
    <*> key "slow" "none" "Say on standard error which requests take longer than this many seconds" (word "a number of seconds" ["2", "0.5"] parseDuration) watchSlow
    <*> flag "request-id" "Give each request an X-Request-Id, and continue its traceparent" watchRequestIds
    <*> key "trace" "none" "Begin a trace for each request without a traceparent, to be recorded for this share of them" (word "a share, 0 to 1" ["0.01"] parseShare) watchTraces

-- | A number of seconds, with parts.
--
-- >>> parseDuration "0.5"
-- Right (Nanos {nanosCount = 500000000})
parseDuration :: String -> Either String Nanos
parseDuration text = case reads text :: [(Double, String)] of
  [(n, "")] | n >= 0.001 && n <= 1000000 -> Right (milliseconds (round (n * 1000)))
  _ -> Left ("'" ++ text ++ "' is not a number of seconds (0.001 to 1000000)")

-- | A share of the requests.
parseShare :: String -> Either String Double
parseShare text = case reads text :: [(Double, String)] of
  [(n, "")] | n >= 0 && n <= 1 -> Right n
  _ -> Left ("'" ++ text ++ "' is not a share of the requests (0 to 1)")

-- | Back ends by name.
backends :: [(String, BackendChoice)]
backends = [("epoll", Epoll), ("poll", Poll)]

-- | Ways to use the sandbox by name.
sandboxModes :: [(String, SandboxMode)]
sandboxModes = [("auto", SandboxAuto), ("on", SandboxOn), ("off", SandboxOff)]

-- | Ways to show requests, by name.
consoleLogs :: [(String, ConsoleLog)]
consoleLogs = [("auto", ConsoleAuto), ("pretty", ConsolePretty), ("quiet", ConsoleQuiet)]

-- | Ways to treat a full log, by name.
whenFulls :: [(String, WhenFull)]
whenFulls = [("wait", WaitThenDrop), ("block", Block), ("drop", DropAtOnce)]

-- | Levels of messages by name.
severities :: [(String, Severity)]
severities = [(severityName s, s) | s <- [minBound ..]]

-- | A number of bytes, from one to another.
--
-- >>> parseSizeWithin 1024 2048 "3k"
-- Left "'3k' is not a size from 1024 to 2048 bytes"
parseSizeWithin :: Int -> Int -> String -> Either String Int
parseSizeWithin least most text = case parseSize text of
  Right n | n < least || n > most -> Left ("'" ++ text ++ "' is not a size from " ++ show least ++ " to " ++ show most ++ " bytes")
  result -> result
