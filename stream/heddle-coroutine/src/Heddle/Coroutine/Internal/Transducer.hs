{-# LANGUAGE RankNTypes #-}

-- |
-- Module      : Heddle.Coroutine.Internal.Transducer
-- Description : Transducers, and pipelines of any length
-- Stability   : internal
--
-- Listings 12 to 14.
--
-- Cost: two suspensions for each value and stage.
-- Owner: the thread that runs the pipeline.
module Heddle.Coroutine.Internal.Transducer
  ( -- * Transducers
    Transducer,
    awaitT,
    yieldT,
    lift121,
    liftStateless,
    liftStateful,
    andThen,

    -- * Pipelines
    (=>=),
    pipeBy,
    pipe3,

    -- * Casts
    fromGenerator,
    fromIteratee,
    toGenerator,
    toIteratee,
    toTrampoline,

    -- * Splitters and joins
    Splitter,
    yieldLeft,
    yieldRight,
    edgeLeft,
    edgeRight,
    Join,
    awaitLeft,
    awaitRight,
  )
where

import Data.Functor.Identity (Identity (..))
import Data.Void (absurd)
import Heddle.Coroutine.Internal.Binder
import Heddle.Coroutine.Internal.Functors
import Heddle.Coroutine.Internal.Plain
import Heddle.Coroutine.Internal.Types

-- | A coroutine that awaits values from upstream and yields others downstream.
type Transducer a b = Coroutine (EitherFunctor ((->) (Maybe a)) ((,) b))

-- | The next value from upstream; 'Nothing' at the end. For transducers and splitters.
awaitT :: Monad m => Coroutine (EitherFunctor ((->) (Maybe a)) f) m (Maybe a)
awaitT = Coroutine (pure . Suspended . LeftF)
{-# INLINE awaitT #-}

-- | Pass a value downstream. For transducers and joins.
yieldT :: Monad m => b -> Coroutine (EitherFunctor f ((,) b)) m ()
yieldT b = Coroutine (\k -> pure (Suspended (RightF (b, k ()))))
{-# INLINE yieldT #-}

-- | Go on with the next value, if there is one. A loop that used 'mapM_' instead would return
-- through all its rounds.
andThen :: Monad m => m (Maybe a) -> (a -> m ()) -> m ()
andThen awaiting f = awaiting >>= maybe (pure ()) f
{-# INLINE andThen #-}

-- | Yield one value for each.
lift121 :: Monad m => (a -> b) -> Transducer a b m ()
lift121 f = go
  where
    go = awaitT `andThen` \a -> yieldT (f a) >> go

-- | Yield any number of values for each. It ends with its input; the printed one does not.
liftStateless :: Monad m => (a -> [b]) -> Transducer a b m ()
liftStateless f = go
  where
    go = awaitT `andThen` \a -> mapM_ yieldT (f a) >> go

-- | As 'liftStateless', with a state, and values that are yielded at the end.
liftStateful :: Monad m => (s -> a -> (s, [b])) -> (s -> [b]) -> s -> Transducer a b m ()
liftStateful f end = go
  where
    go s =
      awaitT >>= \case
        Nothing -> mapM_ yieldT (end s)
        Just a -> case f s a of
          (s', bs) -> mapM_ yieldT bs >> go s'

infixl 1 =>=

-- | The second transducer awaits what the first one yields (Listing 12). The producer is a step
-- ahead of the consumer; when the consumer has ended, the producer still runs to its end.
--
-- [Cost]: the same for each value and stage, however long the pipeline is.
(=>=) :: Monad m => Transducer a b m x -> Transducer b c m y -> Transducer a c m (x, y)
(=>=) = pipeBy sequentially
{-# INLINE (=>=) #-}

-- | As '=>=', with a binder for each pair of steps.
pipeBy :: Monad m => Binder m -> Transducer a b m x -> Transducer b c m y -> Transducer a c m (x, y)
pipeBy binder t1 t2 = fromStep (go (begin t1) (begin t2))
  where
    go = bindM2 binder proceed
    proceed (Suspended (LeftF s)) c = pure (Suspended (LeftF (\a -> go (s a) (pure c))))
    proceed c (Suspended (RightF (b, n))) = pure (Suspended (RightF (b, go (pure c) n)))
    proceed (Suspended (RightF (b, n))) (Suspended (LeftF f)) = go n (f (Just b))
    proceed (Suspended (RightF (_, n))) y@(Done _) = go n (pure y)
    proceed x@(Done _) (Suspended (LeftF f)) = go (pure x) (f Nothing)
    proceed (Done x) (Done y) = pure (Done (x, y))

-- | As 'pipe2', with a transducer between the two.
pipe3 :: Monad m => Generator a m x -> Transducer a b m y -> Iteratee (Maybe b) m z -> m (x, y, z)
pipe3 g t i = (\((x, y), z) -> (x, y, z)) <$> pipe2 (toGenerator (fromGenerator g =>= t)) i

-- Casts ----------------------------------------------------------------------

-- | A generator awaits nothing, so its transducer may have any input type; in print that is
-- 'Naught' (Listing 13).
fromGenerator :: Monad m => Generator b m r -> Transducer a b m r
fromGenerator = mapSuspension RightF

-- | An iteratee yields nothing, so its transducer may have any output type; in print that is
-- 'Naught' (Listing 13).
fromIteratee :: Monad m => Iteratee (Maybe a) m r -> Transducer a b m r
fromIteratee = mapSuspension LeftF

-- | A transducer without input as a generator (Listing 13). If it awaits, it gets the end of its
-- input; the printed one crashes there.
toGenerator :: Monad m => Transducer Naught a m r -> Generator a m r
toGenerator t = fromStep (go (begin t))
  where
    go m =
      m >>= \case
        Done r -> pure (Done r)
        Suspended (LeftF f) -> go (f Nothing)
        Suspended (RightF (a, n)) -> pure (Suspended (a, go n))

-- | A transducer without output as an iteratee (Listing 13).
toIteratee :: Monad m => Transducer a Naught m r -> Iteratee (Maybe a) m r
toIteratee = mapSuspension (\case LeftF f -> f; RightF (a, _) -> absurd a)

-- | A transducer without input or output as a trampoline (Listing 13). If it awaits, it pauses,
-- and gets the end of its input.
toTrampoline :: Monad m => Transducer Naught Naught m r -> Trampoline m r
toTrampoline = mapSuspension (\case LeftF f -> Identity (f Nothing); RightF (a, _) -> absurd a)

-- Splitters and joins --------------------------------------------------------

-- | A coroutine that awaits values and yields each on the left or on the right (Listing 14). A
-- section is a run of values that it yields on one side without an edge. An edge ends the open
-- section and begins another, which may stay empty. In print there are no edges, so adjacent
-- sections are one, and none is empty.
--
-- Functions that combine splitters expect them to yield all that they await, unmodified and in
-- order.
type Splitter a = Coroutine (EitherFunctor ((->) (Maybe a)) (EitherFunctor (Part a) (Part a)))

-- | Pass a value to the left.
yieldLeft :: Monad m => a -> Splitter a m ()
yieldLeft a = Coroutine (\k -> pure (Suspended (RightF (LeftF (Item a (k ()))))))
{-# INLINE yieldLeft #-}

-- | Pass a value to the right.
yieldRight :: Monad m => a -> Splitter a m ()
yieldRight a = Coroutine (\k -> pure (Suspended (RightF (RightF (Item a (k ()))))))
{-# INLINE yieldRight #-}

-- | A new section begins on the left, even if nothing follows.
edgeLeft :: Monad m => Splitter a m ()
edgeLeft = Coroutine (\k -> pure (Suspended (RightF (LeftF (Edge (k ()))))))
{-# INLINE edgeLeft #-}

-- | A new section begins on the right, even if nothing follows.
edgeRight :: Monad m => Splitter a m ()
edgeRight = Coroutine (\k -> pure (Suspended (RightF (RightF (Edge (k ()))))))
{-# INLINE edgeRight #-}

-- | A coroutine that awaits values from the left or from the right, and yields values
-- (Listing 14).
type Join a = Coroutine (EitherFunctor (EitherFunctor ((->) (Maybe a)) ((->) (Maybe a))) ((,) a))

-- | The next value from the left; 'Nothing' at the end.
awaitLeft :: Monad m => Join a m (Maybe a)
awaitLeft = Coroutine (pure . Suspended . LeftF . LeftF)

-- | The next value from the right; 'Nothing' at the end.
awaitRight :: Monad m => Join a m (Maybe a)
awaitRight = Coroutine (pure . Suspended . LeftF . RightF)
