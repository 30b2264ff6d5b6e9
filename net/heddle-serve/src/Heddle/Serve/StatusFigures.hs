{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Serve.StatusFigures
-- Description : How the server is, as JSON and in Prometheus' text format
-- Stability   : internal, exempt from the version policy
--
-- Everything that a status page tells, gathered once per question, and two ways to write it down.
--
-- Cost: O(routes).
-- Owner: values.
module Heddle.Serve.StatusFigures
  ( StatusFigures (..),
    CertificateFigures (..),
    State (..),
    figuresJson,
    figuresText,

    -- * Of several processes
    figuresTogether,
    countsOnly,
  )
where

import Control.Applicative ((<|>))
import Data.ByteString (ByteString)
import Data.ByteString.Builder
import Data.ByteString.Char8 qualified as C
import Data.List (intersperse)
import Data.Map.Strict qualified as Map
import Data.Monoid (Any (..), Sum (..))
import Heddle.Prim.Histogram (countBelow, counts, valueCount)
import Heddle.Serve.Listing (jsonString)
import Heddle.Serve.Metrics
import Heddle.Serve.ProcessFigures
import Heddle.Serve.UpstreamFigures
import Heddle.Tls (TlsCounts (..))

-- | Whether requests should be sent here.
data State
  = -- | Not yet.
    Starting
  | Ready
  | -- | Not any more.
    Stopping
  deriving stock (Bounded, Enum, Eq, Show)

-- | What there is to tell.
data StatusFigures = StatusFigures
  { statusVersion' :: !ByteString,
    statusProcess :: !Int,
    -- | If the figures are those of several processes: how many have told theirs, and how many others have ended.
    statusProcesses :: !(Maybe (Int, Int)),
    statusCores :: !Int,
    statusState' :: !State,
    -- | In seconds.
    statusUptime :: !Double,
    statusOpen :: !Int,
    statusReadings :: !Readings,
    statusHandshakes :: !(Maybe TlsCounts),
    statusCertificates :: ![CertificateFigures],
    -- | Bytes in the caches of files.
    statusCached :: !Int,
    -- | By route.
    statusUpstreams :: ![(ByteString, UpstreamFigures)],
    statusUses :: !ProcessFigures
  }
  deriving stock (Eq, Show)

-- | A certificate.
data CertificateFigures = CertificateFigures
  { certificateNames :: ![ByteString],
    -- | Seconds until it expires; negative afterwards.
    certificateLeft :: !Int
  }
  deriving stock (Eq, Show)

-- Several processes ---------------------------------------------------------------

-- | The sum of the figures of processes that serve the same; of what is no number, that of the first one.
--
-- [Cost]: O(processes and routes).
figuresTogether :: [StatusFigures] -> Maybe StatusFigures
figuresTogether = \case
  [] -> Nothing
  all' -> Just (foldr1 plus all')

plus :: StatusFigures -> StatusFigures -> StatusFigures
plus a b =
  a
    { statusCores = on (+) statusCores,
      statusUptime = on max statusUptime,
      statusOpen = on (+) statusOpen,
      statusReadings = on plusReadings statusReadings,
      statusHandshakes = on (plusMaybe plusHandshakes) statusHandshakes,
      statusCached = on (+) statusCached,
      statusUpstreams = on plusUpstreams statusUpstreams,
      statusUses = on plusUses statusUses
    }
  where
    on f field = field a `f` field b
    plusHandshakes (TlsCounts f r x c k) (TlsCounts f' r' x' c' k') = TlsCounts (f + f') (r + r') (x + x') (c + c') (k + k')

-- | Keep what a process that has ended leaves: what it has counted, and nothing of what it had.
countsOnly :: StatusFigures -> StatusFigures
countsOnly figures =
  figures
    { statusCores = 0,
      statusUptime = 0,
      statusOpen = 0,
      statusReadings = (statusReadings figures) {readingUnderWay = 0},
      statusCached = 0,
      statusUpstreams = [],
      statusUses = (statusUses figures) {figureResident = Nothing, figureVirtual = Nothing, figureDescriptors = Nothing, figureMostDescriptors = Nothing, figureCollections = (\c -> c {collectionLive = 0}) <$> figureCollections (statusUses figures)}
    }

