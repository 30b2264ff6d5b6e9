-- |
-- Module      : Heddle.Coroutine.Step
-- Description : Coroutines run step by step
-- Stability   : stable
--
-- What a function needs that runs a coroutine to its end in a way of its own, such as a
-- bridge to another type of streams. It looks at each 'Step' in turn, and is linear in them.
-- A loop of 'Heddle.Coroutine.resume' is not: it makes a coroutine of every rest, and each
-- of those adds to the cost of all later suspensions.
--
-- > -- | Do this with every value that a generator yields.
-- > forEach :: Monad m => Generator a m r -> (a -> m ()) -> m r
-- > forEach generator act = go (begin generator)
-- >   where
-- >     go step =
-- >       step >>= \case
-- >         Done r -> pure r
-- >         Suspended (a, rest) -> act a >> go rest
--
-- Cost: a step is the constructor that the coroutine makes in any case.
-- Owner: values. A rest may be run more than once, as far as the base monad goes along.
module Heddle.Coroutine.Step
  ( Step (..),
    begin,
    fromStep,
  )
where

import Heddle.Coroutine.Internal.Types
