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
    UnsendableReply (..),
    StreamCancelled (..),
    isInterruption,
  )
where

import Data.Typeable (cast)
import Heddle.IO.Service (HandlerInterrupted (..))
import Heddle.Prim.Exception (Exception (..), SomeException, asyncExceptionFromException, asyncExceptionToException)

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
  displayException ConnectionLost = "the client went away, or took the reply too slowly"

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

-- | A handler's reply that would break the protocol, so that a client could take what follows for a part of it, or it for another
-- message. The client is sent 500.
--
-- [Source]: RFC 9110, sections 8.6, 15 and 15.3.6.
data UnsendableReply
  = -- | A status that is not one of 200 to 999, the only ones that end a request.
    NoFinalStatus !Int
  | -- | The length of content, or of a piece of it, or a place in a file.
    NegativeLength !Int
  | -- | Content of a reply that must have none: of status 205.
    ContentForbidden !Int
  deriving stock (Eq)

instance Show UnsendableReply where
  showsPrec d e = showParen (d > 10) (showString (displayException e))

instance Exception UnsendableReply where
  toException = toException . HttpException
  fromException = fromHttp
  displayException = \case
    NoFinalStatus code -> "cannot send a reply of status " ++ show code ++ ": only 200 to 999 end a request"
    NegativeLength n -> "cannot send a reply with the length or offset " ++ show n
    ContentForbidden code -> "cannot send the content of a reply of status " ++ show code ++ ", which has none"

-- | Ends a handler whose stream is over: the client has reset it, or has gone. Only the engine throws
-- it, and only to threads that it has started for a stream.
data StreamCancelled = StreamCancelled
  deriving stock (Show)

instance Exception StreamCancelled where
  toException = asyncExceptionToException
  fromException = asyncExceptionFromException
  displayException StreamCancelled = "the client has reset the stream, or has gone"

-- | Did the engine throw it to end a handler, because the server has ended or an HTTP/2 client has
-- given up the stream? Nobody waits for an answer then, and a handler that catches everything
-- throws it on. Whatever else ends a handler is its own failure, a @ThreadKilled@ that its
-- program throws and a stack overflow too: it is reported, and the client gets 500.
--
-- [Cost]: O(1).
isInterruption :: SomeException -> Bool
isInterruption e
  | Just StreamCancelled <- fromException e = True
  | Just HandlerInterrupted <- fromException e = True
  | otherwise = False

-- | 'fromException' of an exception below the root.
fromHttp :: Exception e => SomeException -> Maybe e
fromHttp e = fromException e >>= \(HttpException x) -> cast x
