{-# LANGUAGE ExistentialQuantification #-}

-- |
-- Module      : Heddle.Http.Exception
-- Description : The root of this package's exceptions
-- Stability   : stable
--
-- Cost: none; values.
-- Owner: values.
module Heddle.Http.Exception
  ( HttpException (..),
    fromHttp,
    ConnectionLost (..),
  )
where

import Data.Typeable (cast)
import Heddle.Prim.Exception (Exception (..), SomeException)

-- | Any exception of this package: to catch it is to catch 'Heddle.Http.BodyError' and
-- 'Heddle.Http.UnsafeHeader', and in a writer also that the client has gone.
data HttpException = forall e. Exception e => HttpException e

instance Show HttpException where
  showsPrec d (HttpException e) = showsPrec d e

instance Exception HttpException where
  displayException (HttpException e) = displayException e

-- | The client is gone or too slow. The engine catches it and closes the connection.
data ConnectionLost = ConnectionLost
  deriving stock (Show)

instance Exception ConnectionLost where
  toException = toException . HttpException
  fromException = fromHttp
  displayException ConnectionLost = "the client went away"

-- | 'fromException' of an exception below the root.
fromHttp :: Exception e => SomeException -> Maybe e
fromHttp e = fromException e >>= \(HttpException x) -> cast x
