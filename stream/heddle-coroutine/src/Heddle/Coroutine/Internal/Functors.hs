{-# LANGUAGE DeriveFunctor #-}

-- |
-- Module      : Heddle.Coroutine.Internal.Functors
-- Description : What a suspension can be
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

-- | A request, and what is done with the response.
data Request request response x = Request request (response -> x)

instance Functor (Request request response) where
  fmap f (Request a g) = Request a (f . g)

-- | The sum of two functors.
data EitherFunctor l r x = LeftF (l x) | RightF (r x)

instance (Functor l, Functor r) => Functor (EitherFunctor l r) where
  fmap f = \case
    LeftF l -> LeftF (fmap f l)
    RightF r -> RightF (fmap f r)

-- | To give a value or to get one, but not both at once.
type InOrOut a b = EitherFunctor ((,) a) ((->) b)

-- | What a splitter says on one of its sides.
data Part a x
  = -- | This item belongs here.
    Item a x
  | -- | A new section begins here, even if nothing follows.
    Edge x
  deriving stock (Functor)

-- | The article's name for 'Void', which has no value: what is neither awaited nor yielded.
type Naught = Void
