{-# LANGUAGE RankNTypes #-}

-- |
-- Module      : Heddle.Coroutine.Internal.Types
-- Description : Coroutines over any suspension functor
-- Stability   : internal
--
-- A coroutine is a function of its continuation, so a bind is a function call however binds nest.
-- Code that runs a coroutine inspects the concrete 'Step'.
--
-- Cost: a bind, a lift and a suspension allocate a closure or two each.
-- Owner: values. A continuation may be resumed as often as the base monad allows.
module Heddle.Coroutine.Internal.Types
  ( Coroutine (..),
    Step (..),
    begin,
    fromStep,
    coroutine,
    resume,
    suspend,
    mapSuspension,
  )
where

import Control.Monad.IO.Class (MonadIO (..))
import Control.Monad.Trans.Class (MonadTrans (..))

-- | A computation in the monad @m@ that can suspend itself: it then returns its continuation,
-- wrapped in the functor @s@ (Listing 9).
newtype Coroutine s m r = Coroutine (forall b. (r -> m (Step s m b)) -> m (Step s m b))

-- | The end of a coroutine's step.
data Step s m r
  = -- | The coroutine has ended with this result.
    Done r
  | -- | It has suspended itself; the suspension contains its continuation.
    Suspended (s (m (Step s m r)))

instance Functor (Coroutine s m) where
  fmap f (Coroutine c) = Coroutine (\k -> c (k . f))
  {-# INLINE fmap #-}

instance Applicative (Coroutine s m) where
  pure a = Coroutine (\k -> k a)
  {-# INLINE pure #-}
  Coroutine cf <*> Coroutine ca = Coroutine (\k -> cf (\f -> ca (k . f)))
  {-# INLINE (<*>) #-}
  Coroutine ca *> Coroutine cb = Coroutine (\k -> ca (\_ -> cb k))
  {-# INLINE (*>) #-}

instance Monad (Coroutine s m) where
  Coroutine c >>= f = Coroutine (\k -> c (\a -> case f a of Coroutine d -> d k))
  {-# INLINE (>>=) #-}

instance MonadTrans (Coroutine s) where
  lift m = Coroutine (m >>=)
  {-# INLINE lift #-}

instance MonadIO m => MonadIO (Coroutine s m) where
  liftIO io = Coroutine (liftIO io >>=)
  {-# INLINE liftIO #-}

-- | Run a coroutine up to its first suspension, or its end.
--
-- [Cost]: that of the coroutine's code.
-- [Throws]: what the base monad throws.
--
-- @since 0.1.0
begin :: Monad m => Coroutine s m r -> m (Step s m r)
begin (Coroutine c) = c (pure . Done)
{-# INLINE begin #-}

-- | A coroutine from its steps: the inverse of 'begin'.
--
-- [Cost]: an 'fmap' at each suspension; a bind after it adds to the cost of every later one.
--
-- @since 0.1.0
fromStep :: (Functor s, Monad m) => m (Step s m r) -> Coroutine s m r
fromStep m =
  Coroutine $ \k ->
    let go n =
          n >>= \case
            Done r -> k r
            Suspended s -> pure (Suspended (fmap go s))
     in go m

-- | Run a coroutine until it ends or suspends itself (Listing 9).
--
-- [Cost]: alternately resuming and binding adds up: each later suspension passes through each
-- bind. Functions that run a whole coroutine do not have that cost.
resume :: (Functor s, Monad m) => Coroutine s m r -> m (Either (s (Coroutine s m r)) r)
resume c =
  begin c >>= \case
    Done r -> pure (Right r)
    Suspended s -> pure (Left (fmap fromStep s))

-- | The inverse of 'resume': the article's constructor.
coroutine :: (Functor s, Monad m) => m (Either (s (Coroutine s m r)) r) -> Coroutine s m r
coroutine m = Coroutine (\(k :: r -> m (Step s m b)) -> m >>= either (pure . Suspended . fmap (\(Coroutine c) -> c k)) k)

-- | Suspend, and go on with one of the functor's coroutines (Listing 9).
suspend :: (Functor s, Monad m) => s (Coroutine s m r) -> Coroutine s m r
suspend s = Coroutine (\k -> pure (Suspended (fmap (\(Coroutine c) -> c k) s)))
{-# INLINE suspend #-}

-- | Wrap continuations in another functor ("Relating the suspension types").
--
-- [Cost]: an 'fmap' at each suspension.
mapSuspension :: (Functor s, Functor t, Monad m) => (forall x. s x -> t x) -> Coroutine s m r -> Coroutine t m r
mapSuspension f c = fromStep (go (begin c))
  where
    go m =
      m >>= \case
        Done r -> pure (Done r)
        Suspended s -> pure (Suspended (f (fmap go s)))
