-- |
-- Module      : Heddle.Coroutine
-- Description : Coroutines over any suspension functor
-- Stability   : stable
--
-- A coroutine is a computation in some monad that can suspend itself. A functor determines what it
-- passes out and what it asks for when it suspends: nothing ('Trampoline'), a value that it
-- yields ('Generator'), a value that it awaits ('Iteratee'), either ('Transducer'). The types
-- allow only coroutines that fit to be run together.
--
-- > double :: Monad m => Transducer Int Int m ()
-- > double = liftStateless (\a -> [a, a])
-- >
-- > main :: IO ()
-- > main = runGenerator (toGenerator (fromGenerator (mapM_ yield [1 .. 3]) =>= double)) >>= print
-- > -- ([1,1,2,2,3,3],((),()))
--
-- The base monad is arbitrary, and a continuation may be resumed more than once. Names and the
-- order of steps are those of "Coroutine Pipelines" (The Monad.Reader 19).
--
-- Cost: a bind is a function call, however binds nest; a suspension costs a few closures.
-- Owner: values; only what the base monad shares is shared.
module Heddle.Coroutine
  ( -- * Coroutines
    Coroutine,
    coroutine,
    resume,
    suspend,
    mapSuspension,

    -- * Suspensions
    Request (..),
    EitherFunctor (..),
    InOrOut,
    Compose (..),
    Part (..),
    Naught,

    -- * Trampolines
    Trampoline,
    pause,
    bounce,
    run,
    mzipWith,
    interleave,

    -- * Generators
    Generator,
    yield,
    runGenerator,

    -- * Iteratees
    Iteratee,
    await,
    runIteratee,

    -- * Requests
    request,
    runRequests,

    -- * Choices
    choose,
    runChoices,

    -- * Pairs
    pipe1,
    pipe2,
    pipe3,

    -- * Transducers
    Transducer,
    awaitT,
    yieldT,
    lift121,
    liftStateless,
    liftStateful,

    -- ** Pipelines
    (=>=),
    fromGenerator,
    fromIteratee,
    toGenerator,
    toIteratee,
    toTrampoline,

    -- * Splitters and joins

    -- | Ready-made ones, and what combines them, are in "Heddle.Coroutine.Components".
    Splitter,
    yieldLeft,
    yieldRight,
    edgeLeft,
    edgeRight,
    Join,
    awaitLeft,
    awaitRight,

    -- * Exceptions
    CoroutineException (..),

    -- * Parallel steps
    Binder (..),
    sequentially,
    inParallel,
    mzipWithBy,
    interleaveBy,
    pipe1By,
    pipe2By,
    pipeBy,
  )
where

import Data.Functor.Compose (Compose (..))
import Heddle.Coroutine.Internal.Binder
import Heddle.Coroutine.Internal.Functors
import Heddle.Coroutine.Internal.Plain
import Heddle.Coroutine.Internal.Transducer
import Heddle.Coroutine.Internal.Types
