{-# LANGUAGE MagicHash #-}
{-# LANGUAGE UnboxedTuples #-}

-- |
-- Module      : Heddle.Prim.Keeper
-- Description : Clean up when nothing refers to a thing any more
-- Stability   : stable
--
-- A 'Keeper' is put into a value that stands for a resource. When the collector finds that
-- nothing refers to the keeper any more, its action runs. The keeper is an object of its
-- own, since a record that holds it may be taken apart by the optimiser; so whoever uses
-- the resource says until when ('keeping').
--
-- Cost: a keeper is about 100 bytes, and each collection of its generation looks at it.
-- Owner: whoever holds it.
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

-- | Keep it until the action has returned. If the action throws, it may go at once.
--
-- [Cost]: none.
keeping :: Keeper -> IO a -> IO a
keeping (Keeper (IORef (STRef var))) action = do
  r <- action
  IO (\s -> (# touch# var s, () #))
  pure r
{-# INLINE keeping #-}
