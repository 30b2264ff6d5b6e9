{-# LANGUAGE MagicHash #-}
{-# LANGUAGE UnboxedTuples #-}
{-# OPTIONS_HADDOCK not-home #-}

-- |
-- Module      : Heddle.Json.Internal.Stride
-- Description : Actions that move along memory with a state
-- Stability   : internal; exempt from the version policy
--
-- Like "Heddle.Prim.Walk", with a state besides that is passed in a register from one action to
-- the next. Results are evaluated when they are there.
--
-- Cost: a call for each action that is not inlined.
-- Owner: the memory is the caller's, and only while the call lasts.
module Heddle.Json.Internal.Stride
  ( Stride,
    Reached (..),
    stride,
    strideFrom,
  )
where

import Data.Word (Word8)
import GHC.Exts (Addr#, Ptr (..), RealWorld, State#)
import GHC.IO (IO (..))

-- | An action over memory, with a state, in an environment, with a result.
newtype Stride state env a = Stride (env -> state -> Addr# -> State# RealWorld -> (# State# RealWorld, state, Addr#, a #))

-- | The state and the place where an action ended, and its result.
data Reached state a = Reached !state !(Ptr Word8) !a

-- | The action that starts in a state at an address and says where it ends.
--
-- [Cost]: none, where the function is known.
stride :: (env -> state -> Ptr Word8 -> IO (Reached state a)) -> Stride state env a
stride f = Stride $ \env now a s ->
  case f env now (Ptr a) of IO m -> case m s of (# s', Reached now' (Ptr a') x #) -> (# s', now', a', x #)
{-# INLINE stride #-}

-- | Run it from a state and an address.
--
-- [Cost]: none, besides what it does.
strideFrom :: Stride state env a -> env -> state -> Ptr Word8 -> IO (Reached state a)
strideFrom (Stride f) env now (Ptr a) =
  IO (\s -> case f env now a s of (# s', now', a', x #) -> (# s', Reached now' (Ptr a') x #))
{-# INLINE strideFrom #-}

instance Functor (Stride state env) where
  fmap f (Stride m) = Stride $ \env now a s -> case m env now a s of
    (# s', now', a', x #) -> case f x of !y -> (# s', now', a', y #)
  {-# INLINE fmap #-}

instance Applicative (Stride state env) where
  pure x = Stride (\_ now a s -> (# s, now, a, x #))
  {-# INLINE pure #-}
  Stride mf <*> Stride mx = Stride $ \env now a s -> case mf env now a s of
    (# s', now', a', f #) -> case mx env now' a' s' of
      (# s'', now'', a'', x #) -> case f x of !y -> (# s'', now'', a'', y #)
  {-# INLINE (<*>) #-}
