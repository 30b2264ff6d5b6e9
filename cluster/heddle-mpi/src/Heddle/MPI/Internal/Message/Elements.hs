-- |
-- Module      : Heddle.MPI.Internal.Message.Elements
-- Description : Codecs of lists and other sequences
-- Stability   : internal, exempt from the version policy
--
-- The number of elements, followed by the elements. Elements of fixed size are written and
-- read at a stride, without a check for each.
--
-- Invariant: these codecs are 'Varying' and inspect the element codec only when they run, so
-- that a type may contain lists of itself.
-- Owner: nothing is stored.
-- Cost: linear; a list is read from its end if the elements have a fixed size, and
-- gathered and reversed otherwise.
module Heddle.MPI.Internal.Message.Elements
  ( listCodec,
    elementsCodec,
    unboxedCodec,
    arrayCodec,
  )
where

import Control.Monad (void)
import Data.Array.Base (IArray, bounds, elems, listArray, numElements)
import Data.Foldable qualified as Foldable
import Data.Ix (Ix, inRange, range, rangeSize)
import Data.Vector.Unboxed qualified as Unboxed
import Data.Word (Word8)
import Foreign.Ptr (Ptr, plusPtr)
import Foreign.Storable (poke, pokeByteOff)
import Heddle.MPI.Internal.Message.Codec

-- | A list.
--
-- [Cost]: linear; of elements of fixed size nothing else is allocated.
listCodec :: Codec a -> Codec [a]
listCodec = elementsCodec length id (const id)
{-# INLINE listCodec #-}

-- | Any sequence, given its length, its elements, and how to build it from a number of elements.
--
-- [Cost]: linear, and the functions.
elementsCodec :: (s -> Int) -> (s -> [a]) -> (Int -> [a] -> s) -> Codec a -> Codec s
elementsCodec count list make codec =
  Varying
    (\s -> measureList codec (count s) (list s))
    (\w s -> writeList codec w (count s) (list s))
    (\r -> receiveList codec r >>= \(Elements n xs) -> pure $! make n xs)
{-# INLINE elementsCodec #-}

-- | The elements that were read, and their number.
data Elements a = Elements !Int [a]

-- | The distance in bytes between elements; see Note [Nothing from nothing].
stride :: Int -> Int
stride = max 1
{-# INLINE stride #-}

measureList :: Codec a -> Int -> [a] -> Int
measureList codec n xs = case codec of
  Fixed each _ _ -> 8 + n * stride each
  _ -> Foldable.foldl' (\bytes x -> bytes + measured codec x) 8 xs
{-# INLINE measureList #-}

writeList :: Codec a -> Writer -> Int -> [a] -> IO ()
writeList codec w n xs = do
  at <- claim w 8
  pokeInt at n
  case codec of
    Fixed each put _ -> do
      first <- claim w (n * stride each)
      let go !to = \case
            [] -> pure ()
            y : ys -> do
              pad each to
              put to y
              go (to `plusPtr` stride each) ys
      go first xs
    _ -> do
      let go = \case
            [] -> pure ()
            y : ys -> written codec w y >> go ys
      go xs
{-# INLINE writeList #-}

receiveList :: Codec a -> Reader -> IO (Elements a)
receiveList codec r = case codec of
  Fixed each _ get -> do
    n <- consumeCount r (stride each)
    first <- consume r (n * stride each)
    let go !i ys
          | i < 0 = pure (Elements n ys)
          | otherwise = do
            !y <- get (first `plusPtr` (i * stride each))
            go (i - 1) (y : ys)
    go (n - 1) []
  _ -> do
    n <- consumeCount r 1
    let go !i ys
          | i >= n = pure (Elements n (reverse ys))
          | otherwise = do
            !y <- received codec r
            go (i + 1) (y : ys)
    go 0 []
{-# INLINE receiveList #-}

-- | An unboxed vector of any elements. Those of fixed size are not made into a list.
--
-- [Cost]: linear.
unboxedCodec :: Unboxed.Unbox a => Codec a -> Codec (Unboxed.Vector a)
unboxedCodec codec = Varying size put get
  where
    size xs = case codec of
      Fixed each _ _ -> 8 + Unboxed.length xs * stride each
      _ -> Unboxed.foldl' (\bytes x -> bytes + measured codec x) 8 xs
    put w xs = do
      at <- claim w 8
      pokeInt at (Unboxed.length xs)
      case codec of
        Fixed each write _ -> do
          first <- claim w (Unboxed.length xs * stride each)
          void (Unboxed.foldM' (\to x -> pad each to >> write to x >> pure (to `plusPtr` stride each)) first xs)
        _ -> Unboxed.mapM_ (written codec w) xs
    get r = case codec of
      Fixed each _ peekOne -> do
        n <- consumeCount r (stride each)
        first <- consume r (n * stride each)
        Unboxed.generateM n (\i -> peekOne (first `plusPtr` (i * stride each)))
      _ -> receiveList codec r >>= \(Elements n xs) -> pure $! Unboxed.fromListN n xs
{-# INLINE unboxedCodec #-}

-- | An array: its bounds, then its elements, whose number must match the bounds.
--
-- [Cost]: linear; the elements are made into a list.
arrayCodec :: (Ix i, IArray array e) => Codec (i, i) -> Codec e -> Codec (array i e)
arrayCodec indices codec =
  Varying
    (\a -> measured indices (bounds a) + measureList codec (numElements a) (elems a))
    (\w a -> written indices w (bounds a) >> writeList codec w (numElements a) (elems a))
    ( \r -> do
        at <- consume r 0
        limits <- received indices r
        Elements n xs <- receiveList codec r
        if fits limits n
          then pure $! listArray limits xs
          else refuse at ("expected the bounds of an array of " ++ show n ++ " elements, found others")
    )
{-# INLINE arrayCodec #-}

-- | Check that bounds match a number of elements. 'rangeSize' alone may have overflowed.
fits :: Ix i => (i, i) -> Int -> Bool
fits limits n
  | rangeSize limits /= n = False
  -- Listing a range that turns out to be empty may take for ever.
  | n == 0 = not (inRange limits (snd limits))
  | otherwise = null (drop n (range limits))

pokeInt :: Ptr Word8 -> Int -> IO ()
pokeInt at = pokeByteOff at 0
{-# INLINE pokeInt #-}

-- | An element without bytes leaves one that is 0.
pad :: Int -> Ptr Word8 -> IO ()
pad each to
  | each == 0 = poke to 0
  | otherwise = pure ()
{-# INLINE pad #-}
