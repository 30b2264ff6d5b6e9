{-# LANGUAGE ExistentialQuantification #-}
{-# LANGUAGE PatternSynonyms #-}

-- |
-- Module      : Heddle.WebSocket.Exception
-- Description : Close codes, and how connections fail
-- Stability   : hidden; "Heddle.WebSocket" exports it
--
-- Cost: none; values.
-- Owner: values.
module Heddle.WebSocket.Exception
  ( -- * Close codes
    CloseCode (..),
    pattern NormalClosure,
    pattern GoingAway,
    pattern ProtocolFailure,
    pattern UnsupportedData,
    pattern NoCode,
    pattern LostCode,
    pattern InvalidPayload,
    pattern PolicyViolation,
    pattern TooBig,
    pattern ExtensionNeeded,
    pattern InternalFailure,
    pattern TryAgainLater,
    validCode,

    -- * Exceptions
    WebSocketException (..),
    ConnectionEnded (..),
    Violation (..),
    describeViolation,
    NotSent (..),
    HandshakeFailed (..),
    fromWebSocket,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString.Char8 qualified as C
import Data.Typeable (cast)
import Heddle.Bytes.Utf8 (Utf8)
import Heddle.Prim.Exception (Exception (..), SomeException)

-- | Why a connection ends, as a number of RFC 6455, section 7.4.
newtype CloseCode = CloseCode Int
  deriving stock (Eq, Ord)

instance Show CloseCode where
  showsPrec d (CloseCode n) = showsPrec d n

-- | The purpose is fulfilled.
pattern NormalClosure :: CloseCode
pattern NormalClosure = CloseCode 1000

-- | A server stops, or a page is left.
pattern GoingAway :: CloseCode
pattern GoingAway = CloseCode 1001

-- | The peer broke the protocol.
pattern ProtocolFailure :: CloseCode
pattern ProtocolFailure = CloseCode 1002

-- | A kind of data that the receiver cannot use.
pattern UnsupportedData :: CloseCode
pattern UnsupportedData = CloseCode 1003

-- | Never sent: the peer's Close had no code.
pattern NoCode :: CloseCode
pattern NoCode = CloseCode 1005

-- | Never sent: the connection ended without a Close.
pattern LostCode :: CloseCode
pattern LostCode = CloseCode 1006

-- | A text that is not UTF-8, or a message that cannot be decompressed.
pattern InvalidPayload :: CloseCode
pattern InvalidPayload = CloseCode 1007

-- | Against the rules of the application.
pattern PolicyViolation :: CloseCode
pattern PolicyViolation = CloseCode 1008

-- | A message is longer than the receiver accepts.
pattern TooBig :: CloseCode
pattern TooBig = CloseCode 1009

-- | The server did not agree to an extension that the client needs.
pattern ExtensionNeeded :: CloseCode
pattern ExtensionNeeded = CloseCode 1010

-- | The server failed.
pattern InternalFailure :: CloseCode
pattern InternalFailure = CloseCode 1011

-- | The server is overloaded.
pattern TryAgainLater :: CloseCode
pattern TryAgainLater = CloseCode 1013

-- | Whether a Close may carry the code: those assigned by RFC 6455 and IANA, and 3000 to 4999.
--
-- [Cost]: O(1).
validCode :: CloseCode -> Bool
validCode (CloseCode n) = n >= 1000 && n <= 1003 || n >= 1007 && n <= 1014 || n >= 3000 && n <= 4999

-- | Any exception of this package: to catch it is to catch 'ConnectionEnded', 'NotSent' and 'HandshakeFailed'.
data WebSocketException = forall e. Exception e => WebSocketException e

instance Show WebSocketException where
  showsPrec d (WebSocketException e) = showsPrec d e

instance Exception WebSocketException where
  displayException (WebSocketException e) = displayException e

-- | 'fromException' of an exception below the root.
fromWebSocket :: Exception e => SomeException -> Maybe e
fromWebSocket e = fromException e >>= \(WebSocketException x) -> cast x

-- | Why a connection can be used no longer. Calls in the direction concerned throw it every time.
data ConnectionEnded
  = -- | The peer sent a Close with this code ('NoCode' if it had none) and reason.
    PeerClosed !CloseCode !Utf8
  | -- | This side has sent a Close.
    Closed
  | -- | The connection ended without a Close, as code 1006 says; what the system answered.
    Lost !String
  | -- | The peer broke the protocol, and was told (1002 or 1007).
    Violated !Violation
  | -- | A message was longer than the limit, and the peer was told (1009). In bytes.
    TooLarge !Int
  | -- | The peer did not answer a ping in time, did not take what was sent, or did not answer a Close.
    TimedOut !String
  deriving stock (Eq)

instance Show ConnectionEnded where
  showsPrec d e = showParen (d > 10) (showString (displayException e))

instance Exception ConnectionEnded where
  toException = toException . WebSocketException
  fromException = fromWebSocket
  displayException = \case
    PeerClosed code reason -> "the WebSocket peer closed with code " ++ show code ++ ", reason " ++ show reason
    Closed -> "this side has closed the WebSocket connection"
    Lost what -> "the WebSocket connection ended without a Close (1006): " ++ what
    Violated violation -> "the WebSocket peer broke the protocol: " ++ describeViolation violation
    TooLarge limit ->
      "the WebSocket peer sent a message of more than " ++ show limit ++ " bytes.\n  Raise optionMessageLimit, or read the message with receivePiece."
    TimedOut what -> "the WebSocket peer was too slow: " ++ what

-- | What a peer did against the protocol.
data Violation
  = -- | A reserved bit that no extension uses.
    ReservedBit
  | -- | An opcode without a meaning.
    UnknownOpcode !Int
  | -- | A control frame that is not the only one of its message.
    FragmentedControl
  | -- | A control frame of more than 125 bytes.
    LongControl
  | -- | A client's frame without a mask.
    Unmasked
  | -- | A server's frame with a mask.
    Masked
  | -- | A length in more bytes than it needs.
    WastefulLength
  | -- | A length of 2^63 or more.
    ImpossibleLength
  | -- | A continuation without a beginning.
    NothingToContinue
  | -- | A message that begins within another one.
    MessageWithinMessage
  | -- | A Close with half a code.
    HalfCode
  | -- | A Close with a code that must not be sent.
    UnknownCode !Int
  | -- | A text, or the reason of a Close, that is not UTF-8.
    InvalidText
  | -- | A message that cannot be decompressed.
    InvalidDeflate
  deriving stock (Eq, Ord, Show)

-- | In words.
--
-- [Cost]: O(1).
describeViolation :: Violation -> String
describeViolation = \case
  ReservedBit -> "a frame with a reserved bit"
  UnknownOpcode n -> "a frame with the unknown opcode " ++ show n
  FragmentedControl -> "a control frame in fragments"
  LongControl -> "a control frame of more than 125 bytes"
  Unmasked -> "a client's frame without a mask"
  Masked -> "a server's frame with a mask"
  WastefulLength -> "a length in more bytes than it needs"
  ImpossibleLength -> "a length of 2^63 bytes or more"
  NothingToContinue -> "a continuation without a beginning"
  MessageWithinMessage -> "a message within a message"
  HalfCode -> "a Close with half a code"
  UnknownCode n -> "a Close with code " ++ show n
  InvalidText -> "a text that is not UTF-8"
  InvalidDeflate -> "a message that cannot be decompressed"

-- | A call that cannot be carried out. The connection is as before.
data NotSent
  = -- | A Close with this code is not allowed.
    CodeNotAllowed !CloseCode
  | -- | A ping or a reason of this many bytes: at most 125 and 123.
    ControlTooLong !Int
  | -- | A piece after the end of its message.
    MessageOver
  deriving stock (Eq)

instance Show NotSent where
  showsPrec d e = showParen (d > 10) (showString (displayException e))

instance Exception NotSent where
  toException = toException . WebSocketException
  fromException = fromWebSocket
  displayException = \case
    CodeNotAllowed code -> "cannot close a WebSocket connection with code " ++ show code ++ ".\n  Use 1000 to 1003, 1007 to 1014, or 3000 to 4999."
    ControlTooLong n -> "cannot send a WebSocket control frame with " ++ show n ++ " bytes.\n  A ping has at most 125, the reason of a Close 123."
    MessageOver -> "cannot send a piece of a WebSocket message that has ended.\n  The function that sends pieces works while the action that was given it runs."

-- | A client could not open a connection.
data HandshakeFailed
  = -- | The server answered with this status instead of 101, and the beginning of its content.
    Refused !Int !ByteString
  | -- | The server's answer is not that of a WebSocket server, and why.
    BadAnswer !String
  | -- | The server did not answer in time.
    AnswerTimedOut
  | -- | What was asked for cannot be sent, and why.
    BadRequest !String
  deriving stock (Eq)

instance Show HandshakeFailed where
  showsPrec d e = showParen (d > 10) (showString (displayException e))

instance Exception HandshakeFailed where
  toException = toException . WebSocketException
  fromException = fromWebSocket
  displayException = \case
    Refused status content -> "the server refused the WebSocket connection with status " ++ show status ++ ": " ++ C.unpack (C.take 200 content)
    BadAnswer why -> "the server's answer to the WebSocket handshake is not valid: " ++ why ++ ".\n  Is there a WebSocket server at this address and path?"
    AnswerTimedOut -> "the server did not answer the WebSocket handshake in time"
    BadRequest why -> "cannot ask for a WebSocket connection: " ++ why
