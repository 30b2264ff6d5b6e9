{-# OPTIONS_GHC -fno-full-laziness #-}

-- |
-- Module      : Heddle.Pipe.Internal.Items
-- Description : The everyday stages
-- Stability   : internal
--
-- Cost: for each stage a hop for each value, and the function's cost.
-- Owner: the thread of the run.
module Heddle.Pipe.Internal.Items
  ( -- * Sources
    each,
    unfold,
    zipWith,
    withSource,

    -- * Stages
    map,
    mapM,
    filter,
    concatMap,
    take,
    drop,
    takeWhile,
    dropWhile,
    scan,
    postscan,
    mapAccum,
    chunksOf,

    -- * Sinks
    fold,
    foldM,
    forEach,
    toList,
    drain,
  )
where

import Control.Monad.IO.Class (liftIO)
import Data.Void (Void)
import Heddle.Pipe.Internal.Scope (innerScope, leave)
import Heddle.Pipe.Internal.Types
import Heddle.Prim.Atomic (newRef, readRef, writeRef)
import Prelude hiding (concatMap, drop, dropWhile, filter, map, mapM, take, takeWhile, zipWith)

{- HLINT ignore "Avoid lambda" -}
-- The lambdas show GHC the functions' arity.

-- Sources --------------------------------------------------------------------

-- | The elements of a list or another container.
--
-- [Cost]: a hop each. A list that is written in place is not built.
each :: Foldable t => t o -> Pipe i o ()
each = foldr (\o more -> yield o *> more) (pure ())
{-# INLINE each #-}

-- | Values made from a state, until there are none.
unfold :: (s -> IO (Maybe (o, s))) -> s -> Pipe i o ()
unfold f = go
  where
    go s = liftIO (f s) >>= maybe (pure ()) (\(o, s') -> yield o *> go s')
{-# INLINE unfold #-}

-- | A second source for a stage, besides its input: the function gets a pipe that awaits the
-- source's next value. The source is cancelled when the function's pipe ends.
--
-- [Cost]: a hop, and a write, for each value.
withSource :: Pipe Void a x -> (Pipe i o (Maybe a) -> Pipe i o r) -> Pipe i o r
withSource source body = Pipe $ \env@(Env _ scope run) k u d -> do
  (inner, before) <- innerScope scope
  track <- newTrack
  let envS = Env track inner run
  left <- newRef (Up (unPipe source envS (\_ u' -> ended envS u') noInput))
  let next = Pipe $ \_ k' u' d' -> do
        s <- readRef left
        -- Until it answers; if it throws, it has no more values.
        writeRef left noInput
        pull s (Down (\a s' -> writeRef left s' >> k' a u' d'))
      done r u' d' = do
        writeRef left noInput
        leave scope before inner
        k r u' d'
  unPipe (body next) env done u d

-- | Combine two sources value by value, until one ends. The other is then cancelled.
zipWith :: (a -> b -> c) -> Pipe Void a x -> Pipe Void b y -> Pipe i c ()
zipWith f left right =
  withSource left $ \nextLeft -> withSource right $ \nextRight ->
    let go =
          nextLeft >>= \case
            Nothing -> pure ()
            Just a ->
              nextRight >>= \case
                Nothing -> pure ()
                Just b -> yield (f a b) *> go
     in go
{-# INLINE zipWith #-}

-- Stages ---------------------------------------------------------------------

-- | Apply a function to each value.
map :: (a -> b) -> Pipe a b ()
map f = go where go = await >>= maybe (pure ()) (\a -> yield (f a) *> go)
{-# INLINE map #-}

-- | Apply an action to each value.
mapM :: (a -> IO b) -> Pipe a b ()
mapM f = go where go = await >>= maybe (pure ()) (\a -> liftIO (f a) >>= \b -> yield b *> go)
{-# INLINE mapM #-}

-- | The values that satisfy a condition.
filter :: (a -> Bool) -> Pipe a a ()
filter p = go where go = await >>= maybe (pure ()) (\a -> if p a then yield a *> go else go)
{-# INLINE filter #-}

-- | Any number of values for each.
concatMap :: Foldable t => (a -> t b) -> Pipe a b ()
concatMap f = go where go = await >>= maybe (pure ()) (foldr (\b more -> yield b *> more) go . f)
{-# INLINE concatMap #-}

-- | The first values, this many. It does not await more, so the rest is left for what follows.
take :: Int -> Pipe a a ()
take n
  | n <= 0 = pure ()
  | otherwise = await >>= maybe (pure ()) (\a -> yield a *> take (n - 1))

-- | All but the first values, this many.
drop :: Int -> Pipe a a ()
drop n
  | n <= 0 = forward
  | otherwise = await >>= maybe (pure ()) (\_ -> drop (n - 1))

-- | The values before the first that does not satisfy a condition. That one is consumed.
takeWhile :: (a -> Bool) -> Pipe a a ()
takeWhile p = go where go = await >>= maybe (pure ()) (\a -> if p a then yield a *> go else pure ())
{-# INLINE takeWhile #-}

-- | The values from the first on that does not satisfy a condition.
dropWhile :: (a -> Bool) -> Pipe a a ()
dropWhile p = go where go = await >>= maybe (pure ()) (\a -> if p a then go else yield a *> forward)
{-# INLINE dropWhile #-}

-- | Pass all values unchanged.
forward :: Pipe a a ()
forward = map id

-- | The first state, then the state after each value, as 'Data.List.scanl\'' and
-- 'Heddle.Flow.scan'. States are evaluated.
scan :: (s -> a -> s) -> s -> Pipe a s ()
scan f !s0 = yield s0 *> postscan f s0
{-# INLINE scan #-}

-- | The state after each value: 'scan' without the first state. States are evaluated.
postscan :: (s -> a -> s) -> s -> Pipe a s ()
postscan f = go
  where
    go !s = await >>= maybe (pure ()) (\a -> let !s' = f s a in yield s' *> go s')
{-# INLINE postscan #-}

-- | Map with a state; the result is the last state. States are evaluated.
mapAccum :: (s -> a -> (s, b)) -> s -> Pipe a b s
mapAccum f = go
  where
    go !s = await >>= maybe (pure s) (\a -> case f s a of (s', b) -> yield b *> go s')
{-# INLINE mapAccum #-}

-- | Lists of this many values (at least one); the last may be shorter.
--
-- [Cost]: one list is held.
chunksOf :: Int -> Pipe a [a] ()
chunksOf size = go (0 :: Int) []
  where
    go n as =
      await >>= \case
        Nothing -> if null as then pure () else yield (reverse as)
        Just a
          | n + 1 >= size -> yield (reverse (a : as)) *> go 0 []
          | otherwise -> go (n + 1) (a : as)

-- Sinks ----------------------------------------------------------------------

-- | Combine a state with each value; states are evaluated.
fold :: (s -> a -> s) -> s -> Pipe a o s
fold f = go where go !s = await >>= maybe (pure s) (go . f s)
{-# INLINE fold #-}

-- | As 'fold', by an action.
foldM :: (s -> a -> IO s) -> s -> Pipe a o s
foldM f = go where go !s = await >>= maybe (pure s) (\a -> liftIO (f s a) >>= go)
{-# INLINE foldM #-}

-- | Run an action for each value.
forEach :: (a -> IO ()) -> Pipe a o ()
forEach f = go where go = await >>= maybe (pure ()) (\a -> liftIO (f a) *> go)
{-# INLINE forEach #-}

-- | All values.
--
-- [Cost]: the list is built in memory, and returned when the input has ended.
toList :: Pipe a o [a]
toList = reverse <$> fold (flip (:)) []

-- | Await and drop all values.
drain :: Pipe a o ()
drain = forEach (\_ -> pure ())
