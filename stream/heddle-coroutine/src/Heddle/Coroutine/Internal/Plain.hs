{-# LANGUAGE RankNTypes #-}

-- |
-- Module      : Heddle.Coroutine.Internal.Plain
-- Description : Trampolines, generators, iteratees, and pairs of them
-- Stability   : internal
--
-- Listings 6 to 11.
--
-- Cost: as said at each; a few closures for each suspension.
-- Owner: whoever runs it.
module Heddle.Coroutine.Internal.Plain
  ( -- * Trampolines
    Trampoline,
    pause,
    bounce,
    run,
    mzipWith,
    mzipWithBy,
    interleave,
    interleaveBy,

    -- * Generators
    Generator,
    yield,
    runGenerator,

    -- * Iteratees
    Iteratee,
    await,
    runIteratee,
    NothingToFeed (..),

    -- * Requests
    request,
    runRequests,

    -- * Choices
    choose,
    runChoices,

    -- * Pairs
    pipe1,
    pipe1By,
    pipe2,
    pipe2By,
    ProducerEnded (..),
  )
where

import Data.Functor.Identity (Identity (..))
import Heddle.Coroutine.Internal.Binder
import Heddle.Coroutine.Internal.Functors
import Heddle.Coroutine.Internal.Types
import Heddle.Prim.Exception (Exception (..), throw)

-- Trampolines ----------------------------------------------------------------

-- | A computation that can pause (Listings 6 and 10).
type Trampoline = Coroutine Identity

-- | Pause, once.
pause :: Monad m => Trampoline m ()
pause = Coroutine (\k -> pure (Suspended (Identity (k ()))))
{-# INLINE pause #-}

-- | Up to the next pause (Listing 6): 'resume' without the wrapping.
bounce :: Monad m => Trampoline m r -> m (Either (Trampoline m r) r)
bounce t = either (Left . runIdentity) Right <$> resume t

-- | Without pauses.
run :: Monad m => Trampoline m r -> m r
run t = go (begin t)
  where
    go m =
      m >>= \case
        Done r -> pure r
        Suspended (Identity n) -> go n

-- | Two trampolines, bounce by bounce, as one.
mzipWith :: Monad m => (a -> b -> c) -> Trampoline m a -> Trampoline m b -> Trampoline m c
mzipWith = mzipWithBy sequentially

-- | The same; how the bounces of a pair are bound is up to you.
mzipWithBy :: Monad m => Binder m -> (a -> b -> c) -> Trampoline m a -> Trampoline m b -> Trampoline m c
mzipWithBy binder f t1 t2 = fromStep (go (begin t1) (begin t2))
  where
    go = bindM2 binder (\a b -> pure (both a b))
    both (Suspended (Identity a)) (Suspended (Identity b)) = Suspended (Identity (go a b))
    both (Suspended (Identity a)) b@(Done _) = Suspended (Identity (go a (pure b)))
    both a@(Done _) (Suspended (Identity b)) = Suspended (Identity (go (pure a) b))
    both (Done a) (Done b) = Done (f a b)

-- | All at once: a bounce of each, then the next of each. Who has ended waits.
--
-- [Cost]: O(trampolines) a round.
interleave :: Monad m => [Trampoline m r] -> Trampoline m [r]
interleave = interleaveBy sequentially

-- | The same, with 'inParallel' on all cores.
interleaveBy :: Monad m => Binder m -> [Trampoline m r] -> Trampoline m [r]
interleaveBy binder = foldr (mzipWithBy binder (:)) (pure [])

-- Generators -----------------------------------------------------------------

-- | A computation that can yield values (Listings 7 and 10).
type Generator a = Coroutine ((,) a)

-- | Yield a value.
yield :: Monad m => a -> Generator a m ()
yield a = Coroutine (\k -> pure (Suspended (a, k ())))
{-# INLINE yield #-}

-- | All that it yields, and its result.
--
-- [Cost]: the list is there when the generator has ended, not before.
runGenerator :: Monad m => Generator a m r -> m ([a], r)
runGenerator g = go [] (begin g)
  where
    go as m =
      m >>= \case
        Done r -> pure (reverse as, r)
        Suspended (a, n) -> go (a : as) n

-- Iteratees ------------------------------------------------------------------

-- | A computation that can await values (Listings 8 and 10).
type Iteratee a = Coroutine ((->) a)

-- | The next value.
await :: Monad m => Iteratee a m a
await = Coroutine (pure . Suspended)
{-# INLINE await #-}

-- | Feed it values. One that awaits more goes on, and fails where it looks at them.
--
-- [Throws]: 'NothingToFeed', when such a value is evaluated.
runIteratee :: Monad m => [a] -> Iteratee a m r -> m r
runIteratee values i = go values (begin i)
  where
    go as m =
      m >>= \case
        Done r -> pure r
        Suspended f -> case as of
          a : rest -> go rest (f a)
          [] -> go [] (f (throw NothingToFeed))

-- | An iteratee awaited more values than there were.
data NothingToFeed = NothingToFeed
  deriving stock (Eq, Show)

instance Exception NothingToFeed where
  displayException NothingToFeed = "No more values to feed."

-- Requests -------------------------------------------------------------------

-- | Ask whoever runs this.
request :: Monad m => a -> Coroutine (Request a b) m b
request a = Coroutine (pure . Suspended . Request a)
{-# INLINE request #-}

-- | Answer every request.
runRequests :: Monad m => (a -> m b) -> Coroutine (Request a b) m r -> m r
runRequests answer c = go (begin c)
  where
    go m =
      m >>= \case
        Done r -> pure r
        Suspended (Request a f) -> answer a >>= go . f

-- Choices --------------------------------------------------------------------

-- | Go on with each of these: a suspension can be a list.
choose :: Monad m => [a] -> Coroutine [] m a
choose as = suspend (map pure as)

-- | What every choice comes to, from left to right.
runChoices :: Monad m => Coroutine [] m r -> m [r]
runChoices c = go (begin c)
  where
    go m =
      m >>= \case
        Done r -> pure [r]
        Suspended ns -> concat <$> mapM go ns

-- Pairs ----------------------------------------------------------------------

-- | What one yields, the other awaits (Listing 11). A step of the producer comes before
-- each step of the consumer; when the consumer has ended, the producer still runs to its
-- end.
--
-- [Throws]: 'ProducerEnded'.
pipe1 :: Monad m => Generator a m x -> Iteratee a m y -> m (x, y)
pipe1 = pipe1By sequentially

-- | The same; how a step of each is bound is up to you.
pipe1By :: Monad m => Binder m -> Generator a m x -> Iteratee a m y -> m (x, y)
pipe1By binder g i = go (begin g) (begin i)
  where
    go = bindM2 binder proceed
    proceed (Suspended (a, c)) (Suspended f) = go c (f a)
    proceed (Suspended (_, c)) y@(Done _) = go c (pure y)
    proceed (Done _) (Suspended _) = throw ProducerEnded
    proceed (Done x) (Done y) = pure (x, y)

-- | The consumer awaited more than the producer had.
data ProducerEnded = ProducerEnded
  deriving stock (Eq, Show)

instance Exception ProducerEnded where
  displayException ProducerEnded = "The producer ended too soon."

-- | The same; when the producer has ended, the consumer awaits 'Nothing' (Listing 11).
pipe2 :: Monad m => Generator a m x -> Iteratee (Maybe a) m y -> m (x, y)
pipe2 = pipe2By sequentially

-- | The same; how a step of each is bound is up to you.
pipe2By :: Monad m => Binder m -> Generator a m x -> Iteratee (Maybe a) m y -> m (x, y)
pipe2By binder g i = go (begin g) (begin i)
  where
    go = bindM2 binder proceed
    proceed (Suspended (a, c)) (Suspended f) = go c (f (Just a))
    proceed (Suspended (_, c)) y@(Done _) = go c (pure y)
    proceed x@(Done _) (Suspended f) = go (pure x) (f Nothing)
    proceed (Done x) (Done y) = pure (x, y)
