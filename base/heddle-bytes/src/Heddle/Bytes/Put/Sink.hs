-- |
-- Module      : Heddle.Bytes.Put.Sink
-- Description : Builders from actions that write into memory
-- Stability   : stable
--
-- "Heddle.Bytes.Put" joins bounded primitives. An encoder whose pieces have no useful bound, such as escaped strings,
-- writes into the sink itself: it gets the address of the next byte, compares it with 'sinkEnd', asks for room with
-- 'sinkMore', and returns the address where it ended.
--
-- Invariant: an action writes no byte before the address that it gets, and none at or after 'sinkEnd'; the address
-- that it returns is within that range. Nothing checks this.
-- Cost: two memory accesses for 'sinkEnd'; 'sinkMore' is rare and does what the way of running the 'Put' needs.
-- Owner: the thread that runs the 'Put'; the sink is valid only during the run.
module Heddle.Bytes.Put.Sink
  ( -- * Builders from actions
    Put,
    runningPut,
    runPut,

    -- * Room
    Sink,
    sinkEnd,
    sinkMore,

    -- * Settings of an encoder
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
