-- |
-- Module      : Heddle.Bytes.Put.Sink
-- Description : Puts from actions that write into memory
-- Stability   : stable
--
-- "Heddle.Bytes.Put" joins pieces whose greatest length is known. An encoder whose pieces have no such bound, as
-- escaped strings, writes into the sink itself: it is given the address where the next byte goes, compares it with
-- 'sinkEnd', asks for room by 'sinkMore', and answers where it ended.
--
-- Invariant: no byte is written before the address that an action is given, nor at or after 'sinkEnd'; the address
-- that it answers is within these. Nothing checks that.
-- Cost: two memory accesses for 'sinkEnd'; 'sinkMore' is rare and does what the way of running the 'Put' needs.
-- Owner: the thread that runs the 'Put'; the sink is only there while it runs.
module Heddle.Bytes.Put.Sink
  ( -- * Sequences from actions
    Put,
    runningPut,
    runPut,

    -- * Room
    Sink,
    sinkEnd,
    sinkMore,

    -- * What is handed down
    sinkLevel,
    sinkPolicy,
    withSinkPolicy,

    -- * Sinks over given memory

    -- | For tests of encoders; programs run a 'Put' by the functions of "Heddle.Bytes.Put".
    newSink,
    setSinkEnd,
  )
where

import Heddle.Bytes.Internal.Sink
