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
    ReplyMisuse (..),
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

-- | A handler's misuse of 'Heddle.Http.replyNow'.
data ReplyMisuse
  = -- | It replied a second time. The second reply was not sent.
    RepliedTwice
  | -- | It answered 'Heddle.Http.Replied' without having replied.
    NotReplied
  | -- | A writer was used after its reply had ended.
    WrittenLate
  deriving stock (Eq, Show)

instance Exception ReplyMisuse where
  toException = toException . HttpException
  fromException = fromHttp
  displayException = \case
    RepliedTwice -> "a handler replied twice to one request; the second reply was not sent"
    NotReplied -> "a handler said that it had replied, and had not"
    WrittenLate -> "a reply's writer was used after the reply had ended"

-- | 'fromException' of an exception below the root.
fromHttp :: Exception e => SomeException -> Maybe e
fromHttp e = fromException e >>= \(HttpException x) -> cast x
