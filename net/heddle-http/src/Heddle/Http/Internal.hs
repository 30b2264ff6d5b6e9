{-# OPTIONS_HADDOCK not-home #-}

-- |
-- Module      : Heddle.Http.Internal
-- Description : The parts of the engine that work without a connection
-- Stability   : internal, exempt from the version policy
--
-- For this package's suites and benchmarks: parsing, framing and chunked bodies on bytes in
-- memory.
--
-- Cost: see each function.
-- Owner: a table or a state belongs to one thread at a time.
module Heddle.Http.Internal
  ( module Heddle.Http.Chunked,
    module Heddle.Http.Framing,

    -- ** Counted in this process
    liveSessions,
    liveStreams,
    calmedSessions,
    restingSessions,
    module Heddle.Http.Head,
    module Heddle.Http.HeadLookup,
    module Heddle.Http.Parse,
    module Heddle.Http.Preconditions,
    module Heddle.Http.RejectReason,
    module Heddle.Http.Scan,
    module Heddle.Http.Status,
  )
where

import Heddle.Http.Chunked
import Heddle.Http.Framing
import Heddle.Http.H2.Session (calmedSessions, liveSessions, liveStreams, restingSessions)
import Heddle.Http.Head
import Heddle.Http.HeadLookup
import Heddle.Http.Parse
import Heddle.Http.Preconditions
import Heddle.Http.RejectReason
import Heddle.Http.Scan
import Heddle.Http.Status
