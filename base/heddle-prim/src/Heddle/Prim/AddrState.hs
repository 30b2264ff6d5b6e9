{-# LANGUAGE MagicHash #-}
{-# LANGUAGE PatternSynonyms #-}
{-# LANGUAGE UnboxedTuples #-}

-- |
-- Module      : Heddle.Prim.AddrState
-- Description : The address-threading monad, for readers and writers of bytes
-- Stability   : stable
--
-- A state monad over 'IO' whose state is an address: each action starts where the action before it ended.
-- The address stays in a register from one action to the next, even where the compiler does not know the
-- next action, and nothing is allocated for it. An environment is passed along unchanged.
--
-- Cost: a call for each action that is not inlined.
-- Owner: the caller lends the memory for the call.
module Heddle.Prim.AddrState
  ( AddrState,
    At (..),
    addrState,
    reusableAddrState,
    runAddrState,
    advancing,
    environment,
  )
where

import Control.Monad.IO.Class (MonadIO (..))
import Data.Word (Word8)
import GHC.Exts (Addr#, Ptr (..), RealWorld, State#, lazy, oneShot)
import GHC.IO (IO (..))

-- | An action that starts at one address, ends at another and has a result.
newtype AddrState env a = Bare (env -> Addr# -> State# RealWorld -> (# State# RealWorld, Addr#, a #))

{- HLINT ignore "Avoid lambda" -}
-- 'oneShot' works only on a literal lambda.

-- | An action that usually runs once where it is made. What it needs is computed when it runs, and again
-- if it runs again, instead of being kept in closures.
pattern AddrState :: (env -> Addr# -> State# RealWorld -> (# State# RealWorld, Addr#, a #)) -> AddrState env a
pattern AddrState m <-
  Bare m
  where
    AddrState m = Bare (oneShot (\env -> oneShot (\a -> oneShot (\s -> m env a s))))

{-# COMPLETE AddrState #-}

-- | The address at which an action ended, and its result.
data At a = At !(Ptr Word8) a

-- | An action from a function of the environment and the start address. The function must not be run often
-- with one partial application; for that, see 'reusableAddrState'.
--
-- [Cost]: none if the function is known: neither the pair nor the pointers are allocated.
addrState :: (env -> Ptr Word8 -> IO (At a)) -> AddrState env a
addrState f = AddrState (\env a s -> case f env (Ptr a) of IO m -> case m s of (# s', At (Ptr a') x #) -> (# s', a', x #))
{-# INLINE addrState #-}

-- | As 'addrState', for an action that is made once and run often: what it needs is computed once and kept.
--
-- [Cost]: none where the function is known.
reusableAddrState :: (env -> Ptr Word8 -> IO (At a)) -> AddrState env a
reusableAddrState f = Bare (\env a s -> case f env (Ptr a) of IO m -> case m s of (# s', At (Ptr a') x #) -> (# s', a', x #))
{-# INLINE reusableAddrState #-}

-- | Run an action from an address.
--
-- [Cost]: the action's.
runAddrState :: AddrState env a -> env -> Ptr Word8 -> IO (At a)
runAddrState (AddrState f) env (Ptr a) = IO (\s -> case f env a s of (# s', a', x #) -> (# s', At (Ptr a') x #))
{-# INLINE runAddrState #-}

-- | An action without a result: the function returns the end address.
--
-- [Cost]: none where the function is known.
advancing :: (env -> Ptr Word8 -> IO (Ptr Word8)) -> AddrState env ()
advancing f = AddrState (\env a s -> case f env (Ptr a) of IO m -> case m s of (# s', Ptr a' #) -> (# s', a', lazy () #))
{-# INLINE advancing #-}

-- Note [The unit stays a result]
-- ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
-- GHC 9.4 and later see that the result is always (), leave it out of what the worker of an action returns, and put
-- it back behind each call, which is then no tail call any more: a return address and 48 bytes of code for each
-- literal of a Put. 'lazy' hides the constructor until the last pass, where it vanishes.

-- | The environment; the address stays.
--
-- [Cost]: none.
environment :: AddrState env env
environment = AddrState (\env a s -> (# s, a, env #))
{-# INLINE environment #-}

instance Functor (AddrState env) where
  fmap f (AddrState m) = AddrState (\env a s -> case m env a s of (# s', a', x #) -> (# s', a', f x #))
  {-# INLINE fmap #-}

instance Applicative (AddrState env) where
  pure x = AddrState (\_ a s -> (# s, a, x #))
  {-# INLINE pure #-}
  AddrState mf <*> AddrState mx = AddrState $ \env a s -> case mf env a s of
    (# s', a', f #) -> case mx env a' s' of (# s'', a'', x #) -> (# s'', a'', f x #)
  {-# INLINE (<*>) #-}
  AddrState mx *> AddrState my = AddrState $ \env a s -> case mx env a s of (# s', a', _ #) -> my env a' s'
  {-# INLINE (*>) #-}
  AddrState mx <* AddrState my = AddrState $ \env a s -> case mx env a s of
    (# s', a', x #) -> case my env a' s' of (# s'', a'', _ #) -> (# s'', a'', x #)
  {-# INLINE (<*) #-}

instance Monad (AddrState env) where
  AddrState m >>= k = AddrState $ \env a s -> case m env a s of (# s', a', x #) -> case k x of AddrState n -> n env a' s'
  {-# INLINE (>>=) #-}

-- | Effects that leave the address unchanged.
instance MonadIO (AddrState env) where
  liftIO (IO m) = AddrState (\_ a s -> case m s of (# s', x #) -> (# s', a, x #))
  {-# INLINE liftIO #-}
