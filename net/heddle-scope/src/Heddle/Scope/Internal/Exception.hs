{-# LANGUAGE ExistentialQuantification #-}

-- |
-- Module      : Heddle.Scope.Internal.Exception
-- Description : The root of this package's exceptions
-- Stability   : internal, exempt from the version policy
--
-- Cost: none; values.
-- Owner: values.
module Heddle.Scope.Internal.Exception
  ( ScopeException (..),
    fromScope,
  )
where

import Data.Typeable (cast)
import Heddle.Prim.Exception (Exception (..), SomeException)

-- | Any exception of this package: to catch it is to catch 'Heddle.Scope.TaskFailed',
-- 'Heddle.Scope.TaskCancelled', 'Heddle.Scope.ScopeClosed' and 'Heddle.Channel.ChannelDeserted'.
data ScopeException = forall e. Exception e => ScopeException e

instance Show ScopeException where
  showsPrec d (ScopeException e) = showsPrec d e

instance Exception ScopeException where
  displayException (ScopeException e) = displayException e

-- | 'fromException' of an exception below the root.
fromScope :: Exception e => SomeException -> Maybe e
fromScope e = fromException e >>= \(ScopeException x) -> cast x
