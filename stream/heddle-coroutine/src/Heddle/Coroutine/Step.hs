-- |
-- Module      : Heddle.Coroutine.Step
-- Description : Coroutines run step by step
-- Stability   : stable
--
-- For functions that run a coroutine to its end in a way of their own, such as a bridge to
-- another type of streams. They inspect each 'Step' in turn, and are linear in the steps. A loop
-- of 'Heddle.Coroutine.resume' is not: it turns each continuation into a coroutine, and each of
-- these adds to the cost of all later suspensions.
--
-- > -- | Run an action for each value that a generator yields.
-- > forEach :: Monad m => Generator a m r -> (a -> m ()) -> m r
-- > forEach generator act = go (begin generator)
-- >   where
-- >     go step =
-- >       step >>= \case
-- >         Done r -> pure r
-- >         Suspended (a, rest) -> act a >> go rest
--
-- Cost: a step is the constructor that the coroutine makes in any case.
-- Owner: values. A continuation may be run as often as the base monad allows.
module Heddle.Coroutine.Step
  ( Step (..),
    begin,
    fromStep,
  )
where

import Heddle.Coroutine.Internal.Types
