{-# LANGUAGE ExistentialQuantification #-}
{-# LANGUAGE RankNTypes #-}
{-# OPTIONS_HADDOCK not-home #-}

-- |
-- Module      : Heddle.Flow.Internal.Types
-- Description : Sources that push, sinks that are stepped, flows between them
-- Stability   : internal
--
-- A source is the only loop. A sink is a state and a step, and a flow makes a sink of a
-- sink, so a whole chain is one step that its source's loop calls. Nothing here is
-- recursive: GHC inlines all of it, without rewrite rules, and what is left is the loop.
--
-- For those who write sources, flows and sinks of their own. Exempt from the version policy.
--
-- Who steps a sink by hand: begin it ('begun'); as long as the last answer was 'More', give
-- its state to the step with the next element ('stepOnce'); give the last answer to the end,
-- once. A state is used once.
--
-- Cost: when all is inlined, nothing for each element. A step that GHC does not inline (it
-- is used at two places, or comes out of a recursive function) allocates its continuations.
-- Owner: one run at a time; what a sink needs it makes when it begins.
module Heddle.Flow.Internal.Types
  ( Sink (..),
    Step,
    Start (..),
    Stop (..),
    Next (..),
    Flow (..),
    Source (..),
    And (..),
    Seen (..),
    unseen,
    seen,

    -- * Composition
    (>->),
    (|>),
    into,
    run,
    both,

    -- * Stepping by hand
    begun,
    stepOnce,

    -- * Loops
    period,
    every,
    few,
    start,
  )
where

import Control.Category (Category)
import Control.Category qualified as Category
import Data.Bits ((.&.))
import Heddle.Prim.Thread (safePoint)

-- | Consumes elements of type @a@ one by one and then has a result. The fields are its
-- beginning, its step, and its end.
--
-- A state is used once; after a step has had enough, only the end is called.
data Sink a r = forall s e. Sink (IO (Start s e)) (Step s e a) (Next s e -> IO r)

-- | What a sink does with one element. Of the two continuations it calls one, at its end:
-- with a new state if more elements are welcome, or because it has had enough, for good.
--
-- They are continuations, and no sum is answered, since GHC makes jumps of continuations
-- whatever their size; a sum that comes from several branches may be built and looked at.
type Step s e a = forall x. s -> a -> (s -> IO x) -> (e -> IO x) -> IO x

-- | A state, and whether it has had enough.
data Start s e = Start !s !(Stop e)

-- | Has it had enough?
data Stop e
  = Going
  | Stopped !e

-- | How a loop has left a sink: ready for more, or having had enough.
data Next s e
  = More !s
  | Enough !e

-- | Turns a stream of @a@ into a stream of @b@: any number of elements for each one, and
-- possibly some at the end.
newtype Flow a b = Flow (forall r. Sink b r -> Sink a r)

-- | A loop that pushes elements of type @a@ into a step, until there are none or the step
-- has had enough. It goes on with one of two continuations, too, so that loops nest.
newtype Source a = Source (forall s e x. Step s e a -> s -> (s -> IO x) -> (e -> IO x) -> IO x)

-- | A pair of two values that are evaluated.
data And s t = And !s !t

-- | How many elements there have been, and the last of them that counts. A product, again.
data Seen a = Seen !Int a

-- | No element yet.
unseen :: Seen a
unseen = Seen 0 (errorWithoutStackTrace "Heddle.Flow: an element before the first")
{-# INLINE unseen #-}

-- | It, if there is one.
seen :: Seen a -> Maybe a
seen (Seen n x) = if n == 0 then Nothing else Just x

instance Functor (Sink a) where
  fmap f (Sink begin step end) = Sink begin step (fmap f . end)
  {-# INLINE fmap #-}

-- | Sinks side by side: each gets every element until it has had enough.
instance Applicative (Sink a) where
  pure r = Sink (pure (Start () (Stopped ()))) (\_ _ _ enough -> enough ()) (\_ -> pure r)
  {-# INLINE pure #-}
  f <*> x = (\(g, y) -> g y) <$> both f x
  {-# INLINE (<*>) #-}

instance Functor (Flow a) where
  fmap f (Flow flow) = Flow (\(Sink begin step end) -> flow (Sink begin (\s x -> step s $! f x) end))
  {-# INLINE fmap #-}

instance Category Flow where
  id = Flow id
  {-# INLINE id #-}
  g . f = f >-> g
  {-# INLINE (.) #-}

instance Functor Source where
  fmap f (Source loop) = Source (\step -> loop (\s x -> step s $! f x))
  {-# INLINE fmap #-}

-- | Loops in a loop, as with lists.
instance Applicative Source where
  pure x = Source (\step s -> step s x)
  {-# INLINE pure #-}
  sf <*> sx = sf >>= \f -> fmap f sx
  {-# INLINE (<*>) #-}

instance Monad Source where
  Source outer >>= f = Source (\step -> outer (\s x -> case f x of Source inner -> inner step s))
  {-# INLINE (>>=) #-}

-- | One source after the other.
instance Semigroup (Source a) where
  Source first <> Source second = Source (\step s more enough -> first step s (\s' -> second step s' more enough) enough)
  {-# INLINE (<>) #-}

instance Monoid (Source a) where
  mempty = Source (\_ s more _ -> more s)
  {-# INLINE mempty #-}

infixl 3 >->

infixl 2 |>

infixr 2 `into`

infix 1 `run`

-- | The second flow after the first. Associative, with 'Control.Category.id' as its unit.
--
-- [Cost]: nothing.
(>->) :: Flow a b -> Flow b c -> Flow a c
Flow f >-> Flow g = Flow (f . g)
{-# INLINE (>->) #-}

-- | A source whose elements go through a flow first.
--
-- [Cost]: nothing.
(|>) :: Source a -> Flow a b -> Source b
Source loop |> Flow flow =
  Source $ \step s more enough ->
    case flow (Sink (pure (Start s Going)) step pure) of
      Sink begin step' end ->
        begin >>= \(Start t going) ->
          let finish n =
                end n >>= \case
                  More s' -> more s'
                  Enough e -> enough e
           in case going of
                Going -> loop step' t (finish . More) (finish . Enough)
                Stopped e -> finish (Enough e)
{-# INLINE (|>) #-}

-- | A sink for what goes through a flow first.
--
-- [Cost]: nothing.
into :: Flow a b -> Sink b r -> Sink a r
into (Flow flow) = flow
{-# INLINE into #-}

-- | Run all of a source into a sink.
--
-- The result is evaluated. The sink begins before the source opens what it reads, and ends after the source has
-- closed it. When the sink has had enough, the source stops at once.
--
-- [Cost]: one loop; when source and sink are visible to the optimiser, it allocates
-- nothing but what their functions do.
-- [Blocks]: as their actions do; a source comes to a safe point every 4,096 elements.
-- [Throws]: what their actions throw, after what the source had opened is closed.
run :: forall a r. Source a -> Sink a r -> IO r
run (Source loop) (Sink begin step end) =
  begin >>= \(Start s going) ->
    let -- Not inlined, since the loop would provide for what a result's box takes at every turn.
        done :: r -> IO r
        done !r = pure r
        {-# NOINLINE done #-}
     in case going of
          Going -> loop step s (\s' -> end (More s') >>= done) (\e -> end (Enough e) >>= done)
          Stopped e -> end (Enough e) >>= done
{-# INLINE run #-}

-- | Two sinks side by side, and both results. It has had enough when both have.
--
-- [Cost]: nothing for each element, when both are visible to the optimiser.
both :: Sink a r -> Sink a q -> Sink a (r, q)
both (Sink begin step end) (Sink begin' step' end') =
  Sink
    (beside <$> begin <*> begin')
    ( \(And h g) x more enough ->
        advance step h x $ \h' ->
          advance step' g x $ \g' ->
            case beside h' g' of
              Start s Going -> more s
              Start _ (Stopped e) -> enough e
    )
    $ \case
      More (And h g) -> (,) <$> end (begun h) <*> end' (begun g)
      Enough (And e f) -> (,) <$> end (Enough e) <*> end' (Enough f)
  where
    beside h@(Start _ (Stopped e)) g@(Start _ (Stopped f)) = Start (And h g) (Stopped (And e f))
    beside h g = Start (And h g) Going
    {-# INLINE beside #-}
{-# INLINE both #-}

-- | A step of a sink that may have had enough.
advance :: Step s e a -> Start s e -> a -> (Start s e -> IO x) -> IO x
advance step h@(Start s going) x k = case going of
  Going -> step s x (\s' -> k (Start s' Going)) (k . Start s . Stopped)
  Stopped _ -> k h
{-# INLINE advance #-}

-- | How a beginning stands, for who steps a sink by hand.
begun :: Start s e -> Next s e
begun (Start s going) = case going of
  Going -> More s
  Stopped e -> Enough e
{-# INLINE begun #-}

-- | One step, for who steps a sink by hand.
--
-- [Cost]: allocates what it answers.
stepOnce :: Step s e a -> s -> a -> IO (Next s e)
stepOnce step s x = step s x (pure . More) (pure . Enough)
{-# INLINE stepOnce #-}

-- | A loop comes to a safe point after so many elements, a power of 2.
period :: Int
period = 4096

-- | The first time after these few, so that a loop in a loop, in which many short runs
-- follow each other, adds little to the time between two safe points.
few :: Int
few = 64

-- | Where to begin to count with 'every'.
start :: Int
start = period - few

-- | Count up, and come to a safe point once in every 'period'.
every :: Int -> (Int -> IO r) -> IO r
every n go
  | n' .&. (period - 1) == 0 = go (safePoint n')
  | otherwise = go n'
  where
    n' = n + 1
{-# INLINE every #-}
