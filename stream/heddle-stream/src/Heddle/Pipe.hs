-- |
-- Module      : Heddle.Pipe
-- Description : Pipelines in IO, at two calls a hop
-- Stability   : stable
--
-- A pipe awaits values, yields others, does 'IO' and has a result. Pipes are composed with
-- '.|' and run on one thread: control passes between neighbours by calls, however many there
-- are and however they nest. What a pipe opens with 'bracketP' is released as soon as no
-- stage can need it any more.
--
-- Most names are the Prelude's, so:
--
-- > import Heddle.Pipe (Pipe, await, yield, (.|))
-- > import Heddle.Pipe qualified as Pipe
-- >
-- > -- | How many lines of a file are longer than this?
-- > long :: FilePath -> Int -> IO Int
-- > long path n =
-- >   Pipe.runPipe $
-- >     Pipe.fromFile path .| Pipe.lines .| Pipe.filter ((> n) . B.length) .| Pipe.fold (\c _ -> c + 1) 0
--
-- Order: the last stage runs first. Each stage runs when it is asked for a value, until it
-- yields one. Only those that are 'buffered' run ahead. A pipe may be run many times; running
-- it does not keep it alive.
--
-- Failure: an exception in a stage ends the run, unless the stage is inside 'tryP'. Everything
-- that is open is released, last opened first, before the run throws.
--
-- Cost: a hop is two calls and 64 to 100 bytes; binds and compositions cost the same however
-- they nest.
-- Owner: the thread that runs it.
module Heddle.Pipe
  ( -- * Pipes
    Pipe,
    Void,
    await,
    yield,
    (.|),
    (=>=),

    -- * Running
    runPipe,
    runInto,
    runList,

    -- * Releasing
    bracketP,
    finallyP,

    -- * Failing
    tryP,
    catchP,
    named,
    StageFailed (..),
    PipeException (..),

    -- * On several threads

    -- | "Heddle.Pipe.Queue" is the queue between two threads.
    buffered,
    (.||),
    mapInParallel,

    -- * Sources
    each,
    unfold,
    zipWith,
    withSource,

    -- * Stages
    map,
    mapM,
    filter,
    concatMap,
    take,
    drop,
    takeWhile,
    dropWhile,
    scan,
    postscan,
    mapAccum,
    chunksOf,

    -- * Sinks
    fold,
    foldM,
    forEach,
    toList,
    drain,

    -- * Bytes
    fromFile,
    toFile,
    fromHandle,
    toHandle,
    receiving,
    sending,
    lines,
    linesUpTo,
    unlines,
    ItemTooLong (..),

    -- * From and to other tiers

    -- | @Heddle.Filter.stagePipe@, of heddle-filter, makes a pipe of a stage of a byte stream.
    fromFlow,
    fromTransducer,
    withTransducer,
    toTransducer,
  )
where

import Data.Void (Void)
import Heddle.Pipe.Internal.Bytes
import Heddle.Pipe.Internal.Exception
import Heddle.Pipe.Internal.Flows
import Heddle.Pipe.Internal.Guard
import Heddle.Pipe.Internal.Items
import Heddle.Pipe.Internal.Lift
import Heddle.Pipe.Internal.Threads
import Heddle.Pipe.Internal.Types
import Prelude ()
