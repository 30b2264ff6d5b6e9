{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Serve.Status
-- Description : The status page, metrics, health and readiness
-- Stability   : internal, exempt from the version policy
--
-- A route of its own that tells how the server is: a page for people, JSON, Prometheus metrics, and the answers that load
-- balancers ask for. Whoever may not read it is answered as if there were no such route.
--
-- Cost: that of "Heddle.Serve.Metrics" for each request; some milliseconds for each question.
-- Owner: 'newObserver'.
module Heddle.Serve.Status
  ( -- * Options
    StatusOptions (..),
    defaultStatusOptions,
    parseStatusPrefix,

    -- * Observing
    Observer,
    newObserver,
    observed,
    observerPrefix,
    View (..),
    observeSites,
    observerMetrics,
    observerView,
    observeServing,
    observeStopping,
    observeTogether,
    ownFigures,
    Sources (..),

    -- * Slow requests
    slowHook,

    -- * Parts, for tests
    mayRead,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Builder (Builder, toLazyByteString)
import Data.ByteString.Char8 qualified as C
import Data.ByteString.Lazy qualified as L
import Data.Char (toLower)
import Data.Either (fromRight)
import Data.Foldable (fold)
import Data.Maybe (fromMaybe)
import Heddle.Gateway.Place
import Heddle.Gateway.Proxy (Network, PeerAddress, addressIn, forwardedNodes, isWithin, parseNetwork, peerAddressOf)
import Heddle.Http hiding (Ready)
import Heddle.Http.Borrowed (requestBegan, upstreamTime)
import Heddle.Http.UriPath
import Heddle.Prim.Atomic
import Heddle.Prim.Clock
import Heddle.Prim.Exception (bug, throwIO)
import Heddle.Serve.Certificates
import Heddle.Serve.Listing (wantsJson)
import Heddle.Serve.Metrics
import Heddle.Serve.ProcessFigures
import Heddle.Serve.Routes
import Heddle.Serve.StatusFigures
import Heddle.Serve.StatusPage
import Heddle.Serve.Timeline
import Heddle.Serve.UpstreamFigures
import System.Posix.Process (getProcessID)

-- | Where the status is, and for whom.
data StatusOptions = StatusOptions
  { statusPrefix :: !RoutePattern,
    -- | Who may read it.
    statusAllow :: ![Network],
    -- | The program's version.
    statusVersion :: !ByteString,
    -- | How many seconds a timeline may take; 'Nothing': there are none.
    statusTimeline :: !(Maybe Int)
  }
  deriving stock (Eq, Show)

-- | For the loopback interface.
defaultStatusOptions :: RoutePattern -> StatusOptions
defaultStatusOptions prefix = StatusOptions prefix (fromRight [] (traverse parseNetwork networks)) "" Nothing
  where
    networks = ["127.0.0.0/8", "::1"]

-- | Read a prefix such as @\/status@.
parseStatusPrefix :: String -> Either String RoutePattern
parseStatusPrefix text =
  parsePattern text >>= \case
    RoutePattern prefix suffix
      | not (B.null suffix) -> Left ("the prefix '" ++ text ++ "' has a '*'; write a path such as /status")
      | B.null prefix -> Left "the status would take every path of the site; write a path such as /status"
      | otherwise -> Right (RoutePattern prefix suffix)

-- | What is asked when a status is asked for.
data Sources = Sources
  { sourceOpen :: !(IO Int),
    sourceCertificates :: !Certificates
  }

-- | Tells about requests and what answers them.
data Observer = Observer
  { observerOptions :: !StatusOptions,
    observerRecorder :: !(Maybe Recorder),
    observerCores :: !Int,
    -- | Word 0: the 'State'.
    observerState :: !Words,
    observerBegan :: !Deadline,
    observerSources :: !(Ref (Maybe Sources)),
    -- | Of what is served at present.
    observerCurrent :: !(Ref (Maybe View)),
    -- | How to ask all processes, if there are several.
    observerAsk :: !(Ref (Maybe (IO (Maybe StatusFigures))))
  }

-- | What there is to be told of the sites that are served.
data View = View
  { viewMetrics :: !Metrics,
    -- | What is behind routes, by their labels.
    viewUpstreams :: ![(ByteString, IO UpstreamFigures)],
    -- | Bytes in the caches of files.
    viewCaches :: ![IO Int]
  }

-- | Observe what this number of cores serves, and let timelines be recorded.
newObserver :: Int -> Maybe Recorder -> StatusOptions -> IO Observer
newObserver cores recorder options = Observer options recorder cores <$> newWords 1 <*> monotonicNow <*> newRef Nothing <*> newRef Nothing <*> newRef Nothing

-- | Where the status is.
observerPrefix :: Observer -> RoutePattern
observerPrefix = statusPrefix . observerOptions

-- | Routes with the status among them; 'Nothing' if another route has its prefix.
observed :: Observer -> Routes -> Maybe Routes
observed observer = addRoute (statusPrefix (observerOptions observer)) (statusGateway observer)

-- | Tell about these sites from now on.
observeSites :: Observer -> View -> IO ()
observeSites observer = writeRef (observerCurrent observer) . Just

-- | Find what is told about at present, if anything is served yet.
observerView :: Observer -> IO (Maybe View)
observerView = readRef . observerCurrent

-- | Find what to count with at present.
--
-- [Throws]: 'Heddle.Prim.Exception.HeddleBug' before there are sites.
observerMetrics :: Observer -> IO Metrics
observerMetrics observer = observerView observer >>= maybe (bug "no site is observed") (pure . viewMetrics)

-- | Connections are accepted from now on.
observeServing :: Observer -> Sources -> IO ()
observeServing observer sources = do
  writeRef (observerSources observer) (Just sources)
  atomicWrite (observerState observer) 0 (fromEnum Ready)

-- | The server stops.
observeStopping :: Observer -> IO ()
observeStopping observer = atomicWrite (observerState observer) 0 (fromEnum Stopping)

-- | Tell the figures of all processes, which this action asks for, instead of those of this one.
observeTogether :: Observer -> IO (Maybe StatusFigures) -> IO ()
observeTogether observer = writeRef (observerAsk observer) . Just

-- Answering ------------------------------------------------------------------------

statusGateway :: Observer -> Gateway
statusGateway observer place request = do
  allowed <- mayRead (statusAllow (observerOptions observer)) request
  code <- method request
  accept <- header request HeaderAccept
  let answering reply
        | code == MethodGet || code == MethodHead = reply
        | otherwise = pure (Whole status405 [Header "Allow" "GET, HEAD"] "405 Method Not Allowed\n")
      json = figures "application/json" figuresJson
      figures kind written =
        gathered observer
          >>= maybe
            (pure (Whole status503 (fields "text/plain; charset=utf-8") "the other processes do not answer\n"))
            (text kind . written)
  case placeRest place of
    _ | not allowed -> elsewhere
    "" -> answering (if maybe False wantsJson accept then json else page)
    "json" -> answering json
    "metrics" -> answering (figures "text/plain; version=0.0.4; charset=utf-8" figuresText)
    "health" -> answering (text "text/plain; charset=utf-8" "healthy\n")
    "ready" -> answering $ do
      state <- stateOf observer
      if state == Ready then text "text/plain; charset=utf-8" "ready\n" else pure (Whole status503 (fields "text/plain; charset=utf-8") (if state == Stopping then "stopping\n" else "starting\n"))
    "timeline"
      | Just longest <- statusTimeline (observerOptions observer),
        Just recorder <- observerRecorder observer ->
        -- Not for HEAD, which must not have an effect.
        if code == MethodGet
          then query request >>= timelineReply unkept longest recorder
          else pure (Whole status405 [Header "Allow" "GET"] "405 Method Not Allowed\n")
    _ -> elsewhere
  where
    text :: ByteString -> Builder -> IO Reply
    text kind = pure . Whole status200 (fields kind) . L.toStrict . toLazyByteString
    page = pure (Whole status200 (Header "Content-Security-Policy" statusPagePolicy : fields "text/html; charset=utf-8") statusPage)
    fields kind = Header "Content-Type" kind : Header "Vary" "Accept" : unkept
    unkept = [Header "Cache-Control" "no-store", Header "X-Content-Type-Options" "nosniff"]
    -- As if there were no such route.
    elsewhere = do
      asked <- query request
      case decodePath "/" of
        Right root -> throwIO (LocalFile root {pathRelative = B.drop 1 (placePath place {placeSlash = False}), pathTrailingSlash = placeSlash place} (Redirected (fromMaybe asked (placeQuery place)) (placeHops place)))
        Left _ -> pure (Whole status404 [] "")

-- | Test whether a request may read the status: its peer is in one of the networks, and so is every client that proxies on its way
-- have named. A client may forge such headers, which can only make it unwelcome; behind a proxy that names nobody, all clients are
-- the proxy.
--
-- [Cost]: O(bytes of those headers).
mayRead :: [Network] -> Request -> IO Bool
mayRead networks request = do
  given <- headers request
  let valueOf name = B.intercalate "," [value | (n, value) <- given, C.map toLower n == name]
      listed value = [C.strip address | address <- C.split ',' value, not (C.all (== ' ') address)]
      claims = map addressIn (listed (valueOf "x-forwarded-for") ++ listed (valueOf "x-real-ip")) ++ forwardedNodes (valueOf "forwarded")
  pure (within (peerAddressOf (peer request)) && all (maybe False within) claims)
  where
    within :: PeerAddress -> Bool
    within address = any (isWithin address) networks

stateOf :: Observer -> IO State
stateOf observer = toEnum <$> atomicRead (observerState observer) 0

-- | The figures to tell; 'Nothing' if those of all processes are not to be had, because those of one would look like a restart.
gathered :: Observer -> IO (Maybe StatusFigures)
gathered observer =
  readRef (observerAsk observer) >>= \case
    Nothing -> Just <$> ownFigures observer
    Just ask -> do
      state <- stateOf observer
      fmap (\all' -> all' {statusState' = state}) <$> ask

-- | The figures of this process.
--
-- [Blocks]: holds an OS thread.
ownFigures :: Observer -> IO StatusFigures
ownFigures observer = do
  Deadline now <- monotonicNow
  EpochSeconds second <- epochNow
  sources <- readRef (observerSources observer)
  view <- observerView observer
  let Deadline began = observerBegan observer
      certificates = sourceCertificates <$> sources
  StatusFigures (statusVersion (observerOptions observer))
    <$> (fromIntegral <$> getProcessID)
    <*> pure Nothing
    <*> pure (observerCores observer)
    <*> stateOf observer
    <*> pure (fromIntegral (now - began) / 1e9)
    <*> maybe (pure 0) sourceOpen sources
    <*> (observerMetrics observer >>= readMetrics)
    <*> maybe (pure Nothing) handshakesOf certificates
    <*> (fold <$> traverse (fmap (map (certificate (fromIntegral second))) . expiriesOf) certificates)
    <*> (sum <$> sequence (foldMap viewCaches view))
    <*> traverse (\(label, figures) -> (,) label <$> figures) (foldMap viewUpstreams view)
    <*> processFigures
  where
    certificate second (names, EpochSeconds expires) = CertificateFigures names (fromIntegral expires - second)

-- Slow requests ----------------------------------------------------------------------

-- | Tells of each request that took longer than this, in a line.
--
-- [Cost]: a reading of the clock; no system call.
slowHook :: Nanos -> (String -> IO ()) -> IO Labelled -> LogHook
slowHook (Nanos longest) tell labelled request what status _ = do
  Deadline now <- monotonicNow
  let Deadline began = requestBegan request
      took = now - began
  case what of
    LoggedRequest | took > longest -> do
      verb <- methodBytes request
      asked <- target request
      route <- labelled >>= (`routeLabel` request)
      behind <- upstreamTime request
      name <- headerNamed request "x-request-id"
      let secondsOf n = let (whole, part) = (n `quot` 1000000) `quotRem` 1000 in show whole ++ "." ++ drop 1 (show (1000 + part)) ++ " s"
      tell ("slow request: " ++ C.unpack verb ++ " " ++ C.unpack (B.take 512 asked) ++ " took " ++ secondsOf took ++ ", status " ++ show (statusCode status) ++ ", route " ++ C.unpack route ++ foldMap (\(Nanos n) -> ", upstream " ++ secondsOf n) behind ++ foldMap (\text -> ", id " ++ C.unpack (B.take 128 text)) name)
    _ -> pure ()
