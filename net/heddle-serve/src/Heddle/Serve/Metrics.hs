-- |
-- Module      : Heddle.Serve.Metrics
-- Description : Counting requests by route, for the status page and Prometheus
-- Stability   : internal, exempt from the version policy
--
-- Each capability counts its own replies in an array of words: for each route requests by class of status, bytes of content, the
-- sum and the maximum of latencies, and a histogram of them. Readers add the arrays up.
--
-- Cost: a reading of the clock (no system call), a look at the routes and six additions for a reply; an array of 3 KB for each
-- route and capability, too large to be moved by the collector and without pointers for it to follow. Nothing unless a status
-- page was asked for.
-- Owner: each array is written by the threads of its capability only.
-- Shared writes per request: 0.
module Heddle.Serve.Metrics
  ( Metrics,
    newMetrics,
    Labelled (..),
    ofRoutes,

    -- * Counting
    metricsHook,
    counting,
    countingAtOnce,
    countingConnections,
    routeLabel,

    -- * Reading
    Readings (..),
    RouteReading (..),
    readMetrics,
    latencyOf,
    latencyPrecision,
    latencyBucket,
  )
where

import Control.Monad (zipWithM_)
import Data.ByteString (ByteString)
import Data.ByteString.Char8 qualified as C
import Data.Foldable (for_, toList)
import Data.List (elemIndex)
import Data.Primitive.SmallArray (SmallArray, indexSmallArray, sizeofSmallArray, smallArrayFromList)
import Heddle.Http
import Heddle.Http.Borrowed (requestBegan)
import Heddle.Http.UriPath (PathError (..), decodePath)
import Heddle.IO.Registration (Registration, registrationCapability)
import Heddle.Prim.Atomic
import Heddle.Prim.Clock (Deadline (..), monotonicNow)
import Heddle.Prim.Exception (mask, onException)
import Heddle.Prim.Histogram (Histogram, Precision (..), bucketOf, bucketTotal, fromBuckets, quantile)
import Heddle.Serve.Routes

-- | The counts.
data Metrics = Metrics
  { metricsShares :: !(SmallArray Words),
    metricsLabelled :: !Labelled,
    -- | Those of 'Labelled', and what was refused before it had a path.
    metricsLabels :: !(SmallArray ByteString)
  }

-- | What requests are told apart by: labels, and the number of a request's label.
data Labelled = Labelled ![ByteString] !(Request -> IO Int)

-- | Files, and then routes.
ofRoutes :: Routes -> Labelled
ofRoutes routes = Labelled (filesLabel : map (C.pack . renderPattern) (routePatterns routes)) (fmap (maybe 0 (+ 1)) . positionOf routes)

-- | Counts for this number of capabilities and these labels. Counts of the given metrics go on under the labels that they had.
newMetrics :: Int -> Labelled -> Maybe Metrics -> IO Metrics
newMetrics capabilities labelled@(Labelled given _) before = case before of
  Just known | toList (metricsLabels known) == labels -> pure known {metricsLabelled = labelled}
  _ -> do
    shares <- traverse (const (newWords (firstRoute + stride * length labels + 16))) [1 .. capabilities]
    for_ before $ \known -> zipWithM_ (continue (toList (metricsLabels known))) (toList (metricsShares known)) shares
    pure (Metrics (smallArrayFromList shares) labelled (smallArrayFromList labels))
  where
    labels = given ++ [C.pack "refused"]
    -- Requests under way are counted out where they were counted in.
    continue old from to = do
      for_ [atAccepted, atFromCache] (\at -> copy from at to at)
      for_ (zip [0 ..] labels) $ \(i, label) ->
        for_ (elemIndex label old) $ \j -> for_ [0 .. stride - 1] $ \at -> copy from (firstRoute + stride * j + at) to (firstRoute + stride * i + at)
    copy from i to j = atomicRead from i >>= writeWord to j

-- Where things stand in a share. The first words are left free, so that no other array's last words are on their cache line.
atAccepted, atUnderWay, atFromCache, firstRoute, stride, atBytes, atSum, atLongest, firstBucket :: Int
atAccepted = 8
atUnderWay = 9
atFromCache = 10
firstRoute = 16
-- Classes of status 1xx to 5xx are words 0 to 4 of a route.
stride = 8 + latencyBuckets
atBytes = 5
atSum = 6
atLongest = 7
firstBucket = 8

-- | Precision of latencies: a quantile is at most a sixteenth too high.
latencyPrecision :: Precision
latencyPrecision = Precision 4

-- | Of microseconds; the last one also has those of 134 s and more.
latencyBuckets :: Int
latencyBuckets = bucketTotal latencyPrecision 27

