{-# LANGUAGE DeriveFunctor #-}

-- |
-- Module      : Heddle.Coroutine.Internal.Functors
-- Description : Suspension functors
-- Stability   : internal
--
-- The functors of "Other possible suspension types"; their composition is
-- 'Data.Functor.Compose.Compose'.
--
-- Cost: a constructor.
-- Owner: values.
module Heddle.Coroutine.Internal.Functors
  ( Request (..),
    EitherFunctor (..),
    InOrOut,
    Part (..),
    Naught,
  )
where

import Data.Void (Void)

-- | A request, and a function of the response.
data Request request response x = Request request (response -> x)

instance Functor (Request request response) where
  fmap f (Request a g) = Request a (f . g)

-- | The sum of two functors.
data EitherFunctor l r x = LeftF (l x) | RightF (r x)

instance (Functor l, Functor r) => Functor (EitherFunctor l r) where
  fmap f = \case
    LeftF l -> LeftF (fmap f l)
    RightF r -> RightF (fmap f r)

-- | Passes a value out or takes one in, but not both at once.
type InOrOut a b = EitherFunctor ((,) a) ((->) b)

-- | What a splitter yields on one of its sides.
data Part a x
  = -- | An item.
    Item a x
  | -- | The beginning of a section, which may stay empty.
    Edge x
  deriving stock (Functor)

-- | The article's name for 'Void': the type of values that are never awaited or never yielded.
type Naught = Void
