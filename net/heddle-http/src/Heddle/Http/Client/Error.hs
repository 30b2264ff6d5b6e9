-- |
-- Module      : Heddle.Http.Client.Error
-- Description : Why a request got no response
-- Stability   : hidden; "Heddle.Http.Client" exports it
--
-- One exception, which says what was asked of which origin, and a sum type for what happened.
--
-- Cost: none; values.
-- Owner: values.
module Heddle.Http.Client.Error
  ( ClientError (..),
    Failure (..),
    Stage (..),
    answerBegan,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString.Char8 qualified as C
import Heddle.Http.Client.Answer (AnswerFault, describeFault)
import Heddle.Http.Client.Url (Origin, renderOrigin)
import Heddle.Http.Exception (HttpException (..), fromHttp)
import Heddle.IO (ConnectError)
import Heddle.Prim.Errno (Errno, describeErrno)
import Heddle.Prim.Exception (Exception (..))

-- | A request that failed.
data ClientError = ClientError
  { errorOrigin :: !Origin,
    errorMethod :: !ByteString,
    -- | Without the query, which may hold a secret.
    errorPath :: !ByteString,
    errorFailure :: !Failure
  }
  deriving stock (Eq)

-- | What happened.
data Failure
  = -- | The request was not sent: its method is no token.
    BadMethodName
  | -- | The request was not sent: its target has a byte that a target cannot have, or a wrong form.
    BadRequestTarget
  | -- | The request was not sent: this header's name is no token, or its value has CR, LF or NUL.
    UnsafeRequestHeader !ByteString
  | -- | The request was not sent: the client itself writes this header.
    ReservedHeader !ByteString
  | -- | The client was closed.
    ClientClosed
  | -- | All connections that the settings allow stayed in use.
    NoConnectionFree
  | -- | The host's name has no address; the resolver's words.
    NotResolved !String
  | -- | No address of the host accepted; what each one did, in the order of trying.
    NotConnected ![ConnectError]
  | -- | The connection could not be secured, and why.
    NotSecured !String
  | -- | The proxy answered CONNECT with this status.
    ProxyRefused !Int
  | -- | The time was over in this stage.
    TooSlow !Stage
  | -- | The peer closed the connection in this stage.
    Ended !Stage
  | -- | The system refused in this stage.
    Broken !Stage !Errno
  | -- | The response cannot be understood for certain.
    BadAnswer !AnswerFault
  | -- | The content is longer than the caller accepts; the limit in bytes.
    ContentTooLarge !Int
  | -- | The body of the request was not as long as announced: announced, written.
    BodyLengthDiffers !Int !Int
  | -- | A redirection leads to no address that can be used, and why.
    BadRedirect !String
  | -- | More redirections than the caller follows; the limit.
    TooManyRedirects !Int
  | -- | The response was used after its request had ended.
    ResponseOver
  | -- | 'requestAttended' said that the request shall be given up.
    GivenUp
  deriving stock (Eq, Show)

-- | What was being done.
data Stage
  = Resolving
  | Connecting
  | Securing
  | AskingProxy
  | SendingRequest
  | -- | Nothing of the response had come.
    AwaitingAnswer
  | -- | A part of the response's head had come.
    ReadingHead
  | ReadingContent
  deriving stock (Bounded, Enum, Eq, Ord, Show)

instance Show ClientError where
  showsPrec d e = showParen (d > 10) (showString (displayException e))

instance Exception ClientError where
  toException = toException . HttpException
  fromException = fromHttp
  displayException (ClientError origin method path failure) =
    C.unpack method ++ " " ++ C.unpack path ++ " of " ++ renderOrigin origin ++ ": " ++ describe failure

describe :: Failure -> String
describe = \case
  BadMethodName -> "not sent: the method is not a token"
  BadRequestTarget -> "not sent: the target has a byte or a form that is not allowed; percent-encode it"
  UnsafeRequestHeader name -> "not sent: the header " ++ show name ++ " has no valid name, or holds CR, LF or NUL"
  ReservedHeader name -> "not sent: the client writes the header " ++ C.unpack name ++ " itself; see the fields of ClientRequest"
  ClientClosed -> "the client is closed"
  NoConnectionFree -> "no connection became free in time.\n  Raise clientPerOrigin or clientConnections, or read responses to their end sooner."
  NotResolved why -> "cannot look up the host: " ++ why
  NotConnected [failure] -> displayException failure
  NotConnected failures -> "no address of the host accepted the connection:" ++ concatMap (("\n  " ++) . takeWhile (/= '\n') . displayException) failures
  NotSecured why -> "cannot secure the connection: " ++ why
  ProxyRefused code -> "the proxy refused the tunnel with status " ++ show code
  TooSlow stage -> "the time was over while " ++ stageText stage
  Ended stage -> "the peer closed the connection while " ++ stageText stage
  Broken stage e -> "the connection failed while " ++ stageText stage ++ ": " ++ describeErrno e
  BadAnswer fault -> "the response is refused: " ++ describeFault fault
  ContentTooLarge limit -> "the content is longer than the " ++ show limit ++ " bytes that the caller accepts"
  BodyLengthDiffers announced written ->
    "the request's body was announced with " ++ show announced ++ " bytes, but " ++ show written ++ " were written"
  BadRedirect why -> "the redirection cannot be followed: " ++ why
  TooManyRedirects most -> "more than " ++ show most ++ " redirections follow one another"
  GivenUp -> "the request was given up"
  ResponseOver -> "the response was used after its request had ended; use it only inside withResponse"

stageText :: Stage -> String
stageText = \case
  Resolving -> "looking up the host"
  Connecting -> "connecting"
  Securing -> "securing the connection"
  AskingProxy -> "asking the proxy for a tunnel"
  SendingRequest -> "sending the request"
  AwaitingAnswer -> "waiting for the response"
  ReadingHead -> "reading the response's head"
  ReadingContent -> "reading the response's content"

-- | Whether a part of the response had come when it failed.
answerBegan :: Stage -> Bool
answerBegan = (>= ReadingHead)