-- | The bucket of a latency in microseconds.
--
-- [Cost]: a shift and a comparison.
latencyBucket :: Int -> Int
latencyBucket took = min (latencyBuckets - 1) (bucketOf latencyPrecision took)
{-# INLINE latencyBucket #-}

-- No other thread of the capability runs between the two: nothing is allocated.
bump :: Words -> Int -> Int -> IO ()
bump share at n = readWord share at >>= \before -> writeWord share at (before + n)
{-# INLINE bump #-}

-- | Counts the replies of a capability, by the metrics that are current when a reply has been sent.
--
-- [Threads]: those of the capability.
metricsHook :: IO Metrics -> Int -> LogHook
metricsHook current capability request what status sent = do
  metrics <- current
  let !share = indexSmallArray (metricsShares metrics) capability
  Deadline now <- monotonicNow
  route <- routeOf metrics request what
  let Deadline began = requestBegan request
      took = max 0 (now - began) `quot` 1000
      at = firstRoute + stride * route
  bump share (at + max 0 (min 4 (statusCode status `quot` 100 - 1))) 1
  bump share (at + atBytes) sent
  bump share (at + atSum) took
  bump share (at + firstBucket + latencyBucket took) 1
  longest <- readWord share (at + atLongest)
  if took > longest then writeWord share (at + atLongest) took else pure ()

-- The number of a request's label.
routeOf :: Metrics -> Request -> Logged -> IO Int
routeOf metrics request = \case
  LoggedGarbage -> pure (sizeofSmallArray (metricsLabels metrics) - 1)
  LoggedRequest | Labelled _ numberOf <- metricsLabelled metrics -> numberOf request

positionOf :: Routes -> Request -> IO (Maybe Int)
positionOf routes request = position <$> rawPath request
  where
    position raw = case decodePath raw of
      Right path -> routePosition routes path
      Left PathEncodedSlash -> encodedPosition routes raw
      Left _ -> Nothing

-- | Name the route of a request.
routeLabel :: Labelled -> Request -> IO ByteString
routeLabel (Labelled labels numberOf) request = (labels !!) <$> numberOf request

filesLabel :: ByteString
filesLabel = C.pack "files"

-- | Counts the requests that a capability's handler has under way, and the replies that came from its cache.
counting :: Metrics -> Int -> Handler -> Handler
counting metrics capability handler request = mask $ \restore -> do
  bump share atUnderWay 1
  reply <- restore (handler request) `onException` bump share atUnderWay (-1)
  bump share atUnderWay (-1)
  noteCached share reply
  pure reply
  where
    !share = indexSmallArray (metricsShares metrics) capability

-- | The same for a handler that answers at once.
countingAtOnce :: Metrics -> Int -> (Request -> IO (Maybe Reply)) -> Request -> IO (Maybe Reply)
countingAtOnce metrics capability handler request = do
  reply <- handler request
  reply <$ mapM_ (noteCached (indexSmallArray (metricsShares metrics) capability)) reply

noteCached :: Words -> Reply -> IO ()
noteCached share = \case
  Ready _ -> bump share atFromCache 1
  _ -> pure ()

-- | Counts connections, beside what is to be done with them anyway.
countingConnections :: IO Metrics -> Maybe (Registration -> IO (Maybe (IO ()))) -> Registration -> IO (Maybe (IO ()))
countingConnections current others registration = do
  metrics <- current
  bump (indexSmallArray (metricsShares metrics) (registrationCapability registration)) atAccepted 1
  maybe (pure (Just (pure ()))) ($ registration) others

-- Reading ------------------------------------------------------------------------

-- | What was counted, by all capabilities.
data Readings = Readings
  { readingAccepted :: !Int,
    readingUnderWay :: !Int,
    readingFromCache :: !Int,
    readingRoutes :: ![RouteReading]
  }
  deriving stock (Eq, Show)

-- | What was counted of a route.
data RouteReading = RouteReading
  { routeName :: !ByteString,
    -- | Requests answered with 1xx to 5xx.
    routeClasses :: ![Int],
    -- | Of content.
    routeBytes :: !Int,
    -- | In microseconds.
    routeSum :: !Int,
    -- | In microseconds.
    routeLongest :: !Int,
    -- | In microseconds.
    routeLatencies :: !Histogram
  }
  deriving stock (Eq, Show)

-- | Add the counts up. While requests are being answered, one may be in some of the numbers only.
--
-- [Cost]: O(routes and capabilities).
-- [Blocks]: never.
-- [Threads]: any.
readMetrics :: Metrics -> IO Readings
readMetrics metrics =
  Readings <$> total atAccepted <*> total atUnderWay <*> total atFromCache
    <*> traverse reading (zip [firstRoute, firstRoute + stride ..] (toList (metricsLabels metrics)))
  where
    shares = toList (metricsShares metrics)
    total at = sum <$> traverse (`atomicRead` at) shares
    reading (at, name) =
      RouteReading name
        <$> traverse (\i -> total (at + i)) [0 .. 4]
        <*> total (at + atBytes)
        <*> total (at + atSum)
        <*> (maximum . (0 :) <$> traverse (`atomicRead` (at + atLongest)) shares)
        <*> (fromBuckets latencyPrecision <$> traverse (\i -> total (at + firstBucket + i)) [0 .. latencyBuckets - 1])

-- | A quantile of latencies; no more than the longest.
--
-- [Units]: microseconds.
latencyOf :: Double -> RouteReading -> Int
latencyOf q route = min (routeLongest route) (quantile q (routeLatencies route))
