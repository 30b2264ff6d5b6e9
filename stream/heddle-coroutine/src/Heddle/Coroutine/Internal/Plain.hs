{-# LANGUAGE RankNTypes #-}

-- |
-- Module      : Heddle.Coroutine.Internal.Plain
-- Description : Trampolines, generators, iteratees, and pairs of them
-- Stability   : internal
--
-- Listings 6 to 11.
--
-- Cost: a few closures for each suspension, unless a function says otherwise.
-- Owner: the thread that runs the coroutine.
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

    -- * Exceptions
    CoroutineException (..),
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

-- | Run up to the next pause (Listing 6): 'resume' without the functor.
bounce :: Monad m => Trampoline m r -> m (Either (Trampoline m r) r)
bounce t = either (Left . runIdentity) Right <$> resume t

-- | Run to the end.
run :: Monad m => Trampoline m r -> m r
run t = go (begin t)
  where
    go m =
      m >>= \case
        Done r -> pure r
        Suspended (Identity n) -> go n

-- | Two trampolines as one, bounce by bounce.
mzipWith :: Monad m => (a -> b -> c) -> Trampoline m a -> Trampoline m b -> Trampoline m c
mzipWith = mzipWithBy sequentially

-- | As 'mzipWith', with a binder for each pair of bounces.
mzipWithBy :: Monad m => Binder m -> (a -> b -> c) -> Trampoline m a -> Trampoline m b -> Trampoline m c
mzipWithBy binder f t1 t2 = fromStep (go (begin t1) (begin t2))
  where
    go = bindM2 binder (\a b -> pure (both a b))
    both (Suspended (Identity a)) (Suspended (Identity b)) = Suspended (Identity (go a b))
    both (Suspended (Identity a)) b@(Done _) = Suspended (Identity (go a (pure b)))
    both a@(Done _) (Suspended (Identity b)) = Suspended (Identity (go (pure a) b))
    both (Done a) (Done b) = Done (f a b)

-- | All of them as one: a bounce of each, then the next of each.
--
-- [Cost]: O(trampolines) a round.
interleave :: Monad m => [Trampoline m r] -> Trampoline m [r]
interleave = interleaveBy sequentially

-- | As 'interleave', with a binder; 'inParallel' uses all cores.
interleaveBy :: Monad m => Binder m -> [Trampoline m r] -> Trampoline m [r]
interleaveBy binder = foldr (mzipWithBy binder (:)) (pure [])

-- Generators -----------------------------------------------------------------

-- | A computation that can yield values (Listings 7 and 10).
type Generator a = Coroutine ((,) a)

-- | Yield a value.
yield :: Monad m => a -> Generator a m ()
yield a = Coroutine (\k -> pure (Suspended (a, k ())))
{-# INLINE yield #-}

-- | The values that a generator yields, and its result.
--
-- [Cost]: the list is built in memory, and returned when the generator has ended.
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

-- | Await the next value.
await :: Monad m => Iteratee a m a
await = Coroutine (pure . Suspended)
{-# INLINE await #-}

-- | Run an iteratee on values. If it awaits more than there are, it goes on, and fails when it
-- evaluates one of those.
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

-- | The exceptions of this package.
data CoroutineException
  = -- | An iteratee awaited more values than there were ('runIteratee').
    NothingToFeed
  | -- | A consumer awaited more values than its producer had ('pipe1').
    ProducerEnded
  deriving stock (Eq, Show)

instance Exception CoroutineException where
  displayException = \case
    NothingToFeed -> "No more values to feed."
    ProducerEnded -> "The producer ended too soon."

-- Requests -------------------------------------------------------------------

-- | Suspend with a request; the result is the response.
request :: Monad m => a -> Coroutine (Request a b) m b
request a = Coroutine (pure . Suspended . Request a)
{-# INLINE request #-}

-- | Run a coroutine, and answer each of its requests by a function.
runRequests :: Monad m => (a -> m b) -> Coroutine (Request a b) m r -> m r
runRequests answer c = go (begin c)
  where
    go m =
      m >>= \case
        Done r -> pure r
        Suspended (Request a f) -> answer a >>= go . f

-- Choices --------------------------------------------------------------------

-- | Go on with each of these values: the suspension functor is the list.
choose :: Monad m => [a] -> Coroutine [] m a
choose as = suspend (map pure as)

-- | The results of all choices, from left to right.
runChoices :: Monad m => Coroutine [] m r -> m [r]
runChoices c = go (begin c)
  where
    go m =
      m >>= \case
        Done r -> pure [r]
        Suspended ns -> concat <$> mapM go ns

-- Pairs ----------------------------------------------------------------------

-- | Run a producer and a consumer: the consumer awaits what the producer yields (Listing 11). A
-- step of the producer comes before each step of the consumer. When the consumer has ended,
-- the producer still runs to its end.
--
-- [Throws]: 'ProducerEnded'.
pipe1 :: Monad m => Generator a m x -> Iteratee a m y -> m (x, y)
pipe1 = pipe1By sequentially

-- | As 'pipe1', with a binder for each pair of steps.
pipe1By :: Monad m => Binder m -> Generator a m x -> Iteratee a m y -> m (x, y)
pipe1By binder g i = go (begin g) (begin i)
  where
    go = bindM2 binder proceed
    proceed (Suspended (a, c)) (Suspended f) = go c (f a)
    proceed (Suspended (_, c)) y@(Done _) = go c (pure y)
    proceed (Done _) (Suspended _) = throw ProducerEnded
    proceed (Done x) (Done y) = pure (x, y)

-- | As 'pipe1', but when the producer has ended, the consumer gets 'Nothing' (Listing 11).
pipe2 :: Monad m => Generator a m x -> Iteratee (Maybe a) m y -> m (x, y)
pipe2 = pipe2By sequentially

-- | As 'pipe2', with a binder for each pair of steps.
pipe2By :: Monad m => Binder m -> Generator a m x -> Iteratee (Maybe a) m y -> m (x, y)
pipe2By binder g i = go (begin g) (begin i)
  where
    go = bindM2 binder proceed
    proceed (Suspended (a, c)) (Suspended f) = go c (f (Just a))
    proceed (Suspended (_, c)) y@(Done _) = go c (pure y)
    proceed x@(Done _) (Suspended f) = go (pure x) (f Nothing)
    proceed (Done x) (Done y) = pure (x, y)
