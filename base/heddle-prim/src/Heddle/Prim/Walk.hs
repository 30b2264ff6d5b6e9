{-# LANGUAGE MagicHash #-}
{-# LANGUAGE PatternSynonyms #-}
{-# LANGUAGE UnboxedTuples #-}

-- |
-- Module      : Heddle.Prim.Walk
-- Description : Actions that move along memory
-- Stability   : stable
--
-- An action that starts at an address and ends at another, as readers and writers of bytes
-- do. The address stays in a register from one action to the next, also where the next one is
-- not known to the compiler; nothing is allocated for it.
--
-- Cost: a call for each action that is not inlined.
-- Owner: the memory is the caller's, and only while the call lasts.
module Heddle.Prim.Walk
  ( Walk,
    At (..),
    walk,
    lasting,
    walkFrom,
    stepping,
    asking,
  )
where

import Control.Monad.IO.Class (MonadIO (..))
import Data.Word (Word8)
import GHC.Exts (Addr#, Ptr (..), RealWorld, State#, oneShot)
import GHC.IO (IO (..))

-- | An action over memory, in an environment, with a result.
newtype Walk env a = Bare (env -> Addr# -> State# RealWorld -> (# State# RealWorld, Addr#, a #))

{- HLINT ignore "Avoid lambda" -}
-- The lambdas of 'Walk' are what it is for.

-- | An action that is mostly run once where it is made: what it needs is then computed when it
-- runs, and computed again if it runs again, instead of kept in closures between the two.
pattern Walk :: (env -> Addr# -> State# RealWorld -> (# State# RealWorld, Addr#, a #)) -> Walk env a
pattern Walk m <-
  Bare m
  where
    Walk m = Bare (oneShot (\env -> oneShot (\a -> oneShot (\s -> m env a s))))

{-# COMPLETE Walk #-}

-- | Where an action ended, and its result.
data At a = At !(Ptr Word8) a

-- | The action that starts at an address and says where it ends.
--
-- [Cost]: none, where the function is known: neither the pair nor the pointers are made.
walk :: (env -> Ptr Word8 -> IO (At a)) -> Walk env a
walk f = Walk (\env a s -> case f env (Ptr a) of IO m -> case m s of (# s', At (Ptr a') x #) -> (# s', a', x #))
{-# INLINE walk #-}

-- | The same for an action that is made once and run often: what it needs is computed once, and kept.
--
-- [Cost]: none, where the function is known.
lasting :: (env -> Ptr Word8 -> IO (At a)) -> Walk env a
lasting f = Bare (\env a s -> case f env (Ptr a) of IO m -> case m s of (# s', At (Ptr a') x #) -> (# s', a', x #))
{-# INLINE lasting #-}

-- | Run it from an address.
--
-- [Cost]: none, besides what it does.
walkFrom :: Walk env a -> env -> Ptr Word8 -> IO (At a)
walkFrom (Walk f) env (Ptr a) = IO (\s -> case f env a s of (# s', a', x #) -> (# s', At (Ptr a') x #))
{-# INLINE walkFrom #-}

-- | The action that only moves.
--
-- [Cost]: none, where the function is known.
stepping :: (env -> Ptr Word8 -> IO (Ptr Word8)) -> Walk env ()
stepping f = Walk (\env a s -> case f env (Ptr a) of IO m -> case m s of (# s', Ptr a' #) -> (# s', a', () #))
{-# INLINE stepping #-}

-- | The environment.
--
-- [Cost]: none.
asking :: Walk env env
asking = Walk (\env a s -> (# s, a, env #))
{-# INLINE asking #-}

instance Functor (Walk env) where
  fmap f (Walk m) = Walk (\env a s -> case m env a s of (# s', a', x #) -> (# s', a', f x #))
  {-# INLINE fmap #-}

instance Applicative (Walk env) where
  pure x = Walk (\_ a s -> (# s, a, x #))
  {-# INLINE pure #-}
  Walk mf <*> Walk mx = Walk $ \env a s -> case mf env a s of
    (# s', a', f #) -> case mx env a' s' of (# s'', a'', x #) -> (# s'', a'', f x #)
  {-# INLINE (<*>) #-}
  Walk mx *> Walk my = Walk $ \env a s -> case mx env a s of (# s', a', _ #) -> my env a' s'
  {-# INLINE (*>) #-}
  Walk mx <* Walk my = Walk $ \env a s -> case mx env a s of
    (# s', a', x #) -> case my env a' s' of (# s'', a'', _ #) -> (# s'', a'', x #)
  {-# INLINE (<*) #-}

instance Monad (Walk env) where
  Walk m >>= k = Walk $ \env a s -> case m env a s of (# s', a', x #) -> case k x of Walk n -> n env a' s'
  {-# INLINE (>>=) #-}

-- | Effects besides; the address stays.
instance MonadIO (Walk env) where
  liftIO (IO m) = Walk (\_ a s -> case m s of (# s', x #) -> (# s', a, x #))
  {-# INLINE liftIO #-}
