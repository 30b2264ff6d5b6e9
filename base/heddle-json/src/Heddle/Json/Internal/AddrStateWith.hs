{-# LANGUAGE MagicHash #-}
{-# LANGUAGE UnboxedTuples #-}
{-# OPTIONS_HADDOCK not-home #-}

-- |
-- Module      : Heddle.Json.Internal.AddrStateWith
-- Description : The address-threading functor, with a second state
-- Stability   : internal, exempt from the version policy
--
-- "Heddle.Prim.AddrState" with a second state, which each action passes to the next in a register.
-- Results are evaluated to weak head normal form.
--
-- Cost: a call for each action that is not inlined.
-- Owner: the caller lends the memory for the call.
module Heddle.Json.Internal.AddrStateWith
  ( AddrStateWith,
    Reached (..),
    addrStateWith,
    runAddrStateWith,
  )
where

import Data.Word (Word8)
import GHC.Exts (Addr#, Ptr (..), RealWorld, State#)
import GHC.IO (IO (..))

-- | An action that takes an address and a state, and returns new ones with a result.
newtype AddrStateWith state env a = AddrStateWith (env -> state -> Addr# -> State# RealWorld -> (# State# RealWorld, state, Addr#, a #))

-- | The state and the address at which an action ended, and its result.
data Reached state a = Reached !state !(Ptr Word8) !a

-- | An action from a function.
--
-- [Cost]: none where the function is known.
addrStateWith :: (env -> state -> Ptr Word8 -> IO (Reached state a)) -> AddrStateWith state env a
addrStateWith f = AddrStateWith $ \env now a s ->
  case f env now (Ptr a) of IO m -> case m s of (# s', Reached now' (Ptr a') x #) -> (# s', now', a', x #)
{-# INLINE addrStateWith #-}

-- | Run an action from a state and an address.
--
-- [Cost]: the action's.
runAddrStateWith :: AddrStateWith state env a -> env -> state -> Ptr Word8 -> IO (Reached state a)
runAddrStateWith (AddrStateWith f) env now (Ptr a) =
  IO (\s -> case f env now a s of (# s', now', a', x #) -> (# s', Reached now' (Ptr a') x #))
{-# INLINE runAddrStateWith #-}

instance Functor (AddrStateWith state env) where
  fmap f (AddrStateWith m) = AddrStateWith $ \env now a s -> case m env now a s of
    (# s', now', a', x #) -> case f x of !y -> (# s', now', a', y #)
  {-# INLINE fmap #-}

instance Applicative (AddrStateWith state env) where
  pure x = AddrStateWith (\_ now a s -> (# s, now, a, x #))
  {-# INLINE pure #-}
  AddrStateWith mf <*> AddrStateWith mx = AddrStateWith $ \env now a s -> case mf env now a s of
    (# s', now', a', f #) -> case mx env now' a' s' of
      (# s'', now'', a'', x #) -> case f x of !y -> (# s'', now'', a'', y #)
  {-# INLINE (<*>) #-}