plusMaybe :: (a -> a -> a) -> Maybe a -> Maybe a -> Maybe a
plusMaybe f (Just a) (Just b) = Just (f a b)
plusMaybe _ a b = a <|> b

-- A process that has not reloaded yet may have other routes.
plusReadings :: Readings -> Readings -> Readings
plusReadings (Readings a u c routes) (Readings a' u' c' others) =
  Readings (a + a') (u + u') (c + c') ([foldr plusRoute r [o | o <- others, routeName o == routeName r] | r <- routes] ++ [o | o <- others, routeName o `notElem` map routeName routes])

plusRoute :: RouteReading -> RouteReading -> RouteReading
plusRoute (RouteReading name classes bytes sum' longest took) (RouteReading _ classes' bytes' sum'' longest' took') =
  RouteReading name (zipWith (+) classes classes') (bytes + bytes') (sum' + sum'') (max longest longest') (took <> took')

-- By route. A server is up if any process gives it requests.
plusUpstreams :: [(ByteString, UpstreamFigures)] -> [(ByteString, UpstreamFigures)] -> [(ByteString, UpstreamFigures)]
plusUpstreams theirs others = [(label, foldr plusUpstream u [o | (other, o) <- others, other == label]) | (label, u) <- theirs] ++ [other | other <- others, fst other `notElem` map fst theirs]
  where
    plusUpstream (UpstreamFigures kind servers used kept waiting) (UpstreamFigures _ servers' used' kept' waiting') =
      UpstreamFigures kind (plusServers servers servers') (used + used') (kept + kept') (plusMaybe (+) waiting waiting')
    -- A route's servers are in the same order everywhere, and one may be there twice.
    plusServers (s : rest) (s' : rest') | serverName s == serverName s' = ServerFigures (serverName s) (serverUp s || serverUp s') (plusMaybe (+) (serverOpen s) (serverOpen s')) : plusServers rest rest'
    plusServers servers _ = servers

plusUses :: ProcessFigures -> ProcessFigures -> ProcessFigures
plusUses a b =
  ProcessFigures
    { figureCpu = on (+) figureCpu,
      figureStarted = on min figureStarted,
      figureResident = on (+) figureResident,
      figureVirtual = on (+) figureVirtual,
      figureDescriptors = on (+) figureDescriptors,
      figureMostDescriptors = on (+) figureMostDescriptors,
      figureCollections = on plusCollections figureCollections
    }
  where
    on f field = plusMaybe f (field a) (field b)
    plusCollections (Collections c m s l n) (Collections c' m' s' l' n') = Collections (c + c') (m + m') (s + s') (l + l') (n + n')

-- JSON ---------------------------------------------------------------------------

-- | An object. Latencies are in microseconds; buckets are pairs of the first latency beyond the bucket, and a count.
figuresJson :: StatusFigures -> Builder
figuresJson figures =
  object
    [ ("version", jsonString (statusVersion' figures)),
      ("process", intDec (statusProcess figures)),
      ("state", jsonString (stateText (statusState' figures))),
      ("processes", maybe "null" (\(serving, ended) -> object [("serving", intDec serving), ("ended", intDec ended)]) (statusProcesses figures)),
      ("cores", intDec (statusCores figures)),
      ("uptime_seconds", fixed (statusUptime figures)),
      ("connections", object [("open", intDec (statusOpen figures)), ("accepted", intDec (readingAccepted readings))]),
      ("requests", object (("total", intDec (requestsOf whole)) : ("under_way", intDec (readingUnderWay readings)) : classes whole)),
      ("bytes", intDec (routeBytes whole)),
      ("cache", object [("replies", intDec (readingFromCache readings)), ("bytes", intDec (statusCached figures))]),
      ("latency_us", object (latencies whole ++ [("buckets", array [array [intDec (greatest + 1), intDec n] | (greatest, n) <- counts (routeLatencies whole)])])),
      ("routes", array [object ([("route", jsonString (routeName r)), ("requests", intDec (requestsOf r)), ("bytes", intDec (routeBytes r))] ++ classes r ++ [("latency_us", object (latencies r))]) | r <- readingRoutes readings, requestsOf r > 0 || routeName r /= "refused"]),
      ("upstreams", array [server route u s | (route, u) <- statusUpstreams figures, s <- upstreamsServers u]),
      ("pools", array (map pool (statusUpstreams figures))),
      ("certificates", array [object [("names", array (map jsonString (certificateNames c))), ("days_left", fixed (days c))] | c <- statusCertificates figures]),
      ("handshakes", maybe "null" handshakes (statusHandshakes figures)),
      ("uses", object (maybeFixed "cpu_seconds" figureCpu ++ maybeInt "resident_bytes" figureResident ++ maybeInt "descriptors" figureDescriptors ++ maybeInt "descriptors_limit" figureMostDescriptors))
    ]
    <> "\n"
  where
    readings = statusReadings figures
    whole = wholeOf (readingRoutes readings)
    classes r = [(C.pack (show i ++ "xx"), intDec n) | (i, n) <- zip [1 :: Int ..] (routeClasses r)]
    latencies r = [("p50", intDec (latencyOf 0.5 r)), ("p90", intDec (latencyOf 0.9 r)), ("p99", intDec (latencyOf 0.99 r)), ("max", intDec (routeLongest r))]
    server route u s = object [("route", jsonString route), ("kind", jsonString (upstreamsKind u)), ("server", jsonString (serverName s)), ("up", if serverUp s then "true" else "false"), ("open", orNull (serverOpen s))]
    pool (route, u) = object [("route", jsonString route), ("kind", jsonString (upstreamsKind u)), ("used", intDec (upstreamsUsed u)), ("kept", intDec (upstreamsKept u)), ("waiting", orNull (upstreamsWaiting u))]
    orNull = maybe "null" intDec
    handshakes t = object [("full", intDec (countFull t)), ("resumed", intDec (countResumed t)), ("failed", intDec (countFailed t)), ("closed", intDec (countClosed t)), ("kernel", intDec (countKernel t))]
    maybeInt name field = [(name, intDec n) | Just n <- [field (statusUses figures)]]
    maybeFixed name field = [(name, fixed n) | Just n <- [field (statusUses figures)]]

object :: [(ByteString, Builder)] -> Builder
object fields = "{" <> mconcat (intersperse "," [jsonString name <> ":" <> value | (name, value) <- fields]) <> "}"

array :: [Builder] -> Builder
array values = "[" <> mconcat (intersperse "," values) <> "]"

stateText :: State -> ByteString
stateText = \case
  Starting -> "starting"
  Ready -> "ready"
  Stopping -> "stopping"

requestsOf :: RouteReading -> Int
requestsOf = sum . routeClasses

wholeOf :: [RouteReading] -> RouteReading
wholeOf routes =
  RouteReading
    { routeName = "",
      routeClasses = added routeClasses (replicate 5 0),
      routeBytes = sum (map routeBytes routes),
      routeSum = sum (map routeSum routes),
      routeLongest = maximum (0 : map routeLongest routes),
      routeLatencies = foldMap routeLatencies routes
    }
  where
    added field zero = foldr (zipWith (+) . field) zero routes

days :: CertificateFigures -> Double
days c = fromIntegral (certificateLeft c) / 86400

-- With three digits after the point.
fixed :: Double -> Builder
fixed x = (if x < 0 then "-" else mempty) <> intDec whole <> "." <> mconcat [intDec d | d <- [part `quot` 100, part `quot` 10 `rem` 10, part `rem` 10]]
  where
    (whole, part) = (round (abs x * 1000) :: Int) `quotRem` 1000

-- Prometheus ---------------------------------------------------------------------

-- | Metrics in Prometheus' text format, version 0.0.4. Histograms have the powers of two between 64 µs and 34 s as bounds,
-- because below those the counts are exact.
figuresText :: StatusFigures -> Builder
figuresText figures =
  mconcat
    [ metric "heddle_build_info" "gauge" "The version, in a label." [([("version", statusVersion' figures)], "1")],
      metric "heddle_ready" "gauge" "1 while the server wants requests." [([], if statusState' figures == Ready then "1" else "0")],
      metric "heddle_cores" "gauge" "Cores that serve." [([], intDec (statusCores figures))],
      single "heddle_processes" "gauge" "Processes that serve, if there are several." (intDec . fst <$> statusProcesses figures),
      single "heddle_processes_ended_total" "counter" "Processes that have ended, and were replaced." (intDec . snd <$> statusProcesses figures),
      metric "heddle_connections_open" "gauge" "Open connections." [([], intDec (statusOpen figures))],
      metric "heddle_connections_accepted_total" "counter" "Connections that have begun." [([], intDec (readingAccepted readings))],
      metric "heddle_requests_in_flight" "gauge" "Requests that a handler is answering." [([], intDec (readingUnderWay readings))],
      metric "heddle_cache_replies_total" "counter" "Replies sent from the cache of files." [([], intDec (readingFromCache readings))],
      metric "heddle_cache_bytes" "gauge" "Bytes of replies in the cache of files." [([], intDec (statusCached figures))],
      metric "heddle_http_requests_total" "counter" "Requests by route and class of status." [([("route", routeName r), ("code", C.pack (show i ++ "xx"))], intDec n) | r <- routes, (i, n) <- zip [1 :: Int ..] (routeClasses r)],
      metric "heddle_http_response_bytes_total" "counter" "Bytes of content sent, by route." [([("route", routeName r)], intDec (routeBytes r)) | r <- routes],
      heading "heddle_http_request_duration_seconds" "histogram" "From a request's head to the end of its reply, by route.",
      mconcat (map histogram routes),
      some "heddle_upstream_up" "gauge" "1 if requests are given to this server." [(labels, if up then "1" else "0") | (labels, (Any up, _)) <- servers],
      some "heddle_upstream_requests_in_flight" "gauge" "Requests under way at this server." [(labels, intDec open) | (labels, (_, Just (Sum open))) <- servers],
      some "heddle_upstream_connections" "gauge" "Connections to the servers of a route, in use and kept." [([("route", route), ("state", state)], intDec n) | (route, u) <- behind, upstreamsKind u /= "cgi", (state, n) <- [("used", upstreamsUsed u), ("kept", upstreamsKept u)]],
      some "heddle_upstream_requests_waiting" "gauge" "Requests that wait for a connection or a program." [([("route", route)], intDec n) | (route, u) <- behind, Just n <- [upstreamsWaiting u]],
      some "heddle_programs_running" "gauge" "Programs of CGI that run, by route." [([("route", route)], intDec (upstreamsUsed u)) | (route, u) <- behind, upstreamsKind u == "cgi"],
      case statusHandshakes figures of
        Nothing -> mempty
        Just t ->
          metric "heddle_tls_handshakes_total" "counter" "Handshakes by outcome." [([("outcome", name)], intDec n) | (name, n) <- [("full", countFull t), ("resumed", countResumed t), ("failed", countFailed t), ("closed", countClosed t)]]
            <> metric "heddle_tls_kernel_sessions_total" "counter" "Sessions that the kernel was given to encrypt (kTLS)." [([], intDec (countKernel t))],
      if null (statusCertificates figures)
        then mempty
        else metric "heddle_certificate_expiry_seconds" "gauge" "Seconds until a certificate expires." [([("names", C.intercalate "," (certificateNames c)), ("number", C.pack (show i))], intDec (certificateLeft c)) | (i, c) <- zip [1 :: Int ..] (statusCertificates figures)],
      single "process_cpu_seconds_total" "counter" "Processor time used." (fixed <$> figureCpu uses),
      single "process_start_time_seconds" "gauge" "When the process began, in seconds since 1970." (fixed <$> figureStarted uses),
      single "process_resident_memory_bytes" "gauge" "Memory in use." (intDec <$> figureResident uses),
      single "process_virtual_memory_bytes" "gauge" "Address space in use." (intDec <$> figureVirtual uses),
      single "process_open_fds" "gauge" "Open descriptors." (intDec <$> figureDescriptors uses),
      single "process_max_fds" "gauge" "How many descriptors may be open." (intDec <$> figureMostDescriptors uses),
      collected "heddle_gc_collections_total" "counter" "Collections of the heap." (intDec . collectionCount),
      collected "heddle_gc_major_collections_total" "counter" "Collections of all generations." (intDec . collectionMajor),
      collected "heddle_gc_pause_seconds_total" "counter" "Time spent in collections." (fixed . collectionSeconds),
      collected "heddle_gc_live_bytes" "gauge" "Bytes live after the last collection." (intDec . collectionLive),
      collected "heddle_gc_allocated_bytes_total" "counter" "Bytes allocated." (intDec . collectionAllocated)
    ]
  where
    readings = statusReadings figures
    routes = readingRoutes readings
    uses = statusUses figures
    single name kind text = maybe mempty (\value -> metric name kind text [([], value)])
    collected name kind text field = single name kind text (field <$> figureCollections uses)
    some name kind text samples = if null samples then mempty else metric name kind text samples
    behind = statusUpstreams figures
    -- A server that a route names twice is one series.
    servers =
      Map.toList . Map.fromListWith (<>) $
        [([("route", route), ("server", serverName s)], (Any (serverUp s), Sum <$> serverOpen s)) | (route, u) <- behind, s <- upstreamsServers u]
    histogram r =
      mconcat [sample "heddle_http_request_duration_seconds_bucket" [("route", routeName r), ("le", micros limit)] (intDec (countBelow limit (routeLatencies r))) | limit <- map (2 ^) [6 :: Int .. 25]]
        <> sample "heddle_http_request_duration_seconds_bucket" [("route", routeName r), ("le", "+Inf")] (intDec (valueCount (routeLatencies r)))
        <> sample "heddle_http_request_duration_seconds_sum" [("route", routeName r)] (byteString (micros (routeSum r)))
        <> sample "heddle_http_request_duration_seconds_count" [("route", routeName r)] (intDec (valueCount (routeLatencies r)))

-- Microseconds as seconds.
micros :: Int -> ByteString
micros n = C.pack (show (n `quot` 1000000) ++ "." ++ drop 1 (show (1000000 + n `rem` 1000000)))

metric :: ByteString -> ByteString -> ByteString -> [([(ByteString, ByteString)], Builder)] -> Builder
metric name kind text samples = heading name kind text <> mconcat [sample name labels value | (labels, value) <- samples]

heading :: ByteString -> ByteString -> ByteString -> Builder
heading name kind text = "# HELP " <> byteString name <> " " <> byteString text <> "\n# TYPE " <> byteString name <> " " <> byteString kind <> "\n"

sample :: ByteString -> [(ByteString, ByteString)] -> Builder -> Builder
sample name labels value = byteString name <> (if null labels then mempty else "{" <> mconcat (intersperse "," (map label labels)) <> "}") <> " " <> value <> "\n"
  where
    label (key, text) = byteString key <> "=\"" <> C.foldr (\c rest -> escaped c <> rest) mempty text <> "\""
    escaped = \case
      '"' -> "\\\""
      '\\' -> "\\\\"
      '\n' -> "\\n"
      c -> char7' c
    -- The bytes of UTF-8, as they are.
    char7' c = byteString (C.singleton c)
