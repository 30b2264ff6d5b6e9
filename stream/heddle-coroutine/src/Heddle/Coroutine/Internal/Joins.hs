{-# LANGUAGE RankNTypes #-}

-- |
-- Module      : Heddle.Coroutine.Internal.Joins
-- Description : Two streams into one
-- Stability   : internal
--
-- The second half of "Parting and joining the stream".
--
-- Cost: as said at each; a few closures for each item.
-- Owner: whoever runs it.
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

-- | What has become of a side of a join.
data Outcome r
  = -- | It has ended, with this.
    Returned r
  | -- | The join ended first, and the rest of the side was dropped.
    Stopped
  deriving stock (Eq, Ord, Show)

-- | Two transducers are given the same stream, and the join what they yield. All ends with
-- the join. A side goes on when the join awaits it, and only then; the next item is awaited
-- when that side awaits it. So one side may be endless, or far ahead: in print the result
-- has both sides' results and no 'Outcome', which an endless side cannot have.
--
-- [Cost]: items that one side has had, and the other one has not, are held back: with
-- 'append', the whole stream. So are all items for a side that never awaits, such as a
-- generator: where there is one, put what yields the stream into the other side.
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

-- | A transducer, and what the other one was given and this one was not.
data Side a b m x = Side
  { inbox :: !(Queue a),
    rest :: !(Either x (m (Step (EitherFunctor ((->) (Maybe a)) ((,) b)) m x)))
  }

outcome :: Side a b m x -> Outcome x
outcome = either Returned (const Stopped) . rest

-- | The value asked for, whether the stream has ended, this side and the other one.
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

-- | One that has ended misses nothing.
missed :: Side a b m x -> a -> Side a b m x
missed side a = case rest side of
  Left _ -> side
  Right _ -> side {inbox = push (inbox side) a}

-- | Left is right.
--
-- Law: @flipJoin (flipJoin j)@ is @j@.
flipJoin :: Monad m => Join a m x -> Join a m x
flipJoin = mapSuspension $ \case
  LeftF (LeftF f) -> LeftF (RightF f)
  LeftF (RightF f) -> LeftF (LeftF f)
  RightF out -> RightF out

-- | All from the left, then all from the right.
append :: Monad m => Join a m ()
append = through awaitLeft >> through awaitRight

-- | One from the left, one from the right, and so on; when one side has ended, all that
-- the other one has.
interleave :: Monad m => Join a m ()
interleave = leftNext
  where
    leftNext = awaitLeft >>= maybe (through awaitRight) (\a -> yieldT a >> rightNext)
    rightNext = awaitRight >>= maybe (through awaitLeft) (\a -> yieldT a >> leftNext)

through :: Monad m => Join a m (Maybe a) -> Join a m ()
through side = go
  where
    go = side `andThen` \a -> yieldT a >> go

-- | One from the left and one from the right make one. It ends as soon as a side has ended;
-- an item from the left may be lost then.
combine :: Monad m => (a -> a -> a) -> Join a m ()
combine f = go
  where
    go = awaitLeft `andThen` \a -> awaitRight `andThen` \b -> yieldT (f a b) >> go

-- | The same with '<>'.
zipMonoids :: (Monad m, Monoid a) => Join a m ()
zipMonoids = combine (<>)
