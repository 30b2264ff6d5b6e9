{-# LANGUAGE ExistentialQuantification #-}
{-# LANGUAGE RankNTypes #-}
{-# OPTIONS_HADDOCK not-home #-}

-- |
-- Module      : Heddle.Flow.Internal.Types
-- Description : Sources that push, sinks that are stepped, flows between them
-- Stability   : internal, exempt from the version policy
--
-- The source is the only loop. A sink is a state and a step, and a flow turns a sink into
-- another sink, so a whole chain is one step that the source's loop calls. Nothing else is
-- recursive: GHC inlines all of it, without rewrite rules, and only the loop remains.
--
-- Import this module to write new sources, flows and sinks.
--
-- To step a sink by hand: begin it ('begun'); while the last answer was 'More', pass its state
-- to the step with the next element ('stepOnce'); pass the last answer to the end, once. A
-- state is used once.
--
-- Cost: when all is inlined, nothing for each element. A step that GHC does not inline (because
-- it is used at two places, or is the result of a recursive function) allocates its
-- continuations.
-- Owner: one run at a time; a sink makes what it needs when it begins.
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

-- | Consumes elements of type @a@ one by one, and then has a result. The fields are its
-- beginning, its step and its end.
--
-- A state is used once; after a step has had enough, only the end is called.
data Sink a r = forall s e. Sink (IO (Start s e)) (Step s e a) (Next s e -> IO r)

-- | What a sink does with one element. It tail-calls one of the two continuations: the first
-- with a new state if it wants more elements, the second if it has had enough for good.
--
-- It takes continuations instead of returning a sum type because GHC turns continuations into
-- jumps whatever their size, whereas it may build and inspect a sum that comes from several
-- branches.
type Step s e a = forall x. s -> a -> (s -> IO x) -> (e -> IO x) -> IO x

-- | A state, and whether the sink has had enough.
data Start s e = Start !s !(Stop e)

-- | Whether a sink has had enough.
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

-- | A loop that pushes elements of type @a@ into a step, until there are none or the step has
-- had enough. It also ends with one of two continuations, so that loops nest.
newtype Source a = Source (forall s e x. Step s e a -> s -> (s -> IO x) -> (e -> IO x) -> IO x)

-- | A strict pair.
data And s t = And !s !t

-- | The number of elements so far, and the last one that counts. A product instead of a 'Maybe',
-- since products stay in registers.
data Seen a = Seen !Int a

-- | No element yet.
unseen :: Seen a
unseen = Seen 0 (errorWithoutStackTrace "Heddle.Flow: an element before the first")
{-# INLINE unseen #-}

-- | The element, if there is one.
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

-- | Nested loops, as with lists.
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

-- | A source followed by a flow, as a source.
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

-- | A flow followed by a sink, as a sink.
--
-- [Cost]: nothing.
into :: Flow a b -> Sink b r -> Sink a r
into (Flow flow) = flow
{-# INLINE into #-}

-- | Run a source into a sink.
--
-- The result is evaluated. The sink begins before the source opens what it reads, and ends after
-- the source has closed it. When the sink has had enough, the source stops at once.
--
-- [Cost]: one loop; when source and sink are visible to the optimiser, it allocates only what
-- their functions do.
-- [Blocks]: as their actions do; a source reaches a safe point every 4,096 elements.
-- [Throws]: what their actions throw, after what the source had opened has been closed.
run :: forall a r. Source a -> Sink a r -> IO r
run (Source loop) (Sink begin step end) =
  begin >>= \(Start s going) ->
    let -- Not inlined: otherwise the loop would check in each round for the heap that the
        -- result's box needs.
        done :: r -> IO r
        done !r = pure r
        {-# NOINLINE done #-}
     in case going of
          Going -> loop step s (\s' -> leave >> end (More s') >>= done) (\e -> leave >> end (Enough e) >>= done)
          Stopped e -> end (Enough e) >>= done
{-# INLINE run #-}

-- | Does nothing, after a loop. Since GHC 9.4 the function that gets the result takes it in its box, and GHC checks for the
-- heap that the box needs at the last call before: this one, not the loop's beginning. A sum took 0.46 ns for each element
-- instead of 0.24.
leave :: IO ()
leave = pure ()
{-# NOINLINE leave #-}

-- | Two sinks side by side, with both results. The pair has had enough when both have.
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

-- | The state after the beginning, for stepping a sink by hand.
begun :: Start s e -> Next s e
begun (Start s going) = case going of
  Going -> More s
  Stopped e -> Enough e
{-# INLINE begun #-}

-- | One step, for stepping a sink by hand.
--
-- [Cost]: allocates its result.
stepOnce :: Step s e a -> s -> a -> IO (Next s e)
stepOnce step s x = step s x (pure . More) (pure . Enough)
{-# INLINE stepOnce #-}

-- | A loop reaches a safe point each time it has pushed this many elements, a power of 2.
period :: Int
period = 4096

-- | The first safe point comes after these few elements, so that a loop nested in another, with
-- many short runs, adds little to the time between two safe points.
few :: Int
few = 64

-- | The first argument for 'every'.
start :: Int
start = period - few

-- | Count up, with a safe point once in every 'period'.
every :: Int -> (Int -> IO r) -> IO r
every n go
  | n' .&. (period - 1) == 0 = go (safePoint n')
  | otherwise = go n'
  where
    n' = n + 1
{-# INLINE every #-}
