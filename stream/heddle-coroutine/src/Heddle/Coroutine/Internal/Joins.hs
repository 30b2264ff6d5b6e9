{-# LANGUAGE RankNTypes #-}

-- |
-- Module      : Heddle.Coroutine.Internal.Joins
-- Description : Joins of two streams
-- Stability   : internal
--
-- The second half of "Parting and joining the stream".
--
-- Cost: a few closures for each item; see each function.
-- Owner: the thread that runs the pipeline.
module Heddle.Coroutine.Internal.Joins
  ( -- * Joining
    joinTransduced,
    Outcome (..),
    flipJoin,

    -- * Joins
    append,
    interleave,
    combine,
    zipMonoids,
  )
where

import Control.Monad.Trans.Class (lift)
import Heddle.Coroutine.Internal.Functors
import Heddle.Coroutine.Internal.Queue (Queue, empty, pop, push)
import Heddle.Coroutine.Internal.Transducer
import Heddle.Coroutine.Internal.Types

-- | How a side of a join ended.
data Outcome r
  = -- | With this result.
    Returned r
  | -- | The join ended first, and the side was dropped.
    Stopped
  deriving stock (Eq, Ord, Show)

-- | Two transducers get the same stream, and a join gets what they yield. The whole ends with the
-- join. A side runs only when the join awaits from it, and the next item is awaited when that
-- side awaits it. So one side may be endless, or far ahead. In print the result has both sides'
-- results instead of an 'Outcome'; an endless side has no result.
--
-- [Cost]: items that one side has awaited and the other has not are held back; with 'append',
-- that is the whole stream. A side that never awaits, such as a generator, also holds back the
-- whole stream: put the source of the stream into the other side instead.
joinTransduced :: forall a b m x y z. Monad m => Transducer a b m x -> Transducer a b m y -> Join b m z -> Transducer a b m (Outcome x, Outcome y, z)
joinTransduced t1 t2 j = go False (Side empty (Right (begin t1))) (Side empty (Right (begin t2))) (begin j)
  where
    go :: Bool -> Side a b m x -> Side a b m y -> m (Step (EitherFunctor (EitherFunctor ((->) (Maybe b)) ((->) (Maybe b))) ((,) b)) m z) -> Transducer a b m (Outcome x, Outcome y, z)
    go ended l r m =
      lift m >>= \case
        Done z -> pure (outcome l, outcome r, z)
        Suspended (RightF (b, n)) -> yieldT b >> go ended l r n
        Suspended (LeftF (LeftF f)) -> do
          Asked b ended' l' r' <- ask ended l r
          go ended' l' r' (f b)
        Suspended (LeftF (RightF f)) -> do
          Asked b ended' r' l' <- ask ended r l
          go ended' l' r' (f b)

-- | A transducer, and the items that the other one has awaited and this one has not.
data Side a b m x = Side
  { inbox :: !(Queue a),
    rest :: !(Either x (m (Step (EitherFunctor ((->) (Maybe a)) ((,) b)) m x)))
  }

outcome :: Side a b m x -> Outcome x
outcome = either Returned (const Stopped) . rest

-- | The value that a side has yielded, whether the stream has ended, this side and the other.
data Asked a b m x y = Asked !(Maybe b) !Bool !(Side a b m x) !(Side a b m y)

ask :: Monad m => Bool -> Side a b m x -> Side a b m y -> Transducer a b m (Asked a b m x y)
ask ended this other = case rest this of
  Left _ -> pure (Asked Nothing ended this other)
  Right m ->
    lift m >>= \case
      Done x -> pure (Asked Nothing ended (Side empty (Left x)) other)
      Suspended (RightF (b, n)) -> pure (Asked (Just b) ended this {rest = Right n} other)
      Suspended (LeftF f) -> case pop (inbox this) of
        Just (a, q) -> ask ended (Side q (Right (f (Just a)))) other
        Nothing
          | ended -> ask ended this {rest = Right (f Nothing)} other
          | otherwise ->
            awaitT >>= \case
              Nothing -> ask True this {rest = Right (f Nothing)} other
              a@(Just it) -> ask ended this {rest = Right (f a)} (other `missed` it)

-- | Keep an item for a side, unless the side has ended.
missed :: Side a b m x -> a -> Side a b m x
missed side a = case rest side of
  Left _ -> side
  Right _ -> side {inbox = push (inbox side) a}

-- | Exchange left and right.
--
-- Law: @flipJoin (flipJoin j)@ is @j@.
flipJoin :: Monad m => Join a m x -> Join a m x
flipJoin = mapSuspension $ \case
  LeftF (LeftF f) -> LeftF (RightF f)
  LeftF (RightF f) -> LeftF (LeftF f)
  RightF out -> RightF out

-- | All items from the left, then all from the right.
append :: Monad m => Join a m ()
append = through awaitLeft >> through awaitRight

-- | Items from the left and from the right alternately; when one side has ended, the rest of the
-- other.
interleave :: Monad m => Join a m ()
interleave = leftNext
  where
    leftNext = awaitLeft >>= maybe (through awaitRight) (\a -> yieldT a >> rightNext)
    rightNext = awaitRight >>= maybe (through awaitLeft) (\a -> yieldT a >> leftNext)

through :: Monad m => Join a m (Maybe a) -> Join a m ()
through side = go
  where
    go = side `andThen` \a -> yieldT a >> go

-- | Combine an item from the left with one from the right. It ends as soon as one side has ended;
-- an item from the left may then be lost.
combine :: Monad m => (a -> a -> a) -> Join a m ()
combine f = go
  where
    go = awaitLeft `andThen` \a -> awaitRight `andThen` \b -> yieldT (f a b) >> go

-- | 'combine' with '<>'.
zipMonoids :: (Monad m, Monoid a) => Join a m ()
zipMonoids = combine (<>)
