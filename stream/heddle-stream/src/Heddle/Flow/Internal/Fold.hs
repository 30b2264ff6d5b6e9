-- |
-- Module      : Heddle.Flow.Internal.Fold
-- Description : What becomes of elements in the end
-- Stability   : internal
--
-- Sinks. Those that know their result before the end of the input have then had enough,
-- which stops the source.
--
-- Cost: nothing for each element, besides their functions'. States are evaluated at every
-- step, so no thunks build up.
-- Owner: a run; a sink's state begins with it.
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

-- | A function of the state so far and each element.
--
-- [Cost]: 0 bytes, besides the function's.
fold :: (t -> a -> t) -> t -> Sink a t
fold f = foldM (\t x -> pure (f t x))
{-# INLINE fold #-}

-- | The same by an action.
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

-- | The sum of all.
--
-- [Cost]: 0 bytes for machine numbers.
sum :: Num a => Sink a a
sum = fold (+) 0
{-# INLINE sum #-}

-- | The product of all.
--
-- [Cost]: 0 bytes for machine numbers.
product :: Num a => Sink a a
product = fold (*) 1
{-# INLINE product #-}

-- | How many there are.
--
-- [Cost]: 0 bytes.
length :: Sink a Int
length = fold (\n _ -> n + 1) 0
{-# INLINE length #-}

-- | The least one, the first of equal ones.
--
-- [Cost]: a comparison each; 0 bytes for most.
minimum :: Ord a => Sink a (Maybe a)
minimum = best (flip (<))
{-# INLINE minimum #-}

-- | The greatest one, the first of equal ones.
--
-- [Cost]: a comparison each; 0 bytes for most.
maximum :: Ord a => Sink a (Maybe a)
maximum = best (flip (>))
{-# INLINE maximum #-}

best :: (a -> a -> Bool) -> Sink a (Maybe a)
best better = seen <$> fold (\(Seen n x) y -> let !z = if n == 0 || better x y then y else x in Seen 1 z) unseen
{-# INLINE best #-}

-- | The first one. It has then had enough.
--
-- [Cost]: 0 bytes.
head :: Sink a (Maybe a)
head = Sink (pure (Start () Going)) (\_ x _ enough -> enough x) (\case More () -> pure Nothing; Enough x -> pure (Just x))
{-# INLINE head #-}

-- | The last one.
--
-- [Cost]: 16 bytes for each element.
last :: Sink a (Maybe a)
last = seen <$> fold (\_ !x -> Seen 1 x) unseen
{-# INLINE last #-}

-- | The first one of which something is true. It has then had enough.
--
-- [Cost]: 0 bytes.
find :: (a -> Bool) -> Sink a (Maybe a)
find p = filter p `into` head
{-# INLINE find #-}

-- | Is something true of any? It has had enough when it knows.
--
-- [Cost]: 0 bytes.
any :: (a -> Bool) -> Sink a Bool
any p = maybe False (const True) <$> find p
{-# INLINE any #-}

-- | Is something true of all? It has had enough when it knows.
--
-- [Cost]: 0 bytes.
all :: (a -> Bool) -> Sink a Bool
all p = maybe True (const False) <$> find (not . p)
{-# INLINE all #-}

-- | All of them, in order, in memory.
--
-- [Cost]: 48 bytes for each element.
toList :: Sink a [a]
toList = reverse <$> fold (flip (:)) []
{-# INLINE toList #-}

-- | Take all and do nothing with them.
--
-- [Cost]: 0 bytes.
drain :: Sink a ()
drain = fold (\() _ -> ()) ()
{-# INLINE drain #-}

-- | An action for each, such as sending it.
--
-- [Cost]: 0 bytes, besides the action's.
mapM_ :: (a -> IO ()) -> Sink a ()
mapM_ f = foldM (\() x -> f x) ()
{-# INLINE mapM_ #-}

-- | Write all to a handle. Leaves the handle open.
--
-- [Cost]: copies each piece into the handle's buffer, if it fits.
-- [Blocks]: parks the thread, or holds an OS thread, as writing to handles does.
-- [Throws]: 'IOError'.
toHandle :: Handle -> Sink ByteString ()
toHandle h = mapM_ (B.hPut h)
{-# INLINE toHandle #-}

-- | Write all of a source to a file, which is replaced.
--
-- [Cost]: copies each piece into the handle's buffer, if it fits.
-- [Blocks]: as the source does; parks the thread, or holds an OS thread, as writing to
-- handles does.
-- [Throws]: 'IOError', and what the source throws; the file is closed all the same.
toFile :: FilePath -> Source ByteString -> IO ()
toFile path source = bracket (openBinaryFile path WriteMode) hClose (run source . toHandle)
{-# INLINE toFile #-}
