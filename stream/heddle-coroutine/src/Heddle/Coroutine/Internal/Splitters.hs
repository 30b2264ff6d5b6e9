{-# LANGUAGE RankNTypes #-}

-- |
-- Module      : Heddle.Coroutine.Internal.Splitters
-- Description : Splitters, and functions that use them
-- Stability   : internal
--
-- The first half of "Parting and joining the stream", and the splitters of "Pipeline
-- examples".
--
-- Cost: a few closures for each item; see each function.
-- Owner: the thread that runs the pipeline.
module Heddle.Coroutine.Internal.Splitters
  ( -- * Branches
    ifThenElse,
    ifThenElseBy,
    groupBy,

    -- * Logic
    not,
    and,
    or,
    any,
    all,

    -- * Conditions
    line,
    substring,
  )
where

import Control.Monad.Trans.Class (lift)
import Data.Maybe (fromMaybe)
import Heddle.Coroutine.Internal.Binder
import Heddle.Coroutine.Internal.Functors
import Heddle.Coroutine.Internal.Queue (Queue, empty, pop, popMany, push)
import Heddle.Coroutine.Internal.Transducer
import Heddle.Coroutine.Internal.Types
import Prelude hiding (all, and, any, not, or)
import Prelude qualified

-- Branches -------------------------------------------------------------------

-- | What the splitter yields on the left goes through the first transducer, what it yields on the
-- right through the second, and their outputs are yielded in the order in which they appear.
-- When the splitter has ended, first the first branch and then the second gets 'Nothing'. Edges
-- matter only for 'groupBy', and are dropped here.
--
-- As with '=>=', the splitter is a step ahead of its branches, but all output for an item is
-- yielded before the next item is awaited. A branch that has ended gets no more items, and the
-- others go on.
--
-- [Cost]: nothing is held back.
ifThenElse :: Monad m => Splitter a m x -> Transducer a b m y -> Transducer a b m z -> Transducer a b m (x, y, z)
ifThenElse = ifThenElseBy sequentially
{-# INLINE ifThenElse #-}

-- | As 'ifThenElse', with a binder for a step of the splitter and one of a branch.
ifThenElseBy :: Monad m => Binder m -> Splitter a m x -> Transducer a b m y -> Transducer a b m z -> Transducer a b m (x, y, z)
ifThenElseBy binder s t e = fromStep (bindM2 binder (\s' go -> go s') (begin s) (bindM2 binder (\t' e' -> pure (\s' -> proceed s' t' e')) (begin t) (begin e)))
  where
    proceed s' (Suspended (RightF (b, n))) e' = pure (Suspended (RightF (b, n >>= \t' -> proceed s' t' e')))
    proceed s' t' (Suspended (RightF (b, n))) = pure (Suspended (RightF (b, n >>= \e' -> proceed s' t' e')))
    proceed (Suspended (LeftF f)) t' e' = pure (Suspended (LeftF (\a -> f a >>= \s' -> proceed s' t' e')))
    proceed (Suspended (RightF (LeftF (Item a n)))) t' e' = case t' of
      Suspended (LeftF f) -> bindM2 binder (\s' t'' -> proceed s' t'' e') n (f (Just a))
      _ -> n >>= \s' -> proceed s' t' e'
    proceed (Suspended (RightF (RightF (Item a n)))) t' e' = case e' of
      Suspended (LeftF f) -> bindM2 binder (`proceed` t') n (f (Just a))
      _ -> n >>= \s' -> proceed s' t' e'
    proceed (Suspended (RightF (LeftF (Edge n)))) t' e' = n >>= \s' -> proceed s' t' e'
    proceed (Suspended (RightF (RightF (Edge n)))) t' e' = n >>= \s' -> proceed s' t' e'
    proceed s'@(Done _) (Suspended (LeftF f)) e' = f Nothing >>= \t' -> proceed s' t' e'
    proceed s'@(Done _) t'@(Done _) (Suspended (LeftF f)) = f Nothing >>= \e' -> proceed s' t' e'
    proceed (Done x) (Done y) (Done z) = pure (Done (x, y, z))

-- | Yield each section on the left as a list; items on the right are dropped.
--
-- [Cost]: a section is held back until it has ended.
groupBy :: Monad m => Splitter a m x -> Transducer a [a] m x
groupBy s = fromStep (go Nothing (begin s))
  where
    go open m =
      m >>= \case
        Done x -> close open (pure (Done x))
        Suspended (LeftF f) -> pure (Suspended (LeftF (go open . f)))
        Suspended (RightF (LeftF (Item a n))) -> go (Just (maybe [a] (a :) open)) n
        Suspended (RightF (LeftF (Edge n))) -> close open (go (Just []) n)
        Suspended (RightF (RightF (Item _ n))) -> close open (go Nothing n)
        Suspended (RightF (RightF (Edge n))) -> close open (go Nothing n)
    close open n = maybe n (\as -> pure (Suspended (RightF (reverse as, n)))) open

-- Logic ----------------------------------------------------------------------

-- | Exchange left and right.
--
-- Law: @not (not s)@ is @s@.
not :: Monad m => Splitter a m x -> Splitter a m x
not = mapSuspension $ \case
  LeftF f -> LeftF f
  RightF (LeftF part) -> RightF (RightF part)
  RightF (RightF part) -> RightF (LeftF part)

-- | Both splitters get the whole stream, the first one first. When both have decided about an
-- item, it goes left if both send it there. Sections begin wherever one begins in either
-- splitter. Empty sections at the same place are paired; if one splitter has more of them, the
-- rest are dropped. The result is that of the first splitter.
--
-- Laws, also for sections: it is commutative (except for the result), associative and idempotent;
-- 'and' and 'or' distribute over each other; De Morgan's laws hold. Absorption, @and s (or s t)@
-- is @s@, holds for the sides of items, but sections of @t@ remain.
--
-- [Cost]: items that only one has decided about are held back.
and :: Monad m => Splitter a m x -> Splitter a m x -> Splitter a m x
and = pointwise (&&)

-- | As 'and', but an item goes left if at least one splitter sends it there.
or :: Monad m => Splitter a m x -> Splitter a m x -> Splitter a m x
or = pointwise (||)

pointwise :: forall a m x. Monad m => (Bool -> Bool -> Bool) -> Splitter a m x -> Splitter a m x -> Splitter a m x
pointwise op s1 s2 = do
  o1 <- lift (listen (Track empty [] Nothing) (begin s1))
  o2 <- lift (listen (Track empty [] Nothing) (begin s2))
  rounds Nothing o1 o2
  where
    -- With the side of the last item.
    rounds :: Maybe Bool -> Operand a m x -> Operand a m x -> Splitter a m x
    rounds before o1@(Operand now1 track1) o2@(Operand now2 track2) =
      case (pop (decided track1), pop (decided track2)) of
        (Just (d1, q1), Just (d2, q2)) -> do
          let d = agreed d1 d2
          decide before d
          rounds (Just (side d)) (Operand now1 track1 {decided = q1}) (Operand now2 track2 {decided = q2})
        (rest1, rest2) -> case (now1, now2) of
          (Ended x, Ended _) -> do
            case (rest1, rest2) of
              (Nothing, Nothing) -> mapM_ edge (zipWith op (reverse (edges track1)) (reverse (edges track2)))
              _ -> pure ()
            pure x
          _ -> do
            a <- awaitT
            o1' <- lift (tell a o1)
            o2' <- lift (tell a o2)
            rounds before o1' o2'

    agreed d1 d2 =
      Decision
        { gaps = zipWith op (gaps d1) (gaps d2),
          begins = begins d1 || begins d2,
          side = op (side d1) (side d2),
          item = item d1
        }

    decide before d = do
      mapM_ edge (gaps d)
      case gaps d of
        [] | begins d && before == Just (side d) -> edge (side d)
        gs@(_ : _) | last gs == side d -> edge (side d)
        _ -> pure ()
      if side d then yieldLeft (item d) else yieldRight (item d)

    edge left = if left then edgeLeft else edgeRight

-- | A splitter that has run until it awaits or ends, and what it has yielded so far.
data Operand a m x = Operand !(Now a m x) !(Track a)

data Now a m x
  = Awaits (Maybe a -> m (Step (EitherFunctor ((->) (Maybe a)) (EitherFunctor (Part a) (Part a))) m x))
  | Ended x

data Track a = Track
  { decided :: !(Queue (Decision a)),
    -- | The sides of the edges since the last item, the last one first.
    edges :: [Bool],
    -- | The side of the last item.
    latest :: !(Maybe Bool)
  }

-- | A splitter's decision about an item.
data Decision a = Decision
  { -- | The sides of the empty sections right before it.
    gaps :: [Bool],
    -- | Whether a section begins with it.
    begins :: !Bool,
    -- | Left is 'True'.
    side :: !Bool,
    item :: a
  }

tell :: Monad m => Maybe a -> Operand a m x -> m (Operand a m x)
tell a = \case
  Operand (Awaits f) track -> listen track (f a)
  ended -> pure ended

listen :: Monad m => Track a -> m (Step (EitherFunctor ((->) (Maybe a)) (EitherFunctor (Part a) (Part a))) m x) -> m (Operand a m x)
listen track m =
  m >>= \case
    Done x -> pure (Operand (Ended x) track)
    Suspended (LeftF f) -> pure (Operand (Awaits f) track)
    Suspended (RightF (LeftF part)) -> heard True part
    Suspended (RightF (RightF part)) -> heard False part
  where
    heard left = \case
      Edge n -> listen track {edges = left : edges track} n
      Item a n -> listen (Track (push (decided track) (place left a)) [] (Just left)) n
    -- An item continues the section of an edge on its side.
    place left a = case edges track of
      [] -> Decision [] (latest track /= Just left) left a
      e : es -> Decision (reverse (if e == left then es else e : es)) True left a

-- | A list goes left if the splitter, run on it, yields anything on the left, either an item or an
-- edge. The splitter is run to its end, from the beginning for each list. The result is that of
-- the last run; without any list, that of a run on the empty list.
--
-- Law: @any s@ is @not (all (not s))@.
any :: Monad m => Splitter a m x -> Splitter [a] m x
any = judging const

-- | A list goes left if the splitter, run on it, yields nothing on the right. Otherwise as 'any'.
all :: Monad m => Splitter a m x -> Splitter [a] m x
all = judging (const Prelude.not)

-- | Judge lists by whether anything was yielded on the left, and on the right.
judging :: Monad m => (Bool -> Bool -> Bool) -> Splitter a m x -> Splitter [a] m x
judging judge s = go Nothing
  where
    go result =
      awaitT >>= \case
        Nothing -> maybe (fst <$> lift (over [])) pure result
        Just as -> do
          (x, left) <- lift (over as)
          if left then yieldLeft as else yieldRight as
          go (Just x)
    over as = run as False False (begin s)
    run as !left !right m =
      m >>= \case
        Done x -> pure (x, judge left right)
        Suspended (LeftF f) -> case as of
          a : rest -> run rest left right (f (Just a))
          [] -> run [] left right (f Nothing)
        Suspended (RightF (LeftF part)) -> run as True right (after part)
        Suspended (RightF (RightF part)) -> run as left True (after part)

after :: Part a x -> x
after = \case
  Item _ n -> n
  Edge n -> n

-- Conditions -----------------------------------------------------------------

-- | Newlines go right, other characters left; each line is a section, even an empty one.
--
-- Law: @groupBy line@ yields the 'lines' of a text.
--
-- [Cost]: nothing is held back.
line :: Monad m => Splitter Char m ()
line = start
  where
    start = awaitT `andThen` \c -> edgeLeft >> within c
    within '\n' = yieldRight '\n' >> start
    within c = yieldLeft c >> awaitT `andThen` within

-- | Occurrences of a list of items go left, each as a section, other items right. Of overlapping
-- occurrences the first counts. It yields the stream's own items, not those of the list: they
-- may differ though they are equal.
--
-- The empty list occurs, as an empty section, before every item and at the end.
--
-- [Cost]: O(1) an item, amortised. Only what may still become an occurrence is held back.
substring :: (Eq a, Monad m) => [a] -> Splitter a m ()
substring = \case
  [] -> everywhere
  a : as -> let first = automaton a as in go first first empty
  where
    everywhere = edgeLeft >> awaitT `andThen` \a -> yieldRight a >> everywhere
    go first at held =
      awaitT >>= \case
        Nothing -> mapM_ yieldRight (fst (popMany (depth at) held))
        Just a -> case step at a of
          Nothing -> do
            edgeLeft
            mapM_ yieldLeft (fst (popMany (depth at) held))
            yieldLeft a
            go first first empty
          Just at' -> do
            let (lost, held') = popMany (depth at + 1 - depth at') (push held a)
            mapM_ yieldRight lost
            go first at' held'

-- | A state of the automaton of Knuth, Morris and Pratt.
data Automaton a = Automaton
  { -- | How many items of the pattern have matched.
    depth :: !Int,
    -- | The next item of the pattern.
    expected :: a,
    -- | The state after it; 'Nothing' after the last.
    hit :: Maybe (Automaton a),
    -- | The state for the longest shorter match; 'Nothing' at the start.
    miss :: Maybe (Automaton a)
  }

automaton :: Eq a => a -> [a] -> Automaton a
automaton a0 as0 = first
  where
    first = Automaton 0 a0 (grow 1 first as0) Nothing
    grow n shorter = \case
      [] -> Nothing
      a : as -> Just (Automaton n a (grow (n + 1) (fromMaybe first (step shorter a)) as) (Just shorter))

step :: Eq a => Automaton a -> a -> Maybe (Automaton a)
step at a
  | a == expected at = hit at
  | otherwise = maybe (Just at) (`step` a) (miss at)
