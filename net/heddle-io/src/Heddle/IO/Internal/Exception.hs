{-# LANGUAGE ExistentialQuantification #-}

-- |
-- Module      : Heddle.IO.Internal.Exception
-- Description : The root of this package's exceptions
-- Stability   : internal, exempt from the version policy
--
-- Cost: none; values.
-- Owner: values.
module Heddle.IO.Internal.Exception
  ( HeddleIOException (..),
    fromHeddleIO,
  )
where

import Data.Typeable (cast)
import Heddle.Prim.Exception (Exception (..), SomeException)

-- | Any exception of this package: to catch it is to catch 'Heddle.IO.IOClosed',
-- 'Heddle.IO.ConnectError', 'Heddle.Timer.TimerClosed' and 'Heddle.IO.IOManagerError'. What the
-- system refuses is an 'IOError' with its errno, as everywhere in Haskell.
data HeddleIOException = forall e. Exception e => HeddleIOException e

instance Show HeddleIOException where
  showsPrec d (HeddleIOException e) = showsPrec d e

instance Exception HeddleIOException where
  displayException (HeddleIOException e) = displayException e

-- | 'fromException' of an exception below the root.
fromHeddleIO :: Exception e => SomeException -> Maybe e
fromHeddleIO e = fromException e >>= \(HeddleIOException x) -> cast x
