{-# LANGUAGE MultiWayIf #-}

-- |
-- Module      : Heddle.Json.Internal.Array
-- Description : Decoders of arrays
-- Stability   : internal; exempt from the version policy
--
-- "Heddle.Json.Decode" has the ones for users.
--
-- Cost: a comparison or two for each element, besides its own decoder.
-- Owner: the thread that decodes.
module Heddle.Json.Internal.Array
  ( list,
    foldElements,
    elementsIO,
    nonEmpty,
    sequenceOf,
    setOf,
    primArray,
    pairOf,
    tripleOf,
    Elements,
    element,
    tupleOf,
  )
where

import Control.Monad.Primitive (RealWorld)
import Data.List.NonEmpty (NonEmpty (..))
import Data.Primitive.PrimArray
import Data.Primitive.Types (Prim)
import Data.Sequence (Seq)
import Data.Sequence qualified as Seq
import Data.Set (Set)
import Data.Set qualified as Set
import Data.Word (Word8)
import Foreign.Ptr (Ptr, minusPtr, plusPtr)
import Heddle.Json.Internal.Decoder
import Heddle.Json.Internal.Foreign.Read (countCommas, sliceSize)
import Heddle.Json.Malformed (Reason (..))
import Heddle.Prim.AddrState (At (..))

-- Calls the function with the address of each element, and threads a state through the calls.
elementsFrom :: state -> (Env -> Ptr Word8 -> state -> IO (At state)) -> Env -> Ptr Word8 -> IO (At state)
elementsFrom start step env p = do
  c <- byteAt env p
  if c /= 0x5b
    then wrongKind env p "an array"
    else deeper env p $ \first -> do
      c' <- byteAt env first
      if
          | c' == 0x5d -> pure (At (first `plusPtr` 1) start)
          | beginsValue c' ->
            let go q !state = do
                  At r state' <- step env q state
                  separated env 0x5d "',' or ']'" r >>= \case
                    Comma next -> go next state'
                    Close end -> pure (At end state')
             in go first start
          | otherwise -> expected env first "a value or ']'"
{-# INLINE elementsFrom #-}

beginsValue :: Word8 -> Bool
beginsValue c = c - 0x30 < 10 || c == 0x22 || c == 0x7b || c == 0x5b || c == 0x2d || c == 0x74 || c == 0x66 || c == 0x6e
{-# INLINE beginsValue #-}

-- | All elements as a list.
--
-- [Cost]: six words for each element, three of which are garbage.
list :: Decoder a -> Decoder [a]
list d = reverse <$> backwards d
{-# INLINE list #-}

backwards :: Decoder a -> Decoder [a]
backwards = foldElements (flip (:)) []
{-# INLINE backwards #-}

-- | A strict left fold over the elements, without a list.
--
-- [Cost]: constant memory besides the state.
foldElements :: (state -> a -> state) -> state -> Decoder a -> Decoder state
foldElements f start d = decoder . elementsFrom start $ \env q state -> do
  At r x <- runDecoder d env q
  let !state' = f state x
  pure (At r state')
{-# INLINE foldElements #-}

-- | As 'foldElements', with an action.
--
-- [Cost]: constant memory besides the state.
elementsIO :: (state -> a -> IO state) -> state -> Decoder a -> Decoder state
elementsIO act start d = decoder . elementsFrom start $ \env q state -> do
  At r x <- runDecoder d env q
  state' <- act state x
  pure (At r state')
{-# INLINE elementsIO #-}

-- | A list of at least one element.
--
-- [Cost]: as 'list'.
nonEmpty :: Decoder a -> Decoder (NonEmpty a)
nonEmpty d = decoder $ \env p -> do
  At q elements <- runDecoder (list d) env p
  case elements of
    x : xs -> pure (At q (x :| xs))
    [] -> failAt env p (Refused "expected at least one element")
{-# INLINE nonEmpty #-}

-- | A sequence.
--
-- [Cost]: O(1) for each element.
sequenceOf :: Decoder a -> Decoder (Seq a)
sequenceOf d = Seq.fromList <$> list d
{-# INLINE sequenceOf #-}

-- | A set; equal elements are one.
--
-- [Cost]: O(n) if they ascend, else O(n log n).
setOf :: Ord a => Decoder a -> Decoder (Set a)
setOf d = Set.fromList <$> list d
{-# INLINE setOf #-}

data Growing a = Growing !(MutablePrimArray RealWorld a) !Int !Int

-- | An array of numbers without boxes.
--
-- [Cost]: its memory. Numbers are counted first, so that their array is allocated once.
primArray :: forall a. Prim a => Decoder a -> Decoder (PrimArray a)
primArray d = decoder $ \env p -> do
  -- If this is no array, decoding fails below, and another alternative may succeed: count nothing.
  c <- byteAt env p
  n <- if c == 0x5b then count env p 1 else pure 0
  start <- newPrimArray n
  At q (Growing array _ used) <-
    elementsFrom
      (Growing start n 0)
      ( \env' from (Growing array size used) -> do
          At r x <- runDecoder d env' from
          if used < size
            then do
              writePrimArray array used x
              pure (At r (Growing array size (used + 1)))
            else do
              larger <- resizeMutablePrimArray array (2 * size)
              writePrimArray larger used x
              pure (At r (Growing larger (2 * size) (used + 1)))
      )
      env
      p
  shrinkMutablePrimArray array used
  frozen <- unsafeFreezePrimArray array
  pure (At q (frozen :: PrimArray a))
  where
    count env from !total
      | left <= sliceSize = (\n -> total + n `quot` 2) <$> countCommas (envLevel env) from (envEnd env)
      | otherwise = do
        n <- countCommas (envLevel env) from (from `plusPtr` sliceSize)
        if odd n then pure (total + n `quot` 2) else count env (from `plusPtr` sliceSize) (total + n `quot` 2)
      where
        left = envEnd env `minusPtr` from
{-# INLINE primArray #-}

-- | The elements of an array of fixed length, one decoder for each.
data Elements a = Elements !Int (Env -> Ptr Word8 -> IO (At a))

instance Functor Elements where
  fmap f (Elements n run) = Elements n $ \env p -> do
    At q x <- run env p
    let !y = f x
    pure (At q y)
  {-# INLINE fmap #-}

-- | One after the other.
instance Applicative Elements where
  pure x = Elements 0 (\_ p -> pure (At p x))
  {-# INLINE pure #-}
  Elements 0 f <*> Elements m x = Elements m $ \env p -> do
    At q g <- f env p
    At r y <- x env q
    let !z = g y
    pure (At r z)
  Elements n f <*> Elements 0 x = Elements n $ \env p -> do
    At q g <- f env p
    At r y <- x env q
    let !z = g y
    pure (At r z)
  Elements n f <*> Elements m x = Elements (n + m) $ \env p -> do
    At q g <- f env p
    separated env 0x5d "',' or ']'" q >>= \case
      Close end -> failAt env (end `plusPtr` (-1)) (Refused "too few elements")
      Comma next -> do
        At r y <- x env next
        let !z = g y
        pure (At r z)
  {-# INLINE (<*>) #-}

-- | The decoder of one element.
element :: Decoder a -> Elements a
element d = Elements 1 (runDecoder d)
{-# INLINE element #-}

-- | An array with exactly these elements.
--
-- [Cost]: the elements'.
tupleOf :: Elements a -> Decoder a
tupleOf (Elements n run) = decoder $ \env p -> do
  c <- byteAt env p
  if c /= 0x5b
    then wrongKind env p "an array"
    else deeper env p $ \first -> do
      c' <- byteAt env first
      if
          | c' == 0x5d && n > 0 -> failAt env first (Refused (few n))
          | c' == 0x5d -> do
            At _ x <- run env first
            pure (At (first `plusPtr` 1) x)
          | n == 0 -> if beginsValue c' then failAt env first (Refused (few n)) else expected env first "a value or ']'"
          | not (beginsValue c') -> expected env first "a value or ']'"
          | otherwise -> do
            At q x <- run env first
            separated env 0x5d "',' or ']'" q >>= \case
              Close end -> pure (At end x)
              Comma next -> skipValue env next >> failAt env next (Refused (few n))
  where
    few m = "expected an array of " <> show m <> " elements"
{-# INLINE tupleOf #-}

-- | An array of exactly two elements.
--
-- [Cost]: the elements'.
pairOf :: Decoder a -> Decoder b -> Decoder (a, b)
pairOf a b = tupleOf ((,) <$> element a <*> element b)
{-# INLINE pairOf #-}

-- | An array of exactly three elements.
--
-- [Cost]: the elements'.
tripleOf :: Decoder a -> Decoder b -> Decoder c -> Decoder (a, b, c)
tripleOf a b c = tupleOf ((,,) <$> element a <*> element b <*> element c)
{-# INLINE tripleOf #-}
