{-# LANGUAGE MagicHash #-}
{-# LANGUAGE UnboxedTuples #-}

-- |
-- Module      : Heddle.Prim.Keeper
-- Description : A finalizer for a resource that a record represents
-- Stability   : stable
--
-- A record that represents a resource holds a 'Keeper'. When the garbage collector finds the keeper
-- unreachable, its action runs. The keeper is a separate heap object, because the optimiser may unpack the
-- record; so a user of the resource states how long it is needed ('keeping').
--
-- Cost: a keeper is about 100 bytes, and each collection of its generation visits it.
-- Owner: the record that holds it.
module Heddle.Prim.Keeper
  ( Keeper,
    newKeeper,
    keeping,
  )
where

import Control.Monad (void)
import Data.IORef (mkWeakIORef, newIORef)
import GHC.Exts (touch#)
import GHC.IO (IO (..))
import GHC.IORef (IORef (..))
import GHC.STRef (STRef (..))

-- | Runs an action some time after it has become unreachable.
newtype Keeper = Keeper (IORef ())

-- | A keeper. The action must be short, must not park, and may never run if the program
-- ends first. It must not refer to the keeper.
--
-- [Cost]: a weak pointer.
-- [Blocks]: never.
newKeeper :: IO () -> IO Keeper
newKeeper action = do
  ref <- newIORef ()
  void (mkWeakIORef ref action)
  pure (Keeper ref)

-- | Keep it reachable until the action returns. If the action throws, it may be collected earlier.
--
-- [Cost]: none.
keeping :: Keeper -> IO a -> IO a
keeping (Keeper (IORef (STRef var))) action = do
  r <- action
  IO (\s -> (# touch# var s, () #))
  pure r
{-# INLINE keeping #-}
