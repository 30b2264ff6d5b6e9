{-# LANGUAGE RankNTypes #-}

-- |
-- Module      : Heddle.Flow.Internal.Stage
-- Description : Flows
-- Stability   : internal
--
-- Each flow puts its own work before the step of the sink downstream. It mentions that step
-- once, so that GHC inlines it; flows that push at the end of their input mention it twice, and
-- say so.
--
-- Cost: nothing for each element beside the functions' cost. States and elements are evaluated
-- as they pass, so no thunks build up.
-- Owner: a run; a flow's state begins with the run.
module Heddle.Flow.Internal.Stage
  ( map,
    mapM,
    filter,
    mapMaybe,
    concatMap,
    take,
    takeWhile,
    drop,
    dropWhile,
    mapAccum,
    mapAccumMaybe,
    scan,
    postscan,
    stateful,
    number,
    zipUnfold,
    distinct,
    runs,
    lines,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Heddle.Flow.Internal.Source (glue, unfold)
import Heddle.Flow.Internal.Types (And (..), Flow (..), Next (..), Seen (..), Sink (..), Source (..), Start (..), Step, Stop (..), unseen)
import Prelude hiding (concatMap, drop, dropWhile, filter, lines, map, mapM, take, takeWhile)

-- | Apply a function to each element.
--
-- [Cost]: 0 bytes, besides the function's.
map :: (a -> b) -> Flow a b
map f = Flow (\(Sink begin step end) -> Sink begin (\s x -> step s $! f x) end)
{-# INLINE map #-}

-- | Apply an action to each element.
--
-- [Cost]: 0 bytes, besides the action's.
mapM :: (a -> IO b) -> Flow a b
mapM f = Flow (\(Sink begin step end) -> Sink begin (\s x more enough -> f x >>= \ !y -> step s y more enough) end)
{-# INLINE mapM #-}

-- | The elements that satisfy a condition.
--
-- [Cost]: 0 bytes.
filter :: (a -> Bool) -> Flow a a
filter p = Flow (\(Sink begin step end) -> Sink begin (\s x more enough -> if p x then step s x more enough else more s) end)
{-# INLINE filter #-}

-- | Apply a function to each element, and drop those for which it has no result.
--
-- [Cost]: 0 bytes, when the function is visible to the optimiser.
mapMaybe :: (a -> Maybe b) -> Flow a b
mapMaybe f = Flow $ \(Sink begin step end) ->
  Sink begin (\s x more enough -> case f x of Nothing -> more s; Just !y -> step s y more enough) end
{-# INLINE mapMaybe #-}

-- | A source for each element, one after the other ('Heddle.Flow.fromList' for a list).
--
-- [Cost]: 0 bytes, when the function is visible to the optimiser and opens nothing.
concatMap :: (a -> Source b) -> Flow a b
concatMap f = Flow (\(Sink begin step end) -> Sink begin (\s x -> case f x of Source loop -> loop step s) end)
{-# INLINE concatMap #-}

-- | At most this many elements. After the last one it stops the source; @take 0@ does not open
-- the source.
--
-- [Cost]: 0 bytes.
take :: Int -> Flow a a
take n0 = Flow $ \(Sink begin step end) ->
  Sink
    (starting (And n0) (n0 <= 0) <$> begin)
    (\(And n s) x more enough -> step s x (\s' -> if n == 1 then enough (More s') else more (And (n - 1) s')) (enough . Enough))
    (\case More (And _ s) -> end (More s); Enough n -> end n)
{-# INLINE take #-}

-- | The elements before the first that does not satisfy a condition. That one is consumed.
--
-- [Cost]: 0 bytes.
takeWhile :: (a -> Bool) -> Flow a a
takeWhile p = Flow $ \(Sink begin step end) ->
  Sink
    (starting id False <$> begin)
    (\s x more enough -> if p x then step s x more (enough . Enough) else enough (More s))
    (\case More s -> end (More s); Enough n -> end n)
{-# INLINE takeWhile #-}

-- | The beginning of a flow with a state, which may end the stream there.
starting :: (s -> t) -> Bool -> Start s e -> Start t (Next s e)
starting f stop (Start s going) = Start (f s) $ case going of
  Stopped e -> Stopped (Enough e)
  Going -> if stop then Stopped (More s) else Going
{-# INLINE starting #-}

-- | All but the first elements, this many.
--
-- [Cost]: 0 bytes.
drop :: Int -> Flow a a
drop n0 = keeping n0 nothing $ \skip step n x -> if n > 0 then skip (n - 1) else step n x
{-# INLINE drop #-}

-- | The elements from the first on that does not satisfy a condition.
--
-- [Cost]: 0 bytes.
dropWhile :: (a -> Bool) -> Flow a a
dropWhile p = keeping True nothing $ \skip step dropping x ->
  if dropping && p x then skip True else step False x
{-# INLINE dropWhile #-}

-- | Map with a state.
--
-- [Cost]: 0 bytes, when the function is visible to the optimiser.
mapAccum :: (t -> a -> (t, b)) -> t -> Flow a b
mapAccum f t0 = keeping t0 nothing (\_ step t x -> case f t x of (t', !y) -> step t' y)
{-# INLINE mapAccum #-}

-- | The first state, then the state after each element, as 'Data.List.scanl\'' and
-- 'Heddle.Pipe.scan'.
--
-- [Cost]: 0 bytes, when the function is visible to the optimiser and what is downstream is small.
-- The first state is pushed at a place of its own, so the downstream is needed at two places: if
-- it is large, GHC calls it, at about 80 bytes for each element. 'postscan' needs it at one.
scan :: (t -> a -> t) -> t -> Flow a t
scan f t0 = Flow $ \(Sink begin step end) ->
  Sink
    ( begin >>= \(Start s going) ->
        let !t = t0
         in case going of
              Going -> step s t (\s' -> pure (Start (And t s') Going)) (pure . Start (And t s) . Stopped)
              Stopped e -> pure (Start (And t s) (Stopped e))
    )
    (\(And t s) x more enough -> let !t' = f t x in step s t' (more . And t') enough)
    (flush nothing step end)
{-# INLINE scan #-}

-- | The state after each element: 'scan' without the first state.
--
-- [Cost]: 0 bytes, when the function is visible to the optimiser.
postscan :: (t -> a -> t) -> t -> Flow a t
postscan f t0 = keeping t0 nothing (\_ step t x -> let !t' = f t x in step t' t')
{-# INLINE postscan #-}

-- | Map with a state, and drop elements for which there is no result.
--
-- [Cost]: 0 bytes, when the function is visible to the optimiser.
mapAccumMaybe :: (t -> a -> (t, Maybe b)) -> t -> Flow a b
mapAccumMaybe f t0 = keeping t0 nothing $ \skip step t x -> case f t x of
  (t', Nothing) -> skip t'
  (t', Just !y) -> step t' y
{-# INLINE mapAccumMaybe #-}

-- | Any number of elements for each, with a state, and possibly some at the end of the input
-- (unless downstream has had enough).
--
-- [Cost]: 0 bytes when the functions are visible to the optimiser and the second one always
-- answers 'mempty'. Otherwise the downstream is needed at two places: if it is small, GHC copies
-- it; if not, GHC calls it, and it allocates its answers, about 80 bytes each.
-- [Source]: Coroutine Pipelines, liftStateful.
stateful :: (t -> a -> (t, Source b)) -> (t -> Source b) -> t -> Flow a b
stateful f atEnd t0 = Flow $ \(Sink begin step end) ->
  Sink
    ((\(Start s going) -> Start (And t0 s) going) <$> begin)
    (\(And t s) x more enough -> case f t x of (!t', Source loop) -> loop step s (more . And t') enough)
    (flush atEnd step end)
{-# INLINE stateful #-}

-- | Each element with its number; the first has the number that is given.
--
-- [Cost]: 0 bytes, when the next stage takes the pair apart.
number :: Int -> Flow a (Int, a)
number = mapAccum (\n x -> (n + 1, (n, x)))
{-# INLINE number #-}

-- | Combine each element with one made from a state, until either ends.
--
-- [Cost]: 0 bytes, when the functions are visible to the optimiser.
zipUnfold :: (a -> b -> c) -> (t -> Maybe (b, t)) -> t -> Flow a c
zipUnfold f g t0 = Flow $ \(Sink begin step end) ->
  Sink
    (starting (And t0) False <$> begin)
    ( \(And t s) x more enough -> case g t of
        Nothing -> enough (More s)
        Just (y, t') -> let !z = f x y in step s z (more . And t') (enough . Enough)
    )
    (\case More (And _ s) -> end (More s); Enough n -> end n)
{-# INLINE zipUnfold #-}

-- | Drop elements that are equal to the one before.
--
-- [Cost]: one comparison each, and 16 bytes for an element that is passed on.
distinct :: Eq a => Flow a a
distinct = keeping unseen nothing $ \skip step before@(Seen n y) x ->
  if n /= 0 && y == x then skip before else step (Seen 1 x) x
{-# INLINE distinct #-}

-- | Each run of equal elements, as its first element and its length.
--
-- [Cost]: one comparison each, and about 80 bytes for a run.
runs :: Eq a => Flow a (a, Int)
runs = keeping unseen (\(Seen n y) -> if n == 0 then mempty else pure (y, n)) $ \skip step (Seen n y) x ->
  if n == 0 || x == y then skip (Seen (n + 1) x) else step (Seen 1 x) (y, n)
{-# INLINE runs #-}

-- | The lines of a stream of pieces; 'Heddle.Flow.receivingLines' is faster.
--
-- [Cost]: one search for each line; 48 bytes, and a copy if it is in several pieces; see also
-- 'stateful'.
lines :: Flow ByteString ByteString
lines = stateful next (\pieces -> if null pieces then mempty else pure (glue pieces)) []
  where
    next pieces chunk = case B.elemIndexEnd 10 chunk of
      Nothing -> (keep chunk pieces, mempty)
      Just i -> (keep (B.drop (i + 1) chunk) [], unfold cut (Uncut pieces (B.take i chunk)))
    {-# INLINE next #-}
    keep chunk pieces = if B.null chunk then pieces else chunk : pieces
    cut AllCut = Nothing
    cut (Uncut pieces chunk) = case B.elemIndex 10 chunk of
      Nothing -> Just (glue (chunk : pieces), AllCut)
      Just i -> Just (glue (B.take i chunk : pieces), Uncut [] (B.drop (i + 1) chunk))
    {-# INLINE cut #-}
{-# INLINE lines #-}

-- The input that 'lines' has not cut yet: the pieces of a line, the last one first, and the piece after them.
data Uncut = AllCut | Uncut [ByteString] !ByteString

-- | A flow with a state, and what it pushes at its end. The last argument continues with a new
-- state, or with a new state and an element; to be inlined, it mentions the latter once.
--
-- [Cost]: 0 bytes.
keeping :: t -> (t -> Source b) -> (forall x. (t -> x) -> (t -> b -> x) -> t -> a -> x) -> Flow a b
keeping t0 atEnd body = Flow $ \(Sink begin step end) ->
  Sink
    ((\(Start s going) -> Start (And t0 s) going) <$> begin)
    ( \(And t s) x more enough ->
        body (\t' -> more (And t' s)) (\t' y -> step s y (more . And t') enough) t x
    )
    (flush atEnd step end)
{-# INLINE keeping #-}

-- | Push what is left at the end, unless downstream has had enough.
flush :: (t -> Source b) -> Step s e b -> (Next s e -> IO r) -> Next (And t s) e -> IO r
flush atEnd step end = \case
  More (And t s) -> case atEnd t of Source loop -> loop step s (end . More) (end . Enough)
  Enough e -> end (Enough e)
{-# INLINE flush #-}

nothing :: t -> Source b
nothing _ = mempty
{-# INLINE nothing #-}
