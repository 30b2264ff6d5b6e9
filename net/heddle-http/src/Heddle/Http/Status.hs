{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Http.Status
-- Description : Status codes, and why a request was refused
-- Stability   : stable
--
-- A 'Status' is the number a response begins with. A 'Why' says, for error
-- pages and logs, what exactly was wrong with a request; each 'Why' has one
-- status, so the two can never disagree.
module Heddle.Http.Status
  ( -- * Statuses
    Status (Status),
    statusCode,
    reasonPhrase,
    statusForbidsContent,

    -- * Reasons for a refusal
    Why (..),
    whyStatus,
    whyText,

    -- * Names

    -- ** 1xx: informational
    status100,
    status101,
    status103,

    -- ** 2xx: successful
    status200,
    status201,
    status202,
    status203,
    status204,
    status205,
    status206,

    -- ** 3xx: redirection
    status300,
    status301,
    status302,
    status303,
    status304,
    status307,
    status308,

    -- ** 4xx: the client's error
    status400,
    status401,
    status402,
    status403,
    status404,
    status405,
    status406,
    status407,
    status408,
    status409,
    status410,
    status411,
    status412,
    status413,
    status414,
    status415,
    status416,
    status417,
    status421,
    status422,
    status425,
    status426,
    status428,
    status429,
    status431,
    status451,

    -- ** 5xx: the server's error
    status500,
    status501,
    status502,
    status503,
    status504,
    status505,
    status507,
    status511,
  )
where

import Data.ByteString (ByteString)

-- | A status code; three digits, from 100 to 599.
--
-- [Source]: RFC 9110, section 15.
newtype Status = Status Int
  deriving stock (Eq, Ord, Show)

-- | The number of a status.
--
-- [Cost]: none.
statusCode :: Status -> Int
statusCode (Status code) = code
{-# INLINE statusCode #-}

-- | The customary words for a status; empty, as the grammar allows, for a code
-- without any.
--
-- >>> reasonPhrase status404
-- "Not Found"
--
-- [Cost]: O(1); the result is shared.
-- [Source]: RFC 9110, section 15; RFC 6585; RFC 7725; RFC 8297; RFC 8470;
-- RFC 4918.
reasonPhrase :: Status -> ByteString
reasonPhrase (Status code) = case code of
  100 -> "Continue"
  101 -> "Switching Protocols"
  103 -> "Early Hints"
  200 -> "OK"
  201 -> "Created"
  202 -> "Accepted"
  203 -> "Non-Authoritative Information"
  204 -> "No Content"
  205 -> "Reset Content"
  206 -> "Partial Content"
  300 -> "Multiple Choices"
  301 -> "Moved Permanently"
  302 -> "Found"
  303 -> "See Other"
  304 -> "Not Modified"
  305 -> "Use Proxy"
  307 -> "Temporary Redirect"
  308 -> "Permanent Redirect"
  400 -> "Bad Request"
  401 -> "Unauthorized"
  402 -> "Payment Required"
  403 -> "Forbidden"
  404 -> "Not Found"
  405 -> "Method Not Allowed"
  406 -> "Not Acceptable"
  407 -> "Proxy Authentication Required"
  408 -> "Request Timeout"
  409 -> "Conflict"
  410 -> "Gone"
  411 -> "Length Required"
  412 -> "Precondition Failed"
  413 -> "Content Too Large"
  414 -> "URI Too Long"
  415 -> "Unsupported Media Type"
  416 -> "Range Not Satisfiable"
  417 -> "Expectation Failed"
  421 -> "Misdirected Request"
  422 -> "Unprocessable Content"
  425 -> "Too Early"
  426 -> "Upgrade Required"
  428 -> "Precondition Required"
  429 -> "Too Many Requests"
  431 -> "Request Header Fields Too Large"
  451 -> "Unavailable For Legal Reasons"
  500 -> "Internal Server Error"
  501 -> "Not Implemented"
  502 -> "Bad Gateway"
  503 -> "Service Unavailable"
  504 -> "Gateway Timeout"
  505 -> "HTTP Version Not Supported"
  507 -> "Insufficient Storage"
  511 -> "Network Authentication Required"
  _ -> ""

-- | Whether a response with this status never carries content, whatever its
-- fields say: every 1xx, 204 and 304.
--
-- [Cost]: O(1).
-- [Source]: RFC 9112, section 6.3.
statusForbidsContent :: Status -> Bool
statusForbidsContent (Status code) = code < 200 || code == 204 || code == 304
{-# INLINE statusForbidsContent #-}

-- | What is wrong with a request.
--
-- [Source]: RFC 9112, sections 2 to 7, and RFC 9110, sections 5, 7 and 10.
data Why
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
whyStatus :: Why -> Status
whyStatus = \case
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
whyText :: Why -> ByteString
whyText = \case
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

-- | 100 Continue.
status100 :: Status
status100 = Status 100

-- | 101 Switching Protocols.
status101 :: Status
status101 = Status 101

-- | 103 Early Hints.
status103 :: Status
status103 = Status 103

-- | 200 OK.
status200 :: Status
status200 = Status 200

-- | 201 Created.
status201 :: Status
status201 = Status 201

-- | 202 Accepted.
status202 :: Status
status202 = Status 202

-- | 203 Non-Authoritative Information.
status203 :: Status
status203 = Status 203

-- | 204 No Content.
status204 :: Status
status204 = Status 204

-- | 205 Reset Content.
status205 :: Status
status205 = Status 205

-- | 206 Partial Content.
status206 :: Status
status206 = Status 206

-- | 300 Multiple Choices.
status300 :: Status
status300 = Status 300

-- | 301 Moved Permanently.
status301 :: Status
status301 = Status 301

-- | 302 Found.
status302 :: Status
status302 = Status 302

-- | 303 See Other.
status303 :: Status
status303 = Status 303

-- | 304 Not Modified.
status304 :: Status
status304 = Status 304

-- | 307 Temporary Redirect.
status307 :: Status
status307 = Status 307

-- | 308 Permanent Redirect.
status308 :: Status
status308 = Status 308

-- | 400 Bad Request.
status400 :: Status
status400 = Status 400

-- | 401 Unauthorized.
status401 :: Status
status401 = Status 401

-- | 402 Payment Required.
status402 :: Status
status402 = Status 402

-- | 403 Forbidden.
status403 :: Status
status403 = Status 403

-- | 404 Not Found.
status404 :: Status
status404 = Status 404

-- | 405 Method Not Allowed.
status405 :: Status
status405 = Status 405

-- | 406 Not Acceptable.
status406 :: Status
status406 = Status 406

-- | 407 Proxy Authentication Required.
status407 :: Status
status407 = Status 407

-- | 408 Request Timeout.
status408 :: Status
status408 = Status 408

-- | 409 Conflict.
status409 :: Status
status409 = Status 409

-- | 410 Gone.
status410 :: Status
status410 = Status 410

-- | 411 Length Required.
status411 :: Status
status411 = Status 411

-- | 412 Precondition Failed.
status412 :: Status
status412 = Status 412

-- | 413 Content Too Large.
status413 :: Status
status413 = Status 413

-- | 414 URI Too Long.
status414 :: Status
status414 = Status 414

-- | 415 Unsupported Media Type.
status415 :: Status
status415 = Status 415

-- | 416 Range Not Satisfiable.
status416 :: Status
status416 = Status 416

-- | 417 Expectation Failed.
status417 :: Status
status417 = Status 417

-- | 421 Misdirected Request.
status421 :: Status
status421 = Status 421

-- | 422 Unprocessable Content.
status422 :: Status
status422 = Status 422

-- | 425 Too Early.
status425 :: Status
status425 = Status 425

-- | 426 Upgrade Required.
status426 :: Status
status426 = Status 426

-- | 428 Precondition Required.
status428 :: Status
status428 = Status 428

-- | 429 Too Many Requests.
status429 :: Status
status429 = Status 429

-- | 431 Request Header Fields Too Large.
status431 :: Status
status431 = Status 431

-- | 451 Unavailable For Legal Reasons.
status451 :: Status
status451 = Status 451

-- | 500 Internal Server Error.
status500 :: Status
status500 = Status 500

-- | 501 Not Implemented.
status501 :: Status
status501 = Status 501

-- | 502 Bad Gateway.
status502 :: Status
status502 = Status 502

-- | 503 Service Unavailable.
status503 :: Status
status503 = Status 503

-- | 504 Gateway Timeout.
status504 :: Status
status504 = Status 504

-- | 505 HTTP Version Not Supported.
status505 :: Status
status505 = Status 505

-- | 507 Insufficient Storage.
status507 :: Status
status507 = Status 507

-- | 511 Network Authentication Required.
status511 :: Status
status511 = Status 511
