{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Http.RejectReason
-- Description : What is wrong with a request
-- Stability   : internal, exempt from the version policy
--
-- Why a request was refused, for error pages and logs. Each reason has one status, so the
-- two can never disagree.
--
-- Cost: constants.
-- Owner: values.
module Heddle.Http.RejectReason
  ( RejectReason (..),
    rejectStatus,
    rejectText,
  )
where

import Data.ByteString (ByteString)
import Heddle.Http.Status

-- | What is wrong with a request.
--
-- [Source]: RFC 9112, sections 2 to 7, and RFC 9110, sections 5, 7 and 10.
data RejectReason
  = -- | A line ends in LF without CR.
    BareLineFeed
  | -- | A CR without LF.
    BareCarriageReturn
  | -- | More than one empty line before the request line.
    EmptyRequestLine
  | -- | Not method, space, target, space, version.
    BadRequestLine
  | -- | The method is not a token.
    BadMethod
  | -- | The target has a forbidden byte, or a form that its method excludes.
    BadTarget
  | -- | The authority in the target is not a host and an optional port.
    BadAuthority
  | -- | The target, or the request line, exceeds its limit.
    TargetTooLong
  | -- | Not @HTTP/@, a digit, a dot, a digit.
    BadVersion
  | -- | A major version other than 1.
    UnsupportedVersion
  | -- | The head exceeds its limit.
    HeadTooLarge
  | -- | More header lines than the limit.
    TooManyHeaders
  | -- | A header line begins with white space.
    FoldedHeader
  | -- | A header line without a colon.
    MissingColon
  | -- | White space in or after a header name.
    SpaceBeforeColon
  | -- | A header line that begins with its colon.
    EmptyHeaderName
  | -- | A header name that is not a token.
    BadHeaderName
  | -- | A control character in a header value.
    BadHeaderValue
  | -- | HTTP/1.1 without Host.
    MissingHost
  | -- | More than one Host.
    RepeatedHost
  | -- | A Host that is not a host and an optional port.
    BadHost
  | -- | Both Content-Length and Transfer-Encoding.
    LengthWithCoding
  | -- | More than one Content-Length.
    RepeatedLength
  | -- | A Content-Length that is not a number.
    BadLength
  | -- | Transfer-Encoding in HTTP/1.0.
    CodingInHttp10
  | -- | @chunked@ is missing, repeated or not last.
    BadCoding
  | -- | A transfer coding other than @chunked@.
    UnknownCoding
  | -- | The body exceeds its limit.
    BodyTooLarge
  | -- | An expectation other than @100-continue@.
    UnknownExpectation
  | -- | A chunk size that is not a hexadecimal number.
    BadChunkSize
  | -- | A control character, or a bare CR or LF, in a chunk extension.
    BadChunkExtension
  | -- | Too much extension for too little data.
    ChunkExtensionsTooLong
  | -- | A chunk's data is not followed by CR LF.
    BadChunkEnd
  | -- | A malformed trailer line.
    BadTrailer
  | -- | The trailers exceed their limit.
    TrailersTooLarge
  deriving stock (Bounded, Enum, Eq, Ord, Show)

-- | The status that answers a refusal.
--
-- [Cost]: O(1).
rejectStatus :: RejectReason -> Status
rejectStatus = \case
  TargetTooLong -> status414
  UnsupportedVersion -> status505
  HeadTooLarge -> status431
  TooManyHeaders -> status431
  UnknownCoding -> status501
  BodyTooLarge -> status413
  UnknownExpectation -> status417
  TrailersTooLarge -> status431
  _ -> status400

-- | One sentence for the client's author: what was found, and what is expected.
--
-- [Cost]: O(1); the result is shared.
rejectText :: RejectReason -> ByteString
rejectText = \case
  BareLineFeed -> "A line ends in LF alone; end it with CR LF."
  BareCarriageReturn -> "A CR is not followed by LF; end each line with CR LF."
  EmptyRequestLine -> "Empty lines precede the request; begin with the request line."
  BadRequestLine -> "The request line is not a method, a target and a version with one space between."
  BadMethod -> "The method contains a character that is not allowed in a token."
  BadTarget -> "The request target has a character or a form that is not allowed here; percent-encode it."
  BadAuthority -> "The authority in the request target is not a host with an optional port."
  TargetTooLong -> "The request target is longer than this server accepts."
  BadVersion -> "The request line does not end in HTTP/1.0 or HTTP/1.1."
  UnsupportedVersion -> "This server speaks HTTP/1.0 and HTTP/1.1 only."
  HeadTooLarge -> "The request head is larger than this server accepts."
  TooManyHeaders -> "The request has more header lines than this server accepts."
  FoldedHeader -> "A header line begins with white space; write each header on one line."
  MissingColon -> "A header line has no colon."
  SpaceBeforeColon -> "White space stands before the colon of a header line; remove it."
  EmptyHeaderName -> "A header line has no name before its colon."
  BadHeaderName -> "A header name contains a character that is not allowed in a token."
  BadHeaderValue -> "A header value contains a control character."
  MissingHost -> "HTTP/1.1 requires a Host header."
  RepeatedHost -> "The request has more than one Host header."
  BadHost -> "The Host header is not a host with an optional port."
  LengthWithCoding -> "The request has both Content-Length and Transfer-Encoding; send one of them."
  RepeatedLength -> "The request has more than one Content-Length."
  BadLength -> "The Content-Length is not a decimal number."
  CodingInHttp10 -> "Transfer-Encoding is not allowed in HTTP/1.0."
  BadCoding -> "The last transfer coding must be chunked, and chunked may appear only once."
  UnknownCoding -> "This server knows no transfer coding but chunked."
  BodyTooLarge -> "The request body is larger than this server accepts."
  UnknownExpectation -> "This server meets no expectation but 100-continue."
  BadChunkSize -> "A chunk size is not a hexadecimal number."
  BadChunkExtension -> "A chunk extension contains a control character, or its line does not end in CR LF."
  ChunkExtensionsTooLong -> "The chunk extensions are longer than this server accepts."
  BadChunkEnd -> "The data of a chunk is not followed by CR LF."
  BadTrailer -> "A trailer line is malformed."
  TrailersTooLarge -> "The trailers are larger than this server accepts."
