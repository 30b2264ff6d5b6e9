-- |
-- Module      : Heddle.Serve.StatusWire
-- Description : Figures between processes of one server
-- Stability   : internal, exempt from the version policy
--
-- How a worker tells the supervisor what it has counted. Both are the same program, so the format has no version.
--
-- Cost: O(routes).
-- Owner: values.
module Heddle.Serve.StatusWire
  ( figuresBytes,
    figuresFrom,
  )
where

import Control.Monad (unless)
import Data.Binary (Get, Put, get, put)
import Data.Binary.Get (runGetOrFail)
import Data.Binary.Put (runPut)
import Data.ByteString.Lazy qualified as L
import Heddle.Prim.Histogram (counts, fromCounts)
import Heddle.Serve.Metrics
import Heddle.Serve.ProcessFigures
import Heddle.Serve.StatusFigures
import Heddle.Serve.UpstreamFigures
import Heddle.Tls (TlsCounts (..))

-- | Figures as bytes.
figuresBytes :: StatusFigures -> L.ByteString
figuresBytes = runPut . putFigures

-- | Inverse of 'figuresBytes'; 'Nothing' for other bytes.
figuresFrom :: L.ByteString -> Maybe StatusFigures
figuresFrom bytes = case runGetOrFail getFigures bytes of
  Right (rest, _, figures) | L.null rest -> Just figures
  _ -> Nothing

putFigures :: StatusFigures -> Put
putFigures (StatusFigures version process processes cores state uptime open readings handshakes certificates cached upstreams uses) = do
  put (version, process, processes, cores, fromEnum state)
  put (uptime, open)
  let Readings accepted underWay fromCache routes = readings
  put (accepted, underWay, fromCache)
  put [(name, classes, bytes, sum', longest, counts latencies) | RouteReading name classes bytes sum' longest latencies <- routes]
  put ((\(TlsCounts full resumed failed closed kernel) -> (full, resumed, failed, closed, kernel)) <$> handshakes)
  put [(names, left) | CertificateFigures names left <- certificates]
  put cached
  put [(route, kind, [(name, up, open') | ServerFigures name up open' <- servers], used, kept, waiting) | (route, UpstreamFigures kind servers used kept waiting) <- upstreams]
  let ProcessFigures cpu started resident virtual descriptors most collections = uses
  put (cpu, started, resident, virtual, descriptors, most)
  put ((\(Collections count major seconds live allocated) -> (count, major, seconds, live, allocated)) <$> collections)

getFigures :: Get StatusFigures
getFigures = do
  (version, process, processes, cores, state) <- get
  unless (state >= fromEnum (minBound :: State) && state <= fromEnum (maxBound :: State)) (fail "no state")
  (uptime, open) <- get
  (accepted, underWay, fromCache) <- get
  routes <- get >>= traverse route
  handshakes <- fmap (\(full, resumed, failed, closed, kernel) -> TlsCounts full resumed failed closed kernel) <$> get
  certificates <- map (uncurry CertificateFigures) <$> get
  cached <- get
  upstreams <- map upstream <$> get
  (cpu, started, resident, virtual, descriptors, most) <- get
  collections <- fmap (\(count, major, seconds, live, allocated) -> Collections count major seconds live allocated) <$> get
  pure (StatusFigures version process processes cores (toEnum state) uptime open (Readings accepted underWay fromCache routes) handshakes certificates cached upstreams (ProcessFigures cpu started resident virtual descriptors most collections))
  where
    -- Figures of two processes are added element by element.
    route (name, classes, bytes, sum', longest, latencies)
      | length classes == 5 = pure (RouteReading name classes bytes sum' longest (fromCounts latencyPrecision latencies))
      | otherwise = fail "not the counts of a route"
    upstream (label, kind, servers, used, kept, waiting) = (label, UpstreamFigures kind [ServerFigures name up open | (name, up, open) <- servers] used kept waiting)
