-- |
-- Module      : Heddle.Flow
-- Description : Streams that become one loop
-- Stability   : stable
--
-- A 'Source' pushes elements through 'Flow's into a 'Sink'. When all of them are visible to the
-- optimiser, GHC compiles them to one loop that allocates nothing, as if written by hand. This
-- needs @-O@ (better @-O2@), but neither rewrite rules nor a plugin.
--
-- > import Heddle.Flow (run, (|>))
-- > import Heddle.Flow qualified as Flow
-- >
-- > answer :: IO Int
-- > answer = Flow.range 1 1000000 |> Flow.map (* 3) |> Flow.filter even |> Flow.take 10 `run` Flow.sum
--
-- To be visible, a function that takes or returns sources, flows or sinks must be marked @INLINE@
-- if it is used in another module or at several places, and must not be recursive, since GHC
-- never inlines recursive functions. A flow that is composed at run time, such as a fold over a
-- list of flows, works too; it allocates about 80 bytes for each element and flow.
--
-- Elements and states are evaluated as they pass.
--
-- What a source opens is closed when the run ends: when it returns, when the sink has had
-- enough, when a stage throws, when the run is cancelled. Endless loops can be cancelled.
--
-- Cost: fused, nothing for each element; not fused, about 80 bytes for each element and flow.
-- Owner: values; what a run opens belongs to the run.
module Heddle.Flow
  ( -- * Streams
    Source,
    Flow,
    Sink,
    (>->),
    (|>),
    into,
    run,

    -- * Sources

    -- | Sources are also monoids (one after the other), functors and monads (loops in loops,
    -- as with lists).
    range,
    countFrom,
    fromList,
    unfold,
    unfoldM,
    iterate,
    repeatM,
    receiving,
    receivingLines,
    bracketed,
    handleChunks,
    handleLines,
    fileChunks,
    fileLines,

    -- * Flows

    -- | Flows are also functors and a category.
    map,
    mapM,
    filter,
    mapMaybe,
    concatMap,
    take,
    takeWhile,
    drop,
    dropWhile,
    mapAccum,
    mapAccumMaybe,
    scan,
    postscan,
    stateful,
    number,
    zipUnfold,
    distinct,
    runs,
    lines,

    -- * Sinks

    -- | Sinks are also functors and applicatives: side by side over one stream.
    fold,
    foldM,
    foldMap,
    sum,
    product,
    length,
    minimum,
    maximum,
    head,
    last,
    find,
    any,
    all,
    toList,
    drain,
    mapM_,
    both,
    toHandle,
    toFile,
  )
where

import Heddle.Flow.Internal.Fold
import Heddle.Flow.Internal.Source
import Heddle.Flow.Internal.Stage
import Heddle.Flow.Internal.Types
import Prelude ()
