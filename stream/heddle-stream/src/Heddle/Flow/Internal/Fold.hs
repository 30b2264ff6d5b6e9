-- |
-- Module      : Heddle.Flow.Internal.Fold
-- Description : Sinks
-- Stability   : internal
--
-- A sink that knows its result before the end of the input has then had enough, which stops the
-- source.
--
-- Cost: nothing for each element beside the functions' cost. States are evaluated at each step,
-- so no thunks build up.
-- Owner: a run; a sink's state begins with the run.
module Heddle.Flow.Internal.Fold
  ( fold,
    foldM,
    foldMap,
    sum,
    product,
    length,
    minimum,
    maximum,
    head,
    last,
    find,
    any,
    all,
    toList,
    drain,
    mapM_,
    toHandle,
    toFile,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Heddle.Flow.Internal.Stage (filter)
import Heddle.Flow.Internal.Types (Next (..), Seen (..), Sink (..), Source, Start (..), Stop (..), into, run, seen, unseen)
import Heddle.Prim.Exception (bracket)
import System.IO (Handle, IOMode (..), hClose, openBinaryFile)
import Prelude hiding (all, any, filter, foldMap, head, last, length, mapM_, maximum, minimum, product, sum)

-- | Combine a state with each element.
--
-- [Cost]: 0 bytes, besides the function's.
fold :: (t -> a -> t) -> t -> Sink a t
fold f = foldM (\t x -> pure (f t x))
{-# INLINE fold #-}

-- | As 'fold', by an action.
--
-- [Cost]: 0 bytes, besides the action's.
foldM :: (t -> a -> IO t) -> t -> Sink a t
foldM f t0 = Sink (pure (Start t0 Going)) (\t x more _ -> f t x >>= more) (\case More t -> pure t; Enough t -> pure t)
{-# INLINE foldM #-}

-- | Map to a monoid, and combine from the left.
--
-- [Cost]: 0 bytes, besides the monoid's.
foldMap :: Monoid m => (a -> m) -> Sink a m
foldMap f = fold (\m x -> m <> f x) mempty
{-# INLINE foldMap #-}

-- | The sum of the elements.
--
-- [Cost]: 0 bytes for machine numbers.
sum :: Num a => Sink a a
sum = fold (+) 0
{-# INLINE sum #-}

-- | The product of the elements.
--
-- [Cost]: 0 bytes for machine numbers.
product :: Num a => Sink a a
product = fold (*) 1
{-# INLINE product #-}

-- | The number of elements.
--
-- [Cost]: 0 bytes.
length :: Sink a Int
length = fold (\n _ -> n + 1) 0
{-# INLINE length #-}

-- | The least element, the first of equal ones.
--
-- [Cost]: a comparison each; 0 bytes for most types.
minimum :: Ord a => Sink a (Maybe a)
minimum = best (flip (<))
{-# INLINE minimum #-}

-- | The greatest element, the first of equal ones.
--
-- [Cost]: a comparison each; 0 bytes for most types.
maximum :: Ord a => Sink a (Maybe a)
maximum = best (flip (>))
{-# INLINE maximum #-}

best :: (a -> a -> Bool) -> Sink a (Maybe a)
best better = seen <$> fold (\(Seen n x) y -> let !z = if n == 0 || better x y then y else x in Seen 1 z) unseen
{-# INLINE best #-}

-- | The first element. The sink has then had enough.
--
-- [Cost]: 0 bytes.
head :: Sink a (Maybe a)
head = Sink (pure (Start () Going)) (\_ x _ enough -> enough x) (\case More () -> pure Nothing; Enough x -> pure (Just x))
{-# INLINE head #-}

-- | The last element.
--
-- [Cost]: 16 bytes for each element.
last :: Sink a (Maybe a)
last = seen <$> fold (\_ !x -> Seen 1 x) unseen
{-# INLINE last #-}

-- | The first element that satisfies a condition. The sink has then had enough.
--
-- [Cost]: 0 bytes.
find :: (a -> Bool) -> Sink a (Maybe a)
find p = filter p `into` head
{-# INLINE find #-}

-- | Whether any element satisfies a condition. The sink has had enough when it knows.
--
-- [Cost]: 0 bytes.
any :: (a -> Bool) -> Sink a Bool
any p = maybe False (const True) <$> find p
{-# INLINE any #-}

-- | Whether all elements satisfy a condition. The sink has had enough when it knows.
--
-- [Cost]: 0 bytes.
all :: (a -> Bool) -> Sink a Bool
all p = maybe True (const False) <$> find (not . p)
{-# INLINE all #-}

-- | All elements, in order, in memory.
--
-- [Cost]: 48 bytes for each element.
toList :: Sink a [a]
toList = reverse <$> fold (flip (:)) []
{-# INLINE toList #-}

-- | Consume all elements, for the effects upstream.
--
-- [Cost]: 0 bytes.
drain :: Sink a ()
drain = fold (\() _ -> ()) ()
{-# INLINE drain #-}

-- | Run an action for each element, such as sending it.
--
-- [Cost]: 0 bytes, besides the action's.
mapM_ :: (a -> IO ()) -> Sink a ()
mapM_ f = foldM (\() x -> f x) ()
{-# INLINE mapM_ #-}

-- | Write the elements to a handle. Leaves the handle open.
--
-- [Cost]: copies each piece into the handle's buffer, if it fits.
-- [Blocks]: parks the thread, or holds an OS thread, as writing to handles does.
-- [Throws]: 'IOError'.
toHandle :: Handle -> Sink ByteString ()
toHandle h = mapM_ (B.hPut h)
{-# INLINE toHandle #-}

-- | Run a source, and write its elements to a file, which is truncated first.
--
-- [Cost]: copies each piece into the handle's buffer, if it fits.
-- [Blocks]: as the source does; parks the thread, or holds an OS thread, as writing to
-- handles does.
-- [Throws]: 'IOError', and what the source throws; the file is closed in any case.
toFile :: FilePath -> Source ByteString -> IO ()
toFile path source = bracket (openBinaryFile path WriteMode) hClose (run source . toHandle)
{-# INLINE toFile #-}
